"""The few facts about libraries outside the sources: torch and its device, the standard library, versions.

Everything not listed is opaque: calling it gives an unknown. The facts hold for one scenario.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable
from typing import Any

from packaging.version import InvalidVersion, Version

from tools.viability.evaluate import CONCRETE, deep
from tools.viability.machine import Frame, Machine
from tools.viability.values import (
    CLEAN,
    RUNTIME,
    UNKNOWN,
    Bound,
    ClassValue,
    External,
    Function,
    Instance,
    Kind,
    Native,
    Open,
    Partial,
    Tainted,
    Tensor,
    Union,
    Unknown,
    bare,
    of,
    strip,
    taint,
)

DTYPES = {
    "half": "float16",
    "float": "float32",
    "double": "float64",
    "int": "int32",
    "long": "int64",
    "short": "int16",
}
DTYPE_NAMES = frozenset(
    "float16 bfloat16 float32 float64 uint8 uint16 uint32 int8 int16 int32 int64 bool float8_e4m3fn float8_e5m2 "
    "float8_e4m3fnuz float8_e5m2fnuz float8_e8m0fnu float4_e2m1fn_x2 complex64".split()
)
SAME_TENSOR = frozenset(
    "contiguous cuda cpu clone detach copy_ to view reshape permute transpose t squeeze unsqueeze expand repeat flatten "
    "max min float half bfloat16 sum mean abs new_empty new_zeros narrow fill_ zero_ mul_ add_ T data mT".split()
)
MAKERS = frozenset(
    "empty zeros ones full randn rand arange tensor empty_like zeros_like ones_like full_like randint eye "
    "as_tensor from_numpy empty_strided".split()
)
NOT_TENSORS = frozenset(
    "allclose equal is_tensor finfo iinfo device Size Generator is_grad_enabled dtype all any".split()
)


TORCH = frozenset(
    "cuda nn ops distributed compile compiler library version backends _dynamo Tensor utils".split()
)
"""Parts that every build of torch has."""


class DefaultDict(dict[Any, Any]):
    """``collections.defaultdict``."""

    default: Any = None


class Library:
    """Lookups for one scenario. ``constants`` map dotted paths to values, ``versions`` distributions to versions."""

    def __init__(self, constants: dict[str, Any], versions: dict[str, str], vendor: frozenset[str]) -> None:
        self.constants = constants
        self.versions = versions
        self.vendor = vendor
        """Attributes of torch that exist only in other vendors' builds."""

    def external(self, path: str) -> Any:
        if path in self.constants:
            return self.constants[path]
        parts = path.split(".")
        if parts[0] == "torch" and len(parts) == 2 and parts[1] in DTYPES:
            return External(f"torch.{DTYPES[parts[1]]}")
        if parts[0] == "os" and path == "os.environ":
            return {}
        if parts[0] == "torch" and len(parts) > 2 and parts[1] == "nn" and parts[2] == "parameter":
            return External(".".join(["torch.nn", *parts[3:]]))
        return External(path)

    def has_external(self, path: str) -> bool | None:
        if path in self.constants:
            return self.constants[path] is not None
        parts = path.split(".")
        if parts[0] == "torch":
            if parts[1] in self.vendor:
                return False
            if parts[1] in TORCH or (len(parts) == 2 and (parts[1] in DTYPE_NAMES or parts[1] in DTYPES)):
                return True
        return None

    def call(
        self, m: Machine, path: str, args: list[Any], kwargs: dict[str, Any], frame: Any, node: Any
    ) -> Any:
        handler = CALLS.get(path)
        if handler is not None:
            return handler(m, args, kwargs, frame, node)
        root, _, leaf = path.partition(".")
        last = path.rsplit(".", 1)[-1]
        if root == "torch":
            if any(f".{name}." in f".{path}." for name in self.vendor) and last in (
                "is_available",
                "device_count",
            ):
                return Tainted(False, of(Kind.VENDOR))
            if leaf in MAKERS:
                return _make(args, kwargs)
            if last == "Parameter" and args:
                return args[0]
            if path.startswith(("torch.nn.functional.", "torch.ops.")) or (
                "." not in leaf and last not in NOT_TENSORS and last.islower()
            ):
                return _first_dtype(args)
            return Unknown(fact=f"{path}()", runtime=True)
        if root == "math" and hasattr(math, leaf):
            return _apply(getattr(math, leaf), args)
        if root == "operator" and hasattr(operator, leaf):
            return _apply(getattr(operator, leaf), args)
        if root in ("re", "regex") and leaf in (
            "compile",
            "match",
            "search",
            "fullmatch",
            "sub",
            "findall",
            "split",
        ):
            return _apply(getattr(re, leaf), args)
        return Unknown(fact=f"{path}()")


