"""Which calls count as a kernel that was reached: without one, nothing says that the backend can run."""

from __future__ import annotations

from pathlib import Path

import pytest
from viability_fixtures.support import METHOD, Engine, before_elm

from memory.vocabulary import Verdict

DEVICE = """\
import torch


def is_new():
    return torch.cuda.get_device_capability()[0] >= 9


def mm_checked(a):
    if torch.cuda.get_device_capability()[0] == 12:
        raise NotImplementedError("not on this device")
    return a
"""


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    made = Engine.copy(tmp_path)
    made.add("minilib/device.py", DEVICE)
    return made


def test_a_question_is_no_kernel(engine: Engine) -> None:
    """It is handed nothing to work on."""
    before_elm(engine, "from minilib.device import is_new\nlayer.new = is_new()\nreturn x")
    trace = engine.trace("elm", "sm100")
    assert trace.row.verdict is Verdict.UNKNOWN
    assert any("no kernel call" in note for note in trace.notes)


def test_what_a_compiled_module_does_is_not_read(engine: Engine) -> None:
    """Neither that it is found by its file nor that what it gives is looked at tells what is in it."""
    engine.add("minilib/far.cpython-312-x86_64-linux-gnu.so", "no library")
    before_elm(engine, "from minilib import far\ny = far.work(x)\nassert y.dim() == 3\nreturn y")
    trace = engine.trace("elm", "sm120")
    assert trace.row.verdict is Verdict.UNKNOWN
    assert trace.notes[0] == "runs compiled code that was not read: minilib.far.work"


def test_a_call_that_ends_in_a_raise_reaches_no_kernel(engine: Engine) -> None:
    """Whether the way comes by is not known, so it refuses nobody; nor does it show that anything runs."""
    before_elm(
        engine,
        "from minilib.device import mm_checked\nif otherlib.ready():\n    return mm_checked(x)\nreturn x",
    )
    assert engine.trace("elm", "sm120").row.verdict is Verdict.UNKNOWN
    assert engine.trace("elm", "sm100").row.verdict is Verdict.NO_STATIC_OBSTACLE


def test_where_one_of_two_objects_has_an_attribute_it_is_that_one(engine: Engine) -> None:
    body = (
        "@dataclasses.dataclass\nclass Plain:\n    depth: int\n"
        "@dataclasses.dataclass\nclass Wide:\n    width: int\nmade = Wide(4)\n"
        "if otherlib.plain():\n    made = Plain(2)\nlayer.width = made.{}"
    )
    before_elm(engine, body.format("width"))
    assert engine.trace("elm", "sm100").row.verdict is Verdict.NO_STATIC_OBSTACLE
    engine.edit(METHOD, "made.width", "made.height")
    assert engine.trace("elm", "sm100").row.verdict is Verdict.BLOCKED
