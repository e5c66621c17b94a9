"""One scenario as the interpreter asks for it: its options, what lies outside the sources, and the calls that
only a running process answers.
"""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Iterable, Mapping, Set
from functools import cache
from typing import Any

from tools.viability.given import MAJOR, MINOR
from tools.viability.hostcode.named import named_sources
from tools.viability.interpreter.asked import Worked, whole
from tools.viability.interpreter.dispatch import call
from tools.viability.interpreter.imports import is_imported
from tools.viability.interpreter.machine import Machine
from tools.viability.interpreter.modules import Module
from tools.viability.interpreter.names import UnboundError, global_name
from tools.viability.interpreter.records import Crossing, Fetch, Frame
from tools.viability.interpreter.values import (
    CLEAN,
    NOT_NONE,
    RUNTIME,
    Built,
    External,
    Function,
    Instance,
    Kind,
    Site,
    Taint,
    Tainted,
    Tensor,
    Union,
    Unknown,
    bare,
    of,
    strip,
    taint,
)
from tools.viability.settings import DIVIDED, Settings
from tools.viability.sifted import note_sieve
from tools.viability.tensors import tensor_attribute

DRIVER = re.compile(r"nvml[A-Z]")
"""Functions of the driver's management library."""


class Facts(Settings):
    """The answers of one scenario. Nothing that a run leaves in it is another run's."""

    # -- outside the sources ----------------------------------------------------------------------

    @property
    def root(self) -> str:
        return self.profile.root

    @property
    def kernel_packages(self) -> frozenset[str]:
        return frozenset(self.outside) - self.frameworks

    @property
    def versions(self) -> dict[str, str]:
        return self.library.versions

    @property
    def variables(self) -> Set[str]:
        return self._variables

    def variable(self, name: str) -> str | None:
        self._variables.add(name)
        return self.environment.get(name)

    def external(self, path: str) -> Any:
        self.outside.add(path.split(".", 1)[0])
        return self.library.external(path)

    def has_external(self, path: str) -> bool | None:
        return self.library.has_external(path)

    def presence_taint(self, holder: Any, name: str) -> Taint:
        """What the presence of an attribute depends on: of torch's, on whose hardware the build is for."""
        return of(Kind.VENDOR) if isinstance(holder, External) and name in self.library.vendor else CLEAN

    def call_external(
        self, m: Machine, path: str, args: list[Any], kwargs: dict[str, Any], frame: Frame | None, node: Any
    ) -> Any:
        if path in self._calls:
            return self._calls[path]
        place = self.operators.get(path.rpartition(".")[2]) if path.startswith("torch.ops.") else None
        if place is not None and path.count(".") == 3:
            module = self.world.module(place[0])
            if module is not None:
                return call(m, global_name(m, module, place[1]), args, kwargs, frame, node)
        root = path.split(".", 1)[0]
        namespace = path.split(".")[2] if path.startswith("torch.ops.") and path.count(".") > 2 else root
        # What the engine itself fetches is a model or its configuration; a library fetches kernels.
        library = frame is not None and frame.module.name.split(".", 1)[0] != self.profile.root
        if (
            path.startswith(self.fetchers)
            and library
            and frame is not None
            and node is not None
            and m.by_option
        ):
            given = [*args, *frame.locals.values()]
            names = tuple(dict.fromkeys(whole(text) for text in map(bare, given) if isinstance(text, str)))
            doubts = m.doubts_before(frame.module.file)
            site = m.site(frame, node, "call")
            m.fetches.append(Fetch(site, names, doubts, len(m.crossings), tuple(m.stack)))
        if path.rsplit(".", 1)[-1] in self.compute and root == "torch" and m.by_option and frame is not None:
            m.crossings.append(Crossing(path, frame.module.file, m.site(frame, node, "call"), True, True))
        if path in self.compilers and m.by_option and frame is not None:
            name = f"{frame.module.name}.{getattr(frame.function, 'name', path)}"
            m.crossings.append(Crossing(name, frame.module.file, m.site(frame, node, "call"), True, True))
        if path in self.builders:
            return Built(f"{path}()", *self._sources([*args, *kwargs.values()]))
        if path.startswith(self._of_builders) and m.by_option and frame is not None:
            name = f"{frame.module.name}.{path.rpartition('.')[2]}"
            m.crossings.append(Crossing(name, frame.module.file, m.site(frame, node, "call"), True, True))
        fed = any(_is_data(value) for value in [*args, *kwargs.values()])
        works = path.startswith("torch.ops.") or fed
        ours = namespace in self.frameworks or namespace == self.profile.root
        if works and not ours and frame is not None and node is not None:
            # Only what is handed data to work on is a kernel; the rest are questions and set-up.
            by_option = m.by_option or any(
                Kind.OPTION in strip(v)[1].kinds for v in [*args, *kwargs.values()]
            )
            sure = self.world.certain(root) or not m.uncertain
            site = m.site(frame, node, "call")
            caught = any(_catches(handler) for tried, _ in m.handlers for handler in tried.handlers)
            doubts = m.doubts + caught
            m.crossings.append(
                Crossing(path, frame.module.file, site, by_option, False, sure, doubts, fed=fed)
            )
        given = self.library.call(m, path, args, kwargs, frame, node)
        # A kernel that is handed data gives data.
        kernel = works and not ours and type(given) is Unknown and root in self.kernel_packages
        return dataclasses.replace(given, runtime=True) if kernel else given

    def call_built(
        self, m: Machine, f: Built, args: list[Any], kwargs: dict[str, Any], frame: Frame | None, node: Any
    ) -> Any:
        if self.host is not None and f.sources and frame is not None and node is not None:
            name = f.path.rpartition(".")[2]
            function = f.sources, dict(f.exports).get(name, name)
            refusal, asked = self.host.refusal(*function, self.arch)
            if asked:
                self.note(Worked(self.host.refusal_on, (*function, MAJOR, MINOR)), refusal)
            if refusal is not None:
                place = refusal.file, refusal.line
                raise m.refuse(
                    Site(*place, "raise", refusal.end_line),
                    RuntimeError,
                    frame=frame,
                    guard=of(Kind.ARCH).at(Site(*place, "guard", refusal.end_line)),
                    message=refusal.text,
                )
        return self.call_external(m, f.path, args, kwargs, frame, node)

    def named(self, built: Any, names: Mapping[str, Any]) -> Any:
        value, t = strip(built)
        options = value.options if isinstance(value, Union) else (value,)
        found = {bare(one) for one in options if isinstance(bare(one), Built)}
        if len(found) != 1 or any(not isinstance(bare(one), (Built, type(None))) for one in options):
            return built
        module = found.pop()
        if not module.sources:
            files, pairs = self._sources(names.values())
            module = dataclasses.replace(module, sources=files, exports=pairs)
        # Whether it had been built before makes no difference.
        return taint(module, Taint(t.kinds - {Kind.UNKNOWN}, t.sites))

    def _sources(self, values: Iterable[Any]) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
        return named_sources(self.world.tree, values)

    def tensor_attribute(self, value: Tensor, name: str) -> Any:
        return tensor_attribute(value, name)

    def module_method(
        self, m: Machine, instance: Instance, name: str, args: list[Any], kw: dict[str, Any]
    ) -> Any:
        if name in ("register_parameter", "register_buffer", "add_module") and len(args) > 1:
            if isinstance(bare(args[0]), str):
                m.store(instance.attrs, bare(args[0]), args[1])
            return None
        return instance if name in ("to", "eval", "train", "cuda", "half", "float") else RUNTIME

    # -- the sources ------------------------------------------------------------------------------

    def register_all(self, m: Machine, module: Module, table: str | None = None) -> None:
        """Run every definition of the package that a decorator of ``module`` enters into a table."""
        root = module.name.split(".", 1)[0]
        for name, bindings in list(module.bindings.items()):
            functions = [b.statement for b in bindings if isinstance(b.statement, ast.FunctionDef)]
            if not any(table is None or self._enters(function, table, module) for function in functions):
                continue
            for where, definition in self.world.decorated(root, name)[:200]:
                key = (where, definition)
                if key in m.registered or (where == module.name and definition == name):
                    continue
                if where != module.name and not is_imported(m, where):
                    continue
                m.registered.add(key)
                other = self.world.module(where)
                if other is not None:
                    try:
                        global_name(m, other, definition)
                    except UnboundError:
                        continue

    def _enters(self, function: ast.FunctionDef, table: str, module: Module) -> bool:
        """Whether a function makes a decorator that enters something into a table; where a model is named,
        also into a list that the table holds under its class, or by another such function of the module."""
        if enters(function, table) or self.model is None:
            return enters(function, table)
        if collects(function, table):
            return True
        called = {
            part.func.id
            for part in ast.walk(function)
            if isinstance(part, ast.Call)
            and isinstance(part.func, ast.Name)
            and part.func.id != function.name
        }
        others = (binding.statement for name in called for binding in module.bindings.get(name, []))
        return any(isinstance(other, ast.FunctionDef) and collects(other, table) for other in others)

    def intercept(
        self, m: Machine, f: Function, args: list[Any], kwargs: dict[str, Any], frame: Frame | None, node: Any
    ) -> Any:
        """Answers for functions whose result only a running process has."""
        if m.fetches and frame is not None:
            note_sieve(m, [*args, *kwargs.values()], frame)
        if self.watch is not None:
            site = m.site(frame, node, "call") if frame is not None and node is not None else None
            seen = self.watch(m, f, args, kwargs, site)
            if seen is not NotImplemented:
                return seen
        hook = self.hooks.get(f.name)
        if hook is not None:
            return hook(m, f, args, kwargs)
        if f.name in self.told:
            return self.told[f.name]
        if self.tensor_parallel is not None and DIVIDED.search(f.name):
            return Tainted(self.tensor_parallel, of(Kind.PARALLELISM))
        return _alone(f.name)


