"""What a session of another agent shows of backends: proposed with its events, recorded as reports only."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from program import ROOT, agent, one_line
from told import HOST, Told, investigation

from agent.cli.common import Context
from agent.drivers.reporter import lacking
from memory.home import Home
from tools.sessions.explain_imported import explain_imported
from tools.sessions.propose import ProposeFindings, propose_findings
from transcripts.imported.reader import Library
from transcripts.importers.importing import import_path


def proposed(told: Told, tmp_path: Path, home: Home) -> list[dict[str, Any]]:
    import_path(home, told.write(tmp_path), lambda value: value, lambda _: None)
    proposals = propose_findings.run(ProposeFindings(session=told.name), Context(home))
    found: list[dict[str, Any]] = proposals.model_dump(mode="json")["candidates"]
    return found


def recorded(told: Told, *more: str) -> dict[str, Any]:
    finished = agent("transcripts", "findings", told.name, "--json", "--record", *more)
    assert finished.returncode == 0, finished.stderr
    document: dict[str, Any] = json.loads(finished.stdout)["recorded"]
    return document


def cells(candidate: dict[str, Any]) -> list[tuple[str, str]]:
    return [(cell["component"], cell["backend"]) for cell in candidate["cells"]]


def test_outcomes_and_figures_with_what_was_in_force(tmp_path: Path, home: Home) -> None:
    told, at = investigation()
    figures, nan, refused = proposed(told, tmp_path, home)
    assert (figures["kind"], figures["event"]) == ("figures", at["figures"] + 2)
    assert [(one["metric"], one["value"], one["unit"], one["line"]) for one in figures["figures"]] == [
        ("output_throughput", 2810.22, "tok/s", 1),
        ("median_tpot", 18.2, "ms", 2),
    ]
    assert cells(figures) == [("fp4_gemm", "flashinfer_cutlass"), ("moe_runner", "flashinfer_cutlass")]
    assert (nan["outcome"], nan["signature"], nan["event"]) == ("nan", "nan-detected", at["crash"] + 2)
    assert nan["excerpt"] == "Detected errors during sampling! NaN in the logits"
    assert cells(nan) == []
    assert nan["unknown"] == ["which of fp4_gemm flashinfer_cutlass, moe_runner flashinfer_cutlass"]
    assert (refused["outcome"], refused["signature"]) == ("unsupported", "backend-capability")
    assert cells(refused) == [("fp4_gemm", "flashinfer_trtllm")]
    for candidate in (figures, nan, refused):
        assert (candidate["arch"], candidate["engine"]) == ("sm120", "sglang")
        assert candidate["packages"] == {"flashinfer-python": "0.6.5", "sglang": "0.5.9"}
    assert figures["scenario"] == {"quantization": "modelopt_fp4"}
    assert (figures["failed"], nan["failed"], refused["failed"]) == (at["crash"] + 2, None, None)
    said = {one["what"]: one["event"] for one in figures["said"]}
    assert said == {
        "fp4_gemm": at["launch"],
        "moe_runner": at["launch"],
        "architecture": at["gpu"] + 2,
        "flashinfer-python": at["install"] + 2,
        "sglang": at["install"] + 2,
    }


def test_recorded_is_what_the_store_accepts_and_never_more_than_a_report(tmp_path: Path, home: Home) -> None:
    told, _ = investigation()
    told.runs(
        f"{HOST} 'python -m sglang.bench_one_batch --model-path /m --moe-runner-backend triton'",
        "Prefill. latency: 0.12345 s, throughput:   8294.12 token/s\n",
    )
    proposed(told, tmp_path, home)
    kept = recorded(told)
    assert kept["refused"] == []
    claims = [finding["claim"] for finding in kept["findings"]]
    assert sorted((claim["component"], claim["backend"], claim["outcome"]) for claim in claims) == [
        ("fp4_gemm", "flashinfer_trtllm", "unsupported"),
        ("moe_runner", "triton", "ok"),
    ]
    assert {claim["level"] for claim in claims} == {"report"}
    assert all(claim["measurements"] == [] for claim in claims)
    listed = json.loads(agent("findings", "list", "--json").stdout)["findings"]
    assert {row["id"] for row in listed} == {finding["id"] for finding in kept["findings"]}
    for check in (("--verify",), ()):
        assert agent("replay", kept["transcript"], *check).returncode == 0
    # The evidence stands in a result that quotes the session.
    (evidence,) = next(claim for claim in claims if claim["outcome"] == "unsupported")["event_evidence"]
    shown = agent("transcripts", "show", kept["transcript"], "--json").stdout
    event = json.loads(shown)["events"][evidence["event"]]["data"]
    assert (event["kind"], event["output"]["words"]) == ("returned", [evidence["excerpt"]])


def test_what_a_session_does_not_say_stays_unknown(tmp_path: Path, home: Home) -> None:
    told = Told()
    told.runs(
        "python -m sglang.launch_server --model-path m --moe-runner-backend flashinfer_cutlass",
        "RuntimeError: No valid tactics available for fused moe op\nTraceback (most recent call last):\n",
        failed=True,
    )
    (candidate,) = proposed(told, tmp_path, home)
    assert (candidate["arch"], candidate["packages"]) == (None, {})
    assert candidate["unknown"] == ["architecture", "version of sglang"]
    assert (lacking(candidate, None), lacking(candidate, "sm120")) == (["architecture"], [])
    (finding,) = recorded(told, "--arch", "sm120")["findings"]
    assert (finding["claim"]["arch"], finding["claim"]["packages"]) == ("sm120", {})


@pytest.mark.parametrize(
    ("command", "output"),
    [
        ("cat sglang/srt/layers/x.py", "raise RuntimeError('CUDA error: misaligned address')"),
        (
            "grep -rn 'no kernel image' docs/",
            "docs/faq.md:3: no kernel image is available for execution on the device",
        ),
        ("gh issue view 2577", "RuntimeError: CUDA out of memory. Tried to allocate"),
        ("echo 'CUDA out of memory'", "CUDA out of memory"),
        ("git log -3", "Fix RuntimeError: Internal Triton PTX codegen error"),
    ],
)
def test_words_about_failures_are_no_failures(tmp_path: Path, home: Home, command: str, output: str) -> None:
    told = Told()
    told.runs("python -m sglang.launch_server --model-path m --attention-backend triton", "started")
    told.runs(command, output)
    told.uses("Read", {"file_path": "/w/vllm/notes.md"}, output)
    told.uses("WebFetch", {"url": "https://example.org"}, f"Traceback (most recent call last):\n{output}")
    assert proposed(told, tmp_path, home) == []


def test_versions_and_gpus_of_one_host_are_not_those_of_another(tmp_path: Path, home: Home) -> None:
    told = Told()
    told.runs("ssh a 'pip install sglang==0.5.8'", "Successfully installed sglang-0.5.8\n")
    told.runs("ssh b 'nvidia-smi -L'", "GPU 0: NVIDIA B200 (UUID: GPU-1)\n")
    told.runs(
        "ssh b 'python -m sglang.launch_server --model-path m --attention-backend trtllm_mha'",
        "torch.OutOfMemoryError: CUDA out of memory.\n",
        failed=True,
    )
    (candidate,) = proposed(told, tmp_path, home)
    assert (candidate["arch"], candidate["packages"]) == ("sm100", {})
    assert candidate["unknown"] == ["which of attention trtllm_mha", "version of sglang"]


def test_a_refusal_belongs_to_the_component_whose_source_raises_it(tmp_path: Path, home: Home) -> None:
    told = Told()
    launch = "vllm serve m --moe-backend triton --attention-backend flashinfer"
    trace = (
        'Traceback (most recent call last):\n  File "/v/vllm/models/m.py", line 3, in forward\n'
        '  File "/v/vllm/layers/fused_moe/fused_moe.py", line 9, in invoke_kernel\n'
        '  File "/v/triton/runtime/jit.py", line 5, in run\n'
    )
    memory = "out of resource: shared memory, Required: 147456, Hardware limit: 101376"
    told.runs(launch, f"{trace}triton.runtime.errors.OutOfResources: {memory}\n", failed=True)
    # Where a fault comes to light says nothing of where it happened.
    told.runs(
        launch, f"{trace}RuntimeError: CUDA error: an illegal memory access was encountered\n", failed=True
    )
    shared, fault = proposed(told, tmp_path, home)
    assert (cells(shared), shared["signature"]) == ([("moe_runner", "triton")], "shared-memory")
    assert (cells(fault), fault["unknown"][0]) == ([], "which of moe_runner triton, attention flashinfer")


def test_a_file_of_results_is_read_through_the_tool_that_showed_it(tmp_path: Path, home: Home) -> None:
    told = Told()
    result = ["{", '"duration": 3.0, "request_throughput": 1.5,', '"total_token_throughput": 99.5}']
    shown = "".join(f"{number:>6}→{line}\n" for number, line in enumerate(result, 1))
    told.uses("Read", {"file_path": "/w/result.json"}, shown)
    (candidate,) = proposed(told, tmp_path, home)
    assert [(one["metric"], one["json_pointer"]) for one in candidate["figures"]] == [
        ("duration", "/duration"),
        ("request_throughput", "/request_throughput"),
        ("total_throughput", "/total_token_throughput"),
    ]
    assert candidate["unknown"] == ["backend", "architecture", "engine"]


@pytest.mark.parametrize(
    ("command", "output", "arch"),
    [
        ("nvidia-smi", "|   0  NVIDIA RTX PRO 6000 Blac...    On  |   00000000:01:00.0 Off |\n", "sm120"),
        (
            "nvidia-smi -L",
            "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-1)\nGPU 1: NVIDIA H100 80GB HBM3\n",
            "sm90",
        ),
        ("nvidia-smi -L", "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-1)\nGPU 1: NVIDIA B200 (UUID: 2)\n", None),
        ("nvidia-smi --query-gpu=compute_cap --format=csv,noheader", "12.1\n", "sm121"),
        ("python -c 'import torch; print(torch.cuda.get_device_capability())'", "(10, 3)\n", "sm103"),
        ("cat notes.txt", "we want NVIDIA B200, 12.0\n", None),
    ],
)
def test_the_architecture_is_the_one_that_a_status_shows(
    tmp_path: Path, home: Home, command: str, output: str, arch: str | None
) -> None:
    told = Told()
    told.runs("nvidia-smi -L", "GPU 0: NVIDIA GeForce RTX 4090 (UUID: GPU-1)\n")
    told.runs(command, output)
    told.runs(
        "vllm serve m --moe-backend triton", "RuntimeError: No valid tactics available for fused moe op\n"
    )
    (candidate,) = proposed(told, tmp_path, home)
    assert candidate["arch"] == ("sm89" if command.startswith("cat") else arch)


def test_an_upgrade_and_a_removal_count_from_then_on(tmp_path: Path, home: Home) -> None:
    told = Told()
    launch = "python -m sglang.launch_server --model-path m --moe-runner-backend triton"
    failure = "RuntimeError: No valid tactics available for fused moe op\n"
    told.runs("pip list", "Package    Version\n---------- -------\nsglang     0.5.8\ntorch      2.9.1\n")
    told.runs(launch, failure, failed=True)
    told.runs("uv pip install -U sglang", " - sglang==0.5.8\n + sglang==0.5.9\n - torch==2.9.1\n")
    told.runs(launch, failure, failed=True)
    told.runs(
        'python -c "import torch, sglang; print(torch.__version__, sglang.__version__)"',
        "2.10.0+cu130 0.5.10\n",
    )
    told.runs(launch, failure, failed=True)
    versions = [candidate["packages"] for candidate in proposed(told, tmp_path, home)]
    assert versions == [
        {"sglang": "0.5.8", "torch": "2.9.1"},
        {"sglang": "0.5.9"},
        {"sglang": "0.5.10", "torch": "2.10.0+cu130"},
    ]


def test_a_backend_that_was_put_in_place_of_another(tmp_path: Path, home: Home) -> None:
    told = Told()
    line = (
        "INFO 11-02 10:14:01 [nvfp4.py:265] Using 'MARLIN' NvFp4 MoE backend out of potential backends: [].\n"
    )
    told.runs("vllm serve m --moe-backend flashinfer_cutlass", line)
    told.runs("vllm serve m --moe-backend marlin", line)
    (candidate,) = proposed(told, tmp_path, home)
    assert (candidate["outcome"], cells(candidate)) == ("substituted", [("moe_runner", "flashinfer_cutlass")])


def test_a_script_that_fails_by_itself_counts_for_what_its_error_names(tmp_path: Path, home: Home) -> None:
    told = Told()
    told.runs(
        "python test_mm_fp4.py",
        'Traceback (most recent call last):\n  File "test_mm_fp4.py", line 3, in <module>\n    mm_fp4()\n'
        "flashinfer.BackendSupportedError: mm_fp4 does not support backend 'trtllm' with capability 121\n",
        failed=True,
    )
    (candidate,) = proposed(told, tmp_path, home)
    assert (cells(candidate), candidate["arch"]) == ([("fp4_gemm", "trtllm")], "sm121")
    assert lacking(candidate, None) == ["engine"]


def test_the_screen_says_what_is_known_and_what_is_not(tmp_path: Path, home: Home) -> None:
    told, at = investigation()
    proposed(told, tmp_path, home)
    screen = agent("transcripts", "findings", "hunt").stdout
    assert "3 candidates, 1 can be recorded" in screen
    assert f"event {at['crash'] + 2}  nan: backend unknown on sm120" in screen
    assert "unknown: which of fp4_gemm flashinfer_cutlass" in screen
    assert "output_throughput 2810.22 tok/s" in screen
    assert f"the same launch failed: event {at['crash'] + 2}" in screen


def test_an_investigation_of_our_own_has_its_findings_on_record(home: Home) -> None:
    home.prepare()
    shutil.copy(ROOT / "transcripts" / "recorded" / "seed-sm120.jsonl", home.transcripts / "seed.jsonl")
    screen = agent("transcripts", "findings", "seed").stdout.splitlines()
    assert screen[0] == "seed is an investigation of our own: it records what it finds (25 findings)"
    assert "fp4_gemm auto on sm120: no static obstacle" in screen[1]


def test_what_is_made_to_take_long_does_not(tmp_path: Path, home: Home) -> None:
    told = Told()
    told.runs("nvidia-smi", "NVIDIA " + "A" * 50_000 + "!\n" + "NVIDIA A " * 5_000 + "!")
    told.runs("pip install x", "Requirement already satisfied: " + "a" * 50_000 + "\n")
    told.runs("pip install y", "Successfully installed " + "a-1" * 20_000 + "(\n")
    told.runs("pip list", ("a" * 50_000 + " ") * 3 + "\n" + "1" * 50_000)
    told.runs("vllm serve m " + "--a" * 10_000, "x")
    told.runs("vllm bench serve", "a." * 50_000 + "\n" + "Mean " * 20_000 + "(ms)\n" + "(" * 50_000 + "tok/s")
    started = time.process_time()
    assert proposed(told, tmp_path, home) == []
    with Library(home) as library:
        explain_imported(library.open(told.name), 18)
    assert time.process_time() - started < 5  # it is about 0.3


def test_what_a_hostile_session_says_moves_no_terminal(tmp_path: Path, home: Home) -> None:
    told = Told()
    told.runs(
        "python -m sglang.launch_server --model-path m --fp4-gemm-backend 'a\x1b[31mb'",
        "mm_fp4 does not support backend 'x' with capability 120 \x1b]0;title\x07<script>\n\x1b[2J",
        failed=True,
    )
    told.runs("python -m sglang.bench_serving --port 1", "Output token throughput (tok/s):   1e999\x1b[2J\n")
    proposed(told, tmp_path, home)
    for command in (("findings", "told"), ("explain", "told", "2")):
        finished = agent("transcripts", *command)
        assert finished.returncode == 0, finished.stderr
        assert "\x1b" not in finished.stdout
        assert "\x07" not in finished.stdout


@pytest.mark.parametrize("name", ["nothing", "../x", "a b", ""])
def test_what_is_no_session_is_one_line(home: Home, name: str) -> None:
    one_line(agent("transcripts", "findings", name), code=2)
