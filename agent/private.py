"""Text for others: without the paths, names and addresses of the machine that it was written on.

Paths keep what is public of them, the part from the packages on. Names are those of the person and the host,
wherever they stand as words.
"""

from __future__ import annotations

import getpass
import os
import re
import socket
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from transcripts.redaction.secrets import Redactor, environment_secrets

_PACKAGES = re.compile(r"(?:site|dist)-packages/")
_PATH = re.compile(
    r"(?<![\w.:/~\\-])(?:~|\$HOME)?(?:/[\w.@+,=-]+){2,}/?|(?<!\w)[A-Za-z]:\\[^\s\"'<>|]+|~[\w-]*(?:/[\w.@+-]+)+"
)
_MAIL = re.compile(r"[\w.+-]+@[\w-]+\.[\w.-]+")
_ADDRESS = re.compile(r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w.])")
_OPEN = ("127.0.0.1", "0.0.0.0")  # noqa: S104 - what may stay, nothing is bound
_COMMON = frozenset({"root", "user", "admin", "ubuntu", "localhost", "home", "runner", "docker", "nobody"})
"""Names that tell nobody's."""


def names_here() -> set[str]:
    """What the person and the host are called."""
    found = {socket.gethostname(), socket.gethostname().partition(".")[0], Path.home().name}
    for variable in ("USER", "LOGNAME", "USERNAME", "SUDO_USER"):
        found.add(os.environ.get(variable, ""))
    with suppress(OSError, KeyError, ImportError):
        found.add(getpass.getuser())
    return {name for name in found if len(name) > 2 and name.lower() not in _COMMON}


class Public:
    """Makes text fit for others. ``names``: words that nobody else is to see."""

    def __init__(self, names: Iterable[str]) -> None:
        known = sorted(set(names), key=lambda name: (-len(name), name))
        self._names = (
            re.compile(
                rf"(?<![A-Za-z0-9])(?:{'|'.join(map(re.escape, known))})(?![A-Za-z0-9])", re.IGNORECASE
            )
            if known
            else None
        )
        self._redactor = Redactor(environment_secrets(os.environ))

    def __call__(self, text: str) -> str:
        text = str(self._redactor(text))
        text = _MAIL.sub("NAME@HOST", text)
        text = _PATH.sub(_public_path, text)
        text = _ADDRESS.sub(lambda match: match[0] if match[0] in _OPEN else "ADDRESS", text)
        return self._names.sub("NAME", text) if self._names is not None else text


def _public_path(match: re.Match[str]) -> str:
    path = match[0]
    parts = _PACKAGES.split(path.replace("\\", "/"))
    return f".../{parts[-1]}" if len(parts) > 1 else "PATH"
