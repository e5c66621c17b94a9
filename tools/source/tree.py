"""Reading an environment's files: the one place where a path turns into text or into evidence.

An environment's packages lie unpacked in one folder (a ``site-packages`` shape). Nothing in it is
ever imported or executed; files are opened read-only and paths cannot leave the folder.
"""

from __future__ import annotations

import csv
import textwrap
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from memory.canonical import text_sha256
from memory.names import distribution, few

if TYPE_CHECKING:
    from memory.vocabulary import Evidence

TEXT_LIMIT = 600
"""Characters of source kept in an evidence's ``text``; the hash is over all of the span."""

WITHIN = "::"
"""Between a compiled file and the name of an operator in it."""

COMPILED = (b"\x7fELF", (0xBA55ED50).to_bytes(4, "little"))
"""How libraries and fat binaries begin."""

READ_LIMIT = 16 << 20
"""Bytes of one file. What is larger is data, and no person or program here reads it as text."""


class SourceError(Exception):
    """A path or a span that is not in the tree. The message names what was asked and what there is."""


def span_sha256(lines: list[str]) -> str:
    """Hash of source lines as evidence states it: UTF-8, joined with a newline, none after the last."""
    return text_sha256("\n".join(lines))


def decode(data: bytes) -> str:
    """Source bytes as text: a BOM is dropped, bytes that are no UTF-8 become U+FFFD, newlines are ``\\n``."""
    text = data.decode("utf-8-sig", errors="replace")
    return text.replace("\r\n", "\n").replace("\r", "\n")


class SourceTree:
    """The unpacked packages of one environment.

    ``packages`` maps a distribution name to its version; which files are whose is read from the
    ``RECORD`` of each ``*.dist-info``. A file has one name: relative, with ``/``, no ``..``, no link on the
    way. What is hidden (a name that begins with a dot) is no part of an environment: an adopted folder may
    hold keys and settings beside its packages.
    """

    def __init__(self, root: Path, packages: dict[str, str] | None = None) -> None:
        self.root = root.resolve()
        if not self.root.is_dir():
            raise SourceError(f"no folder {root}")
        self.packages = dict(packages) if packages is not None else _installed(self.root)
        self._lines: dict[str, list[str]] = {}
        self._names: dict[str, str] = {}
        self._spans: dict[tuple[str, int, int], Evidence] = {}

    @cached_property
    def owners(self) -> dict[str, str]:
        """Top-level name in the folder → distribution name; for a name that several share also each file."""
        found: dict[str, str] = {}
        shared: set[str] = set()
        files: list[tuple[str, str, str]] = []
        for info in sorted(self.root.glob("*.dist-info")):
            name = name_of_info(info)
            for file in recorded_files(info / "RECORD"):
                top = file.split("/", 1)[0]
                if top in ("", "..") or top.endswith(".dist-info"):
                    continue
                files.append((top, file, name))
                if found.setdefault(top, name) != name:
                    shared.add(top)
        return found | {file: name for top, file, name in files if top in shared}

    def owner(self, file: str) -> tuple[str, str]:
        """Distribution and version that ``file`` (its one name) belongs to."""
        top = file.split("/", 1)[0]
        name = self.owners.get(file.partition(WITHIN)[0]) or self.owners.get(top, top)
        for given, version in self.packages.items():
            if distribution(given) == distribution(name):
                return given, version
        return name, "unknown"

    def resolve(self, file: str) -> Path:
        """The real path of ``file``; refuses what leaves the tree, links included, and what is hidden.

        Of an operator in a compiled file (``FILE::OPERATOR``) it is that of the file.
        """
        path = (self.root / file.partition(WITHIN)[0]).resolve()
        if path != self.root and self.root not in path.parents:
            raise SourceError(f"{file!r} is outside the environment")
        if any(part.startswith(".") for part in path.relative_to(self.root).parts):
            raise SourceError(f"{file!r} is hidden, which no part of an environment is")
        if not path.exists():
            raise SourceError(f"no {file!r} in the environment ({few(sorted(self.packages)) or 'empty'})")
        return path

    def name_of(self, file: str) -> str:
        """The one name of a file that may be given by another. Raises :class:`SourceError`."""
        if file not in self._names:
            _, within, part = file.partition(WITHIN)
            self._names[file] = self.resolve(file).relative_to(self.root).as_posix() + within + part
        return self._names[file]

    def lines(self, file: str) -> list[str]:
        """All lines of a text file, without their ends; of compiled code, its or its operator's listing."""
        if file not in self._lines:
            path = self.resolve(file)
            if not path.is_file():
                raise SourceError(f"{file!r} is a {'folder' if path.is_dir() else 'device'}, not a file")
            if is_compiled(path):
                self._lines[file] = _listing(path, file.partition(WITHIN)[2])
                return self._lines[file]
            if (size := path.stat().st_size) > READ_LIMIT:
                raise SourceError(f"{file!r} has {size} bytes; at most {READ_LIMIT} are read as text")
            self._lines[file] = decode(path.read_bytes()).split("\n")
        return self._lines[file]

    def evidence(self, file: str, line: int, end_line: int | None = None, *, idiom: str) -> Evidence:
        """Lines ``line``..``end_line`` (1-based, inclusive) of ``file`` as evidence, under its one name."""
        end = line if end_line is None else end_line
        file = self.name_of(file)
        lines = self.lines(file)
        if not 1 <= line <= end <= len(lines):
            raise SourceError(f"{file} has {len(lines)} lines, not {line}-{end}")
        # One line may be cited for thousands of values that stand on it.
        if (file, line, end) not in self._spans:
            self._spans[file, line, end] = self._span(file, line, end)
        return self._spans[file, line, end].model_copy(update={"idiom": idiom})

    def _span(self, file: str, line: int, end: int) -> Evidence:
        from memory.vocabulary import Evidence  # pydantic: not for those who only ask what is installed

        span = self.lines(file)[line - 1 : end]
        package, version = self.owner(file)
        text = textwrap.dedent("\n".join(span)).strip("\n")
        return Evidence(
            package=package,
            version=version,
            file=file,
            line=line,
            end_line=end,
            sha256=span_sha256(span),
            text=text if len(text) <= TEXT_LIMIT else text[: TEXT_LIMIT - 1] + "…",
            idiom="",
        )


