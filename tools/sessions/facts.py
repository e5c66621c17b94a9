"""What a session has said of its machine by some event: versions of packages, and the GPU.

Only what stands in the output of a call counts: that somebody asked for a version installs none. Facts of one
host or container are not those of another.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from memory.architecture import ArchitectureError, parse_architecture
from memory.names import distribution
from memory.terms import CallKind
from tools.sessions.acts import Act, words

Place = tuple[str | None, str | None]
"""Host and container; None: where the agent itself ran."""

_LONGEST = 200
"""Characters of a distribution's name and version."""
_VERSION = r"\d[\w.+!-]*"
_INSTALLED = re.compile(r"^\s*Successfully installed (.+)$", re.MULTILINE)
_UV = re.compile(rf"^ ([+~-]) ([\w.-]+)==({_VERSION})", re.MULTILINE)
_SATISFIED = re.compile(
    rf"^Requirement already satisfied: ([\w.-]+)(?:[^\w.\s-]\S*)? .*\(({_VERSION})\)$", re.MULTILINE
)
_SHOWN = re.compile(rf"^Name: ([\w.-]+)\nVersion: ({_VERSION})$", re.MULTILINE)
_PINNED = re.compile(rf"^([A-Za-z][\w.-]*)==({_VERSION})$", re.MULTILINE)
_LISTED = re.compile(rf"^([A-Za-z][\w.-]*) +({_VERSION})(?: +\S+)?$", re.MULTILINE)
_LISTS = re.compile(r"\bpip3? (?:list|freeze|show)\b|\bfreeze\b")
_SHOWS = re.compile(r"\bpip3? show ([A-Za-z][\w.-]*)(?! +[\w-])")
_MODULE = re.compile(r"\b([A-Za-z_]\w*)\.__version__")
_CAPABILITY = re.compile(r"\((\d{1,2}), ?(\d)\)|^(\d{1,2})\.(\d)$", re.MULTILINE)


@dataclass(frozen=True)
class Fact:
    """Something that the session says, and where: an event and words of it."""

    value: str
    event: int
    excerpt: str


@dataclass
class Ledger:
    """What has been said so far, of each place. Acts are told in their order."""

    _versions: dict[Place, dict[str, list[tuple[str | None, Fact | None]]]] = field(default_factory=dict)
    _gpus: dict[Place, Fact] = field(default_factory=dict)

    def add(self, act: Act) -> None:
        output = act.output
        if not output:
            return
        places = list(dict.fromkeys(place_of(step.fields) for step in act.parsed.steps)) or [(None, None)]
        if len(places) > 1:
            return  # whose output it is cannot be told
        venv = next((step.fields["venv"] for step in act.parsed.steps if step.fields.get("venv")), None)
        for name, value, excerpt in _versions(act, output):
            fact = None if value is None else Fact(value, act.said, excerpt)
            here = self._versions.setdefault(places[0], {}).setdefault(distribution(name), [])
            here.append((venv, fact))
        found = _architecture(act, output)
        if found is not None and len(found) == 1:
            ((name, excerpt),) = found.items()
            self._gpus[places[0]] = Fact(name, act.said, excerpt)
        elif found:
            self._gpus.pop(places[0], None)  # of several kinds, none is said to be the one that was used

    def version(self, place: Place, package: str, venv: str | None = None) -> Fact | None:
        """The version in force, as it was said last; of the same virtual environment where both are named."""
        said = self._versions.get(place, {}).get(distribution(package), ())
        fitting = (fact for one, fact in reversed(said) if venv is None or one in {None, venv})
        return next(fitting, None)

    def architecture(self, place: Place) -> Fact | None:
        return self._gpus.get(place)


def place_of(fields: dict[str, Any]) -> Place:
    return fields.get("host"), fields.get("container")


def _versions(act: Act, output: str) -> Iterator[tuple[str, str | None, str]]:
    """Distribution, version (None: removed), and the words that say so."""
    if "==" in output or "uccessfully" in output or "satisfied" in output:
        for match in _INSTALLED.finditer(output):
            for item in match[1].split():
                if len(item) < _LONGEST and (named := re.fullmatch(rf"(.+?)-({_VERSION})", item)):
                    yield named[1], named[2], item
        for match in _UV.finditer(output):
            yield match[2], None if match[1] == "-" else match[3], match[0].strip()
        for match in _SATISFIED.finditer(output):
            yield match[1], match[2], match[0]
    command = act.call.command or ""
    if _LISTS.search(command):
        for pattern in (_SHOWN, _PINNED, _LISTED):
            for match in pattern.finditer(output):
                yield match[1], match[2], match[0].replace("\n", " ") if pattern is not _SHOWN else match[2]
    if (shown := _SHOWS.search(command)) and "Name:" not in output:
        for match in re.finditer(rf"^Version: ({_VERSION})$", output, re.MULTILINE):
            yield shown[1], match[1], match[0]
    for package, pattern in words()["version"]:
        if (match := pattern.search(output)) is not None:
            yield package, match[1], match[0]
    yield from _printed(command, output)


def _printed(command: str, output: str) -> Iterator[tuple[str, str | None, str]]:
    """``python -c "import a, b; print(a.__version__, b.__version__)"``: as many versions as modules."""
    modules = _MODULE.findall(command)
    if not modules:
        return
    versions = re.findall(rf"(?<![\w.])v?({_VERSION})(?![\w.])", output)
    if len(versions) == len(modules):
        for module, version in zip(modules, versions, strict=True):
            yield words()["module"].get(module, module), version, version


def _architecture(act: Act, output: str) -> dict[str, str] | None:
    """The architectures of the GPUs that a status names, each with the words that say it."""
    command = act.call.command or ""
    if act.kind is not CallKind.GPU_STATUS and words()["gpu"].search(command) is None:
        return None
    found: dict[str, str] = {}
    for match in words()["gpus"].finditer(output):
        name = match[1] if not match[2] else match[1].rpartition(" ")[0]
        try:
            found.setdefault(parse_architecture(name).base.name, match[0].strip())
        except ArchitectureError:
            continue
    if not found and words()["capability"].search(command):
        for match in _CAPABILITY.finditer(output):
            major, minor = (match[1], match[2]) if match[1] else (match[3], match[4])
            try:
                found.setdefault(parse_architecture(f"{major}.{minor}").name, match[0])
            except ArchitectureError:
                continue
    return found
