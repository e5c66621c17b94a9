"""A bug report for the people upstream: what it holds, and that it holds nothing private."""

from __future__ import annotations

import getpass
import socket
from pathlib import Path

import pytest
from program import ROOT, agent, one_line

from agent.private import Public, names_here

RECORDED = ROOT / "transcripts" / "recorded" / "seed-sm120.jsonl"


@pytest.mark.parametrize(
    ("given", "left"),
    [
        ("read /home/jo/venv/lib/python3.12/site-packages/sglang/x.py:3", "read .../sglang/x.py:3"),
        ("model /data/teams/jo/Secret-7B --tp 2", "model PATH --tp 2"),
        ("~/models/x and ~jo/y", "PATH and PATH"),
        (r"C:\Users\jo\x.py failed", "PATH failed"),
        ("jo.doe@maple.example wrote to 10.1.2.3:80", "NAME@HOST wrote to ADDRESS:80"),
        ("on jo's node7, JO said; joint", "on NAME's NAME, NAME said; joint"),
        ("http://127.0.0.1:30000/v1", "http://127.0.0.1:30000/v1"),
        ("sglang/srt/server_args.py:12 and/or https://github.com/a/b/issues/1", None),
        ("OPENAI_API_KEY=sk-abcdefghijklmnopqrstuvwxyz123456", None),
    ],
)
def test_what_is_private_is_left_out(given: str, left: str | None) -> None:
    public = Public({"jo", "node7"})(given)
    if left is not None:
        assert public == left
    elif "sk-" in given:
        assert "sk-abcdef" not in public
    else:
        assert public == given


def test_the_names_of_person_and_host_are_known() -> None:
    found = names_here()
    for name in (getpass.getuser(), socket.gethostname()):
        assert name in found or len(name) < 3 or name in {"root", "localhost", "runner", "ubuntu"}


def reported(*args: str, log: Path = RECORDED) -> str:
    finished = agent("report", str(log), "--upstream", *args)
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


def test_a_report_has_what_they_need(tmp_path: Path) -> None:
    text = reported("--about", "fp4_gemm/flashinfer_trtllm")
    assert text.startswith(
        "# \\[sm120\\] sglang 0.5.9: fp4\\_gemm flashinfer\\_trtllm passes the engine's own check"
    )
    for words in (
        "python -m sglang.launch_server --model-path MODEL --fp4-gemm-backend flashinfer_trtllm",
        "`sglang==0.5.9`",
        "`flashinfer-python==0.6.5`",
        "- environment `",
        "flashinfer/gemm/gemm_base.py:",
        "@supported_compute_capability([100, 103])",
        "other values for fp4\\_gemm: ",
        "Read from the source, not run",
    ):
        assert words in text
    assert str(ROOT) not in text
    assert "/home/" not in text


def test_it_is_about_what_is_surprising_unless_it_is_told() -> None:
    sections = reported().split("## Reproduction")[0]
    assert sections.count("\n- ") <= 3
    assert "the first gate, " in sections


def test_what_cannot_be_reported_is_said_in_one_line() -> None:
    one_line(agent("report", str(RECORDED), "--upstream", "--about", "fp4_gemm"), 2, "COMPONENT/BACKEND")
    one_line(
        agent("report", str(RECORDED), "--upstream", "--about", "fp4_gemm/oak"), 1, "has no fp4_gemm/oak"
    )
    one_line(agent("report", str(RECORDED), "--about", "fp4_gemm/oak"), 2, "--about is for --upstream")
