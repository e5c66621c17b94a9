"""One program being called: what its handler is given."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from memory.terms import CallKind
from transcripts.commands.model import Fields, Step
from transcripts.commands.options import Program
from transcripts.commands.shell import Shell
from transcripts.commands.words import Arg

if TYPE_CHECKING:
    from transcripts.commands.walk import Walker


@dataclass
class Pipe:
    """What stands before a program in its pipeline."""

    group: list[Step] = field(default_factory=list)
    """The steps whose output flows in."""
    first: bool = True
    taken: bool = False
    """The handler's answer takes the group's place, rather than following it."""

    def take(self) -> list[Step]:
        self.taken = True
        return self.group


@dataclass
class Call:
    name: str
    """The program, without its folder."""
    args: list[Arg]
    shell: Shell
    pipe: Pipe
    walker: Walker
    program: Program | None = None
    written: str = ""
    """The program as it is written."""
    text: str | None = None
    """A here-document or here-string on its input."""
    file: str | None = None
    """The file that its input comes from."""
    trusted: bool = True
    """The program is looked up in the usual places."""

    def step(self, kind: CallKind, fields: Fields, *, safe: bool) -> Step:
        return Step(kind, {**self.shell.fields(), **fields}, safe=safe and self.trusted)

    def other(self, *, safe: bool = False, changes: bool = False, note: str = "") -> list[Step]:
        """A part that is none of the typed calls."""
        step = self.step(CallKind.OTHER, {"note": note or self.name}, safe=safe)
        if changes:
            step.changes()
        return [step]

    def again(self, args: list[Arg], shell: Shell | None = None) -> list[Step]:
        """The steps of the command that this one wraps."""
        return self.walker.run(replace(self, args=args, shell=shell or self.shell))

    def script(self, text: str, shell: Shell) -> list[Step]:
        """The steps of a script that this one runs, somewhere else perhaps."""
        return self.walker.script(text, shell, self.pipe)
