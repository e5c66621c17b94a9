"""``agent check`` at the command line: what it prints, keeps and exits with."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from completions import Fake
from program import SECONDS, START, agent, one_line, variables
from test_probe_plan import library

from agent.cli.main import run
from memory.home import Home
from memory.views import Views

QUICK = ("--concurrency", "12", "--rounds", "1", "--questions", "10")


def check(capsys: pytest.CaptureFixture[str], url: str, *more: str, code: int = 0) -> dict[str, Any]:
    assert run(["check", url, *QUICK, "--json", *more]) == code
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def test_a_sound_server_passes_and_the_transcript_holds_it(
    home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    with Fake(noise=0.05) as server:
        document = check(capsys, f"{server.url}/v1")
        assert run(["check", server.url, *QUICK]) == 0
    printed = capsys.readouterr().out
    assert document["outcome"] == "ok"
    assert [stage["name"] for stage in document["stages"]] == ["alone", "crowd", "paired"]
    assert any("no reference" in note for note in document["notes"])
    assert printed.startswith("alone   ok  ")
    assert "transcript " in printed.splitlines()[-1]
    assert run(["replay", document["transcript"]]) == 0
    assert run(["replay", document["transcript"], "--verify"]) == 0


def test_a_bad_one_fails_with_its_worst_answers(capsys: pytest.CaptureFixture[str]) -> None:
    with Fake(fault="nan", at=4, share=0.5) as server:
        document = check(capsys, server.url, code=1)
        assert run(["check", server.url, *QUICK]) == 1
    assert document["outcome"] == "stress_failed"
    assert document["stages"][-1]["examples"]
    assert "right alone, under load not" in capsys.readouterr().out


def test_the_key_is_used_and_stands_nowhere(
    home: Home, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_SERVER", "s3cretive-word-of-mine")
    with Fake(key="s3cretive-word-of-mine") as server:
        document = check(capsys, server.url, "--api-key-env", "MY_SERVER")
        assert document["outcome"] == "ok"
        monkeypatch.delenv("MY_SERVER")
        assert run(["check", server.url, *QUICK]) == 2
        assert "wants a key" in capsys.readouterr().err
        assert run(["check", server.url, "--api-key-env", "MY_SERVER"]) == 3
    for path in home.root.rglob("*"):
        if path.is_file():
            assert b"s3cretive-word-of-mine" not in path.read_bytes(), path


def test_what_was_saved_is_a_reference(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved = tmp_path / "right.json"
    with Fake() as server, Fake() as other:
        check(capsys, server.url, "--save", str(saved))
        document = check(capsys, other.url, "--reference", str(saved))
        assert [stage["outcome"] for stage in document["stages"]] == ["ok"] * 4
        beside = check(capsys, other.url, "--reference", server.url)
        assert beside["stages"][-1]["figures"]["first_choice"] == 1.0
        saved.write_text("{}")
        assert run(["check", other.url, "--reference", str(saved)]) == 2
    assert "no stored run" in capsys.readouterr().err


def test_nothing_is_saved_of_a_server_that_failed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved = tmp_path / "right.json"
    with Fake(fault="characters") as server:
        check(capsys, server.url, "--save", str(saved), code=1)
    assert not saved.exists()


def test_a_finding_is_kept_where_it_is_said_what_the_server_runs(
    home: Home, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    environment = library(tmp_path / "site")
    engine = tmp_path / "site" / "sglang"
    engine.mkdir()
    (engine / "__init__.py").write_text("")
    info = tmp_path / "site" / "sglang-9.9.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: sglang\nVersion: 9.9\n")
    (info / "RECORD").write_text("sglang/__init__.py,,\n")
    about = ("--about", "moe_runner/elm", "--arch", "sm120", "-e", environment.path)
    with Fake() as server:
        good = check(capsys, server.url, *about)
    with Fake(fault="nan") as server:
        bad = check(capsys, server.url, *about, code=1)
    assert (good["refused"], bad["refused"]) == ([], [])
    found = Views(home).findings(statuses=())
    assert {(row["component"], row["backend"], row["level"], row["outcome"]) for row in found} == {
        ("moe_runner", "elm", "stress", "ok"),
        ("moe_runner", "elm", "server", "nan"),
    }
    measured = [one for row in found for one in json.loads(row["claim"])["measurements"]]
    assert {one["metric"] for one in measured} >= {"answers compared under load", "questions right"}
    assert run(["findings", "verify"]) == 0


def test_one_that_was_killed_half_way_is_gone_on_with(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    with Fake(fault="hang", after=20) as server:
        started = subprocess.Popen(
            [*START, "check", server.url, *QUICK], env=variables(), stderr=subprocess.DEVNULL
        )
        assert server.strikes.wait(SECONDS)
        started.kill()
        started.wait()
        server.fault = None
        assert run(["resume", "--last"]) == 0
    assert "ok: 8 answers" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("args", "code", "says"),
    [
        (["nowhere"], 2, "no address of a server"),
        (["http://a..b"], 2, "no address of a server"),
        (["http://127.0.0.1:9"], 3, "does not answer"),
        (["http://127.0.0.1:9", "--setting", "x"], 2, "is not NAME=VALUE"),
        (["http://127.0.0.1:9", "--about", "a/b"], 2, "--about needs -e and --arch"),
        (["http://127.0.0.1:9", "--reference", "missing.json"], 2, "No such file"),
        (["http://127.0.0.1:9", "--save", "missing/x.json"], 2, "--save missing/x.json cannot be written"),
        (["http://127.0.0.1:9", "--reference-model", "m"], 2, "give --reference too"),
        (["http://127.0.0.1:9", "--arch", "sm120"], 2, "--arch is for a finding; give --about too"),
        (["http://127.0.0.1:9", "--minutes", "nan"], 2, "--minutes"),
        (["http://127.0.0.1:9", "--concurrency", "0"], 2, "--concurrency"),
    ],
)
def test_wrong_input_is_one_line(args: list[str], code: int, says: str) -> None:
    one_line(agent("check", *args), code, says)
