"""Ways that lead through more than one object: what stands in front of a layer, and who is meant at all."""

from __future__ import annotations

from pathlib import Path

import pytest
from viability_fixtures.support import METHOD, Engine

from memory.vocabulary import Because, Verdict

LINEAR = "sglang/srt/layers/linear.py"
ROUTER = """\
from typing import NamedTuple, Protocol

import torch

from sglang.srt.weave import get_weave_backend


class Routed(Protocol):
    pass


class Plain(NamedTuple):
    ids: torch.Tensor


class Packed(NamedTuple):
    logits: torch.Tensor


class Router(torch.nn.Module):
    def __init__(self, top_k: int):
        super().__init__()
        self.top_k = top_k

    def forward(self, *args, **kwargs):
        return self.forward_cuda(*args, **kwargs)

    def forward_cuda(self, hidden_states: torch.Tensor) -> Routed:
        if get_weave_backend().is_elm():
            return Packed(hidden_states)
        return Plain(hidden_states)


def build():
    return Router(2)
"""


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    return Engine.copy(tmp_path)


def test_a_layer_is_given_what_the_module_in_front_of_it_makes(engine: Engine) -> None:
    """One value packs what the layer's method reads unpacked: it breaks there, on every device."""
    engine.add("sglang/srt/layers/router.py", ROUTER)
    engine.edit(LINEAR, "import torch\n", "import torch\n\nfrom sglang.srt.layers.router import Routed\n")
    engine.edit(LINEAR, "def forward(self, x):", "def forward(self, x, routed: Routed):")
    engine.edit(
        LINEAR, "return self.quant_method.apply(self, x)", "return self.quant_method.apply(self, routed)"
    )
    engine.edit(
        METHOD,
        "        backend = get_weave_backend()\n",
        "        x = x.ids\n        backend = get_weave_backend()\n",
    )
    for arch in ("sm90", "sm100", "sm120"):
        row = engine.trace("elm", arch).row
        assert (row.verdict, row.because) == (Verdict.BLOCKED, Because.OPTION), arch
        assert row.evidence[0].line == engine.line(METHOD, "x = x.ids")
        assert engine.trace("amber", arch).row.verdict is Verdict.NO_STATIC_OBSTACLE
