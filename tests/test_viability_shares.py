"""Which worker gets which cells: all of them once, and a component from as few workers as may be."""

from __future__ import annotations

import itertools
import random

from tools.viability.batch import WORTH_IT, Group, Shares

ARCHS = [f"sm{number}" for number in range(70, 80)]


def handed_out(groups: list[Group], workers: int, seed: int) -> list[list[Group]]:
    """What each of some workers gets, whoever is done first."""
    left, chance = Shares(groups), random.Random(seed)
    done: list[list[Group]] = [[] for _ in range(workers)]
    doing = {worker: left.take(None) for worker in range(workers)}
    given = [index for index in doing.values() if index is not None]
    while busy := [worker for worker, index in doing.items() if index is not None]:
        worker = chance.choice(busy)
        index = doing[worker]
        assert index is not None
        done[worker].append(groups[index])
        doing[worker] = left.take(groups[index])
        if (following := doing[worker]) is not None:
            given.append(following)
    assert sorted(given) == list(range(len(groups)))
    return done


def test_every_cell_is_given_once_and_no_group_to_two_workers() -> None:
    components = {"attention": 5, "moe_runner": 4, "fp8_gemm": 2, "mamba": 1}
    groups = [(name, arch) for name, count in components.items() for arch in ARCHS for _ in range(count)]
    for workers, seed in itertools.product((1, 2, 3, 4), range(20)):
        done = handed_out(groups, workers, seed)
        for one, other in itertools.combinations(done, 2):
            assert not set(one) & set(other)


def test_a_component_that_is_nearly_done_is_left_to_whoever_is_at_it() -> None:
    few = [("attention", arch) for arch in ARCHS[:WORTH_IT]]
    assert sorted(map(len, handed_out(few, 2, 0))) == [0, WORTH_IT]
    many = [("attention", arch) for arch in ARCHS]
    assert min(map(len, handed_out(many, 2, 0))) > 0
