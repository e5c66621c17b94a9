"""What a command comes out as: steps, and the one of them that counts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from memory.terms import CallKind
from transcripts.commands.windows import Window

Fields = dict[str, Any]


@dataclass
class Step:
    """One part of a command. ``fields`` are those of its kind; wrappers and the shell's state among them."""

    kind: CallKind
    fields: Fields = field(default_factory=dict)
    safe: bool = False
    """Known to read and nothing else."""
    window: Window | None = None
    """Of a read: the lines that flow on down the pipe, while they are lines of the file."""

    plain: bool = True
    """Of a read, a search or a listing: what it gave is shown as it is, or with numbers before the lines."""
    aside: bool = False
    """No part of its own where there are others: ``wc -l FILE && …``, ``echo``."""
    prints: str | None = None
    """The line that an ``echo`` prints, where that is known."""

    def changes(self) -> None:
        """It is known to change something."""
        self.safe = False
        self.fields["mutates"] = True

    def goes_to(self, file: str, *, errors: bool = False) -> None:
        """Its output, or its ``errors``, are written to ``file``."""
        self.safe = False
        if self.kind is CallKind.LAUNCH_SERVER:
            self.fields.setdefault("log", file)
        elif self.kind in {CallKind.RUN_BENCHMARK, CallKind.GPU_STATUS} and not errors:
            self.fields.setdefault("output_file", file)
        else:
            self.changes()

    def document(self) -> Fields:
        return {"kind": self.kind.value, "fields": self.fields}


@dataclass
class Parsed:
    """A whole command: ``kind`` and ``fields`` of the part that counts, and all parts in order."""

    kind: CallKind
    fields: Fields
    steps: list[Step]
    mutates: bool
    """False only where every part is known to read and nothing else."""
    parts: list[Step] = field(default_factory=list)
    """The steps, and what printed something beside them."""

    def document(self) -> Fields:
        return {
            "kind": self.kind.value,
            "fields": self.fields,
            "steps": [step.document() for step in self.steps],
            "mutates": self.mutates,
        }
