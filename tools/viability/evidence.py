"""Lines as evidence: the deciding one first, and the hops that lead to it."""

from __future__ import annotations

from memory.vocabulary import Evidence, FirstGate, Verdict
from tools.source.tree import SourceTree
from tools.viability.cell import Cell, RunCell
from tools.viability.interpreter.records import RaiseRecord
from tools.viability.interpreter.values import Kind, Site
from tools.viability.runs import Run


def first_gate(cell: Cell, run: Run, again: RunCell) -> FirstGate | None:
    """The engine's own first test of the device that refuses somebody: here, or on a contrasting one."""
    root = run.machine.facts.root + "/"
    for gate in run.machine.gates:
        if not gate.site.file.startswith(root) or Kind.ARCH not in gate.taint.kinds:
            continue
        if gate.passed and not any(_fails(again(cell.backend, arch), gate.site) for arch in GATE_CONTRASTS):
            continue
        verdict = Verdict.NO_STATIC_OBSTACLE if gate.passed else Verdict.BLOCKED
        return FirstGate(verdict=verdict, file=gate.site.file, line=gate.site.line)
    return None


GATE_CONTRASTS = ((8, 0), (10, 0))


def _fails(run: Run, site: Site) -> bool:
    return any(gate.site == site and not gate.passed for gate in run.machine.gates)


def story(
    refusal: RaiseRecord, tree: SourceTree, *, tested: bool = True
) -> tuple[tuple[Evidence, ...], list[tuple[Site, str]]]:
    """Evidence, the deciding line first, and the hops from the layer to the refusal.

    ``tested``: a list that the guard tests against decides, where there is one; else the guard itself.
    """
    sites = refusal.guard.sites
    deciding = [s for s in sites if s.role == "decides"] or [s for s in sites if s.role == "declared"]
    if not tested:
        deciding = []
    guard = [s for s in sites if s.role == "guard"][-1:]
    ordered = [*deciding[-1:], *guard, refusal.site]
    evidence: list[Evidence] = []
    for site in ordered:
        item = evidence_at(tree, site, "refusal" if site is refusal.site else site.role)
        if not any((item.file, item.line) == (have.file, have.line) for have in evidence):
            evidence.append(item)
    hops = [(site, "calls") for site in refusal.stack]
    hops += [
        (site, {"decides": "the list it is tested against"}.get(site.role, site.role)) for site in ordered
    ]
    for site in refusal.stack:
        if len(evidence) < 6 and site.file != refusal.site.file:
            item = evidence_at(tree, site, "call")
            if not any((item.file, item.line) == (have.file, have.line) for have in evidence):
                evidence.append(item)
    return tuple(evidence), hops


def evidence_at(tree: SourceTree, site: Site, idiom: str) -> Evidence:
    end = min(max(site.end_line, site.line), site.line + 11, len(tree.lines(site.file)))
    return tree.evidence(site.file, site.line, end, idiom=idiom)
