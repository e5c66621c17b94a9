"""Programs that list files, and what is done with each file of a list (``find -exec``, ``xargs``)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from memory.terms import CallKind
from transcripts.commands.call import Call, Pipe
from transcripts.commands.effects import harmless
from transcripts.commands.model import Fields, Step
from transcripts.commands.options import parse_options, programs
from transcripts.commands.words import Arg

_READS = {CallKind.READ_SOURCE, CallKind.LIST_SOURCE}


def list_(call: Call) -> list[Step]:
    """``ls``, ``tree``, ``find``, ``fd``."""
    if call.name == "find":
        return _find(call)
    options, safe = harmless(call)
    arguments = [str(one) for one in options.arguments]
    fields: Fields = {"tool": call.name}
    if call.name in {"fd", "fdfind"}:
        pattern, arguments = (arguments[0], arguments[1:]) if arguments else ("", [])
        if pattern not in {"", "."}:
            fields["pattern"] = pattern
        extension = options.value("-e", "--extension")
        if extension is not None:
            fields["glob"] = f"*.{extension}"
        arguments += [str(one) for one in options.values("--search-path")]
    if call.name == "tree" and (glob := options.value("-P")) is not None:
        fields["glob"] = str(glob)
    depth = options.value("-L", "--level", "-d", "--max-depth")
    if depth is not None and depth.isdigit():
        fields["maxdepth"] = int(depth)
    fields["path"] = arguments[0] if arguments else "."
    if len(arguments) > 1:
        fields["paths"] = arguments
    return [call.step(CallKind.LIST_SOURCE, fields, safe=safe)]


_VALUED = {
    *(
        "-type",
        "-size",
        "-mtime",
        "-mmin",
        "-atime",
        "-amin",
        "-ctime",
        "-cmin",
        "-mindepth",
        "-user",
        "-group",
    ),
    *("-uid", "-gid", "-perm", "-links", "-inum", "-regex", "-iregex", "-regextype", "-printf", "-samefile"),
    *("-lname", "-ilname", "-fstype", "-used", "-xtype", "-newer", "-anewer", "-cnewer"),
}
_BARE = {
    *(
        "-print",
        "-print0",
        "-ls",
        "-prune",
        "-quit",
        "-empty",
        "-readable",
        "-writable",
        "-executable",
        "-true",
    ),
    *("-false", "-depth", "-xdev", "-mount", "-follow", "-daystart", "-noleaf", "-nouser", "-nogroup", "-a"),
    *("-and", "-o", "-or", "(", ")", ",", "-E"),
}
_NAMES = {"-name", "-iname"}
_PATHS = {"-path", "-ipath", "-wholename", "-iwholename"}
_RUNS = {"-exec", "-execdir", "-ok", "-okdir"}


@dataclass
class _Found:
    fields: Fields = field(default_factory=dict)
    globs: list[str] = field(default_factory=list)
    runs: list[list[Arg]] = field(default_factory=list)
    changes: bool = False
    safe: bool = True


def _find(call: Call) -> list[Step]:
    args = list(call.args)
    roots: list[str] = []
    safe = call.trusted
    while args and (not args[0].startswith(("-", "(", "!")) or args[0] in {"-H", "-L", "-P"}):
        word = args.pop(0)
        safe = safe and not word.unsure and not (word.open and word.startswith("$"))
        if not word.startswith("-"):
            roots.append(str(word))
    found = _expression(args)
    fields: Fields = {"path": roots[0] if roots else ".", "tool": call.name, **found.fields}
    if len(roots) > 1:
        fields["paths"] = roots
    if found.globs:
        fields["glob"] = found.globs[0]
    if len(found.globs) > 1:
        fields["globs"] = found.globs
    step = call.step(CallKind.LIST_SOURCE, fields, safe=safe and found.safe)
    if found.changes:
        step.changes()
    steps = [step]
    for run in found.runs:
        steps = applied(call, run, steps)
    return steps


def _expression(args: list[Arg]) -> _Found:
    found = _Found()
    negated = False
    while args:
        word = args.pop(0)
        if word in {"!", "-not"}:
            negated = True
            continue
        if word in _NAMES and args:
            glob = str(args.pop(0))
            if negated:
                found.fields.setdefault("exclude", []).append(glob)
            else:
                found.globs.append(glob)
        elif word in _PATHS and args:
            name = "exclude_paths" if negated else "path_globs"
            found.fields.setdefault(name, []).append(str(args.pop(0)))
        elif word == "-maxdepth" and args:
            depth = str(args.pop(0))
            found.fields["maxdepth"] = int(depth) if depth.isdigit() else depth
        elif word in _RUNS:
            found.runs.append(_until_end(args))
        elif word == "-prune":
            for name, into in (("path_globs", "exclude_paths"), ("globs", "exclude")):
                held = found.globs if name == "globs" else found.fields.get(name, [])
                if held and args[:1] != ["-print"]:
                    found.fields.setdefault(into, []).append(held.pop())
                    break
        elif word == "-delete":
            found.changes = True
        elif word.startswith(("-fprint", "-fls")):
            found.changes = True
            args[:1] = []
        elif word == "-type" and args:
            found.fields["type"] = str(args.pop(0))
        elif word in _VALUED or word.startswith("-newer"):
            args[:1] = []
        elif word not in _BARE and not (word.startswith("-O") and word[2:].isdigit()):
            found.safe = False
        negated = False
    paths = found.fields.pop("path_globs", [])
    if paths:
        found.fields["path_glob"] = paths[0]
    if len(paths) > 1:
        found.fields["path_globs"] = paths
    return found


def _until_end(args: list[Arg]) -> list[Arg]:
    taken: list[Arg] = []
    while args:
        word = args.pop(0)
        if word == ";" or (word == "+" and taken and taken[-1] == "{}"):
            break
        taken.append(word)
    return taken


_SOME = [Arg("w/1"), Arg("w/2")]
"""Names of files, to try what a program does with them: one that it takes for its own program writes."""


def _is_safe_with_names(call: Call, args: list[Arg]) -> bool:
    """Whether a program is known to read and nothing else when it is given names."""
    holes = [Arg(word.replace("{}", _SOME[0]), word.unsure, word.open) for word in args]
    tried = type(call.walker)()
    inner = replace(call, args=holes, shell=call.shell.copy(), pipe=Pipe(), text=None, walker=tried)
    steps = tried.run(inner)
    return tried.safe and all(step.safe for step in steps)


def applied(call: Call, args: list[Arg], listing: list[Step], more: Sequence[Arg] = ()) -> list[Step]:
    """What is done with each file of a list: a search of them is a search of the place that was listed.

    ``more``: names that follow ``args``.
    """
    if not _is_safe_with_names(call, [*args, *more]):
        call.walker.safe = False
    inner = replace(call, args=args, shell=call.shell.copy(), pipe=Pipe(), text=None, file=None)
    inner.shell.env = dict(call.shell.env)
    steps = call.walker.run(inner)
    first = listing[-1] if listing else None
    if first is not None and len(steps) == 1 and steps[0].kind is CallKind.SEARCH_SOURCE:
        return [*listing[:-1], *_searched(first, steps[0])]
    if first is None:
        return steps
    for step in steps:
        if step.kind in _READS or (step.kind is CallKind.OTHER and step.safe):
            first.safe &= step.safe
        else:
            listing = [*listing, step]
    return listing


def _searched(listing: Step, search: Step) -> list[Step]:
    fields = search.fields
    if listing.kind is CallKind.SEARCH_SOURCE:  # grep -l … | xargs grep …
        fields["paths"] = list(listing.fields["paths"])
        return [listing, search]
    if listing.kind is not CallKind.LIST_SOURCE:
        return [listing, search]
    fields["paths"] = listing.fields.get("paths") or [listing.fields["path"]]
    globs = listing.fields.get("globs") or [value for value in [listing.fields.get("glob")] if value]
    if globs:
        fields["include"] = [*fields.get("include", []), *globs]
    for name in ("path_glob", "maxdepth", "limit"):
        if name in listing.fields:
            fields.setdefault(name if name != "limit" else "files_limit", listing.fields[name])
    search.safe &= listing.safe
    return [search]


def _gives_names(step: Step) -> bool:
    """Whether a step gives names of files, rather than what stands in them."""
    flags = set(step.fields.get("flags", ()))
    names = flags & {"-l", "-L", "--files-with-matches", "--files-without-match", "--name-only"}
    return step.kind is CallKind.LIST_SOURCE or (step.kind is CallKind.SEARCH_SOURCE and bool(names))


def xargs(call: Call) -> list[Step]:
    """``… | xargs COMMAND``."""
    assert call.program is not None
    options = parse_options(call.args, call.program.grammar)
    group = call.pipe.take()
    named = bool(group) and all(_gives_names(step) for step in group)
    program = programs().get(options.arguments[0]) if options.arguments else None
    # Names of files are no options; whatever else flows in may be one, to a program that has dangerous ones.
    if options.unknown or not (named or (program is not None and program.facts.get("whatever"))):
        call.walker.safe = False
    if not options.arguments:
        return group
    placed = options.has("-I", "-i", "--replace")
    return applied(call, options.arguments, group, () if placed else _SOME)
