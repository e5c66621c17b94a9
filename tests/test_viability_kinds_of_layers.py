"""A backend that no kind of layer gets through with: when that is proof, and when not."""

from __future__ import annotations

from pathlib import Path

import pytest
from viability_fixtures.support import METHOD, Engine, before_elm

from memory.vocabulary import Because, Verdict

WIDE = "sglang/srt/layers/wide.py"
OTHER_KIND = """\
import torch


class WideBase(torch.nn.Module):
    def __init__(self, input_size: int, output_size: int, quant_config=None, prefix: str = ""):
        super().__init__()
        self.wide = True
        self.quant_method = quant_config.get_quant_method(self, prefix)
        self.quant_method.create_weights(self, input_size, output_size)

    def forward(self, x):
        return self.quant_method.apply(self, x)


def build(config, quant_config):
    return WideBase(config.hidden, config.hidden, quant_config=quant_config, prefix="b")
"""


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    """The small engine with a second kind of layer."""
    made = Engine.copy(tmp_path)
    made.add(WIDE, OTHER_KIND)
    made.edit(
        METHOD, "import LinearBase\n", "import LinearBase\nfrom sglang.srt.layers.wide import WideBase\n"
    )
    made.edit(METHOD, "isinstance(layer, LinearBase)", "isinstance(layer, (LinearBase, WideBase))")
    return made


def test_what_every_kind_of_layer_is_refused_by_is_the_options(engine: Engine) -> None:
    before_elm(engine, "raise NotImplementedError('elm is not built')")
    row = engine.trace("elm", "sm100").row
    assert (row.verdict, row.because) == (Verdict.BLOCKED, Because.OPTION)


REASONS = """\
reasons = []
if getattr(layer, 'wide', False):
    reasons.append('too wide')
else:
    reasons.append('too narrow')
if get_device_capability()[0] == 12:
    reasons.append('not on this device')
if reasons:
    raise ValueError(reasons)"""


def test_where_each_kind_of_layer_has_its_own_reason_only_the_devices_counts(engine: Engine) -> None:
    """Another kind of layer may be neither too wide nor too narrow; on one device that would not help."""
    before_elm(engine, REASONS)
    row = engine.trace("elm", "sm120").row
    assert (row.verdict, row.because) == (Verdict.BLOCKED, Because.ARCHITECTURE)
    trace = engine.trace("elm", "sm100")
    assert trace.row.verdict is Verdict.UNKNOWN
    assert any("another may be needed" in note for note in trace.notes)
