"""The rows of a whole home, brought to where its transcripts are.

A log that has grown is folded further. Where a log is not the one that was folded (it was replaced, redacted,
restored, taken away), nothing says which rows were its alone: all are made anew and take the place of the old
ones at once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

from memory.database import StoreError, explained, put_aside
from memory.home import Home
from memory.store import Store
from transcripts.chain import LogError
from transcripts.events import Event
from transcripts.fold import FoldError, fold, makes_rows
from transcripts.standing import logs, standing

Tell = Callable[[str], None]
"""Told what is going on, a line at a time."""

_EVERY = 2.0
"""Seconds between two lines about how far it is."""
_TIMES = 5
"""How often to look again where other processes replace logs at the same time."""


def catch_up(store: Store, transcripts: Path, tell: Tell = lambda _: None) -> list[str]:
    """Fold what the transcripts in a folder say since they were last folded. Returns one line for each that
    could not be: a damaged log must not stand between a person and what the others say.

    Raises :class:`StoreError` where the database cannot be written.
    """
    problems: list[str] = []
    for _ in range(_TIMES):
        with explained(transcripts, "read"):
            now = standing(store.all_folded(), transcripts)
        if now.other:
            more = f" and {len(now.other) - 3} more" if len(now.other) > 3 else ""
            names = ", ".join(now.other[:3]) + more
            tell(f"not what was folded any more, or gone: {names}; making all rows again")
            problems = _made_again(store, transcripts, tell)
            continue
        try:
            problems += _fold_all(store, now.grown, tell)
            break
        except FoldError:  # replaced since we looked
            continue
    return list(dict.fromkeys(problems))


def rebuild(store: Store, transcripts: Path, tell: Tell = lambda _: None) -> list[str]:
    """Make every row again from the transcripts. Returns problems as :func:`catch_up` does."""
    problems = _made_again(store, transcripts, tell)
    # Logs may have grown meanwhile, or been replaced.
    return list(dict.fromkeys([*problems, *catch_up(store, transcripts, tell)]))


def _made_again(store: Store, transcripts: Path, tell: Tell) -> list[str]:
    with explained(transcripts, "read"):
        found = logs(transcripts)
    with Store(store.home, aside=True) as fresh:
        problems = _fold_all(fresh, found.values(), tell)
        store.replace(fresh)
    return problems


@dataclass(frozen=True)
class Rebuilt:
    """What became of a database: the hash of each table ``before`` (None: there was none to read) and
    ``after``, how many transcripts and events the rows are of, what could not be folded, and where a damaged
    file is kept."""

    before: dict[str, str] | None
    after: dict[str, str]
    transcripts: int
    events: int
    problems: tuple[str, ...] = ()
    aside: Path | None = None

    @property
    def same(self) -> bool:
        return self.before == self.after

    @property
    def wrong(self) -> tuple[str, ...]:
        """Tables whose rows were not what the transcripts say, though the same events had been folded."""
        if self.before is None or self.before.get("folded") != self.after["folded"]:
            return ()
        return tuple(name for name, digest in self.after.items() if self.before.get(name) != digest)


def rebuild_home(home: Home, tell: Tell = lambda _: None) -> Rebuilt:
    """Make the database of a home again, whatever state it is in; a damaged file is put aside and kept.

    Raises :class:`StoreError` for a database of a newer program, or one that cannot be written.
    """
    store, before, aside = _opened(home, tell)
    with store:
        problems = rebuild(store, home.transcripts, tell)
        after = store.content()
        folded = store.all_folded().values()
    events = sum(one.last_seq + 1 for one in folded)
    return Rebuilt(before, after, len(folded), events, tuple(problems), aside)


class Follower:
    """Keeps the rows of a home with a log while that is written. Use it with ``with``.

    Never raises: the log is what counts. A database that cannot be used is left alone, with one line.
    """

    def __init__(self, home: Home, tell: Tell) -> None:
        self._home = home
        self._tell = tell
        self._store: Store | None = None

    def __enter__(self) -> Follower:
        try:
            self._store = Store(self._home)
            for problem in catch_up(self._store, self._home.transcripts, self._tell):
                self._tell(f"warning: {problem}")
        except StoreError as error:
            self._give_up(error)
        return self

    def __exit__(self, *_: object) -> None:
        if self._store is not None:
            self._store.close()
            self._store = None

    def follow(self, path: Path) -> Callable[[Event], None]:
        """What is to be told of every event of the log at ``path``, once it is on disk."""

        experiments: set[str] = set()

        def fold_event(event: Event) -> None:
            # What makes no rows is passed over: it is folded with the next event that does.
            if self._store is not None and makes_rows(event.data, experiments):
                try:
                    for reason in fold(self._store, path).refused:
                        self._tell(f"warning: {path.name}: {reason}")
                except (StoreError, FoldError, LogError) as error:
                    self._give_up(error)

        return fold_event

    def _give_up(self, error: Exception) -> None:
        self.__exit__()
        self._tell(f"warning: {error}; the transcript goes on without it, and its rows are made later")


def _opened(home: Home, tell: Tell) -> tuple[Store, dict[str, str] | None, Path | None]:
    """A database that is sound, what it held (None: there was none), and where one that was not is kept."""
    existed = home.findings_db.exists()
    store: Store | None = None
    try:
        store = Store(home)
        store.check()
        return store, store.content() if existed else None, None
    except StoreError as error:
        if store is not None:
            store.close()
        if not error.damaged:
            raise
        with explained(home.findings_db):
            aside = put_aside(home.findings_db)
        tell(f"{home.findings_db} is damaged; it is kept as {aside.name}, and a new one is made")
        return Store(home), None, aside


def _fold_all(store: Store, paths: Collection[Path], tell: Tell) -> list[str]:
    problems = []
    events, said = 0, time.monotonic()
    for number, path in enumerate(paths):
        if time.monotonic() - said > _EVERY:
            said = time.monotonic()
            tell(f"{number} of {len(paths)} transcripts folded, {events} events")
        try:
            folded = fold(store, path)
        except LogError as error:
            problems.append(str(error))
        else:
            events += folded.events
            problems += [f"{path.name}: {reason}" for reason in folded.refused]
    return problems
