"""What a run is given: the device, the value under test, what else the scenario sets; and what it asks."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from packaging.version import Version

from tools.viability.checkpoint import Checkpoint
from tools.viability.configs import Configs
from tools.viability.device import device_fact
from tools.viability.hostcode.follow import HostCode
from tools.viability.installed import STANDARD
from tools.viability.interpreter.asked import Fact, Number, Question, Word, Worked
from tools.viability.interpreter.machine import Machine
from tools.viability.interpreter.modules import Module, World
from tools.viability.interpreter.values import (
    External,
    Function,
    Kind,
    Open,
    Site,
    Tainted,
    of,
)
from tools.viability.kinds import ModelKind
from tools.viability.library import Library
from tools.viability.profile import Profile, libraries
from tools.viability.served import Served

MODULE_METHODS = frozenset(libraries()["torch"]["module_methods"])
COMMON_BASES = frozenset(libraries()["checkpoint"]["base"])


MAJOR, MINOR, VALUE = Fact("<major>"), Fact("<minor>"), Fact("<value>")
"""The device's capability and the option's value; kinds of models are called by their attributes."""
MODEL = Fact("model_class")
"""The class that serves the model, where one was named."""


@dataclass(frozen=True)
class OptionTable:
    """The engine's options object as declared: field → default expression and the module it stands in."""

    fields: dict[str, tuple[ast.expr | None, Module]]
    configs: Configs = dataclasses.field(default_factory=Configs)
    """Objects that hold them while the engine runs."""
    derived: Mapping[str, tuple[str, str]] = dataclasses.field(default_factory=dict)
    """Settings declared beside them as functions of them: name → module and function."""
    beside: Mapping[str, tuple[ast.expr | None, Module]] = dataclasses.field(default_factory=dict)
    """Fields of classes beside those, which declare no choice of their own."""
    classes: frozenset[str] = frozenset()
    """Names of the classes that declare them."""
    lists: Callable[[], frozenset[str]] = frozenset
    """Names of lists that start-up begins on the options object, and notes down there what it decides."""
    _read: dict[ast.FunctionDef, bool] = dataclasses.field(default_factory=dict, compare=False, repr=False)

    def _holds_option(self, part: ast.Attribute) -> bool:
        """Whether it is a field of a configuration object that start-up fills from an option."""
        found = self.configs.find(part)
        return found is not None and (found[0], part.attr) in self.configs.given

    def read_by(self, function: ast.FunctionDef) -> bool:
        """Whether a function reads an option. Only names with an underscore count."""
        if function not in self._read:
            parts = [part for part in ast.walk(function) if isinstance(part, ast.Attribute)]
            self._read[function] = any(
                (part.attr in self.fields and "_" in part.attr) or self._holds_option(part) for part in parts
            )
        return self._read[function]


@dataclass
class Given:
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
    model: Served | None = None
    """The class that serves the model, where one was named."""
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
    stored: Mapping[str, Callable[[str], Any]] = dataclasses.field(default_factory=dict)
    """Attribute of an object of the running engine → what gives what start-up puts there."""
    layer: Any = None
    """The layer under test, once it is built: what a model finds under a layer's name."""
    module_methods: frozenset[str] = MODULE_METHODS
    common_bases: frozenset[str] = COMMON_BASES

    def __post_init__(self) -> None:
        arch = of(Kind.ARCH)
        self.asked: dict[Question, Any] = {}
        """What the run asked of the scenario, and the answers, in the order in which it did."""
        self._over = False
        self._model_objects: dict[bool, Tainted] = {}
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
        model = {MODEL.name: self.model.architecture} if self.model is not None else {}
        return {**device, **model, VALUE.name: self.value, **kinds}

    def note(self, question: Question, answer: Any) -> None:
        """Note what the run asked; nothing may depend on it once the run is over."""
        if self._over:
            raise RuntimeError(f"{question} was asked when the run was over")
        self.asked[question] = answer

    def anew(self) -> Self:
        """The same scenario, of which nothing has been asked yet."""
        fresh = dataclasses.replace(self)
        fresh.tell(self._kinds)
        return fresh

    def rest(self) -> None:
        """Let go of what only a run in progress needs."""
        self._over = True
        self.layer = None
        self.hooks = {}
        self.stored = {}
        self._defaults.clear()
        self._model_objects.clear()

    def _property(self, name: str) -> Any:
        fact = libraries()["host"]["properties"].get(name)
        if fact in ("major", "minor"):
            return self._capability[fact == "minor"]
        limit = device_fact(fact, *self.arch) if fact is not None else None
        if limit is None:
            return NotImplemented
        return Tainted(Number(limit, Worked(device_fact, (fact, MAJOR, MINOR)), self.note), of(Kind.ARCH))

    def under_test(self) -> Tainted:
        """The option's value."""
        value = Word(self.value, VALUE, self.note) if self.value is not None else None
        return Tainted(value, of(Kind.OPTION))

    def tell(self, kinds: dict[str, tuple[ModelKind, str]]) -> None:
        """Attribute → the kind of model that it tells, and the member that holds here."""
        self._kinds = kinds
        for attribute, (kind, _) in kinds.items():
            self._means[attribute] = attribute, None
            self._means.update({name: (attribute, member) for name, member in kind.derived})
