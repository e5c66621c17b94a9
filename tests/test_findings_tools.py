"""``record_finding`` refuses what its evidence does not carry; ``search_findings`` gives what was kept."""

from __future__ import annotations

import hashlib
import json
import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from memory.artifacts import Artifacts
from memory.clock import FixedClock, hypothesis_id
from memory.home import Home
from memory.sentences import render
from memory.store import Store
from memory.vocabulary import (
    Claim,
    Condition,
    Effect,
    EventEvidence,
    Finding,
    FindingStatus,
    Level,
    Measurement,
    Outcome,
    Report,
    Scope,
    Verdict,
)
from tools.base import ToolError
from tools.findings.record import RecordFinding, record_finding
from tools.findings.search import SearchFindings, search_findings
from tools.registry import registry
from tools.source.tree import SourceTree
from transcripts.catch_up import catch_up
from transcripts.events import Called, Found, Noted, Opened, Returned
from transcripts.log import Log

GATE = "def gate(major):\n    # only these\n    return major in (10,)\n"
RESULT = {
    "level": "probe", "outcome": "ok", "throughput": {"tokens/s": [812.5, 3], "": 7, "a~b": 2**53 + 1},
    "log": 'said "no kernel"\nand left', "hot": True, "great": 10**400, "digits": 812.5000001,
}  # fmt: skip
REPORT = Report(url="https://example.org/1", date="2026-01-01", by="reporter", note="so they\nsay")


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
    (root / "kernel_lib" / "link.py").symlink_to("../engine/__init__.py")
    (root / ".env").write_text("KEY=1\n")
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


def ran(home: Home, name: str = "t1", returned: dict[str, Any] | None = None, **called: Any) -> str:
    """A transcript with a call (event 1), its result (event 2) and a note (event 3); its head."""
    opened = Opened(investigation=name, program="p", driver="d", question="q", seed=0)
    call = {"call": "c1", "tool": "probe", "effect": Effect.USES_GPU, "input": {"value": 912.5}} | called
    with Log.create(home.transcripts / f"{name}.jsonl", opened, FixedClock()) as log:
        log.append(Called(**call))
        log.append(Returned(**({"call": "c1", "status": "ok", "output": RESULT} | (returned or {}))))
        log.append(Noted(text="no kernel, level probe, outcome ok"))
        return log.head


@pytest.fixture
def head(home: Home) -> str:
    return ran(home)


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
    assert len(str(caught.value)) < 600
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
    # Names of packages are kept in their one spelling, so that the same claim is the same finding.
    kept = claim.model_copy(update={"packages": {"engine": "3.0", "kernel-lib": "1.2"}})
    assert (found.claim, found.transcript, found.event) == (kept, "t1", 9)
    assert record(context, kept, site).id == found.id
    assert found.status is FindingStatus.CURRENT
    assert len(found.id) == 16
    assert record(context, claim, site, "t2").id == found.id
    assert record(context, claim.model_copy(update={"arch": "sm121"}), site).id != found.id


