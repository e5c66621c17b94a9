"""Will it fit? Weights, cache and graphs of each GPU, by the model's config: an estimate before a launch.

Weights are counted from files where they are there, else from the layers that the config describes. What a
scheme leaves unquantised is taken for embeddings and norms; real checkpoints leave more.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from memory.vocabulary import Contract
from tools.errors import ToolError
from tools.server.settings import ServerSettings
from tools.source.tree import read_head

GIB = 1 << 30
BYTES = {
    "float32": 4.0,
    "float16": 2.0,
    "bfloat16": 2.0,
    "float8_e4m3fn": 1.0,
    "fp8_e4m3": 1.0,
    "fp8_e5m2": 1.0,
}
BITS = (("nvfp4", 4.5), ("mxfp4", 4.25), ("fp4", 4.5), ("int4", 4.25), ("awq", 4.25), ("gptq", 4.25),
        ("w4a16", 4.25), ("mxfp8", 8.25), ("fp8", 8.1), ("int8", 8.1), ("w8a8", 8.1))  # fmt: skip
"""Bits of a weight with its scales, by a word of the scheme; the first that fits."""
RESERVED = 3 * GIB
"""For graphs, activations and what the libraries keep, on each GPU: a guess that most launches stay under."""
FRACTION = 0.9
"""Of a GPU's memory that engines take for weights and cache, where they are not told."""


LARGEST = 1 << 40
"""What a size in a config may be; a greater one is none."""


class Fit(Contract):
    """Bytes are of one GPU. ``cache_per_token`` of one token; ``tokens`` is how many the rest holds."""

    weights: int
    cache_per_token: int
    reserved: int
    available: int | None
    """None where no GPU is known."""
    tokens: int | None
    context: int | None
    """Tokens that one request may have, where that is known."""
    fits: bool | None
    why: str
    assumed: tuple[str, ...] = ()


def will_it_fit(settings: ServerSettings, gpu_bytes: int | None) -> Fit | None:
    """For the model in a folder; None for one that is only named. ``gpu_bytes``: memory of the smallest GPU
    that it is to run on."""
    folder = Path(settings.model)
    file = folder / "config.json"
    if not file.is_file():
        return None
    if (config := _config(file)) is None:
        raise ToolError(f"{file} is no model's config; expected a JSON object")
    size = _on_disk(folder)
    return estimate(config, settings, gpu_bytes, size if settings.load_format != "dummy" else 0)


def longest(settings: ServerSettings) -> int | None:
    """Tokens of the longest request that may be taken; None where nothing tells. Positions may be scaled."""
    if settings.context_length is not None:
        return settings.context_length
    if any(word in str(value) for value in settings.options.values() for word in ("rope", "position")):
        return None  # what the config says is replaced
    text = _text(_config(Path(settings.model) / "config.json") or {})
    scaling = text.get("rope_scaling") or text.get("rope_parameters")
    factor = scaling.get("factor") if isinstance(scaling, dict) else None
    times = factor if isinstance(factor, int | float) and factor > 1 else 1
    try:
        return int(_number(text, "max_position_embeddings") * times) or None
    except (ToolError, ValueError, OverflowError):
        return None


def _config(file: Path) -> dict[str, Any] | None:
    try:
        config = json.loads(read_head(file, 4 << 20))
    except (OSError, ValueError, RecursionError):
        return None
    return config if isinstance(config, dict) else None


def _on_disk(folder: Path) -> int:
    """Bytes of the weights: what their index tells, since some lie there a second time in another form."""
    try:
        told = json.loads(read_head(folder / "model.safetensors.index.json", 64 << 20))["metadata"][
            "total_size"
        ]
        if isinstance(told, int) and told > 0:
            return told
    except (ValueError, RecursionError, LookupError, TypeError):
        pass
    return sum(one.stat().st_size for one in folder.glob("*.safetensors"))


def estimate(
    config: Mapping[str, Any], settings: ServerSettings, gpu_bytes: int | None, files: int = 0
) -> Fit:
    """The same from a config. ``files``: bytes of the weights, where they are there."""
    text = _text(config)
    assumed: list[str] = []
    ranks = settings.tensor_parallel
    weights = files
    if not files:
        bits = _bits(config, settings, assumed)
        weights = int(sum(_parameters(text, bits, _element(config, settings))))
    per_rank = weights // ranks
    cache = _cache(text, settings, ranks)
    context = settings.context_length or _number(text, "max_position_embeddings") or None
    if gpu_bytes is None:
        return Fit(
            weights=per_rank, cache_per_token=cache, reserved=RESERVED, available=None, tokens=None,
            context=context, fits=None, why="no GPU is known to compare with", assumed=tuple(assumed),
        )  # fmt: skip
    fraction = settings.memory_fraction or FRACTION
    usable = int(min(gpu_bytes * fraction, gpu_bytes - RESERVED))
    tokens = max(0, usable - per_rank) // cache if cache else 0
    fits, why = _said(per_rank, usable, tokens, context)
    return Fit(
        weights=per_rank, cache_per_token=cache, reserved=RESERVED, available=gpu_bytes, tokens=tokens,
        context=context, fits=fits, why=why, assumed=tuple(assumed),
    )  # fmt: skip


