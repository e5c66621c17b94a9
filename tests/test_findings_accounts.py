"""Hearsay: public cases and the pack that comes with the program become reports, and never more."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from program import agent as program, one_line
from test_findings_share import agent as agent

import memory
from agent.cli.main import run
from agent.cli.transcripts import KEPT
from agent.recommend import demotions
from memory.artifacts import Artifacts
from memory.home import Home
from memory.views import Views
from memory.vocabulary import Row, Verdict
from tools.errors import ToolError
from tools.findings.accounts import Case, claims_of, read_cases
from tools.findings.rejudge import VERIFY
from tools.findings.share import finding_of
from transcripts.events import ACCOUNTS, IMPORT

CASE = {
    "id": "x-1", "url": "https://example.org/issues/1", "date": "2026-03-06", "engine": "sglang",
    "engine_version": "0.5.8", "flashinfer_version": "<0.6.6", "cuda_version": "13", "arch": "sm_120",
    "gpu": "8x RTX PRO 6000", "model": "m", "quantization": "NVFP4", "component": "fp4_gemm",
    "backend": "flashinfer_cutlass", "flags": ["--tp 8"], "outcome": "nan_or_garbage",
    "symptom": "NaN rows at 64 requests", "cause": None, "fix_or_workaround": "another backend",
    "confidence": "confirmed_by_maintainer", "unknown_field": 1,
}  # fmt: skip
ABOUT = ("--backend", "a", "--component", "c", "--arch", "sm120")
PACK = Path(memory.__file__).parent / "data" / "reports.jsonl"


def write(path: Path, *cases: dict[str, Any] | str) -> Path:
    path.write_text("\n".join(one if isinstance(one, str) else json.dumps(one) for one in cases) + "\n")
    return path


def test_a_case_becomes_a_report_with_its_versions_and_where_it_stands(
    agent: Any, home: Home, tmp_path: Path
) -> None:
    path = write(tmp_path / "cases.jsonl", CASE)
    done = json.loads(agent(home, "import", path, "--json"))
    (row,) = Views(home).findings()
    assert done["findings"] == [row["id"]]
    assert (row["level"], row["outcome"], row["arch"], row["status"]) == ("report", "nan", "sm120", "current")
    assert (row["url"], row["date"], row["gpu"], row["gpu_count"]) == (
        CASE["url"], CASE["date"], "RTX PRO 6000", 8,
    )  # fmt: skip
    claim = json.loads(row["claim"])
    assert claim["packages"] == {"sglang": "0.5.8"}
    assert claim["scope"]["ranges"] == {"flashinfer-python": "<0.6.6"}
    assert claim["report"]["by"] == "maintainer"
    shown = agent(home, "show", row["id"])
    assert "which prove nothing" in shown
    assert "NaN rows at 64 requests" in shown
    again = json.loads(agent(home, "import", path, "--json"))
    assert (again["findings"], again["known"], again["transcript"]) == ([], 1, None)
    assert run(["replay", done["transcript"], "--verify"]) == 0
    assert json.loads(agent(home, "rebuild", "--json"))["same"]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"arch": None}, "names no architecture"),
        ({"arch": "sm_75+"}, "names no architecture"),
        ({"backend": None}, "names no backend"),
        ({"engine": "?"}, "names no engine"),
        ({"outcome": "odd"}, "is no outcome"),
    ],
)
def test_a_case_that_does_not_say_what_it_is_about_is_left_out(change: dict[str, Any], says: str) -> None:
    with pytest.raises(ToolError, match=says):
        list(claims_of(Case(**{**CASE, **change})))


def test_hostile_cases_are_left_out_in_one_line_each(agent: Any, home: Home, tmp_path: Path) -> None:
    bad: list[dict[str, Any] | str] = [
        {**CASE, "id": "a", "url": "file:///etc/passwd"},
        {**CASE, "id": "b", "url": None},
        {**CASE, "id": "c", "date": "yesterday"},
        {**CASE, "id": "d", "component": "a\x1b[2J"},
        {**CASE, "id": "e", "date": "9999-99-99"}, {**CASE, "id": "f", "date": "2026-02-30"},
        "nothing", "[" * 100_000, '{"id": 7}',
    ]  # fmt: skip
    path = write(tmp_path / "cases.jsonl", CASE, *bad)
    done = json.loads(agent(home, "import", path, "--json"))
    assert len(done["skipped"]) >= len(bad) - 2
    assert all("\n" not in one["because"] for one in done["skipped"])
    assert "\x1b" not in agent(home, "list") + agent(home, "export", "--format", "markdown")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a / b", [("a", None, {}), ("b", None, {})]),
        ("auto -> marlin", [("auto", "marlin", {})]),
        ("marlin + MTP", [("marlin", None, {"with": "MTP"})]),
        ("mla (FP8)", [("mla", None, {"with": "FP8"})]),
    ],
)
def test_backends_are_told_from_what_is_said_of_them(text: str, expected: list[Any]) -> None:
    claims = list(claims_of(Case(**{**CASE, "backend": text, "cuda_version": None})))
    assert [(one.backend, one.runs_instead, one.scenario) for one in claims] == expected


def test_the_pack_is_loaded_once_and_whole(agent: Any, home: Home) -> None:
    cases = list(read_cases(PACK.read_text("utf-8")))
    assert not [one for one in cases if isinstance(one, tuple)]
    assert len(cases) >= 60
    done = json.loads(agent(home, "load-pack", "--json"))
    assert done["skipped"] == []
    assert len(done["findings"]) >= len(cases)
    again = json.loads(agent(home, "load-pack", "--json"))
    assert (again["findings"], again["known"]) == ([], len(done["findings"]))
    assert all(row["url"].startswith("https://") for row in Views(home).findings(statuses=()))
    assert {ACCOUNTS, IMPORT, VERIFY} == KEPT
    one_line(program("report", "--last", home=home.root), 2, "no investigations yet")
    one_line(program("replay", done["transcript"], home=home.root), 2, "nothing was decided in", "--verify")
    assert program("replay", done["transcript"], "--verify", home=home.root).returncode == 0


def test_a_report_of_nan_puts_a_backend_behind_the_others_with_the_link(agent: Any, home: Home) -> None:
    agent(home, "load-pack")
    known = [finding_of(row) for row in Views(home).findings(component="fp4_gemm", arch="sm120")]
    rows = [
        Row(component="fp4_gemm", backend=name, arch="sm120", verdict=Verdict.NO_STATIC_OBSTACLE)
        for name in ("flashinfer_cutlass", "marlin")
    ]
    against = demotions(rows, known)
    assert set(against) == {"flashinfer_cutlass"}
    assert re.match("(nan|wrong) was seen with flashinfer-python 0.6", against["flashinfer_cutlass"])
    assert "https://github.com/" in against["flashinfer_cutlass"]


# What a person knows


def note(capsys: pytest.CaptureFixture[str], *args: str, code: int = 0) -> str:
    assert run(["note", *args]) == code
    said = capsys.readouterr()
    return said.err if code else said.out


def test_a_note_is_kept_as_the_report_of_a_person(
    home: Home, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "server.log"
    secret = "hf_" + "aB3xY9kLmN" * 3
    log.write_text(f"HF_TOKEN={secret}\nprobability tensor contains either `inf`, `nan` or element < 0\n")
    given = ("--component", "fp4_gemm", "--backend", "alpha", "--arch", "12.0", "--log", str(log))
    done = json.loads(note(capsys, "tried it at 64 requests", *given, "-p", "sglang==0.5.9", "--json"))
    row = Views(home).finding(done["finding"])
    assert (row["level"], row["outcome"], row["arch"], row["engine"]) == ("report", "nan", "sm120", "sglang")
    claim = json.loads(row["claim"])
    assert (claim["report"]["by"], claim["report"]["note"]) == ("person", "tried it at 64 requests")
    assert claim["packages"] == {"sglang": "0.5.9"}
    kept = Artifacts(home.artifacts).get(done["log"]).decode()
    assert "probability tensor" in kept
    assert secret not in kept + (home.transcripts / f"{done['transcript']}.jsonl").read_text()


def test_a_note_is_told_from_its_words_and_what_is_known(
    agent: Any, home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    agent(home, "load-pack")
    done = json.loads(note(capsys, "flashinfer_cudnn gave NaN at 64 on sm120", "--json"))
    assert done["sentence"].startswith(
        "fp4_gemm flashinfer_cudnn on sm120 (sglang): report nan; by a person, "
    )


def test_a_component_that_nobody_knows_is_doubted(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    about = ("--backend", "alpha", "--arch", "sm120", "--component")
    for component, warning in {
        "moe_runer": "no component is known as moe_runer: did you mean moe_runner? known are ",
        "bogus": "no component is known as bogus: known are allreduce, ",
        "moe_runner": None,
        "bogus ": None,  # by now it was written down
    }.items():
        assert run(["note", "it hangs", *about, component.strip()]) == 0
        said = capsys.readouterr().err
        assert (warning in said) if warning else "warning" not in said


def test_a_day_that_is_in_no_calendar_leaves_no_transcript(agent: Any, home: Home, tmp_path: Path) -> None:
    path = write(tmp_path / "cases.jsonl", {**CASE, "date": "9999-99-99"})
    done = json.loads(agent(home, "import", path, "--json"))
    assert "expected a day, month or year" in done["skipped"][0]["because"]
    assert list(home.transcripts.glob("*.jsonl")) == []


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["it did not crash, it hangs"], "give --component, --backend"),
        (["alpha doesn't crash any more", *ABOUT], "give --outcome"),
        (["nothing works", *ABOUT], "give --outcome"),
        (["crash fixed by the next version", *ABOUT], "give --outcome"),
        (["it hangs", *ABOUT, "--log", "/dev/null"], "is empty"),
        (["alpha crashed", "--backend", "alpha", "--component", "c", "--arch", "potato"], "potato"),
        (["!!"], "says nothing"),
        (["x is nan", "--log", "/nowhere"], "--log /nowhere"),
        (["nan it is", "--backend", "a b", "--component", "c", "--arch", "sm120"], "expected a name"),
        (["nan it is", "--backend", "a", "--component", "c", "--arch", "sm120", "-p", "x"], "no version"),
        (
            ["nan it is", "--backend", "a", "--component", "c", "--arch", "sm120", "--url", "u"],
            "expected http",
        ),
    ],
)
def test_a_note_that_leaves_open_what_it_is_about_is_refused_in_one_line(
    home: Home,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    args: list[str],
    says: str,
) -> None:
    monkeypatch.setenv("PATH", "")
    said = note(capsys, *args, code=2)
    assert says in said
    assert len(said.splitlines()) == 1
    assert list(home.transcripts.glob("*.jsonl")) == []
