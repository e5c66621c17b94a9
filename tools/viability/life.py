"""The life of one layer, from start-up and its constructor to a forward pass, under one scenario."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tools.viability.discover import Discovery
from tools.viability.facts import Facts
from tools.viability.interpreter.classes import class_attribute
from tools.viability.interpreter.dispatch import get_attribute
from tools.viability.interpreter.machine import Machine
from tools.viability.interpreter.names import UnboundError, global_name
from tools.viability.interpreter.records import NOT_BOUND, Condition, Frame
from tools.viability.interpreter.values import (
    UNKNOWN,
    Bound,
    ClassValue,
    Function,
    Instance,
    Kind,
    Open,
    Tainted,
    Tensor,
    bare,
    of,
    strip,
)
from tools.viability.layers import Layer
from tools.viability.nominal import annotated_types, arguments, arguments_of
from tools.viability.profile import libraries
from tools.viability.rules import follow_class_rules
from tools.viability.runs import Run, attempt, limited
from tools.viability.survey import Built


def run_layer(
    discovery: Discovery,
    facts: Facts,
    layer: Layer,
    quantisation: str | None,
    checkpoint: Any,
    built: Built | None = None,
) -> Run:
    """Build a layer of the family, load its weights, call it; ``built``: as a certain model does."""
    m = Machine(discovery.world, facts)
    result = Run(m, layer)
    hook = discovery.profile.checkpoint_config
    facts.hooks = {hook: lambda *_: UNKNOWN}
    with limited(result):
        install(m, discovery, facts, result)
        m.consulted.clear()
        if facts.model is not None and result.refused is None:
            follow_class_rules(m, discovery.class_rules(facts.model.known), facts, result)
        if result.refused is None:
            first = _configuration(m, discovery, quantisation, checkpoint, result)
            facts.hooks = {hook: lambda *_: first}
        if result.refused is None:
            _check_capability(m, discovery, quantisation, result)
        if result.refused is None:
            # A fresh one: the check may have changed the first for a model that is not known here.
            config = _configuration(m, discovery, quantisation, checkpoint, result)
            _live(m, discovery, facts, layer, config, result, built)
    return result


def install(m: Machine, discovery: Discovery, facts: Facts, result: Run) -> None:
    """What start-up does with the option before any layer exists."""
    for module_name, name in discovery.readers.installers(facts.field) if facts.field else []:
        module = discovery.world.module(module_name)
        if module is None or result.refused is not None:
            continue
        function = global_name(m, module, name)
        node = getattr(bare(function), "node", None)
        args = [facts.options_object(m) for _ in node.args.args] if node is not None else []
        attempt(m, result, "start", function, args, {})


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
    cls = attempt(m, result, "quantisation", global_name(m, module, place[1]), [name], {})
    value = bare(cls)
    if not isinstance(value, ClassValue):
        return UNKNOWN
    maker = get_attribute(m, value, "from_config", Frame(value.module, {}), None)
    # The loader adds the model class's map of fused layers to what the checkpoint says.
    return attempt(m, result, "checkpoint", maker, [{"packed_modules_mapping": {}, **_copy(checkpoint)}], {})


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
        node = global_name(m, module, function)
        count = len(bare(node).node.args.args) if hasattr(bare(node), "node") else 2
        attempt(m, result, "capability", node, [config, *[Open("load config") for _ in range(count - 1)]], {})


def _live(
    m: Machine,
    discovery: Discovery,
    facts: Facts,
    layer: Layer,
    config: Any,
    result: Run,
    built: Built | None,
) -> None:
    made = _make(m, discovery, layer, config, result, built)
    instance = bare(made)
    if result.refused is not None or not isinstance(instance, Instance):
        return
    facts.layer = instance
    after = discovery.profile.after_loading
    for owner, method in _methods(m, instance, after):
        if result.refused is None:
            attempt(m, result, "load", get_attribute(m, method, after, None, None), [owner], {})
    _pass_forward(m, discovery, instance.cls, instance, config, result)


def _make(
    m: Machine, discovery: Discovery, layer: Layer, config: Any, result: Run, built: Built | None
) -> Any:
    """The layer as a model builds it: by a function that makes it with what it needs, or by its class."""
    keywords = discovery.keywords(layer)
    real = built.arguments if built is not None else {}
    for module_name, name in layer.makers[:1]:
        module = discovery.world.module(module_name)
        maker = bare(global_name(m, module, name)) if module is not None else None
        if isinstance(maker, Function):
            result.chosen = f"{module_name}.{name}"
            given = {**arguments_of(maker.node.args, config, keywords), **real}
            return attempt(m, result, "construct", maker, [], given)
    if built is not None:
        layer = replace(layer, classes=(built.made,), selectors=())
    cls = _choose(m, discovery, layer, config, result)
    if cls is None or result.refused is not None:
        return None
    result.chosen = f"{cls.module.name}.{cls.name}"
    given = {**arguments(m, cls, "__init__", config, keywords), **real}
    if layer.kind:
        given[layer.kind] = Tainted(True, of(Kind.MODEL))
    if built is not None and not built.sized:
        with m.under(Frame(cls.module, {}), Condition(of(Kind.MODEL), built.place)):
            return attempt(m, result, "construct", cls, [], given)
    return attempt(m, result, "construct", cls, [], given)


def _methods(m: Machine, holder: Instance, after: str, depth: int = 2) -> list[tuple[Instance, Instance]]:
    """The layers in an object, each with the method of its quantisation."""
    parts = [bare(value) for value in holder.attrs.values() if isinstance(bare(value), Instance)]
    own = [part for part in parts if class_attribute(m, part.cls, after)[0] is not NOT_BOUND]
    found = [(holder, part) for part in own[:1]]
    for part in parts if depth and not own else []:
        found += [item for item in _methods(m, part, after, depth - 1) if item not in found]
    return found


def _pass_forward(
    m: Machine, discovery: Discovery, cls: ClassValue, instance: Instance, config: Any, result: Run
) -> None:
    forward, _ = class_attribute(m, cls, "forward")
    if result.refused is not None or forward is NOT_BOUND:
        return
    given = _as_wide(arguments(m, cls, "forward", config), instance)
    for name, kind in annotated_types(forward).items():
        maker = discovery.maker_of(kind) if name in given else None
        if maker is not None:
            given[name] = _made_before(m, discovery, maker, config, result)
    if result.refused is None:
        attempt(m, result, "forward", Bound(forward, instance), [], given)


def _as_wide(given: dict[str, Any], instance: Instance) -> dict[str, Any]:
    """Nominal tensors as wide as the layer takes them, where a model's config tells how wide that is."""
    widths = (instance.attrs.get(name) for name in libraries()["checkpoint"]["widths"])
    width = next((one for one in widths if Kind.CONFIG in strip(one)[1].kinds), None)
    if width is None:
        return given
    return {
        name: replace(value, shape=(*value.shape[:-1], width))
        if isinstance(value, Tensor) and isinstance(value.shape, tuple)
        else value
        for name, value in given.items()
    }


