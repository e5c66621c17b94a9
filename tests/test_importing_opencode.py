"""Every layout of opencode made from one generated session says the same."""

from __future__ import annotations

import json
import shutil
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from program import ROOT

from memory.home import Home
from transcripts.imported.model import Call, Event, Message
from transcripts.imported.reader import Library
from transcripts.importers.importing import import_path

sys.path.append(str(ROOT / "benchmarks"))
from opencode_session import Generated, Generator, write_all

LAYOUTS = ("export", "share", "events", "storage", "old", "sqlite", "sqlite2")
OF_THE_LAYOUT = {"source", "text_sources", "layout", "origin", "records", "skipped"}
Everything = dict[str, list[Event]]
"""Session → its events, but where they stood."""


@pytest.fixture(scope="module")
def made() -> Generated:
    return Generator(segments=4, seed=3, children=4).session()


@pytest.fixture(scope="module")
def paths(made: Generated, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Where each layout was written."""
    return write_all(made, tmp_path_factory.mktemp("opencode"))


@pytest.fixture(scope="module")
def read(paths: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Everything]:
    """What each layout gives."""
    found = {}
    for layout, path in paths.items():
        home = Home(tmp_path_factory.mktemp(layout))
        import_path(home, path, lambda value: value, pytest.fail)
        with Library(home) as library:
            found[layout] = {
                one.id: [
                    {key: value for key, value in event.items() if key not in OF_THE_LAYOUT}
                    for event in library.open(one.id).events()
                ]
                for one in library.sessions()
            }
    return found


def test_the_generated_session_has_what_was_asked_for(made: Generated) -> None:
    parts = [part for _, parts in made.messages for part in parts]
    states = [part["state"] for part in parts if part["type"] == "tool"]
    assert {"completed", "error"} == {state["status"] for state in states}
    assert any("compacted" in state["time"] for state in states)
    assert any(state.get("metadata", {}).get("interrupted") for state in states)
    assert {"retry", "file", "compaction", "reasoning"} <= {part["type"] for part in parts}
    assert len(made.children) == 4


@pytest.mark.parametrize("layout", LAYOUTS)
def test_each_layout_gives_the_same_events(layout: str, read: dict[str, Everything], made: Generated) -> None:
    expected = read["sqlite"] if layout != "export" else {made.info["id"]: read["sqlite"][made.info["id"]]}
    plain = as_kept_by_2 if layout == "sqlite2" else list
    assert read[layout].keys() == expected.keys()
    for session, events in read[layout].items():
        assert plain(events) == plain(expected[session])


def as_kept_by_2(events: list[Event]) -> list[Event]:
    """Without what 2.x does not keep: of a summary its own id and time."""
    kept = []
    for event in events:
        left = {"id", "at"} if "summary" in event.get("notes", ()) else set()
        left |= {"ended"} if event["kind"] == "session" else set()
        kept.append({key: value for key, value in event.items() if key not in left})
    return kept


def test_what_is_counted_is_what_was_generated(read: dict[str, Everything], made: Generated) -> None:
    end = read["sqlite"][made.info["id"]][-1]
    tools = [part["state"] for _, parts in made.messages for part in parts if part["type"] == "tool"]
    failed = [state for state in tools if state["status"] == "error" or state["metadata"].get("exit")]
    assert end["messages"] == len(made.messages)
    assert end["tool_calls"] == len(tools)
    assert end["failures"] == len(failed)
    assert end["segments"] == 4
    reverted = [info["id"] >= made.info["revert"]["messageID"] for info, _ in made.messages]
    assert end["dead"] == sum(reverted)
    for one in made.children:
        assert read["sqlite"][one.info["id"]][-1]["parent"] == made.info["id"]


def test_both_what_a_tool_returned_and_what_the_model_saw_are_kept(read: dict[str, Everything]) -> None:
    events = [event for events in read["storage"].values() for event in events]
    pruned = [event for event in events if event.get("shown") == "[Old tool result content cleared]"]
    assert pruned
    assert all(len(event["returned"]) > len(event["shown"]) for event in pruned)
    aborted = [event for event in events if event.get("status") == "aborted"]
    assert aborted
    assert all(event["returned"] != "Tool execution aborted" for event in aborted)


def test_a_place_in_a_tree_leads_to_the_record(made: Generated, paths: dict[str, Path], home: Home) -> None:
    import_path(home, paths["storage"], lambda value: value, pytest.fail)
    with Library(home) as library:
        calls = list(library.open(made.info["id"]).calls())
        message = next(
            one for one in library.open(made.info["id"]).messages() if one.text and one.text_sources
        )
    for place in message.text_sources:
        data = (paths["storage"] / place["file"]).read_bytes()[place["offset"] :][: place["bytes"]]
        assert json.loads(data)["text"] in f"{message.text}\n{message.thinking}"
    known = {part["callID"]: part for _, parts in made.messages for part in parts if part["type"] == "tool"}
    for call in calls[:20]:
        place: dict[str, Any] = dict(call.source)
        data = (paths["storage"] / place["file"]).read_bytes()[place["offset"] :][: place["bytes"]]
        assert call.id is not None
        assert call.id.encode() in data
        assert known[call.id]["tool"] == call.tool


def rows(home: Home, path: Path, *rows: tuple[str, dict[str, Any]]) -> tuple[list[Message], list[Call]]:
    """What is read of rows of 2.x: type and data."""
    with closing(sqlite3.connect(path)) as raw, raw:
        raw.execute("CREATE TABLE session_v2 (id TEXT, time_created INTEGER)")
        raw.execute(
            "CREATE TABLE session_message (id TEXT, session_id TEXT, type TEXT, seq INTEGER, data TEXT)"
        )
        raw.execute("INSERT INTO session_v2 VALUES ('ses_2', 1)")
        for seq, (kind, data) in enumerate(rows):
            row = (f"msg_{seq}", "ses_2", kind, seq, json.dumps({"time": {"created": 10**12 + seq}, **data}))
            raw.execute("INSERT INTO session_message VALUES (?, ?, ?, ?, ?)", row)
    import_path(home, path, lambda value: value, pytest.fail)
    with Library(home) as library:
        opened = library.open("ses_2")
        return list(opened.messages()), list(opened.calls())


def test_a_shell_of_2_says_its_exit_code_to_the_model_only(home: Home, tmp_path: Path) -> None:
    blocks = [
        {"type": "text", "text": "no such file"},
        {"type": "text", "text": "Command exited with code 2."},
    ]
    state = {"status": "completed", "input": {"command": "ls x"}, "content": blocks}
    late = {
        "status": "completed",
        "input": {"command": "sleep"},
        "content": blocks[:1],
        "metadata": {"timeout": True},
    }
    tools = [
        {"type": "tool", "id": f"c{number}", "name": "shell", "state": one, "time": {"created": 10**12}}
        for number, one in enumerate((state, late, {"status": "streaming", "input": '{"comm'}))
    ]
    _, calls = rows(home, tmp_path / "x.db", ("assistant", {"content": tools}))
    assert [(call.status, call.exit_code, call.returned) for call in calls] == [
        ("error", 2, "no such file"),
        ("error", None, "no such file"),
        ("unanswered", None, ""),
    ]
    assert calls[0].shown == "no such file\nCommand exited with code 2."
    assert (calls[2].raw_input, calls[2].shown) == ('{"comm', "[Tool execution was interrupted]")


def test_rows_of_2_that_are_no_answer(home: Home, tmp_path: Path) -> None:
    shell = {
        "command": "ls",
        "shellID": "s1",
        "output": {"output": "a.py"},
        "exit": 0,
        "time": {"created": 1, "completed": 2},
    }
    messages, calls = rows(
        home,
        tmp_path / "x.db",
        ("system", {"text": "be brief"}),
        (
            "user",
            {
                "text": "go",
                "files": [
                    {"data": "AAAA", "mime": "image/png", "source": {"type": "uri", "uri": "file:///a"}}
                ],
            },
        ),
        ("skill", {"text": "how to"}),
        ("idle", {"outcome": "succeeded"}),
        ("shell", shell),
        ("brand-new", {"x": 1}),
    )
    assert [(one.role, one.text, one.notes) for one in messages] == [
        ("system", "be brief", ()),
        ("user", "go", ()),
        ("user", "how to", ("synthetic",)),
        ("user", "", ()),
    ]
    assert messages[1].attachments == ({"mime": "image/png", "name": "file:///a", "bytes": 3},)
    assert [(call.command, call.returned, call.exit_code) for call in calls] == [("ls", "a.py", 0)]


def test_a_session_that_has_rows_of_both_is_read_once(
    made: Generated, paths: dict[str, Path], home: Home, tmp_path: Path
) -> None:
    path = Path(shutil.copyfile(paths["sqlite"], tmp_path / "both.db"))
    with closing(sqlite3.connect(path)) as raw, raw:
        raw.execute(
            "CREATE TABLE session_message (id TEXT, session_id TEXT, type TEXT, seq INTEGER, data TEXT)"
        )
        row = ("msg_x", made.info["id"], "user", 0, json.dumps({"text": "again"}))
        raw.execute("INSERT INTO session_message VALUES (?, ?, ?, ?, ?)", row)
    kept = import_path(home, path, lambda value: value, pytest.fail)
    assert max(one.session.messages for one in kept) == len(made.messages)


def test_what_was_said_before_an_export_is_passed_over(
    made: Generated, paths: dict[str, Path], home: Home, tmp_path: Path
) -> None:
    export = paths["export"]
    noisy = tmp_path / "noisy.json"
    noisy.write_bytes(b"Exporting session: ses_1\n\n" + export.read_bytes())
    (kept,) = import_path(home, noisy, lambda value: value, pytest.fail)
    assert kept.session.messages == len(made.messages)
    with Library(home) as library:
        place = next(library.open(kept.session.id).messages()).source
    data = noisy.read_bytes()[place["offset"] :][: place["bytes"]]
    assert json.loads(data)["info"]["id"] == made.messages[0][0]["id"]


def test_messages_of_the_first_versions_hold_their_parts(home: Home, tmp_path: Path) -> None:
    def invoked(id_: str, state: str, **more: Any) -> dict[str, Any]:
        call = {"state": state, "toolCallId": id_, "toolName": "bash", "args": {"command": "ls"}, **more}
        return {"type": "tool-invocation", "toolInvocation": call}

    beside = {
        "c1": {"title": "ls", "time": {"start": 5, "end": 9}},
        "c2": {"error": True, "message": "no such tool"},
    }
    assistant = {
        "modelID": "m",
        "providerID": "p",
        "path": {"cwd": "/w"},
        "tokens": {"input": 3, "output": 2},
    }
    messages = {
        "msg_b": ("user", [{"type": "text", "text": "go"}], {"time": {"created": 1}}),
        "msg_a": (
            "assistant",
            [
                {"type": "text", "text": "yes"},
                invoked("c1", "result", result="a.py"),
                invoked("c2", "result"),
                invoked("c3", "call"),
            ],
            {"time": {"created": 2}, "tool": beside, "assistant": assistant},
        ),
    }
    folder = tmp_path / "storage" / "session"
    (folder / "info").mkdir(parents=True)
    (folder / "info" / "ses_1.json").write_text(json.dumps({"id": "ses_1", "title": "old"}))
    (folder / "message" / "ses_1").mkdir(parents=True)
    for id_, (role, parts, metadata) in messages.items():
        document = {"id": id_, "role": role, "parts": parts, "metadata": {"sessionID": "ses_1", **metadata}}
        (folder / "message" / "ses_1" / f"{id_}.json").write_text(json.dumps(document))
    (kept,) = import_path(home, tmp_path / "storage", lambda value: value, pytest.fail)
    assert (kept.session.messages, kept.session.tool_calls, kept.session.failures) == (2, 3, 1)
    assert (kept.session.unanswered, kept.session.tokens) == (1, {"input": 3, "output": 2})
    with Library(home) as library:
        opened = library.open("ses_1")
        assert [one.text for one in opened.messages()] == ["go", "yes"]
        calls = list(opened.calls())
    assert [(call.cwd, call.status, call.returned) for call in calls] == [
        ("/w", "ok", "a.py"),
        ("/w", "error", "no such tool"),
        ("/w", "unanswered", ""),
    ]
