"""``record_finding`` refuses what its evidence does not carry; ``search_findings`` gives what was kept."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from memory.clock import FixedClock
from memory.home import Home
from memory.store import Store
from memory.vocabulary import (
    Claim,
    Effect,
    EventEvidence,
    Finding,
    FindingStatus,
    Level,
    Measurement,
    Outcome,
    Verdict,
)
from tools.base import ToolError
from tools.findings.record import RecordFinding, record_finding
from tools.findings.search import SearchFindings, search_findings
from tools.registry import registry
from tools.source.tree import SourceTree
from transcripts.events import Called, Found, Opened, Returned
from transcripts.fold import catch_up
from transcripts.log import Log

GATE = "def gate(major):\n    # only these\n    return major in (10,)\n"
RESULT = {"throughput": {"tokens/s": [812.5, 3]}, "log": 'said "no kernel"\nand left', "hot": True}


@dataclass
class Context:
    home: Home

    def progress(self, text: str) -> None:
        raise AssertionError(f"unexpected progress: {text}")


@pytest.fixture
def context(home: Home) -> Context:
    return Context(home)


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """An unpacked environment of two packages."""
    root = tmp_path / "site-packages"
    for name, version, files in (
        ("kernel-lib", "1.2", {"kernel_lib/gate.py": GATE, "kernel_lib/other.py": GATE}),
        ("engine", "3.0", {"engine/__init__.py": "x = 1\n"}),
    ):
        info = root / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        for file, text in files.items():
            (root / file).parent.mkdir(exist_ok=True)
            (root / file).write_text(text)
        record = [*files, f"{info.name}/METADATA", f"{info.name}/RECORD"]
        (info / "RECORD").write_text("".join(f"{file},,\n" for file in record))
    return root


@pytest.fixture
def claim(site: Path) -> Claim:
    tree = SourceTree(site)
    return Claim(
        component="fp4_gemm", backend="alpha", arch="sm120", engine="engine",
        packages={"engine": "3.0", "kernel_lib": "1.2"}, level=Level.STATIC, verdict=Verdict.BLOCKED,
        source_evidence=(
            tree.evidence("engine/__init__.py", 1, idiom="option"),
            tree.evidence("kernel_lib/gate.py", 1, 3, idiom="compare"),
        ),
    )  # fmt: skip


@pytest.fixture
def head(home: Home) -> str:
    """Transcript ``t1`` with a call (event 1) and its result (event 2); its head."""
    opened = Opened(investigation="t1", program="p", driver="d", question="q", seed=0)
    with Log.create(home.transcripts / "t1.jsonl", opened, FixedClock()) as log:
        log.append(Called(call="c1", tool="probe", effect=Effect.USES_GPU, input={}))
        log.append(Returned(call="c1", status="ok", output=RESULT))
        return log.head


def cite(head: str, excerpt: str = "no kernel", event: int = 2, **changes: Any) -> EventEvidence:
    return EventEvidence(
        transcript="t1", head=head, event=event, excerpt=excerpt,
        sha256=hashlib.sha256(excerpt.encode()).hexdigest(),
    ).model_copy(update=changes)  # fmt: skip


def probe(claim: Claim, head: str, **changes: Any) -> Claim:
    fields = {
        "level": Level.PROBE, "verdict": None, "outcome": Outcome.OK, "source_evidence": (),
        "event_evidence": (cite(head),),
        "measurements": (
            Measurement(metric="throughput", value=812.5, unit="tok/s", event=2,
                        json_pointer="/output/throughput/tokens~1s/0"),
        ),
    }  # fmt: skip
    return claim.model_copy(update=fields | changes)


def record(context: Context, claim: Claim, site: Path | str, transcript: str = "t1") -> Finding:
    found = record_finding.run(
        RecordFinding(environment=str(site), transcript=transcript, event=9, claim=claim), context
    )
    assert isinstance(found, Finding)
    return found


def refusal(context: Context, claim: Claim, site: Path | str, transcript: str = "t1") -> str:
    with pytest.raises(ToolError) as caught:
        record(context, claim, site, transcript)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_the_tools_are_found() -> None:
    found = registry()
    assert found["record_finding"] is record_finding
    assert found["search_findings"] is search_findings
    for tool in (record_finding, search_findings):
        assert tool.effect is Effect.READS
        assert json.dumps(tool.schema())


def test_a_claim_whose_lines_are_there_becomes_a_finding(context: Context, claim: Claim, site: Path) -> None:
    found = record(context, claim, site)
    assert (found.claim, found.transcript, found.event) == (claim, "t1", 9)
    assert found.status is FindingStatus.CURRENT
    assert len(found.id) == 16
    assert record(context, claim, site, "t2").id == found.id
    assert record(context, claim.model_copy(update={"arch": "sm121"}), site).id != found.id


def test_what_ran_becomes_a_finding(context: Context, claim: Claim, head: str) -> None:
    assert record(context, probe(claim, head), "").claim.outcome is Outcome.OK
    escaped = cite(head, 'said "no kernel"\nand left')
    assert record(context, probe(claim, head, event_evidence=(escaped,)), "")


SOURCE_LIES: dict[str, tuple[dict[str, Any], str]] = {
    "hash": ({"sha256": "0" * 64}, "hash to"),
    "line": ({"line": 2}, "hash to"),
    "beyond": ({"line": 90, "end_line": 91}, "has 4 lines"),
    "file": ({"file": "kernel_lib/none.py"}, "no 'kernel_lib/none.py'"),
    "outside": ({"file": "../../../etc/passwd"}, "outside"),
    "version": ({"version": "1.3"}, "belongs to kernel-lib 1.2"),
    "owner": ({"package": "engine", "version": "3.0"}, "belongs to kernel-lib 1.2"),
    "foreign package": ({"package": "elsewhere"}, "none of the claim's packages"),
    "text": ({"text": "return True"}, "not what stands"),
}


@pytest.mark.parametrize(("change", "says"), list(SOURCE_LIES.values()), ids=list(SOURCE_LIES))
def test_source_evidence_that_does_not_hold_is_refused(
    context: Context, claim: Claim, site: Path, change: dict[str, Any], says: str
) -> None:
    first, second = claim.source_evidence
    lying = claim.model_copy(update={"source_evidence": (first, second.model_copy(update=change))})
    assert says in refusal(context, lying, site)


def test_lines_that_changed_are_refused(context: Context, claim: Claim, site: Path) -> None:
    (site / "kernel_lib/gate.py").write_text(GATE.replace("10", "10, 12"))
    assert "kernel_lib/gate.py:1-3" in refusal(context, claim, site)


def test_the_same_lines_elsewhere_are_other_evidence(context: Context, claim: Claim, site: Path) -> None:
    other = SourceTree(site).evidence("kernel_lib/other.py", 1, 3, idiom="compare")
    assert (
        record(context, claim.model_copy(update={"source_evidence": (other,)}), site).id
        != record(context, claim, site).id
    )


def test_the_claim_is_about_the_versions_that_were_read(context: Context, claim: Claim, site: Path) -> None:
    newer = claim.model_copy(update={"packages": {"engine": "3.1", "kernel-lib": "1.2"}})
    assert "holds 3.0" in refusal(context, newer, site)
    more = claim.model_copy(update={"packages": {**claim.packages, "torch": "2.9"}})
    assert "does not hold" in refusal(context, more, site)
    fewer = claim.model_copy(update={"packages": {"engine": "3.0"}})
    assert "none of the claim's packages" in refusal(context, fewer, site)


def test_an_unknown_environment_is_refused(context: Context, claim: Claim) -> None:
    assert "nowhere" in refusal(context, claim, "nowhere")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"source_evidence": ()}, "without evidence"),
        ({"verdict": None}, "says nothing"),
        ({"outcome": Outcome.OK}, "nothing ran"),
        ({"level": Level.PROBE}, "needs an outcome"),
        ({"level": Level.PROBE, "outcome": Outcome.OK}, "must cite the event"),
    ],
)
def test_a_claim_needs_what_its_level_needs(
    context: Context, claim: Claim, site: Path, change: dict[str, Any], says: str
) -> None:
    assert says in refusal(context, claim.model_copy(update=change), site)


def test_static_claims_need_source_and_measure_nothing(context: Context, claim: Claim, head: str) -> None:
    static = probe(claim, head, level=Level.STATIC, verdict=Verdict.BLOCKED, outcome=None)
    assert "must cite source lines" in refusal(context, static, "")
    report = probe(claim, head, level=Level.REPORT)
    assert "measures nothing" in refusal(context, report, "")


def test_a_report_may_rest_on_an_event(context: Context, claim: Claim, head: str) -> None:
    assert record(context, probe(claim, head, level=Level.REPORT, measurements=()), "")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"excerpt": "never said"}, "does not contain"),
        ({"sha256": "0" * 64}, "hashes to"),
        ({"event": 1}, "does not contain"),
        ({"event": 7}, "no event 7"),
        ({"transcript": "t9"}, "no transcript"),
        ({"transcript": "../t1"}, "no transcript's id"),
        ({"transcript": "/etc/passwd"}, "no transcript's id"),
        ({"head": "1" * 64}, "none of its events"),
    ],
)
def test_event_evidence_that_does_not_hold_is_refused(
    context: Context, claim: Claim, head: str, change: dict[str, Any], says: str
) -> None:
    lying = probe(claim, head, event_evidence=(cite(**{"head": head, **change}),))
    assert says in refusal(context, lying, "")


def test_an_empty_excerpt_cites_nothing(context: Context, claim: Claim, head: str) -> None:
    assert "is empty" in refusal(context, probe(claim, head, event_evidence=(cite(head, ""),)), "")


def test_an_announcement_is_no_result(context: Context, claim: Claim, head: str) -> None:
    announced = cite(head, '"tool":"probe"', event=1)
    assert "`returned`" in refusal(context, probe(claim, head, event_evidence=(announced,)), "")


def test_a_changed_result_carries_nothing(context: Context, claim: Claim, head: str, home: Home) -> None:
    path = home.transcripts / "t1.jsonl"
    path.write_bytes(path.read_bytes().replace(b"812.5", b"912.5"))
    faster = probe(claim, head)
    assert "damaged" in refusal(context, faster, "")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"value": 812.6}, "is 812.5; the claim says 812.6"),
        ({"json_pointer": "/output/throughput/tokens~1s/1"}, "is 3; the claim says 812.5"),
        ({"json_pointer": "/output/throughput/tokens~1s/2"}, "there is no '2'"),
        ({"json_pointer": "/output/none"}, "there is no 'none'"),
        ({"json_pointer": "/output/hot", "value": 1.0}, "not a number"),
        ({"json_pointer": "/output/log"}, "not a number"),
        ({"json_pointer": "output"}, "starts with a slash"),
        ({"json_pointer": ""}, "not a number"),
        ({"event": 1}, "there is no 'output'"),
        ({"event": 44}, "no event 44"),
    ],
)
def test_a_measurement_must_stand_in_the_result(
    context: Context, claim: Claim, head: str, change: dict[str, Any], says: str
) -> None:
    (measurement,) = probe(claim, head).measurements
    lying = probe(claim, head, measurements=(measurement.model_copy(update=change),))
    assert says in refusal(context, lying, "")


def test_what_was_recorded_is_found_newest_first(
    context: Context, claim: Claim, site: Path, home: Home
) -> None:
    names = []
    for day, backend in enumerate(("alpha", "beta", "gamma"), start=1):
        found = record(context, claim.model_copy(update={"backend": backend}), site)
        opened = Opened(investigation=f"i{day}", program="p", driver="d", question="q", seed=0)
        clock = FixedClock(f"2026-01-0{day}T00:00:00.000Z")
        with Log.create(home.transcripts / f"i{day}.jsonl", opened, clock) as log:
            log.append(Found(finding=found))
        names.append(found.id)
    with Store(home) as store:
        assert catch_up(store, home.transcripts) == []

    def search(**filters: Any) -> list[str]:
        return [item.id for item in search_findings.run(SearchFindings(**filters), context).findings]

    assert search() == names[::-1]
    assert search(backend="beta", component="fp4_gemm", arch="sm120", engine="engine") == [names[1]]
    assert search(text="gamma") == [names[2]]
    assert search(packages={"Kernel-Lib": "1.2"}) == names[::-1]
    assert search(packages={"kernel-lib": "9"}) == []
    result = search_findings.run(SearchFindings(limit=2), context)
    assert [item.id for item in result.findings] == names[:0:-1]
    assert result.more
    assert result.sentences[names[1]].startswith(
        "fp4_gemm beta on sm120 (engine 3.0, kernel_lib 1.2): blocked"
    )
    # The event that recorded it, not the one it was meant for.
    assert {(item.transcript, item.event) for item in result.findings} == {("i3", 1), ("i2", 1)}
    assert result.findings[0].claim == claim.model_copy(update={"backend": "gamma"})


def test_searching_an_empty_home_finds_nothing(context: Context) -> None:
    assert search_findings.run(SearchFindings(text="x"), context).findings == ()


def test_searching_a_damaged_database_says_so(context: Context, home: Home) -> None:
    home.findings_db.write_bytes(b"no database" * 500)
    with pytest.raises(ToolError, match="damaged"):
        search_findings.run(SearchFindings(), context)
