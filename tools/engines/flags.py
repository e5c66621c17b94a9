"""Every flag that an engine's command line takes, whatever its values: what a launch command may say.

Wider than :mod:`tools.engines.options`, and less exact: a flag counts wherever a parser call or an annotated
field of the engine names it, its other programs included, so that none is called unknown that is not.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches

from tools.engines.adapter import Engine
from tools.engines.folding import last_name
from tools.engines.idioms import CANDIDATE, METADATA_KEYWORDS
from tools.source.files import PARSE_LIMIT
from tools.source.parse import parse_python

ALWAYS = ("--help", "-h", "--version", "--config")
"""Flags that parsers bring themselves."""
_NEGATED = "--no-"
_METADATA = re.compile(rb"\b(?:aliases|cli_name)\s*=")
_TYPES = frozenset({"Literal", "Optional", "Union", "dict", "Dict", "tuple", "Tuple", "Callable", "Mapping"})
"""Types with several parts that are no annotation of a flag."""
_DASHES = re.compile(rb"\.replace\(\s*[\"']_[\"'],\s*[\"']-[\"']\s*\)")


@dataclass(frozen=True)
class Flag:
    """A flag by the field that holds its value; ``names`` are all that it goes by."""

    field: str
    names: tuple[str, ...]
    file: str
    line: int
    bare: bool
    """Whether it takes no value."""
    deprecated: bool = False
    own: bool = True
    """Whether the server's parser has it, as far as can be told; else another program of the engine."""
    number: bool = False
    """Whether its value is a number and nothing else."""


class Flags:
    """The flags of an engine in one tree."""

    def __init__(self, found: Iterable[Flag], *, dashes: bool) -> None:
        self.by_name: dict[str, Flag] = {}
        for flag in found:
            for name in flag.names:
                # Where several programs have it, the one that says most of it.
                first = self.by_name.setdefault(name, flag)
                if first.number and not flag.number:
                    self.by_name[name] = replace(first, number=False)
        self._dashes = dashes

    def find(self, given: str) -> Flag | None:
        """The flag that a parser takes ``given`` for; None for one that it does not know.

        A beginning counts where it is of one flag alone, and ``--no-x`` for a bare ``--x``.
        """
        name = given.partition(".")[0] if given.startswith("--") else given
        name = "--" + name[2:].replace("_", "-") if self._dashes and name.startswith("--") else name
        exact = self.by_name.get(name)
        if exact is not None and exact.own:
            return exact
        if name.startswith(_NEGATED) and (flag := self.by_name.get("--" + name.removeprefix(_NEGATED))):
            return flag
        longer = {flag.field: flag for one, flag in self.by_name.items() if one.startswith(name) and flag.own}
        return next(iter(longer.values())) if len(longer) == 1 and name.startswith("--") else exact

    def nearest(self, given: str, most: int = 3) -> list[str]:
        """What was perhaps meant."""
        long = [name for name, flag in self.by_name.items() if name.startswith("--") and flag.own]
        return get_close_matches(given.replace("_", "-"), long, most, 0.75)


def discover_flags(texts: Mapping[str, bytes], profile: Engine) -> Flags:
    """All flags of an engine, of whose Python files ``texts`` has the contents by name."""
    found: list[Flag] = []
    fields: dict[str, list[Flag]] = {}
    dashes = False
    candidates = {file for file, data in texts.items() if CANDIDATE.search(data)}
    # Beside fields that say more of their flags lie files whose fields have nothing but a help text.
    folders = {file.rpartition("/")[0] for file in candidates if _METADATA.search(texts[file])}
    for file, data in texts.items():
        if (file not in candidates and file.rpartition("/")[0] not in folders) or len(data) > PARSE_LIMIT:
            continue
        dashes = dashes or (b"ArgumentParser)" in data and _DASHES.search(data) is not None)
        try:
            module = parse_python(data)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        calls, loops = _from_calls(module, file)
        found += calls
        if declared := list(_from_fields(module, file, every=loops)):
            fields[file] = declared
    count = Counter(flag.file for flag in found if flag.file.startswith(profile.options_under))
    own = {file for file in fields if file.startswith(profile.options_under)}
    own |= {file for file, _ in count.most_common(1)}
    every = [*found, *(flag for declared in fields.values() for flag in declared)]
    ranked = sorted(
        (replace(flag, own=flag.file in own) for flag in every),
        key=lambda flag: (not flag.own, -count[flag.file], flag.file, flag.line),
    )
    return Flags(ranked, dashes=dashes)


