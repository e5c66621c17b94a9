"""From a model's name to the classes that the installed engine registers, without a list of models.

Two idioms of registration: a module-level symbol that holds the module's classes, and a dictionary
``"Architecture": ("module", "Class")``. A name fits a class when the letters and digits of both agree,
version included; words that only tell a size or a number format are left out of the comparison. What
does not agree is never chosen, only listed.
"""

from __future__ import annotations

import ast
import difflib
import re
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files as resource
from typing import Any, Literal

from pydantic import Field

from memory.vocabulary import Contract, Evidence
from tools.engines.adapter import Engine
from tools.engines.copies import Lines
from tools.engines.modules import Modules
from tools.engines.traits import traits_of
from tools.source.files import read_bytes, walk
from tools.source.tree import SourceTree

NEAREST = 6
MENTIONS = 12
DICTIONARY = re.compile(rb"[\"']\w++[\"']\s*+:\s*+\(\s*+[\"'][\w.]++[\"']\s*+,\s*+[\"']\w++[\"']")


class ModelClass(Contract):
    """A class that the engine can load for a checkpoint whose config names ``architecture``."""

    architecture: str
    draft: bool
    """Only drafts tokens for another model (speculative decoding)."""
    evidence: Evidence
    """Where it is registered."""
    definition: Evidence | None = None
    code_for: dict[str, Evidence] = Field(default_factory=dict)
    """``moe``, ``linear_attention``, ``mla``, ``multimodal`` → the line that builds such a layer, where one
    is reachable from the class. Which of them a checkpoint uses is decided by its config."""


class Mention(Contract):
    """A line of a model's module that says the name although no class is called so."""

    architectures: tuple[str, ...]
    evidence: Evidence


class ModelMatch(Contract):
    """What a name fits.

    ``exact``: ``classes`` is the model's family, likeliest first. ``several``: it fits more than one family,
    all in ``candidates``. ``mentioned``: no class is called so, but modules in ``mentions`` say the name.
    ``none``: nothing does; ``nearest`` are other models.
    """

    asked: str
    fit: Literal["exact", "several", "mentioned", "none"]
    classes: tuple[ModelClass, ...] = ()
    drafts: tuple[ModelClass, ...] = ()
    candidates: tuple[ModelClass, ...] = ()
    mentions: tuple[Mention, ...] = ()
    nearest: tuple[str, ...] = ()
    """Architectures with the most similar names, where none fits."""
    ignored_words: tuple[str, ...] = ()
    """Words of the name that were taken as a size, a format or a role."""


@dataclass(frozen=True)
class ModelUse:
    """A model's class and the line that leads from it to a layer, if any does."""

    definition: Evidence
    line: Evidence | None


@dataclass(frozen=True)
class Registered:
    architecture: str
    file: str
    line: int
    class_file: str | None
    class_name: str

    @property
    def family(self) -> str:
        """Letters and digits of the name before ``For…``, ``Model`` or what marks a draft."""
        return plain(_before_role(self.architecture))

    @property
    def draft(self) -> bool:
        return re.search(_rules()["draft"]["pattern"], self.architecture) is not None


@cache
def _rules() -> dict[str, Any]:
    return tomllib.loads((resource("tools.engines") / "models.toml").read_text(encoding="utf-8"))