def _said(weights: int, usable: int, tokens: int, context: int | None) -> tuple[bool, str]:
    if weights >= usable:
        lack = (weights - usable) / GIB
        return False, f"weights of {weights / GIB:.1f} GiB are {lack:.1f} GiB more than a GPU has room for"
    if context and tokens < context:
        return (
            False,
            f"room for {tokens} tokens, less than one request of {context}: ask for a shorter context",
        )
    return True, f"weights {weights / GIB:.1f} GiB, then room for {tokens} tokens"


def _text(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The part on text of a model of several parts."""
    for name in ("text_config", "llm_config", "language_config"):
        if isinstance(config.get(name), dict):
            return config[name]  # type: ignore[no-any-return]
    return config


def _number(config: Mapping[str, Any], *names: str) -> int:
    for name in names:
        value = config.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= LARGEST:
            return value
    return 0


def _element(config: Mapping[str, Any], settings: ServerSettings) -> float:
    """Bytes of an element that is not quantised."""
    named = settings.dtype or config.get("dtype") or config.get("torch_dtype") or _text(config).get("dtype")
    return BYTES.get(str(named), 2.0)


def _bits(config: Mapping[str, Any], settings: ServerSettings, assumed: list[str]) -> float | None:
    told = config.get("quantization_config") or _text(config).get("quantization_config")
    words = " ".join(
        str(one) for one in (settings.quantisation, json.dumps(told) if told else "") if one
    ).lower()
    bits = next((bits for word, bits in BITS if word in words), None) or _told_bits(told)
    if bits is None and words:
        assumed.append(f"no size is known for the quantisation {words[:60]}; counted unquantised")
    elif bits is not None:
        assumed.append(f"{bits:g} bits for each quantised weight, scales included")
    return bits


def _told_bits(scheme: object) -> float | None:
    """Of a scheme that has no word for it: the least number of bits it tells of its weights, and a scale."""
    if not isinstance(scheme, dict):
        return None
    groups = scheme.get("config_groups")
    told = [scheme.get("bits")]
    for group in groups.values() if isinstance(groups, dict) else ():
        weights = group.get("weights") if isinstance(group, dict) else None
        told += [weights.get("num_bits")] if isinstance(weights, dict) else []
    return min((bits + 0.25 for bits in told if isinstance(bits, int) and 0 < bits <= 16), default=None)


def _parameters(config: Mapping[str, Any], bits: float | None, element: float) -> tuple[float, float]:
    """Bytes of quantised and of other weights."""
    hidden, layers = _number(config, "hidden_size", "n_embd"), _number(config, "num_hidden_layers", "n_layer")
    heads = _number(config, "num_attention_heads", "n_head")
    vocabulary = _number(config, "vocab_size")
    if not (hidden and layers and heads):
        raise ToolError("the config tells neither hidden_size nor num_hidden_layers; nothing can be counted")
    keys, size = _number(config, "num_key_value_heads") or heads, _head(config)
    if rank := _number(config, "kv_lora_rank"):
        rope, value = _number(config, "qk_rope_head_dim"), _number(config, "v_head_dim") or size
        query = _number(config, "q_lora_rank")
        nope = _number(config, "qk_nope_head_dim") or size
        into = hidden * query + query * heads * (nope + rope) if query else hidden * heads * (nope + rope)
        attention = into + hidden * (rank + rope) + rank * heads * (nope + value) + heads * value * hidden
    else:
        attention = hidden * size * (2 * heads + 2 * keys)
    dense = 3 * hidden * (_number(config, "intermediate_size") or 4 * hidden)
    experts = _number(config, "num_experts", "n_routed_experts", "num_local_experts")
    if experts:
        inner = _number(config, "moe_intermediate_size", "intermediate_size")
        shared = _number(config, "n_shared_experts") * inner or _number(
            config, "shared_expert_intermediate_size"
        )
        first = _number(config, "first_k_dense_replace")
        mlp = (layers - first) * 3 * hidden * (experts * inner + shared) + first * dense
        gate = (layers - first) * hidden * experts
    else:
        mlp, gate = layers * dense, 0
    tied = 1 if config.get("tie_word_embeddings") else 2
    plain = tied * vocabulary * hidden + gate + 2 * layers * hidden
    heavy = layers * attention + mlp
    return heavy * (bits / 8 if bits else element), plain * element


def _head(config: Mapping[str, Any]) -> int:
    heads = _number(config, "num_attention_heads", "n_head")
    return _number(config, "head_dim") or (_number(config, "hidden_size", "n_embd") // heads if heads else 0)


def _cache(config: Mapping[str, Any], settings: ServerSettings, ranks: int) -> int:
    """Bytes of one token's keys and values on one rank. Layers without such a cache do not count."""
    layers = _number(config, "num_hidden_layers", "n_layer")
    kinds = config.get("layer_types")
    interval = _number(config, "full_attention_interval")
    if isinstance(kinds, list):
        layers = sum(1 for one in kinds if "linear" not in str(one) and "mamba" not in str(one))
    elif interval:
        layers = layers // interval
    named = str(settings.options.get("kv-cache-dtype", settings.options.get("kv_cache_dtype", "")))
    size = BYTES.get(named, 1.0 if named.startswith("fp8") else 2.0)
    if rank := _number(config, "kv_lora_rank"):
        return int(layers * (rank + _number(config, "qk_rope_head_dim")) * size)
    keys = _number(config, "num_key_value_heads") or _number(config, "num_attention_heads", "n_head")
    return int(layers * 2 * max(1, keys // ranks) * _head(config) * size)
