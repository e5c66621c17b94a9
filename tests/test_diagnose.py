"""A crash log diagnosed: what it says of the launch, what failed first, the gate, and what is not known."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from program import agent, one_line, shell
from tiny_engine import GATES, write_engine

from memory.home import Home
from tools.diagnosis.arguments import call_arguments, dict_arguments
from tools.diagnosis.diagnose import Diagnosis, diagnose
from tools.diagnosis.gate import find_gate
from tools.environment.adopt import adopt
from tools.logs import Frame
from tools.source.tree import SourceTree

RAISED = GATES.splitlines().index('        raise ValueError("cedar needs 10.x")') + 1
SGLANG = f"""\
$ FOO=1 python3 -m sglang.launch_server --model-path maple/Maple-9-NVFP4 \\
    --fp4-gemm-backend cedar --tp-size 4
[2026-03-07 19:20:01] server_args=ServerArgs(model_path='maple/Maple, 9', fp4_gemm_backend='cedar', tp_size=4)
[2026-03-07 19:20:07] sglang==9.9.0
[2026-03-07 19:20:09 TP0] Config file not found at x/E=8,N=96,device_name=NVIDIA_H200.json
[2026-03-07 19:22:11 TP3] Scheduler hit an exception: Traceback (most recent call last):
  File "/opt/sglang/python/sglang/srt/gates.py", line {RAISED}, in pick
    raise ValueError("cedar needs 10.x")
ValueError: cedar needs 10.x
[2026-03-07 19:22:13] Rank 0 scheduler is dead. Please check if there are relevant logs.
Traceback (most recent call last):
  File "/opt/sglang/python/sglang/srt/entrypoints/engine.py", line 5, in wait
    data = pipe.recv()
