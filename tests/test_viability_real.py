"""What the sources of real wheels say: sglang with the flashinfer beside it, no wheel installed, none run."""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from conftest import Wheels
from viability_fixtures.support import Context, run_context, traced

from agent.relevance import relevant
from memory.vocabulary import Because, HypothesisState, Row, Verdict
from tools.engines.options import backend_options, discover_options
from tools.environment.model import Environment
from tools.viability.trace import Trace, TraceInput

pytestmark = pytest.mark.network

PAIR = ("sglang==0.5.9", "flashinfer-python==0.6.5")
OTHER_PAIRS = {
    "summer": ("sglang==0.5.14", "flashinfer-python==0.6.12"),
    "newest": ("sglang==0.5.23", "flashinfer-python==0.7.2"),
}
ARCHS = ("sm80", "sm89", "sm90", "sm100", "sm103", "sm120", "sm121")
DATA = Path(__file__).parent / "data"
READ_AS = {"moe_nvfp4": "moe_runner"}
"""A component of the hand-read tables under the name that the engine's option gives it."""

GEMM_BASE = "flashinfer/gemm/gemm_base.py"


@pytest.fixture
def context(tmp_path_factory: pytest.TempPathFactory) -> Context:
    return run_context(tmp_path_factory.getbasetemp())


def cells(environment: Environment, archs: Sequence[str], only: tuple[str, ...] = ()) -> list[TraceInput]:
    """Every declared value of every option that chooses among implementations: on each architecture where
    the matrix of an engine shows it, else on the first."""
    options = backend_options(discover_options(environment.tree(), "sglang"))
    shown = [option.field for option in relevant(options, None)]
    return [
        TraceInput(
            environment=environment.path,
            component=option.component,
            backend=value.value,
            arch=arch,
            quantisation="nvfp4",
        )
        for option in options
        if not only or option.component in only
        for value in option.values
        for arch in (archs if option.field in shown else archs[:1])
    ]


Matrix = dict[tuple[str, str, str], Trace]


@pytest.fixture
def pair(wheels: Wheels) -> Environment:
    return wheels(*PAIR)


@pytest.fixture
def matrix(context: Context, pair: Environment) -> Matrix:
    """All cells of the pair; traced once in a test run, read from memory after that."""
    traces = traced(context, cells(pair, ARCHS))
    return {(trace.row.component, trace.row.backend, trace.row.arch): trace for trace in traces}


@pytest.fixture
def row(matrix: Matrix) -> Callable[[str, str, str], Row]:
    return lambda component, backend, arch: matrix[component, backend, arch].row


def checked(row: Row, environment: Environment) -> None:
    """Each line of evidence stands in the wheel's file, counted and hashed from the file's bytes."""
    for item in row.evidence:
        data = (Path(environment.path) / item.file).read_bytes().removeprefix(b"\xef\xbb\xbf")
        lines = data.replace(b"\r\n", b"\n").split(b"\n")
        assert item.line <= item.end_line <= len(lines)
        span = lines[item.line - 1 : item.end_line]
        assert hashlib.sha256(b"\n".join(span)).hexdigest() == item.sha256, item
        first = item.text.split("\n", 1)[0].strip()
        assert first in span[0].decode(), item
        assert environment.packages[item.package] == item.version
        assert item.file in recorded(environment, item.package)


def recorded(environment: Environment, package: str) -> frozenset[str]:
    stem = package.replace("-", "_")
    record = Path(environment.path) / f"{stem}-{environment.packages[package]}.dist-info" / "RECORD"
    with record.open(encoding="utf-8", newline="") as file:
        return frozenset(line[0] for line in csv.reader(file))


def table(name: str) -> list[tuple[str, str, str]]:
    with (DATA / name).open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return [
        (READ_AS.get(line["component"], line["component"]), line["backend"], line["arch"]) for line in rows
    ]


# -- the pair that the project was born from ------------------------------------------------------------


def test_a_library_refuses_what_the_engines_first_gate_lets_through(
    row: Callable[[str, str, str], Row],
) -> None:
    for arch in ("sm120", "sm121"):
        found = row("fp4_gemm", "flashinfer_trtllm", arch)
        assert (found.verdict, found.because) == (Verdict.BLOCKED, Because.ARCHITECTURE)
        assert found.evidence[0].file == GEMM_BASE
        assert "supported_compute_capability([100, 103])" in found.evidence[0].text.split("\n")[0]
        assert found.evidence[0].package == "flashinfer-python"
        assert found.first_gate is not None
        assert found.first_gate.verdict is Verdict.NO_STATIC_OBSTACLE
        assert found.first_gate.file.startswith("sglang/")


def test_a_kernel_compiled_for_other_major_versions_is_refused(row: Callable[[str, str, str], Row]) -> None:
    for arch in ("sm120", "sm121"):
        found = row("moe_runner", "flashinfer_trtllm", arch)
        assert (found.verdict, found.because) == (Verdict.BLOCKED, Because.ARCHITECTURE)
        assert found.evidence[0].file == "flashinfer/jit/fused_moe.py"
        assert "supported_major_versions=[10]" in found.evidence[0].text.split("\n")[0]
        assert found.first_gate is not None
        assert found.first_gate.verdict is Verdict.NO_STATIC_OBSTACLE


@pytest.mark.parametrize("arch", ["sm100", "sm103"])
def test_what_a_kernel_is_made_for_is_not_refused(row: Callable[[str, str, str], Row], arch: str) -> None:
    for component in ("fp4_gemm", "moe_runner"):
        assert row(component, "flashinfer_trtllm", arch).verdict is not Verdict.BLOCKED


