"""Renaming words through a copy of an environment: what depends on a name and not on the code shows.

A renamed copy means the same as the original: every occurrence of a word, in whatever case and as
whatever part of an identifier, string, comment, file name or distribution name, becomes another word of
the same length that occurs nowhere. Since the case is kept letter by letter, ``"Word".upper() == "WORD"``
and ``"prefix_word".removeprefix("prefix_")`` hold in the copy as they do in the original. What is imported
from outside the copy keeps its name: the copy cannot rename what it does not hold.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

_FROM = re.compile(r"^(\s*from\s+)([A-Za-z_][\w.]*)(\s+import\b.*)$", re.DOTALL)
_IMPORT = re.compile(r"^(\s*import\s+)([^#\n]*?)(\s*(?:#.*)?)$", re.DOTALL)
_NAMED = re.compile(r"""(\b(?:find_spec|import_module|__import__|version)\(\s*f?['"])([\w.-]+)""")
_REQUIRES = re.compile(r"^(Requires-Dist:\s*)([\w.-]+)(.*)$")


def renamed(text: str, mapping: Mapping[str, str]) -> str:
    """``text`` with every word of ``mapping`` replaced, the case kept letter by letter."""
    return _pattern(tuple(mapping)).sub(lambda match: _in_case(mapping[match[0].lower()], match[0]), text)


def rename(tree_root: Path, target: Path, mapping: Mapping[str, str]) -> None:
    """Copy the Python packages in ``tree_root`` to ``target`` with the words of ``mapping`` renamed.

    Copied are ``*.py`` files, all folders, and ``METADATA`` and ``RECORD`` of each ``*.dist-info`` (RECORD
    for what was copied, with its new hashes). Raises ``ValueError`` where a renaming would not be one to one.
    """
    for old, new in mapping.items():
        if len(old) != len(new) or not (old + new).isalpha() or (old + new) != (old + new).lower():
            raise ValueError(
                f"{old!r} cannot become {new!r}: both must be lower-case letters of the same number"
            )
    inside = _inside(tree_root)
    taken = re.compile("|".join(mapping.values()), re.IGNORECASE)
    hashes: dict[str, tuple[str, int]] = {}
    for path in sorted(tree_root.rglob("*")):
        relative = path.relative_to(tree_root).as_posix()
        copied = target / renamed(relative, mapping)
        if path.is_dir():
            copied.mkdir(parents=True, exist_ok=True)
            continue
        metadata = path.name == "METADATA" and path.parent.name.endswith(".dist-info")
        if path.suffix != ".py" and not metadata:
            continue
        data = path.read_bytes()
        # Bytes that are no UTF-8 survive as they are.
        text = data.decode("utf-8", "surrogateescape")
        if taken.search(text):
            raise ValueError(f"{relative} already holds one of {', '.join(mapping.values())}")
        if _pattern(tuple(mapping)).search(text):
            lines = text.split("\n")
            one = _metadata_line if metadata else _code_line
            data = "\n".join(one(line, mapping, inside) for line in lines).encode("utf-8", "surrogateescape")
        copied.parent.mkdir(parents=True, exist_ok=True)
        copied.write_bytes(data)
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        hashes[relative] = (digest, len(data))
    for record in tree_root.glob("*.dist-info/RECORD"):
        _copy_record(record, tree_root, target, mapping, hashes)


def _copy_record(
    record: Path, root: Path, target: Path, mapping: Mapping[str, str], hashes: Mapping[str, tuple[str, int]]
) -> None:
    rows = []
    for row in record.read_text(encoding="utf-8").splitlines():
        name = row.split(",", 1)[0].strip('"')
        if name in hashes:
            digest, size = hashes[name]
            rows.append(f"{renamed(name, mapping)},sha256={digest},{size}\n")
    own = renamed(record.relative_to(root).as_posix(), mapping)
    (target / own).write_text("".join(rows) + f"{own},,\n", encoding="utf-8")


def _inside(root: Path) -> frozenset[str]:
    """Names of top-level modules and of distributions that the tree holds, lower case with underscores."""
    names = {entry.name.removesuffix(".py") for entry in root.iterdir() if entry.suffix in ("", ".py")}
    names |= {info.name.removesuffix(".dist-info").rsplit("-", 1)[0] for info in root.glob("*.dist-info")}
    return frozenset(_normal(name) for name in names)


def _normal(name: str) -> str:
    return name.lower().replace("-", "_").replace(".", "_")


def _outside(dotted: str, inside: frozenset[str]) -> bool:
    return _normal(dotted.split(".", 1)[0]) not in inside


def _code_line(line: str, mapping: Mapping[str, str], inside: frozenset[str]) -> str:
    found = _FROM.match(line)
    if found and _outside(found[2], inside):
        return found[1] + found[2] + renamed(found[3], mapping)
    found = _IMPORT.match(line)
    if found:
        parts = [_imported(part.strip(), mapping, inside) for part in found[2].split(",")]
        return found[1] + ", ".join(parts) + renamed(found[3], mapping)
    pieces: list[str] = []
    end = 0
    for named in _NAMED.finditer(line):
        if _outside(named[2], inside):
            pieces += [renamed(line[end : named.start(2)], mapping), named[2]]
            end = named.end(2)
    return "".join([*pieces, renamed(line[end:], mapping)])


def _imported(part: str, mapping: Mapping[str, str], inside: frozenset[str]) -> str:
    """One item of an ``import``; what binds a renamed name is bound to it explicitly."""
    module, marker, alias = part.partition(" as ")
    if not _outside(module, inside) or not re.fullmatch(r"[\w.]+", module):
        return renamed(part, mapping)
    if marker:
        return f"{module} as {renamed(alias, mapping)}"
    root = module.split(".", 1)[0]
    return module if renamed(root, mapping) == root else f"{root} as {renamed(root, mapping)}"


def _metadata_line(line: str, mapping: Mapping[str, str], inside: frozenset[str]) -> str:
    found = _REQUIRES.match(line)
    if found and _outside(found[2], inside):
        return found[1] + found[2] + renamed(found[3], mapping)
    return renamed(line, mapping)


@cache
def _pattern(words: tuple[str, ...]) -> re.Pattern[str]:
    # Longest first, so that a word that holds another is not cut.
    return re.compile("|".join(sorted(words, key=len, reverse=True)), re.IGNORECASE)


def _in_case(new: str, like: str) -> str:
    return "".join(
        letter.upper() if model.isupper() else letter for letter, model in zip(new, like, strict=True)
    )
