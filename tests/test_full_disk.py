"""A disk that fills up, or turns read-only, while an investigation runs: one line, exit 4, resumable."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from investigations import NAME, investigate, setting, sound, transcript
from small_disk import small_disk
from tiny_engine import write_engine

from agent.session import resume
from memory.home import Home
from transcripts.log import LogError, read

ROOT = Path(__file__).parent.parent


@pytest.fixture
def engine(tmp_path: Path) -> Path:
    return write_engine(tmp_path / "site-packages")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk", "3m") as folder:
        yield folder


def fill(home: Home, leave: int) -> Path:
    """Take all space but ``leave`` bytes."""
    ballast = home.root / "ballast"
    with ballast.open("wb") as file:
        state = os.statvfs(home.root)
        file.write(b"x" * max(0, state.f_bavail * state.f_bsize - leave))
    return ballast


@pytest.mark.parametrize("left", [8_000, 30_000, 70_000])
def test_a_disk_that_fills_up(disk: Path, tmp_path: Path, engine: Path, left: int) -> None:
    undisturbed = investigate(Home(tmp_path / "undisturbed").prepare(), engine)
    home = Home(disk / "home").prepare()
    investigate(home, engine)  # so that the database is there: it is the log that has no room
    transcript(home).unlink()
    ballast = fill(home, left)
    with pytest.raises(LogError, match=f"No space left.*agent resume {NAME}") as caught:
        investigate(home, engine)
    assert getattr(caught.value, "exit_code", None) == 4
    ballast.unlink()
    if not transcript(home).exists():
        investigate(home, engine)
    assert resume(home, transcript(home), setting=setting()) == undisturbed
    sound(home, transcript(home))


def test_a_home_that_turns_read_only(disk: Path, tmp_path: Path, engine: Path) -> None:
    """The program itself, on a transcript whose disk can be read and no longer written."""
    undisturbed = investigate(Home(tmp_path / "undisturbed").prepare(), engine)
    home = Home(disk / "home").prepare()
    investigate(home, engine)
    path = transcript(home)
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:30]))
    events = len(list(read(path)))
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "ASSAY_HOME": str(home.root)}
    program = [sys.executable, "-m", "agent.cli.main"]
    try:
        for command, codes in (
            (["resume", NAME], {3, 4}),
            (["replay", NAME], {0}),
            (["replay", NAME, "--verify"], {0}),
            (["transcripts", "show", NAME], {0}),
            (["investigate", "qwen3.5 nvfp4 on sm120", "-e", str(engine)], {3, 4}),
        ):
            done = subprocess.run(
                [*program, *command], env=environment, capture_output=True, text=True, check=False
            )
            assert done.returncode in codes, (command, done.stderr)
            assert "Traceback" not in done.stderr
    finally:
        subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)
    assert len(list(read(path))) == events
    home.findings_db.unlink()
    assert resume(home, path, setting=setting()) == undisturbed
    sound(home, path)
