"""Launches of a session, and what was seen of each until the next one at the same place."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from memory.terms import CallKind
from tools.engines.components import component_of
from tools.sessions.acts import Act, words
from tools.sessions.explaining import choices_of
from tools.sessions.facts import Fact, Ledger, Place, place_of
from transcripts.commands import Step


@dataclass
class Attempt:
    """One launch: what was asked for, and the calls whose output tells how it went."""

    act: Act
    step: Step
    place: Place
    arch: Fact | None
    versions: dict[str, Fact]
    seen: list[Act] = field(default_factory=list)

    @property
    def engine(self) -> str | None:
        """The engine that was launched; of a benchmark that runs one itself, the one that it is of."""
        name = self.step.fields.get("engine") or re.split(r"[. ]", self.step.fields.get("tool") or "")[0]
        return str(name) or None

    @property
    def choices(self) -> dict[str, str]:
        """Component → backend, as the flags and the environment of the launch name them."""
        found = choices_of(self.step.fields.get("flags") or {})
        for name, value in (self.step.fields.get("env") or {}).items():
            engine, _, rest = str(name).lower().partition("_")
            if engine == self.engine and rest.endswith("_backend") and value != "auto":
                found.setdefault(component_of(rest), str(value).lower())
        return found

    @property
    def scenario(self) -> dict[str, str]:
        flags = {str(key).lstrip("-").replace("_", "-"): value for key, value in self._flags()}
        named = words()["scenario"].items()
        return {name: str(flags[flag]) for flag, name in named if isinstance(flags.get(flag), str)}

    def _flags(self) -> Iterable[tuple[str, Any]]:
        return (self.step.fields.get("flags") or {}).items()


class Attempts:
    """Follows a session act by act. ``now`` holds what was launched last at each place."""

    def __init__(self) -> None:
        self.ledger = Ledger()
        self._now: dict[Place, Attempt] = {}

    def add(self, act: Act) -> list[Attempt]:
        """Take in an act; the attempts that begin with it."""
        begun = [self._attempt(act, step) for step in act.steps(CallKind.LAUNCH_SERVER)]
        for attempt in begun:
            self._now[attempt.place] = attempt
        for attempt in begun or self._shown(act):
            attempt.seen.append(act)
        self.ledger.add(act)
        return begun

    def current(self, act: Act) -> Attempt | None:
        """What had been launched last where an act took place."""
        places = [place_of(step.fields) for step in act.parsed.steps] or [(None, None)]
        return next((self._now[place] for place in places if place in self._now), None)

    def of_benchmark(self, act: Act) -> Attempt | None:
        """What a benchmark measured: the engine that it ran itself, else what had been launched last."""
        for step in act.steps(CallKind.RUN_BENCHMARK):
            own = self._attempt(act, step)
            if own.choices:
                return own
        return self.current(act)

    def _shown(self, act: Act) -> Iterator[Attempt]:
        attempt = self.current(act)
        if attempt is not None and (act.shows_a_log or act.steps(CallKind.RUN_BENCHMARK)):
            yield attempt

    def _attempt(self, act: Act, step: Step) -> Attempt:
        place = place_of(step.fields)
        venv = step.fields.get("venv")
        attempt = Attempt(act, step, place, self.ledger.architecture(place), {})
        for name in (attempt.engine, *_kernel_libraries(), *words()["named"]):
            if name and (fact := self.ledger.version(place, name, venv)) is not None:
                attempt.versions[name] = fact
        return attempt


def _kernel_libraries() -> Iterator[str]:
    from tools.engines.adapter import engines

    yield from dict.fromkeys(name for engine in engines().values() for name in engine.kernel_distributions)
