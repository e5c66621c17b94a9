"""One investigation that a client decides: the loop in a thread of its own, and what it is asked to do next.

What is asked at the same time becomes one decision, as of any driver. The board belongs to the loop's thread;
answers are made there.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from queue import Empty, SimpleQueue
from typing import Any

from agent.board import Board
from agent.drivers.outside import Outside, asked, gone
from agent.loop import Decision, Driver
from agent.mcp.telling import begun_text, ended_text, result_text
from agent.text import shorten
from tools.stopping import Stop, under
from transcripts.events import Concluded

MOST = 64
"""Calls of one decision."""
MOST_WAITING = 512
"""Calls that wait to become one."""


@dataclass(frozen=True)
class Answer:
    """What a client is told. ``wrong``: what was asked for did not come about."""

    text: str
    wrong: bool = False


def _promise() -> Future[Answer]:
    """An answer to come. Who waits for it may go away, which cancels nothing."""
    future: Future[Answer] = Future()
    future.set_running_or_notify_cancel()
    return future


@dataclass(frozen=True)
class Wish:
    """A call that a client asked for. Once its ``stop`` is asked it does not begin, or is ended."""

    tool: str
    input: Mapping[str, Any]
    answer: Future[Answer] = field(default_factory=_promise)
    stop: Stop = field(default_factory=Stop)


class Desk:
    """``run`` is the whole investigation, with the driver and the words of the desk that it is given.

    ``begun`` is answered once a client may decide; ``doing`` is what is going on. ``turn``: of those who
    share it one acts at a time, since tools may fork, and change what others read.
    """

    def __init__(self, name: str, run: Callable[[Desk], Concluded], turn: threading.Lock) -> None:
        self.name = name
        self.begun = _promise()
        self.doing = "working"
        self._run = run
        self._turn = turn
        self._inbox: SimpleQueue[Wish | None] = SimpleQueue()
        self._given: list[Wish] = []
        """What the last decision was made of; its first call is the ``_first`` one of the board."""
        self._first = 0
        self._idle = False
        self._board: Board | None = None
        self._lock = threading.Lock()
        self._end: Answer | None = None
        self._stop = Stop()
        # A daemon: whatever is stuck in Python ends with the program, and its transcript can be gone on with.
        self._thread = threading.Thread(target=self._work, name=f"investigation {name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def over(self) -> bool:
        return self._end is not None

    @property
    def failed(self) -> bool:
        """Whether it is over before there was anything to decide."""
        return self.over and self._board is None

    @property
    def idle(self) -> bool:
        """Whether nothing is to be done until the client says so."""
        return self._idle and self._inbox.empty()

    @property
    def driver(self) -> Driver:
        return Outside(self._next)

    def stop_of(self, call: str) -> Stop | None:
        """What ends this call alone; None for those that no client asked for."""
        place = int(call[1:]) - self._first
        return self._given[place].stop if 0 <= place < len(self._given) else None

    def ask(self, tool: str, given: Mapping[str, Any]) -> Wish:
        """Have ``tool`` run; what came of it is the answer's, whatever it was."""
        wish = Wish(tool, given)
        with self._lock:
            if self._end is not None:
                wish.answer.set_result(replace(self._end, wrong=True))
            elif self._inbox.qsize() >= MOST_WAITING:
                wish.answer.set_result(Answer(f"not run: {MOST_WAITING} calls wait already", wrong=True))
            else:
                self._inbox.put(wish)
        return wish

    def leave(self) -> None:
        """Nothing more is asked; what runs is asked to end."""
        self._stop.ask()
        self._inbox.put(None)

    def join(self, seconds: float) -> None:
        """Wait until the end is on record, at most ``seconds``."""
        self._thread.join(seconds)

    def _work(self) -> None:
        try:
            with self._turn, under(self._stop):
                concluded = self._run(self)
            end = Answer(ended_text(self.name, concluded), concluded.exit_code > 1)
        except Exception as error:  # noqa: BLE001 - the client is told, whatever it was
            begun = f"investigation {self.name} cannot go on: " if self._board is not None else ""
            end = Answer(shorten(f"{begun}{error}", 800), wrong=True)
        with self._lock:
            self._end = end
        if not self.begun.done():
            self.begun.set_result(end)
        self._settle()
        while (wish := self._waiting()) is not None:
            wish.answer.set_result(replace(end, wrong=True))

    def _next(self, board: Board) -> Decision:
        """What the client wants next, once it says so."""
        self._board = board
        if not self.begun.done():
            self.begun.set_result(Answer(begun_text(board)))
        self._settle()
        wish = None if self._stop.asked else self._wished()
        if wish is None:
            return gone(board)
        while wish is not None:
            self._given.append(wish)
            wish = self._waiting() if len(self._given) < MOST else None
        self._first = len(board.calls) + 1
        return Decision(calls=[asked(board, one.tool, one.input) for one in self._given])

    def _wished(self) -> Wish | None:
        """What is asked for next; others have their turn until it is."""
        self._idle = True
        self._turn.release()
        try:
            while (wish := self._inbox.get()) is not None and _taken_back(wish):
                pass
            return wish
        finally:
            self._turn.acquire()
            self._idle = False

    def _waiting(self) -> Wish | None:
        try:
            while (wish := self._inbox.get_nowait()) is not None and _taken_back(wish):
                pass
            return wish
        except Empty:
            return None

    def _settle(self) -> None:
        """Answer what the last decision was made of."""
        given, self._given = self._given, []
        for number, wish in enumerate(given, self._first):
            assert self._board is not None, "decisions are made of a board"
            answer = Answer(*result_text(self._board, f"c{number}"))
            if self._end is not None:
                # The end itself is long, and its words say it.
                text = self._end.text if not answer.wrong else f"{answer.text}\n{self._end.text}"
                answer = Answer(text, answer.wrong)
            wish.answer.set_result(answer)


def _taken_back(wish: Wish) -> bool:
    """Whether it was cancelled before it began: then nothing happened."""
    if wish.stop.asked:
        wish.answer.set_result(Answer("not run: it was cancelled before it began", wrong=True))
    return wish.stop.asked
