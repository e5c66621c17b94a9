"""``propose_findings``: what an imported session shows of backends; ``quote_session``: its words."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from memory.database import StoreError
from memory.home import Home
from memory.vocabulary import Effect
from tools.base import ToolContext, ToolError, tool
from tools.sessions.acts import acts
from tools.sessions.candidates import Candidate, candidates
from transcripts.imported.index import text_of
from transcripts.imported.reader import Library

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,160}$")]


class ProposeFindings(BaseModel):
    model_config = ConfigDict(extra="forbid")

    session: Name
    """Id of an imported session, or the beginning of one."""


class Proposals(BaseModel):
    session: str
    format: str
    """Of which agent the session is."""
    candidates: tuple[Candidate, ...]
    """In the order of their events. None of them is a finding."""


class QuoteSession(BaseModel):
    model_config = ConfigDict(extra="forbid")

    session: Name
    event: Annotated[int, Field(ge=0)]
    words: Annotated[tuple[str, ...], Field(min_length=1, max_length=60)]
    """What is to be quoted, as it stands in the event."""


class Quotation(BaseModel):
    session: str
    event: int
    kind: str
    at: str | None
    words: tuple[str, ...]
    """The same words: they stand there."""


@tool(effect=Effect.READS)
def propose_findings(args: ProposeFindings, context: ToolContext) -> Proposals:
    """Look through an imported session for outcomes of backends and figures of benchmarks."""
    try:
        with Library(_home(context)) as library:
            imported = library.open(args.session)
            found = candidates(acts(imported.calls()))
            return Proposals(
                session=imported.session.id, format=imported.session.format, candidates=tuple(found)
            )
    except StoreError as error:
        raise ToolError(str(error)) from None


@tool(effect=Effect.READS)
def quote_session(args: QuoteSession, context: ToolContext) -> Quotation:
    """Quote words of an event of an imported session; refused where they do not stand there."""
    try:
        with Library(_home(context)) as library:
            imported = library.open(args.session)
            event: dict[str, Any] = imported.event(args.event)
    except StoreError as error:
        raise ToolError(str(error)) from None
    text = text_of(event)
    for words in args.words:
        if words not in text:
            raise ToolError(f"event {args.event} of session {args.session} does not say {words[:80]!r}")
    return Quotation(
        session=imported.session.id,
        event=args.event,
        kind=str(event["kind"]),
        at=event.get("at") or event.get("ended"),
        words=args.words,
    )


def _home(context: ToolContext) -> Home:
    home: Home = context.home
    return home
