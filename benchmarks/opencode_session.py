"""One generated opencode session in every layout in which opencode keeps or gives away sessions.

    python benchmarks/opencode_session.py FOLDER [--segments N] [--seed N]

Writes ``export.json``, ``share.json``, ``events.json``, ``storage/``, ``old/`` (the first trees),
``sqlite.db`` and ``sqlite2.db``. Seeded: the same bytes again. With 39 segments it has about 6,000 messages:
calls that run side by side, commands over ssh, outputs that were cut, pruned, aborted; compactions that
failed; children; images; a revert.
"""

from __future__ import annotations

import argparse
import json
import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

JSON = dict[str, Any]
START = 1_770_000_000_000
DIRECTORY = "/opt/work"
_WORDS = ["moe", "gemm", "fp4", "kernel", "launch", "error", "cutlass", "trtllm", "shape", "runner", "expert"]
_IMAGE = "data:image/png;base64," + "iVBORw0KGgo" * 40


@dataclass
class Generated:
    """A session: its info, and messages (info, parts) in their order."""

    info: JSON
    messages: list[tuple[JSON, list[JSON]]] = field(default_factory=list)
    children: list[Generated] = field(default_factory=list)

    def everyone(self) -> Iterator[Generated]:
        yield self
        for child in self.children:
            yield from child.everyone()


