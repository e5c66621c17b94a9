"""What can be checked of a transcript from itself alone: chain, order, evidence, findings.

An intact log passes whatever the program has learnt since. Who changes a line and makes the hashes after it
anew passes the chain too: what contradicts itself is found here, what was decided otherwise by replay.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

from memory.artifacts import ArtifactError, document
from memory.canonical import finding_id, occurs, sha256_of, text_sha256
from memory.vocabulary import Claim, EventEvidence
from transcripts.events import (
    ACCOUNTS,
    IMPORT,
    Body,
    Called,
    Concluded,
    Found,
    HypothesisChanged,
    Opened,
    Resumed,
    Returned,
    Said,
)
from transcripts.found import finding_in
from transcripts.log import Problem, body_of, verify
from transcripts.messages import message_id
from transcripts.reader import records

MOST = 100
"""Problems that are listed."""
_INDENTS = ("", *(" " * n for n in range(1, 81)), *("\t" * n for n in range(1, 11)))
_CUT = "…"
_REDACTED = "[redacted:"


def check(path: Path, whole: Callable[[str], bytes | None]) -> list[Problem]:
    """What is wrong with the log at ``path``, each with its event; empty for an intact one. At most 100.

    ``whole`` gives an artifact's bytes, checked against their name, or None where it is not here; where it
    raises ``ArtifactError``, that is a problem. Raises :class:`LogError` where the file is no transcript.
    """
    problems = verify(path)
    return problems or list(islice(_problems(path, whole), MOST))


def _problems(path: Path, whole: Callable[[str], bytes | None]) -> Iterator[Problem]:
    checking = _Checking(path, whole)
    for record in records(path):
        try:
            for said in checking.event(record.seq, body_of(path, record)):
                yield Problem(record.seq, said)
        except ArtifactError as error:
            yield Problem(record.seq, str(error))
        checking.ends.append(record.end)
    yield from checking.heads()


class _Checking:
    """One pass; what is kept for each event before is a few words."""

    def __init__(self, path: Path, whole: Callable[[str], bytes | None]) -> None:
        self._path = path
        self._whole = whole
        self.ends = array("Q")
        """Byte offset after each event."""
        self._name = ""
        self._brought = False
        """No tool of this transcript made its findings: they came from elsewhere."""
        self._open: dict[str, None] = {}
        self._results = bytearray()
        """For each event before, whether it is a result."""
        self._returned: dict[str, str] = {}
        """Finding that a result held and that is not on record yet → hash of its claim."""
        self._recorded: set[str] = set()
        self._unseen = False
        """The last result is not here whole: it may be the finding that comes next."""
        self._said: set[str] = set()
        self._cited: list[tuple[int, EventEvidence]] = []
        """Evidence that is an event of this very transcript, and the finding's event."""
        self._concluded = False

    def event(self, seq: int, body: Body) -> Iterator[str]:
        yield from self._order(seq, body)
        self._results.append(isinstance(body, Returned) and body.status != "interrupted")
        match body:
            case Opened(investigation=name, driver=driver):
                self._name, self._brought = name, driver in {IMPORT, ACCOUNTS}
            case HypothesisChanged(causes=causes):
                if wrong := [cause for cause in causes if not any(self._results[cause : cause + 1])]:
                    yield f"it rests on event {wrong[0]}, which is no result before it"
            case Called(call=call):
                self._open[call] = None
            case Returned():
                yield from self._result(body)
            case Found():
                yield from self._found(seq, body)
            case Said():
                yield from self._message(body)
            case _:
                pass

    def _order(self, seq: int, body: Body) -> Iterator[str]:
        if isinstance(body, Opened) != (seq == 0):
            yield "`opened` is the first event, and no other"
        if self._concluded and not isinstance(body, Resumed):
            yield "stands after the end of the investigation"
        self._concluded = isinstance(body, Concluded)
        if isinstance(body, Resumed) and body.open != tuple(self._open):
            yield f"says that {_list(body.open)} had not returned; it was {_list(tuple(self._open))}"

    def _result(self, returned: Returned) -> Iterator[str]:
        if returned.call not in self._open:
            yield f"is the result of {returned.call}, which was not called or has one already"
        self._open.pop(returned.call, None)
        self._unseen = False
        if returned.status == "interrupted":
            return
        output = returned.output
        if returned.artifact is not None:
            self._unseen = True
            data = self._whole(returned.artifact)
            if data is None:
                return
            self._unseen = False
            if returned.artifact_bytes not in (None, len(data)) or not _shows(output, data):
                yield f"does not show artifact {returned.artifact[:12]}…, which it points to"
                return
            output = document(returned.artifact, data)
        finding = finding_in(output) if returned.status == "ok" else None
        if finding is not None and finding.id not in self._recorded:
            self._returned[finding.id] = sha256_of(finding.claim.model_dump(mode="json"))

    def _found(self, seq: int, found: Found) -> Iterator[str]:
        finding = found.finding
        claim = finding.claim.model_dump(mode="json")
        if finding.id != finding_id(claim):
            yield f"finding {finding.id} is not the id of its claim ({finding_id(claim)})"
        if (finding.transcript, finding.event) != (self._name, seq):
            yield f"finding {finding.id} says that it is recorded elsewhere"
        made = self._returned.pop(finding.id, None) == sha256_of(claim)
        if not (made or self._unseen or self._brought):
            yield f"finding {finding.id} is not what any result before it says"
        self._recorded.add(finding.id)
        yield from self._evidence(seq, finding.claim)

    def _evidence(self, seq: int, claim: Claim) -> Iterator[str]:
        for source in claim.source_evidence:
            if not _holds(source.text, source.end_line - source.line + 1, source.sha256):
                yield f"evidence {source.file}:{source.line} is not the text that its hash stands for"
        for item in claim.event_evidence:
            if _REDACTED not in item.excerpt and text_sha256(item.excerpt) != item.sha256:
                yield f"the excerpt of event {item.event} hashes to {text_sha256(item.excerpt)[:12]}…"
            if item.transcript == self._name:
                self._cited.append((seq, item))
                if item.event >= seq or not occurs(item.excerpt, self._line(item.event)):
                    yield f"event {item.event} does not say {item.excerpt[:60]!r} before it"

    def _line(self, seq: int) -> str:
        """The line of an event that has been gone through."""
        start = self.ends[seq - 1] if seq else 0
        with self._path.open("rb") as file:
            file.seek(start)
            return file.read(self.ends[seq] - start).decode("utf-8", "replace")

    def heads(self) -> Iterator[Problem]:
        """Evidence names the last event that there was when it was taken; looked up once all are known."""
        wanted = {item.head for _, item in self._cited}
        where = (
            {record.hash: record.seq for record in records(self._path) if record.hash in wanted}
            if wanted
            else {}
        )
        for seq, item in self._cited:
            if not item.event <= where.get(item.head, -1) < seq:
                yield Problem(
                    seq, f"head {item.head[:12]}… of event {item.event} is no event between the two"
                )

    def _message(self, said: Said) -> Iterator[str]:
        message: Any = said.message
        if message is None and said.artifact is not None:
            data = self._whole(said.artifact)
            message = None if data is None else document(said.artifact, data)
        if message is not None and message_id(message, said.parent) != said.id:
            yield "the message is another than its hash says"
        if said.parent is not None and said.parent not in self._said:
            yield "follows a message that was not said before it"
        self._said.add(said.id)


@lru_cache(4096)
def _holds(text: str, lines: int, sha256: str) -> bool:
    """Whether ``text`` can be the lines that ``sha256`` was taken of: they were freed of what they were
    indented by, all alike. True where it cannot be told (cut, redacted, or with blank lines)."""
    shown = text.split("\n")
    if text.endswith(_CUT) or _REDACTED in text or len(shown) != lines or not all(map(str.strip, shown)):
        return True
    return any(text_sha256("\n".join(indent + line for line in shown)) == sha256 for indent in _INDENTS)


def _shows(shown: Any, whole: bytes) -> bool:
    """Whether what stands in the log is the beginning and the end of the whole."""
    if not isinstance(shown, str):
        return False
    head, _, rest = shown.partition("\n…")
    _, _, tail = rest.rpartition("…\n")
    text = whole.decode(errors="replace")
    return text.startswith(head) and text.endswith(tail)


def _list(calls: tuple[str, ...]) -> str:
    return ", ".join(calls[:5]) or "nothing"
