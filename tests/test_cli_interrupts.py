"""Being asked to stop: an event in hand is finished first, the investigation is concluded, no child stays."""

from __future__ import annotations

import json
import os
import shlex
import signal
import threading
from pathlib import Path
from typing import Any

import pytest
from program import ROOT, START, python, started
from tiny_engine import FAKE_TRACE, fake_trace_many, write_engine

from agent.board import Board
from agent.execute import Executor
from agent.interrupts import Interrupts
from agent.loop import Decision, Investigation
from agent.policy import PERSON
from agent.session import Running, Setting, start
from memory.clock import FixedClock, Ids
from memory.home import Home
from memory.store import Store
from tools.registry import registry
from transcripts.events import Concluded, Event, Noted, Opened
from transcripts.log import Log, read, verify


def test_what_is_held_is_finished_first() -> None:
    done: list[str] = []

    def work(interrupts: Interrupts) -> None:
        with interrupts.held():
            with interrupts.held():
                signal.raise_signal(signal.SIGINT)
            done.append("the inner one ends nothing")
            signal.raise_signal(signal.SIGTERM)
            done.append("to the end")

    with Interrupts() as interrupts:
        with pytest.raises(KeyboardInterrupt):
            work(interrupts)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
        with interrupts.held():
            done.append("asked once, raised once")
    assert len(done) == 3


def test_what_is_kept_back_at_the_start_is_raised_when_it_can_be_ended() -> None:
    with Interrupts() as interrupts:
        interrupts.hold()
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            interrupts.release()
        interrupts.release()


def test_handlers_are_as_they_were_afterwards() -> None:
    before = signal.getsignal(signal.SIGINT), signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Interrupts():
            assert signal.getsignal(signal.SIGINT) != before[0]
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN, "nohup stays nohup"
        assert signal.getsignal(signal.SIGINT) == before[0]
    finally:
        signal.signal(signal.SIGHUP, before[1])


def test_outside_the_main_thread_nothing_is_touched() -> None:
    seen: list[Any] = []

    def work() -> None:
        with Interrupts() as interrupts, interrupts.held():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [signal.getsignal(signal.SIGINT)]


def test_a_forked_child_ends_without_a_word() -> None:
    program = (
        "import multiprocessing, os, signal\n"
        "from agent.interrupts import Interrupts\n"
        "with Interrupts():\n"
        "    fork = multiprocessing.get_context('fork')\n"
        "    child = fork.Process(target=lambda: (os.kill(os.getpid(), signal.SIGINT), print('went on')))\n"
        "    child.start(); child.join(); print(child.exitcode)\n"
    )
    finished = python(program)
    assert finished.returncode == 0, finished.stderr
    assert (finished.stdout.split(), finished.stderr) == (["130"], "")


class Impatient(FixedClock):
    """A clock that is asked for the time of each event, and at one of them presses Ctrl-C."""

    def __init__(self, at: int, times: int = 1) -> None:
        super().__init__()
        self._left = at
        self._times = times

    def now(self) -> str:
        self._left -= 1
        if -self._times < self._left <= 0:
            signal.raise_signal(signal.SIGINT)
        return super().now()


@pytest.mark.parametrize("times", [1, 2, 100])
@pytest.mark.parametrize("at", [2, 3, 4, 7, 15, 30, 45])
def test_ctrl_c_while_an_event_is_written_leaves_log_and_rows_whole(
    home: Home, tmp_path: Path, at: int, times: int
) -> None:
    """At any event, however often: the log is intact and concluded, and the database has followed it."""
    engine = write_engine(tmp_path / "site-packages")
    concluded = start(
        home,
        "qwen3.5 nvfp4 on sm120",
        {"environment": str(engine)},
        setting=Setting(
            clock=Impatient(at, times),
            tools={**registry(), "trace_viability": FAKE_TRACE},
            batches={"trace_viability": fake_trace_many},
        ),
        ids=Ids(7),
    )
    assert (concluded.exit_reason, concluded.exit_code) == ("interrupted", 130)
    (path,) = home.transcripts.glob("*.jsonl")
    assert verify(path) == []
    events = list(read(path))
    assert len(events) >= at - 1, "what was being written when Ctrl-C came is there"
    assert isinstance(events[-1].data, Concluded)
    assert sum(isinstance(event.data, Concluded) for event in events) == 1
    with Store(home) as store:
        folded = store.folded(path.stem)
    assert folded is not None
    assert folded.last_seq == events[-1].seq


