"""Calls of one decision: side by side, results in the order of the request, whatever each of them does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest
from pydantic import BaseModel

from agent import siblings
from agent.execute import Executor, Result
from agent.loop import Call, Decision
from agent.policy import PERSON
from agent.replay import replay
from agent.session import Setting, start
from agent.siblings import MOST, Job, side_by_side
from memory.clock import FixedClock, Ids
from memory.home import Home
from memory.vocabulary import Effect
from tools.base import Tool, ToolError
from tools.environment.child import run_child
from tools.registry import registry
from tools.stopping import Stopped, pause
from transcripts.events import Called, Concluded, Returned
from transcripts.log import read

ROOT = Path(__file__).parents[1]
PATIENCE = 120.0
"""Seconds after which something that should happen at once is held not to happen."""


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """However busy the machine is, calls that were asked to stop are waited for until they have."""
    monkeypatch.setattr(siblings, "SOON", PATIENCE)
    monkeypatch.setattr(siblings, "LATE", PATIENCE)


class Number(BaseModel):
    n: int = 0
    needs: list[str] = []


class Context:
    def __init__(self, home: Home) -> None:
        self.home = home
        self.told: list[str] = []

    def progress(self, text: str) -> None:
        self.told.append(text)


def tool(run: Callable[[Number], Any], *, name: str = "poke", alone: bool = False) -> Tool[Any, Any]:
    return Tool(
        name,
        "A tool of this test.",
        Number,
        Number,
        Effect.READS,
        lambda args, context: run(args),
        resources=lambda args: tuple(args.needs),
        alone=alone,
    )


def executor(home: Home, *tools: Tool[Any, Any], **given: Any) -> Executor:
    return Executor(
        {one.name: one for one in tools},
        Context(home),
        PERSON,
        lambda output: (output, None, None),
        lock_folder=home.root,
        **given,
    )


def called(*inputs: Any, tool: str = "poke") -> list[Called]:
    return [
        Called(
            call=f"c{n}",
            tool=tool,
            effect=Effect.READS,
            input=given if isinstance(given, dict) else {"n": given},
        )
        for n, given in enumerate(inputs)
    ]


def threads_end(*names: str) -> None:
    """Until calls have ended: not only what they run, also what comes of it is known then."""
    for one in threading.enumerate():
        if one.name in names:
            one.join(PATIENCE)
            assert not one.is_alive()


def outputs(results: Iterator[Result]) -> list[Any]:
    return [
        one.returned.output["n"] if one.returned.status == "ok" else one.returned.error for one in results
    ]


# -- order -----------------------------------------------------------------------------------------


def backwards(count: int) -> Callable[[Number], Number]:
    """Each waits until the one after it has ended: they can only run all at once, and end in reverse."""
    ended = [threading.Event() for _ in range(count + 1)]
    ended[count].set()

    def run(args: Number) -> Number:
        assert ended[args.n + 1].wait(PATIENCE)
        ended[args.n].set()
        return args

    return run


def test_results_stand_in_the_order_of_the_request_though_they_come_in_reverse(home: Home) -> None:
    results = executor(home, tool(backwards(MOST))).run(called(*range(MOST)))
    assert outputs(results) == list(range(MOST))


def test_a_result_is_given_as_soon_as_it_is_there(home: Home) -> None:
    recorded = threading.Event()

    def run(args: Number) -> Number:
        assert args.n == 0 or recorded.wait(PATIENCE), "the first was not given while the second ran"
        return args

    results = executor(home, tool(run)).run(called(0, 1))
    assert next(results).returned.call == "c0"
    recorded.set()
    assert outputs(results) == [1]


def test_no_more_run_at_once_than_are_allowed_and_all_come_to_their_turn(home: Home) -> None:
    together = threading.Barrier(MOST)
    lock, inside, most = threading.Lock(), [0], [0]

    def run(args: Number) -> Number:
        with lock:
            inside[0] += 1
            most[0] = max(most[0], inside[0])
        together.wait(PATIENCE)
        with lock:
            inside[0] -= 1
        return args

    assert outputs(executor(home, tool(run)).run(called(*range(5 * MOST)))) == list(range(5 * MOST))
    assert most == [MOST]


class Scripted:
    name = "scripted"

    def __init__(self, *decisions: Decision) -> None:
        self._decisions = list(decisions)

    def decide(self, board: Any) -> Decision:
        return self._decisions.pop(0)


END = Decision(conclude=Concluded(exit_reason="answered", exit_code=0, summary="done"))


def investigate(home: Home, calls: Sequence[Call], *tools: Tool[Any, Any], **given: Any) -> Concluded:
    return start(
        home,
        "a question",
        {},
        setting=Setting(clock=FixedClock(), tools={one.name: one for one in tools}, **given),
        ids=Ids(7),
        driver=Scripted(Decision(calls=calls), END),
    )


def log(home: Home) -> Path:
    (path,) = home.transcripts.glob("*.jsonl")
    return path


def test_the_order_in_which_calls_end_leaves_no_trace(tmp_path: Path) -> None:
    """The same bytes, whether they end forwards, in reverse, or one after the other."""
    written = set()
    first = threading.Event()

    def forwards(args: Number) -> Number:
        assert args.n == 0 or first.wait(PATIENCE)
        first.set()
        return args

    calls = [Call("poke", {"n": n}) for n in range(MOST)]
    for name, run, alone in (
        ("forwards", forwards, False),
        ("backwards", backwards(MOST), False),
        ("alone", lambda args: args, True),
    ):
        home = Home(tmp_path / name).prepare()
        together = [tool(run, alone=alone)]
        investigate(home, calls, *together)
        kinds = [event.data.kind for event in read(log(home))]
        if alone:
            assert kinds == ["opened", *["called", "returned"] * MOST, "concluded"]
        else:
            assert kinds == ["opened", *["called"] * MOST, *["returned"] * MOST, "concluded"]
            written.add(log(home).read_bytes())
    assert len(written) == 1


def test_groups_keep_the_order_and_what_runs_alone_has_none_beside_it(home: Home) -> None:
    run = executor(
        home,
        tool(lambda args: args),
        tool(lambda args: args, name="look", alone=True),
        batches={"many": list},
    )
    named = ["poke", "nothing", "look", "look", "poke", "many", "many", "poke"]
    groups = run.groups([Call(name, {}) for name in named])
    assert [" ".join(call.tool for call in group) for group in groups] == [
        "poke nothing", "look", "look", "poke", "many many", "poke",
    ]  # fmt: skip


def test_tools_that_fork_or_that_read_or_change_the_records_run_alone() -> None:
    alone = {name for name, one in registry().items() if one.alone}
    assert {"create_environment", "record_finding", "search_findings", "trace_viability"} <= alone
    assert not {"read_source", "search_source", "list_backends", "gpu_status"} & alone


# -- failing ---------------------------------------------------------------------------------------


def test_a_failing_call_takes_no_sibling_with_it(home: Home) -> None:
    others = threading.Event()

    def run(args: Number) -> Any:
        if args.n == 0:
            raise ToolError("not here")
        if args.n == 1:
            raise ZeroDivisionError("a bug")
        if args.n == 2:
            return None
        if args.n == 3:
            assert others.wait(PATIENCE)
        others.set()
        return args

    results = list(
        executor(home, tool(run)).run(
            [*called(0, 1, 2, 3, 4), *called({"n": "x"}), *called(5, tool="absent")]
        )
    )
    assert [one.returned.status for one in results] == [
        "error",
        "error",
        "error",
        "ok",
        "ok",
        "error",
        "error",
    ]
    assert results[0].returned.error == "not here"
    assert results[1].note is not None
    assert "ZeroDivisionError: a bug" in results[1].note.text


@pytest.mark.usefixtures("patient")
def test_what_makes_recording_impossible_is_raised_when_the_others_have_ended(home: Home) -> None:
    class FullError(Exception):
        pass

    begun, ended = threading.Event(), []

    def run(args: Number) -> Any:
        if args.n == 0:
            return args
        if args.n == 1:
            assert begun.wait(PATIENCE)
            raise FullError
        begun.set()
        try:
            pause(PATIENCE)
        finally:
            ended.append(args.n)

    results = executor(home, tool(run), fatal=(FullError,)).run(called(0, 1, 2))
    assert next(results).returned.status == "ok"
    with pytest.raises(FullError):
        next(results)
    assert ended == [2]


def test_nothing_behind_what_is_raised_begins_and_what_is_before_it_still_does() -> None:
    ran: list[int] = []
    both = threading.Barrier(2)

    def job(n: int) -> Any:
        def run() -> int:
            ran.append(n)
            if n in (0, 2):
                both.wait(PATIENCE)
            if n == 0:
                threads_end("call 2")
            if n == 2:
                raise SystemExit(5)
            return n

        return Job(run, frozenset({"x"} if n < 2 else ()))

    results = side_by_side([job(n) for n in range(6)], most=2)
    assert (next(results), next(results)) == (0, 1)
    with pytest.raises(SystemExit):
        next(results)
    assert sorted(ran) == [0, 1, 2]
    assert ran[-1] == 1


def test_resources_that_cannot_be_told_are_the_calls_own_failure(home: Home) -> None:
    results = list(
        executor(home, tool(lambda args: args)).run(called({"needs": ["nonsense"]}, {"needs": []}))
    )
    assert [one.returned.status for one in results] == ["error", "ok"]
    assert results[0].returned.error == "'nonsense' is no resource; expected KIND:NAME, e.g. port:30000"


def test_without_threads_to_be_had_calls_run_one_after_the_other(home: Home) -> None:
    before = threading.stack_size(1 << 46)
    try:
        assert outputs(executor(home, tool(lambda args: args)).run(called(0, 1, 2))) == [0, 1, 2]
    finally:
        threading.stack_size(before)


# -- batches ---------------------------------------------------------------------------------------


def test_results_of_a_batch_are_given_one_by_one(home: Home) -> None:
    asked: list[int] = []

    def many(context: Any, inputs: Sequence[Number]) -> Iterator[Number]:
        for one in inputs:
            asked.append(one.n)
            yield one

    results = executor(home, tool(lambda args: args), batches={"poke": many}).run(called(0, 1, 2))
    for n in range(3):
        assert next(results).returned.call == f"c{n}"
        assert asked == list(range(n + 1))


def test_what_a_batch_gave_before_it_failed_is_not_asked_for_twice(home: Home) -> None:
    batched: list[list[int]] = []
    alone: list[int] = []

    def many(context: Any, inputs: Sequence[Number]) -> Iterator[Number]:
        batched.append([one.n for one in inputs])
        for one in inputs:
            if one.n in (2, 3):
                raise ToolError("a batch cannot")
            yield one

    def run(args: Number) -> Number:
        alone.append(args.n)
        raise ToolError(f"not {args.n}")

    results = executor(home, tool(run), batches={"poke": many}).run(
        [*called(0, 1), *called({"n": "x"}), *called(2, 3, 4)]
    )
    assert outputs(results)[:2] == [0, 1]
    assert batched == [[0, 1, 2, 3, 4], [3, 4], [4]]
    assert alone == [2, 3]


def test_a_batch_that_fails_where_the_call_itself_does_not_is_given_up(home: Home) -> None:
    tries: list[int] = []

    def many(context: Any, inputs: Sequence[Number]) -> list[Number]:
        tries.append(len(inputs))
        raise RuntimeError("broken")

    results = executor(home, tool(lambda args: args), batches={"poke": many}).run(called(*range(5)))
    assert outputs(results) == [0, 1, 2, 3, 4]
    assert tries == [5]


def test_what_fails_for_a_whole_batch_is_not_tried_call_by_call(home: Home) -> None:
    alone: list[int] = []

    def many(context: Any, inputs: Sequence[Number]) -> Iterator[Number]:
        yield inputs[0]
        raise ToolError("no loom here", missing=True, whole=True)

    def run(args: Number) -> Number:
        alone.append(args.n)
        return args

    results = list(
        executor(home, tool(run), batches={"poke": many}).run(
            [*called(0, 1), *called({"n": "x"}), *called(2)]
        )
    )
    assert outputs(iter(results))[:2] == [0, "no loom here"]
    assert [one.returned.status for one in results] == ["ok", "error", "error", "error"]
    assert (results[1].returned.output, results[3].returned.error) == ({"missing": True}, "no loom here")
    assert "n:" in str(results[2].returned.error), "what was wrong in a call itself stays its own"
    assert alone == []


@pytest.mark.parametrize("given", [0, 1, 3])
def test_a_batch_that_gives_too_little_or_too_much_still_answers_each_once(home: Home, given: int) -> None:
    def many(context: Any, inputs: Sequence[Number]) -> list[Number]:
        return [*inputs, *inputs, *inputs][:given]

    results = executor(home, tool(lambda args: args), batches={"poke": many}).run(called(7, 8))
    assert outputs(results) == [7, 8]


def test_a_closed_batch_is_closed_inside(home: Home) -> None:
    closed: list[bool] = []

    def many(context: Any, inputs: Sequence[Number]) -> Iterator[Number]:
        try:
            yield from inputs
        finally:
            closed.append(True)

    results = executor(home, tool(lambda args: args), batches={"poke": many}).run(called(0, 1))
    next(results)
    results.close()
    assert closed == [True]


# -- resources -------------------------------------------------------------------------------------


def test_two_that_need_the_same_run_one_after_the_other_in_the_order_of_the_request(home: Home) -> None:
    order: list[int] = []
    both = threading.Barrier(2)

    def run(args: Number) -> Number:
        order.append(args.n)
        if args.n in (0, 3):  # 3 needs nothing: it runs beside 0, which holds what 1 and 2 wait for
            both.wait(PATIENCE)
        if args.n == 0:
            assert order.count(1) == order.count(2) == 0
        return args

    wanted = [["gpu:a"], ["port:1", "gpu:a"], ["port:1"], []]
    results = executor(home, tool(run)).run(
        called(*({"n": n, "needs": needs} for n, needs in enumerate(wanted)))
    )
    assert outputs(results) == [0, 1, 2, 3]
    assert [n for n in order if n != 3] == [0, 1, 2]


RIVALS = """
import os, random, sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from test_execute import Context, Number, called, executor, outputs, tool
from memory.home import Home