class Generator:
    """``segments`` with about 153 messages each; 2 compactions that failed and one at the end that goes
    on."""

    def __init__(self, segments: int = 39, seed: int = 20, children: int = 20) -> None:
        self._random = random.Random(seed)  # noqa: S311 - repeatable, not secret
        self._time = START
        self._ids = 0
        self._children = children
        self._segments = segments

    def session(self) -> Generated:
        made = Generated(self._info(None))
        children = 0
        for segment in range(self._segments):
            for turn in range(self._random.randint(8, 10)):
                self._turn(made, images=segment < 5 and turn == 0, retry=segment < 3 and turn == 1)
            while children < self._children * (segment + 1) // self._segments:
                children += 1
                self._child(made, children)
            if segment in {1, 3}:
                self._compaction(made, finish=None, error=True)
            if segment + 1 < self._segments:
                self._compaction(made, finish="stop")
        self._compaction(made, finish=None)
        users = [
            info for info, parts in made.messages if info["role"] == "user" and parts[0]["type"] == "text"
        ]
        made.info["revert"] = {"messageID": users[-1]["id"]}
        return made

    def _info(self, parent: str | None) -> JSON:
        id_ = self._id("ses")
        info = {
            "id": id_,
            "slug": "calm-otter",
            "projectID": "p" * 40,
            "directory": DIRECTORY,
            "title": f"Generated {id_[-4:]}",
            "version": "1.1.60",
            "time": {"created": self._tick(), "updated": START + 10**9},
        }
        return {**info, "parentID": parent} if parent else info

    def _turn(self, made: Generated, *, images: bool = False, retry: bool = False) -> None:
        parts: list[JSON] = [{"type": "text", "text": self._said(30)}]
        if images:
            parts.append({"type": "file", "mime": "image/png", "filename": "screen.png", "url": _IMAGE})
        user = self._add(made, self._user(), parts)
        for step in range(self._random.randint(14, 18)):
            self._answer(made, user["id"], retry=retry and step == 0)

    def _user(self) -> JSON:
        return {"role": "user", "agent": "build", "model": {"providerID": "local", "modelID": "m-1"}}

    def _answer(
        self, made: Generated, parent: str, *, retry: bool = False, tools: list[JSON] | None = None
    ) -> None:
        start = self._tick()
        parts: list[JSON] = [{"type": "step-start"}]
        if self._random.random() < 0.3:
            parts.append(
                {"type": "reasoning", "text": self._said(25), "time": {"start": start, "end": start + 5}}
            )
        if self._random.random() < 0.5:
            parts.append({"type": "text", "text": self._said(40)})
        if retry:
            error = {"name": "APIError", "data": {"message": "overloaded", "isRetryable": True}}
            parts.append({"type": "retry", "attempt": 1, "error": error, "time": {"created": start}})
        count = self._random.randint(2, 4) if self._random.random() < 0.12 else 1
        parts += tools or [self._tool(start) for _ in range(count)]
        tokens = {
            "input": self._random.randint(100, 9000),
            "output": self._random.randint(10, 900),
            "reasoning": 0,
            "cache": {"read": self._random.randint(0, 90_000), "write": 0},
        }
        parts.append({"type": "step-finish", "reason": "tool-calls", "cost": 0, "tokens": tokens})
        info = {**self._assistant(parent), "tokens": tokens, "finish": "tool-calls"}
        self._add(made, info, parts)

    def _assistant(self, parent: str) -> JSON:
        return {
            "role": "assistant",
            "parentID": parent,
            "modelID": "m-1",
            "providerID": "local",
            "mode": "build",
            "agent": "build",
            "path": {"cwd": DIRECTORY, "root": DIRECTORY},
            "cost": 0,
        }

    def _tool(self, start: int) -> JSON:
        chance = self._random.random()
        file = f"/opt/ml/lib/python3.12/site-packages/engine/{self._random.choice(_WORDS)}.py"
        if chance < 0.85:
            command = f"grep -n {self._random.choice(_WORDS)} {file} | head -{self._random.randint(5, 80)}"
            if self._random.random() < 0.6:
                command = f"ssh gpu-box '{command}'"
            tool, given = "bash", {"command": command, "description": "look"}
        elif chance < 0.93:
            tool, given = "read", {"filePath": file, "offset": self._random.randint(0, 900), "limit": 100}
        elif chance < 0.97:
            tool, given = "grep", {"pattern": self._random.choice(_WORDS), "path": "/opt/ml"}
        else:
            tool, given = "edit", {"filePath": file, "oldString": self._said(3), "newString": self._said(3)}
        output = self._output()
        end = start + self._random.randint(10, 4000)
        state: JSON = {"status": "completed", "input": given, "output": output, "title": tool, "metadata": {}}
        state["time"] = {"start": start, "end": end}
        if tool == "bash":
            state["metadata"]["exit"] = 1 if self._random.random() < 0.05 else 0
        if len(output) >= 50 << 10:
            state["metadata"] |= {"truncated": True, "outputPath": f"/var/tool_{self._ids}"}
        chance = self._random.random()
        if chance < 0.03:
            state = {"status": "error", "input": given, "error": f"{tool} failed: {self._said(4)}"}
            state["time"] = {"start": start, "end": end}
        elif chance < 0.04:
            metadata = {"interrupted": True, "output": output[:200]}
            state = {
                "status": "error",
                "input": given,
                "error": "Tool execution aborted",
                "metadata": metadata,
            }
            state["time"] = {"start": start, "end": end}
        elif chance < 0.08:
            state["time"]["compacted"] = end + 1000
        return {"type": "tool", "callID": f"call_{self._next():08d}", "tool": tool, "state": state}

    def _child(self, made: Generated, number: int) -> None:
        child = Generated(self._info(made.info["id"]))
        made.children.append(child)
        user = self._add(child, self._user(), [{"type": "text", "text": f"Look into {self._said(5)}"}])
        for _ in range(6):
            self._answer(child, user["id"])
        start = self._tick()
        task = {
            "type": "tool",
            "callID": f"call_{self._next():08d}",
            "tool": "task",
            "state": {
                "status": "completed",
                "input": {"prompt": f"Look into it, {number}", "subagent_type": "explore"},
                "output": f"<task_result>{self._said(20)}</task_result>",
                "title": "task",
                "metadata": {"sessionId": child.info["id"]},
                "time": {"start": start, "end": start + 9000},
            },
        }
        self._answer(made, made.messages[-1][0]["id"], tools=[task])

    def _compaction(self, made: Generated, *, finish: str | None, error: bool = False) -> None:
        asked = self._add(made, self._user(), [{"type": "compaction", "auto": True}])
        info = {**self._assistant(asked["id"]), "summary": True, "mode": "compaction", "agent": "compaction"}
        parts: list[JSON] = []
        if finish:
            info["finish"] = finish
            parts = [{"type": "text", "text": f"## Goal\n{self._said(60)}"}]
        if error:
            info["error"] = {"name": "APIError", "data": {"message": "overloaded", "isRetryable": False}}
        self._add(made, info, parts)

    def _add(self, made: Generated, info: JSON, parts: list[JSON]) -> JSON:
        info = {
            "id": self._id("msg"),
            "sessionID": made.info["id"],
            "time": {"created": self._tick()},
            **info,
        }
        if info["role"] == "assistant" and info.get("finish"):
            info["time"]["completed"] = info["time"]["created"] + 9
        own = {"sessionID": made.info["id"], "messageID": info["id"]}
        made.messages.append((info, [{"id": self._id("prt"), **own, **part} for part in parts]))
        return info

    def _output(self) -> str:
        size = min(int(self._random.lognormvariate(7.09, 1.1)), 40 << 10)
        if self._random.random() < 0.01:
            size = 50 << 10
        lines, total = [], 0
        while total < size:
            line = f"{len(lines) + 1}: {self._said(8)}"
            lines.append(line)
            total += len(line) + 1
        return "\n".join(lines)

    def _said(self, words: int) -> str:
        return " ".join(self._random.choices(_WORDS, k=words))

    def _id(self, kind: str) -> str:
        return f"{kind}_{self._next():012x}aaaaaaaaaaaaaa"

    def _next(self) -> int:
        self._ids += 1
        return self._ids

    def _tick(self) -> int:
        self._time += self._random.randint(1, 2000)
        return self._time


