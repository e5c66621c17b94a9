"""Findings as a document that travels: JSON with capsules, a finding a line, written and read as a stream."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from memory.canonical import canonical
from memory.vocabulary import Capsule, Claim, Finding
from tools.errors import ToolError

FORMAT = "assay-findings"
VERSION = 1
SIZE_LIMIT = 4 << 30
"""Bytes of a document."""
LINE_LIMIT = 16 << 20
"""Bytes of one finding."""
WHOLE_LIMIT = 64 << 20
"""Bytes of a document that another program laid out anew, which has to be held in memory."""
_HEAD = re.compile(rb"(\{.*),\"findings\":\[\s*")

Given = tuple[Finding, Capsule | None] | tuple[str, str]


def written(rows: Iterable[tuple[Mapping[str, Any], Finding, Capsule | None]], program: str) -> Iterator[str]:
    """The document, a line a piece. It is one JSON object, and each finding of it a line of its own."""
    head = {"format": FORMAT, "version": VERSION, "program": program}
    yield canonical(head)[:-1] + ',"findings":['
    before = ""
    for row, finding, capsule in rows:
        document: dict[str, Any] = {
            "finding": finding.model_dump(mode="json"),
            "sentence": row["sentence"],
            "origin": row["origin"],
            "recorded_at": row["recorded_at"],
        }
        if capsule is not None:
            document["capsule"] = capsule.model_dump(mode="json")
        yield f"{before}{canonical(document)}"
        before = ","
    yield "]}"


def read(path: Path) -> Iterator[Given]:
    """What a document holds; of what is no finding its number and why. Raises :class:`ToolError` where it is
    no such document."""
    try:
        size = path.stat().st_size
        if size > SIZE_LIMIT:
            raise ToolError(f"{path} has {size} bytes; at most {SIZE_LIMIT} are read")
        with path.open("rb") as file:
            first = file.readline(LINE_LIMIT)
            if not _HEAD.fullmatch(first) and size <= WHOLE_LIMIT:
                yield from _laid_out_anew(path, first + file.read())
                return
            _check_head(path, first)
            number, ended = 0, False
            for line in iter(lambda: file.readline(LINE_LIMIT), b""):
                text = line.strip()
                if text == b"]}":
                    ended = True
                elif ended and text:
                    raise ToolError(f"{path} goes on behind its end; export it again")
                elif text:
                    number += 1
                    yield _finding(number, text.strip(b","))
            if not ended:
                raise ToolError(f"{path} breaks off after {number} findings; export it again")
    except OSError as error:
        raise ToolError(f"cannot read {path}: {error.strerror or error}") from error


def digest(path: Path) -> str:
    """sha256 of a file. Raises :class:`ToolError` where it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ToolError(f"cannot read {path}: {error.strerror or error}") from error


def _check_head(path: Path, line: bytes) -> None:
    found = _HEAD.fullmatch(line)
    _check_said(path, _parsed(found[1] + b"}") if found else {})


def _laid_out_anew(path: Path, data: bytes) -> Iterator[Given]:
    """What a document holds whose findings are not a line each, as ``jq`` leaves it."""
    document = _parsed(data)
    _check_said(path, document)
    if not isinstance(findings := document.get("findings"), list):
        raise ToolError(f"{path} has no list of findings; export it again")
    for number, one in enumerate(findings, start=1):
        yield _finding(number, json.dumps(one).encode())


def _parsed(data: bytes) -> dict[str, Any]:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _check_said(path: Path, head: dict[str, Any]) -> None:
    if head.get("format") != FORMAT:
        raise ToolError(
            f"{path} is no export of findings; expected what `agent findings export FILE.json` writes, or "
            "public cases, one JSON object a line"
        )
    if not isinstance(head.get("version"), int) or head["version"] > VERSION:
        raise ToolError(
            f"{path} is of a newer program (version {head.get('version')!r}); upgrade assay-agent"
        )


def _finding(number: int, line: bytes) -> Given:
    name = f"finding {number}"
    try:
        document = json.loads(line)
        if not isinstance(document, dict) or not isinstance(document.get("finding"), dict):
            return name, "it is no finding"
        finding = Finding.model_validate(document["finding"])
        name = finding.id
        brought = document.get("capsule")
        return finding, None if brought is None else Capsule.model_validate(brought)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        return name, f"it is no finding as format 1 writes it ({where}: {first['msg']})"
    except (ValueError, RecursionError):
        return name, "its line is no JSON, or too long"


def finding_of(row: Mapping[str, Any]) -> Finding:
    """A row of ``v_findings`` as a finding. Raises ``ValueError`` where its claim is none."""
    claim = Claim.model_validate_json(row["claim"])
    return Finding(
        id=row["id"], claim=claim, status=row["status"], transcript=row["transcript"], event=row["event"]
    )
