"""Which findings stand: rungs, contradictions, and what came from elsewhere."""

from __future__ import annotations

import itertools
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from known import finding, rows

from memory.canonical import finding_id
from memory.clock import FixedClock
from memory.home import Home
from memory.store import Store
from memory.views import Views
from memory.vocabulary import Because, Effect, EventEvidence, Finding, Level, Outcome, Report, Scope, Verdict
from transcripts.catch_up import catch_up, rebuild
from transcripts.events import IMPORT, Called, Found, Opened, Returned
from transcripts.log import Log

CITED = EventEvidence(transcript="t", head="0" * 64, event=2, excerpt="said nan", sha256="1" * 64)


def ran(level: Level, outcome: Outcome, number: int = 2, **changes: Any) -> Finding:
    """A finding of something that ran, each with evidence of its own."""
    event = CITED.model_copy(update={"event": number})
    return finding(
        level=level, outcome=outcome, verdict=None, because=None, source_evidence=(), event_evidence=(event,),
        **changes,
    )  # fmt: skip


def reported(outcome: Outcome, url: str) -> Finding:
    return ran(Level.REPORT, outcome, report=Report(url=url, date="2026-01-01", by="reporter"))


READ = finding()
OTHERWISE = finding(verdict=Verdict.NO_STATIC_OBSTACLE, because=None)
PROBED = {outcome: ran(Level.PROBE, outcome) for outcome in Outcome}
SERVED = {outcome: ran(Level.SERVER, outcome) for outcome in Outcome}


def statuses(home: Home, *given: Finding | tuple[Finding, str]) -> list[str]:
    """The status of each, recorded day by day; some by another driver."""
    for day, one in enumerate(given, start=1):
        item, driver = one if isinstance(one, tuple) else (one, "planner")
        opened = Opened(investigation=f"t{day}", program="p", driver=driver, question="q", seed=0)
        clock = FixedClock(f"2026-01-{day:02}T00:00:00.000Z")
        with Log.create(home.transcripts / f"t{day}.jsonl", opened, clock) as log:
            log.append(Found(finding=item))
    with Store(home) as store:
        assert catch_up(store, home.transcripts) == []
    by_id = {row["id"]: row["status"] for row in Views(home).findings(statuses=())}
    return [by_id[(one[0] if isinstance(one, tuple) else one).id] for one in given]


C, S, X = "current", "superseded", "contradicted"
HERE = "planner"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        # One rung: both are contradicted until something decides.
        ([READ, OTHERWISE], [X, X]),
        ([PROBED[Outcome.OK], ran(Level.PROBE, Outcome.NAN, 3)], [X, X]),
        ([READ, finding(because=Because.DEPENDENCY)], [X, X]),
        # Reading again decides; so does running again, but no success undoes a failure.
        ([READ, OTHERWISE, READ], [C, X, C]),
        ([READ, READ, OTHERWISE], [X, X, X]),
        ([PROBED[Outcome.OK], PROBED[Outcome.NAN], ran(Level.PROBE, Outcome.NAN, 3)], [X, S, C]),
        ([PROBED[Outcome.NAN], PROBED[Outcome.OK], ran(Level.PROBE, Outcome.OK, 3)], [X, S, X]),
        # A higher rung outranks a lower one that it disagrees with, whichever came first.
        ([READ, PROBED[Outcome.OK]], [S, C]),
        ([PROBED[Outcome.OK], READ], [C, S]),
        ([READ, PROBED[Outcome.CRASHED]], [C, C]),
        ([OTHERWISE, PROBED[Outcome.CRASHED]], [C, C]),
        ([PROBED[Outcome.OK], SERVED[Outcome.NAN]], [S, C]),
        ([SERVED[Outcome.OK], PROBED[Outcome.HUNG], READ], [C, S, S]),
        # What decided nothing outranks nothing.
        ([READ, PROBED[Outcome.NOT_RUN], SERVED[Outcome.ENVIRONMENT_SUSPECT]], [C, C, C]),
        # A higher rung says who stands of those that contradict each other.
        ([PROBED[Outcome.OK], PROBED[Outcome.NAN], SERVED[Outcome.NAN]], [S, C, C]),
        ([PROBED[Outcome.OK], PROBED[Outcome.NAN], SERVED[Outcome.OK]], [C, S, C]),
        ([READ, finding(because=Because.DEPENDENCY), PROBED[Outcome.CRASHED]], [X, X, C]),
        # A report outranks nothing, and two people do not stand in for each other.
        ([PROBED[Outcome.OK], reported(Outcome.NAN, "u:1")], [C, S]),
        ([READ, reported(Outcome.OK, "u:1")], [C, S]),
        ([reported(Outcome.NAN, "u:1"), reported(Outcome.NAN, "u:2")], [C, C]),
        ([reported(Outcome.NAN, "u:1"), reported(Outcome.OK, "u:2")], [X, X]),
        # What came from another machine never outranks what ran here, however high its rung.
        ([PROBED[Outcome.OK], (SERVED[Outcome.NAN], IMPORT)], [C, S]),
        ([(SERVED[Outcome.NAN], IMPORT), PROBED[Outcome.OK]], [S, C]),
        ([READ, (OTHERWISE, IMPORT)], [C, C]),
        ([(PROBED[Outcome.NAN], IMPORT), (ran(Level.PROBE, Outcome.OK, 3), IMPORT)], [X, X]),
        ([(READ, IMPORT), READ], [C, C]),
    ],
)  # fmt: skip
def test_which_findings_stand(home: Home, given: list[Any], expected: list[str]) -> None:
    assert statuses(home, *given) == expected


