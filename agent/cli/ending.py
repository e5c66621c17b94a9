"""How an investigation that ran at the command line is ended: the answer drawn, or why there is none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.cli.common import CommandError, draw, emit, progress, say, width
from agent.text import safe
from memory.home import Home

if TYPE_CHECKING:
    from transcripts.events import Concluded

WRONG = 2


def ended(
    home: Home, name: str, concluded: Concluded, seconds: float, *, everything: bool, as_json: bool
) -> int:
    """Draw the answer of investigation ``name``; returns the exit code.

    Raises :class:`CommandError` with that code where there is no answer.
    """
    if concluded.answer is None:
        if concluded.exit_reason == "answered":
            # A check or a measurement: its rows are in the transcript.
            if as_json:
                emit({"transcript": name, "summary": concluded.summary})
            else:
                say([safe(f"{concluded.summary}; transcript {name}")])
            return concluded.exit_code
        # What was wrong in the question stays wrong; all else may be gone on with.
        hint = "" if concluded.exit_code == WRONG else f"; go on with: agent resume {name}"
        raise CommandError(concluded.summary + hint, concluded.exit_code)
    progress(f"{concluded.exit_reason} after {seconds:.1f} s: {concluded.summary}")
    if as_json:
        emit(concluded.answer.model_dump(mode="json"))
        return concluded.exit_code
    from agent.account import account_lines
    from agent.cli.report import why_undecided
    from agent.report import screen
    from transcripts.reader import transcript_path

    path = transcript_path(home, name)
    why = why_undecided(path) if everything else None
    draw(screen(concluded.answer, everything=everything, width=width(), why=why))
    draw(account_lines(path, width()))
    return concluded.exit_code
