"""Paths of another machine → files of an environment.

Below ``site-packages`` a path is the environment's as it stands. Elsewhere (a checkout, a container's source
folder) it is the end of the path that begins with the name of one of the environment's packages and leads to
something that is there.
"""

from __future__ import annotations

import posixpath

from tools.source.tree import SourceTree

_LONGEST = 255
"""Bytes of a file's name."""
_DEEPEST = 100
"""Folders within folders."""
_PACKAGES = {"site-packages", "dist-packages"}


class Mapping:
    def __init__(self, tree: SourceTree) -> None:
        self.tree = tree
        self.tops = {
            entry.name
            for entry in tree.root.iterdir()
            if not entry.name.startswith(".") and not entry.name.endswith((".dist-info", ".data"))
        }

    def name(self, path: str, cwd: str | None) -> str | None:
        """The environment's name of ``path`` (which need not be there any more); None for what is not its."""
        full = posixpath.normpath(posixpath.join(cwd or "", path))
        parts = [part for part in full.split("/") if part]
        if not all(map(_can_be, parts)) or len(parts) > _DEEPEST:
            return None
        places = [place for place, part in enumerate(parts) if part in _PACKAGES]
        if places:
            inner = parts[places[-1] + 1 :]
            return "/".join(inner) if not inner or inner[0] in self.tops else None
        if any(part.startswith(".") and part != ".." for part in parts):
            return None  # caches and settings bear the names of packages too
        ends = [parts[place:] for place, part in enumerate(parts) if part in self.tops]
        if ends and len(ends[-1]) == 1 and not self._is_package(parts, cwd, path):
            ends.pop()
        for end in ends:
            if self._is_there(end):
                return "/".join(end)
        for end in ends:
            # Gone, if the folder that it stood in is one of a package and not the package's own top, which a
            # checkout's top is easily taken for.
            if len(end) > 2 and self._is_there(end[:-1]):
                return "/".join(end)
        return None

    def _is_package(self, parts: list[str], cwd: str | None, path: str) -> bool:
        """Whether a path that ends with a package's name is the package, rather than a checkout of it."""
        if len(parts) == 1:
            return cwd is None and posixpath.normpath(path) != "."
        return parts[-2] in self.tops or parts[-2] in {"python", "src"}

    def _is_there(self, parts: list[str]) -> bool:
        return (self.tree.root / "/".join(parts)).exists()


def _can_be(part: str) -> bool:
    """Whether a file can have this name. What a session says need not be one."""
    return "\0" not in part and len(part.encode("utf-8", "replace")) <= _LONGEST
