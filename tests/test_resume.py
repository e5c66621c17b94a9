"""Resume: from any event, after any end, the same answer; nothing that was finished is done again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from investigations import NAME, documents, investigate, setting, sound, transcript
from tiny_engine import fake_trace_many, write_engine

from agent.cli.main import run
from agent.session import resume
from memory.clock import FixedClock
from memory.home import Home
from tools.base import ToolError
from tools.registry import registry
from transcripts.events import Concluded, Resumed
from transcripts.log import Log, LogError, read

ROOT = Path(__file__).parent.parent
STRESS = int(os.environ.get("ASSAY_STRESS", "1"))


@pytest.fixture
def engine(tmp_path: Path) -> Path:
    return write_engine(tmp_path / "site-packages")


def test_after_any_event_and_with_a_torn_line_the_answer_is_the_same(tmp_path: Path, engine: Path) -> None:
    first = Home(tmp_path / "first").prepare()
    undisturbed = investigate(first, engine)
    lines = transcript(first).read_bytes().splitlines(keepends=True)
    assert len(lines) > 60
    for count in range(1, len(lines), 1 if STRESS > 1 else 3):
        home = Home(tmp_path / f"cut-{count}").prepare()
        torn = lines[count][: len(lines[count]) * (count % 4) // 4]
        transcript(home).write_bytes(b"".join(lines[:count]) + torn)
        said: list[str] = []
        assert resume(home, transcript(home), setting=setting(say=said.append)) == undisturbed, count
        (resumed,) = [e.data for e in read(transcript(home)) if isinstance(e.data, Resumed)]
        assert resumed.cut == len(torn)
        assert any(f"{len(torn)} bytes" in one for one in said) == bool(torn)
        if count % 9 == 1:
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


def test_killed_at_random_moments_it_comes_to_the_same_end(tmp_path: Path) -> None:
    """200 kills and more with ``ASSAY_STRESS=8``."""
    shared = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=shared if shared.is_dir() else tmp_path) as folder:
        count = 25 * STRESS
        done = subprocess.run(
            [sys.executable, str(ROOT / "tests" / "storm.py"), folder, str(count), "storm"],
            capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen["kills"] >= count
    # The moments are random: this says that they were of every kind.
    assert seen["resumed"] > count // 3
    assert seen["interrupted"] > 0
