"""What others saw of a cell, beside what its source says: public cases, and what was recorded in this home.

Accounts inform and decide nothing. One that says otherwise than the gates, of these versions and under this
scheme, is a conflict, which is shown and left to the reader. No pydantic here once the pack was read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import memory
from agent.layout import Line
from agent.text import shorten, squeeze
from agent.words import quantisation_named, quantisations_in
from memory.canonical import sha256_of
from memory.names import distribution
from memory.program import program_version
from memory.terms import Level, Outcome, Verdict
from memory.views import Views
from tools.viability.cache import TraceCache

PACK = Path(memory.__file__).parent / "data" / "reports.jsonl"
"""The public cases that come with the program."""

FAILED = {
    Outcome.UNSUPPORTED,
    Outcome.IMPORT_FAILED,
    Outcome.COMPILE_FAILED,
    Outcome.START_FAILED,
    Outcome.CRASHED,
    Outcome.HUNG,
    Outcome.NAN,
    Outcome.WRONG,
    Outcome.STRESS_FAILED,
}
"""Outcomes that speak against a backend. What memory, time or the machine did says nothing of it."""

Said = dict[str, Any]
"""One account: ``outcome``, ``level``, ``engine``, ``versions``, ``fit`` (one of :data:`FITS`), ``differs``,
``model``, ``quantisation``, ``gpu``, ``by``, ``date``, ``url``, ``note``, ``finding`` (null: of the pack)."""


def reported(
    views: Views,
    cache: TraceCache,
    traces: Sequence[Any],
    engine: str,
    packages: Mapping[str, str],
    models: Sequence[str] = (),
) -> list[tuple[Said, ...]]:
    """Of each trace what is told of its cell, what differs first, then what is of these versions.

    ``packages``: name → version, of the environment that was read; ``models``: names of the model that was
    asked about, and of its classes. Raises ``StoreError``.
    """
    told: dict[tuple[str, str, str], list[tuple[str | None, Any]]] = {}
    seen: set[str] = set()
    for finding, claim in (*_of_pack(cache), *_of_home(views, traces)):
        key = json.dumps({**claim, "event_evidence": ()}, sort_keys=True)
        if _about(claim["engine"], engine, packages) and key not in seen:
            seen.add(key)
            told.setdefault(_cell(claim), []).append((finding, claim))
    return [
        tuple(
            sorted(
                (
                    _said(finding, claim, one, packages, models)
                    for finding, claim in told.get(_cell(one.row), ())
                ),
                key=lambda said: (not said["differs"], FITS.index(said["fit"])),
            )
        )
        for one in traces
    ]


FITS = ("these", "unsaid", "others")
"""Whose versions an account is of: what is here; it does not say; others."""


def _cell(one: Mapping[str, Any]) -> tuple[str, str, str]:
    return one["component"], re.sub(r"[-_ ]", "", one["backend"]).lower(), one["arch"]


def _about(named: str, engine: str, packages: Mapping[str, str]) -> bool:
    """Whether an account of ``named`` is one of the engine, or of a library that it has here."""
    name = distribution(named)
    return named == engine or any(
        distribution(one) == name or distribution(one).startswith(f"{name}-") for one in packages
    )


def _of_pack(cache: TraceCache) -> Iterable[tuple[None, Any]]:
    """The claims that the pack makes; as they were read before, where that was by this program."""
    text = PACK.read_text(encoding="utf-8")
    key = sha256_of(["pack", program_version("memory", "tools"), text])
    if (kept := cache.get(key)) is None:
        from tools.findings.accounts import read_claims

        kept = json.dumps([claim.model_dump(mode="json") for claim in read_claims(text)])
        cache.put(key, kept)
    return [(None, claim) for claim in json.loads(kept)]


def _of_home(views: Views, traces: Sequence[Any]) -> Iterable[tuple[str, Any]]:
    """What was recorded here and is more than reading, or another's account."""
    components, archs = ({one.row[name] for one in traces} for name in ("component", "arch"))
    rows = views.findings(
        disputed=True,
        component=components.pop() if len(components) == 1 else None,
        arch=archs.pop() if len(archs) == 1 else None,
    )
    return [(row["id"], json.loads(row["claim"])) for row in rows if row["level"] != Level.STATIC]


