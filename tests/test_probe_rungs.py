"""``agent investigate --run probes``: what reading lets through is compiled, then run; a failure refutes.

A tiny engine whose ways lead into a tiny kernel library, in a virtual environment of its own: its interpreter
really runs, with a torch that refuses everything and a compiler that is a few lines of shell.
"""

from __future__ import annotations

import json
import os
import stat
import venv
from pathlib import Path
from typing import Any

import pytest
from compiled import cubin, fat_binary, image, library
from investigations import NAME, QUESTION, documents, setting, sound, transcript
from test_probe_plan import library as kernel_library
from tiny_engine import FAKE_TRACE, fake_trace, write_engine

from agent.cli.main import run
from agent.cli.probe import outcomes
from agent.cli.probe_compile import compared
from agent.cli.run_options import Running
from agent.drivers.prober import Prober
from agent.execute import batch_functions
from agent.session import board_of, resume, start
from memory.architecture import parse_architecture
from memory.artifacts import Artifacts
from memory.clock import hypothesis_id
from memory.home import Home
from memory.views import Views
from memory.vocabulary import Answer, Outcome, Row, Verdict
from tools.base import Tool
from tools.environment.store import open_environment
from tools.probe.agreeing import compiling
from tools.probe.pack import make_plan
from tools.probe.plan import cells_of, modules_of
from tools.probe.running import STOPPED
from tools.registry import registry
from transcripts.events import Concluded

SM120 = parse_architecture("sm120")
AMBER = hypothesis_id("fp4_gemm", "amber", "sm120")
WAYS = {"fp4_gemm": "mm_fp4", "moe_runner": "cutlass_fused_moe", "attention": "nothing_known"}
"""The function that every backend of a component leads to."""
TORCH = """\
__version__ = "0.0"
class version:
    cuda = "13.0"
class NotSupportedError(Exception):
    pass
def Generator(**_):
    raise NotSupportedError("capability 120 is not supported by this loom")
class cuda:
    init = synchronize = empty_cache = set_per_process_memory_fraction = lambda *_: None
    def get_device_properties(number):
        class about:
            name, major, minor, total_memory, multi_processor_count = "Teapot", 12, 0, 1, 1
        return about
"""
JIT = """\
import pathlib

class Spec:
    name = "loom_120"
    ninja_path = pathlib.Path(__file__).with_name("build.ninja")
    def write_ninja(self):
        here = self.ninja_path.parent
        self.ninja_path.write_text(f"build {here}/a.o: cuda_compile a.cu")

def gen_cutlass_fused_moe_sm120_module():
    return Spec()
"""
SMI = """\
#!/bin/sh
case $1 in
  --query-gpu=index*) echo '0, GPU-rungs, Teapot, 12.0, 100, 0, 1.0';;
  --query-gpu*) echo 'GPU-rungs-{pid}, Teapot, 12.0, 1.0, 0';;
esac
"""


def trace(args: Any, context: Any) -> Any:
    found = fake_trace(args, context)
    way = {"file": "", "line": 1, "text": "", "says": f"calls flashinfer.{WAYS[args.component]}"}
    return found.model_copy(update={"hops": (way,)})


