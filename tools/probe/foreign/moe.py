"""A layer of experts: ``(m, hidden)`` in and out. Sizes: ``experts``, ``top_k``, ``hidden``, ``inter``.

Routing is given, not computed: even by chance, all tokens to one expert first (``hot``), or half of the
experts without any token (``empty``).
"""

from __future__ import annotations

from typing import Any

from . import formats
from .arrays import the_torch
from .case import Asked, Case, accepts, bound


def _routing(asked: Asked) -> tuple[Any, Any, Any]:
    """Chosen experts (int32) and their weights (float32), both (m, top_k), and the logits behind them."""
    torch = the_torch()
    experts, top_k = int(asked.size["experts"]), int(asked.size["top_k"])
    logits = formats.normal(asked.m, experts, seed=asked.seed + 7, device=asked.device).float()
    if asked.routing == "hot":
        logits[:, 0] += 100.0
    elif asked.routing == "empty":
        logits[:, experts // 2 :] -= 100.0
    values, chosen = torch.topk(logits, top_k, dim=-1)
    return chosen.to(torch.int32), torch.softmax(values, dim=-1).float(), logits


def _weights(asked: Asked) -> tuple[Any, Any, Any]:
    experts, hidden, inter = (int(asked.size[key]) for key in ("experts", "hidden", "inter"))
    x = formats.normal(asked.m, hidden, seed=asked.seed, device=asked.device)
    w1 = formats.normal(
        experts, 2 * inter, hidden, seed=asked.seed + 1, device=asked.device, scale=hidden**-0.5
    )
    w2 = formats.normal(experts, hidden, inter, seed=asked.seed + 2, device=asked.device, scale=inter**-0.5)
    return x, w1, w2


def _layer(x: Any, w1: Any, w2: Any, chosen: Any, weights: Any, between: Any) -> Any:
    """In float32. The first half of ``w1`` goes up, the second is the gate; ``between`` rounds as the kernel
    does between the two products."""
    torch = the_torch()
    out = torch.zeros(x.shape[0], w2.shape[1], dtype=torch.float32, device=x.device)
    for expert in range(w1.shape[0]):
        rows, slots = torch.where(chosen == expert)
        if rows.numel():
            up, gate = (x[rows].float() @ w1[expert].float().t()).chunk(2, dim=-1)
            inner = between(torch.nn.functional.silu(gate) * up)
            out.index_add_(0, rows, (inner @ w2[expert].float().t()) * weights[rows, slots, None])
    return out


def _case(
    asked: Asked, given: dict[str, Any], tight: Any, loose: Any, unit: str, size: float, limit: float
) -> Case:
    """``size``: bytes of a weight."""
    torch = the_torch()
    experts, top_k, hidden, inter = (int(asked.size[key]) for key in ("experts", "top_k", "hidden", "inter"))
    arguments = bound(asked.function, {**given, **asked.options()})
    name = next((one for one in ("output", "out") if accepts(asked.function, one)), None)

    def call(out: Any) -> Any:
        found = (
            asked.function(**arguments) if out is None else asked.function(**{**arguments, str(name): out})
        )
        return found[0] if isinstance(found, list | tuple) else found

    moved = size * min(experts, asked.m * top_k) * 3.0 * hidden * inter + 4.0 * asked.m * hidden
    return Case(
        call,
        (asked.m, hidden),
        torch.bfloat16,
        tight,
        loose,
        name is not None,
        limit=limit,
        flops=6.0 * asked.m * top_k * hidden * inter,
        moved=moved,
        unit=unit,
    )


def _common(asked: Asked, chosen: Any, weights: Any, logits: Any) -> dict[str, Any]:
    torch = the_torch()
    experts = int(asked.size["experts"])
    return {
        "token_selected_experts": chosen,
        "token_final_scales": weights,
        "output_dtype": torch.bfloat16,
        "routing_logits": logits.to(torch.bfloat16),
        "routing_bias": None,
        "num_experts": experts,
        "top_k": int(asked.size["top_k"]),
        "n_group": None,
        "topk_group": None,
        "intermediate_size": int(asked.size["inter"]),
        "local_expert_offset": 0,
        "local_num_experts": experts,
        "routed_scaling_factor": None,
        "routing_method_type": 1,
    }


def bf16(asked: Asked) -> Case:
    torch = the_torch()
    x, w1, w2 = _weights(asked)
    chosen, weights, logits = _routing(asked)
    given = {
        **_common(asked, chosen, weights, logits),
        "input": x,
        "hidden_states": x,
        "fc1_expert_weights": w1,
        "fc2_expert_weights": w2,
        "gemm1_weights": w1,
        "gemm2_weights": w2,
        "quant_scales": [],
    }
    tight = _layer(x, w1, w2, chosen, weights, lambda inner: inner.to(torch.bfloat16).float())
    return _case(asked, given, tight, tight, "bf16", 2.0, 1e-2)


def fp8_per_tensor(asked: Asked) -> Case:
    """A scale an expert; what lies between the two products is rounded to fp8 as it is."""
    torch = the_torch()
    x, w1, w2 = _weights(asked)
    chosen, weights, logits = _routing(asked)
    qx, sx, back_x = formats.fp8_tensor(x)
    one, two = [formats.fp8_tensor(w) for w in w1], [formats.fp8_tensor(w) for w in w2]
    s1, s2 = (torch.stack([scale for _, scale, _ in made]).float() for made in (one, two))
    given = {
        **_common(asked, chosen, weights, logits),
        "input": qx,
        "fc1_expert_weights": torch.stack([q for q, _, _ in one]),
        "fc2_expert_weights": torch.stack([q for q, _, _ in two]),
        "quant_scales": [s1 * sx, torch.ones((), device=x.device), s2, sx],
    }
    back1, back2 = (torch.stack([back for _, _, back in made]) for made in (one, two))
    tight = _layer(back_x, back1, back2, chosen, weights, lambda i: i.to(torch.float8_e4m3fn).float())
    loose = _layer(x, w1, w2, chosen, weights, lambda i: i)
    return _case(asked, given, tight, loose, "fp8", 1.0, 3e-2)


def fp8_blocks(asked: Asked) -> Case:
    """Weights by 128 × 128; activations are quantised by the kernel, by 128 numbers of a row."""
    x, w1, w2 = _weights(asked)
    chosen, weights, logits = _routing(asked)
    q1, s1, back1 = formats.fp8_blocks(w1, 128, 128)
    q2, s2, back2 = formats.fp8_blocks(w2, 128, 128)
    given = {
        **_common(asked, chosen, weights, logits),
        "input": x,
        "hidden_states": x,
        "hidden_states_scale": formats.fp8_blocks(x, 1, 128)[1].t().contiguous(),
        "fc1_expert_weights": q1,
        "fc2_expert_weights": q2,
        "gemm1_weights": q1,
        "gemm1_weights_scale": s1,
        "gemm2_weights": q2,
        "gemm2_weights_scale": s2,
        "quant_scales": [s1, s2],
        "use_deepseek_fp8_block_scale": True,
    }
    tight = _layer(
        formats.fp8_blocks(x, 1, 128)[2],
        back1,
        back2,
        chosen,
        weights,
        lambda i: formats.fp8_blocks(i, 1, 128)[2],
    )
    loose = _layer(x, w1, w2, chosen, weights, lambda i: i)
    return _case(asked, given, tight, loose, "fp8", 1.0, 3e-2)


def nvfp4(asked: Asked) -> Case:
    """Weights by 16 numbers and by expert; the kernel quantises what it is given in front of each product."""
    torch = the_torch()
    x, w1, w2 = _weights(asked)
    chosen, weights, logits = _routing(asked)
    one, two = [formats.nvfp4(w) for w in w1], [formats.nvfp4(w) for w in w2]
    unit = torch.ones((), dtype=torch.float32, device=x.device)
    scales = []
    for made in (one, two):
        blocks = torch.stack([formats.swizzled(scale) for _, scale, _, _ in made])
        wholes = torch.stack([whole for _, _, whole, _ in made]).float()
        scales += [unit, blocks.view(torch.int32), 1.0 / wholes]
    given = {
        **_common(asked, chosen, weights, logits),
        "input": x,
        "fc1_expert_weights": torch.stack([packed for packed, _, _, _ in one]).view(torch.long),
        "fc2_expert_weights": torch.stack([packed for packed, _, _, _ in two]).view(torch.long),
        "quant_scales": scales,
    }
    back1, back2 = (torch.stack([back for _, _, _, back in made]) for made in (one, two))
    back_x = formats.nvfp4(x, unit)[3]
    tight = _layer(
        back_x, back1, back2, chosen, weights, lambda i: formats.nvfp4(i.to(torch.bfloat16), unit)[3]
    )
    # Of what was quantised: four bits alone, twice over, take more of the numbers than the loose check lets.
    loose = _layer(back_x, back1, back2, chosen, weights, lambda i: i)
    return _case(asked, given, tight, loose, "fp4", 0.5625, 1e-1)
