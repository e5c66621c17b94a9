"""Where options are declared: command-line calls, annotated fields and fields of a closed type.

Three idioms, none tied to a file, a class or an option by name:

* a call ``….add_argument("--flag", choices=…, dest=…, default=…)`` inside a class (the options class);
* a class field ``name: Annotated[T, Meta(choices=…, cli_name=…)]``, whatever ``Annotated`` and
  ``Meta`` are called there;
* a field of an options class whose type is closed: ``Literal[...]``, an alias of it, an ``Enum``.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from tools.engines.folding import DEPTH_LIMIT, UNKNOWN, Folded, Folder, last_name
from tools.engines.modules import Imported, Module, Modules, Scope

CANDIDATE = re.compile(rb"\badd_argument\b|\bchoices\s*=|\bcli_name\s*=")
"""A file without these bytes declares no option by any of the idioms."""

METADATA_KEYWORDS = frozenset({"choices", "cli_name", "aliases", "help"})
OPEN_TYPES = frozenset({"str", "Any", "object"})


@dataclass(frozen=True)
class Declaration:
    """An option as declared. Lines are 1-based, inclusive."""

    field: str
    flag: str | None
    values: Folded
    default: Any
    file: str
    line: int
    end_line: int
    idiom: str


@dataclass
class _Class:
    """A class that may hold options: its fields and the parser calls in its methods."""

    node: ast.ClassDef
    scope: Scope
    fields: list[_Field] = field(default_factory=list)
    calls: list[tuple[ast.Call, Scope]] = field(default_factory=list)


@dataclass(frozen=True)
class _Field:
    name: str
    type: ast.expr
    metadata: ast.Call | None
    described: bool
    """Has metadata of the command-line kind, or a bare help text in its place."""
    default: ast.expr | None
    node: ast.AnnAssign
    scope: Scope


def declarations(modules: Modules, folder: Folder, files: list[str]) -> list[Declaration]:
    """All options with a closed set of values that ``files`` declare, by field name."""
    classes: list[_Class] = []
    loose: list[tuple[ast.Call, Scope]] = []
    for file in files:
        module = modules.load(file)
        if module is not None:
            _collect(module, modules, classes, loose)
    described = [c for c in classes if any(f.metadata is not None for f in c.fields)]
    chosen = described + _with_most_calls(classes, folder)
    found: dict[str, Declaration] = {}
    defaults: dict[str, Any] = {}
    flags: dict[str, str] = {}
    for holder in chosen:
        for item in holder.fields:
            value = None
            with suppress(RecursionError):
                value = _default(item.default, item.scope, folder)
            if item.name not in defaults or defaults[item.name] is None:
                defaults[item.name] = value
    calls = [call for holder in chosen for call in holder.calls]
    if not chosen:
        # No class holds options: the parser is filled in plain functions.
        calls = loose
    for call, scope in calls:
        with suppress(RecursionError):  # an expression nested past all use is passed over
            if declared := _from_call(call, scope, folder, defaults, flags):
                found.setdefault(declared.field, declared)
    for holder in chosen:
        for item in holder.fields:
            with suppress(RecursionError):
                if declared := _from_field(item, holder in described, folder, defaults, flags):
                    found.setdefault(declared.field, declared)
    return sorted(found.values(), key=lambda d: d.field)


def _collect(
    module: Module, modules: Modules, classes: list[_Class], loose: list[tuple[ast.Call, Scope]]
) -> None:
    pending: list[tuple[ast.AST, Scope, _Class | None]] = [(module.syntax, Scope(module), None)]
    while pending:
        node, scope, holder = pending.pop()
        if isinstance(node, ast.Call) and last_name(node.func) == "add_argument":
            (holder.calls if holder else loose).append((node, scope))
        inner, owner = scope, holder
        if isinstance(node, ast.ClassDef):
            owner = _Class(node, scope)
            inner = scope.inside(node)
            owner.fields = list(_fields(node, inner, modules))
            classes.append(owner)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            inner = scope.inside(node)
        pending.extend((child, inner, owner) for child in reversed(list(_statements(node))))


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """Children that can hold a call of the parser; expressions other than calls hold none."""
    for child in ast.iter_child_nodes(node):
        called = isinstance(child, ast.Call) and isinstance(node, ast.Expr | ast.Assign)
        if called or isinstance(child, ast.stmt | ast.ExceptHandler):
            yield child


def _with_most_calls(classes: list[_Class], folder: Folder) -> list[_Class]:
    """The class that registers most arguments, and those derived from it: other programs have parsers too."""
    main = max((c for c in classes if c.calls), key=lambda c: len(c.calls), default=None)
    if main is None:
        return []
    derived = [
        c for c in classes if c is not main and any(_is(base, main, c.scope, folder) for base in c.node.bases)
    ]
    return [main, *derived]


def _is(base: ast.expr, wanted: _Class, scope: Scope, folder: Folder) -> bool:
    found = folder.resolve(base, scope)
    return found is not None and found[0] is wanted.node


def _fields(node: ast.ClassDef, scope: Scope, modules: Modules) -> Iterator[_Field]:
    for statement in node.body:
        if not isinstance(statement, ast.AnnAssign) or not isinstance(statement.target, ast.Name):
            continue
        annotation = _unquoted(statement.annotation, statement)
        metadata: ast.Call | None = None
        described = False
        if isinstance(annotation, ast.Subscript) and _means_annotated(annotation.value, scope, modules):
            parts = annotation.slice.elts if isinstance(annotation.slice, ast.Tuple) else [annotation.slice]
            annotation = _unquoted(parts[0], statement)
            for part in parts[1:]:
                match part:
                    case ast.Call(keywords=keywords) if any(k.arg in METADATA_KEYWORDS for k in keywords):
                        metadata, described = part, True
                    case ast.Constant(value=str()) | ast.JoinedStr():
                        described = True
        yield _Field(statement.target.id, annotation, metadata, described, statement.value, statement, scope)


def _unquoted(annotation: ast.expr, at: ast.stmt) -> ast.expr:
    """An annotation written as a string, as the expression in it; lines stay those of the string."""
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        try:
            parsed = ast.parse(annotation.value.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return annotation
        for inner in ast.walk(parsed):
            if hasattr(inner, "lineno"):
                inner.lineno = annotation.lineno
        return parsed
    return annotation


def _means_annotated(head: ast.expr, scope: Scope, modules: Modules) -> bool:
    if last_name(head) == "Annotated":
        return True
    if not isinstance(head, ast.Name):
        return False
    binding = scope.module.names.get(head.id)
    if isinstance(binding, Imported) and binding.name == "Annotated":
        return True
    found = modules.look_up(head.id, scope)
    return found is not None and isinstance(found.node, ast.expr) and last_name(found.node) == "Annotated"


def _from_call(
    call: ast.Call, scope: Scope, folder: Folder, defaults: dict[str, Any], flags: dict[str, str]
) -> Declaration | None:
    names = [a.value for a in call.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
    flag = next((n for n in names if n.startswith("--")), None)
    keywords = {k.arg: k.value for k in call.keywords if k.arg}
    action = keywords.get("action")
    if flag is None or (action is not None and "deprecat" in ast.unparse(action).lower()):
        return None
    dest = keywords.get("dest")
    name = (
        dest.value
        if isinstance(dest, ast.Constant) and isinstance(dest.value, str)
        else flag.lstrip("-").replace("-", "_")
    )
    flags.setdefault(name, flag)
    if "choices" not in keywords:
        return None
    values = folder.fold(keywords["choices"], scope)
    default = _default(keywords.get("default"), scope, folder)
    return Declaration(
        field=name,
        flag=flag,
        values=values,
        default=defaults.get(name) if default is None else default,
        file=scope.module.file,
        line=call.lineno,
        end_line=call.end_lineno or call.lineno,
        idiom="add-argument",
    )


def _from_field(
    item: _Field, by_metadata: bool, folder: Folder, defaults: dict[str, Any], flags: dict[str, str]
) -> Declaration | None:
    flag = flags.get(item.name)
    values: Folded | None = None
    idiom = "typed-field"
    if item.metadata is not None:
        keywords = {k.arg: k.value for k in item.metadata.keywords if k.arg}
        idiom = "annotated-field"
        hidden = keywords.get("no_cli")
        named = keywords.get("cli_name")
        if isinstance(named, ast.Constant) and isinstance(named.value, str):
            flag = named.value
        elif flag is None and not (isinstance(hidden, ast.Constant) and hidden.value is True):
            flag = "--" + item.name.replace("_", "-")
        choices = keywords.get("choices")
        if choices is not None and not (isinstance(choices, ast.Constant) and choices.value is None):
            values = folder.fold(choices, item.scope)
    elif item.described:
        idiom = "annotated-field"
        flag = flag or "--" + item.name.replace("_", "-")
    if values is None:
        if by_metadata and not item.described:
            return None
        values = closed_type(item.type, item.scope, folder)
    if values is None or (flag is None and idiom == "typed-field"):
        return None  # a field without a flag is the options object's own business
    return Declaration(
        field=item.name,
        flag=flag,
        values=values,
        default=defaults.get(item.name),
        file=item.scope.module.file,
        line=item.node.lineno,
        end_line=item.node.end_lineno or item.node.lineno,
        idiom=idiom,
    )


def closed_type(annotation: ast.expr, scope: Scope, folder: Folder, depth: int = 0) -> Folded | None:
    """The values that a type admits, None where it is not closed; ``Literal | str`` is closed, incomplete."""
    if depth > 12:
        return None
    match annotation:
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return _union([left, right], scope, folder, depth)
        case ast.Subscript(value=head, slice=inner):
            parts = inner.elts if isinstance(inner, ast.Tuple) else [inner]
            match last_name(head):
                case "Literal":
                    return folder.fold(annotation, scope, "literal")
                case "Optional" | "Union":
                    return _union(parts, scope, folder, depth)
                case "list" | "List" | "Sequence" | "tuple" | "set" | "Annotated" | "Final":
                    return closed_type(parts[0], scope, folder, depth + 1)
            return None
        case ast.Constant(value=str()):
            return closed_type(_unquoted(annotation, ast.Pass()), scope, folder, depth + 1)
        case ast.Name() | ast.Attribute():
            found = folder.resolve(annotation, scope)
            if found is None:
                return None
            target, at = found
            if isinstance(target, ast.ClassDef):
                return folder.enum_members(target, at) if folder.is_enum(target, at) else None
            if isinstance(target, ast.Subscript | ast.BinOp):
                return closed_type(target, at, folder, depth + 1)
    return None


def _union(parts: list[ast.expr], scope: Scope, folder: Folder, depth: int) -> Folded | None:
    closed = [closed_type(part, scope, folder, depth + 1) for part in parts]
    known = [part for part in closed if part is not None]
    if not known:
        return None
    total = Folded()
    for part in known:
        total = total + part
    return total + UNKNOWN if any(last_name(part) in OPEN_TYPES for part in parts) else total


def _default(node: ast.expr | None, scope: Scope, folder: Folder, depth: int = 0) -> Any:
    """A default that is written as a literal, through ``Class.field`` and ``Field(default=…)``; else None."""
    if depth > DEPTH_LIMIT:
        return None  # names that lead to each other
    match node:
        case None:
            return None
        case ast.Constant(value=value):
            return value if isinstance(value, str | int | float | bool) else None
        case ast.Call(keywords=keywords):
            given = next((k.value for k in keywords if k.arg == "default"), None)
            return _default(given, scope, folder, depth + 1)
        case ast.Name() | ast.Attribute():
            found = folder.resolve(node, scope)
            if found is not None and isinstance(found[0], ast.expr) and found[0] is not node:
                owner = node.value if isinstance(node, ast.Attribute) else None
                holder = folder.resolve(owner, scope) if owner is not None else None
                if (
                    holder is not None
                    and isinstance(holder[0], ast.ClassDef)
                    and folder.is_enum(holder[0], holder[1])
                ):
                    members = folder.fold(node, scope).values
                    return members[0].value if members else None
                return _default(found[0], found[1], folder, depth + 1)
    return None
