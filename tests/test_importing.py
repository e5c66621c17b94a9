"""Sessions of other agents: real samples counted by hand, and what stands where in them."""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from program import ROOT, agent, one_line

from memory.home import Home
from transcripts.imported.model import Session
from transcripts.imported.reader import Library
from transcripts.importers.importing import import_path

SAMPLES = Path(__file__).parent / "data" / "sessions"
EXPECTED = json.loads((SAMPLES / "expected.json").read_text(encoding="utf-8"))


def imported(home: Home, path: Path) -> Session:
    (kept,) = import_path(home, path, lambda value: value, lambda _: None)
    return kept.session


def at(source: dict[str, Any], folder: Path) -> bytes:
    """The bytes that a place names."""
    with (folder / source["file"]).open("rb") as file:
        file.seek(source["offset"])
        return file.read(source["bytes"])


@pytest.mark.parametrize("name", EXPECTED)
def test_a_real_sample_has_what_was_counted_by_hand(name: str) -> None:
    finished = agent("transcripts", "import", str(SAMPLES / name), "--json")
    (session,) = json.loads(finished.stdout)["sessions"]
    assert {key: session[key] for key in EXPECTED[name]} == EXPECTED[name]


@pytest.mark.parametrize("name", EXPECTED)
def test_every_event_says_which_bytes_it_was_read_from(name: str, home: Home) -> None:
    session = imported(home, SAMPLES / name)
    with Library(home) as library:
        events = list(library.open(session.id).events())
    assert [event["seq"] for event in events] == list(range(len(events)))
    for event in events:
        if event["kind"] in {"message", "call", "result"}:
            record = json.loads(at(event["source"], SAMPLES))
            known = event.get("id") or (event.get("text") or event.get("returned", "")).split("\n")[0]
            assert known in json.dumps(record, ensure_ascii=False).replace("\\r", "\r").replace('\\"', '"')


def test_importing_again_changes_nothing(home: Home) -> None:
    first = import_path(home, SAMPLES, lambda value: value, lambda _: None)
    before = {path.name: path.read_bytes() for path in home.imported.glob("*.jsonl")}
    again = import_path(home, SAMPLES, lambda value: value, lambda _: None)
    assert [one.change for one in first] == ["new"] * len(EXPECTED)
    assert [one.change for one in again] == ["same"] * len(EXPECTED)
    assert {path.name: path.read_bytes() for path in home.imported.glob("*.jsonl")} == before


def test_the_index_is_made_again_from_the_files(home: Home) -> None:
    import_path(home, SAMPLES, lambda value: value, lambda _: None)
    with Library(home) as library:
        before = [library.sessions(), library.search("missing_colon.py"), library.search("OOMKilled")]
    assert all(before)
    for path in home.root.glob("imported.db*"):
        path.unlink()
    with Library(home) as library:
        assert [library.sessions(), library.search("missing_colon.py"), library.search("OOMKilled")] == before


def test_calls_have_their_results(home: Home) -> None:
    session = imported(home, SAMPLES / "claude_code_small_session.json")
    with Library(home) as library:
        calls = list(library.open(session.id).calls())
    assert session.title == "Create a simple Python function to add two numbers"
    (failed,) = [call for call in calls if call.failed]
    assert (failed.tool, failed.command, failed.exit_code) == ("Bash", "python -m pytest tests/ -v", 1)
    assert "expected 5 but got None" in failed.returned
    assert [call.exit_code for call in calls if call.command and not call.failed] == [0, 0, 0, 0]


def test_what_is_no_session_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("nothing\n")
    one_line(agent("transcripts", "import", str(tmp_path / "notes.txt")), 2, "no known format", "opencode")
    one_line(agent("transcripts", "import", str(tmp_path / "gone")), 2, "there is no")
    one_line(agent("transcripts", "import", str(tmp_path)), 2, "no session found")


@pytest.mark.parametrize("order", [slice(None), slice(None, None, -1)])
def test_of_several_paths_those_that_can_be_are_imported_and_the_others_are_said(
    home: Home, tmp_path: Path, order: slice
) -> None:
    paths = [str(SAMPLES / next(iter(EXPECTED))), str(tmp_path / "gone"), str(tmp_path / "too")][order]
    finished = agent("transcripts", "import", *paths, "--json", home=home.root)
    assert finished.returncode == 2
    (line,) = finished.stderr.splitlines()
    assert line.startswith("agent: 2 of 3 paths not imported: there is no ")
    assert paths[1] in line
    assert str(tmp_path / "too") in line
    imported = [one["id"] for one in json.loads(finished.stdout)["sessions"]]
    with Library(home) as library:
        assert [one.id for one in library.sessions()] == imported
    assert len(imported) == 1


def test_imported_sessions_stand_apart_from_investigations(home: Home) -> None:
    assert agent("transcripts", "list", "--imported", "--json").stdout.split() == [
        "{",
        '"sessions":',
        "[]",
        "}",
    ]
    import_path(home, SAMPLES, lambda value: value, lambda _: None)
    listed = json.loads(agent("transcripts", "list", "--imported", "--json").stdout)["sessions"]
    assert {one["format"] for one in listed} == {one["format"] for one in EXPECTED.values()}
    assert json.loads(agent("transcripts", "list", "--json").stdout) == {"transcripts": []}
    assert json.loads(agent("findings", "list", "--json").stdout) == {"findings": [], "more": False}
    one_line(agent("transcripts", "show", "nobody"), 2, "no imported session")


