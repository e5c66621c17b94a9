"""A command's text → blocks of commands, with the parser's tree-sitter quirks taken out.

The grammar hangs a redirection or a pipe that follows ``a && b`` on the whole list; the shell means ``b``.
What follows a here-document's start on its line is found inside the redirection. Both are put right here, so
that the rest sees plain blocks, pipelines and commands.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from transcripts.commands.words import Piece, UnsoundError, Word, is_hiding, make_word, nested_in, text_of

LONGEST = 100_000
"""Bytes of a command that are looked at, before and after variables are put in."""
DEEPEST = 60
"""Statements within statements."""


@dataclass
class Redirect:
    operator: str
    """Without the descriptor: ``>``, ``>>``, ``&>``, ``<``, ``<<``, ``<<<``, …"""
    target: Word
    descriptor: str = ""


@dataclass
class Command:
    words: list[Word] = field(default_factory=list)
    assigned: list[tuple[str, Word]] = field(default_factory=list)
    redirects: list[Redirect] = field(default_factory=list)


@dataclass
class Pipeline:
    stages: list[Node]


@dataclass
class Item:
    node: Node
    background: bool = False
    after: str = ""
    """``&&`` or ``||`` where it depends on what stands before."""


@dataclass
class Block:
    items: list[Item] = field(default_factory=list)


@dataclass
class Group:
    """A block in brackets or braces, or with redirections of its own."""

    block: Block
    redirects: list[Redirect] = field(default_factory=list)
    subshell: bool = False


@dataclass
class Loop:
    variable: str | None
    values: list[Word]
    condition: Block
    body: Block


@dataclass
class Branches:
    """``if`` and ``case``: one of the blocks runs; ``words`` are only looked at."""

    blocks: list[Block]
    words: list[Word]


@dataclass
class Unknown:
    """What is not followed: functions, arithmetic, tests. ``nested`` runs to decide it."""

    harmless: bool
    nested: list[Block]


Node = Command | Pipeline | Group | Loop | Branches | Unknown

_WORDS_OF_DECLARATION = {"word", "variable_name", "number", "concatenation", "string", "raw_string"}


@cache
def _parser() -> Any:
    import tree_sitter
    import tree_sitter_bash

    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))


def read(text: str) -> Block:
    """The statements of ``text``. Raises :class:`UnsoundError`."""
    data = text.encode("utf-8", "replace")
    if len(data) > LONGEST:
        raise UnsoundError(f"longer than {LONGEST} bytes")
    if b"\0" in data:
        raise UnsoundError("holds a NUL")
    root = _parser().parse(data).root_node
    if root.has_error:
        raise UnsoundError("no sound shell command")
    reader = _Reader()
    block = reader.block(root)
    if not reader.has_followed(root):
        block.items.append(Item(Unknown(harmless=False, nested=[])))
    return block


_FOLLOWED = {"command", "file_redirect", "command_substitution", "process_substitution"}
"""What runs or writes. Every one in the text must have been followed, or nothing is known of the whole."""


class _Reader:
    def __init__(self) -> None:
        self.depth = 0
        self.followed: set[int] = set()

    def has_followed(self, root: Any) -> bool:
        """Whether every part that runs or writes has been read."""
        pending = [root]
        while pending:
            node = pending.pop()
            if node.type in _FOLLOWED and node.id not in self.followed:
                return False
            pending += node.named_children
        return True

    def block(self, node: Any) -> Block:
        """The statements among a node's children, in order; None: what nobody can follow."""
        if node is None:
            return Block([Item(Unknown(harmless=False, nested=[]))])
        self.followed.add(node.id)
        self.depth += 1
        if self.depth > DEEPEST:
            raise UnsoundError(f"more than {DEEPEST} statements within each other")
        items: list[Item] = []
        begun = 0
        for child in node.children:
            if child.type == "&":
                for item in items[begun:]:
                    item.background = True
            elif child.is_named and child.type not in {"comment", "heredoc_body", "heredoc_end"}:
                begun = len(items)
                items += self.items(child)
        self.depth -= 1
        return Block(items)

    def items(self, node: Any) -> list[Item]:
        """One statement; a list of ``a && b || c`` is as many items."""
        if node.type == "list":
            self.depth += 1
            if self.depth > DEEPEST * 4:
                raise UnsoundError("too long a list")
            found: list[Item] = []
            operator = ""
            for child in node.children:
                if not child.is_named:
                    operator = child.type
                elif child.type != "comment":
                    following = self.items(child)
                    if operator and following:
                        following[0].after = operator
                    found += following
            self.depth -= 1
            return found
        if node.type == "pipeline":
            return self.pipeline(node)
        if node.type == "redirected_statement":
            return self.redirected(node)
        if node.type == "negated_command":
            return [item for child in node.named_children for item in self.items(child)]
        return [Item(self.statement(node))]

    def pipeline(self, node: Any) -> list[Item]:
        parts = [self.items(child) for child in node.named_children if child.type != "comment"]
        parts = [part for part in parts if part]
        if not parts:
            return []
        *before, first = parts[0]
        stages: list[Node] = [first.node]
        stages += [_one(part) for part in parts[1:]]
        return [*before, Item(_piped(stages), after=first.after)]

    def redirected(self, node: Any) -> list[Item]:
        body = node.child_by_field_name("body")
        items = self.items(body) if body is not None else [Item(Command())]
        if not items:
            items = [Item(Command())]
        redirects: list[Redirect] = []
        more: list[Word] = []
        stages: list[Node] = []
        following: list[Item] = []
        for child in node.children_by_field_name("redirect"):
            if child.type == "heredoc_redirect":
                self._heredoc(child, redirects, more, stages, following)
            else:
                self._redirect(child, redirects, more)
        last = items[-1]
        last.node = _with(last.node, redirects, more)
        if stages:
            last.node = _piped([last.node, *stages])
        return items + following

    def _redirect(self, node: Any, redirects: list[Redirect], more: list[Word]) -> None:
        self.followed.add(node.id)
        if node.type == "herestring_redirect":
            target = next((self.word(child) for child in node.named_children), Word())
            redirects.append(Redirect("<<<", target))
            return
        operator = next((child.type for child in node.children if not child.is_named), ">")
        descriptor = node.child_by_field_name("descriptor")
        targets = [self.word(child) for child in node.children_by_field_name("destination")]
        redirects.append(
            Redirect(
                operator,
                targets[0] if targets else Word(),
                text_of(descriptor) if descriptor is not None else "",
            )
        )
        more += targets[1:]  # `a > f b`: b is an argument of a

    def _heredoc(
        self,
        node: Any,
        redirects: list[Redirect],
        more: list[Word],
        stages: list[Node],
        following: list[Item],
    ) -> None:
        """A here-document, and what else stands on the line of its start."""
        body = Word()
        operator = ""
        for number, child in enumerate(node.children):
            if child.type == "heredoc_body":
                start = next(one for one in node.children if one.type == "heredoc_start")
                quoted = any(sign in text_of(start) for sign in "'\"\\")
                body = Word([Piece(text_of(child), quoted=True)])
                body.nested = [] if quoted else nested_in(child, self.block)
                if not quoted and is_hiding(child):
                    body.nested.append(self.block(None))
            elif child.type in {"file_redirect", "herestring_redirect"}:
                self._redirect(child, redirects, more)
            elif child.type == "pipeline":
                for part in child.named_children:
                    found = self.items(part)
                    stages += [_one(found)] if found else []
            elif child.type in {"&&", "||"}:
                operator = child.type
            elif node.field_name_for_child(number) == "argument":
                more.append(self.word(child))
            elif node.field_name_for_child(number) == "right":
                found = self.items(child)
                if found:
                    found[0].after = operator
                following += found
        redirects.append(Redirect("<<", body))

    def statement(self, node: Any) -> Node:
        kind = node.type
        if kind == "command":
            return self.command(node)
        if kind in {"variable_assignment", "variable_assignments"}:
            each = [node] if kind == "variable_assignment" else node.named_children
            return Command(assigned=[self.assignment(one) for one in each])
        if kind in {"declaration_command", "unset_command"}:
            return self.declaration(node)
        if kind == "subshell":
            return Group(self.block(node), subshell=True)
        if kind in {"compound_statement", "do_group", "else_clause"}:
            if any(child.type == "((" for child in node.children):
                return self.decision(node)
            return Group(self.block(node))
        if kind in {"for_statement", "while_statement"}:
            return self.loop(node)
        if kind in {"if_statement", "case_statement"}:
            return self.branches(node)
        if kind == "c_style_for_statement":
            body = node.child_by_field_name("body")
            parts = [child for child in node.named_children if child.type != "do_group"]
            decisions = [Item(self.decision(part)) for part in parts]
            return Loop(None, [], Block(decisions), self.block(body) if body is not None else Block())
        if kind == "test_command":
            return self.decision(node)
        if kind in {"list", "pipeline", "redirected_statement", "negated_command"}:
            return Group(Block(self.items(node)))
        return Unknown(harmless=False, nested=[])

    def decision(self, node: Any) -> Unknown:
        """A test or a calculation. A substitution that is quoted is run by some of them all the same."""
        hidden = re.search(r"'[^']*(?:\$\(|`)|\\(?:\$|`)", text_of(node))
        return Unknown(harmless=not hidden, nested=nested_in(node, self.block))

    def command(self, node: Any) -> Command:
        self.followed.add(node.id)
        found = Command()
        for number, child in enumerate(node.children):
            field_name = node.field_name_for_child(number)
            if child.type == "variable_assignment":
                found.assigned.append(self.assignment(child))
            elif child.type == "command_name":
                found.words += [self.word(one) for one in child.named_children]
            elif field_name == "redirect" or child.type.endswith("_redirect"):
                more: list[Word] = []
                self._redirect(child, found.redirects, more)
                found.words += more
            elif child.type == "subshell":
                raise UnsoundError("a bracket where none can be")
            elif (child.is_named and child.type != "comment") or field_name == "argument":
                found.words.append(self.word(child))
        return found

    def declaration(self, node: Any) -> Command:
        keyword = text_of(node.children[0])
        found = Command([_literal(keyword)])
        for child in node.named_children:
            if child.type == "variable_assignment":
                found.assigned.append(self.assignment(child))
            else:
                found.words.append(self.word(child))
        return found

    def assignment(self, node: Any) -> tuple[str, Word]:
        name = node.child_by_field_name("name")
        value = node.child_by_field_name("value")
        word = self.word(value) if value is not None else _literal("")
        return (text_of(name) if name is not None else "", word)

    def loop(self, node: Any) -> Loop:
        variable = node.child_by_field_name("variable")
        body = node.child_by_field_name("body")
        values = [self.word(one) for one in node.children_by_field_name("value")]
        conditions = [item for one in node.children_by_field_name("condition") for item in self._named(one)]
        return Loop(
            text_of(variable) if variable is not None else None,
            values,
            Block(conditions),
            self.block(body) if body is not None else Block(),
        )

    def _named(self, node: Any) -> list[Item]:
        return self.items(node) if node.is_named and node.type != "comment" else []

    def branches(self, node: Any) -> Branches:
        """Every block of an ``if`` or a ``case``, conditions included, in the order of the text."""
        blocks: list[Block] = []
        words: list[Word] = []
        plain = Block()
        for number, child in enumerate(node.children):
            if child.type in {"elif_clause", "else_clause", "case_item"}:
                inner = self.branches(child)
                blocks += inner.blocks
                words += inner.words
            elif node.field_name_for_child(number) == "value":
                words.append(self.word(child))
            else:
                plain.items += self._named(child)
        return Branches([plain, *blocks], words)

    def word(self, node: Any) -> Word:
        self.depth += 1
        if self.depth > DEEPEST:
            raise UnsoundError(f"more than {DEEPEST} words within each other")
        made = make_word(node, self.block)
        self.depth -= 1
        return made


def _literal(text: str) -> Word:
    return Word([Piece(text)])


def _one(items: list[Item]) -> Node:
    return items[0].node if len(items) == 1 else Group(Block(items))


def _piped(stages: list[Node]) -> Node:
    flat: list[Node] = []
    for stage in stages:
        flat += stage.stages if isinstance(stage, Pipeline) else [stage]
    return flat[0] if len(flat) == 1 else Pipeline(flat)


def _with(node: Node, redirects: list[Redirect], more: list[Word]) -> Node:
    if isinstance(node, Command):
        node.redirects += redirects
        node.words += more
        return node
    if isinstance(node, Pipeline):
        node.stages[-1] = _with(node.stages[-1], redirects, more)
        return node
    if isinstance(node, Group):
        node.redirects += redirects
        return node
    return Group(Block([Item(node)]), redirects)
