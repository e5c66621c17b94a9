"""Benchmarks being run: by module, program or the name of a script (``engines.toml``)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from memory.terms import CallKind
from transcripts.commands.call import Call
from transcripts.commands.model import Fields, Step
from transcripts.commands.servers import data, flags, is_done, port
from transcripts.commands.words import Arg


def benchmark(call: Call) -> list[Step]:
    """A benchmark by the name of a program, with its subcommand where it has one; else nothing."""
    for subcommands in _subcommands(call.name):
        given = [str(one) for one in call.args[: len(subcommands)]]
        if given == subcommands:
            rest = call.args[len(subcommands) :]
            if not is_done(rest):
                return call.other(note=call.name)
            tool = " ".join([call.name, *subcommands])
            if tool in data()["benchmark"]["kinds"] and rest and not rest[0].startswith("-"):
                tool, rest = f"{tool} {rest[0]}", rest[1:]
            return [_step(call, tool, rest)]
    if call.program is None and "/" in call.written:
        return script(call)
    return []


@lru_cache(maxsize=1000)
def _subcommands(program: str) -> list[list[str]]:
    """The words after a program's name that make it a benchmark; none for other programs."""
    rows = [row.split() for row in data()["benchmark"]["commands"]]
    return [words for name, *words in rows if re.fullmatch(name, program)]


def module(call: Call) -> list[Step]:
    """``python -m MODULE``."""
    if not any(re.fullmatch(one, call.name) for one in data()["benchmark"]["modules"]):
        return []
    if not is_done(call.args):
        return call.other(note=call.name)
    return [_step(call, call.name, call.args)]


def script(call: Call) -> list[Step]:
    """A script whose name says that it measures."""
    if re.search(data()["benchmark"]["script"], call.name):
        if not is_done(call.args):
            return call.other(note=call.name)
        return [_step(call, call.written, call.args)]
    return []


def _step(call: Call, tool: str, args: Sequence[Arg]) -> Step:
    given, _ = flags(args)
    fields: Fields = {"tool": tool, "flags": given}
    if (number := port(given)) is not None:
        fields["port"] = number
    for name in ("output_file", "model"):
        options = data()["benchmark"][name]
        value = next((given[one] for one in options if isinstance(given.get(one), str)), None)
        if value is not None:
            fields[name] = value
    return call.step(CallKind.RUN_BENCHMARK, fields, safe=False)
