"""``agent note``: what a person knows, kept as a report with the log that shows it."""

from __future__ import annotations

import re
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agent.cli.common import CommandError, Context, emit, json_option, progress, redactor, say, the_home
from agent.cli.findings_rows import views_of
from agent.text import safe, squeeze
from memory.home import Home
from memory.terms import Outcome
from memory.views import Views

if TYPE_CHECKING:
    from memory.vocabulary import Claim

LOG_LIMIT = 256 << 20
_WORD = re.compile(r"[A-Za-z][\w.-]*")


@click.command()
@click.argument("text")
@click.option("--log", "log", metavar="FILE", help="The log that shows it; it is kept.")
@click.option("--component", metavar="NAME", help="Which component; else as the text or the log says.")
@click.option("--backend", metavar="NAME", help="Which backend; else as the text or the log says.")
@click.option("--arch", metavar="ARCH", help="Which architecture; else as the text says, or this machine's.")
@click.option(
    "--engine", metavar="NAME", default="sglang", help="Which engine; sglang where nothing is said."
)
@click.option(
    "--outcome", type=click.Choice([one.value for one in Outcome]), metavar="WORD",
    help="How it ended; else as the text or the log says.",
)  # fmt: skip
@click.option("-p", "--package", "packages", metavar="P==V", multiple=True, help="A version; repeatable.")
@click.option("--url", metavar="URL", help="Where more of it stands.")
@json_option
def note(text: str, log: str | None, url: str | None, as_json: bool, **given: Any) -> int:
    """TEXT, what you know of a backend, as a report: "tried flashinfer_cutlass on sm120, NaN at 64".

    It counts as the account of a person and never outranks what ran. Backend, architecture and outcome are
    told from the text, the log and what is known, where you do not name them; what cannot be is asked for.

    \b
    Examples:
      agent note "tried flashinfer_cutlass, NaN at 64 requests" --component fp4_gemm --arch sm120
      agent note "hangs at start" --log server.log --backend triton --component moe_runner --arch sm120
    """
    home = the_home().prepare()
    views, _ = views_of(home)
    words = redactor()(text)
    if not isinstance(words, str) or sum(character.isalnum() for character in words) < 3:
        raise CommandError("the note says nothing; expected what you know, in words")
    data = _read(log) if log is not None else None
    told = _told(views, home, words, data, given)
    known = {row["component"] for row in views.cells()}
    done = _record(home, words, data, Path(log).name if log else None, told, url, given["packages"])
    _doubt(told["component"], known)
    if as_json:
        emit(done)
    else:
        kept = f"  kept as {done['finding'][:12]}, transcript {done['transcript']}"
        say(map(safe, (squeeze(done["sentence"]), kept)))
    return 0


def _read(log: str) -> bytes:
    try:
        with Path(log).open("rb") as file:
            data = file.read(LOG_LIMIT + 1)
    except OSError as error:
        raise CommandError(f"--log {log}: {error.strerror or error}") from error
    if not data.strip(b"\0 \r\n\t"):
        raise CommandError(f"--log {log} is empty, so it shows nothing; expected what an engine printed")
    if len(data) > LOG_LIMIT:
        raise CommandError(f"--log {log}: more than {LOG_LIMIT >> 20} MB; give the part that shows it")
    return data


def _told(views: Views, home: Home, text: str, log: bytes | None, given: dict[str, Any]) -> dict[str, str]:
    """Component, backend, architecture, engine and outcome: as given, else as text, log and rows tell."""
    from memory.architecture import ArchitectureError, parse_architecture

    fields = ("component", "backend", "arch", "engine", "outcome")
    found: dict[str, str | None] = {key: given[key] for key in fields}
    match = _matched(log)
    if match is not None:
        found["component"] = found["component"] or match.component
        found["backend"] = found["backend"] or match.backend
    names = set(_WORD.findall(text))
    known = [row for row in views.cells() if row["backend"] in names]
    if found["backend"] is None and len({row["backend"] for row in known}) == 1:
        found["backend"] = known[0]["backend"]
    of = {row["component"] for row in views.cells() if row["backend"] == found["backend"]}
    if found["component"] is None:
        named = {row["component"] for row in views.cells()} & names
        of = named or of
        found["component"] = next(iter(of)) if len(of) == 1 else None
    if found["outcome"] is None:
        found["outcome"] = _outcome(text) or (match.signature.outcome if match is not None else None)
    arch = found["arch"] or next((word for word in names if re.fullmatch(r"sm_?\d{2,3}[af]?", word)), None)
    if arch is None:
        from agent.cli.common import local_archs

        here = local_archs(home)
        arch = here[0] if len(here) == 1 else None
    if arch is not None:
        try:
            found["arch"] = parse_architecture(arch).base.name
        except ArchitectureError as error:
            raise CommandError(f"--arch: {error}") from error
    missing = [f"--{key}" for key, value in found.items() if not value]
    if missing:
        raise CommandError(f"the note does not say what it is about: give {', '.join(missing)}")
    return {key: str(value) for key, value in found.items()}