def test_what_ran_becomes_a_finding(context: Context, claim: Claim, head: str, site: Path) -> None:
    assert record(context, probe(claim, head), site).claim.outcome is Outcome.OK
    escaped = cite(head, 'said "no kernel"\nand left')
    assert record(context, probe(claim, head, event_evidence=(escaped,)), site)


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
    "way round": (
        {"file": "kernel_lib/../engine/__init__.py", "line": 1, "end_line": 1},
        "second name of engine",
    ),
    "dot": ({"file": "./kernel_lib/gate.py"}, "second name of kernel_lib/gate.py"),
    "link": ({"file": "kernel_lib/link.py", "line": 1, "end_line": 1}, "second name of engine"),
    "absolute": ({"file": "/etc/passwd"}, "outside"),
    "NUL": ({"file": "kernel_lib/gate.py\0"}, "printable"),
    "hidden": ({"file": ".env", "line": 1, "end_line": 1}, "hidden"),
    "backwards": ({"line": 3, "end_line": 1}, "has 4 lines"),
    "blank": ({"line": 4, "end_line": 4, "text": "", "sha256": hashlib.sha256(b"").hexdigest()}, "is blank"),
    "folder": ({"file": "kernel_lib"}, "is a folder"),
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
        ({"event": 7}, "there is no event 7"),
        ({"transcript": "t9"}, "no transcript"),
        ({"transcript": "../t1"}, "no transcript's id"),
        ({"transcript": "/etc/passwd"}, "no transcript's id"),
        ({"transcript": "t1.jsonl"}, "no transcript"),
        ({"transcript": "t1\0"}, "no transcript's id|printable"),
        ({"transcript": ""}, "not named"),
        ({"excerpt": "returned"}, "does not contain"),
        ({"event": 3, "excerpt": "noted"}, "does not contain"),
        ({"head": "1" * 64}, "none of its events"),
    ],
)
def test_event_evidence_that_does_not_hold_is_refused(
    context: Context, claim: Claim, head: str, site: Path, change: dict[str, Any], says: str
) -> None:
    lying = probe(claim, head, event_evidence=(cite(**{"head": head, **change}),))
    assert re.search(says, refusal(context, lying, site))


def test_an_empty_excerpt_cites_nothing(context: Context, claim: Claim, head: str, site: Path) -> None:
    for excerpt in ("", " \n", "{}", '":"', "ok"):
        said = refusal(context, probe(claim, head, event_evidence=(cite(head, excerpt),)), site)
        assert "says nothing" in said


def test_an_announcement_is_no_result(context: Context, claim: Claim, head: str, site: Path) -> None:
    announced = cite(head, '"tool":"probe"', event=1)
    assert "`returned`" in refusal(context, probe(claim, head, event_evidence=(announced,)), site)


def test_a_changed_result_carries_nothing(
    context: Context, claim: Claim, head: str, home: Home, site: Path
) -> None:
    path = home.transcripts / "t1.jsonl"
    path.write_bytes(path.read_bytes().replace(b"812.5", b"912.5"))
    faster = probe(claim, head)
    assert "the log was changed" in refusal(context, faster, site)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"value": 812.6}, "is 812.5; the claim says 812.6"),
        ({"json_pointer": "/output/throughput/tokens~1s/1"}, "is 3; the claim says 812.5"),
        ({"json_pointer": "/output/throughput/tokens~1s/2"}, "there is no '2'"),
        ({"json_pointer": "/output/none"}, "there is no 'none'"),
        ({"json_pointer": "/output/hot", "value": 1.0}, "not a number"),
        ({"json_pointer": "/output/log"}, "not a number"),
        ({"json_pointer": "output"}, "starts with /output/"),
        ({"json_pointer": ""}, "starts with /output/"),
        ({"json_pointer": "/output/throughput/tokens~1s/00"}, "there is no '00'"),
        ({"json_pointer": "/output/throughput/tokens~1s/-1"}, "there is no '-1'"),
        ({"json_pointer": "/output/throughput/tokens~1s/-"}, "there is no '-'"),
        ({"json_pointer": "/output/throughput/tokens~1s"}, "not a number"),
        ({"json_pointer": "/output/throughput/ "}, "there is no ' '"),
        ({"json_pointer": "/output/"}, "there is no ''"),
        ({"json_pointer": "/call"}, "starts with /output/"),
        ({"json_pointer": "/output/digits", "value": 812.5}, "is 812.5000001; the claim says 812.5"),
        ({"json_pointer": "/output/throughput/a~0b", "value": 2.0**53}, "is 9007199254740993"),
        ({"json_pointer": "/output/great", "value": 1e308}, r"the claim says 1e\+308"),
        ({"json_pointer": "/output/great", "value": float("inf")}, "the claim says inf"),
        ({"value": float("nan")}, "is 812.5; the claim says nan"),
        # The driver's own number, which it wrote into the call.
        ({"event": 1, "json_pointer": "/input/value", "value": 912.5}, "none of the cited results"),
        ({"event": 44}, "none of the cited results"),
    ],
)
def test_a_measurement_must_stand_in_the_result(
    context: Context, claim: Claim, head: str, site: Path, change: dict[str, Any], says: str
) -> None:
    (measurement,) = probe(claim, head).measurements
    lying = probe(claim, head, measurements=(measurement.model_copy(update=change),))
    assert re.search(says, refusal(context, lying, site))


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
        "fp4_gemm beta on sm120 (engine 3.0, kernel-lib 1.2): blocked"
    )
    # The event that recorded it, not the one it was meant for.
    assert {(item.transcript, item.event) for item in result.findings} == {("i3", 1), ("i2", 1)}
    assert result.findings[0].claim == claim.model_copy(
        update={"backend": "gamma", "packages": {"engine": "3.0", "kernel-lib": "1.2"}}
    )


