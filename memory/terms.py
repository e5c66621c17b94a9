"""The closed sets of words that models, tables and tools share. No pydantic: read paths use it.

Definitions are in ``docs/concepts.md``; they are part of the contracts of :mod:`memory.vocabulary`.
"""

from __future__ import annotations

from enum import StrEnum


class Verdict(StrEnum):
    """What the source alone says of a backend. Never "works": that word is for something that ran."""

    BLOCKED = "blocked"
    """An enforcing gate refuses."""
    REROUTED = "rerouted"
    """Accepted, but other code runs (``runs_instead`` says which)."""
    NO_STATIC_OBSTACLE = "no_static_obstacle"
    NOT_APPLICABLE = "not_applicable"
    """Another vendor's, or made for another kind of model."""
    UNKNOWN = "unknown"
    """Binary, remote or dynamic: the source read does not decide."""


class Because(StrEnum):
    """Which fact of the scenario the deciding gate looks at."""

    ARCHITECTURE = "architecture"
    QUANTISATION = "quantisation"
    MODEL = "model"
    VENDOR = "vendor"
    PARALLELISM = "parallelism"
    DEPENDENCY = "dependency"
    OPTION = "option"


class Outcome(StrEnum):
    """How an experiment ended."""

    OK = "ok"
    UNSUPPORTED = "unsupported"
    IMPORT_FAILED = "import_failed"
    COMPILE_FAILED = "compile_failed"
    START_FAILED = "start_failed"
    START_TIMEOUT = "start_timeout"
    CRASHED = "crashed"
    HUNG = "hung"
    OUT_OF_MEMORY = "out_of_memory"
    NAN = "nan"
    WRONG = "wrong"
    STRESS_FAILED = "stress_failed"
    SUBSTITUTED = "substituted"
    ENVIRONMENT_SUSPECT = "environment_suspect"
    NOT_RUN = "not_run"


class HypothesisState(StrEnum):
    OPEN = "open"
    PREDICTED = "predicted"
    CONFIRMED = "confirmed"
    REFUTED = "refuted"
    INCONCLUSIVE = "inconclusive"


class FindingStatus(StrEnum):
    CURRENT = "current"
    STALE = "stale"
    SUPERSEDED = "superseded"
    CONTRADICTED = "contradicted"


class Level(StrEnum):
    """The ladder of evidence, cheapest first."""

    REPORT = "report"
    STATIC = "static"
    COMPILE = "compile"
    IMPORTED = "imported"
    """A probe that ran on another machine, by a plan that was packed here."""
    PROBE = "probe"
    SERVER = "server"
    STRESS = "stress"
    BENCHMARK = "benchmark"


class Effect(StrEnum):
    """What running a tool can do to the world; a policy decides which run unasked."""

    READS = "reads"
    WRITES_ENVIRONMENT = "writes_environment"
    EXECUTES_FOREIGN_CODE = "executes_foreign_code"
    USES_GPU = "uses_gpu"
    NETWORK = "network"


class CallKind(StrEnum):
    """What a call does to or with an environment, whatever tool or shell command it was made with."""

    READ_SOURCE = "read_source"
    SEARCH_SOURCE = "search_source"
    LIST_SOURCE = "list_source"
    UPGRADE_ENVIRONMENT = "upgrade_environment"
    LAUNCH_SERVER = "launch_server"
    RUN_BENCHMARK = "run_benchmark"
    GPU_STATUS = "gpu_status"
    OTHER = "other"


class Drift(StrEnum):
    """What has become of something that was read, on the packages that are looked at now."""

    SAME = "same"
    MOVED = "moved"
    """The same text, at other lines or in another file."""
    CHANGED = "changed"
    GONE = "gone"
    NOT_COMPARABLE = "not_comparable"
    """What is on record does not decide it."""
