"""Backends by dotted path; each says why it is not for a configuration. Two kinds of layer use them."""

import enum
import importlib

import minilib
import torch

from vllm.platforms import current_platform


class Spin(enum.Enum):
    FLAT = "vllm.layers.spin.Flat"
    DEEP = "vllm.layers.spin.Deep"
    THIN = "vllm.layers.spin.Thin"

    def get_class(self):
        module, _, name = self.value.rpartition(".")
        return getattr(importlib.import_module(module), name)


class Backend:
    @classmethod
    def is_deep(cls):
        return False

    @classmethod
    def is_thin(cls):
        return False

    @classmethod
    def supports(cls, capability):
        return True

    @classmethod
    def supports_width(cls, width):
        return width in (64, 128)

    @classmethod
    def reasons(cls, width, deep, thin, capability):
        found = []
        if not cls.supports_width(width):
            found.append("width not supported")
        if deep != cls.is_deep():
            found.append("depth not supported")
        if thin != cls.is_thin():
            found.append("thinness not supported")
        if not cls.supports(capability):
            found.append("capability not supported")
        return found

    @staticmethod
    def run(x):
        return minilib.gemm.mm_small(x, x)


class Flat(Backend):
    @classmethod
    def supports(cls, capability):
        return capability.major >= 9


class Deep(Backend):
    @classmethod
    def is_deep(cls):
        return True

    @classmethod
    def supports(cls, capability):
        return capability.major == 10


class Thin(Deep):
    @classmethod
    def is_thin(cls):
        return True

    @classmethod
    def supports(cls, capability):
        return capability.major == 12


def select(width, deep, thin):
    from vllm.config.top import get_current_top_config

    chosen = get_current_top_config().weave_config.spin
    if chosen is None:
        return Flat
    backend = chosen.get_class()
    reasons = backend.reasons(width=width, deep=deep, thin=thin, capability=current_platform.capability())
    if reasons:
        raise ValueError(f"{chosen} is not for this configuration: {reasons}")
    return backend


class FlatLayer(torch.nn.Module):
    def __init__(self, hidden_size: int, quant_config=None, prefix=""):
        super().__init__()
        self.other = quant_config.get_quant_method(self, prefix) if quant_config and prefix == "none" else None
        self.backend = select(hidden_size, False, False)

    def forward(self, x):
        return self.backend.run(x)


class DeepLayer(torch.nn.Module):
    def __init__(self, hidden_size: int, quant_config=None, prefix="", use_thin: bool = False):
        super().__init__()
        self.other = quant_config.get_quant_method(self, prefix) if quant_config and prefix == "none" else None
        self.backend = select(hidden_size, True, use_thin)

    def forward(self, x):
        return self.backend.run(x)
