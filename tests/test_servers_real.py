"""Real servers, on the CPU, with a tiny model of random weights: their whole life, and how it is cut short.

Opt-in: ``pytest -m servers tests/test_servers_real.py``. The first run builds the environments; how, and what
is a stub, says ``cpu_engines.py``. Random weights say nothing of quality: both must say the same nonsense.
"""

from __future__ import annotations

import contextlib
import math
import socket
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cpu_engines
import psutil
import pytest
from cpu_engines import CpuEngine, tiny_model
from holder import holding
from small_disk import small_disk

from memory.home import Home
from memory.terms import Outcome
from tools.errors import ToolError
from tools.server import Server, StartError, launched
from tools.server.ending import marked, sweep
from tools.server.shared import there as there_shared
from tools.server.used import used_backends

pytestmark = pytest.mark.servers

PROMPTS = ("the quick brown fox", "the lazy dog jumps over", "fox fox fox")
IMPORTED = 300 << 20
"""Bytes that a process holds once it has imported an engine; a tracker of resources holds less."""
SAID: dict[str, list[str]] = {}
"""What each engine answered, greedily."""


@pytest.fixture(scope="module", params=["sglang", "vllm"])
def engine(request: pytest.FixtureRequest) -> CpuEngine:
    made: CpuEngine = getattr(cpu_engines, request.param)()
    return made


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same for both engines."""
    return tiny_model(cpu_engines.sglang(), tmp_path_factory.getbasetemp() / "tiny-qwen3-moe")


def tell(text: str) -> None:
    print(text)


def ports(first: int) -> Iterator[int]:
    """One that is taken, then free ones."""
    yield first
    while True:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            number: int = free.getsockname()[1]
        yield number


def complete(server: Server, prompt: str) -> dict[str, Any]:
    body = {"model": server.model, "prompt": prompt, "max_tokens": 16, "temperature": 0, "logprobs": 1}
    answer = server.ask("/v1/completions", body, seconds=300)
    assert answer.status == 200, answer.body
    choice: dict[str, Any] = answer.document()["choices"][0]
    return choice


def gone(processes: list[psutil.Process]) -> bool:
    return not psutil.wait_procs(processes, 60)[1]


def test_a_whole_life(engine: CpuEngine, model: Path, home: Home) -> None:
    """A port that is taken, another one, tokens, an end: nothing is left, no temporary file either."""
    sockets, before = set(Path(tempfile.gettempdir()).glob("*-*-*-*-*")), there_shared()
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        numbers = ports(stranger.getsockname()[1])
        plan = engine.plan(home, model)
        with launched(plan, home, tell, ports=lambda: next(numbers)) as server:
            there = marked(server.name)
            assert len(there) >= 2
            temporary = Path(there[0].environ()["TMPDIR"])
            answers = [complete(server, prompt) for prompt in PROMPTS]
            SAID[engine.name] = [answer["text"] for answer in answers]
            assert [complete(server, prompt)["text"] for prompt in PROMPTS] == SAID[engine.name]
            for answer in answers:
                assert all(math.isfinite(number) for number in answer["logprobs"]["token_logprobs"])
            assert server.phases.get("weights") is not None, server.phases
            assert not [one for one in used_backends(server) if one.substituted]
    assert server.ended is not None
    assert server.ended.left == ()
    assert gone(there)
    assert not temporary.exists()
    assert set(Path(tempfile.gettempdir()).glob("*-*-*-*-*")) <= sockets
    assert there_shared() <= before
    assert server.api_key not in server.log.read_text("utf-8", "replace")


def test_a_process_that_is_killed_is_noticed_and_the_rest_ended(
    engine: CpuEngine, model: Path, home: Home
) -> None:
    before = there_shared()
    with launched(engine.plan(home, model), home, tell) as server:
        there = marked(server.name)
        program = next(one for one in there if one.ppid() == server.pid)
        worker = max(
            (one for one in there if one.ppid() == program.pid), key=lambda one: one.memory_info().rss
        )
        worker.kill()
        psutil.wait_procs([psutil.Process(server.pid)], 120)
        failure = server.failure()
        assert failure is not None
        assert failure.ready
        assert failure.outcome in (Outcome.CRASHED, Outcome.START_FAILED, Outcome.ENVIRONMENT_SUSPECT)
    assert gone(there)
    assert there_shared() <= before


def test_one_that_is_killed_while_it_starts_is_a_start_that_failed(
    engine: CpuEngine, model: Path, home: Home
) -> None:
    killed = threading.Event()

    def kill(name: str) -> None:
        """The first that the server has started and that has imported the engine too: of the others it can
        do without some."""
        while not killed.is_set():
            with contextlib.suppress(psutil.Error):
                large = [one for one in marked(name) if one.memory_info().rss > IMPORTED]
                below = [one for one in large if one.ppid() in {other.pid for other in large}]
                if below:
                    below[0].kill()
                    killed.set()
            killed.wait(0.2)

    def started(text: str) -> None:
        if "starts on port" in text:
            (name,) = [one.name for one in (home.root / "servers").iterdir()]
            threading.Thread(target=kill, args=(name,), daemon=True).start()

    try:
        with pytest.raises(StartError) as caught, launched(engine.plan(home, model), home, started):
            pass
    finally:
        killed.set()
    assert caught.value.failure.outcome not in (Outcome.OK, Outcome.START_TIMEOUT)
    (name,) = [one.name for one in (home.root / "servers").iterdir()]
    assert marked(name) == []


def test_a_disk_that_is_full_is_said_to_be_one(engine: CpuEngine, model: Path, tmp_path: Path) -> None:
    """It fills up while the server starts."""
    with small_disk(tmp_path / "disk", "2m") as disk:
        home = Home(disk / "home").prepare()

        def fill(text: str) -> None:
            if "starts on port" in text:
                with (disk / "ballast").open("wb", buffering=0) as file, contextlib.suppress(OSError):
                    while True:
                        file.write(b"x" * 512)

        plan = engine.plan(home, model)
        with pytest.raises((ToolError, StartError)) as caught, launched(plan, home, fill):
            pass
        assert "space" in str(caught.value) or "disk" in str(caught.value)
        (name,) = [one.name for one in (home.root / "servers").iterdir()]
        assert marked(name) == []


HOLDER = """\
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import cpu_engines
from memory.home import Home
from tools.server import launched

