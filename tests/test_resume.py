"""Resume: from any event, after any end, the same answer; nothing that was finished is done again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from investigations import NAME, documents, investigate, setting, transcript
from stress import rebuilt, rows
from tiny_engine import fake_trace_many, write_engine

from agent.cli.main import run
from agent.replay import replay
from agent.session import resume
from memory.clock import FixedClock
from memory.home import Home
from tools.base import ToolError
from tools.registry import registry
from transcripts.check import check
from transcripts.events import Concluded, Resumed
from transcripts.log import Log, LogError, read

ROOT = Path(__file__).parent.parent


@pytest.fixture
def engine(tmp_path: Path) -> Path:
    return write_engine(tmp_path / "site-packages")


def whole(home: Home) -> Any:
    return lambda sha256: (home.artifacts / sha256[:2] / sha256[2:]).read_bytes()


def finished_twice(path: Path) -> list[Any]:
    """Calls with the same input that came to an end more than once."""
    bodies = documents(path)
    asked = {
        one["call"]: (one["tool"], json.dumps(one["input"])) for one in bodies if one["kind"] == "called"
    }
    done = Counter(
        asked[one["call"]] for one in bodies if one["kind"] == "returned" and one["status"] == "ok"
    )
    return [call for call, times in done.items() if times > 1]


def sound(home: Home, path: Path) -> None:
    """What must hold of a transcript that was resumed: intact, nothing twice, replayable, rows as rebuilt."""
    assert check(path, whole(home)) == []
    assert finished_twice(path) == []
    assert replay(read(path), lambda sha256: json.loads(whole(home)(sha256))).difference is None
    assert rows(home) == rebuilt(home)


def test_after_any_event_and_with_a_torn_line_the_answer_is_the_same(tmp_path: Path, engine: Path) -> None:
    first = Home(tmp_path / "first").prepare()
    undisturbed = investigate(first, engine)
    lines = transcript(first).read_bytes().splitlines(keepends=True)
    assert len(lines) > 60
    for count in range(1, len(lines)):
        home = Home(tmp_path / f"cut-{count}").prepare()
        torn = lines[count][: len(lines[count]) * (count % 4) // 4]
        transcript(home).write_bytes(b"".join(lines[:count]) + torn)
        said: list[str] = []
        assert resume(home, transcript(home), setting=setting(say=said.append)) == undisturbed, count
        (resumed,) = [e.data for e in read(transcript(home)) if isinstance(e.data, Resumed)]
        assert resumed.cut == len(torn)
        assert any(f"{len(torn)} bytes" in one for one in said) == bool(torn)
        if count % 10 == 0:
            sound(home, transcript(home))


def test_stopped_again_and_again_it_comes_to_the_same_end(home: Home, tmp_path: Path, engine: Path) -> None:
    """One event more each time, and the next process is stopped again."""
    other = Home(tmp_path / "undisturbed").prepare()
    undisturbed = investigate(other, engine)
    path = transcript(home)
    lines = transcript(other).read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:3]))
    for count in range(9, 60, 5):
        resume(home, path, setting=setting())
        kept = path.read_bytes().splitlines(keepends=True)[:count]
        path.write_bytes(b"".join(kept))
        home.findings_db.unlink()
    assert resume(home, path, setting=setting()) == undisturbed
    assert sum(isinstance(event.data, Resumed) for event in read(path)) > 3
    sound(home, path)


def test_after_ctrl_c_the_interrupted_calls_are_made_again(home: Home, tmp_path: Path, engine: Path) -> None:
    undisturbed = investigate(Home(tmp_path / "undisturbed").prepare(), engine)
    times = iter([KeyboardInterrupt, None])

    def trace(context: Any, inputs: Any) -> Any:
        if error := next(times):
            raise error
        return fake_trace_many(context, inputs)

    given = {"batches": {"trace_viability": trace}}
    assert investigate(home, engine, **given).exit_code == 130
    assert resume(home, transcript(home), setting=setting(**given)) == undisturbed
    sound(home, transcript(home))


def test_what_was_missing_is_tried_again(home: Home, tmp_path: Path, engine: Path) -> None:
    undisturbed = investigate(Home(tmp_path / "undisturbed").prepare(), engine)
    real = registry()["list_backends"]
    gone = iter([True, False])

    def listing(args: Any, context: Any) -> Any:
        if next(gone):
            raise ToolError("the disk is not mounted; mount it", missing=True)
        return real.run(args, context)

    given = {"tools": {"list_backends": replace(real, run=listing)}}
    assert investigate(home, engine, **given).exit_code == 3
    assert resume(home, transcript(home), setting=setting(**given)) == undisturbed
    sound(home, transcript(home))


def test_what_came_to_its_answer_is_left_as_it_is(home: Home, engine: Path) -> None:
    concluded = investigate(home, engine)
    before = transcript(home).read_bytes()
    assert resume(home, transcript(home), setting=setting()) == concluded
    assert transcript(home).read_bytes() == before


def test_a_finding_that_was_returned_and_not_recorded_is_recorded_once(home: Home, engine: Path) -> None:
    investigate(home, engine)
    path = transcript(home)
    lines = path.read_bytes().splitlines(keepends=True)
    found = next(n for n, line in enumerate(lines) if b'"kind":"found"' in line)
    path.write_bytes(b"".join(lines[:found]))
    home.findings_db.unlink()
    resume(home, path, setting=setting())
    first = [one for one in documents(path) if one["kind"] in {"resumed", "found"}][:2]
    assert [one["kind"] for one in first] == ["resumed", "found"]
    sound(home, path)


def test_two_on_one_transcript(home: Home, engine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    investigate(home, engine)
    path = transcript(home)
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:20]))
    home.findings_db.unlink()
    with Log.open(path, FixedClock()):
        assert run(["resume", NAME]) == 4
    assert "is being written by another process" in capsys.readouterr().err


@pytest.mark.parametrize("at", [3, 20, 40])
def test_a_damaged_transcript_is_not_gone_on_with(home: Home, engine: Path, at: int) -> None:
    investigate(home, engine)
    path = transcript(home)
    lines = path.read_bytes().splitlines(keepends=True)[:50]
    lines[at] = lines[at].replace(b"sm120", b"sm121").replace(b"c1", b"c2")
    path.write_bytes(b"".join(lines))
    home.findings_db.unlink()
    with pytest.raises(LogError, match=f"event {at}:"):
        resume(home, path, setting=setting())
    assert path.read_bytes() == b"".join(lines)


STOPPED = """
import os, sys
from pathlib import Path
from investigations import investigate, setting, transcript
from memory.clock import FixedClock
from memory.home import Home

class Killed(FixedClock):
    left = int(sys.argv[3])
    def now(self):
        Killed.left -= 1
        if not Killed.left:
            os.kill(os.getpid(), 9)
        return super().now()

investigate(Home(Path(sys.argv[1])).prepare(), Path(sys.argv[2]), clock=Killed())
"""


def test_a_process_that_was_killed_is_gone_on_with_at_the_command_line(home: Home, engine: Path) -> None:
    """The real program, after a real ``kill -9``; with the fakes only up to there."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")])}
    killed = subprocess.run(
        [sys.executable, "-c", STOPPED, str(home.root), str(engine), "20"], env=environment, check=False
    )
    assert killed.returncode == -signal.SIGKILL
    resumed = subprocess.run(
        [sys.executable, "-m", "agent.cli.main", "resume", "--last", "--json"],
        env={**environment, "ASSAY_HOME": str(home.root)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert resumed.returncode in {0, 4}, resumed.stderr
    answer = json.loads(resumed.stdout)
    assert answer["investigation"] == NAME
    assert len(answer["backends"]) == 10
    last = list(read(transcript(home)))[-1].data
    assert isinstance(last, Concluded)
