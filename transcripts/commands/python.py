"""``python``: modules and scripts that are known; any other code may do anything."""

from __future__ import annotations

from dataclasses import replace

from transcripts.commands import benchmarks, installs, servers
from transcripts.commands.call import Call
from transcripts.commands.effects import through
from transcripts.commands.model import Step
from transcripts.commands.options import Grammar, parse_options, programs
from transcripts.commands.reads import read_step
from transcripts.commands.windows import Window
from transcripts.commands.words import Arg

_PYTHON = Grammar(
    bare=frozenset("-" + letter for letter in "bBdEhiIOPqsSuvVx") | {"--version", "--help"},
    values=frozenset({"-c", "-m", "-W", "-X"}),
    stop=True,
)
_RUNNERS = {"torch.distributed.run": "torchrun", "torch.distributed.launch": "torchrun"}


def python(call: Call) -> list[Step]:
    """``python -m MODULE``, ``python SCRIPT``, ``python -c CODE``, ``python - <<EOF``."""
    args, module = _taken(call.args)
    if module is not None:
        return _module(call, module, args)
    options = parse_options(call.args, _PYTHON)
    if options.has("-V", "--version"):
        return call.other(safe=call.trusted)
    if options.has("-c") or not options.arguments or options.arguments[0] == "-":
        return _code(call)
    script, *rest = options.arguments
    found = replace(call, name=script.rpartition("/")[2], written=str(script), args=rest)
    return servers.script(found) or benchmarks.script(found) or _code(call, f"runs {script}")


def _taken(args: list[Arg]) -> tuple[list[Arg], str | None]:
    """What follows ``-m MODULE``, which ends the interpreter's own options."""
    for place, word in enumerate(args):
        if word == "-m" and place + 1 < len(args):
            return args[place + 2 :], str(args[place + 1])
        if word.startswith("-m") and len(word) > 2 and not word.startswith("--"):
            return args[place + 1 :], word[2:]
        if not word.startswith("-") or word == "-c":
            break
    return [], None


def _module(call: Call, module: str, args: list[Arg]) -> list[Step]:
    found = replace(call, name=module, written=module, args=args)
    made = servers.module(found) or benchmarks.module(found)
    if made:
        return made
    if module in {"pip", "uv"}:
        return installs.install(replace(found, program=programs()[module]))
    if module in _RUNNERS:
        name = _RUNNERS[module]
        return call.again([Arg(name), *args])
    if module == "json.tool":
        files = [str(word) for word in args if not word.startswith("-")]
        if not files and not call.pipe.first:
            return through(call, safe=call.trusted)
        if len(files) == 1:  # a second one is written to
            step = read_step(call, files[0], Window(), safe=call.trusted)
            step.window, step.plain = None, False
            return [step]
    return _code(call, f"python -m {module}")


def _code(call: Call, note: str = "") -> list[Step]:
    if call.pipe.first or not call.pipe.group:
        return call.other(note=note)
    return through(call, safe=False)
