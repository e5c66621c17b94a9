"""Static rows without an investigation: what ``backends`` and ``explain`` ask the tools for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agent.cli.common import CommandError, Context
from agent.execute import batch_functions
from agent.relevance import relevant
from agent.scenario import keys, not_declared, scenario_for, search_for, wrong_component, wrong_value
from agent.words import DEFAULT_ENGINE, one_engine
from memory.architecture import parse_architecture
from memory.home import Home
from tools.engines.options import Option, discover_options, is_backend_option
from tools.environment.model import Environment
from tools.registry import registry

TRACE = "trace_viability"


def architectures(home: Home, given: Sequence[str]) -> list[str]:
    """Architectures by name or GPU, each once; this machine's where none is given and it has one."""
    if given:
        return list(dict.fromkeys(parse_architecture(one).base.name for one in given))
    from agent.cli.common import local_archs

    local = local_archs(home)
    if len(local) == 1:
        return list(local)
    here = f" (this machine has {', '.join(local)})" if local else ""
    raise CommandError(f"no architecture was given{here}; give --arch sm120 or a GPU's name")


def engine_of(environment: Environment, named: str | None) -> str:
    """The engine that was named, else the only one of the environment, else the default."""
    return named or one_engine(environment.packages) or DEFAULT_ENGINE


def options_of(
    environment: Environment, engine: str, components: Sequence[str], quantisation: str | None
) -> list[Option]:
    """The options to look at: those of ``components``, or those that matter to a target.

    Raises :class:`CommandError` for a component that the engine does not have, with those it has.
    """
    found = discover_options(environment.tree(), engine)
    if not components:
        return relevant([option for option in found if is_backend_option(option)], quantisation)
    by_name: dict[str, Option] = {}
    for option in found:
        known = by_name.get(option.component)
        if known is None or len(option.values) > len(known.values):
            by_name[option.component] = option
    for component in components:
        if component not in by_name:
            there = ", ".join(sorted(name for name, option in by_name.items() if is_backend_option(option)))
            raise CommandError(f"{engine} has no component {component!r} here; it has {there}")
    return [by_name[component] for component in dict.fromkeys(components)]


def traces(
    home: Home,
    environment: Environment,
    engine: str,
    cells: Sequence[tuple[str, str, str]],
    *,
    quantisation: str | None,
    scenario: dict[str, str],
    model_classes: Sequence[str] = (),
) -> list[Any]:
    """A trace for each ``(component, backend, arch)``, in order. All at once where the tool can.

    Raises :class:`CommandError` for a scenario that names what the engine does not have.
    """
    tool = registry().get(TRACE)
    if tool is None:
        raise CommandError(f"the tool {TRACE} is not installed; install assay-agent again", 3)
    named = environment.name if environment.kind == "source" else environment.path
    _check_scenario(home, environment, named, engine, scenario)
    inputs = [
        tool.input.model_validate(
            {
                "environment": named,
                "component": component,
                "backend": backend,
                "arch": arch,
                "engine": engine,
                "model_classes": list(model_classes),
                "quantisation": quantisation,
                "scenario": scenario_for(scenario, component),
            }
        )
        for component, backend, arch in cells
    ]
    context = Context(home)
    many = batch_functions().get(TRACE)
    if many is not None and len(inputs) > 1:
        return list(many(context, inputs))
    return [tool.run(one, context) for one in inputs]


def _check_scenario(
    home: Home, environment: Environment, named: str, engine: str, scenario: dict[str, str]
) -> None:
    if not scenario:
        return
    options = discover_options(environment.tree(), engine)
    wrong = wrong_component(scenario, engine, options) or wrong_value(scenario, options)
    for key in keys(scenario) if wrong is None else ():
        search = registry()["search_source"]
        found = search.run(search.input.model_validate(search_for(key, named, engine)), Context(home))
        wrong = wrong or (None if found.count else not_declared(key, engine))
    if wrong is not None:
        raise CommandError(wrong)


def model_classes(home: Home, environment: Environment, engine: str, model: str | None) -> list[str]:
    """The classes that the installed engine registers for a model's name.

    Raises :class:`CommandError` where it registers none, with the nearest, or where the name fits several.
    """
    if model is None:
        return []
    tool = registry()["find_model"]
    named = environment.name if environment.kind == "source" else environment.path
    found = tool.run(
        tool.input.model_validate({"environment": named, "engine": engine, "model": model}), Context(home)
    ).model_dump(mode="json")
    classes = [one["architecture"] for one in found["classes"]]
    if not classes:
        several = [one["architecture"] for one in found["candidates"]]
        near = found["nearest"]
        raise CommandError(
            f"{model!r} fits several models of {engine}: {', '.join(several[:6])}; name one"
            if several
            else f"{engine} registers no model called {model!r} here"
            + (f"; nearest: {', '.join(near[:3])}" if near else "")
        )
    return classes
