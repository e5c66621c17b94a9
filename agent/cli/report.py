"""``agent report``: the answer of a transcript, drawn again."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agent.cli.common import CommandError, draw, emit, json_option, the_home, width
from agent.cli.transcripts import find_transcript

if TYPE_CHECKING:
    from agent.layout import Line
    from transcripts.events import Concluded, HypothesisChanged


@click.command()
@click.argument("transcript", required=False)
@click.option("--last", is_flag=True, help="The newest transcript.")
@click.option("--all", "everything", is_flag=True, help="Every row.")
@click.option("--markdown", "as_markdown", is_flag=True, help="Markdown with all evidence on stdout.")
@click.option("--html", "as_html", is_flag=True, help="One page on stdout, with plots of what was measured.")
@click.option("--upstream", "as_upstream", is_flag=True, help="A bug report to paste, nothing private in it.")
@click.option("--about", metavar="COMPONENT/BACKEND", help="With --upstream: what it is about.")
@json_option
def report(
    transcript: str | None,
    last: bool,
    everything: bool,
    as_markdown: bool,
    as_html: bool,
    as_upstream: bool,
    about: str | None,
    as_json: bool,
) -> int:
    """The answer of TRANSCRIPT (an id, its beginning, or a file) again, from its log alone.

    \b
    Examples:
      agent report --last
      agent report 20260307-3f --all
      agent report --last --markdown > answer.md
      agent report --last --html > answer.html
      agent report --last --upstream --about moe_runner/flashinfer_trtllm > issue.md
    """
    asked = {"--markdown": as_markdown, "--html": as_html, "--upstream": as_upstream, "--json": as_json}
    if len(forms := [name for name, is_asked in asked.items() if is_asked]) > 1:
        raise CommandError(f"{' and '.join(forms)} cannot both be on stdout; give one")
    path = find_transcript(the_home(), transcript, last=last, decided=True)
    concluded = conclusion_of(path)
    if concluded.get("answer") is None:
        why = f"({concluded.get('exit_reason')}): {concluded.get('summary')}"
        raise CommandError(f"{path.stem} has no answer {why}", 1)
    if about is not None and not as_upstream:
        raise CommandError("--about is for --upstream")
    if as_upstream:
        sys.stdout.write(_upstream(path, about))
        return 0
    if as_html:
        from agent.cli.benchmark_compare import measured_in
        from agent.reasons import undecided
        from agent.report_page import page

        answer = _concluded(path).answer
        assert answer is not None, "a plain look said so"
        sys.stdout.writelines(page(answer, undecided(_hypotheses(path)), measured_in(the_home(), path)))
        return 0
    try:
        drawn = _drawn(concluded["answer"], path, _plain_hypotheses, everything, as_markdown, as_json)
    except (AttributeError, KeyError, TypeError, ValueError):
        # Not as this program writes it: the models add what an older one left out, or say what is wrong.
        answer = _concluded(path).answer
        drawn = _drawn(answer, path, _hypotheses, everything, as_markdown, as_json)
    if isinstance(drawn, list):
        from agent.account import account_lines

        draw([*drawn, *account_lines(path, width())])
    elif isinstance(drawn, str):
        sys.stdout.write(drawn)
    else:
        emit(drawn)
    return 0


def _upstream(path: Path, given: str | None) -> str:
    """A bug report from a transcript. Raises :class:`CommandError` where there is nothing to report."""
    from agent.private import Public, names_here
    from agent.upstream import about, upstream
    from tools.engines.adapter import engine

    answer = _concluded(path).answer
    assert answer is not None, "a plain look said so"
    cell = None
    if given is not None:
        component, slash, backend = given.partition("/")
        cell = (component, backend)
        if not slash:
            raise CommandError(f"--about {given!r}: expected COMPONENT/BACKEND, e.g. attention/triton")
    rows = about(answer.backends, cell)
    if not rows:
        told = f"has no {given}" if given is not None else "found nothing that is refused or failed"
        raise CommandError(f"{path.stem} {told}; see: agent report {path.stem} --all", 1)
    flags: dict[str, str] = {}
    for one in _hypotheses(path):
        if match := re.match(r"(--[\w-]+) accepts it", one.because or ""):
            flags.setdefault(one.component, match[1])
    public = Public(names_here())
    return upstream(answer, rows, flags, engine(answer.target.engine), public, _fingerprint(path))


def _fingerprint(path: Path) -> str | None:
    """Of the environment that was made or opened, as its tool told it; None where none did."""
    from transcripts.reader import records

    for one in records(path):
        output = one.data.get("output") if one.data.get("kind") == "returned" else None
        made = output.get("environment") if isinstance(output, dict) else None
        if isinstance(made, dict) and isinstance(made.get("fingerprint"), str):
            return str(made["fingerprint"])
    return None


def _drawn(
    answer: Any,
    path: Path,
    hypotheses: Callable[[Path], Iterable[HypothesisChanged]],
    everything: bool,
    as_markdown: bool,
    as_json: bool,
) -> str | list[Line] | dict[str, Any]:
    """Markdown, lines for the screen, or a document. ``answer``: an ``Answer``, or its plain document."""
    from agent.reasons import undecided
    from agent.report import screen

    if as_json:
        return dict(answer if isinstance(answer, dict) else answer.model_dump(mode="json"))
    why = undecided(hypotheses(path)) if everything or as_markdown else {}
    if as_markdown:
        from agent.cli.benchmark_compare import measured_in
        from agent.markdown import markdown

        found = measured_in(the_home(), path)
        if found is None:
            return markdown(answer, why)
        from agent.benchmarks_page import markdown as measured

        return markdown(answer, why) + "\n" + "".join(measured(found))
    return screen(answer, everything=everything, width=width(), why=why)


def conclusion_of(path: Path) -> Any:
    """The last event of a finished transcript, plain. Raises :class:`CommandError` for one that goes on."""
    from agent.plain import plain
    from transcripts.chain import LogError, link
    from transcripts.reader import first_raw, last_lines

    first_raw(path)
    (line,) = last_lines(path, 1)
    here = link(line)
    if here is None or not here.intact:
        raise LogError(f"{path}: its last event is damaged; see: agent replay {path} --verify")
    data = plain(line).get("data")
    if not isinstance(data, dict) or data.get("kind") != "concluded":
        raise CommandError(
            f"{path.stem} is not concluded yet; where nothing runs any more, go on with: agent resume "
            f"{path.stem}; see what was done: agent transcripts show {path}",
            1,
        )
    return data


def why_undecided(path: Path) -> dict[tuple[str, str], str]:
    """Component and backend → why reading did not decide, from the hypotheses of a transcript."""
    from agent.reasons import undecided

    return undecided(_plain_hypotheses(path))


def _plain_hypotheses(path: Path) -> Iterator[Any]:
    from agent.plain import plain
    from memory.canonical import canonical
    from transcripts.reader import records

    return (plain(canonical(one.data)) for one in records(path) if one.data.get("kind") == "hypothesis")


def _concluded(path: Path) -> Concluded:
    from transcripts.events import Concluded
    from transcripts.log import tail

    data = tail(path)[0].data
    assert isinstance(data, Concluded), "a plain look said so"
    return data


def _hypotheses(path: Path) -> Iterator[HypothesisChanged]:
    from transcripts.events import HypothesisChanged
    from transcripts.log import read

    return (event.data for event in read(path) if isinstance(event.data, HypothesisChanged))
