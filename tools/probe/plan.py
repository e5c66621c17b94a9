"""What is to be tried: operations of the libraries that an environment holds, cell by cell.

A cell is one backend of one operation at one shape, with every M of its sweep. Which backends there are is
read in the source of the installed version: the values that the parameter ``backend`` is annotated with, else
those that the function's own documentation lists.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from memory.architecture import Architecture
from memory.canonical import canonical, text_sha256
from memory.names import distribution
from memory.vocabulary import Contract
from tools.environment.model import Environment
from tools.errors import ToolError
from tools.probe.sizing import shapes_of
from tools.source.files import read_bytes
from tools.source.find_symbol import symbols_named
from tools.source.parse import parse_python

_DATA = Path(__file__).with_name("data") / "operations.toml"
CONTROL = "control"
"""The component of cells that try the stand itself, and say nothing of any backend."""
_QUOTED = re.compile(r"[`\"]+([a-z0-9][a-z0-9_-]*)[`\"]+")


class Cell(Contract):
    """``backend``: what a finding calls it; ``choice``: the value that the operation is given for it."""

    id: str
    kind: Literal["kernel", "control", "compile", "dry"]
    component: str
    backend: str
    operation: str = ""
    function: str = ""
    maker: str = ""
    choice: str | None = None
    control: str = ""
    arch: str | None = None
    """What is compiled for; a kernel runs on the GPU that there is."""
    units: int = Field(default=0, ge=0)
    """The last so many units of a module are compiled; 0: all."""
    size: dict[str, int] = Field(default_factory=dict)
    sweep: tuple[int, ...] = ()
    routings: tuple[str, ...] = ()
    repeats: int = 50
    repeat_at: int = 129
    timed: tuple[int, ...] = ()
    seconds: float
    scenario: dict[str, str] = Field(default_factory=dict)
    given: dict[str, Any] = Field(default_factory=dict, exclude_if=lambda value: not value)
    """What an engine's options are made with, or a generator is called with."""


class Plan(Contract):
    """``scripts``: the sha256 of each file that runs there; ``libraries``: versions that are tried."""

    format: Literal[1] = 1
    environment: str
    fingerprint: str
    libraries: dict[str, str]
    limits: dict[str, Any]
    cells: tuple[Cell, ...]
    scripts: dict[str, str]

    def text(self) -> str:
        return canonical(self.model_dump(mode="json"))

    @property
    def sha256(self) -> str:
        return text_sha256(self.text())


@cache
def operations() -> dict[str, Any]:
    return tomllib.loads(_DATA.read_text(encoding="utf-8"))


def cells_of(
    environment: Environment,
    components: Sequence[str] = (),
    backends: Sequence[str] = (),
    *,
    controls: bool = False,
    config: str | None = None,
    tp: int = 1,
) -> tuple[Cell, ...]:
    """The cells for ``components`` (all where none is named) and ``backends`` (of the operation, or as
    ``OPERATION:BACKEND``), at the sizes of the model of a ``config.json`` on one of ``tp`` ranks, where it is
    given. Raises :class:`ToolError` where there is nothing that could be tried."""
    data = operations()
    held = {distribution(name) for name in environment.packages}
    known = {one["component"] for one in data["operation"].values()}
    if unknown := [name for name in components if name not in known]:
        raise ToolError(f"no probe for {unknown[0]!r}; there are probes for: {', '.join(sorted(known))}")
    shapes = {kind: sizes["shapes"] for kind, sizes in data["sizes"].items()}
    if config is not None:
        shapes |= shapes_of(config, tp, {kind: some[0] for kind, some in shapes.items()})
    found = [
        cell
        for name, operation in data["operation"].items()
        if operation["distribution"] in held and (not components or operation["component"] in components)
        for cell in _cells(environment, name, operation, data, shapes[operation["sizes"]])
    ]
    if not found:
        wanted = sorted({one["distribution"] for one in data["operation"].values()})
        raise ToolError(
            f"environment {environment.name} holds none of {', '.join(wanted)}: there is nothing to probe",
            missing=True,
        )
    there = list(dict.fromkeys(cell.backend for cell in found))
    if backends:
        found = [cell for cell in found if _meant(cell, backends)]
        if not found:
            raise ToolError(f"no backend {', '.join(backends)} to probe; there are: {', '.join(there)}")
    return (*(_controls(data) if controls else ()), *found)


def _meant(cell: Cell, backends: Sequence[str]) -> bool:
    return bool({cell.backend, cell.operation, cell.choice} & set(backends))


def _cells(
    environment: Environment,
    name: str,
    operation: dict[str, Any],
    data: Any,
    shapes: Sequence[dict[str, int]],
) -> Iterator[Cell]:
    sizes = data["sizes"][operation["sizes"]]
    step = operation.get("rows", 1)
    choices = backends_of(environment, operation["function"])
    if choices is None:
        return
    for choice in choices or (None,):
        for number, shape in enumerate(shapes):
            backend = name if choice is None else f"{name}:{choice}"
            yield Cell(
                id=backend + (f"@{number}" if number else ""),
                kind="kernel",
                component=operation["component"],
                backend=backend,
                operation=name,
                function=operation["function"],
                maker=operation["maker"],
                choice=choice,
                size=shape,
                sweep=_rounded(sizes["sweep"], step),
                routings=tuple(sizes.get("routings", ())),
                repeats=data["limits"]["repeats"],
                repeat_at=_rounded([sizes["repeat_at"]], step)[0],
                timed=_rounded(sizes["timed"], step),
                seconds=operation.get("seconds", data["limits"]["seconds"]),
                scenario={key: str(value) for key, value in operation.get("scenario", {}).items()},
            )


