"""A command's text → :class:`Parsed`: its steps, and which of them counts."""

from __future__ import annotations

from memory.terms import CallKind
from transcripts.commands.model import Fields, Parsed, Step
from transcripts.commands.walk import Walker
from transcripts.commands.words import UnsoundError

ORDER = (CallKind.LAUNCH_SERVER, CallKind.RUN_BENCHMARK, CallKind.UPGRADE_ENVIRONMENT)
"""What counts wherever it stands; after these, the first part that reads."""


def parse(command: str) -> Parsed:
    """See :func:`transcripts.commands.parse_command`."""
    walker = Walker()
    try:
        steps = walker.all_of(command)
    except (UnsoundError, RecursionError) as error:
        return Parsed(CallKind.OTHER, {"note": str(error), "parse_error": True}, [], mutates=True)
    steps = _joined(steps)
    parts = steps
    if any(not (step.aside and step.safe) for step in steps):
        steps = [step for step in steps if not (step.aside and step.safe)]
    counts = _counting(steps)
    fields: Fields = dict(counts.fields) if counts else walker.shell.fields()
    if any("mutates" in step.fields for step in steps):
        fields["mutates"] = True
    return Parsed(
        counts.kind if counts else CallKind.OTHER,
        fields,
        steps,
        mutates=not walker.safe or not all(step.safe for step in steps),
        parts=parts,
    )


def _counting(steps: list[Step]) -> Step | None:
    for kind in ORDER:
        for step in steps:
            if step.kind is kind:
                return step
    typed = next((step for step in steps if step.kind is not CallKind.OTHER), None)
    return typed or next(iter(steps), None)


def _joined(steps: list[Step]) -> list[Step]:
    """Installs that follow one another are one: ``pip uninstall -y a; pip install b``."""
    found: list[Step] = []
    for step in steps:
        before = found[-1] if found else None
        if (
            before is not None
            and before.kind is step.kind is CallKind.UPGRADE_ENVIRONMENT
            and before.fields.get("host") == step.fields.get("host")
            and before.fields.get("manager") == step.fields.get("manager")
        ):
            for name, value in step.fields.items():
                held = before.fields.get(name)
                before.fields[name] = held + value if isinstance(held, list) else held or value
        else:
            found.append(step)
    return found
