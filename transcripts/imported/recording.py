"""Writing down one session of another agent, as its importer reads it. Memory holds one event at a time.

The file appears under its name when it is complete, in one step; until then it is nobody's. The same session
read again gives the same bytes.
"""

from __future__ import annotations

import hashlib
import os
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from memory.canonical import canonical
from transcripts.imported.model import ABORTED, ERROR, FAILURES, FORMAT, OK, UNANSWERED, Event, Session

_SAFE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,119}")
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
_OTHER_BYTES = 64 << 10
"""Characters of an unknown record that are kept; of a longer one its beginning and its place."""
_TITLE = 200
_NOTHING: tuple[Any, ...] = (None, "", (), [], {})

Where = Mapping[str, Any]
"""The ``source`` of an event."""


@dataclass(frozen=True)
class Kept:
    """A session that was written down. ``same``: it was there already, as it is."""

    session: Session
    path: Path
    change: Literal["new", "changed", "same"]


class Recording:
    """The events of one session. ``clean`` takes out what must not be written down.

    ``id`` None: the session has none of its own; it gets one made of what it says.
    """

    def __init__(
        self,
        folder: Path,
        format_: str,
        id_: str | None,
        *,
        layout: str,
        source: str,
        clean: Callable[[Any], Any],
    ) -> None:
        self.format = format_
        self.id = id_
        self.segment_number = 1
        self.counts: Counter[str] = Counter()
        """Of ``records``, ``messages``, ``tool_calls``, ``failures``, ``dead``, ``orphans``."""
        self.skipped: Counter[str] = Counter()
        self.facts: dict[str, Any] = {}
        self._fixed = {"layout": layout, "origin": source}
        self._clean = clean
        self._tokens: Counter[str] = Counter()
        self._next = 0
        self._open: dict[str, list[int]] = {}
        self._answered: set[int] = set()
        self._failed: set[int] = set()
        self._messages: list[int] = []
        self._dead: set[int] = set()
        self._first = ""
        """What the person said first: the title of a session that has none."""
        self._identity = hashlib.sha256()
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._path = folder / f".{os.getpid()}-{id(self):x}.part"
        self._file = self._path.open("wb", buffering=1 << 20)

    def about(self, **facts: Any) -> None:
        """Set facts of the session: title, cwd, model, version, parent, fork_of. What is None is nothing
        new."""
        self.facts.update({key: value for key, value in facts.items() if value is not None})

    def message(
        self,
        role: str,
        text: str,
        source: Where,
        *,
        at: str | None = None,
        tokens: Mapping[str, int] | None = None,
        **more: Any,
    ) -> int:
        """``more``: other fields that a message has. Returns the event's number."""
        self.counts["messages"] += 1
        self._messages.append(self._next)
        if role == "user" and not more.get("notes") and not self._first:
            self._first = text[:_TITLE]
        self._tokens.update(tokens or {})
        return self._event(
            "message", source, role=role, text=text, at=at, tokens=tokens, segment=self.segment_number, **more
        )

    def more(self, message: int, text: str, source: Where, *, thinking: str = "") -> int:
        """Another piece of a message that was written down before its end."""
        return self._event(
            "message", source, continues=message, role="assistant", text=text, thinking=thinking,
            segment=self.segment_number,
        )  # fmt: skip

    def call(self, tool: str, input_: Any, source: Where, *, id_: str | None = None, **more: Any) -> int:
        """``more``: message, at, command, cwd, raw_input. Returns the event's number."""
        self.counts["tool_calls"] += 1
        seq = self._event(
            "call", source, tool=tool, input=input_, id=id_, segment=self.segment_number, **more
        )
        if id_ is not None:
            self._open.setdefault(id_, []).append(seq)
        return seq

    def asked(self, id_: str) -> int | None:
        """The call of that id: the first that waits for a result, else the last one."""
        calls = self._open.get(id_, ())
        return next((seq for seq in calls if seq not in self._answered), calls[-1] if calls else None)

    def answered(self, call: int) -> bool:
        return call in self._answered

    def waiting(self) -> list[int]:
        """Calls without a result."""
        return sorted({seq for calls in self._open.values() for seq in calls} - self._answered)

    def tokens_are(self, tokens: Mapping[str, int]) -> None:
        """What all answers so far took, where the format says it of all at once."""
        self._tokens = Counter(tokens)

    def result(
        self,
        call: int | None,
        source: Where,
        *,
        returned: str | None = None,
        shown: str | None = None,
        status: str | None = None,
        exit_code: int | None = None,
        **more: Any,
    ) -> int:
        """``status`` None: by the exit code, else ``ok``. ``more``: truncated, full_output, started, ended,
        child."""
        if status is None or status == OK:
            status = ERROR if exit_code else OK
        if call is None:
            self.counts["orphans"] += 1
        if status in FAILURES:
            # What no call asked for has failed all the same.
            self._failed.add(self._next if call is None else call)
        if call is not None and status != UNANSWERED:
            self._answered.add(call)
        if more.get("child"):
            more["child"] = name_of(more["child"])
        return self._event(
            "result",
            source,
            call=call,
            status=status,
            exit_code=exit_code,
            returned=returned,
            shown=None if shown == returned else shown,
            segment=self.segment_number,
            **more,
        )

    def interrupted(self, call: int, source: Where, shown: str) -> int:
        """A call that never came back, and what the model was told of it."""
        return self.result(call, source, status=ABORTED, shown=shown)

    def segment(self, source: Where, *, why: str, **more: Any) -> int:
        """From here on the model remembers a summary only."""
        self.segment_number += 1
        return self._event("segment", source, number=self.segment_number, why=why, **more)

    def amend(self, events: Sequence[int], *, why: str, messages: int = 0, **facts: Any) -> None:
        """Say of earlier events what was found out later; ``messages``: how many of them are messages that
        are not live."""
        if events:
            self.counts["dead"] += messages
            self._event("amended", {}, events=sorted(events), why=why, set=facts)

    def amend_from(self, first: int, *, why: str) -> None:
        """Everything from event ``first`` on was taken back."""
        gone = self._messages[bisect_left(self._messages, first) :]
        dead = [seq for seq in gone if seq not in self._dead]
        self._dead.update(dead)
        self.amend(range(first, self._next), why=why, live=False, messages=len(dead))

    def other(self, type_: str, record: Any, source: Where) -> None:
        """Keep a record of a type that is not known."""
        self.skip(type_)
        text = canonical(record)
        kept: dict[str, Any] = {"record": record}
        if len(text) > _OTHER_BYTES:
            kept = {"cut": text[:_OTHER_BYTES]}
        self._event("other", source, type=type_, **kept)

    def skip(self, type_: str, count: int = 1) -> None:
        """Count a record that says nothing by itself, or cannot be read."""
        self.skipped[_UNSAFE.sub("_", str(type_))[:60] or "untyped"] += count

    def close(self) -> Kept:
        """Write the end; the file gets its name."""
        if self.id is None:
            self.id = f"{self.format}-{self._identity.hexdigest()[:12]}"
        session = self._session(self.id)
        document = {key: value for key, value in asdict(session).items() if value is not None}
        own = {} if session.id == self.id else {"own_id": self.id}
        self._event("session", {}, version_of_format=FORMAT, **own, **document)
        self._file.close()
        path = self._folder / f"{name_of(self.format)}-{session.id}.jsonl"
        change: Literal["new", "changed", "same"] = "changed" if path.exists() else "new"
        if change == "changed" and _same(path, self._path):
            self._path.unlink()
            change = "same"
        else:
            self._path.replace(path)
        return Kept(session, path, change)

    def _session(self, id_: str) -> Session:
        calls = self.counts["tool_calls"]
        facts = {
            key: name_of(value) if key in {"parent", "fork_of"} else value
            for key, value in self.facts.items()
        }
        facts.setdefault("title", " ".join(self._first.split()) or None)
        return Session(
            id=name_of(id_),
            format=self.format,
            messages=self.counts["messages"],
            tool_calls=calls,
            failures=len(self._failed),
            segments=self.segment_number,
            dead=self.counts["dead"],
            orphans=self.counts["orphans"],
            unanswered=calls - len(self._answered),
            records=self.counts["records"],
            skipped=dict(sorted(self.skipped.items())),
            tokens={key: value for key, value in sorted(self._tokens.items()) if value},
            **self._fixed,
            **facts,
        )

    def drop(self) -> None:
        """Write nothing after all."""
        self._file.close()
        with suppress(FileNotFoundError):
            self._path.unlink()

    def _event(self, kind: str, place: Where, /, **fields: Any) -> int:
        at = fields.get("at") or fields.get("ended")
        if isinstance(at, str):
            self.facts.setdefault("started", at)
            self.facts["ended"] = max(at, self.facts.get("ended", at))
        event: Event = {
            key: value for key, value in fields.items() if value is not False and value not in _NOTHING
        }
        event |= {"seq": self._next, "kind": kind}
        if self.id is None:
            # Where it stands, and in which file, makes it no other session.
            self._identity.update(canonical(event).encode())
        if place:
            event["source"] = place
        line = canonical(self._clean(event)).encode() + b"\n"
        self._file.write(line)
        self._next += 1
        return self._next - 1


def sweep(folder: Path) -> None:
    """Take away what was begun by processes that are no more."""
    with suppress(OSError):
        for path in folder.glob(".*-*.part"):
            process = path.name[1:].partition("-")[0]
            if process.isdigit() and not _runs(int(process)):
                path.unlink()


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def name_of(id_: str) -> str:
    """A foreign id as a name that is safe in a path and on a command line: itself where it is."""
    if _SAFE.fullmatch(id_) and ".." not in id_:
        return id_
    plain = _UNSAFE.sub("-", id_.replace("..", "-")).strip("-.")[:40]
    digest = hashlib.sha256(id_.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{plain}-{digest}" if plain else digest


def _same(one: Path, other: Path) -> bool:
    """Whether two files hold the same bytes."""
    if one.stat().st_size != other.stat().st_size:
        return False
    with one.open("rb") as left, other.open("rb") as right:
        while block := left.read(1 << 20):
            if block != right.read(1 << 20):
                return False
    return True
