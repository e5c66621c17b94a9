"""The database is what the transcripts say: deleted, damaged or outdated, it comes back the same."""

from __future__ import annotations

import io
import json
import os
import random
import select
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest
from known import finding, rows, write

import memory.database
import memory.store
from agent.cli.main import run
from memory.clock import FixedClock
from memory.home import Home
from memory.migrations import MIGRATIONS, NEWEST
from memory.store import Store
from memory.views import Views
from memory.vocabulary import Verdict
from transcripts.catch_up import Follower, catch_up, rebuild_home
from transcripts.events import Concluded, Noted, Resumed
from transcripts.log import Log

ROOT = Path(__file__).parents[1]
UNKNOWN = finding(verdict=Verdict.UNKNOWN, because=None)
Finished = subprocess.CompletedProcess[str]


PROGRAM = """
import os, resource, sys
import agent.cli.findings_read, agent.cli.findings_rebuild, transcripts.catch_up
from agent.cli.main import run
{first}
sys.exit(run(sys.argv[1:]))
"""


def findings(home: Home, *args: str, first: str | None = None) -> Finished:
    """``agent findings ARGS``; in a process of its own where ``first``, a line of Python, is done there."""
    if first is not None:
        return subprocess.run(
            [sys.executable, "-c", PROGRAM.format(first=first), "findings", *args],
            capture_output=True, text=True, timeout=120, check=False,
            env={**os.environ, "PYTHONPATH": str(ROOT), "ASSAY_HOME": str(home.root)},
        )  # fmt: skip
    said, told = io.StringIO(), io.StringIO()
    assert os.environ["ASSAY_HOME"] == str(home.root)
    with redirect_stdout(said), redirect_stderr(told):
        code = run(["findings", *args])
    return subprocess.CompletedProcess(args, code, said.getvalue(), told.getvalue())


def document(finished: Finished, code: int = 0) -> dict[str, Any]:
    assert finished.returncode == code, finished.stderr
    return dict(json.loads(finished.stdout))


def one_line(finished: Finished, code: int, *words: str) -> None:
    assert finished.returncode == code, finished.stderr
    *progress, last = finished.stderr.splitlines()
    assert all(line.startswith("· ") for line in progress), finished.stderr
    assert all(word in last for word in words), last


@pytest.fixture
def known(home: Home) -> Home:
    """A home of three transcripts, one of which says again what another said; its database is up to date."""
    for day, name in enumerate(("c", "a", "b"), start=1):
        write(home, name, [finding(), finding(backend=name)] if day != 2 else [UNKNOWN], day)
    with Store(home) as store:
        assert catch_up(store, home.transcripts) == []
    return home


def test_a_deleted_database_is_rebuilt_identical(known: Home) -> None:
    first = document(findings(known, "rebuild", "--json", first="pass"))
    assert first["same"]
    assert (first["transcripts"], first["events"], first["problems"]) == (3, 20, [])
    listed = findings(known, "list", "--all", "--json").stdout
    before = rows(known)
    for left in (b"", os.urandom(40_000)):
        for path in known.root.glob("findings.db*"):
            path.unlink()
        if left:  # the log of writes of a database that is gone
            known.findings_db.with_name("findings.db-wal").write_bytes(left)
        again = document(findings(known, "rebuild", "--json"))
        assert (again["before"], again["aside"]) == (None, None)
        assert again["after"] == first["after"]
        assert rows(known) == before
    known.findings_db.unlink()
    assert findings(known, "list", "--all", "--json", first="pass").stdout == listed
    assert document(findings(known, "rebuild", "--json"))["before"] == first["after"]


def test_rebuild_shows_each_table(known: Home) -> None:
    finished = findings(known, "rebuild")
    assert finished.returncode == 0
    *tables, total = [line.split() for line in finished.stdout.splitlines()]
    assert total == ["3", "transcripts,", "20", "events"]
    assert [(name, said) for name, _, _, said in tables] == [
        (name, "same")
        for name in (
            "evidence",
            "experiments",
            "findings",
            "folded",
            "hypotheses",
            "investigations",
            "measurements",
            "positions",
            "sightings",
        )
    ]
    assert all(before == after for _, before, after, _ in tables)


