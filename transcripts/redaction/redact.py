"""Taking out of logs what should not have been written: they are written anew, and what rests on it follows.

A log is replaced whole, under its writer's lock: whoever is killed leaves the old one or the new one, and
doing it again finishes it (:mod:`transcripts.redaction.pending`). Numbers and times of events stay; hashes
do not.
"""

from __future__ import annotations

import errno
import os
import re
import tempfile
from collections.abc import Callable, Collection, Iterable
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from pathlib import Path

from memory.artifacts import Artifacts, sync_folder
from memory.home import Home
from transcripts.chain import LogError, LogWriteError, encode
from transcripts.events import GENESIS
from transcripts.log import lock, verify
from transcripts.reader import records
from transcripts.redaction.follow import Cut, Following, NotYetError, names_in
from transcripts.redaction.pending import Pending
from transcripts.redaction.place import Place
from transcripts.redaction.secrets import Redactor
from transcripts.redaction.survey import Surveyed, Surveyor, require_sound

_PART = ".redacting"
_TELLING = re.compile(r"(?s)(?=.*?\d)(?=.*?[A-Za-z]).{8,}")
"""A secret that a rule has found is looked for everywhere, unless it could be a plain word."""


@dataclass(frozen=True)
class Redacted:
    """What was done, or would be. ``changed``: logs with secrets, and those that only follow; ``artifacts``:
    how many have others in their place; ``kept``: those that other logs still name; ``finished``: something
    begun by an earlier run; ``left``: files where one of the secrets still stands."""

    changed: tuple[Surveyed, ...]
    artifacts: int = 0
    kept: tuple[str, ...] = ()
    finished: bool = False
    left: tuple[Path, ...] = ()


def redact(
    home: Home,
    paths: Iterable[Path],
    exact: Collection[str],
    cut: Cut,
    *,
    dry: bool = False,
    tell: Callable[[str], None] = lambda _: None,
) -> Redacted:
    """Take what looks like a secret, and the strings ``exact``, out of the logs at ``paths``, all in one
    folder. ``dry``: only find out what would be done.

    Raises :class:`LogError` for what is no transcript, ``DamagedError``, :class:`LogWriteError` for a log
    that has a writer or cannot be written, ``ArtifactError``, ``StoreError``.
    """
    logs = [path.resolve() for path in paths]
    place = Place.of(home, logs)
    with ExitStack() as held:
        if not dry:
            held.callback(os.close, place.take())
        pending = Pending.read(place.transcripts)
        begun = pending.begun
        run = _Run(place, cut, pending, held, dry)
        changed = run.survey(logs, exact)
        if dry:
            return Redacted(tuple(changed))
        replaced = run.replace(changed)
        kept: tuple[str, ...] = ()
        if pending.begun:
            kept = run.remove_artifacts()
            place.rows_again(tell)
            pending.clear()
        left = tuple(place.files_with(run.secrets))
        return Redacted(tuple(changed), replaced, kept, begun, left)


