"""The transcript log: what is written is what is read, and every accident is noticed and named."""

from __future__ import annotations

import hashlib
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from memory.clock import FixedClock, Ids, SystemClock, hypothesis_id
from memory.home import Home
from memory.vocabulary import Effect
from transcripts import events, reader
from transcripts.events import GENESIS, Called, Event, Noted, Opened, Returned
from transcripts.log import (
    Log,
    LogError,
    line_of,
    read,
    read_raw,
    records,
    tail,
    tail_raw,
    transcript_path,
    verify,
)

OPENED = Opened(
    investigation="20260101-abcdef", program="assay-agent 0.1.0", driver="planner", question="q", seed=7
)


def write(path: Path, count: int = 5) -> list[Event]:
    """A log of ``count`` events after the first; returns all as appended."""
    with Log.create(path, OPENED, FixedClock()) as log:
        return [*read(path), *(log.append(Noted(text=f"note {n} “ü”\n")) for n in range(count))]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "transcripts" / "one.jsonl"


def test_what_is_appended_is_read_back(path: Path) -> None:
    appended = write(path)
    assert list(read(path)) == appended
    assert [event.seq for event in appended] == list(range(6))
    assert verify(path) == []


def test_a_line_is_what_the_format_says(path: Path) -> None:
    write(path)
    prev = GENESIS
    for line in path.read_bytes().splitlines():
        value = json.loads(line)
        claimed = value.pop("hash")
        canonical = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
        assert hashlib.sha256(canonical).hexdigest() == claimed
        assert value["prev"] == prev
        value["hash"] = claimed
        assert line == json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
        prev = claimed


def test_same_inputs_write_the_same_bytes(tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl")
    write(tmp_path / "b.jsonl")
    assert (tmp_path / "a.jsonl").read_bytes() == (tmp_path / "b.jsonl").read_bytes()


def test_an_event_is_on_disk_when_append_returns(path: Path) -> None:
    with Log.create(path, OPENED, SystemClock()) as log:
        log.append(Noted(text="kept"))
        assert [event.data.kind for event in read(path)] == ["opened", "noted"]
        assert (log.next_seq, log.head) == (2, tail(path)[0].hash)


def test_a_killed_writer_leaves_every_acknowledged_event(path: Path) -> None:
    script = """
import sys
from pathlib import Path
from memory.clock import SystemClock
from transcripts.events import Noted, Opened
from transcripts.log import Log
log = Log.create(Path(sys.argv[1]), Opened(investigation="i", program="p", driver="d", question="q", seed=0),
                 SystemClock())
while True:
    print(log.append(Noted(text="x" * 2000)).seq, flush=True)
"""
    child = subprocess.Popen(
        [sys.executable, "-c", script, str(path)], stdout=subprocess.PIPE, text=True, cwd=Path.cwd()
    )
    assert child.stdout is not None
    seen = [int(child.stdout.readline()) for _ in range(20)]
    child.kill()
    rest = child.stdout.read().split("\n")
    child.stdout.close()
    child.wait()
    seen += [int(number) for number in rest if number]
    with Log.open(path, FixedClock()) as log:
        assert log.next_seq > seen[-1]
        log.append(Noted(text="resumed"))
    assert verify(path) == []


def test_foreign_values_that_json_cannot_hold_are_kept_readable(path: Path) -> None:
    with Log.create(path, OPENED, FixedClock()) as log:
        event = log.append(
            Returned(
                call="c1", status="ok", output={"loss": float("nan"), "top": float("inf"), "s": "\ud800"}
            )
        )
    assert isinstance(event.data, Returned)
    assert event.data.output == {"loss": None, "top": None, "s": "\ufffd"}
    assert list(read(path))[1] == event
    assert verify(path) == []


# One writer


def test_a_second_writer_is_refused_in_one_line(path: Path) -> None:
    with Log.create(path, OPENED, FixedClock()), pytest.raises(LogError, match="another process") as caught:
        Log.open(path, FixedClock())
    assert "\n" not in str(caught.value)
    Log.open(path, FixedClock()).close()


def test_an_existing_transcript_is_not_overwritten(path: Path) -> None:
    write(path)
    before = path.read_bytes()
    with pytest.raises(LogError, match="exists already"):
        Log.create(path, OPENED, FixedClock())
    assert path.read_bytes() == before


def test_a_closed_log_takes_nothing(path: Path) -> None:
    log = Log.create(path, OPENED, FixedClock())
    log.close()
    log.close()
    with pytest.raises(LogError, match="is closed"):
        log.append(Noted(text="late"))


# Accidents


def test_a_torn_last_line_is_passed_over_reported_and_cut(path: Path) -> None:
    appended = write(path)
    whole = path.read_bytes()
    for kept in (1, 40, len(whole.splitlines(keepends=True)[-1]) - 1):
        last = len(whole.splitlines(keepends=True)[-1])
        path.write_bytes(whole[: len(whole) - last + kept])
        assert list(read(path)) == appended[:-1]
        assert [str(p) for p in verify(path)] == [
            f"event 5: its line is torn ({kept} bytes without a newline); its writer was stopped"
        ]
        with Log.open(path, FixedClock()) as log:
            assert (log.cut, log.next_seq, log.head) == (kept, 5, appended[-2].hash)
            log.append(Noted(text="again"))
        assert verify(path) == []


def test_zeros_after_a_loss_of_power_are_a_torn_line(path: Path) -> None:
    appended = write(path)
    with path.open("ab") as file:
        file.write(b"\0" * 200_000)
    assert list(read(path)) == appended
    with Log.open(path, FixedClock()) as log:
        assert log.cut == 200_000
    assert verify(path) == []


def test_any_changed_byte_is_named(path: Path) -> None:
    write(path, 20)
    whole = path.read_bytes()
    owner = [number for number, line in enumerate(whole.splitlines(keepends=True)) for _ in line]
    chance = random.Random(11)
    for _ in range(300):
        at = chance.randrange(len(whole))
        changed = bytearray(whole)
        changed[at] ^= 1 << chance.randrange(8)
        path.write_bytes(changed)
        problems = verify(path)
        assert problems, at
        assert problems[0].event == owner[at]
        assert len(problems) <= 3, problems


def test_a_removed_or_swapped_event_is_named(path: Path) -> None:
    write(path)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:2] + lines[3:]))
    assert [str(problem) for problem in verify(path)] == [
        "event 2: the line says it is event 3; events are missing or out of order"
    ]
    with pytest.raises(LogError, match="event 2"):
        list(read(path))
    path.write_bytes(b"".join([*lines[:2], lines[3], lines[2], *lines[4:]]))
    assert verify(path)[0].event == 2


