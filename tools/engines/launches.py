"""What is wrong with a launch command, by the flags that the engine declares: no backend is judged here."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from functools import partial
from typing import Any

from tools.engines.adapter import require_installed
from tools.engines.flags import ALWAYS, discover_flags, never_read
from tools.engines.options import discover_options
from tools.source.files import read_bytes, walk
from tools.source.tree import SourceTree

_GPUS = re.compile(r"""--gpus[= ]+['"\\]*(?:(device=)([\w,-]+)|([0-9]{1,6})\b)""")
_PORT = re.compile(r"(?:^|\s)(?:-p|--publish)[= ]+(?:[\d.]+:)?\d+:([0-9]{1,5})\b")
_SWITCHED = ("--no-", "-O")
"""Beginnings of flags that a parser takes in forms of its own."""
_NUMBER = re.compile(r"[-+]?(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?[kKmMgGtT]?|auto|[Nn]one|[-+]?inf")
"""What parsers take for a number, short forms of large ones too."""
_FILLED_IN = re.compile(r"[$<>{}]|\b[A-Z]$")
"""A value that stands for another one, in a script or a text."""
_LOCAL = ("127.0.0.1", "localhost")


@dataclass(frozen=True)
class Remark:
    """Something to say of a flag or variable. ``fails``: the launch does not get past it."""

    kind: str
    """``unknown``, ``value``, ``argument`` (a word that belongs to no flag), ``unused``, ``deprecated``,
    ``contradiction``, ``variable``, or ``elsewhere``: another program of the engine has the flag."""
    name: str
    text: str
    fails: bool = False
    file: str | None = None
    line: int | None = None

    def document(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Settings:
    """What a command sets: ``fields`` by the engine's own names, as far as it knows the flags."""

    fields: Mapping[str, Any]
    remarks: tuple[Remark, ...]


class Reader:
    """Reads launches of one engine as the version in ``tree`` takes them."""

    def __init__(self, tree: SourceTree, engine: str) -> None:
        self.profile = require_installed(engine, tree)
        self.options = discover_options(tree, engine)
        self._tree = tree
        self._texts = {file: read_bytes(tree, file) for file in walk(tree, self.profile.root, (".py",))}
        self.flags = discover_flags(self._texts, self.profile)

    def read(
        self,
        command: str,
        given: Mapping[str, Any],
        variables: Mapping[str, str],
        stray: Sequence[str] = (),
    ) -> Settings:
        """The settings of a launch: ``given`` are its flags as they are written, ``variables`` those of the
        environment that it sets, ``stray`` words that belong to none of its flags."""
        fields: dict[str, Any] = {}
        names: dict[str, str] = {}
        remarks = [
            Remark("argument", one, f"unexpected argument {one!r}: it belongs to no flag", fails=True)
            for one in stray
        ]
        for name, value in given.items():
            flag = self.flags.find(name)
            if name in ALWAYS:
                continue
            if flag is None:
                remarks.append(self._unknown(name))
                continue
            remark = partial(Remark, name=name, file=flag.file, line=flag.line)
            if not flag.own:
                remarks.append(remark("elsewhere", text=f"{name} is a flag of another program, {flag.file}"))
            if flag.deprecated:
                remarks.append(remark("deprecated", text=f"{name} is deprecated here"))
            if flag.field in fields and fields[flag.field] != value:
                text = f"{names[flag.field]} {fields[flag.field]} and {name} {value} set the same"
                remarks.append(remark("contradiction", text=text))
            if flag.bare and isinstance(value, str) and not name.startswith(_SWITCHED):
                text = f"unexpected argument {value!r}: {name} takes no value"
                remarks.append(remark("argument", name=value, text=text, fails=True))
                value = True
            fields[flag.field], names[flag.field] = value, name
            if flag.number and isinstance(value, str) and not _is_number(value):
                text = f"{name} takes a number, not {value[:60]!r}"
                remarks.append(remark("value", text=text, fails=True))
            remarks += self._value(name, flag.field, value)
        remarks += self._unused(names)
        remarks += self._together(command, fields, variables)
        remarks += self._variables(variables)
        return Settings(fields, tuple(remarks))

    def _unknown(self, name: str) -> Remark:
        near = self.flags.nearest(name)
        meant = f"; nearest: {', '.join(near)}" if near else ""
        return Remark("unknown", name, f"{self.profile.name} does not know {name} here{meant}", fails=True)

    def _value(self, name: str, field: str, value: Any) -> Iterator[Remark]:
        """Whether an option with a closed set of values takes this one."""
        option = next((one for one in self.options if one.field == field), None)
        known = [one.value for one in option.values] if option is not None else []
        for one in (value if isinstance(value, list) else [value]) if option is not None else ():
            if not isinstance(one, str) or one in known or one.lower() in map(str.lower, known):
                continue
            near = get_close_matches(one, known, 2, 0.6)
            meant = f"; nearest: {', '.join(near)}" if near else ""
            text = f"{name} does not accept {one!r} here{meant}; it accepts {', '.join(known)}"
            assert option is not None
            if option.open_set:
                text += ", and what is added at run time"
            at = option.evidence
            yield Remark("value", name, text, not option.open_set, at.file, at.line)

    def _unused(self, names: Mapping[str, str]) -> Iterator[Remark]:
        """Flags that are accepted and never consulted. ``names``: by field, as they are written."""
        flags = {field: self.flags.find(name) for field, name in names.items()}
        own = [field for field, flag in flags.items() if flag is not None and flag.own]
        unread = never_read(self._texts, own)
        for field in (one for one in own if one in unread):
            flag, name = flags[field], names[field]
            assert flag is not None
            text = f"{name} is accepted and never consulted: nothing reads {field}"
            yield Remark("unused", name, text, False, flag.file, flag.line)

    def _together(
        self, command: str, fields: Mapping[str, Any], variables: Mapping[str, str]
    ) -> Iterator[Remark]:
        """What does not go together, of GPUs, ranks and ports."""
        launch = self.profile.launch
        ranks = _number(self._set(fields, launch.tensor_parallel)) or 1
        seen = _gpus(command, variables)
        nodes = _number(fields.get("nnodes")) or 1
        if seen is not None and ranks > seen[1] * nodes:
            flag = launch.tensor_parallel
            text = f"{flag} {ranks} asks for more GPUs than {seen[0]} lets it see ({seen[1]})"
            yield Remark("contradiction", flag, text, fails=True)
        published = [int(port) for port in _PORT.findall(command)]
        port = _number(self._set(fields, launch.port))
        if published and port is not None and port not in published:
            told = ", ".join(map(str, published))
            text = f"the container publishes port {told}, the server listens on {port}"
            yield Remark("contradiction", launch.port, text)
        if published and (host := self._set(fields, launch.host)) in _LOCAL:
            text = f"on {host} within the container nobody outside reaches the port that is published"
            yield Remark("contradiction", launch.host, text)

    def _set(self, fields: Mapping[str, Any], name: str) -> Any:
        flag = self.flags.find(name)
        return fields.get(flag.field) if flag is not None else None

    def known_variables(self, variables: Mapping[str, str]) -> list[str]:
        """Those of the variables that anything in the tree names."""
        left = set(variables)
        for file in walk(self._tree, "", (".py",)) if left else ():
            data = self._texts.get(file) or read_bytes(self._tree, file)
            left -= {name for name in left if re.search(rb"\b%s\b" % re.escape(name.encode()), data)}
            if not left:
                break
        return [name for name in variables if name not in left]

    def _variables(self, variables: Mapping[str, str]) -> Iterator[Remark]:
        """Variables that bear the name of a package at hand, and that nothing there names."""
        roots = {name.partition("_")[0].upper() for name in self._tree.owners} | {self.profile.name.upper()}
        asked = {name: value for name, value in variables.items() if name.partition("_")[0] in roots}
        missing = set(asked) - set(self.known_variables(asked))
        if not missing:
            return
        pattern = re.compile(rb"\b(?:%s)_[A-Z0-9_]+\b" % b"|".join(sorted(root.encode() for root in roots)))
        every = {name.decode() for data in self._texts.values() for name in pattern.findall(data)}
        for name in sorted(missing):
            near = get_close_matches(name, sorted(every), 2, 0.8)
            meant = f"; nearest: {', '.join(near)}" if near else ""
            yield Remark("variable", name, f"nothing here reads the variable {name}{meant}")


def _is_number(value: str) -> bool:
    return bool(_NUMBER.fullmatch(value.strip()) or _FILLED_IN.search(value))


def _number(value: Any) -> int | None:
    return int(value) if isinstance(value, str) and re.fullmatch(r"[0-9]{1,8}", value) else None


def _gpus(command: str, variables: Mapping[str, str]) -> tuple[str, int] | None:
    """What says how many GPUs are seen, and how many."""
    if (listed := variables.get("CUDA_VISIBLE_DEVICES")) is not None:
        return "CUDA_VISIBLE_DEVICES", len([one for one in listed.split(",") if one.strip()])
    if match := _GPUS.search(command):
        return "--gpus", len(match[2].split(",")) if match[1] else int(match[3])
    return None
