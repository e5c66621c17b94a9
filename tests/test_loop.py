"""The loop: everything is an event first, every exit is one, the same inputs write the same bytes."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from tiny_engine import FAKE_TRACE, VERDICTS, failing_trace, fake_trace, fake_trace_many, write_engine

from agent.board import Board
from agent.drivers.planner import Planner
from agent.loop import Call, Decision
from agent.policy import PERSON, READING
from agent.session import Setting, start
from memory.artifacts import Artifacts
from memory.clock import FixedClock, Ids
from memory.home import Home
from memory.views import Views
from memory.vocabulary import Effect, HypothesisState, Verdict
from tools.base import Tool, ToolError
from tools.registry import registry
from transcripts.events import Called, Concluded, Event, Found, HypothesisChanged, Noted, Returned, Understood
from transcripts.log import read, verify

QUESTION = "qwen3.5 nvfp4 on sm120"


@pytest.fixture
def engine(tmp_path: Path) -> Path:
    return write_engine(tmp_path / "site-packages")


def tools(**changed: Tool[Any, Any]) -> dict[str, Tool[Any, Any]]:
    return {**registry(), "trace_viability": FAKE_TRACE, **changed}


def investigate(home: Home, engine: Path | None, **given: Any) -> Concluded:
    options = {"environment": str(engine)} if engine else {}
    return start(
        home,
        given.pop("question", QUESTION),
        {**options, **given.pop("options", {})},
        setting=Setting(
            clock=FixedClock(),
            tools=given.pop("tools", tools()),
            batches=given.pop("batches", {"trace_viability": fake_trace_many}),
            policy=given.pop("policy", PERSON),
        ),
        ids=Ids(7),
        **given,
    )


def events(home: Home) -> list[Event]:
    (path,) = home.transcripts.glob("*.jsonl")
    assert verify(path) == []
    return list(read(path))


def bodies(home: Home, kind: type) -> list[Any]:
    return [event.data for event in events(home) if isinstance(event.data, kind)]


def test_an_investigation_answers_from_its_own_events(home: Home, engine: Path) -> None:
    concluded = investigate(home, engine)
    assert (concluded.exit_reason, concluded.exit_code) == ("answered", 0)
    assert concluded.answer is not None
    by_name = {(row.component, row.backend): row.verdict for row in concluded.answer.backends}
    assert by_name == VERDICTS
    found = concluded.answer.recommendation
    assert found is not None
    assert not found.tested
    # The default of fp4_gemm leads to birch; the default of moe_runner is undecided, so the first candidate;
    # attention has no default, so the engine decides.
    assert found.command == (
        "python -m sglang.launch_server --model-path MODEL_PATH --fp4-gemm-backend birch "
        "--moe-runner-backend birch"
    )
    assert any(note.startswith("attention: left to the engine") for note in found.ranked_by)
    assert "attention: elm" in found.alternatives
    assert "attention left to the engine" in concluded.summary
    (understood,) = bodies(home, Understood)
    assert understood.packages == {"sglang": "9.9.0"}
    assert understood.target.model_classes == ("Qwen3_5ForConditionalGeneration",)


def test_the_same_inputs_write_the_same_bytes(tmp_path: Path, engine: Path) -> None:
    written = []
    for name in ("one", "two"):
        home = Home(tmp_path / name).prepare()
        investigate(home, engine)
        (path,) = home.transcripts.glob("*.jsonl")
        written.append((path.name, path.read_bytes()))
    assert written[0] == written[1]


def test_a_call_is_on_disk_before_its_tool_runs(home: Home, engine: Path) -> None:
    missing: list[str] = []

    def look(args: Any, context: Any) -> Any:
        (path,) = home.transcripts.glob("*.jsonl")
        called = [event.data.input for event in read(path) if isinstance(event.data, Called)]
        if not any(given.get("backend") == args.backend for given in called):
            missing.append(args.backend)
        return fake_trace(args, context)

    investigate(
        home, engine, tools=tools(trace_viability=dataclasses.replace(FAKE_TRACE, run=look)), batches={}
    )
    assert len(bodies(home, Called)) > len(VERDICTS)
    assert missing == []


def test_results_stand_in_the_order_of_the_request(home: Home, engine: Path) -> None:
    investigate(home, engine)
    called = [data.call for data in bodies(home, Called)]
    returned = [data.call for data in bodies(home, Returned)]
    assert called == returned == [f"c{number}" for number in range(1, len(called) + 1)]


def test_a_batch_is_announced_whole_and_runs_once(home: Home, engine: Path) -> None:
    sizes: list[int] = []

    def many(context: Any, inputs: Sequence[Any]) -> list[Any]:
        sizes.append(len(inputs))
        return fake_trace_many(context, inputs)

    investigate(home, engine, batches={"trace_viability": many})
    assert sizes == [10]
    kinds = [event.data.kind for event in events(home) if getattr(event.data, "rung", None) == "static"]
    assert kinds == ["called"] * 10


def test_static_verdicts_predict_and_never_confirm(home: Home, engine: Path) -> None:
    investigate(home, engine)
    states: dict[str, list[HypothesisState]] = {}
    rows = {}
    for data in bodies(home, HypothesisChanged):
        states.setdefault(f"{data.component} {data.backend}", []).append(data.state)
        rows[data.component, data.backend] = data.row
    assert states["fp4_gemm cedar"] == [HypothesisState.OPEN, HypothesisState.PREDICTED]
    assert states["moe_runner auto"] == [HypothesisState.OPEN, HypothesisState.INCONCLUSIVE]
    reached = {state for changes in states.values() for state in changes}
    assert not reached & {HypothesisState.CONFIRMED, HypothesisState.REFUTED}
    assert rows["fp4_gemm", "cedar"].state is HypothesisState.PREDICTED


def test_decided_rows_become_findings_with_their_place_in_the_log(home: Home, engine: Path) -> None:
    investigate(home, engine)
    found = [event for event in events(home) if isinstance(event.data, Found)]
    decided = [v for v in VERDICTS.values() if v not in {Verdict.UNKNOWN, Verdict.NOT_APPLICABLE}]
    assert len(found) == len(decided)
    for event in found:
        assert isinstance(event.data, Found)
        assert event.data.finding.event == event.seq
        assert event.data.finding.claim.scenario["quantisation"] == "nvfp4"
    rows = Views(home).findings()
    assert {row["id"] for row in rows} == {event.data.finding.id for event in found}  # type: ignore[union-attr]
    assert {row["transcript"] for row in rows} == {events(home)[0].data.investigation}  # type: ignore[union-attr]


def test_evidence_that_is_not_there_makes_no_finding(home: Home, engine: Path) -> None:
    def lie(args: Any, context: Any) -> Any:
        trace = fake_trace(args, context)
        if not trace.row.evidence:
            return trace
        false = trace.row.evidence[0].model_copy(update={"sha256": "0" * 64})
        return trace.model_copy(update={"row": trace.row.model_copy(update={"evidence": (false,)})})

    concluded = investigate(
        home, engine, tools=tools(trace_viability=dataclasses.replace(FAKE_TRACE, run=lie)), batches={}
    )
    assert bodies(home, Found) == []
    assert Views(home).findings() == []
    assert concluded.exit_code == 0


@pytest.mark.parametrize("batched", [True, False])
def test_one_failing_call_leaves_its_siblings_alone(home: Home, engine: Path, batched: bool) -> None:
    def many(context: Any, inputs: Sequence[Any]) -> list[Any]:
        return [failing_trace(one, context) for one in inputs]

    failing = dataclasses.replace(FAKE_TRACE, run=failing_trace)
    concluded = investigate(
        home,
        engine,
        tools=tools(trace_viability=failing),
        batches={"trace_viability": many} if batched else {},
    )
    assert concluded.answer is not None
    verdicts = {(row.component, row.backend): row.verdict for row in concluded.answer.backends}
    assert verdicts["fp4_gemm", "cedar"] is Verdict.UNKNOWN
    assert verdicts["fp4_gemm", "birch"] is Verdict.UNKNOWN
    assert verdicts["fp4_gemm", "amber"] is Verdict.NO_STATIC_OBSTACLE
    errors = [data.error for data in bodies(home, Returned) if data.status == "error"]
    assert "cannot follow cedar" in errors
    assert all("\n" not in error for error in errors)
    # The bug's traceback is kept, where a developer looks for it.
    assert any(
        "ZeroDivisionError: a bug" in note.text and "Traceback" in note.text for note in bodies(home, Noted)
    )


def test_every_backend_refused_is_a_result_too(home: Home, engine: Path) -> None:
    blocked = dict.fromkeys(VERDICTS, Verdict.BLOCKED)

    def refuse(args: Any, context: Any) -> Any:
        return fake_trace(args, context, blocked)

    concluded = investigate(
        home, engine, tools=tools(trace_viability=dataclasses.replace(FAKE_TRACE, run=refuse)), batches={}
    )
    assert (concluded.exit_reason, concluded.exit_code) == ("none_viable", 1)
    assert concluded.answer is not None
    assert concluded.answer.recommendation is None


@pytest.mark.parametrize(
    ("question", "code"),
    [("qwen3.5 nvfp4 on sm90", 1), ("qwen3.5 on sm90", 0), ("qwen3.5 mxfp4 on sm90", 0)],
)
def test_a_number_type_that_nobody_named_is_no_model_s_end(
    home: Home, engine: Path, question: str, code: int
) -> None:
    no_fp4 = {
        cell: Verdict.BLOCKED if cell[0] == "fp4_gemm" else Verdict.NO_STATIC_OBSTACLE for cell in VERDICTS
    }

    def refuse(args: Any, context: Any) -> Any:
        return fake_trace(args, context, no_fp4)

    concluded = investigate(
        home,
        engine,
        question=question,
        tools=tools(trace_viability=dataclasses.replace(FAKE_TRACE, run=refuse)),
        batches={},
    )
    assert concluded.exit_code == code
    assert concluded.answer is not None
    if code:
        assert concluded.summary == "every backend of fp4_gemm is refused on sm90"
    else:
        assert concluded.answer.recommendation is not None
        assert "fp4-gemm" not in concluded.answer.recommendation.command
        assert "moe-runner-backend" in concluded.answer.recommendation.command


def test_nothing_decided_is_not_an_answer(home: Home, engine: Path) -> None:
    unknown = dict.fromkeys(VERDICTS, Verdict.UNKNOWN)

    def shrug(args: Any, context: Any) -> Any:
        return fake_trace(args, context, unknown)

    concluded = investigate(
        home, engine, tools=tools(trace_viability=dataclasses.replace(FAKE_TRACE, run=shrug)), batches={}
    )
    assert (concluded.exit_reason, concluded.exit_code) == ("stopped", 4)


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (ToolError("no such thing here"), 2, "no such thing here"),
        (ToolError("fetch it first", missing=True), 3, "fetch it first"),
        (ZeroDivisionError("a bug"), 4, "ZeroDivisionError"),
    ],
)
def test_a_trace_that_always_fails_is_no_verdict_of_the_source(
    home: Home, engine: Path, error: Exception, code: int, said: str
) -> None:
    def fail(args: Any, context: Any) -> Any:
        raise error

    concluded = investigate(
        home, engine, tools=tools(trace_viability=dataclasses.replace(FAKE_TRACE, run=fail)), batches={}
    )
    assert (concluded.exit_code, concluded.answer) == (code, None)
    assert said in concluded.summary


@pytest.mark.parametrize(
    ("scenario", "said"),
    [
        ({"zinc": "1"}, "sglang has no option 'zinc' here"),
        ({"attention.zinc": "1"}, "sglang has no option 'zinc' here"),
        ({"atention.model_path": "1"}, "no component 'atention' here; it has attention"),
        ({"attention_backend": "elm", "zinc": "1"}, "no option 'zinc'"),
        (
            {"attention.moe_runner_backend": "elm"},
            "--moe-runner-backend does not accept it here; it accepts auto",
        ),
    ],
)
def test_facts_that_nothing_reads_are_refused(
    home: Home, engine: Path, scenario: dict[str, str], said: str
) -> None:
    concluded = investigate(home, engine, options={"scenario": scenario})
    assert (concluded.exit_reason, concluded.exit_code) == ("failed", 2)
    assert said in concluded.summary
    assert not [data for data in bodies(home, Called) if data.tool == "trace_viability"]


def test_facts_that_the_engine_declares_reach_their_component(home: Home, engine: Path) -> None:
    given = {"quantization": "x", "attention.model_path": "m", "moe_runner_backend": "dune"}
    concluded = investigate(home, engine, options={"scenario": given})
    assert concluded.exit_code == 0
    traced = {
        data.input["component"]: data.input["scenario"]
        for data in bodies(home, Called)
        if data.tool == "trace_viability"
    }
    # A candidate of a scenario is one only under it: the command says it too, as does the answer.
    assert concluded.answer is not None
    assert concluded.answer.recommendation is not None
    assert "--moe-runner-backend" in concluded.answer.recommendation.command
    said = concluded.answer.target.assumed
    assert said[0] == "as given, attention.model_path=m, moe_runner_backend=dune, quantization=x"
    common = {"quantization": "x", "moe_runner_backend": "dune"}
    assert traced["attention"] == {**common, "model_path": "m"}
    assert traced["fp4_gemm"] == traced["moe_runner"] == common


def test_ctrl_c_closes_open_calls_and_concludes(home: Home, engine: Path) -> None:
    def interrupt(context: Any, inputs: Sequence[Any]) -> list[Any]:
        raise KeyboardInterrupt

    concluded = investigate(home, engine, batches={"trace_viability": interrupt})
    assert (concluded.exit_reason, concluded.exit_code) == ("interrupted", 130)
    statuses = [data.status for data in bodies(home, Returned)]
    assert statuses.count("interrupted") == 10
    assert len(bodies(home, Called)) == len(statuses)


class Scripted:
    """A driver that follows a script."""

    name = "scripted"

    def __init__(self, *steps: Callable[[Board], Decision]) -> None:
        self._steps = list(steps)

    def decide(self, board: Board) -> Decision:
        return self._steps.pop(0)(board) if self._steps else Decision()


END = Concluded(exit_reason="answered", exit_code=0, summary="done")


def test_a_driver_that_fails_is_concluded_in_one_line(home: Home) -> None:
    def broken(board: Board) -> Decision:
        raise RuntimeError("two\nlines")

    concluded = investigate(home, None, driver=Scripted(broken))
    assert (concluded.exit_reason, concluded.exit_code) == ("failed", 4)
    assert "\n" not in concluded.summary
    assert any("Traceback" in note.text for note in bodies(home, Noted))


def test_a_driver_that_decides_nothing_does_not_spin(home: Home) -> None:
    concluded = investigate(home, None, driver=Scripted())
    assert concluded.exit_reason == "failed"
    assert "decided nothing" in concluded.summary


class Empty(BaseModel):
    pass


def one_tool(effect: Effect, run: Callable[[Any, Any], Any]) -> Tool[Any, Any]:
    return Tool("poke", "A tool of this test.", Empty, Empty, effect, run)


def test_what_was_not_granted_does_not_run(home: Home) -> None:
    ran: list[Any] = []
    poke = one_tool(Effect.USES_GPU, lambda args, context: ran.append(args) or Empty())
    steps = [
        lambda b: Decision(calls=[Call("poke", {}), Call("nothing", {})]),
        lambda b: Decision(conclude=END),
    ]
    concluded = investigate(home, None, driver=Scripted(*steps), tools={"poke": poke}, policy=READING)
    assert concluded.exit_code == 0
    first, second = bodies(home, Returned)
    assert first.status == "denied"
    assert "uses_gpu" in (first.error or "")
    assert (second.status, second.error) == ("error", "no tool 'nothing'; there are: poke")
    assert ran == []


def test_a_driver_reads_no_folder_that_the_person_did_not_give(
    home: Home, engine: Path, tmp_path: Path
) -> None:
    other = write_engine(tmp_path / "other")
    inputs = [{"environment": str(folder), "engine": "sglang"} for folder in (engine, other)]
    steps = [
        lambda b: Decision(calls=[Call("list_backends", one) for one in inputs]),
        lambda b: Decision(conclude=END),
    ]
    investigate(home, engine, driver=Scripted(*steps))
    first, second = bodies(home, Returned)
    assert (first.status, second.status) == ("ok", "error")
    assert "is not one of the folders that may be read" in (second.error or "")


def test_wrong_input_is_a_result_that_names_the_field(home: Home, engine: Path) -> None:
    steps = [
        lambda b: Decision(calls=[Call("find_model", {"environment": "x"})]),
        lambda b: Decision(conclude=END),
    ]
    investigate(home, engine, driver=Scripted(*steps))
    (returned,) = bodies(home, Returned)
    assert returned.status == "error"
    assert returned.error == "find_model: model: Field required"


def test_large_output_is_cut_and_kept_whole(home: Home) -> None:
    class Large(BaseModel):
        text: str

    big = one_tool(Effect.READS, lambda args, context: Large(text="x" * 1_000_000))
    boards: list[Any] = []
    steps = [
        lambda b: Decision(calls=[Call("poke", {})]),
        lambda b: boards.append(b.output("c1")) or Decision(conclude=END),
    ]
    investigate(home, None, driver=Scripted(*steps), tools={"poke": big})
    (returned,) = bodies(home, Returned)
    assert len(returned.output) < 40_000
    assert returned.artifact is not None
    assert returned.artifact_bytes > 1_000_000
    assert boards == [{"text": "x" * 1_000_000}]


def test_a_missing_prerequisite_ends_with_three(home: Home) -> None:
    def missing(args: Any, context: Any) -> Any:
        raise ToolError("no network; connect it", missing=True)

    create = dataclasses.replace(registry()["create_environment"], run=missing)
    concluded = investigate(home, None, tools=tools(create_environment=create))
    assert (concluded.exit_reason, concluded.exit_code) == ("missing", 3)
    assert concluded.summary == "no network; connect it"


def test_the_planner_goes_on_from_any_event(home: Home, engine: Path) -> None:
    """What it decides depends on the board alone: folded up to any decision, it decides the same again."""
    investigate(home, engine)
    all_events = events(home)
    artifacts = Artifacts(home.artifacts)
    board = Board(lambda sha256: json.loads(artifacts.get(sha256)))
    index, decisions = 0, 0
    board.add(all_events[index])
    while board.concluded is None:
        decision = Planner().decide(board)
        expected = [*decision.changes, *([decision.conclude] if decision.conclude else [])]
        for body in expected:
            index += 1
            assert all_events[index].data == body
            board.add(all_events[index])
        wanted = [(call.tool, call.input) for call in decision.calls]
        made = []
        while len(made) < len(wanted) or board.unanswered:
            index += 1
            data = all_events[index].data
            board.add(all_events[index])
            if isinstance(data, Called):
                made.append((data.tool, data.input))
        while index + 1 < len(all_events) and isinstance(all_events[index + 1].data, Found):
            index += 1
            board.add(all_events[index])
        assert made == wanted
        decisions += 1
    assert decisions > 5