def test_events_are_paged_by_number_segment_and_kind(home: Home) -> None:
    session = imported(home, SAMPLES / "claude_code_small_session.json").id
    shown = json.loads(
        agent("transcripts", "show", session[:14], "--from", "5", "--events", "3", "--json").stdout
    )
    assert [event["seq"] for event in shown["events"]] == [5, 6, 7]
    shown = json.loads(
        agent("transcripts", "show", session, "--segment", "2", "--tools-only", "--json").stdout
    )
    assert [(event["kind"], event["segment"]) for event in shown["events"]] == [("call", 2), ("result", 2)]
    lines = agent("transcripts", "show", session, "--segment", "2").stdout
    assert "Added multiply function!" in lines
    assert "Now edit the file" not in lines


def test_words_are_found_where_they_were_said(home: Home) -> None:
    import_path(home, SAMPLES, lambda value: value, lambda _: None)
    found = json.loads(agent("transcripts", "search", "exit", "code", "137", "--json").stdout)["matches"]
    assert {(one["kind"], one["session"].partition("-")[0]) for one in found} == {
        ("result", "openai_chat"),
        ("message", "openai_chat"),
    }
    for words, matches in (('"exit code"', 3), ('"code exit"', 0), ("OR exit", 1), ("NEAR(", 0)):
        assert len(json.loads(agent("transcripts", "search", words, "--json").stdout)["matches"]) == matches
    one_line(agent("transcripts", "search", "*"), 2, "nothing to search for")


def test_numbers_are_those_of_the_sessions(home: Home) -> None:
    import_path(home, SAMPLES, lambda value: value, lambda _: None)
    found = json.loads(agent("transcripts", "stats", "--json").stdout)
    for key in ("messages", "tool_calls", "failures", "segments"):
        assert found["totals"][key] == sum(one[key] for one in EXPECTED.values())
    assert sum(one["calls"] for one in found["tools"]) == found["totals"]["tool_calls"]
    assert sum(one["failed"] for one in found["tools"]) == found["totals"]["failures"]


MINE = """
name = "mine"
def recognises(source):
    return source.head.startswith(b"MINE ")
def read(source, sink):
    session = sink.session(name, "1", layout="text")
    asked = session.message("user", "go", source.place(0, 4))
    call = session.call("bash", {"command": "ls"}, source.place(0, 4), message=asked, command="ls")
    session.result(call, source.place(0, 4), returned="a.py", exit_code=3)
    sink.close(session)
"""


def test_a_format_of_another_distribution_is_found_by_its_entry_point(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(MINE, encoding="utf-8")
    info = tmp_path / "mine-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[assay.importers]\nmine = mine\n")
    (tmp_path / "x.txt").write_text("MINE own text\n")
    more = {"PYTHONPATH": f"{ROOT}{os.pathsep}{tmp_path}"}
    finished = agent("transcripts", "import", str(tmp_path / "x.txt"), "--json", **more)
    (session,) = json.loads(finished.stdout)["sessions"]
    assert (session["id"], session["format"], session["failures"]) == ("1", "mine", 1)
    (info / "entry_points.txt").write_text("[assay.importers]\nmine = nowhere\n")
    one_line(agent("transcripts", "import", str(tmp_path / "x.txt"), **more), 2, "mine", "cannot be loaded")


GOLDEN = Path(__file__).parent / "golden" / "imported"


@pytest.mark.parametrize("golden", sorted(GOLDEN.glob("*.jsonl")), ids=lambda path: path.name)
def test_the_events_of_a_sample_stay_what_they_are(golden: Path, home: Home) -> None:
    """The format is a contract: what was written before is read by later programs, and stands in reports."""
    (sample,) = SAMPLES.glob(f"{golden.stem}.*")
    (kept,) = import_path(home, sample, lambda value: value, lambda _: None)
    *events, end = kept.path.read_text(encoding="utf-8").splitlines()
    *expected, expected_end = golden.read_text(encoding="utf-8").splitlines()
    assert events == expected
    assert json.loads(end) == {**json.loads(expected_end), "origin": str(sample)}


def test_a_session_that_grows_is_found_by_its_newest_words_only(home: Home, tmp_path: Path) -> None:
    path = tmp_path / "grows.jsonl"
    lines: list[str] = []
    for round_ in range(12):
        for number in range(20):
            record = {"type": "user", "uuid": f"{round_}-{number}", "sessionId": "grows"}
            content = f"word{round_} often"
            lines.append(json.dumps({**record, "message": {"role": "user", "content": content}}))
        path.write_text("\n".join(lines), encoding="utf-8")
        (kept,) = import_path(home, path, lambda value: value, lambda _: None)
        assert kept.change == ("changed" if round_ else "new")
        with Library(home) as library:
            assert library.open("grows").session.messages == len(lines)
            assert len(library.search("often", limit=1000)) == len(lines)
            assert len(library.search(f"word{round_}", limit=1000)) == 20
    with closing(sqlite3.connect(home.imported_db)) as raw:
        (texts,) = raw.execute("SELECT count(*) FROM texts_docsize").fetchone()
    assert texts < sum(range(20, 260, 20)), "words of nobody were let go"
