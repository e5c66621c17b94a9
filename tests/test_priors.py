"""What is known elsewhere orders what is tried; and predictions are counted against what came."""

from __future__ import annotations

import json
from typing import Any

import pytest
from known import CLAIM, EVIDENCE, finding
from test_findings_share import agent as agent
from test_trust import OTHERWISE, PROBED, ran, reported, statuses

from agent.board import fold
from agent.calibration import groups
from agent.disputes import disputed
from agent.priors import priors
from memory.clock import FixedClock
from memory.home import Home
from memory.vocabulary import Effect, Finding, FindingStatus, Level, Outcome, Row, Scope, Verdict
from transcripts.events import Called, Opened, Returned
from transcripts.log import Log, read

HERE = dict(CLAIM.packages)
SUBJECT = (CLAIM.component, CLAIM.backend, CLAIM.arch)


def weight(*known: Finding, **changes: Any) -> float:
    found = priors([changes.pop("subject", SUBJECT)], list(known), changes.pop("packages", HERE), **changes)
    return next(iter(found.values())).weight if found else 0.0


OK, NAN = ran(Level.PROBE, Outcome.OK), ran(Level.PROBE, Outcome.NAN)


def test_a_prior_says_whether_it_went_elsewhere() -> None:
    assert weight(OK) > 0 > weight(NAN)
    assert weight() == weight(ran(Level.PROBE, Outcome.NOT_RUN)) == 0
    assert weight(OK.model_copy(update={"status": FindingStatus.SUPERSEDED})) == 0
    assert (
        weight(OK, subject=("fp4_gemm", *SUBJECT[1:])) == weight(OK, subject=(SUBJECT[0], "b", "sm120")) == 0
    )


def test_it_counts_the_less_the_further_it_is() -> None:
    older = {**HERE, "sglang": "0.5.10"}
    both = {"sglang": "0.5.10", "flashinfer-python": "0.6.7"}
    near = [
        weight(ran(Level.SERVER, Outcome.OK)), weight(OK), weight(OK, packages=older),
        weight(OK, packages=both), weight(reported(Outcome.OK, "u:1"), packages=both),
    ]  # fmt: skip
    assert near == sorted(near, reverse=True)
    archs = [weight(OK, subject=(*SUBJECT[:2], arch)) for arch in ("sm120", "sm121", "sm90")]
    assert archs == sorted(archs, reverse=True)
    assert archs[0] > archs[1] > archs[2] > 0
    other = ran(Level.PROBE, Outcome.OK, scope=Scope(model="llama"))
    assert weight(OK, model="qwen") > weight(other, model="qwen") > 0
    assert weight(other, model="Llama") == weight(OK)


def test_the_same_gate_line_is_a_reason_for_another_backend() -> None:
    row = Row(
        component="moe_runner", backend="beta", arch="sm120", verdict=Verdict.BLOCKED, evidence=(EVIDENCE,)
    )
    subject = ("moe_runner", "beta", "sm120")
    found = priors([subject], [finding()], HERE, rows={("moe_runner", "beta"): row})
    assert found[subject].weight < 0
    assert "the same gate, flashinfer/jit/fused_moe.py:251" in found[subject].because
    assert priors([subject], [finding()], HERE) == {}
    # What they share is the way that leads to different gates, which says nothing.
    way = EVIDENCE.model_copy(update={"file": "way.py", "sha256": "cd" * 32})
    other = row.model_copy(update={"evidence": (EVIDENCE.model_copy(update={"sha256": "ef" * 32}), way)})
    known = [finding(source_evidence=(EVIDENCE, way))]
    assert priors([subject], known, HERE, rows={("moe_runner", "beta"): other}) == {}


def test_the_reason_says_where_it_was_seen() -> None:
    found = priors([(*SUBJECT[:2], "sm121")], [NAN], HERE)
    (prior,) = found.values()
    assert prior.because.startswith("nan with flashinfer-python 0.6.5 sglang 0.5.9 (probe, ")
    assert prior.because.endswith("the same backend on sm120")


def test_predictions_are_counted_against_what_ran(agent: Any, home: Home) -> None:
    fine = finding(backend="b", verdict=Verdict.NO_STATIC_OBSTACLE, because=None)
    way = EVIDENCE.model_copy(update={"idiom": "call", "sha256": "cd" * 32})
    read = finding(source_evidence=(EVIDENCE, way))
    statuses(home, read, PROBED[Outcome.NAN], fine, ran(Level.PROBE, Outcome.NAN, 5, backend="b"),
             ran(Level.SERVER, Outcome.OK, 6, backend="b"), ran(Level.PROBE, Outcome.NOT_RUN, 7))  # fmt: skip
    (probe, server) = json.loads(agent(home, "calibration", "--json"))["groups"]
    assert (probe["idiom"], probe["driver"], probe["level"]) == (EVIDENCE.idiom, "planner", "probe")
    assert (probe["right"], probe["false_no"], probe["false_yes"], probe["open"]) == (1, 0, 1, 0)
    assert (server["level"], server["right"], server["enough"]) == ("server", 1, False)
    assert "fewer than 30: too few to go by" in agent(home, "calibration")


def test_nothing_that_ran_says_so(agent: Any, home: Home) -> None:
    assert agent(home, "calibration") == "Nothing that was read has run yet.\n"


@pytest.mark.parametrize(("count", "enough"), [(29, False), (30, True)])
def test_fewer_than_thirty_are_too_few(count: int, enough: bool) -> None:
    pair = {
        "idiom": "i",
        "driver": "d",
        "level": "probe",
        "verdict": "blocked",
        "outcome": "ok",
        "count": count,
    }
    (group,) = groups([pair])
    assert (group.false_no, group.enough) == (count, enough)


def test_what_contradicts_what_was_known_is_said_with_what_would_decide(home: Home) -> None:
    mine = finding()
    opened = Opened(investigation="t1", program="p", driver="d", question="q", seed=0)
    with Log.create(home.transcripts / "t1.jsonl", opened, FixedClock()) as log:
        log.append(Called(call="c1", tool="record_finding", effect=Effect.READS, input={}))
        log.append(Returned(call="c1", status="ok", output=mine.model_dump(mode="json")))
    board = fold(read(home.transcripts / "t1.jsonl"), lambda name: name)
    (said,) = disputed(board, [mine, OTHERWISE, finding(arch="sm100", verdict=Verdict.UNKNOWN), OK])
    assert said.startswith(
        "moe_runner alpha_kernels on sm120 is blocked here and no_static_obstacle in finding "
        f"{OTHERWISE.id[:12]}: both are contradicted until one of these decides: reading it again: agent"
    )
    old = OTHERWISE.model_copy(update={"status": FindingStatus.SUPERSEDED})
    assert list(disputed(board, [mine, old])) == []
