"""Findings for people: Markdown, and one page of HTML that runs nothing and asks nobody for anything."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from typing import Any

from agent.text import safe, safe_block, squeeze

STYLE = (
    "body{font:15px/1.45 system-ui,sans-serif;margin:2rem auto;max-width:64rem;padding:0 1rem}"
    "table{border-collapse:collapse;width:100%}td,th{text-align:left;padding:.2rem .6rem;"
    "border-bottom:1px solid #ccc;vertical-align:top}pre{background:#f4f4f4;padding:.5rem;overflow-x:auto}"
    "summary{cursor:pointer}.blocked,.nan,.crashed{color:#a00}.ok,.no_static_obstacle{color:#060}"
)
_HASH = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
POLICY = f"default-src 'none'; style-src 'sha256-{_HASH}'; base-uri 'none'; form-action 'none'"

Row = Mapping[str, Any]


def says(row: Row) -> str:
    words = [row[name] for name in ("verdict", "outcome") if row[name]]
    return ", ".join(words).replace("_", " ") + (f" ({row['because']})" if row["because"] else "")


def markdown(
    rows: Sequence[Row], cited: Mapping[str, Sequence[Row]], versions: Callable[[Row], str]
) -> Iterator[str]:
    yield "| component | backend | arch | says | level | status | versions | id |\n|" + "---|" * 8 + "\n"
    for row in rows:
        fields = (row["component"], row["backend"], row["arch"], says(row), row["level"], row["status"])
        cells = [*fields, versions(row), row["id"][:12]]
        yield f"| {' | '.join(plain(str(cell)) for cell in cells)} |\n"
    for row in rows:
        yield f"\n### {plain(row['id'][:12])}\n\n{plain(row['sentence'])}\n"
        for one in cited[row["id"]]:
            text = safe_block(one["text"])
            fence = "`" * max(3, _longest_run(text, "`") + 1)
            yield f"\n{plain(_place(one))}\n\n{fence}\n{text}\n{fence}\n"


def page(
    rows: Sequence[Row], cited: Mapping[str, Sequence[Row]], versions: Callable[[Row], str]
) -> Iterator[str]:
    yield (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(POLICY)}">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>Findings</title>\n<style>{STYLE}</style></head>\n<body><h1>Findings</h1>\n"
        f"<p>{len(rows)} findings. A verdict was read, an outcome was run; "
        "a report is someone else's account.</p>\n<table><thead><tr>"
    )
    names = ("component", "backend", "arch", "says", "level", "status", "versions")
    yield "".join(f"<th>{name}</th>" for name in names) + "</tr></thead>\n<tbody>\n"
    for row in rows:
        kind = escape(str(row["outcome"] or row["verdict"] or ""))
        fields = [row["component"], row["backend"], row["arch"]]
        yield "<tr>" + "".join(f"<td>{_html(value)}</td>" for value in fields)
        yield f'<td class="{kind}">{_html(says(row))}</td>'
        rest = (row["level"], row["status"], versions(row))
        yield "".join(f"<td>{_html(value)}</td>" for value in rest) + "</tr>\n<tr><td colspan=7><details>"
        yield f"<summary>{_html(row['sentence'])}</summary>\n"
        for one in cited[row["id"]]:
            yield f"<p>{_html(_place(one))}</p><pre>{escape(safe_block(one['text']))}</pre>\n"
        yield f"<p>{_html(row['id'])}</p></details></td></tr>\n"
    yield "</tbody></table></body></html>\n"


def _html(value: object) -> str:
    return escape(squeeze(str(value)))


def _place(one: Row) -> str:
    if one["kind"] == "source":
        return f"{one['package']} {one['version']} {one['file']}:{one['line']}-{one['end_line']}"
    return f"{one['transcript']} event {one['event']}"


def plain(text: str) -> str:
    """Text that Markdown takes for nothing else."""
    escaped = safe(squeeze(text))
    for character in "\\`*_{}[]<>()#+!|~&":
        escaped = escaped.replace(character, f"\\{character}")
    return escaped


def _longest_run(text: str, character: str) -> int:
    longest = run = 0
    for one in text:
        run = run + 1 if one == character else 0
        longest = max(longest, run)
    return longest
