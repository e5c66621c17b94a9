"""Inference servers being started: by module, program, script, image or unit (``engines.toml``)."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from memory.terms import CallKind
from transcripts.commands.call import Call
from transcripts.commands.model import Fields, Step
from transcripts.commands.options import parse_options
from transcripts.commands.words import Arg

_NUMBER = re.compile(r"-\d+(?:\.\d+)?")
NOT_DONE = {"--help", "-h", "--version", "--dry-run"}
"""With these, nothing is started or measured."""


def is_done(args: Sequence[str]) -> bool:
    """Whether a program does its work, rather than telling how it would."""
    return not any(one.partition("=")[0] in NOT_DONE for one in args)


Engine = dict[str, Any]


@cache
def data() -> dict[str, Any]:
    with (Path(__file__).parent / "engines.toml").open("rb") as file:
        return tomllib.load(file)


def server(call: Call) -> list[Step]:
    """A server by the name of a program, with its subcommand where it has one; else nothing."""
    for subcommands, engine in _commands().get(call.name, []):
        given = [str(one) for one in call.args[: len(subcommands)]]
        if given == subcommands:
            rest = call.args[len(subcommands) :]
            return [launch(call, engine, rest)] if is_done(rest) else []
    return []


@cache
def _commands() -> dict[str, list[tuple[list[str], Engine]]]:
    """By the name of a program: the words after it that start a server, and the engine."""
    found: dict[str, list[tuple[list[str], Engine]]] = {}
    for engine in data()["server"]:
        for name, *words in (command.split() for command in engine.get("commands", [])):
            found.setdefault(name, []).append((words, engine))
    return found


def module(call: Call) -> list[Step]:
    """``python -m MODULE``."""
    engine = _engine("modules", lambda one: one == call.name)
    return _launched(call, engine)


def script(call: Call) -> list[Step]:
    """``python …/SCRIPT``."""
    engine = _engine("scripts", lambda one: call.written == one or call.written.endswith("/" + one))
    return _launched(call, engine)


def _launched(call: Call, engine: Engine | None) -> list[Step]:
    if engine is None:
        return []
    if not is_done(call.args):
        return call.other(note=call.name)
    return [launch(call, engine, call.args)]


def _engine(kind: str, fits: Any) -> Engine | None:
    return next((one for one in data()["server"] if any(fits(name) for name in one.get(kind, []))), None)


def of_image(image: str) -> Engine | None:
    """The engine that a container image serves."""
    return _engine("images", lambda one: re.search(one, image, re.IGNORECASE))


def of_unit(name: str) -> str | None:
    """The engine whose name a systemd unit or a container bears."""
    engine = _engine("units", lambda one: re.search(one, name, re.IGNORECASE))
    return engine["engine"] if engine else None


def launch(call: Call, engine: Engine, args: Sequence[Arg]) -> Step:
    """A launch of ``engine`` with its own arguments."""
    given, words = flags(args)
    model = _first(given, engine.get("model", []))
    # What stands behind a flag may be one more value of it; what stands before all flags, or behind a value
    # that was given with "=", cannot.
    stray = [word for word, flag in words if flag is None or "=" in flag]
    if engine.get("positional") and words and words[0][1] is None:
        model = model or stray[0]
        stray = stray[1:]
    elif model is None and engine.get("positional") and words:
        model = words[0][0]
        stray = [word for word in stray if word != model]
    fields: Fields = {"engine": engine["engine"], "model": model, "port": port(given), "flags": given}
    if stray:
        fields["stray"] = stray
    return call.step(CallKind.LAUNCH_SERVER, fields, safe=False)


def flags(args: Sequence[Arg]) -> tuple[dict[str, Any], list[tuple[str, str | None]]]:
    """``--flag value``, ``--flag=value`` and bare flags (True), and the words that belong to none, each with
    the flag before it, as it is written.

    A flag that takes several values, or is given several times, has a list.
    """
    found: dict[str, Any] = {}
    words: list[tuple[str, str | None]] = []
    before: str | None = None
    many, bare = set(data()["flags"]["many"]), set(data()["flags"]["bare"])
    rest = [str(one) for one in args]
    while rest:
        word = rest.pop(0)
        if not is_flag(word):
            words.append((word, before))
            continue
        before = word
        name, equals, value = word.partition("=")
        values = [value] if equals else []
        while not equals and name not in bare and rest and not is_flag(rest[0]):
            values.append(rest.pop(0))
            if name not in many:
                break
        new: Any = values if len(values) > 1 else values[0] if values else True
        if name in found and found[name] is not True:
            held = found[name] if isinstance(found[name], list) else [found[name]]
            new = [*held, *(values or [""])]
        found[name] = new
    return found, words


def is_flag(word: str) -> bool:
    """``-5`` is a number, and ``-`` a file."""
    return word.startswith("-") and word != "-" and not _NUMBER.fullmatch(word)


def port(given: dict[str, Any]) -> int | None:
    """The port among flags."""
    value = given.get("--port")
    return int(value) if isinstance(value, str) and re.fullmatch(r"[0-9]{1,9}", value) else None


def _first(given: dict[str, Any], names: Sequence[str]) -> str | None:
    value = next((given[name] for name in names if isinstance(given.get(name), str)), None)
    return str(value) if value is not None else None


def systemctl(call: Call) -> list[Step]:
    """``systemctl start UNIT``."""
    assert call.program is not None
    from transcripts.commands.effects import inert

    options = parse_options(call.args, call.program.grammar)
    word, *units = options.arguments or [Arg("")]
    if word not in {"start", "restart", "reload-or-restart", "enable"} or (
        word == "enable" and not options.has("--now")
    ):
        return inert(call)
    for unit in units:
        engine = of_unit(str(unit))
        if engine is not None:
            fields: Fields = {"engine": engine, "model": None, "port": None, "flags": {}, "unit": str(unit)}
            return [call.step(CallKind.LAUNCH_SERVER, fields, safe=False)]
    return call.other(changes=True, note=f"systemctl {word}")
