"""What is only said is shown beside the gates, decides nothing, and is marked where it differs."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from viability_fixtures.support import COMPONENT, METHOD, Engine

from agent.cli.main import cli
from memory.architecture import Architecture
from tools.viability.claims import named_in, what_is_said
from tools.viability.trace import ExplainInput, Trace, trace_many

SM120 = Architecture(12, 0)


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    return Engine.copy(tmp_path)


def explained(engine: Engine, backend: str, arch: str = "sm120") -> Trace:
    asked = ExplainInput.model_validate({**engine.asking(backend, arch).model_dump(), "openings": False})
    (trace,) = trace_many(engine.context, [asked])
    return trace


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("only on SM100/SM103", ["sm100", "sm103"]),
        ("supports SM90/100", ["sm90", "sm100"]),
        ("needs sm_90a", ["sm90"]),
        ("for SM12x", ["sm120", "sm121"]),
        ("SM120+", ["sm120", "sm121"]),
        ("SM120 and above", ["sm120", "sm121"]),
        ("on Hopper", ["sm90"]),
        ("Blackwell (SM100)", ["sm100"]),  # what has a number is meant by it
        ("is_sm100_supported()", []),
        ("a list of 100 or 103", []),
    ],
)
def test_architectures_are_read_as_people_write_them(text: str, names: list[str]) -> None:
    assert sorted(one.name for one in named_in(text)) == sorted(names)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("birch supports SM120", "for"),
        ("birch does not support SM120", "against"),
        ("birch is only supported on SM100", "against"),
        ("birch is unsupported on SM120", "against"),
        ("birch was measured at SM100", None),
        ("birch is not only for SM100", None),
        ("birch is fast", None),
    ],
)
def test_what_a_line_says(text: str, says: str | None) -> None:
    assert what_is_said(text, SM120) == says


def test_a_claim_decides_nothing_and_is_marked_where_it_differs(engine: Engine) -> None:
    before = explained(engine, "birch")
    assert before.claims == ()
    head = "    def process_weights_after_loading(self, layer):\n"
    engine.edit(METHOD, head, head + "        # Note: birch supports SM120.\n")
    engine.add("sglang/test/test_weave.py", '# pytest.skip("birch needs SM100")\n')
    after = explained(engine, "birch")

    assert (after.row.verdict, after.row.because) == (before.row.verdict, before.row.because)
    assert [(one.channel, one.says, one.differs) for one in after.claims][1:] == [("test", "against", False)]
    assert after.claims[0].evidence.file == METHOD
    assert explained(engine, "auto").claims == ()


def test_a_claim_against_what_no_gate_refuses_differs_too(engine: Engine) -> None:
    engine.edit("sglang/srt/weave.py", "from enum", "# amber is only supported on SM100\nfrom enum")
    (one,) = explained(engine, "amber").claims
    assert (one.says, one.differs) == ("against", True)
    assert explained(engine, "amber").row.verdict == "no_static_obstacle"
    (one,) = explained(engine, "amber", "sm100").claims
    assert (one.says, one.differs) == ("for", False)


def test_what_is_hidden_says_nothing(engine: Engine) -> None:
    before = explained(engine, "birch")
    engine.add("sglang/test/.notes/weave.py", "# birch supports SM120\n")
    after = explained(engine, "birch")
    assert (after.row, after.claims, after.notes) == (before.row, (), before.notes)


def test_explain_shows_claims_apart(engine: Engine) -> None:
    engine.edit("sglang/srt/weave.py", "from enum", "# birch is supported on SM100 and SM120\nfrom enum")
    asked = [
        "explain",
        COMPONENT,
        "birch",
        "-e",
        str(engine.root),
        "--arch",
        "sm120",
        "--quantisation",
        "nvfp4",
    ]
    shown = CliRunner().invoke(cli, asked, standalone_mode=False).stdout
    assert (
        "what is said beside the gates (it decides nothing):\n  differs: # birch is supported on SM100"
        in shown
    )


def test_explain_says_where_the_engine_admits_what_its_library_does_not(engine: Engine) -> None:
    def shown(backend: str, arch: str) -> str:
        words = [
            "explain",
            COMPONENT,
            backend,
            "-e",
            str(engine.root),
            "--arch",
            arch,
            "--quantisation",
            "nvfp4",
        ]
        return CliRunner().invoke(cli, words, standalone_mode=False).stdout

    assert "admits sm120 there; minilib 2.0.0, which it calls, does not" in shown("birch", "sm120")
    assert "which it calls" not in shown("birch", "sm100") + shown("amber", "sm120")
