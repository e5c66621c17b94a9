"""Codex rollouts and lists of OpenAI messages: what is said twice, exit codes in text, cuts, children."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import zstandard

from memory.home import Home
from transcripts.imported.model import Call, Message, Session
from transcripts.imported.reader import Library
from transcripts.importers.importing import import_path

ID = "01997a5a-0000-7000-8000-000000000001"


def line(type_: str, second: int, **payload: Any) -> str:
    at = f"2026-01-01T00:00:{second:02}.000Z"
    return json.dumps({"timestamp": at, "type": type_, "payload": payload})


def said(role: str, second: int, text: str) -> str:
    return line(
        "response_item", second, type="message", role=role, content=[{"type": "input_text", "text": text}]
    )


def called(second: int, id_: str, output: Any = None, name: str = "shell", **arguments: Any) -> list[str]:
    given = json.dumps(arguments)
    lines = [line("response_item", second, type="function_call", name=name, call_id=id_, arguments=given)]
    if output is not None:
        lines.append(line("response_item", second, type="function_call_output", call_id=id_, output=output))
    return lines


META = line("session_meta", 0, id=ID, cwd="/w", cli_version="0.99")


def read(home: Home, path: Path) -> tuple[Session, list[Message], list[Call]]:
    (kept,) = import_path(home, path, lambda value: value, pytest.fail)
    with Library(home) as library:
        opened = library.open(kept.session.id)
        return opened.session, list(opened.messages()), list(opened.calls())


def rollout(home: Home, folder: Path, *lines: str) -> tuple[Session, list[Message], list[Call]]:
    path = folder / "rollout.jsonl"
    path.write_text("\n".join([META, *lines]) + "\n", encoding="utf-8")
    return read(home, path)


@pytest.mark.parametrize(
    ("output", "returned", "code"),
    [
        ("Exit code: 2\nWall time: 0.1 seconds\nOutput:\nno such file\n", "no such file\n", 2),
        ("Chunk ID: 1a\nWall time: 0.0 seconds\nProcess exited with code 0\nOutput:\nok", "ok", 0),
        (json.dumps({"output": "bad", "metadata": {"exit_code": 1, "duration_seconds": 0.1}}), "bad", 1),
        ({"content": "refused", "success": False}, "refused", None),
        ([{"type": "output_text", "text": "plain"}], "plain", None),
        ("a log\nExit code: 7\n", "a log\nExit code: 7\n", None),
    ],
)
def test_exit_codes_stand_in_the_text(
    output: Any, returned: str, code: int | None, home: Home, tmp_path: Path
) -> None:
    session, _, (call,) = rollout(home, tmp_path, *called(1, "c1", output, command=["bash", "-lc", "ls -l"]))
    assert (call.command, call.cwd, call.returned, call.exit_code) == ("ls -l", "/w", returned, code)
    assert session.failures == (1 if code or isinstance(output, dict) else 0)


def test_the_folder_moves_with_the_turns(home: Home, tmp_path: Path) -> None:
    _, _, calls = rollout(
        home,
        tmp_path,
        *called(1, "c1", "x", name="exec_command", cmd="ls"),
        line("turn_context", 2, cwd="/other", model="m-2"),
        *called(3, "c2", "x", name="exec_command", cmd="ls"),
        *called(4, "c3", "x", command=["git", "log", "-n 1"], workdir="/mine"),
    )
    assert [(call.cwd, call.command) for call in calls] == [
        ("/w", "ls"),
        ("/other", "ls"),
        ("/mine", "git log '-n 1'"),
    ]


def test_what_is_said_twice_counts_once(home: Home, tmp_path: Path) -> None:
    told = line("event_msg", 1, type="user_message", message="go")
    session, messages, _ = rollout(home, tmp_path, told, said("user", 1, "go"), said("user", 1, "go"))
    assert [one.text for one in messages] == ["go"]
    assert session.skipped == {"duplicate": 1, "event_msg": 1}


def test_what_only_events_say_is_taken_from_them(home: Home, tmp_path: Path) -> None:
    session, messages, _ = rollout(
        home,
        tmp_path,
        line("event_msg", 1, type="user_message", message="go"),
        line("event_msg", 2, type="agent_message", message="yes"),
        said("assistant", 3, "yes"),
    )
    assert [(one.role, one.text) for one in messages] == [("user", "go"), ("assistant", "yes")]
    assert session.skipped == {"event_msg": 1}


def test_a_compaction_is_one_segment_however_often_it_is_said(home: Home, tmp_path: Path) -> None:
    session, messages, _ = rollout(
        home,
        tmp_path,
        said("user", 1, "go"),
        line("compacted", 2, message="so far", replacement_history=[{"type": "message", "role": "user"}]),
        line("event_msg", 2, type="context_compacted"),
        said("user", 3, "on"),
        said("assistant", 4, "yes"),
        line("compacted", 5, message=""),
        said("user", 6, "and on"),
    )
    assert session.segments == 3
    assert [one.segment for one in messages] == [1, 2, 2, 3]


def test_turns_that_were_rolled_back_are_not_live(home: Home, tmp_path: Path) -> None:
    session, messages, calls = rollout(
        home,
        tmp_path,
        said("user", 1, "go"),
        said("assistant", 2, "yes"),
        said("user", 3, "wrong"),
        *called(4, "c1", "x"),
        line("event_msg", 5, type="thread_rolled_back", num_turns=1),
        said("user", 6, "right"),
    )
    assert [one.text for one in messages if one.live] == ["go", "yes", "right"]
    assert [one.live for one in calls] == [False]
    assert (session.messages, session.dead) == (4, 1)


def test_a_call_in_an_aborted_turn_was_aborted(home: Home, tmp_path: Path) -> None:
    session, _, calls = rollout(
        home,
        tmp_path,
        *called(1, "c1", "x"),
        *called(2, "c2"),
        line("event_msg", 3, type="turn_aborted", reason="interrupted"),
        *called(4, "c3"),
    )
    assert [call.status for call in calls] == ["ok", "aborted", "unanswered"]
    assert (session.failures, session.unanswered) == (1, 1)


def test_a_child_names_its_parent_and_the_parent_its_child(home: Home, tmp_path: Path) -> None:
    child = ID.replace("1997", "2222")
    spawned = {"subagent": {"thread_spawn": {"parent_thread_id": ID}}}
    folder = tmp_path / "sessions"
    folder.mkdir()
    parent = [META, said("user", 1, "go"), *called(2, "c1", f"agent {child} spawned", name="spawn_agent")]
    (folder / "a.jsonl").write_text("\n".join(parent), encoding="utf-8")
    inner = [line("session_meta", 3, id=child, source=spawned), said("user", 4, "look")]
    (folder / "b.jsonl").write_text("\n".join(inner), encoding="utf-8")
    import_path(home, folder, lambda value: value, pytest.fail)
    with Library(home) as library:
        assert library.children(ID) == [child]
        (call,) = library.open(ID).calls()
        assert call.child == child
        assert library.open(child).session.parent == ID


def test_a_packed_rollout_is_the_same(home: Home, tmp_path: Path) -> None:
    lines = [META, said("user", 1, "go"), *called(2, "c1", "x")]
    data = "\n".join(lines).encode()
    half = len(data) // 2
    pack = zstandard.ZstdCompressor().compress
    (tmp_path / "rollout.jsonl.zst").write_bytes(pack(data[:half]) + pack(data[half:]))
    session, messages, (call,) = read(home, tmp_path / "rollout.jsonl.zst")
    assert (session.id, len(messages)) == (ID, 1)
    place = call.source
    assert json.loads(data[place["offset"] :][: place["bytes"]])["payload"]["call_id"] == "c1"


def test_the_oldest_files_have_a_bare_header_and_bare_items(home: Home, tmp_path: Path) -> None:
    bare = [
        {"id": ID, "timestamp": "2025-05-01T00:00:00Z", "instructions": None},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "go"}]},
        {"record_type": "state"},
        {"type": "local_shell_call", "call_id": "c1", "action": {"type": "exec", "command": ["ls", "-a b"]}},
    ]
    path = tmp_path / "old.jsonl"
    path.write_text("\n".join(map(json.dumps, bare)), encoding="utf-8")
    session, messages, (call,) = read(home, path)
    assert (session.format, session.id, len(messages)) == ("codex", ID, 1)
    assert call.command == "ls '-a b'"


IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
CHAT = [
    {"role": "user", "content": [{"type": "text", "text": "go"}, IMAGE]},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "c1", "function": {"name": "bash", "arguments": '{"command": "ls"}'}},
            {"id": "c2", "function": {"name": "bash", "arguments": "{torn"}},
        ],
    },
    {"role": "tool", "tool_call_id": "c2", "content": "second"},
    {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "first"}]},
    {"role": "tool", "tool_call_id": "gone", "content": "nobody asked"},
]


@pytest.mark.parametrize(
    "document",
    [CHAT, {"model": "m", "messages": CHAT}, "\n".join(map(json.dumps, CHAT)), {"messages": CHAT, "z": 1}],
)
def test_chat_messages_however_they_are_wrapped(document: Any, home: Home, tmp_path: Path) -> None:
    path = tmp_path / "chat.json"
    path.write_text(
        document if isinstance(document, str) else json.dumps(document, indent=1), encoding="utf-8"
    )
    session, messages, calls = read(home, path)
    assert (session.format, session.messages, session.tool_calls) == ("openai_chat", 5, 2)
    assert (session.orphans, session.unanswered, session.failures) == (1, 0, 0)
    assert [(call.command, call.raw_input, call.returned) for call in calls] == [
        ("ls", None, "first"),
        (None, "{torn", "second"),
    ]
    assert messages[0].attachments == ({"bytes": 3, "mime": "image/png"},)
    assert session.started is None


@pytest.mark.parametrize("wrap", ["list", "input", "lines"])
def test_items_of_responses(wrap: str, home: Home, tmp_path: Path) -> None:
    items = [
        {"role": "user", "content": [{"type": "input_text", "text": "go"}]},
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]},
        {"type": "function_call", "name": "bash", "call_id": "c1", "arguments": '{"command": "ls"}'},
        {"type": "function_call_output", "call_id": "c1", "output": "a.py"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "done"}]},
    ]
    text = {"list": json.dumps(items), "input": json.dumps({"input": items})}
    path = tmp_path / "items.json"
    path.write_text(text.get(wrap, "\n".join(map(json.dumps, items))), encoding="utf-8")
    session, messages, (call,) = read(home, path)
    assert session.format == "openai_responses"
    assert [one.text for one in messages] == ["go", "done"]
    assert (call.thinking, call.command, call.returned) == ("hm", "ls", "a.py")


def test_lines_that_each_hold_a_list_are_sessions(home: Home, tmp_path: Path) -> None:
    path = tmp_path / "many.jsonl"
    path.write_text(
        "\n".join(json.dumps({"messages": CHAT[:count]}) for count in (1, 2, 1)), encoding="utf-8"
    )
    kept = import_path(home, path, lambda value: value, pytest.fail)
    assert sorted({one.session.id: one.session.messages for one in kept}.values()) == [1, 2]
