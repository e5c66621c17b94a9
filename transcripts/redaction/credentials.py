"""What a secret looks like in text: the formats of keys, and names that say that a secret follows.

A rule finds the secret alone (its group ``s``); what leads to it stays readable. Digests, commits, paths and
names of kernels must come through whole: a value that only its name makes a secret must look drawn by chance.
No pattern may need more than linear time, whatever the text: what can repeat is bounded or ends the pattern.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

MARKER = re.compile(r"\[redacted:[a-z-]+\]")
"""What stands where a secret stood. No rule's secret contains ``[``, so a marker is never replaced."""

SHORTEST = 12
"""Characters of the shortest text in which a rule finds anything: a name or scheme, and its secret."""

# A token begins here: not within a word, but after an escape, a percent code or a colour, which end in one.
_START = (
    r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt])|(?<=%[0-9A-Fa-f]{2})|(?<=\\u[0-9A-Fa-f]{4})|(?<=\[\dm)|(?<=\d\dm))"
)
_NAME = (
    r"(?:api[ _-]?key|access[_-]?key(?:[_-]?id)?|secret(?:[_-]?(?:access[_-]?)?key)?"
    r"|private[_-]?key|auth[_-]?key|account[_-]?key|credentials?|passw(?:or)?d|passphrase|token)"
)
_NAMES = ("key", "token", "secret", "passw", "passphrase", "credential")
"""What each of these names has in it."""
_OPTION = rf"--?(?:\w{{1,40}}-){{0,5}}(?:\w{{1,40}}_)?{_NAME}"
_IS = r"\\?[\"']?\s*(?::\s*str\s*=|:=|=>|[:=])\s*"
_ASSIGNS = re.compile(rf"(?:{'|'.join(_NAMES)})(?:or)?[ds]?(?:[_-]?id)?\\?[\"']?\s*[:=]")
_SCHEME = r"(?i)\b[a-z][a-z0-9+.-]{0,20}://"

SECRET_NAME = re.compile(rf"(?is).{{0,80}}?{_NAME}")
"""The name of a field whose value is a secret."""
SECRET_OPTION = re.compile(f"(?i){_OPTION}")
"""An option whose value, the next argument, is a secret."""

_PLAIN = re.compile(r"[A-Z]?[a-z]+|[a-z]+(?:_[a-z]+)*|[A-Z]+(?:_[A-Z]+)*|[\d.:_-]+")
_PLACEHOLDER = re.compile(
    r"(?i)your[-_]|x{4}|\*\*\*|\.\.\.|placeholder|change-?me|^(.)\1*$|^(?:my[-_])?(?:example|secret|pass|pw|pwd)$"
)
_DIGEST = re.compile(r"(?:[a-z0-9]{1,9}[:=-])?(?:[0-9a-f]{32}|[0-9a-f]{40}|[0-9a-f]{56,128})")
_WORD = r"(?:\d{0,4}[A-Za-z]+\d{0,5}|\d{0,9})"
_WORDS = re.compile(rf"{_WORD}(?:[_./:@-]{_WORD})*|.*::.*")
_MIXED = re.compile(r"(?s)(?=.*?\d).*?[A-Za-z]")
_TURNS = re.compile(r"(?<=[A-Za-z])(?=\d)|(?<=\d)(?=[A-Za-z])")


@dataclass(frozen=True)
class Rule:
    """``marks``: lower-case text, one of which stands wherever the rule matches; asked first, being cheap.
    ``gate``: the same as a pattern, for marks that are common words. ``holds``: whether what was matched,
    with its secret in group ``s``, is one indeed."""

    kind: str
    marks: tuple[str, ...]
    pattern: re.Pattern[str]
    holds: Callable[[re.Match[str]], bool] = lambda _: True
    gate: re.Pattern[str] | None = None

    def may_match(self, lower: str) -> bool:
        """Whether the rule can match a text of which ``lower`` is the lower case."""
        marked = any(mark in lower for mark in self.marks)
        return marked and (self.gate is None or bool(self.gate.search(lower)))


def named(name: str, value: str, *, quoted: bool = True) -> bool:
    """Whether ``value``, assigned to ``name``, is a secret; not quoted it may be an expression of code."""
    if len(value) < 8 or _is_placeholder(value) or MARKER.search(value):
        return False
    if name.lower().endswith("token"):
        return _is_chancy(value)
    if not quoted and _WORDS.fullmatch(value):
        # `password=letmein123` stands in settings; what code assigns has a dot, or is a word.
        return value.isalnum() and bool(_TURNS.search(value)) and name.lower().startswith("pass")
    return bool(_MIXED.match(value)) or _is_chancy(value)


def _is_placeholder(value: str) -> bool:
    """A word, a name of code, a number, a path, or what stands in an example for a secret."""
    path = "/" in value and _WORDS.fullmatch(value)
    return bool(path or _PLAIN.fullmatch(value) or _PLACEHOLDER.search(value))


def _is_chancy(value: str) -> bool:
    """Letters and digits in turn, and neither a digest nor words with numbers."""
    if len(value) < 16 or _is_placeholder(value) or _DIGEST.fullmatch(value) or _WORDS.fullmatch(value):
        return False
    return len(_TURNS.findall(value)) >= 3


def _is_token(value: str) -> bool:
    """With a part that no word is: ten characters not all letters, or twenty."""
    parts = re.split(r"[_-]", value)
    long = any(len(part) >= 20 or (len(part) >= 10 and not part.isalpha()) for part in parts)
    return long and not _is_placeholder(value)


