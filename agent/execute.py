"""Running tools for the loop: permission, typed input, batches, errors as results, one cap on all output."""

from __future__ import annotations

import importlib
import threading
import traceback
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ValidationError

from agent.policy import Rules
from agent.siblings import Job, side_by_side
from agent.text import shorten
from memory.vocabulary import Effect, Finding
from tools import stopping
from tools.base import Tool, ToolContext, ToolError
from tools.locks import holding
from transcripts.events import Called, Concluded, HypothesisChanged, Noted, Returned
from transcripts.found import change_in, finding_in

if TYPE_CHECKING:
    from agent.loop import Call

CANCELLED = "cancelled by who asked for it"
"""Why a call was interrupted although all else goes on."""
Batch = Callable[[Any, list[Any]], Iterable[BaseModel]]
"""Context, inputs → their results in order, best each as soon as it is there. Runs in the calling thread."""
Stops = Callable[[str], "stopping.Stop | None"]
"""A call → what ends it alone; None: nobody can ask for that."""
Cap = Callable[[Any], "tuple[Any, str | None, int | None]"]
"""Output as JSON → what goes into the event, and the sha256 and bytes of the whole where it was cut."""


@dataclass(frozen=True)
class Result:
    """What became of one call."""

    returned: Returned
    finding: Finding | None = None
    note: Noted | None = None
    change: HypothesisChanged | Concluded | None = None


@dataclass(frozen=True)
class _Ready:
    """A call that may run."""

    called: Called
    tool: Tool[Any, Any]
    args: BaseModel
    resources: frozenset[str]
    note: str | None = None


class Executor:
    """Runs calls. ``batches`` names, per tool, the function that runs many independent calls at once."""

    def __init__(
        self,
        tools: Mapping[str, Tool[Any, Any]],
        context: ToolContext,
        policy: Rules,
        cap: Cap,
        *,
        batches: Mapping[str, Batch] | None = None,
        fatal: tuple[type[Exception], ...] = (),
        lock_folder: Path | None = None,
        stops: Stops = lambda _: None,
    ) -> None:
        """``lock_folder``: where what belongs to the machine is locked, by default where all its users do.
        ``stops``: what ends a call alone, where somebody may ask for that."""
        self._stops = stops
        self._tools = tools
        self._context = _Shared(context)
        self._lock_folder = lock_folder
        self._policy = policy
        self._cap = cap
        self._batches = dict(batches or {})
        self.fatal = fatal
        """Errors that mean that nothing more can be recorded (the log or an artifact cannot be written)."""

    def effect(self, tool: str) -> Effect:
        return self._tools[tool].effect if tool in self._tools else Effect.READS

    def groups(self, calls: Sequence[Call]) -> Iterator[list[Call]]:
        """``calls`` in order, divided into those that run together: neighbours of one batched tool, and those
        that run side by side. A call of a tool that runs alone is a group of its own."""

        def together(numbered: tuple[int, Call]) -> object:
            number, call = numbered
            if call.tool in self._batches:
                return call.tool
            tool = self._tools.get(call.tool)
            return number if tool is not None and tool.alone else None

        for _, group in groupby(enumerate(calls), together):
            yield [call for _, call in group]

    def run(self, calls: Sequence[Called]) -> Generator[Result]:
        """The results of one group, in its order. One failing call never takes its siblings with it.

        At ``KeyboardInterrupt`` the results of the calls that have ended are given before it is raised.
        Close the generator (or exhaust it) to be sure that nothing runs any more.
        """
        prepared = [self._prepare(called) for called in calls]
        if len(calls) == 1:
            yield self._run_one(prepared[0])
        elif calls[0].tool in self._batches:
            yield from self._run_batch(self._batches[calls[0].tool], prepared)
        else:
            jobs = [Job(partial(self._run_one, one), _resources(one)) for one in prepared]
            with closing(side_by_side(jobs)) as results:
                yield from results

    def _run_one(self, one: _Ready | Result) -> Result:
        if isinstance(one, Result):
            return one
        stop = self._stops(one.called.call)
        try:
            with self._alone(stop), self._holding(one.resources):
                output = one.tool.run(one.args, self._context)
            return self._succeeded(one, output)
        except self.fatal:
            raise
        except stopping.Stopped:
            if stop is None or not stop.asked:
                raise
            stopping.check()  # where all of it is to end, this is no matter of one call
            return _refused(one.called, "interrupted", CANCELLED)
        except Exception as error:  # noqa: BLE001 - a failing tool is a result
            return _failed(one.called, error, one.note)

    def _run_batch(self, batch: Batch, prepared: Sequence[_Ready | Result]) -> Iterator[Result]:
        """Where the batch fails, the call whose turn it was runs by itself, and the rest as a batch again;
        none of them where it says that it failed for all. Nothing that was given is asked for twice."""
        left = deque(prepared)
        while left:
            yield from self._while_it_goes(batch, left)
            yield from _refused_first(left)
            if left:
                result = self._run_one(left.popleft())
                yield result
                if result.returned.status == "ok":
                    break  # the call was not to blame, the batch is
        for one in left:
            yield self._run_one(one)

    def _while_it_goes(self, batch: Batch, left: deque[_Ready | Result]) -> Iterator[Result]:
        """Take from ``left`` what the batch gives, until it fails."""
        ready = [one for one in left if not isinstance(one, Result)]
        if not ready:
            return
        try:
            with (
                self._holding(frozenset().union(*(one.resources for one in ready))),
                closing(_closable(batch(self._context, [one.args for one in ready]))) as outputs,
            ):
                for output in outputs:
                    yield from _refused_first(left)
                    result = self._succeeded(ready.pop(0), output)
                    left.popleft()
                    yield result
        except self.fatal:
            raise
        except Exception as error:  # noqa: BLE001 - the call whose turn it is will say what it was
            if isinstance(error, ToolError) and error.whole:
                for one in ready:
                    yield from _refused_first(left)
                    left.popleft()
                    yield _failed(one.called, error, one.note)

    @contextmanager
    def _alone(self, stop: stopping.Stop | None) -> Iterator[None]:
        """What runs in here may be ended by itself."""
        if stop is None:
            yield
            return
        with stopping.under(stopping.Either(stopping.current(), stop)):
            stopping.check()
            yield

    def _holding(self, resources: frozenset[str]) -> AbstractContextManager[None]:
        if not resources:
            return nullcontext()
        return holding(resources, self._context.home, self._context.progress, self._lock_folder)

    def _prepare(self, called: Called) -> _Ready | Result:
        tool = self._tools.get(called.tool)
        if tool is None:
            return _refused(called, "error", f"no tool {called.tool!r}; there are: {', '.join(self._tools)}")
        for prerequisite in tool.prerequisites:
            if lacking := prerequisite.check():
                return _refused(called, "error", lacking, missing=True)
        try:
            args = tool.input.model_validate(called.input)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"]) or "input"
            return _refused(called, "error", f"{called.tool}: {where}: {first['msg']}")
        # Last: nobody is asked whether something may run that cannot.
        ruling = self._policy.rule(tool, called)
        if ruling.refusal is not None:
            return _refused(called, "denied", ruling.refusal)
        try:
            return _Ready(called, tool, args, frozenset(tool.resources(args)), ruling.note)
        except Exception as error:  # noqa: BLE001 - a failing tool is a result
            return _failed(called, error)

    def _succeeded(self, one: _Ready, output: BaseModel) -> Result:
        document = output.model_dump(mode="json")
        kept, artifact, size = self._cap(document)
        returned = Returned(
            call=one.called.call, status="ok", output=kept, artifact=artifact, artifact_bytes=size
        )
        note = Noted(text=one.note) if one.note else None
        return Result(returned, finding_in(document), note, change_in(document))