folder, seed = Path(sys.argv[1]), int(sys.argv[2])
kinds = ["gpu:a", "environment:b", "port:3"]
chance = random.Random(seed)

def run(args):
    for name in args.needs:
        (folder / name).touch(exist_ok=False)
    for name in args.needs:
        (folder / name).unlink()
    return args

wanted = [chance.sample(kinds, chance.randint(1, 3))[::-1 if seed else 1] for _ in range(50)]
print("ready", flush=True)
sys.stdin.readline()
inputs = [{{"n": n, "needs": w}} for n, w in enumerate(wanted)]
results = executor(Home(folder), tool(run)).run(called(*inputs))
print(outputs(results) == list(range(50)))
"""


def test_processes_that_need_the_same_in_opposite_orders_never_meet_nor_block(home: Home) -> None:
    rivals = [
        subprocess.Popen(
            [sys.executable, "-c", RIVALS.format(tests=str(ROOT / "tests")), str(home.root), str(seed)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        for seed in range(2)
    ]
    for rival in rivals:
        assert rival.stdout is not None
        assert rival.stdout.readline() == "ready\n"
    for rival in rivals:
        assert rival.stdin is not None
        rival.stdin.write("\n")
        rival.stdin.flush()
    assert [rival.communicate(timeout=300)[0] for rival in rivals] == ["True\n"] * 2


# -- being asked to stop ---------------------------------------------------------------------------


def child(folder: Path, up: Callable[[int], None]) -> None:
    """A child that would run for minutes, with one of its own; ``up`` is told both ids."""
    code = (
        "import os, subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(300)'])\n"
        "print(os.getpid(), child.pid, flush=True); time.sleep(300)\n"
    )
    folder.mkdir()
    out = folder / "out"
    told: list[bool] = []

    def tick(_: float) -> None:
        if not told and out.read_text().endswith("\n"):
            told.append(True)
            for word in out.read_text().split():
                up(int(word))

    run_child([sys.executable, "-c", code], environment={}, folder=folder, output=out, seconds=200, tick=tick)


def gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_ctrl_c_ends_children_and_closes_exactly_what_had_not_returned(home: Home, tmp_path: Path) -> None:
    pids: list[int] = []
    lock = threading.Lock()
    ran: list[int] = []
    main = threading.main_thread().ident

    def up(pid: int) -> None:
        with lock:
            pids.append(pid)
            if len(pids) < 4:
                return
        threads_end("call 0", "call 2")
        while main is None or sys._current_frames()[main].f_code.co_name != "wait":
            pause(0.001)  # the first result is being written down
        os.kill(os.getpid(), signal.SIGINT)

    def run(args: Number) -> Number:
        ran.append(args.n)
        if args.n in (1, 3):
            child(tmp_path / str(args.n), up)
        return args

    calls = [Call("poke", {"n": n, "needs": [f"environment:{n // 3}"] if n > 2 else []}) for n in range(6)]
    concluded = investigate(home, calls, tool(run))
    assert (concluded.exit_reason, concluded.exit_code) == ("interrupted", 130)
    returned = {data.call: data.status for data in bodies(home, Returned)}
    # The third, which ended behind one that had not, is kept; those that wait for the fourth never began.
    assert [name for name, status in returned.items() if status == "ok"] == ["c1", "c3"]
    assert [name for name, status in returned.items() if status == "interrupted"] == ["c2", "c4", "c5", "c6"]
    assert sorted(ran) == [0, 1, 2, 3]
    assert len(pids) == 4
    assert all(gone(pid) for pid in pids)
    assert replayed(home, calls) is None


def test_ctrl_c_while_a_result_is_written_keeps_those_that_have_ended(home: Home) -> None:
    others = threading.Barrier(3)

    def run(args: Number) -> Number:
        if args.n:
            others.wait(PATIENCE)
        return args

    def write(value: Any) -> Any:
        """As the first result is about to be written, the others end, and then Ctrl-C comes."""
        if isinstance(value, dict) and (value.get("kind"), value.get("call")) == ("returned", "c1"):
            others.wait(PATIENCE)
            threads_end("call 1", "call 2")
            os.kill(os.getpid(), signal.SIGINT)
        return value

    calls = [Call("poke", {"n": n}) for n in range(3)]
    assert investigate(home, calls, tool(run), redact=write).exit_code == 130
    assert [data.status for data in bodies(home, Returned)] == ["ok"] * 3
    assert replayed(home, calls) is None


def replayed(home: Home, calls: Sequence[Call]) -> Any:
    """Where a replay of the log differs from it."""
    events = read(log(home))
    return replay(
        events, lambda sha256: None, drivers=lambda _: Scripted(Decision(calls=calls), END)
    ).difference


def test_what_returned_behind_a_call_that_had_not_is_told_from_results_in_disorder(home: Home) -> None:
    """In a log, a call may only be passed over where Ctrl-C came."""
    calls = [Call("poke", {"n": n}) for n in range(3)]
    investigate(home, calls, tool(lambda args: args))
    assert replayed(home, calls) is None
    events = list(read(log(home)))
    kept = [event for event in events if not (isinstance(event.data, Returned) and event.data.call == "c2")]
    events[4:7] = [events[4], events[6], events[5]]
    for damaged, expected in ((events, "c2"), (kept, "c2")):
        drivers = Scripted(Decision(calls=calls), END)
        difference = replay(iter(damaged), lambda sha256: None, drivers=lambda _: drivers).difference  # noqa: B023
        assert difference is not None
        assert difference.chosen == Returned(call=expected, status="ok")


def bodies(home: Home, kind: type) -> list[Any]:
    return [event.data for event in read(log(home)) if isinstance(event.data, kind)]


@pytest.mark.usefixtures("patient")
def test_closed_early_nothing_goes_on_and_nothing_more_is_told(home: Home) -> None:
    begun = threading.Barrier(3)
    stopped: list[int] = []

    def run(args: Number, context: Any) -> Number:
        if args.n == 0:
            begun.wait(PATIENCE)
            return args
        try:
            begun.wait(PATIENCE)
            while args.n == 1:
                context.progress("still here")
            pause(PATIENCE)
        except Stopped:
            stopped.append(args.n)
            raise
        return args

    context = Context(home)
    poke = Tool("poke", "A tool of this test.", Number, Number, Effect.READS, run)
    results = Executor({"poke": poke}, context, PERSON, lambda output: (output, None, None)).run(
        called(0, 1, 2)
    )
    assert next(results).returned.status == "ok"
    results.close()
    said = len(context.told)
    assert sorted(stopped) == [1, 2]
    assert len(context.told) == said
    assert not [one for one in threading.enumerate() if one.name.startswith("call ")]


STUCK = """
import sys, threading
sys.path.insert(0, {tests!r})
from test_execute import Call, investigate, threads_end, tool
from pathlib import Path
from memory.home import Home

