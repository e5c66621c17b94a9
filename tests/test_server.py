"""Servers started, waited for and ended: what runs is a fake (``fake_server.py``), its processes are real."""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from fake_server import fake_engine, fake_model
from holder import holding
from small_disk import small_disk

from memory.home import Home
from memory.terms import Outcome
from tools.environment.adopt import adopt
from tools.errors import ToolError
from tools.server import Patience, Plan, ServerSettings, StartError, launched, plan_launch
from tools.server.ending import marked, sweep
from tools.server.failure import Failure, classed, killed_for_memory
from tools.server.ready import listens
from tools.server.shared import FOLDER, remove
from tools.server.start import free_port

SHORT = Patience(quiet=3.0, failed=1.0)
"""For servers that will not do anything any more; others are never waited for so briefly."""


@pytest.fixture
def planned(tmp_path: Path, home: Home) -> Callable[..., Plan]:
    """A plan for a fake of an engine that behaves so."""

    def make(engine: str = "sglang", settings: dict[str, Any] | None = None, **behaviour: Any) -> Plan:
        site = fake_engine(tmp_path / f"site-{engine}", engine)
        model = fake_model(tmp_path / "model", **behaviour)
        asked = {"model": str(model), "engine": engine, "device": "cpu", **(settings or {})}
        return plan_launch(home, adopt(site), ServerSettings(**asked), python=Path(sys.executable), site=site)

    return make


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk", "1m") as folder:
        yield folder


def silent(_: str) -> None:
    """Nobody listens."""


@pytest.mark.parametrize("engine", ["sglang", "vllm"])
def test_a_server_is_ready_when_it_has_given_a_token_and_leaves_nothing(
    engine: str, planned: Callable[..., Plan], home: Home
) -> None:
    shares = f"assay-test-{home.root.parent.name}-{os.getpid()}"
    plan = planned(engine, {"backends": {"moe_runner": "marlin"}}, slow=2, orphan=True, shares=shares)
    with launched(plan, home, silent) as server:
        assert server.alive()
        there = psutil.Process(server.pid).children(recursive=True)
        assert len(there) == 2
        temporary = Path(there[0].environ()["TMPDIR"])
        (temporary / "socket").touch()
        assert (FOLDER / shares).exists()
        answer = server.ask("/v1/completions", {"prompt": "a", "max_tokens": 3}).document()
        assert answer["usage"]["completion_tokens"] == 3
        assert server.phases["weights"] >= 0
        assert server.failure() is None
    assert server.ended is not None
    assert server.ended.left == ()
    assert not any(one.is_running() and one.status() != psutil.STATUS_ZOMBIE for one in there)
    assert marked(server.name) == []
    assert server.failure() is None
    assert not temporary.exists()
    assert not (FOLDER / shares).exists()
    assert [one.name for one in (home.root / "servers" / server.name).iterdir()] == ["server.log"]


@pytest.mark.parametrize(
    ("crash", "outcome", "words"),
    [
        ("import", Outcome.IMPORT_FAILED, "cannot import name 'flash_ops'"),
        ("memory", Outcome.OUT_OF_MEMORY, "CUDA out of memory"),
        ("kernel", Outcome.START_FAILED, "illegal memory access"),
        ("silent", Outcome.START_FAILED, "SIGKILL"),
    ],
)
@pytest.mark.parametrize("engine", ["sglang", "vllm"])
def test_a_start_that_fails_is_classed_by_its_first_traceback(
    engine: str, crash: str, outcome: Outcome, words: str, planned: Callable[..., Plan], home: Home
) -> None:
    with pytest.raises(StartError) as caught, launched(planned(engine, crash=crash), home, silent):
        pass
    failure = caught.value.failure
    assert failure.outcome is outcome
    assert words in failure.because
    assert not failure.ready
    assert caught.value.log.stat().st_size > 0


