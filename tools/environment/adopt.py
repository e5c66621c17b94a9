"""A folder of someone else's, read in place: a ``site-packages``, a virtual environment, or a checkout.

Nothing in it is imported or changed, and few files are hashed: a folder may hold 30,000 of them. What
installed packages are is taken from the ``RECORD`` of each ``*.dist-info``, and from the source files that
are not any more what it says; a checkout is told by its git commit and by the names, sizes and times of
its files.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import os
import re
import tomllib
from pathlib import Path

from memory.canonical import sha256_of
from memory.names import distribution
from tools.environment.model import Environment
from tools.errors import ToolError
from tools.source.tree import READ_LIMIT, SourceTree, read_head

_VERSION = re.compile(r"""^_?_?version_?_?[ \t]*(?::[ \t]*str[ \t]*)?=[ \t]*['"]([^'"\s]{1,100})['"]""", re.M)
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,100}[A-Za-z0-9])?")
_HEAD = 1 << 20
"""Bytes that are read of a file which says what a folder is."""
_NESTED = ("python", "src")
"""Where repositories keep their packages when not at the top."""
_SKIPPED = {"__pycache__", "tests", "test", "docs", "benchmark", "benchmarks", "examples", "node_modules"}


def adopt(path: Path) -> Environment:
    """The environment that lies unpacked at ``path``. Raises :class:`ToolError` where there is none."""
    if not path.is_dir():
        what = f"{path} is a file" if path.exists() else f"no folder {path}"
        raise ToolError(f"{what}; expected a folder with unpacked packages", missing=not path.exists())
    try:
        root = packages_folder(path)
        packages = {distribution(name): version for name, version in SourceTree(root).packages.items()}
        marks = _recorded(root) if packages else []
        if not packages:
            packages = _checked_out(root)
            marks = [_commit(root), _stat_signature(root)]
    except OSError as error:
        raise ToolError(f"cannot read {path} ({error.strerror or error}); check its permissions") from error
    if not packages:
        raise ToolError(
            f"no packages in {path}; expected a site-packages folder with *.dist-info, "
            "a virtual environment, or a checkout with package folders"
        )
    python, platform = built_for(root)
    return Environment(
        name=path.name or str(path),
        kind="adopted",
        path=str(root),
        platform=platform,
        python=python,
        packages=dict(sorted(packages.items())),
        fingerprint=sha256_of(
            {"adopted": sorted(packages.items()), "platform": platform, "python": python, "marks": marks}
        ),
    )


def packages_folder(path: Path) -> Path:
    if any(path.glob("*.dist-info")):
        return path
    for pattern in ("lib/python3*/site-packages", "lib64/python3*/site-packages", "Lib/site-packages"):
        for folder in sorted(path.glob(pattern)):
            if any(folder.glob("*.dist-info")):
                return folder
    if not _package_folders(path):
        for name in _NESTED:
            if (path / name).is_dir() and _package_folders(path / name):
                return path / name
    return path


def _package_folders(root: Path) -> list[Path]:
    """Folders that can be imported. A folder that is itself a package holds parts of one, not packages."""
    if (root / "__init__.py").is_file():
        return []
    return [
        folder
        for folder in sorted(root.iterdir())
        if folder.name.isidentifier() and folder.name not in _SKIPPED and (folder / "__init__.py").is_file()
    ]


def _recorded(root: Path) -> list[str]:
    """One hash for each installed distribution: its list of hashed files, and where it came from."""
    marks = []
    for info in sorted(root.glob("*.dist-info")):
        sha = hashlib.sha256(info.name.encode())
        for name in ("RECORD", "direct_url.json"):
            if (info / name).is_file():
                sha.update((info / name).read_bytes())
        for path, content in edited(root, info / "RECORD"):
            sha.update(f"{path}\0{content}\0".encode())
        marks.append(sha.hexdigest())
    return marks


def edited(root: Path, record: Path) -> list[tuple[str, str]]:
    """Source files that were changed since they were installed, and the hash of what is there now.

    An installer writes ``RECORD`` last: a file of the size that it states, and not younger, is as it was.
    """
    try:
        installed, found = record.stat().st_mtime_ns, []
        rows = list(csv.reader(read_head(record).splitlines()))
    except (OSError, csv.Error):
        return []
    for row in rows:
        if len(row) < 3 or not row[0].endswith(".py") or not row[1].startswith("sha256="):
            continue
        try:
            # There may be 30,000 of them: a path is only made of one that was changed.
            state = os.stat(f"{root}/{row[0]}")  # noqa: PTH116
            if state.st_mtime_ns <= installed and row[2] == str(state.st_size):
                continue
            path = root / row[0]
            # A record is foreign text: it may name a pipe, or a file that is none of the folder's.
            outside = root.resolve() not in path.resolve().parents
            if outside or not path.is_file() or state.st_size > READ_LIMIT:
                found.append((row[0], f"{state.st_size} {state.st_mtime_ns}"))
                continue
            digest = hashlib.sha256(path.read_bytes()).digest()
        except (OSError, ValueError):
            found.append((row[0], "missing"))
            continue
        if base64.urlsafe_b64encode(digest).rstrip(b"=").decode() != row[1].removeprefix("sha256="):
            found.append((row[0], digest.hex()))
    return found


def _checked_out(root: Path) -> dict[str, str]:
    """Version by name of the packages in a checkout; the project's own name where there is just one."""
    folders = _package_folders(root)
    project = _project(root)
    found = {}
    for folder in folders:
        version = _declared_version(folder) or project.get("version") or "unknown"
        name = project.get("name") if len(folders) == 1 else None
        found[distribution(name or folder.name)] = version
    return found


