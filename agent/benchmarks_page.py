"""Benchmarks side by side, for people: lines, Markdown, and one page of HTML that runs nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

from agent.findings_page import POLICY, STYLE, plain
from agent.plots import Dot, Line, plot
from agent.text import squeeze

BETTER = {1: "better", -1: "worse", 0: ""}


def lines(document: Mapping[str, Any]) -> Iterator[str]:
    """What differs, load by load; who gives most at each; what is on the frontier."""
    for side in document["sides"]:
        told = f"{squeeze(side['name'])}: {side['launches']} launches"
        told += ", speculative" if side["speculative"] else ""
        yield told + "".join(f"; {squeeze(one)}" for one in side["failed"])
    for comparison in document["comparisons"]:
        yield f"{squeeze(comparison['other'])} against {squeeze(comparison['base'])}:"
        for row in comparison["rows"]:
            mark = {1: "+", -1: "-", 0: " "}[row["better"]]
            yield f"  {mark} {load(row['key']):22} {row['metric']:20} {row['says']}"
        yield from (f"  not compared: {squeeze(one)}" for one in comparison["refused"])
    if number := sum(len(one["rows"]) for one in document["comparisons"]):
        yield f"of {number} intervals at 95 %, {number / 20:.1f} leave out nought by luck alone"
    yield "most output:"
    for winner in document["winners"]:
        yield f"  {load(winner['key']):24} {_winner(winner)}"


def _winner(winner: Mapping[str, Any]) -> str:
    if winner["side"] is not None:
        return f"{squeeze(winner['side'])}, {squeeze(winner['says'])}"
    if winner["next"] is None:
        return squeeze(winner["says"])
    return f"not decided; {squeeze(winner['best'])} {squeeze(winner['says'])}"


def load(key: Mapping[str, int]) -> str:
    return f"c={key['concurrency']} {key['input']}+{key['output']}"


def plots(document: Mapping[str, Any]) -> list[str]:
    """For each pair of lengths: what one user gets against what all get together."""
    lengths = dict.fromkeys((one["key"]["input"], one["key"]["output"]) for one in document["points"])
    return [_plot(document["points"], input_, output) for input_, output in lengths]


def _plot(points: Sequence[Mapping[str, Any]], input_: int, output: int) -> str:
    here = [one for one in points if (one["key"]["input"], one["key"]["output"]) == (input_, output)]
    drawn = []
    for name in dict.fromkeys(one["side"] for one in here):
        dots = [
            Dot(one["user"], one["total"], one["half"], f"c={one['key']['concurrency']}", one["frontier"])
            for one in sorted(here, key=lambda one: one["key"]["concurrency"])
            if one["side"] == name
        ]
        drawn.append(Line(name, tuple(dots)))
    title = f"{input_} tokens in, {output} out; ringed: nobody has more of both"
    return plot(drawn, title, "tokens a second for one user (1000 / median TPOT)", "tokens a second of all")


def markdown(document: Mapping[str, Any]) -> Iterator[str]:
    yield "# Benchmarks\n\n"
    for heading, rows in _tables(document):
        yield f"## {plain(heading)}\n\n"
        for number, row in enumerate(rows):
            yield "| " + " | ".join(plain(cell) for cell in row) + " |\n"
            if number == 0:
                yield "|" + "---|" * len(row) + "\n"
        yield "\n"
    for one in plots(document):
        yield f"{one}\n\n"


def page(document: Mapping[str, Any]) -> Iterator[str]:
    yield head("Benchmarks")
    yield "<h1>Benchmarks</h1>\n"
    yield from sections(document)
    yield "</body></html>\n"


def head(title: str) -> str:
    """The beginning of a page that runs nothing and asks nobody."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(POLICY)}">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{escape(squeeze(title))}</title>\n<style>{STYLE}</style></head>\n<body>"
    )


def sections(document: Mapping[str, Any]) -> Iterator[str]:
    """Plots, then tables, as HTML."""
    yield "<p>The launch is the unit: intervals are over launches, at 95 %.</p>\n"
    for one in plots(document):
        yield f"<p>{one}</p>\n"
    for heading, rows in _tables(document):
        yield f"<h2>{escape(squeeze(heading))}</h2>\n{table(rows)}\n"


def table(rows: Sequence[Sequence[str]]) -> str:
    """``rows`` as HTML; the first names the columns."""
    parts = []
    for number, row in enumerate(rows):
        tag = "td" if number else "th"
        parts.append("<tr>" + "".join(f"<{tag}>{escape(squeeze(cell))}</{tag}>" for cell in row) + "</tr>\n")
    return f"<table>{''.join(parts)}</table>"


def _tables(document: Mapping[str, Any]) -> Iterator[tuple[str, list[list[str]]]]:
    """Headings, each with rows of which the first names the columns."""
    yield (
        "Sides",
        [["side", "launches", "settings", "left out"]]
        + [
            [
                str(side["name"]),
                str(side["launches"]),
                ", ".join(f"{key}={value}" for key, value in side["settings"].items()) or "-",
                "; ".join(side["failed"]) or "-",
            ]
            for side in document["sides"]
        ],
    )
    yield (
        "Most output",
        [["load", "side", "how far"]]
        + [[load(one["key"]), one["side"] or "not decided", str(one["says"])] for one in document["winners"]],
    )
    for one in document["comparisons"]:
        rows = [
            [load(row["key"]), row["metric"], _mean(row["base"]), _mean(row["other"]), row["unit"],
             BETTER[row["better"]], row["says"]]
            for row in one["rows"]
        ]  # fmt: skip
        columns = ["load", "metric", str(one["base"]), str(one["other"]), "unit", "", "difference"]
        yield f"{one['other']} against {one['base']}", [columns, *rows]


def _mean(values: Sequence[float]) -> str:
    return f"{sum(values) / len(values):.4g}"
