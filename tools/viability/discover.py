"""The way in: from an option's declaration to the code that reads it, found in the version at hand.

Nothing here knows an option, a backend or a file. What is found: the options object (the classes that
declare the option's field, and their siblings), the *layers* (classes that ask the quantisation for
their method), the selectors that choose among a layer's subclasses, and the checks that a quantisation
makes before any layer exists.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import replace
from functools import cached_property

from tools.engines.options import DeclaredValue, Option
from tools.viability.configs import derived_settings, find_configs
from tools.viability.drivers import Driver, find_driver, table_of
from tools.viability.given import OptionTable
from tools.viability.interpreter.modules import Module, World
from tools.viability.kinds import ModelKind, find_kinds
from tools.viability.layers import CLASS, Layer, asks, hands_on, kinds, makes, returned_only
from tools.viability.operators import DECORATOR, operators
from tools.viability.profile import Profile
from tools.viability.readers import Readers, calls_method
from tools.viability.rules import ClassRule, find_class_rules
from tools.viability.users import Users, find_users

LIST = re.compile(rb"^[ \t]+\w+\.(_\w+) = (?:list\(|\[\])", re.M)
FUNCTION = re.compile(rb"^def[ \t]+(\w+)", re.M)


class Discovery:
    """What one engine version holds, found once and shared by all runs over it."""

    def __init__(self, world: World, profile: Profile, options: list[Option]) -> None:
        self.world = world
        self.profile = profile
        self.options = options
        self._given: dict[str, frozenset[str]] = {}
        self._makers: dict[str, Layer | None] = {}
        self._drivers: dict[str, Driver | None] = {}
        self._rules: tuple[ClassRule, ...] | None = None
        self._users: dict[str, Users] = {}

    def prepare(self) -> None:
        """Read the engine's files and find its options object, its layers and its checks."""
        _ = (self.option_table, self.layers, self.built, self.capability_checks, self.quantisation_lookup)
        _ = self.kinds

    @cached_property
    def texts(self) -> dict[str, bytes]:
        return {
            file: data
            for file, data in self.world.texts(self.profile.root).items()
            if not file.startswith(self.profile.skip)
        }

    def files_with(self, *needles: bytes) -> list[str]:
        return [file for file, data in self.texts.items() if all(needle in data for needle in needles)]

    def modules_with(self, *needles: bytes) -> list[Module]:
        found = [self.world.module(self.world.dotted(file)) for file in self.files_with(*needles)]
        return [module for module in found if module is not None]

    def _modules_making(self, wanted: Callable[[str], bool]) -> list[Module]:
        """Modules that name a quantisation's configuration and define functions with such a name."""
        files = [
            file
            for file, data in self.texts.items()
            if b"quant_config" in data
            and any(wanted(name.decode(errors="replace")) for name in FUNCTION.findall(data))
        ]
        found = [self.world.module(self.world.dotted(file)) for file in files]
        return [module for module in found if module is not None]

    # -- the options object -----------------------------------------------------------------------

    @cached_property
    def option_table(self) -> OptionTable:
        """Every field of the classes that declare an option, and of the classes beside them."""
        wanted = {option.field for option in self.options}
        declaring = {option.evidence.file for option in self.options}
        # Options spread over a folder of their own: then its other files hold fields as well.
        homes = Counter(file.rpartition("/")[0] for file in declaring)
        folders = {folder for folder, count in homes.items() if count >= 3}
        fields: dict[str, tuple[ast.expr | None, Module]] = {}
        derived: dict[str, tuple[str, str]] = {}
        beside: dict[str, tuple[ast.expr | None, Module]] = {}
        classes: set[str] = set()
        for file in sorted(self.texts):
            if file not in declaring and file.rpartition("/")[0] not in folders:
                continue
            module = self.world.module(self.world.dotted(file))
            if module is None:
                continue
            for statement in module.tree.body:
                if isinstance(statement, ast.ClassDef):
                    own = {
                        part.target.id: part.value
                        for part in statement.body
                        if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name)
                    }
                    if wanted & set(own):
                        classes.add(statement.name)
                    held = fields if wanted & set(own) else beside
                    held.update({name: (value, module) for name, value in own.items()})
                    derived.update(derived_settings(self.world, statement))
        configs = find_configs(self.world, self.texts, fields, declaring)
        return OptionTable(fields, configs, derived, beside, frozenset(classes), lambda: self._lists)

    @cached_property
    def _lists(self) -> frozenset[str]:
        """Attributes with a name of their own that are made a list where options are declared, or beside."""
        declaring = {option.evidence.file for option in self.options}
        homes = {file.rpartition("/")[0].rpartition("/")[0] for file in declaring}
        beside = tuple(f"{home}/" for home in homes if home.count("/") >= 2)
        return frozenset(
            name.decode()
            for file, data in self.texts.items()
            if file in declaring or file.startswith(beside)
            for name in LIST.findall(data)
        )

    # -- classes ----------------------------------------------------------------------------------

    @cached_property
    def subclasses(self) -> dict[str, list[tuple[str, str]]]:
        """Base class name → ``(module, class)`` of direct subclasses."""
        found: dict[str, list[tuple[str, str]]] = {}
        for file, data in self.texts.items():
            for match in CLASS.finditer(data):
                for base in match[2].decode(errors="replace").split(","):
                    name = base.strip().rsplit(".", 1)[-1].split("[")[0]
                    if name.isidentifier():
                        found.setdefault(name, []).append((self.world.dotted(file), match[1].decode()))
        return found

    @cached_property
    def classes(self) -> frozenset[str]:
        """Names of the classes that the engine defines with a base."""
        return frozenset(name for derived in self.subclasses.values() for _, name in derived)

    @cached_property
    def bases(self) -> dict[tuple[str, str], frozenset[str]]:
        """``(module, class)`` → names of its direct bases that are classes of the engine."""
        found: dict[tuple[str, str], set[str]] = {}
        for base, derived in self.subclasses.items():
            for one in derived if base in self.classes else ():
                found.setdefault(one, set()).add(base)
        return {one: frozenset(names) for one, names in found.items()}

    @cached_property
    def built(self) -> Counter[str]:
        """How often each class name is called anywhere in the engine."""
        counts: Counter[str] = Counter()
        pattern = re.compile(rb"\b([A-Z]\w+)\(")
        for data in self.texts.values():
            counts.update(match.decode() for match in pattern.findall(data))
        return counts

    @cached_property
    def layers(self) -> list[Layer]:
        """Classes whose constructor asks a quantisation for their own method, as families."""
        factory = self.profile.method_factory
        factories, modules, todo = {factory}, dict[str, Module](), [factory]
        while todo:
            name = todo.pop()
            calling = self.modules_with(f"{name}(".encode())
            modules.update({module.name: module for module in calling})
            todo += sorted(hands_on(calling, name) - factories)
            factories.update(todo)
        return [
            self._family(name, statement.name)
            for name in sorted(modules)
            for statement in modules[name].tree.body
            if isinstance(statement, ast.ClassDef) and asks(statement, factories)
        ]

    def _family(self, module: str, root: str) -> Layer:
        members: list[tuple[str, str]] = [(module, root)]
        todo = [root]
        while todo:
            for item in self.subclasses.get(todo.pop(), []):
                if item not in members:
                    members.append(item)
                    todo.append(item[1])
        names = {name for _, name in members}
        ranked = sorted(members, key=lambda item: (-self.built[item[1]], item[0], item[1]))
        return Layer(root, tuple(ranked), tuple(self._selectors(names)), tuple(self._builders(names)))

    def of_other_kinds(self, layer: Layer) -> list[Layer]:
        """The same layer with each flag of its constructor set that it has."""
        module = self.world.module(layer.classes[0][0])
        return [
            replace(layer, kind=flag)
            for statement in (module.tree.body if module is not None else [])
            if isinstance(statement, ast.ClassDef) and statement.name == layer.classes[0][1]
            for flag in kinds(statement)
        ]

    def _selectors(self, names: set[str]) -> list[tuple[str, str]]:
        """Functions that do nothing but return one of the classes."""
        found = []
        needle = re.compile(rb"return (" + b"|".join(name.encode() for name in sorted(names)) + rb")\b(?!\()")
        for file, data in self.texts.items():
            if not needle.search(data):
                continue
            module = self.world.module(self.world.dotted(file))
            found += [
                (self.world.dotted(file), statement.name)
                for statement in (module.tree.body if module else [])
                if isinstance(statement, ast.FunctionDef) and returned_only(statement, names)
            ]
        return found

    def _builders(self, names: set[str]) -> list[tuple[str, str]]:
        """Functions that build one of the classes for models, the one that they call most often first."""
        most = max(self.built[name] for name in names)
        found = [
            (module.name, statement.name)
            for module in self._modules_making(lambda name: self.built[name] > most)
            for statement in module.tree.body
            if isinstance(statement, ast.FunctionDef)
            and self.built[statement.name] > most
            and makes(statement, names)
        ]
        return sorted(found, key=lambda item: (-self.built[item[1]], item))

    def keywords(self, layer: Layer) -> frozenset[str]:
        """Optional parameters that places which build this layer give (three of them, and one in twenty)."""
        if layer.root not in self._given:
            self._given[layer.root] = self._usual_keywords(layer)
        return self._given[layer.root]

    def _usual_keywords(self, layer: Layer) -> frozenset[str]:
        names = [name for _, name in layer.classes] + [rf"{name}\([^()]*\)" for _, name in layer.selectors]
        pattern = re.compile((r"\b(?:" + "|".join(names) + r")\(").encode())
        counts: Counter[str] = Counter()
        total = 0
        some = [name.encode() for _, name in (*layer.classes, *layer.selectors)]
        for data in self.texts.values():
            if not any(name in data for name in some):
                continue
            for match in pattern.finditer(data):
                given = _keywords(data, match.end())
                if given:
                    total += 1
                    counts.update(given)
        return frozenset(name for name, count in counts.items() if count >= 3 and count * 20 >= total)

    def maker_of(self, type_name: str) -> Layer | None:
        """The module whose forward pass returns a type: what stands in front of a layer that takes one."""
        if type_name not in self._makers:
            found = [
                (module.name, statement.name)
                for module in self.modules_with(f"-> {type_name}:".encode())
                for statement in module.tree.body
                if isinstance(statement, ast.ClassDef) and _forwards_to(statement, type_name)
            ]
            found.sort(key=lambda item: (-self.built[item[1]], item))
            first = found[:1] if found and self.built[found[0][1]] else []
            self._makers[type_name] = Layer(first[0][1], tuple(first), ()) if first else None
        return self._makers[type_name]

    @cached_property
    def operators(self) -> dict[str, tuple[str, str]]:
        """Operators of torch made of the engine's functions."""
        registration = self.profile.operator_registration
        modules = {
            module.name: module
            for needle in (f"{registration}(", f"@torch.library.{DECORATOR}(")
            for module in self.modules_with(needle.encode())
        }
        return operators(modules.values(), registration)

    @cached_property
    def capability_checks(self) -> list[tuple[str, str]]:
        """Functions that compare the device with the quantisation's minimum before a model is built."""
        name = self.profile.minimum_capability
        return [
            (module.name, statement.name)
            for module in self.modules_with(f".{name}()".encode(), self.profile.checkpoint_config.encode())
            for statement in module.tree.body
            if isinstance(statement, ast.FunctionDef) and calls_method(statement, name)
        ]

    @cached_property
    def quantisation_lookup(self) -> tuple[str, str] | None:
        """Where the engine turns a quantisation's name into its configuration class."""
        name = self.profile.quantisation_lookup
        for module in self.modules_with(f"def {name}(".encode()):
            if any(isinstance(b.statement, ast.FunctionDef) for b in module.bindings.get(name, [])):
                return module.name, name
        return None

    def registered(self, value: DeclaredValue) -> tuple[str, str] | None:
        """``(module, definition)`` that a decorator enters into a table under the option's value."""
        for site in value.also:
            module = self.world.module(self.world.dotted(site.file))
            for statement in module.tree.body if module is not None else []:
                if isinstance(statement, (ast.FunctionDef, ast.ClassDef)) and any(
                    isinstance(decorator, ast.Call)
                    and decorator.lineno <= site.line <= (decorator.end_lineno or 0)
                    and len(decorator.args) == 1
                    and isinstance(decorator.args[0], ast.Constant)
                    and decorator.args[0].value == value.value
                    for decorator in statement.decorator_list
                ):
                    assert module is not None
                    return module.name, statement.name
        return None

    def driver(self, place: tuple[str, str]) -> Driver | None:
        """Who makes what a table holds that a definition is entered into."""
        module = self.world.module(place[0])
        table = table_of(module, place[1]) if module is not None else None
        if table is not None and table not in self._drivers:
            self._drivers[table] = find_driver(self.modules_with, table)
        return self._drivers[table] if table is not None else None

    def users(self, field: str) -> Users:
        """Who uses an option that no layer asks for."""
        if field not in self._users:
            self._users[field] = find_users(self, field)
        return self._users[field]

    @cached_property
    def kinds(self) -> tuple[ModelKind, ...]:
        """The kinds of models that this engine tells apart."""
        return find_kinds(self.modules_with)

    def class_rules(self, classes: Collection[str]) -> tuple[ClassRule, ...]:
        """Who looks a model's class up in a table; ``classes`` are those that the engine can load."""
        if self._rules is None:
            self._rules = find_class_rules(
                self.texts,
                self.modules_with,
                lambda file: self.world.module(self.world.dotted(file)),
                self.option_table.configs,
                classes,
            )
        return self._rules

    @cached_property
    def readers(self) -> Readers:
        """Who reads the options while the engine starts."""
        homes = frozenset(option.evidence.file.rpartition("/")[0] for option in self.options)
        return Readers(self.option_table, homes, self.modules_with, self.world.module)


def _keywords(data: bytes, start: int) -> set[str]:
    """Names given by keyword in the call whose arguments begin at ``start``; ``=None`` does not count."""
    depth, end = 1, start
    while depth and end < min(len(data), start + 6000):
        depth += {40: 1, 91: 1, 123: 1, 41: -1, 93: -1, 125: -1}.get(data[end], 0)
        end += 1
    text, flat, depth = data[start : end - 1].decode(errors="replace"), "", 0
    for char in text:
        depth += (char in "([{") - (char in ")]}")
        if depth == 0:
            flat += char
    return set(re.findall(r"\b(\w+)\s*=(?!=|\s*None\b)", flat))


def _forwards_to(statement: ast.ClassDef, type_name: str) -> bool:
    return any(
        isinstance(part, ast.FunctionDef)
        and part.name.startswith("forward")
        and part.returns is not None
        and ast.unparse(part.returns) == type_name
        for part in statement.body
    )
