"""A secret that was written is taken out, and everything that rests on what was written follows."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sqlite3
import sys
import tempfile
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from investigations import documents, investigate, transcript
from program import agent, one_line, python, started
from tiny_engine import write_engine

from agent.cli.main import run as program
from agent.replay import replay
from memory.artifacts import Artifacts
from memory.canonical import canonical, finding_id
from memory.clock import FixedClock
from memory.home import Home
from memory.store import Store
from memory.views import Views
from memory.vocabulary import Claim, Effect, EventEvidence, Finding, Level, Outcome
from tools.output import cap
from transcripts.catch_up import catch_up
from transcripts.check import check
from transcripts.events import Body, Called, Found, Noted, Opened, Returned, Said
from transcripts.log import Log, LogError, read, verify
from transcripts.messages import message_id
from transcripts.redaction.pending import NAME
from transcripts.redaction.place import Place
from transcripts.redaction.redact import Redacted, redact
from transcripts.redaction.survey import DamagedError, dicts_in

ROOT = Path(__file__).parent.parent
KEY = "s" + "k-" + "abcdefghijklmnopqrstuvwxyz123456"
WORD = "correct horse"
"""A secret that does not look like one."""


def same(value: Any) -> Any:
    return value


def write(home: Home, name: str, *bodies: Body, question: str = "q") -> Path:
    """A log as a program wrote it that replaced no secrets."""
    path = home.transcripts / f"{name}.jsonl"
    opened = Opened(investigation=name, program="p", driver="d", question=question, seed=0)
    with Log.create(path, opened, FixedClock(), redact=same) as log:
        for body in bodies:
            log.append(body)
    return path


def returned(output: Any = None, call: str = "c1", **more: Any) -> list[Body]:
    called = Called(call=call, tool="probe", effect=Effect.USES_GPU, input={})
    return [called, Returned(call=call, status="ok", output=output, **more)]


def kept(home: Home, document: Any) -> dict[str, Any]:
    """Fields of a result that was too long for the log."""
    shown, whole = cap(canonical(document))
    assert whole is not None
    return {
        "output": shown, "artifact": Artifacts(home.artifacts).put(whole), "artifact_bytes": len(whole)
    }  # fmt: skip


def claim(head: str, excerpt: str, event: int = 2, name: str = "t1", **changes: Any) -> Claim:
    cited = EventEvidence(
        transcript=name,
        head=head,
        event=event,
        excerpt=excerpt,
        sha256=hashlib.sha256(excerpt.encode()).hexdigest(),
    )
    fields = {"scenario": {"url": "local"}, "event_evidence": (cited,)} | changes
    return Claim(
        component="fp4_gemm", backend="alpha", arch="sm120", engine="engine", packages={"engine": "1"},
        level=Level.PROBE, outcome=Outcome.OK, **fields,
    )  # fmt: skip


def found(of: Claim, name: str, event: int) -> list[Body]:
    """The call that records a finding, its result, and the finding; the first of them is event ``event``."""
    document = of.model_dump(mode="json")
    finding = Finding(id=finding_id(document), claim=of, transcript=name, event=event + 2)
    call = f"c{event}"
    return [
        Called(call=call, tool="record_finding", effect=Effect.READS, input={"claim": document}),
        Returned(call=call, status="ok", output=finding.model_dump(mode="json")),
        Found(finding=finding),
    ]


def head(path: Path) -> str:
    return [event.hash for event in read(path)][-1]


def extend(path: Path, *bodies: Body) -> None:
    with Log.open(path, FixedClock(), same) as log:
        for body in bodies:
            log.append(body)


@pytest.fixture
def site(home: Home) -> list[Path]:
    """Two logs with a secret, one that cites the first, and one that has nothing to do with them."""
    secrets = {"log": f"started with {KEY} and {WORD}", "level": "probe", "outcome": "ok"}
    one = write(home, "t1", *returned(secrets), question=f"why does {WORD} fail")
    extend(one, *found(claim(head(one), f"with {KEY} and"), "t1", 3))
    of = claim(head(one), "the outcome"[4:], name="t1")
    cited = documents(one)[-1]["finding"]
    two = write(
        home, "t2", *found(of, "t2", 1), *returned({"findings": [cited], "sentences": {cited["id"]: "x"}})
    )
    three = write(home, "t3", Noted(text="nothing"))
    four = write(home, "t4", Noted(text=f"also {WORD}"))
    with Store(home) as store:
        assert catch_up(store, home.transcripts) == []
    return [one, two, three, four]


def run(home: Home, *paths: Path, exact: tuple[str, ...] = (WORD,), **more: Any) -> Redacted:
    return redact(home, paths, exact, cap, **more)


def stands(home: Home, *secrets: str) -> list[Path]:
    return list(Place.of(home, ()).files_with(secrets or (KEY, WORD)))


def sound(home: Home) -> None:
    """Every log holds, what it cites of others is there, and the database says what they say."""
    artifacts = Artifacts(home.artifacts)
    hashes = {path.stem: {event.hash for event in read(path)} for path in home.transcripts.glob("*.jsonl")}
    for path in home.transcripts.glob("*.jsonl"):
        for item in (one for document in documents(path) for one in dicts_in(document) if "head" in one):
            assert item["head"] in hashes[item["transcript"]], path
        assert check(path, lambda name: artifacts.get(name) if name in artifacts else None) == [], path
    if not home.findings_db.exists():
        return
    with Store(home) as store, Store(home, aside=True) as fresh:
        assert catch_up(fresh, home.transcripts) == []
        assert store.content() == fresh.content()


def test_secrets_go_and_what_names_them_follows(home: Home, site: list[Path]) -> None:
    one, two, three, four = site
    before = {path: path.read_bytes() for path in site}
    old = {path: list(read(path)) for path in site}
    done = run(home, one)
    assert [(item.path.stem, item.strings > 0) for item in done.changed] == [("t1", True), ("t2", True)]
    assert done.left == (four,)
    assert stands(home, KEY) == []
    assert (three.read_bytes(), four.read_bytes()) == (before[three], before[four])
    for path in (one, two):
        assert [(event.seq, event.at) for event in read(path)] == [
            (event.seq, event.at) for event in old[path]
        ]
        assert path.stat().st_mode == four.stat().st_mode
    first, second = documents(one), documents(two)
    assert first[0]["redacted"] == done.changed[0].strings
    assert first[0]["question"] == "why does [redacted:known] fail"
    assert first[2]["output"]["log"] == "started with [redacted:api-key] and [redacted:known]"
    finding = first[-1]["finding"]
    (evidence,) = finding["claim"]["event_evidence"]
    hashes = [event.hash for event in read(one)]
    assert evidence["head"] == hashes[2]
    assert evidence["excerpt"] == "with [redacted:api-key] and"
    assert second[3]["finding"]["claim"]["event_evidence"][0]["head"] == hashes[-1]
    assert second[5]["output"]["findings"] == [finding]
    assert list(second[5]["output"]["sentences"]) == [finding["id"]]
    assert finding["id"] in {row["id"] for row in Views(home).findings(statuses=())}
    sound(home)
    again = run(home, one)
    assert (again.changed, again.left) == ((), (four,))
    assert run(home, *site).left == ()
    assert stands(home) == []
    sound(home)


def test_what_only_cites_a_rewritten_log_follows(home: Home) -> None:
    one = write(home, "t1", *returned({"log": f"said {KEY}, no kernel"}))
    two = write(home, "t2", *found(claim(head(one), "no kernel"), "t2", 1))
    three = write(home, "t3", *found(claim(head(two), "alpha", 3, "t2"), "t3", 1))
    done = run(home, one, exact=())
    assert [(item.path, item.strings) for item in done.changed] == [(one, 1), (two, 0), (three, 0)]
    assert documents(two)[0]["redacted"] == 0
    assert documents(two)[3]["finding"]["claim"]["event_evidence"][0]["head"] == head(one)
    assert documents(three)[3]["finding"]["claim"]["event_evidence"][0]["head"] == head(two)
    assert documents(three)[3]["finding"]["id"] == documents(three)[2]["output"]["id"]
    sound(home)


def test_logs_that_cite_each_other_follow_each_other(home: Home) -> None:
    one = write(home, "t1", *returned({"log": f"said {KEY}, no kernel"}))
    two = write(home, "t2", *found(claim(head(one), "no kernel"), "t2", 1))
    extend(one, *found(claim(head(two), "alpha", 3, "t2"), "t1", 3))
    extend(two, *found(claim(head(one), "alpha", 5), "t2", 4))
    run(home, one, exact=())
    assert documents(two)[-1]["finding"]["claim"]["event_evidence"][0]["head"] == head(one)
    assert stands(home, KEY) == []
    sound(home)


def test_a_secret_is_known_wherever_it_stands_once_it_is_told(home: Home) -> None:
    """In its place a name tells it; cited alone nothing would. A part of it is cited as what replaced it."""
    one = write(home, "t1", *returned({"log": "password=hunter2hunter2, no kernel"}))
    extend(one, *found(claim(head(one), "hunter2hunter2"), "t1", 3))
    extend(one, *found(claim(head(one), "hunter2hu"), "t1", 6))
    run(home, one, exact=())
    said = [event["finding"]["claim"]["event_evidence"][0]["excerpt"] for event in documents(one)[5::3]]
    assert said == ["[redacted:secret]", "[redacted:secret]"]
    assert stands(home, "hunter2hu") == []
    sound(home)


def test_artifacts_are_replaced_and_results_show_the_new_ones(home: Home) -> None:
    whole = {
        "lines": [f"{number} {KEY} {WORD}" if number % 7 == 0 else f"line {number}" for number in range(4000)]
    }
    just = {"lines": [WORD] * 2200}
    body = returned(**kept(home, whole))
    one = write(home, "t1", *body, *returned(call="c2", **kept(home, just)))
    other = write(home, "t2", *body, Noted(text="x"))
    (first, second) = (documents(one)[number]["artifact"] for number in (2, 4))
    done = run(home, one)
    assert (done.artifacts, done.kept) == (2, (first,))
    assert done.left == (other, home.artifacts / first[:2] / first[2:])
    events = documents(one)
    assert json.loads(Artifacts(home.artifacts).get(events[2]["artifact"]))["lines"][7] == (
        "7 [redacted:api-key] [redacted:known]"
    )
    assert events[2]["artifact_bytes"] == len(Artifacts(home.artifacts).get(events[2]["artifact"]))
    assert events[4]["output"] == cap(canonical({"lines": ["[redacted:known]"] * 2200}))[0]
    assert second not in Artifacts(home.artifacts)
    sound(home)
    assert run(home, one, other).left == ()
    assert first not in Artifacts(home.artifacts)
    assert documents(other)[2] == documents(one)[2]
    assert stands(home) == []
    sound(home)


def test_a_result_that_fits_the_log_now_stands_in_it(home: Home) -> None:
    secret = "x1" * 20_000
    one = write(home, "t1", *returned(**kept(home, {"log": secret})))
    run(home, one, exact=(secret,))
    event = documents(one)[2]
    assert (event["output"], event["artifact"], event["artifact_bytes"]) == (
        {"log": "[redacted:known]"}, None, None,
    )  # fmt: skip
    assert list(home.artifacts.rglob("*.*")) == []
    sound(home)


def test_messages_have_new_names_and_those_after_them_too(home: Home) -> None:
    said: list[Body] = []
    parent = None
    for number, text in enumerate(["hello", f"the key is {KEY}", "thanks"]):
        message: dict[str, Any] = {"role": "user", "content": text}
        name = message_id(message, parent)
        if number == 1:
            artifact = Artifacts(home.artifacts).put(canonical(message).encode())
            said.append(Said(id=name, parent=parent, artifact=artifact))
        else:
            said.append(Said(id=name, parent=parent, message=message))
        parent = name
    one = write(home, "t1", *said)
    run(home, one, exact=())
    events = documents(one)[1:]
    assert events[0]["id"] == said[0].id  # type: ignore[union-attr]
    assert [event["parent"] for event in events[1:]] == [event["id"] for event in events[:2]]
    assert stands(home, KEY) == []
    sound(home)


@pytest.fixture
def engine(tmp_path: Path) -> Path:
    """A line of the source that decides looks like a secret."""
    root = write_engine(tmp_path / "site-packages")
    gates = root / "sglang" / "srt" / "gates.py"
    gates.write_text(gates.read_text().replace("cedar needs 10.x", f"cedar needs {KEY}"))
    return root


def test_a_log_redacted_is_one_written_without(home: Home, engine: Path, tmp_path: Path) -> None:
    """Evidence quotes the line without what looks like a key; its hash stands for the line as it is."""
    clean = Home(tmp_path / "clean").prepare()
    assert investigate(clean, engine).exit_code == 0
    assert investigate(home, engine, redact=same).exit_code == 0
    assert stands(clean) == []
    path = transcript(home)
    assert path in stands(home)
    done = run(home, path, exact=())
    assert stands(home) == []
    expected = documents(transcript(clean))
    assert documents(path) == [{**expected[0], "redacted": done.changed[0].strings}, *expected[1:]]
    assert sum(one["kind"] == "found" for one in expected) > 3
    assert "[redacted:api-key]" in canonical(expected)
    for one in (home, clean):
        sound(one)
        artifacts = Artifacts(one.artifacts)
        assert (
            replay(read(transcript(one)), lambda name, at=artifacts: json.loads(at.get(name))).difference
            is None
        )


def test_the_files_of_the_database_hold_nothing_while_others_have_it_open(
    home: Home, site: list[Path]
) -> None:
    with closing(sqlite3.connect(home.findings_db)) as other:
        assert other.execute("SELECT count(*) FROM findings").fetchone() != (0,)
        run(home, *site)
        assert stands(home) == []
    sound(home)


def test_a_log_outside_of_the_home_is_redacted_where_it_lies(
    home: Home, site: list[Path], tmp_path: Path
) -> None:
    lines = [f"{number} {KEY}" for number in range(3000)]
    one = write(home, "t1x", *returned(**kept(home, {"lines": lines})))
    folder = tmp_path / "recorded"
    folder.mkdir()
    shutil.copy(one, folder)
    shutil.copytree(home.artifacts, folder / "artifacts")
    before = {path: path.read_bytes() for path in home.root.rglob("*") if path.is_file()}
    path = folder / one.name
    done = run(home, path)
    assert (done.artifacts, done.left) == (1, ())
    assert {path: path.read_bytes() for path in home.root.rglob("*") if path.is_file()} == before
    artifacts = Artifacts(folder / "artifacts")
    assert check(path, artifacts.get) == []
    assert sorted(path.name for path in folder.iterdir()) == ["artifacts", one.name]
    assert len(list(artifacts.root.rglob("??*/*"))) == 1
    # Without artifacts of its own it shares those of the home, which its logs still name.
    alone = tmp_path / "alone" / one.name
    alone.parent.mkdir()
    shutil.copy(one, alone)
    assert run(home, alone).kept == (documents(one)[2]["artifact"],)
    assert check(alone, Artifacts(home.artifacts).get) == check(one, Artifacts(home.artifacts).get) == []


# What stays, what is refused


def test_a_dry_run_changes_nothing(home: Home, site: list[Path]) -> None:
    def state() -> dict[Path, bytes]:
        files = [*home.transcripts.iterdir(), *home.artifacts.rglob("*.*"), home.findings_db]
        return {path: path.read_bytes() for path in files}

    before = state()
    told = run(home, *site, dry=True)
    assert state() == before
    assert [item.strings for item in told.changed] == [item.strings for item in run(home, *site).changed]


def test_times_of_files_and_links_stay(home: Home, site: list[Path], tmp_path: Path) -> None:
    one, *_ = site
    os.utime(one, ns=(10**18, 10**18))
    link = tmp_path / "link.jsonl"
    link.symlink_to(one)
    run(home, link)
    assert link.is_symlink()
    assert one.stat().st_mtime_ns == 10**18
    assert stands(home, KEY) == []


def test_a_torn_line_goes_with_what_it_holds(home: Home) -> None:
    one = write(home, "t1", Noted(text=f"see {KEY}"))
    with one.open("ab") as file:
        file.write(f'{{"at":"2026","data":{{"text":"{WORD}'.encode())
    (told,) = run(home, one).changed
    assert told.torn > 20
    assert stands(home) == []
    assert verify(one) == []


def test_a_log_that_is_being_written_is_refused(home: Home, site: list[Path]) -> None:
    one, two, *_ = site
    for busy in (one, two):
        before = one.read_bytes()
        with Log.open(busy, FixedClock()), pytest.raises(LogError, match="being written by another process"):
            run(home, one)
        assert one.read_bytes() == before
        assert not (home.transcripts / NAME).exists()


def test_a_secret_that_is_a_word_of_the_format_is_refused(home: Home, site: list[Path]) -> None:
    before = site[0].read_bytes()
    for word in ("noted", "returned", "sha256"):
        with pytest.raises(LogError, match=r"word of the format.*nothing was changed") as caught:
            run(home, *site, exact=(word,))
        assert "\n" not in str(caught.value)
    assert site[0].read_bytes() == before
    assert [path.name for path in home.transcripts.iterdir() if path.name.startswith(".")] == []


def test_a_damaged_log_is_refused(home: Home, site: list[Path]) -> None:
    one = site[0]
    one.write_bytes(one.read_bytes().replace(b"started", b"stopped", 1))
    before = one.read_bytes()
    with pytest.raises(DamagedError, match=r"event 2: .*was changed; a damaged log is not written anew"):
        run(home, one)
    assert one.read_bytes() == before


def test_a_writer_that_comes_next_goes_on_with_the_new_file(home: Home) -> None:
    """The log is replaced after a writer has opened it, before it has the lock."""
    path = write(home, "t1", Noted(text=WORD))

    def between(_frame: Any, event: str, what: Any) -> None:
        if event == "c_call" and getattr(what, "__name__", "") == "flock":
            sys.setprofile(None)
            run(home, path)

    try:
        sys.setprofile(between)
        with Log.open(path, FixedClock()) as log:
            log.append(Noted(text="next"))
    finally:
        sys.setprofile(None)
    assert [event.get("text") for event in documents(path)] == [None, "[redacted:known]", "next"]


def test_one_appends_while_another_redacts_again_and_again(home: Home) -> None:
    path = write(home, "t1", Noted(text=WORD))
    errors = []

    def often(what: Callable[[], object]) -> None:
        done = 0
        while done < 40 and not errors:
            try:
                what()
                done += 1
            except LogError as error:
                if "another process" not in str(error):
                    errors.append(error)

    def append() -> None:
        with Log.open(path, FixedClock(), same) as log:
            log.append(Noted(text=f"note {WORD}"))

    threads = [threading.Thread(target=often, args=(what,)) for what in (append, lambda: run(home, path))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    run(home, path)
    assert sum(event["kind"] == "noted" for event in documents(path)) == 41
    assert stands(home) == []


def test_whoever_is_killed_leaves_whole_logs_and_the_next_run_finishes(home: Home, site: list[Path]) -> None:
    """A log is the old one or the new one, whenever it is killed; what comes of it is the same in the end."""
    every = 1 if os.environ.get("ASSAY_STRESS") else 13
    program = str(ROOT / "tests" / "kill_redactions.py")
    # In memory where there is such a folder: what is killed here is a process, not the machine.
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else home.root.parent) as folder:
        copy = shutil.copytree(home.root, Path(folder) / "copy")
        done = started([sys.executable, program, str(copy), str(every), WORD])
    assert done.returncode == 0, done.stderr
    killed, begun, half = map(int, done.stdout.split())
    assert killed > 8
    assert killed > begun > half > 0


# At the command line


def test_the_command(home: Home, site: list[Path], tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text(f"{WORD}\n\n")
    dry = agent("transcripts", "redact", "t1", "--dry-run", home=home.root)
    assert (dry.returncode, dry.stderr) == (0, "")
    assert "t1: 4 strings would be redacted in 4 of 6 events" in dry.stdout
    done = agent("transcripts", "redact", "t1", "--secret-file", str(secret), home=home.root)
    assert done.returncode == 1
    assert "warning" not in done.stderr
    assert f"a secret still stands in {site[3]}" in done.stdout
    assert KEY not in done.stdout + dry.stdout
    assert WORD not in done.stdout
    (home.transcripts / "foreign.jsonl").write_text("{}\n")
    done = agent("transcripts", "redact", "--all", "--secret-file", str(secret), "--json", home=home.root)
    assert done.returncode == 0
    document = json.loads(done.stdout)
    assert [one["id"] for one in document["transcripts"]] == ["t4"]
    assert stands(home) == []
    for command in (
        ["transcripts", "show", "t1"],
        ["findings", "list", "--all"],
        ["replay", "t1", "--verify"],
    ):
        assert agent(*command, home=home.root).returncode == 0
    assert agent("transcripts", "redact", "--last", home=home.root).stdout == "nothing to redact\n"


def test_a_secret_in_an_imported_session_is_named(home: Home, site: list[Path], tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text(f"{WORD}\n")
    said = {"type": "user", "sessionId": "s1", "uuid": "u1", "message": {"role": "user", "content": WORD}}
    (tmp_path / "session.jsonl").write_text(json.dumps(said) + "\n")
    assert agent("transcripts", "import", str(tmp_path / "session.jsonl"), home=home.root).returncode == 0
    (kept,) = home.imported.glob("*.jsonl")
    done = agent("transcripts", "redact", "--all", "--secret-file", str(secret), home=home.root)
    assert done.returncode == 1
    assert f"a secret still stands in {kept}; delete it and imported.db" in done.stdout
    kept.unlink()
    for part in home.root.glob("imported.db*"):
        part.unlink()
    assert (
        agent("transcripts", "redact", "--all", "--secret-file", str(secret), home=home.root).returncode == 0
    )


def test_keys_of_the_environment_are_taken_out_too(home: Home) -> None:
    path = write(home, "t1", Noted(text="now it-is-me"))
    named = {"MY_TOKEN": "it-is-me"}
    assert agent("transcripts", "redact", "t1", home=home.root, **named).returncode == 0
    assert documents(path)[1]["text"] == "now [redacted:known]"


def test_wrong_input_is_one_line(
    home: Home, site: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(code: int, *words: str, given: tuple[str, ...] = ("t1",)) -> None:
        assert program(["transcripts", "redact", *given]) == code
        said = capsys.readouterr()
        assert said.out == ""
        assert said.err.count("\n") == 1
        assert all(word in said.err for word in words), said.err

    refused(2, "which transcript?", given=())
    refused(2, "no transcript 't9'", given=("t9",))
    refused(2, "not several", given=("t1", "--all"))
    refused(2, "no transcript", given=(str(tmp_path / "no" / "x.jsonl"),))
    refused(2, "no transcript", given=(str(tmp_path) + "/",))
    secret = tmp_path / "secret.txt"
    with_file = ("t1", "--secret-file", str(secret))
    refused(2, "cannot read the secrets in", given=with_file)
    for content, says in [
        (b"", "no secret"),
        (b"\xff\xfe", "no text"),
        (b"good one\nabc\n", "secret 2 has 3"),
    ]:
        secret.write_bytes(content)
        refused(2, says, given=with_file)
    other = tmp_path / "other.jsonl"
    for line, says in [('{"role":"user"}\n', "another kind"), ("", "is empty"), ("no\n", "no transcript")]:
        other.write_text(line)
        refused(2, says, given=(str(other),))
    other.write_text('{"at":"x","data":{"format":2,"kind":"opened"},"v":2}\n')
    refused(2, "format 2", "upgrade", given=(str(other),))
    for begun in (b"\xff", b'{"logs":', b"[]", b'{"logs": []}'):
        (home.transcripts / ".redaction.json").write_bytes(begun)
        refused(2, ".redaction.json is damaged", "--all")
    (home.transcripts / ".redaction.json").unlink()
    site[0].write_bytes(site[0].read_bytes().replace(b"started", b"stopped", 1))
    refused(1, "event 2", "--verify")
    site[1].write_bytes(b'{"at"x' + site[1].read_bytes()[6:])
    refused(1, "event 0", "--verify", given=("t2",))


LIMITED = """
import resource, signal, sys
from pathlib import Path
from memory.home import Home
from tools.output import cap
from transcripts.redaction.redact import redact
home = Home(Path(sys.argv[1]))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (500, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
try:
    redact(home, [home.transcripts / "t1.jsonl"], [], cap)
except Exception as error:
    print(type(error).__name__, error.exit_code, error)
"""


def test_a_disk_that_is_full_leaves_the_old_log(home: Home, site: list[Path]) -> None:
    before = [path.read_bytes() for path in site]
    done = python(LIMITED, str(home.root))
    assert done.stdout.startswith("LogWriteError 4 cannot write"), (done.stdout, done.stderr)
    assert [path.read_bytes() for path in site] == before
    assert sorted(path.name for path in home.transcripts.iterdir()) == [path.name for path in site]
    assert run(home, *site).left == ()


READ_ONLY = """
import os, sys, unicodedata
from pathlib import Path
import agent.cli.redact, agent.cli.transcripts, transcripts.redaction.redact, tools.output
from agent.cli.main import run
if os.getuid() == 0:
    os.setuid(65534)  # for root every folder can be written
sys.exit(run(["transcripts", "redact", "t1"]))
"""


def test_a_home_that_cannot_be_written_is_said_in_one_line() -> None:
    with tempfile.TemporaryDirectory() as folder:
        home = Home(Path(folder) / "home").prepare()
        path = write(home, "t1", Noted(text=KEY))
        before = path.read_bytes()
        path.chmod(0o444)
        for place in [Path(folder), home.root, *home.root.iterdir()]:
            place.chmod(0o555)
        try:
            one_line(python(READ_ONLY, home=home.root), 4, "cannot write to transcript")
        finally:
            for place in [Path(folder), home.root, *home.root.iterdir()]:
                place.chmod(0o755)
        assert path.read_bytes() == before