def test_hashes_do_not_depend_on_order_or_history(known: Home, tmp_path: Path) -> None:
    other = Home(tmp_path / "other").prepare()
    with Store(other) as store, Store(known) as here:
        for name in ("b", "c", "a"):
            shutil.copyfile(known.transcripts / f"{name}.jsonl", other.transcripts / f"{name}.jsonl")
            catch_up(store, other.transcripts)
        assert store.content() == here.content()
        gone = write(other, "gone", [finding(backend="gone")], 9)
        catch_up(store, other.transcripts)
        assert store.content() != here.content()
        gone.unlink()
        catch_up(store, other.transcripts)
        assert store.content() == here.content()
    with closing(sqlite3.connect(other.findings_db)) as connection:
        connection.execute("UPDATE sightings SET at = at || 'x' WHERE transcript = 'a'")
        connection.commit()
    with Store(other) as store, Store(known) as here:
        differ = {name for name, digest in here.content().items() if store.content()[name] != digest}
    assert differ == {"sightings"}


def test_rows_that_the_transcripts_do_not_say_are_found_and_made_right(known: Home) -> None:
    before = rows(known)
    with closing(sqlite3.connect(known.findings_db)) as connection:
        connection.execute("UPDATE findings SET verdict = 'no_static_obstacle'")
        connection.execute("DELETE FROM sightings WHERE transcript = 'b'")
        connection.commit()
    finished = findings(known, "rebuild", "--json")
    said = document(finished, 1)
    assert not said["same"]
    assert [name for name in said["after"] if said["after"][name] != said["before"][name]] == [
        "findings",
        "sightings",
    ]
    assert "other rows than the transcripts say stood in findings, sightings" in finished.stderr
    assert rows(known) == before


# Logs that change under the database


def test_a_replaced_transcript_has_its_own_rows_at_once(known: Home) -> None:
    path = known.transcripts / "b.jsonl"
    size = path.stat().st_size
    path.unlink()
    write(known, "b", [finding(), finding(backend="z")], 3)
    assert path.stat().st_size == size, "it is found by what it says, not by its length"
    finished = findings(known, "list", "--json")
    assert {row["backend"] for row in document(finished)["findings"]} == {"alpha_kernels", "c", "z"}
    assert "gone: b; making all rows again" in finished.stderr
    assert "making" not in findings(known, "list").stderr
    assert document(findings(known, "rebuild", "--json"))["same"]


@pytest.mark.parametrize("how", ["removed", "cut", "empty folder", "no folder"])
def test_what_a_transcript_no_longer_says_is_not_known(known: Home, how: str) -> None:
    path = known.transcripts / "b.jsonl"
    match how:
        case "removed":
            path.unlink()
        case "cut":
            lines = path.read_bytes().splitlines(keepends=True)
            path.write_bytes(b"".join(lines[:-3]))  # its findings and its end
        case _:
            shutil.rmtree(known.transcripts)
            if how == "empty folder":
                known.transcripts.mkdir()
    left = {row["backend"] for row in document(findings(known, "list", "--all", "--json"))["findings"]}
    assert left == (set() if "folder" in how else {"alpha_kernels", "c"})
    assert document(findings(known, "rebuild", "--json"))["same"]


def test_a_restored_transcript_brings_its_rows_back(known: Home) -> None:
    before = rows(known)
    path = known.transcripts / "b.jsonl"
    whole = path.read_bytes()
    path.unlink()
    assert findings(known, "list").returncode == 0
    assert rows(known) != before
    path.write_bytes(whole)
    assert findings(known, "list").returncode == 0
    assert rows(known) == before


def test_a_damaged_transcript_hides_no_other(known: Home) -> None:
    path = known.transcripts / "a.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"because":"it is open"', b'"because":"it is 0pen"'))
    (known.transcripts / "mail.jsonl").write_text('{"from": "someone"}\n')
    (known.transcripts / "empty.jsonl").touch()
    (known.transcripts / "folder.jsonl").mkdir()
    os.mkfifo(known.transcripts / "pipe.jsonl")
    (known.transcripts / "link.jsonl").symlink_to("nowhere")
    (known.transcripts / "circle.jsonl").symlink_to("circle.jsonl")
    finished = findings(known, "rebuild", "--json")
    problems = document(finished, 1)["problems"]
    assert [problem.partition(".jsonl")[0].rpartition("/")[2] for problem in problems] == [
        "a",
        "empty",
        "mail",
    ]
    assert "event 2" in problems[0]
    warnings = [line for line in finished.stderr.splitlines() if line.startswith("· warning: ")]
    assert warnings == [f"· warning: {problem}" for problem in problems]
    listed = findings(known, "list", "--all", "--json")
    assert {row["backend"] for row in document(listed)["findings"]} == {"alpha_kernels", "b", "c"}
    assert [line for line in listed.stderr.splitlines() if "event 2" in line]