@pytest.mark.parametrize("line", ["Subprocess scheduler_0 (pid=7) crashed with exit code -9.", ""])
def test_who_ended_it_is_asked_of_the_kernel(line: str, tmp_path: Path) -> None:
    (log := tmp_path / "server.log").write_text(f"loading\n{line}\n", "utf-8")
    code, count = -1 if line else -signal.SIGKILL, killed_for_memory()
    assert count is not None

    def said(before: int | None, *, ready: bool = True) -> Failure:
        end = {"code": code, "stalled": None, "timed_out": False, "secret": "unsaid"}
        return classed(log, ready=ready, killed_before=before, **end)  # type: ignore[arg-type]

    assert said(count).outcome is Outcome.CRASHED
    assert said(count, ready=False).outcome is Outcome.START_FAILED
    assert "kernel ended none for want of memory" in said(count).because
    assert said(count - 1).outcome is Outcome.OUT_OF_MEMORY
    # Where it does not tell, the log does.
    assert said(None).outcome is (Outcome.OUT_OF_MEMORY if line else Outcome.CRASHED)


def test_a_missing_model_is_told_from_a_crash(planned: Callable[..., Plan], home: Home) -> None:
    plan = planned(settings={"model": str(home.root / "nothing")})
    with pytest.raises(StartError) as caught, launched(plan, home, silent):
        pass
    assert "Can't load the configuration" in caught.value.failure.because


def test_another_port_is_tried_where_somebody_was_quicker(planned: Callable[..., Plan], home: Home) -> None:
    said: list[str] = []
    with launched(planned(crash="port", crash_times=2), home, said.append) as server:
        assert server.alive()
    assert sum("somebody else took the port" in line for line in said) == 2


def test_three_taken_ports_are_enough(planned: Callable[..., Plan], home: Home) -> None:
    plan = planned(crash="port")
    with pytest.raises(ToolError, match="3 ports in a row were taken"), launched(plan, home, silent):
        pass


def test_a_server_that_lingers_without_its_port_is_not_waited_for(
    planned: Callable[..., Plan], home: Home
) -> None:
    said: list[str] = []
    plan, brief = planned(crash="linger", crash_times=1), Patience(taken=0.5)
    with launched(plan, home, said.append, patience=brief) as server:
        assert server.alive()
    assert sum("somebody else took the port" in line for line in said) == 1


def test_a_port_that_is_taken_is_not_even_tried(planned: Callable[..., Plan], home: Home) -> None:
    said: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        numbers = iter([stranger.getsockname()[1], free_port()])
        with launched(planned(), home, said.append, ports=lambda: next(numbers)) as server:
            assert server.alive()
    assert sum("starts on port" in line for line in said) == 1


def test_nobody_else_is_taken_for_the_server(planned: Callable[..., Plan], home: Home) -> None:
    """Who answers on the port is not enough: it must be a process of the server's."""
    stranger = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        with launched(planned(), home, silent) as server, socket.create_server(("127.0.0.1", 0)) as other:
            assert listens(server)
            assert not listens(replace(server, port=other.getsockname()[1]))
        assert stranger.poll() is None
    finally:
        stranger.communicate(b"\n")


def test_a_server_that_hangs_at_the_start_is_not_waited_for(planned: Callable[..., Plan], home: Home) -> None:
    plan = planned(never_healthy=True, orphan=True)
    with pytest.raises(StartError) as caught, launched(plan, home, silent, patience=SHORT):
        pass
    assert caught.value.failure.outcome is Outcome.HUNG
    assert "Init torch distributed begin" in caught.value.failure.because


def test_a_healthy_server_without_a_token_is_not_ready(planned: Callable[..., Plan], home: Home) -> None:
    plan = planned(hang_after=-1)
    with pytest.raises(StartError) as caught, launched(plan, home, silent, patience=SHORT):
        pass
    assert caught.value.failure.outcome is Outcome.HUNG
    assert "healthy, but without a token" in caught.value.failure.because


def test_a_slow_start_is_waited_for_as_long_as_it_goes_on(planned: Callable[..., Plan], home: Home) -> None:
    with launched(planned(slow=30), home, silent) as server:
        assert server.ready_seconds >= 3.0


