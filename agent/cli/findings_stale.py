"""``agent findings stale`` and ``verify``: what still holds, of other packages and another machine."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import click

from agent.cli.common import (
    CommandError,
    Context,
    emit,
    environment_of,
    json_option,
    one_source,
    package_options,
    requirements_of,
    say,
    the_home,
)
from agent.cli.findings_rows import views_of
from agent.text import safe, squeeze
from memory.home import Home

if TYPE_CHECKING:
    from tools.findings.stale import Checked, Machine

_ORDER = ("gone", "changed", "not_comparable", "holds")


@click.command()
@click.option("--against", "against", is_flag=True, help="What follows names the packages to compare with.")
@package_options
@click.option("--before", metavar="NAME|PATH", help="Packages that findings cite, if not among environments.")
@click.option("--component", metavar="NAME", help="Only of this component.")
@click.option("--arch", metavar="ARCH", help="Only on this architecture.")
@click.option("--all", "everything", is_flag=True, help="Those that hold are listed too.")
@json_option
def stale(
    against: bool,
    environment: str | None,
    packages: tuple[str, ...],
    before: str | None,
    component: str | None,
    arch: str | None,
    everything: bool,
    as_json: bool,
) -> int:
    """Which findings no longer hold in other packages: cited lines are looked for again, versions compared.

    A finding `holds` where its lines stand as they were, moved or not; `changed` shows what they have become;
    `gone` says what is no longer there. What ran is stale as soon as a package, the driver or the GPU in its
    scope is another. Without packages the environment that is current is meant. Exit 1 if one is stale.

    \b
    Examples:
      agent findings stale --against -p sglang==0.5.10 -p flashinfer-python==0.6.7
      agent findings stale --against -e sglang-0.5.23 --component moe_runner --all
      agent findings stale -e ./site-packages --json
    """
    from tools.findings.stale import check

    home = the_home()
    one_source(environment, packages)
    if against and not environment and not packages:
        raise CommandError("--against needs packages (-p) or an environment (-e)")
    now = environment_of(
        home, environment or (None if packages else "current"), requirements_of(packages), None
    )
    cited = environment_of(home, before, (), None) if before else None
    if arch is not None:
        from memory.architecture import parse_architecture

        arch = parse_architecture(arch).name
    views, code = views_of(home)
    rows = views.findings(disputed=True, component=component, arch=arch)
    checked = list(check(home, views, rows, now, local_machine(home), cited))
    counts = Counter(one.drift for one in checked)
    lost = counts["changed"] + counts["gone"]
    if as_json:
        shown = [_document(one) for one in checked if everything or one.drift != "holds"]
        emit({"environment": now.name, "packages": now.packages, "counts": dict(counts), "findings": shown})
    else:
        say(map(safe, _lines(checked, everything=everything)))
        counted = ", ".join(f"{counts[name]} {_name(name)}" for name in _ORDER if counts[name])
        say([f"{now.name}: {counted or 'no findings to compare'}"])
    return code or (1 if lost else 0)


def local_machine(home: Home) -> Machine | None:
    """The GPUs of this machine; None where there is none to compare with."""
    from tools.errors import ToolError
    from tools.findings.stale import Machine
    from tools.hardware.gpu import PROGRAM

    if shutil.which(PROGRAM) is None:
        return None
    from tools.hardware.gpu import gpu_status

    try:
        found = gpu_status.run(gpu_status.input(), Context(home)).gpus
    except ToolError:
        return None
    return Machine(tuple(gpu.name for gpu in found), found[0].driver) if found else None


def _name(drift: str) -> str:
    return drift.replace("_", " ")


def _lines(checked: Iterable[Checked], *, everything: bool) -> Iterator[str]:
    shown = [one for one in checked if everything or one.drift in ("gone", "changed")]
    for one in sorted(shown, key=lambda one: _ORDER.index(one.drift)):
        yield f"{_name(one.drift)}  {one.finding['id'][:12]}  {squeeze(one.finding['sentence'])}"
        yield from (f"    {reason}" for reason in one.because)
        for _, cited, became in one.lines:
            if became.drift == "same" or (became.drift == "moved" and not everything):
                continue
            where = f" → {became.file}:{became.line}" if became.file else ""
            because = f" ({became.because})" if became.because else ""
            yield f"    {_name(became.drift)}: {cited.package} {cited.file}:{cited.line}{where}{because}"
            yield from (f"      {line}" for line in became.diff if not line.startswith("@@"))


def _document(one: Checked) -> dict[str, Any]:
    return {
        "finding": one.finding["id"],
        "sentence": one.finding["sentence"],
        "level": one.finding["level"],
        "drift": one.drift,
        "status": "stale" if one.drift in ("changed", "gone") else one.finding["status"],
        "because": list(one.because),
        "evidence": [
            {
                "number": number,
                "package": cited.package,
                "file": cited.file,
                "line": cited.line,
                "drift": became.drift,
                "now": {"file": became.file, "line": became.line} if became.file else None,
                "diff": list(became.diff),
                "because": became.because,
            }
            for number, cited, became in one.lines
        ],
    }
