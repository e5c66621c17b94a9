"""What the viability tests share: a small engine to edit, forms of code, results kept for a whole run."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from memory.home import Home
from memory.vocabulary import Row
from tools.source.tree import SourceTree, span_sha256
from tools.viability.trace import Trace, TraceInput, trace_many

TREE = Path(__file__).parent / "tree"
"""The small engine (package ``sglang``) and its library (``minilib``), unpacked as wheels are."""

COMPONENT = "weave"
BACKENDS = ("auto", "amber", "birch", "cedar", "dune", "elm", "fern", "flax")
METHOD = "sglang/srt/layers/quantization/small.py"
WEAVE = "sglang/srt/weave.py"


@dataclass(frozen=True)
class Context:
    """The little that a tool is given."""

    home: Home

    def progress(self, text: str) -> None:
        del text


@dataclass(frozen=True)
class Engine:
    """A copy of the small engine that a test may change."""

    root: Path
    context: Context

    @classmethod
    def copy(cls, folder: Path) -> Engine:
        root = Path(shutil.copytree(TREE, folder / "tree"))
        return cls(root, Context(Home(folder / "traces").prepare()))

    def edit(self, file: str, old: str, new: str) -> None:
        """Replace ``old``, which must occur exactly once."""
        text = (self.root / file).read_text(encoding="utf-8")
        assert text.count(old) == 1, f"{file} holds {old!r} {text.count(old)} times"
        self.add(file, text.replace(old, new))

    def add(self, file: str, text: str) -> None:
        """Write a file and list it as an installer does, so that the environment is another one."""
        path = self.root / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        for record in self.root.glob(f"{file.split('/', 1)[0]}-*.dist-info/RECORD"):
            digest = hashlib.sha256(text.encode()).hexdigest()
            with record.open("a", encoding="utf-8") as lines:
                lines.write(f"{file},sha256={digest},{len(text.encode())}\n")

    def line(self, file: str, text: str) -> int:
        """Number of the only line of ``file`` that holds ``text``."""
        lines = (self.root / file).read_text(encoding="utf-8").split("\n")
        found = [number for number, line in enumerate(lines, 1) if text in line]
        assert len(found) == 1, f"{file} holds {text!r} on lines {found}"
        return found[0]

    def asking(self, backend: str, arch: str) -> TraceInput:
        return TraceInput(
            environment=str(self.root), component=COMPONENT, backend=backend, arch=arch, quantisation="nvfp4"
        )

    def trace(self, backend: str, arch: str) -> Trace:
        (trace,) = trace_many(self.context, [self.asking(backend, arch)])
        return trace

    def verdicts(self, backend: str, *archs: str) -> dict[str, str]:
        cells = [self.asking(backend, arch) for arch in archs]
        return {trace.row.arch: trace.row.verdict.value for trace in trace_many(self.context, cells)}


IMPORTS = """\
import collections
import contextlib
import dataclasses
import enum
import importlib.util
import os
import re
from typing import NamedTuple

import otherlib
"""
"""What the forms may use. ``otherlib`` is not in the tree and nobody requires it."""

ELM = "        if backend.is_elm():\n"


def forms(name: str) -> dict[str, str]:
    """Name → statements, of one file of ``forms``."""
    text = (Path(__file__).parent / "forms" / f"{name}.txt").read_text(encoding="utf-8")
    found = dict(part.split("\n", 1) for part in text.split("\n== ")[1:])
    assert len(found) == text.count("\n== "), "two forms of one name"
    return {form: body.strip("\n") for form, body in found.items()}


def before_elm(engine: Engine, body: str) -> None:
    """Put statements in front of the call that the value ``elm`` leads to, and of no other's."""
    lines = "".join(f"            {line}\n" for line in body.split("\n"))
    engine.edit(METHOD, ELM, ELM + lines)
    engine.edit(METHOD, "import torch\n", f"import torch\n{IMPORTS}")


def same_lines(row: Row, root: Path) -> None:
    """The row's evidence stands in the tree, word for word."""
    tree = SourceTree(root)
    for item in row.evidence:
        assert item.sha256 == span_sha256(tree.lines(item.file)[item.line - 1 : item.end_line])
        assert (item.package, item.version) == tree.owner(item.file)


def run_context(base: Path) -> Context:
    """A home that all workers of one test run share, so that what one has traced no other traces again.

    ``base`` is pytest's base folder; a worker of pytest-xdist has one of its own below the run's.
    """
    folder = base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base
    return Context(Home(folder / "viability-home").prepare())


@contextmanager
def only_one(context: Context, name: str) -> Iterator[None]:
    """Nobody else of this run is inside: the second finds what the first has left."""
    with (context.home.root / f"{name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def traced(context: Context, cells: Sequence[TraceInput]) -> list[Trace]:
    """Traces of ``cells``, remembered for the rest of the run."""
    with only_one(context, "traces"):
        return list(trace_many(context, list(cells)))