def _apply(function: Callable[..., Any], args: list[Any]) -> Any:
    values, extra = [], CLEAN
    for arg in args:
        v, t = deep(arg)
        values.append(v)
        extra = extra | t
    if not all(isinstance(value, CONCRETE) for value in values):
        return taint(UNKNOWN, extra)
    try:
        return taint(function(*values), extra)
    except Exception:  # noqa: BLE001 - odd arguments are the interpreted program's affair
        return taint(UNKNOWN, extra)


def _first_dtype(args: list[Any]) -> Tensor:
    first = next((bare(arg) for arg in args if isinstance(bare(arg), Tensor)), None)
    return Tensor(dtype=first.dtype if first is not None else UNKNOWN)


def _make(args: list[Any], kwargs: dict[str, Any]) -> Tensor:
    sizes: Any = [deep(arg)[0] for arg in args]
    if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)):
        sizes = list(sizes[0])
    if "size" in kwargs:
        sizes = deep(kwargs["size"])[0]
    shape: Any = UNKNOWN
    if isinstance(sizes, (list, tuple)) and sizes and all(isinstance(s, (int, Unknown)) for s in sizes):
        shape = tuple(Tainted(s, of(Kind.SOFT)) if isinstance(s, int) else s for s in sizes)
    return Tensor(shape, bare(kwargs.get("dtype", UNKNOWN)))


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
    if name == "is_cuda":
        return True
    if name == "ndim":
        return Tainted(len(known), of(Kind.SOFT)) if known else RUNTIME

    def method(m: Machine, args: list[Any], kw: dict[str, Any], *_: Any) -> Any:
        if name in ("dim", "ndimension"):
            return Tainted(len(known), of(Kind.SOFT)) if known else RUNTIME
        if name == "size":
            index = bare(args[0]) if args else None
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


# -- calls with a meaning ---------------------------------------------------------------------------


def _identity(m: Machine, args: list[Any], kw: dict[str, Any], *_: Any) -> Any:
    return args[0] if args else Native("identity", lambda m_, a, k, *__: a[0] if a else UNKNOWN)


def _cached(m: Machine, args: list[Any], kw: dict[str, Any], *_: Any) -> Any:
    if args and isinstance(bare(args[0]), (Function, Bound, Partial, Native)):
        return args[0]
    return Native("lru_cache", lambda m_, a, k, *__: a[0])


def _wraps(m: Machine, args: list[Any], kw: dict[str, Any], *_: Any) -> Any:
    wrapped = bare(args[0]) if args else None

    def apply(m_: Machine, a: list[Any], k: dict[str, Any], *__: Any) -> Any:
        inner = bare(a[0])
        if isinstance(inner, Function) and isinstance(wrapped, Function):
            inner.attrs.update({key: value for key, value in wrapped.attrs.items() if key not in inner.attrs})
            inner.attrs["__wrapped__"] = wrapped
        return a[0]

    return Native("wraps", apply)


def _partial(m: Machine, args: list[Any], kw: dict[str, Any], *_: Any) -> Any:
    return Partial(args[0], tuple(args[1:]), dict(kw))


def _field(m: Machine, args: list[Any], kw: dict[str, Any], *_: Any) -> Any:
    if "default_factory" in kw:
        return {"<factory>": kw["default_factory"]}
    return {"<default>": kw.get("default", args[0] if args else UNKNOWN)}


def _replace(m: Machine, args: list[Any], kw: dict[str, Any], *_: Any) -> Any:
    v = bare(args[0])
    if not isinstance(v, Instance):
        return UNKNOWN
    return Instance(v.cls, {**v.attrs, **kw}, v.closed)


def _getenv(m: Machine, args: list[Any], kw: dict[str, Any], *_: Any) -> Any:
    return taint(args[1] if len(args) > 1 else kw.get("default"), of(Kind.VARIABLE))


def _version(m: Machine, args: list[Any], kw: dict[str, Any], *_: Any) -> Any:
    text, t = strip(args[0]) if args else (UNKNOWN, CLEAN)
    if isinstance(text, str):
        try:
            return taint(Version(text), t)
        except InvalidVersion:
            return UNKNOWN
    return taint(Unknown(fact=text.fact) if isinstance(text, Unknown) else UNKNOWN, t)


def _distribution_version(m: Machine, args: list[Any], kw: dict[str, Any], *_: Any) -> Any:
    name = bare(args[0]) if args else None
    found = m.facts.library.versions.get(name.lower().replace("_", "-")) if isinstance(name, str) else None
    return Tainted(found, of(Kind.DEPENDENCY)) if found else Unknown(fact=f"version of {name}")


