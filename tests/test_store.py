"""The database: rows are a function of the transcripts, whoever folds them, in whatever order."""

from __future__ import annotations

import hashlib
import json
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from known import CLAIM, EVIDENCE, finding, rows, write
from sqlalchemy import create_engine, inspect
from sqlmodel import SQLModel

import memory.tables  # noqa: F401 - the classes
import transcripts.fold
from memory.artifacts import ArtifactError, Artifacts
from memory.canonical import canonical
from memory.clock import FixedClock
from memory.database import Folded, open_to_read
from memory.home import Home, HomeError
from memory.migrations import NEWEST
from memory.sentences import render
from memory.store import Store, StoreError
from memory.views import Views
from memory.vocabulary import (
    Condition,
    Finding,
    Level,
    Measurement,
    Outcome,
    Verdict,
)
from transcripts.catch_up import catch_up, rebuild
from transcripts.events import Called, Noted
from transcripts.fold import FoldError, fold
from transcripts.log import Log, LogError
from transcripts.standing import standing

HYPOTHESIS = dict.fromkeys(("id", "component", "backend", "arch", "state", "because"), "h")


def grown(home: Home) -> list[str]:
    return [path.name for path in standing(Views(home).folded(), home.transcripts).grown]


def test_an_investigation_becomes_rows(home: Home) -> None:
    path = write(home, "20260101-aaaaaa", [finding()])
    with Store(home) as store:
        assert fold(store, path).events == 6
        assert fold(store, path).events == 0
    views = Views(home)
    (investigation,) = views.investigations()
    assert investigation["id"] == "20260101-aaaaaa"
    assert (investigation["model"], investigation["arch"], investigation["exit_code"]) == ("m", "sm120", 0)
    assert (investigation["events"], investigation["findings"], investigation["hypotheses"]) == (6, 1, 1)
    (hypothesis,) = views.hypotheses("20260101-aaaaaa")
    assert (hypothesis["state"], hypothesis["opened_event"], hypothesis["event"]) == ("predicted", 2, 3)
    assert '"verdict":"blocked"' in hypothesis["row"]
    (found,) = views.findings()
    assert (found["id"], found["status"], found["sightings"]) == (finding().id, "current", 1)
    assert (found["transcript"], found["event"]) == ("20260101-aaaaaa", 4)
    (evidence,) = views.evidence(found["id"])
    assert (evidence["kind"], evidence["file"], evidence["line"]) == ("source", EVIDENCE.file, 251)
    assert views.finding(found["id"][:5])["id"] == found["id"]
    assert views.investigation("2026")["transcript"] == "20260101-aaaaaa"


def test_rows_do_not_depend_on_order_or_on_who_folds(tmp_path: Path) -> None:
    findings = [finding(), finding(verdict=Verdict.NO_STATIC_OBSTACLE, because=None), finding()]
    contents = []
    for way in ("forwards", "backwards", "live", "rebuilt"):
        home = Home(tmp_path / way).prepare()
        with Store(home) as store:
            paths = [write(home, f"t{day}", [item], day) for day, item in enumerate(findings, start=1)]
            if way == "live":
                for path in reversed(paths):
                    # One event at a time, as the loop does.
                    whole = path.read_bytes()
                    path.write_bytes(b"")
                    for line in whole.splitlines(keepends=True):
                        with path.open("ab") as file:
                            file.write(line)
                        assert fold(store, path).refused == ()
            else:
                for path in paths if way == "forwards" else reversed(paths):
                    fold(store, path)
            if way == "rebuilt":
                assert rebuild(store, home.transcripts) == []
        contents.append(rows(home))
    assert all(content == contents[0] for content in contents)
    assert contents[0]["sightings"]


def test_a_deleted_database_comes_back_the_same(home: Home) -> None:
    for day in (1, 2):
        write(home, f"t{day}", [finding(backend=f"b{day}")], day)
    with Store(home) as store:
        catch_up(store, home.transcripts)
    before = rows(home)
    home.findings_db.unlink()
    assert Views(home).findings() == []
    assert grown(home) == ["t1.jsonl", "t2.jsonl"]
    with Store(home) as store:
        catch_up(store, home.transcripts)
    assert rows(home) == before
    assert grown(home) == []


