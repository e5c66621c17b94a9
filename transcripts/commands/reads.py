"""Programs that show a file by line: ``cat``, ``head``, ``tail``, ``sed``, ``awk``, ``nl``, ``less``, …

Each says which lines it shows, of a file or of what flows in from one. What follows in the pipe narrows them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from memory.terms import CallKind
from transcripts.commands.call import Call
from transcripts.commands.effects import harmless, through
from transcripts.commands.model import Fields, Step
from transcripts.commands.options import Options
from transcripts.commands.scripts import Shown, awk_script, sed_script
from transcripts.commands.windows import Window
from transcripts.commands.words import Arg

_LISTED = {CallKind.READ_SOURCE, CallKind.SEARCH_SOURCE, CallKind.LIST_SOURCE, CallKind.GPU_STATUS}
MOST = 500
"""Files of one call that are followed."""


@dataclass
class Reading:
    """What a call shows: ``narrow`` one window into several; None where lines lose their numbers."""

    files: list[Arg]
    safe: bool
    narrow: Callable[[Window], list[Window]] | None = field(default=lambda window: [window])
    limit: int | None = None
    """Lines from the first (negative: to the last) that pass, whatever they are of."""
    extra: Fields = field(default_factory=dict)
    match: str | None = None
    """A search after all: lines with this pattern."""
    changes: bool = False
    plain: bool = True
    """The lines are shown as they are, or with numbers before them."""


def read(call: Call) -> list[Step]:
    """Steps of a reading program, or the steps that flow in, narrowed."""
    reading = _KINDS.get(call.name, _plain)(call)
    if reading.changes:
        return call.other(changes=True, note=f"{call.name} that may write")
    files = [file for file in reading.files if file != "-"]
    if not files and call.file is not None:
        files = [Arg(call.file)]
    if len(files) > MOST:
        return call.other()
    if files:
        return [step for file in files for step in _steps(call, reading, file)]
    if not call.pipe.first:
        return _narrowed(call, reading)
    if not reading.safe:
        return call.other()
    return []


def read_step(call: Call, file: str, window: Window, *, safe: bool, extra: Fields | None = None) -> Step:
    step = call.step(CallKind.READ_SOURCE, {"file": file}, safe=safe)
    show(step, window)
    step.fields.update(extra or {})
    return step


def show(step: Step, window: Window) -> None:
    step.window = window
    step.fields["start"], step.fields["end"] = window.start, window.end


def _steps(call: Call, reading: Reading, file: Arg) -> list[Step]:
    if reading.match is not None:
        fields = {"pattern": reading.match, "paths": [str(file)], "flags": [], "tool": call.name}
        return [call.step(CallKind.SEARCH_SOURCE, fields, safe=reading.safe)]
    windows = reading.narrow(Window()) if reading.narrow else [Window()]
    steps = [read_step(call, str(file), one, safe=reading.safe, extra=reading.extra) for one in windows]
    if reading.narrow is None or "start_pattern" in reading.extra:
        for step in steps:
            step.window = None
    for step in steps:
        step.plain = reading.plain
    return steps


def _narrowed(call: Call, reading: Reading) -> list[Step]:
    """What flows in, after this program."""
    if not call.pipe.group:
        return through(call, safe=reading.safe)
    group = call.pipe.take()
    found: list[Step] = []
    for step in group:
        step.safe &= reading.safe
        step.plain &= reading.plain
        if step.window is None or len(group) > 1:
            if reading.limit and step.kind in _LISTED:
                name = "limit" if reading.limit > 0 else "limit_tail"
                step.fields.setdefault(name, abs(reading.limit))
            step.window = None
            found.append(step)
        elif reading.narrow is None:
            step.window = None
            step.fields.update(reading.extra)
            found.append(step)
        else:
            for window in reading.narrow(step.window):
                made = replace(step, fields=dict(step.fields))
                show(made, window)
                found.append(made)
    return found


def _plain(call: Call) -> Reading:
    """``cat``, ``nl`` and what else shows every line; ``jq`` and ``tac`` show something else of it."""
    options, safe = harmless(call)
    assert call.program is not None
    files = options.arguments[call.program.facts.get("program", 0) :]
    if call.program.facts.get("plain", True):
        altered = options.has("-A", "-E", "-T", "-e", "-t", "-v", "-s", "--show-all")
        return Reading(files, safe, plain=not altered)
    return Reading(files, safe, narrow=None, plain=False)


def _head(call: Call) -> Reading:
    options, safe = harmless(call)
    if options.has("-c", "--bytes"):
        extra: Fields = {"bytes": _number(options, "-c", "--bytes")}
        return Reading(options.arguments, safe, narrow=None, extra=extra)
    count = _number(options, "-n", "--lines", "-#", default=10)
    if count is None:
        return Reading(options.arguments, safe, narrow=None)
    return Reading(options.arguments, safe, lambda window: [window.first(count)], limit=max(count, 0) or None)


def _tail(call: Call) -> Reading:
    options, safe = harmless(call)
    files = options.arguments
    if files and re.fullmatch(r"\+\d+", files[0]):  # tail +20 FILE, as BSD has it
        options.given.append(("-n", files.pop(0)))
    if options.has("-c", "--bytes"):
        extra: Fields = {"start": None, "bytes": _number(options, "-c", "--bytes")}
        return Reading(files, safe, narrow=None, extra=extra)
    written = options.value("-n", "--lines", "-#") or Arg("10")
    count = _number(options, "-n", "--lines", "-#", default=10)
    if count is None:
        return Reading(files, safe, narrow=None)
    if written.startswith("+"):
        return Reading(files, safe, lambda window: [window.part(max(count, 1), None)])
    return Reading(files, safe, lambda window: [window.last(abs(count))], limit=-abs(count) or None)


def _sed(call: Call) -> Reading:
    options, safe = harmless(call)
    edits = any(name in {"-i", "-I"} or name.startswith("--in-place") for name, _ in options.given)
    scripts = options.values("-e", "--expression")
    files = options.arguments
    if not scripts and files:
        scripts, files = files[:1], files[1:]
    quiet = options.has("-n", "--quiet", "--silent")
    shown = sed_script("\n".join(scripts), quiet=quiet)
    if not edits and shown is None and any(script.open for script in scripts):
        return Reading(files, safe=False, narrow=None)  # which lines, a variable says
    if edits or shown is None:
        return Reading(files, safe=False, changes=True)
    return _of(shown, files, safe and not any(script.open for script in scripts))


def _awk(call: Call) -> Reading:
    options, safe = harmless(call)
    variables = dict(value.split("=", 1) for value in options.values("-v", "--assign") if "=" in value)
    script, *files = options.arguments or [Arg("")]
    shown = awk_script(str(script), variables)
    if shown is None:
        return Reading(files, safe=False, changes=True)
    return _of(shown, files, safe and not script.open)


def _of(shown: Shown, files: list[Arg], safe: bool) -> Reading:
    if shown.spans:
        limit = shown.spans[0][1] if len(shown.spans) == 1 and shown.spans[0][0] == 1 else None
        return Reading(
            files,
            safe,
            lambda window: [window.part(start, end) for start, end in shown.spans],
            limit=limit,
            plain=shown.plain,
        )
    if shown.patterns is not None:
        first, last = shown.patterns
        extra: Fields = {"start": None, "end": None}
        if first is not None:
            extra["start_pattern"] = first
        if last is not None:
            extra["end_pattern"] = last
        return Reading(files, safe, narrow=None, extra=extra, plain=shown.plain)
    if shown.match is not None:
        return Reading(files, safe, narrow=None, match=shown.match)
    if shown.all:
        return Reading(files, safe, plain=shown.plain)
    return Reading(files, safe, narrow=None, plain=False)


def _less(call: Call) -> Reading:
    options, safe = harmless(call)
    files = [one for one in options.arguments if not one.startswith("+")]
    starts = [one[1:] for one in options.arguments if one.startswith("+")]
    start = next((int(one.rstrip("g")) for one in starts if re.fullmatch(r"\d+g?", one)), 1)
    return Reading(files, safe and len(starts) == (start > 1), lambda window: [window.part(start, None)])


def _bat(call: Call) -> Reading:
    options, safe = harmless(call)
    safe = safe and options.value("--paging") in {None, "never"}
    found = re.fullmatch(r"(\d*):?(\+?\d*)", options.value("-r", "--line-range") or "")
    if not found or not found[0]:
        return Reading(options.arguments, safe)
    start = int(found[1] or 1)
    if ":" not in found[0]:
        end: int | None = start
    elif found[2].startswith("+"):
        end = start + int(found[2][1:] or 0)
    else:
        end = int(found[2]) if found[2] else None
    return Reading(options.arguments, safe, lambda window: [window.part(start, end)])


_PERL_LINES = re.compile(
    r"\s*print\s+if\s+(?:\$\.\s*(?:==|>=)\s*)?(\d+)\s*(?:\.\.|&&\s*\$\.\s*<=)\s*(?:\$\.\s*==\s*)?(\d+)\s*;?\s*"
)


_PERL_FILE = re.compile(r"[\w./~*][\w./~*@%+,:=?-]*")


def _perl(call: Call) -> Reading:
    """Only ``perl -ne 'print if A..B' FILE``: any other program may do anything."""
    args = call.args
    found = _PERL_LINES.fullmatch(args[1]) if len(args) > 2 and args[0] == "-ne" else None
    if found is None:
        return Reading([], safe=False)
    start, end = int(found[1]), int(found[2])
    # What is no plain name perl takes for an option, or opens as a command or to write.
    plain = all(_PERL_FILE.fullmatch(word) and not word.open for word in args[2:])
    return Reading(args[2:], call.trusted and plain, lambda window: [window.part(start, end)])


def _number(options: Options, *names: str, default: int | None = None) -> int | None:
    value = options.value(*names)
    if value is None:
        return default
    return int(value) if re.fullmatch(r"[+-]?\d{1,9}", value) else None


_KINDS: dict[str, Callable[[Call], Reading]] = {
    "head": _head,
    "tail": _tail,
    **dict.fromkeys(("sed", "gsed"), _sed),
    **dict.fromkeys(("awk", "gawk", "mawk", "nawk"), _awk),
    **dict.fromkeys(("less", "more", "most"), _less),
    **dict.fromkeys(("bat", "batcat"), _bat),
    "perl": _perl,
}