def test_a_start_has_an_end_even_where_it_goes_on(planned: Callable[..., Plan], home: Home) -> None:
    patience = Patience(longest=1.0)
    with pytest.raises(StartError) as caught, launched(planned(slow=600), home, silent, patience=patience):
        pass
    assert caught.value.failure.outcome is Outcome.START_TIMEOUT


def test_a_server_that_dies_says_why(planned: Callable[..., Plan], home: Home) -> None:
    with launched(planned(crash_after=1), home, silent) as server:
        with pytest.raises(ConnectionError):
            server.ask("/v1/completions", {"prompt": "a", "max_tokens": 3})
        psutil.Process(server.pid).wait(60)
        failure = server.failure()
    assert failure is not None
    assert failure.ready
    assert failure.outcome is Outcome.CRASHED
    assert "illegal memory access" in failure.because
    assert server.api_key not in failure.model_dump_json()


HOLDER = """\
import sys
from pathlib import Path
from memory.home import Home
from tools.environment.adopt import adopt
from tools.server import ServerSettings, launched, plan_launch

root, site, model = map(Path, sys.argv[1:4])
settings = ServerSettings(model=str(model), device="cpu")
plan = plan_launch(Home(root), adopt(site), settings, python=Path(sys.executable), site=site)
tell = lambda text: print(text, flush=True)
with launched(plan, Home(root), tell) as server:
    print("ready", server.name, flush=True)
    input()
"""


@contextlib.contextmanager
def held(tmp_path: Path, home: Home, until: str, **behaviour: Any) -> Iterator[subprocess.Popen[str]]:
    """A program of ours that has a server, and has said ``until``."""
    site = fake_engine(tmp_path / "site", "sglang")
    model = fake_model(tmp_path / "model", **behaviour)
    with holding(HOLDER, [str(home.root), str(site), str(model)], until) as holder:
        yield holder


def processes_of(home: Home) -> list[psutil.Process]:
    """Those of all servers below the home."""
    names = [folder.name for folder in (home.root / "servers").iterdir() if folder.is_dir()]
    return [process for name in names for process in marked(name)]


@pytest.mark.parametrize(
    ("phase", "behaviour"), [("starts on port", {"slow": 600}), ("ready", {"orphan": True})]
)
def test_a_program_that_is_killed_outright_takes_its_server_along(
    phase: str, behaviour: dict[str, Any], tmp_path: Path, home: Home
) -> None:
    shares = f"assay-test-{tmp_path.name}-{os.getpid()}"
    with held(tmp_path, home, phase, **behaviour, shares=shares if phase == "ready" else "") as holder:
        there = processes_of(home)
        assert there
        temporary = Path(there[0].environ()["TMPDIR"])
        assert temporary.is_dir()
        holder.kill()
        holder.wait()
        psutil.wait_procs(there, 60)
        assert processes_of(home) == []
    assert len(sweep(home, silent)) == 1
    assert not temporary.exists()
    assert not (FOLDER / shares).exists()
    assert sweep(home, silent) == []


@pytest.mark.parametrize("orphan", [False, True])
@pytest.mark.parametrize("whom", ["program", "server"])
def test_semaphores_of_a_server_that_is_killed_are_removed_by_its_own_cleaner(
    whom: str, orphan: bool, tmp_path: Path, home: Home
) -> None:
    with held(tmp_path, home, "ready", semaphore=True, orphan=orphan) as holder:
        there = processes_of(home)
        left = FOLDER / f"sem.{(tmp_path / 'model' / 'semaphore').read_text().removeprefix('/')}"
        assert left.exists()
        guard = next(one for one in there if one.ppid() == holder.pid)
        victim = holder if whom == "program" else next(one for one in there if one.ppid() == guard.pid)
        victim.kill()
        # The guard is its parent's to wait for.
        assert psutil.wait_procs([one for one in there if one != guard], 60)[1] == []
        assert not left.exists()


