"""Whether kernels do their work on an architecture, told by how their code for it compares with the rest.

A kernel is compiled for every target of its unit, also for those that it was not written for: there it is
*hollow*, it only returns, or prints, or traps where its code for another target goes on. Instances of one
function template do the same work for other types or sizes, so one of them that works is enough.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from memory.architecture import Architecture, ArchitectureError, images
from tools.binaries.cubin import Kernel
from tools.binaries.host import template_name

LARGER = 8
"""How many times larger code that does the work is than code that only prints an error."""
FEW, MANY = 2, 8
"""Traps beyond twice those of the best code: up to so many are usual, more than so many are hollow."""
LITTLE = 4
"""How many times smaller kernels are that only help."""

Code = Mapping[str, Kernel]
"""A kernel's code by target."""


def does_work(code: Mapping[str, Code], arch: Architecture) -> bool | None:
    """Whether the operator's main kernels do their work on ``arch``; None where that cannot be told.

    Main are those that do none on some architecture that there is code for, since they were written for
    others; where there are none such, all are. Where no main one works nothing does, unless a kernel beside
    them could be what does the work: one that is larger may be, one that is much smaller only helps.
    """
    main, rest = _parted(code)
    answers = {_works(family, arch) for family in main}
    if True in answers:
        return True
    if None in answers:
        return None
    if not rest:
        return False
    largest, beside = (max(_best(one).size for family in part for one in family) for part in (main, rest))
    if beside * LITTLE < largest:
        emptied = any(
            (target := _picked(one, arch)) and hollow(one, target) for family in main for one in family
        )
        return False if emptied else None
    return True if beside >= largest and any(_works(family, arch) for family in rest) else None


def works_on(code: Mapping[str, Code]) -> dict[str, bool]:
    """Every target that there is code for → whether a main kernel does its work there."""
    main, _ = _parted(code)
    targets = {target for one in code.values() for target in one}
    return {
        target: any(target in one and not hollow(one, target) for family in main for one in family)
        for target in sorted(targets, key=lambda name: (len(name), name))
    }


def _parted(code: Mapping[str, Code]) -> tuple[list[list[Code]], list[list[Code]]]:
    """The main kernels and those beside them, each as families of one template."""
    families: dict[str, list[Code]] = {}
    for name, one in code.items():
        families.setdefault(template_name(name), []).append(one)
    archs = _architectures(target for one in code.values() for target in one)
    main = [family for family in families.values() if any(_works(family, arch) is False for arch in archs)]
    rest = [family for family in families.values() if family not in main]
    return (main, rest) if main else (rest, [])


def _works(family: list[Code], arch: Architecture) -> bool | None:
    picked = [(one, target) for one in family if (target := _picked(one, arch))]
    if any(_sound(one, target) for one, target in picked):
        return True
    return None if any(not hollow(one, target) for one, target in picked) else False


def hollow(code: Code, target: str) -> bool:
    """Whether the code for a target only returns, or stops where the best code for another goes on."""
    mine, best = code[target], _best(code)
    return mine.stub or mine.size * LARGER < best.size or mine.traps > 2 * best.traps + MANY


def largest(code: Code) -> int:
    """Bytes of the code that does the work, of any target."""
    return _best(code).size


def _sound(code: Code, target: str) -> bool:
    """The opposite, with room for doubt between: it stops hardly more often than the best code does."""
    return not hollow(code, target) and code[target].traps <= 2 * _best(code).traps + FEW


def _best(code: Code) -> Kernel:
    """Of what is not much smaller than the largest code, that which traps least; of equals the largest."""
    most = max(kernel.size for kernel in code.values())
    whole = [kernel for kernel in code.values() if kernel.size * LARGER >= most]
    return min(whole, key=lambda kernel: (kernel.stub, kernel.traps, -kernel.size))


def _picked(code: Code, arch: Architecture) -> str | None:
    """What the driver takes for ``arch``: machine code before PTX, the newest, the most specific first."""
    fitting = [target for target in code if _runs(target, arch)]
    return max(fitting, key=lambda name: (name.startswith("sm"), _number(name), name), default=None)


def _number(target: str) -> int:
    return int(re.sub(r"\D", "", target))


def _runs(target: str, arch: Architecture) -> bool:
    try:
        return arch.base in images(target)
    except ArchitectureError:
        return False


def _architectures(targets: Iterable[str]) -> list[Architecture]:
    """The architectures that targets are named after."""
    return [Architecture(*divmod(number, 10)) for number in sorted({_number(target) for target in targets})]
