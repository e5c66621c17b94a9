"""Quantisation itself: what the kernel's numbers stand for, beside what ours do. Sizes: ``k``."""

from __future__ import annotations

from typing import Any

from . import formats
from .arrays import the_torch
from .case import Asked, Case, bound


def _case(asked: Asked, given: dict[str, Any], tight: Any, loose: Any, back: Any, scale: float) -> Case:
    torch = the_torch()
    arguments = bound(asked.function, {**given, **asked.options()})

    def call(_: Any) -> Any:
        return back(*asked.function(**arguments))

    moved = (2.0 + scale) * asked.m * int(asked.size["k"])
    # A number halfway between two of the format may be rounded either way.
    return Case(
        call,
        tuple(tight.shape),
        torch.float32,
        tight,
        loose,
        takes_out=False,
        limit=2e-2,
        moved=moved,
        timed=lambda: asked.function(**arguments),
    )


def mxfp8(asked: Asked) -> Case:
    torch = the_torch()
    x = formats.normal(asked.m, int(asked.size["k"]), seed=asked.seed, device=asked.device)

    def back(q: Any, scales: Any) -> Any:
        steps = torch.exp2(scales.view(torch.uint8).reshape(asked.m, -1).float() - 127)
        return (q.float().reshape(asked.m, -1, 32) * steps[..., None]).reshape(x.shape)

    given = {"input": x, "is_sf_swizzled_layout": False}
    return _case(asked, given, formats.mxfp8(x)[2], x.float(), back, 1.03)


def nvfp4(asked: Asked) -> Case:
    torch = the_torch()
    x = formats.normal(asked.m, int(asked.size["k"]), seed=asked.seed, device=asked.device)
    _, _, whole, tight = formats.nvfp4(x)
    values = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0], device=asked.device)

    def back(packed: Any, scales: Any) -> Any:
        packed = packed.view(torch.uint8)
        nibble = torch.stack([packed & 15, packed >> 4], dim=-1).reshape(asked.m, -1, 16).long()
        sign = 1.0 - 2.0 * (nibble >= 8).float()
        steps = scales.view(torch.uint8).reshape(asked.m, -1).view(torch.float8_e4m3fn).float() / whole
        return (values[nibble & 7] * sign * steps[..., None]).reshape(x.shape)

    given = {
        "input": x,
        "global_scale": whole.float().reshape(1),
        "sf_vec_size": 16,
        "is_sf_swizzled_layout": False,
    }
    return _case(asked, given, tight, x.float(), back, 0.56)
