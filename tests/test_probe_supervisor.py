"""The program of a packed probe: whatever a cell does becomes a row, the next begins clean, nothing is left.

No kernel runs here: cells that try the stand itself do, in real processes, with a torch of three lines.
"""

from __future__ import annotations

import ast
import json
import os
import resource
import signal
import stat
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from memory.home import Home
from tools.environment.model import Environment
from tools.locks import holding, shared_folder
from tools.probe.pack import make_plan, pack
from tools.probe.plan import Cell

PATIENCE = 120.0
"""Seconds for what takes one on an idle machine."""
TORCH = """\
__version__ = "0.0"
class version:
    cuda = None
"""
UUID = f"GPU-of-a-test-{os.getpid()}"
"""Locked on this machine, whoever else runs the same tests."""


def cell(control: str, seconds: float = PATIENCE) -> Cell:
    return Cell(
        id=control, kind="control", component="control", backend=control, control=control, seconds=seconds
    )


@pytest.fixture
def site(tmp_path: Path) -> Path:
    folder = tmp_path / "site" / "torch"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text(TORCH)
    return folder.parent


@pytest.fixture
def packed(tmp_path: Path, home: Home, site: Path) -> Any:
    """Packs cells; returns the folder."""

    def write(*cells: Cell, **limits: Any) -> Path:
        plan = make_plan(Environment("none", "adopted", str(site), "", "", {}, "0"), cells)
        folder = tmp_path / "pack"
        pack(plan.model_copy(update={"limits": {**plan.limits, **limits}}), folder, home)
        return folder

    return write


def command(folder: Path, *arguments: str) -> list[str]:
    return [sys.executable, "-P", "run.py", "--cpu", "--site", str(folder.parent / "site"), *arguments]


def go(folder: Path, *arguments: str, **more: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(folder, *arguments), cwd=folder, capture_output=True, text=True, check=False, **more
    )


def rows(folder: Path) -> list[dict[str, Any]]:
    entries = [json.loads(line) for line in (folder / "results.jsonl").read_bytes().splitlines()]
    return [entry["row"] for entry in entries if "row" in entry]


def wait_for(what: Any) -> Any:
    until = time.monotonic() + PATIENCE
    while not (found := what()):
        assert time.monotonic() < until, "it did not come"
        time.sleep(0.02)
    return found


def test_a_death_an_error_and_a_hang_are_a_row_each_and_the_next_cell_begins_clean(packed: Any) -> None:
    folder = packed(cell("die"), cell("crash"), cell("hang", 3.0), cell("gate"))
    assert go(folder).returncode == 0
    died, raised, hung, after = rows(folder)
    assert (died["ended"], died["code"], died["stage"]) == ("died", -6, "ending without a word")
    assert (raised["ended"], raised["error"]["type"], raised["worker"]) == ("raised", "AttributeError", "new")
    assert "Traceback (most recent call last)" in raised["error"]["traceback"]
    assert (hung["ended"], hung["worker"], hung["compiling"]) == ("timed_out", "warm", [])
    assert after["worker"] == "new"


def test_rows_that_are_there_are_not_made_again_and_a_torn_line_is_none(packed: Any) -> None:
    folder = packed(cell("crash"), cell("die"))
    assert go(folder, "--cell", "crash").returncode == 0
    with (folder / "results.jsonl").open("ab") as file:
        file.write(b'{"row": {"cell": "di')
    assert go(folder).returncode == 0
    assert [row["cell"] for row in rows(folder)] == ["crash", "die"]
    assert go(folder).returncode == 0
    assert len(rows(folder)) == 2


