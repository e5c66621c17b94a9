"""Processes for ``test_stress.py``: forked from one that has everything imported, so that they start at once.

``python -P tests/stress.py SCENARIO HOME COUNT SEED`` prints one JSON document, or leaves with a traceback.
"""

from __future__ import annotations

import json
import os
import random
import select
import shutil
import signal
import sqlite3
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import memory.database
from memory.canonical import finding_id
from memory.clock import SystemClock
from memory.home import Home
from memory.store import Store
from memory.views import Views
from memory.vocabulary import Claim, Effect, Evidence, Finding, HypothesisState, Level, Verdict
from transcripts.catch_up import Follower, catch_up, rebuild
from transcripts.events import Body, Called, Found, HypothesisChanged, Opened, Returned
from transcripts.fold import fold
from transcripts.log import Log
from transcripts.reader import check_chain, torn_bytes
from transcripts.standing import standing

PATIENCE = 150.0
"""Seconds after which something that should happen at once is held not to happen."""
TURNS = 2
"""How often at least each reader, rebuilder and replacer does its work while others write."""
TABLES = (
    "folded", "investigations", "hypotheses", "findings", "positions", "sightings", "evidence",
    "measurements", "experiments",
)  # fmt: skip


def body(number: int) -> Body:
    """Events of every kind that makes rows, results of up to 60 kB, verdicts that contradict each other."""
    match number % 5:
        case 0:
            return Called(call=f"c{number}", tool="t", effect=Effect.READS, input={"n": number})
        case 1:
            return Returned(call=f"c{number - 1}", status="ok", output="x" * (number * 7919 % 60_000))
        case 2:
            return HypothesisChanged(
                id=f"h{number % 30}", component="c", backend="b", arch="sm120",
                state=HypothesisState.OPEN, because=f"event {number}",
            )  # fmt: skip
    evidence = Evidence(
        package="lib", version="1", file="lib/a.py", line=1, end_line=1, sha256="0" * 64, text="x", idiom="i"
    )
    claim = Claim(
        component="moe_runner", backend=f"b{number % 7}", arch="sm120", engine="engine",
        packages={"lib": "1"}, level=Level.STATIC, source_evidence=(evidence,),
        verdict=Verdict.BLOCKED if number % 2 else Verdict.UNKNOWN,
    )  # fmt: skip
    found = Finding(id=finding_id(claim.model_dump(mode="json")), claim=claim, transcript="", event=0)
    return Found(finding=found)


def fork(work: Callable[[Callable[[Any], None]], None]) -> tuple[int, int]:
    """Run ``work`` in a child; returns its pid and where to read the lines of JSON that it says."""
    reading, writing = os.pipe()
    child = os.fork()
    if child:
        os.close(writing)
        return child, reading
    code = 1
    try:
        os.close(reading)
        work(lambda value: os.write(writing, json.dumps(value).encode() + b"\n") and None)
        code = 0
    except Exception:  # noqa: BLE001 - the exit code says it
        traceback.print_exc()
    finally:
        os._exit(code)


def unless_warned(text: str) -> None:
    assert "warning" not in text, text


def hear(reading: int, seconds: float | None = None, lines: int | None = None) -> list[Any]:
    """What a child says: until it ends, or for ``seconds``, or until it has said so many lines."""
    until = None if seconds is None else time.monotonic() + seconds
    data = b""
    while until is None or select.select([reading], [], [], max(0.0, until - time.monotonic()))[0]:
        more = os.read(reading, 1 << 16)
        if not more:
            break
        data += more
        if lines is not None and data.count(b"\n") >= lines:
            break
    return [json.loads(line) for line in data.splitlines()]