def export(made: Generated) -> JSON:
    return {"info": made.info, "messages": [{"info": info, "parts": parts} for info, parts in made.messages]}


def share(made: Generated, shuffle: random.Random) -> list[JSON]:
    found: list[JSON] = []
    for one in made.everyone():
        found.append({"type": "session", "data": one.info})
        for info, parts in one.messages:
            found.append({"type": "message", "data": info})
            found += [{"type": "part", "data": part} for part in parts]
    shuffle.shuffle(found)
    return [*found, {"type": "session_diff", "data": []}]


def events(made: Generated) -> list[JSON]:
    """As a server tells them: first what is begun, then what it became."""
    found: list[JSON] = []
    for one in made.everyone():
        found.append(
            {"type": "session.created", "properties": {"info": {**one.info, "title": "New session"}}}
        )
        for info, parts in one.messages:
            begun = {key: value for key, value in info.items() if key not in {"finish", "error", "tokens"}}
            found.append({"type": "message.updated", "properties": {"info": begun}})
            for part in parts:
                if part["type"] == "tool":
                    state = {"status": "running", "input": part["state"]["input"], "time": {"start": 1}}
                    early = {**part, "state": state}
                    found.append({"type": "message.part.updated", "properties": {"part": early}})
                found.append({"type": "message.part.updated", "properties": {"part": part}})
            found.append({"type": "message.updated", "properties": {"info": info}})
        found.append({"type": "session.updated", "properties": {"info": one.info}})
    return found


def tree(made: Generated, root: Path, *, old: bool) -> None:
    for one in made.everyone():
        id_ = one.info["id"]
        info = root / "session" / ("info" if old else one.info["projectID"]) / f"{id_}.json"
        _write(info, one.info)
        for message, parts in one.messages:
            base = root / "session" if old else root
            _write(base / "message" / id_ / f"{message['id']}.json", message)
            folder = base / "part" / id_ / message["id"] if old else base / "part" / message["id"]
            for part in parts:
                _write(folder / f"{part['id']}.json", part)


def database(made: Generated, path: Path) -> None:
    with closing(sqlite3.connect(path)) as raw, raw:
        _sessions(raw, "session", made)
        raw.execute(
            "CREATE TABLE message (id TEXT PRIMARY KEY, session_id TEXT, time_created INTEGER, data TEXT)"
        )
        raw.execute("CREATE TABLE part (id TEXT PRIMARY KEY, message_id TEXT, session_id TEXT, data TEXT)")
        for one in made.everyone():
            for info, parts in one.messages:
                at = info["time"]["created"]
                row = (info["id"], info["sessionID"], at, _data(info, "id", "sessionID"))
                raw.execute("INSERT INTO message VALUES (?, ?, ?, ?)", row)
                for part in parts:
                    data = _data(part, "id", "sessionID", "messageID")
                    row = (part["id"], info["id"], info["sessionID"], data)
                    raw.execute("INSERT INTO part VALUES (?, ?, ?, ?)", row)


def database2(made: Generated, path: Path) -> None:
    with closing(sqlite3.connect(path)) as raw, raw:
        _sessions(raw, "session_v2", made)
        raw.execute(
            "CREATE TABLE session_message (id TEXT PRIMARY KEY, session_id TEXT, type TEXT, seq INTEGER, "
            "time_created INTEGER, data TEXT)"
        )
        for one in made.everyone():
            for seq, (id_, kind, data) in enumerate(rows2(one)):
                row = (id_, one.info["id"], kind, seq, data["time"]["created"], json.dumps(data))
                raw.execute("INSERT INTO session_message VALUES (?, ?, ?, ?, ?, ?)", row)


