"""Fork: the beginning of one transcript as the beginning of another, from where a driver goes on live."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from agent.session import FINAL, PROGRAM, Setting, resume
from memory.clock import Ids
from memory.home import Home
from tools.base import ToolError
from transcripts.events import Body, Concluded, Event, Found, Opened
from transcripts.log import Log, read
from transcripts.reader import transcript_path


def fork(
    home: Home,
    path: Path,
    driver: str,
    *,
    until: int | None = None,
    setting: Setting | None = None,
    llm: Mapping[str, Any] | None = None,
    name: str | None = None,
    ids: Ids | None = None,
) -> tuple[str, Concluded]:
    """Let ``driver`` go on live after event ``until`` of the transcript at ``path`` (None: before its answer,
    or after all of it), in a new transcript that names it as its parent. Returns the new id and how it ended.
    ``llm``: which model decides then, and what it may spend.

    Raises ``ToolError`` where there is no such event, ``DriverError`` for a driver that cannot be had,
    ``LogError`` for a log that is damaged or a new one that cannot be written.
    """
    setting = setting or Setting()
    chosen = setting.driver(driver, home)
    events = list(_until(path, until))
    last = events[-1].seq
    if until is not None and last < until:
        raise ToolError(f"{path.stem} ends with event {last}; there is no event {until} to fork after")
    end = events[-1].data
    if isinstance(end, Concluded) and end.exit_reason in FINAL:
        # An answer is what a fork undoes: it begins before it.
        events.pop()
    first = events[0].data
    assert isinstance(first, Opened), "readers refuse a log that begins with anything else"
    name = name or (ids or Ids()).investigation(setting.clock)
    opened = first.model_copy(
        update={
            "investigation": name,
            "program": PROGRAM,
            "parent": f"{first.investigation}@{events[-1].seq}",
            "redacted": 0,
        }
    )
    inherited = ((event.at, _own(event.data, first.investigation, name)) for event in events[1:])
    new = transcript_path(home, name)
    setting.say(f"recording as {name}")
    Log.create(new, opened, setting.clock, inherited, setting.redact).close()
    return name, resume(home, new, setting=setting, driver=chosen, llm=llm)


def _until(path: Path, until: int | None) -> Iterator[Event]:
    return islice(read(path), None if until is None else until + 1)


def _own(body: Body, parent: str, name: str) -> Body:
    """What says where it is recorded says so of the new transcript: events keep their numbers.

    What a finding cites is cited where it lies: the hashes of events are others here.
    """
    if isinstance(body, Found):
        return Found(finding=body.finding.model_copy(update={"transcript": name}))
    if isinstance(body, Concluded):
        return Concluded.model_validate_json(body.model_dump_json().replace(parent, name))
    return body
