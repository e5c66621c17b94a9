"""What is not as it was installed in a folder of packages, told without running anything. Quick to import."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import unquote, urlparse

from memory.names import distribution, few
from tools.environment.adopt import edited, packages_folder
from tools.source.tree import name_of_info, read_head


def has_checkouts(path: Path) -> bool:
    """Whether anything in a folder of packages is installed as a checkout."""
    try:
        if not path.is_dir():
            return False
        return any(editable(info) for info in packages_folder(path).glob("*.dist-info"))
    except (OSError, RuntimeError):
        return False


def told(root: Path, names: Iterable[str]) -> list[str]:
    """A line for each of the distributions ``names`` of which files are not as they were installed."""
    wanted, lines = {distribution(name) for name in names}, []
    for info in sorted(root.glob("*.dist-info")):
        name = distribution(name_of_info(info))
        files = [file for file, _ in edited(root, info / "RECORD")] if name in wanted else []
        if files:
            lines.append(f"{name} is not as it was installed: {few(files, 4)}")
    return lines


def editable(info: Path) -> str:
    """Where an editable install has its source; empty where it is none."""
    try:
        come = json.loads(read_head(info / "direct_url.json") or "{}")
        if come.get("dir_info", {}).get("editable") is True:
            return unquote(urlparse(str(come["url"])).path)
    except (ValueError, AttributeError, KeyError):
        return ""
    return ""