# Which finding stands


def test_the_same_claim_is_one_row_with_two_sightings(home: Home) -> None:
    shorter = finding(source_evidence=(EVIDENCE.model_copy(update={"text": "shorter"}),))
    write(home, "t1", [finding()], 1)
    write(home, "t2", [shorter], 2)
    with Store(home) as store:
        catch_up(store, home.transcripts)
    (row,) = Views(home).findings()
    assert (row["sightings"], row["transcript"]) == (2, "t1")
    assert row["seen_at"].startswith("2026-01-02")


def statuses(home: Home, *given: Finding) -> list[str]:
    for day, item in enumerate(given, start=1):
        write(home, f"t{day}", [item], day)
    with Store(home) as store:
        assert catch_up(store, home.transcripts) == []
    by_id = {row["id"]: row["status"] for row in Views(home).findings(statuses=())}
    return [by_id[item.id] for item in given]


def test_better_evidence_for_the_same_supersedes_the_older(home: Home) -> None:
    other = finding(source_evidence=(EVIDENCE, EVIDENCE.model_copy(update={"line": 7, "end_line": 7})))
    assert statuses(home, finding(), other) == ["superseded", "current"]
    (old,) = Views(home).findings(statuses=["superseded"])
    assert old["replaced_by"] == other.id


@pytest.mark.parametrize(
    "changes",
    [
        {"packages": {"flashinfer-python": "0.6.6", "sglang": "0.5.9"}},
        {"arch": "sm100"},
        {"backend": "beta"},
        {"scenario": {}},
        {"engine": "vllm"},
    ],
)
def test_another_scope_leaves_the_older_standing(home: Home, changes: dict[str, Any]) -> None:
    other = finding(verdict=Verdict.UNKNOWN, **changes)
    assert statuses(home, finding(), other) == ["current", "current"]


def test_one_more_finding_changes_no_row_of_the_others(home: Home) -> None:
    many = [
        finding(
            source_evidence=(EVIDENCE.model_copy(update={"line": n, "end_line": n}),),
            **({} if n % 2 else {"verdict": Verdict.UNKNOWN, "because": None}),
        )
        for n in range(1, 300)
    ]
    path = write(home, "t1", many)
    with Store(home) as store:
        changes = store._raw.total_changes
        fold(store, path)
        assert store._raw.total_changes - changes < 10 * len(many)
    found = {row["id"]: row for row in Views(home).findings(statuses=())}
    assert [found[one.id]["status"] for one in many[-3:]] == ["superseded", "contradicted", "current"]
    # An older one leads to the newest that says the same, and that one to the one that stands.
    assert {row["replaced_by"] for row in found.values()} == {None, many[-1].id, many[-2].id}
    assert found[many[-2].id]["replaced_by"] == many[-1].id


def test_a_transaction_ends_when_its_time_is_up(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    write(home, "t1", [finding(backend=f"b{n}") for n in range(20)])
    made, transactions = [], []
    for seconds in (60.0, 0.0):
        monkeypatch.setattr(transcripts.fold, "_SECONDS", seconds)
        home.findings_db.unlink(missing_ok=True)
        begun: list[str] = []
        with Store(home) as store:
            store._raw.set_trace_callback(begun.append)
            assert catch_up(store, home.transcripts) == []
            store._raw.set_trace_callback(None)
        made.append(rows(home))
        transactions.append(sum(statement.startswith("BEGIN IMMEDIATE") for statement in begun))
    assert made[0] == made[1]
    assert transactions == [1, 25]


# What the store refuses


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (finding(source_evidence=()), "no evidence"),
        (finding().model_copy(update={"id": "0" * 16}), "not the id"),
        (finding(level=Level.PROBE, outcome=Outcome.OK), "cites no event"),
    ],
)
def test_the_store_refuses_what_has_no_evidence(home: Home, given: Finding, says: str) -> None:
    path = write(home, "t1", [given, finding(backend="good")])
    with Store(home) as store:
        (refused,) = fold(store, path).refused
        assert says in refused
        assert refused.startswith("event 4:")
    assert [row["backend"] for row in Views(home).findings()] == ["good"]


