"""Findings that travel: exported with what they cite, and let in elsewhere only as far as they hold."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing, redirect_stderr, redirect_stdout
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from known import rows
from test_findings_tools import GATE, RESULT, Context, cite, probe

from agent.cli.main import run
from memory.canonical import finding_id
from memory.clock import FixedClock
from memory.home import Home
from memory.migrations import NEWEST
from memory.store import Store
from memory.views import Views
from memory.vocabulary import Claim, Effect, Finding, Level, Verdict
from tools.findings.record import RecordFinding, record_finding
from tools.source.tree import SourceTree
from transcripts.catch_up import catch_up
from transcripts.events import Called, Found, Opened, Returned
from transcripts.log import Log

Document = dict[str, Any]


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """An unpacked environment of two packages, at a place that is named with -e."""
    root = tmp_path / "site-packages"
    for name, version, file, text in (
        ("kernel-lib", "1.2", "kernel_lib/gate.py", GATE), ("engine", "3.0", "engine/__init__.py", "x = 1\n"),
    ):  # fmt: skip
        info = root / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        (root / file).parent.mkdir(exist_ok=True)
        (root / file).write_text(text)
        (info / "RECORD").write_text(f"{file},,\n")
    return root


@pytest.fixture
def read(site: Path) -> Claim:
    tree = SourceTree(site)
    return Claim(
        component="fp4_gemm", backend="alpha", arch="sm120", engine="engine",
        packages={"engine": "3.0", "kernel-lib": "1.2"}, level=Level.STATIC, verdict=Verdict.BLOCKED,
        source_evidence=(tree.evidence("kernel_lib/gate.py", 1, 3, idiom="compare"),),
    )  # fmt: skip


@pytest.fixture
def theirs(tmp_path: Path, site: Path, read: Claim) -> Home:
    """Another home, with something that was read and something that ran."""
    home = Home(tmp_path / "theirs").prepare()
    opened = Opened(investigation="t1", program="p", driver="d", question="q", seed=0)
    with Log.create(home.transcripts / "t1.jsonl", opened, FixedClock()) as log:
        log.append(Called(call="c1", tool="probe", effect=Effect.USES_GPU, input={"value": 1}))
        log.append(Returned(call="c1", status="ok", output=RESULT))
        for claim in (read, probe(read, log.head, event_evidence=(cite(log.head),))):
            given = RecordFinding(environment=str(site), transcript="t1", event=log.next_seq, claim=claim)
            log.append(Found(finding=record_finding.run(given, Context(home))))
    fold(home)
    return home


def fold(home: Home) -> None:
    with Store(home) as store:
        assert catch_up(store, home.transcripts) == []


@pytest.fixture
def agent(monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """``agent findings ARGS`` in a home: stdout; where it ends with another code than 0, stderr too."""

    def call(home: Home, *args: object, code: int = 0) -> str:
        monkeypatch.setenv("ASSAY_HOME", str(home.root))
        said, told = io.StringIO(), io.StringIO()
        with redirect_stdout(said), redirect_stderr(told):
            assert run(["findings", *map(str, args)]) == code, told.getvalue() + said.getvalue()
        return said.getvalue() + (told.getvalue() if code > 1 else "")

    return call


@pytest.fixture
def exported(agent: Callable[..., str], theirs: Home, site: Path, tmp_path: Path) -> Path:
    path = tmp_path / "export.json"
    agent(theirs, "export", path, "--all")
    return path


def kept(home: Home) -> dict[str, tuple[str, str]]:
    return {row["id"]: (row["level"], row["origin"]) for row in Views(home).findings(statuses=())}


def ids(home: Home) -> dict[str, str]:
    """Level → id."""
    return {level: name for name, (level, _) in kept(home).items()}


def test_what_holds_is_let_in_as_it_is(
    agent: Callable[..., str], theirs: Home, home: Home, exported: Path, site: Path
) -> None:
    done = json.loads(agent(home, "import", exported, "-e", site, "--json"))
    assert (len(done["new"]), done["known"], done["refused"], done["reports"]) == (2, 0, [], {})
    assert kept(home) == {name: (level, "imported") for name, (level, _) in kept(theirs).items()}
    before = rows(home)
    again = json.loads(agent(home, "import", exported, "-e", site, "--json"))
    assert (again["new"], again["known"], again["transcript"]) == ([], 2, None)
    assert rows(home) == before
    assert json.loads(agent(home, "rebuild", "--json"))["same"]
    assert run(["replay", done["transcript"], "--verify"]) == 0


def test_what_was_brought_can_be_taken_further(
    agent: Callable[..., str], home: Home, exported: Path, site: Path, tmp_path: Path
) -> None:
    agent(home, "import", exported, "-e", site)
    second = tmp_path / "second.json"
    agent(home, "export", second, "--all")
    third = Home(tmp_path / "third").prepare()
    done = json.loads(agent(third, "import", second, "-e", site, "--json"))
    assert (done["refused"], done["reports"]) == ([], {})
    assert kept(third) == kept(home)


def test_lines_that_cannot_be_looked_up_make_a_report(
    agent: Callable[..., str], home: Home, exported: Path
) -> None:
    done = json.loads(agent(home, "import", exported, "--json"))
    (why,) = done["reports"].values()
    assert "kernel-lib 1.2 is not here to look its lines up" in why
    assert sorted(level for level, _ in kept(home).values()) == ["probe", "report"]
    again = json.loads(agent(home, "import", exported, "--json"))
    assert (again["new"], again["known"]) == ([], 2)


def test_the_same_finding_of_two_machines_is_one(
    agent: Callable[..., str], theirs: Home, home: Home, exported: Path, site: Path
) -> None:
    shutil.copy(theirs.transcripts / "t1.jsonl", home.transcripts)
    fold(home)
    done = json.loads(agent(home, "import", exported, "-e", site, "--json"))
    assert (done["new"], done["known"]) == ([], 2)
    assert {origin for _, origin in kept(home).values()} == {"own"}


# A forged finding is refused by every door


def forge(document: Document, level: str, change: Callable[[Document], None]) -> str:
    """Change one finding of an export and give it the id of what it now says. Returns that id."""
    (one,) = [one for one in document["findings"] if one["finding"]["claim"]["level"] == level]
    document["findings"] = [one]
    change(one)
    one["finding"]["id"] = finding_id(one["finding"]["claim"])
    return str(one["finding"]["id"])


def line(claim: Document, text: str) -> None:
    """Let a claim cite a line that it invents, its hash right for what it says."""
    import hashlib

    (cited,) = claim["finding"]["claim"]["source_evidence"]
    cited |= {"text": text, "end_line": cited["line"], "sha256": hashlib.sha256(text.encode()).hexdigest()}
    claim.setdefault("capsule", {})["spans"] = {cited["sha256"]: text}


def measured(claim: Document, **change: Any) -> None:
    claim["finding"]["claim"]["measurements"][0] |= change


def event(claim: Document, **change: Any) -> None:
    claim["finding"]["claim"]["event_evidence"][0] |= change


def result(claim: Document, old: str, new: str) -> None:
    (_, one) = claim["capsule"]["events"]
    assert old in one["line"]
    one["line"] = one["line"].replace(old, new)


def cited(claim: Document, **change: Any) -> None:
    claim["finding"]["claim"]["source_evidence"][0] |= change


def claimed(claim: Document, **change: Any) -> None:
    claim["finding"]["claim"] |= change


FORGED: dict[str, tuple[str, Callable[[Document], None], str]] = {
    "a wrong hash": ("static", lambda one: cited(one, sha256="0" * 64), "hash to"),
    "an invented line": ("static", lambda one: line(one, "return major in (10, 12)"), "hash to"),
    "a line of another file": (
        "static", lambda one: cited(one, file="engine/__init__.py"), "has . lines|is said to be",
    ),
    "another version": (
        "static", lambda one: claimed(one, packages={"engine": "3", "kernel-lib": "1.3"}), "none of its pack",
    ),
    "other words than the lines": ("static", lambda one: cited(one, text="def gate(): ok"), "the text of"),
    "a figure that is in no output": ("probe", lambda one: measured(one, value=99999.5), "is 812.5"),
    "a figure from nowhere": ("probe", lambda one: measured(one, json_pointer="/output/x"), "is no 'x'"),
    "an event that is not there": ("probe", lambda one: event(one, event=7), "there is no event 7"),
    "a transcript that is not there": ("probe", lambda one: event(one, transcript="t9"), "there is no event"),
    "words that were not said": ("probe", lambda one: event(one, excerpt="all well"), "hashes to"),
    "a changed result": ("probe", lambda one: result(one, "812.5", "912.5"), "damaged"),
    "another outcome": ("probe", lambda one: claimed(one, outcome="nan"), "says outcome"),
    "a higher level": ("probe", lambda one: claimed(one, level="benchmark"), "says level"),
    "a sentence of its own": ("probe", lambda one: claimed(one, backend="alpha works"), "expected a name"),
}  # fmt: skip


@pytest.mark.parametrize("what", list(FORGED))
def test_a_forged_finding_is_not_imported(
    agent: Callable[..., str], home: Home, exported: Path, site: Path, what: str
) -> None:
    level, change, says = FORGED[what]
    document = json.loads(exported.read_text())
    forge(document, level, change)
    write_export(exported, document)
    done = json.loads(agent(home, "import", exported, "-e", site, "--json", code=1))
    assert done["new"] == []
    assert kept(home) == {}
    assert re.search(says, done["refused"][0]["because"]), done["refused"]


def write_export(path: Path, document: Document) -> None:
    head = {key: value for key, value in document.items() if key != "findings"}
    lines = ",\n".join(json.dumps(one) for one in document["findings"])
    path.write_text(json.dumps(head, separators=(",", ":"))[:-1] + f',"findings":[\n{lines}\n]}}\n')


@pytest.mark.parametrize("what", list(FORGED))
def test_a_forged_finding_is_not_merged(
    agent: Callable[..., str], theirs: Home, home: Home, exported: Path, site: Path, what: str
) -> None:
    """The same, written into the rows of the other database (its transcripts are what they are)."""
    level, change, _ = FORGED[what]
    if what == "a changed result":
        path = theirs.transcripts / "t1.jsonl"
        path.write_bytes(path.read_bytes().replace(b"812.5,", b"912.5,"))
    document = json.loads(exported.read_text())
    old = ids(theirs)[level]
    if what != "a changed result":
        name = forge(document, level, change)
    else:
        name = old
    (one,) = [one for one in document["findings"] if one["finding"]["id"] == name]
    with closing(sqlite3.connect(theirs.findings_db)) as connection, connection:
        connection.execute("DELETE FROM findings WHERE id <> ?", (old,))
        connection.execute(
            "UPDATE findings SET id = ?, claim = ?", (name, json.dumps(one["finding"]["claim"]))
        )
    done = json.loads(agent(home, "merge", theirs.findings_db, "-e", site, "--json", code=1))
    assert done["new"] == []
    assert kept(home) == {}
    assert [one["finding"] for one in done["refused"]] == [name]


@pytest.mark.parametrize("door", ["import", "merge"])
def test_a_finding_with_another_id_is_refused(
    agent: Callable[..., str], theirs: Home, home: Home, exported: Path, site: Path, door: str
) -> None:
    document = json.loads(exported.read_text())
    for one in document["findings"]:
        one["finding"]["id"] = "0" * 15 + str(document["findings"].index(one))
    write_export(exported, document)
    with closing(sqlite3.connect(theirs.findings_db)) as connection, connection:
        connection.execute("UPDATE findings SET id = '000000000000000' || rowid")
    given = exported if door == "import" else theirs.findings_db
    done = json.loads(agent(home, door, given, "-e", site, "--json", code=1))
    assert [one["because"][:30] for one in done["refused"]] == ["its id is not that of its clai"] * 2
    assert kept(home) == {}


# Merging


def test_merging_brings_what_the_other_knows_and_once(
    agent: Callable[..., str], theirs: Home, home: Home, site: Path
) -> None:
    before = {path: path.read_bytes() for path in theirs.root.rglob("*") if path.is_file()}
    done = json.loads(agent(home, "merge", theirs.findings_db, "-e", site, "--json"))
    assert (len(done["new"]), done["reports"], done["refused"]) == (2, {}, [])
    again = json.loads(agent(home, "merge", theirs.findings_db, "-e", site, "--json"))
    assert (again["new"], again["known"]) == ([], 2)
    after = {path: path.read_bytes() for path in theirs.root.rglob("*") if path.is_file()}
    assert after == before, "the other home is only read"
    assert kept(home) == {name: (level, "imported") for name, (level, _) in kept(theirs).items()}


def test_a_database_alone_is_hearsay_where_something_ran(
    agent: Callable[..., str], theirs: Home, home: Home, site: Path, tmp_path: Path
) -> None:
    alone = tmp_path / "alone" / "other.db"
    alone.parent.mkdir()
    with closing(sqlite3.connect(theirs.findings_db)) as one, closing(sqlite3.connect(alone)) as other:
        one.backup(other)
    done = json.loads(agent(home, "merge", alone, "-e", site, "--json"))
    assert list(done["reports"].values()) == ["the events that it cites did not come with it"]
    assert sorted(level for level, _ in kept(home).values()) == ["report", "static"]


def test_what_contradicts_what_is_known_here_is_told(
    agent: Callable[..., str], theirs: Home, home: Home, site: Path, read: Claim
) -> None:
    other = read.model_copy(update={"verdict": Verdict.NO_STATIC_OBSTACLE})
    ours = Finding(id=finding_id(other.model_dump(mode="json")), claim=other, transcript="x", event=1)
    opened = Opened(investigation="x", program="p", driver="d", question="q", seed=0)
    with Log.create(home.transcripts / "x.jsonl", opened, FixedClock()) as log:
        log.append(Found(finding=ours))
    fold(home)
    done = json.loads(agent(home, "merge", theirs.findings_db, "-e", site, "--json"))
    # What was read there and here is on rungs of its own; what ran there outranks what was read.
    assert {row["status"] for row in Views(home).findings(statuses=())} >= {"current"}
    assert isinstance(done["conflicts"], list)
    assert ours.id in kept(home)


def damage(path: Path, how: str) -> None:
    match how:
        case "noise":
            path.write_bytes(b"no database at all" * 400)
        case "empty":
            path.write_bytes(b"")
        case "cut":
            path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
        case "torn pages":
            data = bytearray(path.read_bytes())
            data[4096:12288] = bytes(8192)
            path.write_bytes(data)
        case "newer":
            with closing(sqlite3.connect(path)) as connection:
                connection.execute(f"PRAGMA user_version = {NEWEST + 2}")
        case "another's":
            path.unlink()
            with closing(sqlite3.connect(path)) as connection:
                connection.execute("CREATE TABLE findings (id, claim, transcript, event)")
        case "a view in place of the table":
            with closing(sqlite3.connect(path)) as connection:
                connection.executescript(
                    "DROP TABLE findings; CREATE VIEW findings AS WITH RECURSIVE t(a) AS (SELECT 1 UNION ALL"
                    " SELECT a + 1 FROM t) SELECT a AS id, a AS claim, a AS transcript, a AS event,"
                    " a AS recorded_at FROM t;"
                )
        case "numbers for texts":
            with closing(sqlite3.connect(path)) as connection, connection:
                connection.execute("UPDATE findings SET event = 'x'")
        case "missing":
            path.unlink()


@pytest.mark.parametrize(
    "how",
    ["noise", "empty", "cut", "torn pages", "newer", "another's", "a view in place of the table",
     "numbers for texts", "missing"],
)  # fmt: skip
def test_a_database_that_cannot_be_used_is_refused_in_one_line(
    agent: Callable[..., str], theirs: Home, home: Home, how: str
) -> None:
    with closing(sqlite3.connect(theirs.findings_db)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
    damage(theirs.findings_db, how)
    before = theirs.findings_db.read_bytes() if theirs.findings_db.exists() else None
    said = agent(home, "merge", theirs.findings_db, code=2)
    assert len(said.splitlines()) == 1, said
    assert "Traceback" not in said
    assert kept(home) == {}
    assert before is None or theirs.findings_db.read_bytes() == before


def test_an_earlier_schema_is_merged_too(agent: Callable[..., str], home: Home) -> None:
    for version in range(1, NEWEST):
        golden = Path(__file__).parent / "golden" / "databases" / f"schema-{version}.db"
        done = json.loads(agent(home, "merge", golden, "--json"))
        assert len(done["new"]) == (3 if version == 1 else 0), done
    assert {level for level, _ in kept(home).values()} == {"report"}


MERGE = "import sys; from agent.cli.main import main; main(sys.argv[1:])"


def test_two_merges_at_once_bring_everything_once(
    agent: Callable[..., str], theirs: Home, home: Home, site: Path
) -> None:
    command = [sys.executable, "-c", MERGE, "findings", "merge", theirs.findings_db, "-e", site, "--json"]
    environment = {"ASSAY_HOME": str(home.root), "PATH": "", "PYTHONPATH": str(Path(__file__).parents[1])}
    children = [
        subprocess.Popen(list(map(str, command)), env=environment, stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]  # fmt: skip
    said = [child.communicate(timeout=120) for child in children]
    assert [child.returncode for child in children] == [0, 0], said
    done = [json.loads(out) for out, _ in said]
    assert sorted(len(one["new"]) for one in done) == [0, 2]
    assert len(list(home.transcripts.glob("*.jsonl"))) == 1
    assert len(kept(home)) == 2


def test_what_differs_is_shown(
    agent: Callable[..., str], theirs: Home, home: Home, exported: Path, site: Path
) -> None:
    there = json.loads(agent(home, "diff", exported, "--json", code=1))
    assert (len(there["there"]), there["here"], there["both"]) == (2, [], 0)
    agent(home, "import", exported, "-e", site)
    same = json.loads(agent(home, "diff", theirs.findings_db, "--json"))
    assert (same["here"], same["there"], same["both"], same["contradictions"]) == ([], [], 2, 0)


# Documents that are none


@pytest.mark.parametrize("command", ["import", "merge", "diff"])
def test_what_is_no_file_is_refused_in_one_line(
    agent: Callable[..., str], home: Home, tmp_path: Path, command: str
) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name in ("nowhere", ".", "pipe"):
        said = agent(home, command, tmp_path / name, code=2)
        assert len(said.splitlines()) == 1, said
        assert "no file" in said or "no plain file" in said


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no export"),
        ("{}", "no export"),
        ("[]", "no export"),
        ("\x00\x01", "no export"),
        ('{"format":"assay-findings","version":9,"findings":[\n]}\n', "newer"),
        ('{"format":"assay-findings","version":1,"findings":[\n', "breaks off"),
        ('{"format":"assay-findings","version":1,"findings":[\n]}\n{}\n', "behind its end"),
    ],
)
def test_a_document_that_is_none_is_refused_in_one_line(
    agent: Callable[..., str], home: Home, tmp_path: Path, text: str, says: str
) -> None:
    path = tmp_path / "given.json"
    path.write_text(text)
    said = agent(home, "import", path, code=2)
    assert says in said
    assert len(said.splitlines()) == 1, said


@pytest.mark.parametrize("indent", [None, 2])
def test_a_document_that_another_program_laid_out_anew_is_the_same(
    agent: Callable[..., str], home: Home, exported: Path, site: Path, indent: int | None
) -> None:
    exported.write_text(json.dumps(json.loads(exported.read_text()), indent=indent))
    done = json.loads(agent(home, "import", exported, "-e", site, "--json"))
    assert done["new"]
    assert not done["reports"]


@pytest.mark.parametrize("command", ["import", "merge", "diff"])
@pytest.mark.parametrize("given", ["nothing.json", "nothing.db", "folder", "loop"])
def test_a_file_that_cannot_be_read_is_said_so(
    agent: Callable[..., str], home: Home, tmp_path: Path, command: str, given: str
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "loop").symlink_to("loop")
    said = agent(home, command, tmp_path / given, code=2)
    assert len(said.splitlines()) == 1
    assert "unexpected" not in said


def test_an_export_goes_where_it_is_sent(
    agent: Callable[..., str], theirs: Home, exported: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    whole = exported.read_text()
    assert agent(theirs, "export", "-", "--all") == whole
    (tmp_path / "link").symlink_to("behind.json")
    agent(theirs, "export", "link", "--all")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "behind.json").read_text() == whole
    os.mkfifo(tmp_path / "pipe")
    end = os.open(tmp_path / "pipe", os.O_RDWR | os.O_NONBLOCK)
    try:
        agent(theirs, "export", "pipe", "--all", "--format", "csv")
        assert os.read(end, 1 << 16).startswith(b'"id"')
    finally:
        os.close(end)
    assert (tmp_path / "pipe").is_fifo()
    for place in ("nowhere/x.json", ".", "n" * 300):
        assert len(agent(theirs, "export", place, code=2).splitlines()) == 1


def test_what_is_no_finding_in_a_document_is_named(
    agent: Callable[..., str], home: Home, tmp_path: Path
) -> None:
    path = tmp_path / "given.json"
    deep = "[" * 50_000 + "]" * 50_000
    lines = ('{"finding": {}}', '{"finding": 1}', "7", "nothing", f'{{"finding": {deep}}}')
    path.write_text('{"format":"assay-findings","version":1,"findings":[\n' + ",\n".join(lines) + "\n]}\n")
    done = json.loads(agent(home, "import", path, "--json", code=1))
    assert [one["finding"] for one in done["refused"]] == [f"finding {n}" for n in range(1, 6)]


# For people


def test_a_spreadsheet_takes_nothing_for_a_formula(
    agent: Callable[..., str], theirs: Home, tmp_path: Path
) -> None:
    from agent.cli.findings_export import _record

    hostile = ["=HYPERLINK(1)", "+1", "-1", "@SUM", "\t=1", "\r\n=1", "|cmd", "%x", 'a"b', "a,b\nc"]
    (row,) = csv.reader([_record(hostile).rstrip("\r\n")])
    assert not any(cell[:1] in "=+-@|%\t\r" for cell in row)
    assert row[-2:] == ['a"b', "a,b c"]
    path = tmp_path / "out.csv"
    agent(theirs, "export", path, "--all")
    table = list(csv.DictReader(path.read_text("utf-8").splitlines()))
    assert {one["level"] for one in table} == {"static", "probe"}


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


def test_the_page_runs_nothing_and_asks_nobody(
    agent: Callable[..., str], theirs: Home, tmp_path: Path
) -> None:
    from agent.findings_page import page

    hostile = {"component": "<script>x</script>", "backend": '"><img src=x onerror=y>', "arch": "sm120",
               "verdict": None, "outcome": '" onclick="x', "because": None, "level": "probe", "id": "a" * 16,
               "status": "current", "sentence": "</summary><iframe>\u202e"}  # fmt: skip
    cited = {"a" * 16: [{"kind": "event", "transcript": "<b>", "event": 1, "text": "</pre><script>\x1b"}]}
    path = tmp_path / "out.html"
    agent(theirs, "export", path)
    for text in ("".join(page([hostile], cited, lambda _: "<i>")), path.read_text()):
        parser = _Tags()
        parser.feed(text)
        assert {tag for tag, _ in parser.tags} <= {
            "html", "head", "meta", "title", "style", "body", "h1", "p", "table", "thead", "tr", "th",
            "tbody", "td", "details", "summary", "pre",
        }  # fmt: skip
        names = {name for _, attributes in parser.tags for name in attributes}
        assert names <= {"lang", "charset", "http-equiv", "content", "name", "class", "colspan"}
        assert "default-src 'none'" in text.replace("&#x27;", "'")
        assert not re.search("[\x1b\u202e]", text)


def test_markdown_takes_foreign_text_for_text(agent: Callable[..., str], theirs: Home) -> None:
    said = agent(theirs, "export", "--all", "--format", "markdown")
    assert r"| fp4\_gemm | alpha | sm120 | blocked | static | superseded |" in said
    assert "def gate(major):" in said


def test_lines_of_a_capsule_must_be_those_it_names(
    agent: Callable[..., str], home: Home, exported: Path
) -> None:
    """Also where there is nothing to look them up in."""
    document = json.loads(exported.read_text())
    forge(document, "static", lambda one: line(one, "return major in (10, 12)"))
    for span in (one["capsule"]["spans"] for one in document["findings"]):
        span.update(dict.fromkeys(span, "return True"))
    write_export(exported, document)
    done = json.loads(agent(home, "import", exported, "--json", code=1))
    assert "in its capsule hash to something else" in done["refused"][0]["because"]
    assert kept(home) == {}
