"""What only speaks of a failure, told from a record of one: documentation, commit messages, questions, and
what people and models say to each other.

A record is dressed by a logger or a container, or begins with what failed: an exception, a program, a place
in a source. Prose has a clause of ordinary words before, or goes on behind; stands in backticks, in a list or
a table; or in a text that another program keeps, as a commit's message or a prompt.
"""

from __future__ import annotations

import re
from typing import BinaryIO

from memory.signatures import Match
from tools.logs.dressing import LONGEST as LOOKED_AT, plain, undress

CLAUSE = 3
"""Ordinary words before those of a signature that make a clause."""
BEFORE = 4096
"""Bytes before a line that are looked at."""
LONGEST = 1 << 18
"""Bytes of a line that are looked at."""

NEAR = 400
"""Characters before the words that are looked at."""

_WORD = re.compile(r"(?<![\w./-])[a-z]+(?![\w./-])")
_FAILS = re.compile(
    r"(?i)error|\berr\b|exception|fatal|fail|abort|panic|\[E|what\(\)|^E\d{4}|traceback|[:=|>] *\w*$"
)
_ENDS = re.compile(r"(?i)\bprocess\b|exited|exitcode|killed|terminated|=\w+")
_NAMED = re.compile(r"(?:(?:[\w.]*(?:Error|Exception)|[A-Z][A-Za-z]+ error): ?)+$")
"""The exception, or what failed, right before: it is quoted as well as printed."""
_EXCEPTION = re.compile(r"(?:[E|>*-] +)?[\w.]*(?:Error|Exception)\b")
_SOMEBODY = re.compile(
    r"(?i)\b(?:we|you|I|your|our|my|users|people|somebody|someone|sometimes|often|usually"
    r"|this (?:PR|commit|change|patch|issue))\b"
)
_CHANGE = re.compile(
    r"(?i)(?:[0-9a-f]{7,40} )?(?:HEAD is now at [0-9a-f]{7,40} )?(?:\[[^\]]*\] *)*(?:\w+(?:\([^)]*\))?!?: )?"
    r"(?:fix(?:e[sd]|ing)?|avoid|prevent|resolve[sd]?|revert|work around|mitigate)\b"
)
"""How the subject of a change begins."""
_MARKED = re.compile(r"(?:#{1,6} +|[-*\u2022] +)\S|\|.*\|$")
"""Headings, lists and tables."""
_GOES_ON = re.compile(
    r"[`'\"]?,? (?:happens?|occurs?|means|is|was|can|may|might|will|should|usually|often|indicates?|comes"
    r"|when|whenever|if|after|because)\b"
)
_SPEAKS = re.compile(
    r"(?i)(?:(?<![a-z])(?:prompts?|text|content|input|query|question|instruction|answer|completion)"
    r"|[:,] output)[\"']?\s*[:=]\s*\[?([\"'])"
)
"""What a person or a model said, as servers and clients print it."""
_NOTICE = re.compile(r"\] NCCL INFO |\] ras/\S+ NCCL WARN ")
"""What a library says of all that it tries, and of a part that it does without."""
_SPEAKER = re.compile(r"(?:User|Assistant|Human|AI|Bot|Question|Answer|Q|A): |<\|\w+\|>|>>> ")
_PERHAPS = re.compile(r"(?i)\b(?:possible|potential|common|likely) (?:root )?(?:causes?|reasons?)\b")
"""Before what may have been, as programs list it where they know no more."""
_WRAPS = re.compile(r"(?i)\b(?:see|get|gets|shows?|says?|like|as|with|and|the|an?|of|to|or|that|from)$")
_HISTORY = re.compile(
    r"(?m)^(?:commit [0-9a-f]{7,40}\b.*\n"
    r"(?:(?:Author|AuthorDate|Commit|CommitDate|Date|Merge):.*\n| {4}.*\n| {0,3}\n)*"
    r"|(?:@@ -\d.*@@.*)\n(?:[ +-].*\n)*)\Z"
)
"""A commit as ``git log`` shows it, or a hunk of a change, up to a line of its own."""


def is_notice(match: Match) -> bool:
    return bool(_NOTICE.search(match.text))


def speaks(match: Match, log: BinaryIO) -> bool:
    """Whether a line only speaks of a failure. ``log``: where it stands, can be read anywhere."""
    log.seek(match.offset)
    whole = plain(log.readline(LONGEST).decode("utf-8", "replace"))
    before = whole.partition(match.words)[0]
    if _spoken(before) or _PERHAPS.search(before[-NEAR:]):
        return True
    text = whole.removeprefix("> ")
    bare = undress(text)
    if bare.text != text[:LOOKED_AT].rstrip():
        if bare.level != "INFO" or match.words not in bare.text:
            return False
        text = bare.text
    text = text.strip()
    if _EXCEPTION.match(text):
        return _in_history(match, log)
    said, _, rest = text.partition(match.words)
    said = said[-NEAR:]
    named = _NAMED.sub("", said)
    ends = match.signature.ends or match.signature.stops
    return (
        (len(_WORD.findall(said)) >= CLAUSE and not (_FAILS.search(said) or (ends and _ENDS.search(said))))
        or bool(_SOMEBODY.search(named))
        or bool(_CHANGE.match(text))
        or bool(_MARKED.match(text))
        or said.count("`") % 2 == 1
        or text.endswith("?")
        or bool(_GOES_ON.match(rest))
        or _in_history(match, log)
        or (not named.strip() and _wrapped(match, log))
    )


def _spoken(said: str) -> bool:
    """Whether what follows stands in what somebody said."""
    if _SPEAKER.match(said):
        return True
    opened = list(_SPEAKS.finditer(said))
    if not opened:
        return False
    quote, inside = opened[-1][1], said[opened[-1].end() :]
    return quote not in inside.replace("\\" + quote, "")


def _in_history(match: Match, log: BinaryIO) -> bool:
    indented = match.text[:1] in (" ", "+", "-")
    return indented and bool(_HISTORY.search(_before(match, log)))


def _wrapped(match: Match, log: BinaryIO) -> bool:
    """Whether the line before is the beginning of its sentence."""
    last = _before(match, log).rstrip("\n").rpartition("\n")[2]
    line = undress(last)
    if line.text != last.rstrip() or len(_WORD.findall(last)) < CLAUSE:
        return False
    return bool(_WRAPS.search(line.text)) and not _FAILS.search(last)


def _before(match: Match, log: BinaryIO) -> str:
    start = max(0, match.offset - BEFORE)
    log.seek(start)
    return log.read(match.offset - start).decode("utf-8", "replace")
