"""What the interpreter asks of the scenario: the device, the options, the libraries outside the sources.

:class:`tools.viability.facts.Facts` is what answers.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Set
from typing import Any, Protocol

from tools.viability.interpreter.machine import Machine
from tools.viability.interpreter.modules import Module
from tools.viability.interpreter.records import Frame
from tools.viability.interpreter.values import Built, Function, Instance, Taint, Tensor


class Scenario(Protocol):
    """The hooks of one run. ``NotImplemented`` from a hook means that it has nothing to say."""

    @property
    def module_methods(self) -> frozenset[str]:
        """Methods that a layer inherits from the framework's base class."""

    @property
    def common_bases(self) -> frozenset[str]:
        """Names of the classes outside the sources that every model's configuration derives from."""

    @property
    def root(self) -> str:
        """The engine's top-level package."""

    @property
    def kernel_packages(self) -> frozenset[str]:
        """Packages outside the sources that the run met and that are no frameworks."""

    @property
    def versions(self) -> Mapping[str, str]:
        """Distribution → version, as far as the environment tells."""

    @property
    def variables(self) -> Set[str]:
        """Environment variables that were asked for."""

    def variable(self, name: str) -> str | None:
        """The value of an environment variable, None where nobody sets it."""

    def external(self, path: str) -> Any:
        """What a dotted path outside the sources stands for."""

    def has_external(self, path: str) -> bool | None:
        """Whether it exists; None where that is not known."""

    def presence_taint(self, holder: Any, name: str) -> Taint:
        """What the presence of ``holder.name`` depends on."""

    def call_external(
        self, m: Machine, path: str, args: list[Any], kwargs: dict[str, Any], frame: Frame | None, node: Any
    ) -> Any: ...

    def tensor_attribute(self, value: Tensor, name: str) -> Any: ...

    def module_method(
        self, m: Machine, instance: Instance, name: str, args: list[Any], kw: dict[str, Any]
    ) -> Any:
        """A call of one of ``module_methods``."""

    def call_built(
        self, m: Machine, f: Built, args: list[Any], kwargs: dict[str, Any], frame: Frame | None, node: Any
    ) -> Any:
        """A call of something in a module of kernels that is compiled when it runs."""

    def named(self, built: Any, names: Mapping[str, Any]) -> Any:
        """Such a module with the sources that the function names which gives it."""

    def reads_options(self, function: ast.FunctionDef) -> bool:
        """Whether a function reads the engine's options."""

    def option_by_name(self, m: Machine, name: str, frame: Frame | None, node: Any) -> Any:
        """The option that an attribute of something not followed stands for, told by its name."""

    def told_by(self, name: str, depends: Taint) -> Taint:
        """What an attribute of something not followed depends on, of which ``depends`` is known."""

    def kept_as(self, m: Machine, name: str, value: Any) -> Any:
        """What an attribute holds into which ``value`` is put: told by its name where that is not known, or
        may not be put there."""

    def initialise(self, m: Machine, module: Module, name: str, writer: ast.FunctionDef) -> Any:
        """A module's global after the start-up function ``writer`` has filled it from the options."""

    def register_all(self, m: Machine, module: Module, table: str | None = None) -> None:
        """Run what registers itself in the tables of ``module``, or in one global ``table`` of it."""

    def intercept(
        self, m: Machine, f: Function, args: list[Any], kwargs: dict[str, Any], frame: Frame | None, node: Any
    ) -> Any:
        """The result of a call that only a running process has."""