class _Run:
    """One run, step by step. Locks of logs are kept in ``held`` until it ends."""

    def __init__(self, place: Place, cut: Cut, pending: Pending, held: ExitStack, dry: bool) -> None:
        self._place = place
        self._artifacts = Artifacts(place.artifacts)
        self._there = place.logs()
        self._cut = cut
        self._pending = pending
        self._held = held
        self._dry = dry
        self.secrets: set[str] = set()
        self._redact = Redactor()

    def survey(self, paths: list[Path], exact: Collection[str]) -> list[Surveyed]:
        """The logs that change: with secrets, and those that name what changes by that."""
        begun = [path for path in self._there if path.stem in self._pending.logs]
        wanted = list(dict.fromkeys([*paths, *begun]))
        found: dict[str, str] = {}
        looking = Surveyor(Redactor(exact, found=found.setdefault), self._artifacts)
        for path in wanted:
            self._take(path)
            looking.survey(path)
        # What is a secret in its place is one wherever it stands: in the excerpt that cites it, too.
        known = {secret: kind for secret, kind in found.items() if _TELLING.fullmatch(secret)}
        self.secrets = {*exact, *known}
        self._redact = Redactor(exact, known=known)
        surveyor = Surveyor(self._redact, self._artifacts)
        surveyed = {path: surveyor.survey(path) for path in wanted}
        changed = {path: one for path, one in surveyed.items() if one.strings}
        while followers := self._followers(changed, surveyor, wanted):
            for path in followers:
                if path not in surveyed:
                    self._take(path)
                    surveyed[path] = surveyor.survey(path)
                changed[path] = surveyed[path]
        return list(changed.values())

    def _followers(self, changed: dict[Path, Surveyed], surveyor: Surveyor, wanted: list[Path]) -> list[Path]:
        hashes = {digest for one in changed.values() for digest in one.hashes}
        names = hashes.union(self._pending.names, *(one.unsteady(hashes) for one in changed.values()))
        others = [path for path in dict.fromkeys([*wanted, *self._there]) if path not in changed]
        return [path for path in others if names and names & _names(path, surveyor)]

    def _take(self, path: Path) -> None:
        """Keep writers away until the end, and clear away what a run that was killed has left."""
        require_sound(path)  # before it is locked: it may be no transcript at all
        if not self._dry:
            self._held.callback(os.close, lock(path))
            for part in path.parent.glob(f".{path.stem}-*{_PART}"):
                part.unlink(missing_ok=True)

    def replace(self, changed: list[Surveyed]) -> int:
        """Write ``changed`` anew and put them in place. Returns how many artifacts were replaced."""
        if not changed:
            return 0
        hashes = {digest for one in changed for digest in one.hashes}
        claims = {name for one in changed for name in one.claims}
        # What gets a name now has none of an earlier run.
        names = {old: new for old, new in self._pending.names.items() if old not in hashes | claims}
        cited = {place for one in changed for place in one.cited}
        following = Following(self._redact, self._artifacts, self._cut, names, hashes, cited)
        try:
            with ExitStack() as writing:
                writers = [writing.enter_context(closing(_Writer(one, following))) for one in changed]
                while any([writer.goes_on() for writer in writers]):  # noqa: C419 - each has its turn
                    pass
                if waiting := [writer for writer in writers if not writer.done]:
                    raise LogError(f"{waiting[0].path} cites an event after its own; nothing was changed")
                for writer in writers:
                    writer.finish()
                self._begin(changed, following)
                for writer in writers:
                    writer.put_in_place()
        except OSError as error:
            full = error.errno in {errno.ENOSPC, errno.EDQUOT}
            fix = "; free some space, then redact again" if full else ""
            raise LogWriteError(
                f"cannot write {changed[0].path} anew: {error.strerror or error}{fix}"
            ) from error
        return len(following.replaced)

    def _begin(self, changed: list[Surveyed], following: Following) -> None:
        """Note what is to be done, before the first log is replaced."""
        self._pending.logs = sorted({*self._pending.logs, *(one.path.stem for one in changed)})
        self._pending.names = {old: new for old, new in following.names.items() if old != new}
        self._pending.gone = sorted({*self._pending.gone, *following.replaced})
        self._pending.write()

    def remove_artifacts(self) -> tuple[str, ...]:
        """Remove artifacts that have others in their place; returns those that a log still names."""
        gone = {name for name in self._pending.gone if name in self._artifacts}
        surveyor = Surveyor(Redactor(), self._artifacts)
        logs = self._place.logs_that_name() if gone else ()
        named = {name for path in logs for name in _names(path, surveyor) & gone}
        for name in gone - named:
            self._artifacts.path(name).unlink(missing_ok=True)
        return tuple(sorted(named))


def _names(path: Path, surveyor: Surveyor) -> set[str]:
    """What a log names; one that is damaged may name whatever stands in it."""
    try:
        return surveyor.names(path)
    except LogError:
        with suppress(OSError):
            return names_in(path.read_text(errors="replace"))
        return set()


class _Writer:
    """Writes one log anew, in a file beside it, as far as what it names has new names."""

    def __init__(self, surveyed: Surveyed, following: Following) -> None:
        self.path = surveyed.path
        self._strings = surveyed.strings
        self._following = following
        self._records = records(self.path)
        self._next = next(self._records, None)
        self._prev = GENESIS
        try:
            handle, name = tempfile.mkstemp(dir=self.path.parent, prefix=f".{self.path.stem}-", suffix=_PART)
        except OSError as error:
            raise LogWriteError(f"cannot write beside {self.path}: {error.strerror or error}") from error
        self._part = Path(name)
        self._file = os.fdopen(handle, "wb")

    @property
    def done(self) -> bool:
        return self._next is None

    def goes_on(self) -> bool:
        """Write what can be; returns whether anything was."""
        moved = False
        while (record := self._next) is not None:
            try:
                data = self._following.event(record.data)
            except NotYetError:
                break
            if record.seq == 0 and self._strings:
                data = {**data, "redacted": data.get("redacted", 0) + self._strings}
            line, digest = encode(record.seq, record.at, data, self._prev)
            self._file.write(line)
            self._following.written(self.path.stem, record.seq, record.hash, digest, data)
            self._prev, self._next = digest, next(self._records, None)
            moved = True
        return moved

    def finish(self) -> None:
        """The new log, whole and on disk. Raises :class:`LogError` where it is none."""
        state = self.path.stat()
        self._file.flush()
        os.fchmod(self._file.fileno(), state.st_mode & 0o777)
        os.fsync(self._file.fileno())
        self._file.close()
        os.utime(self._part, ns=(state.st_atime_ns, state.st_mtime_ns))
        if wrong := verify(self._part):
            raise LogError(
                f"{self.path}: {wrong[0]} without that secret: it is a word of the format, not a secret; "
                "nothing was changed"
            )

    def put_in_place(self) -> None:
        self._part.replace(self.path)
        sync_folder(self.path.parent)

    def close(self) -> None:
        with suppress(OSError):  # what could not be written cannot be written now
            self._file.close()
        self._records.close()
        self._part.unlink(missing_ok=True)
