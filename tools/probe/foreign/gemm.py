"""Matrix products ``(m, k) × (n, k)ᵀ`` in the formats there are. Sizes: ``n``, ``k``."""

from __future__ import annotations

from typing import Any

from . import formats
from .arrays import the_torch
from .case import Asked, Case, accepts, bound


def _operands(asked: Asked) -> tuple[Any, Any, int, int]:
    n, k = int(asked.size["n"]), int(asked.size["k"])
    a = formats.normal(asked.m, k, seed=asked.seed, device=asked.device)
    b = formats.normal(n, k, seed=asked.seed + 1, device=asked.device, scale=k**-0.5)
    return a, b, n, k


def _case(asked: Asked, given: dict[str, Any], a: Any, b: Any, tight: Any, **more: Any) -> Case:
    """``given``: arguments by every name that versions have had for them; ``batched``: an extra dimension."""
    torch = the_torch()
    batched = more.pop("batched", False)
    m, n, k = asked.m, b.shape[0], b.shape[1]
    takes_out = accepts(asked.function, "out")
    arguments = bound(asked.function, {**given, **asked.options()})

    def call(out: Any) -> Any:
        if out is None:
            found = asked.function(**arguments)
        else:
            found = asked.function(**arguments, out=out.unsqueeze(0) if batched else out)
            found = out if found is None else found
        return found.squeeze(0) if batched else found

    more.setdefault("moved", a.element_size() * (m * k + n * k) + 2.0 * m * n)
    return Case(
        call,
        (m, n),
        torch.bfloat16,
        tight,
        a.float() @ b.float().t(),
        takes_out,
        flops=2.0 * m * n * k,
        **more,
    )


def bf16(asked: Asked) -> Case:
    torch = the_torch()
    a, b, _, _ = _operands(asked)
    given = {"a": a, "b": b.t(), "input": a, "mat2": b.t(), "out_dtype": torch.bfloat16}
    return _case(asked, given, a, b, a.float() @ b.float().t())


def fp8_per_tensor(asked: Asked) -> Case:
    torch = the_torch()
    a, b, n, k = _operands(asked)
    qa, sa, back_a = formats.fp8_tensor(a)
    qb, sb, back_b = formats.fp8_tensor(b)
    given = {
        "A": qa.unsqueeze(0),
        "B": qb.unsqueeze(0).transpose(-2, -1),
        "A_scale": sa,
        "B_scale": sb,
        "dtype": torch.bfloat16,
    }
    moved = 1.0 * (asked.m * k + n * k) + 2.0 * asked.m * n
    return _case(asked, given, a, b, back_a @ back_b.t(), batched=True, unit="fp8", moved=moved)


def fp8_groupwise(asked: Asked) -> Case:
    """Activations with a scale for every 128 numbers of a row, weights for every 128 × 128."""
    torch = the_torch()
    a, b, n, k = _operands(asked)
    qa, sa, back_a = formats.fp8_blocks(a, 1, 128)
    qb, sb, back_b = formats.fp8_blocks(b, 128, 128)
    given = {
        "a": qa,
        "b": qb,
        "a_scale": sa,
        "b_scale": sb,
        "scale_major_mode": "K",
        "scale_granularity_mnk": (1, 128, 128),
        "out_dtype": torch.bfloat16,
    }
    moved = 1.0 * (asked.m * k + n * k) + 2.0 * asked.m * n
    return _case(asked, given, a, b, back_a @ back_b.t(), unit="fp8", moved=moved)


def fp8_blockscale(asked: Asked) -> Case:
    """bf16 activations, which the kernel itself quantises by 128 numbers of a row; weights by 128 × 128."""
    torch = the_torch()
    a, b, n, k = _operands(asked)
    _, _, back_a = formats.fp8_blocks(a, 1, 128)
    qb, sb, back_b = formats.fp8_blocks(b, 128, 128)
    given = {"input": a, "weight": qb, "weight_scale": sb, "out_dtype": torch.bfloat16}
    moved = 2.0 * asked.m * k + 1.0 * n * k + 2.0 * asked.m * n
    return _case(asked, given, a, b, back_a @ back_b.t(), unit="fp8", moved=moved)


def mxfp8(asked: Asked) -> Case:
    torch = the_torch()
    a, b, n, k = _operands(asked)
    qa, sa, back_a = formats.mxfp8(a)
    qb, sb, back_b = formats.mxfp8(b)
    given = {
        "a": qa,
        "b": qb.t(),
        "a_descale": formats.swizzled(sa).flatten(),
        "b_descale": formats.swizzled(sb).flatten(),
        "out_dtype": torch.bfloat16,
    }
    moved = 1.0 * (asked.m * k + n * k) + 2.0 * asked.m * n
    return _case(asked, given, a, b, back_a @ back_b.t(), unit="fp8", moved=moved)


def nvfp4(asked: Asked) -> Case:
    torch = the_torch()
    a, b, n, k = _operands(asked)
    qa, sa, whole_a, back_a = formats.nvfp4(a)
    qb, sb, whole_b, back_b = formats.nvfp4(b)
    given = {
        "a": qa,
        "b": qb.t(),
        "a_descale": formats.swizzled(sa),
        "b_descale": formats.swizzled(sb).t(),
        "alpha": (1.0 / (whole_a * whole_b)).float(),
        "out_dtype": torch.bfloat16,
        "block_size": 16,
        "use_nvfp4": True,
    }
    moved = 0.5 * (asked.m * k + n * k) + 2.0 * asked.m * n
    return _case(asked, given, a, b, back_a @ back_b.t(), unit="fp8", moved=moved)
