"""Claude Code's records: one answer over several, branches, subagents, compactions, how calls ended."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from memory.home import Home
from transcripts.imported.model import Call, Message, Session
from transcripts.imported.reader import Library
from transcripts.importers.importing import import_path

NAME = "0f0e0d0c-0000-4000-8000-000000000000"


class Writer:
    """Lines of a session; each record hangs on the one before unless it is told otherwise."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.last: str | None = None

    def add(self, type_: str, uuid: str, *, parent: str | None = "", **more: Any) -> None:
        up = self.last if parent == "" else parent
        record = {
            "type": type_,
            "uuid": uuid,
            "parentUuid": up,
            "sessionId": NAME,
            "isSidechain": False,
            **more,
        }
        self.lines.append(json.dumps({"timestamp": f"2026-01-01T00:00:{len(self.lines):02}Z", **record}))
        self.last = uuid

    def user(self, uuid: str, content: Any, **more: Any) -> None:
        self.add("user", uuid, message={"role": "user", "content": content}, **more)

    def answer(self, uuid: str, id_: str, *content: dict[str, Any], **more: Any) -> None:
        usage = {"input_tokens": 10, "output_tokens": 3}
        message = {"id": id_, "role": "assistant", "model": "m", "content": list(content), "usage": usage}
        self.add("assistant", uuid, message=message, **more)


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


def call(id_: str, command: str, tool: str = "Bash") -> dict[str, Any]:
    return {"type": "tool_use", "id": id_, "name": tool, "input": {"command": command}}


def result(id_: str, content: str, *, failed: bool = False) -> list[dict[str, Any]]:
    return [{"type": "tool_result", "tool_use_id": id_, "content": content, "is_error": failed}]


@pytest.fixture
def writer() -> Writer:
    return Writer()


def read(home: Home, writer: Writer, tmp_path: Path) -> dict[str, tuple[Session, list[Message], list[Call]]]:
    """Every session of the file, by its id."""
    path = tmp_path / f"{NAME}.jsonl"
    path.write_text("\n".join(writer.lines) + "\n", encoding="utf-8")
    import_path(home, path, lambda value: value, pytest.fail)
    with Library(home) as library:
        opened = [library.open(one.id) for one in library.sessions()]
        return {one.session.id: (one.session, list(one.messages()), list(one.calls())) for one in opened}


def test_an_answer_over_several_records_is_one_message(home: Home, writer: Writer, tmp_path: Path) -> None:
    writer.user("u1", "go")
    writer.answer("a1", "msg_1", {"type": "thinking", "thinking": "hm"})
    writer.answer("a2", "msg_1", text("I look."))
    writer.answer("a3", "msg_1", call("t1", "ls"))
    writer.answer("a4", "msg_1", call("t2", "pwd"))
    writer.user("r1", result("t1", "a.py"), parent="a3")
    writer.user("r2", result("t2", "/root"), parent="a4")
    writer.answer("a5", "msg_2", text("Done."))
    session, messages, calls = read(home, writer, tmp_path)[NAME]
    assert [one.role for one in messages] == ["user", "assistant", "tool", "tool", "assistant"]
    assert (messages[1].text, messages[1].thinking) == ("I look.", "hm")
    assert session.tokens == {"input": 20, "output": 6}
    assert {one.message for one in calls} == {messages[1].seq}
    assert [(one.command, one.returned, one.exit_code, one.live) for one in calls] == [
        ("ls", "a.py", 0, True),
        ("pwd", "/root", 0, True),
    ]
    assert session.dead == 0


def test_calls_side_by_side_are_live_wherever_the_next_answer_hangs(
    home: Home, writer: Writer, tmp_path: Path
) -> None:
    writer.user("u1", "go")
    writer.answer("a1", "msg_1", call("t1", "ls"))
    writer.answer("a2", "msg_1", call("t2", "pwd"))
    writer.user("r1", result("t1", "a.py"), parent="a1")
    writer.user("m1", "a reminder", parent="r1", isMeta=True)
    writer.user("r2", result("t2", "/root"), parent="a2")
    writer.answer("a3", "msg_2", text("Done."), parent="r1")
    session, _, calls = read(home, writer, tmp_path)[NAME]
    assert (session.dead, [one.live for one in calls]) == (0, [True, True])


def test_an_answer_that_goes_on_after_a_result_is_still_one(
    home: Home, writer: Writer, tmp_path: Path
) -> None:
    writer.user("u1", "go")
    writer.answer("a1", "msg_1", call("t1", "ls"))
    writer.user("r1", result("t1", "a.py"))
    writer.answer("a2", "msg_1", text("and more"), call("t2", "pwd"))
    session, _, calls = read(home, writer, tmp_path)[NAME]
    assert (session.messages, session.tool_calls, session.unanswered) == (3, 2, 1)
    assert len({one.message for one in calls}) == 1
    assert session.tokens == {"input": 10, "output": 3}


