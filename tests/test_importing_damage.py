"""What is damaged, huge or hostile is kept, passed over and counted, or refused with one clear line."""

from __future__ import annotations

import fcntl
import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import zstandard
from program import ROOT, SECONDS, START, agent, one_line, variables

from memory.home import Home
from transcripts.imported.reader import Library
from transcripts.importers.importing import import_path
from transcripts.importers.source import LINE_LIMIT, ImportingError

sys.path.append(str(ROOT / "benchmarks"))
from opencode_session import Generator, write_all

SAMPLES = sorted(
    path for path in (Path(__file__).parent / "data" / "sessions").iterdir() if path.suffix != ".md"
)
SAMPLES = [path for path in SAMPLES if path.name != "expected.json"]
HOSTILE = "\x1b[2J\x1b]0;owned\x07<script>alert(1)</script>\u202e../../etc"


def damaged(data: bytes, how: str) -> bytes:
    chance = random.Random(how)
    match how:
        case "cut":
            return data[: len(data) * 6 // 10]
        case "twice":
            return data + data
        case "shuffled":
            lines = data.splitlines(keepends=True)
            chance.shuffle(lines)
            return b"".join(lines)
        case "no text":
            flipped = bytearray(data)
            for _ in range(200):
                flipped[chance.randrange(len(data))] = chance.randrange(128, 256)
            return bytes(flipped)
    values = [json.loads(data)] if how == "strange" and data[:1] in b"[{" and _whole(data) else []
    return json.dumps(_strange(values[0], chance)).encode("utf-8", "surrogatepass") if values else data[::-1]


def _whole(data: bytes) -> bool:
    try:
        json.loads(data)
    except ValueError:
        return False
    return True


def _strange(value: Any, chance: random.Random) -> Any:
    """Some values replaced by others of another type."""
    if chance.random() < 0.03:
        return chance.choice([None, [], {}, -1, 1e308, True, [[]], {"id": {}}, HOSTILE, "\ud800"])
    if isinstance(value, dict):
        return {key: _strange(one, chance) for key, one in value.items()}
    return [_strange(one, chance) for one in value] if isinstance(value, list) else value


@pytest.mark.parametrize("how", ["cut", "twice", "shuffled", "no text", "strange"])
@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.name)
def test_a_damaged_sample_is_kept_in_part_or_refused(
    sample: Path, how: str, home: Home, tmp_path: Path
) -> None:
    path = tmp_path / sample.name
    path.write_bytes(damaged(sample.read_bytes(), how))
    kept, refused = [], ""
    try:
        kept = import_path(home, path, lambda value: value, lambda _: None)
    except ImportingError as error:
        refused = str(error)
    assert bool(kept) != bool(refused)
    assert "\n" not in refused
    with Library(home) as library:
        for one in kept:
            session = library.open(one.session.id)
            assert [event["seq"] for event in session.events()] == list(range(_lines(one.path)))
            assert len(list(session.calls())) == one.session.tool_calls
    assert not list(home.imported.glob(".*.part"))


