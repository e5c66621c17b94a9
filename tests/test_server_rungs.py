"""``agent investigate --run servers``: shrunk first, then the model itself; what was launched is recommended.

The engine, its servers and the GPU are fakes (``tiny_engine``, ``fake_server``); the processes are real.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest
from fake_generator import add_generator
from fake_server import fake_engine, fake_model
from investigations import NAME, QUESTION, documents, setting, sound, transcript
from test_probe_rungs import program
from tiny_engine import fake_trace, write_engine

from agent.cli.main import run as main
from agent.cli.run_options import Running
from agent.execute import batch_functions
from agent.session import start
from memory.home import Home
from memory.vocabulary import Row, Verdict
from transcripts.events import Concluded

CHOICES = {
    "MOE_CHOICES": '["auto", "amber", "birch", "dune"]',
    "ATTENTION_BACKEND_CHOICES": '["elm", "fern"]',
    "FP4_GEMM_BACKEND_CHOICES": '["auto", "amber", "birch", "cedar"]',
}
SMI = """\
#!/bin/sh
case $1 in
  --query-gpu=index*) echo '0, GPU-servers-{pid}, Teapot, 12.0, 100, 0, 1.0';;
  --query-gpu=uuid*) echo 'GPU-servers-{pid}, 100';;
esac
"""


FEW = {
    "MOE_CHOICES": '["auto", "amber"]',
    "ATTENTION_BACKEND_CHOICES": '["elm"]',
    "FP4_GEMM_BACKEND_CHOICES": '["auto", "amber"]',
}


def declare(site: Path, choices: dict[str, str]) -> None:
    """What the fake engine's options accept."""
    arguments = site / "sglang" / "srt" / "server_args.py"
    lines = arguments.read_text("utf-8").splitlines()
    named = {line: line.partition(" = ")[0] for line in lines}
    kept = [f"{named[line]} = {choices[named[line]]}" if named[line] in choices else line for line in lines]
    arguments.write_text("\n".join(kept), "utf-8")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The tiny engine, of which a server can be started; one GPU, as its driver tells."""
    folder = write_engine(tmp_path / "site")
    fake_engine(folder, version="9.9.0")
    declare(folder, CHOICES)
    program(tmp_path / "bin", "nvidia-smi", SMI.format(pid=os.getpid()))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    return folder


def go(
    home: Home,
    site: Path,
    run: str = "servers",
    minutes: float | None = None,
    verdicts: dict[tuple[str, str], Verdict] | None = None,
    **behaviour: Any,
) -> Concluded:
    model = fake_model(site.parent / "model", **behaviour)
    (model / "tokenizer.json").write_text("{}", encoding="utf-8")
    asked = {"environment": str(site), "run": run, "serve": str(model), "gpu_minutes": minutes}
    many = {name: each for name, each in batch_functions().items() if name != "trace_viability"}
    made = setting(
        batches={
            **many,
            "trace_viability": lambda context, asked: [fake_trace(one, context, verdicts) for one in asked],
        },
        policy=Running(run, serve="m").policy(),
        interpreter=(Path(sys.executable), site),
    )
    return start(home, QUESTION, asked, name=NAME, setting=made)


def launches(home: Home) -> list[tuple[bool, dict[str, str]]]:
    """Of each launch whether it was a shrunk one, and its backends, in order."""
    return [
        ("layers" in one["input"], one["input"]["settings"]["backends"])
        for one in documents(transcript(home))
        if one["kind"] == "called" and one["tool"] == "try_server"
    ]


def rows(concluded: Concluded) -> dict[tuple[str, str], Row]:
    assert concluded.answer is not None
    return {(row.component, row.backend): row for row in concluded.answer.backends}


def test_what_served_rightly_is_recommended_as_tested(home: Home, site: Path) -> None:
    done = go(home, site, refused="birch")
    assert (done.exit_reason, done.exit_code) == ("answered", 0), done.summary
    made = launches(home)
    assert made[0] == (True, {})
    assert (True, {"moe_runner": "birch"}) in made
    whole = [pairs for shrunk, pairs in made if not shrunk]
    assert whole
    assert not any("birch" in pairs.values() for pairs in whole), "what failed shrunk is not launched whole"
    refuted = rows(done)["moe_runner", "birch"]
    assert refuted.state == "refuted"
    assert refuted.observed is not None
    assert (refuted.observed.level, refuted.observed.outcome) == ("server", "import_failed")
    assert done.answer is not None
    assert done.answer.recommendation is not None
    assert done.answer.recommendation.tested
    command = done.answer.recommendation.command
    assert command.count("-backend") == len(whole[0])
    assert all(f"-backend {backend}" in command for backend in whole[0].values())
    assert {"fp4_gemm": "amber"} in whole
    assert rows(done)["fp4_gemm", "amber"].state == "confirmed"
    assert not [step for step in done.answer.not_run if "no server started" in step.what]
    sound(home, transcript(home))


def test_a_model_that_does_not_start_at_all_is_launched_once(home: Home, site: Path) -> None:
    done = go(home, site, crash="memory")
    assert launches(home) == [(True, {})]
    assert (done.exit_reason, done.exit_code) == ("none_viable", 1)
    assert "out of memory" in done.summary
    assert done.answer is not None
    assert done.answer.recommendation is None or not done.answer.recommendation.tested


def test_what_gives_the_most_is_launched_again_and_told_with_its_interval(home: Home, site: Path) -> None:
    add_generator(site, "sglang")
    declare(site, FEW)
    done = go(home, site, "benchmarks")
    assert (done.exit_reason, done.exit_code) == ("answered", 0), done.summary
    made = [
        (one["input"].get("launch", 1), one["input"]["settings"]["backends"])
        for one in documents(transcript(home))
        if one["kind"] == "called" and one["tool"] == "try_server" and "layers" not in one["input"]
    ]
    first, again = [pairs for launch, pairs in made if launch == 1], made[-4:]
    assert len(made) == len(first) + 4
    assert [launch for launch, _ in again] == [2, 2, 3, 3]
    assert [pairs for _, pairs in again[:2]] == [pairs for _, pairs in again[2:]], "in turn"
    assert all(pairs in first for _, pairs in again)
    assert done.answer is not None
    found = done.answer.recommendation
    assert found is not None
    assert found.tested
    assert "3 launches, paired t)" in found.ranked_by[0]
    assert any("3 launches, paired t)" in one for one in found.alternatives)
    assert any("one launch on a side: no interval" in one for one in found.alternatives)
    sound(home, transcript(home))


def test_minutes_that_are_used_up_end_it(home: Home, site: Path) -> None:
    done = go(home, site, minutes=1e-6)
    assert launches(home) == [(True, {})]
    assert (done.exit_reason, done.exit_code) == ("stopped", 4), done.summary
    assert "no more was launched: the 1e-06 minutes are used up" in done.summary


def test_where_the_engines_own_choice_fails_the_others_go_on_from_what_starts(home: Home, site: Path) -> None:
    declare(site, CHOICES | {"ATTENTION_BACKEND_CHOICES": '["elm"]'})
    done = go(home, site, needs="elm")
    assert (done.exit_reason, done.exit_code) == ("answered", 0), done.summary
    made = [pairs for shrunk, pairs in launches(home) if shrunk]
    first = made.index({"attention": "elm"})
    assert {} in made[:first]
    assert first < 4, "of each other component one failed in the same way, and that was enough"
    assert all(pairs["attention"] == "elm" for pairs in made[first:])
    assert {"attention": "elm", "moe_runner": "birch"} in made
    states = {subject: row.state for subject, row in rows(done).items()}
    assert "refuted" not in states.values(), "nothing failed for a backend that was tried without it"


def test_what_reading_could_not_follow_is_launched_and_where_nothing_need_be_chosen_that_is_tested(
    home: Home, site: Path
) -> None:
    declare(site, FEW)
    none, unknown = Verdict.NOT_APPLICABLE, Verdict.UNKNOWN
    verdicts = dict.fromkeys([("fp4_gemm", "amber"), ("fp4_gemm", "auto"), ("attention", "elm")], none)
    verdicts |= {("moe_runner", "auto"): none, ("moe_runner", "amber"): unknown}
    done = go(home, site, verdicts=verdicts)
    assert launches(home) == [
        (shrunk, pairs) for shrunk in (True, False) for pairs in ({}, {"moe_runner": "amber"})
    ]
    assert (done.exit_reason, done.exit_code) == ("answered", 0), done.summary
    assert rows(done)["moe_runner", "amber"].state == "confirmed"
    assert done.answer is not None
    found = done.answer.recommendation
    assert found is not None
    assert found.tested
    assert found.command == f"python -m sglang.launch_server --model-path {site.parent / 'model'}"
    assert found.ranked_by[0].startswith("the engine's defaults: it served, and nothing was wrong")
    sound(home, transcript(home))


@pytest.mark.parametrize(
    ("more", "code", "says"),
    [
        (["--run", "servers"], 2, "say of which model: --serve PATH"),
        (["--run", "servers", "--serve", "nowhere"], 2, "--serve nowhere: there is no such folder"),
        (["--run", "servers", "--serve", "bare"], 2, "is no model's config"),
        (["--run", "servers", "--serve", "model"], 3, "only read; --run servers needs a full environment"),
        (["--run", "servers", "--serve", "model", "--gpu", "7"], 2, "no GPU 7 here"),
        (["--run", "probes", "--gpu", "7"], 2, "no GPU 7 here"),
        (["--run", "benchmarks", "--serve", "model", "--python", sys.executable], 3, "is not in site"),
    ],
)
def test_what_no_launch_could_be_made_with_is_refused_before_anything_is_read(
    more: list[str],
    code: int,
    says: str,
    home: Home,
    site: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(site.parent)
    (site.parent / "bare").mkdir()
    (fake_model(site.parent / "model") / "tokenizer.json").write_text("{}", encoding="utf-8")
    assert main(["investigate", QUESTION, "-e", "site", *more]) == code
    told = capsys.readouterr()
    assert told.out == ""
    assert says in told.err.splitlines()[-1]
    assert list(home.transcripts.glob("*")) == []