def test_time_that_is_over_leaves_cells_for_the_next_run(packed: Any) -> None:
    folder = packed(cell("hang"), cell("die"))
    done = go(folder, "--minutes", "0.05")
    assert done.returncode == 4
    assert "out of time in hang; start again to go on" in done.stderr
    assert rows(folder) == []


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_supervisor_that_is_killed_leaves_no_worker_behind(packed: Any, number: int) -> None:
    folder = packed(cell("crash"), cell("hang"))
    process = subprocess.Popen(command(folder), cwd=folder, stderr=subprocess.DEVNULL)
    try:
        wait_for(lambda: (folder / "results.jsonl").is_file() and rows(folder))
        below = wait_for(lambda: psutil.Process(process.pid).children(recursive=True))
        process.send_signal(number)
        process.wait(PATIENCE)
        _, alive = psutil.wait_procs(below, PATIENCE)
        assert not [one for one in alive if one.status() != psutil.STATUS_ZOMBIE]
    finally:
        process.kill()
        process.wait()
    assert [row["cell"] for row in rows(folder)] == ["crash"]
    assert go(folder, "--seconds", "3").returncode == 0
    assert [row["cell"] for row in rows(folder)] == ["crash", "hang"]


def test_a_worker_that_is_killed_is_a_row(packed: Any) -> None:
    folder = packed(cell("hang"), cell("crash"))
    process = subprocess.Popen(command(folder), cwd=folder, stderr=subprocess.DEVNULL)
    try:

        def hanging() -> psutil.Process | None:
            for one in psutil.Process(process.pid).children(recursive=True):
                with suppress(psutil.Error):  # it may end while it is looked at
                    words = one.cmdline()
                    ours = "--worker" in words and not any(word.endswith("guard.py") for word in words)
                    if ours and one.cpu_times().user > 0.5:
                        return one
            return None

        wait_for(hanging).kill()
        assert process.wait(PATIENCE) == 0
    finally:
        process.kill()
        process.wait()
    killed, after = rows(folder)
    assert (killed["ended"], killed["code"]) == ("died", -9)
    assert after["ended"] == "raised"


def test_memory_has_a_limit(packed: Any) -> None:
    folder = packed(cell("hang"), memory_bytes=1 << 20)
    assert go(folder).returncode == 0
    assert [row["ended"] for row in rows(folder)] == ["memory"]


def test_a_full_disk_ends_it_and_what_was_written_is_kept(packed: Any) -> None:
    folder = packed(cell("crash"), cell("die"))
    assert go(folder, "--cell", "crash").returncode == 0
    size = (folder / "results.jsonl").stat().st_size

    def full() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 50, size + 50))

    done = go(folder, preexec_fn=full)
    assert done.returncode == 4
    assert "what was written is kept, start again to go on" in done.stderr
    assert go(folder).returncode == 0
    assert [row["cell"] for row in rows(folder)] == ["crash", "die"]


def test_two_runs_of_one_folder_do_not_mix(packed: Any) -> None:
    folder = packed(cell("crash"), cell("hang"))
    process = subprocess.Popen(command(folder), cwd=folder, stderr=subprocess.DEVNULL)
    try:
        wait_for(lambda: (folder / "results.jsonl").is_file() and rows(folder))
        second = go(folder)
    finally:
        process.terminate()
        process.wait()
    assert second.returncode == 4
    assert "another run writes results.jsonl already" in second.stderr


def test_results_of_another_plan_are_not_gone_on_with(packed: Any) -> None:
    folder = packed(cell("crash"))
    (folder / "results.jsonl").write_text('{"header": {"plan": "other"}}\n')
    done = go(folder)
    assert (done.returncode, done.stderr) == (2, "results.jsonl is of another plan; move it away\n")


def test_without_torch_it_says_so(packed: Any, site: Path) -> None:
    (site / "torch" / "__init__.py").write_text("raise ImportError('libcudart.so.13: not found')\n")
    folder = packed(cell("crash"))
    done = go(folder)
    assert done.returncode == 3
    assert done.stderr == "torch cannot be used here: libcudart.so.13: not found\n"
    assert rows(folder) == []


