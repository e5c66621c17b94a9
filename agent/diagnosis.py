"""A diagnosis drawn: what was launched, what failed first, why, and what would help."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from agent.layout import Line, wrap
from agent.openings import opening_lines
from agent.reasons import NAMES
from agent.text import safe, shorten, squeeze
from memory.names import few
from memory.terms import Verdict
from tools.engines.components import chooses_implementation

FRAMES = 3
"""Frames that are shown, the innermost."""
WIDTH = 110


def lines(found: Mapping[str, Any]) -> list[Line]:
    """The whole diagnosis, as ``agent diagnose --json`` has it."""
    return [
        *_launch(found),
        *_failure(found),
        *_cause(found),
        *_gate(found),
        *_openings(found),
        *_settings(found),
        *_ahead(found),
    ]


def _launch(found: Mapping[str, Any]) -> Iterator[Line]:
    nothing = not (found["engine"] or found["packages"] or found["arch"] or found["cause"] or found["first"])
    if nothing and not found["follows"]:
        yield [("nothing in the text names an engine, a version or a GPU: is it an engine's log?", "yellow")]
        return
    packages = few([f"{name} {version}" for name, version in found["packages"].items()])
    gpu = f"{found['gpu']} ({found['arch']})" if found["gpu"] else found["arch"]
    engine = found["engine"] or "an engine that the log does not name"
    told = packages if found["engine"] in found["packages"] else f"{engine} of unknown version"
    if packages and told != packages:
        told += f", {packages}"
    where = f"on {gpu}" if gpu else "on a GPU that the log does not name"
    yield [(squeeze(told), "bold"), (f" {squeeze(where)}", "")]
    if found["newest_first"]:
        yield [("its newest lines come first; they are numbered as they stand", "dim")]
    chosen = [
        f"{name} {value}"
        for name, value in found["arguments"].items()
        if isinstance(value, str) and value not in ("auto", "") and chooses_implementation(name)
    ]
    model = next(
        (found["arguments"][name] for name in ("model_path", "model") if name in found["arguments"]), None
    )
    told = ", ".join([*([str(model)] if isinstance(model, str) else []), *chosen])
    if told:
        yield [(shorten(f"launched with {told} (line {found['said'].get('arguments')})", 2 * WIDTH), "dim")]


def _failure(found: Mapping[str, Any]) -> Iterator[Line]:
    first = found["first"]
    if first is None:
        if found["stopped"] is not None:
            told = f"it was ended from outside (line {found['stopped']}); nothing says that something failed"
            yield [(told, "green")]
        elif found["follows"]:
            yield [("the log holds only what follows a failure: its beginning is not in it", "yellow")]
        elif found["cause"] is None:
            yield [("nothing in the log says that something failed", "green")]
        return
    rank = f" ({first['rank']})" if first["rank"] else ""
    yield [("", "")]
    yield [(squeeze(f"failed first at line {first['line']}{rank}:"), "bold")]
    message = f"{first['error']}: {first['message']}" if first["error"] else "its end is not in the log"
    yield from ([(f"  {text}", "red")] for text in wrap(message, WIDTH, 4))
    for frame in first["frames"][-FRAMES:]:
        place = f"{_short(frame['file'])}:{frame['line']} in {frame['function']}"
        yield [(f"    {squeeze(place)}", ""), (f"  {shorten(frame['text'], 70)}", "dim")]
    if found["later"]:
        many = "traceback follows" if found["later"] == 1 else "tracebacks follow"
        yield [(f"  {found['later']} {many}", "dim")]


def _short(file: str) -> str:
    """A path from its package on."""
    for mark in ("/site-packages/", "/dist-packages/"):
        if mark in file:
            return file.rpartition(mark)[2]
    return "/".join(file.split("/")[-4:])


def _cause(found: Mapping[str, Any]) -> Iterator[Line]:
    cause = found["cause"]
    if cause is None:
        if found["first"] is not None or found["follows"]:
            yield [("", "")]
            yield [("cause: not known here; no message that is known fits, and nothing is guessed", "yellow")]
        return
    yield [("", "")]
    sure = "cause" if cause["certain"] else "likely cause"
    if cause["guess"]:
        yield [("cause: not known here; no message that is known fits", "yellow")]
        sure = "by the place where it failed, perhaps"
    elif cause["noticed"]:
        yield [("nothing in the log says that something failed", "green")]
        sure = "noticed"
    yield [(f"{sure}: ", "bold"), (f"{cause['means']} ({cause['outcome']})", "red")]
    if found["first"] is None or cause["line"] != found["first"]["end"]:
        yield [(f"  line {cause['line']}: {shorten(cause['text'], 160)}", "")]
    yield from ([(f"  {text}", "")] for text in wrap(cause["advice"], WIDTH, 5))
    if cause["cases"]:
        yield [("  known cases: ", "dim"), (squeeze(" ".join(cause["cases"])), "")]
    for one in found["findings"]:
        yield [
            ("  found before: ", "dim"),
            (squeeze(f"{one['sentence']} ({one['level']}, {one['id'][:12]})"), ""),
        ]


def _gate(found: Mapping[str, Any]) -> Iterator[Line]:
    gate = found["gate"]
    if gate is None:
        if found["make"] is not None and found["first"] is not None:
            yield [("", "")]
            yield [
                ("the gate in the source: not read; --fetch reads it, or: ", ""),
                (squeeze(found["make"]), "bold"),
            ]
        elif found["environment"] is not None and found["first"] is not None:
            yield [("", "")]
            yield [
                (
                    squeeze(f"no frame of the traceback stands in {found['environment']}: other versions"),
                    "yellow",
                )
            ]
        return
    raised = gate["raised"]
    deeper = "" if gate["innermost"] else ", which called what raised"
    moved = "; the log has it at another line" if gate["moved"] else ""
    yield [("", "")]
    yield [
        (f"the gate, in {squeeze(gate['function'])}{deeper}{moved}: ", "bold"),
        (squeeze(f"{raised['package']} {raised['version']} {raised['file']}:{raised['line']}"), ""),
    ]
    yield from ([(f"     {safe(text)}", "dim")] for text in raised["text"].splitlines()[:8])
    for guard in gate["guards"]:
        yield [(f"  under :{guard['line']} ", ""), (shorten(guard["text"], 90), "dim")]


def _openings(found: Mapping[str, Any]) -> list[Line]:
    row = found["row"]
    if row is None:
        return []
    says = NAMES[Verdict(row["verdict"])]
    told = f"{row['component']} {row['backend']} on {row['arch']}, by the source: {says}"
    return [[("", "")], [(squeeze(told), "bold")], *opening_lines(found["openings"])]


def _settings(found: Mapping[str, Any]) -> Iterator[Line]:
    """What is wrong with the command that launched it."""
    if found["settings"]:
        yield [("", "")]
    for one in found["settings"]:
        at = f"  {one['file']}:{one['line']}" if one["file"] else ""
        yield [(f"{one['kind']}: ", "bold"), (squeeze(one["text"]), ""), (at, "dim")]


def _ahead(found: Mapping[str, Any]) -> Iterator[Line]:
    if found["next"] is None and not found["send"]:
        return
    yield [("", "")]
    if found["next"] is not None:
        yield [("next: ", "bold"), (squeeze(found["next"]), "")]
    for number, one in enumerate(found["send"]):
        yield [("what would say more: " if number == 0 else "  and: ", "bold"), (one, "")]
