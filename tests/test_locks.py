"""Resources of which each has one user at a time: real files, real processes."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from memory.home import Home
from tools import stopping
from tools.errors import ToolError
from tools.locks import holding

ROOT = Path(__file__).parents[1]

HOLDER = """
import sys
from pathlib import Path
from memory.home import Home
from tools.locks import holding
root = Path(sys.argv[1])
with holding(sys.argv[2:], Home(root), print, root):
    print("held", flush=True)
    sys.stdin.readline()
"""


def holder(home: Home, *resources: str) -> subprocess.Popen[str]:
    """A process that holds them until it is killed or gets a line."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(home.root), *resources],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


@pytest.mark.parametrize("resource", ["gpu:GPU-1", "environment:sglang-0.5.9"])
@pytest.mark.parametrize("killed", [True, False])
def test_who_waits_is_told_by_whom_and_goes_on_when_that_one_ends(
    home: Home, resource: str, killed: bool
) -> None:
    told: list[str] = []
    with holder(home, resource) as other:

        def tell(text: str) -> None:
            told.append(text)
            if killed:
                other.kill()
            else:
                other.send_signal(signal.SIGINT)

        with holding([resource], home, tell, home.root):
            assert len(told) == 1
    who = f"process {other.pid}" if sys.platform == "linux" else "another process"
    assert told == [f"waiting for {resource}: {who} comes first"]


def test_resources_are_taken_in_one_order_by_all(home: Home) -> None:
    """Who waits for the last has all before it, in whatever order they were named."""
    others = ["gpu:c", "environment:b", "gpu:d", "environment:a"]

    def tell(_: str) -> None:
        for path in [*home.root.glob("assay-gpu:?"), *home.root.glob("locks/assay-*?:?")]:
            with path.open() as file, pytest.raises(BlockingIOError):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            taken.append(path.name)
        other.kill()

    taken: list[str] = []
    with holder(home, "port:z") as other, holding(["port:z", *others], home, tell, home.root):
        assert sorted(taken) == sorted(f"assay-{name}" for name in others)


def test_waiting_ends_when_asked_to_stop_and_holds_nothing_then(home: Home) -> None:
    stop = stopping.Stop()
    ended: list[str] = []

    def wait() -> None:
        with stopping.under(stop):
            try:
                with holding(["gpu:a", "gpu:b"], home, lambda _: stop.ask(), home.root):
                    ended.append("held")
            except stopping.Stopped:
                ended.append("stopped")

    with holder(home, "gpu:b") as other:
        thread = threading.Thread(target=wait)
        thread.start()
        thread.join()
        assert ended == ["stopped"]
        with holding(["gpu:a"], home, pytest.fail, home.root):
            pass
        other.kill()


def test_released_on_every_way_out(home: Home) -> None:
    for error in (ValueError, OSError, SystemExit, KeyboardInterrupt):
        with pytest.raises(error), holding(["gpu:a", "environment:b"], home, pytest.fail, home.root):
            raise error
    with holding(["gpu:a", "environment:b", "gpu:a"], home, pytest.fail, home.root):
        pass


def test_a_forked_child_does_not_keep_what_its_parent_let_go(home: Home) -> None:
    forking = HOLDER.replace("sys.stdin.readline()", "child = os.fork()") + (
        "    if child == 0: sys.stdin.read(); os._exit(0)\n"
        "print('let go', flush=True)\n"
        "os.waitpid(child, 0)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", f"import os\n{forking}", str(home.root), "gpu:a"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    ) as process:
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(2)] == ["held\n", "let go\n"]
        with holding(["gpu:a"], home, pytest.fail, home.root):
            assert process.poll() is None


@pytest.mark.parametrize(
    "name", ["../../escape", "/etc/passwd", "a\nb", "ü" * 300, "x" * 5000, "..", "%2F", "a+next", "a\0b"]
)
def test_a_name_leads_nowhere_else(home: Home, name: str) -> None:
    before = set(home.root.parent.rglob("*"))
    with holding([f"port:{name}", f"environment:{name}", "port:a"], home, pytest.fail, home.root):
        pass
    made = set(home.root.parent.rglob("*")) - before
    assert {path.parent for path in made if path.is_file()} == {home.root, home.root / "locks"}
    assert len([path for path in made if path.is_file()]) == 6


@pytest.mark.parametrize("name", ["", "gpu", "gpu:", ":0"])
def test_what_is_no_resource_is_refused(home: Home, name: str) -> None:
    with pytest.raises(ToolError, match="expected KIND:NAME"), holding([name], home, pytest.fail, home.root):
        pass


@pytest.mark.parametrize("kind", ["link", "dangling link", "pipe", "folder"])
def test_what_others_put_in_the_way_is_neither_followed_nor_waited_for(home: Home, kind: str) -> None:
    target, path = home.root / "target", home.root / "assay-gpu:a"
    match kind:
        case "link":
            target.touch()
            path.symlink_to(target)
        case "dangling link":
            path.symlink_to(target)
        case "pipe":
            os.mkfifo(path)
        case _:
            path.mkdir()
    with (
        pytest.raises(ToolError, match=r"^cannot lock gpu:a in .*; see to it that you can write there$"),
        holding(["gpu:a"], home, pytest.fail, home.root),
    ):
        pass
    assert kind == "link" or not target.exists()


def test_a_folder_that_is_not_there_is_one_clear_line(home: Home) -> None:
    with (
        pytest.raises(ToolError, match=r"cannot lock port:1 in .*absent \(No such file") as caught,
        holding(["port:1"], home, pytest.fail, home.root / "absent"),
    ):
        pass
    assert caught.value.missing


def test_other_users_can_lock_what_belongs_to_the_machine_and_not_what_is_ours(home: Home) -> None:
    before = os.umask(0o077)
    try:
        with holding(["gpu:a", "environment:b"], home, pytest.fail, home.root):
            pass
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o777 for path in home.root.rglob("assay-*")}
    assert modes == {
        "assay-gpu:a": 0o444,
        "assay-gpu:a+next": 0o444,
        "assay-environment:b": 0o600,
        "assay-environment:b+next": 0o600,
    }


def test_a_file_that_something_cleared_away_is_locked_anew(home: Home) -> None:
    """Whoever had the old file open and gets its lock then does not believe to hold anything."""
    removed: list[bool] = []
    with holder(home, "gpu:a") as other:

        def tell(_: str) -> None:
            (home.root / "assay-gpu:a").unlink()
            removed.append(True)
            other.kill()

        with holding(["gpu:a"], home, tell, home.root):
            assert removed
            assert (home.root / "assay-gpu:a").exists()


def test_who_waits_comes_before_who_has_just_let_go(home: Home) -> None:
    waiting, order = threading.Event(), []

    def wait() -> None:
        with holding(["gpu:a"], home, lambda _: waiting.set(), home.root):
            order.append("waited")

    with holding(["gpu:a"], home, pytest.fail, home.root):
        thread = threading.Thread(target=wait)
        thread.start()
        assert waiting.wait(120)
    with holding(["gpu:a"], home, lambda _: None, home.root):
        order.append("again")
    thread.join()
    assert order == ["waited", "again"]