def test_another_scope_is_another_subject(home: Home) -> None:
    eight = ran(Level.PROBE, Outcome.NAN, 3, scope=Scope(gpu_count=8))
    assert statuses(home, PROBED[Outcome.OK], eight) == [C, C]


def test_what_replaced_a_finding_is_said(home: Home) -> None:
    statuses(home, READ, PROBED[Outcome.OK])
    (old,) = Views(home).findings(statuses=[S])
    assert (old["id"], old["replaced_by"]) == (READ.id, PROBED[Outcome.OK].id)


def test_what_was_found_here_too_is_ours(home: Home) -> None:
    statuses(home, (READ, IMPORT), OTHERWISE, (OTHERWISE, IMPORT))
    assert {row["id"]: row["origin"] for row in Views(home).findings(statuses=())} == {
        READ.id: "imported", OTHERWISE.id: "own",
    }  # fmt: skip


def test_how_findings_stand_does_not_depend_on_the_order_of_folding(tmp_path: Path) -> None:
    given = [READ, OTHERWISE, PROBED[Outcome.NAN], PROBED[Outcome.OK], READ, SERVED[Outcome.OK]]
    contents = []
    for number, order in enumerate(itertools.islice(itertools.permutations(range(6)), 0, 720, 97)):
        home = Home(tmp_path / str(number)).prepare()
        with Store(home) as store:
            for day in order:
                opened = Opened(investigation=f"t{day}", program="p", driver=IMPORT if day % 3 == 0 else HERE,
                                question="q", seed=0)  # fmt: skip
                clock = FixedClock(f"2026-01-{day + 1:02}T00:00:00.000Z")
                with Log.create(home.transcripts / f"t{day}.jsonl", opened, clock) as log:
                    log.append(Found(finding=given[day]))
                assert catch_up(store, home.transcripts) == []
            before = rows(home)
            assert rebuild(store, home.transcripts) == []
        contents += [before, rows(home)]
    assert all(content == contents[0] for content in contents)


def test_a_claim_without_scope_and_report_is_what_it_was() -> None:
    document = READ.claim.model_dump(mode="json")
    assert not {"scope", "report"} & document.keys()
    assert finding_id(document) == READ.id
    assert finding_id(finding(scope=Scope(gpu="x")).claim.model_dump(mode="json")) != READ.id


def test_what_was_run_or_read_to_find_out_is_an_experiment(home: Home) -> None:
    opened = Opened(investigation="t1", program="p", driver="d", question="q", seed=0)
    row = {"verdict": "blocked"}
    run = {"level": "probe", "outcome": "nan", "gpu_seconds": 1.5, "fingerprint": "f" * 64, "seconds": "long"}
    with Log.create(home.transcripts / "t1.jsonl", opened, FixedClock(step_ms=500)) as log:
        for call, tool, effect, rung, output in (
            ("c1", "trace_viability", Effect.READS, "static", {"row": row, "seconds": 0.25}),
            ("c2", "read_source", Effect.READS, None, {}),
            ("c3", "probe", Effect.USES_GPU, None, run),
            ("c4", "probe", Effect.USES_GPU, "probe", "cut …"),
        ):
            log.append(Called(call=call, tool=tool, effect=effect, input={"environment": "e"}, rung=rung))
            log.append(Returned(call=call, status="ok", output=output))
        log.append(Called(call="c5", tool="probe", effect=Effect.USES_GPU, input={}))
    with Store(home) as store:
        assert catch_up(store, home.transcripts) == []
    with closing(sqlite3.connect(home.findings_db)) as connection:
        columns = 'SELECT "call", level, verdict, outcome, status, seconds, gpu_seconds, event'
        seen = connection.execute(f"{columns} FROM v_experiments ORDER BY 1").fetchall()
    assert seen == [
        ("c1", "static", "blocked", None, "ok", 0.25, None, 2),
        ("c3", "probe", None, "nan", "ok", 0.5, 1.5, 6),
        ("c4", None, None, None, "ok", 0.5, None, 8),
        ("c5", None, None, None, None, None, None, None),
    ]


def test_the_gpu_and_the_driver_make_no_other_subject(home: Home) -> None:
    """What was read knows of neither; a driver that makes a difference shows as a contradiction."""
    machine = ran(Level.PROBE, Outcome.OK, scope=Scope(gpu="G", driver="1", gpu_count=1))
    other = ran(Level.PROBE, Outcome.NAN, 3, scope=Scope(gpu="G", driver="2"))
    assert statuses(home, READ, machine) == [S, C]
    assert statuses(Home(home.root / "other").prepare(), machine, other) == [X, X]
