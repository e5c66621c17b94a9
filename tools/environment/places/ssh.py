"""Packages on another host, through the person's own ssh: archives are asked for, nothing is left there."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from urllib.parse import unquote

from tools.environment.child import allowed_environment
from tools.environment.places.place import info_of, unpack
from tools.environment.places.streams import streamed
from tools.errors import ToolError

_GIVEN = re.compile(r"ssh://((?:[\w.-]+@)?(?:[\w.-]+|\[[0-9a-fA-F:]+\]))(?::(\d{1,5}))?(/.+)")
_FIND = """cd {path} || exit 1
for site in lib/python3*/site-packages lib64/python3*/site-packages .; do
  for info in "$site"/*.dist-info; do
    if [ -e "$info" ]; then (cd "$site" && pwd -P && tar -cf - ./*.dist-info); exit; fi
  done
done
echo "no installed packages there" >&2
exit 1"""
# Every source file with its size and time, those of checkouts too; nothing where find cannot say it.
_LIST = """cd {path} || exit 1
list() {{ find "$1" -name '*.py' -printf '%p %s %T@\\n' 2>/dev/null; }}
list .
find . -name direct_url.json -exec grep -l '"editable": *true' {{}} + 2>/dev/null | while read -r info; do
  list "$(sed -n 's#.*"url": *"file://\\([^"]*\\)".*#\\1#p' "$info")"
done
exit 0"""
MOST_LISTED = 64 << 20
_TAKE = """cd {folder} || exit 1
set --
for name in {names}; do if [ -e "$name" ]; then set -- "$@" "$name"; fi; done
if [ "$#" -gt 0 ]
then tar -chf - --exclude=__pycache__ --exclude=.git -- "$@"
else tar -cf - -T /dev/null
fi"""


class Ssh:
    def __init__(self, given: str) -> None:
        match = _GIVEN.fullmatch(given)
        if match is None:
            raise ToolError(f"{given[:120]!r} is no place on a host; expected ssh://[USER@]HOST[:PORT]/PATH")
        self.label = given
        self._host, self._port, self._path = match[1], match[2], unquote(match[3])

    def open(self, work: Path) -> None:
        program = shutil.which("ssh")
        if program is None:
            raise ToolError("ssh is needed to read from another host; install it", missing=True)
        port = ["-p", self._port] if self._port else []
        self._command = [program, "-o", "BatchMode=yes", *port, "--", self._host]
        self._work = work
        self._environment = allowed_environment(os.environ, lambda name: name == "SSH_AUTH_SOCK")

    def close(self) -> None:
        pass

    def mark(self) -> str:
        script = _LIST.format(path=shlex.quote(self._path))
        with streamed([*self._command, script], self._environment, self._work) as stream:
            told = sorted(stream.read(MOST_LISTED).splitlines())
        return hashlib.sha256(b"\n".join(told)).hexdigest() if told else ""

    def infos(self, site: Path) -> str:
        script = _FIND.format(path=shlex.quote(self._path))
        with streamed([*self._command, script], self._environment, self._work) as stream:
            folder = stream.readline(4096).decode("utf-8", "replace").rstrip("\n")
            for _ in unpack(stream, site, info_of):
                pass
        return folder

    def take(self, folder: str, names: Sequence[str], site: Path) -> None:
        script = _TAKE.format(folder=shlex.quote(folder), names=" ".join(map(shlex.quote, names)))
        with streamed([*self._command, script], self._environment, self._work) as stream:
            for _ in unpack(stream, site, PurePosixPath):
                pass

    def changes(self, folder: str, work: Path) -> list[str]:
        return []  # git is there, if anywhere, and would have to run
