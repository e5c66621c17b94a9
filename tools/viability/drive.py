"""Running one cell: the life of one layer, from its constructor to a forward pass, under one scenario."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import Any

from tools.viability.calls import call, class_attribute, get_attribute
from tools.viability.discover import Discovery, Layer
from tools.viability.facts import Facts
from tools.viability.machine import NOT_BOUND, BudgetError, Condition, Frame, Machine, RaiseRecord
from tools.viability.values import (
    RUNTIME,
    UNKNOWN,
    Bound,
    ClassValue,
    External,
    Instance,
    Kind,
    Open,
    Raised,
    Site,
    Taint,
    Tainted,
    Tensor,
    Union,
    bare,
    of,
    strip,
)

SOFT = of(Kind.SOFT)


@dataclass
class Passage:
    """One stage of a run: what was called and how it ended."""

    stage: str
    raised: RaiseRecord | None = None
    result: Any = None


@dataclass
class Run:
    """Everything one run saw."""

    machine: Machine
    layer: Layer | None
    passages: list[Passage] = field(default_factory=list)
    problem: str | None = None
    """Why the run says nothing (a budget, a missing way in)."""
    chosen: str | None = None
    """The class that was built."""

    @property
    def refused(self) -> RaiseRecord | None:
        return next((p.raised for p in self.passages if p.raised is not None), None)

    @property
    def observed(self) -> bool:
        """Whether the layer's life depended on the option: a test looked at it, or it went into a call."""
        return bool(self.machine.consulted) or any(crossing.by_option for crossing in self.machine.crossings)


def run_layer(
    discovery: Discovery, facts: Facts, layer: Layer, quantisation: str | None, checkpoint: Any
) -> Run:
    """Build a layer of the family, load its weights, call it."""
    m = Machine(discovery.world, facts)
    result = Run(m, layer)
    facts.hooks = {
        discovery.profile.checkpoint_config: lambda machine, f, args, kw: result_config[0],
    }
    result_config: list[Any] = [UNKNOWN]
    try:
        _install(m, discovery, facts, result)
        m.consulted.clear()
        if result.refused is None:
            result_config[0] = _configuration(m, discovery, quantisation, checkpoint, result)
        if result.refused is None:
            _check_capability(m, discovery, quantisation, result)
        if result.refused is None:
            # A fresh one: the check may have changed the first for a model that is not known here.
            config = _configuration(m, discovery, quantisation, checkpoint, result)
            _live(m, discovery, layer, config, result)
    except BudgetError as error:
        result.problem = str(error)
    except RecursionError:
        result.problem = "the interpreter ran out of stack"
    return result


def run_options(discovery: Discovery, facts: Facts) -> Run:
    """The checks that the engine makes of its options before it starts, each on its own.

    One that takes too many steps is passed over: it says nothing either way.
    """
    result = Run(Machine(discovery.world, facts), None)
    for module_name, owner, name in discovery.validators(facts.field) if facts.field else []:
        module = discovery.world.module(module_name)
        if module is None:
            continue
        m = Machine(discovery.world, facts, limit=VALIDATOR_STEPS)
        here = Run(m, None)
        options = facts.options_object(m)
        try:
            if owner is None:
                _attempt(m, here, "options", m.global_name(module, name), [options], {})
            else:
                cls = bare(m.global_name(module, owner))
                if isinstance(cls, ClassValue):
                    options.cls = cls
                    _attempt(m, here, "options", Bound(class_attribute(m, cls, name)[0], options), [], {})
        except (BudgetError, RecursionError) as error:
            result.machine.misfits.append(f"{module.file}:{name}: {error}")
            continue
        if here.refused is not None and here.refused.proven:
            return here
        result.machine.gates.extend(m.gates)
        result.passages.extend(here.passages[:1])
    return result


VALIDATOR_STEPS = 60_000


def run_registered(discovery: Discovery, facts: Facts, place: tuple[str, str]) -> Run:
    """Make what a table holds under the option's value, and call what its base class says it is for."""
    m = Machine(discovery.world, facts)
    result = Run(m, None, chosen=f"{place[0]}.{place[1]}")
    module = discovery.world.module(place[0])
    if module is None:
        return result
    maker = m.global_name(module, place[1])
    site = Site(module.file, getattr(getattr(bare(maker), "node", None), "lineno", 1), "call")
    m.consulted.append(site)
    frame = Frame(module, {})
    chosen = Condition(Taint(frozenset({Kind.OPTION})), site, direct=False)
    try:
        with m.under(frame, chosen):
            made = _attempt(m, result, "create", maker, [Open("runner")], {})
        if result.refused is None:
            _use(m, result, made, frame, chosen)
    except BudgetError as error:
        result.problem = str(error)
    except RecursionError:
        result.problem = "the interpreter ran out of stack"
    return result


