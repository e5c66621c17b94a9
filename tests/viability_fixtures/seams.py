"""A second option for the small engine, whose values are names in a table that decorators fill."""

from __future__ import annotations

from viability_fixtures.support import Engine

SERVER_ARGS = "sglang/srt/server_args.py"
SEAMS = "sglang/srt/layers/seams.py"
REGISTRY = """\
import torch

from sglang.srt.platform import get_device_capability

from sglang.srt.model_config import WeaveKind

SEAMS = {}


def register_seam(name):
    def decorator(function):
        SEAMS[name] = function
        return function

    return decorator


class Seam:
    def forward(self, q, k, v, batch):
        if batch.is_decode():
            return self.forward_decode(q, k, v, batch)
        return self.forward_extend(q, k, v, batch)


class Fold(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, limit):
        if get_device_capability()[0] > limit:
            raise ValueError("too new for a fold")
        return torch.matmul(q, q)


class Flat(Seam):
    def __init__(self, runner):
        self.folded = runner.model_config.weave_kind == WeaveKind.FOLDED

    def forward_decode(self, q: torch.Tensor, k, v, batch):
        assert not self.folded
        return Fold.apply(q, 11)

    forward_extend = forward_decode


class Folded(Seam):
    def __init__(self, runner):
        pass

    def forward_decode(self, q: torch.Tensor, k, v, batch, rope: torch.Tensor | None = None):
        assert rope is not None, "needs rope"
        return torch.matmul(q, rope)

    forward_extend = forward_decode


def seam_of(runner):
    return SEAMS[runner.server_args.seam_backend](runner)


@register_seam("plain")
def create_plain(runner):
    return Flat(runner)


@register_seam("folded")
def create_folded(runner):
    if not runner.is_folded:
        raise ValueError("folded is for folded models")
    return Folded(runner)


@register_seam("far")
def create_far(runner):
    from sglang.srt.layers.far import Far

    return Far(runner)


@register_seam("slow")
def create_slow(runner):
    from sglang.srt.layers.slow import Slow

    return Slow(runner)
"""
FAR = """\
import torch

from sglang.srt.layers.seams import Seam

try:
    from torch_npu import stitch
except ImportError:
    print("install torch_npu")


class Far(Seam):
    def __init__(self, runner):
        pass

    def forward_decode(self, q: torch.Tensor, k, v, batch):
        return torch.matmul(q, q) if batch.small else stitch(q)

    forward_extend = forward_decode
"""
SLOW = """\
import torch

from sglang.srt.layers.seams import Seam


class Slow(Seam):
    def __init__(self, runner):
        self.run = torch.ops.kernels.stitch_cpu

    def forward_decode(self, q: torch.Tensor, k, v, batch):
        return self.run(q)

    forward_extend = forward_decode
"""
MODEL_CONFIG = """\
from enum import IntEnum, auto


class WeaveKind(IntEnum):
    FOLDED = auto()
    FLAT = auto()


class ModelConfig:
    def __init__(self, hf_config):
        self.hf_config = hf_config
        self._settle()

    def _settle(self):
        if "FoldForCausalLM" in self.hf_config.architectures:
            self.weave_kind = WeaveKind.FOLDED
            self.rank = self.hf_config.rank
        else:
            self.weave_kind = WeaveKind.FLAT


class Runner:
    def __init__(self, model_config):
        self.model_config = model_config
        self.is_folded = self.model_config.weave_kind == WeaveKind.FOLDED
"""


def add_seams(engine: Engine) -> None:
    """Give the small engine the option, and what its values make."""
    engine.edit(
        SERVER_ARGS,
        "WEAVE_BACKEND_CHOICES = [",
        'SEAM_BACKEND_CHOICES = ["plain", "folded", "far", "slow"]\n\nWEAVE_BACKEND_CHOICES = [',
    )
    engine.edit(
        SERVER_ARGS,
        "    weave_block: int = 64\n",
        "    weave_block: int = 64\n    seam_backend: str | None = None\n",
    )
    engine.edit(
        SERVER_ARGS,
        '        parser.add_argument("--weave-block"',
        '        parser.add_argument("--seam-backend", type=str, choices=SEAM_BACKEND_CHOICES)\n'
        '        parser.add_argument("--weave-block"',
    )
    engine.add(SEAMS, REGISTRY)
    engine.add("sglang/srt/layers/far.py", FAR)
    engine.add("sglang/srt/layers/slow.py", SLOW)
    engine.add("sglang/srt/model_config.py", MODEL_CONFIG)