class Talker:
    """A driver that never stops making notes."""

    name = "talker"

    def decide(self, board: Board) -> Decision:
        return Decision(changes=[Noted(text=f"note {board.events}")])


def test_an_event_on_disk_is_folded_before_anything_is_ended(home: Home) -> None:
    folded: list[int] = []

    def fold(event: Event) -> None:
        if event.seq == 3:
            signal.raise_signal(signal.SIGINT)
        folded.append(event.seq)

    path = home.transcripts / "20260101-aaaaaa.jsonl"
    opened = Opened(investigation=path.stem, program="p", driver="talker", question="q", seed=0, options={})
    board = Board(lambda sha256: None)
    executor = Executor(
        {}, Running(home, print, path.stem, board), PERSON, lambda output: (output, None, None)
    )
    with Interrupts() as interrupts, Log.create(path, opened, FixedClock()) as log:
        board.add(next(iter(list(read(path)))))
        concluded = Investigation(path.stem, log, board, Talker(), executor, fold, interrupts).run()
    assert concluded.exit_code == 130
    assert folded == [1, 2, 3, 4]
    assert [event.seq for event in read(path)] == [0, *folded]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_program_that_is_asked_to_stop_concludes_and_is_130(tmp_path: Path, number: signal.Signals) -> None:
    engine = write_engine(tmp_path / "site-packages")
    program = (
        "import os, sys\n"
        "from agent.cli import main\n"
        "import tools.engines.find_model as module\n"
        "from tools.registry import registry\n"
        "import dataclasses, agent.session as session\n"
        "from tools.stopping import pause\n"
        f"stop = lambda args, context: (os.kill(os.getpid(), {int(number)}), pause(60))\n"
        "tools = registry()\n"
        "tools['find_model'] = dataclasses.replace(tools['find_model'], run=stop)\n"
        "session.registry = lambda: tools\n"
        f"main.main(['investigate', 'qwen3.5 nvfp4 on sm120', '-e', {str(engine)!r}])\n"
    )
    home = tmp_path / "home"
    finished = python(program, home=home)
    assert finished.returncode == 130, finished.stderr
    assert finished.stdout == ""
    said = finished.stderr.splitlines()[-1]
    assert said.startswith("agent: interrupted; what was found so far is kept; go on with: agent resume ")
    (path,) = (home / "transcripts").glob("*.jsonl")
    bodies = [json.loads(line)["data"] for line in path.read_bytes().splitlines()]
    assert (bodies[-1]["kind"], bodies[-1]["exit_reason"]) == ("concluded", "interrupted")
    called = {body["call"]: body["tool"] for body in bodies if body["kind"] == "called"}
    returned = {called[body["call"]]: body["status"] for body in bodies if body["kind"] == "returned"}
    assert returned["find_model"] == "interrupted"
    assert returned.keys() == set(called.values())  # what ran beside it had ended by then, or had not


INTERRUPTED_HERE = "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nraise SystemExit(7)\n"
"""Stands in the way of a module that the program needs: Ctrl-C comes while it is imported."""


def test_ctrl_c_while_the_program_is_being_imported_is_no_traceback(tmp_path: Path) -> None:
    (tmp_path / "click.py").write_text(INTERRUPTED_HERE)
    finished = started(START, PYTHONPATH=os.pathsep.join([str(tmp_path), str(ROOT)]))
    assert (finished.returncode, finished.stdout, finished.stderr) == (130, "", "agent: interrupted\n")


def test_who_was_told_to_ignore_ctrl_c_goes_on(tmp_path: Path) -> None:
    """A job that a script has put in the background is not ended by Ctrl-C to the script."""
    (tmp_path / "click.py").write_text(INTERRUPTED_HERE)
    paths = os.pathsep.join([str(tmp_path), str(ROOT)])
    finished = started(["bash", "-c", f"trap '' INT; exec {shlex.join(START)}"], PYTHONPATH=paths)
    assert (finished.returncode, finished.stderr) == (7, "")
