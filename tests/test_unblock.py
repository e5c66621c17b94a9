"""What would open a gate: found by running the gate again with one fact changed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from viability_fixtures.support import COMPONENT, METHOD, Engine, before_elm

from agent.cli.main import cli, run
from tools.viability.trace import ExplainInput, Trace, trace_many


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    return Engine.copy(tmp_path)


def explained(engine: Engine, backend: str, arch: str = "sm120") -> Trace:
    asked = ExplainInput.model_validate(engine.asking(backend, arch).model_dump())
    (trace,) = trace_many(engine.context, [asked])
    return trace


def opened(trace: Trace, kind: str) -> dict[str, str | None]:
    return {f"{one.name} {one.value}": one.verdict for one in trace.openings if one.kind == kind}


def test_the_architectures_in_the_gates_own_list_open_it(engine: Engine) -> None:
    trace = explained(engine, "birch")
    assert opened(trace, "architecture") == {
        "arch sm100": "no_static_obstacle",
        "arch sm103": "no_static_obstacle",
    }
    assert opened(trace, "option")["--weave-backend amber"] == "no_static_obstacle"
    engine.edit(
        "minilib/gemm.py", "@supported_compute_capability([100, 103])", "@supported_compute_capability([90])"
    )
    assert opened(explained(engine, "birch"), "architecture") == {"arch sm90": "no_static_obstacle"}


def test_an_architecture_that_a_later_gate_refuses_is_said_to_be_blocked(engine: Engine) -> None:
    before_elm(engine, "if get_device_capability()[0] == 12:\n    raise ValueError('not here')")
    engine.edit(
        METHOD,
        'return mm_small(x, layer.weight, backend="e")',
        'return mm_small(x, layer.weight, backend="b")',
    )
    found = opened(explained(engine, "elm"), "architecture")
    assert found["arch sm100"] == "no_static_obstacle"
    assert found["arch sm90"] == "blocked"


def test_a_variable_that_the_gate_asks_for_opens_it(engine: Engine) -> None:
    test = "get_device_capability()[0] != 9 and os.getenv('ELM_ANYWAY', '0') != '1'"
    before_elm(engine, f"os.getenv('NOTHING', '0')\nif {test}:\n    raise ValueError('not here')")
    assert opened(explained(engine, "elm"), "variable") == {"ELM_ANYWAY 1": "no_static_obstacle"}
    assert opened(explained(engine, "birch"), "variable") == {}


def test_another_option_that_the_gate_reads_opens_it(engine: Engine) -> None:
    engine.edit(
        "sglang/srt/server_args.py",
        "    weave_block: int = 64\n",
        '    weave_block: int = 64\n    weave_tile: str = "wide"\n',
    )
    engine.edit(
        "sglang/srt/server_args.py",
        '        parser.add_argument("--weave-block"',
        '        parser.add_argument("--weave-tile", choices=["wide", "narrow", "tall"], default="wide")\n'
        '        parser.add_argument("--weave-block"',
    )
    engine.edit(
        "sglang/srt/weave.py",
        "    WEAVE_BACKEND = WeaveBackend(backend)\n",
        "    if backend == 'elm' and server_args.weave_tile == 'wide':\n"
        "        raise ValueError('elm has no wide tiles')\n"
        "    WEAVE_BACKEND = WeaveBackend(backend)\n",
    )
    trace = explained(engine, "elm")
    assert trace.row.verdict == "blocked", trace.notes
    assert opened(trace, "setting") == {
        "weave_tile narrow": "no_static_obstacle",
        "weave_tile tall": "no_static_obstacle",
    }


def test_a_variable_is_a_fact_to_judge_under(engine: Engine, capsys: pytest.CaptureFixture[str]) -> None:
    test = "get_device_capability()[0] != 9 and os.getenv('ELM_ANYWAY', '0') != '1'"
    before_elm(engine, f"if {test}:\n    raise ValueError('not here')")
    asked = [
        "explain",
        COMPONENT,
        "elm",
        "-e",
        str(engine.root),
        "--arch",
        "sm120",
        "--quantisation",
        "nvfp4",
    ]
    assert run(asked) == 0
    assert "elm on sm120: blocked" in capsys.readouterr().out
    assert run([*asked, "--scenario", "$ELM_ANYWAY=1"]) == 0
    assert "elm on sm120: no static obstacle" in capsys.readouterr().out
    assert run([*asked, "--scenario", "$NOBODYS=1"]) == 2
    assert "nothing here names a variable 'NOBODYS'" in capsys.readouterr().err


def test_what_is_not_refused_has_nothing_to_open(engine: Engine) -> None:
    assert explained(engine, "amber").openings == ()
    (plain,) = trace_many(engine.context, [engine.asking("birch", "sm120")])
    assert plain.openings == ()  # nor has what nobody asked to explain


def test_explain_shows_what_opens_the_gate_and_what_other_versions_say(tmp_path: Path) -> None:
    before, after = Engine.copy(tmp_path / "before"), Engine.copy(tmp_path / "after")
    after.edit(
        "minilib/gemm.py", "@supported_compute_capability([100, 103])", "@supported_compute_capability([120])"
    )
    asked = [
        "explain",
        COMPONENT,
        "birch",
        "-e",
        str(before.root),
        "--arch",
        "sm120",
        "--quantisation",
        "nvfp4",
    ]
    shown = CliRunner().invoke(cli, [*asked, "--compare", str(after.root)], standalone_mode=False).stdout
    assert "what would open that gate:\n  this backend on: sm100 (no static obstacle), sm103" in shown
    assert "with other versions:\n" in shown
    assert ": no static obstacle\n" in shown
    written = CliRunner().invoke(cli, [*asked, "--compare", str(after.root), "--json"], standalone_mode=False)
    assert [one["verdict"] for one in json.loads(written.stdout)["elsewhere"]] == ["no_static_obstacle"]
