"""Record the investigations in ``transcripts/recorded`` anew, over the network:
``python -P tests/record.py``.

Needed when the planner decides otherwise than it did (``agent replay`` then shows where), or when the format
is a new one. They are real: the wheels of the index, the program as it is.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
RECORDED = ROOT / "transcripts" / "recorded"
SESSIONS = {
    "seed-sm120": ["qwen3.5 nvfp4 on sm120", "sglang==0.5.9", "flashinfer-python==0.6.5"],
    "newest-sm120": ["qwen3.5 nvfp4 on sm120"],
    "newest-sm90": ["qwen3 30b a3b fp8 on h200"],
}
"""Name of the file → question and packages, as at the command line."""


def record(name: str, arguments: list[str], home: Path) -> None:
    environment = {**os.environ, "ASSAY_HOME": str(home), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-P", "-m", "agent.cli.main", "investigate", *arguments, "--json"],
        env=environment, stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    path = home / "transcripts" / f"{json.loads(done.stdout)['transcript']}.jsonl"
    shutil.copyfile(path, RECORDED / f"{name}.jsonl")
    for line in path.read_bytes().splitlines():
        if sha256 := json.loads(line)["data"].get("artifact"):
            kept = RECORDED / "artifacts" / sha256[:2] / sha256[2:]
            kept.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(home / "artifacts" / sha256[:2] / sha256[2:], kept)


def main() -> None:
    shutil.rmtree(RECORDED / "artifacts", ignore_errors=True)
    for path in RECORDED.glob("*.jsonl"):  # what ran on a GPU, in probes, is not made again here
        path.unlink()
    for name, arguments in SESSIONS.items():
        # One home each: what the one finds would otherwise be known to the next.
        with tempfile.TemporaryDirectory(prefix="assay-") as folder:
            record(name, arguments, Path(folder))


if __name__ == "__main__":
    main()
