"""From blocks of commands to steps: what runs where, one after another, and through which pipes."""

from __future__ import annotations

import re
from dataclasses import replace

from memory.terms import CallKind
from transcripts.commands import dispatch
from transcripts.commands.call import Call, Pipe
from transcripts.commands.model import Step
from transcripts.commands.options import programs
from transcripts.commands.shell import Shell, is_harmless_variable
from transcripts.commands.syntax import (
    Block,
    Branches,
    Command,
    Group,
    Loop,
    Node,
    Pipeline,
    Redirect,
    Unknown,
    read,
)
from transcripts.commands.words import UnsoundError, Word

SCRIPTS = 12
"""Scripts within scripts that are followed."""
_TRUSTED = re.compile(r"/(?:(?:usr/)?(?:local/)?s?bin|opt/homebrew/bin|usr/local/cuda[^/]*/bin)/[^/]+")
_NOWHERE = re.compile(r"/dev/(?:null|stdout|stderr|tty|fd/\d+)|&\d+-?")
_COPIED = re.compile(r"\d+-?|-")
"""Of ``>&`` these are descriptors; of ``>`` files that are called so."""
_SUBSCRIPT = re.compile(r"\[.*(?:\$[({]|`)", re.DOTALL)
_NAMING = {"declare", "typeset", "local"}
_EVALUATES = {
    *dispatch.DECLARATIONS,
    "test",
    "[",
    "read",
    "printf",
    "wait",
    "shift",
    "return",
    "exit",
    "getopts",
}
"""Programs of the shell that run what stands in the subscript of a variable that they are told to look at."""
_STDIN = {"/dev/null", "/dev/stdin", "/dev/fd/0"}


