"""``agent explain --command``: what a launch command asks for, and where it will fail."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from io import BytesIO
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from agent.cli.common import CommandError, draw, emit, environment_of, progress, redactor
from agent.cli.matrix import Question, architectures, traces
from agent.relevance import relevant
from agent.words import QuestionError, one_quantisation, quantisation_named, quantisations_in
from memory.architecture import ArchitectureError, parse_architecture
from memory.home import Home
from memory.terms import Verdict
from tools.diagnosis.environments import requirements
from tools.diagnosis.facts import Facts, facts, launch_of, patterns
from tools.engines.adapter import engine as adapter
from tools.engines.launches import Reader, Remark, Settings
from tools.engines.options import Option, is_backend_option
from tools.logs import read_log
from tools.viability.profile import scenarios

if TYPE_CHECKING:
    from agent.layout import Line
    from tools.environment.model import Environment

LONGEST = 100_000
"""Characters of a command."""


def explain_command(
    home: Home,
    command: str,
    environment: str | None,
    asked: Sequence[str],
    arch: str | None,
    scenario: dict[str, str],
    *,
    as_json: bool,
) -> int:
    """Exit code 1 where the launch will fail. Raises :class:`CommandError` for what is no launch."""
    if len(command) > LONGEST:
        raise CommandError(f"--command has {len(command)} characters; at most {LONGEST} are read")
    step = launch_of(command)
    if step is None:
        if _unclosed(command):
            raise CommandError("--command has a quote that is not closed; expected the whole line, in quotes")
        raise CommandError(
            "--command launches no engine that is known here; expected e.g. "
            "'python -m sglang.launch_server --model-path M', 'vllm serve M', or a docker run of one"
        )
    engine = str(step.fields["engine"])
    adapter(engine)  # raises for one that cannot be read
    wanted = architectures(home, [arch])[0] if arch is not None else _here(home)
    needed = list(asked) or ([] if environment is not None else _of_image(command, engine))
    if environment is None and not needed:
        needed = [adapter(engine).distribution]
        progress(f"the command names no version of {engine}: the newest")
    found = environment_of(home, environment, needed, parse_architecture(wanted) if wanted else None, engine)
    progress("reading the flags that this version takes")
    reader = Reader(found.tree(), engine)
    options = reader.options
    variables = {str(name): str(value) for name, value in (step.fields.get("env") or {}).items()}
    settings = reader.read(command, step.fields["flags"], variables, step.fields.get("stray") or ())
    named = {f"${name}": variables[name] for name in reader.known_variables(variables)}
    scheme, doubt = _quantisation(engine, settings, step.fields.get("model"))
    remarks = [*settings.remarks, *doubt]
    rows: list[Any] = []
    if wanted is not None:
        rows = _components(home, found, engine, options, settings, wanted, scheme, {**named, **scenario})
    fails = any(one.fails for one in remarks) or any(
        one["row"] is not None and one["row"]["verdict"] == Verdict.BLOCKED and one["given"] for one in rows
    )
    document = {
        "engine": engine,
        "model": step.fields.get("model"),
        "packages": dict(found.packages),
        "environment": found.name,
        "arch": wanted,
        "quantisation": scheme,
        "settings": dict(settings.fields),
        "variables": variables,
        "components": rows,
        "remarks": [one.document() for one in remarks],
        "fails": fails,
    }
    document = redactor()(document)
    if as_json:
        emit(document)
    else:
        draw(_lines(document))
    return 1 if fails else 0


def _unclosed(command: str) -> bool:
    try:
        shlex.split(command)
    except ValueError:
        return True
    return False


def _here(home: Home) -> str | None:
    try:
        return architectures(home, ())[0]
    except (CommandError, ArchitectureError):
        progress("no architecture: give --arch sm120 or a GPU's name, and the components are judged")
        return None


def _of_image(command: str, engine: str) -> list[str]:
    """The versions that the name of an image tells."""
    text = BytesIO(command.encode("utf-8", "replace"))
    known: Facts = facts(text, read_log(text, patterns()).also)
    return requirements(engine, {name: said.value for name, said in known.packages.items()})


def _quantisation(engine: str, settings: Settings, model: Any) -> tuple[str | None, list[Remark]]:
    """The scheme that option and model name, and whether they agree."""
    flag = adapter(engine).launch.quantisation
    value = str(settings.fields.get(flag.lstrip("-").replace("-", "_")) or "")
    schemes = [name for name, entry in scenarios().items() if value in entry.get("names", ())]
    option = quantisation_named(value) or (schemes[0] if schemes else None)
    named = quantisations_in(PurePosixPath(str(model or "")).name)
    try:
        told = one_quantisation(named)
    except QuestionError:
        told = None
    if option is not None and told is not None and option != told and option not in named:
        text = f"{flag} {value} is {option}, the model's name says {told}"
        return option, [Remark("contradiction", flag, text)]
    return option or told, []


def _components(
    home: Home,
    found: Environment,
    engine: str,
    options: Sequence[Option],
    settings: Settings,
    arch: str,
    scheme: str | None,
    scenario: dict[str, str],
) -> list[dict[str, Any]]:
    """Each component that the command chooses for or that matters: what it is set to, and its trace."""
    backends = [one for one in options if is_backend_option(one)]
    chosen = {one.component: one for one in relevant(backends, scheme)}
    chosen |= {one.component: one for one in backends if one.field in settings.fields}
    cells: dict[str, tuple[str, bool]] = {}
    for component, option in chosen.items():
        given = settings.fields.get(option.field)
        value = str(given) if isinstance(given, str) else str(option.default)
        known = {one.value.lower(): one.value for one in option.values}
        if value.lower() in known:
            cells[component] = (known[value.lower()], isinstance(given, str))
    told: dict[str, str] = {}
    for one in options:
        setting = settings.fields.get(one.field)
        if setting in {each.value for each in one.values} and not is_backend_option(one):
            told[one.field] = str(setting)
    under = {**told, **scenario}
    question = Question(
        engine=engine,
        components=tuple(cells),
        archs=(arch,),
        quantisation=scheme,
        scenario=under,
        choices=tuple((component, value) for component, (value, _) in cells.items()),
    )
    traced = {trace.row.component: trace for trace in traces(home, found, question)} if cells else {}
    return [
        {
            "component": component,
            "flag": option.flag,
            "value": cells[component][0] if component in cells else settings.fields.get(option.field),
            "given": option.field in settings.fields,
            "row": dict(traced[component].row) if component in traced else None,
            "notes": list(traced[component].notes) if component in traced else [],
        }
        for component, option in chosen.items()
    ]


def _lines(found: dict[str, Any]) -> list[Line]:
    from agent.layout import versions
    from agent.plain import plain
    from agent.reasons import NAMES, deciding, reason, where
    from agent.report import STYLES
    from agent.text import shorten, squeeze

    head = f"{found['engine']}, {found['model'] or 'no model named'}"
    lines: list[Line] = [
        [(squeeze(f"{head}{' on ' + found['arch'] if found['arch'] else ''}"), "bold")],
        [(versions(found["packages"]), "dim")],
    ]
    size = max((len(f"{one['component']} {one['value']}") for one in found["components"]), default=0) + 2
    for one in found["components"]:
        how = "" if one["given"] else "  (not set: the default)"
        name = squeeze(f"{one['component']} {one['value'] if one['value'] is not None else '—'}")
        if one["row"] is None:
            told = "not judged" if one["given"] or found["arch"] is None else "left to the engine"
            lines.append([(f"{name:{size}}", ""), (told, "dim")])
            continue
        row = plain(json.dumps(one["row"]))
        verdict = Verdict(row.verdict)
        lines.append([(f"{name:{size}}", ""), (NAMES[verdict], STYLES[verdict]), (how, "dim")])
        why = shorten(reason(row, why=next(iter(one["notes"]), None)), 100)
        place = deciding(row)
        lines.append([(f"    {why}", "dim"), (f"  {squeeze(where(place))}" if place is not None else "", "")])
    for one in found["remarks"]:
        at = f"  {one['file']}:{one['line']}" if one["file"] else ""
        lines.append([(f"{one['kind']}: ", "red" if one["fails"] else "yellow"), (squeeze(one["text"]), "")])
        lines[-1].append((squeeze(at) and "  " + squeeze(at), "dim"))
    if not found["remarks"]:
        lines.append([("every flag is known here", "green")])
    lines.append([("Read, not run.", "dim")])
    return lines
