"""Figures in the output of a benchmark, each with the line or the JSON pointer where it stands.

What the load generators print and write is in ``formats.toml``. A figure is one that the tool worded itself;
nothing is computed, converted or guessed here, and what is not a number (``inf``, ``nan``) is no figure.
"""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

LONGEST = 400
"""Characters of a line of text that may hold a figure; documents may be longer."""

_MARKS = re.compile(r"tok/s|token/s|tokens/s|req/s|requests/s|\(ms\)|latency|last_ttft|throughput")
_BEFORE = re.compile(r"\A(?:[\w./-]+\.\w+[:-])?(?:\d+(?:[:-]|→|\t|\| ?))?")
"""What grep and readers of files put before a line: its file, its number."""
_TABLE = re.compile(r"={3,} ?(?:Serving|Offline Throughput) Benchmark Result ?={3,}")
_ROW = re.compile(r"([A-Z][\w ./-]*(?:\([\w/% ]+\))?): +(\S+)$")
_OF = re.compile(r"(mean|median|std|min|max|p\d+(?:\.\d+)?) (.+) \(ms\)$")
_KEY = re.compile(r"(mean|median|std|min|max|p\d+(?:\.\d+)?)_(ttft|tpot|itl|e2e_latency|e2el)_ms")


@dataclass(frozen=True)
class Figure:
    """A number that a benchmark gave. ``metric`` is named as in ``formats.toml``, e.g. ``median_ttft``."""

    metric: str
    value: float
    unit: str
    line: int
    """Of the output, from 1."""
    pointer: str | None
    """Within the JSON document that begins on that line; None where it stands in text."""
    excerpt: str
    """The words of the output that say it."""


@dataclass
class Run:
    """One run of a benchmark: the figures that stand together."""

    line: int
    tool: str | None = None
    """Which tool writes it so, where the format tells."""
    settings: dict[str, str] = field(default_factory=dict)
    figures: list[Figure] = field(default_factory=list)

    def value(self, metric: str) -> float | None:
        return next((figure.value for figure in self.figures if figure.metric == metric), None)


def benchmark_runs(output: str) -> list[Run]:
    """The runs whose figures stand in ``output``: tables, single lines of them, JSON and JSON lines."""
    if not _MARKS.search(output):
        return []
    if output.lstrip()[:1] in {"{", "["} and (whole := _document(output)) is not None:
        line = output[: len(output) - len(output.lstrip())].count("\n") + 1
        return list(_of_documents(whole, output, line, ""))
    return [run for run in _runs(output) if run.figures]


def _runs(output: str) -> Iterator[Run]:
    going = Run(1)
    table = False
    for number, raw in enumerate(output.split("\n"), 1):
        text = raw.strip()
        if before := _BEFORE.match(text[:LONGEST]):
            text = text[before.end() :]
        begins, ends = _TABLE.fullmatch(text) is not None, table and bool(text) and not text.strip("=")
        document = _document(text) if text.startswith("{") and text.endswith("}") else None
        figures = [] if len(text) > LONGEST or document else list(_in_text(text, table))
        known = {figure.metric for figure in going.figures}
        if begins or ends or document or any(metric in known for metric, *_ in figures):
            yield going
            going, table = Run(number), begins or (table and not ends)
        if document:
            yield from _of_documents(document, text, number, "")
        if figures and not going.figures and not table:
            going.line = number
        going.figures += [Figure(*figure, number, None, text) for figure in figures]
        if table and (setting := _setting(text)):
            going.settings.setdefault(*setting)
    yield going


def _in_text(text: str, table: bool) -> Iterator[tuple[str, float, str]]:
    """Metric, value and unit of every figure in a line. Labels without a unit count within a table only."""
    if row := _ROW.match(text):
        label, value = row[1].lower(), _number(row[2])
        if value is not None and (named := _label(label)) and (table or "(" in label):
            yield named[0], value, named[1]
            return
    for pattern, units in _lines():
        if match := pattern.match(text):
            groups = match.groupdict()
            percentile = groups.pop("percentile", None)
            for name, digits in groups.items():
                if digits and (value := _number(digits)) is not None:
                    metric = name.rstrip("_")
                    unit = units[metric]
                    yield (f"p{percentile}_{metric}" if percentile else metric), value, unit
            return


def _label(label: str) -> tuple[str, str] | None:
    known = _formats()
    if label in known["label"]:
        metric, unit = known["label"][label]
        return metric, unit
    if (of := _OF.match(label)) and of[2] in known["timed"]:
        return f"{of[1]}_{known['timed'][of[2]]}", "ms"
    return None


def _setting(text: str) -> tuple[str, str] | None:
    row = _ROW.match(text)
    name = row and _formats()["setting"].get(row[1].lower())
    return (name, row[2]) if row and name else None


def _of_documents(value: Any, source: str, line: int, pointer: str) -> Iterator[Run]:
    """The runs of a JSON value: a tool's document, or a list of them."""
    if isinstance(value, list):
        for number, item in enumerate(value):
            yield from _of_documents(item, source, line, f"{pointer}/{number}")
    elif isinstance(value, dict) and (tool := _tool(value)) is not None:
        run = Run(line, tool, {name: str(value[key]) for key, name in _given(value)})
        for key, item in value.items():
            named = _key(key)
            if named and (number_of := _plain(item)) is not None:
                excerpt = _quoted(key, source) if not pointer else f'"{key}": {json.dumps(item)}'
                run.figures.append(Figure(*_with(named, number_of), line, f"{pointer}/{key}", excerpt))
        if tool == "vllm bench latency" and isinstance(value["percentiles"], dict):
            for percent, item in value["percentiles"].items():
                if (number_of := _plain(item)) is not None:
                    where = f"{pointer}/percentiles/{percent}"
                    excerpt = _quoted(percent, source)
                    run.figures.append(Figure(f"p{percent}_latency", number_of, "s", line, where, excerpt))
        yield run


def _tool(document: Mapping[str, Any]) -> str | None:
    return next(
        (entry["tool"] for entry in _formats()["document"] if document.keys() >= set(entry["needs"])), None
    )


def _given(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for key, name in _formats()["given"].items():
        if isinstance(document.get(key), str | int | float):
            yield key, name


def _key(key: str) -> tuple[str, str] | None:
    known = _formats()["key"].get(key)
    if known:
        return known[0], known[1]
    if match := _KEY.fullmatch(key):
        return f"{match[1]}_{match[2].replace('e2el', 'e2e_latency')}", "ms"
    return None


def _with(named: tuple[str, str], value: float) -> tuple[str, float, str]:
    return named[0], value, named[1]


def _quoted(key: str, source: str) -> str:
    """The words of a document that give a key its number."""
    match = re.search(rf'"{re.escape(key)}"\s*:\s*[-+\d.eE]+', source)
    return match[0] if match else f'"{key}"'


def _number(digits: str) -> float | None:
    try:
        return _plain(float(digits))
    except ValueError:
        return None


def _plain(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:
        return None


def _document(text: str) -> Any:
    """A JSON document; None for what is none, or nested past all use."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


@cache
def _formats() -> dict[str, Any]:
    return tomllib.loads((files("tools.benchmark") / "formats.toml").read_text("utf-8"))


@cache
def _lines() -> tuple[tuple[re.Pattern[str], dict[str, str]], ...]:
    return tuple((re.compile(entry["pattern"]), entry["units"]) for entry in _formats()["line"])
