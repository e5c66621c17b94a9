"""Where the program writes: closed, full and impatient readers, terminals of another alphabet, full disks."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import struct
import subprocess
import termios
from contextlib import suppress
from pathlib import Path

import pytest
from program import SECONDS, START, python, shell, variables
from tiny_engine import write_engine

from transcripts.chain import encode
from transcripts.events import GENESIS, Noted, Opened


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_engine(tmp_path_factory.mktemp("engine") / "site-packages")


@pytest.fixture(scope="module")
def answered(tmp_path_factory: pytest.TempPathFactory, engine: Path) -> Path:
    """A home with one investigation."""
    home = tmp_path_factory.mktemp("answered") / "home"
    finished = shell(f'agent investigate "qwen3.5 nvfp4 on sm120" -e "{engine}"', home)
    assert finished.returncode in {0, 1, 4}, finished.stderr
    return home


@pytest.mark.parametrize("closed", [">&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_a_closed_stream_is_no_bug(answered: Path, closed: str) -> None:
    finished = shell(f"agent report --last {closed}", answered)
    assert (finished.returncode, finished.stdout, finished.stderr) == (0, "", "")


def test_without_stderr_the_result_is_the_same(answered: Path) -> None:
    assert shell("agent report --last 2>&-", answered).stdout == shell("agent report --last", answered).stdout


def test_a_full_stdout_is_one_line(answered: Path) -> None:
    finished = shell("agent report --last >/dev/full", answered)
    assert finished.returncode == 4
    assert finished.stderr == "agent: cannot write the result: No space left on device\n"


def test_progress_that_nobody_reads_stops_nothing(tmp_path: Path, engine: Path) -> None:
    # The reader of stderr is gone before the first line is written.
    command = f'agent backends -e "{engine}" --arch sm120 --json 2> >(exec true); exit $?'
    finished = shell(f"trap '' PIPE; {command}", tmp_path / "home")
    assert finished.returncode == 0
    assert json.loads(finished.stdout)["backends"]


@pytest.mark.parametrize("encoding", ["ascii:strict", "latin-1:strict", "cp1252"])
def test_a_terminal_that_lacks_characters_gets_others(answered: Path, encoding: str) -> None:
    finished = shell("agent report --last | tr -cd '\\0-\\177'", answered, PYTHONIOENCODING=encoding)
    assert finished.stderr == ""
    assert "nvfp4" in finished.stdout


def test_a_reader_that_has_seen_enough_is_no_error(tmp_path: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    try:
        finished = subprocess.run(
            [*START, "--help"],
            stdout=write,
            stderr=subprocess.PIPE,
            env=variables(),
            timeout=SECONDS,
            check=False,
        )
    finally:
        os.close(write)
    assert finished.stderr == b""
    assert finished.returncode == 0


def test_a_full_disk_ends_in_one_line(tmp_path: Path, engine: Path) -> None:
    """The log cannot grow any more: nothing is wrong with what was asked, so it is no wrong input."""
    home = tmp_path / "home"
    home.mkdir()
    # From one tool on no file can grow beyond what it is: that is what a full disk looks like to the log.
    program = (
        "import dataclasses, pathlib, resource, signal\n"
        "import agent.session as session\n"
        "from agent.cli import main\n"
        "from tools.registry import registry\n"
        "def fill(args, context):\n"
        "    (log,) = pathlib.Path(context.home.transcripts).glob('*.jsonl')\n"
        "    size = log.stat().st_size\n"
        "    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))\n"
        "    raise ValueError('the disk is full')\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "tools = registry()\n"
        "tools['find_model'] = dataclasses.replace(tools['find_model'], run=fill)\n"
        "session.registry = lambda: tools\n"
        f"main.main(['investigate', 'qwen3.5 nvfp4 on sm120', '-e', {str(engine)!r}])\n"
    )
    finished = python(program, home=home)
    assert finished.returncode == 4, finished.stderr
    assert "Traceback" not in finished.stderr
    assert finished.stderr.splitlines()[-1].startswith("agent: cannot write to ")


LONG = 20_000
"""Events of a log that nobody reads to its end."""


@pytest.fixture(scope="module")
def long_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("long") / "long.jsonl"
    opened = Opened(investigation="long", program="p", driver="d", question="q", seed=0)
    bodies = [opened, *(Noted(text=f"note {number}") for number in range(1, LONG))]
    head = GENESIS
    with path.open("wb") as file:
        for seq, body in enumerate(bodies):
            line, head = encode(seq, "2026-01-01T00:00:00.000Z", body.model_dump(mode="json"), head)
            file.write(line)
    return path


def on_a_terminal(*args: str, **more: str) -> tuple[int, str]:
    """Run the program where a person sits: exit code, and what was on the screen."""
    ours, theirs = pty.openpty()
    try:
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 60, 0, 0))
        process = subprocess.Popen(
            [*START, *args], stdin=theirs, stdout=theirs, stderr=theirs, env=variables(COLUMNS="", **more)
        )
    finally:
        os.close(theirs)
    shown = b""
    with suppress(OSError):  # the terminal is gone with the last process on it
        while data := os.read(ours, 1 << 16):
            shown += data
    os.close(ours)
    return process.wait(SECONDS), shown.decode().replace("\r\n", "\n")


def test_a_pager_is_given_no_more_than_it_asks_for(long_log: Path, tmp_path: Path) -> None:
    pager = tmp_path / "pager"
    pager.write_text("#!/bin/sh\nhead -n 3\n")
    pager.chmod(0o755)
    with (cut := tmp_path / "cut.jsonl").open("wb") as file:
        file.write(long_log.read_bytes() + b"no event\n")
    # Whoever read on to the end would find it damaged.
    code, shown = on_a_terminal("transcripts", "show", str(cut), PAGER=str(pager), TERM="xterm")
    assert code == 0
    assert [line.split()[0] for line in shown.splitlines()] == ["0", "1", "2"]


def test_a_log_that_is_short_stays_on_the_screen(answered: Path) -> None:
    (path,) = (answered / "transcripts").glob("*.jsonl")
    page = ["transcripts", "show", str(path), "--events", "3"]
    for dumb in ({"PAGER": "cat", "TERM": "xterm"}, {"PAGER": "", "TERM": "dumb"}):
        code, shown = on_a_terminal(*page, **dumb)
        assert code == 0
        assert [line.split()[0] for line in shown.splitlines()] == ["0", "1", "2"]
        assert max(map(len, shown.splitlines())) <= 60


def test_a_page_from_anywhere_is_the_same_page(long_log: Path) -> None:
    show = f"agent transcripts show {long_log}"
    whole = shell(show).stdout.splitlines()
    assert len(whole) == LONG
    for start in (0, 1, 7000, LONG - 3):
        page = shell(f"{show} --from {start} --events 5").stdout.splitlines()
        assert page == whole[start : start + 5]
    assert shell(f"{show} --from {LONG}").stdout == ""
    document = json.loads(shell(f"{show} --from 19990 --json").stdout)
    assert [event["seq"] for event in document["events"]] == list(range(19990, LONG))


def test_the_document_of_a_log_begins_before_its_end_is_read(long_log: Path) -> None:
    """What stands at the end is no event: what stands before it was written by then."""
    with long_log.open("rb") as file:
        lines = file.readlines()
    cut = long_log.with_name("cut.jsonl")
    cut.write_bytes(b"".join(lines[:-1]) + b"no event\n")
    finished = shell(f"agent transcripts show {cut} --json")
    assert finished.returncode == 2
    assert finished.stdout.count('"kind": "noted"') == LONG - 2
    assert finished.stderr == f"agent: {cut}: event {LONG - 1}: not JSON; the log is damaged\n"


def test_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jsonl")
    for command in ("transcripts show", "report", "replay"):
        finished = shell(f"agent {command} {tmp_path / 'pipe.jsonl'}")
        assert finished.returncode == 2
        assert finished.stderr.endswith(": it is no file; expected a transcript\n")


def test_an_error_about_something_endless_is_still_one_line(tmp_path: Path) -> None:
    finished = shell(f"agent transcripts show {'x' * 100_000}", tmp_path / "home")
    assert finished.returncode == 2
    assert len(finished.stderr) < 1000
    assert finished.stderr.startswith("agent: no transcript 'xxx")
    assert finished.stderr.endswith("; see: agent transcripts list\n")