def test_a_line_that_fell_in_two_is_one_accident(path: Path) -> None:
    write(path, 50)
    lines = path.read_bytes().splitlines(keepends=True)
    lines[3] = lines[3].replace(b"note ", b"note\n", 1)
    path.write_bytes(b"".join(lines))
    assert [problem.event for problem in verify(path)] == [3, 4, 5]


def test_nothing_is_added_after_a_damaged_last_event(path: Path) -> None:
    write(path)
    data = path.read_bytes()
    path.write_bytes(data.replace(b"note 4", b"note 5"))
    with pytest.raises(LogError, match="last event is damaged"):
        Log.open(path, FixedClock())
    Log.create(path.with_name("other.jsonl"), OPENED, FixedClock()).close()


def foreign() -> Iterator[tuple[str, bytes, str]]:
    yield "empty", b"", "is empty"
    yield "binary", bytes(range(256)) * 300, "no transcript"
    yield "one long line", b"x" * 100_000, "no transcript"
    yield "text", b"hello\nworld\n", "no transcript"
    yield "other JSONL", b'{"role":"user","content":"hi"}\n{"role":"assistant"}\n', "another kind"
    yield "JSON list", b"[1,2]\n", "no transcript"
    yield "deep JSON", b"[" * 100_000 + b"\n", "no transcript"
    yield "newer", b'{"at":"x","data":{"format":2,"kind":"opened"},"v":2}\n', "format 2.*upgrade"
    yield "no format", b'{"at":"x","data":{"kind":"opened"}}\n', "names no format"


@pytest.mark.parametrize(("data", "says"), [pytest.param(d, s, id=i) for i, d, s in foreign()])
def test_what_is_no_transcript_is_refused_in_one_line(path: Path, data: bytes, says: str) -> None:
    path.parent.mkdir()
    path.write_bytes(data)
    for refuse in (lambda: list(read(path)), lambda: list(read_raw(path)), lambda: tail(path)):
        with pytest.raises(LogError, match=says) as caught:
            refuse()
        assert "\n" not in str(caught.value)
        assert len(str(caught.value)) < 300 + len(str(path))
    with pytest.raises(LogError, match=says):
        verify(path)
    with pytest.raises(LogError, match=says):
        Log.open(path, FixedClock())
    assert path.read_bytes() == data