home = Home(Path(sys.argv[2]))
plan = getattr(cpu_engines, sys.argv[3])().plan(home, Path(sys.argv[4]))
with launched(plan, home, lambda text: print(text, flush=True)) as server:
    print("ready", server.name, flush=True)
    input()
"""


@contextlib.contextmanager
def held(engine: CpuEngine, model: Path, home: Home, until: str) -> Iterator[subprocess.Popen[str]]:
    words = [str(Path(__file__).parent), str(home.root), engine.name, str(model)]
    with holding(HOLDER, words, until) as holder:
        yield holder


@pytest.mark.parametrize("phase", ["starts on port", "ready"])
def test_a_program_that_is_killed_takes_its_server_along(
    phase: str, engine: CpuEngine, model: Path, home: Home
) -> None:
    with held(engine, model, home, phase) as holder:
        names = [one.name for one in (home.root / "servers").iterdir()]
        there = [process for name in names for process in marked(name)]
        assert there
        holder.kill()
        assert gone(there)
        assert [process for name in names for process in marked(name)] == []
    assert sweep(home, tell) == names


def test_what_it_does_not_accept_is_said_before_anything_starts(
    engine: CpuEngine, model: Path, home: Home
) -> None:
    with pytest.raises(ToolError, match="does not know"):
        engine.plan(home, model, options={"no-such-flag": 1})
    with pytest.raises(ToolError, match="has no option for"):
        engine.plan(home, model, backends={"no_such_component": "any"})


def test_a_model_that_is_not_there(engine: CpuEngine, home: Home) -> None:
    plan = engine.plan(home, home.root / "nothing")
    with pytest.raises(StartError) as caught, launched(plan, home, tell):
        pass
    assert caught.value.failure.outcome in (Outcome.START_FAILED, Outcome.IMPORT_FAILED)
    assert "nothing" in caught.value.log.read_text("utf-8", "replace")


def test_both_say_the_same() -> None:
    if len(SAID) < 2:
        pytest.skip("both engines must have answered before")
    assert SAID["sglang"] == SAID["vllm"]
    assert all(len(text) > 8 for text in SAID["vllm"])
