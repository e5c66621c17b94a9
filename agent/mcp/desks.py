"""The investigations that the clients of one server have open, by their names."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from typing import Any

from agent.drivers.outside import Outside
from agent.mcp.begin import BeginInvestigation, Beginnings, ResumeInvestigation
from agent.mcp.desk import Desk
from agent.session import Setting, resume, start
from memory.clock import Ids
from memory.home import Home
from tools.errors import ToolError
from transcripts.events import Concluded, Opened
from transcripts.log import read

MOST_OPEN = 16
"""Investigations that are open at the same time. Of the idle ones that which was used first makes room."""
SOON = 60.0
"""Seconds that the end of an investigation is waited for: more than ending its child processes takes."""


class Desks:
    """``shared``: several clients use this server, and each call names its investigation. ``budget``: what
    each investigation may spend, from its beginning and again each time that it is gone on with."""

    def __init__(
        self,
        home: Home,
        beginnings: Beginnings,
        setting: Setting,
        *,
        shared: bool,
        budget: Mapping[str, Any] | None = None,
        ids: Ids | None = None,
    ) -> None:
        self._budget = dict(budget or {})
        self.home = home
        self.shared = shared
        self._beginnings = beginnings
        self._setting = setting
        self._ids = ids or Ids()
        self._lock = threading.Lock()
        self.turn = threading.Lock()
        """Held by whoever acts."""
        self._open: dict[str, Desk] = {}
        """Those used last come last."""

    def begin(self, asked: BeginInvestigation) -> Desk:
        """Open a transcript and let the planner lay the ground; what cannot be begun is the desk's to say."""
        name = self._ids.investigation(self._setting.clock)

        def run(desk: Desk) -> Concluded:
            setting = self._of(desk)
            options = {**self._beginnings.options(asked, setting.say), "llm": self._budget}
            return start(self.home, asked.question, options, name=name, setting=setting, driver=desk.driver)

        return self._opened(Desk(name, run, self.turn))

    def resume(self, asked: ResumeInvestigation) -> Desk:
        """Go on with what a client had begun. Raises in one line what cannot be gone on with."""
        name = asked.investigation
        with self._lock:
            if (desk := self._open.get(name)) is not None and not desk.over:
                return desk
        path = next((one for one in self.home.transcripts.glob("*.jsonl") if one.stem == name), None)
        if path is None:
            raise ToolError(f"no investigation {name!r} is kept here; begin_investigation begins one")
        with closing(read(path)) as events:
            opened = next(events).data
        assert isinstance(opened, Opened), "readers refuse a log that begins with anything else"
        if opened.driver != Outside.name:
            raise ToolError(
                f"{name} was not begun by a client (but by {opened.driver}); begin one of your own"
            )
        # What another server was given is not given here.
        self._beginnings.check(opened.options.get("environment"))

        def run(desk: Desk) -> Concluded:
            return resume(self.home, path, setting=self._of(desk), driver=desk.driver, llm=self._budget)

        return self._opened(Desk(name, run, self.turn))

    def find(self, name: str | None) -> Desk:
        """The investigation that a call belongs to; without a name the last one, where there is one client
        alone. Raises ``ToolError``."""
        with self._lock:
            if name is None and not self.shared:
                begun = [one for one in self._open.values() if not one.failed]
                going = [one for one in begun if not one.over]
                # One that is over can still say so.
                name = (going or begun)[-1].name if begun else None
            desk = self._open.pop(name, None) if name is not None else None
            if name is not None and desk is not None:
                self._open[name] = desk
                return desk
        if name is None:
            first = "begin_investigation gives its name" if self.shared else "call begin_investigation first"
            raise ToolError(f"say which investigation this belongs to: {first}")
        raise ToolError(
            f"no investigation {name!r} is open here; begin_investigation begins one, "
            "resume_investigation opens it again"
        )

    def close(self) -> None:
        """End all, each on record. Waits for that, but not for ever."""
        with self._lock:
            desks = list(self._open.values())
        for desk in desks:
            desk.leave()
        until = time.monotonic() + SOON
        for desk in desks:
            desk.join(max(0.0, until - time.monotonic()))

    def _of(self, desk: Desk) -> Setting:
        """The setting, with a say that the desk's client hears of, too."""

        def say(text: str) -> None:
            desk.doing = text
            self._setting.say(f"{desk.name}: {text}")

        return replace(self._setting, say=say, stops=desk.stop_of)

    def _opened(self, desk: Desk) -> Desk:
        with self._lock:
            self._open = {name: one for name, one in self._open.items() if not one.over}
            if len(self._open) >= MOST_OPEN:
                idle = next((one for one in self._open.values() if one.idle), None)
                if idle is None:
                    raise ToolError(
                        f"{MOST_OPEN} investigations are going on already; wait until one has ended"
                    )
                idle.leave()
                del self._open[idle.name]
            self._open[desk.name] = desk
            desk.start()
        return desk
