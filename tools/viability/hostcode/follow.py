"""A function of the host followed as it would run on one device: what refuses that on every way through.

Only numbers are known: the device's own, constants, and what is computed of them. A test that is not decided
by these is taken both ways; what refuses on one of them only refuses nobody. What may have left a function
before a check makes the check one of several ends, except where that is the function called from outside: to
leave that one without having called anything runs no kernel.
"""

from __future__ import annotations

import re

from tools.viability.hostcode.expressions import (
    Expressions,
    LeftError,
    Refusal,
    RefusedError,
    Scope,
    UnsureError,
    Value,
    calls,
)
from tools.viability.hostcode.sources import Definition, Node, Sources, name_of

DEPTH, STEPS = 14, 5_000
"""How deep calls are followed, and how much of a function."""

CONTRASTS = ((8, 0), (8, 9), (9, 0), (10, 0), (10, 3), (12, 0), (12, 1))
"""Devices that a refusal is contrasted with."""

_TEMPLATE = re.compile(r"<.*>")
_LOOPS = frozenset({"for_statement", "while_statement", "for_range_loop"})


class HostCode:
    """The host's functions of a tree, asked for by the files that are compiled and the exported name."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._asked: dict[tuple[tuple[str, ...], str, tuple[int, int]], tuple[Refusal | None, bool]] = {}

    def refusal(
        self, files: tuple[str, ...], name: str, arch: tuple[int, int]
    ) -> tuple[Refusal | None, bool]:
        """What refuses a device in the function that ``files`` export as ``name``, or define so (then perhaps
        with its class); and whether the device was asked for on the way."""
        refusal, asked = self._walked(files, name, arch)
        if refusal is not None:
            # What no device gets past is no check of the device: something was not read as it is meant.
            others = (self._walked(files, name, other) for other in CONTRASTS if other != arch)
            if not asked or all(there is not None for there, _ in others):
                return None, asked
        return refusal, asked

    def refusal_on(self, files: tuple[str, ...], name: str, major: int, minor: int) -> Refusal | None:
        """The same for a device by its two numbers."""
        return self.refusal(files, name, (major, minor))[0]

    def _walked(
        self, files: tuple[str, ...], name: str, arch: tuple[int, int]
    ) -> tuple[Refusal | None, bool]:
        key = (files, name, arch)
        if key not in self._asked:
            walk = _Walk(self._sources.files(files), arch)
            self._asked[key] = walk.refusal(name), walk.asked
        return self._asked[key]


class _Walk(Expressions):
    """One way through, for one device."""

    def refusal(self, name: str) -> Refusal | None:
        exported = next((text.exports[name] for text in self.texts if name in text.exports), name)
        of, _, last = _TEMPLATE.sub("", exported).rpartition("::")
        owner = of.rpartition("::")[2]
        found = [one for one in self._named(last) if not owner or one.owner in (owner, None)]
        if len(found) != 1:
            return None
        try:
            self._run(found[0], [], outer=True)
        except RefusedError as refused:
            return refused.refusal
        except (UnsureError, RecursionError):
            return None
        return None

    def _named(self, name: str) -> list[Definition]:
        return [one for text in self.texts for one in text.functions.get(name, ())]

    # -- functions ------------------------------------------------------------------------------------

    def _run(self, one: Definition, given: list[Value], *, outer: bool = False) -> Value:
        if self.depth >= DEPTH:
            raise UnsureError
        scope = Scope(one.file, one.owner, outer=outer)
        for place, (name, usual) in enumerate(one.parameters):
            if name is not None:
                left_out = self.value(usual, scope) if usual is not None else None
                scope.names[name] = given[place] if place < len(given) else left_out
        self.depth += 1
        try:
            for part in one.node.named_children:
                if part.type == "field_initializer_list":
                    self._initialise(part, scope)
            self.block(one.node.child_by_field_name("body"), scope)
        except LeftError as left:
            return left.value
        finally:
            self.depth -= 1
        return None

    def _initialise(self, node: Node, scope: Scope) -> None:
        for part in node.named_children:
            name = name_of(part)
            values = [
                self.value(item, scope)
                for items in part.named_children
                if items.type in ("argument_list", "initializer_list")
                for item in items.named_children
            ]
            if name is not None and name == scope.owner:
                self.call(name, values, scope)
            elif name is not None:
                self.members[name] = values[0] if len(values) == 1 else None

    def call(self, name: str, given: list[Value], scope: Scope, owner: str | None = None) -> Value:
        """A call of a function of the sources; where several may be meant, what all of them do."""
        fits = []
        for one in self._named(name):
            takes = one.parameters
            needed = sum(usual is None for _, usual in takes)
            if needed <= len(given) <= len(takes) and (owner is None or one.owner == owner):
                fits.append(one)
        if not fits or len(fits) > 8:
            return None
        ends: list[tuple[Value, Refusal | None]] = []
        told, before = any(isinstance(value, int) for value in given), self.asked
        for one in fits:
            self.asked = False
            try:
                ends.append((self._run(one, given), None))
            except RefusedError as refused:
                # What knows nothing of the device refuses something else.
                ends.append((None, refused.refusal if told or self.asked else None))
            except UnsureError:
                ends.append((None, None))
            before = before or self.asked
        self.asked = before
        if all(refusal is not None for _, refusal in ends):
            raise RefusedError(ends[0][1])  # type: ignore[arg-type]
        values = {value for value, _ in ends}
        return values.pop() if len(values) == 1 else None

    # -- statements -----------------------------------------------------------------------------------

    def block(self, node: Node, scope: Scope) -> None:
        for part in node.named_children:
            self._statement(part, scope)

    def _statement(self, node: Node, scope: Scope) -> None:
        self.steps += 1
        if self.steps > STEPS:
            raise UnsureError
        kind = node.type
        if kind in ("compound_statement", "else_clause", "labeled_statement"):
            self.block(node, scope)
        elif kind == "expression_statement":
            for part in node.named_children:
                self.value(part, scope)
        elif kind == "declaration":
            self._declare(node, scope)
        elif kind == "return_statement":
            value = next((self.value(part, scope) for part in node.named_children), None)
            raise LeftError(value)
        elif kind == "throw_statement":
            raise RefusedError(self.told(node, scope))
        elif kind in ("break_statement", "continue_statement"):
            raise LeftError(breaks=True)
        elif kind == "if_statement":
            self._if(node, scope)
        elif kind == "switch_statement":
            self._switch(node, scope)
        elif kind == "do_statement":
            self._once(node, scope)
        elif kind in _LOOPS or kind.startswith("preproc_") or kind == "try_statement":
            self._maybe(node, scope)

    def _declare(self, node: Node, scope: Scope) -> None:
        static = any(
            part.type == "storage_class_specifier" and part.text == b"static" for part in node.children
        )
        made = name_of(node.child_by_field_name("type"))
        for part in node.children_by_field_name("declarator"):
            name = name_of(part)
            given = part.child_by_field_name("value") if part.type == "init_declarator" else None
            value: Value = None
            if given is not None and given.type in ("argument_list", "initializer_list"):
                values = [self.value(item, scope) for item in given.named_children]
                value = values[0] if len(values) == 1 else None
                if made is not None:
                    self.call(made, values, scope, owner=made)
            elif given is not None:
                value = self.value(given, scope)
            target = part.child_by_field_name("declarator") if part.type == "init_declarator" else part
            if target is not None and target.type == "structured_binding_declarator":
                parts = value if isinstance(value, tuple) else ()
                for place, inner in enumerate(target.named_children):
                    scope.names[inner.text.decode()] = parts[place] if place < len(parts) else None
            elif name is not None:
                scope.names[name] = value
                if static:
                    scope.statics.add(name)

    def _if(self, node: Node, scope: Scope) -> None:
        condition = node.child_by_field_name("condition")
        holds = self._condition(condition, scope)
        sides = [node.child_by_field_name("consequence"), node.child_by_field_name("alternative")]
        if holds is None:
            self._either(sides, scope)
        elif sides[0 if holds else 1] is not None:
            self._statement(sides[0 if holds else 1], scope)

    def _condition(self, node: Node, scope: Scope) -> bool | None:
        for part in node.named_children[:-1]:
            if part.type in ("init_statement", "declaration"):
                for inner in part.named_children if part.type == "init_statement" else [part]:
                    self._statement(inner, scope)
        value = node.child_by_field_name("value")
        if value is None or value.type in ("declaration", "condition_declaration"):
            return None
        found = self.value(value, scope)
        return bool(found) if isinstance(found, int) else None

    def _switch(self, node: Node, scope: Scope) -> None:
        chosen = self.value(node.child_by_field_name("condition").child_by_field_name("value"), scope)
        parts = [part for part in node.child_by_field_name("body").named_children if part.type != "comment"]
        cases = [part for part in parts if part.type == "case_statement"]
        if len(cases) < len(parts):
            raise UnsureError  # cases that a macro makes
        labels = [part.child_by_field_name("value") for part in cases]
        if not isinstance(chosen, int):
            complete = any(label is None for label in labels)
            self._either([*cases, *([] if complete else [None])], scope, cases=True)
            return
        values = [self.value(label, scope) if label is not None else None for label in labels]
        if any(label is not None and value is None for label, value in zip(labels, values, strict=True)):
            raise UnsureError
        start = next((at for at, value in enumerate(values) if value == chosen), None)
        if start is None:
            start = next((at for at, label in enumerate(labels) if label is None), len(cases))
        try:
            for case in cases[start:]:
                self._case(case, scope)
        except LeftError as left:
            if not left.breaks:
                raise

    def _case(self, node: Node, scope: Scope) -> None:
        label = node.child_by_field_name("value")
        for part in node.named_children:
            if label is None or part != label:
                self._statement(part, scope)

    def _once(self, node: Node, scope: Scope) -> None:
        """A loop whose first round comes before its test."""
        try:
            self._statement(node.child_by_field_name("body"), scope)
        except LeftError as left:
            if not left.breaks:
                raise
        self._maybe(node, scope)

    def _maybe(self, node: Node, scope: Scope) -> None:
        """What may run or not, or in another way than it stands there."""
        self._either([node, None], scope, inside=True)

    def _either(
        self, sides: list[Node | None], scope: Scope, *, cases: bool = False, inside: bool = False
    ) -> None:
        """One of several ways is taken, and it is not known which."""
        before, members = dict(scope.names), dict(self.members)
        ends: list[Refusal | None] = []
        after: list[tuple[dict[str, Value], dict[str, Value]]] = []
        left = False
        for side in sides:
            scope.names, self.members = dict(before), dict(members)
            refusal: Refusal | None = None
            try:
                if side is not None and cases:
                    self._case(side, scope)
                elif side is not None and inside:
                    self.block(side, scope)
                elif side is not None:
                    self._statement(side, scope)
            except RefusedError as refused:
                refusal = refused.refusal
            except LeftError as gone:
                left = left or not (gone.breaks or (scope.outer and not calls(side)))
            else:
                after.append((scope.names, self.members))
            ends.append(refusal)
        scope.names, self.members = _joined(before, members, after)
        if ends and all(refusal is not None for refusal in ends):
            assert ends[0] is not None
            raise RefusedError(ends[0])
        if left:
            raise UnsureError


def _joined(
    names: dict[str, Value],
    members: dict[str, Value],
    after: list[tuple[dict[str, Value], dict[str, Value]]],
) -> tuple[dict[str, Value], dict[str, Value]]:
    """What is known after one of several ways: what all that go on leave alike."""
    if not after:
        return names, members
    joined = []
    for kind in (0, 1):
        sides = [side[kind] for side in after]
        if all(side == sides[0] for side in sides):
            joined.append(sides[0])
            continue
        every = {name for side in sides for name in side}
        joined.append(
            {
                name: sides[0].get(name)
                if all(side.get(name) == sides[0].get(name) for side in sides)
                else None
                for name in every
            }
        )
    return joined[0], joined[1]
