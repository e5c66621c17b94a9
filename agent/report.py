"""The answer on one screen: 24 lines of 80 columns, drawn from the answer alone.

A line is a list of ``(text, style)``; styles are rich's, and whoever draws may leave them out. All text
of others goes through :mod:`agent.text`.
"""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Sequence

from agent.reasons import NAMES, conditions, deciding, first_line, reason, where
from agent.text import shorten, squeeze
from memory.vocabulary import Answer, Evidence, Level, NotRun, Row, Target, Verdict

WIDTH = 80
HEIGHT = 24
MOST_ROWS = 8

Line = list[tuple[str, str]]

_SAID = (Verdict.NO_STATIC_OBSTACLE, Verdict.REROUTED, Verdict.BLOCKED)

STYLES = {
    Verdict.BLOCKED: "red",
    Verdict.REROUTED: "yellow",
    Verdict.NO_STATIC_OBSTACLE: "green",
    Verdict.NOT_APPLICABLE: "dim",
    Verdict.UNKNOWN: "dim",
}


def screen(
    answer: Answer, *, everything: bool = False, width: int = WIDTH, height: int = HEIGHT
) -> list[Line]:
    """The answer as lines of at most ``width`` columns; at most ``height`` of them unless ``everything``."""
    head = _head(answer, width, everything)
    tail = _tail(answer, width, everything)
    if everything:
        rows = _everything(answer, width)
    else:
        # The last line stays free for the prompt.
        rows = _chosen_rows(answer, width, height - 1 - len(head) - len(tail))
    return [*head, *rows, *tail]


def understood(target: Target) -> str:
    """What was understood, in one line."""
    gpus = None
    if target.gpu_count is not None:
        gpus = f"{target.gpu_count} × {target.gpu or 'GPU'}"
    elif target.gpu:
        gpus = target.gpu
    parts = [target.model or "any model", target.quantisation or "any quantisation", target.arch, gpus]
    return " · ".join(squeeze(part) for part in parts if part)


def packages(answer: Answer) -> str:
    """Exact versions, the engine first."""
    names = sorted(answer.environment.packages, key=lambda name: (name != answer.target.engine, name))
    return ", ".join(squeeze(f"{name} {answer.environment.packages[name]}") for name in names)


def surprising(row: Row) -> bool:
    """The first gate lets it through and a deeper one does not: what a person would try and must not."""
    return (
        row.verdict is Verdict.BLOCKED
        and row.first_gate is not None
        and row.first_gate.verdict is not row.verdict
    )


def is_recommended(answer: Answer, row: Row) -> bool:
    if answer.recommendation is None:
        return False
    return any(
        note.startswith(f"{row.component}: {row.backend},") for note in answer.recommendation.ranked_by
    )


def matter(answer: Answer) -> list[list[Row]]:
    """The rows that matter, most important first: the candidates chosen, then the traps, then the other
    candidates, then what runs something else or is refused; components take turns. Backends of which the
    same lines say the same stand together."""
    groups: dict[tuple[object, ...], list[Row]] = {}
    for row in answer.backends:
        rank = _rank(answer, row)
        if rank is not None:
            groups.setdefault((rank, *_says(row), row.backend if rank == 0 else ""), []).append(row)
    turn: Counter[tuple[int, str]] = Counter()
    ranked = []
    for group in groups.values():
        place = (_rank(answer, group[0]) or 0, group[0].component)
        turn[place] += 1
        ranked.append((place[0], turn[place], group))
    ranked.sort(key=lambda item: item[:2])
    return [group for _, _, group in ranked]


def _says(row: Row) -> tuple[object, ...]:
    lines = tuple((one.file, one.line) for one in row.evidence)
    facts = tuple((one.fact, one.op, repr(one.value)) for one in row.conditions)
    return row.component, row.verdict, row.because, row.runs_instead, facts, lines


def _rank(answer: Answer, row: Row) -> int | None:
    if is_recommended(answer, row):
        return 0
    if surprising(row):
        return 1
    order = {Verdict.NO_STATIC_OBSTACLE: 2, Verdict.REROUTED: 3, Verdict.BLOCKED: 4}
    return order.get(row.verdict)


