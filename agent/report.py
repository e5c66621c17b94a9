"""The answer on one screen: 24 lines of 80 columns, drawn from the answer alone.

All text of others goes through :mod:`agent.text`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from agent.layout import WIDTH, Line, command_lines, path_of, wrap
from agent.reasons import NAMES, conditions, deciding, first_line, reason, where
from agent.text import shorten, squeeze
from memory.vocabulary import Answer, Because, Level, NotRun, Row, Target, Verdict

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
    """The rows that matter, most important first; components take turns. Backends of which the same lines
    say the same stand together.

    First the candidates chosen; then what a person would try and must not: the first gate lets it through
    and the GPU is refused deeper down, or another option; then the other candidates; then what is left.
    """
    groups: dict[tuple[object, ...], list[Row]] = {}
    for row in answer.backends:
        rank = _rank(answer, row)
        if rank is not None:
            groups.setdefault((rank, *_says(row), row.backend if rank == 0 else ""), []).append(row)
    # Of many refusals of one kind the one that stops most backends comes first, the rest with the refused.
    turn: Counter[tuple[int, str]] = Counter()
    ranked = []
    for group in sorted(groups.values(), key=lambda group: -len(group) if surprising(group[0]) else 0):
        rank = _rank(answer, group[0]) or 0
        turn[rank, group[0].component] += 1
        if rank == _OPTION_TRAP and turn[rank, group[0].component] > 1:
            rank = _REFUSED
        ranked.append((rank, turn[rank, group[0].component], _component_at(answer, group[0]), group))
    ranked.sort(key=lambda item: item[:3])
    return [group for *_, group in ranked]


def _says(row: Row) -> tuple[object, ...]:
    lines = tuple((one.file, one.line) for one in row.evidence)
    facts = tuple((one.fact, one.op, repr(one.value)) for one in row.conditions)
    return row.component, row.verdict, row.because, row.runs_instead, facts, lines


_OPTION_TRAP, _CANDIDATE, _REFUSED = 2, 3, 6


def _rank(answer: Answer, row: Row) -> int | None:
    if is_recommended(answer, row):
        return 0
    if surprising(row):
        return 1 if row.because is Because.ARCHITECTURE else _OPTION_TRAP
    if row.verdict is Verdict.NO_STATIC_OBSTACLE:
        # One that only leads to another is not a choice of its own.
        return _CANDIDATE if row.runs_instead is None else _CANDIDATE + 1
    return {Verdict.REROUTED: 5, Verdict.BLOCKED: _REFUSED}.get(row.verdict)


def _head(answer: Answer, width: int, everything: bool) -> list[Line]:
    lines: list[Line] = [[(text, "bold")] for text in wrap(understood(answer.target), width, 2)]
    lines += [[(text, "")] for text in wrap(packages(answer), width, 2)]
    if answer.target.assumed:
        text = "assumed: " + "; ".join(answer.target.assumed)
        lines += [[(one, "dim")] for one in wrap(text, width, 99 if everything else 2)]
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


def _everything(answer: Answer, width: int, why: Mapping[tuple[str, str], str]) -> list[Line]:
    rows = sorted(
        answer.backends,
        key=lambda row: (_component_at(answer, row), 9 if (rank := _rank(answer, row)) is None else rank),
    )
    lines = [
        line for row in rows for line in _row(answer, [row], width, why.get((row.component, row.backend)))
    ]
    more = wrap(f"Every line of evidence: agent report {answer.transcript} --markdown", width, 2)
    return [*lines, *([(text, "dim")] for text in more)]


def _component_at(answer: Answer, row: Row) -> int:
    return list(dict.fromkeys(one.component for one in answer.backends)).index(row.component)


def _row(answer: Answer, group: Sequence[Row], width: int, why: str | None = None) -> list[Line]:
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
    backends = ", ".join(one.backend for one in group)
    start = f"{mark} {squeeze(row.component):{columns[0]}} {shorten(backends, columns[1]):{columns[1]}} "
    verdict, style = NAMES[row.verdict], STYLES[row.verdict]
    place = deciding(row)
    # What stands beside the verdict, and what below: a path, or words.
    beside, below = reason(row, why=why), ""
    path = ""
    if row.verdict is Verdict.NO_STATIC_OBSTACLE:
        beside, path = (
            (f"→ {row.runs_instead}", "") if row.runs_instead else ("", where(place) if place else "")
        )
        below = f"if {conditions(row)}" if row.conditions else ""
    elif row.verdict is Verdict.BLOCKED and place is not None:
        beside = f"{row.because or 'refused'}{' (first gate: yes)' if surprising(row) else ''}"
        below = first_line(place)
    elif row.verdict is Verdict.NOT_APPLICABLE and row.because is None:
        beside = ""
    elif row.verdict is Verdict.UNKNOWN and why is not None:
        beside, below = "", why

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
    if row.verdict is not Verdict.BLOCKED or place is None:
        return [*first, [("    ", ""), (shorten(below, room), "dim" if why else "")]]
    at = path_of(where(place), min(max(room - 2 - len(squeeze(below)), 34), room))
    return [*first, [("    ", ""), (at, "dim"), ("  ", ""), (shorten(below, room - 2 - len(at)), "")]]


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
    most = 99 if everything else MOST_COMMAND
    found = answer.recommendation
    if found is not None:
        trust = "Tested:" if found.tested else "Candidate, untested:"
        lines.append([(trust, "bold green" if found.tested else "bold yellow")])
        lines += _command(answer, found.command, width, most)
        if everything:
            lines += [[(text, "")] for note in found.ranked_by for text in wrap(f"because {note}", width, 9)]
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
        lines += [[(text, "")] for text in wrap(f"Not tested: {what}", width, 9 if everything else 2)]
    following = [step for step in answer.not_run if step.command and not _is_launch(answer, step)]
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
