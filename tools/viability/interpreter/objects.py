"""Building objects: classes with a constructor, records whose constructor is their list of fields."""

from __future__ import annotations

import ast
from typing import Any

from tools.viability.interpreter.classes import class_attribute, enum_call, is_enum
from tools.viability.interpreter.dispatch import call, caller, evaluate
from tools.viability.interpreter.machine import Machine
from tools.viability.interpreter.records import NOT_BOUND, Frame
from tools.viability.interpreter.values import UNKNOWN, Bound, ClassValue, Instance, Tensor, bare

TENSORS = ("Tensor", "Parameter")
RECORDS = ("NamedTuple", "Struct", "BaseModel")


@caller(ClassValue)
def instantiate(
    m: Machine, cls: ClassValue, args: list[Any], kwargs: dict[str, Any], frame: Frame | None, node: Any
) -> Any:
    if is_enum(cls):
        return enum_call(m, cls, args, frame, node)
    instance = Instance(cls)
    if any(path.rsplit(".", 1)[-1] in ("dict", "OrderedDict") for path in cls.external_bases):
        instance.items = {}
    if any(path.rsplit(".", 1)[-1] in TENSORS for path in cls.external_bases):
        given = (bare(value) for value in [*args, *kwargs.values()])
        instance.tensor = next((value for value in given if isinstance(value, Tensor)), None)
    init, _ = class_attribute(m, cls, "__init__")
    if init is not NOT_BOUND:
        call(m, Bound(init, instance), args, kwargs, frame, node)
        return instance
    if is_record(cls):
        _fill_record(m, instance, args, kwargs, frame, node)
    return instance


def is_record(cls: ClassValue) -> bool:
    return any(isinstance(b, ClassValue) and b.is_dataclass for b in cls.mro()) or any(
        path.rsplit(".", 1)[-1] in RECORDS for path in cls.external_bases
    )


def record_fields(m: Machine, cls: ClassValue) -> list[tuple[str, ast.expr | None, ClassValue]]:
    """Annotated fields of a record class in definition order, base classes first."""
    found: dict[str, tuple[str, ast.expr | None, ClassValue]] = {}
    for base in reversed(cls.mro()):
        if isinstance(base, ClassValue):
            for statement in base.node.body:
                if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                    if "ClassVar" in ast.dump(statement.annotation):
                        continue
                    found[statement.target.id] = (statement.target.id, statement.value, base)
    return list(found.values())


def _fill_record(
    m: Machine, instance: Instance, args: list[Any], kwargs: dict[str, Any], frame: Frame | None, node: Any
) -> None:
    fields = record_fields(m, instance.cls)
    unsure = "**" in kwargs
    values = dict(zip([name for name, _, _ in fields], args, strict=False))
    values.update({name: value for name, value in kwargs.items() if name != "**"})
    for name, default, owner in fields:
        if name in values:
            instance.attrs[name] = values[name]
        elif default is None or unsure:
            instance.attrs[name] = UNKNOWN
        else:
            value = evaluate(m, default, Frame(owner.module, {}, parent=owner.closure))
            v = bare(value)
            if isinstance(v, dict) and "<default>" in v:
                value = v["<default>"]
            elif isinstance(v, dict) and "<factory>" in v:
                value = call(m, v["<factory>"], [], {}, frame, node)
            instance.attrs[name] = value
    instance.closed = not instance.cls.external_bases or any(
        path.rsplit(".", 1)[-1] == "NamedTuple" for path in instance.cls.external_bases
    )
    post, _ = class_attribute(m, instance.cls, "__post_init__")
    if post is not NOT_BOUND:
        call(m, Bound(post, instance), [], {}, frame, node)
