"""``git``: files of a revision, searches and listings; what else only tells; the rest changes something."""

from __future__ import annotations

import re
from dataclasses import replace

from memory.terms import CallKind
from transcripts.commands.call import Call
from transcripts.commands.effects import is_harmless
from transcripts.commands.model import Step
from transcripts.commands.options import Grammar, Options, parse_options
from transcripts.commands.reads import read_step
from transcripts.commands.searches import git_grep
from transcripts.commands.windows import Window
from transcripts.commands.words import Arg

_BEFORE = Grammar(
    bare=frozenset({"--no-pager", "-P", "--no-optional-locks", "--no-replace-objects"}),
    values=frozenset({"-C"}),
    stop=True,
)
_VALUED = ("-c", "--git-dir", "--work-tree", "--exec-path")
_LISTS_ONLY = {"branch", "tag", "remote", "stash", "worktree", "config", "submodule", "notes", "reflog"}
"""Subcommands that change something as soon as they are given the wrong word."""


def git(call: Call) -> list[Step]:
    """A git command."""
    before, args = _split(call.args)
    known = not before.unknown
    call.shell = call.shell.copy()
    for folder in before.values("-C"):
        call.shell.enter(str(folder))
    if not args:
        return call.other(safe=known)
    word, *rest = args
    call = replace(call, trusted=call.trusted and known)
    assert call.program is not None
    program = call.program.subcommands.get(word)
    if program is None:
        changes = word in call.program.facts["changes"].split()
        return call.other(changes=changes, note=f"git {word}")
    options = parse_options(rest, program.grammar)
    safe = call.trusted and is_harmless(options, program)
    if word == "grep":
        before_dashes = options.arguments[: len(options.arguments) - len(options.after or [])]
        return git_grep(call, options, program, before_dashes)
    if word in {"show", "cat-file"}:
        shown = [found for one in options.arguments if (found := re.fullmatch(r"([^:]+):(.+)", one))]
        if shown and len(shown) == len(options.arguments):
            return [read_step(call, one[2], Window(), safe=safe, extra={"rev": one[1]}) for one in shown]
    if word == "blame":
        return _blame(call, options, safe)
    if word in {"ls-files", "ls-tree"}:
        return _listed(call, str(word), options, safe)
    if word in _LISTS_ONLY and not safe:
        return call.other(changes=True, note=f"git {word}")
    return call.other(safe=safe, note=f"git {word}")


def _split(args: list[Arg]) -> tuple[Options, list[Arg]]:
    before = parse_options(args, _BEFORE)
    # An option that is not known may take a value: then the first word is not the subcommand.
    words = before.arguments
    if before.unknown and before.has(*_VALUED):
        place = 0
        while place < len(args) and args[place].startswith("-"):
            place += 2 if args[place] in {"-C", *_VALUED} else 1
        words = args[place:]
    return before, words


def _blame(call: Call, options: Options, safe: bool) -> list[Step]:
    """``git blame -L A,B FILE`` shows lines of a file."""
    lines = re.fullmatch(r"(\d+),(\+?)(\d+)", options.value("-L") or "")
    files = options.after or options.arguments[-1:]
    if not files or not lines:
        return call.other(safe=safe, note="git blame")
    start, end = int(lines[1]), int(lines[3])
    window = Window(start, start + end - 1 if lines[2] else end)
    rev = {"rev": str(options.arguments[0])} if len(options.arguments) > 1 else {}
    return [read_step(call, str(files[0]), window, safe=safe, extra=rev)]


def _listed(call: Call, word: str, options: Options, safe: bool) -> list[Step]:
    fields: dict[str, object] = {"tool": f"git {word}", "path": "."}
    places = [str(one) for one in options.arguments]
    if word == "ls-tree" and places:
        fields["rev"], places = places[0], places[1:]
    globs = [one for one in places if re.search(r"[*?\[]", one)]
    if globs:
        fields["glob"] = globs[0]
        if len(globs) > 1:
            fields["globs"] = globs
    others = [one for one in places if one not in globs]
    if others:
        fields["path"] = others[0]
    return [call.step(CallKind.LIST_SOURCE, fields, safe=safe)]
