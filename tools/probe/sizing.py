"""The sizes of a model's own layers, from its ``config.json``, as one rank holds them."""

from __future__ import annotations

import json
from typing import Any

from tools.errors import ToolError

NAMES: dict[str, tuple[str, ...]] = {
    "hidden": ("hidden_size", "n_embd", "d_model"),
    "inter": ("intermediate_size", "ffn_dim"),
    "moe_inter": ("moe_intermediate_size", "intermediate_size"),
    "experts": ("num_experts", "num_local_experts", "n_routed_experts"),
    "top_k": ("num_experts_per_tok", "top_k_experts", "moe_topk"),
    "heads": ("num_attention_heads", "n_head"),
    "kv_heads": ("num_key_value_heads", "num_attention_heads", "n_head"),
}
"""What configs call a size, the first that is there."""
NESTED = ("text_config", "llm_config", "language_config")


def shapes_of(config: str, tp: int, default: dict[str, Any]) -> dict[str, list[dict[str, int]]]:
    """Kind of sizes → its shapes for the model of this ``config.json`` on one of ``tp`` ranks. A kind of
    which the config says nothing is not among them. ``default``: what else shapes hold.

    Raises :class:`ToolError`."""
    try:
        told = json.loads(config)
    except ValueError as error:
        raise ToolError(f"the model's config is no JSON ({error})") from None
    if not isinstance(told, dict):
        raise ToolError("the model's config is no JSON object; give a config.json")
    for name in NESTED:
        if isinstance(inner := told.get(name), dict):
            told = {**told, **inner}
    has = {size: value for size, names in NAMES.items() if (value := _first(told, names)) is not None}
    if "hidden" not in has:
        raise ToolError("the model's config says no hidden size; give the config.json of a model")
    hidden, heads = has["hidden"], has.get("heads", 0)
    dim = _first(told, ("head_dim",)) or (hidden // heads if heads else 0)
    found: dict[str, list[dict[str, int]]] = {"rows": [{"k": hidden}]}
    gemm = []
    if heads and dim:
        kv = max(1, has["kv_heads"] // tp)
        mine = _share(heads, tp, "attention heads")
        for kind in ("attention", "decode"):
            found[kind] = [{**default[kind], "heads": mine, "kv_heads": kv, "head_dim": dim}]
        gemm += [{"n": (mine + 2 * kv) * dim, "k": hidden}, {"n": hidden, "k": mine * dim}]
    if "inter" in has:
        inter = _share(has["inter"], tp, "an intermediate size")
        gemm += [{"n": 2 * inter, "k": hidden}, {"n": hidden, "k": inter}]
    if gemm:
        found["gemm"] = gemm
    if "experts" in has and "top_k" in has and "moe_inter" in has:
        inter = _share(has["moe_inter"], tp, "an intermediate size")
        found["moe"] = [{"experts": has["experts"], "top_k": has["top_k"], "hidden": hidden, "inter": inter}]
    return found


def _first(told: dict[str, Any], names: tuple[str, ...]) -> int | None:
    values = [told.get(name) for name in names]
    return next((one for one in values if isinstance(one, int) and one is not True and one > 0), None)


def _share(size: int, tp: int, what: str) -> int:
    if size % tp:
        raise ToolError(f"{what} of {size} cannot be divided over {tp} ranks; give another --tp")
    return size // tp