def _lines(path: Path) -> int:
    return path.read_bytes().count(b"\n")


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.name)
def test_of_a_file_that_was_cut_the_beginning_is_kept(sample: Path, home: Home, tmp_path: Path) -> None:
    path = tmp_path / sample.name
    path.write_bytes(sample.read_bytes()[: sample.stat().st_size * 9 // 10])
    (kept,) = import_path(home, path, lambda value: value, lambda _: None)
    assert kept.session.messages > 1
    assert {"truncated", "malformed"} & kept.session.skipped.keys()


def claude(*contents: Any) -> str:
    lines = [
        {"type": "user", "uuid": f"u{n}", "sessionId": "big", "message": {"role": "user", "content": content}}
        for n, content in enumerate(contents)
    ]
    return "\n".join(map(json.dumps, lines)) + "\n"


def test_a_line_of_50_megabytes_is_kept(home: Home, tmp_path: Path) -> None:
    path = tmp_path / "big.jsonl"
    path.write_text(claude("first", "x" * 50_000_000, "last"), encoding="utf-8")
    finished = agent("transcripts", "import", str(path), "--json")
    (session,) = json.loads(finished.stdout)["sessions"]
    assert (session["messages"], session["skipped"]) == (3, {})


def test_a_longer_line_is_passed_over_and_counted(home: Home, tmp_path: Path) -> None:
    path = tmp_path / "big.jsonl"
    with path.open("w", encoding="utf-8") as file:
        file.write(claude("first"))
        file.write("[" + " " * LINE_LIMIT + "]\n")
        file.write(claude("other", "last").split("\n")[1] + "\n")
    (kept,) = import_path(home, path, lambda value: value, lambda _: None)
    assert (kept.session.messages, kept.session.skipped) == (2, {"too_long": 1})


def test_what_is_hostile_reaches_neither_the_terminal_nor_another_folder(tmp_path: Path, home: Home) -> None:
    id_ = f"../../{HOSTILE}"
    line = {"type": "user", "uuid": "u1", "sessionId": id_, "message": {"role": "user", "content": HOSTILE}}
    path = tmp_path / "hostile.jsonl"
    path.write_text(json.dumps(line) + "\n", encoding="utf-8")
    imported = agent("transcripts", "import", str(path))
    (file,) = home.imported.glob("*.jsonl")
    assert file.parent == home.imported
    session = json.loads(agent("transcripts", "list", "--imported", "--json").stdout)["sessions"][0]["id"]
    assert "/" not in session
    outputs = [imported, agent("transcripts", "show", session), agent("transcripts", "search", "owned")]
    outputs += [agent("transcripts", "list", "--imported"), agent("transcripts", "stats")]
    for finished in outputs:
        assert finished.returncode == 0, finished.stderr
        assert not {"\x1b", "\x07", "\u202e"} & set(finished.stdout + finished.stderr)
    assert "<script>" in outputs[1].stdout, "text is shown as it is"


def test_secrets_are_taken_out_before_anything_is_written(tmp_path: Path, home: Home) -> None:
    secret = "sk-proj-" + "Ab3dEf6hIj9kLm2n" * 3
    path = tmp_path / "secret.jsonl"
    path.write_text(claude(f"export OPENAI_API_KEY={secret}"), encoding="utf-8")
    assert agent("transcripts", "import", str(path)).returncode == 0
    for file in (*home.imported.glob("*"), *home.root.glob("imported.db*")):
        assert secret.encode() not in file.read_bytes()
    assert "[redacted:" in agent("transcripts", "show", "big").stdout


def test_a_pipe_a_circle_and_nothing_are_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    one_line(agent("transcripts", "import", str(tmp_path / "pipe")), 2, "neither a file nor a folder")
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "again").symlink_to(folder)
    os.mkfifo(folder / "pipe")
    (folder / "empty.jsonl").touch()
    one_line(agent("transcripts", "import", str(folder)), 2, "no session found")
    one_line(agent("transcripts", "import", str(folder / "empty.jsonl")), 2, "no known format")


def test_what_is_packed_may_not_become_anything(home: Home, tmp_path: Path) -> None:
    path = tmp_path / "bomb.jsonl.zst"
    line = json.dumps({"type": "session_meta", "timestamp": "2026-01-01T00:00:00Z", "payload": {"id": "x"}})
    path.write_bytes(zstandard.ZstdCompressor().compress(line.encode() + b"\n" + bytes(LINE_LIMIT * 2)))
    with pytest.raises(ImportingError, match="unpacks to far more"):
        import_path(home, path, lambda value: value, lambda _: None)
    path.write_bytes(path.read_bytes()[:20] + b"damage")
    with pytest.raises(ImportingError, match=r"cannot be decompressed|no known format"):
        import_path(home, path, lambda value: value, lambda _: None)


@pytest.fixture(scope="module")
def layouts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    made = Generator(segments=1, seed=5, children=1).session()
    return write_all(made, tmp_path_factory.mktemp("layouts"))


def test_of_a_damaged_database_one_line_is_said(layouts: dict[str, Path], home: Home, tmp_path: Path) -> None:
    path = tmp_path / "opencode.db"
    data = bytearray(layouts["sqlite"].read_bytes())
    data[8192 : len(data) // 2] = bytes(len(data) // 2 - 8192)
    path.write_bytes(data)
    with pytest.raises(ImportingError) as raised:
        import_path(home, path, lambda value: value, lambda _: None)
    assert "\n" not in str(raised.value)
    assert not list(home.imported.glob("*.part"))


def test_the_database_of_a_running_program_is_read_with_its_log_and_left_alone(
    layouts: dict[str, Path], home: Home, tmp_path: Path
) -> None:
    path = tmp_path / "opencode.db"
    shutil.copyfile(layouts["sqlite"], path)
    with closing(sqlite3.connect(path, isolation_level=None)) as running:
        running.execute("PRAGMA journal_mode = WAL")
        data = json.dumps({"role": "user", "time": {"created": 9e12}})
        (session,) = running.execute("SELECT id FROM session WHERE parent_id IS NULL").fetchone()
        running.execute("INSERT INTO message VALUES ('msg_zzz', ?, 9000000000000, ?)", (session, data))
        before = {file.name: file.read_bytes() for file in tmp_path.glob("opencode.db*")}
        kept = import_path(home, path, lambda value: value, lambda _: None)
        assert {file.name: file.read_bytes() for file in tmp_path.glob("opencode.db*")} == before
    with Library(home) as library:
        assert "msg_zzz" in {one.id for one in library.open(session).messages()}
    assert len(kept) == 2


def test_a_view_that_never_ends_is_no_table(home: Home, tmp_path: Path) -> None:
    path = tmp_path / "hostile.db"
    with closing(sqlite3.connect(path)) as raw:
        raw.execute("CREATE TABLE session (id TEXT, time_created INTEGER)")
        raw.execute("CREATE TABLE part (id TEXT, message_id TEXT, data TEXT)")
        endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x AS id FROM n"
        raw.execute(f"CREATE VIEW message AS {endless}")
    with pytest.raises(ImportingError, match="no known format"):
        import_path(home, path, lambda value: value, lambda _: None)


def test_files_of_a_tree_that_are_damaged_are_counted(
    layouts: dict[str, Path], home: Home, tmp_path: Path
) -> None:
    tree = Path(shutil.copytree(layouts["storage"], tmp_path / "storage"))
    messages = sorted((tree / "message").rglob("*.json"))
    messages[3].write_bytes(b"{torn")
    next((tree / "part" / messages[4].stem).glob("*.json")).write_bytes(b"\xff\xfe")
    (tree / "message" / "ses_..").mkdir()
    kept = import_path(home, tree, lambda value: value, lambda _: None)
    assert sum(one.session.skipped.get("malformed", 0) for one in kept) == 2


def test_what_a_stopped_import_left_is_taken_away(home: Home, tmp_path: Path) -> None:
    home.imported.mkdir()
    left = home.imported / ".4194999-7f.part"
    left.touch()
    import_path(home, SAMPLES[0], lambda value: value, lambda _: None)
    assert not left.exists()


def test_a_file_of_the_home_that_is_torn_is_said_and_the_others_count(home: Home) -> None:
    for sample in SAMPLES[:2]:
        import_path(home, sample, lambda value: value, lambda _: None)
    torn, whole = sorted(home.imported.glob("*.jsonl"))
    torn.write_bytes(torn.read_bytes()[:-40])
    finished = agent("transcripts", "list", "--imported", "--json")
    assert [one["format"] for one in json.loads(finished.stdout)["sessions"]] == [
        whole.name.partition("-")[0]
    ]
    assert "import the session again" in finished.stderr


def test_the_end_of_an_older_program_is_read_and_an_unsound_one_is_said(home: Home) -> None:
    for sample in SAMPLES[:2]:
        import_path(home, sample, lambda value: value, lambda _: None)
    unsound, older = sorted(home.imported.glob("*.jsonl"))
    for path, key in ((unsound, "id"), (older, "origin")):
        *events, last = path.read_text(encoding="utf-8").splitlines()
        end = {name: value for name, value in json.loads(last).items() if name != key}
        path.write_text("\n".join([*events, json.dumps(end), ""]), encoding="utf-8")
    finished = agent("transcripts", "list", "--imported", "--json")
    (session,) = json.loads(finished.stdout)["sessions"]
    assert (session["format"], session["origin"]) == (older.name.partition("-")[0], "")
    assert "its end is not as it was written; import the session again" in finished.stderr
    assert finished.returncode == 0


def test_a_damaged_index_says_what_makes_it_anew(home: Home) -> None:
    import_path(home, SAMPLES[0], lambda value: value, lambda _: None)
    with Library(home):
        pass
    with home.imported_db.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * (home.imported_db.stat().st_size - 4096))
    finished = agent("transcripts", "list", "--imported")
    assert finished.returncode == 3
    assert "delete it" in finished.stderr
    home.imported_db.unlink()
    assert agent("transcripts", "list", "--imported").returncode == 0


def test_an_imported_session_is_told_from_an_unknown_name(home: Home) -> None:
    kept = import_path(home, SAMPLES[0], lambda value: value, lambda _: None)[0]
    listed = agent("transcripts", "list")
    assert "1 session was imported: agent transcripts list --imported" in listed.stderr + listed.stdout
    for command in (["replay"], ["report"], ["transcripts", "redact", "--dry-run"]):
        finished = agent(*command, kept.session.id)
        assert finished.returncode == 2
        assert "is an imported session" in finished.stderr


def test_a_database_of_another_program_or_version_is_made_anew(home: Home) -> None:
    import_path(home, SAMPLES[0], lambda value: value, lambda _: None)
    with Library(home) as library:
        before = library.sessions()
    for make in ("PRAGMA user_version = 99", "no database"):
        home.imported_db.unlink()
        if make == "no database":
            home.imported_db.write_bytes(b"something else")
        else:
            with closing(sqlite3.connect(home.imported_db)) as raw:
                raw.execute(make)
        with Library(home) as library:
            assert library.sessions() == before


def test_a_database_that_another_is_about_to_make_is_left_to_it(home: Home) -> None:
    import_path(home, SAMPLES[0], lambda value: value, lambda _: None)
    found: list[str] = []

    def look() -> None:
        with Library(home) as library:
            found.extend(one.id for one in library.sessions())

    thread = threading.Thread(target=look)
    with (home.imported / ".lock").open("w") as lock, closing(sqlite3.connect(home.imported_db)) as raw:
        fcntl.flock(lock, fcntl.LOCK_EX)
        raw.execute("PRAGMA journal_mode = WAL")  # the file is there, and nothing stands in it yet
        made = home.imported_db.stat().st_ino
        thread.start()
        thread.join(0.5)  # time enough for one that does not wait
        assert home.imported_db.stat().st_ino == made
    thread.join()
    assert len(found) == 1


def test_many_imports_at_once_leave_what_one_after_the_other_leaves(home: Home, tmp_path: Path) -> None:
    command = [*START, "transcripts", "import", *map(str, SAMPLES)]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    running = [subprocess.Popen(command, env=variables(home.root), **quiet) for _ in range(3)]  # type: ignore[call-overload]
    for process in running:
        _, said = process.communicate(timeout=SECONDS)
        assert (process.returncode, said) == (0, b"")
    with Library(home) as library:
        found = [(one.id, len(list(library.open(one.id).events()))) for one in library.sessions()]
        words = library.search("command", limit=1000)
    alone = Home(tmp_path / "alone")
    for sample in SAMPLES:
        import_path(alone, sample, lambda value: value, lambda _: None)
    with Library(alone) as library:
        assert [(one.id, len(list(library.open(one.id).events()))) for one in library.sessions()] == found
        assert len(library.search("command", limit=1000)) == len(words)
