"""What the abstract interpreter computes with.

Concrete Python values stand for themselves. What is not known is :class:`Unknown`, what lies
outside the sources read is :class:`External`, and every value may be wrapped in :class:`Tainted`,
which says what it depends on. Taint is what turns a raise into a verdict: only a raise whose guard
looks at the architecture, the option or another fact of the scenario, and at nothing unknown, counts.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cache
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from tools.viability.interpreter.asked import plain_type

if TYPE_CHECKING:
    from tools.viability.interpreter.bindings import Binding
    from tools.viability.interpreter.modules import Module
    from tools.viability.interpreter.records import RaiseRecord


class Kind(StrEnum):
    """A fact of the scenario that a value was computed from."""

    ARCH = "arch"
    OPTION = "option"
    QUANTISATION = "quantisation"
    MODEL = "model"
    CONFIG = "config"
    """A number or a word of the model's own ``config.json``."""
    VENDOR = "vendor"
    PARALLELISM = "parallelism"
    DEPENDENCY = "dependency"
    VARIABLE = "variable"
    """An environment variable, which the scenario leaves unset."""
    SOFT = "soft"
    """A nominal stand-in (a tensor dimension): may choose a path, never a refusal."""
    UNKNOWN = "unknown"


DECISIVE = frozenset(Kind) - {Kind.SOFT, Kind.UNKNOWN}
"""Kinds that can justify a verdict."""


@dataclass(frozen=True, slots=True)
class Site:
    """A place in the source. ``role``: ``list`` (a literal tested against), ``declared`` (a constant that
    a function returns), ``compare``, ``guard``, ``raise``, ``call``."""

    file: str
    line: int
    role: str
    end_line: int = 0


@dataclass(frozen=True, slots=True)
class Taint:
    """What a value depends on, and the few places that made it so (oldest first, at most twelve)."""

    kinds: frozenset[Kind] = frozenset()
    sites: tuple[Site, ...] = ()

    def __or__(self, other: Taint) -> Taint:
        if other is CLEAN or other is self:
            return self
        if self is CLEAN:
            return other
        sites = self.sites
        for site in other.sites:
            if site not in sites:
                sites = (*sites, site)
        if sites is self.sites and other.kinds <= self.kinds:
            return self
        return Taint(self.kinds | other.kinds, sites[-12:])

    def at(self, site: Site) -> Taint:
        return self if site in self.sites else Taint(self.kinds, (*self.sites, site)[-12:])

    @property
    def decisive(self) -> bool:
        return not self.kinds.isdisjoint(DECISIVE)

    @property
    def chosen(self) -> Taint:
        """What depends on a choice that this taints: what a nominal size chose is as good as chosen, and only
        the size itself stays nominal."""
        return taint_of(self.kinds - _SOFTLY if Kind.SOFT in self.kinds else self.kinds)


CLEAN = Taint()
_SOFTLY = frozenset({Kind.SOFT})


@cache
def taint_of(kinds: frozenset[Kind]) -> Taint:
    """The taint of these kinds that no place is known for; always the same object."""
    return Taint(kinds) if kinds else CLEAN


def of(*kinds: Kind) -> Taint:
    return taint_of(frozenset(kinds))


@dataclass(frozen=True, slots=True, eq=False)
class Tainted:
    """A value and what it depends on. Never nested."""

    value: Any
    taint: Taint


def strip(value: Any) -> tuple[Any, Taint]:
    """The bare value and its taint."""
    if type(value) is Tainted:
        return value.value, value.taint
    return value, CLEAN


def bare(value: Any) -> Any:
    return value.value if type(value) is Tainted else value


def taint(value: Any, with_: Taint) -> Any:
    """``value`` depending on ``with_`` as well."""
    if with_ is CLEAN or not (with_.kinds or with_.sites):
        return value
    if type(value) is Tainted:
        return Tainted(value.value, value.taint | with_)
    return Tainted(value, with_)


@dataclass(frozen=True, slots=True, eq=False)
class Unknown:
    """A value that the sources do not tell.

    ``fact`` names it for a person (``cudnn.backend_version()``); ``test`` is ``(fact, op, value)`` where
    the unknown is a comparison of such a fact with a constant. ``runtime`` marks a thing that exists while
    serving (a tensor, a batch, a group): it is never ``None``. ``soft`` marks what depends on the data
    alone: every way that it may choose is taken by some request. ``ordinary`` holds the one value that
    data alone leads to where other values need something else besides.
    """

    fact: str | None = None
    test: tuple[str, str, Any] | None = None
    runtime: bool = False
    soft: bool = False
    ordinary: tuple[Any, ...] = ()


