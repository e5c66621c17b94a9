"""The fastest of what ran right, for each range of sizes that were timed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from agent.measured import timings
from memory.terms import Outcome


def winners(results: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """``results`` of probes → for each component, shape and scenario the fastest backend, as ranges of M.

    A range goes from the first to the last M that was timed at which one backend was the fastest; ``median``
    are its milliseconds at the last.
    """
    tried: dict[tuple[str, str], dict[int, tuple[float, str]]] = {}
    for one in results:
        cell = one["cell"]
        if one["outcome"] != Outcome.OK:
            continue  # how fast something wrong is says nothing
        told = " ".join(f"{key}={value}" for key, value in {**cell["size"], **cell["scenario"]}.items())
        for _, timed in timings(one):
            best = tried.setdefault((cell["component"], told), {})
            mine = (float(timed["median"]), str(cell["backend"]))
            best[timed["m"]] = min(mine, best.get(timed["m"], mine))
    found = []
    for (component, shape), best in tried.items():
        ranges: list[dict[str, Any]] = []
        for m, (median, backend) in sorted(best.items()):
            if ranges and ranges[-1]["backend"] == backend:
                ranges[-1] |= {"to": m, "median": median}
            else:
                ranges.append({"from": m, "to": m, "backend": backend, "median": median})
        found.append({"component": component, "shape": shape, "ranges": ranges})
    return found


def winner_line(one: Mapping[str, Any]) -> str:
    """``fastest fp8_gemm n=4096 k=4096: m 1-128 a (0.012 ms), 1000-4096 b (0.1 ms)``."""
    ranges = ", ".join(
        f"{each['from']}{'' if each['to'] == each['from'] else '-' + str(each['to'])} {each['backend']} "
        f"({each['median']:.3g} ms)"
        for each in one["ranges"]
    )
    return f"fastest {one['component']} {one['shape']}: m {ranges}"
