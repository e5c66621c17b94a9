"""``agent serve``: a server of an engine, launched, waited for, looked after and ended."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agent.cli.common import CommandError, emit, json_option, progress, say, the_home
from agent.cli.given import to_write
from agent.cli.lazy import Branching
from agent.cli.serve_check import check_options, checked, checking
from agent.cli.server_options import audited, fit_of, planned, server_options
from agent.text import safe

if TYPE_CHECKING:
    from memory.home import Home
    from tools.server import Plan, Server
    from tools.server.fit import Fit

GIB = 1 << 30
FITS = {True: "fits", False: "does not fit", None: "not known"}


class Serve(Branching):
    branches = {  # noqa: RUF012
        "list": "agent.cli.serve_kept:list_",
        "stop": "agent.cli.serve_kept:stop",
    }


@click.command(cls=Serve, context_settings={"ignore_unknown_options": False})
@server_options
@click.option("--dry-run", is_flag=True, help="Print the command and whether it fits; launch nothing.")
@click.option(
    "--script", type=click.Path(path_type=Path), metavar="FILE", help="Write the command as a script."
)
@click.option("--keep", is_flag=True, help="Go on in the background; agent serve stop ends it.")
@check_options
@json_option
@click.argument("extra", nargs=-1, metavar="[-- ENGINE ARGUMENTS]")
def serve(**given: Any) -> int:
    """Launch a server on this machine, say what it really runs, and end all of it on Ctrl-C.

    It listens on 127.0.0.1 with a port and a key of its own. What runs code, opens a port or reads files is
    typed after --, in the engine's own words.

    \b
    Examples:
      agent serve -e work --model /models/qwen3 --attention triton --moe-runner flashinfer_cutlass --dry-run
      agent serve -e work --model /models/qwen3 --tp 4 --keep
      agent serve -e work --model /models/qwen3 --layers 4 --json
    """
    home = the_home()
    keep, as_json = given.pop("keep"), given.pop("as_json")
    asked = checking(given)
    script, dry = given.pop("script"), given.pop("dry_run")
    to_write("--script", script)
    plan = planned(home, given)
    if script is not None:
        _write(script, plan.script())
        progress(f"wrote {script}; it asks for no key and listens on port 30000, or $PORT")
    if dry or script is not None:
        return _told(plan, fit_of(plan, given["gpus"]), as_json=as_json)
    gpus = audited(plan, given["gpus"])
    if asked is not None:
        return checked(home, plan, asked, given, as_json=as_json)
    if keep:
        from agent.cli.serve_kept import kept

        return kept(home, as_json=as_json)
    return _served(plan, home, gpus, given["patience"], as_json=as_json)


def _told(plan: Plan, fit: Fit | None, *, as_json: bool) -> int:
    """What would be launched; 1 where it does not fit."""
    fits = fit is None or fit.fits is not False
    if as_json:
        document = {
            "command": plan.command("PORT", None),
            "fit": fit.model_dump(mode="json") if fit else None,
            "remarks": list(plan.remarks),
            "variables": {name: plan.variables[name] for name in sorted(plan.variables)},
        }
        emit(document)
        return 0 if fits else 1
    say(safe(line) for line in plan.script().splitlines())
    if fit is not None:
        say([f"each GPU: weights {fit.weights / GIB:.2f} GiB, {fit.cache_per_token} bytes of cache a token, "
             f"{fit.reserved / GIB:.0f} GiB kept for graphs and activations",
             f"{FITS[fit.fits]}: {fit.why}"])  # fmt: skip
    say(f"note: {safe(remark)}" for remark in plan.remarks)
    return 0 if fits else 1


def _write(file: Path, text: str) -> None:
    try:
        file.write_text(text, encoding="utf-8")
        if file.is_file():
            file.chmod(0o755)
    except OSError as error:
        raise CommandError(f"cannot write {file}: {error.strerror or error}") from None


def _served(plan: Plan, home: Home, gpus: tuple[str, ...], patience: float, *, as_json: bool) -> int:
    from tools.server import Patience, StartError, launched

    server: Server | None = None
    try:
        with launched(plan, home, progress, gpus=gpus, patience=Patience(longest=60 * patience)) as server:
            _running(server, as_json=as_json)
            while server.alive():
                time.sleep(0.5)
            failure = server.failure()
            if failure is not None:
                progress(f"the server ended: {failure.outcome}: {failure.because}; its log is {server.log}")
            return 1
    except StartError as error:
        told = error.failure
        if as_json:
            emit({"failure": told.model_dump(mode="json"), "log": str(error.log), "phases": error.phases,
                  "seconds": error.seconds})  # fmt: skip
        else:
            say([safe(f"{told.outcome} after {error.seconds:.0f} s: {told.because}")])
            if told.diagnosis.cause is not None:
                say([safe(told.diagnosis.cause.advice)])
            say([safe(f"log: {error.log}   more: agent diagnose {error.log}")])
        return 1
    except KeyboardInterrupt:
        if server is None or server.ended is None:
            raise
        _ended(server)
        return 0


def _ended(server: Server) -> None:
    assert server.ended is not None
    left = [f"{len(server.ended.left)} processes would not end"] if server.ended.left else []
    left += [f"{mib} MiB of {uuid} are not back" for uuid, mib in server.memory_left.items()]
    progress(f"ended in {server.ended.seconds:.1f} s, {'; '.join(left) or 'nothing is left'}")


def _running(server: Server, *, as_json: bool) -> None:
    from tools.server.used import traced_kernels, used_backends

    used = used_backends(server, traced_kernels(server))
    if as_json:
        emit(
            {
                "api_key": server.api_key,
                "base_url": server.base_url,
                "engine": server.engine,
                "log": str(server.log),
                "model": server.model,
                "name": server.name,
                "phases": server.phases,
                "pid": server.pid,
                "ready_seconds": server.ready_seconds,
                "used": [{**one.model_dump(mode="json"), "substituted": one.substituted} for one in used],
            }
        )
        sys.stdout.flush()
        return
    phases = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in server.phases.items())
    say([f"ready in {server.ready_seconds:.1f} s{f' ({phases})' if phases else ''}",
         f"  {server.base_url}/v1  model {server.model}  key {server.api_key}"])  # fmt: skip
    for one in used:
        mark = "!" if one.substituted else " "
        asked = f" (asked for {one.asked})" if one.substituted else ""
        how = f"by its {one.witness}" if one.witness else "nothing tells"
        say([safe(f"{mark} {one.component}: {one.backend or '?'}{asked}, {how}")])
    say(["Ctrl-C ends it"])
    sys.stdout.flush()