UNKNOWN = Unknown()
NOT_NONE = Unknown(runtime=True)
RUNTIME = Unknown(runtime=True, soft=True)


def usually(value: Any) -> tuple[Any, ...]:
    """The one value that data alone leads to, if there is one."""
    v = bare(value)
    return v.ordinary if isinstance(v, (Unknown, Union)) else ()


def set_apart(taint: Taint) -> Taint:
    """What telling ``None`` from the rest depends on.

    Sizes that stand in for a request's are never ``None``, and an option that nobody set is; but what stands
    in for a model's may be there.
    """
    told = Kind.SOFT in taint.kinds and Kind.MODEL not in taint.kinds
    return replace(taint, kinds=taint.kinds - {Kind.SOFT}) if told else taint


def soften(value: Any) -> Any:
    """An unknown that came about by a choice on the data alone."""
    v, t = strip(value)
    return taint(replace(v, soft=True), t) if isinstance(v, Unknown) else value


@dataclass(frozen=True, slots=True)
class External:
    """Something outside the packages read, by dotted path (``torch.bfloat16``)."""

    path: str

    @property
    def root(self) -> str:
        return self.path.split(".", 1)[0]


@dataclass(frozen=True, slots=True)
class Built(External):
    """A module of kernels that is compiled when it runs, or something in it.

    ``sources`` are the files of the tree that are compiled, ``exports`` pairs of texts that were at hand
    with them: under the first of two Python may know what is called as the second there.
    """

    sources: tuple[str, ...] = ()
    exports: tuple[tuple[str, str], ...] = ()


def is_built(value: Any) -> bool:
    """Whether a value is such a module, or what may be one."""
    v = bare(value)
    return isinstance(v, Built) or (isinstance(v, Union) and any(isinstance(one, Built) for one in v.options))


class FilePath(PurePosixPath):
    """A path of the investigated program."""


@dataclass(slots=True, eq=False)
class Tensor:
    """A tensor: shape entries are nominal ints or unknown; ``dtype`` an :class:`External` or unknown."""

    shape: Any = UNKNOWN
    dtype: Any = UNKNOWN
    attrs: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class Open:
    """An object of the running engine that nobody builds here (a runner, a batch, a model config).

    Any attribute exists; what was stored or is in ``attrs`` answers, else ``supply`` (if it returns
    something other than ``NotImplemented``), else unknown. ``hasattr`` answers from what was stored.
    """

    name: str
    attrs: dict[str, Any] = field(default_factory=dict)
    supply: Callable[[str], Any] | None = None
    cls: ClassValue | None = None
    """Where known, the class whose methods it has."""
    nominal: bool = False
    """It stands in for any model's: what it is said to lack may choose a way, never a refusal."""
    made_by: ClassValue | External | None = None
    """Where known, the class that it is an instance of, in the sources or outside."""


