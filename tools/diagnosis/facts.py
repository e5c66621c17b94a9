"""What a log says of its own launch: engine, versions, GPU, arguments. The patterns are in ``facts.toml``.

Only what the log says counts, and the first to say it: what is printed later may be of another launch.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any, BinaryIO

from memory.architecture import ArchitectureError, parse_architecture
from memory.names import distribution
from memory.signatures import Match, Signature
from memory.terms import CallKind, Outcome
from tools.diagnosis.arguments import call_arguments, dict_arguments
from tools.logs import plain, undress
from transcripts.commands import Step, parse_command

LONGEST = 1 << 16
"""Bytes of a line, or of a command over several lines, that are read again."""
TRIED = 8
"""Lines that look like the arguments or the command of a launch which are taken apart."""
CONTINUED = 200
"""Lines of a command that goes on behind backslashes."""
_PROSE = 400
"""Characters in which a command may begin."""
_STARTS = re.compile(r"(?<![\w/.-])(?:docker|podman|(?:[\w./-]*/)?python[\d.]*|vllm|sglang)(?= )")


@dataclass(frozen=True)
class Said:
    """Something that the log says, and on which line."""

    value: str
    line: int
    words: str


@dataclass(frozen=True)
class Facts:
    """What is known of a launch. What the log does not say is None or empty."""

    engine: str | None = None
    packages: Mapping[str, Said] = field(default_factory=dict)
    """Version by distribution."""
    gpu: Said | None = None
    """The name of the product."""
    arch: Said | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """By the field of the engine's options, as the engine printed them or a command gave them."""
    argued: Said | None = None
    """Where they stand; ``value`` is ``printed`` or ``command``."""
    command: str | None = None
    """The launch, where the log holds the command."""


@cache
def _data() -> dict[str, Any]:
    return tomllib.loads((files("tools.diagnosis") / "facts.toml").read_text("utf-8"))


@cache
def patterns() -> tuple[Signature, ...]:
    """What to look for in a log beside signatures (:func:`tools.logs.read_log`)."""
    groups = {kind: _data()[kind] for kind in ("version", "gpu", "arguments", "engine")}
    groups["command"] = [_data()["command"]]
    return tuple(
        Signature(
            id=f"{kind} {number}",
            pattern=entry["pattern"],
            outcome=Outcome.NOT_RUN,
            kind=kind,
            advice="",
            sources=(),
            fatal=False,
        )
        for kind, entries in groups.items()
        for number, entry in enumerate(entries)
    )


def facts(log: BinaryIO, matches: Iterable[Match], told: Iterable[Match] = ()) -> Facts:
    """What the ``matches`` of :func:`patterns` say together. ``told``: signatures, which may name the GPU's
    architecture."""
    by_kind: dict[str, list[Match]] = {}
    for match in matches:
        by_kind.setdefault(match.signature.kind, []).append(match)
    packages: dict[str, Said] = {}
    for match in by_kind.get("version", []):
        for name, version in _version(match):
            packages.setdefault(name, Said(version, match.line, match.words.strip()))
    gpu, arch = _gpu(by_kind.get("gpu", []), told)
    engine, arguments, argued, command = _launch(log, by_kind)
    engine = engine or _engine(by_kind.get("engine", []), packages)
    return Facts(engine, packages, gpu, arch, arguments, argued, command)


def _entry(match: Match) -> dict[str, Any]:
    kind, number = match.signature.id.split()
    found: dict[str, Any] = _data()[kind][int(number)]
    return found


def _version(match: Match) -> Iterator[tuple[str, str]]:
    name = match.named.get("package") or _entry(match).get("name")
    version = match.named.get("version", "").rstrip(".")
    if name and version:
        name = distribution(name)
        yield _data()["modules"].get(name, name), version


def _engine(matches: list[Match], packages: Mapping[str, Said]) -> str | None:
    """The engine whose code or program the log names first, else the one whose version it says."""
    if matches:
        return str(_entry(matches[0])["engine"])
    known = {entry["engine"] for entry in _data()["engine"]}
    return next((name for name in packages if name in known), None)


def _gpu(matches: Iterable[Match], told: Iterable[Match]) -> tuple[Said | None, Said | None]:
    """Name and architecture. A signature's line, of what refused or crashed, is about the GPU in use."""
    gpu: Said | None = None
    arch: Said | None = None
    for match in matches:
        name = match.named.get("gpu", "").replace("_", " ").strip()
        said = name or match.named.get("arch", "")
        try:
            found = parse_architecture(said).base.name
        except ArchitectureError:
            continue
        if name:
            gpu = gpu or Said(name, match.line, match.words.strip())
        arch = arch or Said(found, match.line, match.words.strip())
    for match in told:
        if arch is None and match.arch is not None:
            arch = Said(match.arch, match.line, match.words.strip())
    return gpu, arch


def _launch(
    log: BinaryIO, by_kind: Mapping[str, list[Match]]
) -> tuple[str | None, Mapping[str, Any], Said | None, str | None]:
    """Engine, arguments, where they stand, and the command that launched it."""
    engine: str | None = None
    arguments: Mapping[str, Any] = {}
    argued: Said | None = None
    for match in by_kind.get("arguments", [])[:TRIED]:
        entry = _entry(match)
        text = _line(log, match)
        place = text.find(match.words)
        read = call_arguments if entry["form"] == "call" else dict_arguments
        found = read(text[place + len(match.words) :]) if place >= 0 else {}
        if found:
            engine, arguments = entry["engine"], found
            argued = Said("printed", match.line, match.words)
            break
    command: str | None = None
    for match in by_kind.get("command", [])[:TRIED]:
        text = _command(log, match)
        step = launch_of(text)
        if step is None:
            continue
        engine = engine or step.fields["engine"]
        command = text
        if argued is None:
            arguments = {_field(flag): value for flag, value in step.fields["flags"].items()}
            argued = Said("command", match.line, match.words.strip())
        break
    return engine, arguments, argued, command


def launch_of(command: str) -> Step | None:
    """The step of a shell command that launches an engine, whatever prose stands before it."""
    starts = list(_STARTS.finditer(command[:_PROSE]))[:TRIED]
    for text in (command, *(command[match.start() :] for match in starts)):
        found = [step for step in parse_command(text).steps if step.kind is CallKind.LAUNCH_SERVER]
        if found and found[0].fields.get("flags") is not None:
            return found[0]
    return None


def _field(flag: str) -> str:
    return flag.lstrip("-").replace("-", "_")


def _line(log: BinaryIO, match: Match) -> str:
    log.seek(match.offset)
    raw = log.readline(LONGEST)
    return plain(raw.decode("utf-8", "replace"))


def _command(log: BinaryIO, match: Match) -> str:
    """The command from the beginning of its line, with the lines that it goes on with."""
    log.seek(match.offset)
    lines: list[str] = []
    if match.words[:1] == "\n":
        log.readline(LONGEST)
    room = LONGEST
    while room > 0 and len(lines) < CONTINUED:
        raw = log.readline(room)
        room -= len(raw)
        text = undress(raw.decode("utf-8", "replace")).text
        lines.append(text.rstrip())
        if not lines[-1].endswith("\\"):
            break
    return "\n".join(lines).lstrip("$#>+ \t")
