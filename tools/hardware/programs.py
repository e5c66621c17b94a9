"""The version of a program on PATH, as it tells it itself."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from pathlib import Path

from tools.environment.child import allowed_environment, run_child
from tools.source.tree import read_head

NVCC = "nvcc"
SECONDS = 10.0
_VERSION = re.compile(r"release (\d[\w.]*)|\b(\d+\.\d[\w.+-]*)")


def version_of(program: str, seconds: float = SECONDS) -> str | None:
    """``program``: a name on PATH or a path. None where it is not there or does not run."""
    found = shutil.which(program)
    if found is None:
        return None
    with tempfile.TemporaryDirectory(prefix="assay-") as name:
        output = Path(name) / "version.txt"
        try:
            ended = run_child(
                [found, "--version"],
                environment=allowed_environment(os.environ),
                folder=Path(name),
                output=output,
                seconds=seconds,
                grace=0.5,
            )
        except OSError:
            return None
        text = read_head(output, 1 << 16)
    match = _VERSION.search(text)
    return (match.group(1) or match.group(2)) if match and ended.code == 0 and not ended.timed_out else None
