"""``agent findings export``: findings for others, as JSON, CSV, Markdown or one page of HTML."""

from __future__ import annotations

import csv
import errno
import io
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from agent.cli.common import CommandError, progress, redactor, the_home
from agent.cli.findings_rows import filter_options, filters, settings, status_option, versions, views_of
from memory.views import Views

FORMATS = ("json", "csv", "markdown", "html")
_SUFFIXES = {".json": "json", ".csv": "csv", ".md": "markdown", ".html": "html", ".htm": "html"}

_NO_SUCH_PLACE = {errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG}


@click.command()
@click.argument("file", required=False)
@click.option("--format", "kind", type=click.Choice(FORMATS), help="Else as the name of FILE ends, or json.")
@filter_options
@click.option("--all", "everything", is_flag=True, help="Those that are no longer current too.")
@status_option
def export(
    file: str | None, kind: str | None, everything: bool, statuses: tuple[str, ...], **given: Any
) -> int:
    """Findings, into FILE or to stdout. Only JSON holds what they cite, for others to check and import.

    CSV is safe to open in a spreadsheet, HTML is one page that runs nothing and asks nobody. Secrets are
    looked for once more and taken out; a finding that JSON cannot hold without one is left out.

    \b
    Examples:
      agent findings export findings.json
      agent findings export matrix.csv --arch sm120 --level probe
      agent findings export --format markdown --component moe_runner
    """
    kind = kind or _SUFFIXES.get(Path(file).suffix.lower() if file else "", "json")
    views, code = views_of(the_home())
    chosen: tuple[str, ...] = () if everything else statuses or ("current",)
    rows = views.findings(statuses=chosen, disputed=not everything and not statuses, **filters(given))
    pieces = _pieces(kind, views, rows)
    if file is None or file == "-":
        sys.stdout.writelines(pieces)
        return code
    _write(file, pieces)
    progress(f"{len(rows)} findings written to {file}")
    return code


def _write(file: str, pieces: Iterator[str]) -> None:
    """Write a file in one step, where a link leads. A device or a pipe is written to, never replaced."""
    path = Path(file)
    try:
        if not path.name or path.is_dir():
            raise CommandError(f"{path} is no file to write to; expected a name, e.g. findings.json")
        whole = path.is_file() or not path.exists()
        path = path.resolve() if whole else path
        part = path.with_name(f".{path.name}.part") if whole else path
        try:
            with part.open("w", encoding="utf-8", newline="") as out:
                out.writelines(pieces)
            if whole:
                part.replace(path)
        finally:
            with suppress(OSError):
                if whole:
                    part.unlink(missing_ok=True)
    except (OSError, RuntimeError) as error:  # links that lead in a circle are a RuntimeError
        code = 2 if getattr(error, "errno", None) in _NO_SUCH_PLACE else 4
        raise CommandError(
            f"cannot write {file}: {getattr(error, 'strerror', None) or error}", code
        ) from error


def _pieces(kind: str, views: Views, rows: list[Any]) -> Iterator[str]:
    redact = redactor()
    if kind == "json":
        return (f"{line}\n" for line in _json(views, rows))
    from agent.findings_page import markdown, page

    if kind == "csv":
        return (str(redact(line)) for line in _csv(views, rows))
    cited = {row["id"]: views.evidence(row["id"]) for row in rows}
    drawn = markdown if kind == "markdown" else page
    return (str(redact(piece)) for piece in drawn(rows, cited, lambda row: versions(views, row)))


def _json(views: Views, rows: list[Any]) -> Iterator[str]:
    from agent.session import PROGRAM
    from tools.findings.capsule import Capsules
    from tools.findings.share import finding_of, written

    findings = [finding_of(row) for row in rows]
    seen = views.all_sightings() if rows else []
    capsules = Capsules(the_home(), seen, [one.claim for one in findings])
    return written(((row, one, capsules.of(one)) for row, one in zip(rows, findings, strict=True)), PROGRAM)


_COLUMNS = (
    "id", "component", "backend", "arch", "engine", "level", "verdict", "outcome", "because", "runs_instead",
    "status", "origin", "model", "quantisation", "gpu", "gpu_count", "driver", "url", "date", "recorded_at",
    "sentence",
)  # fmt: skip


def _csv(views: Views, rows: Iterable[Any]) -> Iterator[str]:
    yield _record([*_COLUMNS, "packages", "scenario"])
    for row in rows:
        yield _record([*(row[name] for name in _COLUMNS), versions(views, row), settings(views, row)])


def _record(values: Iterable[object]) -> str:
    out = io.StringIO()
    csv.writer(out, quoting=csv.QUOTE_ALL).writerow([_cell(value) for value in values])
    return out.getvalue()


def _cell(value: object) -> str:
    """A text that no spreadsheet takes for a formula, and that is one line."""
    text = " ".join(("" if value is None else str(value)).replace("\x00", "").split())
    return f"'{text}" if text[:1] in {"=", "+", "-", "@", "|", "%"} else text
