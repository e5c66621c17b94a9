"""An engine's options as its own launcher makes them, beside a device that is only simulated.

The engine is imported once; each cell is a process forked from there, so that none finds what another left.
Nothing is loaded and nothing runs: what is read is what start-up settles, or where it raises.
"""

from __future__ import annotations

import importlib
import inspect
import json
import os
import sys
import tempfile
import traceback
import types
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from . import simulated

LIMIT = 1 << 22
WORDS = 4000
_ready: dict[str, Any] = {}


def run(cell: dict[str, Any], stage: Callable[[str], None]) -> dict[str, Any]:
    """``resolved``: component → value; or ``error``, with ``where`` it was raised; ``reached``: functions of
    the packages that ran, file → first and last lines; ``blank``: packages that are only simulated."""
    told = cell["given"]
    stage("importing the engine")
    if not _ready:
        simulated.simulate(told["device"])
        simulated.blank(told["blank"])
        _ready["entry"] = _object(told["entry"])
        for name in told["warm"]:
            with suppress(ImportError):
                importlib.import_module(name)
    stage("making the options")
    return {**_forked(lambda: _resolved(told)), "blank": list(simulated.BLANKED)}


def _forked(work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reads)
            with os.fdopen(writes, "wb") as out:
                out.write(json.dumps(work()).encode())
        finally:
            os._exit(0)
    os.close(writes)
    with os.fdopen(reads, "rb") as source:
        data = source.read(LIMIT)
    os.waitpid(child, 0)
    if not data:
        raise RuntimeError("the engine ended the process while it made its options")
    return dict(json.loads(data))


def _resolved(told: dict[str, Any]) -> dict[str, Any]:
    reached: dict[tuple[str, int], int] = {}
    roots = tuple(f"{name}{os.sep}" for name in told["packages"])
    site = str(Path(sys.modules[told["packages"][0]].__file__ or "").parent.parent)

    def note(frame: types.FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(site):
            file = os.path.relpath(code.co_filename, site)
            if file.startswith(roots):
                reached[file, code.co_firstlineno] = max(line or 0 for *_, line in code.co_lines())

    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "config.json").write_text(json.dumps(told["config"]), encoding="utf-8")
        words = [told["model"], folder, *told["words"]] if told["model"] else [folder, *told["words"]]
        sys.setprofile(note)
        try:
            options = _ready["entry"](words)
            found: dict[str, Any] = {"resolved": _read(told, options)}
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a refusal is what there is to say
            sys.setprofile(None)
            found = _refused(error, site, roots)
        sys.setprofile(None)
    files: dict[str, list[list[int]]] = {}
    for (file, first), last in sorted(reached.items()):
        files.setdefault(file, []).append([first, last])
    return {**found, "reached": files}


def _read(told: dict[str, Any], options: Any) -> dict[str, str]:
    """By component: what the options hold, and what the engine makes of it where it says."""
    found = {name: _text(getattr(options, field, None)) for name, field in told["fields"].items()}
    for name, (settle, ask) in told["settled"].items():
        if name not in found:
            continue
        try:
            settling, asking = _object(settle), _object(ask)
        except (ImportError, AttributeError):
            continue  # not of this version
        settling(*([options] if inspect.signature(settling).parameters else []))
        found[name] = _text(asking())
    return found


def _text(value: Any) -> str:
    return str(getattr(value, "value", value))


def _refused(error: BaseException, site: str, roots: tuple[str, ...]) -> dict[str, Any]:
    """The error as a row has it; ``where``: the deepest line of the engine's own, from inside out."""
    frames = [
        (os.path.relpath(frame.filename, site), frame.lineno)
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename.startswith(site)
    ]
    ours = [one for one in frames if one[0].startswith(roots)]
    return {
        "error": {
            "type": type(error).__name__,
            "kinds": [one.__name__ for one in type(error).__mro__ if one not in (object, BaseException)],
            "message": str(error)[:WORDS],
            "traceback": "".join(traceback.format_exception(error))[-2 * WORDS :],
        },
        "where": list(ours[-1]) if ours else None,
    }


def _object(path: str) -> Any:
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)
