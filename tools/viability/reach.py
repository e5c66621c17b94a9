"""Which layers the classes of a model are built of."""

from __future__ import annotations

from collections.abc import Sequence

from tools.engines.adapter import engine as engine_called
from tools.engines.models import ModelUse, uses
from tools.source.tree import SourceTree
from tools.viability.layers import Layer


class Reach:
    """Answers for one engine in one tree, each found once."""

    def __init__(self, tree: SourceTree, engine: str) -> None:
        self._tree = tree
        self._engine = engine
        self._found: dict[tuple[str, str], ModelUse | None] = {}

    def unused(self, layer: Layer, models: Sequence[str]) -> list[ModelUse] | None:
        """The classes of a model where none of them is built of the layer or a kind of it.

        None where one is, or where a class cannot be read.
        """
        found = [self._use(layer, model) for model in models]
        read = [use for use in found if use is not None]
        if len(read) < len(found) or any(use.line is not None for use in read):
            return None
        return read

    def may_use(self, layer: Layer, model: str) -> bool:
        """Whether a class is, or may be, built of the layer or a kind of it."""
        use = self._use(layer, model)
        return use is None or use.line is not None

    def _use(self, layer: Layer, model: str) -> ModelUse | None:
        key = (layer.root, model)
        if key not in self._found:
            names = sorted({name for _, name in (*layer.classes, *layer.selectors, *layer.makers)})
            self._found[key] = uses(self._tree, engine_called(self._engine), model, names)
        return self._found[key]
