"""A step of an imported session, explained from what stands before and after it.

The text index finds what names the same file, symbol or backend; only calls that are shown are understood as
typed calls. Nothing is said without the events that it rests on.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from pathlib import PurePosixPath
from typing import Any

from memory.terms import CallKind
from tools.sessions.acts import Act
from tools.sessions.explaining import (
    Explanation,
    Statement,
    counted,
    has_word,
    lines_with,
    listed,
    quoted,
    same_file,
    symbols,
    what,
)
from tools.sessions.launches import Launches
from transcripts.imported.model import Message, known
from transcripts.imported.reader import Imported

NEAREST = 4
"""Calls that are told one by one; the others are counted."""
CHECKED = 60
"""Names that are looked for in what came before."""
FIRST = 12
"""Names that are shown as seen first."""
BACKENDS = 4
LAUNCHES = 3
_REQUESTS = 2
_BRIEF = 25
"""Characters of a request that says nothing by itself ("go on")."""


def explain_imported(imported: Imported, number: int) -> Explanation:
    """Explain the step that event ``number`` belongs to. Raises :class:`StoreError` where there is none."""
    step = _Step(imported, number)
    return Explanation(
        imported.session.id, imported.session.format, number, step.events, tuple(step.statements())
    )


class _Step:
    """A message with the calls that it made."""

    def __init__(self, imported: Imported, number: int) -> None:
        self._session = imported
        self._launches = Launches(imported)
        event = imported.event(number)
        self.message = self._message_of(event)
        self.acts = [Act(imported.call(seq)) for seq in self._calls(event)]
        results = [act.call.result for act in self.acts if act.call.result is not None]
        whole = {number, *([] if self.message is None else [self.message.seq]), *results}
        self.events = tuple(sorted(whole | {act.event for act in self.acts}))
        self.start, self.end = self.events[0], self.events[-1]

    def statements(self) -> Iterator[Statement]:
        yield from self._did()
        yield from self._request()
        for name in self._files:
            yield from self._file(name)
        yield from self._searched()
        yield from self._first()
        for backend in self._backends:
            yield from self._backend(backend)
        yield from self._summary()

    def _message_of(self, event: dict[str, Any]) -> Message | None:
        match event["kind"]:
            case "message" if event["role"] == "tool":
                earlier = self._session.numbers(
                    "message", name="assistant", last=event["seq"], newest=True, limit=1
                )
                return self._message(earlier[0]) if earlier else None
            case "message":
                return self._message(event.get("continues", event["seq"]))
            case "call" if "message" in event:
                return self._message(event["message"])
            case "result" if "call" in event:
                return self._message_of(self._session.event(event["call"]))
            case _:
                return None

    def _message(self, number: int) -> Message:
        event = self._session.event(number)
        return Message(**known(Message, event))

    def _calls(self, event: dict[str, Any]) -> list[int]:
        if self.message is not None:
            return self._session.numbers("call", of=self.message.seq, first=self.message.seq)
        if event["kind"] == "call":
            return [event["seq"]]
        return [event["call"]] if event["kind"] == "result" and "call" in event else []

    @cached_property
    def _command(self) -> str:
        """What the step says of itself: its words and commands, not what came of them."""
        said = [] if self.message is None else [self.message.text]
        return "\n".join([*said, *(_given(act) for act in self.acts)])

    @cached_property
    def _output(self) -> str:
        return "\n".join(act.output for act in self.acts)

    @cached_property
    def _files(self) -> list[str]:
        return list(dict.fromkeys(name for act in self.acts for name in act.files))[:NEAREST]

    def _did(self) -> Iterator[Statement]:
        if self.message is not None and self.message.text.strip() and self.message.role == "assistant":
            yield Statement("did", f"the agent said {quoted(self.message.text)}", (self.message.seq,))
        for act in self.acts:
            yield Statement("did", f"{_told(act)}: {act.call.status}", _places(act))
        if self.message is not None and self.message.role == "user":
            following = self._session.numbers("message", name="user", first=self.end + 1, limit=1)
            last = following[0] - 1 if following else None
            calls = self._session.numbers("call", first=self.end + 1, last=last)
            text = f"the person said {quoted(self.message.text)}; {counted(len(calls), 'call')} followed"
            yield Statement("did", text, (self.message.seq, *calls[:1], *calls[-1:]))

    def _request(self) -> Iterator[Statement]:
        """What the person had asked for; of a word like "continue" also what came before it."""
        found = 0
        for number in self._session.numbers("message", name="user", last=self.start - 1, newest=True):
            message = self._message(number)
            if message.notes or not message.live or not message.text.strip():
                continue
            yield Statement("request", f"the person had said {quoted(message.text, 300)}", (number,))
            found += 1
            if found == _REQUESTS or len(message.text.strip()) > _BRIEF:
                return

    def _file(self, name: str) -> Iterator[Statement]:
        base = PurePosixPath(name).name
        before = self._naming(base, last=self.start - 1, newest=True)
        after = self._naming(base, first=self.end + 1)
        nearest = list(self._acts(before[:NEAREST]))
        if before:
            text = f"{base} had been named by {counted(len(before), 'call')}: {listed(before)}"
            yield Statement("before", text, tuple(before[:5]), name)
        else:
            yield Statement("first", f"no call before event {self.start} names {base}", (self.start,), name)
        for act in nearest:
            for text in _of_file(act, name):
                yield Statement("before", f"event {act.event} {text}: {act.call.status}", _places(act), name)
        read = [lines for act in self.acts for lines in _lines_of(act, name)]
        for act in nearest:
            for start, end in _common(read, list(_lines_of(act, name))):
                text = f"event {act.event} had shown lines {start}–{end} of these already"
                yield Statement("before", text, _places(act), name)
        for act in self._acts(after[:NEAREST]):
            for text in _of_file(act, name):
                yield Statement("later", f"event {act.event} {text}: {act.call.status}", _places(act), name)
        if len(after) > NEAREST:
            text = (
                f"{base} was named by {counted(len(after), 'later call')}, the last of them event {after[-1]}"
            )
            yield Statement("later", text, (after[-1],), name)

    def _naming(
        self, base: str, *, newest: bool = False, first: int = 0, last: int | None = None
    ) -> list[int]:
        return self._session.mentions(base, kind="call", first=first, last=last, newest=newest)

    def _acts(self, numbers: list[int]) -> Iterator[Act]:
        for number in numbers:
            yield Act(self._session.call(number))

    def _searched(self) -> Iterator[Statement]:
        """Symbols that were looked for, and where they had stood before."""
        patterns = " ".join(
            str(step.fields.get("pattern") or "")
            for act in self.acts
            for step in act.steps(CallKind.SEARCH_SOURCE)
        )
        for name in symbols(patterns.replace("\\|", " ").replace("|", " "), 3):
            before = self._session.mentions(name, last=self.start - 1, newest=True)
            if before:
                text = f"{name} had stood in {counted(len(before), 'event')}: {listed(before)}"
                yield Statement("before", text, tuple(before[:5]), name)

    def _first(self) -> Iterator[Statement]:
        """Names of source that nothing before the step had shown."""
        names = []
        for name in symbols(self._output or self._command, CHECKED):
            if not self._session.mentions(name, last=self.start - 1, limit=1):
                names.append(name)
            if len(names) == FIRST:
                break
        if names:
            events = tuple(act.said for act in self.acts if any(name in act.output for name in names))
            text = f"seen here for the first time: {', '.join(names)}"
            yield Statement("first", text, events or (self.start,))

    @cached_property
    def _backends(self) -> list[str]:
        """Backends of the session that the step is about: it names them, or its output names few."""
        all_ = sorted({backend for chosen in self._launches.chosen.values() for backend in chosen.values()})
        files = " ".join(PurePosixPath(name).stem for name in self._files)
        named = [name for name in all_ if has_word(name, f"{self._command} {files}")]
        shown = [name for name in all_ if has_word(name, self._output)]
        return (named or (shown if len(shown) < BACKENDS else []))[:BACKENDS]

    def _backend(self, backend: str) -> Iterator[Statement]:
        own = [number for number, chosen in self._launches.chosen.items() if backend in chosen.values()]
        before = [number for number in own if number < self.start]
        after = [number for number in own if number >= self.start]
        for about, numbers in (("before", before[-LAUNCHES:]), ("later", after[:LAUNCHES])):
            for number in numbers:
                component = next(
                    key for key, value in self._launches.chosen[number].items() if value == backend
                )
                text, events = self._launches.came_out(number)
                said = f"{component} {backend} was launched in event {number}: {text}"
                yield Statement(about, said, (number, *events), backend)
        if own and not after:
            text = f"{backend} was not launched any more after event {self.end}"
            yield Statement("later", text, (own[-1],), backend)

    def _summary(self) -> Iterator[Statement]:
        """What the agent itself kept of it, when its memory was next compacted."""
        names = [*self._backends, *(PurePosixPath(name).name for name in self._files)]
        for number in self._session.numbers("message", name="assistant", first=self.end + 1) if names else ():
            message = self._message(number)
            if "summary" in message.notes:
                for line in list(lines_with(names, message.text))[:2]:
                    text = f"the summary in event {number} says {quoted(line, 200)}"
                    yield Statement("later", text, (number,))
                return


def _given(act: Act) -> str:
    return act.call.command or act.call.raw_input or str(act.call.input or "")


def _told(act: Act) -> str:
    """What a call did, step by step; of one that nothing is known of, its beginning."""
    command = act.call.command or act.call.tool
    steps = act.parsed.steps
    done = [what(step, command) for step in steps if step.kind is not CallKind.OTHER or len(steps) == 1]
    return f"event {act.event} {'; '.join(done) or f'used {act.call.tool}'}"


def _of_file(act: Act, name: str) -> Iterator[str]:
    """What a call did with a file, one text a step."""
    for step in act.parsed.steps:
        named = [step.fields.get("file"), step.fields.get("path"), *(step.fields.get("paths") or ())]
        if any(isinstance(one, str) and same_file(one, name) for one in named):
            yield what(step, act.call.command or act.call.tool)


def _lines_of(act: Act, name: str) -> Iterator[tuple[int, int]]:
    """The lines of a file that a call read, where it says first and last."""
    for step in act.steps(CallKind.READ_SOURCE):
        file, start, end = (step.fields.get(key) for key in ("file", "start", "end"))
        if (
            isinstance(file, str)
            and isinstance(start, int)
            and isinstance(end, int)
            and same_file(file, name)
        ):
            yield start, end


def _common(ones: list[tuple[int, int]], others: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    for start, end in ones:
        for first, last in others:
            if max(start, first) <= min(end, last) and first > 0 and start > 0:
                yield max(start, first), min(end, last)


def _places(act: Act) -> tuple[int, ...]:
    return (act.event,) if act.call.result is None else (act.event, act.call.result)
