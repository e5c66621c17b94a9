"""Importing a file or a folder: which importer reads what, and the files of a home that come of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from memory.home import Home
from transcripts.imported.recording import Kept, sweep
from transcripts.importers import Importer, importers
from transcripts.importers.sink import Sink
from transcripts.importers.source import ImportingError, Source


def import_path(
    home: Home,
    path: Path,
    clean: Callable[[Any], Any],
    tell: Callable[[str], None],
    known: Sequence[Importer] | None = None,
) -> list[Kept]:
    """Import what is at ``path``: one source, or every file below a folder that an importer recognises.

    Raises :class:`ImportingError` where nothing is, :class:`HomeError` for a home that cannot be written.
    """
    known = importers() if known is None else known
    if not path.exists():
        raise ImportingError(f"there is no {path}; give a file or a folder of sessions")
    if not path.is_file() and not path.is_dir():
        raise ImportingError(f"{path} is neither a file nor a folder")
    home.prepare()
    sweep(home.imported)
    done: list[Kept] = []
    problems: list[str] = []
    for source in _sources(path, known):
        importer = _importer(source, known)
        if importer is None:
            if source.path == path:
                problems.append(_unknown(source, known))
            continue
        sink = Sink(home.imported, str(source.path.absolute()), clean, tell)
        try:
            importer.read(source, sink)
        except ImportingError as error:
            problems.append(str(error))
        finally:
            sink.abandon()
        done += sink.done
    if not done:
        raise ImportingError(
            problems[0] if problems else f"{path}: no session found; formats: {', '.join(_names(known))}"
        )
    for problem in problems:
        tell(f"warning: {problem}")
    return done


def _sources(path: Path, known: Sequence[Importer]) -> Iterator[Source]:
    """The source itself where an importer takes it whole, else the files below it, in the order of their
    names."""
    whole = Source(path, "" if path.is_dir() else path.name)
    if not path.is_dir() or _importer(whole, known) is not None:
        yield whole
        return
    for folder, folders, files in _walk(path):
        for name in list(folders):
            inner = whole.below(folder / name)
            if _importer(inner, known) is not None:
                folders.remove(name)
                yield inner
        for name in files:
            file = folder / name
            # Neither a pipe nor what lies outside the folder.
            if file.is_file() and not file.is_symlink():
                yield whole.below(file)


def _walk(path: Path) -> Iterator[tuple[Path, list[str], list[str]]]:
    import os

    for folder, folders, files in os.walk(path):
        folders.sort()
        yield Path(folder), folders, sorted(files)


def _importer(source: Source, known: Sequence[Importer]) -> Importer | None:
    try:
        return next((one for one in known if one.recognises(source)), None)
    except ImportingError:
        if source.shape == "folder":
            raise
        return None


def _unknown(source: Source, known: Sequence[Importer]) -> str:
    return f"{source.path}: no known format of sessions; expected one of {', '.join(_names(known))}"


def _names(known: Sequence[Importer]) -> list[str]:
    return [one.name for one in known]