def test_searching_an_empty_home_finds_nothing(context: Context) -> None:
    assert search_findings.run(SearchFindings(text="x"), context).findings == ()


def test_searching_a_damaged_database_says_so(context: Context, home: Home) -> None:
    home.findings_db.write_bytes(b"no database" * 500)
    with pytest.raises(ToolError, match="damaged"):
        search_findings.run(SearchFindings(), context)


# A driver that lies


def test_a_claim_says_nothing_beside_its_fields(context: Context, claim: Claim, site: Path) -> None:
    for change in (
        {"backend": "alpha works, run it; the rest"},
        {"backend": ""},
        {"engine": "engine\nsecond line"},
        {"component": "fp4_gemm\u202e"},
        {"runs_instead": "x" * 301},
        {"scenario": {"quantisation": "nvfp4\x1b[2J"}},
        {"scenario": {"a\nb": "c"}},
        {"conditions": (Condition(fact="f", op="==", value=["\u200b"]),)},
        {"packages": {**claim.packages, "torch\n": "1"}},
    ):
        assert re.search("expected", refusal(context, claim.model_copy(update=change), site)), change
    for depth in (20, 100, 300, 800):
        nested: Any = 1
        for _ in range(depth):
            nested = [nested]
        deep = claim.model_copy(update={"conditions": (Condition(fact="f", op="==", value=nested),)})
        assert "nested past all use" in refusal(context, deep, site), depth
    many = claim.source_evidence * 2000
    assert "at most 256000" in refusal(context, claim.model_copy(update={"source_evidence": many}), site)


@pytest.mark.parametrize(
    ("arch", "says"),
    [("SM_120", "written sm120"), ("12.0", "written sm120"), ("sm999", "no architecture"), ("", "no arch")],
)
def test_an_architecture_is_written_in_one_way(
    context: Context, claim: Claim, site: Path, arch: str, says: str
) -> None:
    assert says in refusal(context, claim.model_copy(update={"arch": arch}), site)


def test_a_claim_names_its_engine_with_a_version(context: Context, claim: Claim, site: Path) -> None:
    assert "vllm is none of the claim's" in refusal(
        context, claim.model_copy(update={"engine": "vllm"}), site
    )
    twice = claim.model_copy(update={"packages": {**claim.packages, "kernel-lib": "1.3"}})
    assert "two versions of kernel-lib" in refusal(context, twice, site)


def test_the_same_evidence_twice_is_the_same_finding(context: Context, claim: Claim, site: Path) -> None:
    twice = claim.model_copy(update={"source_evidence": claim.source_evidence * 2})
    assert record(context, twice, site).id == record(context, claim, site).id


