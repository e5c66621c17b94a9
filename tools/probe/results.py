"""What came back from a machine with a GPU, read as the data of others that it is.

``results.jsonl`` is lines of JSON: a ``header`` for each run of the program, what was ``here`` for a worker
and a ``row`` for each cell. It is bound to its plan by the plan's hash, which must have been packed here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from memory.architecture import ArchitectureError, parse_architecture
from memory.artifacts import ArtifactError, Artifacts
from tools.errors import ToolError
from tools.probe.plan import Plan

LIMIT = 64 << 20
"""Bytes of a file of results: a row has a few thousand."""
LONGEST = 2 << 20
"""Bytes of a line."""
CUDA = "cuda"
_ENDED = frozenset({"returned", "raised", "died", "timed_out", "memory", "unfit"})


@dataclass(frozen=True)
class Measured:
    """One row, with what was there when it was measured. ``arch``: None where no GPU was."""

    row: dict[str, Any]
    here: dict[str, Any]
    header: dict[str, Any]

    @property
    def arch(self) -> str | None:
        capability = (self.here.get("gpu") or {}).get("capability")
        if self.header.get("device") != CUDA or not isinstance(capability, str):
            return None
        try:
            return parse_architecture(capability).base.name
        except ArchitectureError:
            return None

    @property
    def gpu(self) -> str | None:
        name = (self.header.get("gpu") or {}).get("name")
        return name if isinstance(name, str) and self.header.get("device") == CUDA else None

    @property
    def driver(self) -> str | None:
        driver = (self.header.get("gpu") or {}).get("driver")
        return driver if isinstance(driver, str) and self.header.get("device") == CUDA else None


@dataclass(frozen=True)
class Results:
    """``rows``: by cell, the last of each. ``torn``: whether the last line was no whole one."""

    plan: str
    rows: dict[str, Measured] = field(default_factory=dict)
    torn: bool = False


def read_results(data: bytes) -> Results:
    """Raises :class:`ToolError`, naming the line, for what is no file of results."""
    if len(data) > LIMIT:
        raise ToolError(f"results of {len(data)} bytes are refused; expected at most {LIMIT}")
    header: dict[str, Any] | None = None
    here: dict[str, Any] = {}
    rows: dict[str, Measured] = {}
    lines = data.split(b"\n")
    for number, entry in _entries(lines[:-1]):
        for part in ("header", "here"):
            if isinstance(found := entry.get(part), dict) and not isinstance(found.get("gpu"), dict | None):
                raise ToolError(f"line {number} tells of a GPU in words that run.py does not write")
        if isinstance(found := entry.get("header"), dict):
            if header is not None and found.get("plan") != header.get("plan"):
                raise ToolError(f"line {number} is of another plan than those before it")
            header, here = found, {}
        elif header is None:
            raise ToolError(
                f"line {number} comes before any header; expected results.jsonl as it was written"
            )
        elif isinstance(found := entry.get("here"), dict):
            here = found
        elif isinstance(found := entry.get("row"), dict):
            ended = found.get("ended")
            if not isinstance(found.get("cell"), str) or not isinstance(ended, str) or ended not in _ENDED:
                raise ToolError(f"line {number} is no row of results: no cell, or no end that is known")
            rows[found["cell"]] = Measured(found, here, header)
    if header is None or not isinstance(header.get("plan"), str):
        raise ToolError("this is no file of results; expected the results.jsonl of a packed probe")
    return Results(header["plan"], rows, torn=bool(lines[-1]))


def _entries(lines: list[bytes]) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in enumerate(lines, 1):
        if len(line) > LONGEST:
            raise ToolError(f"line {number} has {len(line)} bytes; expected at most {LONGEST}")
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            entry = None
        if not isinstance(entry, dict):
            raise ToolError(f"line {number} is no JSON object; expected results.jsonl as it was written")
        yield number, entry


def plan_of(artifacts: Artifacts, sha256: str) -> Plan:
    """The plan that was packed here. Raises :class:`ToolError` where it was not."""
    try:
        plan = Plan.model_validate_json(artifacts.get(sha256))
    except ArtifactError:
        raise ToolError(
            f"these results are of plan {sha256[:12]}, which was not packed in this home; "
            "import them where agent probe pack was run"
        ) from None
    except ValidationError as error:
        raise ToolError(
            f"plan {sha256[:12]} is none that this version can read ({error.error_count()} fields)"
        ) from None
    return plan
