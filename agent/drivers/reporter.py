"""The driver that records what a session of another agent shows: quoted, as findings of level ``report``.

It decides nothing about what is true. A claim rests on a quotation of the session; the store's checks decide
whether it is kept, and nothing of it is ever more than somebody's account.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from agent.board import Board
from agent.loop import Call, Decision
from memory.canonical import text_sha256
from memory.vocabulary import Claim, EventEvidence, Level
from transcripts.events import Called, Concluded, Noted

MOST_QUOTED = 40
"""Words that are quoted of one candidate."""

Candidate = dict[str, Any]
"""A :class:`tools.sessions.candidates.Candidate` as JSON."""


class Reporter:
    """``options`` of the transcript: ``session``, and ``arch`` where the person says what it does not."""

    name = "reporter"

    def decide(self, board: Board) -> Decision:
        assert board.opened is not None, "a transcript begins with it"
        session, arch = (board.opened.options.get(key) for key in ("session", "arch"))
        proposed = board.results("propose_findings")
        if not proposed:
            call = Call("propose_findings", {"session": session}, "what the session shows of backends")
            return Decision(calls=[call])
        found = board.output_of("propose_findings")
        if found is None:
            why = proposed[-1][1].error or "the session could not be read"
            return Decision(conclude=Concluded(exit_reason="missing", exit_code=3, summary=why))
        ready = [one for one in found["candidates"] if not lacking(one, arch)]
        for calls in (
            [quotation(found["session"], one) for one in ready],
            [call for one in ready for call in _claims(board, found["session"], one, arch)],
        ):
            waiting = {str(call.input): call for call in calls if not board.answered(call.tool, call.input)}
            if waiting:
                return Decision(calls=list(waiting.values()))
        left = len(found["candidates"]) - len(ready)
        note = Noted(text=f"{left} candidates are not recorded: the session does not say what they are about")
        summary = f"{len(board.findings)} reports recorded of session {found['session']}"
        return Decision(
            changes=[note] if left else [],
            conclude=Concluded(exit_reason="answered", exit_code=0, summary=summary),
        )


def lacking(candidate: Candidate, arch: str | None) -> list[str]:
    """What a candidate must say before it can be recorded, and does not. A version may be unknown."""
    needs = {
        "backend": candidate["cells"],
        "engine": candidate["engine"],
        "architecture": candidate["arch"] or arch,
    }
    # Whatever was measured: of a launch that failed nobody reports that it went well.
    failed = ["a launch that did not fail"] if candidate["failed"] is not None else []
    return [name for name, value in needs.items() if not value] + failed


def quotation(session: str, candidate: Candidate) -> Call:
    """The call that quotes what a candidate rests on."""
    words = [candidate["excerpt"], *(figure["excerpt"] for figure in candidate["figures"])]
    quoted = list(dict.fromkeys(words))[:MOST_QUOTED]
    given: dict[str, object] = {"session": session, "event": candidate["event"], "words": quoted}
    return Call("quote_session", given, "the words that it rests on")


def _claims(board: Board, session: str, candidate: Candidate, arch: str | None) -> Iterator[Call]:
    """The claims of a candidate, one for each backend; none where its words do not stand in the session."""
    quoted = _quoted(board, quotation(session, candidate))
    if quoted is None or board.opened is None:
        return
    words: list[str] = quoted.input["words"]
    for cell in candidate["cells"]:
        claim = Claim(
            component=cell["component"],
            backend=cell["backend"],
            arch=candidate["arch"] or arch,
            engine=candidate["engine"],
            packages=candidate["packages"],
            scenario=candidate["scenario"],
            level=Level.REPORT,
            outcome=candidate["outcome"],
            event_evidence=tuple(
                EventEvidence(
                    transcript=board.opened.investigation,
                    head=board.calls.hash(quoted.call),
                    event=board.calls.seq(quoted.call),
                    excerpt=one,
                    sha256=text_sha256(one),
                )
                for one in words
            ),
        )
        yield Call("record_finding", {"claim": claim.model_dump(mode="json")}, "kept as somebody's account")


def _quoted(board: Board, quotation: Call) -> Called | None:
    """The quotation as it was made."""
    for called, returned in board.results(quotation.tool):
        if called.input == quotation.input and returned.status == "ok":
            return called
    return None