def modules_of(
    environment: Environment,
    arch: Architecture,
    components: Sequence[str],
    backends: Sequence[str],
    units: int,
) -> tuple[Cell, ...]:
    """A cell for each module that a backend would have compiled on ``arch``. Raises :class:`ToolError`."""
    data = operations()
    held = {distribution(name) for name in environment.packages}
    found = [
        Cell(
            id=f"{name} on {arch.name}",
            kind="compile",
            component=operation["component"],
            backend=name,
            operation=one["operation"],
            function=one["generator"],
            choice=one.get("backend"),
            arch=arch.name,
            units=units,
            seconds=data["limits"]["compile_seconds"],
            given=one.get("arguments", {}),
        )
        for one in data["module"]
        for operation in [data["operation"][one["operation"]]]
        for name in [":".join(filter(None, (one["operation"], one.get("backend"))))]
        if operation["distribution"] in held
        and arch.name in one.get("archs", [arch.name])
        and (not components or operation["component"] in components)
    ]
    found += [one for one in _kernels(environment, arch) if not components or one.component in components]
    wanted = [cell for cell in found if not backends or _meant(cell, backends)]
    if not wanted:
        there = ", ".join(cell.backend for cell in found) or "none"
        raise ToolError(f"no module to compile for {arch.name} there; modules are known for: {there}")
    return tuple(wanted)


def _kernels(environment: Environment, arch: Architecture) -> Iterator[Cell]:
    """Kernels that are compiled without a module around them, each where the installed version has it."""
    data = operations()
    for one in data["kernel"]:
        if one["distribution"] not in map(distribution, environment.packages):
            continue
        tree = environment.tree()
        for symbol in symbols_named(tree, one["name"], one["distribution"], include=f"**/{one['file']}"):
            if symbol.name == one["name"]:
                yield Cell(
                    id=f"{one['name']} on {arch.name}",
                    kind="compile",
                    component=one["component"],
                    backend=one["name"],
                    function=f"{symbol.file.removesuffix('.py').replace('/', '.')}:{one['name']}",
                    maker=one["maker"],
                    choice=one["maker"],
                    arch=arch.name,
                    seconds=data["limits"]["compile_seconds"],
                    given=one["arguments"],
                )


def _rounded(values: Sequence[int], step: int) -> tuple[int, ...]:
    return tuple(dict.fromkeys(-(-value // step) * step for value in values))


def _controls(data: Any) -> Iterator[Cell]:
    for name, settings in data["control"].items():
        yield Cell(
            id=f"{CONTROL}:{name}",
            kind="control",
            component=CONTROL,
            backend=name,
            control=name,
            sweep=(1, 7, 64, 1000),
            seconds=settings["seconds"],
        )


def backends_of(environment: Environment, function: str) -> tuple[str, ...] | None:
    """The values of the parameter ``backend`` of ``package.module:name`` in the installed version, none where
    it has no such parameter; None where there is no such function."""
    module, _, name = function.partition(":")
    tree = environment.tree()
    for symbol in symbols_named(tree, name, module.partition(".")[0]):
        if symbol.kind not in ("function", "class") or not symbol.parsed or symbol.name != name:
            continue
        for node in parse_python(read_bytes(tree, symbol.file)).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name and not _overload(node):
                return _values(node)
    return None


def _overload(node: ast.FunctionDef | ast.ClassDef) -> bool:
    return any("overload" in ast.unparse(one) for one in node.decorator_list)


def _values(node: ast.FunctionDef | ast.ClassDef) -> tuple[str, ...]:
    function = _constructor(node) if isinstance(node, ast.ClassDef) else node
    if function is None:
        return ()
    arguments = function.args
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    backend = next((one for one in named if one.arg == "backend"), None)
    if backend is None:
        return ()
    literal = [
        one.value
        for one in ast.walk(backend.annotation or ast.Constant(None))
        if isinstance(one, ast.Constant) and isinstance(one.value, str)
    ]
    return tuple(literal) or _documented(ast.get_docstring(function) or ast.get_docstring(node) or "")


def _constructor(node: ast.ClassDef) -> ast.FunctionDef | None:
    made = (one for one in node.body if isinstance(one, ast.FunctionDef) and one.name == "__init__")
    return next(made, None)


def _documented(text: str) -> tuple[str, ...]:
    """``backend : str`` and, in its first sentence, names in quotes."""
    match = re.search(r"^\s*backend\s*:.*\n((?:\s+\S.*\n?)+)", text, re.M)
    sentence = re.split(r"\.\s", " ".join(match[1].split()) + " ")[0] if match else ""
    return tuple(dict.fromkeys(_QUOTED.findall(sentence)))
