"""Running tools for the loop: permission, typed input, batches, errors as results, one cap on all output."""

from __future__ import annotations

import importlib
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ValidationError

from agent.policy import Policy
from agent.text import shorten
from memory.vocabulary import Effect, Finding
from tools.base import Tool, ToolContext, ToolError
from transcripts.events import Called, Noted, Returned

if TYPE_CHECKING:
    from agent.loop import Call

Batch = Callable[[Any, list[Any]], Sequence[BaseModel]]
Cap = Callable[[Any], "tuple[Any, str | None, int | None]"]
"""Output as JSON → what goes into the event, and the sha256 and bytes of the whole where it was cut."""


@dataclass(frozen=True)
class Result:
    """What became of one call."""

    returned: Returned
    finding: Finding | None = None
    note: Noted | None = None


class Executor:
    """Runs calls. ``batches`` names, per tool, the function that runs many independent calls at once."""

    def __init__(
        self,
        tools: Mapping[str, Tool[Any, Any]],
        context: ToolContext,
        policy: Policy,
        cap: Cap,
        *,
        batches: Mapping[str, Batch] | None = None,
        fatal: tuple[type[Exception], ...] = (),
    ) -> None:
        self._tools = tools
        self._context = context
        self._policy = policy
        self._cap = cap
        self._batches = dict(batches or {})
        self.fatal = fatal
        """Errors that mean that nothing more can be recorded (the log or an artifact cannot be written)."""

    def effect(self, tool: str) -> Effect:
        return self._tools[tool].effect if tool in self._tools else Effect.READS

    def groups(self, calls: Sequence[Call]) -> Iterator[list[Call]]:
        """``calls`` in order, neighbours of one batched tool together."""
        for tool, run in groupby(calls, key=lambda call: call.tool):
            if tool in self._batches:
                yield list(run)
            else:
                yield from ([call] for call in run)

    def run(self, calls: Sequence[Called]) -> Iterator[Result]:
        """The results of one group, in its order. One failing call never takes its siblings with it."""
        if len(calls) > 1:
            yield from self._run_batch(calls)
        else:
            yield self._run_one(calls[0])

    def _run_one(self, called: Called) -> Result:
        prepared = self._prepare(called)
        if isinstance(prepared, Result):
            return prepared
        tool, args = prepared
        try:
            return self._succeeded(called, tool.run(args, self._context))
        except self.fatal:
            raise
        except Exception as error:  # noqa: BLE001 - a failing tool is a result
            return _failed(called, error)

    def _run_batch(self, calls: Sequence[Called]) -> list[Result]:
        prepared = [self._prepare(called) for called in calls]
        ready = [one[1] for one in prepared if not isinstance(one, Result)]
        try:
            outputs = iter(self._batches[calls[0].tool](self._context, ready) if ready else ())
            return [
                one if isinstance(one, Result) else self._succeeded(called, next(outputs))
                for called, one in zip(calls, prepared, strict=True)
            ]
        except self.fatal:
            raise
        except Exception:  # noqa: BLE001 - find out which one it was
            return [self._run_one(called) for called in calls]

    def _prepare(self, called: Called) -> tuple[Tool[Any, Any], BaseModel] | Result:
        tool = self._tools.get(called.tool)
        if tool is None:
            return _refused(called, "error", f"no tool {called.tool!r}; there are: {', '.join(self._tools)}")
        if refusal := self._policy.refusal(tool):
            return _refused(called, "denied", refusal)
        for prerequisite in tool.prerequisites:
            if lacking := prerequisite.check():
                return _refused(called, "error", lacking, missing=True)
        try:
            return tool, tool.input.model_validate(called.input)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"]) or "input"
            return _refused(called, "error", f"{called.tool}: {where}: {first['msg']}")

    def _succeeded(self, called: Called, output: BaseModel) -> Result:
        document = output.model_dump(mode="json")
        kept, artifact, size = self._cap(document)
        returned = Returned(
            call=called.call, status="ok", output=kept, artifact=artifact, artifact_bytes=size
        )
        found = getattr(output, "finding", None) or output
        return Result(returned, found if isinstance(found, Finding) else None)


def batch_functions() -> dict[str, Batch]:
    """Tools that come with a function for many calls at once; absent where their module is."""
    found: dict[str, Batch] = {}
    for tool, (module, function) in {"trace_viability": ("tools.viability.trace", "trace_many")}.items():
        try:
            found[tool] = getattr(importlib.import_module(module), function)
        except (ImportError, AttributeError):
            continue
    return found


def _refused(called: Called, status: str, why: str, *, missing: bool = False) -> Result:
    output = {"missing": True} if missing else None
    return Result(
        Returned.model_validate({"call": called.call, "status": status, "error": why, "output": output})
    )


def _failed(called: Called, error: Exception) -> Result:
    if isinstance(error, ToolError):
        return _refused(called, "error", str(error), missing=error.missing)
    trace = "".join(traceback.format_exception(error))
    line = shorten(f"{type(error).__name__}: {error}", 300)
    refused = _refused(called, "error", f"{called.tool} failed with an unexpected error: {line}")
    return Result(refused.returned, note=Noted(text=f"{called.call}: {trace}"))