def _use(m: Machine, result: Run, made: Any, frame: Frame, chosen: Condition) -> None:
    """Each alternative's entry points; refused only if every alternative is."""
    value = bare(made)
    options = [bare(option) for option in value.options] if isinstance(value, Union) else [value]
    ends: list[list[Passage]] = []
    for option in options:
        if not isinstance(option, Instance):
            continue
        here = Run(m, None)
        for name in entry_points(m, option.cls):
            found, _ = class_attribute(m, option.cls, name)
            arguments = _arguments(m, option.cls, name, None)
            if here.refused is None:
                with m.under(frame, chosen):
                    _attempt(m, here, name, Bound(found, option), [], arguments)
        ends.append(here.passages)
    passed = [end for end in ends if not any(passage.raised for passage in end)]
    result.passages.extend((passed or ends or [[]])[0])


def entry_points(m: Machine, cls: ClassValue) -> list[str]:
    """Methods that the inherited ``forward`` hands on to, else ``forward`` itself."""
    found, owner = class_attribute(m, cls, "forward")
    node = getattr(bare(found), "node", None)
    if node is None or owner is None:
        return []
    called = [
        part.func.attr
        for part in ast.walk(node)
        if isinstance(part, ast.Call)
        and isinstance(part.func, ast.Attribute)
        and isinstance(part.func.value, ast.Name)
        and part.func.value.id == "self"
        and part.func.attr.startswith("forward")
    ]
    own = [name for name in dict.fromkeys(called) if class_attribute(m, cls, name)[1] is not owner]
    return own or ["forward"]


def _attempt(
    m: Machine, result: Run, stage: str, function: Any, args: list[Any], kwargs: dict[str, Any]
) -> Any:
    """Call something as the engine would; a raise that comes all the way up ends the stage."""
    depth = len(m.conditions)
    frame = Frame(m.world.module(result_module(function)) or _blank(m), {})
    try:
        value = call(m, function, args, kwargs, frame, None)
    except Raised as error:
        result.passages.append(Passage(stage, error.record))
        return UNKNOWN
    finally:
        del m.conditions[depth:]
        m.handlers.clear()
        m.stack.clear()
    result.passages.append(Passage(stage, None, value))
    return value


def _install(m: Machine, discovery: Discovery, facts: Facts, result: Run) -> None:
    """What start-up does with the option before any layer exists."""
    for module_name, name in discovery.installers(facts.field) if facts.field else []:
        module = discovery.world.module(module_name)
        if module is None or result.refused is not None:
            continue
        function = m.global_name(module, name)
        node = getattr(bare(function), "node", None)
        args = [facts.options_object(m) for _ in node.args.args] if node is not None else []
        _attempt(m, result, "start", function, args, {})


def result_module(function: Any) -> str:
    inner = bare(function)
    while isinstance(inner, Bound):
        inner = bare(inner.function)
    module = getattr(inner, "module", None)
    return module.name if module is not None else ""


def _blank(m: Machine) -> Any:
    from tools.viability.modules import Module

    return Module("", "", ast.Module([], []), False)


def _configuration(
    m: Machine, discovery: Discovery, quantisation: str | None, checkpoint: Any, result: Run
) -> Any:
    """The engine's configuration object for the scenario's quantisation."""
    place = discovery.quantisation_lookup
    if quantisation is None or place is None:
        return None
    module = discovery.world.module(place[0])
    assert module is not None
    name = Tainted(quantisation, of(Kind.QUANTISATION))
    cls = _attempt(m, result, "quantisation", m.global_name(module, place[1]), [name], {})
    value = bare(cls)
    if not isinstance(value, ClassValue):
        return UNKNOWN
    maker = get_attribute(m, value, "from_config", Frame(value.module, {}), None)
    # The loader adds the model class's map of fused layers to what the checkpoint says.
    return _attempt(m, result, "checkpoint", maker, [{"packed_modules_mapping": {}, **_copy(checkpoint)}], {})


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copy(item) for key, item in value.items()}
    return [_copy(item) for item in value] if isinstance(value, list) else value


def _check_capability(m: Machine, discovery: Discovery, quantisation: str | None, result: Run) -> None:
    if quantisation is None:
        return
    for module_name, function in discovery.capability_checks:
        module = discovery.world.module(module_name)
        if module is None:
            continue
        config = Open("model config", {"quantization": Tainted(quantisation, of(Kind.QUANTISATION))})
        node = m.global_name(module, function)
        count = len(bare(node).node.args.args) if hasattr(bare(node), "node") else 2
        _attempt(
            m, result, "capability", node, [config, *[Open("load config") for _ in range(count - 1)]], {}
        )