def test_what_was_rewound_is_kept_and_is_not_live(home: Home, writer: Writer, tmp_path: Path) -> None:
    writer.user("u1", "go")
    writer.answer("a1", "msg_1", text("first"))
    writer.user("u2", "a wrong way")
    writer.answer("a2", "msg_2", call("t1", "rm x"))
    writer.user("r1", result("t1", ""))
    writer.user("u3", "another way", parent="a1")
    writer.answer("a3", "msg_3", text("better"))
    session, messages, calls = read(home, writer, tmp_path)[NAME]
    assert session.messages == 7
    assert session.dead == 3
    assert [one.text for one in messages if one.live] == ["go", "first", "another way", "better"]
    assert [one.live for one in calls] == [False]


@pytest.mark.parametrize("circle", [["u1"], ["a1", "u1"]])
def test_parents_in_a_circle_end(circle: list[str], home: Home, writer: Writer, tmp_path: Path) -> None:
    writer.user("u1", "go", parent=circle[0])
    writer.answer("a1", "msg_1", text("yes"), parent=circle[-1])
    writer.user("u2", "on")
    session, messages, _ = read(home, writer, tmp_path)[NAME]
    assert (session.messages, len(messages)) == (3, 3)


def test_a_compaction_begins_a_segment_once(home: Home, writer: Writer, tmp_path: Path) -> None:
    writer.user("u1", "go")
    writer.answer("a1", "msg_1", text("yes"))
    writer.add(
        "system", "c1", parent=None, logicalParentUuid="a1", subtype="compact_boundary",
        compactMetadata={"trigger": "auto", "preTokens": 9},
    )  # fmt: skip
    writer.user("s1", "a summary", isCompactSummary=True)
    writer.user("u2", "on")
    session, messages, _ = read(home, writer, tmp_path)[NAME]
    assert session.segments == 2
    assert [(one.segment, one.notes) for one in messages[2:]] == [(2, ("summary",)), (2, ())]
    assert session.dead == 0


def test_a_file_that_begins_with_a_summary_has_one_segment(
    home: Home, writer: Writer, tmp_path: Path
) -> None:
    writer.user("s1", "a summary of another file", isCompactSummary=True)
    writer.user("u2", "on")
    assert read(home, writer, tmp_path)[NAME][0].segments == 1


def test_a_subagent_is_a_session_of_its_own(home: Home, writer: Writer, tmp_path: Path) -> None:
    writer.user("u1", "go")
    task = {"type": "tool_use", "id": "t1", "name": "Task", "input": {"prompt": "look into it"}}
    writer.answer("a1", "msg_1", task)
    writer.user("s1", "look into it", parent=None, isSidechain=True)
    writer.answer("s2", "msg_2", call("t2", "ls"), isSidechain=True)
    writer.user("r1", result("t1", "found"), parent="a1")
    found = read(home, writer, tmp_path)
    assert set(found) == {NAME, f"{NAME}.side-1"}
    child, messages, _ = found[f"{NAME}.side-1"]
    assert (child.parent, len(messages)) == (NAME, 2)
    (task_call,) = found[NAME][2]
    assert task_call.child == child.id
    assert found[NAME][0].messages == 3


def test_a_subagent_by_its_id_is_the_same_in_a_file_of_its_own(
    home: Home, writer: Writer, tmp_path: Path
) -> None:
    writer.user("s1", "look", isSidechain=True, agentId="b7")
    (session, _, _) = read(home, writer, tmp_path)[f"{NAME}.agent-b7"]
    assert session.parent == NAME


@pytest.mark.parametrize(
    ("shown", "failed", "twin", "status", "code"),
    [
        ("fine", False, {"stdout": "fine", "stderr": ""}, "ok", 0),
        ("Exit code 3\nno", True, "Error: Exit code 3\nno", "error", 3),
        ("Exit code: 1", False, {"stdout": "Exit code: 1"}, "ok", 0),
        ("[Request interrupted by user for tool use]", True, None, "aborted", None),
        (
            "The user doesn't want to proceed with this tool use.",
            True,
            "User rejected tool use",
            "rejected",
            None,
        ),
        ("started", False, {"stdout": "", "backgroundTaskId": "b1"}, "ok", None),
    ],
)
def test_how_a_call_ended(
    shown: str,
    failed: bool,
    twin: Any,
    status: str,
    code: int | None,
    home: Home,
    writer: Writer,
    tmp_path: Path,
) -> None:
    writer.user("u1", "go")
    writer.answer("a1", "msg_1", call("t1", "make"))
    writer.user("r1", result("t1", shown, failed=failed), toolUseResult=twin)
    session, _, (ended,) = read(home, writer, tmp_path)[NAME]
    assert (ended.status, ended.exit_code, session.failures) == (status, code, int(status != "ok"))


