"""Programs that search files for a pattern: ``grep`` and its kin, ``rg``, ``ag``, ``ack``, ``git grep``."""

from __future__ import annotations

from collections.abc import Sequence

from memory.terms import CallKind
from transcripts.commands.call import Call
from transcripts.commands.effects import harmless, is_harmless, through
from transcripts.commands.model import Fields, Step
from transcripts.commands.options import Options, Program
from transcripts.commands.words import Arg

_INCLUDE = ("--include", "-g", "--glob", "--iglob")
_EXCLUDE = ("--exclude", "--ignore")
_COUNTS = {
    "context_after": ("-A", "--after-context", "--after"),
    "context_before": ("-B", "--before-context", "--before"),
    "context": ("-C", "--context", "-#"),
    "max_count": ("-m", "--max-count"),
}
_LEFT_OUT = {*_INCLUDE[:1], *_INCLUDE[2:], *_EXCLUDE, "--exclude-dir", "--color", "--colour", "-#"}
"""Long options that are fields of their own, or only colour."""


def search(call: Call) -> list[Step]:
    """A search of files; in a pipe, of what flows in: a read becomes a search, and a search has filters."""
    assert call.program is not None
    options, safe = harmless(call)
    if options.has("--files") and call.name == "rg":
        return _files(call, options, safe)
    if call.name in {"ag", "ack", "ack-grep"} and options.has("-g"):
        safe = False
    pattern, patterns, paths = _parts(options)
    if not paths and call.file is not None:
        paths = [call.file]
    if not paths and not call.pipe.first:
        return _within(call, options, pattern, safe)
    recursive = call.program.facts.get("recursive") or options.has(
        "-r", "-R", "--recursive", "--dereference-recursive"
    )
    if not paths and recursive:
        paths = ["."]
    fields = found_fields(call.name, options, pattern, patterns, paths)
    return [call.step(CallKind.SEARCH_SOURCE, fields, safe=safe)]


def found_fields(
    tool: str, options: Options, pattern: str | None, patterns: Sequence[str], paths: Sequence[str]
) -> Fields:
    """The fields of a search, from its options."""
    fields: Fields = {"pattern": pattern, "paths": list(paths), "flags": flags(options), "tool": tool}
    if len(patterns) > 1:
        fields["patterns"] = list(patterns)
    include = [str(one) for one in options.values(*_INCLUDE)]
    exclude = [one[1:] for one in include if one.startswith("!")]
    exclude += [str(one) for one in options.values(*_EXCLUDE)]
    fields["include"] = [one for one in include if not one.startswith("!")]
    fields["exclude"] = exclude
    fields["exclude_dir"] = [str(one) for one in options.values("--exclude-dir", "--ignore-dir")]
    fields["type"] = [str(one) for one in options.values("-t", "--type")] if tool == "rg" else []
    for name, options_of in _COUNTS.items():
        value = options.value(*options_of)
        if value is not None and value.isdigit():
            fields[name] = int(value)
    if "context" in fields:
        fields = {"context_before": fields["context"], "context_after": fields["context"], **fields}
    return {name: value for name, value in fields.items() if value != [] or name in {"paths", "flags"}}


def flags(options: Options) -> list[str]:
    """The options without their values, each once, sorted; those that are fields of their own left out."""
    return sorted({name for name, _ in options.given} - _LEFT_OUT)


def _parts(options: Options) -> tuple[str | None, list[str], list[str]]:
    """The pattern, all patterns, the paths."""
    patterns = [str(one) for one in options.values("-e", "--regexp")]
    arguments = [str(one) for one in options.arguments]
    if not patterns and not options.has("-f", "--file"):
        patterns, arguments = arguments[:1], arguments[1:]
    return (patterns[0] if patterns else None), patterns, [one for one in arguments if one != "-"]


def _within(call: Call, options: Options, pattern: str | None, safe: bool) -> list[Step]:
    """A search of what flows in."""
    group = call.pipe.group
    if group and all(step.kind is CallKind.READ_SOURCE for step in group):
        call.pipe.take()
        first = group[0]
        fields = {name: value for name, value in first.fields.items() if name not in {"file", "start", "end"}}
        fields.update(_lines(first))
        paths = list(dict.fromkeys(step.fields["file"] for step in group))
        fields.update(found_fields(call.name, options, pattern, [], paths))
        safe = safe and all(step.safe for step in group)
        return [Step(CallKind.SEARCH_SOURCE, fields, safe=safe, plain=all(step.plain for step in group))]
    plain = [step.plain for step in group]
    group = through(call, safe=safe)
    for step, before in zip(group, plain, strict=False):
        step.plain = before
    inverted = options.has("-v", "--invert-match")
    for step in group:
        if step.kind in {CallKind.SEARCH_SOURCE, CallKind.LIST_SOURCE} and pattern is not None:
            step.fields.setdefault("exclude_filters" if inverted else "filters", []).append(pattern)
    return group


def _lines(step: Step) -> Fields:
    """The lines of the file that are searched, where they are not all."""
    start, end = step.fields.get("start"), step.fields.get("end")
    if end is None and isinstance(start, int) and start < 0:
        return {"read_tail": -start}
    if start == 1 and isinstance(end, int):
        return {"read_head": end}
    return {} if start in {1, None} and end is None else {"start": start, "end": end}


def _files(call: Call, options: Options, safe: bool) -> list[Step]:
    """``rg --files``: a listing."""
    fields: Fields = {"path": str(options.arguments[0]) if options.arguments else ".", "tool": call.name}
    globs = [str(one) for one in options.values("-g", "--glob", "--iglob")]
    if globs:
        fields["glob"] = globs[0]
    if len(globs) > 1:
        fields["globs"] = globs
    return [call.step(CallKind.LIST_SOURCE, fields, safe=safe)]


def git_grep(call: Call, options: Options, program: Program, revisions: list[Arg]) -> list[Step]:
    """``git grep PATTERN [REV…] [-- PATH…]``. ``revisions``: the arguments that stand before ``--``."""
    patterns = [str(one) for one in options.values("-e", "--regexp")]
    rest = [str(one) for one in revisions]
    if not patterns and rest:
        patterns, rest = rest[:1], rest[1:]
    paths = [str(one) for one in options.after or []]
    if options.after is None:
        # Without `--` a path and a revision look alike; a path has a dot or a slash, or there are several.
        paths = [one for one in rest if "." in one or "/" in one or one.startswith("*")]
        rest = [one for one in rest if one not in paths]
    fields = found_fields("git grep", options, patterns[0] if patterns else None, patterns, paths or ["."])
    if rest:
        fields["rev"] = rest[0]
    return [call.step(CallKind.SEARCH_SOURCE, fields, safe=call.trusted and is_harmless(options, program))]
