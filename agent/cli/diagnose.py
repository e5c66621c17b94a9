"""``agent diagnose``: a crash log, from what failed first to what would unblock it."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

import click

from agent.cli.common import (
    CommandError,
    draw,
    emit,
    engine_option,
    environment_of,
    json_option,
    package_options,
    progress,
    redactor,
    requirements_of,
    the_home,
)

if TYPE_CHECKING:
    from memory.home import Home
    from tools.diagnosis.diagnose import Diagnosis
    from tools.environment.model import Environment

INCONCLUSIVE = 4


@click.command()
@click.argument("log", metavar="LOG|-")
@click.argument("positional", nargs=-1, metavar="[P==V]...")
@package_options
@engine_option
@click.option("--arch", metavar="ARCH", help="Architecture or GPU, where the log does not say.")
@click.option("--fetch", is_flag=True, help="Fetch the source of the versions that the log names.")
@json_option
def diagnose(
    log: str,
    positional: tuple[str, ...],
    packages: tuple[str, ...],
    environment: str | None,
    engine: str | None,
    arch: str | None,
    fetch: bool,
    as_json: bool,
) -> int:
    """What LOG of an engine (- is stdin) shows: versions, GPU, the first failure, its cause, what helps.

    The gate that raised is shown from the source of the versions in the log, where an environment holds them
    (--fetch makes one), or from what -e or -p names. Nothing is executed.

    \b
    Examples:
      agent diagnose server.log
      docker logs sglang 2>&1 | agent diagnose - --fetch
      agent diagnose server.log -p sglang==0.5.9 -p flashinfer-python==0.6.5 --arch sm120
    """
    progress("reading the log")
    from memory.architecture import parse_architecture
    from tools.diagnosis.diagnose import diagnose as read
    from tools.diagnosis.opening import is_binary, opened

    wanted = parse_architecture(arch).base.name if arch is not None else None
    if engine is not None:
        from tools.engines.adapter import engine as adapter

        engine = adapter(engine).name
    home = the_home()
    with opened(log) as file:
        found = read(file)
        if found.first is None and found.cause is None and is_binary(file):
            raise CommandError(f"{log} is no text; expected what an engine printed")
    if wanted is not None or engine is not None:
        found = found.model_copy(update={"arch": wanted or found.arch, "engine": engine or found.engine})
    asked = requirements_of(packages, positional)
    source, offer = _source(home, found, environment, asked, fetch)
    document = _document(home, log, found, source, offer)
    document = redactor()(document)  # arguments are printed with their keys
    if as_json:
        emit(document)
    else:
        from agent.diagnosis import lines

        draw(lines(document))
    return 0 if document["concluded"] else INCONCLUSIVE


def _source(
    home: Home, found: Diagnosis, environment: str | None, asked: list[str], fetch: bool
) -> tuple[Environment | None, str | None]:
    """Where the source is read, or the command that would bring it."""
    from memory.architecture import parse_architecture
    from tools.diagnosis.environments import fitting, requirements, stored

    arch = parse_architecture(found.arch) if found.arch is not None else None
    if environment is not None or asked:
        return environment_of(home, environment, asked, arch), None
    needed = requirements(found.engine, found.packages)
    if not needed:
        there = fitting(home, found.engine, found.first.frames) if found.first is not None else None
        if there is not None:
            progress(f"the log names no version; the traceback fits {there.name} line by line")
        return there, None
    there = stored(home, needed)
    if there is None and fetch:
        there = environment_of(home, None, needed, arch)
    command = "agent environment create " + " ".join(f"-p {one}" for one in needed)
    return there, None if there is not None else command


def _document(
    home: Home, log: str, found: Diagnosis, source: Environment | None, offer: str | None
) -> dict[str, Any]:
    """The diagnosis with what the source and earlier findings say of it."""
    from memory.terms import Outcome
    from tools.diagnosis.diagnose import by_gate
    from tools.diagnosis.gate import find_gate
    from tools.diagnosis.kinds import next_step

    gate = trace = None
    if source is not None and found.first is not None:
        progress(f"looking up the traceback in {source.name}")
        gate = find_gate(source.tree(), found.first.frames)
        found = by_gate(found, gate) if gate is not None else found
    if source is not None and found.component is not None and found.arch is not None:
        trace = _trace(home, source, found)
    settings = _settings(source, found) if source is not None else []
    failed = found.first is not None or found.cause is not None
    ahead = found.cause is not None and not (found.cause.guess or found.cause.outcome is Outcome.OK)
    return {
        **found.model_dump(mode="json"),
        "log": log,
        "environment": source.name if source is not None else None,
        "make": offer,
        "gate": gate.model_dump(mode="json") if gate is not None else None,
        "row": dict(trace.row) if trace is not None else None,
        "openings": list(trace.openings) if trace is not None else [],
        "settings": settings,
        "findings": _findings(home, found),
        "next": next_step(found.cause.kind) if found.cause is not None and ahead else None,
        "concluded": not found.cause.guess if found.cause is not None else not (failed or found.follows),
    }


def _trace(home: Home, source: Environment, found: Diagnosis) -> Any:
    """What the source says of the backend that the cause is about; None where it cannot be asked."""
    from agent.cli.matrix import Question, engine_of, traces
    from tools.errors import ToolError

    assert found.component is not None
    assert found.arch is not None
    question = Question(
        engine=engine_of(source, found.engine),
        components=(found.component,),
        backend=found.backend or "auto",
        archs=(found.arch,),
        quantisation=_quantisation(found.arguments),
    )
    try:
        return traces(home, source, question)[0]
    except (CommandError, ToolError) as error:
        progress(f"the source was not asked about {found.component}: {error}")
        return None


def _quantisation(arguments: dict[str, Any]) -> str | None:
    """The scheme that the launch names, by its option or in the model's name."""
    from agent.words import QuestionError, one_quantisation, quantisation_named, quantisations_in

    named = quantisation_named(str(arguments.get("quantization") or ""))
    model = str(arguments.get("model_path") or arguments.get("model") or "")
    try:
        return (
            one_quantisation({named})
            if named
            else one_quantisation(quantisations_in(PurePosixPath(model).name))
        )
    except QuestionError:
        return None


def _settings(source: Environment, found: Diagnosis) -> list[dict[str, Any]]:
    """What is wrong with the launch, where the log holds it and its options are to blame."""
    from tools.diagnosis.facts import launch_of
    from tools.engines.launches import Reader
    from tools.errors import ToolError

    step = launch_of(found.command) if found.command is not None else None
    if step is None or found.cause is None or found.cause.kind != "options":
        return []
    try:
        reader = Reader(source.tree(), str(step.fields["engine"]))
    except ToolError as error:
        progress(f"the flags were not looked up: {error}")
        return []
    variables = {str(name): str(value) for name, value in (step.fields.get("env") or {}).items()}
    read = reader.read(found.command or "", step.fields["flags"], variables)
    return [one.document() for one in read.remarks]


def _findings(home: Home, found: Diagnosis) -> list[dict[str, Any]]:
    """Earlier findings of a failure of the same backend, newest first."""
    from memory.database import StoreError
    from memory.views import Views

    if found.component is None or found.backend is None:
        return []
    try:
        rows = Views(home).findings(component=found.component, backend=found.backend, arch=found.arch)
    except StoreError as error:
        progress(f"earlier findings were not looked up: {error}")
        return []
    return [
        {"id": row["id"], "sentence": row["sentence"], "level": row["level"]}
        for row in rows
        if row["outcome"] not in (None, "ok") or row["verdict"] == "blocked"
    ][:5]
