"""``docker``, ``podman`` and ``kubectl``: commands in a container, and containers that are servers."""

from __future__ import annotations

import re

from memory.terms import CallKind
from transcripts.commands import servers
from transcripts.commands.call import Call
from transcripts.commands.effects import inert, is_refused
from transcripts.commands.model import Fields, Step
from transcripts.commands.options import Grammar, Options, parse_options
from transcripts.commands.shell import is_harmless_variable
from transcripts.commands.words import Arg

_EXEC = Grammar(
    bare=frozenset({"-i", "-t", "-d", "-T", "--interactive", "--tty", "--detach", "--privileged"}),
    values=frozenset({"-e", "-w", "-u", "--env", "--workdir", "--user", "--index"}),
    stop=True,
)
_RUN = Grammar(
    bare=frozenset(["-" + letter for letter in "ditPq"])
    | {"--detach", "--interactive", "--tty", "--rm", "--init", "--privileged", "--read-only", "--quiet"}
    | {"--no-healthcheck", "--publish-all", "--oom-kill-disable", "--replace", "--no-deps", "--build"},
    other="value",
    stop=True,
)
_PROGRAMS = re.compile(r"(?:.*/)?(?:(?:ba|z|da)?sh|python[\d.]*|\w+-smi)")
"""Commands that are no arguments of a server."""
_STOPS = {"down", "stop", "rm", "kill", "build", "run"}
_COMPOSE = Grammar(
    values=frozenset({"-f", "-p", "--file", "--project-name", "--profile", "--env-file"})
    | {"--project-directory"},
    stop=True,
)
_KUBECTL = Grammar(
    bare=frozenset({"-i", "-t", "--stdin", "--tty", "-q", "--quiet"}),
    values=frozenset({"-n", "-c", "--namespace", "--container", "--context", "--kubeconfig"})
    | {"--request-timeout"},
    stop=True,
)


def container(call: Call) -> list[Step]:
    """A docker or podman command."""
    word = str(call.args[0]) if call.args else ""
    rest = call.args[1:]
    if word == "container" and rest:
        word, rest = str(rest[0]), rest[1:]
    if word == "exec":
        return _exec(call, rest)
    if word in {"run", "create"}:
        return _run(call, rest)
    if word == "compose":
        return _compose(call, rest)
    if word == "pull" or (word == "image" and rest[:1] == ["pull"]):
        images = parse_options(rest, Grammar(values=frozenset({"--platform"}))).arguments
        image = str(images[-1]) if images else None
        return [call.step(CallKind.UPGRADE_ENVIRONMENT, {"image": image, "manager": call.name}, safe=False)]
    return inert(call)


def compose(call: Call) -> list[Step]:
    """``docker-compose`` is ``docker compose``."""
    return _compose(call, call.args)


def _exec(call: Call, args: list[Arg]) -> list[Step]:
    options = parse_options(args, _EXEC)
    if len(options.arguments) < 2:
        return call.other()
    name, *command = options.arguments
    inner = call.shell.inner(container=str(name))
    inner.cwd, inner.venv, inner.env = None, None, {}
    _environment(options, inner.env)
    inner.background |= options.has("-d", "--detach")
    call.trusted &= not options.unknown and all(is_harmless_variable(one, exported=True) for one in inner.env)
    if (folder := options.value("-w", "--workdir")) is not None:
        inner.cwd = str(folder)
    return call.again(command, inner)


def _environment(options: Options, env: dict[str, str]) -> None:
    for pair in options.values("-e", "--env"):
        name, equals, value = pair.partition("=")
        if equals:
            env[name] = value


def _run(call: Call, args: list[Arg]) -> list[Step]:
    """``docker run [OPTIONS] IMAGE [COMMAND…]``: a server where the image or the command is one."""
    options = parse_options(args, _RUN)
    call.trusted = False
    if not options.arguments:
        return call.other(changes=True)
    image, *command = options.arguments
    inner = call.shell.inner(image=str(image))
    inner.cwd, inner.venv, inner.env = None, None, {}
    _environment(options, inner.env)
    inner.background |= options.has("-d", "--detach")
    if (folder := options.value("-w", "--workdir")) is not None:
        inner.cwd = str(folder)
    entry = options.value("--entrypoint")
    if entry:
        command = [entry, *command]
    engine = servers.of_image(str(image))
    if engine is not None and (not command or (command[0].startswith("-") and not entry)):
        call.shell = inner
        return [servers.launch(call, engine, command)]
    if not command:
        return call.other(changes=True, note="docker run")
    steps = call.again(command, inner)
    if not any(step.kind is not CallKind.OTHER for step in steps):
        if engine is not None and not entry and not _PROGRAMS.fullmatch(command[0]):
            call.shell = inner
            return [servers.launch(call, engine, command)]
        return call.other(changes=True, note="docker run")
    return steps


def _compose(call: Call, args: list[Arg]) -> list[Step]:
    options = parse_options(args, _COMPOSE)
    word, *rest = options.arguments or [Arg("")]
    if word == "exec":
        return _exec(call, rest)
    if word in {"up", "start", "restart"}:
        return _started(call, rest, options.values("-f", "--file", "-p", "--project-name"))
    if word == "pull":
        return [call.step(CallKind.UPGRADE_ENVIRONMENT, {"manager": call.name}, safe=False)]
    safe = call.trusted and word in {"ps", "logs", "config", "images", "top", "ls"}
    safe &= not any(is_refused(one, ("-o", "--output", "--lock")) for one in rest)
    return call.other(safe=safe, changes=word in _STOPS, note=f"compose {word}")


def _started(call: Call, args: list[Arg], files: list[Arg]) -> list[Step]:
    """A composition is brought up: a server where the name of a service or of its file says so."""
    services = [str(name) for name in args if not name.startswith("-")]
    names = [*services, *files]
    engine = next((found for name in names if (found := servers.of_unit(name)) is not None), None)
    if engine is None:
        return call.other(changes=True, note=f"{call.name} up")
    fields: Fields = {"engine": engine, "model": None, "port": None, "flags": {}}
    if services:
        fields["container"] = services[0]
    return [call.step(CallKind.LAUNCH_SERVER, fields, safe=False)]


def kubectl(call: Call) -> list[Step]:
    """``kubectl [-n NAMESPACE] exec POD [-c CONTAINER] -- COMMAND…``."""
    before = parse_options(call.args, _KUBECTL)
    if not before.arguments or before.arguments[0] != "exec":
        return inert(call)
    options = parse_options(before.arguments[1:], _KUBECTL)
    pod, *command = options.arguments or [Arg("")]
    more = parse_options(command, _KUBECTL)
    if command and command[0].startswith("-"):
        command = more.arguments
        options.given += more.given
    options.given += before.given
    inner = call.shell.inner(
        pod=str(pod),
        namespace=options.value("-n", "--namespace"),
        container=options.value("-c", "--container") or pod.rpartition("/")[2],
    )
    inner.cwd, inner.venv, inner.env = None, None, {}
    if command[:1] == ["--"]:
        command = command[1:]
    return call.again(command, inner) if command else call.other()