EOFError
"""
VLLM = "".join(
    f"(APIServer pid=1) {level} 11-02 10:14:32 [x.py:9] {text}\n"
    for level, text in (
        ("INFO", "vLLM API server version 0.11.0+cu129"),
        ("INFO", "non-default args: {'model': 'maple/9', 'tensor_parallel_size': 2}"),
        ("INFO", "Config file E=8,device_name=NVIDIA_RTX_PRO_6000_Blackwell.json not there"),
        ("ERROR", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB"),
    )
)


def diagnosed(log: str) -> Diagnosis:
    return diagnose(BytesIO(log.encode()))


def document(*args: str, home: Path | None = None, code: int = 0) -> Any:
    finished = agent("diagnose", *args, "--json", home=home)
    assert finished.returncode == code, finished.stderr
    return json.loads(finished.stdout)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "server.log"
    path.write_text(SGLANG)
    return path


@pytest.fixture
def engine(tmp_path: Path) -> Path:
    return write_engine(tmp_path / "site-packages")


def test_what_was_launched_is_taken_from_the_log() -> None:
    found = diagnosed(SGLANG)
    assert (found.engine, found.packages, found.arch, found.gpu) == (
        "sglang",
        {"sglang": "9.9.0"},
        "sm90",
        "NVIDIA H200",
    )
    assert found.arguments == {"model_path": "maple/Maple, 9", "fp4_gemm_backend": "cedar", "tp_size": 4}
    assert found.command is not None
    assert found.command.startswith("FOO=1 python3 -m sglang.launch_server")
    assert found.command.endswith("--tp-size 4")
    assert found.said == {"package sglang": 4, "gpu": 5, "arch": 5, "arguments": 3}

    found = diagnosed(VLLM)
    assert (found.engine, found.packages, found.arch) == ("vllm", {"vllm": "0.11.0+cu129"}, "sm120")
    assert found.arguments == {"model": "maple/9", "tensor_parallel_size": 2}
    assert found.cause is not None
    assert (found.cause.kind, found.cause.certain, found.first) == ("memory", True, None)


def test_a_command_counts_where_no_arguments_are_printed() -> None:
    found = diagnosed("".join(SGLANG.splitlines(keepends=True)[:2]))
    assert found.arguments == {
        "model_path": "maple/Maple-9-NVFP4",
        "fp4_gemm_backend": "cedar",
        "tp_size": "4",
    }


def test_printed_arguments_are_read_wherever_they_are_cut() -> None:
    text = "a='x, (y', b=[1, {'c': 2}], d=<Load.AUTO: 'auto'>, e=None, f=<object at 0x1>, g=-1.5)"
    whole = call_arguments(text)
    assert whole == {
        "a": "x, (y",
        "b": [1, {"c": 2}],
        "d": "auto",
        "e": None,
        "f": "<object at 0x1>",
        "g": -1.5,
    }
    for end in range(len(text)):
        assert call_arguments(text[:end]).items() <= whole.items()
    assert dict_arguments("'a': 'b: c', 'd': {'e': 1}, 3: 4} rest 'z': 1}") == {"a": "b: c", "d": {"e": 1}}


def test_the_first_failure_and_what_follows(log: Path) -> None:
    found = diagnosed(SGLANG)
    assert found.first is not None
    assert (found.first.line, found.first.end, found.first.rank) == (6, 9, "TP3")
    assert (found.first.error, found.first.message, found.later) == ("ValueError", "cedar needs 10.x", 1)


def test_the_gate_is_found_in_the_source_of_these_versions(engine: Path) -> None:
    found = diagnosed(SGLANG)
    assert found.first is not None
    gate = find_gate(SourceTree(engine), found.first.frames)
    assert gate is not None
    assert (gate.raised.file, gate.raised.line, gate.moved) == ("sglang/srt/gates.py", RAISED, False)
    assert (gate.function, gate.innermost) == ("pick", True)
    assert [one.text for one in gate.guards] == [
        'if server_args.fp4_gemm_backend == "cedar" and major != 10:'
    ]


def test_a_line_that_stands_elsewhere_is_found_there_and_one_of_another_version_is_not(engine: Path) -> None:
    tree = SourceTree(engine)
    text = 'raise ValueError("cedar needs 10.x")'
    there = find_gate(tree, [Frame("/a/sglang/srt/gates.py", 900, "pick", text)])
    assert there is not None
    assert (there.raised.line, there.moved) == (RAISED, True)
    for frame in (
        Frame("/a/sglang/srt/gates.py", RAISED, "pick", "raise ValueError()"),
        Frame("/a/sglang/srt/gates.py", 900, "other", text),
        Frame("/a/sglang/srt/../srt/gates.py", RAISED, "pick", text),
        Frame("/etc/passwd", 1, "<module>", ""),
        Frame("/a/sglang/srt/gates.py", 10**9, "pick", ""),
        Frame("<frozen runpy>", 1, "_run_code", ""),
    ):
        assert find_gate(tree, [frame]) is None
    outer = find_gate(
        tree, [Frame("/a/sglang/srt/gates.py", RAISED, "pick", ""), Frame("/t/torch.py", 1, "x", "y")]
    )
    assert outer is not None
    assert not outer.innermost


def test_the_program_says_it_all(log: Path, engine: Path) -> None:
    found = document(str(log), "-e", str(engine))
    assert found["gate"]["raised"]["line"] == RAISED
    assert found["environment"] == "site-packages"
    # The message says nothing; the test that it stands under is of the GPU.
    assert (found["cause"]["kind"], found["cause"]["certain"]) == ("architecture", False)
    finished = agent("diagnose", str(log), "-e", str(engine))
    for words in (
        "sglang 9.9.0 on NVIDIA H200 (sm90)",
        "failed first at line 6 (TP3)",
        "ValueError: cedar needs 10.x",
        "likely cause: refused for this GPU architecture",
        f"sglang 9.9.0 sglang/srt/gates.py:{RAISED}",
        'if server_args.fp4_gemm_backend == "cedar"',
    ):
        assert words in finished.stdout


def test_a_known_message_leads_to_the_cell_it_is_about(tmp_path: Path, engine: Path) -> None:
    path = tmp_path / "b.log"
    error = "BackendSupportedError: mm_fp4 does not support backend 'cedar' with capability 90"
    path.write_text(SGLANG.replace("ValueError: cedar needs 10.x", error))
    found = document(str(path), "-e", str(engine))
    assert (found["cause"]["kind"], found["cause"]["certain"]) == ("architecture", True)
    assert found["cause"]["cases"]
    assert (found["component"], found["backend"]) == ("fp4_gemm", "cedar")
    assert (found["row"]["backend"], found["row"]["arch"]) == ("cedar", "sm90")


def test_a_traceback_tells_the_version_that_the_log_does_not(
    tmp_path: Path, log: Path, engine: Path, home: Home
) -> None:
    """Of two stored environments the one counts in which all frames stand at their lines."""
    other = write_engine(tmp_path / "other", "9.8.0")
    gates = other / "sglang/srt/gates.py"
    gates.write_text("\n" + gates.read_text())
    for root, version in ((engine, "9.9.0"), (other, "9.8.0")):
        folder = home.environments / f"sglang-{version}"
        folder.mkdir()
        root.rename(folder / "site")
        adopted = adopt(folder / "site")
        description = replace(adopted, kind="source", name=folder.name, platform="x86_64-manylinux_2_39")
        (folder / "environment.json").write_text(json.dumps(description.document()))
    frame = f'  File "/o/sglang/srt/gates.py", line {RAISED - 1}, in pick\n'
    outer = f'{frame}    if server_args.fp4_gemm_backend == "cedar" and major != 10:\n'
    head = "Traceback (most recent call last):\n"
    log.write_text(SGLANG.replace("sglang==9.9.0", "").replace(head, head + outer, 1))
    found = document(str(log), home=home.root)
    assert found["packages"] == {}
    assert found["environment"] == "sglang-9.9.0"
    assert found["gate"]["raised"]["line"] == RAISED


def test_without_the_source_the_command_that_brings_it_is_offered(log: Path) -> None:
    found = document(str(log), code=4)
    assert found["make"] == "agent environment create -p sglang==9.9.0"
    assert found["gate"] is None
    assert (found["cause"]["kind"], found["cause"]["guess"]) == ("defect", True)
    assert "the whole log from the launch on: what stands before this traceback may say why" in found["send"]
    assert "cause: not known here" in agent("diagnose", str(log)).stdout


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ("ModuleNotFoundErrors: x", None),
        ("ImportError: libfoo is odd", "dependency"),
        ("pkg.mod.ValidationError: 1 validation error", "defect"),
        ("NewRuntimeError: CUDA ran out of memory", "memory"),
        ("RuntimeError: something broke", None),
        ("KeyError: 'x'", "defect"),
        ("RuntimeError: Wrapper::BeginForward(at::Tensor) failed to dispatch head_dim 80", "no_kernel"),
        ("NotImplementedError: No operator found for `attention_forward`", "no_kernel"),
        ("RuntimeError: gemm_caller, /w/cutlass/gemm.cuh:62, Error Internal", "fault"),
        ("RuntimeError: module::plan() expected at most 15 argument(s)", "dependency"),
        ("ValueError: Following weights were not initialized from checkpoint: {'a'}", "files"),
        ("sqlite3.DatabaseError: database disk image is malformed", "files"),
        ("ValueError: max_tokens_per_item (2496) is larger than the rest. Please increase it", "options"),
        ("RuntimeError: KV cache scales must be calibrated before", "quantisation"),
        ("ValueError: Model Alpha2Chat does not support LoRA", "model"),
        ("ValueError: AlphaForCausalLM has no SGlang implementation and is not compatible", "model"),
        ("RuntimeError: FlashAttention on older cards only supports fp16 and bf16 data type", "no_kernel"),
        ("RuntimeError: Worker failed with error 'stream synchronize failed, error code:507018'", "fault"),
        ("RuntimeError: NIXL_ERR_REMOTE_DISCONNECT", "communication"),
        ("RuntimeError: No accelerator or platform plug-in is available", "machine"),
        ("ValueError: num_heads must be divisible by the number of ranks", "options"),
        ("ImportError: alpha requires beta>=2.0, please upgrade", "dependency"),
        ("aiohttp.client_exceptions.ServerDisconnectedError: Server disconnected", "communication"),
        ("TimeoutError: The read operation timed out", "machine"),
        ("ValueError: maple does not allocate any GPUs on the driver node", "machine"),
        ("ValueError: Can't patch loop of type <class 'uvloop.Loop'>", "defect"),
        ("AssertionError: Can not alloc larch cache", "memory"),
        ("RuntimeError: x.hpp:69: Failed to open: /opt/include/sm121_larch_logits.cuh", "architecture"),
        ("AssertionError: One of GPU archs of ['gfx1'] is invalid or not supported", "architecture"),
        ("RuntimeError: CUDA unknown error - this may be due to an environment", "machine"),
        ("AssertionError: res=<Response [502]>, res.text=''", "machine"),
        ("TypeError: trtllm_larch() got an unexpected keyword argument 'x'", "dependency"),
        ("TypeError: larch() got an unexpected keyword argument 'x'", "defect"),
        ("RuntimeError: peer-to-peer access was not had", "communication"),
        ("RuntimeError: larch does not support Windows at the moment", "dependency"),
        ("ValueError: 'larch' is already used by a maple", "dependency"),
        ("ValueError: No larch config format found in maple", "files"),
        ("ValueError: windows are not supported. This model uses them", "model"),
        ("maple.APIError: HTTP code 502 from API (", "machine"),
        ("NameError: name 'larch_ops' is not defined", "dependency"),
        ("RuntimeError: Triton Error [HIP]: Code: 1, invalid argument", "fault"),
        ("_pickle.UnpicklingError: invalid load key, 'W'.", "defect"),
        (
            'RuntimeError: Assertion error (larch/compiler.hpp:176): false and "NVCC compilation failed"',
            "toolchain",
        ),
        ("RuntimeError: Failed: Assertion error larch.hpp:136 'mn % 4 == 0 and groups == 1'", "no_kernel"),
        ("RuntimeError: Failed: Assertion error larch.hpp:136 'ready'", "defect"),
        ("maple.LarchMissing: larch file not found at '/models/l.safetensors'", "files"),
        ("RuntimeError: unable to find backend library for backend 'maple'", "dependency"),
        ("maple.ValidationError: 1 validation error for LarchArgs", "options"),
        ("ValueError: Larch manager is disabled but nothing else fits", "options"),
        ("RuntimeError: larch_bias must be bfloat16 or float", "no_kernel"),
        ("Exception: Failed to encode tensor map: 700", "fault"),
        ("RuntimeError: larch failed with CUDA_ERROR_NOT_PERMITTED", "machine"),
        ("RuntimeError: larch failed with CUDA_ERROR_NO_BINARY_FOR_GPU", "missing_code"),
        ("RuntimeError: larch failed with CUDA_ERROR_LAUNCH_TIMEOUT", "fault"),
        ("RuntimeError: Assertion error (larch.hpp:136): arch_major == 9", "architecture"),
        ("RuntimeError: Assertion error (larch.hpp:136): block_kv == 64 or block_kv == 32", "no_kernel"),
        (
            "RuntimeError: Expected larch.dtype() == torch::kInt to be true, but got false.  (Could",
            "no_kernel",
        ),
        ("RuntimeError: Expected larch to be true, but got false.  (Could", "defect"),
        ("RuntimeError: Expected status == Status::kSuccess to be true, but got false.  (Could", "fault"),
        ("RuntimeError: CHECK_EQ(larch.numel() % maple, 0) failed.", "no_kernel"),
        ("ValueError: Larch rank 9 is greater than max_larch_rank 4", "options"),
        ("AssertionError: Larch expects maple_backend to be one of ['a', 'b'], but got c", "options"),
        ("RuntimeError: [ERROR] Assertion failed: Do not set larchFraction for maples", "options"),
        ("RuntimeError: larchTokens (9) must be large enough to process at least 1 sequence", "memory"),
        ("torch._dynamo.exc.UserError: Constraints violated (L['larch'].size()[0])!", "defect"),
        ("RuntimeError: larch_gemm is not available", "dependency"),
        ("RuntimeError: CUDA error: initialization error", "machine"),
        ("RuntimeError: CUDA error: operation not permitted", "machine"),
        ("RuntimeError: CUDA error: hardware stack error", "fault"),
        ("RuntimeError: CUDA error: peer access is not supported between these two devices", "communication"),
        ("RuntimeError: CUDA error: a PTX JIT compilation failed", "toolchain"),
        ("RuntimeError: [Larch Runner] Failed to initialize cutlass larch", "fault"),
        ("RuntimeError: Failed: Assertion error larch.cpp:9 'n <= num_max_larches'", "options"),
        ("maple.errors.ServiceUnavailableError: maple: code=None", "communication"),
        ("RuntimeError: Triton Error [CUDA]: operation not permitted", "machine"),
        ("RuntimeError: Larch worker (pid 7) is killed by signal: Killed. ", "memory"),
        ("RuntimeError: Error(s) in loading state_dict for Larch:", "files"),
        ("NameError: name 'ncclLarch' is not defined", "dependency"),
        ("RuntimeError: NPU function error: aclrtGetDeviceCount(&larch), error code is 207004", "machine"),
        ("ValueError: SM999 sparse larch has no decode kernel for this shape: x=1", "no_kernel"),
        ("Exception: Capture failed: larch kernel 'k' is not present in the registry.", "no_kernel"),
        ("RuntimeError: Larch is odd with Maples; please try larch_mode=PIECEWISE", "options"),
        ("RuntimeError: CUDA is not available", "machine"),
        ("RuntimeError: invalid argument", "fault"),
        ("RuntimeError: Larch does not support pooling models", "model"),
        ("RuntimeError: self.size(-1) must be divisible by 4 to view Byte as Float", "defect"),
    ],
)
def test_an_exception_alone_makes_a_kind_likely_never_certain(error: str, kind: str | None) -> None:
    found = diagnosed(SGLANG.replace("ValueError: cedar needs 10.x", error))
    assert found.cause is not None
    assert (None if found.cause.guess else found.cause.kind) == kind
    assert not found.cause.certain


RAISED_IN = """\
Traceback (most recent call last):
  File "/v/site-packages/vllm/v1/engine/core.py", line 9, in run_engine_core
    engine = EngineCore()
  File "/v/site-packages/{file}", line 7, in {function}
    {text}
{error}
"""


@pytest.mark.parametrize(
    ("file", "function", "text", "error", "kind"),
    [
        ("vllm/engine/arg_utils.py", "check", "raise ValueError(told)", "ValueError: no maple", "options"),
        ("vllm/model_executor/model_loader/a.py", "load", "use(x)", "RuntimeError: no maple", "files"),
        ("vllm/model_executor/models/a.py", "go", "use(x)", "ValueError: only maple is supported", "model"),
        ("vllm/model_executor/models/a.py", "go", "use(x)", "ValueError: no maple", None),
        ("vllm/distributed/a.py", "go", "use(x)", "RuntimeError: no maple", "communication"),
        ("flashinfer/a.py", "go", "use(x)", "ValueError: unsupported maple", "no_kernel"),
        ("flashinfer/a.py", "go", "use(x)", "MapleError: needs an SM90 device", "architecture"),
        ("vllm/_custom_ops.py", "go", "assert a.shape[0] % 16 == 0", "AssertionError", "no_kernel"),
        ("vllm/_custom_ops.py", "go", "assert here", "AssertionError", "defect"),
        ("vllm/_custom_ops.py", "go", "assert here", "", "defect"),
        ("torch/distributed/a.py", "go", "use(x)", "", "communication"),
        ("vllm/lora/utils.py", "go", "x", "ValueError: larch.weight is unsupported LoRA weight", "files"),
        ("triton/language/semantic.py", "go", "x", "ValueError: must be a power of 2", "toolchain"),
        ("vllm/models/a.py", "go", "assert linear_method is None", "AssertionError", "quantisation"),
        ("vllm/quantization/a.py", "go", "x", "ValueError: no maple", "quantisation"),
        ("vllm/quantization/a.py", "go", "x", "NameError: name 'is_maple' is not defined", "defect"),
        ("vllm/layers/a.py", "go", "f(1)", "TypeError: f() takes 5 positional arguments", "dependency"),
        ("vllm/model_loader/a.py", "go", "x", "_pickle.UnpicklingError: invalid key", "files"),
        ("vllm/models/a.py", "go", "assert heads % tp_size == 0", "AssertionError", "options"),
        ("vllm/entrypoints/openai/tool_parsers/a.py", "go", "a", "JSONDecodeError: Expecting", "defect"),
        ("json/decoder.py", "go", "a", "JSONDecodeError: Expecting value: line 1", "files"),
        ("numba/a.py", "<module>", "use(array[int])", "TypeError: no maple", "dependency"),
        ("maple/a.py", "compile_it", "raise Called()", "CalledProcessError: Command '' died", "toolchain"),
        ("torch/a.py", "go", "a", "a.b.InductorError: OutOfMemoryError: HIP out of memory", "memory"),
        ("torch/a.py", "go", "a", "a.b.MapleError: KeyError: 'x'", "defect"),
        ("torch/a.py", "go", "a", "torch._inductor.exc.InductorError: OSError: x", "toolchain"),
        ("torch/a.py", "go", "a", "torch._inductor.exc.InductorError: OSError: no memory left", "memory"),
        (
            "torch/a.py",
            "go",
            "a",
            "a.BackendCompilerFailed: backend='l' raised:\nOSError: lack of memory",
            "memory",
        ),
    ],
)
def test_what_the_code_is_for_says_what_its_words_do_not(
    file: str, function: str, text: str, error: str, kind: str | None
) -> None:
    log = RAISED_IN.format(file=file, function=function, text=text, error=error)
    cause = diagnosed(log).cause
    assert cause is not None
    assert (None if cause.guess else cause.kind) == kind


def test_a_process_that_failed_says_why_in_its_own_words() -> None:
    wrapper = RAISED_IN.format(
        file="vllm/registry.py",
        function="run",
        text="raise RuntimeError(told)",
        error="RuntimeError: Error raised in subprocess:",
    )
    others = "INFO 11-02 10:14:32 [x.py:9] going on\n" * 20
    found = diagnosed(f"{wrapper}{others}KeyError: 'getpwuid(): uid not found: 1'")
    assert found.cause is not None
    assert (found.cause.kind, found.cause.certain) == ("machine", False)
    assert diagnosed(wrapper).cause is None


def test_a_process_of_which_nothing_else_is_said_is_told_by_the_name_of_its_exception() -> None:
    died = "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task."
    log = SGLANG.replace("ValueError: cedar needs 10.x", died)
    cause = diagnosed(log).cause
    assert cause is not None
    assert (cause.kind, cause.certain) == ("communication", False)
    cause = diagnosed(f"*** SIGSEGV received at time=1746544812 on cpu 12 ***\n{log}").cause
    assert cause is not None
    assert (cause.kind, cause.line, cause.certain) == ("fault", 1, False)


@pytest.mark.parametrize(
    ("said", "error", "kinds"),
    [
        (
            "This kernel only supports sm120.",
            "CUDA error: unspecified launch failure",
            ("fault", "architecture"),
        ),
        (
            "Failed to get device capability: SM 12.x requires CUDA >= 12.9.",
            "FlashInfer requires GPUs with sm75 or higher",
            ("architecture", "toolchain"),
        ),
    ],
)
def test_what_a_kernel_or_a_library_said_before_explains_what_fails_after(
    said: str, error: str, kinds: tuple[str, str]
) -> None:
    log = SGLANG.replace("ValueError: cedar needs 10.x", f"RuntimeError: {error}")
    alone, explained = diagnosed(log).cause, diagnosed(f"{said}\n{log}").cause
    assert alone is not None
    assert explained is not None
    assert (alone.kind, alone.certain) == (kinds[0], True)
    assert (explained.kind, explained.line, explained.certain) == (kinds[1], 1, False)
    after = diagnosed(f"{log}\n{said}").cause
    assert after is not None
    assert after.kind == kinds[0]


def test_a_server_that_was_ended_has_not_failed(tmp_path: Path) -> None:
    path = tmp_path / "ended.log"
    path.write_text(
        "INFO 11-02 10:14:32 [x.py:9] vLLM API server version 0.11.0\n"
        + RAISED_IN.format(
            file="vllm/entrypoints/api_server.py",
            function="handler",
            text='raise KeyboardInterrupt("terminated")',
            error="KeyboardInterrupt: terminated",
        )
        + "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue.\n"
    )
    found = document(str(path))
    assert (found["cause"], found["first"], found["follows"], found["stopped"]) == (None, None, False, 7)
    assert "it was ended from outside (line 7)" in agent("diagnose", str(path)).stdout
    path.write_text(path.read_text() + "torch.OutOfMemoryError: CUDA out of memory\n")
    found = document(str(path))
    assert (found["cause"]["kind"], found["stopped"]) == ("memory", None)


def test_what_a_server_that_served_says_while_it_is_ended_is_no_failure(tmp_path: Path) -> None:
    served = 'INFO:     Application startup complete.\nINFO: "POST /v1/completions HTTP/1.1" 200 OK\n'
    stop = "INFO 08-15 01:50:29 launcher.py:45] Gracefully stopping http server\n"
    raised = RAISED_IN.format(file="vllm/a.py", function="log", text="use(x)", error="KeyError: 'larch'")
    path = tmp_path / "served.log"
    path.write_text(served + stop + raised + 'INFO: "POST /v1/completions HTTP/1.1" 200 OK\n')
    found = document(str(path))
    assert (found["cause"], found["first"], found["stopped"]) == (None, None, 3)
    for log in (
        stop + raised,  # it never served
        served + raised + stop,  # it failed before
        served + stop + raised + served,  # another one was started
        served + stop + raised + "torch.OutOfMemoryError: CUDA out of memory",
    ):
        assert diagnosed(log).cause is not None


def test_the_first_of_a_chain_counts_though_it_follows() -> None:
    log = """\
