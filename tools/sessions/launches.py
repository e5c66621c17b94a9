"""The launches of an imported session, and how each went: found by the text index."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from io import BytesIO

from memory.terms import CallKind
from tools.benchmark import benchmark_runs
from tools.logs import read_log
from tools.sessions.acts import Act, words
from tools.sessions.explaining import choices_in, quoted
from transcripts.commands.servers import data as engines
from transcripts.imported.reader import Imported

FOLLOWED = 60
"""Calls after a launch that are looked through for how it went."""


class Launches:
    """Launches that name backends. Nothing is read before it is asked for."""

    def __init__(self, session: Imported) -> None:
        self._session = session

    @cached_property
    def chosen(self) -> dict[int, dict[str, str]]:
        """Calls that launch a server → the backends that they name."""
        phrases = {
            phrase
            for server in engines()["server"]
            for key in ("modules", "commands", "scripts")
            for phrase in server.get(key, ())
        }
        found = {number for phrase in phrases for number in self._session.mentions(phrase, kind="call")}
        launches = {}
        for number in sorted(found):
            command = str(self._session.event(number).get("command") or "")
            if chosen := choices_in(command):
                launches[number] = chosen
        return launches

    def came_out(self, launch: int) -> tuple[str, tuple[int, ...]]:
        """How a launch went, as its own output, its log or a benchmark shows, until the next launch."""
        later = [number for number in self.chosen if number > launch]
        last = later[0] - 1 if later else None
        looked = self._session.numbers("call", first=launch, last=last, limit=FOLLOWED)
        went: dict[str, tuple[str, int]] = {}
        for act in (Act(self._session.call(number)) for number in looked):
            if not act.output or (act.event != launch and not _may_tell(act)):
                continue
            if act.event == launch or act.shows_a_log or act.steps(CallKind.RUN_BENCHMARK):
                for sign, text in _signs(act):
                    went.setdefault(sign, (text, act.said))
                if "failed" in went:
                    break
        if not went:
            end = looked[-1] if looked else launch
            return f"nothing up to event {end} says how it came out", (end,)
        return "; ".join(text for text, _ in went.values()), tuple(event for _, event in went.values())


def _signs(act: Act) -> Iterator[tuple[str, str]]:
    """What an output shows of a launch: that it answered, figures, and how it failed."""
    if any(line in act.output for line in words()["ready"]):
        yield "answered", f"it answered (event {act.said})"
    if figures := [figure for run in benchmark_runs(act.plain) for figure in run.figures]:
        shown = ", ".join(f"{one.metric} {one.value:g} {one.unit}" for one in figures[:3])
        yield "figures", f"event {act.said} measured {shown}"
    cause = read_log(BytesIO(act.output.encode("utf-8", "replace"))).cause
    if cause is not None:
        outcome = cause.signature.outcome.value.replace("_", " ")
        yield "failed", f"{outcome}, as event {act.said} says: {quoted(cause.words)}"


def _may_tell(act: Act) -> bool:
    """Whether it is worth understanding a command: cheap, and never wrong where it says no."""
    command = act.call.command or ""
    named = command or str(act.call.input)
    return any(
        mark in named.lower() for mark in ("log", ".out", ".err", ".txt", "bench", "perf", "capture-pane")
    )
