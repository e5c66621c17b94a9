"""``agent replay``: check a transcript, decide it again from its results, or go on from its middle."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from agent.cli.common import (
    CommandError,
    emit,
    json_option,
    package_options,
    progress,
    redactor,
    stopwatch,
    the_home,
)
from agent.text import safe, squeeze
from memory.home import Home

MOST = 20
"""Problems that are shown."""


@click.command()
@click.argument("transcript", required=False)
@click.option("--last", is_flag=True, help="The newest transcript.")
@click.option("--verify", is_flag=True, help="Check the log alone: chain, order, evidence, findings.")
@click.option("--until", type=click.IntRange(0), metavar="N", help="Only up to event N.")
@click.option(
    "--fork",
    type=click.Choice(["planner", "llm"]),
    help="Let this driver go on live from there, in a new transcript.",
)
@click.option("--model", metavar="NAME", help="With --fork llm: the model; else ASSAY_MODEL.")
@click.option(
    "--rerun",
    type=click.Choice(["reads"]),
    help="Read again what an imported session read.",
)
@package_options
@json_option
def replay(
    transcript: str | None,
    last: bool,
    verify: bool,
    until: int | None,
    fork: str | None,
    model: str | None,
    rerun: str | None,
    packages: tuple[str, ...],
    environment: str | None,
    as_json: bool,
) -> int:
    """Let the driver decide TRANSCRIPT again on its recorded results, and compare what it chooses.

    Nothing is executed or fetched. The first difference is shown, with its event; exit code 1. With
    --verify nothing is decided: an intact log passes, whatever the program has learnt since. TRANSCRIPT is an
    id, its beginning, or a file; results that were too long for the log are looked up among the artifacts
    of the home, then in a folder `artifacts` beside the file.

    With --rerun reads, TRANSCRIPT is an imported session: each of its reads, searches and listings is made
    again on the files of the environment, and compared with what it gave then. Exit code 1: something is at
    other lines, changed or gone. What may change something is never made again.

    \b
    Examples:
      agent replay --last
      agent replay 20260307-3f --verify
      agent replay 20260307-3f --until 40 --fork planner
      agent replay ses_41ab --rerun reads -e sglang-0.5.10
    """
    from agent.cli.transcripts import begins, find_transcript, kept

    if verify and (fork or until is not None):
        raise CommandError("--verify checks a whole log; leave out --until and --fork")
    home = the_home()
    if rerun:
        if verify or fork or until is not None or last or transcript is None:
            raise CommandError("--rerun takes an imported session and packages (-e or -p), nothing else")
        if environment is None and not packages:
            raise CommandError("on which packages? give -e ENVIRONMENT or -p P==V")
        from agent.cli.rerun import rerun_reads

        return rerun_reads(home, transcript, environment, packages, as_json)
    if environment is not None or packages:
        raise CommandError("-e and -p go with --rerun reads: a replay takes recorded results alone")
    path = find_transcript(home, transcript, last=last, decided=True)
    if fork:
        return _fork(home, path, fork, until, model, as_json)
    if verify:
        return _verify(home, path, as_json)
    if begins(path) and kept(path):
        raise CommandError(
            f"nothing was decided in {path.stem}, so nothing can be again; check it with --verify"
        )
    from transcripts.chain import LogError
    from transcripts.reader import check_chain

    try:
        return _replay(home, path, until, as_json)
    except LogError:
        # A transcript that is damaged is a failed check; what is no transcript is wrong input.
        damage = next(iter(check_chain(path)), None)
        if damage is None:
            raise
        raise CommandError(f"{path}: {damage}; all of it: agent replay {path} --verify", 1) from None


def _replay(home: Home, path: Path, until: int | None, as_json: bool) -> int:
    from agent.replay import replay as decide_again
    from memory.artifacts import ArtifactError, document
    from transcripts.log import read

    def whole(sha256: str) -> Any:
        data = _artifact(home, path, sha256)
        if data is None:
            raise ArtifactError(
                f"a result of {path.stem} is not here whole: artifact {sha256} is neither in "
                f"{home.artifacts} "
                f"nor in {path.parent / 'artifacts'}; bring it, or check the log alone (--verify)"
            )
        return document(sha256, data)

    took = stopwatch()
    done = decide_again(read(path), whole, until=until)
    difference = done.difference
    if as_json:
        shown = None
        if difference is not None:
            shown = {
                "event": difference.event,
                "recorded": difference.recorded.model_dump(mode="json"),
                "chosen": difference.chosen and difference.chosen.model_dump(mode="json"),
                "diff": difference.diff(),
            }
        emit(
            {
                "transcript": path.stem,
                "events": done.events,
                "same": difference is None,
                "difference": shown,
            }
        )
    elif difference is None:
        speed = f"{done.events} events in {took():.2f} s"
        click.echo(f"{path.stem}: the {done.board.driver} decides the same again ({speed})")
        if done.board.concluded is None and until is None:
            click.echo(f"it is not concluded; go on with it: agent resume {path.stem}")
    else:
        click.echo(squeeze(f"{path.stem}: {difference}"))
        for line in difference.diff():
            click.echo(f"  {safe(line)}")
    return 0 if difference is None else 1


def _verify(home: Home, path: Path, as_json: bool) -> int:
    from transcripts.check import check

    missing: set[str] = set()

    def whole(sha256: str) -> bytes | None:
        data = _artifact(home, path, sha256)
        if data is None:
            missing.add(sha256)
        return data

    took = stopwatch()
    found = check(path, whole)
    problems = [{"event": one.event, "message": one.message} for one in found]
    if as_json:
        emit({"transcript": path.stem, "ok": not problems, "problems": problems, "missing": sorted(missing)})
        return 1 if problems else 0
    if missing:
        progress(f"{len(missing)} results are not here whole, and could not be compared with what is shown")
    for one in found[:MOST]:
        click.echo(squeeze(f"{path.stem}: {one}"))
    if len(problems) > MOST:
        click.echo(f"… and more; all that was found: agent replay {path} --verify --json")
    if not problems:
        click.echo(f"{path.stem}: intact: chain, order, evidence and findings hold ({took():.2f} s)")
    return 1 if problems else 0


def _fork(home: Home, path: Path, driver: str, until: int | None, model: str | None, as_json: bool) -> int:
    from agent.cli.ending import ended
    from agent.cli.model_options import ModelOptions
    from agent.fork import fork
    from agent.session import Setting
    from memory.clock import Ids, SystemClock

    name = Ids().investigation(SystemClock())
    took = stopwatch()
    about = ModelOptions(model)
    llm = about.recorded(home) if about.driver(driver) == "llm" else None
    setting = Setting(say=progress, redact=redactor(), grants=about.grants())
    _, concluded = fork(home.prepare(), path, driver, until=until, setting=setting, llm=llm, name=name)
    return ended(home, name, concluded, took(), everything=False, as_json=as_json)


def _artifact(home: Home, path: Path, sha256: str) -> bytes | None:
    """An artifact from the home or from beside the transcript; None where it is in neither."""
    from memory.artifacts import Artifacts

    for root in (home.artifacts, path.parent / "artifacts"):
        if sha256 in Artifacts(root):
            return Artifacts(root).get(sha256)
    return None