def _head(answer: Answer, width: int, everything: bool) -> list[Line]:
    lines: list[Line] = [[(text, "bold")] for text in _wrap(understood(answer.target), width, 2)]
    lines += [[(text, "")] for text in _wrap(packages(answer), width, 2)]
    if answer.target.assumed:
        text = "assumed: " + "; ".join(answer.target.assumed)
        lines += [[(one, "dim")] for one in _wrap(text, width, 99 if everything else 2)]
    return lines


def _chosen_rows(answer: Answer, width: int, room: int) -> list[Line]:
    """As many of the rows that matter as ``room`` lines take, and the counts of the rest."""
    shown: list[list[Row]] = []
    counts = _counts(answer, [])
    for group in matter(answer)[:MOST_ROWS]:
        more = [*shown, group]
        counts_now = _counts(answer, [row for one in more for row in one])
        if sum(len(_row(answer, one, width)) for one in more) + len(counts_now) > room:
            continue
        shown, counts = more, counts_now
    shown.sort(key=lambda group: (_component_at(answer, group[0]), _rank(answer, group[0]) or 0))
    lines = [line for group in shown for line in _row(answer, group, width)]
    return lines + [[(shorten(text, width), "dim")] for text in counts]


def _everything(answer: Answer, width: int) -> list[Line]:
    rows = sorted(
        answer.backends,
        key=lambda row: (_component_at(answer, row), 9 if (rank := _rank(answer, row)) is None else rank),
    )
    lines = [line for row in rows for line in _row(answer, [row], width)]
    return [*lines, [(f"Every line of evidence: agent report {answer.transcript} --markdown", "dim")]]


def _component_at(answer: Answer, row: Row) -> int:
    return list(dict.fromkeys(one.component for one in answer.backends)).index(row.component)


def _row(answer: Answer, group: Sequence[Row], width: int) -> list[Line]:
    """One line with the verdict and why; a second where a condition or lines of source are to be read."""
    row = group[0]
    mark = {Verdict.NO_STATIC_OBSTACLE: "·", Verdict.BLOCKED: "✗", Verdict.REROUTED: "→"}.get(
        row.verdict, " "
    )
    mark = "▸" if is_recommended(answer, row) else mark
    widths = [
        max(len(squeeze(getattr(one, name))) for one in answer.backends) for name in ("component", "backend")
    ]
    columns = min(widths[0], 16), min(max(widths[1], 22), 24)
    backends = shorten(", ".join(one.backend for one in group), columns[1])
    start = f"{mark} {squeeze(row.component):{columns[0]}} {backends:{columns[1]}} "
    verdict, style = NAMES[row.verdict], STYLES[row.verdict]
    free = width - len(start) - len(verdict) - 2
    if free < 12:
        return [[(shorten(start + verdict, width), style)]]
    place = deciding(row)
    below = ""
    if row.verdict is Verdict.NO_STATIC_OBSTACLE:
        beside = path_of(place, free) if place and not row.conditions else ""
        below = f"if {conditions(row)}" if row.conditions else ""
    elif row.verdict is Verdict.BLOCKED and place is not None:
        beside = f"{row.because or 'refused'}{' (first gate: yes)' if surprising(row) else ''}"
        below = first_line(place)
    elif row.verdict is Verdict.NOT_APPLICABLE and row.because is None:
        beside = ""
    else:
        beside = reason(row)
    first: Line = [
        (start, "bold" if mark == "▸" else ""),
        (verdict, style),
        (f"  {shorten(beside, free)}", ""),
    ]
    if not below:
        return [first]
    room = width - 6
    path = path_of(place, max(room - len(squeeze(below)), 30)) if place else ""
    return [first, [("    ", ""), (path, "dim"), ("  ", ""), (shorten(below, room - len(path)), "")]]


def path_of(place: Evidence, room: int) -> str:
    """A path cut at its front: the file's name and the line are what is looked for."""
    path = squeeze(where(place))
    return path if len(path) <= room else "…" + path[-(room - 1) :]


