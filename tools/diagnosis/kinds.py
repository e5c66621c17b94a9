"""The kind of an exception that no signature fits: by name, message, and what the code is for that raised it.

Kinds and roles of code are data (``kinds.toml``). An exception that only passes on what another one said
(``InductorError: OutOfMemoryError: …``) is of the kind of that one.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any

from memory.terms import Outcome
from tools.logs import Traceback

_CHECK = re.compile(r"(?:\[[\w-]+\])?\[ERROR\] +Assertion fail(?:ed)?: ")
"""Before what a check of C++ says."""
_WITHIN = re.compile(r"(?s)(?:backend=[^\n]+ raised:\n)?(?:\w+\.)*([A-Z]\w*(?:Error|Exception)): ?(.+)")
_RAISES = re.compile(r"assert\b|raise (?:\w+\.)*(\w+)\(")
_INSTALLED = re.compile(r"/(?:site|dist)-packages/|/torch/")
OWN = "own"
DEFECT = "defect"
"""The class of exceptions that say nothing but that code broke."""
AFTERMATH = "aftermath"
"""The class of those that say that another process failed."""


@dataclass(frozen=True)
class ExceptionKind:
    kind: str
    """A class of the signatures."""
    outcome: Outcome
    advice: str
    error: Any
    message: Any
    frame: Any
    outranks: bool
    """Whether it says more than a known message that only says that code broke."""
    anywhere: bool
    """Whether any frame may fit, not the innermost alone (outside torch, which only does as it is told)."""
    roles: tuple[str, ...]
    """What the code may be for that raised it; empty for any."""
    guess: bool
    """Whether it is the least that can be said: that code failed of which nothing else is known."""

    def fits(self, failed: Traceback) -> bool:
        if not self.error.fullmatch(failed.error.rpartition(".")[2]):
            return False
        if self.message is not None and not self.message.search(failed.message):
            return False
        if self.roles and role_of(failed) not in self.roles:
            return False
        own = [frame for frame in failed.frames if "/torch/" not in frame.file] or failed.frames
        frames = failed.frames if self.anywhere else own[-1:]
        told = (f"{frame.file} in {frame.function}: {frame.text}" for frame in frames)
        return self.frame is None or any(self.frame.search(one) for one in told)


def kind_of(failed: Traceback) -> ExceptionKind | None:
    """The kind that an exception likely is of; None where nothing says."""
    found = [kind for one in _told(failed) if (kind := _kind_of(one)) is not None]
    return next((kind for kind in found if kind.kind != DEFECT), next(iter(found), None))


def _kind_of(failed: Traceback) -> ExceptionKind | None:
    return next((kind for kind in _kinds() if failed.error and kind.fits(failed)), None)


def kind_by_name(failed: Traceback) -> ExceptionKind | None:
    """The kind that the name of an exception alone says, where it says more than that something broke."""
    named = (kind for kind in _kinds() if not (kind.message or kind.frame or kind.roles or kind.guess))
    return next((kind for kind in named if kind.kind != DEFECT and kind.fits(failed)), None)


def _told(failed: Traceback) -> Iterator[Traceback]:
    """What an exception passes on, then itself. Where its end is lost, its line of source says which."""
    if not failed.error and failed.frames and (raised := _RAISES.match(failed.frames[-1].text)):
        failed = replace(failed, error=raised[1] or "AssertionError")
    if checked := _CHECK.search(failed.message):
        failed = replace(failed, message=failed.message[checked.end() :])
    if inner := _WITHIN.match(failed.message):
        yield replace(failed, error=inner[1], message=inner[2])
    yield failed


def role_of(failed: Traceback) -> str | None:
    """What the code is for in which it failed: of the innermost frame that says so. ``own`` is that of
    neither an engine nor a package."""
    for frame in reversed(failed.frames):
        told = f"{frame.file} in {frame.function}: {frame.text}"
        role = next((name for name, pattern in _roles().items() if pattern.search(told)), None)
        if role is not None:
            return role
    installed = any(_INSTALLED.search(frame.file) for frame in failed.frames)
    return OWN if failed.frames and not installed else None


def kind_by_tests(tests: Iterable[str]) -> Mapping[str, str] | None:
    """Class, outcome and advice of a failure by the tests that stand around the line that raised, the nearest
    first; None where they say nothing."""
    found = (entry for text in tests for entry, pattern in _gates() if pattern.search(text))
    return next(found, None)


def next_step(kind: str) -> str:
    """What to do next about a class of causes, in words."""
    return str(_data()["next"][kind])


@cache
def _data() -> dict[str, Any]:
    return tomllib.loads((files("tools.diagnosis") / "kinds.toml").read_text("utf-8"))


@cache
def _kinds() -> tuple[ExceptionKind, ...]:
    import re2  # 3 MB that only the logs of others need

    return tuple(
        ExceptionKind(
            kind=entry["class"],
            outcome=Outcome(entry["outcome"]),
            advice=entry["advice"],
            error=re2.compile(entry["error"]),
            message=re2.compile(entry["message"]) if "message" in entry else None,
            frame=re2.compile(entry["frame"]) if "frame" in entry else None,
            outranks=entry.get("outranks", False),
            anywhere=entry.get("any", False),
            roles=tuple(entry.get("roles", ())),
            guess=entry.get("guess", False),
        )
        for entry in _data()["kind"]
    )


@cache
def _gates() -> tuple[tuple[Mapping[str, str], Any], ...]:
    import re2

    return tuple((entry, re2.compile(entry["test"])) for entry in _data()["gate"])


@cache
def _roles() -> dict[str, Any]:
    """In their order: of several that fit a frame, the first counts."""
    import re2

    return {name: re2.compile(pattern) for name, pattern in _data()["roles"].items()}
