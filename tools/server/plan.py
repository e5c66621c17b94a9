"""From typed settings to a command that the installed version accepts, or the reason why there is none."""

from __future__ import annotations

import os
import re
import shlex
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from memory.home import Home
from tools.engines.launches import Reader
from tools.engines.options import Option, backend_options
from tools.environment.caches import cache_variables
from tools.environment.child import allowed_environment
from tools.environment.full import interpreter
from tools.environment.model import Environment
from tools.errors import ToolError
from tools.server.profile import ServerProfile, denied, server_profile
from tools.server.settings import ServerSettings

NAME = "assay"
"""What a server calls the model that it serves."""
TYPED = {
    "model": "--model",
    "tensor_parallel": "--tp",
    "dtype": "--dtype",
    "quantisation": "--quantisation",
    "context_length": "--context-length",
    "memory_fraction": "--memory-fraction",
    "load_format": "--load-format",
    "device": "--cpu or nothing",
}
"""Settings that have a name of their own here, as a person gives them."""
_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL|AUTH", re.IGNORECASE)
_DRIVER = ("NVIDIA_", "LD_LIBRARY_PATH", "CPATH")


@dataclass(frozen=True)
class Plan:
    """A launch that has not happened yet. ``arguments`` follow the interpreter; host, port and key are put
    after them anew for every start. ``asked``: backend by component, ``fields``: the engine's own name of the
    option by component. ``remarks``: what the source says of
    flags that start-up accepts all the same."""

    settings: ServerSettings
    environment: Environment
    profile: ServerProfile
    python: Path
    arguments: tuple[str, ...]
    variables: Mapping[str, str]
    flags: Mapping[str, str | None]
    asked: Mapping[str, str]
    fields: Mapping[str, str]
    remarks: tuple[str, ...] = ()

    @property
    def versions(self) -> dict[str, str]:
        return dict(self.environment.packages)

    def command(self, port: int | str, key: str | None) -> list[str]:
        """``key``: None for a server that asks for none. Not in the command where a variable takes it."""
        last = [str(self.flags["host"]), "127.0.0.1", str(self.flags["port"]), str(port)]
        if key is not None and self.flags["key"] and not self.profile.key_variable:
            last += [str(self.flags["key"]), key]
        return [str(self.python), "-P", *self.arguments, *last]

    def script(self) -> str:
        """The command as a shell script, with a port and without a key of its own."""
        own = {name: self.variables[name] for name in sorted(self.variables) if name not in _everybodys()}
        exports = [f'export PATH={shlex.quote(str(self.python.parent))}:"$PATH"']
        exports += [f"export {name}={shlex.quote(value)}" for name, value in own.items()]
        command = shlex.join(self.command("PORT", None)).replace(" PORT", ' "${PORT:-30000}"')
        return "\n".join(["#!/bin/sh", "set -eu", *exports, f"exec {command}", ""])


def plan_launch(
    home: Home,
    environment: Environment,
    settings: ServerSettings,
    *,
    extra: Sequence[str] = (),
    driver: bool = True,
    python: Path | None = None,
    site: Path | None = None,
    source: Mapping[str, str] = os.environ,
    pass_env: Sequence[str] = (),
) -> Plan:
    """The launch of ``settings`` in ``environment``.

    ``driver``: whether a program asks for it, which may not set what is denied to it. ``extra``: arguments
    as the person typed them. ``python``: the interpreter, where the environment is a folder of others, and
    ``site``: packages that it does not find by itself. ``pass_env``: variables that the server gets beside
    the allowed ones. Raises :class:`ToolError` for what this version does not accept.
    """
    profile = server_profile(settings.engine)
    reader = Reader(environment.tree(), settings.engine)
    flags = {name: _first(reader, named) for name, named in profile.flags.items()}
    given = dict(_common(settings, flags, reader, environment))
    asked = _backends(settings, reader)
    for component, backend in asked.items():
        _add(given, _option(reader, component), backend)
    apart = _settings_apart(reader, flags)
    for name, value in settings.options.items():
        _add(given, _checked(reader, name, value, apart, driver=driver), value)
    typed = _typed(extra, reader, apart)
    read = reader.read("", {**_as_typed(given), **typed}, {})
    if bad := [remark.text for remark in read.remarks if remark.fails]:
        raise ToolError(f"{'; '.join(bad)} ({settings.engine} {_version(environment, reader)})")
    if masking := [name for name in profile.masking_fields if read.fields.get(name) not in (None, False)]:
        raise ToolError(f"{masking[0]} turns not-a-number into an answer; nothing could be trusted under it")
    if missing := [name for name in ("host", "port") if flags[name] is None]:
        raise ToolError(f"{settings.engine} has no {profile.flags[missing[0]][0]} here; is its source whole?")
    python = python or _interpreter(environment)
    positional = [] if flags["model"] else [settings.model]
    arguments = [*profile.module, *positional, *_words(given), *extra]
    return Plan(
        settings=settings,
        environment=environment,
        profile=profile,
        python=python,
        arguments=tuple(arguments),
        variables=_variables(home, environment, settings, profile, python, site, source, pass_env),
        flags=flags,
        asked=asked,
        fields={option.component: option.field for option in backend_options(reader.options)},
        remarks=tuple(remark.text for remark in read.remarks),
    )