def _counts(answer: Answer, shown: Sequence[Row]) -> list[str]:
    """The rows that are not shown, counted: elsewhere or not applicable, unknown, and the rest."""
    rest = [row for row in answer.backends if not any(row is one for one in shown)]
    by_verdict = Counter(row.verdict for row in rest)
    lines = []
    if number := by_verdict[Verdict.NOT_APPLICABLE]:
        lines.append(f"{number} of other vendors, for other models or not reached under this scenario")
    if number := by_verdict[Verdict.UNKNOWN]:
        lines.append(f"{number} unknown, the source read does not decide: {_named(answer, rest)}")
    more = "All rows"
    if number := sum(by_verdict[verdict] for verdict in _SAID):
        against = [f"{by_verdict[one]} {NAMES[one]}" for one in _SAID[1:] if by_verdict[one]]
        more = f"{number} more" + (f" ({', '.join(against)})" if against else "")
    lines.append(f"{more}: agent report {answer.transcript} --all")
    return lines


def _named(answer: Answer, rest: Sequence[Row]) -> str:
    """The unknown ones by component; a component of which nothing is known only by its name."""
    unknown = [row for row in rest if row.verdict is Verdict.UNKNOWN]
    parts = []
    for component in dict.fromkeys(row.component for row in unknown):
        names = [row.backend for row in unknown if row.component == component]
        every = len(names) == sum(row.component == component for row in answer.backends)
        parts.append(f"all of {component}" if every else f"{component} {', '.join(names)}")
    return "; ".join(parts)


def _tail(answer: Answer, width: int, everything: bool) -> list[Line]:
    lines: list[Line] = []
    found = answer.recommendation
    if found is not None:
        trust = "Tested:" if found.tested else "Candidate, untested:"
        lines.append([(trust, "bold green" if found.tested else "bold yellow")])
        lines += [[(text, "bold")] for text in command_lines(found.command, width)]
        if everything:
            lines += [[(text, "")] for note in found.ranked_by for text in _wrap(f"because {note}", width, 9)]
    else:
        lines.append([("No backend can be recommended.", "bold red")])
    # What reading left open is counted with the rows already.
    untested = [
        step
        for step in answer.not_run
        if (step.command is None or _is_launch(answer, step))
        and (everything or found is None or step.level is not Level.STATIC)
    ]
    what = "; ".join(step.what for step in untested)
    if what:
        lines += [[(text, "")] for text in _wrap(f"Not tested: {what}", width, 9 if everything else 2)]
    following = [step for step in answer.not_run if step.command and not _is_launch(answer, step)]
    for step in following if everything else following[:1]:
        command = squeeze(step.command or "")
        if len(command) + len("Next: ") <= width and not everything:
            lines.append([("Next: ", ""), (command, "bold")])
        else:
            lines.append([(shorten(f"Next, {step.what}:", width), "")])
            lines += [[(text, "bold")] for text in command_lines(command, width)]
    return lines


def _is_launch(answer: Answer, step: NotRun) -> bool:
    return answer.recommendation is not None and step.command == answer.recommendation.command


def command_lines(command: str, width: int = WIDTH) -> list[str]:
    """A command on lines of at most ``width`` that a shell takes as one (options stay with their values)."""
    words = squeeze(command).split(" ")
    parts: list[str] = []
    for word in words:
        pair = f"{parts[-1]} {word}" if parts else word
        if (
            len(pair) < width - 6
            and pair.startswith("-")
            and " " not in parts[-1]
            and not word.startswith("-")
        ):
            parts[-1] = pair
        else:
            parts.append(word)
    lines = ["  " + parts[0]]
    for part in parts[1:]:
        if len(lines[-1]) + 1 + len(part) + 2 > width:
            lines[-1] += " \\"
            lines.append("    " + part)
        else:
            lines[-1] += f" {part}"
    return lines


def _wrap(text: str, width: int, most: int) -> list[str]:
    return textwrap.wrap(
        squeeze(text), width, subsequent_indent="  ", max_lines=most, placeholder=" …", break_on_hyphens=False
    )


def plain(lines: Sequence[Line]) -> str:
    """The lines without styles."""
    return "\n".join("".join(text for text, _ in line).rstrip() for line in lines)