def _live(m: Machine, discovery: Discovery, layer: Layer, config: Any, result: Run) -> None:
    cls = _choose(m, discovery, layer, config, result)
    if cls is None or result.refused is not None:
        return
    result.chosen = f"{cls.module.name}.{cls.name}"
    keywords = discovery.keywords(layer)
    made = _attempt(m, result, "construct", cls, [], _arguments(m, cls, "__init__", config, keywords))
    instance = bare(made)
    if result.refused is not None or not isinstance(instance, Instance):
        return
    after = discovery.profile.after_loading
    method = next(
        (
            bare(value)
            for value in instance.attrs.values()
            if isinstance(bare(value), Instance)
            and class_attribute(m, bare(value).cls, after)[0] is not NOT_BOUND
        ),
        None,
    )
    if method is not None:
        _attempt(m, result, "load", get_attribute(m, method, after, None, None), [instance], {})
        if result.refused is not None:
            return
    forward, _ = class_attribute(m, cls, "forward")
    if forward is NOT_BOUND:
        return
    _attempt(m, result, "forward", Bound(forward, instance), [], _arguments(m, cls, "forward", config))


def _choose(m: Machine, discovery: Discovery, layer: Layer, config: Any, result: Run) -> ClassValue | None:
    for module_name, function in layer.selectors:
        module = discovery.world.module(module_name)
        if module is None:
            continue
        chosen, _ = strip(_attempt(m, result, "select", m.global_name(module, function), [config], {}))
        if isinstance(chosen, ClassValue):
            return chosen
    for module_name, name in layer.classes:
        module = discovery.world.module(module_name)
        if module is None:
            continue
        try:
            value = bare(m.global_name(module, name))
        except KeyError:
            continue
        if isinstance(value, ClassValue):
            return value
    return None


def _arguments(
    m: Machine, cls: ClassValue, method: str, config: Any, usual: frozenset[str] = frozenset()
) -> dict[str, Any]:
    """Nominal arguments for the parameters without a default and for those that callers usually give."""
    found, _ = class_attribute(m, cls, method)
    function = bare(found)
    if not hasattr(function, "node"):
        return {"quant_config": config} if method == "__init__" else {}
    spec = function.node.args
    given: dict[str, Any] = {}
    positional = [*spec.posonlyargs, *spec.args][1:]
    required = positional[: len(positional) - len(spec.defaults)] if spec.defaults else positional
    for parameter in [*positional, *spec.kwonlyargs]:
        if parameter.arg == "quant_config":
            given["quant_config"] = config
        elif parameter.arg == "prefix":
            given["prefix"] = "model.layers.0.part"
        elif parameter in required or (parameter.arg in usual and _is_none(spec, parameter)):
            given[parameter.arg] = nominal(parameter)
    if spec.vararg or spec.kwarg:
        # The signature is forwarded: the base class's is the one that counts.
        for base in cls.mro()[1:]:
            if isinstance(base, ClassValue) and method in {
                s.name for s in base.node.body if isinstance(s, ast.FunctionDef)
            }:
                return {**_arguments(m, base, method, config, usual), **given}
    return given


def _is_none(spec: ast.arguments, parameter: ast.arg) -> bool:
    """Whether a parameter's default is None."""
    positional = [*spec.posonlyargs, *spec.args]
    defaults = dict(zip(positional[len(positional) - len(spec.defaults) :], spec.defaults, strict=True))
    defaults.update({a: d for a, d in zip(spec.kwonlyargs, spec.kw_defaults, strict=True) if d is not None})
    default = defaults.get(parameter)
    return isinstance(default, ast.Constant) and default.value is None


def nominal(parameter: ast.arg) -> Any:
    """A stand-in for an argument: sizes are soft numbers, tensors are tensors, the rest is unknown."""
    name = parameter.arg
    annotation = ast.unparse(parameter.annotation) if parameter.annotation is not None else ""
    if "Tensor" in annotation or name in (
        "x",
        "hidden_states",
        "input_",
        "q",
        "k",
        "v",
        "query",
        "key",
        "value",
    ):
        shape = (Tainted(64, SOFT), Tainted(4096, SOFT))
        return Tensor(shape, External("torch.bfloat16"))
    if annotation == "bool":
        return False
    if (
        annotation == "int"
        or name.endswith(("size", "dim", "_id"))
        or name.startswith("num_")
        or name == "top_k"
    ):
        if name.endswith("_id"):
            return 0
        small = name.startswith("num") or name == "top_k"
        return Tainted(8 if small else 4096, SOFT)
    if annotation == "str":
        return UNKNOWN
    return RUNTIME if annotation == "" or annotation.startswith("Optional") else Open(name)