def test_what_is_resumed_is_not_concluded_until_it_is_again(known: Home) -> None:
    def investigation() -> tuple[Any, ...]:
        found = Views(known).investigation("a")
        return tuple(
            found[name]
            for name in ("driver", "exit_reason", "exit_code", "summary", "concluded_at", "events")
        )

    with (
        Log.open(known.transcripts / "a.jsonl", FixedClock("2026-02-01T00:00:00.000Z")) as log,
        Follower(known, pytest.fail) as follower,
    ):
        follow = follower.follow(log.path)
        assert investigation() == ("planner", "answered", 0, "done", "2026-01-02T00:00:00.005Z", 6)
        follow(log.append(Resumed(program="p", driver="llm")))
        assert investigation() == ("llm", None, None, None, None, 7)
        follow(log.append(Noted(text="n")))
        follow(log.append(Concluded(exit_reason="none_viable", exit_code=1, summary="s")))
    assert investigation() == ("llm", "none_viable", 1, "s", "2026-02-01T00:00:00.002Z", 9)
    assert rebuild_home(known).same


# A file that is no database any more


def flipped(path: Path) -> None:
    """A page that holds findings is not what it was."""
    data = bytearray(path.read_bytes())
    at = data.index(b'"source_evidence"') // 4096 * 4096
    data[at : at + 100] = bytes(reversed(data[at : at + 100]))
    path.write_bytes(data)


