"""What others saw of a cell stands beside its verdict, decides nothing, and is marked where it differs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from known import finding, write
from viability_fixtures.support import COMPONENT, Engine

from agent import reported
from agent.cli.main import cli
from memory.home import Home
from tools.findings.accounts import read_claims

CASE = {
    "id": "x-1", "url": "https://example.org/issues/1", "date": "2026-03-06", "engine": "sglang",
    "arch": "sm120", "quantization": "NVFP4", "component": COMPONENT, "backend": "amber", "outcome": "nan",
    "symptom": "NaN rows",
}  # fmt: skip


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    return Engine.copy(tmp_path)


def told(home: Home, *cases: dict[str, Any]) -> None:
    """Record accounts as a person does."""
    path = home.root / "cases.jsonl"
    path.write_text("\n".join(map(json.dumps, cases)), encoding="utf-8")
    assert CliRunner().invoke(cli, ["findings", "import", str(path)]).exit_code == 0


def asked(engine: Engine, *words: str) -> str:
    more = ["-e", str(engine.root), "--quantisation", "nvfp4"]
    done = CliRunner().invoke(cli, [*words, *more], standalone_mode=False)
    assert done.return_value == 0, done.output
    return done.stdout


def explained(engine: Engine, backend: str = "amber", arch: str = "sm120") -> dict[str, Any]:
    found: dict[str, Any] = json.loads(asked(engine, "explain", COMPONENT, backend, "--arch", arch, "--json"))
    return found


def test_a_report_decides_nothing_and_is_marked_where_it_differs(home: Home, engine: Engine) -> None:
    before = explained(engine)
    assert before["reports"] == []
    told(home, CASE, {**CASE, "id": "x-2", "outcome": "ok", "date": "2026-04-01"})
    after = explained(engine)
    assert after["row"] == before["row"], "it informs"
    assert [(one["outcome"], one["differs"]) for one in after["reports"]] == [("nan", True), ("ok", False)]
    assert explained(engine, arch="sm90")["reports"] == [], "of another architecture"
    shown = asked(engine, "explain", COMPONENT, "amber", "--arch", "sm120")
    assert "what was seen of it (it decides nothing here):\n  differs: nan (no version said, NVFP4" in shown
    assert "    https://example.org/issues/1\n" in shown


def test_what_worked_differs_from_a_refusal(home: Home, engine: Engine) -> None:
    told(home, {**CASE, "backend": "birch", "outcome": "ok"}, {**CASE, "backend": "birch", "id": "x-2"})
    assert explained(engine, "birch")["row"]["verdict"] == "blocked"
    assert [(one["outcome"], one["differs"]) for one in explained(engine, "birch")["reports"]] == [
        ("ok", True),
        ("nan", False),
    ]


@pytest.mark.parametrize(
    ("change", "fit", "differs"),
    [
        ({"engine_version": "VERSION"}, "these", True),
        ({"engine_version": ">=0.0.1"}, "these", True),
        ({"engine_version": "<0.0.1"}, "others", False),
        ({"engine_version": "99.0"}, "others", False),
        ({"engine_version": "main"}, "unsaid", True),
        ({"torch_version": "2.9"}, "unsaid", True),
        ({"quantization": "FP8 block"}, "unsaid", False),
        ({"quantization": "mixed NVFP4 + FP8"}, "unsaid", True),
        ({"outcome": "oom"}, "unsaid", False),
        ({"engine": "minilib"}, "unsaid", True),
    ],
)
def test_a_report_differs_only_of_what_was_judged(
    home: Home, engine: Engine, change: dict[str, str], fit: str, differs: bool
) -> None:
    version = next(engine.root.glob("sglang-*.dist-info")).name.split("-")[1].removesuffix(".dist")
    told(home, {**CASE, **{name: text.replace("VERSION", version) for name, text in change.items()}})
    (one,) = explained(engine)["reports"]
    assert (one["fit"], one["differs"]) == (fit, differs)


KETTLES = """\
import torch

from sglang.srt.layers.linear import ColumnLinear


class Kettle3ForCausalLM(torch.nn.Module):
    def __init__(self, config):
        self.part = ColumnLinear(config.hidden, config.hidden)


class Kettle3MoeForCausalLM(Kettle3ForCausalLM):
    pass