def smi(folder: Path, used: int, users: str = "") -> dict[str, str]:
    """An environment whose driver's tool tells of one GPU."""
    folder.mkdir()
    program = folder / "nvidia-smi"
    apps = f"echo '{users}'" if users else "true"
    program.write_text(
        f"#!/bin/sh\ncase $1 in --query-gpu*) echo '{UUID}, Teapot, 9.0, 1.0, {used}';; *) {apps};; esac\n"
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}


def on_gpu(folder: Path, environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    words = [one for one in command(folder, *arguments) if one != "--cpu"]
    return subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_without_a_gpu_nothing_is_tried(packed: Any, tmp_path: Path) -> None:
    folder = packed(cell("crash"))
    done = on_gpu(folder, {"PATH": str(tmp_path)})
    assert (done.returncode, done.stderr) == (
        3,
        "no nvidia-smi on PATH, so no NVIDIA GPU that could be used here\n",
    )


def test_a_gpu_that_others_use_is_not_taken_unless_it_is_named(packed: Any, tmp_path: Path) -> None:
    folder = packed(cell("crash"))
    done = on_gpu(folder, smi(tmp_path / "bin", 9000, f"{UUID}, 77, python"))
    assert done.returncode == 4
    assert f"every GPU is in use ({UUID}: python (77)); name one with --gpu" in done.stderr
    assert on_gpu(folder, smi(tmp_path / "other", 9000), "--gpu", "3").returncode == 2


def test_a_gpu_has_one_user_at_a_time_by_the_lock_that_tools_take(
    packed: Any, tmp_path: Path, home: Home
) -> None:
    folder = packed(cell("crash"))
    environment = smi(tmp_path / "bin", 0)
    with holding([f"gpu:{UUID}"], home, print):
        second = on_gpu(folder, environment)
    assert second.returncode == 4
    assert f"GPU {UUID} is taken by another probe" in second.stderr
    assert on_gpu(folder, environment).returncode == 3, "free again: then it is torch that is lacking"
    for name in (f"assay-gpu:{UUID}", f"assay-gpu:{UUID}+next"):
        (shared_folder() / name).unlink()


LIBRARY = """\
import pathlib

class Spec:
    name = "loom_120"
    ninja_path = pathlib.Path("{folder}") / "build.ninja"
    def write_ninja(self):
        self.ninja_path.write_text(
            "rule cuda_compile\\n  command = nvcc\\n"
            "build {folder}/a.o: cuda_compile a.cu\\nbuild {folder}/b.o: cuda_compile b.cu\\n"
            "build {folder}/binding.o: cuda_compile binding.cu\\n"
            "build {folder}/loom.so: link {folder}/a.o {folder}/b.o\\n")

def module(width=1):
    assert width == 1
    return Spec()

def refused():
    raise RuntimeError("No supported CUDA architectures found for major versions [10].")
"""


def test_a_module_is_compiled_refused_by_its_library_or_by_the_compiler(
    packed: Any, site: Path, tmp_path: Path
) -> None:
    (site / "loom.py").write_text(LIBRARY.replace("{folder}", str(tmp_path)))
    ninja = tmp_path / "bin" / "ninja"
    ninja.parent.mkdir()
    cells = [
        cell("compile").model_copy(
            update={"id": name, "kind": "compile", "function": f"loom:{function}", **given}
        )
        for name, function, given in (
            ("one", "module", {"units": 1}),
            ("all", "module", {}),
            ("none", "refused", {}),
            ("other", "module", {"given": {"width": 2}}),
        )
    ]
    folder = packed(*cells, environment={"ARCHS": "12.0a"})
    environment = {**os.environ, "PATH": f"{ninja.parent}:{os.environ['PATH']}"}
    ninja.write_text(
        "#!/bin/sh\nshift 4\nfor each; do\n"
        'case $each in *binding.o) echo "$ARCHS";; *) echo "$ARCHS" __cudaRegisterFunction;; esac > "$each"\n'
        "done\n"
    )
    ninja.chmod(ninja.stat().st_mode | stat.S_IXUSR)
    assert go(folder, env=environment).returncode == 0
    one, every, refused, other = rows(folder)
    assert (one["compiled"]["units"], one["compiled"]["objects"]) == (3, [f"{tmp_path}/b.o"])
    assert (one["compiled"]["hit"], every["compiled"]["hit"]) == (False, False)
    assert (tmp_path / "a.o").read_text() == "12.0a __cudaRegisterFunction\n"
    assert other["error"]["type"] == "AssertionError", "it is called with what the table says"
    assert refused["stage"] == "asking for the module"
    assert refused["error"]["message"].startswith("No supported CUDA architectures")
    (folder / "results.jsonl").unlink()
    ninja.write_text('#!/bin/sh\necho "b.cu(7): error: no such loom"\nexit 1\n')
    assert go(folder, "--cell", "one", env=environment).returncode == 0
    (failed,) = rows(folder)
    assert failed["error"]["message"].startswith("b.cu(7): error: no such loom\n")


TRITON = """\
import types

class GPUTarget:
    def __init__(self, backend, arch, warp_size):
        self.arch = arch

class ASTSource:
    def __init__(self, fn, signature, constexprs):
        self.told = dict(signature), dict(constexprs)

def compile(source, target):
    types, values = source.told
    if types["a"] == "*fp8e4nv" and target.arch < 89:
        raise ValueError("type fp8e4nv not supported in this architecture")
    return __import__("types").SimpleNamespace(
        hash="cafe", asm={"cubin": repr((target.arch, types, values)).encode()})
"""
LOOM = """\
class Jitted:
    def __init__(self, fn):
        self.fn, self.arg_names = fn, list(fn.__code__.co_varnames)

class Tuned:
    def __init__(self, fn):
        self.fn = fn

class constexpr:
    pass

@Tuned
@Jitted
def weave(a, stride, mask, WIDTH: constexpr, KIND: constexpr, DEEP: constexpr = 2, aux=None, number=0):
    pass
"""


def test_a_kernel_of_triton_is_compiled_for_an_architecture(packed: Any, site: Path) -> None:
    for name in ("triton", "triton/backends", "triton/language"):
        (site / name).mkdir()
        (site / name / "__init__.py").write_text("bfloat16 = 'a type'\n" if "language" in name else "")
    (site / "triton" / "compiler.py").write_text(TRITON)
    (site / "triton" / "backends" / "compiler.py").write_text(TRITON)
    (site / "loom.py").write_text(LOOM)
    told = {"a": "*fp8e4nv", "mask": "none", "WIDTH": 64, "KIND": "triton.language.bfloat16"}
    cells = [
        cell("compile").model_copy(
            update={"id": f"{arch} {len(given)}", "kind": "compile", "maker": "triton", "arch": arch}
            | {"function": "loom:weave", "given": given}
        )
        for arch, given in (("sm90", told), ("sm80", told), ("sm90", {"a": "*bf16"}))
    ]
    folder = packed(*cells)
    assert go(folder).returncode == 0
    made, refused, lacking = rows(folder)
    (code,) = made["compiled"]["objects"]
    assert Path(code).is_relative_to(folder / "cache")
    arch, types, values = ast.literal_eval(Path(code).read_text())
    assert arch == 90
    assert {name for name, kind in types.items() if kind == "constexpr"} == set(values)
    assert (types["a"], types["stride"], types["number"]) == ("*fp8e4nv", "i32", "i32")
    assert values == {"mask": None, "WIDTH": 64, "KIND": "a type", "DEEP": 2, "aux": None}
    assert refused["error"]["message"] == "type fp8e4nv not supported in this architecture"
    assert (lacking["ended"], lacking["error"]["type"]) == ("unfit", "UnfitError")
    assert "nothing is told of the argument WIDTH of weave" in lacking["error"]["message"]
