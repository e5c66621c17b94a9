"""What is not as it was published in a folder of someone else's: edited files, checkouts, local changes."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from memory.names import distribution
from tools.environment.adopt import edited
from tools.environment.changes import editable
from tools.environment.child import allowed_environment, run_child
from tools.errors import ToolError
from tools.source.tree import decode, name_of_info

DIFF_SECONDS = 60.0
MOST_DIFF = 8 << 20


@dataclass(frozen=True)
class Patches:
    """``edited``: files by package that are not what was installed; ``editable``: folder by package that is
    installed as a checkout; ``diff``: what a checkout has changed since its commit, as git shows it."""

    edited: dict[str, tuple[str, ...]]
    editable: dict[str, str]
    diff: str

    @property
    def none(self) -> bool:
        return not (self.edited or self.editable or self.diff)


def patches(root: Path, work: Path) -> Patches:
    """Of the packages in ``root``. ``work``: a folder for what git answers. ``root`` is only read."""
    changed: dict[str, tuple[str, ...]] = {}
    checkouts: dict[str, str] = {}
    for info in sorted(root.glob("*.dist-info")):
        name = distribution(name_of_info(info))
        if files := tuple(file for file, _ in edited(root, info / "RECORD")):
            changed[name] = files
        if folder := editable(info):
            checkouts[name] = folder
    places = [Path(folder) for folder in checkouts.values()] or [root]
    return Patches(changed, checkouts, "".join(local_diff(place, work) for place in dict.fromkeys(places)))


def local_diff(folder: Path, work: Path) -> str:
    """Local changes of the checkout that ``folder`` lies in; empty where it lies in none.

    Raises :class:`ToolError` where it is one and git cannot say.
    """
    if not any((each / ".git").exists() for each in (folder, *folder.parents)):
        return ""
    git = shutil.which("git")
    if git is None:
        raise ToolError(f"git is needed to tell what was changed in {folder}; install it", missing=True)
    out = work / "diff"
    # Nothing that the checkout sets up may run: no monitor, hook, pager, or program that makes diffs.
    safely = ["-c", "core.fsmonitor=false", "-c", f"core.hooksPath={os.devnull}", "--no-optional-locks"]
    show = ["diff", "--no-ext-diff", "--no-textconv", "--no-color", "HEAD", "--", "."]
    ended = run_child(
        [git, *safely, *show],
        environment=allowed_environment(os.environ)
        | {"GIT_CONFIG_NOSYSTEM": "1", "GIT_TERMINAL_PROMPT": "0"},
        folder=folder,
        output=out,
        errors=work / "diff.err",
        seconds=DIFF_SECONDS,
        most_output=MOST_DIFF,
    )
    if ended.code != 0:
        why = " ".join(decode((work / "diff.err").read_bytes()).split())[:200]
        raise ToolError(f"git cannot tell what was changed in {folder} ({why or 'it took too long'})")
    return decode(out.read_bytes())
