"""Every layout of opencode made from one generated session says the same."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from program import ROOT

from memory.home import Home
from transcripts.imported.model import Event
from transcripts.imported.reader import Library
from transcripts.importers.importing import import_path

sys.path.append(str(ROOT / "benchmarks"))
from opencode_session import Generated, Generator, write_all

LAYOUTS = ("export", "share", "events", "storage", "old", "sqlite", "sqlite2")
OF_THE_LAYOUT = {"source", "layout", "origin", "records", "skipped"}
Everything = dict[str, list[Event]]
"""Session → its events, but where they stood."""


@pytest.fixture(scope="module")
def made() -> Generated:
    return Generator(segments=4, seed=3, children=4).session()


@pytest.fixture(scope="module")
def read(made: Generated, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Everything]:
    """What each layout gives."""
    found = {}
    for layout, path in write_all(made, tmp_path_factory.mktemp("opencode")).items():
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
    """Without what 2.x does not keep: retries, and of a summary its own id, time and model."""
    kept = []
    for event in events:
        notes = [note for note in event.get("notes", []) if note != "retried"]
        left = {"notes", *(("id", "at", "model") if "summary" in notes else ())}
        left |= {"ended"} if event["kind"] == "session" else set()
        kept.append({**{key: value for key, value in event.items() if key not in left}, "notes": notes})
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


def test_a_place_in_a_tree_leads_to_the_record(made: Generated, tmp_path: Path, home: Home) -> None:
    paths = write_all(made, tmp_path)
    import_path(home, paths["storage"], lambda value: value, pytest.fail)
    with Library(home) as library:
        calls = list(library.open(made.info["id"]).calls())
    known = {part["callID"]: part for _, parts in made.messages for part in parts if part["type"] == "tool"}
    for call in calls[:20]:
        place: dict[str, Any] = dict(call.source)
        data = (paths["storage"] / place["file"]).read_bytes()[place["offset"] :][: place["bytes"]]
        assert call.id is not None
        assert call.id.encode() in data
        assert known[call.id]["tool"] == call.tool
