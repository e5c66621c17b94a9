"""The few facts about libraries outside the sources: torch and its device, the standard library, versions.

Everything not listed is opaque: calling it gives an unknown. The facts hold for one scenario.
"""

from __future__ import annotations

import fnmatch
import math
import operator
import posixpath
import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urljoin

from packaging.version import InvalidVersion, Version

from tools.viability.interpreter.asked import whole
from tools.viability.interpreter.calls import bind_arguments, refuse_unexpected
from tools.viability.interpreter.items import elements
from tools.viability.interpreter.machine import Machine
from tools.viability.interpreter.names import module_value
from tools.viability.interpreter.paths import is_there, made_of
from tools.viability.interpreter.records import Frame
from tools.viability.interpreter.truth import CONCRETE, deep
from tools.viability.interpreter.values import (
    CLEAN,
    UNKNOWN,
    Bound,
    ClassValue,
    External,
    FilePath,
    Function,
    Instance,
    Kind,
    Native,
    Open,
    Partial,
    Taint,
    Tainted,
    Tensor,
    Unknown,
    bare,
    of,
    original,
    strip,
    taint,
)
from tools.viability.profile import libraries
from tools.viability.tensors import DTYPE_NAMES, DTYPES, MAKERS, first_dtype, make_tensor

NOT_TENSORS = frozenset(libraries()["torch"]["not_tensors"])


TOOLS = frozenset(libraries()["tools"])


TORCH = frozenset(libraries()["torch"]["parts"])
"""Parts that every build of torch has."""


class DefaultDict(dict[Any, Any]):
    """``collections.defaultdict``."""

    default: Any = None


class Library:
    """Lookups for one scenario. ``constants``: dotted path → value; ``versions``: distribution → version;
    ``environment``: the variables that are set."""

    def __init__(
        self,
        constants: dict[str, Any],
        versions: dict[str, str],
        vendor: frozenset[str],
        environment: Mapping[str, str],
    ) -> None:
        self.environment = environment
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
            return {name: Tainted(value, of(Kind.VARIABLE)) for name, value in self.environment.items()}
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
                return make_tensor(args, kwargs)
            if last == "Parameter" and args:
                return args[0]
            if path.startswith("torch.ops.") and not any(_is_tensor(v) for v in [*args, *kwargs.values()]):
                return Unknown(fact=f"{path}()")  # a question that compiled code answers, no data
            if path.startswith(("torch.nn.functional.", "torch.ops.")) or (
                "." not in leaf and last not in NOT_TENSORS and last.islower()
            ):
                return first_dtype(args)
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


def _is_tensor(value: Any) -> bool:
    v = bare(value)
    return isinstance(v, Tensor) or (isinstance(v, Unknown) and v.runtime)


def _apply(function: Callable[..., Any], args: list[Any]) -> Any:
    values, extra = [], CLEAN
    for arg in args:
        v, t = deep(arg)
        values.append(whole(v))
        extra = extra | t
    if not all(isinstance(value, CONCRETE) for value in values):
        return taint(UNKNOWN, extra)
    try:
        return taint(function(*values), extra)
    except Exception:  # noqa: BLE001 - odd arguments are the interpreted program's affair
        return taint(UNKNOWN, extra)


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


def _dataclass(m: Machine, args: list[Any], kw: dict[str, Any], *_: Any) -> Any:
    """The decorator as a function: with a class, or with words, which gives the decorator."""
    cls = bare(args[0]) if args else None
    if cls is None:
        return Native("dataclass", lambda m_, a, k, *__: _dataclass(m_, a, k))
    if isinstance(cls, ClassValue):
        cls.is_dataclass = True
    return args[0]


def _replace(m: Machine, args: list[Any], kw: dict[str, Any], *_: Any) -> Any:
    v = bare(args[0])
    if not isinstance(v, Instance):
        return UNKNOWN
    return Instance(v.cls, {**v.attrs, **kw}, v.closed)


def _getenv(m: Machine, args: list[Any], kw: dict[str, Any], *_: Any) -> Any:
    name = whole(bare(args[0])) if args else None
    given = m.facts.variable(name) if isinstance(name, str) else None
    if given is None:
        given = args[1] if len(args) > 1 else kw.get("default")
    return taint(given, of(Kind.VARIABLE))


def _version(m: Machine, args: list[Any], kw: dict[str, Any], *_: Any) -> Any:
    text, t = strip(args[0]) if args else (UNKNOWN, CLEAN)
    if isinstance(text, str):
        try:
            return taint(Version(whole(text)), t)
        except InvalidVersion:
            return UNKNOWN
    return taint(Unknown(fact=text.fact) if isinstance(text, Unknown) else UNKNOWN, t)


def _distribution_version(m: Machine, args: list[Any], kw: dict[str, Any], *_: Any) -> Any:
    name = whole(bare(args[0])) if args else None
    found = m.facts.versions.get(name.lower().replace("_", "-")) if isinstance(name, str) else None
    if found and name == m.facts.root:
        return found  # no dependency: the engine itself
    return Tainted(found, of(Kind.DEPENDENCY)) if found else Unknown(fact=f"version of {name}")


def _find_spec(m: Machine, args: list[Any], kw: dict[str, Any], *_: Any) -> Any:
    name = whole(bare(args[0])) if args else None
    if not isinstance(name, str):
        return UNKNOWN
    if m.world.exists(name) is False:
        return Tainted(None, of(Kind.DEPENDENCY))
    return Open(f"spec of {name}") if m.world.certain(name) else Unknown(fact=f"whether {name} is installed")


