"""No secret reaches a log: what looks like one, in JSON values, is replaced by ``[redacted:KIND]``.

:func:`redacted` knows the formats of :mod:`transcripts.redaction.credentials`; a :class:`Redactor` also knows
exact strings, e.g. the keys in the program's own environment. Redacting twice changes nothing more.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, TypeAlias
from urllib.parse import quote

from memory.canonical import finding_id, text_sha256
from memory.clock import hypothesis_id
from transcripts.redaction.credentials import MARKER, RULES, SECRET_NAME, SECRET_OPTION, SHORTEST, Rule, named

JSON: TypeAlias = Any
"""What JSON holds: dicts with text as keys, lists, text, numbers, true, false, null."""

LEAST = 4
"""Characters of the shortest exact secret: a shorter one stands everywhere."""

_MARKS = tuple(dict.fromkeys(mark for rule in RULES for mark in rule.marks))
_ANY_MARK = re.compile("|".join(map(re.escape, _MARKS)))
_SHORT = 500
"""Characters up to which one pattern finds a mark sooner than looking for each."""
_NESTED = (dict, list, tuple)
_MEMORY = 4096
"""Strings that are known to hold nothing: most of what an event says was said before."""
_SECRET_VARIABLE = re.compile(
    r"(?:^|_)(?:[A-Z]*KEY(?:_ID)?|[A-Z]*TOKEN|[A-Z]*SECRET|PASS|PASSW(?:OR)?D|PASSPHRASE|CREDENTIALS?)$"
)
_WORD = re.compile(r"[a-z]+|[\d.]+")


class Redactor:
    """Replaces what looks like a secret, and the strings ``exact`` wherever they stand.

    ``found`` is told of each secret that a rule finds, and its kind; given as ``known`` to another, these are
    replaced everywhere too. Raises ``ValueError`` for an exact secret that is shorter than 4 characters: it
    would stand everywhere.
    """

    def __init__(
        self,
        exact: Iterable[str] = (),
        *,
        known: Mapping[str, str] | None = None,
        found: Callable[[str, str], object] = lambda _secret, _kind: None,
    ) -> None:
        kinds = {**(known or {}), **dict.fromkeys(exact, "known")}
        self._exact = {
            one: f"[redacted:{kind}]" for secret, kind in kinds.items() for one in spellings(secret)
        }
        longest_first = sorted(self._exact, key=lambda one: (-len(one), one))
        if longest_first and len(longest_first[-1]) < LEAST:
            raise ValueError(f"a secret of less than {LEAST} characters would be found everywhere")
        self._pattern = re.compile("|".join([MARKER.pattern, *map(re.escape, longest_first)]))
        self._found = found
        self._shortest = min([SHORTEST, *map(len, self._exact)])
        self._clean: set[str] = set()

    def __call__(self, value: JSON) -> JSON:
        """``value`` without secrets: the same object where there are none, else a new one.

        Hashes in it that are over its own words follow: the sha256 of an excerpt, ids of findings.
        """
        return true_again(value, self.without(value))

    def without(self, value: JSON) -> JSON:
        """``value`` without secrets, its hashes as they were."""
        return value if self._is_clean(value) else self._replaced(value)

    def _is_clean(self, value: JSON) -> bool:
        """Whether nothing in ``value`` can be a secret. Quick, and in doubt no."""
        clean, shortest = self._clean, self._shortest
        todo = [value if isinstance(value, _NESTED) else [value]]
        for item in todo:  # grows while it is gone through
            parts: Iterable[JSON] = item
            if isinstance(item, dict):
                # A name of any length can say that its value is a secret, and so can an option in a list.
                if not clean.issuperset(item) and not all(key in clean or self._note(key) for key in item):
                    return False
                parts = item.values()
            for part in parts:
                if isinstance(part, str):
                    if part in clean or (len(part) < shortest and not part.startswith("-")):
                        continue
                    if not self._note(part):
                        return False
                elif part and isinstance(part, _NESTED):
                    todo.append(part)
        return True

    def _note(self, text: str) -> bool:
        """Whether ``text`` holds nothing, remembered where it does not."""
        if self._marked(text) and (_names_one(text) or self._text(text) is not text):
            return False
        if len(text) <= 1000:
            if len(self._clean) >= _MEMORY:
                self._clean.clear()
            self._clean.add(text)
        return True

    def _marked(self, text: str) -> bool:
        for exact in self._exact:
            if exact in text:
                return True
        lower = text.lower()
        if len(lower) < _SHORT:
            return bool(_ANY_MARK.search(lower))
        return any(mark in lower for mark in _MARKS)

    def _replaced(self, value: JSON) -> JSON:
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, dict):
            return self._dict(value)
        if isinstance(value, list | tuple):
            befores = (None, *value)
            items = [self._item(item, before) for item, before in zip(value, befores, strict=False)]
            same = all(new is old for new, old in zip(items, value, strict=True))
            return value if same else items
        return value

    def _dict(self, value: dict[str, JSON]) -> JSON:
        replaced: dict[str, JSON] = {}
        same = True
        for key, item in value.items():
            name, new = self._text(key), self._replaced(item)
            while name in replaced:
                name += "'"
            if new is item and isinstance(item, str):
                new = self._field(key, item)
            same = same and name == key and new is item
            replaced[name] = new
        return value if same else replaced

    def _field(self, key: str, value: str) -> str:
        """The value of a field, which the field's name may tell to be a secret."""
        if SECRET_NAME.fullmatch(key) and named(key, value):
            return self._mark(value)
        if key.lower().endswith("authorization") and not MARKER.search(value):
            return self._text(f"{key}: {value}")[len(key) + 2 :]
        return value

    def _item(self, item: JSON, before: JSON) -> JSON:
        """An item of a list, which may be the value of the option ``before`` it."""
        new = self._replaced(item)
        if new is item and isinstance(item, str) and isinstance(before, str) and not MARKER.search(item):
            line = f"{before} {item}"  # as it would be seen there
            if SECRET_OPTION.fullmatch(before) and self._text(line) != line:
                return self._mark(item)
        return new

    def _mark(self, secret: str) -> str:
        self._found(secret, "secret")
        return "[redacted:secret]"

    def _text(self, text: str) -> str:
        """``text`` without secrets; the same object where it has none."""
        if len(text) < self._shortest:
            return text
        # What is left after one secret may be another. Each round leaves less that is no marker.
        while (new := self._once(text)) != text:
            text = new
        return text

    def _once(self, text: str) -> str:
        if any(exact in text for exact in self._exact):
            text = self._pattern.sub(lambda match: self._exact.get(match[0], match[0]), text)
        lower = text.lower()
        for rule in RULES:
            if rule.may_match(lower):
                text = rule.pattern.sub(partial(self._by_rule, rule), text)
        return text

    def _by_rule(self, rule: Rule, match: re.Match[str]) -> str:
        if not rule.holds(match):
            return match[0]
        self._found(match["s"], rule.kind)
        start, end = match.start("s") - match.start(), match.end("s") - match.start()
        return f"{match[0][:start]}[redacted:{rule.kind}]{match[0][end:]}"


