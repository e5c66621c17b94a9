"""The question that the project was born from, on the real wheels: found out from the source."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from conftest import Wheels
from program import ROOT, agent


@pytest.mark.network
def test_the_seed_question_is_answered_from_the_real_sources(wheels: Wheels) -> None:
    environment = wheels("sglang==0.5.9", "flashinfer-python==0.6.5")
    finished = agent("investigate", "qwen3.5 nvfp4 on sm120", "-e", environment.path, "--json")
    assert finished.returncode == 0, finished.stderr
    answer = json.loads(finished.stdout)
    rows: dict[tuple[str, str], Any] = {(row["component"], row["backend"]): row for row in answer["backends"]}

    for component in ("fp4_gemm", "moe_runner"):
        refused = rows[component, "flashinfer_trtllm"]
        assert refused["verdict"] == "blocked"
        assert refused["because"] == "architecture"
        assert refused["first_gate"]["verdict"] == "no_static_obstacle"
        assert refused["evidence"][0]["package"] == "flashinfer-python"
        assert rows[component, "flashinfer_cutlass"]["verdict"] == "no_static_obstacle"
    cudnn = rows["fp4_gemm", "flashinfer_cudnn"]
    assert cudnn["verdict"] == "no_static_obstacle"
    assert any("cudnn" in one["fact"] and one["op"] == ">=" for one in cudnn["conditions"])

    found = answer["recommendation"]
    assert found["tested"] is False
    assert "MODEL_PATH" in found["command"]
    assert "--tp" not in found["command"]
    assert "--fp4-gemm-backend flashinfer_cutlass" in found["command"]

    # Each finding was checked against the wheel on its way in; each refused row has become one.
    known = json.loads(agent("findings", "list", "--arch", "sm120", "--json").stdout)["findings"]
    blocked = {key for key, row in rows.items() if row["verdict"] == "blocked"}
    assert blocked <= {(one["component"], one["backend"]) for one in known}

    screen = agent("report", "--last").stdout.splitlines()
    assert len(screen) < 24
    assert max(len(line) for line in screen) <= 80
    text = "\n".join(screen)
    assert "Candidate, untested" in text
    for name in ("flashinfer_trtllm", "flashinfer_cutlass", "flashinfer_cudnn", "--attention-backend triton"):
        assert name in text

    # What the README shows is what it prints; only what was assumed depends on how the packages are named.
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"\n```\n(qwen.*?)\n```\n", page, re.DOTALL)
    example = shown[shown.index("▸") :]
    assert re.sub(r"\d{8}-[0-9a-f]{6}", answer["transcript"], example) == text[text.index("▸") :]
