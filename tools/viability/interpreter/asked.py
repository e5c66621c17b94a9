"""Facts of a scenario that note what is asked of them.

The number of a device or the word of an option goes through a run like any other. But a run depends on it
only by the answers to what it asks: whether the number is above nine, whether the word is this or that. So
such a fact computes like the plain value that it is, remembers of what is worked out from it how that was
done, and has every test of it noted with its answer. Whoever looks at it in any other way has it noted whole.
Scenarios that give the same answers give the same run (see :mod:`tools.viability.kept`).

Code of the interpreter's own language reaches past the methods of such a value: an index, a format, a regular
expression. Whatever hands values on to it makes them :func:`whole` first.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Note = Callable[["Question", Any], None]
"""Where a question is noted, with its answer."""


@dataclass(frozen=True, slots=True)
class Fact:
    """One fact, by the name under which a scenario's answers hold it."""

    name: str

    def under(self, answers: Mapping[str, Any]) -> Any:
        return answers[self.name]


@dataclass(frozen=True, slots=True)
class Worked:
    """What is worked out from facts: a function and what it was given, facts and plain values."""

    work: Callable[..., Any]
    parts: tuple[Any, ...]

    def under(self, answers: Mapping[str, Any]) -> Any:
        """What comes out in a scenario."""
        parts = (part.under(answers) if isinstance(part, (Fact, Worked)) else part for part in self.parts)
        return self.work(*parts)


Question = Fact | Worked


class Number(int):
    """A whole number that notes what is asked of it."""

    how: Question
    note: Note

    def __new__(cls, value: int, how: Question, note: Note) -> Number:
        made = super().__new__(cls, value)
        made.how, made.note = how, note
        return made


class Word(str):
    """A text that notes what is asked of it."""

    __slots__ = ("how", "note")
    how: Question
    note: Note

    def __new__(cls, value: str, how: Question, note: Note) -> Word:
        made = super().__new__(cls, value)
        made.how, made.note = how, note
        return made


def as_plain(value: Any) -> Any:
    """The value as it is, which nothing must depend on."""
    if type(value) is Number:
        return int.__int__(value)
    return str.__str__(value) if type(value) is Word else value


def whole(value: Any) -> Any:
    """The plain value, which is noted: all that comes of it may depend on it."""
    if type(value) in PLAIN:
        value.note(value.how, plain := as_plain(value))
        return plain
    if type(value) in (tuple, list):
        return type(value)(whole(item) for item in value)
    return value


def text_of(value: Any, form: Callable[[Any], str] = str) -> str:
    """The value as text, which remembers what it was made from."""
    return _worked(form, value) if type(value) in PLAIN else form(value)


def plain_type(value: Any) -> type:
    """What kind of value it is, to the program that is interpreted."""
    return PLAIN.get(type(value), type(value))


PLAIN: dict[type, type] = {Number: int, Word: str}


def _worked(work: Callable[..., Any], *parts: Any) -> Any:
    """What ``work`` makes of some values: a test's answer, which is noted, or a value that remembers how."""
    own = next(part for part in parts if type(part) in PLAIN)
    result = work(*map(as_plain, parts))
    how = Worked(work, tuple(part.how if type(part) in PLAIN else part for part in parts))
    if type(result) is int:
        return Number(result, how, own.note)
    if type(result) is str:
        return Word(result, how, own.note)
    if result is not NotImplemented:
        own.note(how, result)
    return result


def tested(test: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
    """The answer of a test; of sequences, or of a value and a sequence, as one question."""
    if not isinstance(left, SEQUENCES) and not isinstance(right, SEQUENCES):
        return test(left, right)
    held = [*_within(left), *_within(right)]
    if not held:
        return test(left, right)
    answer = test(_plain_all(left), _plain_all(right))
    held[0].note(Worked(test, (_how(left), _how(right))), answer)
    return answer


SEQUENCES = (tuple, list, set, frozenset)


def _within(value: Any) -> list[Any]:
    if isinstance(value, SEQUENCES):
        return [part for item in value for part in _within(item)]
    return [value] if type(value) in PLAIN else []


def _plain_all(value: Any) -> Any:
    if isinstance(value, SEQUENCES):
        return type(value)(_plain_all(item) for item in value)
    return as_plain(value)


def _how(value: Any) -> Any:
    if isinstance(value, (set, frozenset)):
        return frozenset(map(as_plain, value))  # they were noted whole when they went in
    if isinstance(value, SEQUENCES):
        kind = tuple if isinstance(value, tuple) else list
        return Worked(kind, (Worked(_sequence, tuple(map(_how, value))),))
    return value.how if type(value) in PLAIN else value


def _sequence(*items: Any) -> tuple[Any, ...]:
    return items


def _method(work: Callable[..., Any], *, turned: bool = False) -> Callable[..., Any]:
    """A method that does ``work`` with plain values and remembers how; ``turned``: for the right operand."""

    def method(*parts: Any) -> Any:
        if not all(isinstance(part, (int, float, str)) for part in parts):
            return NotImplemented
        return _worked(work, *(parts[::-1] if turned else parts))

    return method


def _whole_method(name: str, kind: type) -> Callable[..., Any]:
    """A method that needs the plain value."""
    plain = getattr(kind, name)

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return plain(whole(self), *map(whole, args), **kwargs)

    return method


def _whole_part(name: str) -> property:
    return property(lambda self: getattr(whole(self), name))


def _text_method(name: str) -> Callable[..., Any]:
    """A method of texts that takes texts, if anything."""
    known, plain = _method(getattr(str, name)), _whole_method(name, str)
    return lambda *parts: (known if all(isinstance(part, str) for part in parts) else plain)(*parts)


_TESTS = ("eq", "ne", "lt", "le", "gt", "ge")
_SUMS = ("add", "sub", "mul", "floordiv", "mod")
_ASIDE = {"__new__", "__init__", "__class__", "__getattribute__", "__getattr__", "__setattr__", "__delattr__"}
_ASIDE |= {"__init_subclass__", "__subclasshook__", "__doc__", "__dir__", "__sizeof__", "__reduce__"}
_ASIDE |= {"__reduce_ex__", "__getnewargs__", "__getstate__"}


def _watch(kind: type, plain: type, sums: tuple[str, ...], texts: tuple[str, ...]) -> None:
    """Have all methods of a class note what they look at."""
    for name in dir(plain):
        if name not in _ASIDE:
            method = _whole_method(name, plain) if callable(getattr(plain, name)) else _whole_part(name)
            setattr(kind, name, method)
    for name in (*_TESTS, *sums):
        setattr(kind, f"__{name}__", _method(getattr(operator, name)))
    for name in sums:
        setattr(kind, f"__r{name}__", _method(getattr(operator, name), turned=True))
    kind.__bool__ = _method(operator.truth)  # type: ignore[attr-defined]
    for name in texts:
        setattr(kind, name, _text_method(name))


_watch(Number, int, _SUMS, ())
_watch(Word, str, ("add",), ("__contains__", "startswith", "endswith", "lower", "upper", "strip"))
