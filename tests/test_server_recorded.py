"""The recorded launches that are shipped: sglang on an H200, six settings, stopped once and concluded."""

from __future__ import annotations

from typing import Any

import pytest
from program import ROOT

from agent.cli.main import run
from transcripts.events import Concluded
from transcripts.log import read

RECORDED = ROOT / "transcripts" / "recorded" / "servers" / "h200-sglang-0.5.17.jsonl"


def outputs() -> list[dict[str, Any]]:
    """Of the launches that came to an end."""
    bodies = [event.data.model_dump(mode="json") for event in read(RECORDED)]
    found = [one["output"] for one in bodies if one["kind"] == "returned"]
    return [one for one in found if one is not None and "asked" in one]


def test_what_ran_is_told_from_what_was_asked_for() -> None:
    launches = outputs()
    assert len(launches) == 8, "two settings were right and launched three times"
    told = {tuple(one["asked"].values()): (one["outcome"], one["because"]) for one in launches}
    assert told["triton", "triton"][0] == "ok"
    assert told["flashinfer", "triton"][0] == "ok"
    assert told["triton", "marlin"] == (
        "substituted",
        "moe_runner: marlin was asked for, triton runs (by its kernels)",
    )
    assert told["fa3", "triton"][0] == "import_failed"
    assert "cannot import name 'flash_ops'" in told["fa3", "triton"][1]


def test_nothing_was_left_of_any_and_no_key_is_on_record() -> None:
    for one in outputs():
        assert one["left"] == []
        assert one["memory_left"] == {}
        assert "--api-key" not in one["command"]


def test_it_ends_with_a_tested_command_its_interval_and_what_else_there_is() -> None:
    ended = [event.data for event in read(RECORDED) if isinstance(event.data, Concluded)]
    assert [one.exit_reason for one in ended] == ["interrupted", "answered"]
    assert ended[-1].answer is not None
    found = ended[-1].answer.recommendation
    assert found is not None
    assert found.tested
    assert "--attention-backend triton --moe-runner-backend triton" in found.command
    assert "+1.8 % (95 %: -36.3 to +62.5 %; 3 launches, paired t)" in found.ranked_by[0]
    assert found.alternatives[0].startswith("attention=flashinfer, moe_runner=triton: no difference shown")
    spared = [step.what.partition(":")[0] for step in ended[-1].answer.not_run]
    assert spared == ["attention=flashinfer, moe_runner=marlin", "attention=fa3, moe_runner=marlin"]


def test_it_is_intact_and_decided_the_same_again() -> None:
    assert run(["replay", str(RECORDED)]) == 0
    assert run(["replay", str(RECORDED), "--verify"]) == 0


def test_our_share_of_the_time_of_a_load_is_small() -> None:
    measured = [one["benchmark"] for one in outputs() if one["benchmark"] is not None]
    assert len(measured) == 6
    assert all(one["overhead"] < 0.01 * one["seconds"] for one in measured)


def test_its_report_has_plots(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["report", str(RECORDED), "--html"]) == 0
    page = capsys.readouterr().out
    assert page.count("<svg") == 1
    assert "<pre>/opt/torch/.venv/bin/python3 -P -m sglang.launch_server" in page
    assert "else attention=flashinfer, moe_runner=triton: no difference shown" in page
    assert "<script" not in page
    assert run(["report", str(RECORDED), "--markdown"]) == 0
    text = capsys.readouterr().out
    assert "## Most output" in text
    assert text.count("<svg") == 1
