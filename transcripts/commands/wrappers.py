"""Programs that run another: undone one by one, each leaving a field or two behind."""

from __future__ import annotations

import re

from transcripts.commands.call import Call
from transcripts.commands.effects import harmless
from transcripts.commands.model import Step
from transcripts.commands.options import Grammar, Options, parse_options
from transcripts.commands.shell import Shell, is_harmless_variable
from transcripts.commands.words import Arg

_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_PARAMETER = re.compile(r"\$(\d)|\$\{(\d)\}")
_PLAIN = re.compile(r"[\w./:=@%+,~-]{1,200}")
LONGEST = 10_000
"""Characters of a script that its parameters are put into."""
_DURATION = re.compile(r"(\d+(?:\.\d+)?)([smhd]?)")
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_SSH_OPTIONS = {
    *("stricthostkeychecking", "connecttimeout", "batchmode", "userknownhostsfile", "loglevel", "requesttty"),
    *("serveraliveinterval", "serveralivecountmax", "port", "user", "identityfile", "identitiesonly"),
    *("passwordauthentication", "preferredauthentications", "controlmaster", "controlpersist", "compression"),
}
"""Options of ssh that run nothing here."""
_ENTER_KEYS = {"enter", "c-m", "kpenter", "c-j"}
_KEYS = re.compile(
    r"(?:C|M|S)-.|Enter|ENTER|enter|KPEnter|Escape|Space|Tab|BSpace|Up|Down|Left|Right|Home|End|Page\w+|F\d+"
)


def wrapper(call: Call) -> list[Step]:
    """A wrapper as ``programs.toml`` describes it: its options, and what stands before the command."""
    program = call.program
    assert program is not None
    facts = program.facts
    args = call.args
    if "subcommand" in facts:
        words = facts["subcommand"].split()
        place = next((number for number, word in enumerate(args) if word in words), None)
        if place is None:
            return call.other()
        args = args[:place] + args[place + 1 :]
    options = parse_options(args, program.grammar)
    shell = call.shell.copy()
    call.trusted &= not options.unknown and not facts.get("changes")
    if options.has(*facts.get("tells", "").split()):
        return call.other(safe=call.trusted)
    for name, where in facts.get("where", {}).items():
        if (value := options.value(*name.split())) is not None:
            shell.where[where] = str(value)
    shell.where.update(facts.get("says", {}))
    if (folder := options.value(*facts.get("folder", "").split())) is not None:
        shell.enter(str(folder))
    shell.background |= bool(facts.get("background"))
    rest = options.arguments
    if "takes" in facts and rest:
        shell.where[facts["takes"]] = seconds(str(rest[0]))
        rest = rest[1:]
    rest = rest[facts.get("drop", 0) :]
    while facts.get("assigns") and rest and (found := _ASSIGNMENT.fullmatch(rest[0])):
        shell.env[found[1]] = found[2]
        call.trusted &= is_harmless_variable(found[1], exported=True)
        rest = rest[1:]
    if not rest:
        return call.other(safe=call.trusted and call.name in {"env", "time"})
    if facts.get("script"):
        call.trusted &= not any(word.open for word in rest)
        return safely(call, " ".join(rest), shell)
    if facts.get("module") and options.has("-m", "--module"):
        rest = [Arg("python"), Arg("-m"), *rest]
    elif facts.get("module") and rest[0].endswith(".py"):
        rest = [Arg("python"), *rest]
    return call.again(rest, shell)


def seconds(written: str) -> int | float | str:
    """``5m`` as a number of seconds; what is none as it is written."""
    found = _DURATION.fullmatch(written)
    if not found:
        return written
    value = float(found[1]) * _SECONDS[found[2]]
    return int(value) if value.is_integer() else value


def shell(call: Call) -> list[Step]:
    """``bash -lc SCRIPT``, ``bash <<EOF``, ``… | bash``, ``bash run.sh``."""
    args = list(call.args)
    command = False
    while args and args[0].startswith(("-", "+")) and args[0] != "-":
        word = args.pop(0)
        if word in {"--rcfile", "--init-file", "-O", "+O"}:
            args[:1] = []
            call.trusted = False
        elif not word.startswith("--"):
            command |= "c" in word[1:]
            if word.endswith("o"):
                args[:1] = []
        elif word == "--version":
            return call.other(safe=call.trusted)
    if command and args:
        script, *given = args
        call.trusted &= not script.open
        if script.startswith("$"):
            return call.other()
        inner = call.shell.copy()
        inner.depth += 1
        # Only plain values are put in: a quote or a comment sign there would be no part of the script.
        names = {str(number): str(one) for number, one in enumerate(given) if _PLAIN.fullmatch(one)}
        if given and len(script) <= LONGEST:
            script = Arg(_PARAMETER.sub(lambda found: names.get(found[1] or found[2], found[0]), script))
        return safely(call, script, inner)
    if args and args[0] not in {"-", "/dev/stdin"}:
        return call.other(note=f"runs {args[0]}")
    if call.text is not None:
        inner = call.shell.copy()
        inner.depth += 1
        return safely(call, call.text, inner)
    # What flows in is run: nobody knows what it is.
    return call.other(changes=not call.pipe.first)


