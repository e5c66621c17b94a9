"""What a planner reads off its board before there is anything to plan: the target, the packages, and
whether a step that everything rests on has failed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent.board import Board
from agent.question import NO_MODEL, NO_QUANTISATION, QuestionError, parse_question
from agent.scenario import NONE, keys, not_declared, wrong_component, wrong_value
from memory.vocabulary import Target
from tools.engines.options import Option, is_backend_option
from tools.viability.checkpoint import read_checkpoint
from transcripts.events import Called, Concluded, Opened, Returned


def declared(board: Board) -> list[Option]:
    """The engine's options that choose among implementations, as ``list_backends`` gave them."""
    return [option for option in _options(board) if is_backend_option(option)]


def flags(board: Board) -> dict[str, str]:
    """The flags of a launch command that the person's scenario amounts to, of options that are known."""
    scenario = board.opened.options.get("scenario", {}) if board.opened else {}
    by_field = {option.field: option.flag for option in _options(board)}
    found = {by_field.get(name.rpartition(".")[2]): value for name, value in scenario.items()}
    return {flag: value for flag, value in found.items() if flag and value != NONE}


def _options(board: Board) -> list[Option]:
    output = board.output_of("list_backends") or {}
    return [Option.model_validate(option) for option in output.get("options", ())]


def environment_of(board: Board) -> tuple[str, dict[str, str]] | None:
    """Name and packages, given or created."""
    opened = board.opened
    if opened is not None and opened.options.get("environment"):
        return str(opened.options["environment"]), dict(opened.options.get("packages", {}))
    output = board.output_of("create_environment")
    if not isinstance(output, dict):
        return None
    environment = output.get("environment", output)
    return str(environment["name"]), dict(environment["packages"])


def fingerprint_of(board: Board) -> str | None:
    """Of the environment, given or created; None where its description was too long to be recorded whole."""
    opened = board.opened
    if opened is not None and opened.options.get("environment"):
        given = opened.options.get("fingerprint")
        return str(given) if given else None
    output = board.output_of("create_environment")
    environment = output.get("environment", output) if isinstance(output, dict) else {}
    return environment.get("fingerprint") if isinstance(environment, dict) else None


def target_of(board: Board, opened: Opened) -> Target:
    """The question as parsed, with the model's classes once they are known."""
    options = opened.options
    target = parse_question(
        opened.question,
        arch=options.get("arch"),
        engine=options.get("engine"),
        requirements=options.get("requirements", ()),
        installed=options.get("packages", {}),
        local_archs=options.get("local_archs", ()),
    )
    target = _as_config_says(target, options)
    if given := options.get("scenario"):
        said = ", ".join(f"{key}={value}" for key, value in given.items())
        target = target.model_copy(update={"assumed": (f"as given, {said}", *target.assumed)})
    made = board.output_of("create_environment")
    if isinstance(made, dict) and made.get("warnings"):
        target = target.model_copy(update={"assumed": (*target.assumed, *made["warnings"])})
    output = board.output_of("find_model")
    if isinstance(output, dict):
        classes = tuple(one["architecture"] for one in output["classes"])
        assumed = target.assumed if classes else (_unmatched(target, output), *target.assumed)
        target = target.model_copy(update={"model_classes": classes, "assumed": assumed})
    return target


def _as_config_says(target: Target, options: Mapping[str, Any]) -> Target:
    """What the question leaves open is as the options say: the number of ranks, and the model's config."""
    if "tp" in options:
        target = target.model_copy(update={"gpu_count": target.gpu_count or options["tp"]})
    if "checkpoint" not in options:
        return target
    checkpoint = read_checkpoint(options["checkpoint"], "the model's config")
    said = f"sizes as in the model's config ({checkpoint.digest})"
    told = {
        "model": target.model or checkpoint.classes[0],
        "quantisation": target.quantisation or checkpoint.scheme(),
        "assumed": (said, *(one for one in target.assumed if one not in (NO_MODEL, NO_QUANTISATION))),
    }
    return target.model_copy(update=told)


def _unmatched(target: Target, match: Mapping[str, Any]) -> str:
    """Why no model's rules are applied."""
    several = [one["architecture"] for one in match["candidates"]]
    if several:
        return f"{target.model} fits several models, {', '.join(several[:6])}: no model's rules are applied"
    near = f" (nearest: {', '.join(match['nearest'][:3])})" if match["nearest"] else ""
    return f"{target.engine} registers no model called {target.model}{near}: no model's rules are applied"


def failure(board: Board) -> Concluded | None:
    """The end, if a step that everything rests on failed."""
    for tool in ("create_environment", "list_backends"):
        results = board.results(tool)
        if results and results[-1][1].status != "ok":
            called, returned = results[-1]
            return _ended(called, returned)
    traces = board.results("trace_viability")
    if traces and all(returned.status != "ok" for _, returned in traces):
        return _ended(*traces[0])
    if board.opened is None:
        return None
    try:
        wrong = _wrong_scenario(board, board.opened, target_of(board, board.opened))
    except QuestionError as error:
        wrong = str(error)
    return None if wrong is None else Concluded(exit_reason="failed", exit_code=2, summary=wrong)


def _wrong_scenario(board: Board, opened: Opened, target: Target) -> str | None:
    """What is wrong with the facts that were given, once the engine's options are known."""
    scenario = opened.options.get("scenario", {})
    options = _options(board)
    if not scenario or not options:
        return None
    wrong = wrong_component(scenario, target.engine, options) or wrong_value(scenario, options)
    if wrong is not None:
        return wrong
    asked = [returned for _, returned in board.results("search_source") if returned.status == "ok"]
    for key, returned in zip(keys(scenario), asked, strict=False):
        found = board.output(returned.call)
        if isinstance(found, dict) and not found["count"]:
            return not_declared(key, target.engine)
    return None


def _ended(called: Called, returned: Returned) -> Concluded:
    why = returned.error or f"{called.tool} gave no result"
    if returned.status == "denied":
        return Concluded(exit_reason="stopped", exit_code=4, summary=why)
    if isinstance(returned.output, dict) and returned.output.get("missing"):
        return Concluded(exit_reason="missing", exit_code=3, summary=why)
    wrong_input = not why.startswith(f"{called.tool} failed with an unexpected error")
    return Concluded(exit_reason="failed", exit_code=2 if wrong_input else 4, summary=why)
