"""Expressions of the host's code: numbers where they are known, and the checks that are made on the way."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tools.viability.device import device_fact
from tools.viability.hostcode.sources import Node, Text, name_of
from tools.viability.profile import libraries

Value = int | tuple[Any, ...] | None
"""A number, several values, or what is not known."""
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_NAMED = {"EQ": "==", "NE": "!=", "LT": "<", "LE": "<=", "GT": ">", "GE": ">="}
_COMPUTE: dict[str, Callable[[int, int], int]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "&": operator.and_,
    "|": operator.or_,
}


@dataclass(frozen=True)
class Refusal:
    """A check that fails: where it stands and what it says."""

    file: str
    line: int
    end_line: int
    text: str


class RefusedError(Exception):
    """The host refuses, whatever else is the case."""

    def __init__(self, refusal: Refusal) -> None:
        self.refusal = refusal


class LeftError(Exception):
    """``return``, ``break`` or the end of a loop's round."""

    def __init__(self, value: Value = None, *, breaks: bool = False) -> None:
        self.value = value
        self.breaks = breaks


class UnsureError(Exception):
    """From here on nothing is certain."""


@dataclass
class Scope:
    """One function in progress."""

    file: str
    owner: str | None
    names: dict[str, Value] = field(default_factory=dict)
    statics: set[str] = field(default_factory=set)
    outer: bool = False
    """It is the function that is called from outside."""


