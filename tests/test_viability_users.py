"""Options that no layer asks for: who uses them is found by the names that their values go by."""

from __future__ import annotations

from pathlib import Path

import pytest
from viability_fixtures.support import Engine
from viability_fixtures.users import DYES, KNOTS, LOOMS, SERVER_ARGS, add_users

from memory.vocabulary import Because, Verdict
from tools.viability import alternatives
from tools.viability.trace import Trace, trace_many

ARCHS = ("sm90", "sm100", "sm120")
PASSES, BLOCKED, UNKNOWN = Verdict.NO_STATIC_OBSTACLE, Verdict.BLOCKED, Verdict.UNKNOWN


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    made = Engine.copy(tmp_path)
    add_users(made)
    return made


def traces(engine: Engine, component: str, backend: str) -> list[Trace]:
    cells = [engine.asking(backend, arch).model_copy(update={"component": component}) for arch in ARCHS]
    return list(trace_many(engine.context, cells))


def verdicts(engine: Engine, component: str, backend: str) -> list[Verdict]:
    return [trace.row.verdict for trace in traces(engine, component, backend)]


# -- a function tells the choice, an object of the running engine holds it ------------------------


def test_a_class_that_takes_the_choice_from_the_runner_is_followed(engine: Engine) -> None:
    assert verdicts(engine, "loom", "hand") == [PASSES] * 3
    row = traces(engine, "loom", "jack")[1].row
    assert (row.verdict, row.because) == (BLOCKED, Because.ARCHITECTURE)
    assert row.evidence[0].line == engine.line(LOOMS, "if get_device_capability()[0] != 9:")


def test_of_classes_of_one_base_the_one_that_gets_furthest_decides(engine: Engine) -> None:
    """Which of them is built is the model's: a value that one of them refuses may be made for the other."""
    assert verdicts(engine, "loom", "jack") == [PASSES, BLOCKED, BLOCKED]
    assert verdicts(engine, "loom", "dobby") == [BLOCKED, PASSES, BLOCKED]


def test_a_value_that_all_who_use_the_option_refuse_is_refused(engine: Engine) -> None:
    found = [trace.row for trace in traces(engine, "loom", "drum")]
    assert [(row.verdict, row.because) for row in found] == [(BLOCKED, Because.OPTION)] * 3


def test_classes_that_have_no_base_in_common_do_not_stand_in_for_each_other(engine: Engine) -> None:
    engine.edit(LOOMS, "class DeepLoom(Loom):", "class DeepLoom:")
    engine.edit(
        LOOMS,
        '        elif name == "dobby":',
        '        elif name == "jack":\n            self.kernel = Jack()\n        elif name == "dobby":',
    )
    engine.edit(
        LOOMS,
        "            self.kernel = Jack()\n        else:",
        "            self.kernel = Plain()\n        else:",
    )
    # One of them works everywhere now, the other refuses most devices: who builds which is not known.
    (trace,) = [trace for trace in traces(engine, "loom", "jack") if trace.row.arch == "sm100"]
    assert trace.row.verdict is UNKNOWN
    assert f"may be refused at {LOOMS}" in trace.notes[0]


