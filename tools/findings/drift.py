"""What has become of lines that were cited, in the packages that are looked at now.

A line is what it is within its definition: ``return False`` stands in a hundred places. So the definition
that the span stood in is compared with the one of the same name, line by line; where that is gone, with a new
one of the same file that is much like it, or with one of the same name in another file of its package.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher, unified_diff
from pathlib import Path
from typing import NamedTuple

from memory.names import distribution
from memory.terms import Drift
from tools.findings.definitions import File, Region
from tools.source.tree import SourceError, SourceTree, span_sha256

ALIKE = 0.6
"""Share of characters that lines have in common with those that they have become, in one definition."""
ALIKE_WITHIN = 0.7
"""The same for lines that no longer stand between those that they stood between."""
MUCH_ALIKE = 0.85
"""The same where no definition of that name says that it is them."""
DIFF_LINES = 40


class Cited(NamedTuple):
    """A span as evidence names it; ``text``: its lines as they were kept, without common indentation."""

    package: str
    file: str
    line: int
    end_line: int
    sha256: str
    text: str


@dataclass(frozen=True)
class Became:
    """``file`` and ``line``: where it stands now, or what is there in its place; ``diff``: what has changed,
    as lines of a unified diff; ``because``: why it is gone, or cannot be compared."""

    drift: Drift
    file: str | None = None
    line: int | None = None
    diff: tuple[str, ...] = ()
    because: str = ""


class Files:
    """The files of a tree, each looked at once; None where there is no such text."""

    def __init__(self, tree: SourceTree) -> None:
        self.tree = tree
        self._files: dict[str, File | None] = {}
        self._names: dict[str, list[str]] | None = None

    def get(self, name: str) -> File | None:
        if name not in self._files:
            try:
                self._files[name] = File(self.tree.lines(name))
            except SourceError:
                self._files[name] = None
        return self._files[name]

    def named(self, base: str) -> list[str]:
        """The files of that name, wherever they are."""
        if self._names is None:
            self._names = {}
            for folder, _, names in os.walk(self.tree.root):
                for name in names:
                    if name.endswith(".py"):
                        self._names.setdefault(name, []).append(
                            Path(folder, name).relative_to(self.tree.root).as_posix()
                        )
        return self._names.get(base, [])

    def standing(self, lines: Iterable[str]) -> dict[tuple[str, str], list[tuple[str, int]]]:
        """Package and line → where it stands in the Python files of that package. All of them are read."""
        wanted = {line.encode() for line in lines if line}
        found: dict[tuple[str, str], list[tuple[str, int]]] = {}
        for folder, _, names in os.walk(self.tree.root):
            for name in sorted(names):
                if not name.endswith(".py"):
                    continue
                path = Path(folder) / name
                try:
                    stands = [
                        (at, text)
                        for at, line in enumerate(path.read_bytes().splitlines())
                        if (text := line.strip()) in wanted
                    ]
                except OSError:
                    continue
                if stands:
                    file = path.relative_to(self.tree.root).as_posix()
                    package = distribution(self.tree.owner(file)[0])
                    for at, text in stands:
                        found.setdefault((package, text.decode()), []).append((file, at))
        return found


class Drifts:
    """What became of spans in the packages of ``now``. The same question is answered once."""

    def __init__(self, now: SourceTree, spans: Iterable[Cited] = ()) -> None:
        """``spans``: those that will be asked for: other files are looked through once for all of them."""
        self._now = Files(now)
        self._packages = {distribution(name) for name in now.packages}
        self._known: dict[tuple[object, ...], Became] = {}
        self._first = {_first(span.text.split("\n")) for span in spans}
        self._standing: dict[tuple[str, str], list[tuple[str, int]]] | None = None

    def of(self, cited: Cited, before: Files | None) -> Became:
        """``before``: the packages that it is cited of, where they are here."""
        key = (*cited[:5], id(before) if before is not None else None)
        if key not in self._known:
            self._known[key] = self._find(cited, before)
        return self._known[key]

    def _find(self, cited: Cited, before: Files | None) -> Became:
        if distribution(cited.package) not in self._packages:
            return Became(Drift.NOT_COMPARABLE, because=f"there is no {cited.package} to compare with")
        old = before.get(cited.file) if before is not None else None
        first = cited.line - 1
        if old is not None and span_sha256(old.lines[first : cited.end_line]) != cited.sha256:
            old = None  # not what was read then
        span = cited.text.split("\n") if old is None else old.lines[first : cited.end_line]
        new = self._now.get(cited.file)
        if new is None:
            return self._file_gone(cited, span, old)
        there = span_sha256(new.lines[first : cited.end_line]) == cited.sha256
        if old is None:
            return Became(Drift.SAME, cited.file, cited.line) if there else _in_file(cited, span, new)
        # What stands before it is the same too: so is what it stands in.
        if there and old.lines[: cited.end_line] == new.lines[: cited.end_line]:
            return Became(Drift.SAME, cited.file, cited.line)
        name = old.owner(first)
        if there and name == new.owner(first):
            return Became(Drift.SAME, cited.file, cited.line)
        if name is None:
            return _aligned(cited, old, new, Region(0, len(old.lines)), Region(0, len(new.lines)))
        was, region = old.definitions[name], new.definitions.get(name)
        if region is not None:
            return _aligned(cited, old, new, was, region)
        fresh = {one: new.definitions[one] for one in new.definitions if one not in old.definitions}
        body = _stripped(old.lines[was.start : was.end])
        alike = [(_ratio(_stripped(new.lines[at.start : at.end]), body), at) for at in fresh.values()]
        ratio, region = max(alike, default=(0.0, Region(0, 0)))
        if ratio > MUCH_ALIKE:
            return _aligned(cited, old, new, was, region)
        return self._elsewhere(cited, span, f"{name} is gone", name)

    def _file_gone(self, cited: Cited, span: Sequence[str], old: File | None) -> Became:
        """What became of lines whose file is gone: one of its name elsewhere may hold their definition."""
        because = f"{cited.file} is gone"
        owner = old.owner(cited.line - 1) if old is not None else None
        if old is not None and owner is not None:
            base = cited.file.rpartition("/")[2]
            homes = [
                (name, file)
                for name in self._now.named(base)
                if (file := self._now.get(name)) is not None and owner in file.definitions
            ]
            if len(homes) == 1:
                name, file = homes[0]
                found = _aligned(cited, old, file, old.definitions[owner], file.definitions[owner])
                moved = Drift.MOVED if found.drift is Drift.SAME else found.drift
                return replace(found, drift=moved, file=name if found.file else None)
        return self._elsewhere(cited, span, because, owner)

    def _elsewhere(self, cited: Cited, span: Sequence[str], because: str, owner: str | None = None) -> Became:
        """Whether the lines stand in just one other file of their package; ``owner``: in what definition."""
        line = _first(span)
        if self._standing is None or line not in self._first:
            self._first.add(line)
            self._standing = self._now.standing(self._first)
        found = []
        for name, at in self._standing.get((distribution(cited.package), line), ()):
            file = self._now.get(name)
            if file is None or name == cited.file or not _stands(span, file.lines, at):
                continue
            if owner is None or file.owner(at) == owner:
                found.append((name, at))
        if len(found) == 1:
            return Became(Drift.MOVED, found[0][0], found[0][1] + 1)
        return Became(Drift.GONE, because=because)


def _aligned(cited: Cited, old: File, new: File, was: Region, region: Region) -> Became:
    """What became of the span when the lines of ``was`` became those of ``region``."""
    span = old.lines[cited.line - 1 : cited.end_line]
    before = [line.strip() for line in old.lines[was.start : was.end]]
    after = [line.strip() for line in new.lines[region.start : region.end]]
    first = cited.line - 1 - was.start
    last = first + len(span)
    steps = SequenceMatcher(a=before, b=after).get_opcodes()
    touched = [op for op in steps if op[1] < last and max(op[2], op[1] + 1) > first]
    if [op[0] for op in touched] == ["equal"]:
        at = region.start + touched[0][3] + first - touched[0][1]
        return Became(Drift.SAME if at == cited.line - 1 else Drift.MOVED, cited.file, at + 1)
    # Lines that are there once before and after have been moved within their definition.
    places = list(_places(span, new.lines, region))
    if len(places) == 1 and len(list(_places(span, old.lines, was))) == 1:
        return Became(Drift.MOVED, cited.file, places[0] + 1)
    start = min(op[3] + (max(0, first - op[1]) if op[0] == "equal" else 0) for op in touched)
    end = max(op[4] - (max(0, op[2] - last) if op[0] == "equal" else 0) for op in touched)
    now = Region(region.start + start, region.start + max(start, end))
    gone = "these lines were taken out of its definition"
    found = _alike(cited, span, new.lines, now, gone)
    return (
        found if found.drift is Drift.CHANGED else _alike(cited, span, new.lines, region, gone, ALIKE_WITHIN)
    )


def _in_file(cited: Cited, span: Sequence[str], new: File) -> Became:
    whole = Region(0, len(new.lines))
    places = list(_places(span, new.lines, whole))
    if not places:
        return _alike(cited, span, new.lines, whole, "no lines like it are left", MUCH_ALIKE)
    at = min(places, key=lambda place: abs(place - cited.line + 1))
    return Became(Drift.SAME if at == cited.line - 1 else Drift.MOVED, cited.file, at + 1)


def _alike(
    cited: Cited,
    span: Sequence[str],
    new: Sequence[str],
    region: Region,
    otherwise: str,
    ratio: float = ALIKE,
) -> Became:
    """The lines of ``region`` that the span has become, by what they have in common; gone where none has."""
    matcher = SequenceMatcher(None, "", "", autojunk=False)
    matcher.set_seq2(_stripped(span))
    best: Region | None = None
    whole = region.end - region.start
    # A line is often broken into several when something is added to it.
    sizes = {len(span) + more for more in range(4) if len(span) + more <= whole}
    sizes |= {whole} if whole <= 2 * len(span) else set()
    for size in sorted(sizes):
        for at in range(region.start, region.end - size + 1):
            matcher.set_seq1(_stripped(new[at : at + size]))
            if (
                matcher.real_quick_ratio() > ratio
                and matcher.quick_ratio() > ratio
                and matcher.ratio() > ratio
            ):
                best, ratio = Region(at, at + size), matcher.ratio()
    if best is None:
        return Became(Drift.GONE, because=otherwise)
    diff = list(unified_diff(list(span), list(new[best.start : best.end]), lineterm="", n=2))[2:]
    return Became(Drift.CHANGED, cited.file, best.start + 1, tuple(diff[:DIFF_LINES]))


def _first(span: Sequence[str]) -> str:
    return span[0].strip()


def _places(span: Sequence[str], lines: Sequence[str], region: Region) -> Iterator[int]:
    first = _first(span)
    for at in range(region.start, region.end):
        if lines[at].strip() == first and _stands(span, lines, at):
            yield at


def _stands(span: Sequence[str], lines: Sequence[str], at: int) -> bool:
    """Whether the span stands at a place, if need be with another indentation."""
    return [one.strip() for one in lines[at : at + len(span)]] == [one.strip() for one in span]


def _stripped(lines: Sequence[str]) -> str:
    return "\n".join(line.strip() for line in lines)


def _ratio(one: str, other: str) -> float:
    matcher = SequenceMatcher(None, one, other, autojunk=False)
    return matcher.ratio() if matcher.quick_ratio() > MUCH_ALIKE else 0.0