def _project(root: Path) -> dict[str, str]:
    """``name`` and ``version`` that a ``pyproject.toml`` states as such."""
    for folder in (root, root.parent):
        if text := read_head(folder / "pyproject.toml", _HEAD):
            try:
                table = tomllib.loads(text).get("project")
            except (tomllib.TOMLDecodeError, RecursionError):
                return {}
            stated = table if isinstance(table, dict) else {}
            shapes = {"name": _NAME, "version": re.compile(r"\S{1,100}")}
            return {
                key: stated[key]
                for key, shape in shapes.items()
                if isinstance(stated.get(key), str) and shape.fullmatch(stated[key])
            }
    return {}


def _declared_version(package: Path) -> str | None:
    for name in ("version.py", "_version.py", "_build_meta.py", "__init__.py"):
        if match := _VERSION.search(read_head(package / name, 1 << 16)):
            return match.group(1)
    return None


def _commit(root: Path) -> str:
    """The commit a checkout is at, read without running git; empty where it is none.

    Where that cannot be told, the name of the branch: an edit of a file still shows in the signature.
    """
    for folder in (root, *root.parents):
        git = folder / ".git"
        if git.is_file():  # a worktree or a submodule points elsewhere
            git = folder / read_head(git, _HEAD).removeprefix("gitdir:").strip()
        head = read_head(git / "HEAD", _HEAD).strip()
        if not head:
            continue
        if not head.startswith("ref:"):
            return head
        reference = head.removeprefix("ref:").strip()
        # The branches of a worktree are those of the repository that it belongs to.
        common = git / (read_head(git / "commondir", _HEAD).strip() or ".")
        if commit := read_head(common / reference, _HEAD).strip():
            return commit
        packed = re.search(
            rf"^([0-9a-f]{{40,64}}) {re.escape(reference)}$", read_head(common / "packed-refs"), re.M
        )
        return packed.group(1) if packed else reference
    return ""


def _stat_signature(root: Path) -> str:
    """Hash over path, size and modification time of every file in the package folders: an edit shows."""
    sha = hashlib.sha256()
    pending = [str(folder) for folder in _package_folders(root)]
    lines = []
    while pending:
        with os.scandir(pending.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    if entry.name != "__pycache__":
                        pending.append(entry.path)
                elif entry.is_file(follow_symlinks=False):
                    stat = entry.stat(follow_symlinks=False)
                    lines.append(f"{entry.path[len(str(root)) :]}\0{stat.st_size}\0{stat.st_mtime_ns}")
    for line in sorted(lines):
        sha.update(line.encode("utf-8", "surrogateescape") + b"\n")
    return sha.hexdigest()


def built_for(root: Path, path: str | None = None) -> tuple[str, str]:
    """Python version and platform, from the folder's path (of a copy: ``path``) and the wheels' tags."""
    named = re.search(r"python(3\.\d+)", path or str(root))
    python = named.group(1) if named else "unknown"
    platform = "unknown"
    for wheel in sorted(root.glob("*.dist-info/WHEEL")):
        for tag in re.findall(r"^Tag: *([^\s-]+)-([^\s-]+)-([^\s-]+) *$", read_head(wheel, _HEAD), re.M):
            if tag[2] != "any" and platform == "unknown":
                platform = tag[2]
            if python == "unknown" and (match := re.fullmatch(r"cp3(\d+)", tag[0])) and tag[1] == tag[0]:
                python = f"3.{match.group(1)}"
    return python, platform