def _no_plugins(m: Machine, args: list[Any], kw: dict[str, Any], *_: Any) -> Any:
    """The scenario is the engine as released: nobody's plug-ins are installed beside it."""
    return Tainted([], of(Kind.VARIABLE))


def _import_module(
    m: Machine, args: list[Any], kw: dict[str, Any], frame: Any = None, node: Any = None
) -> Any:
    name = whole(bare(args[0])) if args else None
    if not isinstance(name, str) or name.startswith("."):
        return UNKNOWN
    if m.world.exists(name) is False and frame is not None and node is not None:
        guard = of(Kind.DEPENDENCY) | Taint(strip(args[0])[1].kinds)
        site = m.site(frame, node, "raise")
        raise m.refuse(site, ModuleNotFoundError, frame=frame, guard=guard, cause="import", message=name)
    return module_value(m, name)


def _signature(m: Machine, args: list[Any], kw: dict[str, Any], *_: Any) -> Any:
    function = bare(args[0]) if args else None
    while isinstance(function, (Bound, Partial)):
        function = bare(function.function)
    function = original(function)
    if not isinstance(function, Function):
        return UNKNOWN

    def bind(m_: Machine, a: list[Any], k: dict[str, Any], frame: Any = None, node: Any = None) -> Any:
        if frame is not None and node is not None:
            refuse_unexpected(
                m_, function, k, frame, m_.stack[-1] if m_.stack else m_.site(frame, node, "call")
            )
        inner = Frame(function.module, {}, parent=function.closure)
        bind_arguments(m_, function, a, k, inner)
        return Open("bound arguments", {"arguments": dict(inner.locals), "apply_defaults": Native("", _none)})

    spec = function.node.args
    names = [a.arg for a in (*spec.posonlyargs, *spec.args, *spec.kwonlyargs)]
    return Open("signature", {"bind": Native("bind", bind), "parameters": dict.fromkeys(names, UNKNOWN)})


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


def _chain(m: Machine, args: list[Any], kw: dict[str, Any], *_: Any) -> Any:
    every: list[Any] = []
    for arg in args:
        items, t = elements(m, arg)
        if items is None:
            return UNKNOWN
        every += [taint(item, Taint(t.kinds)) for item in items]
    return every


def _matches(m: Machine, args: list[Any], kw: dict[str, Any], *_: Any) -> Any:
    return _apply(fnmatch.fnmatchcase, args)


def _which(m: Machine, args: list[Any], kw: dict[str, Any], *_: Any) -> Any:
    """What is on the path: the tools that building kernels needs are taken to be there."""
    name = whole(bare(args[0])) if args else None
    known = isinstance(name, str) and name.rpartition("/")[2] in TOOLS
    return Tainted(f"/usr/bin/{name}", of(Kind.VARIABLE)) if known else UNKNOWN


def _path(m: Machine, args: list[Any], kw: dict[str, Any], *_: Any) -> Any:
    parts, why = zip(*map(deep, args), strict=True) if args else ((), ())
    made = made_of([whole(part) for part in parts])
    for one in why:
        made = taint(made, one)
    return made


def _is_there(m: Machine, args: list[Any], kw: dict[str, Any], *_: Any) -> Any:
    path = whole(bare(args[0])) if args else None
    return is_there(m, path) if isinstance(path, (str, FilePath)) else UNKNOWN


def _weak(m: Machine, args: list[Any], kw: dict[str, Any], *_: Any) -> Any:
    """What it refers to is alive: whoever asks holds on to it."""
    return Native("weak reference", lambda *_: args[0]) if args else UNKNOWN


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
    "dataclasses.dataclass": _dataclass,
    "pydantic.dataclasses.dataclass": _dataclass,
    "os.getenv": _getenv,
    "os.environ.get": _getenv,
    "packaging.version.parse": _version,
    "packaging.version.Version": _version,
    "importlib.metadata.version": _distribution_version,
    "importlib_metadata.version": _distribution_version,
    "importlib.util.find_spec": _find_spec,
    "importlib.metadata.entry_points": _no_plugins,
    "importlib_metadata.entry_points": _no_plugins,
    "importlib.import_module": _import_module,
    "inspect.signature": _signature,
    "contextvars.ContextVar": _context_variable,
    "collections.defaultdict": _defaultdict,
    "collections.OrderedDict": _ordered,
    "collections.deque": _deque,
    "types.SimpleNamespace": _namespace,
    "types.MappingProxyType": _as_is,
    "itertools.chain": _chain,
    "fnmatch.fnmatch": _matches,
    "fnmatch.fnmatchcase": _matches,
    "shutil.which": _which,
    "urllib.parse.urljoin": lambda m, args, *_: _apply(urljoin, args),
    "pathlib.Path": _path,
    "pathlib.PurePath": _path,
    "pathlib.PosixPath": _path,
    "os.path.exists": _is_there,
    "os.path.isfile": _is_there,
    "os.path.isdir": _is_there,
    "os.path.abspath": lambda m, args, *_: _apply(posixpath.normpath, args),
    "os.path.realpath": lambda m, args, *_: _apply(posixpath.normpath, args),
    "os.path.join": lambda m, args, *_: _apply(posixpath.join, args),
    "os.path.dirname": lambda m, args, *_: _apply(posixpath.dirname, args),
    "os.path.basename": lambda m, args, *_: _apply(posixpath.basename, args),
    "typing.cast": _cast,
    "weakref.ref": _weak,
    "weakref.WeakMethod": _weak,
    "weakref.proxy": _as_is,
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