def rows2(made: Generated) -> Iterator[tuple[str, str, JSON]]:
    """Id, type and data of the rows that 2.x makes of the messages; a compaction is one row."""
    asked: JSON | None = None
    for info, parts in made.messages:
        said = [part for part in parts if part["type"] == "text"]
        if parts and parts[0]["type"] == "compaction":
            asked = info
        elif info.get("summary") is True:
            assert asked is not None
            status = "completed" if info.get("finish") else "failed" if info.get("error") else "running"
            data = {"time": asked["time"], "reason": "auto", "status": status, "recent": ""}
            data |= {"summary": said[0]["text"] if said else "", "model": _model2(info)}
            yield asked["id"], "compaction", data | ({"error": info["error"]} if info.get("error") else {})
        elif info["role"] == "user":
            files = [
                {"uri": part["url"], "mime": part["mime"], "name": part["filename"]}
                for part in parts
                if part["type"] == "file"
            ]
            yield info["id"], "user", {"text": said[0]["text"], "files": files, "time": info["time"]}
        else:
            content = [
                _tool2(part) if part["type"] == "tool" else {key: part[key] for key in ("id", "type", "text")}
                for part in parts
                if part["type"] in {"text", "reasoning", "tool"}
            ]
            data = {key: info[key] for key in ("time", "agent", "tokens", "finish", "cost")}
            retries = [part for part in parts if part["type"] == "retry"]
            data |= {"retry": {"attempt": 1, "error": retries[0]["error"]}} if retries else {}
            yield info["id"], "assistant", {**data, "model": _model2(info), "content": content}


def _model2(info: JSON) -> JSON:
    return {"id": info["modelID"], "providerID": info["providerID"]}


def _tool2(part: JSON) -> JSON:
    state = part["state"]
    metadata = state.get("metadata", {})
    output = state.get("output", metadata.get("output", ""))
    made = {
        "status": state["status"],
        "input": state["input"],
        "content": [{"type": "text", "text": output}] if output else [],
        "structured": {key: value for key, value in metadata.items() if key not in {"output", "outputPath"}},
        "outputPaths": [metadata["outputPath"]] if "outputPath" in metadata else [],
    }
    if "error" in state:
        made["error"] = {"type": "unknown", "message": state["error"]}
    time = {
        "created": state["time"]["start"],
        "ran": state["time"]["start"],
        "completed": state["time"]["end"],
    }
    if "compacted" in state["time"]:
        time["pruned"] = state["time"]["compacted"]
    return {"type": "tool", "id": part["callID"], "name": part["tool"], "state": made, "time": time}


def write_all(made: Generated, folder: Path, seed: int = 20) -> dict[str, Path]:
    """Layout → where it was written."""
    folder.mkdir(parents=True, exist_ok=True)
    _write(folder / "export.json", export(made), indent=2)
    _write(folder / "share.json", share(made, random.Random(seed)))  # noqa: S311
    _write(folder / "events.json", events(made))
    tree(made, folder / "storage", old=False)
    tree(made, folder / "old", old=True)
    database(made, folder / "sqlite.db")
    database2(made, folder / "sqlite2.db")
    names = ("export.json", "share.json", "events.json", "storage", "old", "sqlite.db", "sqlite2.db")
    return {name.partition(".")[0]: folder / name for name in names}


def _sessions(raw: sqlite3.Connection, table: str, made: Generated) -> None:
    columns = "id TEXT PRIMARY KEY, parent_id TEXT, directory TEXT, title TEXT, version TEXT, revert TEXT"
    raw.execute(f"CREATE TABLE {table} ({columns}, time_created INTEGER)")
    for one in made.everyone():
        info = one.info
        revert = json.dumps(info["revert"]) if "revert" in info else None
        row = (info["id"], info.get("parentID"), info["directory"], info["title"], info["version"], revert)
        raw.execute(f"INSERT INTO {table} VALUES (?, ?, ?, ?, ?, ?, ?)", (*row, info["time"]["created"]))  # noqa: S608


def _data(value: JSON, *without: str) -> str:
    return json.dumps({key: one for key, one in value.items() if key not in without})


def _write(path: Path, value: Any, indent: int | None = None) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=indent), encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--segments", type=int, default=39)
    parser.add_argument("--seed", type=int, default=20)
    args = parser.parse_args()
    write_all(Generator(args.segments, args.seed).session(), args.folder, args.seed)
