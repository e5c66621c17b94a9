"""The scenario of one run: the device, the option under test, the other options' defaults, and the hooks
through which the interpreter asks for them.
"""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass
from functools import cache
from typing import Any

from packaging.version import Version

from tools.viability.checkpoint import OBJECTS, Checkpoint
from tools.viability.configs import ConfigField, Configs
from tools.viability.hostcode.follow import HostCode
from tools.viability.hostcode.named import named_sources
from tools.viability.installed import STANDARD
from tools.viability.interpreter.asked import Fact, Number, Question, Word, Worked, whole
from tools.viability.interpreter.calls import call_function
from tools.viability.interpreter.classes import enum_members
from tools.viability.interpreter.dispatch import call, evaluate
from tools.viability.interpreter.imports import is_imported
from tools.viability.interpreter.machine import Machine
from tools.viability.interpreter.modules import Module, World
from tools.viability.interpreter.names import UnboundError, global_name
from tools.viability.interpreter.records import Crossing, Fetch, Frame
from tools.viability.interpreter.values import (
    CLEAN,
    NOT_NONE,
    RUNTIME,
    UNKNOWN,
    Built,
    ClassValue,
    External,
    Function,
    Instance,
    Kind,
    Native,
    Open,
    Raised,
    Site,
    Taint,
    Tainted,
    Tensor,
    Union,
    Unknown,
    bare,
    of,
    strip,
    taint,
)
from tools.viability.kinds import ModelKind
from tools.viability.library import Library
from tools.viability.nominal import alone
from tools.viability.profile import Profile, libraries
from tools.viability.sifted import note_sieve
from tools.viability.tensors import tensor_attribute

MODULE_METHODS = frozenset(libraries()["torch"]["module_methods"])


DIVIDED = re.compile(r"(^|_)(tp|tensor(_model)?_parallel)_(world_)?size$")
"""Names for the number of ranks that a tensor is divided over."""


DRIVER = re.compile(r"nvml[A-Z]")
"""Functions of the driver's management library."""


SOFTLY = of(Kind.SOFT)


MAJOR, MINOR, VALUE = Fact("<major>"), Fact("<minor>"), Fact("<value>")
"""The device's capability and the option's value; kinds of models are called by their attributes."""


@dataclass(frozen=True)
class OptionTable:
    """The engine's options object as declared: field → default expression and the module it stands in."""

    fields: dict[str, tuple[ast.expr | None, Module]]
    configs: Configs = dataclasses.field(default_factory=Configs)
    """Objects that hold them while the engine runs."""
    derived: Mapping[str, tuple[str, str]] = dataclasses.field(default_factory=dict)
    """Settings declared beside them as functions of them: name → module and function."""
    _read: dict[ast.FunctionDef, bool] = dataclasses.field(default_factory=dict, compare=False, repr=False)

    def read_by(self, function: ast.FunctionDef) -> bool:
        """Whether a function reads an option. Only names with an underscore count."""
        if function not in self._read:
            names = {part.attr for part in ast.walk(function) if isinstance(part, ast.Attribute)}
            self._read[function] = any(name in self.fields and "_" in name for name in names)
        return self._read[function]


