"""Loads on one server: the engine's generator is asked fairly, read to the last digit, and doubted."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from completions import Fake
from fake_generator import add_generator

from memory.artifacts import Artifacts
from memory.home import Home
from memory.terms import Outcome
from tools.base import ToolError
from tools.benchmark.cell import read_document, read_figures
from tools.benchmark.generator import Load, generator_of
from tools.benchmark.loads import Loads
from tools.benchmark.server import Benchmarked, BenchmarkServer, benchmark_server
from tools.environment.adopt import adopt
from tools.quality.checked import CheckServer

ENGINES = ("sglang", "vllm")
SMALL: dict[str, Any] = {"concurrency": (1, 4), "input": 64, "output": 16, "least": 8}


class Desk:
    """What a tool is given by a person, who has named the interpreter."""

    def __init__(self, home: Home, site: Path, server: Fake, python: Path) -> None:
        self.home = home
        self.servers = {server.url: server.key}
        self.interpreter = (python, site)
        self.said: list[str] = []

    def progress(self, text: str) -> None:
        self.said.append(text)


@pytest.fixture
def benchmarked(home: Home, tmp_path: Path) -> Callable[..., Benchmarked]:
    def run(
        engine: str = "sglang", *, server: dict[str, Any] | None = None, loads: dict[str, Any] | None = None,
        python: Path = Path(sys.executable), **fault: Any,
    ) -> Benchmarked:  # fmt: skip
        site = add_generator(tmp_path / "site", engine, **fault)
        with Fake(**(server or {})) as fake:
            check = CheckServer(url=fake.url, concurrency=4, rounds=1, questions=0)
            args = BenchmarkServer(
                check=check, environment=str(site), engine=engine, loads=Loads(**{**SMALL, **(loads or {})})
            )
            result = benchmark_server.run(args, Desk(home, site, fake, python))
        assert isinstance(result, Benchmarked)
        return result

    return run


@pytest.mark.parametrize("engine", ENGINES)
def test_figures_are_those_of_the_generators_file_to_the_last_digit(
    benchmarked: Callable[..., Benchmarked], home: Home, engine: str
) -> None:
    result = benchmarked(engine, loads={"long": 512}, server={"key": "s3cretive"})
    assert (result.outcome, result.level.value) == (Outcome.OK, "benchmark")
    found = result.benchmark
    assert found is not None
    assert [(cell.concurrency, cell.input, cell.prompts, cell.warmup) for cell in found.cells] == [
        (4, 64, 8, True), (1, 64, 8, False), (4, 64, 20, False), (1, 512, 8, False),
    ]  # fmt: skip
    for cell in found.cells:
        assert cell.raw is not None
        raw = Artifacts(home.artifacts).get(cell.raw)
        assert b"s3cretive" not in raw, "some write the server's settings into their file, its key among them"
        written = json.loads(raw)
        for name in ("output_throughput", "duration", "completed"):
            assert cell.figures[name].value == written[name]
        for name in ("median_ttft", "p99_ttft", "median_tpot", "median_itl"):
            assert cell.figures[name].value == written[f"{name}_ms"]
            assert cell.figures[name].unit == "ms"
        assert "median_e2e_latency" in cell.figures
    again = json.loads(result.model_dump_json())
    assert again["benchmark"]["cells"][1]["figures"]["median_tpot"]["value"] == (
        found.cells[1].figures["median_tpot"].value
    )


def test_lengths_are_fixed_by_each_tools_own_words(tmp_path: Path) -> None:
    load = Load(concurrency=4, input=64, output=16, prompts=20)
    words = {}
    for engine in ENGINES:
        environment = adopt(add_generator(tmp_path / engine, engine))
        generator = generator_of(environment, engine)
        words[engine] = generator.command(
            Path("python"), load, Path("out"), url="http://127.0.0.1:1", model="m", tokenizer=None
        )
    for engine, ratio in (("sglang", "1"), ("vllm", "0")):
        command = words[engine]
        assert command[command.index("--random-range-ratio") + 1] == ratio
        assert command[command.index("--num-prompts") + 1] == "20"
        assert command[command.index("--max-concurrency") + 1] == "4"
    assert "--output-details" in words["sglang"]
    assert {"--save-detailed", "--ignore-eos"} <= set(words["vllm"])


@pytest.mark.parametrize("engine", ENGINES)
def test_a_generator_that_cannot_be_asked_fairly_is_refused(tmp_path: Path, engine: str) -> None:
    environment = adopt(add_generator(tmp_path / "site", engine, without="--random-range-ratio"))
    with pytest.raises(ToolError, match="knows no --random-range-ratio"):
        generator_of(environment, engine)
    with pytest.raises(ToolError, match="no load generator of 'other' is known"):
        generator_of(environment, "other")
    other = "vllm" if engine == "sglang" else "sglang"
    with pytest.raises(ToolError, match="is not in") as failed:
        generator_of(environment, other)
    assert failed.value.missing


@pytest.mark.parametrize(
    ("fault", "outcome", "says"),
    [
        ("failed", "stress_failed", "18 of 20 requests were answered: refused: planted"),
        ("silent", "wrong", "1 requests gave no text, which counts as a first token after 0 ms"),
        ("short", "not_run", "160 output tokens were counted, 320 asked for: it was another load"),
        ("missing", "not_run", "there is no median_tpot"),
        ("nothing", "not_run", "the generator wrote no result: it said nothing"),
        ("crash", "not_run", "the generator ended with 1: RuntimeError: planted"),
    ],
)
def test_traps_of_generators_are_seen(
    benchmarked: Callable[..., Benchmarked], fault: str, outcome: str, says: str
) -> None:
    result = benchmarked(fault=fault, at=4, loads={"warmup": False})
    assert result.benchmark is not None
    good, bad = result.benchmark.cells
    assert (good.outcome, good.refused) == (Outcome.OK, [])
    assert bad.outcome.value == outcome
    assert bad.refused[0] == says
    # One load that says nothing of the server leaves what the others say.
    assert result.outcome.value == ("ok" if outcome == "not_run" else outcome)


def test_a_generator_that_does_not_run_is_tried_once(benchmarked: Callable[..., Benchmarked]) -> None:
    result = benchmarked(fault="crash")
    assert result.outcome is Outcome.NOT_RUN
    assert result.because == "no load can be believed: the generator ended with 1: RuntimeError: planted"
    assert result.benchmark is not None
    assert len(result.benchmark.cells) == 1


def test_a_check_that_was_passed_is_told_where_the_loads_cannot_go_on(
    benchmarked: Callable[..., Benchmarked], tmp_path: Path
) -> None:
    python = tmp_path / "python"
    python.symlink_to(sys.executable)
    result = benchmarked(python=python, removes=str(python))
    assert result.outcome is Outcome.NOT_RUN
    assert result.because.startswith("not measured: cannot run sglang.bench_serving with")
    assert result.checked.outcome is Outcome.OK
    assert result.benchmark is None


def test_a_load_that_does_not_end_is_ended_and_the_server_asked(
    benchmarked: Callable[..., Benchmarked],
) -> None:
    result = benchmarked(fault="hang", loads={"minutes": 0.05, "warmup": False})
    assert result.benchmark is not None
    assert result.outcome is Outcome.NOT_RUN, "the server answers: the time was too short"
    assert "had not ended after" in result.because


def test_nothing_is_measured_that_failed_the_gate(benchmarked: Callable[..., Benchmarked]) -> None:
    result = benchmarked(server={"fault": "nan"})
    assert (result.outcome, result.level.value, result.benchmark) == (Outcome.NAN, "server", None)


def test_a_server_that_is_gone_ends_the_loads(benchmarked: Callable[..., Benchmarked]) -> None:
    # 16 requests alone, 12 in the crowd; the next is our question whether it lives.
    result = benchmarked(server={"fault": "crash", "after": 28}, fault="crash")
    assert result.outcome is Outcome.CRASHED
    assert result.benchmark is not None
    assert len(result.benchmark.cells) == 1
    assert result.benchmark.cells[0].refused[0].startswith("the server is gone: ")


def test_what_we_take_beside_the_load_is_told(benchmarked: Callable[..., Benchmarked]) -> None:
    found = benchmarked().benchmark
    assert found is not None
    assert found.seconds == pytest.approx(sum(cell.seconds for cell in found.cells))
    assert 0 < found.overhead == pytest.approx(sum(cell.overhead for cell in found.cells))


def test_answers_that_come_in_bursts_are_told(benchmarked: Callable[..., Benchmarked]) -> None:
    found = benchmarked(speed=50.0).benchmark
    assert found is not None
    assert any("answers came in bursts" in note for note in found.cells[1].notes)
    calm = benchmarked().benchmark
    assert calm is not None
    assert not any("bursts" in note for note in calm.cells[1].notes)


def test_speculative_decoding_is_told_by_what_is_accepted(benchmarked: Callable[..., Benchmarked]) -> None:
    found = benchmarked(accepted=2.75).benchmark
    assert found is not None
    assert all(cell.speculative for cell in found.cells)


def test_the_last_of_several_results_in_one_file_counts() -> None:
    one = {"request_throughput": 1.0, "output_throughput": 2.0, "total_throughput": 3.0, "duration": 4.0}
    raw = "".join(json.dumps({**one, "duration": seconds}) + "\n" for seconds in (5.0, 6.125)).encode()
    assert read_document(raw) == {**one, "duration": 6.125}
    assert dict(read_figures(raw.decode()))["duration"].value == 6.125
    for nothing in (b"", b"[]", b"{", b"[" * 100_000):
        assert read_document(nothing) is None
