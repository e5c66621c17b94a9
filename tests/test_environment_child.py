"""Child processes: what they see, and that nothing of them stays. Real processes, no network."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import ssl
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from tools.environment.child import allowed_environment, run_child
from tools.environment.uv import _environment as uv_environment

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


def test_a_child_sees_only_what_is_allowed(tmp_path: Path) -> None:
    given = {
        "PATH": os.environ["PATH"],
        "OPENAI_API_KEY": "k",
        "UV_OFFLINE": "1",
        "HF_TOKEN": "t",
        "LANG": "C",
    }
    seen = allowed_environment(given, lambda name: name == "UV_OFFLINE")
    code = (
        "import json, os, sys; own = os.getsid(0) == os.getpid();"
        "print(json.dumps([dict(os.environ), sys.stdin.read(), own]))"
    )
    ended = run_child(
        [sys.executable, "-I", "-c", code],
        environment=seen,
        folder=tmp_path,
        output=tmp_path / "out",
        seconds=60,
    )
    variables, stdin, own_session = json.loads((tmp_path / "out").read_text())
    assert ended.code == 0
    assert {"PATH", "UV_OFFLINE", "LANG"} <= set(variables)
    assert not {"OPENAI_API_KEY", "HF_TOKEN"} & set(variables)
    assert stdin == ""
    assert own_session


def test_a_child_over_its_time_is_ended_with_all_below_it(tmp_path: Path) -> None:
    ended = run_child(
        [sys.executable, "-c", FAMILY],
        environment=ENVIRONMENT,
        folder=tmp_path,
        output=tmp_path / "out",
        seconds=2,
        grace=0.2,
    )
    assert ended.timed_out
    assert ended.code == -signal.SIGKILL
    pids = [int(word) for word in (tmp_path / "out").read_text().split()]
    assert len(pids) == 2
    assert all(gone(pid) for pid in pids)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_program_leaves_no_child(tmp_path: Path, number: int) -> None:
    code = f"""
import sys
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
        assert program.wait(30) != 0
    pids = [int(word) for word in (tmp_path / "out").read_text().split()]
    assert len(pids) == 2
    assert all(gone(pid) for pid in pids)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a child with a killed parent")
def test_a_killed_program_leaves_no_child(tmp_path: Path) -> None:
    code = f"""
import sys
from pathlib import Path
from tools.environment.child import run_child
child = "import os, time; print(os.getpid(), flush=True); time.sleep(300)"
out = Path({str(tmp_path / "out")!r})
run_child([sys.executable, "-c", child], environment={{}}, folder=out.parent, output=out, seconds=100,
          tick=lambda _: print(out.read_text(), flush=True))
"""
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parent.parent,
    ) as program:
        assert program.stdout is not None
        pid = int(next(line for line in program.stdout if line.strip()))
        program.kill()
        program.stdout.read()
    with contextlib.suppress(psutil.NoSuchProcess, psutil.TimeoutExpired):
        psutil.Process(pid).wait(10)
    assert gone(pid)


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
