"""Reading an environment's files: the one place where a path turns into text or into evidence.

An environment's packages lie unpacked in one folder (a ``site-packages`` shape). Nothing in it is
ever imported or executed; files are opened read-only and paths cannot leave the folder.
"""

from __future__ import annotations

import hashlib
import textwrap
from functools import cached_property
from pathlib import Path

from memory.vocabulary import Evidence

TEXT_LIMIT = 600
"""Characters of source kept in an evidence's ``text``; the hash is over all of the span."""


class SourceError(Exception):
    """A path or a span that is not in the tree. The message names what was asked and what there is."""


def span_sha256(lines: list[str]) -> str:
    """Hash of source lines as evidence states it: UTF-8, joined with a newline, none after the last."""
    return hashlib.sha256("\n".join(lines).encode("utf-8", "surrogatepass")).hexdigest()


def decode(data: bytes) -> str:
    """Source bytes as text: a BOM is dropped, bytes that are no UTF-8 become U+FFFD, newlines are ``\\n``."""
    text = data.decode("utf-8-sig", errors="replace")
    return text.replace("\r\n", "\n").replace("\r", "\n")


class SourceTree:
    """The unpacked packages of one environment.

    ``packages`` maps a distribution name to its version; which files are whose is read from the
    ``RECORD`` of each ``*.dist-info``.
    """

    def __init__(self, root: Path, packages: dict[str, str] | None = None) -> None:
        self.root = root.resolve()
        if not self.root.is_dir():
            raise SourceError(f"no folder {root}")
        self.packages = dict(packages) if packages is not None else _installed(self.root)
        self._lines: dict[str, list[str]] = {}

    @cached_property
    def owners(self) -> dict[str, str]:
        """Top-level name in the folder → distribution name."""
        found: dict[str, str] = {}
        for info in sorted(self.root.glob("*.dist-info")):
            name = _name_of(info)
            record = info / "RECORD"
            if not record.is_file():
                continue
            for line in decode(record.read_bytes()).splitlines():
                top = line.split(",", 1)[0].strip('"').split("/", 1)[0]
                if top and top != ".." and not top.endswith(".dist-info"):
                    found.setdefault(top, name)
        return found

    def owner(self, file: str) -> tuple[str, str]:
        """Distribution and version that ``file`` (relative, with ``/``) belongs to."""
        top = file.split("/", 1)[0]
        name = self.owners.get(top, top)
        for given, version in self.packages.items():
            if _normal(given) == _normal(name):
                return given, version
        return name, "unknown"

    def resolve(self, file: str) -> Path:
        """The real path of ``file``; refuses what leaves the tree, links included."""
        path = (self.root / file).resolve()
        if path != self.root and self.root not in path.parents:
            raise SourceError(f"{file!r} is outside the environment")
        if not path.exists():
            raise SourceError(
                f"no {file!r} in the environment ({', '.join(sorted(self.packages)) or 'empty'})"
            )
        return path

    def lines(self, file: str) -> list[str]:
        """All lines of a text file, without their ends."""
        if file not in self._lines:
            path = self.resolve(file)
            if not path.is_file():
                raise SourceError(f"{file!r} is a folder, not a file")
            self._lines[file] = decode(path.read_bytes()).split("\n")
        return self._lines[file]

    def evidence(self, file: str, line: int, end_line: int | None = None, *, idiom: str) -> Evidence:
        """Lines ``line``..``end_line`` (1-based, inclusive) of ``file`` as evidence."""
        end = end_line or line
        lines = self.lines(file)
        if not 1 <= line <= end <= len(lines):
            raise SourceError(f"{file} has {len(lines)} lines, not {line}-{end}")
        span = lines[line - 1 : end]
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
            idiom=idiom,
        )


def _normal(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")


def _name_of(info: Path) -> str:
    for line in (
        decode((info / "METADATA").read_bytes()).splitlines() if (info / "METADATA").is_file() else []
    ):
        if line.startswith("Name:"):
            return line[5:].strip()
        if not line:
            break
    return info.name.removesuffix(".dist-info").rsplit("-", 1)[0]


def _installed(root: Path) -> dict[str, str]:
    return {
        _name_of(info): info.name.removesuffix(".dist-info").rsplit("-", 1)[1]
        for info in sorted(root.glob("*.dist-info"))
        if "-" in info.name.removesuffix(".dist-info")
    }
