"""The recorded investigations that are shipped: real ones, intact, and decided the same again today.

Where the planner decides otherwise than it did, that is seen here first; if it is meant, record them anew
with ``python -P tests/record.py``.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from record import BY_MODEL, RECORDED, SESSIONS

from agent.cli.main import run
from agent.replay import replay
from memory.artifacts import Artifacts
from memory.home import Home
from memory.store import Store
from memory.views import Views
from memory.vocabulary import Answer, Verdict
from transcripts.catch_up import catch_up
from transcripts.check import check
from transcripts.events import Concluded, HypothesisChanged
from transcripts.log import read, tail
from transcripts.redaction.secrets import redacted

ARTIFACTS = Artifacts(RECORDED / "artifacts")


def answer_of(name: str) -> Answer:
    (last,) = tail(RECORDED / f"{name}.jsonl")
    assert isinstance(last.data, Concluded)
    assert last.data.answer is not None
    return last.data.answer


def test_what_is_recorded_is_what_the_list_says() -> None:
    assert {path.stem for path in RECORDED.glob("*.jsonl")} == set(SESSIONS)
    named = {
        json.loads(line)["data"].get("artifact")
        for path in RECORDED.glob("*.jsonl")
        for line in path.read_bytes().splitlines()
    } - {None}
    kept = {path.parent.name + path.name for path in (RECORDED / "artifacts").rglob("*") if path.is_file()}
    assert kept == named


@pytest.mark.parametrize("name", SESSIONS)
def test_a_recorded_investigation_is_intact_and_holds_no_secret(name: str) -> None:
    path = RECORDED / f"{name}.jsonl"
    assert check(path, ARTIFACTS.get) == []
    for event in read(path):
        document = event.data.model_dump(mode="json")
        assert redacted(document) == document


@pytest.mark.parametrize("name", SESSIONS)
def test_it_is_decided_the_same_again(name: str) -> None:
    replayed = replay(read(RECORDED / f"{name}.jsonl"), lambda sha256: json.loads(ARTIFACTS.get(sha256)))
    assert replayed.difference is None, "\n".join(replayed.difference.diff())
    assert replayed.board.concluded is not None
    assert replayed.events > 150


@pytest.mark.parametrize("name", SESSIONS)
def test_its_findings_are_made_of_it_alone(name: str, home: Home) -> None:
    shutil.copyfile(RECORDED / f"{name}.jsonl", home.transcripts / f"{name}.jsonl")
    with Store(home) as store:
        assert catch_up(store, home.transcripts) == []
    recorded = {
        event.data.finding.id for event in read(RECORDED / f"{name}.jsonl") if event.data.kind == "found"
    }
    assert {row["id"] for row in Views(home).findings(statuses=())} == recorded
    assert len(recorded) > 10
    assert run(["findings", "rebuild"]) == 0
    assert {row["id"] for row in Views(home).findings(statuses=())} == recorded


def test_the_seed_is_answered_as_the_source_says() -> None:
    answer = answer_of("seed-sm120")
    rows = {(row.component, row.backend): row for row in answer.backends}
    for component in ("fp4_gemm", "moe_runner"):
        refused = rows[component, "flashinfer_trtllm"]
        assert refused.verdict is Verdict.BLOCKED
        assert refused.first_gate is not None
        assert refused.first_gate.verdict is Verdict.NO_STATIC_OBSTACLE
        assert rows[component, "flashinfer_cutlass"].verdict is Verdict.NO_STATIC_OBSTACLE
    assert answer_of("newest-sm90").target.arch == "sm90"


@pytest.mark.parametrize("name", SESSIONS)
def test_the_program_reads_it_where_it_lies(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(RECORDED / f"{name}.jsonl")
    for command in (
        ["replay", path],
        ["replay", path, "--verify"],
        ["report", path],
        ["transcripts", "show", path],
    ):
        assert run(command) == 0
    assert Path(path).stem in capsys.readouterr().out


@pytest.mark.parametrize("path", sorted(BY_MODEL.glob("*.jsonl")), ids=lambda path: path.stem)
def test_what_a_model_decided_is_decided_on_its_answers_again(path: Path) -> None:
    """Intact, without a secret, the same again; cells that reading by rule left open are decided with
    lines."""
    kept = Artifacts(BY_MODEL / "artifacts")
    assert check(path, kept.get) == []
    for event in read(path):
        document = event.data.model_dump(mode="json")
        assert redacted(document) == document
    replayed = replay(read(path), lambda sha256: json.loads(kept.get(sha256)))
    assert replayed.difference is None, "\n".join(replayed.difference.diff())
    (last,) = tail(path)
    assert isinstance(last.data, Concluded)
    assert last.data.exit_reason == "answered"
    assert last.data.answer is not None
    before = {
        (event.data.component, event.data.backend): event.data.row.verdict
        for event in read(path)
        if isinstance(event.data, HypothesisChanged) and event.data.row and len(event.data.causes) == 1
    }
    rows = {(row.component, row.backend): row for row in last.data.answer.backends}
    decided = [
        cell
        for cell, verdict in before.items()
        if verdict is Verdict.UNKNOWN and rows[cell].verdict is not Verdict.UNKNOWN and rows[cell].evidence
    ]
    assert len(decided) >= 6
    # What the analyser refuses stays refused.
    assert all(
        rows[cell].verdict is Verdict.BLOCKED for cell, old in before.items() if old is Verdict.BLOCKED
    )
