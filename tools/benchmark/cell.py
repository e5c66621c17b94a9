"""One load on one server: the generator run, its figures read, and whether they may be believed."""

from __future__ import annotations

import json
import math
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from memory.artifacts import Artifacts
from memory.home import Home
from memory.terms import Outcome
from tools.benchmark.generator import RESULT, Generator, Load
from tools.benchmark.output import benchmark_runs
from tools.environment.caches import cache_variables
from tools.environment.child import NETWORK, OutputError, allowed_environment, run_child
from tools.environment.model import Environment
from transcripts.redaction.secrets import redacted

APART = 0.01
"""Share by which the tokens of a load may differ from what was asked: more is another workload."""
LARGEST = 256 << 20
"""Bytes of a generator's file."""
EVERY = 15.0
"""Seconds between words about a load that goes on."""
SPECULATIVE = 1.0
"""Tokens accepted a step above which speculative decoding is on."""
NEEDED = ("output_throughput", "median_ttft", "median_tpot")
BURST = 1.0
"""Milliseconds by token below which the times of tokens are not those of the server."""
_TAIL = 400
_ECHO = "\N{BLACK SQUARE}"


class Value(BaseModel):
    value: float
    unit: str


class Cell(BaseModel):
    """``figures``: as the generator wrote them, to the last digit; ``refused``: why they are not to be
    believed. ``raw``, ``log``: artifacts. ``seconds``: the generator's, ``overhead``: what we took beside."""

    concurrency: int
    input: int
    output: int
    prompts: int
    warmup: bool
    figures: dict[str, Value]
    outcome: Outcome
    refused: list[str]
    notes: list[str]
    code: int | None
    timed_out: bool
    speculative: bool
    seconds: float
    overhead: float
    raw: str | None
    log: str | None


class Client:
    """What a generator needs to ask one server."""

    def __init__(
        self,
        home: Home,
        environment: Environment,
        generator: Generator,
        *,
        python: Path,
        site: Path | None,
        url: str,
        model: str,
        key: str | None,
        tokenizer: str | None,
        tell: Callable[[str], None],
    ) -> None:
        self.home = home
        self.generator = generator
        self.python = python
        self.url, self.model, self.tokenizer = url, model, tokenizer
        self.key = key
        self.tell = tell
        self.variables = _variables(home, environment, generator, key, site, tokenizer)

    def run(self, load: Load, *, warmup: bool, seconds: float) -> Cell:
        """Raises ``OSError`` where the generator cannot be started."""
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="assay-load-") as name:
            folder = Path(name)
            command = self.generator.command(
                self.python, load, folder, url=self.url, model=self.model, tokenizer=self.tokenizer
            )
            log = folder / "log"
            what = f"{'warm-up, ' if warmup else ''}c={load.concurrency}, {load.input}+{load.output} tokens"
            self.tell(f"{what}: {load.prompts} requests")
            code, timed_out, took, broken = None, False, 0.0, ""
            try:
                ended = run_child(
                    command, environment=self.variables, folder=folder, output=log, seconds=seconds,
                    tick=_Clock(self.tell, what), memory=None, most_output=LARGEST,
                )  # fmt: skip
                code, timed_out, took = ended.code, ended.timed_out, ended.seconds
            except OutputError as error:
                broken = str(error)
            said = self._read(log) or b""
            raw = self._read(folder / RESULT)
        return self._cell(load, warmup, said, raw, code, timed_out, broken, took, began)

    def _cell(
        self,
        load: Load,
        warmup: bool,
        said: bytes,
        raw: bytes | None,
        code: int | None,
        timed_out: bool,
        broken: str,
        took: float,
        began: float,
    ) -> Cell:
        artifacts = Artifacts(self.home.artifacts)
        words = str(redacted(said.decode("utf-8", "replace")))
        document = read_document(raw) if raw is not None else None
        figures = dict(read_figures(raw.decode("utf-8", "replace"))) if raw is not None and document else {}
        refused = [(Outcome.NOT_RUN, broken)] if broken else []
        if timed_out:
            refused.append((Outcome.HUNG, f"the load had not ended after {took:.0f} s"))
        elif code:
            refused.append((Outcome.NOT_RUN, f"the generator ended with {code}: {_last(words)}"))
        if document is not None:
            refused += doubts(document, figures, load)
        elif not refused:
            refused.append((Outcome.NOT_RUN, f"the generator wrote no result: {_last(words)}"))
        accepted = figures.get("accept_length")
        cell = Cell(
            concurrency=load.concurrency,
            input=load.input,
            output=load.output,
            prompts=load.prompts,
            warmup=warmup,
            figures=figures,
            outcome=refused[0][0] if refused else Outcome.OK,
            refused=[why for _, why in refused],
            notes=list(_notes(document, figures, load)) if document is not None else [],
            code=code,
            timed_out=timed_out,
            speculative=accepted is not None and accepted.value > SPECULATIVE,
            seconds=took,
            overhead=0.0,
            raw=artifacts.put(raw) if raw is not None else None,
            log=artifacts.put(words.encode()) if said else None,
        )
        return cell.model_copy(update={"overhead": max(0.0, time.monotonic() - began - took)})

    def _read(self, path: Path) -> bytes | None:
        """A file that the generator left; without the key, which some write into it."""
        try:
            with path.open("rb") as file:
                data = file.read(LARGEST)
        except OSError:
            return None
        return data.replace(self.key.encode(), _ECHO.encode()) if self.key else data


