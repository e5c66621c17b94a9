"""An image's packages, through the docker program: its files are copied out, nothing in it runs."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath

from tools.environment.child import allowed_environment, run_child
from tools.environment.places.place import Naming, info_of, unpack
from tools.environment.places.streams import last_line, streamed
from tools.errors import ToolError

ANSWER_SECONDS = 120.0
_IMAGE = re.compile(r"[A-Za-z0-9][\w./:@-]{0,300}")
_PYTHONS = [f"python3.{minor}" for minor in range(14, 8, -1)]
_PREFIXES = ("/usr/local", "/usr", "/opt/venv", "/opt/conda")


class Docker:
    """``docker create`` makes a container that never starts, to copy from; it is removed again."""

    def __init__(self, image: str) -> None:
        if not _IMAGE.fullmatch(image):
            raise ToolError(
                f"docker:{image[:120]!r} names no image; expected e.g. docker:lmsysorg/sglang:v0.5.9"
            )
        self.label = f"docker:{image}"
        self._image = image
        self._container = ""

    def open(self, work: Path) -> None:
        program = shutil.which("docker")
        if program is None:
            raise ToolError("docker is needed to read an image; install it, or give a folder", missing=True)
        self._docker, self._work = program, work
        try:
            told = json.loads(self._ask("image", "inspect", self._image))[0]
            self._variables = dict(one.partition("=")[::2] for one in told["Config"].get("Env") or [])
            self._id = str(told["Id"])
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise ToolError(f"docker does not tell what {self._image} is ({error!r})") from None

    def close(self) -> None:
        if self._container:
            with suppress(ToolError):
                self._ask("rm", "-f", self._container)
            self._container = ""

    def mark(self) -> str:
        return self._id

    def infos(self, site: Path) -> str:
        made = self._ask("create", self._image, "true").split()
        if not made or not re.fullmatch(r"[0-9a-zA-Z]{4,128}", made[-1]):
            raise ToolError(f"docker made no container of {self._image} to copy from")
        self._container = made[-1]
        for folder in self._candidates():
            try:
                found = list(self._copy(folder, site, info_of))
            except ToolError:
                continue  # no such folder
            if found:
                return folder
        raise ToolError(f"no folder with installed packages was found in {self._image}")

    def take(self, folder: str, names: Sequence[str], site: Path) -> None:
        for name in names:
            with suppress(ToolError):
                for _ in self._copy(f"{folder}/{name}", site, lambda path: path):
                    pass

    def changes(self, folder: str, work: Path) -> list[str]:
        return []  # git is there, if anywhere, and would have to run

    def _candidates(self) -> Iterator[str]:
        paths = [
            PurePosixPath(one) for one in self._variables.get("PATH", "").split(":") if one.startswith("/")
        ]
        prefixes = [self._variables.get("VIRTUAL_ENV", ""), *(str(path.parent) for path in paths), *_PREFIXES]
        for prefix in dict.fromkeys(one.rstrip("/") for one in prefixes if one.startswith("/")):
            for python in _PYTHONS:
                for kind in ("site-packages", "dist-packages"):
                    yield f"{prefix}/lib/{python}/{kind}"

    def _copy(self, path: str, site: Path, name_of: Naming) -> Iterator[str]:
        command = [self._docker, "cp", "--follow-link", f"{self._container}:{path}", "-"]
        with streamed(command, self._environment(), self._work) as stream:
            yield from unpack(stream, site, name_of)

    def _environment(self) -> dict[str, str]:
        return allowed_environment(os.environ, lambda name: name.startswith("DOCKER_"))

    def _ask(self, *words: str) -> str:
        out, errors = self._work / "answer", self._work / "errors"
        ended = run_child(
            [self._docker, *words],
            environment=self._environment(),
            folder=self._work,
            output=out,
            errors=errors,
            seconds=ANSWER_SECONDS,
        )
        if ended.code != 0:
            why = last_line(errors) or "it took too long"
            raise ToolError(
                f"docker {words[0]} failed ({why}); is it running, and is the image there?", missing=True
            )
        return out.read_text("utf-8", "replace")
