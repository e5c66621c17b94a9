"""From a row to an outcome: one of the words, and one sentence that says what was seen."""

from __future__ import annotations

import io
import re
from dataclasses import dataclass
from typing import Any

from memory.signatures import signatures
from memory.terms import Outcome
from tools.logs import read_log
from tools.probe.plan import Cell, operations

AUTO = "auto"
"""What every library calls its own choice: whatever it takes is what was asked for."""
LIBRARY_ERRORS = frozenset(
    {"UnboundLocalError", "NameError", "TypeError", "AttributeError", "KeyError", "IndexError"}
)
"""Python's own errors: the call was not understood, or the library's code around the kernel is broken.
Neither says anything of the kernel."""
_REFUSES = re.compile(r"NotSupported|SupportedError|NotImplementedError|Unsupported")
_COMPILING = re.compile(r"[Nn]inja build failed|nvcc fatal|ptxas (fatal|error)|error: command .*nvcc")
_HEADER = re.compile(r"fatal error: (\S+): No such file or directory")
_PROGRAM = re.compile(
    r"(?:No such file or directory: '|Could not find |^|[ :])(?:\S*/)?(nvcc|ninja|c\+\+|g\+\+)"
    r"(?:'|: (?:command )?not found|: No such file| and default cuda_home)"
)
_MACHINE = re.compile(
    r"died due to signal 9|Killed|[Cc]annot allocate memory|virtual memory exhausted|Disk quota exceeded"
    r"|Read-only file system"
)
"""How a compiler ends that the machine is to blame for."""
_COMPILER = {"CompileError", "CompilationError"}
_LONGEST = 240
SIMULATED = "the device is simulated"
"""Said by what stands in for a package that is not there."""
REFUSALS = {"ValueError", "AssertionError", "RuntimeError", "NotImplementedError", "SystemExit"}
"""What an engine raises where it refuses options; any other error is one of what is simulated."""


@dataclass(frozen=True)
class Judged:
    """``signature``: the id of the line that a table knows, where one fits."""

    outcome: Outcome
    because: str
    signature: str | None = None


def judged(cell: Cell, row: dict[str, Any]) -> Judged:
    """What a row says of its cell. What our own operands are to blame for is ``not_run``."""
    ended = row["ended"]
    if cell.kind == "dry" and ended == "returned":
        found = _simulated(cell, row)
    elif ended == "returned":
        found = _returned(cell, row)
    elif ended == "raised":
        found = _raised(row)
    elif ended == "timed_out":
        found = _timed_out(row)
    elif ended == "memory":
        found = Judged(Outcome.OUT_OF_MEMORY, "it took more of the machine's memory than it may")
    elif ended == "died":
        found = Judged(
            Outcome.CRASHED, f"the process ended with {_number(row.get('code'))} while: {_stage(row)}"
        )
    else:
        found = Judged(Outcome.NOT_RUN, f"not tried: {_words(row)}")
    operation = operations()["operation"].get(cell.operation, {})
    if cell.kind == "kernel" and operation.get("unproven") and _never_right(found, row):
        why = f"not judged: no GPU has had these operands right yet ({found.because})"
        return Judged(Outcome.NOT_RUN, why[:_LONGEST], found.signature)
    settled = found.outcome in (Outcome.NOT_RUN, Outcome.ENVIRONMENT_SUSPECT) or _of_architecture(found)
    if cell.kind == "kernel" and cell.choice in operation.get("unready", ()) and not settled:
        why = f"not judged: {cell.choice} wants operands in an order of its own ({found.because})"
        return Judged(Outcome.NOT_RUN, why[:_LONGEST], found.signature)
    return found


def _never_right(found: Judged, row: dict[str, Any]) -> bool:
    """Whether numbers came that are wrong, and none at any size that are right."""
    checks = [check for check in row.get("checks", ()) if isinstance(check, dict)]
    right = any(check.get("outcome") is None and not check.get("error") for check in checks)
    return found.outcome in (Outcome.NAN, Outcome.WRONG) and not right


def _of_architecture(found: Judged) -> bool:
    """Whether it is refused for what the GPU is, whatever the operands are."""
    kinds = {signature.id: signature.kind for signature in signatures()}
    return kinds.get(found.signature or "") == "architecture"


def _simulated(cell: Cell, row: dict[str, Any]) -> Judged:
    """What start-up settles beside a device that is not there; never that anything works."""
    error = row.get("error")
    if error is None:
        found = str(row["resolved"].get(cell.component))
        words = f"simulated {cell.arch}: {cell.component} {cell.backend} resolves to {_short(found)}"
        same = cell.choice in (None, AUTO, found)
        return Judged(Outcome.OK if same else Outcome.SUBSTITUTED, words)
    kinds = [str(one) for one in error.get("kinds", ())]
    words = _short(f"simulated {cell.arch}: {_words(row)}")
    if row.get("where") and SIMULATED not in str(error.get("message")) and REFUSALS & set(kinds):
        return Judged(Outcome.UNSUPPORTED, words)
    return Judged(Outcome.NOT_RUN, words)