up = threading.Barrier(3)

def run(args):
    up.wait()
    if args.n == 1:
        threads_end("call 0")
        print("up", flush=True)
    while args.n:
        try:
            threading.Event().wait()
        except BaseException:
            pass
    return args

calls = [Call("poke", {{"n": n}}) for n in range(3)]
sys.exit(investigate(Home(Path(sys.argv[1])), calls, tool(run)).exit_code)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_call_that_is_stuck_for_good_does_not_hold_the_program_up(
    home: Home, number: signal.Signals
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", STUCK.format(tests=str(ROOT / "tests")), str(home.root)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    ) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "up\n"
        program.send_signal(number)
        try:
            assert program.wait(PATIENCE) == 130
        finally:
            program.kill()
        assert program.stderr is not None
        assert program.stderr.read() == ""
    assert [data.status for data in bodies(home, Returned)] == ["ok", "interrupted", "interrupted"]
    (concluded,) = bodies(home, Concluded)
    assert concluded.exit_code == 130


def test_a_second_ctrl_c_still_leaves_no_child(home: Home, tmp_path: Path) -> None:
    """Stubborn children: the first request waits for them, the second comes meanwhile."""
    stubborn = (
        "import os, signal, time\n"
        f"signal.signal(signal.SIGTERM, lambda *_: os.kill({os.getpid()}, signal.SIGINT))\n"
        "print(os.getpid(), flush=True)\n"
        "while True: time.sleep(300)\n"
    )
    out = tmp_path / "out"
    told: list[int] = []

    def tick(_: float) -> None:
        if not told and out.read_text().endswith("\n"):
            told.append(int(out.read_text()))
            os.kill(os.getpid(), signal.SIGINT)

    def run(args: Number) -> Number:
        if args.n == 0:
            run_child(
                [sys.executable, "-c", stubborn],
                environment={},
                folder=tmp_path,
                output=out,
                seconds=200,
                tick=tick,
                grace=1.0,
            )
        pause(PATIENCE)
        return args

    concluded = investigate(home, [Call("poke", {"n": n}) for n in range(2)], tool(run))
    assert concluded.exit_code == 130
    assert [data.status for data in bodies(home, Returned)] == ["interrupted"] * 2
    assert gone(told[0])
