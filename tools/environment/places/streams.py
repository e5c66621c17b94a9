"""Programs whose output is read as it comes: archives that are too large to be kept."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from tools.errors import ToolError

SECONDS = 1800.0
"""For one archive."""
GRACE = 5.0
"""Seconds in which a program ends whose output is no archive."""


@contextmanager
def streamed(command: Sequence[str], environment: Mapping[str, str], work: Path) -> Iterator[IO[bytes]]:
    """The output of ``command``, whose tree is ended with the ``with`` block.

    Raises :class:`ToolError` where it ends badly, with the last line that it said.
    """
    errors = work / "errors"
    with errors.open("wb") as said:
        process = subprocess.Popen(
            list(command),
            cwd=work,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=said,
            start_new_session=True,
        )
    late = threading.Timer(SECONDS, _end, (process,))
    late.daemon = True
    late.start()
    assert process.stdout is not None
    try:
        with process.stdout as stream:
            yield stream
            while stream.read(1 << 20):  # a program that is cut off fails
                pass
        code = process.wait()
    except ToolError as error:
        # What came was not what was expected: the program may say why.
        with suppress(subprocess.TimeoutExpired):
            process.wait(GRACE)
        ended = process.poll()
        _end(process)
        process.wait()
        if not ended:
            raise
        raise ToolError(f"{_name(command)} failed ({last_line(errors) or f'exit {ended}'})") from error
    except BaseException:
        _end(process)
        process.wait()
        raise
    finally:
        late.cancel()
    if code != 0:
        raise ToolError(f"{_name(command)} failed ({last_line(errors) or f'exit {code}'})")


def _name(command: Sequence[str]) -> str:
    return Path(command[0]).name


def last_line(path: Path) -> str:
    """The last line that a program said, shortened."""
    lines = path.read_bytes()[-4096:].decode("utf-8", "replace").strip().splitlines()
    return lines[-1].strip()[:300] if lines else ""


def _end(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