class Expressions:
    """What expressions are worth on one device. Functions that they call are followed by whoever derives."""

    def __init__(self, texts: tuple[Text, ...], arch: tuple[int, int]) -> None:
        self.texts = texts
        self.arch = arch
        self.members: dict[str, Value] = {}
        self.depth = self.steps = 0
        self.asked = False
        data = libraries()["host"]
        self.checks, self.throws = frozenset(data["check"]), frozenset(data["throw"])
        self.not_ours, self.attributes = frozenset(data["status"]), dict(data["attributes"])
        self.properties: dict[str, str] = data["properties"]

    def call(self, name: str, given: list[Value], scope: Scope, owner: str | None = None) -> Value:
        """A call of a function of the sources."""
        raise NotImplementedError

    def block(self, node: Node, scope: Scope) -> None:
        """Statements one after the other."""
        raise NotImplementedError

    def value(self, node: Node, scope: Scope) -> Value:
        handler = _EXPRESSIONS.get(node.type)
        if handler is not None:
            return handler(self, node, scope)
        for part in node.named_children:
            if part.type not in _STILL:
                self.value(part, scope)
        return None

    def _number(self, node: Node, scope: Scope) -> Value:
        try:
            return int(node.text.decode().rstrip("uUlL").replace("'", ""), 0)
        except ValueError:
            return None

    def _name(self, node: Node, scope: Scope) -> Value:
        name = name_of(node)
        if name is None:
            return None
        for names in (scope.names, self.members):
            if name in names:
                return names[name]
        found = {text.constants[name] for text in self.texts if name in text.constants}
        return found.pop() if len(found) == 1 else None

    def _inner(self, node: Node, scope: Scope) -> Value:
        value = node.child_by_field_name("value") or next(iter(node.named_children), None)
        return self.value(value, scope) if value is not None else None

    def _unary(self, node: Node, scope: Scope) -> Value:
        value = self.value(node.child_by_field_name("argument"), scope)
        sign = node.child_by_field_name("operator").text
        if not isinstance(value, int):
            return None
        return {b"!": int(not value), b"-": -value}.get(sign)

    def _binary(self, node: Node, scope: Scope) -> Value:
        sign = node.child_by_field_name("operator").text.decode()
        left = self.value(node.child_by_field_name("left"), scope)
        after = node.child_by_field_name("right")
        if sign in ("&&", "||"):
            stops = isinstance(left, int) and bool(left) == (sign == "||")
            if stops:
                return int(sign == "||")
            if left is None and calls(after):
                return None  # whether it is asked is not known
            right = self.value(after, scope)
            if isinstance(right, int) and (left is not None or bool(right) == (sign == "||")):
                return int(bool(right))
            return None
        empty = _is_end(after) and node.child_by_field_name("left").type == "identifier"
        if empty and scope.statics and sign in ("==", "!="):
            return int(sign == "==")  # what only this function fills is empty the first time
        right = self.value(after, scope)
        if not (isinstance(left, int) and isinstance(right, int)):
            return None
        if sign in _COMPARE:
            return int(_COMPARE[sign](left, right))
        if sign in ("/", "%") and right > 0 and left >= 0:
            return left // right if sign == "/" else left % right
        return _COMPUTE[sign](left, right) if sign in _COMPUTE else None

    def _choice(self, node: Node, scope: Scope) -> Value:
        holds = self.value(node.child_by_field_name("condition"), scope)
        if not isinstance(holds, int):
            return None
        return self.value(node.child_by_field_name("consequence" if holds else "alternative"), scope)

    def _assign(self, node: Node, scope: Scope) -> Value:
        value = self.value(node.child_by_field_name("right"), scope)
        plain = node.child_by_field_name("operator")
        self._put(
            node.child_by_field_name("left"), value if plain is None or plain.text == b"=" else None, scope
        )
        return value

    def _put(self, target: Node, value: Value, scope: Scope) -> None:
        name = name_of(target.child_by_field_name("field") or target)
        if name is None:
            return
        if target.type == "identifier" and name in scope.names:
            scope.names[name] = value
        else:
            self.members[name] = value if self.members.get(name, value) == value else None

    def _field(self, node: Node, scope: Scope) -> Value:
        name = name_of(node.child_by_field_name("field"))
        self.value(node.child_by_field_name("argument"), scope)
        if name in self.properties:
            self.asked = True
            return device_fact(self.properties[name], *self.arch)
        return self.members.get(name) if name is not None else None

    def _lambda(self, node: Node, scope: Scope) -> Value:
        return None

    def _tuple(self, node: Node, scope: Scope) -> Value:
        return tuple(self.value(part, scope) for part in node.named_children)

    def _calling(self, node: Node, scope: Scope) -> Value:
        function, listed = node.child_by_field_name("function"), node.child_by_field_name("arguments")
        items = list(listed.named_children) if listed is not None else []
        if function.type == "lambda_expression":
            return self._called(function, scope)
        name = name_of(function.child_by_field_name("field") or function)
        if name is None:
            return None
        if name in self.attributes or any(part.text.decode() in self.attributes for part in items):
            return self._attribute(items, scope)
        if name.isupper():
            return self._macro(node, name, items, scope)
        if function.type == "field_expression":
            self.value(function.child_by_field_name("argument"), scope)
        values = [self.value(part, scope) for part in items if part.type != "comment"]
        if name in _TUPLES:
            return tuple(values)
        made = _template(function)
        if name in _MAKERS and made is not None:
            self.call(made, values, scope, owner=made)
            return None
        if name.endswith("_cast"):
            return values[0] if len(values) == 1 else None
        value = self.call(name, values, scope)
        for part in items:  # what is handed over by address may be changed
            if part.type == "pointer_expression" and part.text.startswith(b"&"):
                self._put(part.child_by_field_name("argument"), None, scope)
        return value

    def _attribute(self, items: list[Node], scope: Scope) -> Value:
        """``get(&variable, ATTRIBUTE, device)``."""
        told = next(
            (self.attributes[part.text.decode()] for part in items if part.text.decode() in self.attributes),
            None,
        )
        self.asked = True
        if told is not None and items and items[0].type == "pointer_expression":
            self._put(items[0].child_by_field_name("argument"), device_fact(told, *self.arch), scope)
        return None

    def _macro(self, node: Node, name: str, items: list[Node], scope: Scope) -> Value:
        words = name.split("_")
        if words[-1] in self.throws and not self.not_ours & set(words) and not self.checks & set(words):
            raise RefusedError(self.told(node, scope))
        values = [
            self._called(part, scope) if part.type == "lambda_expression" else self.value(part, scope)
            for part in items
        ]
        if not self.checks & set(words) or self.not_ours & set(words) or not items:
            return None
        if words[-1] in _NAMED:
            both = values[:2]
            known = len(both) == 2 and all(isinstance(value, int) for value in both)
            holds = _COMPARE[_NAMED[words[-1]]](*both) if known else None
        else:
            tested = items[0].type in _TESTS
            holds = bool(values[0]) if tested and isinstance(values[0], int) else None
        if holds is False:
            raise RefusedError(self.told(node, scope))
        return None

    def _called(self, node: Node, scope: Scope) -> Value:
        """A function without a name that is called where it stands; it sees what is around it."""
        inner = Scope(scope.file, scope.owner, scope.names, scope.statics, scope.outer)
        try:
            self.block(node.child_by_field_name("body"), inner)
        except LeftError as left:
            return left.value
        return None

    def _new(self, node: Node, scope: Scope) -> Value:
        listed = node.child_by_field_name("arguments")
        values = [self.value(part, scope) for part in listed.named_children] if listed is not None else []
        made = name_of(node.child_by_field_name("type"))
        if made is not None:
            self.call(made, values, scope, owner=made)
        return None

    def told(self, node: Node, scope: Scope) -> Refusal:
        """The refusal that stands at a node, with the first text in its statement."""
        whole = node
        while whole.parent is not None and whole.parent.type in ("binary_expression", "expression_statement"):
            whole = whole.parent
        todo, text = [whole], ""
        while todo and not text:
            part = todo.pop()
            if part.type == "string_content":
                text = part.text.decode(errors="replace").strip()
            todo += reversed(part.named_children)
        return Refusal(scope.file, node.start_point[0] + 1, node.end_point[0] + 1, text)


