"""Reading cells without an investigation: which there are, whether the question fits the engine, traces."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

from pydantic import ValidationError

from agent.cli.common import CommandError, Context, progress
from agent.cli.matrix import Question
from agent.relevance import relevant
from agent.scenario import keys, not_declared, scenario_for, search_for, wrong_component, wrong_value
from memory.home import Home
from tools.engines.options import Option, discover_options, is_backend_option
from tools.environment.model import Environment
from tools.registry import registry
from tools.viability.checkpoint import read_checkpoint
from tools.viability.profile import covering
from tools.viability.trace import ExplainInput, TraceInput, trace_key, trace_many


def options_of(
    environment: Environment, engine: str, components: Sequence[str], quantisation: str | None
) -> list[Option]:
    """The options to look at: those of ``components``, or those that matter to a target.

    Raises :class:`CommandError` for a component that the engine does not have, with those it has, and where
    no option chooses among backends.
    """
    found = discover_options(environment.tree(), engine)
    if not any(is_backend_option(option) for option in found):
        raise CommandError(
            f"{engine}: no option was found that chooses among backends, so the analyser does not fit this "
            "version; where options are declared stands in the engine's profile (docs/extending.md)"
        )
    if not components:
        return relevant([option for option in found if is_backend_option(option)], quantisation)
    by_name = _by_name(found)
    chosen: list[Option] = []
    for component in dict.fromkeys(components):
        meant = _meant(by_name, component)
        if meant is None:
            there = sorted(name for name, option in by_name.items() if is_backend_option(option))
            # The few that look like it, where any do: a slip of the keyboard needs no list of them all.
            there = get_close_matches(component.lower(), there, 3, 0.7) or there
            raise CommandError(f"{engine} has no component {component!r} here; it has {', '.join(there)}")
        chosen.append(meant.model_copy(update={"component": component}))
    return chosen


def declared(environment: Environment, engine: str, components: Sequence[str]) -> list[str]:
    """Those of ``components`` that the engine has an option for."""
    by_name = _by_name(discover_options(environment.tree(), engine))
    return [component for component in components if _meant(by_name, component) is not None]


def _by_name(options: Sequence[Option]) -> dict[str, Option]:
    """The option of each component, the one with the most values where there are several."""
    found: dict[str, Option] = {}
    for option in options:
        known = found.get(option.component)
        if known is None or len(option.values) > len(known.values):
            found[option.component] = option
    return found


def _meant(by_name: dict[str, Option], component: str) -> Option | None:
    return by_name.get(component) or by_name.get(covering(component) or "")


def read(home: Home, environment: Environment, question: Question) -> tuple[list[str], list[str]]:
    """A trace (JSON) for each cell of the question, in order, and the key under which each is remembered.

    Raises :class:`CommandError` for what the engine does not have: a component, a backend, a model, a fact.
    """
    chosen = options_of(environment, question.engine, question.components, question.quantisation)
    cells = [
        (option.component, value.value, arch)
        for option in chosen
        for value in option.values
        for arch in question.archs
        if question.backend in (None, value.value)
        and (not question.choices or (option.component, value.value) in question.choices)
    ]
    if question.backend is not None and not cells:
        option = chosen[0]
        known = ", ".join(value.value for value in option.values)
        raise CommandError(f"{option.flag} does not accept {question.backend!r} here; it accepts {known}")
    named = environment.name if environment.kind == "source" else environment.path
    _check_scenario(home, environment, named, question)
    classes = question.model_classes
    if question.model is not None:
        classes = _model_classes(home, named, question.engine, question.model)
    if question.checkpoint is not None:
        told = read_checkpoint(question.checkpoint, "--model-config").classes
        of_config = _model_classes(home, named, question.engine, told[0], "--model-config")
        classes = classes or of_config
    what = f"{len(cells)} backends" if question.backend is None else f"{chosen[0].flag} {question.backend}"
    progress(f"following {what} through the source")
    asking = TraceInput if question.backend is None else ExplainInput
    inputs = [
        asking(
            environment=named,
            component=component,
            backend=backend,
            arch=arch,
            engine=question.engine,
            model_classes=classes,
            quantisation=question.quantisation,
            scenario=scenario_for(question.scenario, component),
            checkpoint=question.checkpoint,
            tp=question.tp,
        )
        for component, backend, arch in cells
    ]
    context = Context(home)
    traces = [trace.model_dump_json() for trace in trace_many(context, inputs)]
    return traces, [trace_key(environment, one) for one in inputs]


def _check_scenario(home: Home, environment: Environment, named: str, question: Question) -> None:
    engine, scenario = question.engine, question.scenario
    if not scenario:
        return
    options = discover_options(environment.tree(), engine)
    wrong = wrong_component(scenario, engine, options) or wrong_value(scenario, options)
    for key in keys(scenario) if wrong is None else ():
        found = _asked(home, "search_source", f"--scenario {key}", search_for(key, named, engine))
        wrong = wrong or (None if found.count else not_declared(key, engine))
    if wrong is not None:
        raise CommandError(wrong)


def _asked(home: Home, name: str, option: str, given: dict[str, Any]) -> Any:
    """The result of a tool. Raises :class:`CommandError` where it does not take what ``option`` gave."""
    tool = registry()[name]
    try:
        taken = tool.input.model_validate(given)
    except ValidationError as error:
        raise CommandError(f"{option}: {error.errors()[0]['msg']}") from None
    return tool.run(taken, Context(home))


def _model_classes(
    home: Home, named: str, engine: str, model: str, option: str = "--model"
) -> tuple[str, ...]:
    """The classes that the installed engine registers for a model's name.

    Raises :class:`CommandError` where it registers none, with the nearest, or where the name fits several.
    """
    asked = {"environment": named, "engine": engine, "model": model}
    found = _asked(home, "find_model", option, asked).model_dump(mode="json")
    classes = tuple(one["architecture"] for one in found["classes"])
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