@pytest.mark.parametrize(
    "environment", ["", "nowhere", "/nowhere", "..", "~nobody-of-that-name/x", "a" * 5000, "x\0"]
)
def test_a_place_that_is_no_environment_is_refused(context: Context, claim: Claim, environment: str) -> None:
    refusal(context, claim, environment)


def test_a_transcript_is_an_id(claim: Claim) -> None:
    for name in ("../t1", "/etc/passwd", "a\nb", "x" * 300):
        with pytest.raises(ValidationError):
            RecordFinding(claim=claim, transcript=name)


LIES: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any], str]] = {
    # name: changes of the call, of its result, of the claim; what the refusal says
    "a reading tool's result": ({"effect": Effect.READS, "tool": "read_source"}, {}, {}, "runs nothing"),
    "fetching packages": ({"effect": Effect.WRITES_ENVIRONMENT}, {}, {}, "runs nothing"),
    "denied": ({}, {"status": "denied", "output": None, "error": "no kernel"}, {}, "was denied"),
    "interrupted": ({}, {"status": "interrupted", "error": "no kernel"}, {}, "was interrupted"),
    "another hypothesis": (
        {"hypothesis": hypothesis_id("fp4_gemm", "beta", "sm120")},
        {},
        {},
        "another hypoth",
    ),
    "another environment": (
        {"input": {"environment": "elsewhere"}},
        {},
        {},
        "ran in environment 'elsewhere'",
    ),
    "no such call": ({"call": "c2"}, {}, {}, "not in the transcript"),
    "a higher level": ({}, {}, {"level": Level.BENCHMARK}, 'says level \'"probe"\', not "benchmark"'),
    "another outcome": ({}, {}, {"outcome": Outcome.CRASHED}, 'says outcome \'"ok"\', not "crashed"'),
    "no outcome": ({}, {"output": {"log": "no kernel"}}, {}, "says level 'null'"),
    "an error without a result": (
        {},
        {"status": "error", "output": None, "error": "no kernel"},
        {},
        "'null'",
    ),
}


@pytest.mark.parametrize("lie", list(LIES))
def test_what_did_not_run_so_carries_no_claim(
    context: Context, claim: Claim, home: Home, site: Path, lie: str
) -> None:
    called, returned, change, says = LIES[lie]
    head = ran(home, returned=returned, **called)
    lying = probe(claim, head, **{"measurements": (), **change})
    assert says in refusal(context, lying, site)


def test_what_ran_in_this_environment_for_this_hypothesis_carries_it(
    context: Context, claim: Claim, home: Home, site: Path
) -> None:
    about = hypothesis_id("fp4_gemm", "alpha", "sm120")
    head = ran(home, hypothesis=about, input={"environment": f"{site}/../site-packages"})
    assert record(context, probe(claim, head), site).claim.level is Level.PROBE


def test_the_versions_of_what_ran_are_looked_up_too(
    context: Context, claim: Claim, head: str, site: Path
) -> None:
    newer = probe(claim, head, packages={"engine": "9.0", "kernel-lib": "1.2"})
    assert "holds 3.0" in refusal(context, newer, site)
    assert "no environment was named" in refusal(context, probe(claim, head), "")


def test_a_number_comes_from_the_cited_transcript(
    context: Context, claim: Claim, head: str, home: Home, site: Path
) -> None:
    faster = ran(home, "t2", {"output": {**RESULT, "throughput": {"tokens/s": [99999.5]}}})
    (measured,) = probe(claim, head).measurements
    boast = probe(claim, head, measurements=(measured.model_copy(update={"value": 99999.5}),))
    assert "is 812.5" in refusal(context, boast, site, "t2")
    both = (cite(head), cite(faster, transcript="t2"))
    assert "several cited" in refusal(context, probe(claim, head, event_evidence=both), site, "t2")
    # The head of one transcript does not vouch for another.
    mixed = (cite(head, transcript="t2"),)
    assert "none of its events" in refusal(context, probe(claim, head, event_evidence=mixed), site)


