"""A version that the analyser does not fit, and an error of the analyser's own, give no verdict."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from viability_fixtures.support import BACKENDS, METHOD, WEAVE, Engine

from agent.cli.main import cli
from memory.vocabulary import Verdict
from tools.viability.interpreter.dispatch import EXPRESSIONS
from tools.viability.trace import Trace, trace_many

ARCHS = ("sm90", "sm120")


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    return Engine.copy(tmp_path)


def everything(engine: Engine) -> list[Trace]:
    cells = [engine.asking(backend, arch) for backend in BACKENDS for arch in ARCHS]
    return list(trace_many(engine.context, cells))


def in_every_file(engine: Engine, old: str, new: str) -> None:
    for path in engine.root.rglob("*.py"):
        path.write_text(path.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")


READ = "        backend = get_weave_backend()\n"
REFUSED = "        if backend.is_dune() or get_device_capability()[0] < 99:\n            raise ValueError\n"

UNLIKE: dict[str, tuple[Callable[[Engine], None], str]] = {
    "the option is never read": (
        lambda engine: engine.edit(WEAVE, "backend = server_args.weave_backend", 'backend = "amber"'),
        "--weave-backend was never seen being read",
    ),
    "a layer asks for its method by another name": (
        lambda engine: in_every_file(engine, "get_quant_method", "obtain_method"),
        "--weave-backend was never seen being read",
    ),
    "quantisations are looked up by another name": (
        lambda engine: in_every_file(engine, "get_quantization_config", "configuration_for"),
        "get_quantization_config, which knows quantisations, was not found",
    ),
    "every device is refused": (
        lambda engine: engine.edit(METHOD, READ, f"{READ}{REFUSED}"),
        "no value of --weave-backend gets through on any common architecture",
    ),
}


def test_the_small_engine_fits(engine: Engine) -> None:
    assert not [note for trace in everything(engine) for note in trace.notes if "does not fit" in note]


@pytest.mark.parametrize("how", UNLIKE)
def test_of_a_version_that_it_does_not_fit_the_analyser_says_nothing(engine: Engine, how: str) -> None:
    change, why = UNLIKE[how]
    change(engine)
    for trace in everything(engine):
        assert trace.row.verdict is Verdict.UNKNOWN
        assert trace.notes == (f"the analyser does not fit this version: {why}",)


def test_an_engine_that_declares_nothing_as_expected_is_no_empty_answer(engine: Engine) -> None:
    (engine.root / "sglang/srt/server_args.py").write_text("class ServerArgs:\n    pass\n", encoding="utf-8")
    for more in ([], ["--component", "weave"]):
        ran = CliRunner().invoke(cli, ["backends", "-e", str(engine.root), "--arch", "sm90", *more])
        assert ran.exit_code != 0
        assert "the analyser does not fit this version" in str(ran.exception)
        assert "\n" not in str(ran.exception)


@pytest.mark.parametrize("error", [KeyError("ours"), AttributeError("ours"), RuntimeError("ours")])
def test_an_error_of_the_analyser_is_told_and_decides_nothing(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    plain = [trace.row.verdict for trace in everything(engine)]
    assert Verdict.BLOCKED in plain
    handler = EXPRESSIONS[ast.Compare]

    def fails(m: Any, node: ast.Compare, frame: Any) -> Any:
        if "nvfp4" in ast.unparse(node) or "server_args" in frame.locals:
            raise error
        return handler(m, node, frame)

    monkeypatch.setitem(EXPRESSIONS, ast.Compare, fails)
    engine.add("sglang/other.py", "")  # another environment: nothing of it is remembered
    traces = everything(engine)
    assert [trace.row.verdict for trace in traces] == [Verdict.UNKNOWN] * len(traces)
    assert all(trace.notes[0].startswith("the analyser failed here: ") for trace in traces)
    monkeypatch.undo()
    assert [trace.row.verdict for trace in everything(engine)] == plain, "an accident was remembered"