def _version(environment: Environment, reader: Reader) -> str:
    owned = environment.packages.get(reader.profile.distribution)
    built = (v for name, v in environment.packages.items() if name.startswith(f"{reader.profile.name}-"))
    return owned or next(built, "?")


def _first(reader: Reader, named: Sequence[str]) -> str | None:
    return next((flag for flag in named if flag in reader.flags.by_name), None)


def _common(
    settings: ServerSettings, flags: Mapping[str, str | None], reader: Reader, environment: Environment
) -> Iterator[tuple[str, object]]:
    """Flags of the settings that every engine has. Raises :class:`ToolError` for one that this has not."""
    wanted: dict[str, object] = {"model": settings.model, "served_name": NAME}
    if settings.tensor_parallel > 1:
        wanted["tensor_parallel"] = settings.tensor_parallel
    for name in ("dtype", "quantisation", "context_length", "memory_fraction", "load_format"):
        if (value := getattr(settings, name)) is not None:
            wanted[name] = value
    if settings.device == "cpu":
        wanted["device"] = "cpu"
    for name, value in wanted.items():
        if (flag := flags.get(name)) is not None:
            yield flag, value
        elif name not in ("model", "device"):
            raise ToolError(
                f"{settings.engine} {_version(environment, reader)} has no flag for {name.replace('_', ' ')}"
            )


def _backends(settings: ServerSettings, reader: Reader) -> dict[str, str]:
    there = {option.component: option for option in backend_options(reader.options)}
    for component in settings.backends:
        if component not in there:
            raise ToolError(
                f"{settings.engine} has no option for {component!r} here; it has {', '.join(sorted(there))}"
            )
    return dict(settings.backends)


def _option(reader: Reader, component: str) -> str:
    option: Option = next(one for one in backend_options(reader.options) if one.component == component)
    if option.flag is None:
        raise ToolError(f"{component} has no flag in this version; it is set by {option.field} in a program")
    return option.flag


def _settings_apart(reader: Reader, flags: Mapping[str, str | None]) -> dict[str, str]:
    """Fields of the engine that settings of their own decide → what a person types for these."""
    found = ((reader.flags.find(flag), name) for name, flag in flags.items() if flag and name in TYPED)
    return {flag.field: TYPED[name] for flag, name in found if flag is not None}


def _checked(reader: Reader, name: str, value: object, apart: Mapping[str, str], *, driver: bool) -> str:
    """The flag of a further option, if it may be set. Raises :class:`ToolError`."""
    given = "--" + name.lstrip("-").replace("_", "-")
    flag = reader.flags.find(given)
    if flag is None or not flag.own:
        near = ", ".join(reader.flags.nearest(given)) or "none is near"
        raise ToolError(f"{reader.profile.name} does not know {given} here; nearest: {near}")
    field = flag.field.lower()
    rules = denied()
    if field in rules.reserved:
        raise ToolError(f"{given} is set by the launch itself: 127.0.0.1, a free port and a key of its own")
    if flag.field in apart:
        raise ToolError(f"{given} is a setting of its own; give {apart[flag.field]} instead")
    words = set(re.split(r"[_\W]+", field))
    if driver and field not in rules.allowed and words & rules.words:
        raise ToolError(
            f"{given} is for a person: it may run code, open a port or read files; type it after -- "
            "with agent serve"
        )
    if driver and isinstance(value, str) and not rules.value.fullmatch(value):
        raise ToolError(f"{given} {value[:80]!r} is neither a number nor one word; a person may give it")
    if flag.bare != isinstance(value, bool) and not (flag.bare is False and isinstance(value, bool)):
        raise ToolError(f"{given} takes no value here; expected true or false")
    # The name as it is written there, so that no other flag of which it is the beginning is meant one day.
    return given if given in reader.flags.by_name else flag.names[0]