def _key_block(match: re.Match[str]) -> bool:
    if match["body"] is None:
        return True
    body = re.sub(r"\s|\\[nr]", "", match["body"])
    return bool(re.search(r"[A-Za-z0-9+/=]{40}", body) or re.fullmatch(r"[A-Za-z0-9+/=]{8,}", body))


def _option(match: re.Match[str]) -> bool:
    value = match["s"]
    if match["name"].lower().endswith("token") and not _is_token(value):
        return _is_chancy(value)
    return not _is_placeholder(value)


def _formats(*formats: str) -> re.Pattern[str]:
    return re.compile(f"{_START}(?P<s>{'|'.join(formats)})")


RULES = (
    Rule(
        "private-key",
        ("private key",),
        re.compile(
            r"(?s)(?P<s>-----BEGIN (?:[A-Z0-9]{1,20} ){0,3}PRIVATE KEY(?: BLOCK)?-----"
            r"(?:(?P<body>(?:(?!-----BEGIN).){8,10000}?)-----END [A-Z0-9 ]{0,60}PRIVATE KEY(?: BLOCK)?-----"
            r"|(?:(?:\s|\\[nr]){0,9}[A-Za-z0-9+/=]{20,})+))"
        ),
        _key_block,
    ),
    Rule(
        "aws-secret",
        ("akia", "asia"),
        re.compile(
            rf"{_START}A[KS]IA[A-Z0-9]{{16}}(?:\\[nrt]|[\s,:;|\"'/=]){{1,8}}"
            r"(?P<s>[A-Za-z0-9/+]{40})(?![A-Za-z0-9/+=])"
        ),
        lambda match: not _DIGEST.fullmatch(match["s"]),
    ),
    Rule("aws-key", ("akia", "asia"), _formats(r"A[KS]IA[A-Z0-9]{16}(?!\w)")),
    Rule("jwt", ("eyj",), _formats(r"eyJ[\w-]{8,2000}\.[\w-]{8,}(?:\.[\w-]*){1,3}")),
    Rule(
        "api-key",
        ("sk-", "hf_", "nvapi-", "gsk_", "xai-", "glpat-"),
        _formats(
            r"sk-[\w-]{16,}", r"hf_[A-Za-z0-9]{20,}(?!\w)", r"nvapi-[\w-]{20,}",
            r"gsk_[A-Za-z0-9]{20,}(?!\w)", r"xai-[A-Za-z0-9]{20,}", r"glpat-[\w-]{16,}",
        ),
        lambda match: _is_token(match["s"]),
    ),
    Rule(
        "api-key",
        ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "aiza", "xox", "npm_", "hooks.slack"),
        _formats(
            r"gh[pousr]_[A-Za-z0-9]{20,}(?!\w)", r"github_pat_\w{20,}", r"AIza[\w-]{30,}",
            r"xox[abceoprs]-[A-Za-z0-9-]{10,}", r"npm_[A-Za-z0-9]{36}(?!\w)",
            r"(?<=hooks\.slack\.com/)services/[A-Za-z0-9/]{20,}",
        ),
    ),
    Rule(
        "authorization",
        ("authorization",),
        re.compile(
            r"(?i)authorization\\?[\"']?\s*[:=,]\s*\\?[\"']?(?:bearer|basic|token|apikey)\s+"
            r"(?P<s>[^\s\"'\\,;<>{}$\[]{6,})"
        ),
        lambda match: not _is_placeholder(match["s"]),
    ),
    Rule(
        "authorization",
        ("bearer ",),
        re.compile(r"(?i)\bbearer +(?P<s>[\w.~+/=-]{16,})"),
        lambda match: _is_token(match["s"]) or _is_chancy(match["s"]),
    ),
    Rule(
        "password",
        ("://",),
        re.compile(rf"{_SCHEME}[^\s/@:\"'<>{{}}\[\]\\]{{0,200}}:(?P<s>(?![{{$%])[^\s/@\"'`<>{{}}\[\]\\]{{1,200}})@"),
        lambda match: not re.search(rf"{_PLACEHOLDER.pattern}|^(?:password|\d{{1,5}})$", match["s"]),
    ),
    Rule(
        "password",
        ("://",),
        re.compile(rf"{_SCHEME}(?P<s>[^\s/@:\"'`<>{{}}$\[\]\\]{{16,200}})@"),
        lambda match: _is_chancy(match["s"]),
    ),
    Rule(
        "secret",
        _NAMES,
        re.compile(
            rf"(?i)(?<![\w-])(?P<name>{_OPTION})(?:(?:=|\s+)\\?[\"']?|\\?[\"']\s*,\s*\\?[\"'])"
            r"(?P<s>(?!-)[^\s\"'`\\,;\[\](){}<>$]{6,})"
        ),
        _option,
        re.compile(rf"-(?:{'|'.join(_NAMES)}|api)|--\w{{1,40}}[_-](?:{'|'.join(_NAMES)})"),
    ),
    Rule(
        "secret",
        _NAMES,
        re.compile(rf"(?i)(?P<name>{_NAME}){_IS}[bru]?\\?[\"'](?P<s>[^\s\"'`\\{{}}<>$\[\]]{{8,}})"),
        lambda match: named(match["name"], match["s"]),
        _ASSIGNS,
    ),
    Rule(
        "secret",
        _NAMES,
        re.compile(rf"(?i)(?P<name>{_NAME}){_IS}(?P<s>[^\s\"'`,;()\[\]{{}}<>$\\&|]{{8,}})(?![(\[])"),
        lambda match: named(match["name"], match["s"], quoted=False),
        _ASSIGNS,
    ),
)  # fmt: skip
"""In order: what one has replaced, the next does not see."""
