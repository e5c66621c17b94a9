"""What was read is judged again: the same verdict, another one, or why it cannot be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from investigations import whole
from test_findings_share import agent as agent, fold
from viability_fixtures.support import COMPONENT, Context, Engine

from memory.clock import FixedClock
from memory.home import Home
from memory.views import Views
from memory.vocabulary import Claim, Effect, Level, Verdict
from tools.environment.adopt import adopt
from tools.findings.record import BY_DRIVER, RecordFinding, record_finding
from transcripts.check import check
from transcripts.events import Called, Found, Opened, Returned
from transcripts.log import Log

GATES = "minilib/gemm.py"


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    return Engine.copy(tmp_path)


def record(home: Home, engine: Engine, *backends: str, asked: bool = True, **changes: Any) -> dict[str, str]:
    """What the analyser says of backends, as an investigation keeps it: backend → finding."""
    name = f"t{len(list(home.transcripts.iterdir()))}"
    opened = Opened(investigation=name, program="p", driver="d", question="q", seed=0)
    found = {}
    with Log.create(home.transcripts / f"{name}.jsonl", opened, FixedClock()) as log:
        for number, backend in enumerate(backends):
            asking, trace = engine.asking(backend, "sm120"), engine.trace(backend, "sm120")
            given = asking.model_dump(mode="json")
            if asked:
                log.append(
                    Called(call=f"c{number}", tool="trace_viability", effect=Effect.READS, input=given)
                )
                log.append(Returned(call=f"c{number}", status="ok", output=trace.model_dump(mode="json")))
            row = trace.row
            claim = Claim(
                component=COMPONENT, backend=backend, arch="sm120", engine="sglang",
                packages=adopt(engine.root).packages, scenario=trace.scenario, level=Level.STATIC,
                verdict=row.verdict, because=row.because, runs_instead=row.runs_instead,
                conditions=row.conditions, source_evidence=row.evidence,
            ).model_copy(update=changes)  # fmt: skip
            tool = RecordFinding(
                environment=str(engine.root), transcript=name, event=log.next_seq, claim=claim
            )
            finding = record_finding.run(tool, Context(home))
            log.append(Found(finding=finding))
            found[backend] = finding.id
    fold(home)
    return found


def verified(agent: Any, home: Home, *args: object, code: int = 0) -> dict[str, Any]:
    document = json.loads(agent(home, "verify", *args, "--json", code=code))
    return {one["finding"]: one["again"] for one in document["findings"]}


def test_the_same_packages_and_question_give_the_same_verdict(agent: Any, home: Home, engine: Engine) -> None:
    found = record(home, engine, "birch", "amber")
    again = verified(agent, home, "-e", engine.root)
    assert {name: again[found[name]]["result"] for name in found} == dict.fromkeys(found, "same verdict")
    line = engine.line(GATES, "@supported_compute_capability([100, 103])")
    assert again[found["birch"]]["line"].startswith(f"{GATES}:{line}  @supported_compute_capability")
    said = agent(home, "verify", "-e", engine.root)
    assert (
        f"same verdict  {found['birch'][:12]} weave birch on sm120: blocked because of architecture" in said
    )
    assert "judged again: 2 same verdict" in said
    assert len(list(home.transcripts.glob("*.jsonl"))) == 1, "what was found to be as it was is not written"
    assert set(verified(agent, home, "-e", engine.root, "--lines-only").values()) == {None}


def test_what_is_judged_otherwise_becomes_a_finding_that_contradicts(
    agent: Any, home: Home, engine: Engine
) -> None:
    """Every cited line stands as it was; what changed is beside them. Nothing that is remembered counts."""
    (old,) = record(home, engine, "birch").values()
    cited = [row["file"] for row in Views(home).evidence(old)]
    assert GATES in cited
    text = (engine.root / GATES).read_text()
    (engine.root / GATES).write_text(
        f"{text}\n\ndef mm_small(a, b, backend='a'):\n    return mm_plain(a, b)\n"
    )
    again = verified(agent, home, "-e", engine.root, code=1)[old]
    assert (again["result"], again["was"], again["now"]) == (
        "differs", "blocked because of architecture", "no static obstacle",
    )  # fmt: skip
    views = Views(home)
    new = views.finding(again["kept"])
    assert (new["verdict"], new["level"], new["origin"]) == (Verdict.NO_STATIC_OBSTACLE, "static", "own")
    assert views.finding(old)["verdict"] == Verdict.BLOCKED, "a finding is never edited"
    assert {views.finding(one)["status"] for one in (old, again["kept"])} == {"contradicted"}
    said = agent(home, "verify", old, "-e", engine.root, code=1)
    assert (
        f"differs  {old[:12]} weave birch on sm120: was blocked because of architecture, now no static"
        in said
    )
    views = Views(home)
    assert (views.finding(old)["status"], views.finding(old)["replaced_by"]) == (
        "contradicted",
        again["kept"],
    )
    assert views.finding(again["kept"])["status"] == "current", "read so twice, it stands"
    count = len(list(home.transcripts.glob("*.jsonl")))
    assert verified(agent, home, old, "-e", engine.root, code=1)[old]["kept"] is None
    assert len(list(home.transcripts.glob("*.jsonl"))) == count, "what is decided is not said each time"
    assert json.loads(agent(home, "rebuild", "--json"))["same"]
    for path in home.transcripts.glob("2*.jsonl"):
        assert check(path, whole(home)) == []


def test_what_contradicts_each_other_is_decided_by_reading_it_again(
    agent: Any, home: Home, engine: Engine
) -> None:
    (old,) = record(home, engine, "birch").values()
    (wrong,) = record(home, engine, "birch", verdict=Verdict.NO_STATIC_OBSTACLE, because=None).values()
    assert {Views(home).finding(one)["status"] for one in (old, wrong)} == {"contradicted"}
    agent(home, "verify", "--backend", "birch", "-e", engine.root, code=1)
    assert [Views(home).finding(one)["status"] for one in (old, wrong)] == ["current", "contradicted"]
    assert [row["id"] for row in Views(home).findings(statuses=())].count(old) == 1


def test_what_cannot_be_judged_again_says_why_and_what_to_do(agent: Any, home: Home, engine: Engine) -> None:
    (bare,) = record(home, engine, "cedar", asked=False).values()
    (whole,) = record(home, engine, "birch").values()
    read = adopt(engine.root).tree().evidence(GATES, 1, idiom=BY_DRIVER)
    (led,) = record(home, engine, "amber", source_evidence=(read,)).values()
    again = verified(agent, home, "-e", engine.root)
    assert again[bare]["result"] == again[led]["result"] == "cannot"
    assert (
        "settings it was judged is not on record; judge it anew: agent explain weave"
        in again[bare]["because"]
    )
    assert "a driver read its lines" in again[led]["because"]
    here = verified(agent, home, whole)
    assert here[whole]["result"] == "cannot"
    assert "minilib 2.0.0, sglang 1.0.0: not here together; --fetch brings them" in here[whole]["because"]
    other = [json.dumps(one) for one in (again[bare], again[led])]
    assert all("agent explain" in one for one in other)


def test_a_finding_takes_along_how_it_was_judged(
    agent: Any, home: Home, engine: Engine, tmp_path: Path
) -> None:
    (name,) = record(home, engine, "birch").values()
    export = tmp_path / "export.json"
    agent(home, "export", export, "--all")
    assert str(engine.root) not in export.read_text(), "the path of a folder is nobody else's business"
    theirs = Home(tmp_path / "theirs").prepare()
    agent(theirs, "import", export, "-e", engine.root)
    assert verified(agent, theirs, "-e", engine.root)[name]["result"] == "same verdict"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"backend": "amber"}, "is of another backend"),
        ({"tp": "many"}, "is no question (1 fields are wrong)"),
        ({"quantisation": "fp8"}, "it would be judged under quantisation=fp8 (was nvfp4)"),
        ({"arch": "sm90"}, "is of another backend"),
    ],
)
def test_another_question_that_came_along_judges_nothing(
    agent: Any, home: Home, engine: Engine, tmp_path: Path, change: dict[str, Any], says: str
) -> None:
    (name,) = record(home, engine, "birch").values()
    export = tmp_path / "export.json"
    agent(home, "export", export, "--all")
    document = json.loads(export.read_text())
    document["findings"][0]["capsule"]["judged"] |= change
    export.write_text(json.dumps(document))
    theirs = Home(tmp_path / "theirs").prepare()
    agent(theirs, "import", export, "-e", engine.root)
    again = verified(agent, theirs, "-e", engine.root)[name]
    assert again["result"] == "cannot"
    assert says in again["because"]