def _from_calls(module: ast.Module, file: str) -> tuple[list[Flag], bool]:
    """What calls of a parser declare, and whether some of them take their names from elsewhere."""
    found: list[Flag] = []
    loops = False
    numbers = _numbers(module)
    for node in ast.walk(module):
        if not isinstance(node, ast.Call) or last_name(node.func) != "add_argument":
            continue
        names = tuple(
            one.value
            for one in node.args
            if isinstance(one, ast.Constant) and isinstance(one.value, str) and one.value[:1] == "-"
        )
        loops |= any(isinstance(one, ast.JoinedStr) for one in node.args)
        if names:
            flag = _from_call(node, names, file)
            # What is told with stars is made of the field of that name.
            starred = any(one.arg is None for one in node.keywords) and flag.field in numbers
            found.append(replace(flag, number=flag.number or (starred and not flag.bare)))
    return found, loops


def _numbers(module: ast.Module) -> set[str]:
    """Names of fields that hold numbers in every class of a file that has them."""
    kinds: dict[str, bool] = {}
    for node in ast.walk(module):
        for item in node.body if isinstance(node, ast.ClassDef) else ():
            if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
                name = item.target.id
                kinds[name] = kinds.get(name, True) and _is_number(item.annotation)
    return {name for name, number in kinds.items() if number}


def _from_fields(module: ast.Module, file: str, *, every: bool) -> Iterator[Flag]:
    """Fields of classes that are annotated for a command line; ``every`` field where a loop adds them all."""
    for node in ast.walk(module):
        for item in node.body if isinstance(node, ast.ClassDef) else ():
            if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
                described, metadata = _described(item.annotation)
                if described or every:
                    yield _from_field(item.target.id, item, metadata, file)


def _from_call(call: ast.Call, names: tuple[str, ...], file: str) -> Flag:
    keywords = {one.arg: one.value for one in call.keywords if one.arg}
    action = ast.unparse(keywords["action"]) if "action" in keywords else ""
    long = next((name for name in names if name.startswith("--")), names[0])
    dest = keywords.get("dest")
    named = dest.value if isinstance(dest, ast.Constant) else None
    return Flag(
        field=str(named) if named else long.lstrip("-").replace("-", "_"),
        names=names,
        file=file,
        line=call.lineno,
        bare="store_true" in action or "store_false" in action,
        deprecated="deprecat" in action.lower(),
        number="type" in keywords and _is_number(keywords["type"]),
    )


def _from_field(name: str, item: ast.AnnAssign, metadata: ast.Call | None, file: str) -> Flag:
    keywords = {one.arg: one.value for one in metadata.keywords if one.arg} if metadata is not None else {}
    names = [] if "cli_name" in keywords else ["--" + name.replace("_", "-")]
    for key in ("cli_name", "aliases"):
        told = ast.walk(keywords[key]) if key in keywords else ()
        names += [one.value for one in told if isinstance(one, ast.Constant) and isinstance(one.value, str)]
    bare = re.search(r"\bbool\b", ast.unparse(item.annotation)) is not None
    number = "type" not in keywords and _is_number(item.annotation)
    return Flag(name, tuple(names), file, item.lineno, bare, number=number)


def _is_number(kind: ast.expr) -> bool:
    """Whether a type, as annotations and parsers name it, is ``int`` or ``float``, or none at all."""
    match kind:
        case ast.Subscript(value=head, slice=ast.Tuple(elts=[first, *_])) if last_name(head) not in _TYPES:
            return _is_number(first)
        case ast.Subscript(value=head, slice=inner) if last_name(head) == "Optional":
            return _is_number(inner)
        case ast.BinOp(op=ast.BitOr(), left=left, right=ast.Constant(value=None)):
            return _is_number(left)
        case ast.BinOp(op=ast.BitOr(), left=left, right=right):
            return _is_number(left) and _is_number(right)
    return isinstance(kind, ast.Name) and kind.id in ("int", "float")


def _described(annotation: ast.expr) -> tuple[bool, ast.Call | None]:
    """Whether ``Annotated[T, …]``, whatever it is called there, has help or more of a flag; and that more."""
    match annotation:
        case ast.Subscript(value=head, slice=ast.Tuple(elts=[_, *parts])) if last_name(head) not in _TYPES:
            for part in parts:
                if isinstance(part, ast.Call) and any(one.arg in METADATA_KEYWORDS for one in part.keywords):
                    return True, part
            return any(isinstance(part, ast.Constant | ast.JoinedStr | ast.BinOp) for part in parts), None
    return False, None


def never_read(texts: Mapping[str, bytes], fields: Iterable[str]) -> set[str]:
    """Those of ``fields`` that nothing in ``texts`` reads: no attribute and no text bears the name, beyond
    where it is declared."""
    left = set(fields)
    for data in texts.values():
        for name in [one for one in left if one.encode() in data]:
            read = rb"\.%s\b|[\"']%s[\"']" % ((re.escape(name.encode()),) * 2)
            own = rb"\b[A-Z]\w*\.%s\b" % re.escape(name.encode())  # a class's own default is no reader
            if re.search(read, re.sub(own, b"", data)):
                left.discard(name)
    return left