def test_a_last_line_that_never_ends_is_not_read_to_its_beginning(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(path)
    with path.open("ab") as file:
        file.write(b"x" * 500_000 + b"\n")
    monkeypatch.setattr(reader, "LINE_LIMIT", 50_000)
    for refuse in (tail, reader.ending, lambda path: Log.open(path, FixedClock())):
        with pytest.raises(LogError, match="a line of more than"):
            refuse(path)


def test_a_log_cut_within_its_first_event_is_refused(path: Path) -> None:
    write(path)
    path.write_bytes(path.read_bytes()[:50])
    with pytest.raises(LogError, match="within its first event"):
        verify(path)


def test_missing_and_unreadable_files(tmp_path: Path) -> None:
    with pytest.raises(LogError, match="no transcript"):
        list(read(tmp_path / "none.jsonl"))
    with pytest.raises(LogError, match="cannot read"):
        list(read(tmp_path))
    (tmp_path / "file").write_text("")
    with pytest.raises(LogError, match="cannot create"):
        Log.create(tmp_path / "file" / "x.jsonl", OPENED, FixedClock())


def test_a_body_of_an_unknown_kind_is_named(path: Path) -> None:
    from transcripts.chain import encode

    write(path, 1)
    line, _ = encode(2, "2026-01-01T00:00:00.000Z", {"kind": "surprise"}, tail(path)[0].hash)
    with path.open("ab") as file:
        file.write(line)
    assert [problem.event for problem in verify(path)] == [2]
    with pytest.raises(LogError, match="event 2"):
        list(read(path))
    assert [record.seq for record in records(path)] == [0, 1, 2]


@pytest.mark.skipif(sys.platform == "win32", reason="file size limits are POSIX")
def test_a_write_that_fails_halfway_leaves_a_whole_log(path: Path) -> None:
    script = """
import resource, signal, sys
from pathlib import Path
from memory.clock import FixedClock
from transcripts.events import Noted, Opened
from transcripts.log import Log, LogError, verify
path = Path(sys.argv[1])
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
log = Log.create(path, Opened(investigation="i", program="p", driver="d", question="q", seed=0), FixedClock())
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 300, hard))
try:
    log.append(Noted(text="x" * 5000))
except LogError as error:
    print(error)
assert verify(path) == [], verify(path)
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
log.append(Noted(text="room again"))
assert verify(path) == []
print(log.next_seq)
"""
    done = subprocess.run(
        [sys.executable, "-c", script, str(path)], capture_output=True, text=True, cwd=Path.cwd(), check=False
    )
    assert done.returncode == 0, done.stderr
    said, seq = done.stdout.splitlines()
    assert said.startswith(f"cannot write to transcript {path}")
    assert seq == "2"


# Pages, ends, size


def test_pages_and_ends(path: Path) -> None:
    appended = write(path, 30)
    assert [event["seq"] for event in read_raw(path, start=10, limit=3)] == [10, 11, 12]
    assert list(read_raw(path, start=99)) == []
    assert tail(path, 4) == appended[-4:]
    assert tail(path, 1000) == appended
    assert tail_raw(path, 0) == []
    assert json.loads(line_of(path, 7))["data"]["text"].startswith("note 6")
    with pytest.raises(LogError, match="31 events"):
        line_of(path, 31)


def test_the_end_is_found_across_blocks(path: Path) -> None:
    with Log.create(path, OPENED, FixedClock()) as log:
        appended = [log.append(Noted(text="y" * size)) for size in (200_000, 10, 70_000, 65_536, 1)]
        for count in (1, 2, 3, 4):
            assert tail(path, count) == appended[-count:]
        appended.append(log.append(Noted(text="y" * 150_000)))
    for count in (1, 2, 5):
        assert tail(path, count) == appended[-count:]


def test_reading_can_go_on_from_a_record(path: Path) -> None:
    write(path, 10)
    first = list(records(path))
    at = first[4]
    assert list(records(path, offset=at.end, seq=5, prev=at.hash)) == first[5:]
    with pytest.raises(LogError, match="event 5"):
        list(records(path, offset=at.end, seq=5, prev=GENESIS))


def test_a_long_log_is_read_in_linear_time_and_flat_memory(path: Path) -> None:
    count = 20_000
    write(path, 1)
    from transcripts.chain import encode

    prev = tail(path)[0].hash
    body = {"kind": "noted", "text": "z" * 700}
    with path.open("ab") as file:
        for seq in range(2, count):
            line, prev = encode(seq, "2026-01-01T00:00:00.000Z", body, prev)
            file.write(line)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.process_time()
    assert sum(1 for _ in read(path)) == count
    used = time.process_time() - started
    # Generous: about 20 µs an event on a slow core; a quadratic reader takes minutes.
    assert used < 10
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 8 << (20 if sys.platform == "darwin" else 10)
    assert len(list(read_raw(path, start=count - 5))) == 5


def test_appending_costs_little_besides_the_disk(tmp_path: Path) -> None:
    folder = Path("/dev/shm") if Path("/dev/shm").is_dir() else tmp_path
    path = folder / f"assay-test-{os.getpid()}.jsonl"
    try:
        with Log.create(path, OPENED, FixedClock()) as log:
            body = Called(call="c", tool="read_source", effect=Effect.READS, input={"file": "a" * 500})
            started = time.process_time()
            for _ in range(500):
                log.append(body)
            assert (time.process_time() - started) / 500 < 0.001
    finally:
        path.unlink(missing_ok=True)


def test_pages_need_no_pydantic() -> None:
    script = "import sys, transcripts.reader; print('pydantic' in sys.modules, 'sqlmodel' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=Path.cwd(), check=True
    )
    assert done.stdout.split() == ["False", "False"]
    assert (reader.FORMAT, reader.GENESIS) == (events.FORMAT, events.GENESIS)


