"""Child processes: what they see, and that nothing of them stays. Real processes, no network."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from tools import stopping
from tools.environment import _guard, child
from tools.environment.child import OutputError, allowed_environment, run_child
from tools.environment.uv_settings import child_environment as uv_environment

ENVIRONMENT = {"PATH": os.environ["PATH"]}

FAMILY = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
code = "import os, signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(300)"
child = subprocess.Popen([sys.executable, "-c", code], process_group=0)
print(os.getpid(), child.pid, flush=True)
time.sleep(300)
"""
"""A stubborn parent with a stubborn child in a process group of its own."""


def gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def gone_soon(pid: int) -> bool:
    """Of what the guard ends: it may still be at it. One that is not ended lives for 300 seconds."""
    until = time.monotonic() + 120
    while not gone(pid) and time.monotonic() < until:
        with contextlib.suppress(psutil.NoSuchProcess, psutil.TimeoutExpired):
            psutil.Process(pid).wait(0.1)
    return gone(pid)


@pytest.fixture
def pass_time(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Makes seconds go by at once for who waits for a child, so that its time is up when it has begun."""
    passed = [0.0]
    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + sum(passed), sleep=time.sleep)
    monkeypatch.setattr(child, "time", clock)
    return passed.append


def test_a_child_sees_only_what_is_allowed(tmp_path: Path) -> None:
    given = {
        "PATH": os.environ["PATH"],
        "OPENAI_API_KEY": "k",
        "UV_OFFLINE": "1",
        "HF_TOKEN": "t",
        "LANG": "C",
    }
    seen = allowed_environment(given, lambda name: name == "UV_OFFLINE")
    code = "import json, os, sys;print(json.dumps([dict(os.environ), sys.stdin.read(), os.getsid(0)]))"
    ended = run_child(
        [sys.executable, "-I", "-c", code],
        environment=seen,
        folder=tmp_path,
        output=tmp_path / "out",
        seconds=60,
    )
    variables, stdin, session = json.loads((tmp_path / "out").read_text())
    assert ended.code == 0
    assert {"PATH", "UV_OFFLINE", "LANG"} <= set(variables)
    assert not {"OPENAI_API_KEY", "HF_TOKEN"} & set(variables)
    assert stdin == ""
    assert session != os.getsid(0)


def test_a_child_over_its_time_is_ended_with_all_below_it(
    tmp_path: Path, pass_time: Callable[[float], None]
) -> None:
    out = tmp_path / "out"
    ended = run_child(
        [sys.executable, "-c", FAMILY],
        environment=ENVIRONMENT,
        folder=tmp_path,
        output=out,
        seconds=200,
        grace=0.2,
        tick=lambda _: pass_time(200) if out.read_text().endswith("\n") else None,
    )
    assert ended.timed_out
    assert ended.code == -signal.SIGKILL
    pids = [int(word) for word in out.read_text().split()]
    assert len(pids) == 2
    assert all(gone(pid) for pid in pids)


def test_a_child_and_its_own_are_asked_once_and_given_time(tmp_path: Path) -> None:
    polite = (
        "import os, signal, sys, time\n"
        "asked = []\n"
        "signal.signal(signal.SIGTERM, lambda *_: asked.append(1))\n"
        "print('up', flush=True)\n"
        "while not asked: time.sleep(0.01)\n"
        "time.sleep({})\n"
        "print(len(asked), flush=True)\n"
    )
    late = polite.format(0.7)
    code = (
        f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {late!r}])\n"
        f"subprocess.Popen([sys.executable, '-c', {late!r}], process_group=0)\n{polite.format(0.2)}"
    )

    def tick(_: float) -> None:
        if (tmp_path / "out").read_text() == "up\n" * 3:
            raise EOFError

    with pytest.raises(EOFError):
        run_child(
            [sys.executable, "-c", code], environment=ENVIRONMENT, folder=tmp_path, output=tmp_path / "out",
            seconds=200, tick=tick, grace=100,
        )  # fmt: skip
    assert (tmp_path / "out").read_text() == "up\n" * 3 + "1\n" * 3


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_program_leaves_no_child(tmp_path: Path, number: int) -> None:
    code = f"""
import sys
import threading
from pathlib import Path
from tools.environment.child import run_child
folder = Path({str(tmp_path)!r})
def tick(seconds):
    if (folder / "out").read_text():
        print("up", flush=True)
run_child([sys.executable, "-c", {FAMILY!r}], environment={ENVIRONMENT!r}, folder=folder,
          output=folder / "out", seconds=100, grace=0.2, tick=tick)
"""
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=Path(__file__).parent.parent,
    ) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == b"up\n"
        program.send_signal(number)
        program.stdout.read()
        assert program.wait(120) != 0
    pids = [int(word) for word in (tmp_path / "out").read_text().split()]
    assert len(pids) == 2
    assert all(gone(pid) for pid in pids)


def test_ctrl_c_once_more_while_a_stubborn_child_is_asked_to_end_leaves_none_either(tmp_path: Path) -> None:
    code = (
        "import os, signal, time\n"
        f"signal.signal(signal.SIGTERM, lambda *_: os.kill({os.getpid()}, signal.SIGINT))\n"
        "print(os.getpid(), flush=True)\n"
        "while True: time.sleep(300)\n"
    )

    def tick(_: float) -> None:
        if (tmp_path / "out").read_text().endswith("\n"):
            raise KeyboardInterrupt("the first")

    with pytest.raises(KeyboardInterrupt) as caught:
        run_child(
            [sys.executable, "-c", code], environment=ENVIRONMENT, folder=tmp_path, output=tmp_path / "out",
            seconds=200, tick=tick, grace=60,
        )  # fmt: skip
    assert str(caught.value) == ""
    assert gone(int((tmp_path / "out").read_text()))


DAEMON = """
import os, sys, time
def say():
    with open(sys.argv[1], "a") as file:
        file.write(f"{os.getpid()}\\n")
say()
ready, done = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        say()
        os.write(done, b"x")
        time.sleep(300)
    os._exit(0)
os.read(ready, 1)
os.wait()
print("up", flush=True)
"""
"""Leaves a process behind that is neither of its group nor of its session, nor a child of it."""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux finds what a child abandons")
@pytest.mark.parametrize("then", ["", "time.sleep(300)", "os.kill(os.getpid(), 11)", "os._exit(77)"])
def test_what_a_child_has_abandoned_is_ended_too(
    tmp_path: Path, then: str, pass_time: Callable[[float], None]
) -> None:
    out = tmp_path / "out"

    def tick(_: float) -> None:
        if "sleep" in then and out.read_text() == "up\n":
            pass_time(200)

    ended = run_child(
        [sys.executable, "-c", DAEMON + then, str(tmp_path / "pids")],
        environment=ENVIRONMENT,
        folder=tmp_path,
        output=out,
        seconds=200,
        tick=tick,
        grace=100,  # all end when they are asked
    )
    assert out.read_text() == "up\n"
    assert ended.code == {"": 0, "time.sleep(300)": -15, "os.kill(os.getpid(), 11)": -11}.get(then, 77)
    assert ended.timed_out == ("sleep" in then)
    pids = [int(word) for word in (tmp_path / "pids").read_text().split()]
    assert len(pids) == 2
    assert all(gone(pid) for pid in pids)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a child with a killed parent")
@pytest.mark.parametrize("family", [FAMILY, DAEMON + "time.sleep(300)"])
def test_a_killed_program_leaves_no_child(tmp_path: Path, family: str) -> None:
    """Not even stubborn ones, or such as it has abandoned."""
    code = f"""
import sys
from pathlib import Path
from tools.environment.child import run_child
pids, out = Path({str(tmp_path / "pids")!r}), Path({str(tmp_path / "out")!r})
def tick(_):
    if out.read_text().endswith("\\n"):
        print(pids.read_text() if pids.exists() else out.read_text(), flush=True)
run_child([sys.executable, "-c", {family!r}, str(pids)], environment={{}}, folder=out.parent, output=out,
          seconds=100, tick=tick)
"""
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parent.parent,
    ) as program:
        assert program.stdout is not None
        first = next(line for line in program.stdout if line.strip())
        pids = [int(word) for word in first.split()]
        if len(pids) == 1:
            pids += [int(word) for word in next(program.stdout).split()]
        program.kill()
        program.stdout.read()
    assert len(pids) == 2
    assert all(gone_soon(pid) for pid in pids)


def test_a_child_dies_of_a_closed_pipe_as_programs_do(tmp_path: Path) -> None:
    ended = run_child(
        ["sh", "-c", "yes | head -1; kill -PIPE $$; echo survived"],
        environment=ENVIRONMENT,
        folder=tmp_path,
        output=tmp_path / "out",
        seconds=60,
    )
    assert ended.code == -signal.SIGPIPE
    assert (tmp_path / "out").read_text() == "y\n"


def test_a_child_that_cannot_start_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        run_child(
            [str(tmp_path / "absent")],
            environment={},
            folder=tmp_path,
            output=tmp_path / "out",
            seconds=1,
        )


def test_a_program_that_cannot_be_started_is_an_error_and_no_exit_code(tmp_path: Path) -> None:
    """Exit code 1 of a search means that nothing was found: a program of another machine must not say so."""
    program = tmp_path / "foreign"
    program.write_bytes(b"\x7fELF of another machine")
    program.chmod(0o755)
    with pytest.raises(OSError, match=r"Exec format error|cannot execute") as caught:
        run_child(
            [str(program)], environment=ENVIRONMENT, folder=tmp_path, output=tmp_path / "out", seconds=30
        )
    assert caught.value.filename == str(program)
    assert (tmp_path / "out").read_bytes() == b""


def test_a_child_gets_no_open_file_of_ours(tmp_path: Path) -> None:
    code = "import os; print(sorted(int(fd) for fd in os.listdir('/dev/fd')))"
    run_child(
        [sys.executable, "-c", code], environment=ENVIRONMENT, folder=tmp_path, output=tmp_path / "out",
        seconds=30,
    )  # fmt: skip
    assert json.loads((tmp_path / "out").read_text()) == [0, 1, 2, 3]  # 3: the listing itself


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has the limit")
def test_a_child_that_wants_too_much_memory_gets_none_and_so_do_its_own(tmp_path: Path) -> None:
    greedy = "b = bytearray({size}); b[::4096] = b[::4096]; print(len(b))"
    sizes = {"within": 40 << 20, "over": 400 << 20}
    for memory in (100 << 20, None):
        for name, size in sizes.items():
            own = greedy.format(size=size)
            code = (
                "import subprocess, sys\n"
                f"sys.exit(subprocess.run([sys.executable, '-c', {own!r}]).returncode)"
            )
            ended = run_child(
                [sys.executable, "-c", code],
                environment=ENVIRONMENT,
                folder=tmp_path,
                output=tmp_path / "out",
                errors=tmp_path / "errors",
                seconds=60,
                memory=memory,
            )
            fails = name == "over" and memory is not None
            assert ended.code == (1 if fails else 0)
            assert ("MemoryError" in (tmp_path / "errors").read_text()) == fails


WRITERS = {
    "out": "import sys\nwhile True: sys.stdout.write('x' * 65536)",
    "errors": "import sys\nwhile True: sys.stderr.write('x' * 65536)",
    "a grandchild": "import subprocess, sys, time\n"
    "subprocess.Popen([sys.executable, '-c', 'while True: print(1)'], process_group=0); time.sleep(300)",
    "and ends": "print('x' * 3_000_000)",
}


@pytest.mark.parametrize("how", WRITERS)
@pytest.mark.parametrize("apart", [True, False])
def test_a_child_that_writes_without_end_is_ended(tmp_path: Path, how: str, apart: bool) -> None:
    before = set(psutil.Process().children(recursive=True))
    with pytest.raises(
        OutputError, match=r"^python\S* wrote more than 1 MB and was ended; ask for less, or "
    ):
        run_child(
            [sys.executable, "-c", WRITERS[how]],
            environment=ENVIRONMENT,
            folder=tmp_path,
            output=tmp_path / "out",
            errors=tmp_path / "errors" if apart else None,
            seconds=60,
            most_output=1_000_000,
        )
    assert set(psutil.Process().children(recursive=True)) <= before


def test_a_thread_that_is_asked_to_stop_ends_its_child_and_starts_no_other(tmp_path: Path) -> None:
    stop, ended = stopping.Stop(), []

    def work() -> None:
        for _ in range(2):
            try:
                with stopping.under(stop):
                    run_child(
                        [sys.executable, "-c", FAMILY],
                        environment=ENVIRONMENT,
                        folder=tmp_path,
                        output=tmp_path / "out",
                        seconds=200,
                        grace=0.2,
                        tick=lambda _: stop.ask() if (tmp_path / "out").read_text().endswith("\n") else None,
                    )
            except stopping.Stopped:
                ended.append((tmp_path / "out").read_text())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert len(set(ended)) == 1
    assert len(ended) == 2
    assert all(gone(int(word)) for word in ended[0].split())
    assert stop.children == 0


def test_threads_that_come_and_go_end_no_child_of_another(tmp_path: Path) -> None:
    """The kernel takes the thread that starts a child for its parent."""
    codes: list[int] = []

    def work(number: int) -> None:
        code = f"import sys; sys.stdin.read(); print({number}); import time; time.sleep({number} / 4)"
        ended = run_child(
            [sys.executable, "-c", code], environment=ENVIRONMENT, folder=tmp_path,
            output=tmp_path / f"out{number}", seconds=60,
        )  # fmt: skip
        codes.append(ended.code)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert codes == [0, 0, 0]


def test_only_children_that_go_there_know_the_way_to_a_network() -> None:
    given = {"PATH": "/bin", "HTTPS_PROXY": "http://me:secret@proxy", "NETRC": "/n", "SSH_AUTH_SOCK": "/s"}
    assert allowed_environment(given) == {"PATH": "/bin"}


@pytest.mark.parametrize("own", ["SSL_CERT_FILE", "SSL_CERT_DIR", "UV_SYSTEM_CERTS", "UV_NATIVE_TLS"])
def test_uv_believes_the_systems_certificates_unless_told_otherwise(
    monkeypatch: pytest.MonkeyPatch, own: str
) -> None:
    for name in ("SSL_CERT_FILE", "SSL_CERT_DIR", "UV_SYSTEM_CERTS", "UV_NATIVE_TLS"):
        monkeypatch.delenv(name, raising=False)
    system = SimpleNamespace(cafile="/certs.pem", capath=None)
    monkeypatch.setattr(ssl, "get_default_verify_paths", lambda: system)
    assert uv_environment(retries=False)["UV_SYSTEM_CERTS"] == "1"
    monkeypatch.setenv(own, "0")
    assert uv_environment(retries=False).get("UV_SYSTEM_CERTS", "0") == "0"
    monkeypatch.delenv(own)
    system.cafile = None
    assert "UV_SYSTEM_CERTS" not in uv_environment(retries=False), "the system has none"


def test_the_guard_knows_who_cleans_up_and_for_how_long_as_its_parent_does() -> None:
    """It runs alone, and can import nothing of the program."""
    assert (_guard.CLEANER.decode(), _guard.CLEANING) == (child.CLEANER, child.CLEANING)
