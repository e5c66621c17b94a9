"""What a session of another agent is, whichever agent it was: events one a line, the same for all formats.

Each line is canonical JSON with ``seq`` (its number, from 0) and ``kind``; what is unknown is left out. A
file ends with its one line ``session``; one without was not written to its end.

- ``message``: somebody spoke. ``role``, ``text``, ``thinking``, ``at``, ``model``, ``tokens`` (once an
  answer), ``notes``, ``attachments``, ``error``; ``continues``: the message that this is a piece of.
- ``call``: ``message`` (an event's number) called ``tool`` with ``input`` (``raw_input`` where it is no
  JSON); the ``command`` in it, and ``cwd``.
- ``result``: how ``call`` ended (an event's number; left out where no call asked for it). ``status``,
  ``exit_code``, ``returned`` (what the tool gave), ``shown`` (what the model saw, where that differs).
- ``segment``: what the model remembers was compacted (``why``); segment ``number`` begins.
- ``amended``: what was found out of earlier ``events`` later, to be ``set`` in them: ``live`` false (rewound,
  reverted), ``shown`` (pruned); ``why``.
- ``other``: a record of no known ``type``, whole (``record``), or its beginning (``cut``).
- ``session``: the last. Whose it was, and how much of everything there is (:class:`Session`).

``segment`` (from 1) of the others says in which memory of the model it happened. ``source`` says where it
stood: ``{"file","offset","bytes"}``, in bytes of the file as it decompresses, or ``{"file","row"}`` in a
database; ``text_sources`` the same of words that stood apart from their message. Files are named from the
folder that was imported.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

FORMAT: Final = 1

OK: Final = "ok"
ERROR: Final = "error"
"""The tool said so, or its exit code is not 0."""
ABORTED: Final = "aborted"
"""Stopped before it was through."""
REJECTED: Final = "rejected"
"""A person did not allow it."""
UNANSWERED: Final = "unanswered"
"""No result is recorded: the session was cut off."""

FAILURES: Final = frozenset({ERROR, ABORTED, REJECTED})

Event = dict[str, Any]
"""One line."""


@dataclass(frozen=True)
class Message:
    seq: int
    role: str
    """``user``, ``assistant``, ``system``, ``developer`` or ``tool``."""
    text: str = ""
    thinking: str = ""
    at: str | None = None
    segment: int = 1
    live: bool = True
    """False: on a branch that was left, or taken back."""
    id: str | None = None
    model: str | None = None
    tokens: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    """``synthetic`` (not typed by the person), ``meta``, ``summary`` (of a compaction), ``demonstration``,
    …"""
    attachments: tuple[Mapping[str, Any], ...] = ()
    """``mime``, ``name``, ``bytes`` of each; not their content."""
    error: str | None = None
    """Why the model's answer failed."""
    text_sources: tuple[Mapping[str, Any], ...] = ()
    """Where its words stood, where that is elsewhere than ``source``."""
    source: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Call:
    """A tool call with its result."""

    seq: int
    tool: str
    message: int | None = None
    """The event of the message that made it; calls of one message ran side by side."""
    id: str | None = None
    input: Any = None
    raw_input: str | None = None
    """As it stands, where it is no JSON."""
    command: str | None = None
    """The command line, where the tool runs one."""
    cwd: str | None = None
    thinking: str = ""
    """What the model thought before it, where no message has that."""
    at: str | None = None
    segment: int = 1
    live: bool = True
    result: int | None = None
    """The event of the result."""
    status: str = UNANSWERED
    exit_code: int | None = None
    returned: str = ""
    shown: str = ""
    """What the model saw of it in the end."""
    truncated: bool = False
    """The tool itself cut its output."""
    full_output: str | None = None
    """Where the tool put all of it."""
    started: str | None = None
    ended: str | None = None
    child: str | None = None
    """The session that a subagent had."""
    source: Mapping[str, Any] = field(default_factory=dict)

    @property
    def failed(self) -> bool:
        return self.status in FAILURES


@dataclass(frozen=True, kw_only=True)
class Session:
    """The last line of a file."""

    id: str
    format: str
    layout: str
    """Which of the format's ways of keeping sessions it was read from."""
    origin: str = ""
    """The file or folder that it was read from; empty in files of the first programs, which did not say."""
    messages: int
    tool_calls: int
    failures: int
    segments: int
    dead: int = 0
    """Messages that are not live."""
    orphans: int = 0
    """Results that no call asked for."""
    unanswered: int = 0
    """Calls without a result."""
    records: int = 0
    """Records read, whatever became of them."""
    skipped: Mapping[str, int] = field(default_factory=dict)
    """Type of record → how many of it are neither message nor call; ``malformed``, ``duplicate`` among
    them."""
    parent: str | None = None
    fork_of: str | None = None
    title: str | None = None
    cwd: str | None = None
    model: str | None = None
    version: str | None = None
    started: str | None = None
    ended: str | None = None
    tokens: Mapping[str, int] = field(default_factory=dict)
    """Sum over the answers."""


def session_of(document: Mapping[str, Any]) -> Session | None:
    """The session that a last line describes; None where that is not as any program wrote it."""
    try:
        session = Session(**known(Session, document))
    except TypeError:
        return None
    counts = (session.messages, session.tool_calls, session.failures, session.segments)
    names = (session.id, session.format, session.layout)
    sound = all(isinstance(one, str) for one in names) and all(isinstance(one, int) for one in counts)
    return session if sound and isinstance(session.skipped, Mapping) else None


def known(cls: type[Any], document: Mapping[str, Any]) -> dict[str, Any]:
    """What of a document are fields of a class; lists as tuples. A newer program may know more."""
    names = cls.__dataclass_fields__
    return {
        key: tuple(value)
        if isinstance(value, list) and key in {"notes", "attachments", "text_sources"}
        else value
        for key, value in document.items()
        if key in names
    }
