"""Tensors: what the interpreter knows of their shape, dtype and methods. Sizes are nominal."""

from __future__ import annotations

from typing import Any

from tools.viability.interpreter.asked import whole
from tools.viability.interpreter.machine import Machine
from tools.viability.interpreter.truth import deep
from tools.viability.interpreter.values import (
    RUNTIME,
    UNKNOWN,
    External,
    Kind,
    Native,
    Open,
    Taint,
    Tainted,
    Tensor,
    Unknown,
    bare,
    of,
)
from tools.viability.profile import libraries

DTYPES: dict[str, str] = libraries()["torch"]["aliases"]
DTYPE_NAMES = frozenset(libraries()["torch"]["dtypes"])
FLAGS: dict[str, bool] = libraries()["torch"]["flags"]
MAKERS = frozenset(libraries()["torch"]["makers"])


def first_dtype(args: list[Any]) -> Tensor:
    first = next((bare(arg) for arg in args if isinstance(bare(arg), Tensor)), None)
    return Tensor(dtype=first.dtype if first is not None else UNKNOWN)


def make_tensor(args: list[Any], kwargs: dict[str, Any]) -> Tensor:
    sizes: Any = args
    if len(args) == 1 and isinstance(bare(args[0]), (tuple, list)):
        sizes = bare(args[0])
    if "size" in kwargs:
        sizes = bare(kwargs["size"])
    shape: Any = UNKNOWN
    if isinstance(sizes, (list, tuple)) and sizes:
        known = [deep(size) for size in sizes]
        if all(isinstance(size, (int, Unknown)) for size, _ in known):
            shape = tuple(_dimension(size, why) if isinstance(size, int) else size for size, why in known)
    return Tensor(shape, bare(kwargs.get("dtype", UNKNOWN)))


def _dimension(size: int, why: Taint) -> Any:
    """A size that a model's own config gives stays one; all others are nominal."""
    real = Kind.CONFIG in why.kinds and not why.kinds & {Kind.SOFT, Kind.UNKNOWN}
    return Tainted(size, why if real else of(Kind.SOFT))


def tensor_attribute(v: Tensor, name: str) -> Any:
    if name in v.attrs:
        return v.attrs[name]
    known = v.shape if isinstance(v.shape, tuple) else None
    if name == "shape":
        return known if known is not None else RUNTIME
    if name == "dtype":
        return v.dtype
    if name in ("data", "T", "mT", "values"):
        shape = tuple(reversed(known)) if known and name in ("T", "mT") else v.shape
        return Tensor(shape, v.dtype)
    if name == "device":
        return Open("device", {"type": "cuda", "index": 0})
    if name in FLAGS:
        return FLAGS[name]
    if name == "ndim":
        return Tainted(len(known), of(Kind.SOFT)) if known else RUNTIME

    def method(m: Machine, args: list[Any], kw: dict[str, Any], *_: Any) -> Any:
        if name in ("dim", "ndimension"):
            return Tainted(len(known), of(Kind.SOFT)) if known else RUNTIME
        if name == "size":
            index = whole(bare(args[0])) if args else None
            if known is not None and (
                index is None or (isinstance(index, int) and -len(known) <= index < len(known))
            ):
                return known if index is None else known[index]
            return RUNTIME
        if name in ("to", "view", "type"):
            wanted = next((bare(a) for a in [*args, *kw.values()] if isinstance(bare(a), External)), None)
            if isinstance(wanted, External) and wanted.path.rsplit(".", 1)[-1] in DTYPE_NAMES:
                return Tensor(v.shape, wanted)
            return Tensor(v.shape if name == "to" else UNKNOWN, v.dtype)
        if name in ("contiguous", "cuda", "clone", "detach", "copy_", "fill_", "zero_"):
            return Tensor(v.shape, v.dtype)
        if name in (
            "item",
            "tolist",
            "numel",
            "is_contiguous",
            "stride",
            "element_size",
            "data_ptr",
            "any",
            "all",
        ):
            return RUNTIME
        return Tensor(dtype=bare(kw["dtype"]) if "dtype" in kw else v.dtype)

    return Native(name, method)
