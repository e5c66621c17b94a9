"""Why a server did not start, or did not last: one word, one sentence, and the diagnosis of its log."""

from __future__ import annotations

import os
import shutil
import signal
from contextlib import suppress
from functools import cache
from pathlib import Path

from memory.signatures import signatures
from memory.terms import Outcome
from memory.vocabulary import Contract
from tools.diagnosis.diagnose import Diagnosis, diagnose
from tools.source.tree import read_head

SPACE = 1 << 20
"""Bytes free under which a disk counts as full."""
LONGEST = 400
HIDDEN = "***"
PORT_IN_USE = "port-in-use"
_NOT_A_START = frozenset({Outcome.CRASHED, Outcome.HUNG, Outcome.NAN, Outcome.WRONG, Outcome.SUBSTITUTED})
"""Words of a signature that say nothing of a server that never was ready."""


class Failure(Contract):
    """``because``: one line. ``diagnosis``: of the log, which names the first traceback."""

    outcome: Outcome
    because: str
    diagnosis: Diagnosis
    ready: bool
    """Whether it had been ready before."""

    @property
    def signature(self) -> str | None:
        return self.diagnosis.cause.signature if self.diagnosis.cause else None


def killed_for_memory() -> int | None:
    """How many processes the kernel of this machine has ended so far for want of memory, in whichever
    container; None where it does not say (``oom_kill`` of ``/proc/vmstat``, Linux 4.13)."""
    with suppress(OSError, ValueError):
        for line in Path("/proc/vmstat").read_text("utf-8").splitlines():
            name, _, number = line.partition(" ")
            if name == "oom_kill":
                return int(number)
    return None


def classed(
    log: Path,
    *,
    code: int | None,
    stalled: str | None,
    ready: bool,
    timed_out: bool,
    secret: str,
    killed_before: int | None = None,
) -> Failure:
    """What a log and the end of a process say. ``code``: the exit status, None of one that still ran;
    ``stalled``: why it was not waited for any longer; ``timed_out``: though it went on; ``secret``: what may
    not be quoted, though engines print it; ``killed_before``: :func:`killed_for_memory` before it began."""
    with log.open("rb") as file:
        found = diagnose(file)
    cause = found.cause if found.cause is not None and not found.cause.noticed else None
    words = _words(found, log)
    told = f"{words} ({stalled})" if stalled else words
    if cause is not None and (stalled is None or found.first is not None):
        outcome = cause.outcome
    elif stalled is not None and found.first is None:
        outcome, told = (Outcome.START_TIMEOUT if timed_out else Outcome.HUNG), f"{stalled}; last: {words}"
    else:
        outcome = Outcome.CRASHED
    if cause is None and found.first is None and code is not None:
        told = f"{_status(code)}; last: {words}"
    alone = found.first is None and code == -signal.SIGKILL
    killed = cause.signature in _killed() if cause is not None else alone
    if killed and (stalled is None or found.first is not None):
        outcome, kernel = _by_whom(outcome, killed_before)
        told += kernel
    if not ready and stalled is None and outcome in _NOT_A_START:
        outcome = Outcome.START_FAILED
    if not ready and found.first is not None and outcome is Outcome.CRASHED:
        outcome = Outcome.START_FAILED
    if _full(log):
        outcome, told = Outcome.ENVIRONMENT_SUSPECT, f"the disk that holds {log.parent} is full; {told}"
    failure = Failure(outcome=outcome, because=told[:LONGEST], diagnosis=found, ready=ready)
    return Failure.model_validate_json(failure.model_dump_json().replace(secret, HIDDEN))


def hide(log: Path, secret: str) -> None:
    """Take a secret out of a log, into which engines write their settings."""
    with suppress(OSError):
        text = log.read_bytes()
        if secret.encode() in text:
            log.write_bytes(text.replace(secret.encode(), HIDDEN.encode()))


def _words(found: Diagnosis, log: Path) -> str:
    if found.first is not None:
        return " ".join(f"{found.first.error}: {found.first.message}".split()).rstrip(": ")[:LONGEST]
    if found.cause is not None and not found.cause.noticed:
        return " ".join(found.cause.text.split())[:LONGEST]
    size = log.stat().st_size
    if size == 0:
        return "nothing was written to the log"
    with log.open("rb") as file:
        file.seek(max(0, size - 4096))
        lines = [line for line in file.read().decode("utf-8", "replace").splitlines() if line.strip()]
    return " ".join(lines[-1].split())[:200] if lines else read_head(log, 200)


@cache
def _killed() -> frozenset[str]:
    """Signatures of a process that was ended at once, most often for want of memory."""
    return frozenset(one.id for one in signatures() if one.ends and one.outcome is Outcome.OUT_OF_MEMORY)


def _by_whom(outcome: Outcome, before: int | None) -> tuple[Outcome, str]:
    """Of a process that was ended at once: what that was, and what the kernel says of it."""
    now = killed_for_memory()
    if before is None or now is None:
        return outcome, ""
    if now > before:
        return Outcome.OUT_OF_MEMORY, "; the kernel ended a process for want of memory meanwhile"
    guards = "a person, a limit of time, or a guard of memory such as systemd-oomd"
    return Outcome.CRASHED, f"; the kernel ended none for want of memory, so somebody else did: {guards}"


def _status(code: int) -> str:
    if code >= 0:
        return f"it ended with status {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    why = {"SIGILL": ": it was built for another CPU"}
    return f"it was ended by {name}{why.get(name, '')}"


def _full(log: Path) -> bool:
    try:
        return shutil.disk_usage(os.path.realpath(log.parent)).free < SPACE
    except OSError:
        return False
