"""What a program may change where it is no typed call: by an allow-list of programs and options."""

from __future__ import annotations

from memory.terms import CallKind
from transcripts.commands.call import Call
from transcripts.commands.model import Step
from transcripts.commands.options import Options, Program, parse_options
from transcripts.commands.shell import is_harmless_variable
from transcripts.commands.words import Arg


def harmless(call: Call, program: Program | None = None) -> tuple[Options, bool]:
    """A call's options, and whether it is known to read and nothing else."""
    program = program or call.program
    assert program is not None
    options = parse_options(call.args, program.grammar)
    return options, call.trusted and is_harmless(options, program)


def is_harmless(options: Options, program: Program) -> bool:
    arguments = options.arguments
    if program.facts.get("plus"):  # date +%s
        arguments = [one for one in arguments if not one.startswith("+")]
    too_many = program.most is not None and len(arguments) > program.most
    needed = program.facts.get("needs", "").split()
    refused = tuple(program.facts.get("refused", "").split())
    if options.turns and not program.facts.get("whatever") and (refused or not program.grammar.any):
        return False  # it has options that write or run something
    if refused and any(is_refused(name, refused) for name, _ in options.given):
        return False
    words = program.facts.get("words", "").split()
    if words and arguments and arguments[0] not in words:
        return False
    return not options.unknown and not too_many and (not needed or options.has(*needed))


def is_refused(name: str, refused: tuple[str, ...]) -> bool:
    """Whether an option is one of ``refused``, longer than one, or short for one."""
    short = name.startswith("--") and len(name) > len("--") and any(one.startswith(name) for one in refused)
    return name.startswith(refused) or short


def through(call: Call, *, safe: bool, changes: bool = False, lines: bool = False) -> list[Step]:
    """A program in a pipe that gives what flows in, in another form. ``lines``: line by line."""
    group = call.pipe.take()
    for step in group:
        step.plain = False
        if not lines:
            step.window = None
        step.safe &= safe
        if changes:
            step.changes()
    if not group and not safe:
        call.pipe.taken = False
        return call.other(changes=changes)
    return group


def filter_(call: Call) -> list[Step]:
    """``sort``, ``wc``, ``cut``: what flows in, in another form; without a pipe they only tell something."""
    options, safe = harmless(call)
    writes = options.has("-o", "--output") and not safe
    if call.pipe.first:
        steps = call.other(safe=safe, changes=writes)
        steps[0].aside = safe
        return steps
    return through(call, safe=safe, changes=writes, lines=call.name in {"cut", "expand", "unexpand"})


def inert(call: Call) -> list[Step]:
    """Programs that tell something, by their subcommands where they have some."""
    program = call.program
    assert program is not None
    note = call.name
    if program.subcommands:
        options = parse_options(call.args, program.grammar)
        word = options.arguments[0] if options.arguments else Arg("")
        inner = program.subcommands.get(word)
        if inner is None or (options.unknown and not options.arguments):
            return call.other(note=f"{call.name} {word}".strip(), changes=bool(word))
        place = call.args.index(word)
        before = parse_options(call.args[:place], program.grammar)
        rest = parse_options(call.args[place + 1 :], inner.grammar)
        safe = call.trusted and not before.unknown and is_harmless(rest, inner)
        note = f"{call.name} {word}"
    else:
        _, safe = harmless(call)
    if call.pipe.first or not call.pipe.group:
        return call.other(safe=safe, note=note)
    return through(call, safe=safe)


def change(call: Call) -> list[Step]:
    """Programs that are there to change something."""
    return call.other(changes=True, note=" ".join([call.name, *call.args[:1]]) if call.args else call.name)


def unknown(call: Call) -> list[Step]:
    """Programs that nothing is known of."""
    if call.pipe.first or not call.pipe.group:
        return call.other()
    return through(call, safe=False)


def tee(call: Call) -> list[Step]:
    """``tee FILE``: what flows by is kept in a file."""
    assert call.program is not None
    options = parse_options(call.args, call.program.grammar)
    files = [file for file in options.arguments if not file.startswith("/dev/std")]
    group = call.pipe.take()
    if not group and files:
        return call.other(changes=True)
    for file in files:
        group[-1].goes_to(str(file))
    if options.unknown:
        for step in group:
            step.safe = False
    return group


def plumbing(call: Call) -> list[Step]:
    """What a shell needs around the work: no step, but the shell is another afterwards."""
    name, args, shell = call.name, call.args, call.shell
    places = [one for one in args if not one.startswith("-")]
    if name in {"cd", "pushd"}:
        if places or not args:
            shell.enter(str(places[0]) if places else "~")
        else:
            shell.cwd = None  # cd -
    elif name in {"source", "."}:
        return _source(call)
    elif name in {"echo", "printf"} and args[:1] != ["-v"]:
        return [_printed(call)]
    elif name == "read":
        for variable in args:
            shell.variables.pop(str(variable), None)
            shell.loop.pop(str(variable), None)
            call.walker.safe &= variable.startswith("-") or is_harmless_variable(variable, exported=False)
    elif name == "exec" and args:
        return call.again(args)
    elif name in {"mkdir", "trap", "hash", "stty"} and args:
        call.walker.safe = False
    elif name == "printf" and args[:1] == ["-v"]:
        variable = args[1] if len(args) > 1 else Arg("")
        shell.variables.pop(str(variable), None)
        call.walker.safe &= is_harmless_variable(variable, exported=False)
    return []


def _printed(call: Call) -> Step:
    """``echo WORDS``: beside the steps, but its line is in the output."""
    step = call.step(CallKind.OTHER, {"note": call.name}, safe=True)
    step.aside = True
    plain = call.name == "echo" and not any(word.open or "\\" in word for word in call.args)
    if plain and not (call.args and call.args[0].startswith("-")):
        step.prints = " ".join(call.args)
    return step


def _source(call: Call) -> list[Step]:
    """``source …/bin/activate`` says which environment is meant; any other file may do anything."""
    file = str(call.args[0]) if call.args else ""
    folder, _, name = file.rpartition("/bin/")
    if name == "activate":
        call.shell.venv = folder
    elif name.startswith("activate") and call.args[1:]:  # conda's
        call.shell.venv = str(call.args[1])
        call.walker.safe &= name == file
    else:
        call.walker.safe = False
    return []
