"""Benchmarks: what load generators print and write. They are the engines' own; nothing here makes load."""

from tools.benchmark.output import Figure, Run, benchmark_runs

__all__ = ["Figure", "Run", "benchmark_runs"]
