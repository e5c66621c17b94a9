import torch

from sglang.srt.layers.linear import LinearBase
from sglang.srt.platform import get_device_capability
from sglang.srt.weave import get_weave_backend

try:
    from minilib import mm_small
except ImportError:
    mm_small = None


class SmallConfig:
    def __init__(self, group_size):
        self.group_size = group_size

    @classmethod
    def get_min_capability(cls):
        return 90

    @classmethod
    def from_config(cls, config):
        return cls(config["group_size"])

    def get_quant_method(self, layer, prefix):
        if isinstance(layer, LinearBase):
            return SmallLinearMethod(self)
        return None


class SmallLinearMethod:
    def __init__(self, quant_config):
        self.quant_config = quant_config

    def create_weights(self, layer, input_size, output_size):
        layer.weight = torch.nn.Parameter(torch.empty(output_size, input_size, dtype=torch.uint8))

    def process_weights_after_loading(self, layer):
        layer.alpha = layer.weight

    def apply(self, layer, x):
        backend = get_weave_backend()
        if backend.is_birch():
            return mm_small(x, layer.weight, backend="b")
        if backend.is_cedar():
            return mm_small(x, layer.weight, backend="c")
        if backend.is_elm():
            return mm_small(x, layer.weight, backend="e")
        if backend.is_amber() or backend.is_auto():
            return mm_small(x, layer.weight, backend="a")
        if backend.is_dune():
            return mm_small(x, layer.weight, backend="d")
        return plain(layer, x)


def plain(layer, x):
    from minilib import mm_plain

    return mm_plain(x, layer.weight)
