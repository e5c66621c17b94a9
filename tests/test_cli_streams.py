"""Where the program writes: closed, full and impatient readers, terminals of another alphabet, full disks."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from program import START, python, shell, variables
from tiny_engine import write_engine


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
            timeout=60,
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