def plain(name: str) -> str:
    """Letters and digits only, in lower case: ``Qwen3_5`` and ``qwen3.5`` are the same."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _before_role(architecture: str) -> str:
    name = re.sub(_rules()["draft"]["pattern"], "", architecture)
    return re.sub(r"(For[A-Z]\w*|LMHead)?(Model)?$", "", name)


def may_be_one(said: str, named: str) -> bool:
    """Whether two names, of models or classes, may be of one family; one without a version may be of any."""
    key, other = sorted((_key(said), _key(named)), key=len)
    rest = other[len(key) :]
    versioned = any(c.isdigit() for c in key)
    return other.startswith(key) and (not versioned or rest in _rules()["same_family"]["endings"])


def _key(name: str) -> str:
    last = name.strip().rstrip("/").rsplit("/", 1)[-1]
    return plain("".join(_words(_before_role(last))[0]))


def registered(tree: SourceTree, engine: Engine, modules: Modules) -> list[Registered]:
    """Every class that the engine registers, by architecture, then file."""
    found: dict[tuple[str, str], Registered] = {}
    name = engine.model_symbol.encode()
    symbol = re.compile(rb"^%s\b[^=\n]*+=\s*+(\[[^\]]*+\]|\w++)" % name, re.M) if name else None
    for under in engine.models_under:
        if not (tree.root / under).exists():
            continue
        for file in walk(tree, under, (".py",)):
            data = read_bytes(tree, file)
            items = list(_by_symbol(file, data, symbol)) if symbol else []
            if DICTIONARY.search(data):
                module = modules.load(file, data)
                items.extend(_by_dictionary(file, module.syntax, modules) if module else ())
            for item in items:
                found.setdefault((item.architecture, item.class_file or ""), item)
    return sorted(found.values(), key=lambda item: (item.architecture, item.file))


def _by_symbol(file: str, data: bytes, symbol: re.Pattern[bytes]) -> Iterator[Registered]:
    """Read off the bytes: there is one such line in each of hundreds of large modules."""
    lines = Lines(data)
    for match in symbol.finditer(data):
        # Comments between the names are blanked, not cut, so that offsets stay true.
        listed = re.sub(rb"#[^\n]*", lambda comment: b" " * len(comment[0]), match[1])
        for name in re.finditer(rb"[A-Za-z_]\w*", listed):
            line = lines.of(match.start(1) + name.start())
            yield Registered(name[0].decode(), file, line, file, name[0].decode())


def _by_dictionary(file: str, syntax: ast.Module, modules: Modules) -> Iterator[Registered]:
    for statement in syntax.body:
        if isinstance(statement, ast.Assign | ast.AnnAssign) and isinstance(statement.value, ast.Dict):
            yield from _in_dictionary(file, statement.value, modules)


def _in_dictionary(file: str, value: ast.Dict, modules: Modules) -> Iterator[Registered]:
    for key, entry in zip(value.keys, value.values, strict=True):
        match key, entry:
            case (
                ast.Constant(value=str() as architecture),
                ast.Tuple(elts=[ast.Constant(value=str() as where), ast.Constant(value=str() as name)]),
            ):
                package = file.rsplit("/", 1)[0].replace("/", ".")
                dotted = where if "." in where else f"{package}.{where}"
                module = modules.path_of(dotted)
                yield Registered(architecture, file, key.lineno, module, name)


def find(tree: SourceTree, engine: Engine, asked: str) -> ModelMatch:
    """What ``asked`` means to the engine in ``tree``."""
    modules = Modules(tree)
    known = registered(tree, engine, modules)

    def described(items: list[Registered]) -> tuple[ModelClass, ...]:
        return tuple(_describe(tree, engine, modules, item) for item in items)

    name = asked.strip().rstrip("/").rsplit("/", 1)[-1]
    direct = [item for item in known if item.architecture.lower() == name.lower()]
    if direct:
        return ModelMatch(asked=asked, fit="exact", classes=described(direct))
    words, ignored = _words(name)
    key = plain("".join(words))
    family, others = _fitting(known, key)
    main = [item for item in family if not item.draft]
    drafts = [item for item in family if item.draft]
    if main and not (others and not any(c.isdigit() for c in key)):
        main.sort(key=lambda item: _rank(item, key, name))
        told = _told(main, key, name)
        rest = [item for item in [*main, *others] if item not in told and not item.draft]
        return ModelMatch(
            asked=asked,
            fit="exact",
            classes=described(told),
            drafts=described(drafts),
            candidates=described(rest),
            ignored_words=tuple(ignored),
        )
    candidates = [item for item in [*main, *others] if not item.draft]
    # A name without a version is said everywhere.
    telling = bool(key) and (not candidates or any(c.isdigit() for c in key))
    mentions = _mentions(tree, known, words) if telling else ()
    fit: Literal["several", "mentioned", "none"] = (
        "several" if candidates else "mentioned" if mentions else "none"
    )
    return ModelMatch(
        asked=asked,
        fit=fit,
        candidates=described(candidates[:40]),
        mentions=mentions,
        nearest=() if candidates else _nearest(known, key),
        ignored_words=tuple(ignored),
    )


def _words(name: str) -> tuple[list[str], list[str]]:
    """The words of a name that identify the model, and those that tell a size, a format or a role."""
    ignored = re.compile("|".join(f"(?:{word})" for word in _rules()["ignored"]["words"]))
    kept: list[str] = []
    dropped: list[str] = []
    for word in re.split(r"[\s\-_:,]+", name.lower()):
        if word:
            # The first word is the family's name whatever it looks like.
            (dropped if kept and ignored.fullmatch(word) else kept).append(word)
    return kept, dropped


def _fitting(known: list[Registered], key: str) -> tuple[list[Registered], list[Registered]]:
    """Classes of the family ``key``, and those of families whose name goes on after it with letters.

    A name that goes on with a digit is another version: ``qwen3`` is not ``qwen35``. Only where the key
    has no version at all are those families candidates too.
    """
    if not key:
        return [], []
    endings = _rules()["same_family"]["endings"]
    versioned = any(c.isdigit() for c in key)
    family, others = [], []
    for item in known:
        if not item.family.startswith(key):
            continue
        rest = item.family[len(key) :]
        if rest in endings:
            family.append(item)
        elif not versioned or not (rest[0].isdigit() and key[-1].isdigit()):
            others.append(item)
    return family, others


def _told(family: list[Registered], key: str, name: str) -> list[Registered]:
    """The classes of a family that the name leaves: a size alone is that of a dense model.

    The name of a sparse one tells its active size as well; it may still be served by a class for both.
    """
    alone = re.search(r"(?i)(^|[-_\s])\d+(\.\d+)?b($|[-_\s])", name) and not _is_sparse(name)
    dense = [item for item in family if not _rank(item, key, name)[0]]
    return dense if alone and dense else family


def uses(tree: SourceTree, engine: Engine, architecture: str, names: Iterable[str]) -> ModelUse | None:
    """Where a registered class, or what it is built of, uses one of the engine's layers called ``names``.

    None for a class that is not registered or cannot be read.
    """
    modules = Modules(tree)
    for item in registered(tree, engine, modules):
        if item.architecture != architecture or item.class_file is None:
            continue
        found = modules.class_named(item.class_file, item.class_name)
        if found is None:
            return None
        node, scope = found
        pattern = "^(" + "|".join(re.escape(name) for name in names) + ")$"
        at = traits_of(tree, modules, node, scope, engine.models_under, {"layer": pattern}).get("layer")
        return ModelUse(tree.evidence(scope.module.file, node.lineno, idiom="class"), at)
    return None


def _rank(item: Registered, key: str, name: str) -> tuple[bool, str]:
    """Mixture-of-experts classes first where the name tells active parameters, else plain ones."""
    return (("moe" in item.family[len(key) :]) != _is_sparse(name), item.architecture)


def _is_sparse(name: str) -> bool:
    return re.search(r"(?i)(^|[-_\s])a\d+(\.\d+)?b($|[-_\s])", name) is not None


def _describe(tree: SourceTree, engine: Engine, modules: Modules, item: Registered) -> ModelClass:
    definition, code_for = None, {}
    found = modules.class_named(item.class_file, item.class_name) if item.class_file else None
    if found is not None:
        node, scope = found
        definition = tree.evidence(scope.module.file, node.lineno, idiom="class")
        code_for = traits_of(tree, modules, node, scope, engine.models_under, _rules()["traits"])
    return ModelClass(
        architecture=item.architecture,
        draft=item.draft,
        evidence=tree.evidence(item.file, item.line, idiom="model-registry"),
        definition=definition,
        code_for=code_for,
    )


def _mentions(tree: SourceTree, known: list[Registered], words: list[str]) -> tuple[Mention, ...]:
    """Lines in modules of registered classes that say the name, its words joined by anything or nothing."""
    parts = [re.escape(part) for word in words for part in re.findall(r"[a-z]+|\d+", word)]
    look = re.compile(
        r"(?<![a-z0-9])" + r"[\s\-_.]{0,2}".join(parts) + r"(?![a-z0-9]|\.[0-9])", re.IGNORECASE
    )
    by_file: dict[str, list[str]] = {}
    for item in known:
        if item.class_file:
            by_file.setdefault(item.class_file, []).append(item.architecture)
    found = []
    for file, architectures in sorted(by_file.items()):
        for number, line in enumerate(tree.lines(file), 1):
            if look.search(line):
                evidence = tree.evidence(file, number, idiom="mention")
                found.append(Mention(architectures=tuple(sorted(set(architectures))), evidence=evidence))
                break
    return tuple(found[:MENTIONS])


def _nearest(known: list[Registered], key: str) -> tuple[str, ...]:
    families: dict[str, list[str]] = {}
    for item in known:
        if not item.draft:
            families.setdefault(item.family, []).append(item.architecture)
    close = difflib.get_close_matches(key, families, n=NEAREST, cutoff=0.5)
    return tuple(name for family in close for name in sorted(families[family]))[:NEAREST]