class _Clock:
    def __init__(self, tell: Callable[[str], None], what: str) -> None:
        self._tell, self._what, self._next = tell, what, EVERY

    def __call__(self, gone: float) -> None:
        if gone >= self._next:
            self._next += EVERY
            self._tell(f"{self._what}: {gone:.0f} s")


def _variables(
    home: Home,
    environment: Environment,
    generator: Generator,
    key: str | None,
    site: Path | None,
    tokenizer: str | None,
) -> dict[str, str]:
    known = allowed_environment(os.environ, lambda name: name in NETWORK or name.startswith("HF_HUB_"))
    known |= cache_variables(home, environment)
    known |= {"HF_HOME": os.environ["HF_HOME"]} if os.environ.get("HF_HOME") else {}
    if key is not None:
        known[generator.key] = key
    if site is not None:
        known["PYTHONPATH"] = str(site)
    if tokenizer is not None and Path(tokenizer).is_dir():
        known["HF_HUB_OFFLINE"] = "1"
    known["NO_PROXY"] = known["no_proxy"] = "127.0.0.1,localhost"
    return known


def read_document(raw: bytes) -> dict[str, Any] | None:
    """The last JSON object of a generator's file, which one appends to and the other writes anew."""
    for line in (raw, raw.strip().rsplit(b"\n", 1)[-1]):
        with suppress(ValueError, RecursionError):
            found = json.loads(line)
            if isinstance(found, dict):
                return found
    return None


def read_figures(text: str) -> Iterator[tuple[str, Value]]:
    """The figures of the last run in a generator's file."""
    runs = [run for run in benchmark_runs(text) if run.figures]
    for figure in runs[-1].figures if runs else ():
        yield figure.metric, Value(value=figure.value, unit=figure.unit)


def doubts(
    document: Mapping[str, Any], figures: Mapping[str, Value], load: Load
) -> Iterator[tuple[Outcome, str]]:
    """Why the figures of a run that ended well are still not to be believed, and what that says of the
    server; ``not_run``: nothing."""
    completed = figures.get("completed")
    if completed is None or completed.value != load.prompts:
        said = f"{completed.value:g}" if completed else "an unknown number"
        why = f"{said} of {load.prompts} requests were answered{_first_error(document)}"
        yield Outcome.STRESS_FAILED if completed else Outcome.NOT_RUN, why
    for name, asked in (("input", load.input), ("output", load.output)):
        total = figures.get(f"total_{name}_tokens")
        wanted = asked * load.prompts
        if total is None or abs(total.value / wanted - 1) > APART:
            said = f"{total.value:g}" if total else "an unknown number of"
            why = f"{said} {name} tokens were counted, {wanted} asked for: it was another load"
            yield Outcome.NOT_RUN, why
    first = document.get("ttfts")
    if not isinstance(first, list):
        yield Outcome.NOT_RUN, "no times by request: whether each gave text cannot be told"
    elif silent := sum(1 for one in first if isinstance(one, int | float) and one <= 0):
        why = f"{silent} requests gave no text, which counts as a first token after 0 ms"
        yield Outcome.WRONG, why
    if missing := [name for name in NEEDED if name not in figures]:
        yield Outcome.NOT_RUN, f"there is no {', no '.join(missing)}"
    if bad := [name for name, one in figures.items() if not math.isfinite(one.value) or one.value < 0]:
        yield Outcome.NOT_RUN, f"{bad[0]} is no figure"


def _notes(document: Mapping[str, Any], figures: Mapping[str, Value], load: Load) -> Iterator[str]:
    said, again = document.get("total_output_tokens"), document.get("total_output_tokens_retokenized")
    if isinstance(said, int) and isinstance(again, int) and again < said / 2:
        yield f"the text has {again} tokens where {said} were counted: is it language?"
    token = figures.get("median_tpot")
    if token is not None and token.value < BURST:
        yield f"{token.value:.2f} ms by token: answers came in bursts, from a busy client or through a buffer"
    if load.prompts < 100:
        yield f"of {load.prompts} requests the 99th percentile is the slowest"


def _first_error(document: Mapping[str, Any]) -> str:
    errors = document.get("errors")
    told = next((str(one) for one in errors if one), None) if isinstance(errors, list) else None
    return f": {' '.join(told.split())[-_TAIL:]}" if told else ""


def _last(words: str) -> str:
    lines = [line.strip() for line in words.splitlines() if line.strip()]
    return lines[-1][-_TAIL:] if lines else "it said nothing"
