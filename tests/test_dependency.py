"""A version of a library that does not have what the engine asks of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from viability_fixtures.support import METHOD, Engine

from memory.vocabulary import Because, Verdict

ELM = 'return mm_small(x, layer.weight, backend="e")'
GEMM = "minilib/gemm.py"


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    return Engine.copy(tmp_path)


def test_a_keyword_that_the_library_does_not_have_is_a_refusal_of_the_dependency(engine: Engine) -> None:
    """Through the library's own decorators, which take anything and bind it to the signature."""
    engine.edit(METHOD, ELM, 'return mm_small(x, layer.weight, backend="e", fast=True)')
    row = engine.trace("elm", "sm100").row
    assert (row.verdict, row.because) == (Verdict.BLOCKED, Because.DEPENDENCY)
    assert row.evidence[0].file == GEMM
    assert row.evidence[0].text.startswith("def mm_small(a, b")
    assert row.evidence[1].text == 'return mm_small(x, layer.weight, backend="e", fast=True)'
    assert "unexpected keyword argument 'fast'" in engine.trace("elm", "sm100").notes[0]
    assert engine.trace("amber", "sm100").row.verdict is Verdict.NO_STATIC_OBSTACLE


def test_a_library_that_has_it_is_no_obstacle(engine: Engine) -> None:
    engine.edit(METHOD, ELM, 'return mm_small(x, layer.weight, backend="e", fast=True)')
    engine.edit(GEMM, 'def mm_small(a, b, backend="a"):', 'def mm_small(a, b, backend="a", fast=False):')
    for name in ("_common_requirement", "_birch_requirement", "_shapes"):
        engine.edit(GEMM, f'def {name}(a, b, backend="a"):', f'def {name}(a, b, backend="a", **others):')
    assert engine.trace("elm", "sm100").row.verdict is Verdict.NO_STATIC_OBSTACLE


def test_a_plain_function_is_asked_by_its_own_signature(engine: Engine) -> None:
    call = "from minilib import mm_plain\n            return mm_plain(x, layer.weight, fast=True)"
    engine.edit(METHOD, ELM, call)
    assert engine.trace("elm", "sm100").row.because is Because.DEPENDENCY
    engine.edit(GEMM, "def mm_plain(a, b):", "def mm_plain(a, b, **options):")
    assert engine.trace("elm", "sm100").row.verdict is Verdict.NO_STATIC_OBSTACLE


def test_who_asks_only_for_some_versions_is_not_refused(engine: Engine) -> None:
    """An attempt that is caught, and a keyword that is handed on only where it is known."""
    engine.edit(
        METHOD,
        ELM,
        "try:\n"
        '                return mm_small(x, layer.weight, backend="e", fast=True)\n'
        "            except TypeError:\n"
        '                return mm_small(x, layer.weight, backend="e")',
    )
    assert engine.trace("elm", "sm100").row.verdict is Verdict.NO_STATIC_OBSTACLE


def test_a_function_that_the_library_does_not_have_is_a_refusal_of_the_dependency(engine: Engine) -> None:
    engine.edit(METHOD, ELM, "from minilib import mm_new\n            return mm_new(x, layer.weight)")
    row = engine.trace("elm", "sm100").row
    assert (row.verdict, row.because) == (Verdict.BLOCKED, Because.DEPENDENCY)
