"""What the source tools share: opening an environment's tree and turning odd paths into one clear line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tools.base import ToolError
from tools.source.tree import WITHIN, SourceError, SourceTree, is_compiled

BINARY_SNIFF = 8192


def open_tree(environment: str, context: Any) -> SourceTree:
    """The files of an environment given by name or folder. Raises :class:`ToolError`."""
    # Late: reading a tree must not cost what making environments imports.
    from tools.environment.store import open_for

    try:
        return open_for(context, environment).tree()
    except SourceError as error:
        raise ToolError(str(error), missing=True) from error


def locate(tree: SourceTree, file: str) -> tuple[str, Path]:
    """A path given from outside: the tree's own relative name and the real path, or :class:`ToolError`."""
    try:
        path = tree.resolve(file.strip() or ".")
    except SourceError as error:
        text = str(error).replace(repr(file.strip()), _short(file.strip()))
        raise ToolError(f"{text}; see what is there with list_source") from error
    except (OSError, ValueError, RuntimeError) as error:
        # A name with a NUL, one too long for the file system, a link that leads to itself.
        why = getattr(error, "strerror", None) or str(error)
        raise ToolError(f"{_short(file)} is no path of the environment ({why})") from error
    relative = path.relative_to(tree.root).as_posix()
    _, within, part = file.strip().partition(WITHIN)
    return ("" if relative == "." else relative + within + part), path


def _short(file: str) -> str:
    return repr(file if len(file) <= 120 else file[:119] + "…")


def refuse_binary(file: str, path: Path) -> None:
    """Raise :class:`ToolError` where a file is not text: it has a NUL byte near its beginning, or it is no
    plain file (a pipe would block its reader). Compiled code has a listing, which is text."""
    if not path.is_file():
        raise ToolError(f"{file!r} is no plain file; only text can be read")
    if is_compiled(path):
        return
    try:
        with path.open("rb") as stream:
            head = stream.read(BINARY_SNIFF)
    except OSError as error:
        raise ToolError(f"cannot read {file!r}: {error.strerror or error}") from error
    if b"\0" in head:
        raise ToolError(f"{file!r} is a binary file of {path.stat().st_size} bytes; only text can be read")