def _add(given: dict[str, object], flag: str, value: object) -> None:
    if given.setdefault(flag, value) != value:
        raise ToolError(f"{flag} is asked for as {given[flag]} and as {value}; give one")


def _as_typed(given: Mapping[str, object]) -> dict[str, object]:
    named = {flag: value for flag, value in given.items() if value is not False}
    return {flag: None if value is True else str(value) for flag, value in named.items()}


def _words(given: Mapping[str, object]) -> Iterator[str]:
    for flag, value in given.items():
        if value is True:
            yield flag
        elif value is not False:
            # In one word, so that a value never is taken for a flag.
            yield from (f"{flag}={value}",) if str(value).startswith("-") else (flag, str(value))


def _typed(extra: Sequence[str], reader: Reader, apart: Mapping[str, str]) -> dict[str, object]:
    """Flags among words that a person typed. Raises :class:`ToolError` for what the launch sets itself."""
    found: dict[str, object] = {}
    for place, word in enumerate(extra):
        if not word.startswith("-") or re.fullmatch(r"-\d+(\.\d+)?", word):
            continue
        name, equals, value = word.partition("=")
        after = extra[place + 1] if place + 1 < len(extra) else "-"
        found[name] = value if equals else None if after.startswith("-") else after
        flag = reader.flags.find(name)
        if flag is not None and flag.field in denied().reserved:
            raise ToolError(
                f"{name} is set by the launch itself: 127.0.0.1, a free port and a key of its own; "
                "write the command to a file with --script to run it otherwise"
            )
        if flag is not None and flag.field in apart:
            raise ToolError(f"{name} is a setting of its own; give {apart[flag.field]} before the --")
    return found


def _interpreter(environment: Environment) -> Path:
    python = interpreter(environment)
    if python is None:
        raise ToolError(
            f"{environment.name} is only read; servers need a full environment: agent environment create "
            "--full, or a person names its interpreter: --python PATH",
            missing=True,
        )
    return python


def _everybodys() -> frozenset[str]:
    return frozenset(allowed_environment(os.environ)) | {"PATH"}


def _prefixes() -> tuple[str, ...]:
    data = tomllib.loads((files("tools.environment") / "data" / "variables.toml").read_text("utf-8"))
    return (*data["prefixes"], *_DRIVER)


def _variables(
    home: Home,
    environment: Environment,
    settings: ServerSettings,
    profile: ServerProfile,
    python: Path,
    site: Path | None,
    source: Mapping[str, str],
    pass_env: Sequence[str],
) -> dict[str, str]:
    """What the server's process sees: the common variables, those that engines heed (but no secrets), the
    environment's own caches."""
    prefixes = _prefixes()
    seen = allowed_environment(source, lambda name: name.startswith(prefixes) and not _SECRET.search(name))
    if missing := [name for name in pass_env if name not in source]:
        raise ToolError(f"--pass-env {missing[0]}: there is no such variable")
    seen |= {name: source[name] for name in pass_env}
    for name in profile.masking_variables:
        if seen.get(name, "").lower() not in ("", "0", "false"):
            raise ToolError(f"unset {name}: it turns not-a-number into an answer")
    seen |= cache_variables(home, environment) | dict(profile.variables)
    if settings.device == "cpu":
        # What a person has set for this machine stands.
        seen = dict(profile.cpu_variables) | seen
    # Compilers and build tools that packages bring lie beside the interpreter.
    seen["PATH"] = f"{python.parent}{os.pathsep}{seen.get('PATH', os.defpath)}"
    if Path(settings.model).is_dir():
        seen["HF_HUB_OFFLINE"] = "1"
    if site is not None:
        seen["PYTHONPATH"] = str(site)
    return seen
