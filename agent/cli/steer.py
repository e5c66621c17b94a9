"""``agent steer``: what a person asks of an investigation that runs in another terminal."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import click

from agent.cli.common import CommandError, emit, json_option, say, the_home
from agent.text import safe
from memory.names import few

FINISHED = ("answered", "none_viable")
"""Ends that there is nothing to go on from."""
SHORTEST = 4
"""Characters that a beginning of a hypothesis' id must have."""


@click.command()
@click.argument("transcript")
@click.argument("asks", type=click.Choice(["skip", "prefer", "stop"]), metavar="skip|prefer|stop")
@click.argument("what", required=False, metavar="[COMPONENT[/BACKEND]|HYPOTHESIS]")
@json_option
def steer(transcript: str, asks: str, what: str | None, as_json: bool) -> int:
    """Ask something of investigation TRANSCRIPT (an id or its beginning) while it runs, whoever decides.

    skip: nothing more is tested of a component, or of one backend. prefer: it is tested before others, and
    skipped no more. stop: nothing more is done after the step that is going on; agent resume goes on. It is
    heeded before the next step, and is on record as an event of the transcript.

    \b
    Examples:
      agent steer 20260307-3f skip attention
      agent steer 20260307-3f prefer moe_runner/flashinfer_cutlass
      agent steer 20260307-3f stop
    """
    from agent.cli.transcripts import find_transcript
    from memory.clock import Ids
    from transcripts.events import Steered
    from transcripts.inbox import leave
    from transcripts.reader import ending

    home = the_home()
    path = find_transcript(home, transcript, last=False)
    if path.parent.resolve() != home.transcripts.resolve():
        raise CommandError(f"{path} is not in {home.transcripts}, where investigations run")
    ended = ending(path)
    if ended in FINISHED:
        raise CommandError(f"{path.stem} came to its end already ({ended}); see: agent report {path.stem}")
    if ended is not None and asks == "stop":
        raise CommandError(f"{path.stem} has stopped already ({ended}); go on with: agent resume {path.stem}")
    component, backend = _about(path, asks, what)
    message = Steered.model_validate(
        {"message": Ids().hexadecimal(16), "asks": asks, "component": component, "backend": backend}
    )
    try:
        leave(path, message)
    except OSError as error:
        raise CommandError(f"cannot leave a message beside {path}: {error.strerror or error}", 4) from error
    when = "before its next step" if ended is None else f"by: agent resume {path.stem}"
    if as_json:
        emit({"transcript": path.stem, "ended": ended, **message.model_dump(mode="json", exclude={"kind"})})
    else:
        about = "/".join(filter(None, (component, backend)))
        say([safe(f"left for {path.stem}: {asks} {about}".rstrip() + f"; it is heeded {when}")])
    return 0


def _about(path: Path, asks: str, what: str | None) -> tuple[str | None, str | None]:
    """Component and backend that are meant. Raises :class:`CommandError` for what there is not."""
    if asks == "stop":
        if what is not None:
            raise CommandError(f"stop is of the whole investigation; {what!r} says more: skip {what}")
        return None, None
    if what is None or not what.strip():
        raise CommandError(f"{asks} what? give COMPONENT, COMPONENT/BACKEND, or the id of a hypothesis")
    known = list(_hypotheses(path))
    component, slash, backend = what.strip().partition("/")
    if not known:
        if not component or (slash and not backend) or len(what) > 200 or not what.isprintable():
            raise CommandError(f"{what[:80]!r} is no COMPONENT[/BACKEND], e.g. moe_runner/triton")
        return component, backend or None
    cells = {f"{one['component']}/{one['backend']}": one for one in known}
    components = list(dict.fromkeys(one["component"] for one in known))
    if what in cells:
        return component, backend
    if not slash and component in components:
        return component, None
    named = [one for one in known if len(what) >= SHORTEST and str(one["id"]).startswith(what)]
    if len(named) > 1:
        raise CommandError(f"{what!r} fits several hypotheses: {few([str(one['id']) for one in named])}")
    if named:
        return str(named[0]["component"]), str(named[0]["backend"])
    meant = [name for name, one in cells.items() if one["backend"] == what] if not slash else []
    if len(meant) == 1:
        raise CommandError(f"{what!r} is a backend; say of which component: {meant[0]}")
    if meant:
        raise CommandError(f"{what!r} is a backend of several components: {few(meant)}; name one")
    near = get_close_matches(what, [*cells, *components], 2, 0.6)
    there = f"did you mean {' or '.join(near)}?" if near else f"it has {few(components)}"
    raise CommandError(f"{path.stem} has no {what[:80]!r}; {there}")


def _hypotheses(path: Path) -> Iterator[dict[str, Any]]:
    """Those that were opened, each once."""
    from transcripts.reader import read_raw

    seen = set()
    for event in read_raw(path):
        data = event.get("data")
        if isinstance(data, dict) and data.get("kind") == "hypothesis" and data.get("id") not in seen:
            seen.add(data["id"])
            yield data
