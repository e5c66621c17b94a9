"""Attention over caches in bf16. Sizes: ``heads``, ``kv_heads``, ``head_dim``, ``page``, ``longest``.

For decoding ``m`` is the number of sequences, of lengths drawn up to ``longest``; for prefill it is the
number of new tokens, of up to four sequences, the first of which has a cache already.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from . import formats
from .arrays import the_torch
from .case import Asked, Case, accepts, bound

WORKSPACE = 256 << 20


@dataclass
class _Paged:
    """A batch with its cache: lengths per sequence, and which pages of the cache are whose, shuffled."""

    news: list[int]
    lengths: list[int]
    q: Any
    k: Any
    """(pages, page, kv_heads, head_dim)"""
    v: Any
    pages: list[list[int]]


def _sizes(asked: Asked) -> tuple[int, int, int, int]:
    heads, kv_heads, dim, page = (int(asked.size[key]) for key in ("heads", "kv_heads", "head_dim", "page"))
    return heads, kv_heads, dim, page


def _batch(asked: Asked, *, decode: bool) -> _Paged:
    heads, kv_heads, dim, page = _sizes(asked)
    drawn = random.Random(asked.seed)  # noqa: S311 - no secret
    longest = int(asked.size["longest"])
    if decode:
        news = [1] * asked.m
        lengths = [drawn.randint(1, longest) for _ in range(asked.m)]
    else:
        parts = min(4, asked.m)
        news = [asked.m // parts + (1 if part < asked.m % parts else 0) for part in range(parts)]
        lengths = [new + (drawn.randint(1, longest) if part == 0 else 0) for part, new in enumerate(news)]
    counts = [-(-length // page) for length in lengths]
    numbers = list(range(sum(counts)))
    drawn.shuffle(numbers)
    pages = [[numbers.pop() for _ in range(count)] for count in counts]
    shape = (sum(counts), page, kv_heads, dim)
    return _Paged(
        news,
        lengths,
        formats.normal(sum(news), heads, dim, seed=asked.seed, device=asked.device),
        formats.normal(*shape, seed=asked.seed + 1, device=asked.device),
        formats.normal(*shape, seed=asked.seed + 2, device=asked.device),
        pages,
    )


def _attend(q: Any, k: Any, v: Any, scale: float, *, causal: bool) -> Any:
    """In float32: q (new, heads, d), k and v (length, kv_heads, d) → (new, heads, d_v)."""
    torch = the_torch()
    groups = q.shape[1] // k.shape[1]
    k, v = (one.float().repeat_interleave(groups, dim=1) for one in (k, v))
    scores = torch.einsum("nhd,lhd->hnl", q.float(), k) * scale
    if causal:
        new, length = scores.shape[1:]
        seen = torch.arange(length, device=q.device)[None, :] <= (
            torch.arange(new, device=q.device)[:, None] + length - new
        )
        scores = scores.masked_fill(~seen, float("-inf"))
    return torch.einsum("hnl,lhd->nhd", torch.softmax(scores, dim=-1), v)


def _reference(batch: _Paged, scale: float) -> Any:
    torch = the_torch()
    found, at = [], 0
    for new, length, pages in zip(batch.news, batch.lengths, batch.pages, strict=True):
        k = batch.k[pages].flatten(0, 1)[:length]
        v = batch.v[pages].flatten(0, 1)[:length]
        found.append(_attend(batch.q[at : at + new], k, v, scale, causal=True))
        at += new
    whole = torch.cat(found)
    return whole.reshape(whole.shape[0] * whole.shape[1], -1)


def _work(batch: _Paged, heads: int, kv_heads: int, dim: int) -> dict[str, Any]:
    seen = sum(new * (length - (new - 1) / 2) for new, length in zip(batch.news, batch.lengths, strict=True))
    tokens = sum(batch.news)
    return {
        "flops": 4.0 * seen * heads * dim,
        "moved": 4.0 * sum(batch.lengths) * kv_heads * dim + 4.0 * tokens * heads * dim,
    }


def _int(values: list[int], device: str) -> Any:
    torch = the_torch()
    return torch.tensor(values, dtype=torch.int32, device=device)


def _starts(counts: list[int], device: str) -> Any:
    found = [0]
    for count in counts:
        found.append(found[-1] + count)
    return _int(found, device)


def _table(batch: _Paged, device: str) -> Any:
    most = max(map(len, batch.pages))
    torch = the_torch()
    rows = [pages + [0] * (most - len(pages)) for pages in batch.pages]
    return torch.tensor(rows, dtype=torch.int32, device=device)


def _tables(batch: _Paged, asked: Asked) -> dict[str, Any]:
    """Every way in which wrappers want to be told of a batch."""
    torch = the_torch()
    heads, kv_heads, dim, page = _sizes(asked)
    starts = _starts(list(map(len, batch.pages)), asked.device)
    indices = _int([number for pages in batch.pages for number in pages], asked.device)
    last = _int([(length - 1) % page + 1 for length in batch.lengths], asked.device)
    return {
        "indptr": starts,
        "indices": indices,
        "last_page_len": last,
        "qo_indptr": _starts(batch.news, asked.device),
        "kv_indptr": _starts(batch.lengths, asked.device),
        "paged_kv_indptr": starts,
        "paged_kv_indices": indices,
        "paged_kv_last_page_len": last,
        "num_qo_heads": heads,
        "num_kv_heads": kv_heads,
        "head_dim": dim,
        "head_dim_qk": dim,
        "head_dim_vo": dim,
        "page_size": page,
        "causal": True,
        "q_data_type": torch.bfloat16,
        "kv_data_type": torch.bfloat16,
        "sm_scale": dim**-0.5,
    }


def _wrapper(asked: Asked) -> Any:
    torch = the_torch()
    workspace = torch.zeros(WORKSPACE, dtype=torch.uint8, device=asked.device)
    given = {
        "float_workspace_buffer": workspace,
        "kv_layout": "NHD",
        # Without them the choice of a backend is not looked at.
        "use_tensor_cores": True,
        **asked.options(),
    }
    return asked.function(**bound(asked.function.__init__, given))


def _planned(asked: Asked, wrapper: Any, given: dict[str, Any], run: dict[str, Any], case: Case) -> Case:
    """Plan the batch and make the case's call the wrapper's ``run``."""
    wrapper.plan(**bound(wrapper.plan, given))
    case.takes_out = accepts(wrapper.run, "out")
    used = getattr(wrapper, "_backend", None)
    case.used = used if isinstance(used, str) else None

    def call(out: Any) -> Any:
        found = wrapper.run(**run) if out is None else wrapper.run(**run, out=out)
        return found[0] if isinstance(found, tuple) else found

    case.call = call
    return case


def _empty(asked: Asked, batch: _Paged, tight: Any) -> Case:
    torch = the_torch()
    heads, kv_heads, dim, _ = _sizes(asked)
    shape = (sum(batch.news), heads, dim)
    return Case(lambda out: out, shape, torch.bfloat16, tight, **_work(batch, heads, kv_heads, dim))


def paged_decode(asked: Asked) -> Case:
    batch = _batch(asked, decode=True)
    case = _empty(asked, batch, _reference(batch, _sizes(asked)[2] ** -0.5))
    given = {**_tables(batch, asked), "seq_lens": _int(batch.lengths, asked.device)}
    run = {"q": batch.q, "paged_kv_cache": (batch.k, batch.v)}
    return _planned(asked, _wrapper(asked), given, run, case)


def paged_prefill(asked: Asked) -> Case:
    batch = _batch(asked, decode=False)
    case = _empty(asked, batch, _reference(batch, _sizes(asked)[2] ** -0.5))
    given = {
        **_tables(batch, asked),
        "block_tables": _table(batch, asked.device),
        "seq_lens": _int(batch.lengths, asked.device),
    }
    run = {"q": batch.q, "paged_kv_cache": (batch.k, batch.v)}
    return _planned(asked, _wrapper(asked), given, run, case)


def ragged_prefill(asked: Asked) -> Case:
    """Keys and values in a row, not in pages."""
    torch = the_torch()
    batch = _batch(asked, decode=False)
    case = _empty(asked, batch, _reference(batch, _sizes(asked)[2] ** -0.5))
    k, v = (
        torch.cat(
            [
                cache[pages].flatten(0, 1)[:length]
                for pages, length in zip(batch.pages, batch.lengths, strict=True)
            ]
        )
        for cache in (batch.k, batch.v)
    )
    run = {"q": batch.q, "k": k, "v": v}
    return _planned(asked, _wrapper(asked), _tables(batch, asked), run, case)


def single_decode(asked: Asked) -> Case:
    """One sequence of ``m`` tokens."""
    torch = the_torch()
    heads, kv_heads, dim, _ = _sizes(asked)
    q = formats.normal(1, heads, dim, seed=asked.seed, device=asked.device)
    k = formats.normal(asked.m, kv_heads, dim, seed=asked.seed + 1, device=asked.device)
    v = formats.normal(asked.m, kv_heads, dim, seed=asked.seed + 2, device=asked.device)
    tight = _attend(q, k, v, dim**-0.5, causal=True).reshape(heads, dim)
    arguments = bound(asked.function, {"q": q[0], "k": k, "v": v, **asked.options()})
    work: dict[str, Any] = {"flops": 4.0 * asked.m * heads * dim, "moved": 4.0 * asked.m * kv_heads * dim}
    return Case(
        lambda _: asked.function(**arguments), (heads, dim), torch.bfloat16, tight, takes_out=False, **work
    )


def single_prefill(asked: Asked) -> Case:
    """One sequence of ``m`` new tokens."""
    torch = the_torch()
    heads, kv_heads, dim, _ = _sizes(asked)
    q = formats.normal(asked.m, heads, dim, seed=asked.seed, device=asked.device)
    k = formats.normal(asked.m, kv_heads, dim, seed=asked.seed + 1, device=asked.device)
    v = formats.normal(asked.m, kv_heads, dim, seed=asked.seed + 2, device=asked.device)
    tight = _attend(q, k, v, dim**-0.5, causal=True).reshape(asked.m * heads, dim)
    arguments = bound(asked.function, {"q": q, "k": k, "v": v, "causal": True, **asked.options()})
    flops, moved = 2.0 * asked.m * (asked.m + 1) * heads * dim, 8.0 * asked.m * heads * dim
    return Case(
        lambda _: asked.function(**arguments),
        (asked.m, heads, dim),
        torch.bfloat16,
        tight,
        takes_out=False,
        flops=flops,
        moved=moved,
    )


def table_decode(asked: Asked) -> Case:
    """Decoding with a table of pages, cache (pages, 2, kv_heads, page, head_dim)."""
    torch = the_torch()
    dim = _sizes(asked)[2]
    batch = _batch(asked, decode=True)
    case = _empty(asked, batch, _reference(batch, dim**-0.5))
    cache = torch.stack([batch.k, batch.v], dim=1).transpose(2, 3).contiguous()
    given = {
        "query": batch.q,
        "kv_cache": cache,
        "workspace_buffer": torch.zeros(WORKSPACE, dtype=torch.uint8, device=asked.device),
        "block_tables": _table(batch, asked.device),
        "seq_lens": _int(batch.lengths, asked.device),
        "max_seq_len": max(batch.lengths),
        "bmm1_scale": dim**-0.5,
        "bmm2_scale": 1.0,
        "kv_layout": "HND",
        **asked.options(),
    }
    arguments = bound(asked.function, given)
    case.takes_out = accepts(asked.function, "out")

    def call(out: Any) -> Any:
        return asked.function(**arguments) if out is None else asked.function(**arguments, out=out)

    case.call = call
    return case


def paged_latent(asked: Asked) -> Case:
    """Decoding with a compressed cache (MLA). Sizes also: ``latent``, ``rope``; ``head_dim`` is not asked."""
    torch = the_torch()
    latent, rope = int(asked.size["latent"]), int(asked.size["rope"])
    shaped = {**asked.size, "head_dim": latent, "kv_heads": 1}
    batch = _batch(
        Asked(asked.function, asked.choice, shaped, asked.m, asked.seed, asked.device), decode=True
    )
    heads, page = int(asked.size["heads"]), int(asked.size["page"])
    scale = (int(asked.size["head_dim"]) + rope) ** -0.5
    kpe = formats.normal(batch.k.shape[0], page, rope, seed=asked.seed + 3, device=asked.device)
    q_pe = formats.normal(asked.m, heads, rope, seed=asked.seed + 4, device=asked.device)
    ckv = batch.k[:, :, 0]
    rows = []
    for number, (length, pages) in enumerate(zip(batch.lengths, batch.pages, strict=True)):
        values = ckv[pages].flatten(0, 1)[:length]
        keys = torch.cat([values, kpe[pages].flatten(0, 1)[:length]], dim=-1)
        q = torch.cat([batch.q[number], q_pe[number]], dim=-1)[None]
        rows.append(_attend(q, keys[:, None], values[:, None], scale, causal=False))
    tight = torch.cat(rows).reshape(asked.m * heads, latent)
    given = {
        **_tables(batch, Asked(asked.function, asked.choice, shaped, asked.m, asked.seed, asked.device)),
        "kv_indptr": _starts(list(map(len, batch.pages)), asked.device),
        "kv_indices": _int([number for pages in batch.pages for number in pages], asked.device),
        "kv_len_arr": _int(batch.lengths, asked.device),
        "num_heads": heads,
        "head_dim_ckv": latent,
        "head_dim_kpe": rope,
        "causal": False,
        "sm_scale": scale,
    }
    run = {"q_nope": batch.q, "q_pe": q_pe, "ckv_cache": ckv, "kpe_cache": kpe}
    seen = float(sum(batch.lengths))
    case = Case(
        lambda out: out,
        (asked.m, heads, latent),
        torch.bfloat16,
        tight,
        flops=2.0 * seen * heads * (2 * latent + rope),
        moved=2.0 * seen * (latent + rope),
    )
    return _planned(asked, _wrapper(asked), given, run, case)
