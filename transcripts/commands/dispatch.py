"""Which handler a program has."""

from __future__ import annotations

from collections.abc import Callable

from transcripts.commands import (
    benchmarks,
    containers,
    effects,
    git,
    gpus,
    installs,
    lists,
    python,
    reads,
    searches,
    servers,
    wrappers,
)
from transcripts.commands.call import Call
from transcripts.commands.model import Step

Handler = Callable[[Call], list[Step]]

DECLARATIONS = {"export", "declare", "typeset", "local", "readonly", "unset"}

FAMILIES: dict[str, Handler] = {
    "read": reads.read,
    "search": searches.search,
    "list": lists.list_,
    "filter": effects.filter_,
    "inert": effects.inert,
    "change": effects.change,
    "plumbing": effects.plumbing,
    "wrapper": wrappers.wrapper,
    "shell": wrappers.shell,
    "ssh": wrappers.ssh,
    "tmux": wrappers.tmux,
    "screen": wrappers.screen,
    "eval": wrappers.evaluate,
    "xargs": lists.xargs,
    "tee": effects.tee,
    "git": git.git,
    "python": python.python,
    "container": containers.container,
    "compose": containers.compose,
    "kubectl": containers.kubectl,
    "systemctl": servers.systemctl,
    "install": installs.install,
    "runner": installs.runner,
    "gpu": gpus.gpu,
}


def handle(call: Call) -> list[Step]:
    """The steps of a call: a server, a benchmark, or what the program's family makes of it."""
    made = servers.server(call) or benchmarks.benchmark(call)
    if made:
        return made
    if call.program is None:
        return effects.unknown(call)
    return FAMILIES[call.program.family](call)
