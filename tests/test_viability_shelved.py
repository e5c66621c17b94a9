"""Bodies of functions that are kept as text until they are used are what they were, on their lines."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator

from viability_fixtures.support import BACKENDS, COMPONENT, TREE

from tools.source.tree import SourceTree
from tools.viability.analysis import Analysis, with_stack
from tools.viability.cell import Cell
from tools.viability.interpreter.shelved import SHORT, Body, shelve

LONG = "\n".join(f"    line{number} = {number}" for number in range(SHORT + 1))
DEEP = LONG.replace("    ", "        ")
DOCSTRING = '    """Says.\n\nwhat it does\n    """\n'
INNER = "    @wraps(\n        a\n    )\n    def g():\n        yield 1\n"
AWAITING = "    async with a as b:\n        await b\n    return [c async for c in b]\n"
OUTER = "    def g():\n        nonlocal a\n        a = yield a\n"
FORMS = {
    "plain": f"def f(a):\n{LONG}\n",
    "after other things": f"import x\n\n\nx.y = 1\ndef f(a):\n{LONG}\nz = f\n",
    "docstring first": f"def f(a):\n{DOCSTRING}{LONG}\n    return 1  # done\n",
    "a function first, decorated": f"def f(a):\n{INNER}{LONG}\n",
    "a comment first": f"def f(a):  # why\n    # what\n\n    # more\n{LONG}\n\n\n",
    "long head": f"@d\ndef f(\n    a: int = 1,\n    *b,\n) -> tuple[\n    int\n]:\n{LONG}\n",
    "async": f"async def f(a):\n{LONG}\n{AWAITING}",
    "names of others": f"def f(a):\n    global q\n{LONG}\n{OUTER}",
    "methods": f"class A(B):\n    x = 1\n    def f(self):\n{DEEP}\n    y = 2\n",
    "on a side": f"if x:\n    def f():\n{DEEP}\nelse:\n    f = 1\n",
    "in a try": f"try:\n    a\nexcept E:\n    b\nelse:\n    def f():\n{DEEP}\n",
    "tabs": f"def f(a):\n{LONG.replace('    ', chr(9))}\n",
    "text that looks like an end": f"def f(a):\n{LONG}\n    return '''\ndef g():\n  pass\n'''\n",
    "odd escapes": f"def f(a):\n{LONG}\n    return '\\d'\n",
    "continued lines": f"def f(a):\n{LONG}\n    return a + \\\n1\n",
}
MANY = "1,\n" * 20
STAYING = {
    "short": "def f(a):\n    return 1\n",
    "on the line of the head": f"def f(a): x = 1; y = [{MANY}]\n",
    "after a continued head": f"def f(a): \\\n  x = 1; y = [{MANY}]\n",
}


def bodies(tree: ast.Module) -> Iterator[Body]:
    todo: list[ast.stmt] = [*tree.body]
    while todo:
        statement = todo.pop()
        body = getattr(statement, "body", [])
        if isinstance(body, Body):
            yield body
        else:
            todo += [*body, *getattr(statement, "orelse", []), *getattr(statement, "finalbody", [])]


def test_a_body_that_is_looked_into_is_what_it_was() -> None:
    for name, text in (FORMS | STAYING).items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
        before = ast.dump(tree, include_attributes=True)
        shelve(tree.body, text.split("\n"))
        found = list(bodies(tree))
        assert len(found) == (name in FORMS), name
        assert all(list.__len__(body) == 0 for body in found), f"{name}: it was read at once"
        assert ast.dump(tree, include_attributes=True) == before, name
        for body in found:
            assert (len(body), body[0], body[-1]) == (len([*body]), next(iter(body)), next(reversed(body)))
            assert bool(body)
            assert body[0] in body


def test_cells_come_out_the_same_whatever_of_the_sources_is_kept_as_text() -> None:
    def judged(*, lean: bool) -> list[object]:
        analysis = Analysis(SourceTree(TREE), "sglang")
        analysis.world.lean = lean
        scenario = analysis.scenario(COMPONENT, "nvfp4", {})
        cells = [Cell(COMPONENT, backend, arch) for arch in ((8, 0), (12, 0)) for backend in BACKENDS]
        found = [analysis.judge(cell, scenario) for cell in cells]
        kept = [body for module in analysis.world._modules.values() if module for body in bodies(module.tree)]
        assert bool(kept) is lean
        return [(one.row, one.hops, one.notes) for one in found]

    assert with_stack(lambda: judged(lean=True)) == with_stack(lambda: judged(lean=False))