def test_a_semaphore_goes_also_where_its_cleaner_is_killed(
    planned: Callable[..., Plan], tmp_path: Path, home: Home
) -> None:
    """Engines kill all of their processes where one of them died. It was made under another name."""
    with launched(planned(semaphore=True), home, silent) as server:
        left = FOLDER / f"sem.{(tmp_path / 'model' / 'semaphore').read_text().removeprefix('/')}"
        there = [one for one in marked(server.name) if one.pid != server.pid]
        for one in there:
            one.kill()
        psutil.wait_procs(there, 60)
        assert left.exists()
    assert not left.exists()


def test_what_others_share_is_let_be(home: Home) -> None:
    theirs, gone = (FOLDER / f"assay-test-{name}-{os.getpid()}" for name in ("theirs", "gone"))
    try:
        gone.touch()
        with theirs.open("w+b") as file:
            file.truncate(4096)
            with mmap.mmap(file.fileno(), 4096):
                remove([theirs.name, gone.name, "..", f"../{home.root.name}", "missing"])
        assert theirs.exists()
        assert not gone.exists()
    finally:
        theirs.unlink(missing_ok=True)
        gone.unlink(missing_ok=True)


def test_what_a_killed_guard_leaves_behind_is_ended_by_the_next_run(tmp_path: Path, home: Home) -> None:
    stranger = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        with held(tmp_path, home, "ready", orphan=True) as holder:
            there = processes_of(home)
            guard = next(one for one in there if one.ppid() == holder.pid)
            assert sweep(home, silent) == [], "what has its owner is let be"
            guard.kill()
            holder.kill()
            holder.wait()
            assert len(sweep(home, silent)) == 1
            assert processes_of(home) == []
        assert stranger.poll() is None
    finally:
        stranger.communicate(b"\n")


def test_a_record_never_ends_a_stranger(home: Home, tmp_path: Path) -> None:
    """Numbers of processes are given anew, and a record may be anybody's writing."""
    stranger = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        folder = home.root / "servers" / "old"
        folder.mkdir(parents=True)
        began = psutil.Process(stranger.pid).create_time()
        pairs = [[stranger.pid, began - 60], [-1, 0], "x", [10**30, 1], [stranger.pid, "now"]]
        (tmp_path / "theirs").mkdir()
        for document in (
            {"owner": [1, 0], "processes": pairs}, [], {"processes": 7}, "nothing",
            {"temporary": str(tmp_path / "theirs")}, {"temporary": 7},
        ):  # fmt: skip
            (folder / "record.json").write_text(json.dumps(document), encoding="utf-8")
            sweep(home, silent)
            assert stranger.poll() is None
        assert (tmp_path / "theirs").is_dir()
    finally:
        stranger.communicate(b"\n")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_program_that_is_asked_to_end_ends_its_server_first(
    number: signal.Signals, tmp_path: Path, home: Home
) -> None:
    with held(tmp_path, home, "ready", orphan=True) as holder:
        there = processes_of(home)
        holder.send_signal(number)
        assert holder.wait(120) != 0
        assert not psutil.wait_procs(there, 0)[1]
        assert sweep(home, silent) == []


def fill(disk: Path) -> None:
    with (disk / "ballast").open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(b"x" * 512)


@pytest.mark.parametrize("when", ["before", "while it starts"])
def test_a_full_disk_is_said_to_be_one(when: str, disk: Path, tmp_path: Path) -> None:
    """Also where nothing that the server said of it came to the log."""
    home = Home(disk / "home").prepare()
    site, model = fake_engine(tmp_path / "site"), fake_model(tmp_path / "model", crash="silent")
    settings = ServerSettings(model=str(model), device="cpu")
    plan = plan_launch(home, adopt(site), settings, python=Path(sys.executable), site=site)
    if when == "before":
        fill(disk)

    def tell(text: str) -> None:
        if "starts on port" in text:
            fill(disk)

    with pytest.raises((ToolError, StartError)) as caught, launched(plan, home, tell):
        pass
    assert "space" in str(caught.value) or "disk" in str(caught.value)
