"""Whatever code does with a fact of the scenario, what comes of it is noted, or remembers how it came about.

For every expression listed: two scenarios that answer alike what it asked get the same value, and a value
that is not plain is what its way of coming about says in both.
"""

from __future__ import annotations

import ast
import itertools
from pathlib import Path
from typing import Any

import pytest
from viability_fixtures.support import COMPONENT, TREE

from tools.source.tree import SourceTree
from tools.viability.analysis import Analysis, with_stack
from tools.viability.facts import Facts
from tools.viability.interpreter.asked import Number, Word, as_plain, whole
from tools.viability.interpreter.dispatch import evaluate
from tools.viability.interpreter.machine import Machine
from tools.viability.interpreter.modules import Module
from tools.viability.interpreter.records import Frame
from tools.viability.interpreter.values import EnumMember, Native, Raised, Tensor, Unknown, bare

SCENARIOS = tuple(
    itertools.product(("amber", "birch", "elm"), ((8, 0), (8, 9), (9, 0), (10, 0), (10, 3), (12, 0), (12, 1)))
)
IMPORTS = "import math, operator, os, re, torch, packaging.version"
EXPRESSIONS = (
    (Path(__file__).parent / "viability_fixtures" / "expressions.txt")
    .read_text(encoding="utf-8")
    .splitlines()
)


@pytest.fixture(scope="module")
def analysis() -> Analysis:
    return Analysis(SourceTree(TREE), "sglang")


def evaluated(analysis: Analysis, text: str, backend: str, arch: tuple[int, int]) -> tuple[Any, Facts]:
    """The value of an expression on the numbers of a device and the value of an option, and who was asked."""
    option = analysis.option(COMPONENT)
    assert option is not None
    facts = analysis.remembered.facts(option, backend, arch, analysis.scenario(COMPONENT, "nvfp4", {}))
    m = Machine(analysis.world, facts)
    module = Module(
        "expressions",
        "expressions.py",
        ast.parse("import math, operator, os, re, torch, packaging.version"),
        False,
    )
    device = facts.call_external(m, "torch.cuda.get_device_capability", [], {}, None, None)
    frame = Frame(module, {"major": device[0], "minor": device[1], "value": facts.under_test()})
    try:
        return evaluate(m, ast.parse(text, mode="eval").body, frame), facts
    except Raised as error:
        return whole(error.record.message) if error.record is not None else None, facts


def shown(value: Any, answers: dict[str, Any]) -> str:
    """A value as it would be in the scenario of these answers."""
    value = bare(value)
    if isinstance(value, (Number, Word)):
        return repr(value.how.under(answers))
    if isinstance(value, (list, tuple)):
        return f"{type(value).__name__}{[shown(item, answers) for item in value]}"
    if isinstance(value, (set, frozenset)):
        return f"{type(value).__name__}{sorted(shown(item, answers) for item in value)}"
    if isinstance(value, dict):
        return str({shown(key, answers): shown(item, answers) for key, item in value.items()})
    if isinstance(value, Tensor):
        return shown(value.shape, answers)
    if isinstance(value, Unknown) and value.fact is not None:
        return f"unknown {shown(value.fact, answers)}"
    return value.name if isinstance(value, (Native, EnumMember)) else repr(value)


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_what_is_asked_alike_comes_out_alike(analysis: Analysis, text: str) -> None:
    def check() -> None:
        found = [(evaluated(analysis, text, *scenario), scenario) for scenario in SCENARIOS]
        for (value, facts), _ in found:
            for (other, elsewhere), _ in found:
                answers = elsewhere.answers()
                if all(question.under(answers) == answer for question, answer in facts.asked.items()):
                    assert facts.asked == elsewhere.asked
                    assert shown(value, answers) == shown(other, answers)

    with_stack(check)


def test_tests_of_sizes_do_not_tell_devices_apart_that_pass_them_alike(analysis: Analysis) -> None:
    for text in ("(major, minor) >= (9, 0)", "major in (9, 10, 12)", "major * 10 + minor >= 90"):
        asked = [evaluated(analysis, text, "elm", arch)[1].asked for arch in ((9, 0), (10, 3), (12, 0))]
        assert asked[0] == asked[1] == asked[2] != evaluated(analysis, text, "elm", (8, 9))[1].asked


def test_a_plain_value_stays_what_it_is() -> None:
    assert [as_plain(value) for value in (9, "x", None, (1,))] == [9, "x", None, (1,)]