def _returned(cell: Cell, row: dict[str, Any]) -> Judged:
    checks = [check for check in row.get("checks", ()) if isinstance(check, dict)]
    for outcome in (Outcome.NAN, Outcome.WRONG):
        if bad := [check for check in checks if check.get("outcome") == outcome.value]:
            return Judged(outcome, f"{_where(bad, checks)}: {_first(bad[0].get('faults'))}")
    if bad := [check for check in checks if check.get("error")]:
        known = _known(str(bad[0]["error"]))
        outcome = known.outcome if known else Outcome.CRASHED
        return Judged(outcome, f"{_where(bad, checks)}: {_short(str(bad[0]['error']))}")
    for name, what in (
        ("repeats", "repeated"),
        ("streams", "on two streams"),
        ("graph", "replayed from a graph"),
    ):
        told = row.get(name) or {}
        if told.get("faults"):
            return Judged(Outcome.STRESS_FAILED, f"right alone, {what} not: {_first(told['faults'])}")
    used = row.get("used")
    if cell.choice not in (None, AUTO) and used is not None and used != cell.choice:
        return Judged(Outcome.SUBSTITUTED, f"{cell.choice} was asked for, {_short(str(used))} ran")
    told = row.get("repeats") or {}
    spread = "the same bits each time"
    if told.get("different"):
        most = _number(told.get("largest_difference"))
        spread = f"other bits {_number(told['different'])} times, by at most {most}"
    if (compiled := row.get("compiled")) is not None:
        parts = f"{len(compiled.get('objects', ()))} of {_number(compiled.get('units'))} units"
        took = (
            "found in the cache"
            if compiled.get("hit")
            else f"compiled in {_number(compiled.get('seconds'))} s"
        )
        return Judged(Outcome.OK, f"{_short(str(compiled.get('module')))}: {parts} {took}")
    if (planted := row.get("planted")) is not None:
        right = not planted.get("missed") and not planted.get("rejected")
        return Judged(Outcome.OK if right else Outcome.WRONG, f"planted faults: {_short(str(planted))}")
    if not checks:
        return Judged(Outcome.NOT_RUN, "nothing was checked")
    return Judged(
        Outcome.OK, f"right at {len(checks)} sizes; {_number(told.get('count', 0))} repeats, {spread}"
    )


def _raised(row: dict[str, Any]) -> Judged:
    error = row.get("error") or {}
    kinds = [str(one) for one in error.get("kinds", ())]
    words, message = _words(row), str(error.get("message", ""))
    if header := _HEADER.search(message):
        return Judged(
            Outcome.ENVIRONMENT_SUSPECT, f"the compiler here lacks {header[1]}; add its folder to CPATH"
        )
    if program := _PROGRAM.search(message):
        return Judged(Outcome.ENVIRONMENT_SUSPECT, f"there is no {program[1]} here to compile with")
    compiling = bool(_COMPILER & set(kinds) or _COMPILING.search(message))
    if compiling and (ended := _MACHINE.search(message)):
        return Judged(Outcome.ENVIRONMENT_SUSPECT, f"the compiler did not come to its end here: {ended[0]}")
    if known := _known(words, str(error.get("traceback", "")), str(row.get("log", ""))):
        return known
    if any("OutOfMemory" in kind for kind in kinds):
        return Judged(Outcome.OUT_OF_MEMORY, words)
    if compiling:
        return Judged(Outcome.COMPILE_FAILED, words)
    if any(_REFUSES.search(kind) for kind in kinds):
        return Judged(Outcome.UNSUPPORTED, words)
    if "ImportError" in kinds or str(row.get("stage", "")).startswith("import"):
        return Judged(Outcome.IMPORT_FAILED, words)
    if LIBRARY_ERRORS & set(kinds):
        return Judged(Outcome.NOT_RUN, f"no kernel was reached: {words}"[:_LONGEST])
    return Judged(Outcome.CRASHED, words)


def _timed_out(row: dict[str, Any]) -> Judged:
    limit = _number(row.get("limit"))
    if compilers := row.get("compiling"):
        names = ", ".join(map(str, compilers))
        return Judged(Outcome.NOT_RUN, f"still compiling after {limit} s ({_short(names)})")
    if str(row.get("stage", "")).startswith("import"):
        return Judged(Outcome.NOT_RUN, f"still importing after {limit} s")
    return Judged(Outcome.HUNG, f"no end after {limit} s while: {_stage(row)}")


def _known(*texts: str) -> Judged | None:
    """What the table of signatures says of the first text that one of them fits."""
    for text in texts:
        reading = read_log(io.BytesIO(text.encode("utf-8", "replace")))
        # It is known that it failed: a line that might only speak of a failure counts.
        told = (one for one in reading.matches if one.signature.fatal and not one.signature.after)
        if (match := reading.cause or next(told, None)) is not None:
            signature = match.signature
            return Judged(signature.outcome, _short(texts[0]), signature.id)
    return None


def _words(row: dict[str, Any]) -> str:
    error = row.get("error") or {}
    return _short(f"{error.get('type', 'error')}: {error.get('message', '')}")


def _where(bad: list[dict[str, Any]], checks: list[dict[str, Any]]) -> str:
    if len(bad) == len(checks):
        return "at every size"
    sizes = list(dict.fromkeys(str(check.get("m")) for check in bad))
    return f"at m = {', '.join(sizes[:6])}" + (" …" if len(sizes) > 6 else "")


def _first(faults: Any) -> str:
    return _short(str(faults[0])) if isinstance(faults, list) and faults else "no reason given"


def _stage(row: dict[str, Any]) -> str:
    return _short(str(row.get("stage", "?")))


def _number(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, int | float) else "?"


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"