@dataclass(slots=True, eq=False, repr=False)
class Function:
    """A function of the sources, with the scope it was defined in."""

    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
    module: Module
    closure: Any = None
    owner: ClassValue | None = None
    attrs: dict[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"<function {self.module.name}.{self.name}>"

    @property
    def name(self) -> str:
        return getattr(self.node, "name", "<lambda>")


@dataclass(slots=True, eq=False)
class Bound:
    """A method with its receiver."""

    function: Any
    receiver: Any


@dataclass(slots=True, eq=False)
class Partial:
    function: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


@dataclass(slots=True, eq=False)
class Native:
    """A function of the interpreter's own model of a library: ``call(interpreter, args, kwargs)``."""

    name: str
    call: Callable[..., Any]


@dataclass(slots=True, eq=False)
class Descriptor:
    """What a class attribute does when read through an instance: ``property``, ``static`` or ``class``."""

    kind: str
    function: Any


@dataclass(slots=True, eq=False, repr=False)
class ClassValue:
    """A class of the sources. Attributes are evaluated when asked for."""

    name: str
    node: ast.ClassDef
    module: Module
    bases: tuple[Any, ...]
    closure: Any = None
    attrs: dict[str, Any] = field(default_factory=dict)
    members: dict[str, EnumMember] | None = None
    mro_cache: tuple[Any, ...] | None = None
    external_cache: list[str] | None = None
    is_dataclass: bool = False

    def mro(self) -> tuple[Any, ...]:
        """Linearised bases: depth first, later duplicates kept, which is right for the trees met here."""
        if self.mro_cache is None:
            order: list[Any] = [self]
            for base in self.bases:
                chain = base.mro() if isinstance(base, ClassValue) else (base,)
                order = [item for item in order if item not in chain] + list(chain)
            self.mro_cache = tuple(order)
        return self.mro_cache

    def __repr__(self) -> str:
        return f"<class {self.module.name}.{self.name}>"

    @property
    def index(self) -> dict[str, list[Binding]]:
        """Name → the statements of the class body that bind it."""
        return self.module.class_index(self.node)

    @property
    def external_bases(self) -> list[str]:
        if self.external_cache is None:
            self.external_cache = [base.path for base in self.mro() if isinstance(base, External)]
        return self.external_cache

    def is_subclass(self, other: Any) -> bool:
        return any(base is other or (isinstance(base, External) and base == other) for base in self.mro())

    @property
    def has_unknown_base(self) -> bool:
        return any(isinstance(base, Unknown) for base in self.mro())


@dataclass(slots=True, eq=False)
class EnumMember:
    owner: ClassValue
    name: str
    value: Any


@dataclass(slots=True, eq=False)
class Instance:
    """An object of a class of the sources. ``closed`` records have the fields they declare and no others."""

    cls: ClassValue
    attrs: dict[str, Any] = field(default_factory=dict)
    closed: bool = False
    items: Any = None
    """For subclasses of builtin containers and exceptions: the builtin part."""
    tensor: Tensor | None = None
    """For subclasses of the framework's tensors: what it is made of."""


@dataclass(slots=True, eq=False)
class Union:
    """One of a few values; which one is not known. ``ordinary`` as in :class:`Unknown`."""

    options: tuple[Any, ...]
    ordinary: tuple[Any, ...] = ()


@dataclass(slots=True, eq=False)
class Super:
    start: ClassValue
    receiver: Any

    def start_mro(self) -> tuple[Any, ...]:
        """What comes after ``start`` in the receiver's method resolution order."""
        cls = (
            self.receiver
            if isinstance(self.receiver, ClassValue)
            else getattr(self.receiver, "cls", self.start)
        )
        order: tuple[Any, ...] = cls.mro()
        return order[order.index(self.start) + 1 :] if self.start in order else self.start.mro()[1:]


@dataclass(slots=True, eq=False)
class Raised(Exception):  # noqa: N818 - carries an error of the interpreted program, is none of ours
    """An exception of the interpreted program on its way up."""

    exception: Any
    """A Python exception class or instance, an :class:`Instance`, or unknown."""
    record: RaiseRecord | None = None


def _same(a: Any, b: Any) -> bool:
    return a is b or (plain_type(a) is plain_type(b) and isinstance(a, _BY_VALUE) and bool(a == b))


_BY_VALUE = (int, str, float, type(None), External, FilePath)


def merge(first: Any, second: Any) -> Any:
    """What a variable holds after a branch that could go either way."""
    a, ta = strip(first)
    b, tb = strip(second)
    both = ta | tb
    if _same(a, b):
        return taint(a, both)
    if isinstance(a, Unknown) or isinstance(b, Unknown):
        return taint(UNKNOWN, both)
    if type(a) is type(b) is tuple and len(a) == len(b) and _same_answer(a, b):
        return taint(tuple(merge(*pair) for pair in zip(a, b, strict=True)), both)
    options: list[Any] = []
    for side in (a, b):
        for item in side.options if isinstance(side, Union) else (side,):
            if not any(_same(item, have) for have in options):
                options.append(item)
    if len(options) > 4:
        return taint(UNKNOWN, both)
    return taint(Union(tuple(options)), both)


def _same_answer(a: tuple[Any, ...], b: tuple[Any, ...]) -> bool:
    """Whether both are a yes or both a no with what goes with it; joins of other tuples would have no end."""
    return bool(a) and isinstance(bare(a[0]), bool) and bare(a[0]) is bare(b[0])


def whichever(value: Any, depends: Taint) -> Taint:
    """What an answer depends on that ``value`` gave, where it is not known which of several it is and each of
    them gave the same: not on which it is."""
    if isinstance(value, Union) and Kind.UNKNOWN in depends.kinds:
        return Taint(depends.kinds - _UNSURE, depends.sites)
    return depends


_UNSURE = frozenset({Kind.UNKNOWN})


def merge_all(values: list[Any]) -> Any:
    """The join of any number of values; of none, unknown."""
    result = values[0] if values else UNKNOWN
    for other in values[1:]:
        result = merge(result, other)
    return result


def original(function: Any) -> Any:
    """What ``functools.wraps`` says a function stands for."""
    while isinstance(function, Function) and isinstance(function.attrs.get("__wrapped__"), Function):
        function = function.attrs["__wrapped__"]
    return function