def safely(call: Call, text: str, inner: Shell) -> list[Step]:
    """The steps of a script; none of them is known to be harmless where the wrapper is not."""
    steps = call.script(text, inner)
    if not call.trusted:
        for step in steps:
            step.safe = False
        call.walker.safe = False
    return steps


def evaluate(call: Call) -> list[Step]:
    """``eval WORDS``: the words are a script."""
    if any(word.open for word in call.args):
        return call.other()
    call.shell.depth += 1
    return call.script(" ".join(call.args), call.shell)


_JUMP = re.compile(r"[\w.@:,/\[\]-]+")


def ssh(call: Call) -> list[Step]:
    """``ssh [OPTIONS] HOST COMMAND…``: the words, joined, are a script for the shell over there."""
    options, safe = harmless(call)
    call.trusted = safe and all(
        value.partition("=")[0].split(" ")[0].lower() in _SSH_OPTIONS for value in options.values("-o")
    )
    # These become part of a command for the shell.
    call.trusted &= all(_JUMP.fullmatch(value) for value in options.values("-J"))
    if not options.arguments:
        return call.other()
    host, *words = options.arguments
    if words and words[0].startswith("-"):  # options may follow the host, up to --
        more = parse_options(words, call.program.grammar) if call.program else Options()
        options.given += more.given
        call.trusted &= not more.unknown
        words = more.arguments
    user = options.value("-l")
    port = options.value("-p")
    inner = call.shell.inner(
        host=f"{user}@{host}" if user and "@" not in host else str(host),
        ssh_port=int(port) if port is not None and port.isdigit() else port,
    )
    inner.cwd, inner.venv, inner.env, inner.loop = None, None, {}, dict(call.shell.loop)
    if words:
        inner.background |= options.has("-f")
        text = " ".join(words)
        call.trusted &= not any(word.open for word in words)
        if call.text is not None and re.fullmatch(r"\s*(?:/bin/)?(?:ba|z|da)?sh(?:\s+-[ls]+)*\s*", text):
            text = call.text
        return safely(call, text, inner)
    if call.text is not None:
        return safely(call, call.text, inner)
    return call.other(changes=not call.pipe.first)


_NEW = {
    "new-session",
    "new",
    "new-window",
    "neww",
    "split-window",
    "splitw",
    "respawn-pane",
    "respawn-window",
}
_TMUX_NEW = Grammar(
    bare=frozenset("-" + letter for letter in "dADEPXabkhvSZfI"),
    values=frozenset("-" + letter for letter in "ceFnstxylp"),
    stop=True,
)
_TMUX_KEYS = Grammar(
    bare=frozenset("-" + letter for letter in "lRMXHFK"), values=frozenset("-" + letter for letter in "tN")
)


def tmux(call: Call) -> list[Step]:
    """``tmux send-keys -t S 'COMMAND' Enter`` and ``tmux new-session -d -s S 'COMMAND'``."""
    args = list(call.args)
    while args and args[0] in {"-L", "-S", "-f"}:
        args = args[2:]
    word, args = (str(args[0]), args[1:]) if args else ("", [])
    call.trusted = False
    if word in {"send-keys", "send"}:
        options = parse_options(args, _TMUX_KEYS)
        typed = [key for key in options.arguments if not _KEYS.fullmatch(key)]
        if not typed or not any(key.lower() in _ENTER_KEYS for key in options.arguments):
            return call.other(changes=True, note="tmux send-keys")
        return _elsewhere(call, options, " ".join(typed), "tmux")
    if word in _NEW:
        options = parse_options(args, _TMUX_NEW)
        if not options.arguments:
            call.walker.safe = False
            return []
        return _elsewhere(call, options, " ".join(options.arguments), "tmux")
    from transcripts.commands.effects import inert

    # `#(…)` in a format is run; what follows a word that ends with `;` is another command.
    call.trusted = not any(one.open or "#(" in one or one.endswith(";") for one in call.args)
    return inert(call)


def _elsewhere(call: Call, options: Options, text: str, name: str) -> list[Step]:
    target = options.value("-t") or options.value("-s") or options.value("-n")
    inner = call.shell.inner(**{name: str(target) if target is not None else None})
    inner.background = True
    if (folder := options.value("-c")) is not None:
        inner.enter(str(folder))
    return safely(call, text, inner)


_ENTER = re.compile(r"(?:\\n|\\r|\^M|\r|\n){1,3}$")
_SCREEN = Grammar(
    bare=frozenset("-" + letter for letter in "dmDrRxALUaqi"),
    values=frozenset({"-S", "-p", "-t", "-c", "-h", "-s", "-T", "-X"}),
    stop=True,
)


def screen(call: Call) -> list[Step]:
    """``screen -dmS NAME COMMAND…`` and ``screen -S NAME -X stuff 'COMMAND\\n'``."""
    options = parse_options(call.args, _SCREEN)
    call.trusted = False
    inner = call.shell.inner(screen=options.value("-S"))
    inner.background = True
    if options.value("-X") == "stuff" and options.arguments:
        return safely(call, _ENTER.sub("", options.arguments[0]), inner)
    if not options.arguments or options.has("-X"):
        return call.other(changes=True)
    inner.depth += 1
    return call.again(options.arguments, inner)