@dataclass
class Facts:
    """One scenario. ``arch`` is ``(major, minor)``; ``field`` and ``value`` are the option under test.

    What a run asks of the architecture, the value and the kind of model is noted in ``asked``: where the
    answers are the same it is not done again (see :mod:`tools.viability.kept`).
    """

    world: World
    profile: Profile
    options: OptionTable
    arch: tuple[int, int]
    field: str | None
    value: str | None
    checkpoint: Checkpoint | None = None
    """The model's own config, where it was given."""
    tensor_parallel: int | None = None
    """Over how many ranks tensors are divided, where that was given."""
    overrides: dict[str, Any] = dataclasses.field(default_factory=dict)
    """Option fields that the scenario sets, already tainted."""
    hooks: dict[str, Callable[[Machine, Function, list[Any], dict[str, Any]], Any]] = dataclasses.field(
        default_factory=dict
    )
    watch: Callable[[Machine, Function, list[Any], dict[str, Any], Site | None], Any] | None = None
    """Asked before every call of a function of the sources; answers for it unless ``NotImplemented``."""
    operators: Mapping[str, tuple[str, str]] = dataclasses.field(default_factory=dict)
    """Operators of torch that are functions of the engine: name → module and function."""
    environment: dict[str, str] = dataclasses.field(default_factory=dict)
    """Environment variables that the scenario sets."""
    host: HostCode | None = None
    """What the sources that are compiled when the engine runs check on the host."""
    layer: Any = None
    """The layer under test, once it is built: what a model finds under a layer's name."""
    module_methods: frozenset[str] = MODULE_METHODS

    def __post_init__(self) -> None:
        arch = of(Kind.ARCH)
        self.asked: dict[Question, Any] = {}
        """What the run asked of the scenario, and the answers, in the order in which it did."""
        self._over = False
        major, minor = (
            Number(part, fact, self.note) for part, fact in zip(self.arch, (MAJOR, MINOR), strict=True)
        )
        data = libraries()
        cuda = Tainted(data["facts"]["cuda"], of(Kind.DEPENDENCY))
        constants: dict[str, Any] = {
            "torch.version.cuda": cuda,
            "torch.version.hip": Tainted(None, of(Kind.VENDOR)),
            "torch.version.xpu": Tainted(None, of(Kind.VENDOR)),
            "typing.TYPE_CHECKING": False,
            "typing_extensions.TYPE_CHECKING": False,
            "sys.platform": "linux",
            "sys.version_info": tuple(data["facts"]["python"]),
            "os.name": "posix",
        }
        versions = self.world.versions
        if "torch" in versions:
            constants["torch.__version__"] = Tainted(versions["torch"], of(Kind.DEPENDENCY))
        self.library = Library(constants, versions, frozenset(data["vendor_attributes"]), self.environment)
        self._variables: set[str] = set()
        self.frameworks = frozenset(data["frameworks"]) | STANDARD
        self.outside: set[str] = set()
        """Packages outside the sources that the run met."""
        self.compute = frozenset(data["compute"])
        self.fetchers = tuple(f"{name}." for name in data["fetchers"])
        self.compilers = frozenset(data["compilers"])
        self.builders = tuple(data["builders"])
        self._of_builders = tuple(f"{name}()." for name in self.builders)
        self._capability = (Tainted(major, arch), Tainted(minor, arch))
        self._calls: dict[str, Any] = {
            "torch.cuda.get_device_capability": self._capability,
            "torch.cuda.get_device_properties": Open("device properties", supply=self._property),
            "torch.cuda.is_available": Tainted(True, of(Kind.VENDOR)),
            "torch.backends.cuda.is_built": Tainted(True, of(Kind.VENDOR)),
            "torch.cuda.is_initialized": True,
            "torch.cuda.device_count": 1,
            "torch.cuda.current_device": 0,
            "torch.distributed.is_initialized": False,
            "torch.distributed.get_world_size": 1,
            "torch.distributed.get_rank": 0,
            "torch.compiler.is_compiling": False,
            "torch._dynamo.is_compiling": False,
            "torch.cuda.is_current_stream_capturing": False,
            "platform.machine": data["facts"]["machine"],
            "platform.system": "Linux",
            "torch.get_default_dtype": External("torch.bfloat16"),
        }
        self.told = {
            name: Tainted(Version(str(data["facts"][fact])), of(Kind.DEPENDENCY))
            for name, fact in data["functions"].items()
        }
        answers = {"capability": self._capability, "count": Tainted(1, of(Kind.VENDOR))}
        self.told |= {name: answers[fact] for name, fact in data["driver"].items()}
        self._defaults: dict[str, Any] = {}
        self.given: set[str] = set()
        """Options whose value the scenario gives that the run looked at."""
        self._kinds: dict[str, tuple[ModelKind, str]] = {}
        self._means: dict[str, tuple[str, str | None]] = {}

    # -- what can be asked ------------------------------------------------------------------------

    def answers(self) -> dict[str, Any]:
        """The facts that a run may ask about, by their names."""
        kinds = {attribute: member for attribute, (_, member) in self._kinds.items()}
        device = dict(zip((MAJOR.name, MINOR.name), self.arch, strict=True))
        return {**device, VALUE.name: self.value, **kinds}

    def note(self, question: Question, answer: Any) -> None:
        """Note what the run asked; nothing may depend on it once the run is over."""
        if self._over:
            raise RuntimeError(f"{question} was asked when the run was over")
        self.asked[question] = answer

    def anew(self) -> Facts:
        """The same scenario, of which nothing has been asked yet."""
        fresh = dataclasses.replace(self)
        fresh.tell(self._kinds)
        return fresh

    def rest(self) -> None:
        """Let go of what only a run in progress needs."""
        self._over = True
        self.layer = None
        self.hooks = {}
        self._defaults.clear()

    def _property(self, name: str) -> Any:
        if name not in ("major", "minor"):
            return NotImplemented
        return self._capability[name == "minor"]

    def under_test(self) -> Tainted:
        """The option's value."""
        value = Word(self.value, VALUE, self.note) if self.value is not None else None
        return Tainted(value, of(Kind.OPTION))

    # -- outside the sources ----------------------------------------------------------------------

    @property
    def root(self) -> str:
        return self.profile.root

    @property
    def kernel_packages(self) -> frozenset[str]:
        return frozenset(self.outside) - self.frameworks

    @property
    def versions(self) -> dict[str, str]:
        return self.library.versions

    @property
    def variables(self) -> Set[str]:
        return self._variables

    def variable(self, name: str) -> str | None:
        self._variables.add(name)
        return self.environment.get(name)

    def external(self, path: str) -> Any:
        self.outside.add(path.split(".", 1)[0])
        return self.library.external(path)

    def has_external(self, path: str) -> bool | None:
        return self.library.has_external(path)

    def presence_taint(self, holder: Any, name: str) -> Taint:
        """What the presence of an attribute depends on: of torch's, on whose hardware the build is for."""
        return of(Kind.VENDOR) if isinstance(holder, External) and name in self.library.vendor else CLEAN

    def call_external(
        self, m: Machine, path: str, args: list[Any], kwargs: dict[str, Any], frame: Frame | None, node: Any
    ) -> Any:
        if path in self._calls:
            return self._calls[path]
        place = self.operators.get(path.rpartition(".")[2]) if path.startswith("torch.ops.") else None
        if place is not None and path.count(".") == 3:
            module = self.world.module(place[0])
            if module is not None:
                return call(m, global_name(m, module, place[1]), args, kwargs, frame, node)
        root = path.split(".", 1)[0]
        namespace = path.split(".")[2] if path.startswith("torch.ops.") and path.count(".") > 2 else root
        # What the engine itself fetches is a model or its configuration; a library fetches kernels.
        library = frame is not None and frame.module.name.split(".", 1)[0] != self.profile.root
        if (
            path.startswith(self.fetchers)
            and library
            and frame is not None
            and node is not None
            and m.by_option
        ):
            given = [*args, *frame.locals.values()]
            names = tuple(dict.fromkeys(whole(text) for text in map(bare, given) if isinstance(text, str)))
            doubts = m.doubts_before(frame.module.file)
            site = m.site(frame, node, "call")
            m.fetches.append(Fetch(site, names, doubts, len(m.crossings), tuple(m.stack)))
        if path.rsplit(".", 1)[-1] in self.compute and root == "torch" and m.by_option and frame is not None:
            m.crossings.append(Crossing(path, frame.module.file, m.site(frame, node, "call"), True, True))
        if path in self.compilers and m.by_option and frame is not None:
            name = f"{frame.module.name}.{getattr(frame.function, 'name', path)}"
            m.crossings.append(Crossing(name, frame.module.file, m.site(frame, node, "call"), True, True))
        if path in self.builders:
            return Built(f"{path}()", *self._sources([*args, *kwargs.values()]))
        if path.startswith(self._of_builders) and m.by_option and frame is not None:
            name = f"{frame.module.name}.{path.rpartition('.')[2]}"
            m.crossings.append(Crossing(name, frame.module.file, m.site(frame, node, "call"), True, True))
        fed = any(_is_data(value) for value in [*args, *kwargs.values()])
        works = path.startswith("torch.ops.") or fed
        ours = namespace in self.frameworks or namespace == self.profile.root
        if works and not ours and frame is not None and node is not None:
            # Only what is handed data to work on is a kernel; the rest are questions and set-up.
            by_option = m.by_option or any(
                Kind.OPTION in strip(v)[1].kinds for v in [*args, *kwargs.values()]
            )
            sure = self.world.certain(root) or not m.uncertain
            site = m.site(frame, node, "call")
            caught = any(_catches(handler) for tried, _ in m.handlers for handler in tried.handlers)
            doubts = m.doubts + caught
            m.crossings.append(
                Crossing(path, frame.module.file, site, by_option, False, sure, doubts, fed=fed)
            )
        return self.library.call(m, path, args, kwargs, frame, node)

    def call_built(
        self, m: Machine, f: Built, args: list[Any], kwargs: dict[str, Any], frame: Frame | None, node: Any
    ) -> Any:
        if self.host is not None and f.sources and frame is not None and node is not None:
            name = f.path.rpartition(".")[2]
            function = f.sources, dict(f.exports).get(name, name)
            refusal, asked = self.host.refusal(*function, self.arch)
            if asked:
                self.note(Worked(self.host.refusal_on, (*function, MAJOR, MINOR)), refusal)
            if refusal is not None:
                place = refusal.file, refusal.line
                raise m.refuse(
                    Site(*place, "raise", refusal.end_line),
                    RuntimeError,
                    frame=frame,
                    guard=of(Kind.ARCH).at(Site(*place, "guard", refusal.end_line)),
                    message=refusal.text,
                )
        return self.call_external(m, f.path, args, kwargs, frame, node)

    def named(self, built: Any, names: Mapping[str, Any]) -> Any:
        value, t = strip(built)
        options = value.options if isinstance(value, Union) else (value,)
        found = {bare(one) for one in options if isinstance(bare(one), Built)}
        if len(found) != 1 or any(not isinstance(bare(one), (Built, type(None))) for one in options):
            return built
        module = found.pop()
        if not module.sources:
            files, pairs = self._sources(names.values())
            module = dataclasses.replace(module, sources=files, exports=pairs)
        # Whether it had been built before makes no difference.
        return taint(module, Taint(t.kinds - {Kind.UNKNOWN}, t.sites))

    def _sources(self, values: Iterable[Any]) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
        return named_sources(self.world.tree, values)

    def tensor_attribute(self, value: Tensor, name: str) -> Any:
        return tensor_attribute(value, name)

    def module_method(
        self, m: Machine, instance: Instance, name: str, args: list[Any], kw: dict[str, Any]
    ) -> Any:
        if name in ("register_parameter", "register_buffer", "add_module") and len(args) > 1:
            if isinstance(bare(args[0]), str):
                m.store(instance.attrs, bare(args[0]), args[1])
            return None
        return instance if name in ("to", "eval", "train", "cuda", "half", "float") else RUNTIME

    # -- the engine's options ---------------------------------------------------------------------

    def reads_options(self, function: ast.FunctionDef) -> bool:
        return self.options.read_by(function)

    def options_object(self, m: Machine) -> Open:
        return Open("options", {}, supply=lambda name: self.option(m, name))

    def option(self, m: Machine, name: str) -> Any:
        """The value of an option field: the one under test, the scenario's, or its default."""
        if name == self.field:
            return self.under_test()
        if name in self.overrides:
            self.given.add(name)
            return self.overrides[name]
        if name not in self.options.fields:
            return NotImplemented
        if name not in self._defaults:
            node, module = self.options.fields[name]
            self._defaults[name] = UNKNOWN if node is None else evaluate(m, node, Frame(module, {}))
            made = bare(self._defaults[name])
            if isinstance(made, dict) and ("<default>" in made or "<factory>" in made):
                self._defaults[name] = made.get("<default>", UNKNOWN)
            if bare(self._defaults[name]) in (None, "auto"):
                # The engine may settle it before it is read: good enough to choose a way, no proof.
                self._defaults[name] = taint(self._defaults[name], of(Kind.SOFT))
        return self._defaults[name]

    def is_unset(self, m: Machine, name: str) -> bool:
        """Whether an option is one that has no value of its own, and none was given."""
        return name in self.options.fields and bare(self.option(m, name)) is None

    def option_by_name(self, m: Machine, name: str, frame: Frame | None, node: Any) -> Any:
        """An option read through something that could not be followed. Only names that are words of the
        options object and of nothing else count (they hold an underscore)."""
        if self.checkpoint is not None and name in OBJECTS:
            return self.checkpoint.opened(text=OBJECTS[name])
        if name in self._means and frame is not None:
            return self._kind(m, *self._means[name])
        if name == self.field and frame is not None:
            return self.under_test()
        if name == self.profile.layers_by_name and self.layer is not None:
            return Open("layers", {"__getitem__": Native("layer", lambda *_: self.layer)})
        held = self.options.configs.find(node) if frame is not None else None
        if held is not None:
            return self._config_field(m, held[0], name, held[1])
        if "_" in name and name in self.options.fields and frame is not None and node is not None:
            return self.option(m, name)
        if self.tensor_parallel is not None and DIVIDED.search(name):
            return Tainted(self.tensor_parallel, of(Kind.PARALLELISM))
        place = alone(name)
        if place is None and frame is not None and name in self.options.derived:
            return self._derived(m, name)
        return NotImplemented if place is None else place

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

    def tell(self, kinds: dict[str, tuple[ModelKind, str]]) -> None:
        """Attribute → the kind of model that it tells, and the member that holds here."""
        self._kinds = kinds
        for attribute, (kind, _) in kinds.items():
            self._means[attribute] = attribute, None
            self._means.update({name: (attribute, member) for name, member in kind.derived})

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
            if self.checkpoint is not None and attribute in OBJECTS:
                return self.checkpoint.opened(text=OBJECTS[attribute])
            declared = fields.get(attribute)
            return NotImplemented if declared is None else self._config_field(m, name, attribute, declared)

        cls = bare(global_name(m, module, name))
        return Open(name, supply=supply, cls=cls if isinstance(cls, ClassValue) else None)

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

    def initialise(self, m: Machine, module: Module, name: str, writer: ast.FunctionDef) -> Any:
        """Run a start-up function that fills a module's global from the options."""
        m.globals[module.name, name] = None
        args = [self.options_object(m) for _ in writer.args.args]
        try:
            call_function(m, Function(writer, module), args, {}, None, None)
        except Raised:
            # The refusal belongs to the option's value: it is on record, and comes up again as the result.
            m.globals.pop((module.name, name), None)
            raise
        value = m.globals.pop((module.name, name), None)
        return NOT_NONE if bare(value) is None else value

    # -- the sources ------------------------------------------------------------------------------

    def register_all(self, m: Machine, module: Module, table: str | None = None) -> None:
        """Run every definition of the package that a decorator of ``module`` enters into a table."""
        root = module.name.split(".", 1)[0]
        for name, bindings in list(module.bindings.items()):
            functions = [b.statement for b in bindings if isinstance(b.statement, ast.FunctionDef)]
            if not any(table is None or enters(function, table) for function in functions):
                continue
            for where, definition in self.world.decorated(root, name)[:200]:
                key = (where, definition)
                if key in m.registered or (where == module.name and definition == name):
                    continue
                if where != module.name and not is_imported(m, where):
                    continue
                m.registered.add(key)
                other = self.world.module(where)
                if other is not None:
                    try:
                        global_name(m, other, definition)
                    except UnboundError:
                        continue

    def intercept(
        self, m: Machine, f: Function, args: list[Any], kwargs: dict[str, Any], frame: Frame | None, node: Any
    ) -> Any:
        """Answers for functions whose result only a running process has."""
        if m.fetches and frame is not None:
            note_sieve(m, [*args, *kwargs.values()], frame)
        if self.watch is not None:
            site = m.site(frame, node, "call") if frame is not None and node is not None else None
            seen = self.watch(m, f, args, kwargs, site)
            if seen is not NotImplemented:
                return seen
        hook = self.hooks.get(f.name)
        if hook is not None:
            return hook(m, f, args, kwargs)
        if f.name in self.told:
            return self.told[f.name]
        if self.tensor_parallel is not None and DIVIDED.search(f.name):
            return Tainted(self.tensor_parallel, of(Kind.PARALLELISM))
        return _alone(f.name)


@cache
def _alone(function: str) -> Any:
    """What a function called so gives on one device, where the name tells it."""
    if DRIVER.match(function):
        return NOT_NONE
    if function.endswith("world_size"):
        return 1
    return 0 if function.endswith("_rank") and not function.startswith("set") else NotImplemented


def enters(function: ast.FunctionDef, table: str) -> bool:
    """Whether a function makes a decorator that enters what it is given into a table."""
    return any(
        isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name) and target.value.id == table
        for inner in function.body
        if isinstance(inner, ast.FunctionDef)
        for part in ast.walk(inner)
        if isinstance(part, ast.Assign)
        for target in part.targets
    )


def _catches(handler: ast.ExceptHandler) -> bool:
    """Whether what compiled code raises goes no further than here."""
    named = (
        {part.id for part in ast.walk(handler.type) if isinstance(part, ast.Name)} if handler.type else None
    )
    return named is None or bool(named & {"Exception", "BaseException", "RuntimeError"})


def _is_data(value: Any) -> bool:
    inner = bare(value)
    return isinstance(inner, Tensor) or (isinstance(inner, Unknown) and inner.runtime)
