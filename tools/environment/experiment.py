"""What is asked of each release in a search: a typed test, written in one line.

``static COMPONENT BACKEND ARCH [KEY=VALUE…]``: the verdict of the source; ``option FLAG [VALUE]``: whether
the engine has it, and its default. Keys are ``quantisation``, ``engine``, or facts of the scenario. Where a
person asks also ``import MODULE`` and ``probe COMPONENT BACKEND [gpu=N]``, which run (:mod:`.trial`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from memory.architecture import ArchitectureError, parse_architecture
from memory.vocabulary import Evidence, Row
from tools.engines.options import Option, discover_options
from tools.environment.model import Environment
from tools.environment.pins import profiles
from tools.errors import ToolError
from tools.viability.profile import covering
from tools.viability.trace import Trace, TraceInput, trace_many

EXPECTED = "expected static COMPONENT BACKEND ARCH [KEY=VALUE…], or option FLAG [VALUE]"
RUNNING = ", or import MODULE, or probe COMPONENT BACKEND [gpu=N]"
ABSENT = "not declared"


@dataclass(frozen=True)
class Outcome:
    """``says``: what is compared; ``trace``: of a static test; ``line``: where an option is declared."""

    says: str
    trace: Trace | None = None
    line: Evidence | None = None


class Test(Protocol):
    def run(self, context: Any, environment: Environment) -> Outcome:
        """Raises :class:`ToolError` where the environment has nothing that it could be asked of."""


@dataclass(frozen=True)
class Static:
    component: str
    backend: str
    arch: str
    engine: str | None = None
    quantisation: str | None = None
    scenario: dict[str, str] = field(default_factory=dict)

    def run(self, context: Any, environment: Environment) -> Outcome:
        engine = self.engine or engine_of(environment)
        options = _of_component(discover_options(environment.tree(), engine), self.component)
        if self.backend not in {value.value for option in options for value in option.values}:
            return Outcome(ABSENT)
        asked = TraceInput(
            environment=environment.name,
            component=self.component,
            backend=self.backend,
            arch=self.arch,
            engine=engine,
            quantisation=self.quantisation,
            scenario=self.scenario,
        )
        (trace,) = trace_many(context, [asked])
        instead = f", {trace.row.runs_instead} instead" if trace.row.runs_instead else ""
        return Outcome(f"{trace.row.verdict}{instead}", trace=trace)


@dataclass(frozen=True)
class HasOption:
    flag: str
    value: str | None = None
    engine: str | None = None

    def run(self, context: Any, environment: Environment) -> Outcome:
        engine = self.engine or engine_of(environment)
        for option in discover_options(environment.tree(), engine):
            if self.flag not in (option.flag, option.field):
                continue
            if self.value is None:
                return Outcome(f"declared, default {option.default}", line=option.evidence)
            for value in option.values:
                if value.value == self.value:
                    return Outcome(f"accepts {self.value}", line=value.evidence)
            return Outcome(f"does not accept {self.value}", line=option.evidence)
        return Outcome(ABSENT)


def changed_verdicts(
    context: Any,
    sides: tuple[Environment, Environment],
    engine: str,
    component: str,
    arch: str,
    quantisation: str | None,
) -> list[tuple[str, Row | None, Row | None]]:
    """Backends of a component whose verdict, or what runs instead, differs: ``(backend, before, after)``.

    Raises :class:`ToolError` for a component that neither side has.
    """
    rows: list[dict[str, Row]] = []
    for environment in sides:
        options = _of_component(discover_options(environment.tree(), engine), component)
        values = dict.fromkeys(value.value for option in options for value in option.values)
        where = environment.path if environment.kind == "adopted" else environment.name
        cells = [
            TraceInput(
                environment=where,
                component=component,
                backend=value,
                arch=arch,
                engine=engine,
                quantisation=quantisation,
            )
            for value in values
        ]
        rows.append({trace.row.backend: trace.row for trace in trace_many(context, cells)})
    if not any(rows):
        raise ToolError(f"{engine} has no component {component!r} in either environment; see: list_backends")
    both = ((name, rows[0].get(name), rows[1].get(name)) for name in dict.fromkeys((*rows[0], *rows[1])))
    return [one for one in both if _says(one[1]) != _says(one[2])]


def _says(row: Row | None) -> tuple[object, ...] | None:
    return None if row is None else (row.verdict, row.runs_instead)


def parse_test(text: str, *, runs: bool = False) -> Test:
    """``runs``: whether a test may run something. Raises :class:`ToolError` for what is no test."""
    kind, *words = text.split() or [""]
    settings = dict(word.split("=", 1) for word in words if "=" in word)
    plain = [word for word in words if "=" not in word]
    engine, quantisation = settings.pop("engine", None), settings.pop("quantisation", None)
    if kind == "static" and len(plain) == 3:
        try:
            arch = parse_architecture(plain[2]).base.name
        except ArchitectureError as error:
            raise ToolError(str(error)) from error
        return Static(plain[0], plain[1], arch, engine, quantisation, settings)
    if kind == "option" and len(plain) in (1, 2) and not settings and quantisation is None:
        return HasOption(plain[0], plain[1] if len(plain) == 2 else None, engine)
    if runs and engine is quantisation is None and (test := _that_runs(kind, plain, settings)):
        return test
    raise ToolError(f"{text!r} is no test; {EXPECTED}{RUNNING if runs else ''}")


def _that_runs(kind: str, plain: Sequence[str], settings: dict[str, str]) -> Test | None:
    from tools.environment.trial import MODULE, Imports, Kernel

    if kind == "import" and len(plain) == 1 and not settings and MODULE.fullmatch(plain[0]):
        return Imports(plain[0])
    if kind == "probe" and len(plain) == 2 and settings.keys() <= {"gpu"}:
        return Kernel(plain[0], plain[1], settings.get("gpu"))
    return None


def engine_of(environment: Environment) -> str:
    """The only engine in the environment. Raises :class:`ToolError`."""
    found = [name for name in profiles() if name in environment.packages]
    if len(found) != 1:
        raise ToolError(
            f"{environment.name} holds {'several engines' if found else 'no engine'} "
            f"({', '.join(found or profiles())}); name one in the test: engine=NAME"
        )
    return found[0]


def _of_component(options: Sequence[Option], component: str) -> list[Option]:
    """The options that choose the component's backend."""
    meant = {component, covering(component)}
    return [option for option in options if option.component in meant]