class Kettle3_5ForCausalLM(Kettle3ForCausalLM):
    pass


EntryClass = [{classes}]
"""


@pytest.mark.parametrize(
    ("model", "named", "differs"),
    [
        ("nvidia/Kettle-3-30B-A3B-NVFP4", "Kettle3ForCausalLM", True),
        ("Kettle-3", "Kettle3MoeForCausalLM", True),
        ("Kettle-3-12B", "Kettle3_5ForCausalLM", False),
        ("Kettle-3-Next", "Kettle3ForCausalLM", False),
        ("Teapot", "Kettle3ForCausalLM", False),
        ("Teapot / Kettle 3", "Kettle3ForCausalLM", True),
        ("Kettle", "Kettle3ForCausalLM", True),
        ("Kettle-3", None, True),
    ],
)
def test_an_account_of_another_family_is_no_conflict(
    home: Home, engine: Engine, model: str, named: str | None, differs: bool
) -> None:
    told(home, {**CASE, "model": model})
    classes = ("Kettle3ForCausalLM", "Kettle3MoeForCausalLM", "Kettle3_5ForCausalLM")
    engine.add("sglang/srt/models/kettle.py", KETTLES.format(classes=", ".join(classes)))
    words = ["explain", COMPONENT, "amber", "--arch", "sm120", "--json"]
    (one,) = json.loads(asked(engine, *words, *(["--model", named] if named else [])))["reports"]
    assert (one["model"], one["differs"]) == (model, differs)


@pytest.mark.parametrize(
    ("said", "fit"),
    [
        ({"lib": "1.0", "other-lib": "2.0"}, "these"),
        ({"lib": "1.0", "other_lib": "3.0"}, "others"),
        ({"lib": "1.0", "absent": "3.0"}, "these"),
        ({"absent": "3.0"}, "unsaid"),
    ],
)
def test_an_account_is_of_these_versions_if_all_that_it_names_are(said: dict[str, str], fit: str) -> None:
    assert reported._fit(said, {"lib": "1.0", "other-lib": "2.0"}) == fit


def test_what_was_only_read_here_is_no_account_of_what_was_seen(home: Home, engine: Engine) -> None:
    read = finding(component=COMPONENT, backend="amber", engine="sglang")
    write(home, "one", [read])
    told(home, CASE)
    assert [one["outcome"] for one in explained(engine)["reports"]] == ["nan"]


def test_an_account_of_another_engine_is_not_told(home: Home, engine: Engine) -> None:
    told(home, {**CASE, "engine": "vllm"})
    assert explained(engine)["reports"] == []


def test_the_matrix_marks_a_conflict_and_lists_it(home: Home, engine: Engine) -> None:
    words = ("backends", "--component", COMPONENT, "--arch", "sm100", "--arch", "sm120")
    plain = asked(engine, *words)
    told(home, CASE)
    marked = asked(engine, *words)
    changed = [new for old, new in zip(plain.splitlines(), marked.splitlines(), strict=False) if old != new]
    assert changed[0].split() == f"{COMPONENT} amber no static obstacle no static obstacle*".split()
    assert "* reports say otherwise: agent explain COMPONENT BACKEND --arch ARCH" in marked
    (conflict,) = json.loads(asked(engine, *words, "--json"))["conflicts"]
    assert (conflict["backend"], conflict["arch"], conflict["verdict"]) == (
        "amber",
        "sm120",
        "no_static_obstacle",
    )
    assert [one["url"] for one in conflict["reports"]] == [CASE["url"]]


def test_the_pack_is_told_without_being_recorded_and_once(
    home: Home, engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pack = tmp_path / "reports.jsonl"
    pack.write_text(f"{json.dumps(CASE)}\nno case\n", encoding="utf-8")
    monkeypatch.setattr(reported, "PACK", pack)
    (one,) = explained(engine)["reports"]
    assert one["finding"] is None
    told(home, CASE)
    assert len(explained(engine)["reports"]) == 1, "what is recorded too is one account"
    pack.write_text("", encoding="utf-8")
    assert explained(engine)["reports"][0]["finding"] is not None


def test_every_case_of_the_pack_that_ships_says_something() -> None:
    claims = list(read_claims(reported.PACK.read_text(encoding="utf-8")))
    assert len(claims) >= 64
    assert all(claim.report is not None and claim.report.url for claim in claims)
