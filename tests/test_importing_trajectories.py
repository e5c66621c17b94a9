"""SWE-agent and mini-swe-agent: what an action gave, and what the model saw of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from memory.home import Home
from transcripts.imported.model import Call, Message, Session
from transcripts.imported.reader import Library
from transcripts.importers.importing import import_path


def read(home: Home, folder: Path, document: Any) -> tuple[Session, list[Message], list[Call]]:
    path = folder / "x.traj.json"
    path.write_text(json.dumps(document, indent=2), encoding="utf-8")
    (kept,) = import_path(home, path, lambda value: value, pytest.fail)
    with Library(home) as library:
        opened = library.open(kept.session.id)
        return opened.session, list(opened.messages()), list(opened.calls())


def step(action: str, observation: str, folder: str = "/repo") -> dict[str, Any]:
    state = json.dumps({"working_dir": folder, "open_file": "n/a"})
    return {"action": action, "observation": observation, "response": f"I run {action}", "state": state}


TURNS = [
    {"role": "system", "content": "be good", "agent": "main", "message_type": "system_prompt"},
    {
        "role": "user",
        "content": "an example",
        "agent": "main",
        "is_demo": True,
        "message_type": "demonstration",
    },
    {"role": "user", "content": "an issue", "agent": "main", "message_type": "observation"},
    {"role": "assistant", "content": "I look", "action": "ls", "agent": "main", "message_type": "action"},
    {"role": "user", "content": "a.py\\n(Open file: n/a)", "agent": "main", "message_type": "observation"},
    {
        "role": "assistant",
        "content": "I submit",
        "action": "submit",
        "agent": "main",
        "message_type": "action",
    },
]


@pytest.mark.parametrize("first", ["trajectory", "history"])
def test_actions_have_what_they_gave_and_what_was_shown(first: str, home: Home, tmp_path: Path) -> None:
    steps = [step("ls\n", "a.py"), step("edit x", "blocked"), step("submit", "diff")]
    lists = {"trajectory": steps, "history": TURNS}
    document = {first: lists[first], **lists, "environment": "main", "info": {"exit_status": "submitted"}}
    session, messages, calls = read(home, tmp_path, document)
    assert (session.format, session.messages, session.tool_calls) == ("swe_agent", 6, 3)
    assert (session.unanswered, session.orphans) == (0, 0)
    assert [one.role for one in messages] == ["system", "user", "user", "assistant", "tool", "assistant"]
    assert messages[1].notes == ("demonstration",)
    assert [(call.command, call.returned, call.cwd) for call in calls] == [
        ("ls", "a.py", "/repo"),
        ("edit x", "blocked", "/repo"),
        ("submit", "diff", "/repo"),
    ]
    assert calls[0].shown == "a.py\\n(Open file: n/a)"
    assert [call.message is None for call in calls] == [False, True, False]


def test_a_trajectory_alone_tells_what_was_answered(home: Home, tmp_path: Path) -> None:
    session, messages, calls = read(home, tmp_path, {"trajectory": [step("ls", "a.py"), step("", "gave up")]})
    assert [one.text for one in messages] == ["I run ls", "I run "]
    assert [(call.command, call.returned) for call in calls] == [("ls", "a.py")]
    assert session.records == 2


def assistant(text: str, **extra: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": text, **({"extra": extra} if extra else {})}


SYSTEM = {"role": "system", "content": "to finish: echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"}


@pytest.mark.parametrize("wrapped", [True, False])
def test_fenced_actions_and_results_in_text(wrapped: bool, home: Home, tmp_path: Path) -> None:
    messages = [
        SYSTEM,
        {"role": "user", "content": "an issue; answer with ```bash\nls\n```"},
        assistant("I look\n```bash\nls x\n```"),
        {"role": "user", "content": "<returncode>2</returncode>\n<output>\nno such file\n</output>"},
        assistant("two\n```bash\na\n```\n```bash\nb\n```"),
        {"role": "user", "content": "Please give exactly one action"},
        assistant("done\n```bash\necho COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT\n```"),
        {"role": "user", "content": ""},
    ]
    document = {
        "info": {"mini_version": "1.9"},
        "messages": messages,
        "trajectory_format": "mini-swe-agent-1",
    }
    session, _, calls = read(home, tmp_path, document if wrapped else messages)
    assert (session.format, session.messages, session.failures) == ("mini_swe_agent", 8, 1)
    assert [(call.command, call.exit_code, call.returned, call.status) for call in calls] == [
        ("ls x", 2, "no such file", "error"),
        ("echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT", None, "", "unanswered"),
    ]


def test_actions_and_results_beside_the_text(home: Home, tmp_path: Path) -> None:
    def observed(id_: str, code: int, raw: str, why: str | None = None) -> dict[str, Any]:
        extra = {"raw_output": raw, "returncode": code, "timestamp": 1.7e9, "exception_info": why}
        return {
            "role": "tool",
            "tool_call_id": id_,
            "content": f"<output>{raw[:3]}…</output>",
            "extra": extra,
        }

    actions = [{"command": "ls", "tool_call_id": "c1"}, {"command": "sleep 99", "tool_call_id": "c2"}]
    response = {"model": "m-1", "usage": {"prompt_tokens": 7, "completion_tokens": 2}}
    messages = [
        SYSTEM,
        assistant("", actions=actions, response=response, timestamp=1.7e9, cost=0.1),
        observed("c1", 0, "a long list"),
        observed("c2", -1, "", "timed out"),
        {"role": "exit", "content": "LimitsExceeded", "extra": {"exit_status": "LimitsExceeded"}},
    ]
    info = {"mini_version": "2.0.0", "config": {"model": {"model_name": "m-1"}}}
    document = {"info": info, "messages": messages, "trajectory_format": "mini-swe-agent-1.1"}
    session, said, calls = read(home, tmp_path, document)
    assert (session.tokens, session.version, session.model) == ({"input": 7, "output": 2}, "2.0.0", "m-1")
    assert [(call.status, call.exit_code, call.returned) for call in calls] == [
        ("ok", 0, "a long list"),
        ("error", -1, ""),
    ]
    assert calls[0].shown == "<output>a l…</output>"
    assert (said[-1].role, said[-1].notes) == ("exit", ("LimitsExceeded",))
    assert session.started == "2023-11-14T22:13:20.000Z"
