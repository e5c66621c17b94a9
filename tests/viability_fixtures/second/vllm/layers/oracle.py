"""Classes that say for themselves what they support, and who chooses among them."""

import enum

import minilib
from vllm.platforms import current_platform


class Choice(enum.Enum):
    AMBER = "AMBER"
    BIRCH = "BIRCH"
    CEDAR = "CEDAR"


class Expert:
    def __init__(self, layer):
        self.layer = layer

    @staticmethod
    def is_supported(cls, settings, key):
        if not cls.supports_device():
            return False, "the device"
        elif not cls.supports_width(settings.width):
            return False, f"a width of {settings.width}"
        elif key not in cls.keys():
            return False, f"the key {key}"
        return True, None

    @staticmethod
    def supports_width(width):
        return width < 64

    @staticmethod
    def keys():
        return [("four", "block"), ("two", "block")]


class Amber(Expert):
    @staticmethod
    def supports_device():
        return True

    def apply(self, x):
        return minilib.gemm.mm_small(x, x)


class Birch(Expert):
    @staticmethod
    def supports_device():
        return current_platform.is_family(10)

    def apply(self, x):
        return minilib.gemm.mm_small(x, x)


class Cedar(Expert):
    @staticmethod
    def supports_device():
        return True

    @staticmethod
    def keys():
        return [("eight", "row")]

    def apply(self, x):
        return minilib.gemm.mm_small(x, x)


def class_of(choice):
    if choice == Choice.AMBER:
        return Amber
    elif choice == Choice.BIRCH:
        return Birch
    elif choice == Choice.CEDAR:
        return Cedar
    raise ValueError(choice)


def choose(settings, key):
    choices = {"amber": Choice.AMBER, "birch": Choice.BIRCH, "cedar": Choice.CEDAR}
    if choice := choices.get(settings.weave_backend):
        cls = class_of(choice)
        supported, reason = cls.is_supported(cls, settings, key)
        if supported:
            return cls
        raise ValueError(f"{choice.value} does not support {reason}")
    raise ValueError(f"weave_backend={settings.weave_backend!r} is none of {list(choices)}")