Traceback (most recent call last):
  File "/v/selector_events.py", line 5, in read
    data = self._sock.recv(1)
ConnectionResetError: [Errno 104] Connection reset by peer

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/v/client.py", line 9, in request
    await start()
client.ClientOSError: [Errno 104] Connection reset by peer
"""
    found = diagnosed(log)
    assert found.first is not None
    assert found.cause is not None
    assert (found.first.line, found.cause.kind, found.follows) == (1, "communication", False)


def test_an_exception_on_a_line_of_its_own_is_all_that_some_logs_hold() -> None:
    for line, kind in {
        "AlphaError: something broke": None,
        "ValueError: could not broadcast input array from shape (513,) into shape (512,)": "defect",
        "E       RuntimeError: Expected all tensors to be on the same device": "defect",
        "[2026-03-07 19:22:11 TP3] zmq.error.ZMQError: Address already in use": "machine",
        "WARNING 03-07 19:22:11 [a.py:1] ImportError: libfoo is odd": None,
        "it went on although ValueError: could not broadcast was raised": None,
        "ERROR 03-11 12:22:02 engine.py:140] AssertionError('larch group is not there')": "defect",
        "[TRT-LLM] [E] Larch failed due to insufficient GPU memory.": "memory",
        "[TRT-LLM] [W] Larch failed due to insufficient GPU memory.": None,
        "E0120 08:28:09.425599 2049 a.cc:654] unable to find backend library for 'larch'": "dependency",
        "E [TensorRT-LLM][ERROR] Assertion failed: larch of sm_90 is not supported": "architecture",
        'print("ValueError: could not broadcast")': None,
    }.items():
        found = diagnosed(f"a first line\n{line}\nand a last one\n")
        assert (found.cause and found.cause.kind) == kind, line
        assert found.first is None
        assert found.cause is None or (found.cause.line, found.cause.certain) == (2, False)


def test_weights_that_do_not_fit_say_more_than_that_shapes_do_not() -> None:
    words = "RuntimeError: The size of tensor a (3072) must match the size of tensor b (6144) at dimension 1"
    text = SGLANG.replace("ValueError: cedar needs 10.x", words)
    plain = diagnosed(text)
    assert plain.cause is not None
    assert (plain.cause.kind, plain.cause.certain) == ("defect", True)
    frame = '  File "/opt/sglang/srt/layers/moe/layer.py", line 560, in _load_w13\n    data.copy_(loaded)\n'
    loading = diagnosed(text.replace(words, frame + words)).cause
    assert loading is not None
    assert (loading.kind, loading.certain) == ("files", False)


def test_of_a_chain_what_says_more_than_that_code_broke_counts() -> None:
    more = (
        "KeyError: 'x'\n\nDuring handling of the above exception, another exception occurred:\n\n"
        "Traceback (most recent call last):\n"
        '  File "/opt/other.py", line 3, in load\n    raise ImportError("libfoo is odd")\n'
        "ImportError: libfoo is odd"
    )
    found = diagnosed(SGLANG.replace("ValueError: cedar needs 10.x", more))
    assert found.first is not None
    assert found.first.error == "KeyError"
    assert found.cause is not None
    assert (found.cause.kind, found.cause.text) == ("dependency", "ImportError: libfoo is odd")


def test_of_a_chain_what_follows_a_failure_is_no_cause() -> None:
    """Somebody else was gone: who raised while that was handled says no more."""
    more = (
        "AttributeError: 'Local' object has no attribute 'connection'\n\n"
        "During handling of the above exception, another exception occurred:\n\n"
        "Traceback (most recent call last):\n"
        '  File "/opt/connection.py", line 3, in client\n    s.connect(address)\n'
        "ConnectionRefusedError: [Errno 111] Connection refused"
    )
    found = diagnosed(SGLANG.replace("ValueError: cedar needs 10.x", more))
    assert found.cause is not None
    assert (found.cause.kind, found.cause.certain) == ("defect", False)


def test_what_is_wrong_with_the_command_is_said(tmp_path: Path, engine: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text(
        "$ python -m sglang.launch_server --model-path m --atention-backend elm "
        "--api-key sk-0123456789abcdef0123\n"
        "launch_server.py: error: unrecognized arguments: --atention-backend elm\n"
    )
    found = document(str(path), "-e", str(engine))
    assert (found["cause"]["kind"], found["cause"]["certain"]) == ("options", True)
    assert "nearest: --attention-backend" in found["settings"][0]["text"]
    assert "sk-0123456789" not in json.dumps(found), "no secret is told again"


def test_only_what_follows_a_failure_is_no_cause() -> None:
    found = diagnosed("".join(SGLANG.splitlines(keepends=True)[9:]))
    assert (found.first, found.cause, found.follows) == (None, None, True)
    assert found.send[0].startswith("the log from the launch on")


def test_an_exception_beside_what_follows_a_failure_makes_a_kind_likely() -> None:
    found = diagnosed("EngineCore encountered a fatal error\ntorch.AcceleratorError: CUDA error: larch\n")
    assert found.cause is not None
    assert (found.cause.kind, found.cause.line, found.cause.certain, found.follows) == (
        "fault",
        2,
        False,
        False,
    )


def test_a_log_without_a_failure(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text("INFO: Application startup complete.\n")
    assert document(str(path))["concluded"] is True
    shown = agent("diagnose", str(path)).stdout
    assert "nothing in the log says that something failed" in shown
    assert "nothing in the text names an engine" in shown
    assert "the first traceback is not in it" not in shown, "of what did not fail nothing is missing"


def test_what_only_speaks_of_failures_is_no_log_of_one() -> None:
    """Documentation and questions quote the words of errors; a record begins with them, or is dressed."""
    for text in (
        "If the server dies while it loads and you see CUDA out of memory, lower the share of memory.",
        'On older cards you may get "no kernel image is available for execution on the device".',
    ):
        found = diagnosed(
            f"# Troubleshooting\n\n    python -m sglang.launch_server --model-path m\n\n{text}\n"
        )
        assert (found.engine, found.first, found.cause, found.follows) == ("sglang", None, None, False)
    for line in (
        "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB",
        "[2026-03-07 19:22:11 TP3] the scheduler gave up after it saw CUDA out of memory",
        "docker: the process that serves died with an error: CUDA out of memory",
    ):
        assert diagnosed(f"{line}\n").cause is not None, line


def test_what_a_check_of_c_passes_on_is_likely_and_in_a_warning_nothing() -> None:
    said = "[TensorRT-LLM][ERROR] Assertion failed: larch() "
    cause = diagnosed(f"RuntimeError: {said}\n").cause
    assert cause is not None
    assert (cause.kind, cause.certain) == ("defect", False)
    long = f"(Worker pid=1) 2026-03-07 06:41:27,319 - WARNING - tuner.py:48 - maple: {'x' * 500} {said}\n"
    assert diagnosed(long).cause is None
    thrown = "terminate called after throwing an instance of 'E'\n  what():  NVRTC could not larch\n"
    cause = diagnosed(thrown).cause
    assert cause is not None
    assert (cause.kind, cause.line) == ("toolchain", 2)


REFUSED = """\
(APIServer pid=1) INFO:     Application startup complete.
(APIServer pid=1) ERROR 03-04 14:55:30 [serving.py:315] Error in preprocessing prompt inputs
(APIServer pid=1) ERROR 03-04 14:55:30 [serving.py:315] Traceback (most recent call last):
(APIServer pid=1) ERROR 03-04 14:55:30 [serving.py:315]   File "/v/vllm/renderers/a.py", line 34, in apply
(APIServer pid=1) ERROR 03-04 14:55:30 [serving.py:315]     return tokenizer.apply(messages)
(APIServer pid=1) ERROR 03-04 14:55:30 [serving.py:315] {error}
(APIServer pid=1) INFO:     10.0.0.8:42562 - "POST /v1/chat/completions HTTP/1.1" {status}
"""


def test_a_request_that_was_refused_is_no_failure_of_its_server(tmp_path: Path) -> None:
    path = tmp_path / "served.log"
    path.write_text(REFUSED.format(error="ValueError: no role 'larch'", status="400 Bad Request"))
    found = document(str(path))
    assert (found["first"], found["follows"], found["next"], found["send"]) == (None, False, None, [])
    assert (found["cause"]["kind"], found["cause"]["noticed"], found["cause"]["line"]) == ("options", True, 6)
    shown = agent("diagnose", str(path)).stdout
    assert "nothing in the log says that something failed" in shown
    assert "noticed: a request asks for what the server refuses (ok)" in shown
    # The answer may stand before a chain of them.
    lines = REFUSED.format(error="ValueError: no role 'larch'", status="400 Bad Request").splitlines()
    raised = [line for line in lines if "serving.py" in line]
    direct = "(APIServer pid=1) The above exception was the direct cause of the following exception:"
    chain = [lines[-1], *raised, "(APIServer pid=1)", direct, "(APIServer pid=1)", *raised]
    assert diagnosed("\n".join(chain)).first is None
    # What fails beside it still does, and so does a request that the server is to blame for.
    later = diagnosed(path.read_text() + SGLANG)
    assert later.first is not None
    assert later.first.error == "ValueError"
    assert later.first.line == 13
    for error, status in (
        ("ValueError: x", "500 Error"),
        ("RuntimeError: CUDA out of memory", "400 Bad Request"),
    ):
        assert diagnosed(REFUSED.format(error=error, status=status)).first is not None


def test_a_record_tells_of_the_traceback_that_it_announces() -> None:
    said = (
        "[TRT-LLM] [E] Larch did not parse: 1 validation error for LarchArgs\n  Value error, x is too large\n"
    )
    assert diagnosed(said).cause is None
    torn = 'Traceback (most recent call last):\n  File "/usr/local/bin/larch", line 8, in <module>\n'
    cause = diagnosed(said + torn).cause
    assert cause is not None
    assert (cause.kind, cause.line) == ("options", 1)


def test_what_may_have_been_is_no_cause() -> None:
    line = "A worker died. Some common causes include: (1) the process was killed by the OOM killer, (2) x\n"
    assert diagnosed(f"(raylet) {line}").cause is None
    assert diagnosed("A worker was killed by the OOM killer.\n").cause is not None


def test_what_is_no_log_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "empty.log").write_bytes(b"")
    (tmp_path / "packed.log").write_bytes(gzip.compress(SGLANG.encode()))
    (tmp_path / "binary.log").write_bytes(bytes(range(256)) * 40)
    for name, code, words in (
        ("empty.log", 2, "is empty"),
        ("packed.log", 2, "zcat"),
        ("binary.log", 2, "is no text"),
        (".", 2, "is a folder"),
        ("nothing", 2, "No such file"),
    ):
        one_line(agent("diagnose", str(tmp_path / name)), code, words)
    one_line(agent("diagnose", "x" * 5000), 2, "cannot read")
    one_line(shell("agent diagnose - < /dev/null"), 2, "is empty")
    one_line(agent("diagnose", str(tmp_path / "binary.log"), "--engine", "nope"), 2, "unknown engine")


def test_odd_logs_are_answered(tmp_path: Path) -> None:
    holed = b"\0" * 200_000 + SGLANG.encode()  # cut off while its program went on
    assert diagnose(BytesIO(holed)).first is not None
    endless = b"x" * 5_000_000 + b" CUDA out of memory " + b"y" * 5_000_000
    found = diagnose(BytesIO(endless))
    assert found.cause is not None
    assert found.cause.kind == "memory"
    for end in range(0, len(SGLANG), 37):
        diagnose(BytesIO(SGLANG.encode()[:end]))


def test_hostile_text_is_shown_as_text(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text(SGLANG.replace("cedar needs 10.x", "cedar \x1b]0;owned\x07 \u202e [bold]x[/bold]"))
    finished = agent("diagnose", str(path))
    assert "\x1b" not in finished.stdout
    assert "\u202e" not in finished.stdout


def test_a_log_may_come_through_a_pipe(log: Path) -> None:
    finished = shell(f"cat {log} | agent diagnose - --json")
    assert json.loads(finished.stdout)["first"]["line"] == 6
    finished = shell(f"agent diagnose <(cat {log}) --json")
    assert json.loads(finished.stdout)["first"]["line"] == 6


def test_records_of_errors_are_what_is_left_where_no_exception_is_named() -> None:
    said = "(Worker pid=7) ERROR 12-10 03:24:54 [maple.py:4] Maple transfer failed for request 7, ret: -1\n"
    found = diagnosed(said * 3)
    assert found.cause is not None
    assert (found.cause.kind, found.cause.line, found.cause.certain) == ("communication", 1, False)
    assert found.cause.text == "Maple transfer failed for request 7, ret: -1"
    said = "Error: No available node types can fulfill resource request {'GPU': 1.0}\n"
    assert (lost := diagnosed(said).cause) is not None
    assert lost.kind == "machine"
    # Servers refuse requests in the words in which they refuse settings, and go on.
    refused = "(APIServer pid=7) ERROR 12-10 03:24:54 [maple.py:4] maple_len (9) exceeds the maximum\n"
    assert diagnosed(refused).cause is None


def test_what_is_wrong_though_nothing_fails_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "served.log"
    path.write_text("INFO 06-27 10:14:30 [a.py:1] Using 'MARLIN' NvFp4 MoE backend\nvLLM is up\n")
    found = document(str(path))
    assert (found["cause"]["kind"], found["cause"]["noticed"]) == ("fallback", True)
    shown = agent("diagnose", str(path)).stdout
    assert "nothing in the log says that something failed" in shown
    assert "noticed: other code runs than was asked for" in shown
    own = 'Traceback (most recent call last):\n  File "/home/run.py", line 1, in f\n    x\nMapleError: x\n'
    assert diagnosed(f"INFO 06-27 10:14:30 [a.py:1] Using 'MARLIN' NvFp4 MoE backend\n{own}").cause is None
    waits = "INFO 05-15 03:18:39 [s.py:9] No available shared memory broadcast block found in 60 s\n"
    assert diagnosed(waits * 3).cause is None
    found_hung = diagnosed(waits * 12).cause
    assert found_hung is not None
    assert (found_hung.kind, found_hung.certain) == ("hang", False)


def test_what_a_library_notes_of_all_that_it_tries_is_no_cause() -> None:
    bound = "node:9:9 [1] ras/client_support.cc:160 NCCL WARN Call to bind failed: Address already in use\n"
    note = "node:9:9 [0] NCCL INFO NET/Plugin: libnccl-net.so: cannot open shared object file: No such file\n"
    assert diagnosed(note + bound).cause is None
    head, _, end = RAISED_IN.format(file="vllm/a.py", function="f", text="x", error="KeyError: 1").partition(
        "    engine = EngineCore()\n"
    )
    cause = diagnosed(f"{head}{note}{end}").cause
    assert cause is not None
    assert cause.kind == "defect"