# Clock, ids, names


def test_ids_and_clocks() -> None:
    ids = Ids(seed=3)
    assert [ids.hexadecimal(4) for _ in range(3)] == [Ids(3).hexadecimal(4), *_after(3)]
    name = Ids(seed=1).investigation(FixedClock("2026-11-29T23:59:59.999Z"))
    assert name == Ids(seed=1).investigation(FixedClock("2026-11-29T00:00:00.000Z"))
    assert name.startswith("20261129-")
    assert len(name) == 15
    assert len({Ids().hexadecimal(6) for _ in range(50)}) > 45
    clock = FixedClock(step_ms=5)
    assert [clock.now(), clock.now()] == ["2026-01-01T00:00:00.000Z", "2026-01-01T00:00:00.005Z"]
    assert clock.monotonic() == pytest.approx(0.01)
    assert len(SystemClock().now()) == 24
    assert (
        hypothesis_id("a", "b", "sm120")
        == hypothesis_id("a", "b", "sm120")
        != hypothesis_id("ab", "", "sm120")
    )
    with pytest.raises(ValueError, match="time zone"):
        FixedClock("2026-01-01T00:00:00")


def _after(seed: int) -> list[str]:
    ids = Ids(seed)
    ids.hexadecimal(4)
    return [ids.hexadecimal(4), ids.hexadecimal(4)]


def test_a_transcript_is_named_by_id_or_path(tmp_path: Path) -> None:
    home = Home(tmp_path)
    assert transcript_path(home, "20260101-abcdef") == tmp_path / "transcripts" / "20260101-abcdef.jsonl"
    assert transcript_path(home, "some/where.jsonl") == Path("some/where.jsonl")
    write(tmp_path / "x.jsonl", 1)
    shutil.copy(tmp_path / "x.jsonl", tmp_path / "y.jsonl")
    assert verify(tmp_path / "y.jsonl") == []


def test_an_interrupt_in_the_middle_of_a_write_leaves_a_log_that_goes_on(path: Path) -> None:
    """Ctrl-C arrives while an event is flushed: what is written afterwards must still follow from it."""

    armed = False

    def interrupt(*_: object) -> None:
        nonlocal armed
        if armed:
            armed = False
            raise KeyboardInterrupt

    chance = random.Random(5)
    before = signal.signal(signal.SIGALRM, interrupt)
    interrupted = 0
    try:
        with Log.create(path, OPENED, FixedClock()) as log:
            for number in range(400):
                try:
                    armed = True
                    signal.setitimer(signal.ITIMER_REAL, chance.random() / 2000)
                    log.append(Noted(text=f"{number}" + "x" * 20_000))
                    armed = False
                except KeyboardInterrupt:
                    interrupted += 1
            log.append(Noted(text="the end"))
            assert (tail(path)[0].seq + 1, tail(path)[0].hash) == (log.next_seq, log.head)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert verify(path) == []
    assert interrupted > 20
