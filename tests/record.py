"""Record the investigations in ``transcripts/recorded`` anew, over the network:
``python -P tests/record.py``.

Needed when the planner decides otherwise than it did (``agent replay`` then shows where), or when the format
is a new one. They are real: the wheels of the index, the program as it is. Where a model decided, its answers
are given again as they stand in the recording, over HTTP; where they do not fit any more, somebody has to
decide anew.
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
sys.path.append(str(ROOT / "tests"))

from scripted_model import ScriptedModel, Step  # noqa: E402

RECORDED = ROOT / "transcripts" / "recorded"
SESSIONS = {
    "seed-sm120": ["qwen3.5 nvfp4 on sm120", "sglang==0.5.9", "flashinfer-python==0.6.5"],
    "newest-sm120": ["qwen3.5 nvfp4 on sm120"],
    "newest-sm90": ["qwen3 30b a3b fp8 on h200"],
}
"""Name of the file → question and packages, as at the command line."""
BY_MODEL = RECORDED / "by_model"
"""Those in which a model decided."""


def record(name: str, arguments: list[str], home: Path, folder: Path = RECORDED, **variables: str) -> None:
    environment = {**os.environ, "ASSAY_HOME": str(home), "PYTHONPATH": str(ROOT), **variables}
    done = subprocess.run(
        [sys.executable, "-P", "-m", "agent.cli.main", "investigate", *arguments, "--json"],
        env=environment, stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    path = home / "transcripts" / f"{json.loads(done.stdout)['transcript']}.jsonl"
    keep(path, home, folder / f"{name}.jsonl")


def keep(path: Path, home: Path, kept: Path) -> None:
    """Put a transcript of ``home`` in its place, and what it points to beside it."""
    kept.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(path, kept)
    for line in path.read_bytes().splitlines():
        data = json.loads(line)["data"]
        for sha256 in filter(None, (data.get("artifact"), data.get("tools"))):
            artifact = kept.parent / "artifacts" / sha256[:2] / sha256[2:]
            artifact.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(home / "artifacts" / sha256[:2] / sha256[2:], artifact)


def asked_again(path: Path) -> list[str]:
    """The question of a recording, with the versions that it was about: its model has read these."""
    told = [json.loads(line)["data"] for line in path.read_bytes().splitlines()]
    (understood,) = [one for one in told if one["kind"] == "understood"]
    return [told[0]["question"], *(f"{name}=={version}" for name, version in understood["packages"].items())]


def answers(path: Path) -> list[Step]:
    """What the model of a recording said."""
    said = [json.loads(line)["data"] for line in path.read_bytes().splitlines()]
    messages = [one["message"] for one in said if one["kind"] == "said" and one["message"]]
    return [Step(one["content"], one.get("tool_calls", ())) for one in messages if one["role"] == "assistant"]


def main() -> None:
    shutil.rmtree(RECORDED / "artifacts", ignore_errors=True)
    for path in RECORDED.glob("*.jsonl"):  # what ran on a GPU, in probes, is not made again here
        path.unlink()
    for name, arguments in SESSIONS.items():
        # One home each: what the one finds would otherwise be known to the next.
        with tempfile.TemporaryDirectory(prefix="assay-") as folder:
            record(name, arguments, Path(folder))
    decided = {path.stem: (asked_again(path), answers(path)) for path in BY_MODEL.glob("*.jsonl")}
    shutil.rmtree(BY_MODEL / "artifacts", ignore_errors=True)
    for name, (arguments, steps) in decided.items():
        with tempfile.TemporaryDirectory(prefix="assay-") as folder, ScriptedModel(steps) as model:
            asked = [*arguments, "--driver", "llm", "--model", "relay"]
            record(name, asked, Path(folder), BY_MODEL, OPENAI_BASE_URL=model.url, OPENAI_API_KEY="none")


if __name__ == "__main__":
    main()