def _doubt(component: str, found: set[str]) -> None:
    """Say so where no component is known by that name: nobody would find the note again."""
    from difflib import get_close_matches

    from tools.engines.components import common_components

    known = sorted({*common_components(), *found})
    if component not in known:
        near = get_close_matches(component, known, 1, 0.7)
        meant = f"did you mean {near[0]}? " if near else ""
        progress(f"warning: no component is known as {component}: {meant}known are {', '.join(known)}")


def _matched(log: bytes | None) -> Any:
    """The signature of what failed first in a log, None where there is none."""
    if log is None:
        return None
    from tools.logs import read_log

    return read_log(BytesIO(log)).cause


_SAID = {
    Outcome.NAN: ("nan", "nans", "inf"),
    Outcome.HUNG: ("hang", "hangs", "hung", "stuck", "froze"),
    Outcome.OUT_OF_MEMORY: ("oom",),
    Outcome.CRASHED: ("crash", "crashes", "crashed", "segfault"),
    Outcome.WRONG: ("garbage", "gibberish", "wrong"),
    Outcome.UNSUPPORTED: ("unsupported",),
    Outcome.OK: ("works", "worked", "ok", "fine"),
}


_DENIED = {
    "no", "not", "never", "without", "nothing", "none", "neither", "nor", "cannot", "cant", "dont", "wont",
    "doesnt", "didnt", "hardly", "barely", "stopped", "fixed", "gone", "avoids", "avoid", "instead", "unless",
    "until", "only", "if",
}  # fmt: skip
"""Words beside which it is not clear what became of it."""
_CONTRACTED = re.compile(r"n['\u2019]t\b", re.IGNORECASE)


def _outcome(text: str) -> str | None:
    """What the text says of how it ended; nothing where it says several things, or denies one."""
    words = {word.lower() for word in _WORD.findall(text)}
    said = [outcome.value for outcome, names in _SAID.items() if words.intersection(names)]
    return said[0] if len(said) == 1 and not words & _DENIED and not _CONTRACTED.search(text) else None


def _record(
    home: Home,
    text: str,
    log: bytes | None,
    name: str | None,
    told: dict[str, str],
    url: str | None,
    packages: tuple[str, ...],
) -> dict[str, Any]:
    from agent.session import PROGRAM
    from memory.artifacts import Artifacts
    from memory.clock import Ids, SystemClock
    from memory.sentences import render
    from memory.store import Store
    from tools.findings.accounts import tell
    from transcripts.catch_up import catch_up

    kept = None
    if log is not None:
        shown = redactor()(log.decode("utf-8", "replace"))
        kept = Artifacts(home.artifacts).put(str(shown).encode())
    clock = SystemClock()
    claim = _claim(text, told, url, clock.now()[:10], packages)
    finding, transcript = tell(
        home, claim, {"text": text, "log": name, "log_sha256": kept, "url": url}, Context(home),
        program=PROGRAM, clock=clock, ids=Ids(),
    )  # fmt: skip
    with Store(home) as store:
        for problem in catch_up(store, home.transcripts, progress):
            progress(f"warning: {problem}")
    return {"finding": finding.id, "sentence": render(finding.claim), "transcript": transcript, "log": kept}


def _claim(text: str, told: dict[str, str], url: str | None, day: str, packages: tuple[str, ...]) -> Claim:
    from memory.vocabulary import Claim, Level, Report

    versions: dict[str, str] = {}
    for one in packages:
        package, equals, version = one.partition("==")
        if not equals or not package.strip() or not version.strip():
            raise CommandError(f"-p {one!r} is no version; expected NAME==VERSION")
        versions[package.strip()] = version.strip()
    return Claim(
        component=told["component"], backend=told["backend"], arch=told["arch"], engine=told["engine"],
        packages=versions, level=Level.REPORT, outcome=Outcome(told["outcome"]),
        report=Report(url=url, date=day, by="person", note=text[:4000]),
    )  # fmt: skip