def test_a_failed_write_leaves_nothing(home: Home) -> None:
    with Store(home) as store:
        with pytest.raises(StoreError), store.write() as writing:  # noqa: PT012 - what was before is undone
            writing.put_hypothesis("t", 1, HYPOTHESIS)
            writing.folded_to("t", "now", Folded(1, "x", 1))
        assert store.folded("t") is None
        assert Views(home).hypotheses("t") == []
        with pytest.raises(StoreError, match="no opened investigation"), store.write() as writing:
            writing.update_investigation("t", driver="d")


# Logs that change under the database


def test_damage_is_reported_and_what_stands_before_it_kept(home: Home) -> None:
    path = write(home, "t1", [finding(backend=f"b{n}") for n in range(4)])
    write(home, "t2", [finding(backend="other")])
    lines = path.read_bytes().splitlines(keepends=True)
    lines[6] = lines[6].replace(b"moe_runner", b"moe_runnex")
    path.write_bytes(b"".join(lines))
    with Store(home) as store:
        (problem,) = catch_up(store, home.transcripts)
    assert "t1.jsonl: event 6" in problem
    assert {row["backend"] for row in Views(home).findings()} == {"b0", "b1", "other"}


def test_a_torn_line_waits_for_its_end(home: Home) -> None:
    path = write(home, "t1", [finding()])
    whole = path.read_bytes()
    path.write_bytes(whole[:-5])
    with Store(home) as store:
        assert fold(store, path).events == 5
        path.write_bytes(whole)
        assert fold(store, path).events == 1


def test_a_replaced_log_is_not_mixed_with_its_old_rows(home: Home) -> None:
    path = write(home, "t1", [finding()])
    with Store(home) as store:
        fold(store, path)
        whole = path.read_bytes()
        path.write_bytes(whole[: whole.rindex(b"\n", 0, -1) + 1])
        with pytest.raises(FoldError, match="replaced or cut"):
            fold(store, path)
        path.unlink()
        write(home, "t1", [finding(), finding(backend="x"), finding(backend="y")], 9)
        with pytest.raises(FoldError, match="replaced or cut"):
            fold(store, path)
        assert rebuild(store, home.transcripts) == []
        path.unlink()
        with pytest.raises(LogError, match="no transcript"):
            fold(store, path)
    assert len(Views(home).findings()) == 3