@cache
def _alone(function: str) -> Any:
    """What a function called so gives on one device, where the name tells it."""
    if DRIVER.match(function):
        return NOT_NONE
    if function.endswith("world_size"):
        return 1
    return 0 if function.endswith("_rank") and not function.startswith("set") else NotImplemented


def enters(function: ast.FunctionDef, table: str) -> bool:
    """Whether a function makes a decorator that enters what it is given into a table."""
    return any(
        isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name) and target.value.id == table
        for inner in function.body
        if isinstance(inner, ast.FunctionDef)
        for part in ast.walk(inner)
        if isinstance(part, ast.Assign)
        for target in part.targets
    )


def collects(function: ast.FunctionDef, table: str) -> bool:
    """Whether a function makes a decorator that appends what it is given to a list that a table holds."""
    for inner in function.body:
        for part in ast.walk(inner) if isinstance(inner, ast.FunctionDef) else ():
            match part:
                case ast.Call(
                    func=ast.Attribute(
                        attr="append",
                        value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="setdefault"))
                        | ast.Subscript(value=ast.Name(id=name)),
                    )
                ) if name == table:
                    return True
    return False


def _catches(handler: ast.ExceptHandler) -> bool:
    """Whether what compiled code raises goes no further than here."""
    named = (
        {part.id for part in ast.walk(handler.type) if isinstance(part, ast.Name)} if handler.type else None
    )
    return named is None or bool(named & {"Exception", "BaseException", "RuntimeError"})


def _is_data(value: Any) -> bool:
    inner = bare(value)
    if isinstance(inner, Union):
        return any(_is_data(one) for one in inner.options)
    return isinstance(inner, Tensor) or (isinstance(inner, Unknown) and inner.runtime)