def ended(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def opened(name: str) -> Opened:
    return Opened(investigation=name, program="p", driver="d", question="q", seed=0)


def rows(home: Home) -> dict[str, list[tuple[Any, ...]]]:
    with closing(sqlite3.connect(home.findings_db)) as connection:
        return {
            table: sorted(connection.execute(f"SELECT * FROM {table}"), key=repr)  # noqa: S608 - ours
            for table in TABLES
        }


def rebuilt(home: Home) -> dict[str, list[tuple[Any, ...]]]:
    """The rows that the transcripts of ``home`` make in an empty database."""
    other = Home(home.root.with_name("rebuilt"))
    shutil.rmtree(other.root, ignore_errors=True)
    shutil.copytree(home.transcripts, other.transcripts)
    with Store(other) as store:
        assert catch_up(store, other.transcripts) == []
    return rows(other)


def write_on(home: Home, path: Path, say: Callable[[Any], None], again: bool) -> None:
    """Append and fold until killed. Says ``cut`` once, then the number of each event that is kept."""
    log = (
        Log.open(path, SystemClock()) if path.exists() else Log.create(path, opened(path.stem), SystemClock())
    )
    with log, Store(home) as store:
        say({"cut": log.cut, "next": log.next_seq})
        while True:
            event = log.append(body(log.next_seq))
            say(event.seq)
            fold(store, path)
            if again and event.seq % 4 == 0:
                rebuild(store, home.transcripts)


def kills(home: Home, count: int, chance: random.Random) -> dict[str, int]:
    """Kill a writer again and again; after each death look at what is left."""
    path = home.transcripts / "t.jsonl"
    kept, torn, cuts, behind, number = -1, 0, 0, 0, 0
    # The moments are random: until they were of every kind.
    while number < count or (min(cuts // 5, behind, kept // 40) < 1 and number < 20 * count):
        again = chance.random() < 0.3
        child, reading = fork(lambda say, again=again: write_on(home, path, say, again))
        # However busy the machine is, some get far and some hardly begin; then anywhere within what they do.
        said = hear(reading, PATIENCE, lines=chance.randrange(1, 6))
        select.select([], [], [], chance.choice([0.0, chance.random() / 50]))
        os.kill(child, signal.SIGKILL)
        said += hear(reading)
        os.close(reading)
        assert ended(child) == -signal.SIGKILL
        assert said[0] == {"cut": torn, "next": max(kept + 1, said[0]["next"])}, (said[0], torn, kept)
        cuts += torn > 0
        kept = max([kept, *(seq for seq in said if isinstance(seq, int))])

        problems = list(check_chain(path))
        torn = torn_bytes(path)
        assert [problem.message[:12] for problem in problems] == ["its line is "][: torn > 0], problems
        with Store(home) as store:
            at = store.folded("t")
            assert catch_up(store, home.transcripts) == []
            after = store.folded("t")
        assert after is not None
        assert after.last_seq >= kept, (after, kept)
        behind += at is None or at.last_seq < after.last_seq
        if number % 4 == 3:
            assert rows(home) == rebuilt(home)
        number += 1
        # A write that reached the disk in part: nobody was told of that event.
        if not torn and chance.random() < 0.4:
            line = b'{"at":"2026-01-01T00:00:00.000Z","data":{"kind":"noted","text":"' + b"x" * 300
            torn = chance.randrange(1, len(line))
            with path.open("ab") as file:
                file.write(line[:torn])
    before = rows(home)
    with Store(home) as store:
        assert rebuild(store, home.transcripts) == []
    assert rows(home) == before
    return {"kills": number, "events": kept + 1, "cuts": cuts, "behind": behind}


def births(home: Home, count: int, chance: random.Random) -> dict[str, int]:
    """Kill what starts one transcript after the other: each is there with its first event or not."""

    def start(say: Callable[[Any], None], prefix: int) -> None:
        number = 0
        while True:
            name = f"t{prefix}-{number}"
            Log.create(home.transcripts / f"{name}.jsonl", opened(name), SystemClock()).close()
            number += 1
            say(number)

    for prefix in range(count):
        child, reading = fork(lambda say, prefix=prefix: start(say, prefix))
        said = hear(reading, PATIENCE, lines=chance.randrange(1, 4))
        select.select([], [], [], chance.random() / 100)
        os.kill(child, signal.SIGKILL)
        said += hear(reading)
        os.close(reading)
        assert ended(child) == -signal.SIGKILL
        assert len(list(home.transcripts.glob(f"t{prefix}-*.jsonl"))) in {said[-1], said[-1] + 1}
    logs = list(home.transcripts.glob("*.jsonl"))
    for path in logs:
        assert list(check_chain(path)) == []
    return {"logs": len(logs)}


def crowd(home: Home, count: int, chance: random.Random) -> dict[str, int]:
    """Eight processes on one new home: two write transcripts, four read, one makes all rows again all the
    time, and one replaces a transcript by another of the same name."""
    done = home.transcripts / "t0.jsonl"
    with Log.create(done, opened("t0"), SystemClock()) as log:
        for number in range(30):
            log.append(body(number))
    one, other = (home.root / name for name in ("one", "other"))
    for path, size in ((one, 10), (other, 12)):
        with Log.create(path, opened("t3"), SystemClock()) as log:
            for number in range(size):
                log.append(body(number))

    def follow() -> None:
        with Store(home) as store:
            assert catch_up(store, home.transcripts) == []

    def turned(name: str, times: int) -> None:
        if times == TURNS:
            (home.root / f"{name}.turned").touch()

    def write(name: str, say: Callable[[Any], None]) -> None:
        """At least ``count`` events; on a busy machine more, until each of the others has had its turns."""
        path = home.transcripts / f"{name}.jsonl"
        until, number = time.monotonic() + PATIENCE, 0
        with Log.create(path, opened(name), SystemClock()) as log, Follower(home, unless_warned) as follower:
            folded = follower.follow(path)
            while number < count or len(list(home.root.glob("*.turned"))) < len(others):
                assert time.monotonic() < until, "the others do not get their turns"
                folded(log.append(body(number)))
                number += 1
        part = home.root / f"{name}.part"
        part.write_text(str(number + 1))
        part.replace(home.root / f"{name}.written")
        say(number + 1)

    def ready() -> bool:
        written = {path.stem: int(path.read_text()) for path in home.root.glob("*.written")}
        states = {row["transcript"]: row["events"] for row in Views(home).investigations()}
        return len(written) == 2 and all(states.get(name) == events for name, events in written.items())

    def read(name: str, say: Callable[[Any], None]) -> None:
        reads = 0
        until = time.monotonic() + 2 * PATIENCE
        while not ready():
            assert time.monotonic() < until, "the writers do not come to their end"
            views = Views(home)
            if reads % 3 == 2:
                follow()
            states = {row["transcript"]: row["events"] for row in views.investigations()}
            assert states.get("t0") in {None, 31} if not reads else states["t0"] == 31, states
            assert states.get("t3", 0) <= 13, states  # of one or the other, as far as it is folded
            reads += 1
            for row in views.findings(statuses=()):
                assert len(views.evidence(row["id"])) <= 1
            standing(views.folded(), home.transcripts)
            turned(name, reads)
        say(reads)

    def remake(name: str, say: Callable[[Any], None]) -> None:
        times = 0
        while not ready():
            with Store(home) as store:
                assert rebuild(store, home.transcripts) == []
            times += 1
            turned(name, times)
        say(times)

    def replace(name: str, say: Callable[[Any], None]) -> None:
        times = 0
        while not ready():
            part = home.root / "part"
            shutil.copyfile((one, other)[times % 2], part)
            part.replace(home.transcripts / "t3.jsonl")
            follow()
            times += 1
            turned(name, times)
        say(times)

    others = [*[(f"read{number}", read) for number in range(4)], ("remake", remake), ("replace", replace)]
    follow()
    children = [
        fork(lambda say, name=name, work=work: work(name, say))
        for name, work in [*others, ("t1", write), ("t2", write)]
    ]
    said = [hear(reading) for _, reading in children]
    codes = [ended(child) for child, _ in children]
    assert codes == [0] * 8, codes
    follow()
    assert rows(home) == rebuilt(home)
    turns = {name: sum(one) for (name, _), one in zip(others, said, strict=False)}
    return turns | {"events": sum(sum(one) for one in said[len(others) :])}


def writers(home: Home, count: int, chance: random.Random) -> dict[str, int]:
    """Eight processes write ``count`` findings each, every one folded at once, while two search and list."""
    done = home.root / "done"

    def write(number: int, say: Callable[[Any], None]) -> None:
        path = home.transcripts / f"t{number}.jsonl"
        with (
            Log.create(path, opened(path.stem), SystemClock()) as log,
            Follower(home, unless_warned) as follower,
        ):
            folded = follower.follow(path)
            for place in range(count):
                # Of some subjects all eight say something, and not the same.
                folded(
                    log.append(
                        found(f"b{place % 5}" if place % 3 == 0 else f"b{number}-{place}", number, place)
                    )
                )
        say(count)

    def read(say: Callable[[Any], None]) -> None:
        reads, known = 0, 0
        while reads < TURNS or not done.exists():
            views = Views(home)
            rows = views.findings(statuses=())
            assert len(rows) >= known, "nothing that was seen is gone"
            known = len(rows)
            for row in views.search("blocked", limit=5):
                assert len(views.evidence(row["id"])) == 1
            reads += 1
        say(reads)

    with Store(home):
        pass
    readers = [fork(read) for _ in range(2)]
    children = [fork(lambda say, number=number: write(number, say)) for number in range(8)]
    written = sum(sum(hear(reading)) for _, reading in children)
    codes = [ended(child) for child, _ in children]
    done.touch()
    reads = [sum(hear(reading)) for _, reading in readers]
    codes += [ended(child) for child, _ in readers]
    assert codes == [0] * 10, codes
    with Store(home) as store:
        store.check()
        assert catch_up(store, home.transcripts) == []
    there = rows(home)
    assert len(there["sightings"]) == written == 8 * count
    assert there == rebuilt(home)
    return {"written": written, "reads": min(reads), "findings": len(there["findings"])}


def found(backend: str, number: int, place: int) -> Found:
    evidence = Evidence(
        package="lib", version="1", file=f"lib/{number}.py", line=place + 1, end_line=place + 1,
        sha256="0" * 64, text="x", idiom="i",
    )  # fmt: skip
    claim = Claim(
        component="moe_runner", backend=backend, arch="sm120", engine="engine", packages={"lib": "1"},
        level=Level.STATIC, source_evidence=(evidence,),
        verdict=Verdict.BLOCKED if number % 2 else Verdict.UNKNOWN,
    )  # fmt: skip
    name = finding_id(claim.model_dump(mode="json"))
    return Found(finding=Finding(id=name, claim=claim, transcript="", event=0))


if __name__ == "__main__":
    memory.database.BUSY_MS = int(PATIENCE * 1000)  # on a busy machine others may have their turns for long
    scenario = {"kills": kills, "births": births, "crowd": crowd, "writers": writers}[sys.argv[1]]
    print(
        json.dumps(scenario(Home(Path(sys.argv[2])).prepare(), int(sys.argv[3]), random.Random(sys.argv[4])))
    )