def calls(node: Node | None) -> bool:
    """Whether anything is called within."""
    todo = [node] if node is not None else []
    while todo:
        part = todo.pop()
        if part.type in ("call_expression", "new_expression"):
            return True
        todo += part.named_children
    return False


def _is_end(node: Node) -> bool:
    """``container.end()``."""
    function = node.child_by_field_name("function") if node.type == "call_expression" else None
    return (
        function is not None
        and function.type == "field_expression"
        and name_of(function.child_by_field_name("field")) == "end"
    )


def _template(function: Node) -> str | None:
    """``T`` of ``make<T>``."""
    while function is not None and function.type != "template_function":
        function = function.child_by_field_name("name")
    listed = function.child_by_field_name("arguments") if function is not None else None
    first = next(iter(listed.named_children), None) if listed is not None else None
    return name_of(first.child_by_field_name("type") or first) if first is not None else None


_STILL = frozenset({"lambda_expression", "type_descriptor", "template_argument_list", "comment"})
_TUPLES = frozenset({"make_tuple", "make_pair", "tuple", "pair"})
_MAKERS = frozenset({"make_shared", "make_unique"})
_TESTS = frozenset({"binary_expression", "unary_expression", "parenthesized_expression", "true", "false"})
_EXPRESSIONS: dict[str, Callable[[Expressions, Node, Scope], Value]] = {
    "number_literal": Expressions._number,
    "true": lambda *_: 1,
    "false": lambda *_: 0,
    "identifier": Expressions._name,
    "qualified_identifier": Expressions._name,
    "parenthesized_expression": Expressions._inner,
    "cast_expression": Expressions._inner,
    "unary_expression": Expressions._unary,
    "binary_expression": Expressions._binary,
    "conditional_expression": Expressions._choice,
    "assignment_expression": Expressions._assign,
    "field_expression": Expressions._field,
    "lambda_expression": Expressions._lambda,
    "initializer_list": Expressions._tuple,
    "call_expression": Expressions._calling,
    "new_expression": Expressions._new,
}