def program(folder: Path, name: str, text: str) -> None:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The packages of a virtual environment; compiler and driver come first on PATH."""
    venv.create(tmp_path / "venv", symlinks=True)
    (folder,) = (tmp_path / "venv" / "lib").glob("python3*/site-packages")
    write_engine(folder)
    kernel_library(folder)
    init = folder / "flashinfer" / "__init__.py"
    init.write_text(init.read_text().replace('"oak"', '"amber"'))
    for package in ("jit", "jit/fused_moe"):
        (folder / "flashinfer" / package).mkdir()
        (folder / "flashinfer" / package / "__init__.py").write_text(JIT if "moe" in package else "")
    (folder / "torch").mkdir()
    (folder / "torch" / "__init__.py").write_text(TORCH)
    tools = tmp_path / "bin"
    program(tools, "nvcc", "#!/bin/sh\n")
    program(tools, "ninja", "#!/bin/sh\necho 'a.cu(7): error: no such loom'\nexit 1\n")
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    return folder


def compiling_into_its_cache(site: Path, folder: Path) -> None:
    """As a library does. What is compiled is ``made.o`` in ``folder``."""
    program(folder / "bin", "ninja", f"#!/bin/sh\nshift 4\nfor each; do cp {folder}/made.o $each; done\n")
    jit = site / "flashinfer" / "jit" / "fused_moe" / "__init__.py"
    jit.write_text(
        jit.read_text().replace(
            'pathlib.Path(__file__).with_name("build.ninja")',
            'pathlib.Path(__import__("os").environ["FLASHINFER_WORKSPACE_BASE"]) / "build.ninja"',
        )
    )


def with_gpu(site: Path) -> None:
    program(site.parents[3] / "bin", "nvidia-smi", SMI.format(pid=os.getpid()))


def probing(tools: dict[str, Any] | None = None, batches: dict[str, Any] | None = None, **given: Any) -> Any:
    """What an investigation is run with: the fake trace that leads on, all else real."""
    tracing = Tool(**{**vars(FAKE_TRACE), "run": trace})
    return setting(
        tools={"trace_viability": tracing, **(tools or {})},
        batches={
            **{name: many for name, many in batch_functions().items() if name != "trace_viability"},
            **(batches or {}),
        },
        **{"policy": Running("probes").policy(), **given},
    )


def go(home: Home, site: Path, options: dict[str, Any] | None = None, **given: Any) -> Concluded:
    asked = {"environment": str(site), "run": "probes", **(options or {})}
    return start(home, QUESTION, asked, name=NAME, setting=probing(**given))


def rows(concluded: Concluded) -> dict[tuple[str, str], Row]:
    assert concluded.answer is not None
    return {(row.component, row.backend): row for row in concluded.answer.backends}


def left(answer: Answer | None) -> str:
    assert answer is not None
    return "; ".join(f"{step.what} [{step.command}]" for step in answer.not_run)


def test_without_a_gpu_it_compiles_and_says_what_needs_one(home: Home, site: Path) -> None:
    done = go(home, site)
    assert (done.exit_reason, done.exit_code) == ("none_viable", 1), done.summary
    refuted = rows(done)["moe_runner", "birch"]
    assert refuted.observed is not None
    assert (refuted.state, refuted.observed.level, refuted.observed.outcome) == (
        "refuted",
        "compile",
        "compile_failed",
    )
    assert rows(done)["fp4_gemm", "amber"].state == "predicted"
    # Refused by reading, or rerouted: nothing of it was compiled.
    asked = [one for one in documents(transcript(home)) if one["kind"] == "called" and one["rung"]]
    compiled = [one for one in asked if one["tool"] == "probe_compile"]
    assert [one["hypothesis"] for one in compiled] == [None], "one cell for both that lead to it"
    assert {rows(done)["moe_runner", backend].state for backend in ("auto", "birch")} == {"refuted"}
    assert not [one for one in asked if one["tool"] == "probe_kernel"]
    said = left(done.answer)
    assert "4 kernel probes need a GPU of sm120, 8 minutes at most" in said
    assert f"agent probe pack fp4_gemm -e {site} --to probes" in said
    found = Views(home).findings(level="compile")
    assert {(one["backend"], one["outcome"]) for one in found} == {
        ("auto", "compile_failed"),
        ("birch", "compile_failed"),
    }
    assert "a.cu(7): error: no such loom" in json.dumps(documents(transcript(home)))
    sound(home, transcript(home))


def test_what_compiles_stays_predicted_and_is_a_finding(home: Home, site: Path, tmp_path: Path) -> None:
    (tmp_path / "made.o").write_bytes(library(fat_binary(image("sm_120a"))))
    compiling_into_its_cache(site, tmp_path)
    done = go(home, site)
    assert done.exit_code == 0, done.summary
    row = rows(done)["moe_runner", "birch"]
    assert row.observed is not None
    assert (row.state, row.observed.outcome) == ("predicted", "ok")
    assert done.summary.startswith("candidate, untested: "), "what was only compiled did not run"
    found = Views(home).findings(level="compile", backend="birch")
    assert [one["outcome"] for one in found] == ["ok"]
    assert json.loads(found[0]["scenario"])["kernel"] == "cutlass_fused_moe"


def test_what_fails_low_is_not_tried_high_and_what_a_gpu_refuses_is_refuted(home: Home, site: Path) -> None:
    with_gpu(site)
    done = go(home, site, {"gpu_minutes": 5})
    found = rows(done)
    for backend in ("amber", "birch"):
        row = found["fp4_gemm", backend]
        assert row.observed is not None
        assert (row.state, row.observed.level, row.observed.outcome) == ("refuted", "probe", "unsupported")
    assert done.exit_reason == "none_viable"
    calls = [one for one in documents(transcript(home)) if one["kind"] == "called"]
    tried = {one["input"]["cell"]: one["hypothesis"] for one in calls if one["tool"] == "probe_kernel"}
    assert tried == dict.fromkeys(("mm_fp4:amber", "mm_fp4:amber@1"), AMBER) | dict.fromkeys(
        ("mm_fp4:auto", "mm_fp4:auto@1"), hypothesis_id("fp4_gemm", "birch", "sm120")
    )
    kept = Views(home).findings(level="probe")
    assert {(one["backend"], one["gpu"]) for one in kept} == {("amber", "Teapot"), ("birch", "Teapot")}
    sound(home, transcript(home))


def test_what_runs_right_is_confirmed_and_only_that(home: Home, site: Path) -> None:
    """The result stands in for a GPU: of two shapes of one backend the second is wrong."""
    with_gpu(site)

    def kernel(args: Any, context: Any) -> Any:
        return next(iter(kernels(context, [args])))

    def kernels(context: Any, asked: Any) -> Any:
        for one, real in zip(asked, batch_functions()["probe_kernel"](context, asked), strict=True):
            bad = one.cell == "mm_fp4:auto@1"
            words = "at every size: 7 of 7 rows are all zero" if bad else "right at 24 sizes; 50 repeats"
            yield real.model_copy(update={"outcome": Outcome.WRONG if bad else Outcome.OK, "because": words})

    standing = Tool(**{**vars(registry()["probe_kernel"]), "run": kernel})
    done = go(
        home, site, {"gpu_minutes": 5}, tools={"probe_kernel": standing}, batches={"probe_kernel": kernels}
    )
    found = rows(done)
    assert found["fp4_gemm", "amber"].state == "confirmed"
    assert found["fp4_gemm", "birch"].state == "refuted", "the library's own choice is what it would run"
    sound(home, transcript(home))


def test_a_gpu_in_use_ends_it_resumable(home: Home, site: Path) -> None:
    with_gpu(site)
    busy = SMI.replace("esac", "  *) echo 'GPU-rungs-{pid}, 77, python';;\nesac")
    program(site.parents[3] / "bin", "nvidia-smi", busy.format(pid=os.getpid()))
    done = go(home, site, {"gpu_minutes": 5})
    assert (done.exit_reason, done.exit_code) == ("stopped", 4)
    assert "every GPU is in use" in done.summary
    assert done.answer is not None
    with_gpu(site)
    after = resume(home, transcript(home), setting=probing())
    assert rows(after)["fp4_gemm", "amber"].state == "refuted"
    sound(home, transcript(home))


def test_cells_whose_turn_did_not_come_are_run_when_it_is_gone_on_with(home: Home, site: Path) -> None:
    """The result stands in for a GPU: the minutes are used up after the first cell."""
    with_gpu(site)
    tried: list[list[str]] = []

    def kernels(context: Any, asked: Any) -> Any:
        tried.append([one.cell for one in asked])
        for one, real in zip(asked, batch_functions()["probe_kernel"](context, asked), strict=True):
            update: dict[str, Any] = {"outcome": Outcome.OK, "because": "right at 24 sizes"}
            if len(tried) == 1 and one is not asked[0]:
                error = {"type": STOPPED, "message": "out of time with 3 cells left"}
                update = {"outcome": Outcome.NOT_RUN, "because": "not tried", "measured": {"error": error}}
            yield real.model_copy(update=update)

    batches = {"probe_kernel": kernels}
    done = go(home, site, {"gpu_minutes": 5}, batches=batches)
    assert (done.exit_reason, done.exit_code) == ("stopped", 4)
    assert "out of time with 3 cells left" in done.summary
    after = resume(home, transcript(home), setting=probing(batches=batches))
    first, second = tried
    assert second == first[1:], "what has its row is not run again"
    assert after.exit_reason == "none_viable", "it came to its end: nothing of moe_runner compiles here"
    assert {rows(after)["fp4_gemm", one].state for one in ("amber", "birch")} == {"confirmed"}
    assert after.answer is not None
    assert "out of time" not in left(after.answer)
    sound(home, transcript(home))


def test_probes_by_hand_end_resumable_where_time_is_used_up(home: Home, site: Path) -> None:
    with_gpu(site)
    opened = open_environment(home, str(site))
    plan = make_plan(opened, cells_of(opened, ["fp4_gemm"]))
    sha256 = Artifacts(home.artifacts).put(plan.text().encode())
    options = {"plan": sha256, "environment": str(site), "gpu_minutes": 5}
    tried: list[int] = []

    def kernels(context: Any, asked: Any) -> Any:
        tried.append(len(asked))
        real = batch_functions()["probe_kernel"]
        if len(tried) == 1:
            (first,) = real(context, asked[:1])
            # There is no time for the others: the first has its row.
            none = [one.model_copy(update={"minutes": 0.01}) for one in asked]
            _, *rest = real(context, none)
            yield from (first, *rest)
        else:
            yield from real(context, asked)

    running = probing(batches={"probe_kernel": kernels})
    done = start(home, "kernels", options, name=NAME, setting=running, driver=Prober())
    assert (done.exit_reason, done.exit_code) == ("stopped", 4)
    assert "; out of time with 5 cells left; start again to go on" in done.summary
    assert {
        one["arch"] for one in outcomes(board_of(transcript(home), Artifacts(home.artifacts)))["rows"]
    } == {"sm120"}, "they would have run where the first did"
    after = resume(home, transcript(home), setting=running)
    assert (after.exit_reason, after.exit_code) == ("answered", 0)
    assert tried == [len(plan.cells), len(plan.cells) - 1]
    sound(home, transcript(home))


def test_what_was_compiled_stands_beside_what_was_read(home: Home, site: Path, tmp_path: Path) -> None:
    """Where a gate in front of the function refuses, another architecture says which function it is."""
    (tmp_path / "made.o").write_bytes(library(fat_binary(image("sm_120a"))))
    compiling_into_its_cache(site, tmp_path)
    asked: list[tuple[str, str]] = []

    def follow(args: Any, context: Any) -> Any:
        asked.append((args.backend, args.arch))
        refused = args.backend == "dune" and args.arch == "sm120"
        verdict = Verdict.BLOCKED if refused else Verdict.NO_STATIC_OBSTACLE
        found = fake_trace(args, context, {(args.component, args.backend): verdict})
        name = "some_gate" if refused else WAYS[args.component]
        way = {"file": "", "line": 1, "text": "", "says": f"calls flashinfer.{name}"}
        return found.model_copy(update={"hops": (way,)})

    opened = open_environment(home, str(site))
    plan = make_plan(opened, modules_of(opened, SM120, ["moe_runner"], ["cutlass_fused_moe"], 1), SM120)
    sha256 = Artifacts(home.artifacts).put(plan.text().encode())
    options = {
        "plan": sha256,
        "environment": str(site),
        "trace": {"arch": "sm120", "engine": "sglang"},
        "beside": [["moe_runner", "birch"], ["moe_runner", "dune"], ["fp4_gemm", "amber"]],
        "others": ["sm90"],
    }
    tracing = Tool(**{**vars(FAKE_TRACE), "run": follow})
    running = probing({"trace_viability": tracing})
    done = start(home, "modules", options, name=NAME, setting=running, driver=Prober())
    assert done.exit_code == 0, done.summary
    assert ("dune", "sm90") in asked
    assert ("birch", "sm90") not in asked, "what is let through says itself where it leads"
    board = board_of(transcript(home), Artifacts(home.artifacts))
    found = {one["backend"]: one for one in compared(board, opened, plan.cells, "sm120")}
    assert {name: one["agrees"] for name, one in found.items()} == {
        "birch": "agrees",
        "dune": "decided earlier",
    }
    assert found["dune"]["why"] == "refused at sglang/srt/gates.py:6, in front of what compiles"
    sound(home, transcript(home))


@pytest.mark.parametrize(
    ("outcome", "verdict", "file", "agrees"),
    [
        ("ok", "no_static_obstacle", "", "agrees"),
        ("unsupported", "blocked", "loom/gates.py", "agrees"),
        ("compile_failed", "blocked", "loom/gates.py", "agrees"),
        ("ok", "blocked", "loom/gates.py", "decided earlier"),
        ("ok", "blocked", "loom/jit/moe.py", "differs"),
        ("unsupported", "no_static_obstacle", "", "differs"),
        ("ok", "unknown", "", "not decided"),
        ("ok", "rerouted", "", "not decided"),
        ("environment_suspect", "blocked", "loom/gates.py", "not decided"),
        ("not_run", "no_static_obstacle", "", "not decided"),
    ],
)
def test_compiling_and_reading_differ_only_over_what_both_decide(
    outcome: str, verdict: str, file: str, agrees: str
) -> None:
    evidence = [{"file": file, "line": 7}] if file else []
    trace = {"row": {"verdict": verdict, "evidence": evidence}}
    assert compiling({"function": "loom.jit.moe:gen_module"}, outcome, trace)[0] == agrees


def test_a_library_without_an_engine_is_compared_with_nothing(
    home: Home, site: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "made.o").write_bytes(library(fat_binary(image("sm_120a"))))
    compiling_into_its_cache(site, tmp_path)
    words = ["probe", "compile", "moe_runner", "--backend", "cutlass_fused_moe", "--arch", "sm120"]
    assert run([*words, "-e", str(site), "--no-read"]) == 0
    assert "beside reading: not compared" in capsys.readouterr().out
    assert run([*words, "-e", str(site), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [one["outcome"] for one in document["rows"]] == ["ok"]
    assert document["beside"] == [], "no backend of the engine leads there"


def test_who_resumes_it_lets_it_run_anew(home: Home, site: Path) -> None:
    done = go(home, site, policy=setting().policy)
    assert (done.exit_reason, done.exit_code) == ("stopped", 4)
    assert "go on with: agent resume --run probes" in done.summary
    assert not (home.root / "probes").exists(), "nothing ran"
    after = resume(home, transcript(home), setting=probing())
    assert rows(after)["moe_runner", "birch"].state == "refuted"


def test_killed_after_any_event_it_comes_to_the_same_end(tmp_path: Path, site: Path) -> None:
    with_gpu(site)
    first = Home(tmp_path / "first").prepare()
    undisturbed = go(first, site, {"gpu_minutes": 5})
    lines = transcript(first).read_bytes().splitlines(keepends=True)
    rung = next(n for n, one in enumerate(documents(transcript(first))) if one.get("tool") == "plan_probes")
    for count in range(rung, len(lines), 7):
        home = Home(tmp_path / f"cut-{count}").prepare()
        transcript(home).write_bytes(b"".join(lines[:count]))
        for one in first.artifacts.rglob("*"):
            if one.is_file():
                place = home.artifacts / one.relative_to(first.artifacts)
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(one.read_bytes())
        after = resume(home, transcript(home), setting=probing())
        assert rows(after).keys() == rows(undisturbed).keys()
        for name, row in rows(after).items():
            assert row.state == rows(undisturbed)[name].state, (count, name)
        assert after.summary == undisturbed.summary
        sound(home, transcript(home))


def test_the_same_question_writes_the_same_decisions(tmp_path: Path, site: Path) -> None:
    homes = [Home(tmp_path / name).prepare() for name in ("one", "two")]
    decided = []
    for home in homes:
        go(home, site)
        calls = [one for one in documents(transcript(home)) if one["kind"] == "called"]
        # What is kept of a result holds its hash, and that the seconds that it took.
        decided.append([one for one in calls if one["tool"] != "record_finding"])
    assert decided[0] == decided[1]


def test_an_environment_that_is_only_read_says_how_to_make_a_full_one(home: Home, tmp_path: Path) -> None:
    site = write_engine(tmp_path / "site")
    kernel_library(site)
    done = go(home, site)
    assert done.exit_code == 0
    assert "is only read, probes run in a full environment" in left(done.answer)
    assert "agent environment create --full flashinfer-python==9.9 sglang==9.9.0" in left(done.answer)


@pytest.mark.parametrize(
    ("bodies", "outcome"), [((True, True), "ok"), ((True, False), "ok"), ((False,), "failed")]
)
def test_kernels_that_were_compiled_to_nothing_are_told(
    bodies: tuple[bool, ...], outcome: str, home: Home, site: Path, tmp_path: Path
) -> None:
    work, end = 0x7, 0x94D
    code = {f"k{number}": [work, end] if body else [end] for number, body in enumerate(bodies)}
    (tmp_path / "made.o").write_bytes(library(fat_binary(image("sm_120a", cubin("sm_120a", code)))))
    compiling_into_its_cache(site, tmp_path)
    row = rows(go(home, site))["moe_runner", "birch"]
    assert row.observed is not None
    assert row.observed.outcome == ("ok" if outcome == "ok" else "compile_failed")
    empty = bodies.count(False)
    said = f"{len(bodies)} kernels, {empty or 'none'} of them empty"
    assert said in json.dumps(documents(transcript(home)))


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--gpu-minutes", "5"], "--gpu and --gpu-minutes are for what runs; give --run probes too"),
        (["--run", "teapots"], "teapots"),
        (["--run", "probes", "--gpu-minutes", "nan"], "nan is no number that ends"),
    ],
)
def test_wrong_options_are_said_in_a_line(
    words: list[str], says: str, home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["investigate", QUESTION, *words]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert says in line
    assert list(home.transcripts.iterdir()) == []


def test_the_screen_says_what_ran(home: Home, site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    go(home, site)
    assert run(["report", NAME]) == 0
    screen = capsys.readouterr().out
    assert "✗ moe_runner birch" in screen
    assert "compile failed (compile)" in screen
    assert "4 kernel probes need a GPU of sm120" in screen
    assert "agent probe pack fp4_gemm" in screen
    assert run(["report", NAME, "--markdown"]) == 0
    assert "no static obstacle; compile failed (compile)" in capsys.readouterr().out
