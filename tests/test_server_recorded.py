"""The recorded launches that are shipped: sglang on an H200, four settings, cut off in the second round."""

from __future__ import annotations

from typing import Any

from program import ROOT

from transcripts.log import read

RECORDED = ROOT / "transcripts" / "recorded" / "servers" / "h200-sglang-0.5.17.jsonl"


def outputs() -> list[dict[str, Any]]:
    bodies = [event.data.model_dump(mode="json") for event in read(RECORDED)]
    return [one["output"] for one in bodies if one["kind"] == "returned"]


def test_what_ran_is_told_from_what_was_asked_for() -> None:
    told = {tuple(one["asked"].values()): (one["outcome"], one["because"]) for one in outputs()}
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
