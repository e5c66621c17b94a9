"""The recorded probes that are shipped: what an H200 measured, intact, decided the same again, and kept."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from record import RECORDED

from agent.cli.main import run
from agent.replay import replay
from memory.home import Home
from memory.store import Store
from memory.views import Views
from tools.probe.judge import judged
from tools.probe.plan import Cell
from tools.probe.running import stopped_early
from transcripts.catch_up import catch_up
from transcripts.check import check
from transcripts.log import read
from transcripts.redaction.secrets import redacted

PROBES = sorted((RECORDED / "probes").glob("*.jsonl"))


def no_artifact(sha256: str) -> bytes:
    raise AssertionError(f"artifact {sha256} is asked for; none is shipped")


def results(path: Path) -> dict[str, dict[str, Any]]:
    """What each cell gave, by its id."""
    outputs = [
        event.data.output
        for event in read(path)
        if event.data.kind == "returned" and isinstance(event.data.output, dict)
    ]
    return {one["cell"]["id"]: one for one in outputs if "measured" in one}


@pytest.mark.parametrize("path", PROBES, ids=lambda path: path.stem)
def test_a_recorded_probe_is_intact_and_decided_the_same_again(path: Path) -> None:
    assert check(path, no_artifact) == []
    for event in read(path):
        document = event.data.model_dump(mode="json")
        assert redacted(document) == document
    replayed = replay(read(path), no_artifact)
    assert replayed.difference is None, "\n".join(replayed.difference.diff())


@pytest.mark.parametrize("path", PROBES, ids=lambda path: path.stem)
def test_a_row_is_judged_as_it_was(path: Path) -> None:
    for name, output in results(path).items():
        found = judged(Cell.model_validate(output["cell"]), output["measured"])
        # So it was said once where the time was over.
        because = output["because"].removeprefix("rehearsed without a GPU: ")
        assert (found.outcome, found.because) == (output["outcome"], because), name


def test_what_was_measured_is_kept_for_where_it_ran(home: Home) -> None:
    for path in PROBES:
        shutil.copyfile(path, home.transcripts / path.name)
    with Store(home) as store:
        assert catch_up(store, home.transcripts) == []
    found = Views(home).findings(statuses=())
    assert {row["level"] for row in found} == {"imported", "probe"}
    assert {row["arch"] for row in found} == {"sm90"}
    assert len(found) > 60
    assert run(["findings", "rebuild"]) == 0


@pytest.mark.parametrize("path", [one for one in PROBES if "here" in one.name], ids=lambda path: path.stem)
def test_times_without_the_host_agree_with_another_way_of_timing(path: Path) -> None:
    timed = [one for output in results(path).values() for one in output["measured"].get("timing", ())]
    assert len(timed) > 15
    near = [one for one in timed if abs(one["median"] / one["do_bench"] - 1) <= 0.03]
    assert len(near) >= 0.85 * len(timed)
    assert all(one["called"] > one["median"] for one in timed if one["bound"] == "host")


def test_an_h200_refused_compiled_ran_wrote_nothing_and_was_ended() -> None:
    rows = {name: one for path in PROBES if "here" not in path.name for name, one in results(path).items()}
    assert len(rows) >= 30
    assert rows["mm_fp4:cutlass"]["outcome"] == "unsupported"
    assert "does not support backend 'cutlass' with capability 90" in rows["mm_fp4:cutlass"]["because"]
    assert rows["fp8_blockscale_gemm_sm90"]["outcome"] == "ok"
    assert rows["fp4_quantize"]["outcome"] == "wrong"
    assert rows["control:hang"]["outcome"] == "hung"
    assert rows["control:gate"]["measured"]["planted"] == {"clean": 80, "missed": [], "rejected": 0}
    assert rows["cutlass_fused_moe"]["outcome"] == "not_run"
    built = [one for one in rows.values() if one["measured"].get("built")]
    assert len(built) > 5


def test_a_cell_whose_time_ran_out_left_nothing_to_the_next() -> None:
    rows = list(results(RECORDED / "probes" / "h200-here-flashinfer-0.6.15-sweep.jsonl").values())
    assert len(rows) == 52
    ended = [one["measured"]["ended"] for one in rows]
    late, after = rows[ended.index("timed_out") :][:2]
    assert late["because"].startswith("still compiling after 55 s (cc1plus, cicc, ")
    assert (late["measured"]["context"], after["measured"]["worker"]) == ("gone", "new")
    assert after["outcome"] == "ok"
    assert sum(one["outcome"] == "unsupported" for one in rows) == 30
    warm = [one["measured"]["overhead_seconds"] for one in rows if one["measured"]["worker"] == "warm"]
    assert sorted(warm)[len(warm) // 2] < 0.001


def test_a_probe_that_was_killed_on_a_gpu_was_gone_on_with() -> None:
    path = RECORDED / "probes" / "h200-here-flashinfer-0.6.15-attention.jsonl"
    kinds = [event.data.kind for event in read(path)]
    assert kinds.count("resumed") == 1
    ended = [event.data.status for event in read(path) if event.data.kind == "returned"]
    assert ended.count("interrupted") == 17
    found = results(path)
    assert len(found) == 17
    stopped = [name for name, one in found.items() if stopped_early(one)]
    assert all(name.startswith("BatchMLAPagedAttentionWrapper:") for name in stopped)
    assert {one["outcome"] for name, one in found.items() if "Prefill" in name} == {"ok", "unsupported"}