class _Shared:
    """The context as calls side by side have it: one speaks at a time, and none that was asked to stop."""

    def __init__(self, context: ToolContext) -> None:
        self._context = context
        self._speaking = threading.Lock()

    @property
    def home(self) -> Any:
        return self._context.home

    def progress(self, text: str) -> None:
        stopping.check()
        with self._speaking:
            self._context.progress(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)


def _resources(one: _Ready | Result) -> frozenset[str]:
    return frozenset() if isinstance(one, Result) else one.resources


def _refused_first(left: deque[_Ready | Result]) -> Iterator[Result]:
    """Take from ``left`` what there is nothing to run for."""
    while left and isinstance(first := left[0], Result):
        left.popleft()
        yield first


def _closable(outputs: Iterable[BaseModel]) -> Generator[BaseModel]:
    """To be closed whether it is a generator or not."""
    yield from outputs


def batch_functions() -> dict[str, Batch]:
    """Tools that come with a function for many calls at once; absent where their module is."""
    found: dict[str, Batch] = {}
    many = {
        "trace_viability": ("tools.viability.trace", "trace_many"),
        "probe_kernel": ("tools.probe.kernel", "probe_many"),
        "probe_compile": ("tools.probe.kernel", "compile_many"),
        "probe_dry_run": ("tools.probe.dry", "dry_many"),
    }
    for tool, (module, function) in many.items():
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


def _failed(called: Called, error: Exception, note: str | None = None) -> Result:
    if isinstance(error, ToolError):
        refused = _refused(called, "error", str(error), missing=error.missing)
        return replace(refused, note=Noted(text=note)) if note else refused
    trace = "".join(traceback.format_exception(error))
    line = shorten(f"{type(error).__name__}: {error}", 300)
    refused = _refused(called, "error", f"{called.tool} failed with an unexpected error: {line}")
    return Result(refused.returned, note=Noted(text=f"{note or called.call}: {trace}"))
