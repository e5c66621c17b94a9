"""Comprehensions and generator expressions: run at once, over what is known."""

from __future__ import annotations

import ast
from typing import Any

from tools.viability.interpreter.assignments import assign
from tools.viability.interpreter.dispatch import evaluate, expression
from tools.viability.interpreter.items import elements
from tools.viability.interpreter.machine import Machine
from tools.viability.interpreter.records import Frame
from tools.viability.interpreter.truth import deep, truth
from tools.viability.interpreter.values import CLEAN, UNKNOWN, Taint, bare, taint


@expression(ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
def _comprehension(m: Machine, node: Any, frame: Frame) -> Any:
    inner = Frame(frame.module, {}, parent=frame, function=frame.function, owner=frame.owner, base=frame.base)
    out: list[Any] = []
    depends = CLEAN
    lost = unsure = False

    def loop(level: int) -> None:
        nonlocal depends, lost, unsure
        if level == len(node.generators):
            if isinstance(node, ast.DictComp):
                out.append((evaluate(m, node.key, inner), evaluate(m, node.value, inner)))
            else:
                out.append(evaluate(m, node.elt, inner))
            return
        generator = node.generators[level]
        over = evaluate(m, generator.iter, inner if level else frame)
        items, t = elements(m, over)
        depends = depends | Taint(t.kinds, t.sites)
        if items is None and isinstance(node, ast.ListComp) and isinstance(bare(over), list):
            items, lost = bare(over), True  # of its items some are known
        if items is None:
            unsure = True
            return
        for item in items:
            assign(m, generator.target, item, inner)
            keep = True
            for test in generator.ifs:
                decided, why = truth(m, evaluate(m, test, inner))
                depends = depends | why
                if decided is None:
                    unsure = True
                    keep = False
                elif not decided:
                    keep = False
                if not keep:
                    break
            if keep:
                loop(level + 1)

    loop(0)
    if unsure:
        return taint(UNKNOWN, depends)
    if isinstance(node, ast.DictComp):
        try:
            return taint({deep(key)[0]: value for key, value in out}, depends)
        except TypeError:
            return UNKNOWN
    if isinstance(node, ast.SetComp):
        try:
            return taint({deep(item)[0] for item in out}, depends)
        except TypeError:
            return UNKNOWN
    if lost:
        m.lose(out)
    return taint(m.made(out), depends)
