"""What a tool is, and what it is given.

A tool is one function with typed input and result, wrapped by :func:`tool`::

    class ReadInput(BaseModel): ...
    class ReadResult(BaseModel): ...

    @tool(effect=Effect.READS)
    def read_source(args: ReadInput, context: ToolContext) -> ReadResult:
        \"\"\"One line that says what it does: the description a model sees.\"\"\"

Tools are found, not listed: every public module below ``tools`` is looked through, and the
``assay.tools`` entry points of other distributions (see :mod:`tools.registry`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeAlias, TypeGuard, TypeVar, get_type_hints

from pydantic import BaseModel

from memory.terms import Effect
from tools.errors import ToolError as ToolError

Input = TypeVar("Input", bound=BaseModel)
Result = TypeVar("Result", bound=BaseModel)


class ToolContext(Protocol):
    """What a running tool may use; nothing else of the program is within reach.

    A context may also have ``folders``, a collection of paths: then these are the only folders of others that
    tools read (``tools.environment.store.open_for``), whatever a driver names.
    """

    @property
    def home(self) -> Any: ...  # memory.home.Home

    def progress(self, text: str) -> None:
        """Tell the person what is going on (stderr); never part of the result."""


@dataclass(frozen=True)
class Prerequisite:
    """Something a tool needs to be usable here. ``check`` returns None or what is missing with the fix."""

    name: str
    check: Callable[[], str | None]


@dataclass(frozen=True)
class Tool(Generic[Input, Result]):
    name: str
    description: str
    input: type[Input]
    result: type[Result]
    effect: Effect
    run: Callable[[Input, Any], Result]
    resources: Callable[[Input], tuple[str, ...]] = field(default=lambda _: ())
    prerequisites: tuple[Prerequisite, ...] = ()
    alone: bool = False
    """Never beside another call: it reads or changes what they do (the records, what environments there are),
    or it forks. Others of one decision run side by side: the order in which they end must not matter."""

    def schema(self) -> dict[str, Any]:
        """The input as JSON schema, for a model or an MCP client."""
        return self.input.model_json_schema()


AnyTool: TypeAlias = Tool[Any, Any]


def tool(
    *,
    effect: Effect,
    resources: Callable[[Any], tuple[str, ...]] = lambda _: (),
    prerequisites: tuple[Prerequisite, ...] = (),
    alone: bool = False,
) -> Callable[[Callable[[Any, Any], Any]], Tool[Any, Any]]:
    """Make a tool of a function ``(args: Input, context) -> Result``: name, schema, description are its own.

    ``resources``: what it must have to itself, as :mod:`tools.locks` names it; whoever runs it takes the
    locks.

    Raises ``TypeError`` for a function that lacks its docstring or the types of its input and result.
    """

    def wrap(function: Callable[[Any, Any], Any]) -> Tool[Any, Any]:
        hints = get_type_hints(function)
        gives = hints.pop("return", None)
        takes = next(iter(hints.values()), None)
        if not (_is_model(takes) and _is_model(gives)):
            raise TypeError(f"tool {function.__name__} must have pydantic models as input and result")
        description = (function.__doc__ or "").strip()
        if not description:
            raise TypeError(f"tool {function.__name__} has no docstring")
        return Tool(
            name=function.__name__,
            description=description,
            input=takes,
            result=gives,
            effect=effect,
            run=function,
            resources=resources,
            prerequisites=prerequisites,
            alone=alone,
        )

    return wrap


def _is_model(hint: Any) -> TypeGuard[type[BaseModel]]:
    return isinstance(hint, type) and issubclass(hint, BaseModel)
