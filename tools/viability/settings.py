"""The engine's options and configuration objects under a scenario: what each of their fields holds."""

from __future__ import annotations

import ast
import re
from typing import Any

from tools.viability.checkpoint import NAMES, OBJECTS
from tools.viability.configs import ConfigField
from tools.viability.given import MODEL, Given
from tools.viability.interpreter.asked import Fact
from tools.viability.interpreter.calls import call_function
from tools.viability.interpreter.classes import enum_members
from tools.viability.interpreter.dispatch import call, evaluate
from tools.viability.interpreter.machine import Machine
from tools.viability.interpreter.modules import Module
from tools.viability.interpreter.names import UnboundError, global_name
from tools.viability.interpreter.records import Frame
from tools.viability.interpreter.values import (
    NOT_NONE,
    UNKNOWN,
    ClassValue,
    External,
    Function,
    Kind,
    Native,
    Open,
    Raised,
    Taint,
    Tainted,
    Union,
    Unknown,
    bare,
    of,
    strip,
    taint,
)
from tools.viability.nominal import alone

DIVIDED = re.compile(r"(^|_)(tp|tensor(_model)?_parallel)_(world_)?size$")
"""Names for the number of ranks that a tensor is divided over."""


SOFTLY = of(Kind.SOFT)


class Settings(Given):
    """What a run is given, with all options of the engine."""

    def reads_options(self, function: ast.FunctionDef) -> bool:
        return self.options.read_by(function)

    def options_object(self, m: Machine) -> Open:
        made = Open("options", {}, supply=lambda name: self.option(m, name))
        if self.model is not None:
            for name in sorted(self.options.lists()):
                made.attrs[name] = m.made([])
                m.notes[id(made.attrs[name])] = made.attrs[name]
        return made

    def options_for(self, m: Machine, annotation: ast.expr | None, module: Module) -> Open | None:
        """The options object for a parameter that is annotated with its class."""
        name = getattr(annotation, "id", getattr(annotation, "value", None))
        if not isinstance(name, str) or not module.may_bind(name):
            return None
        try:
            cls = bare(global_name(m, module, name))
        except UnboundError:  # imported for who checks types alone: it goes by its name
            return self.options_object(m) if name in self.options.classes else None
        bases = cls.mro() if isinstance(cls, ClassValue) else ()
        if not any(isinstance(base, ClassValue) and base.name in self.options.classes for base in bases):
            return None
        made = self.options_object(m)
        made.cls = cls
        return made

    def option(self, m: Machine, name: str) -> Any:
        """The value of an option field: the one under test, the scenario's, or its default."""
        if name == self.field:
            return self.under_test()
        if name in self.overrides:
            self.given.add(name)
            return self.overrides[name]
        declared = self._declared(name)
        if declared is None:
            return NotImplemented
        if name not in self._defaults:
            node, module = declared
            self._defaults[name] = self._required() if node is None else evaluate(m, node, Frame(module, {}))
            made = bare(self._defaults[name])
            if isinstance(made, dict) and ("<default>" in made or "<factory>" in made):
                self._defaults[name] = made.get("<default>", UNKNOWN)
            if bare(self._defaults[name]) in (None, "auto"):
                # The engine may settle it before it is read: good enough to choose a way, no proof.
                self._defaults[name] = taint(self._defaults[name], of(Kind.SOFT))
        return self._defaults[name]

    def _declared(self, name: str) -> tuple[ast.expr | None, Module] | None:
        """An option's default and where it stands; where a model is named, a field's beside them too."""
        found = self.options.fields.get(name)
        return found if found is not None or self.model is None else self.options.beside.get(name)

    def _required(self) -> Any:
        """What an option holds that has no default: which model to load, and a word for that is any word."""
        return UNKNOWN if self.model is None else Tainted(self.model.architecture, of(Kind.SOFT))

    def is_unset(self, m: Machine, name: str) -> bool:
        """Whether an option is one that has no value of its own, and none was given."""
        return name in self.options.fields and bare(self.option(m, name)) is None

    def option_by_name(self, m: Machine, name: str, frame: Frame | None, node: Any) -> Any:
        """An option read through something that could not be followed. Only names that are words of the
        options object and of nothing else count (they hold an underscore)."""
        if self.checkpoint is not None and name in OBJECTS:
            return self.checkpoint.opened(text=OBJECTS[name])
        if self.model is not None and name in OBJECTS:
            return self._model_config(m, text=OBJECTS[name])
        if name in self._means and frame is not None:
            return self._kind(m, *self._means[name])
        if name == self.field and frame is not None:
            return self.under_test()
        if name in self.stored and frame is not None:
            return self.stored[name](name)
        if name == self.profile.layers_by_name and self.layer is not None:
            return Open("layers", {"__getitem__": Native("layer", lambda *_: self.layer)})
        held = self.options.configs.find(node) if frame is not None else None
        if held is not None:
            return self._config_field(m, held[0], name, held[1])
        if "_" in name and frame is not None and node is not None and self._declared(name) is not None:
            return self.option(m, name)
        if self.model is not None and name in self.overrides and frame is not None:
            return self.option(m, name)
        if self.tensor_parallel is not None and DIVIDED.search(name):
            return Tainted(self.tensor_parallel, of(Kind.PARALLELISM))
        place = alone(name)
        if place is None and frame is not None and name in self.options.derived:
            return self._derived(m, name)
        return NotImplemented if place is None else place

    def told_by(self, name: str, depends: Taint) -> Taint:
        """What an attribute of something not followed depends on: whichever object it is that holds the
        model, or an option, it is the same."""
        option = "_" in name and self._declared(name) is not None
        if self.model is None or not (option or name in OBJECTS):
            return depends
        return Taint(depends.kinds - {Kind.UNKNOWN}, depends.sites)

    def kept_as(self, m: Machine, name: str, value: Any) -> Any:
        """What an attribute holds into which ``value`` is put: told by its name where that is not known, or
        may not be put there."""
        if self.model is None:
            return value
        unknown = isinstance(bare(value), Unknown)
        if name in self.overrides and (unknown or m.uncertain):
            return self.overrides[name]  # what the scenario sets is what the engine comes to
        return self._model_config(m, text=OBJECTS[name]) if unknown and name in OBJECTS else value

    def _model_config(self, m: Machine, *, text: bool) -> Any:
        assert self.model is not None
        self.note(MODEL, self.model.architecture)
        if text not in self._model_objects:
            self._model_objects[text] = self.model.config(m, text=text)
        return self._model_objects[text]

    def _derived(self, m: Machine, name: str) -> Any:
        """A setting that the engine computes from its options once they stand."""
        if name not in self._defaults:
            self._defaults[name] = NotImplemented  # in case it leads back here
            module_name, function = self.options.derived[name]
            module = self.world.module(module_name)
            try:
                with m.apart():
                    maker = global_name(m, module, function) if module is not None else UNKNOWN
                    value = call(m, maker, [self.options_object(m)], {}, None, None)
            except (Raised, UnboundError):
                return NotImplemented
            self._defaults[name] = NotImplemented if isinstance(bare(value), Unknown) else value
        return self._defaults[name]

    def _kind(self, m: Machine, attribute: str, member: str | None) -> Any:
        """The kind of model that holds here, or whether it is ``member``."""
        kind, holds = self._kinds[attribute]
        self.note(Fact(attribute), holds)
        if member is not None:
            return Tainted(holds == member, of(Kind.MODEL))
        module = self.world.module(kind.module)
        enum = bare(global_name(m, module, kind.enum)) if module is not None else None
        members = enum_members(m, enum) if isinstance(enum, ClassValue) else None
        return Tainted(members[holds], of(Kind.MODEL)) if members and holds in members else NotImplemented

    def _config_field(self, m: Machine, name: str, attribute: str, declared: ConfigField) -> Any:
        """A field of a configuration object: what start-up puts there from the options, or its default."""
        key = f"{name}.{attribute}"
        if key not in self._defaults:
            self._defaults[key] = UNKNOWN  # in case it leads back here
            with m.apart():
                self._defaults[key] = self._held(m, name, attribute, declared)
        return self._defaults[key]

    def _config(self, m: Machine, name: str, module: Module) -> Open:
        """A configuration object of the running engine."""
        fields = self.options.configs.fields[name]

        def supply(attribute: str) -> Any:
            if attribute in OBJECTS and (self.checkpoint is not None or self.model is not None):
                return self.option_by_name(m, attribute, None, None)
            if attribute == NAMES["chosen"] and self.model is not None:
                self.note(MODEL, self.model.architecture)
                return Tainted(self.model.architecture, of(Kind.MODEL))
            declared = fields.get(attribute)
            if declared is None:
                return self._computed(m, made, attribute)
            return self._config_field(m, name, attribute, declared)

        cls = bare(global_name(m, module, name))
        made = Open(name, supply=supply, cls=cls if isinstance(cls, ClassValue) else None)
        return made

    def _computed(self, m: Machine, made: Open, attribute: str) -> Any:
        """What a configuration object's own methods put under a name that it does not declare, computed from
        what the model's config says, where all of them put the same there."""
        key = f"{made.name}.{attribute}"
        if self.model is None or self.model.checkpoint is None or made.cls is None:
            return NotImplemented
        if key not in self._defaults:
            self._defaults[key] = NotImplemented  # in case it leads back here
            put = _puts_of_self(made.cls.node, attribute)
            if len(put) == 1:
                try:
                    with m.apart():
                        value = evaluate(m, put[0], Frame(made.cls.module, {"self": made}))
                except (Raised, UnboundError):
                    return NotImplemented
                self._defaults[key] = NotImplemented if isinstance(bare(value), Unknown) else value
        return self._defaults[key]

    def config_object(self, m: Machine, name: str) -> Open | None:
        """The one configuration object of a class: the part of another one that is annotated with it, else
        one of its own."""
        configs = self.options.configs
        for holder, fields in configs.fields.items():
            for attribute, declared in fields.items():
                if (found := configs.class_of(declared.annotation)) is not None and found[0] == name:
                    value = bare(self._config_field(m, holder, attribute, declared))
                    if isinstance(value, Open) and value.name == name:
                        return value
        key = f"<{name}>"
        if key not in self._defaults and configs.fields.get(name):
            self._defaults[key] = self._config(m, name, next(iter(configs.fields[name].values())).module)
        return self._defaults.get(key)

    def keep_certain(self, m: Machine) -> None:
        """Let what was certainly put into configuration objects be what their fields hold for all readers.

        What is not certain stays any model's.
        """
        fields = self.options.configs.fields
        for made in [bare(value) for value in self._defaults.values()]:
            name = made.name if isinstance(made, Open) else getattr(getattr(made, "cls", None), "name", "")
            for attribute, value in list(made.attrs.items()) if name in fields else ():
                if (
                    not isinstance(bare(value), (Unknown, Union))
                    and Kind.UNKNOWN not in strip(value)[1].kinds
                ):
                    self._defaults[f"{name}.{attribute}"] = value
                elif attribute in fields[name]:
                    made.attrs[attribute] = self._config_field(m, name, attribute, fields[name][attribute])
                else:
                    del made.attrs[attribute]

    def _held(self, m: Machine, name: str, attribute: str, declared: ConfigField) -> Any:
        if "torch.dtype" in declared.annotation and "dtype" not in self.overrides:
            return External("torch.bfloat16")  # what nobody set is the checkpoint's, and that is usual
        given = self.options.configs.given.get((name, attribute))
        if given is not None:
            node, module = given
            try:
                value = evaluate(m, node, Frame(module, {"self": self.options_object(m)}))
            except Raised:
                return UNKNOWN
            if not isinstance(bare(value), Unknown):
                return value
        if attribute in self.options.fields and "_" in attribute:
            value = self.option(m, attribute)
            if not isinstance(bare(value), Unknown):
                return value
        value = evaluate(m, declared.default, Frame(declared.module, {})) if declared.default else UNKNOWN
        made = bare(value)
        if isinstance(made, dict) and "<factory>" in made:
            empty = bare(made["<factory>"]) in (list, dict, set)
            made = value = bare(made["<factory>"])() if empty else UNKNOWN
        elif isinstance(made, dict) and "<default>" in made:
            made = value = made["<default>"]
        if made is None and declared.optional:
            return Tainted(None, SOFTLY)
        cls = self.options.configs.class_of(declared.annotation)
        if cls is not None:
            return self._config(m, *cls)
        if made is None:
            return NOT_NONE
        if isinstance(made, Unknown) and re.match(r"['\"]?(\w+\.)*[A-Z]\w+$", declared.annotation):
            return Open(attribute, nominal=True)  # made from the model, of which nothing special is known
        if made == "auto":
            return Tainted(made, SOFTLY)  # settled at start-up, or later
        return value if isinstance(made, (bool, int, float, str, list, dict, set)) else UNKNOWN

    def _started_with(self, m: Machine, parameter: ast.arg) -> Open:
        """What start-up hands to a function that looks at the options: them, or the configuration object
        that the parameter is annotated with."""
        named = ast.unparse(parameter.annotation) if parameter.annotation is not None else ""
        cls = self.options.configs.class_of(named)
        found = self.config_object(m, cls[0]) if cls is not None else None
        return found if found is not None else self.options_object(m)

    def initialise(self, m: Machine, module: Module, name: str, writer: ast.FunctionDef) -> Any:
        """Run a start-up function that fills a module's global from the options."""
        m.globals[module.name, name] = None
        args = [self._started_with(m, one) for one in writer.args.args]
        consulted, misfits = len(m.consulted), len(m.misfits)
        try:
            call_function(m, Function(writer, module), args, {}, None, None)
        except Raised:
            # The refusal belongs to the option's value: it is on record, and comes up again as the result.
            m.globals.pop((module.name, name), None)
            raise
        value = m.globals.pop((module.name, name), None)
        if bare(value) is not None:
            return value
        alone = module.global_writers[name] == [writer] and len(m.misfits) == misfits
        if alone and len(m.consulted) > consulted:
            return taint(value, of(Kind.OPTION))  # the option's value leaves it as it was
        return NOT_NONE


def _puts_of_self(cls: ast.ClassDef, attribute: str) -> list[ast.expr]:
    """The different expressions of ``self.attribute = …`` in a class, of what they themselves hold alone."""
    found: dict[str, ast.expr] = {}
    for part in ast.walk(cls):
        match part:
            case ast.Assign(targets=[ast.Attribute(value=ast.Name(id="self"), attr=name)], value=value) if (
                name == attribute
            ):
                found[ast.dump(value)] = value
    words = {word.id for value in found.values() for word in ast.walk(value) if isinstance(word, ast.Name)}
    return list(found.values()) if words <= {"self"} else []