def test_what_has_no_obstacle(row: Callable[[str, str, str], Row]) -> None:
    for component, backend in (
        ("fp4_gemm", "flashinfer_cutlass"),
        ("moe_runner", "flashinfer_cutlass"),
        ("fp4_gemm", "flashinfer_cudnn"),
    ):
        found = row(component, backend, "sm120")
        assert (found.verdict, found.because) == (Verdict.NO_STATIC_OBSTACLE, None), (component, backend)
        assert found.state is HypothesisState.PREDICTED


def test_a_backend_that_depends_on_a_librarys_version_says_so(row: Callable[[str, str, str], Row]) -> None:
    conditions = row("fp4_gemm", "flashinfer_cudnn", "sm120").conditions
    versions = [one for one in conditions if "cudnn" in one.fact and "version" in one.fact]
    assert any(one.op == ">=" and isinstance(one.value, int) for one in versions), conditions
    assert all(one.op in {">=", ">"} for one in versions), conditions
    assert row("fp4_gemm", "flashinfer_cutlass", "sm120").conditions == ()


def test_a_format_too_new_for_the_device_is_refused_before_any_layer(
    row: Callable[[str, str, str], Row],
) -> None:
    for arch in ("sm80", "sm89", "sm90"):
        for backend in ("auto", "flashinfer_cutlass", "flashinfer_trtllm"):
            found = row("fp4_gemm", backend, arch)
            assert (found.verdict, found.because) == (Verdict.BLOCKED, Because.ARCHITECTURE)
            assert found.first_gate is not None
            assert found.first_gate.verdict is Verdict.BLOCKED


# -- the whole matrix ---------------------------------------------------------------------------------


def test_every_line_of_evidence_is_in_its_wheel(matrix: Matrix, pair: Environment) -> None:
    assert len(matrix) > 350
    assert sum(len(trace.row.evidence) for trace in matrix.values()) > 300
    for trace in matrix.values():
        checked(trace.row, pair)


def test_every_row_explains_itself(matrix: Matrix) -> None:
    for key, trace in matrix.items():
        found = trace.row
        if found.verdict is Verdict.BLOCKED:
            assert found.because, key
            assert found.evidence, key
            assert trace.hops, key
        elif found.verdict is Verdict.REROUTED:
            assert found.runs_instead, key
            assert found.evidence, key
        elif found.verdict is Verdict.NO_STATIC_OBSTACLE:
            assert found.evidence, key
            assert found.because is None, key
        else:
            assert trace.notes, key
        assert found.observed is None
        assert trace.scenario, key


def test_what_is_known_to_pass_is_never_refused(matrix: Matrix) -> None:
    """Read by hand in both wheels, line by line: no gate on the way refuses these."""
    hand_read = table("static_yes_0.5.9.csv")
    assert len(hand_read) > 70
    wrong = [cell for cell in hand_read if matrix[cell].row.verdict is Verdict.BLOCKED]
    assert wrong == []


def test_most_of_what_is_known_to_be_refused_is_found(matrix: Matrix) -> None:
    hand_read = table("static_no_0.5.9.csv")
    assert len(hand_read) > 40
    found = [cell for cell in hand_read if matrix[cell].row.verdict in {Verdict.BLOCKED, Verdict.REROUTED}]
    assert len(found) >= 0.8 * len(hand_read), sorted(set(hand_read) - set(found))


def test_the_rules_for_a_models_class_that_were_read_by_hand_are_found(
    context: Context, pair: Environment
) -> None:
    with (DATA / "model_rules.csv").open(encoding="utf-8", newline="") as file:
        lines = [
            one for one in csv.DictReader(file) if PAIR[0] == f"{one['engine']}=={one['engine_version']}"
        ]
    asked = [
        TraceInput(
            environment=pair.path,
            component=READ_AS.get(line["component"], line["component"]),
            backend=line["backend"],
            arch=line["arch"],
            model_classes=(line["model"],),
            quantisation="nvfp4",
        )
        for line in lines
    ]
    closed = {Verdict.BLOCKED, Verdict.NOT_APPLICABLE}
    traces = traced(context, asked)
    for line, trace in zip(lines, traces, strict=True):
        said = "unknown" if trace.row.verdict is Verdict.UNKNOWN else "yes"
        said = "no" if trace.row.verdict in closed else said
        assert said == line["verdict"], line
        if trace.row.because is Because.MODEL and trace.row.verdict is Verdict.BLOCKED:
            assert any(one.file == line["evidence_file"] for one in trace.row.evidence), line
            assert trace.scenario["model_class"] == line["model"]
        checked(trace.row, pair)
    taken = {(line["model"], line["arch"]): trace.left for line, trace in zip(lines, traces, strict=True)}
    assert taken["Qwen3_5MoeForConditionalGeneration", "sm120"] == "flashinfer", "which is refused for it"
    assert taken["GptOssForCausalLM", "sm120"] == "triton"


# -- other versions -----------------------------------------------------------------------------------


@pytest.mark.parametrize("which", OTHER_PAIRS)
def test_another_pair_gives_its_rows(context: Context, wheels: Wheels, which: str) -> None:
    environment = wheels(*OTHER_PAIRS[which])
    asked = cells(environment, ["sm120"], only=("fp4_gemm", "moe_runner"))
    assert {cell.component for cell in asked} == {"fp4_gemm", "moe_runner"}
    assert len(asked) > 15
    traces = traced(context, asked)
    assert [(t.row.component, t.row.backend, t.row.arch) for t in traces] == [
        (cell.component, cell.backend, cell.arch) for cell in asked
    ]
    for trace in traces:
        text = trace.row.model_dump_json()
        assert Row.model_validate_json(text).model_dump_json() == text
        checked(trace.row, environment)
        if trace.row.verdict is Verdict.UNKNOWN:
            assert trace.notes
