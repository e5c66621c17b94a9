import functools

from .jit import gen_cedar_module, gen_common_module
from .utils import backend_requirement, supported_compute_capability


@functools.cache
def get_cedar():
    return gen_cedar_module().build_and_load()


@functools.cache
def get_common():
    return gen_common_module().build_and_load()


@supported_compute_capability([80, 89, 90, 100, 103, 120, 121])
def _common_requirement(a, b, backend="a"):
    return True


@supported_compute_capability([100, 103])
def _birch_requirement(a, b, backend="a"):
    return True


def _shapes(a, b, backend="a"):
    if a.shape[-1] > 1024:
        raise ValueError("rows longer than 1024 are not supported")
    return True


@backend_requirement(
    {
        "a": _common_requirement,
        "b": _birch_requirement,
        "c": _common_requirement,
        "d": _common_requirement,
        "e": _common_requirement,
    },
    common_check=_shapes,
)
def mm_small(a, b, backend="a"):
    if backend == "c":
        return get_cedar().run(a, b)
    return get_common().run(a, b)


def mm_plain(a, b):
    return get_common().run(a, b)
