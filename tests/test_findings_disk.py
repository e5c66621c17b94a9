"""Importing, merging and exporting on a disk that is full or read-only, and killed half-way: what was there
stays, nothing is half there, and one line says why."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from known import rows
from test_findings_share import (
    agent as agent,
    exported as exported,
    ids,
    kept,
    read as read,
    site as site,
    theirs as theirs,
)
from test_full_disk import disk as disk, fill

from memory.home import Home

ROOT = Path(__file__).parent.parent


def program(home: Home, *args: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "agent.cli.main", "findings", *map(str, args)],
        capture_output=True, text=True, check=False, timeout=120,
        env={**os.environ, "PYTHONPATH": str(ROOT), "ASSAY_HOME": str(home.root)},
    )  # fmt: skip


def one_line(done: subprocess.CompletedProcess[str], codes: set[int], words: str) -> None:
    assert done.returncode in codes, done.stderr
    *told, last = done.stderr.splitlines()
    assert all(line.startswith("· ") for line in told), done.stderr
    assert words in last, last


@pytest.fixture
def there(disk: Path, agent: Any, exported: Path, site: Path) -> Home:
    """A home on a disk of its own, in which one of two findings is known."""
    home = Home(disk / "home").prepare()
    document = json.loads(exported.read_text())
    first = exported.with_name("first.json")
    lines = [
        line
        for line in exported.read_text().splitlines()
        if document["findings"][1]["finding"]["id"] not in line
    ]
    first.write_text("\n".join(lines) + "\n")
    agent(home, "import", first, "-e", site)
    assert len(kept(home)) == 1
    return home


@pytest.mark.parametrize("command", ["import", "merge"])
@pytest.mark.parametrize("left", [0, 3_000])
def test_a_full_disk_leaves_what_was_there(
    there: Home, theirs: Home, exported: Path, site: Path, command: str, left: int
) -> None:
    given = exported if command == "import" else theirs.findings_db
    before = kept(there)
    logs = sorted(path.name for path in there.transcripts.iterdir())
    ballast = fill(there, left)
    done = program(there, command, given, "-e", site)
    assert done.returncode in {0, 3, 4}, done.stderr
    assert "Traceback" not in done.stderr
    ballast.unlink()
    if done.returncode:
        assert sorted(path.name for path in there.transcripts.iterdir()) == logs
        assert kept(there) == before
    assert program(there, command, given, "-e", site).returncode == 0
    assert set(kept(there)) == set(ids(theirs).values())


def test_a_read_only_home_takes_nothing_and_says_so(
    there: Home, disk: Path, theirs: Home, exported: Path, site: Path
) -> None:
    before = kept(there)
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    try:
        for command, given in (("import", exported), ("merge", theirs.findings_db)):
            one_line(program(there, command, given, "-e", site), {3, 4}, "cannot")
        for reading in (
            ["list"],
            ["search", "alpha"],
            ["matrix"],
            ["sql", "SELECT count(*) FROM v_findings"],
        ):
            assert program(there, *reading).returncode == 0, reading
        one_line(program(there, "export", disk / "out.json"), {4}, "cannot write")
    finally:
        subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)
    assert kept(there) == before


def test_an_export_is_there_whole_or_not_at_all(there: Home, disk: Path) -> None:
    ballast = fill(there, 0)
    one_line(program(there, "export", disk / "out.json"), {4}, "cannot write")
    ballast.unlink()
    assert not [path for path in disk.iterdir() if "out.json" in path.name]


def test_an_import_that_is_killed_left_all_of_it_or_nothing(
    home: Home, theirs: Home, exported: Path, site: Path, agent: Any
) -> None:
    command = [sys.executable, "-m", "agent.cli.main", "findings", "import", exported, "-e", site]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "ASSAY_HOME": str(home.root)}
    chance = random.Random(5)
    for _ in range(6):
        child = subprocess.Popen(
            list(map(str, command)), env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            child.wait(timeout=chance.random() * 1.5)
        except subprocess.TimeoutExpired:
            child.send_signal(signal.SIGKILL)
            child.wait()
        assert len(kept(home)) in {0, 2}
        assert len(list(home.transcripts.glob("*.jsonl"))) in {0, 1}
    agent(home, "import", exported, "-e", site)
    assert set(kept(home)) == set(ids(theirs).values())
    before = rows(home)
    assert json.loads(agent(home, "rebuild", "--json"))["same"]
    assert rows(home) == before
