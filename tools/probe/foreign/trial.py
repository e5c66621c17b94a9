"""One backend of one operation, tried: first call, all sizes, repeats, streams, a graph, timing."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from . import gate, timing
from .arrays import Guarded, rows_of, the_torch
from .case import Asked, Case

TOGETHER = 10
"""Runs on each of two streams at once."""
REPLAYS = 5
HOST = 1.1
"""A call that takes so many times as long as its replay waits for the host that asks for it."""
MOST_FAULTS = 5
"""Runs of one kind whose faults are told; the others are counted."""


class Trial:
    """``cell``: an entry of the plan. ``best``: what this GPU does at best, empty where nothing is timed."""

    def __init__(
        self,
        cell: dict[str, Any],
        device: str,
        best: dict[str, float],
        cache: str,
        stage: Callable[[str], None],
    ) -> None:
        self._cell = cell
        self._device = device
        self._best = best
        self._cache = Path(cache)
        self._stage = stage
        self._on_gpu = device == "cuda"

    def run(self, make: Callable[[Asked], Case]) -> dict[str, Any]:
        """The row's own part. Raises what the library raises at the first size."""
        cell = self._cell
        self._stage("importing the library")
        function = _object(cell["function"])

        def made(m: int, seed: int = 0, routing: str = "even") -> Case:
            return make(Asked(function, cell["choice"], cell["size"], m, 100 + seed, self._device, routing))

        self._make: Callable[..., Case] = made
        row: dict[str, Any] = {}
        built = set(self._built())
        self._stage("first call")
        begun = time.monotonic()
        first = self._make(cell["sweep"][0])
        first.call(None)
        self._wait()
        row["first_call_seconds"] = time.monotonic() - begun
        row["built"] = sorted(set(self._built()) - built)
        row["used"] = first.used
        del first
        self._stage("sizes")
        row["checks"] = [self._size(m, "even") for m in cell["sweep"]]
        row["checks"] += [self._size(m, routing) for routing in cell["routings"] for m in cell["sweep"][-2:]]
        if all("error" not in check for check in row["checks"]):
            self._under_load(row)
        if self._on_gpu:
            row["peak_bytes"] = the_torch().cuda.max_memory_allocated()
            the_torch().cuda.reset_peak_memory_stats()
        return row

    def _under_load(self, row: dict[str, Any]) -> None:
        m = self._cell["repeat_at"]
        self._stage("repeats")
        row["repeats"] = self._repeats(m)
        if self._on_gpu:
            self._stage("two streams")
            row["streams"] = self._streams(m)
            self._stage("graph")
            row["graph"] = self._graph(m)
            self._stage("timing")
            row["timing"] = [self._timed(m) for m in self._cell["timed"]]

    def _size(self, m: int, routing: str) -> dict[str, Any]:
        """One size: what was found, or the library's refusal of it."""
        found: dict[str, Any] = {"m": m, "routing": routing}
        try:
            case = self._make(m, seed=m, routing=routing)
            judged = self._judged(case, *self._called(case))
        except Exception as error:
            if type(error).__name__ == "AcceleratorError" or "CUDA error" in str(error):
                raise  # nothing after it would count
            return {**found, "error": f"{type(error).__name__}: {error}"[:600]}
        return {**found, "outcome": judged.outcome, "faults": list(judged.faults), "figures": judged.figures}

    def _called(self, case: Case) -> tuple[Any, Guarded | None]:
        guarded = Guarded(case.shape, case.dtype, self._device) if case.takes_out else None
        output = case.call(guarded.tensor if guarded else None)
        self._wait()
        return output, guarded

    def _judged(self, case: Case, output: Any, guarded: Guarded | None) -> gate.Judgement:
        shape, dtype = (tuple(output.shape), case.shape), (output.dtype, case.dtype)
        if shape[0] != shape[1]:
            return gate.Judgement(gate.WRONG, (f"shape is {shape[0]}, not {shape[1]}",))
        flat = output.reshape(case.tight.shape)
        return gate.judge(
            rows_of(flat, case.tight),
            None if case.loose is None else rows_of(flat, case.loose),
            limit=case.limit,
            shape=shape,
            dtype=dtype,
            canary=guarded is None or guarded.intact(),
        )

    def _repeats(self, m: int) -> dict[str, Any]:
        """The same call again and again: how many outputs differ from the first in any bit, by how much."""
        torch = the_torch()
        case = self._make(m)
        first = self._called(case)[0].clone()
        faults: list[str] = []
        different, spread = 0, 0.0
        for _ in range(self._cell["repeats"]):
            output, guarded = self._called(case)
            if not torch.equal(output, first):
                different += 1
                spread = max(spread, float((output.float() - first.float()).abs().max()))
                faults += self._judged(case, output, guarded).faults
        return {
            "m": m,
            "count": self._cell["repeats"],
            "different": different,
            "largest_difference": spread,
            "faults": faults[:MOST_FAULTS],
        }

    def _streams(self, m: int) -> dict[str, Any]:
        """Two batches of their own, on two streams at the same time."""
        torch = the_torch()
        cases = [self._make(m, seed=seed) for seed in (1, 2)]
        for case in cases:
            case.call(None)
        self._wait()
        streams = [torch.cuda.Stream() for _ in cases]
        outputs: list[list[Any]] = [[], []]
        for _ in range(TOGETHER):
            for case, stream, kept in zip(cases, streams, outputs, strict=True):
                with torch.cuda.stream(stream):
                    kept.append(case.call(None))
        self._wait()
        judged = [
            self._judged(case, output, None)
            for case, kept in zip(cases, outputs, strict=True)
            for output in kept
        ]
        wrong = [one for one in judged if one.outcome]
        return {"m": m, "runs": len(judged), "wrong": len(wrong), "faults": _faults(wrong)}

    def _graph(self, m: int) -> dict[str, Any]:
        """Captured once, replayed; what cannot be captured is told and is no fault of the numbers."""
        torch = the_torch()
        case = self._make(m)
        guarded = Guarded(case.shape, case.dtype, self._device) if case.takes_out else None
        case.call(guarded.tensor if guarded else None)
        self._wait()
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph):
                output = case.call(guarded.tensor if guarded else None)
        except Exception as error:  # noqa: BLE001
            return {"m": m, "captured": False, "why": f"{type(error).__name__}: {error}"[:300]}
        wrong = []
        for _ in range(REPLAYS):
            output.fill_(float("nan"))
            graph.replay()
            self._wait()
            judged = self._judged(case, output, guarded)
            wrong += [judged] if judged.outcome else []
        return {"m": m, "captured": True, "runs": REPLAYS, "wrong": len(wrong), "faults": _faults(wrong)}

    def _timed(self, m: int) -> dict[str, Any]:
        """The kernel's own time, replayed from a graph where it can be; ``called``: as Python calls it."""
        case = self._make(m)
        guarded = Guarded(case.shape, case.dtype, self._device) if case.takes_out else None
        call = case.timed or (lambda: case.call(guarded.tensor if guarded else None))
        called = timing.timed(call)
        replay = timing.captured(call)
        took = called if replay is None else timing.timed(replay)
        found = {
            "m": m,
            **took,
            "called": called["median"],
            "bound": None if replay is None else _bound(called["median"], took["median"]),
            **timing.rated(took["median"], case.flops, case.moved, case.unit, self._best),
        }
        if (other := timing.by_triton(replay or call)) is not None:
            found["do_bench"] = other
        return found

    def _wait(self) -> None:
        if self._on_gpu:
            the_torch().cuda.synchronize()

    def _built(self) -> list[str]:
        """Libraries in the cache: what was compiled, and not found there."""
        return [str(path.relative_to(self._cache)) for path in self._cache.rglob("*.so")]


def _bound(called: float, kernel: float) -> str:
    return "host" if called > HOST * kernel else "kernel"


def _faults(judged: list[gate.Judgement]) -> list[str]:
    return [fault for one in judged for fault in one.faults][:MOST_FAULTS]


def _object(path: str) -> Any:
    """``package.module:name`` as it is installed."""
    module, _, name = path.partition(":")
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found
