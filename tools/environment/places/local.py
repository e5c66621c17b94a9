"""A virtual environment here whose engine or kernel libraries are installed as checkouts."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from memory.canonical import sha256_of
from tools.environment.adopt import adopt, packages_folder
from tools.environment.changes import editable
from tools.environment.patches import local_diff
from tools.environment.places.place import MOST_BYTES
from tools.errors import ToolError

_PASSED = shutil.ignore_patterns("__pycache__", ".git")


class Local:
    def __init__(self, path: Path) -> None:
        self.label = str(path)
        self._path = path

    def open(self, work: Path) -> None:
        pass

    def close(self) -> None:
        pass

    def mark(self) -> str:
        root = packages_folder(self._path.absolute())
        checkouts = {where for info in root.glob("*.dist-info") if (where := editable(info))}
        return sha256_of(
            [adopt(self._path).fingerprint, *(_told(Path(where)) for where in sorted(checkouts))]
        )

    def infos(self, site: Path) -> str:
        root = packages_folder(self._path.absolute())
        for info in sorted(root.glob("*.dist-info")):
            shutil.copytree(info, site / info.name, ignore=_PASSED)
        return str(root)

    def take(self, folder: str, names: Sequence[str], site: Path) -> None:
        for name in names:
            source = Path(folder) / name
            if source.is_dir():
                if _size(source) > MOST_BYTES:
                    raise ToolError(f"{source} has more than {MOST_BYTES >> 30} GB")
                shutil.copytree(
                    source, site / name, ignore=_PASSED, dirs_exist_ok=True, ignore_dangling_symlinks=True
                )
            elif source.is_file():
                shutil.copyfile(source, site / name)

    def changes(self, folder: str, work: Path) -> list[str]:
        try:
            text = local_diff(Path(folder), work)
        except ToolError:
            return []  # no git, or a checkout that it does not read: the files count as they are
        return [line[6:] for line in text.splitlines() if line.startswith("+++ b/")]


def _told(folder: Path) -> str:
    try:
        return adopt(folder).fingerprint
    except ToolError:
        return "none"


def _size(folder: Path) -> int:
    size = 0
    for base, _, files in os.walk(folder):
        size += sum(os.stat(f"{base}/{file}", follow_symlinks=False).st_size for file in files)  # noqa: PTH116
        if size > MOST_BYTES:
            break
    return size
