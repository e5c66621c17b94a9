"""How long a kernel takes, and what this GPU could do at best, measured in the same process."""

from __future__ import annotations

import contextlib
import importlib
import statistics
import time
from collections.abc import Callable
from typing import Any

from .arrays import the_torch

FLUSH = 256 << 20
"""Bytes written between two runs, so that each finds its operands in memory, not in the cache."""
WARM = 25.0
SPENT = 100.0
"""Milliseconds of warming up, and of runs that are timed."""


def timed(call: Callable[[], Any]) -> dict[str, float]:
    """Milliseconds of one call by the GPU's own events: ``median``, ``low`` and ``high`` (10th and 90th of a
    hundred), ``runs``; ``launching``, the share of the time in which the host was still asking: near 1 the
    GPU waited for the host, and what was timed is not the kernel."""
    torch = the_torch()
    flush = torch.empty(FLUSH, dtype=torch.uint8, device="cuda")
    call()
    torch.cuda.synchronize()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(5):
        flush.zero_()
        call()
    end.record()
    torch.cuda.synchronize()
    once = max(begin.elapsed_time(end) / 5, 1e-3)
    for _ in range(max(1, int(WARM / once))):
        call()
    count = max(10, min(1000, int(SPENT / once)))
    marks = [tuple(torch.cuda.Event(enable_timing=True) for _ in range(2)) for _ in range(count)]
    torch.cuda.synchronize()
    asking = time.perf_counter()
    for start, stop in marks:
        flush.zero_()
        start.record()
        call()
        stop.record()
    asked = time.perf_counter()
    torch.cuda.synchronize()
    whole = time.perf_counter() - asking
    took = sorted(start.elapsed_time(stop) for start, stop in marks)
    return {
        "median": statistics.median(took),
        "low": took[len(took) // 10],
        "high": took[-1 - len(took) // 10],
        "runs": float(count),
        "launching": (asked - asking) / whole,
    }


def captured(call: Callable[[], Any]) -> Callable[[], Any] | None:
    """The same call as a graph that is replayed, without the host's part. None where that fails."""
    torch = the_torch()
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    try:
        with torch.cuda.stream(stream):
            call()
        torch.cuda.current_stream().wait_stream(stream)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            call()
        graph.replay()
        torch.cuda.synchronize()
    except Exception as error:
        if type(error).__name__ == "AcceleratorError" and "captur" not in str(error):
            raise  # the context is broken: nothing after it would count
        return None
    replay: Callable[[], Any] = graph.replay
    return replay


def by_triton(call: Callable[[], Any]) -> float | None:
    """The median that ``triton.testing.do_bench`` measures; None where there is no triton."""
    with contextlib.suppress(ImportError):
        testing = importlib.import_module("triton.testing")
        return float(testing.do_bench(call, warmup=WARM, rep=SPENT, return_mode="median"))
    return None


def ceilings() -> dict[str, float]:
    """TFLOP/s of large products (``bf16``, ``fp8`` where there is one) on random data, and GB/s of a copy
    (``bytes``, read and written both counted)."""
    torch = the_torch()
    begun = time.monotonic()
    size, found = 8192, {}
    a = torch.randn(size, size, device="cuda", dtype=torch.bfloat16)
    b = torch.randn(size, size, device="cuda", dtype=torch.bfloat16)
    found["bf16"] = 2.0 * size**3 / timed(lambda: a @ b)["median"] / 1e9
    with contextlib.suppress(RuntimeError, AttributeError, TypeError):  # GPUs without fp8
        qa, qb = a.to(torch.float8_e4m3fn), b.to(torch.float8_e4m3fn).t()
        one = torch.ones((), device="cuda")
        took = timed(lambda: torch._scaled_mm(qa, qb, one, one, out_dtype=torch.bfloat16))
        found["fp8"] = 2.0 * size**3 / took["median"] / 1e9
    source = torch.empty(2 << 30, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    found["bytes"] = 2.0 * source.numel() / timed(lambda: target.copy_(source))["median"] / 1e6
    found["seconds"] = time.monotonic() - begun
    return found


def rated(took: float, flops: float, moved: float, unit: str, best: dict[str, float]) -> dict[str, Any]:
    """TFLOP/s and GB/s at ``took`` milliseconds, and the larger fraction of what this GPU does at best."""
    rate, bandwidth = flops / took / 1e9, moved / took / 1e6
    top = best.get(unit) or best.get("bf16")
    shares = {
        unit: rate / top if top else 0.0,
        "bytes": bandwidth / best["bytes"] if best.get("bytes") else 0.0,
    }
    of = max(shares, key=lambda name: shares[name])
    return {"tflops": rate, "gbs": bandwidth, "fraction": shares[of], "of": of}
