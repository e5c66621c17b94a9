"""One investigation put together: transcript, tools, driver and store around the loop."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from agent import __version__
from agent.board import Board
from agent.drivers.planner import Planner
from agent.execute import Batch, Cap, Executor, batch_functions
from agent.interrupts import Interrupts
from agent.loop import Driver, Investigation
from agent.policy import PERSON, Policy
from memory.artifacts import ArtifactError, Artifacts
from memory.canonical import canonical
from memory.clock import Clock, Ids, SystemClock
from memory.home import Home
from memory.store import Store, StoreError
from tools.base import Tool
from tools.environment.store import open_environment
from tools.output import cap
from tools.registry import registry
from transcripts.chain import LogError
from transcripts.events import Concluded, Event, Opened
from transcripts.fold import FoldError, Folding, catch_up
from transcripts.log import Log
from transcripts.reader import transcript_path

PROGRAM = f"assay-agent {__version__}"
FATAL = (LogError, ArtifactError)
"""Nothing more can be recorded: the investigation ends where its log ends."""


@dataclass(frozen=True)
class Running:
    """What tools are given."""

    home: Home
    say: Callable[[str], None]
    transcript: str
    board: Board

    def progress(self, text: str) -> None:
        self.say(text)


def start(
    home: Home,
    question: str,
    options: Mapping[str, Any],
    *,
    say: Callable[[str], None] = lambda _: None,
    clock: Clock | None = None,
    ids: Ids | None = None,
    seed: int = 0,
    driver: Driver | None = None,
    tools: Mapping[str, Tool[Any, Any]] | None = None,
    batches: Mapping[str, Batch] | None = None,
    policy: Policy = PERSON,
) -> Concluded:
    """Investigate ``question`` to its end and return how it ended. ``home`` must be prepared.

    ``options``: ``requirements`` (``P==V``…), or ``environment`` (a name or a folder); ``arch``, ``engine``,
    ``scenario``. The same options, clock, ids and seed write the same transcript, byte for byte.
    Raises ``ToolError`` for an environment that is not there, ``LogError`` where the log cannot be written.
    """
    clock = clock or SystemClock()
    chosen = driver or Planner()
    settled = {key: value for key, value in options.items() if value not in (None, [], {}, ())}
    if named := settled.get("environment"):
        environment = open_environment(home, str(named))
        # A folder of someone else's has no name here: its path is what opens it again.
        settled["environment"] = environment.name if environment.kind == "source" else environment.path
        settled["packages"] = environment.packages
    name = (ids or Ids()).investigation(clock)
    opened = Opened(
        investigation=name,
        program=PROGRAM,
        driver=chosen.name,
        question=question,
        seed=seed,
        options=settled,
    )
    artifacts = Artifacts(home.artifacts)
    board = Board(lambda sha256: json.loads(artifacts.get(sha256)))
    executor = Executor(
        registry() if tools is None else tools,
        Running(home, say, name, board),
        policy,
        capped(artifacts),
        batches=batch_functions() if batches is None else batches,
        fatal=FATAL,
    )
    path = transcript_path(home, name)
    with Interrupts() as interrupts, Store(home) as store:
        for problem in catch_up(store, home.transcripts):
            say(f"warning: {problem}")
        # The store first: one that cannot be opened leaves no transcript behind that says nothing. From
        # the first event on, whatever happens is concluded: until the loop runs, Ctrl-C waits.
        interrupts.hold()
        with Log.create(path, opened, clock) as log:
            folded = following(Folding(store, path), say)
            board.add(first_event(path))
            return Investigation(name, log, board, chosen, executor, folded, interrupts).run()


def first_event(path: Any) -> Event:
    """The event that a log begins with."""
    from transcripts.log import read

    events = read(path)
    try:
        return next(events)
    finally:
        events.close()  # type: ignore[attr-defined]


def capped(artifacts: Artifacts) -> Cap:
    """The one place where outputs are cut; the whole is kept."""

    def apply(document: Any) -> tuple[Any, str | None, int | None]:
        shown, whole = cap(canonical(document))
        if whole is None:
            return document, None, None
        return shown, artifacts.put(whole), len(whole)

    return apply


def following(folding: Folding, say: Callable[[str], None]) -> Callable[[Event], None]:
    """Fold each event. The log is what counts: a database that cannot keep up is left behind, with a word."""
    broken = False

    def fold(event: Event) -> None:
        nonlocal broken
        if broken:
            return
        try:
            folding(event)
        except (StoreError, FoldError) as error:
            broken = True
            say(f"warning: {error}; the transcript goes on, the database catches up later")

    return fold
