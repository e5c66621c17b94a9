"""Which records of a tree were left: those beside the way from a tree's last message to its root."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass


@dataclass(slots=True)
class _Node:
    parent: str | None
    events: tuple[int, ...] = ()
    group: str | None = None
    messages: int = 0
    meta: bool = False
    asked: tuple[str, ...] = ()
    answers: tuple[str, ...] = ()


class Tree:
    """Records by their id, in the order in which they stand; a few words each."""

    def __init__(self) -> None:
        self._nodes: dict[str, _Node] = {}

    def add(self, id_: str, parent: str | None) -> bool:
        """False for an id that is there already."""
        if id_ in self._nodes:
            return False
        self._nodes[id_] = _Node(parent)
        return True

    def note(
        self, id_: str, events: tuple[int, ...], group: str | None, *, messages: int, meta: bool = False
    ) -> None:
        """What a record became. Records of one ``group`` are one answer."""
        node = self._nodes[id_]
        node.events, node.group, node.messages, node.meta = events, group, messages, meta

    def ask(self, id_: str, calls: Iterable[str]) -> None:
        self._nodes[id_].asked = tuple(calls)

    def answer(self, id_: str, calls: Iterable[str]) -> None:
        self._nodes[id_].answers = tuple(calls)

    def dead(self) -> Iterator[tuple[list[int], int]]:
        """The events of what was left and how many messages they are; nothing where all is live."""
        roots = self._roots()
        leaf: dict[str, str] = {}
        for id_, node in self._nodes.items():
            if node.messages:
                leaf[roots[id_]] = id_
        way: set[str] = set()
        for id_ in leaf.values():
            at: str | None = id_
            while at is not None and at in self._nodes and at not in way:
                way.add(at)
                at = self._nodes[at].parent
        groups = {node.group for id_, node in self._nodes.items() if id_ in way and node.group is not None}
        live = set(way)
        # Calls that run side by side are answered on branches of their own.
        asked = {
            call
            for id_, node in self._nodes.items()
            if id_ in way or node.group in groups
            for call in node.asked
        }
        for id_, node in self._nodes.items():
            if (
                node.group in groups
                or any(call in asked for call in node.answers)
                or (node.meta and node.parent in live)
            ):
                live.add(id_)
        left = [node for id_, node in self._nodes.items() if id_ not in live and node.events]
        if left:
            yield sorted(seq for node in left for seq in node.events), sum(node.messages for node in left)

    def _roots(self) -> dict[str, str]:
        """Each record → the first of its ancestors; of those in a circle, one of them."""
        roots: dict[str, str] = {}
        for id_ in self._nodes:
            way: list[str] = []
            seen: set[str] = set()
            at = id_
            while at not in roots:
                way.append(at)
                seen.add(at)
                parent = self._nodes[at].parent
                if parent is None or parent not in self._nodes or parent in seen:
                    roots[at] = at
                    break
                at = parent
            for one in way:
                roots[one] = roots[at]
        return roots