def test_two_processes_fold_the_same_log(home: Home) -> None:
    path = write(home, "t1", [finding(backend=f"b{n}") for n in range(60)], conclude=False)
    with Log.open(path, FixedClock("2026-01-01T01:00:00.000Z")) as log:
        for number in range(1200):  # several transactions
            log.append(Noted(text=f"note {number}"))
    script = """
import sys
from pathlib import Path
import memory.database
from memory.home import Home
from memory.store import Store
from transcripts.fold import fold
memory.database.BUSY_MS = 120_000  # on a busy machine the other may have its turns for long
home = Home(Path(sys.argv[1]))
with Store(home) as store:
    print(fold(store, home.transcripts / "t1.jsonl").events)
"""
    children = [
        subprocess.Popen(
            [sys.executable, "-c", script, str(home.root)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for _ in range(2)
    ]  # fmt: skip
    said = [child.communicate() for child in children]
    assert [child.returncode for child in children] == [0, 0], said
    assert sum(int(out) for out, _ in said) == 1264
    assert len(Views(home).findings()) == 60
    both = rows(home)
    with Store(home) as store:
        assert rebuild(store, home.transcripts) == []
    assert rows(home) == both
    assert path.is_file()


# The file itself


def test_the_schema_is_what_the_classes_say(home: Home) -> None:
    Store(home).close()
    engine = create_engine(f"sqlite:///{home.findings_db}")
    with closing(engine.connect()) as connection:
        inspector = inspect(connection)
        there_are = {name for name in inspector.get_table_names() if not name.startswith("words")}
        assert set(SQLModel.metadata.tables) == there_are
        for table in SQLModel.metadata.sorted_tables:
            there = {column["name"]: column for column in inspector.get_columns(table.name)}
            assert set(there) == {column.name for column in table.columns}, table.name
            for column in table.columns:
                assert there[column.name]["nullable"] == column.nullable, (table.name, column.name)
                kind = {int: "INTEGER", float: "REAL"}.get(column.type.python_type, "TEXT")
                assert str(there[column.name]["type"]) == kind, (table.name, column.name)
            keys = inspector.get_pk_constraint(table.name)["constrained_columns"]
            assert set(keys) == {column.name for column in table.primary_key}
    engine.dispose()


def test_pragmas(home: Home) -> None:
    with Store(home) as store, store.write() as writing:
        connection = writing.connection
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert connection.execute("PRAGMA busy_timeout").fetchone() == (5000,)
        assert connection.execute("PRAGMA user_version").fetchone() == (NEWEST,)
        with closing(sqlite3.connect(home.findings_db, timeout=0)) as other:
            with pytest.raises(sqlite3.OperationalError, match="locked"):
                other.execute("BEGIN IMMEDIATE")
            assert other.execute("SELECT count(*) FROM v_findings").fetchone() == (0,)


def test_a_newer_database_is_refused_in_one_line(home: Home) -> None:
    Store(home).close()
    with closing(sqlite3.connect(home.findings_db)) as connection:
        connection.execute(f"PRAGMA user_version = {NEWEST + 3}")
    for opening in (lambda: Store(home), lambda: Views(home).findings()):
        with pytest.raises(StoreError, match=f"schema {NEWEST + 3}.*upgrade") as caught:
            opening()
        assert "\n" not in str(caught.value)


def test_a_damaged_database_is_refused_in_one_line(home: Home) -> None:
    home.findings_db.write_bytes(b"this is no database at all" * 200)
    for opening in (lambda: Store(home), lambda: Views(home).findings()):
        with pytest.raises(StoreError, match=r"damaged.*transcripts") as caught:
            opening()
        assert "\n" not in str(caught.value)


def test_a_folder_in_the_way_is_refused_in_one_line(home: Home) -> None:
    home.findings_db.mkdir()
    with pytest.raises(StoreError, match=r"is damaged \(it is a folder\).*findings rebuild"):
        Store(home)


@pytest.mark.parametrize("version", range(1, NEWEST))
def test_a_database_of_every_earlier_schema_is_migrated_and_kept(home: Home, version: int) -> None:
    golden = Path(__file__).parent / "golden" / "databases" / f"schema-{version}.db"
    shutil.copyfile(golden, home.findings_db)
    # The transcripts that it was folded from.
    write(home, "t1", [finding()], 1)
    write(home, "t2", [finding(verdict=Verdict.UNKNOWN, because=None), finding(backend="beta")], 2)
    with Store(home) as store:
        store.check()
        assert catch_up(store, home.transcripts) == []
    migrated = rows(home)
    kept = home.root / f"findings.db.schema-{version}"
    with closing(sqlite3.connect(kept)) as before, closing(sqlite3.connect(golden)) as old:
        assert list(before.iterdump()) == list(old.iterdump())
    for path in (home.findings_db, kept):
        path.unlink()
    with Store(home) as store:
        assert catch_up(store, home.transcripts) == []
    assert rows(home) == migrated
    assert [path.name for path in home.root.glob("findings.db*")] == ["findings.db"]


def test_opening_again_migrates_nothing(home: Home) -> None:
    Store(home).close()
    before = rows(home)
    Store(home).close()
    assert rows(home) == before


# Reading


def test_reading_imports_nothing_heavy(home: Home) -> None:
    write(home, "t1", [finding()])
    with Store(home) as store:
        catch_up(store, home.transcripts)
    script = """
import sys
from pathlib import Path
from memory.home import Home, HomeError
from memory.views import Views
views = Views(Home(Path(sys.argv[1])))
assert len(views.findings()) == 1 and len(views.investigations()) == 1 and views.folded()
print([name for name in ("sqlmodel", "pydantic", "sqlalchemy") if name in sys.modules])
"""
    done = subprocess.run(
        [sys.executable, "-c", script, str(home.root)], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_filters(home: Home) -> None:
    items = [
        finding(),
        finding(backend="beta", arch="sm100"),
        finding(component="fp4_gemm", packages={"vllm": "1.0", "flashinfer_python": "0.7.2"}, engine="vllm"),
    ]
    for day, item in enumerate(items, start=1):
        write(home, f"t{day}", [item], day)
    with Store(home) as store:
        catch_up(store, home.transcripts)
    views = Views(home)

    def ids(**filters: Any) -> list[int]:
        found = [row["id"] for row in views.findings(**filters)]
        return [index for name in found for index, item in enumerate(items) if item.id == name]

    assert ids() == [2, 1, 0]
    assert ids(limit=2) == [2, 1]
    assert ids(arch="sm120") == [2, 0]
    assert ids(engine="vllm", component="fp4_gemm") == [2]
    assert ids(packages={"flashinfer-python": "0.6.5"}) == [1, 0]
    assert ids(packages={"Flashinfer.Python": ""}) == [2, 1, 0]
    assert ids(packages={"vllm": ""}) == [2]
    assert ids(text="beta architecture") == [1]
    assert ids(text="supported_major_versions") == [2, 1, 0]
    assert ids(text="fused_moe.py sm100") == [1]
    assert ids(text="nvfp4") == [2, 1, 0]
    assert ids(text="%") == []
    assert ids(text="o' OR 1=1 --") == []
    assert ids(statuses=["stale"]) == []
    with pytest.raises(TypeError, match="no such filter"):
        views.findings(colour="red")


def test_ids_by_prefix(home: Home) -> None:
    for name in ("20260101-aa", "20260101-ab"):
        write(home, name, [])
    with Store(home) as store:
        catch_up(store, home.transcripts)
    views = Views(home)
    assert views.investigation("20260101-ab")["id"] == "20260101-ab"
    with pytest.raises(StoreError, match="fits 2"):
        views.investigation("20260101")
    for nothing in ("x", "", "%", "_"):
        with pytest.raises(StoreError, match="no investigation"):
            views.investigation(nothing)
    with pytest.raises(StoreError, match="no finding"):
        views.finding("zz")


# Sentences, canonical JSON, artifacts


def test_sentences() -> None:
    assert render(CLAIM) == (
        "moe_runner alpha_kernels on sm120 (sglang 0.5.9, flashinfer-python 0.6.5, quantisation=nvfp4): "
        "blocked because of architecture; flashinfer/jit/fused_moe.py:251"
    )
    way = EVIDENCE.model_copy(update={"file": "way.py", "sha256": "cd" * 32})
    assert render(CLAIM.model_copy(update={"source_evidence": (EVIDENCE, way)})) == render(CLAIM)
    rerouted = finding(
        verdict=Verdict.REROUTED, because=None, runs_instead="beta",
        conditions=(Condition(fact="cudnn", op=">=", value=91002),),
    ).claim  # fmt: skip
    assert "): rerouted to beta; if cudnn >= 91002; flash" in render(rerouted)
    ran = finding(
        level=Level.BENCHMARK, verdict=None, because=None, outcome=Outcome.OUT_OF_MEMORY, source_evidence=(),
        measurements=(Measurement(metric="throughput", value=812.5, unit="tok/s", event=1, json_pointer=""),),
    ).claim  # fmt: skip
    assert render(ran).endswith("): benchmark out of memory; throughput 812.5 tok/s")
    assert "works" not in render(CLAIM.model_copy(update={"verdict": Verdict.NO_STATIC_OBSTACLE}))


def test_canonical_json() -> None:
    assert canonical({"b": [1, 2.5], "a": "ü"}) == '{"a":"ü","b":[1,2.5]}'
    assert canonical({"x": [float("inf")]}) == '{"x":[null]}'
    assert finding().id == finding(source_evidence=(EVIDENCE.model_copy(update={"text": "…"}),)).id
    assert finding().id != finding(source_evidence=(EVIDENCE.model_copy(update={"line": 252}),)).id


def test_artifacts_are_kept_by_content(tmp_path: Path) -> None:
    artifacts = Artifacts(tmp_path / "a")
    name = artifacts.put(b"whole result")
    assert artifacts.put(b"whole result") == name
    assert artifacts.get(name) == b"whole result"
    assert name in artifacts
    assert artifacts.path(name) == tmp_path / "a" / name[:2] / name[2:]
    assert [path.name for path in (tmp_path / "a").rglob("*") if path.is_file()] == [name[2:]]
    artifacts.path(name).write_bytes(b"something")
    with pytest.raises(ArtifactError, match="damaged"):
        artifacts.get(name)
    artifacts.put(b"whole result")
    assert artifacts.get(name) == b"whole result"
    for wrong in ("../../etc/passwd", "ab" * 31, "AB" * 32):
        with pytest.raises(ArtifactError, match="no sha256"):
            artifacts.get(wrong)
    with pytest.raises(ArtifactError, match="no artifact"):
        artifacts.get("0" * 64)
    (tmp_path / "file").write_text("")
    with pytest.raises(ArtifactError, match="cannot keep"):
        Artifacts(tmp_path / "file").put(b"x")


def test_events_without_rows_count(home: Home) -> None:
    path = write(home, "t1", [], conclude=False)
    with Log.open(path, FixedClock("2026-02-01T00:00:00.000Z")) as log, Store(home) as store:
        for body in (Noted(text="n"), Called(call="c1", tool="t", effect="reads", input={})):
            log.append(body)
            assert fold(store, path).events > 0
    (row,) = Views(home).investigations()
    assert (row["events"], row["updated_at"], row["concluded_at"]) == (6, "2026-02-01T00:00:00.001Z", None)


def forged(home: Home, name: str, *bodies: dict[str, Any]) -> Path:
    """A log with an unbroken chain, whatever its events hold."""
    path = home.transcripts / f"{name}.jsonl"
    prev, lines = "0" * 64, []
    for seq, data in enumerate(bodies):
        # As another program might write it: escaped, so that lone surrogates pass.
        head = f'{{"at":"2026-01-01T00:00:00.000Z","data":{json.dumps(data)}'
        tail = f',"prev":"{prev}","seq":{seq}}}'
        prev = hashlib.sha256((head + tail).encode()).hexdigest()
        lines.append(f'{head},"hash":"{prev}"{tail}\n')
    path.write_text("".join(lines))
    return path


OPENED = {
    "kind": "opened", "format": 1, "investigation": "x", "program": "p", "driver": "d", "question": "q",
    "seed": 0, "options": {}, "parent": None,
}  # fmt: skip
CONCLUDED = {"kind": "concluded", "exit_reason": "answered", "exit_code": 0, "summary": "s", "answer": None}


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (CONCLUDED | {"summary": {"a": 1}}, "(summary: Input should be a valid string"),
        (CONCLUDED | {"exit_code": 10**30}, "cannot be kept"),
        (CONCLUDED | {"summary": "\ud800"}, "event 2:"),
        (CONCLUDED | {"more": 1}, "(more: Extra inputs"),
        ({"kind": "understood", "target": [], "environment": "e", "packages": {}}, "(target: Input should"),
        ({"kind": "hypothesis", "id": "h"}, "(component: Field required"),
    ],
)
def test_an_event_that_is_none_stands_in_nobodys_way(home: Home, body: dict[str, Any], says: str) -> None:
    forged(home, "a", OPENED, {"kind": "noted", "text": "n"}, body, CONCLUDED)
    write(home, "b", [finding()])
    with Store(home) as store:
        (problem,) = catch_up(store, home.transcripts)
        assert "a.jsonl: event 2: " in problem
        assert says in problem
        assert "\n" not in problem
        (problem,) = catch_up(store, home.transcripts)
    known = {row["transcript"]: row["events"] for row in Views(home).investigations()}
    assert known == {"a": 2, "b": 6}


def test_an_opening_that_is_none_makes_no_rows(home: Home) -> None:
    forged(home, "a", OPENED | {"investigation": ["x"]})
    with Store(home) as store:
        (problem,) = catch_up(store, home.transcripts)
    assert "a.jsonl: event 0: " in problem
    assert Views(home).investigations() == []


def test_the_words_of_evidence_are_those_first_recorded_whoever_is_folded_first(home: Home) -> None:
    shorter = finding(source_evidence=(EVIDENCE.model_copy(update={"text": "shorter"}),))
    paths = [write(home, "t1", [finding()], day=2), write(home, "t2", [shorter], day=1)]
    made = []
    for order in (paths, paths[::-1]):
        home.findings_db.unlink(missing_ok=True)
        with Store(home) as store:
            for path in order:
                fold(store, path)
        made.append(rows(home))
    assert made[0] == made[1]
    (row,) = Views(home).findings()
    assert (row["transcript"], Views(home).evidence(row["id"])[0]["text"]) == ("t2", "shorter")
    assert json.loads(row["claim"])["source_evidence"][0]["text"] == "shorter"


def test_asking_how_far_a_transcript_is_waits_for_no_writer(home: Home) -> None:
    """The writer ends only afterwards: who waited for it would wait in vain, which is an error."""
    path = write(home, "t1", [])
    with Store(home) as store:
        fold(store, path)
        with closing(sqlite3.connect(home.findings_db, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            at = store.folded("t1")
            assert grown(home) == []
            other.execute("ROLLBACK")
    assert at is not None
    assert at.last_seq == 4


def test_a_search_for_too_much_is_refused(home: Home) -> None:
    write(home, "t1", [finding()])
    with Store(home) as store:
        catch_up(store, home.transcripts)
    assert len(Views(home).findings(text="sm120 " * 40)) == 1
    for text in ("sm120 " * 41, "x" * 2001):
        with pytest.raises(StoreError, match="too many to look for"):
            Views(home).findings(text=text)
    with pytest.raises(StoreError, match="50 packages are too many"):
        Views(home).findings(packages={f"p{number}": "" for number in range(50)})


READ_AS_ANOTHER = """
import os, sqlite3, sys, tempfile
from pathlib import Path
from memory.home import Home, HomeError
from memory.views import Views
if os.getuid() == 0:
    os.setuid(65534)  # for root every folder can be written
home = Home(Path(sys.argv[1]))
assert not os.access(home.root, os.W_OK)
print([row["id"] for row in Views(home).investigations()])
"""


@pytest.mark.parametrize("left", ["nothing", "a log of writes", "a log of writes and its memory"])
def test_a_home_that_went_read_only_shows_all_that_was_written(left: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        home = Home(Path(folder) / "home").prepare()
        for name in ("a", "b"):
            write(home, name, [])
        with Store(home) as store:
            catch_up(store, home.transcripts)
            if left != "nothing":  # as a writer that is killed leaves it
                for file in home.root.glob("findings.db*"):
                    shutil.copyfile(file, home.root / f"kept-{file.name}")
        if left != "nothing":
            for file in home.root.glob("kept-*"):
                file.rename(home.root / file.name.removeprefix("kept-"))
            assert home.findings_db.with_name("findings.db-wal").stat().st_size > 0
        if left == "a log of writes":
            home.findings_db.with_name("findings.db-shm").unlink()
        for path in [Path(folder), home.root, *home.root.iterdir()]:
            path.chmod(0o555)
        try:
            done = subprocess.run(
                [sys.executable, "-c", READ_AS_ANOTHER, str(home.root)],
                capture_output=True, text=True, check=False,
            )  # fmt: skip
        finally:
            for path in [Path(folder), home.root, *home.root.iterdir()]:
                path.chmod(0o755)
        assert (done.stdout, done.stderr) == ("['b', 'a']\n", "")


def test_a_home_of_nobody_is_refused_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_HOME", "~nobody-of-that-name/assay")
    with pytest.raises(HomeError, match=r"ASSAY_HOME is '~nobody-of-that-name/assay'.*set it to a folder"):
        Home.default()


def test_what_a_killed_writer_left_halfway_is_taken_back(home: Home) -> None:
    """A journal that is not that of a transaction that came to its end, as ``kill -9`` leaves one."""
    script = """
import os, sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("CREATE TABLE begun (number INTEGER)")
connection.execute("PRAGMA cache_size = 1")
connection.execute("BEGIN IMMEDIATE")
connection.executemany("INSERT INTO begun VALUES (?)", [(number,) for number in range(10_000)])
os._exit(0)
"""
    subprocess.run([sys.executable, "-c", script, str(home.findings_db)], check=True)
    assert home.findings_db.with_name("findings.db-journal").stat().st_size > 0
    with closing(open_to_read(home.findings_db)) as reading:
        assert reading.execute("SELECT count(*) FROM begun").fetchone() == (0,)