def test_where_not_all_were_tried_those_who_were_cannot_speak_for_all(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An option's value may be handed to half of an engine: the search for who works with it ends."""
    monkeypatch.setattr(alternatives, "SEARCH_STEPS", 0)
    assert verdicts(engine, "loom", "drum") == [UNKNOWN] * 3
    assert verdicts(engine, "loom", "hand") == [PASSES] * 3


def test_a_choice_that_nobody_stores_reaches_nobody(engine: Engine) -> None:
    engine.edit(LOOMS, "runner.loom_choice = resolve_loom()", "resolve_loom()")
    assert verdicts(engine, "loom", "hand") == [UNKNOWN] * 3


def test_work_that_goes_to_a_package_that_nobody_has_read_is_not_known(engine: Engine) -> None:
    (trace,) = [trace for trace in traces(engine, "loom", "power") if trace.row.arch == "sm100"]
    assert (trace.row.verdict, trace.notes) == (
        UNKNOWN,
        ("hands its work on to code that was not read: otherlib",),
    )
    engine.edit(LOOMS, "            from otherlib import PowerLoom\n\n", "")
    engine.edit(LOOMS, "self.kernel, self.drive = Plain(), PowerLoom()", "self.kernel = Plain()")
    assert verdicts(engine, "loom", "power")[1] is not UNKNOWN


# -- start-up fills a global ----------------------------------------------------------------------


def test_a_function_that_works_with_what_start_up_put_there_is_followed(engine: Engine) -> None:
    assert verdicts(engine, "knot", "square") == [PASSES] * 3
    assert verdicts(engine, "knot", "granny") == [BLOCKED, PASSES, BLOCKED]


def test_another_kernel_behind_the_same_name_is_another_answer(engine: Engine) -> None:
    engine.edit(KNOTS, 'return self._kernel(x, x, backend="b")', 'return self._kernel(x, x, backend="d")')
    assert verdicts(engine, "knot", "granny") == [PASSES] * 3


# -- a function that tells the choice refuses -----------------------------------------------------


def test_where_the_choice_cannot_be_told_it_is_refused(engine: Engine) -> None:
    assert verdicts(engine, "dye", "woad") == [BLOCKED, PASSES, BLOCKED]
    assert verdicts(engine, "dye", "weld") == [PASSES] * 3


def test_a_parameter_whose_class_is_imported_for_type_checkers_alone_gets_the_options(engine: Engine) -> None:
    engine.edit(
        DYES,
        "import torch\n",
        "from typing import TYPE_CHECKING\n\nimport torch\n\nif TYPE_CHECKING:\n"
        "    from sglang.srt.server_args import ServerArgs\n",
    )
    engine.edit(DYES, "def resolve_dye(runner):", 'def resolve_dye(args: "ServerArgs"):')
    engine.edit(DYES, "dye = runner.args.dye_backend", "dye = args.dye_backend")
    assert verdicts(engine, "dye", "woad") == [BLOCKED, PASSES, BLOCKED]


def test_a_refusal_that_somebody_expects_proves_nothing(engine: Engine) -> None:
    engine.edit(
        DYES,
        "    return resolve_dye(runner)\n",
        "    try:\n        return resolve_dye(runner)\n    except ValueError:\n        return None\n",
    )
    assert verdicts(engine, "dye", "woad") == [UNKNOWN, PASSES, UNKNOWN]


def test_a_refusal_that_does_not_look_at_the_choice_is_not_the_choices(engine: Engine) -> None:
    engine.edit(
        DYES, 'if dye == "woad" and get_device_capability()[0] != 10:', "if get_device_capability()[0] != 10:"
    )
    assert verdicts(engine, "dye", "weld") == [PASSES] * 3
    engine.edit(
        DYES,
        "    dye = runner.args.dye_backend\n",
        "    dye = runner.args.dye_backend\n    if dye is None:\n        return None\n",
    )
    assert verdicts(engine, "dye", "weld") == [BLOCKED, PASSES, BLOCKED]


# -- what start-up itself refuses -----------------------------------------------------------------

CHECK = """
    def __post_init__(self):
        self._check_dye()

    def _check_dye(self):
        {test}
            raise ValueError("weld is no dye for this device")

    @staticmethod
    def add_cli_args("""


def checked(engine: Engine, test: str) -> None:
    more = "".join(f"    unused_{number}: int = 0\n" for number in range(20))
    engine.edit(
        SERVER_ARGS,
        "    weave_block: int = 64\n",
        f"    weave_block: int = 64\n{more}    dye_mode: str | None = None\n",
    )
    engine.edit(SERVER_ARGS, "\n    @staticmethod\n    def add_cli_args(", CHECK.format(test=test))
    engine.edit(SERVER_ARGS, "import argparse\n", "import argparse\n\nimport torch\n")


NEW = "torch.cuda.get_device_capability()[0] >= 12"


def test_what_start_up_refuses_is_refused_though_nobody_reads_it(engine: Engine) -> None:
    checked(engine, f'if self.dye_backend == "weld" and {NEW}:')
    for file in (DYES,):
        (engine.root / file).write_text("", encoding="utf-8")
    assert verdicts(engine, "dye", "weld") == [UNKNOWN, UNKNOWN, BLOCKED]


def test_what_start_up_would_refuse_if_another_option_stays_unset_is_not_known(engine: Engine) -> None:
    checked(engine, f'if self.dye_backend == "weld" and self.dye_mode != "fixed" and {NEW}:')
    assert verdicts(engine, "dye", "weld") == [PASSES, PASSES, UNKNOWN]


def test_what_start_up_refuses_for_some_models_is_not_known(engine: Engine) -> None:
    some = "if not self.get_model_config().is_dyed:\n            return\n        "
    checked(engine, f'{some}if self.dye_backend == "weld":')
    assert verdicts(engine, "dye", "weld") == [UNKNOWN] * 3
    assert verdicts(engine, "dye", "woad")[1] is PASSES
