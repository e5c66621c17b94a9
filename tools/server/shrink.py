"""A shrunk model: the real config with few layers, and made-up weights.

It finds what a launch would fail of (a gate, a crash, a substitution) on one GPU in about a minute. Each kind
of layer that the model has stays in it. It says nothing of quality, and is marked for what it is.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memory.canonical import sha256_of
from memory.home import Home
from tools.errors import ToolError
from tools.source.tree import read_head

MARK = "assay_shrunk"
"""The config's key that says so."""
LARGEST = 64 << 20
"""Bytes of a file beside the config that is taken along."""
TOKENIZER = (
    "tokenizer",
    "vocab",
    "merges",
    "special_tokens",
    "added_tokens",
    "chat_template",
    "spiece",
    "tiktoken",
)
COUNTS = ("num_hidden_layers", "n_layer", "num_layers")
PER_LAYER = (
    "layer_types",
    "attn_type_list",
    "mlp_layer_types",
    "layers_block_type",
    "sliding_window_pattern",
)


@dataclass(frozen=True)
class Shrunk:
    folder: Path
    layers: int
    of: int


def shrunk(model: Path, layers: int, home: Home) -> Shrunk:
    """A copy of ``model``'s config with few layers, at least one of each kind, below the home. The tokenizer
    is the model's own. Raises :class:`ToolError` where there is none, or no config."""
    file = model / "config.json"
    try:
        config = json.loads(read_head(file, 4 << 20)) if file.is_file() else None
    except (ValueError, RecursionError):
        config = None
    if not isinstance(config, dict):
        raise ToolError(f"{file} is no model's config; a shrunk copy is made of one that lies in a folder")
    made, count, of = _smaller(config, layers)
    tokenizer = sorted(one for one in model.iterdir() if one.is_file() and one.name.startswith(TOKENIZER))
    if not tokenizer:
        raise ToolError(f"there is no tokenizer in {model}; a server needs one to start")
    folder = home.root / "shrunk" / sha256_of({"config": made, "files": _told(tokenizer)})[:16]
    if not (folder / "config.json").is_file():  # written last
        folder.mkdir(parents=True, exist_ok=True)
        for one in tokenizer:
            if one.stat().st_size <= LARGEST:
                shutil.copyfile(one, folder / one.name)
        for name in ("generation_config.json", "preprocessor_config.json"):
            if (model / name).is_file():
                shutil.copyfile(model / name, folder / name)
        (folder / "config.json").write_text(json.dumps(made, indent=1, sort_keys=True), encoding="utf-8")
    return Shrunk(folder, count, of)


def made_up(model: Path) -> bool:
    """Whether a model's config says that its weights are: what it answers means nothing."""
    try:
        return MARK in json.loads(read_head(model / "config.json", 4 << 20))
    except (OSError, ValueError, RecursionError, TypeError):
        return False


def _told(files: Iterable[Path]) -> list[list[Any]]:
    return [[one.name, one.stat().st_size] for one in files]


def _smaller(config: dict[str, Any], layers: int) -> tuple[dict[str, Any], int, int]:
    part = next((name for name in ("text_config", "llm_config") if isinstance(config.get(name), dict)), None)
    inner = dict(config[part]) if part else dict(config)
    key = next((name for name in COUNTS if isinstance(inner.get(name), int)), None)
    if key is None:
        raise ToolError(f"the config says no number of layers (none of {', '.join(COUNTS)})")
    of = int(inner[key])
    kept = _kept(inner, of, layers)
    inner[key] = len(kept)
    for name in PER_LAYER:
        if isinstance(inner.get(name), list) and len(inner[name]) == of:
            inner[name] = [inner[name][place] for place in kept]
    # Layers before this one are dense: one of them stays, where there are any.
    if isinstance(first := inner.get("first_k_dense_replace"), int) and first > 0:
        inner["first_k_dense_replace"] = min(first, max(1, len(kept) - 1))
    inner[MARK] = f"{len(kept)} of {of} layers, made-up weights; no measure of quality"
    return ({**config, part: inner, MARK: inner[MARK]} if part else inner), len(kept), of


def _kept(config: dict[str, Any], of: int, layers: int) -> list[int]:
    """Numbers of the layers that stay: the first ones, and as many as it takes to have one of each kind."""
    kinds = next((config[name] for name in PER_LAYER if isinstance(config.get(name), list)), None)
    if isinstance(kinds, list) and len(kinds) == of:
        first = {str(kind): place for place, kind in reversed(list(enumerate(kinds)))}
        chosen = sorted(first.values())
        more = (place for place in range(of) if place not in chosen)
        while len(chosen) < min(layers, of):
            chosen.append(next(more))
        return sorted(chosen)
    dense = config.get("first_k_dense_replace")
    interval = config.get("full_attention_interval")
    least = max(
        layers,
        dense + 1 if isinstance(dense, int) and dense < 4 else 1,
        interval if isinstance(interval, int) else 1,
    )
    return list(range(min(least, of)))