def _find_spec(m: Machine, args: list[Any], kw: dict[str, Any], *_: Any) -> Any:
    name = bare(args[0]) if args else None
    if not isinstance(name, str):
        return UNKNOWN
    return Tainted(None, of(Kind.DEPENDENCY)) if m.world.exists(name) is False else Open(f"spec of {name}")


def _import_module(m: Machine, args: list[Any], kw: dict[str, Any], *_: Any) -> Any:
    from tools.viability.execute import module_value

    name = bare(args[0]) if args else None
    return module_value(m, name) if isinstance(name, str) and not name.startswith(".") else UNKNOWN


def _signature(m: Machine, args: list[Any], kw: dict[str, Any], *_: Any) -> Any:
    function = bare(args[0]) if args else None
    while isinstance(function, (Bound, Partial)):
        function = bare(function.function)
    function = original(function)
    if not isinstance(function, Function):
        return UNKNOWN

    def bind(m_: Machine, a: list[Any], k: dict[str, Any], *__: Any) -> Any:
        from tools.viability.calls import bind_arguments

        inner = Frame(function.module, {}, parent=function.closure)
        bind_arguments(m_, function, a, k, inner)
        return Open("bound arguments", {"arguments": dict(inner.locals), "apply_defaults": Native("", _none)})

    spec = function.node.args
    names = [a.arg for a in (*spec.posonlyargs, *spec.args, *spec.kwonlyargs)]
    return Open("signature", {"bind": Native("bind", bind), "parameters": {name: UNKNOWN for name in names}})


def original(function: Any) -> Any:
    """What ``functools.wraps`` says a function stands for."""
    while isinstance(function, Function) and isinstance(function.attrs.get("__wrapped__"), Function):
        function = function.attrs["__wrapped__"]
    return function


def _context_variable(m: Machine, args: list[Any], kw: dict[str, Any], *_: Any) -> Any:
    holder = {"value": kw.get("default", UNKNOWN)}

    def put(m_: Machine, a: list[Any], k: dict[str, Any], *__: Any) -> Any:
        m_.store(holder, "value", a[0])
        return UNKNOWN

    return Open(
        "context variable",
        {
            "get": Native("get", lambda *_: holder["value"]),
            "set": Native("set", put),
            "reset": Native("reset", _none),
        },
    )


def _none(m: Machine, args: list[Any], kw: dict[str, Any], *_: Any) -> Any:
    return None


def _defaultdict(m: Machine, args: list[Any], kw: dict[str, Any], *_: Any) -> Any:
    made = DefaultDict()
    made.default = args[0] if args and bare(args[0]) is not None else None
    return made


def _namespace(m: Machine, args: list[Any], kw: dict[str, Any], *_: Any) -> Any:
    return Open("namespace", dict(kw))


def _cast(m: Machine, args: list[Any], kw: dict[str, Any], *_: Any) -> Any:
    return args[1] if len(args) > 1 else UNKNOWN


def _ordered(m: Machine, args: list[Any], kw: dict[str, Any], *_: Any) -> Any:
    first = bare(args[0]) if args else None
    return dict(first) if isinstance(first, dict) else (UNKNOWN if args else dict(kw))


def _deque(m: Machine, args: list[Any], kw: dict[str, Any], *_: Any) -> Any:
    return [] if not args else UNKNOWN


def _as_is(m: Machine, args: list[Any], kw: dict[str, Any], *_: Any) -> Any:
    return args[0] if args else UNKNOWN


CALLS: dict[str, Callable[..., Any]] = {
    "functools.lru_cache": _cached,
    "functools.cache": _cached,
    "functools.wraps": _wraps,
    "functools.partial": _partial,
    "functools.singledispatch": _identity,
    "dataclasses.field": _field,
    "msgspec.field": _field,
    "pydantic.Field": _field,
    "dataclasses.replace": _replace,
    "os.getenv": _getenv,
    "os.environ.get": _getenv,
    "packaging.version.parse": _version,
    "packaging.version.Version": _version,
    "importlib.metadata.version": _distribution_version,
    "importlib_metadata.version": _distribution_version,
    "importlib.util.find_spec": _find_spec,
    "importlib.import_module": _import_module,
    "inspect.signature": _signature,
    "contextvars.ContextVar": _context_variable,
    "collections.defaultdict": _defaultdict,
    "collections.OrderedDict": _ordered,
    "collections.deque": _deque,
    "types.SimpleNamespace": _namespace,
    "types.MappingProxyType": _as_is,
    "typing.cast": _cast,
    "copy.copy": _as_is,
    "copy.deepcopy": _as_is,
    "abc.abstractmethod": _identity,
    "torch.compile": _identity,
    "torch.no_grad": _identity,
    "torch.inference_mode": _identity,
    "torch.jit.script": _identity,
    "torch.compiler.disable": _identity,
    "torch._dynamo.disable": _identity,
}
_ = ClassValue, Union