def test_a_head_before_the_event_does_not_vouch_for_it(
    context: Context, claim: Claim, head: str, home: Home, site: Path
) -> None:
    first = json.loads((home.transcripts / "t1.jsonl").read_bytes().splitlines()[0])["hash"]
    early = probe(claim, head, event_evidence=(cite(first),))
    assert "is event 0, before it" in refusal(context, early, site)


def test_a_result_that_was_cut_is_looked_up_whole(
    context: Context, claim: Claim, home: Home, site: Path
) -> None:
    whole = json.dumps({**RESULT, "log": "x" * 100_000})
    sha256 = Artifacts(home.artifacts).put(whole.encode())
    cut = {"output": "no kernel …", "artifact": sha256, "artifact_bytes": len(whole)}
    claimed = probe(claim, ran(home, returned=cut))
    assert record(context, claimed, site)
    Artifacts(home.artifacts).path(sha256).write_bytes(whole.replace("812.5", "912.5").encode())
    assert "is damaged" in refusal(context, claimed, site)


def test_a_transcript_is_read_once_however_often_it_is_cited(
    context: Context, claim: Claim, home: Home, site: Path
) -> None:
    ran(home)
    with Log.open(home.transcripts / "t1.jsonl", FixedClock()) as log:
        for number in range(700):
            log.append(Noted(text=f"note number {number}"))
        head = log.head
    cited = tuple(cite(head, f"note number {n}", event=n + 4) for n in range(600))
    started = time.process_time()
    record(context, probe(claim, head, event_evidence=(cite(head), *cited)), site)
    assert time.process_time() - started < 2


# Scope and accounts


def test_a_scope_is_what_the_result_says_of_its_machine(
    context: Context, claim: Claim, home: Home, site: Path
) -> None:
    machine = {"gpu": "G", "driver": "580.1", "gpu_count": 8}
    ran(home, returned={"output": {**RESULT, **machine}})
    head = json.loads((home.transcripts / "t1.jsonl").read_bytes().splitlines()[-1])["hash"]
    found = record(context, probe(claim, head, scope=Scope(model="m", **machine)), site)
    assert "engine 3.0, kernel-lib 1.2, m, 8 × G, driver 580.1" in render(found.claim)
    bare = record(context, probe(claim, head, scope=Scope(model="m")), site)
    assert bare == found, "what ran is of a GPU and a driver, whether the claim says so or not"
    for name, value, says in (
        ("gpu", "H", '\'"G"\', not "H"'),
        ("driver", "581", "580.1"),
        ("gpu_count", 9, "8"),
    ):
        other = Scope(**{**machine, name: value})
        assert says in refusal(context, probe(claim, head, scope=other), site)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"scope": Scope(archs=("SM_120",))}, "written sm120"),
        ({"scope": Scope(ranges={"kernel-lib": "older"})}, "no set of versions"),
        ({"report": REPORT.model_copy(update={"url": "file:///etc/passwd"})}, "expected http"),
        ({"report": REPORT.model_copy(update={"note": "x" * 5000})}, "more than 4000"),
        ({"report": REPORT.model_copy(update={"url": "https://example.org/2"})}, "no cited result says"),
        ({"level": Level.PROBE}, "is no report"),
        ({"level": Level.PROBE, "report": None, "scope": Scope(ranges={"x": "<1"})}, "is for reports"),
    ],
)
def test_an_account_says_where_it_stands(
    context: Context, claim: Claim, home: Home, change: dict[str, Any], says: str
) -> None:
    head = ran(home, returned={"output": {**RESULT, "url": REPORT.url}})
    account = probe(
        claim, head, level=Level.REPORT, measurements=(), report=REPORT,
        scope=Scope(ranges={"kernel-lib": "<1.3"}),
    )  # fmt: skip
    assert record(context, account, "").claim.report == REPORT
    assert says in refusal(context, account.model_copy(update=change), "")
