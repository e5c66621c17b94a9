"""Benchmarks: load generators of the engines, started and read; nothing here makes load."""

from tools.benchmark.output import Figure, Run, benchmark_runs

__all__ = ["Figure", "Run", "benchmark_runs"]