def _made_before(m: Machine, discovery: Discovery, maker: Layer, config: Any, result: Run) -> Any:
    """What the module in front of the layer hands on: built and called as the models do."""
    cls = _choose(m, discovery, maker, config, result)
    if cls is None:
        return UNKNOWN
    made = attempt(m, result, "construct", cls, [], arguments(m, cls, "__init__", config))
    forward, _ = class_attribute(m, cls, "forward")
    if result.refused is not None or forward is NOT_BOUND or not isinstance(bare(made), Instance):
        return UNKNOWN
    # A forward pass that only hands on takes what the methods take that it may hand on to.
    names = [name for name in cls.index if name.startswith("forward")]
    given = next((given for name in names if (given := arguments(m, cls, name, config))), {})
    since = len(m.crossings)
    handed = attempt(m, result, "before", Bound(forward, bare(made)), [], given)
    for crossing in m.crossings[since:]:
        crossing.by_option = False  # its kernels are not those of the layer, whoever chose them
    return handed


def _choose(m: Machine, discovery: Discovery, layer: Layer, config: Any, result: Run) -> ClassValue | None:
    for module_name, function in layer.selectors:
        module = discovery.world.module(module_name)
        if module is None:
            continue
        chosen, _ = strip(attempt(m, result, "select", global_name(m, module, function), [config], {}))
        if isinstance(chosen, ClassValue):
            return chosen
    for module_name, name in layer.classes:
        module = discovery.world.module(module_name)
        if module is None:
            continue
        try:
            value = bare(global_name(m, module, name))
        except UnboundError:
            continue
        if isinstance(value, ClassValue):
            return value
    return None