def _said(
    finding: str | None, claim: Any, trace: Any, packages: Mapping[str, str], models: Sequence[str]
) -> Said:
    scope, report = claim.get("scope") or {}, claim.get("report") or {}
    versions = {**claim["packages"], **scope.get("ranges", {})}
    fit = _fit(versions, packages)
    return {
        "outcome": claim["outcome"],
        "level": claim["level"],
        "engine": claim["engine"],
        "versions": versions,
        "fit": fit,
        "differs": fit != "others"
        and _same_scheme(scope.get("quantisation"), trace.scenario)
        and _differs(trace.row.verdict, claim["outcome"])
        and _same_family(scope.get("model"), models),
        **{name: scope.get(name) for name in ("model", "quantisation", "gpu")},
        **{name: report.get(name) for name in ("by", "date", "url", "note")},
        "finding": finding,
    }


def _fit(said: Mapping[str, str], packages: Mapping[str, str]) -> str:
    """Whether an account is of the versions that are here; of what is not here it says nothing."""
    here = {distribution(name): version for name, version in packages.items()}
    both = [(text, here[distribution(name)]) for name, text in said.items() if distribution(name) in here]
    if not both:
        return "unsaid"
    return "these" if all(text == version or _within(version, text) for text, version in both) else "others"


def _within(version: str, text: str) -> bool:
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    try:
        return SpecifierSet(text if re.match(r"\s*[<>=!~]", text) else f"=={text}").contains(
            version, prereleases=True
        )
    except (InvalidSpecifier, ValueError):
        return False


def _same_scheme(said: str | None, scenario: Mapping[str, str]) -> bool:
    """Whether what is said may be of the scheme that was judged; where one of both is open, it may."""
    here = next((one for key in SCHEME if (one := quantisation_named(scenario.get(key, "")))), None)
    there = quantisations_in(said or "")
    return here is None or not there or here in there


def _same_family(said: str | None, models: Sequence[str]) -> bool:
    """Whether what is said of some models may be of the one that was asked about; if none was, it may."""
    if not said or not models:
        return True
    from tools.engines.models import may_be_one

    return any(may_be_one(one, named) for one in re.split(r"\s+/\s+|,\s*", said) for named in models)


SCHEME = ("quantisation", "quantization")


def _differs(verdict: str, outcome: str | None) -> bool:
    if verdict == Verdict.NO_STATIC_OBSTACLE:
        return outcome in FAILED or outcome == Outcome.SUBSTITUTED
    return verdict == Verdict.BLOCKED and outcome == Outcome.OK


SHOWN = 6
"""Accounts of one cell that are drawn; all are in the JSON."""

_BY = {"maintainer": "a maintainer says so", "release": "fixed in a release", "person": "recorded here"}
_FIT = {"unsaid": "no version said", "others": "other versions"}


def report_lines(told: Sequence[Said]) -> list[Line]:
    """The accounts of one cell, those that differ marked."""
    lines: list[Line] = [[("", "")], [("what was seen of it (it decides nothing here):", "bold")]]
    for one in told[:SHOWN]:
        mark = "differs: " if one["differs"] else ""
        packages = " ".join(f"{name} {version}" for name, version in one["versions"].items())
        about = [packages, _FIT.get(one["fit"]), one["quantisation"], one["model"], one["gpu"], one["date"]]
        about += [one["level"], _BY.get(one["by"])]
        lines.append([("  ", ""), (mark, "yellow"), (str(one["outcome"]).replace("_", " "), "bold")])
        lines[-1].append((f" ({squeeze(', '.join(part for part in about if part))})", ""))
        if one["note"]:
            lines.append([(f"    {shorten(squeeze(one['note']), 200)}", "dim")])
        place = one["url"] or (one["finding"] and f"agent findings show {one['finding'][:12]}")
        if place:
            lines.append([(f"    {squeeze(place)}", "")])
    if len(told) > SHOWN:
        lines.append([(f"  {len(told) - SHOWN} more with --json", "dim")])
    return lines if told else []
