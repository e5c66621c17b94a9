"""The kind of an exception that no signature fits, by its name, message and place (``kinds.toml``)."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from memory.terms import Outcome
from tools.logs import Traceback

DEFECT = "defect"
"""The class of exceptions that say nothing but that code broke."""


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

    def fits(self, failed: Traceback) -> bool:
        if not self.error.fullmatch(failed.error.rpartition(".")[2]):
            return False
        if self.message is not None and not self.message.search(failed.message):
            return False
        own = [frame for frame in failed.frames if "/torch/" not in frame.file] or failed.frames
        frames = failed.frames if self.anywhere else own[-1:]
        told = (f"{frame.file} in {frame.function}: {frame.text}" for frame in frames)
        return self.frame is None or any(self.frame.search(one) for one in told)


def kind_of(failed: Traceback) -> ExceptionKind | None:
    """The kind that an exception likely is of; None where nothing says."""
    return next((kind for kind in _kinds() if failed.error and kind.fits(failed)), None)


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
        )
        for entry in _data()["kind"]
    )