def test_results_that_were_cleared_keep_what_was_returned(home: Home, writer: Writer, tmp_path: Path) -> None:
    writer.user("u1", "go")
    writer.answer("a1", "msg_1", call("t1", "cat big"))
    writer.user("r1", result("t1", "b…"), toolUseResult={"stdout": "big", "stderr": ""})
    writer.add(
        "system", "m1", subtype="microcompact_boundary", microcompactMetadata={"compactedToolIds": ["t1"]}
    )
    _, _, (cleared,) = read(home, writer, tmp_path)[NAME]
    assert (cleared.returned, cleared.shown) == ("big", "[Old tool result content cleared]")


def test_what_is_not_known_is_kept_and_counted(home: Home, writer: Writer, tmp_path: Path) -> None:
    writer.user("u1", "go")
    writer.add("progress", "p1", data={"message": {"type": "user"}})
    writer.add("brand-new", "n1", payload_of_it=[1])
    writer.lines += ["{torn", "42", writer.lines[0]]
    session, _, _ = read(home, writer, tmp_path)[NAME]
    assert session.skipped == {"brand-new": 1, "duplicate": 1, "malformed": 2, "progress": 1}
    assert session.records == 6
    with Library(home) as library:
        (kept,) = library.open(NAME).events(kinds=("other",))
    assert kept["record"]["payload_of_it"] == [1]


def test_sessions_that_lie_among_each_other_are_told_apart(
    home: Home, writer: Writer, tmp_path: Path
) -> None:
    other = Writer()
    writer.user("u1", "go")
    other.user("x1", "someone else", sessionId="other")
    writer.answer("a1", "msg_1", text("yes"))
    other.answer("x2", "msg_9", text("indeed"), sessionId="other")
    writer.lines = [line for pair in zip(writer.lines, other.lines, strict=True) for line in pair]
    found = read(home, writer, tmp_path)
    assert {name: [one.text for one in messages] for name, (_, messages, _) in found.items()} == {
        NAME: ["go", "yes"],
        "other": ["someone else", "indeed"],
    }


def test_a_session_that_goes_on_under_another_name_is_one(home: Home, writer: Writer, tmp_path: Path) -> None:
    writer.user("u1", "go", sessionId="before")
    writer.answer("a1", "msg_1", text("yes"), sessionId="before")
    writer.user("u2", "on")
    found = read(home, writer, tmp_path)
    assert [session.messages for session, _, _ in found.values()] == [3]


def test_messages_that_a_compaction_kept_hang_on_its_summary(
    home: Home, writer: Writer, tmp_path: Path
) -> None:
    """What was kept is written again below the summary, which hangs on what was kept: a circle."""
    writer.user("u1", "go")
    writer.answer("a1", "msg_1", text("first"))
    writer.user("x1", "a wrong way")
    writer.user("u2", "on", parent="a1")
    writer.add("system", "c1", parent=None, logicalParentUuid="a2", subtype="compact_boundary")
    writer.user("s1", "a summary", isCompactSummary=True)
    writer.answer("a2", "msg_2", text("kept"))
    writer.user("u3", "and on")
    session, messages, _ = read(home, writer, tmp_path)[NAME]
    assert (session.segments, session.messages) == (2, 7)
    assert [one.text for one in messages if not one.live] == ["a wrong way"]


def test_what_a_file_is_called_may_stand_before_all_else(home: Home, writer: Writer, tmp_path: Path) -> None:
    writer.lines.append(json.dumps({"type": "summary", "summary": "an old name", "leafUuid": "x"}))
    writer.user("u1", "go")
    session, _, _ = read(home, writer, tmp_path)[NAME]
    assert (session.title, session.records, session.skipped) == ("an old name", 2, {})
    writer.add("custom-title", "n1", customTitle="a new one")
    assert read(home, writer, tmp_path)[NAME][0].title == "a new one"


def test_a_result_names_the_subagent_that_gave_it(home: Home, writer: Writer, tmp_path: Path) -> None:
    writer.user("u1", "go")
    writer.answer("a1", "msg_1", call("t1", "look", tool="Task"))
    writer.user("r1", result("t1", "found"), agentId="e1")
    writer.answer("a2", "msg_2", call("t2", "look", tool="Task"))
    writer.user("r2", result("t2", "found"), toolUseResult={"agentId": "e2"})
    _, _, calls = read(home, writer, tmp_path)[NAME]
    assert [one.child for one in calls] == [f"{NAME}.agent-e1", f"{NAME}.agent-e2"]
