"""The answer on one screen: 24 lines of 80 columns, drawn from the answer alone.

All text of others goes through :mod:`agent.text`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from agent.layout import WIDTH, Line, command_lines, path_of, wrap
from agent.ranking import component_at, components, is_recommended, matter, rank, surprising, trust
from agent.reasons import LEFT, NAMES, conditions, deciding, first_line, reason, refuted, told, where
from agent.text import shorten, squeeze
from memory.terms import Level, Verdict

if TYPE_CHECKING:
    from memory.vocabulary import Answer, NotRun, Row, Target

HEIGHT = 24
MOST_ROWS = 8
MOST_COMMAND = 7
"""Lines that a command may take on the screen."""

_SAID = (Verdict.NO_STATIC_OBSTACLE, Verdict.REROUTED, Verdict.BLOCKED)

STYLES = {
    Verdict.BLOCKED: "red",
    Verdict.REROUTED: "yellow",
    Verdict.NO_STATIC_OBSTACLE: "green",
    Verdict.NOT_APPLICABLE: "dim",
    Verdict.UNKNOWN: "dim",
}


def screen(
    answer: Answer,
    *,
    everything: bool = False,
    width: int = WIDTH,
    height: int = HEIGHT,
    why: Mapping[tuple[str, str], str] | None = None,
) -> list[Line]:
    """The answer as lines of at most ``width`` columns; at most ``height`` of them unless ``everything``.

    ``why``: component and backend → why reading did not decide, which a row alone does not hold.
    """
    head = _head(answer, width, everything)
    tail = _tail(answer, width, everything)
    if everything:
        rows = _everything(answer, width, why or {})
    else:
        # The last line stays free for the prompt.
        room = max(height - 1 - len(head) - len(tail), 0)
        rows = _chosen_rows(answer, width, room)[:room]
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


def _head(answer: Answer, width: int, everything: bool) -> list[Line]:
    lines: list[Line] = [[(text, "bold")] for text in wrap(understood(answer.target), width, 2)]
    lines += [[(text, "")] for text in wrap(packages(answer), width, 2)]
    if answer.target.assumed:
        text = "assumed: " + "; ".join(answer.target.assumed)
        lines += [[(one, "dim")] for one in wrap(text, width, 99 if everything else 2)]
    return lines


def _chosen_rows(answer: Answer, width: int, room: int) -> list[Line]:
    """As many of the rows that matter as ``room`` lines take, and the counts of the rest."""
    groups = matter(answer)[:MOST_ROWS]
    columns = _columns(groups)
    shown: list[list[Row]] = []
    counts = _counts(answer, [], width)
    for group in groups:
        more = [*shown, group]
        counts_now = _counts(answer, [row for one in more for row in one], width)
        if sum(len(_row(answer, one, columns, width)) for one in more) + len(counts_now) > room:
            continue
        shown, counts = more, counts_now
    shown.sort(key=lambda group: (component_at(answer, group[0]), rank(answer, group[0])))
    lines = [line for group in shown for line in _row(answer, group, columns, width)]
    return lines + [[(text, "dim")] for text in counts]


def _everything(answer: Answer, width: int, why: Mapping[tuple[str, str], str]) -> list[Line]:
    rows = sorted(answer.backends, key=lambda row: (component_at(answer, row), rank(answer, row)))
    columns = _columns([[row] for row in rows])
    lines = [
        line
        for row in rows
        for line in _row(answer, [row], columns, width, why.get((row.component, row.backend)))
    ]
    more = wrap(f"Every line of evidence: agent report {answer.transcript} --markdown", width, 2)
    return [*lines, *([(text, "dim")] for text in more)]


def _columns(groups: Sequence[Sequence[Row]]) -> tuple[int, int]:
    """Columns for the names of components and of backends."""
    components = max((len(squeeze(group[0].component)) for group in groups), default=0)
    backends = max((len(squeeze(_label(group))) for group in groups), default=0)
    return min(components, 16), min(max(backends, 22), 25)


def _label(group: Sequence[Row]) -> str:
    """The backends that stand on one line, or the value that leads to the one chosen."""
    leading = [one.backend for one in group if one.runs_instead == group[0].backend]
    if leading:
        return f"{', '.join(leading)} → {group[0].backend}"
    return ", ".join(one.backend for one in group)


def _row(
    answer: Answer, group: Sequence[Row], columns: tuple[int, int], width: int, why: str | None = None
) -> list[Line]:
    """One line with the verdict and why; a second where a condition or lines of source are to be read."""
    row, backends = group[0], _label(group)
    mark = {Verdict.NO_STATIC_OBSTACLE: "·", Verdict.BLOCKED: "✗", Verdict.REROUTED: "→"}.get(
        row.verdict, " "
    )
    mark = "✗" if refuted(row) else mark
    mark = "▸" if is_recommended(answer, row) else mark
    start = f"{mark} {squeeze(row.component):{columns[0]}} {shorten(backends, columns[1]):{columns[1]}} "
    verdict, style = told(row), STYLES[Verdict.BLOCKED if refuted(row) else row.verdict]
    place = deciding(row)
    # What stands beside the verdict, and what below: a path, or words.
    beside, below = reason(row, why=why), ""
    path = ""
    if row.verdict == Verdict.NO_STATIC_OBSTACLE:
        beside, path = (
            (f"→ {row.runs_instead}", "") if row.runs_instead else ("", where(place) if place else "")
        )
        below = f"if {conditions(row)}" if row.conditions else ""
    elif row.verdict == Verdict.BLOCKED and place is not None:
        beside = f"{row.because or 'refused'}{' (first gate: yes)' if surprising(row) else ''}"
        below = first_line(place)
    elif row.verdict == Verdict.NOT_APPLICABLE and row.because is None:
        beside = ""
    elif row.verdict == Verdict.UNKNOWN and why is not None:
        beside, below = "", why
    if row.observed is not None:
        beside, below, path = f"call {row.observed.experiment}", "", ""

    def fitted(room: int) -> str:
        return path_of(path, room) if path else shorten(beside, room)

    free = width - len(start) - len(verdict) - 2
    first: list[Line]
    if free >= 12:
        first = [[(start, "bold" if mark == "▸" else ""), (verdict, style), (f"  {fitted(free)}", "")]]
    else:
        name = shorten(f"{mark} {row.component} {backends}", width)
        room = width - len(verdict) - 6
        first = [
            [(name, "bold" if mark == "▸" else "")],
            [("    ", ""), (verdict, style), (f"  {fitted(room)}", "")],
        ]
    if not below:
        return first
    room = width - 4
    if row.verdict != Verdict.BLOCKED or place is None:
        return [*first, [("    ", ""), (shorten(below, room), "dim" if why else "")]]
    at = path_of(where(place), min(max(room - 2 - len(squeeze(below)), 34), room - 3))
    return [*first, [("    ", ""), (at, "dim"), ("  ", ""), (shorten(below, room - 2 - len(at)), "")]]


def _counts(answer: Answer, shown: Sequence[Row], width: int) -> list[str]:
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
    lines = [shorten(text, width) for text in lines]
    command = f": agent report {answer.transcript} --all"
    # The command is to be copied, so the words in front of it give way.
    return [*lines, shorten(more, width - len(command)) + command if len(command) < width else command[2:]]


def _named(answer: Answer, rest: Sequence[Row]) -> str:
    """The unknown ones by component; a component of which nothing is known only by its name."""
    unknown = [row for row in rest if row.verdict == Verdict.UNKNOWN]
    parts = []
    for component in dict.fromkeys(row.component for row in unknown):
        names = [row.backend for row in unknown if row.component == component]
        every = len(names) == sum(row.component == component for row in answer.backends)
        parts.append(f"all of {component}" if every else f"{component} {', '.join(names)}")
    return "; ".join(parts)


def _tail(answer: Answer, width: int, everything: bool) -> list[Line]:
    lines: list[Line] = []
    most = 99 if everything else MOST_COMMAND
    found = answer.recommendation
    if found is not None:
        words = trust(answer)
        own = [name for name in components(answer) if f"{name}: {LEFT}" in "\n".join(found.ranked_by)]
        said = shorten(f"({', '.join(own)}: {LEFT})", width - len(words) - 2) if own else ""
        lines.append(
            [(words, "bold green" if found.tested else "bold yellow"), (f" {said}:" if own else ":", "")]
        )
        lines += _command(answer, found.command, width, most)
        if everything:
            lines += [[(text, "")] for note in found.ranked_by for text in wrap(f"because {note}", width, 9)]
            lines += [[(text, "")] for one in found.alternatives for text in wrap(f"else {one}", width, 9)]
        elif found.tested and found.ranked_by:
            lines += [[(text, "")] for text in wrap(f"because {found.ranked_by[0]}", width, 3)]
    else:
        lines.append([("No backend can be recommended.", "bold red")])
    # What reading left open is counted with the rows already.
    untested = [
        step
        for step in answer.not_run
        if (step.command is None or step.level != Level.STATIC)
        and (everything or found is None or step.level != Level.STATIC)
    ]
    what = "; ".join(step.what for step in untested)
    if what:
        lines += [[(text, "")] for text in wrap(f"Not tested: {what}", width, 9 if everything else 2)]
    following = [step for step in answer.not_run if step.command and not _is_launch(answer, step)]
    following.sort(key=lambda step: step.level == Level.STATIC)
    for step in following if everything else following[:1]:
        command = squeeze(step.command or "")
        if len(command) + len("Next: ") <= width and not everything:
            lines.append([("Next: ", ""), (command, "bold")])
        else:
            lines.append([(shorten(f"Next, {step.what}:", width), "")])
            lines += _command(answer, command, width, most)
    return lines


def _command(answer: Answer, command: str, width: int, most: int) -> list[Line]:
    """A command to copy; one of too many lines says where the whole of it is."""
    lines = command_lines(command, width)
    if len(lines) > most:
        rest = shorten(f"  … whole in: agent report {answer.transcript} --json", width)
        return [[(text, "bold")] for text in lines[: most - 1]] + [[(rest, "dim")]]
    return [[(text, "bold")] for text in lines]


def _is_launch(answer: Answer, step: NotRun) -> bool:
    return answer.recommendation is not None and step.command == answer.recommendation.command