def _listing(path: Path, operator: str) -> list[str]:
    from tools.binaries.elf import BinaryError  # late: few files are compiled
    from tools.binaries.listing import listing

    try:
        return listing(path, operator or None)
    except BinaryError as error:
        raise SourceError(str(error)) from error


def is_compiled(path: Path) -> bool:
    """Whether a plain file begins as compiled code does."""
    try:
        if not path.is_file():
            return False
        with path.open("rb") as file:
            return file.read(4) in COMPILED
    except OSError:
        return False


def read_head(path: Path, limit: int = READ_LIMIT) -> str:
    """The first ``limit`` bytes of a file as text; empty where it is none or cannot be read."""
    try:
        if not path.is_file():
            return ""
        with path.open("rb") as file:
            return decode(file.read(limit))
    except OSError:
        return ""


def name_of_info(info: Path) -> str:
    """The distribution that a ``*.dist-info`` folder is of, as it writes its name."""
    for line in read_head(info / "METADATA").splitlines():
        if line.startswith("Name:"):
            return line[5:].strip()
        if not line:
            break
    return info.name.removesuffix(".dist-info").rsplit("-", 1)[0]


def recorded_files(record: Path) -> list[str]:
    """What a ``RECORD`` lists, relative to the folder of packages; empty where it cannot be read."""
    try:
        return [row[0] for row in csv.reader(read_head(record).splitlines()) if row]
    except csv.Error:
        return []


def _installed(root: Path) -> dict[str, str]:
    return {
        name_of_info(info): info.name.removesuffix(".dist-info").rsplit("-", 1)[1]
        for info in sorted(root.glob("*.dist-info"))
        if "-" in info.name.removesuffix(".dist-info")
    }