def half(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2 // 4096 * 4096 + 700])


def folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def foreign(path: Path, version: int = 0) -> None:
    path.unlink()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE findings (colour TEXT)")
        connection.execute(f"PRAGMA user_version = {version}")
        connection.commit()


def numbered(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[60] = 0x7F  # the schema's number is no number of a schema
    path.write_bytes(data)


def undecodable(path: Path) -> None:
    """No structure of the file is wrong, but a text in it."""
    path.write_bytes(path.read_bytes().replace(b'"source_evidence"', b'"source\xffevidence"'))


DAMAGES = {
    "undecodable": undecodable,
    "flipped": flipped,
    "half": half,
    "text": lambda path: path.write_text("these are my findings\n" * 300),
    "header": lambda path: path.write_bytes(b"SQLite format 3\0" + bytes(5000)),
    "folder": folder,
    "another program's": foreign,
    "another program's, of our number": lambda path: foreign(path, NEWEST),
    "number": numbered,
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_database_is_said_and_put_aside(known: Home, damage: str) -> None:
    before = rows(known)
    path = known.findings_db
    DAMAGES[damage](path)
    one_line(findings(known, "list"), 3, str(path), "is damaged", "agent findings rebuild")
    assert not list(known.root.glob("*.damaged*")), "only who asks for it has a file moved"
    made = findings(known, "rebuild", "--json")
    said = document(made)
    assert (said["before"], said["aside"]) == (None, f"{path}.damaged-1")
    assert "it is kept as findings.db.damaged-1" in made.stderr
    assert Path(said["aside"]).exists()
    assert rows(known) == before
    DAMAGES[damage](path)
    assert rebuild_home(known).aside == path.with_name("findings.db.damaged-2")


def test_an_empty_file_is_a_new_database(known: Home) -> None:
    before = rows(known)
    known.findings_db.write_bytes(b"")
    listed = findings(known, "list")
    assert listed.returncode == 0
    assert "damaged" not in listed.stderr
    assert rows(known) == before


def test_a_newer_database_is_refused_untouched(known: Home) -> None:
    with closing(sqlite3.connect(known.findings_db)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
        connection.execute(f"PRAGMA user_version = {NEWEST + 1}")
    content = known.findings_db.read_bytes()
    for args in (["list"], ["show", "ab"], ["rebuild"]):
        one_line(findings(known, *args), 3, f"schema {NEWEST + 1}", "upgrade")
    said: list[str] = []
    with Follower(known, said.append) as follower:
        follower.follow(known.transcripts / "a.jsonl")
    assert len(said) == 1
    assert known.findings_db.read_bytes() == content
    assert [path.name for path in known.root.glob("findings.db*")] == ["findings.db"]


def test_an_older_database_is_migrated_and_says_what_the_transcripts_say(known: Home) -> None:
    before = rows(known)
    with Store(known) as store:
        folded = [(name, *at) for name, at in store.all_folded().items()]
    for version in range(1, NEWEST):
        for path in known.root.glob("findings.db*"):
            path.unlink()
        with closing(sqlite3.connect(known.findings_db)) as connection:
            for step in MIGRATIONS[:version]:
                for statement in step:
                    connection.execute(statement)
            connection.executemany("INSERT INTO folded VALUES (?, ?, ?, ?)", folded)
            connection.execute(f"PRAGMA user_version = {version}")
            connection.commit()
        assert findings(known, "list").returncode == 0
        assert rows(known) == before


# In the middle of things


AGAIN_AND_AGAIN = """
import sys
from pathlib import Path
from memory.home import Home
from transcripts.catch_up import rebuild_home
home = Home(Path(sys.argv[1]))
while True:
    assert rebuild_home(home).problems == ()
    print("made", flush=True)
"""


def test_kill_9_while_rows_are_made_again(known: Home) -> None:
    for day in range(1, 20):
        write(known, f"t{day}", [finding(backend=f"b{day}")], day)
    rebuild_home(known)
    before = rows(known)
    chance = random.Random("kill")
    for _ in range(3):
        child = subprocess.Popen(
            [sys.executable, "-c", AGAIN_AND_AGAIN, str(known.root)],
            env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        with child:
            assert child.stdout is not None
            assert child.stdout.readline() == "made\n"
            select.select([], [], [], chance.random() / 10)
            child.kill()
        assert child.returncode == -signal.SIGKILL
        assert rows(known) == before
    assert len(document(findings(known, "list", "--json"))["findings"]) == 22
    assert document(findings(known, "rebuild", "--json"))["same"]


def test_nobody_reads_half_of_the_rows(known: Home) -> None:
    views = Views(known)
    whole = [row["id"] for row in views.findings(statuses=())]
    seen: list[list[str]] = []
    with Store(known) as store:
        store._raw.set_trace_callback(
            lambda _: seen.append([row["id"] for row in views.findings(statuses=())])
        )
        from transcripts.catch_up import rebuild

        rebuild(store, known.transcripts, lambda _: None)
        store._raw.set_trace_callback(None)
    assert seen
    assert all(one == whole for one in seen)


def test_a_database_that_another_holds_is_said(known: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory.database, "BUSY_MS", 100)
    before = rows(known)
    with closing(sqlite3.connect(known.findings_db, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(memory.store.StoreError, match="being written by another process") as caught:
            rebuild_home(known)
        assert caught.value.exit_code == 4
        other.execute("ROLLBACK")
    assert rows(known) == before
    assert rebuild_home(known).same


SMALL = "resource.setrlimit(resource.RLIMIT_FSIZE, ({0}, {0}))"
"""As on a full disk: no file grows past this."""
ANOTHER = "os.getuid() or os.setuid(65534)"
"""For root every file can be read and written."""


def test_a_full_disk_is_said_and_what_is_there_is_shown(known: Home) -> None:
    for number in range(40):
        write(known, f"more{number}", [finding(backend=f"more{number}")], 4)
    listed = findings(known, "list", "--json", first=SMALL.format(40_000))
    assert len(document(listed, 4)["findings"]) < 43
    (warning,) = [line for line in listed.stderr.splitlines() if "warning" in line]
    assert "40 transcripts are not taken into account" in warning
    one_line(findings(known, "rebuild", first=SMALL.format(40_000)), 4, "cannot write to", "findings.db")
    assert len(document(findings(known, "list", "--json"))["findings"]) == 43
    assert rebuild_home(known).same


def test_a_full_disk_has_no_room_for_a_database(home: Home) -> None:
    write(home, "a", [finding()])
    none = SMALL.format(0)
    listed = findings(home, "list", first=none)
    assert (listed.returncode, listed.stdout) == (4, "")
    one_line(findings(home, "rebuild", first=none), 4, "cannot write to", "findings.db")
    assert len(document(findings(home, "list", "--json"))["findings"]) == 1


def test_a_home_that_cannot_be_written_shows_what_is_there() -> None:
    with tempfile.TemporaryDirectory() as name:  # the folders of pytest are its user's alone
        home = Home(Path(name) / "home").prepare()
        write(home, "a", [finding()])
        with Store(home) as store:
            catch_up(store, home.transcripts)
        write(home, "b", [finding(backend="b")])
        paths = [Path(name), home.root, *home.root.rglob("*")]
        for path in paths:
            path.chmod(0o555)
        try:
            listed = findings(home, "list", "--json", first=ANOTHER)
            assert [row["backend"] for row in document(listed, 3)["findings"]] == ["alpha_kernels"]
            assert "set ASSAY_HOME" in listed.stderr
            assert "1 transcripts are not taken into account" in listed.stderr
            one_line(findings(home, "rebuild", first=ANOTHER), 3, "set ASSAY_HOME")
            home.findings_db.chmod(0o000)
            one_line(findings(home, "rebuild", first=ANOTHER), 3, "cannot", "findings.db")
        finally:
            for path in paths:
                if path.exists():
                    path.chmod(0o755)