_RULES_ALONE = Redactor()


def redacted(value: JSON) -> JSON:
    """``value`` without what looks like a secret: the same object where there is nothing."""
    return _RULES_ALONE(value)


def environment_secrets(environ: Mapping[str, str]) -> list[str]:
    """The values of environment variables whose names say that they are keys, tokens, secrets or passwords.

    One that is a word or a number is none, unless it is a password: it would be found everywhere.
    """
    found = set()
    for name, value in environ.items():
        if len(value) < 8 or not _SECRET_VARIABLE.search(name.upper()):
            continue
        if "PASS" in name.upper() or not (_WORD.fullmatch(value) or value.startswith(("/", "~/"))):
            found.add(value)
    return sorted(found)


def shows(text: str, whole: str) -> bool:
    """Whether ``text`` is ``whole``, with or without its secrets."""
    if text == whole:
        return True
    first, *rest = MARKER.split(text)
    if not rest or not whole.startswith(first):
        return False
    at = len(first)
    for part in rest[:-1]:
        found = whole.find(part, at)
        if found < 0:
            return False
        at = found + len(part)
    return len(whole) - at >= len(rest[-1]) and whole.endswith(rest[-1])


def _names_one(text: str) -> bool:
    """Whether a field or an option of this name has a secret as its value."""
    known = SECRET_NAME.fullmatch(text) or SECRET_OPTION.fullmatch(text)
    return bool(known) or text.lower().endswith("authorization")


def spellings(secret: str) -> set[str]:
    """A secret as it stands in text, in JSON within text, and in a URL."""
    return {
        secret,
        json.dumps(secret, ensure_ascii=False)[1:-1],
        json.dumps(secret)[1:-1],
        quote(secret, safe=""),
    }


def true_again(old: JSON, new: JSON, renamed: Callable[[str, str], None] = lambda _old, _new: None) -> JSON:
    """``new``, made of ``old`` value by value, with the hashes that ``old`` had over its own words: of an
    excerpt, and the ids of findings and hypotheses. ``renamed`` is told of ids that are others now."""
    if new is old or not isinstance(new, dict | list | tuple):
        return new
    if not isinstance(new, dict):
        return [true_again(*pair, renamed) for pair in zip(old, new, strict=True)]
    pairs = zip(old.values(), new.items(), strict=True)
    fresh = {key: true_again(before, after, renamed) for before, (key, after) in pairs}
    said, says = old.get("excerpt"), fresh.get("excerpt")
    if isinstance(said, str) and isinstance(says, str) and fresh.get("sha256") == text_sha256(said):
        fresh["sha256"] = text_sha256(says)
    before, after = derived_id(old), derived_id(fresh)
    if before is not None and after not in (None, before) and before == fresh.get("id"):
        fresh["id"] = after
        renamed(before, str(after))
    return fresh


def derived_id(value: dict[str, JSON]) -> str | None:
    """The id that a finding or a hypothesis has by what it says; None for what is neither."""
    try:
        if "claim" in value:
            return finding_id(value["claim"])
        return hypothesis_id(value["component"], value["backend"], value["arch"])
    except (AttributeError, KeyError, TypeError, ValueError):
        return None
