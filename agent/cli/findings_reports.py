"""Accounts of others: public cases, the pack that comes with the program, and what a person knows."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agent.cli.common import CommandError, Context, emit, json_option, progress, say, the_home
from agent.cli.findings_rows import views_of
from agent.text import safe, squeeze
from memory.home import Home

if TYPE_CHECKING:
    from tools.findings.accounts import Case, Recorded

SHOWN = 20


def import_cases(path: Path, *, as_json: bool) -> int:
    """Public cases out of a file, as reports."""
    from tools.findings.accounts import SIZE_LIMIT, read_cases
    from tools.findings.share import digest

    try:
        if path.stat().st_size > SIZE_LIMIT:
            raise CommandError(f"{path} is larger than {SIZE_LIMIT >> 20} MB; expected a file of cases")
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"cannot read {path}: {error}") from error
    source = {"file": path.name, "sha256": digest(path)}
    return _out(record_accounts(the_home(), read_cases(text), source), as_json=as_json)


@click.command("load-pack")
@json_option
def load_pack(as_json: bool) -> int:
    """The public cases that come with this program, as reports: who saw what, with which versions, and where.

    They say what to expect and what to be wary of, and prove nothing: a recommendation puts what crashed or
    gave NaN behind the others, with the link. Loading them again changes nothing.

    \b
    Examples:
      agent findings load-pack
      agent findings list --level report --arch sm120
    """
    import memory
    from tools.findings.accounts import read_cases

    path = Path(memory.__file__).parent / "data" / "reports.jsonl"
    cases = read_cases(path.read_text(encoding="utf-8"))
    return _out(record_accounts(the_home(), cases, {"file": f"the pack {path.name}"}), as_json=as_json)


def record_accounts(home: Home, cases: Iterable[Case | tuple[str, str]], source: dict[str, Any]) -> Recorded:
    """Record what is new of ``cases``, and fold it."""
    from agent.session import PROGRAM
    from memory.clock import Ids, SystemClock
    from memory.store import Store
    from tools.findings.accounts import account_key, record
    from tools.findings.share import finding_of
    from tools.locks import holding
    from transcripts.catch_up import catch_up

    home.prepare()
    with holding({"findings:import"}, home, progress):
        views, _ = views_of(home)
        known = {account_key(finding_of(row).claim) for row in views.findings(statuses=(), level="report")}
        done = record(
            home, cases, known, Context(home),
            source=source, program=PROGRAM, clock=SystemClock(), ids=Ids(),
        )  # fmt: skip
        if done.transcript is not None:
            with Store(home) as store:
                for problem in catch_up(store, home.transcripts, progress):
                    progress(f"warning: {problem}")
    return done


def _out(done: Recorded, *, as_json: bool) -> int:
    if as_json:
        emit({"transcript": done.transcript, "findings": done.findings, "known": done.known,
              "skipped": [{"case": name, "because": why} for name, why in done.skipped]})  # fmt: skip
    else:
        say([f"{len(done.findings)} reports, {done.known} known already, {len(done.skipped)} left out"])
        say(safe(f"left out {squeeze(name)}: {squeeze(why)}") for name, why in done.skipped[:SHOWN])
        if len(done.skipped) > SHOWN:
            say([f"{len(done.skipped) - SHOWN} more are left out; all with --json"])
    return 0