class Walker:
    """Goes through one command. ``safe`` turns false for what changes something and leaves no step."""

    def __init__(self) -> None:
        self.shell = Shell()
        self.safe = True

    def all_of(self, command: str) -> list[Step]:
        """Every step of ``command``. Raises :class:`UnsoundError`."""
        return self.block(read(command), self.shell)

    def script(self, text: str, shell: Shell, pipe: Pipe | None = None) -> list[Step]:
        """The steps of a script within a command. Raises :class:`UnsoundError` where it is none."""
        if shell.depth > SCRIPTS:
            raise UnsoundError(f"more than {SCRIPTS} scripts within each other")
        block = read(text)
        if pipe is not None and not pipe.first and len(block.items) == 1:
            return self.node(block.items[0].node, shell, pipe)
        return self.block(block, shell)

    def block(self, block: Block, shell: Shell) -> list[Step]:
        found: list[Step] = []
        behind = shell
        for item in block.items:
            if item.background and (not item.after or behind is shell):
                behind = shell.copy()  # all of `a && b &` is one shell
                behind.background = True
            inside = behind if item.background else shell
            found += self.node(item.node, inside, Pipe())
        return found

    def node(self, node: Node, shell: Shell, pipe: Pipe) -> list[Step]:
        if isinstance(node, Command):
            return self.command(node, shell, pipe)
        if isinstance(node, Pipeline):
            return self.pipeline(node, shell, pipe)
        if isinstance(node, Group):
            steps = self.block(node.block, shell.copy() if node.subshell else shell)
            for word in [redirect.target for redirect in node.redirects]:
                steps += self.nested(word, shell)
            return self.redirected(steps, node.redirects, shell)
        if isinstance(node, Loop):
            return self.loop(node, shell)
        if isinstance(node, Branches):
            steps = [step for word in node.words for step in self.nested(word, shell)]
            return steps + [step for block in node.blocks for step in self.block(block, shell)]
        assert isinstance(node, Unknown)
        self.safe &= node.harmless
        return [step for block in node.nested for step in self.block(block, shell.copy())]

    def pipeline(self, node: Pipeline, shell: Shell, pipe: Pipe) -> list[Step]:
        done: list[Step] = []
        group = pipe.take() if not pipe.first else []
        first = pipe.first
        for stage in node.stages:
            inner = Pipe(group, first=first)
            made = self.node(stage, shell.copy(), inner)
            if not inner.taken:
                done += group
            group = made
            if isinstance(stage, Loop | Branches) or (isinstance(stage, Group) and len(made) != 1):
                done, group = done + made, []
            first = False
        return done + group

    def hides(self, word: Word, shell: Shell) -> bool:
        """Whether a word is plain text that is run where a shell takes it for a number or a variable."""
        return not any(piece.raw for piece in word.pieces) and bool(_SUBSCRIPT.search(shell.text(word)))

    def loop(self, node: Loop, shell: Shell) -> list[Step]:
        found: list[Step] = []
        inside = shell.copy()
        if node.variable is not None:
            values = [shell.text(word) for word in node.values]
            for word in node.values:
                found += self.nested(word, shell)
                self.safe &= not self.hides(word, shell)
            inside.variables.pop(node.variable, None)
            self.safe &= is_harmless_variable(node.variable, exported=False)
            if values and not any(value.unsure for value in values):
                inside.loop[node.variable] = [str(value) for value in values]
        found += self.block(node.condition, inside)
        return found + self.block(node.body, inside)

    def nested(self, word: Word, shell: Shell) -> list[Step]:
        """What runs to make a word: only what is typed or may change something is a step of its own."""
        steps = [step for block in word.nested for step in self.block(block, shell.copy())]
        return [step for step in steps if step.kind is not CallKind.OTHER or not step.safe]

    def command(self, node: Command, shell: Shell, pipe: Pipe) -> list[Step]:
        inside = [word for _, word in node.assigned]
        inside += [*node.words, *(redirect.target for redirect in node.redirects)]
        nested = [step for word in inside for step in self.nested(word, shell)]
        args = [shell.text(word) for word in node.words]
        if args and args[0] in _EVALUATES:
            given = [*node.words, *(one.target for one in node.redirects if one.operator == "<<<")]
            self.safe &= not any(self.hides(word, shell) for word in given)
            self.safe &= not (args[0] in _NAMING and any(re.match("-[a-zA-Z]*n", one) for one in args[1:]))
        keyword = str(args[0]) if args else ""
        if not args or keyword in dispatch.DECLARATIONS:
            self.assign(node, keyword, shell)
            return self.redirected([], node.redirects, shell) + nested
        call = Call("", args, shell, pipe, self)
        if node.assigned:
            call.shell = shell.copy()
            for name, word in node.assigned:
                call.shell.env[name] = str(shell.text(word))
                call.trusted &= is_harmless_variable(name, exported=True)
        for redirect in node.redirects:
            self._input(redirect, call)
        steps = self.run(call)
        if not call.trusted and not steps:
            self.safe = False
        return self.redirected(steps, node.redirects, shell, call) + nested

    def assign(self, node: Command, keyword: str, shell: Shell) -> None:
        """``A=1 B=2`` by themselves, or after ``export``, ``declare``, …"""
        exported = keyword in {"export", "declare", "typeset"}
        for name, word in node.assigned:
            self.safe &= is_harmless_variable(name, exported=exported) and not self.hides(word, shell)
            if any(piece.raw for piece in word.pieces):
                shell.variables.pop(name, None)
            else:
                shell.variables[name] = str(shell.text(word))
            if keyword == "export" or name in shell.env:
                shell.env[name] = str(shell.text(word))
        for word in node.words[1:]:
            name = str(shell.text(word))
            if keyword == "unset":
                shell.variables.pop(name, None)
                shell.env.pop(name, None)
                self.safe &= name.startswith("-") or name.isidentifier()
            elif keyword == "export" and name in shell.variables:
                shell.env[name] = shell.variables[name]
                self.safe &= is_harmless_variable(name, exported=True)
            elif keyword == "export" and not name.startswith("-"):
                self.safe &= is_harmless_variable(name, exported=True)

    def run(self, call: Call) -> list[Step]:
        """The steps of a program with its arguments, ``call.args[0]`` the program itself."""
        if not call.args:
            return []
        word, *args = call.args
        name = word.rpartition("/")[2]
        if word.unsure or not name or "$" in word or "`" in word:
            return replace(call, name=str(word)).other()
        trusted = call.trusted and ("/" not in word or bool(_TRUSTED.fullmatch(word)))
        return dispatch.handle(
            replace(
                call, name=name, args=args, written=str(word), program=programs().get(name), trusted=trusted
            )
        )

    def redirected(
        self, steps: list[Step], redirects: list[Redirect], shell: Shell, call: Call | None = None
    ) -> list[Step]:
        """The same steps, with what is written to files."""
        for redirect in redirects:
            if ">" not in redirect.operator:
                continue
            target = shell.text(redirect.target)
            if redirect.operator != "<>" and _NOWHERE.fullmatch(target):
                continue
            if redirect.operator.endswith(">&") and _COPIED.fullmatch(target):
                continue
            if not steps:
                steps = [Step(CallKind.OTHER, {**shell.fields(), "note": f"writes {target}"})]
            steps[-1].goes_to(str(target), errors=redirect.descriptor == "2")
        return steps

    def _input(self, redirect: Redirect, call: Call) -> None:
        text = call.shell.text(redirect.target)
        if redirect.operator in {"<<", "<<<"}:
            call.text = str(text)
        elif redirect.operator == "<" and redirect.descriptor in {"", "0"} and text not in _STDIN:
            call.file = str(text)
