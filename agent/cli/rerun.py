"""``agent replay T --rerun reads``: the reads of a session again, on other packages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from agent.cli.common import emit, environment_of, progress, requirements_of, stopwatch, table
from agent.text import safe, shorten
from memory.home import Home
from memory.terms import Drift

if TYPE_CHECKING:
    from tools.environment.model import Environment
    from tools.rerun.again import Again, Rerun

PATHS = 10
"""Paths that are none of the environment's and are shown."""
DIFF = 12
"""Lines of a diff that are shown."""
DRIFTED = {Drift.MOVED, Drift.CHANGED, Drift.GONE}


def rerun_reads(
    home: Home, name: str, environment: str | None, packages: tuple[str, ...], as_json: bool
) -> int:
    """Make the reads of an imported session again, and say what has become of each; 1 if one drifted."""
    from tools.rerun.again import rerun
    from transcripts.imported.reader import Library

    took = stopwatch()
    with Library(home, progress) as library:
        imported = library.open(name)
        chosen = environment_of(home, environment, requirements_of(packages), None)
        done = rerun(imported.calls(live=True), chosen.tree())
    if as_json:
        emit(document(imported.session.id, chosen, done))
    else:
        for line in _lines(imported.session.id, chosen, done, took()):
            click.echo(line)
    return 1 if any(one.verdict.drift in DRIFTED for one in done.reads) else 0


def document(session: str, environment: Environment, done: Rerun) -> dict[str, Any]:
    """As JSON types."""
    return {
        "transcript": session,
        "environment": environment.name,
        "packages": dict(environment.packages),
        "reads": [_row(one) for one in done.reads],
        "counts": done.counts,
        "unmapped": [{"path": path, "reads": count} for path, count in sorted(done.unmapped.items())],
        "not_run": dict(sorted(done.not_run.items())),
    }


def _row(one: Again) -> dict[str, Any]:
    return {
        "event": one.event,
        "said": one.said,
        "kind": one.kind.value,
        "command": one.command,
        "paths": one.paths,
        "files": one.files,
        "drift": one.verdict.drift.value,
        "where": one.verdict.where,
        "why": one.verdict.why,
        "diff": one.verdict.diff,
    }


def _lines(session: str, environment: Environment, done: Rerun, seconds: float) -> Iterator[str]:
    drifted = [one for one in done.reads if one.verdict.drift in DRIFTED]
    for one in drifted:
        (line,) = table([[str(one.event), one.verdict.drift.value, _what(one)]])
        yield line
        yield from (f"    {safe(text)}" for text in one.verdict.diff[2 : DIFF + 2])
        if len(one.verdict.diff) > DIFF + 2:
            yield f"    … {len(one.verdict.diff) - DIFF - 2} more lines: --json"
    counts = ", ".join(f"{count} {word}" for word, count in done.counts.items() if count)
    yield f"{safe(session)} on {_packages(environment)}: {counts or 'no read of it'} ({seconds:.2f} s)"
    whys = {one.verdict.why for one in done.reads if one.verdict.drift is Drift.NOT_COMPARABLE}
    if whys:
        yield f"not comparable: {shorten('; '.join(sorted(filter(None, whys))), 300)}"
    for why, count in sorted(done.not_run.items()):
        yield f"not made again: {count}, {why}"
    if done.unmapped:
        shown = [f"{safe(path)} ({count})" for path, count in done.unmapped.most_common(PATHS)]
        more = len(done.unmapped) - len(shown)
        yield f"not of these packages: {', '.join(shown)}{f', {more} more' if more else ''}"


def _what(one: Again) -> str:
    verdict = one.verdict
    target = one.files[0] or "the top"
    if verdict.where is not None and verdict.drift is Drift.MOVED:
        return f"{target} → {verdict.where}"
    return verdict.where or f"{target} ({verdict.why})" if verdict.why or verdict.where else target


def _packages(environment: Environment) -> str:
    return ", ".join(f"{name} {version}" for name, version in list(environment.packages.items())[:4])
