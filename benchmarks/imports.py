"""What importing sessions of other agents costs: a generated opencode session of about 6,000 messages in each
of its layouts, and 107 MB of Claude Code's JSON lines.

    python benchmarks/imports.py [--megabytes N] [--segments N] [--viewer COMMAND] [--json]

CPU (user + system), wall clock and memory of whole processes: the import, its index and its answer.
``--viewer`` names a viewer of such files (with ``{}`` where the file belongs) to stand beside it in the same
run; the peer that is always there reads the lines with ``json.loads``. Exit 1 if a budget is exceeded.
"""

from __future__ import annotations

import argparse
import json
import random
import shlex
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from measure import PROGRAM, Cost, run, tell

OPENCODE_S = 5.0
CLAUDE_S = 10.0
CLAUDE_MB = 200.0
PARSE = "import json, sys\nfor line in open(sys.argv[1], 'rb'): json.loads(line)"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--megabytes", type=float, default=107)
    parser.add_argument("--segments", type=int, default=39)
    parser.add_argument("--viewer", metavar="COMMAND", help="A viewer to measure too; {} is the file.")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    rows: list[dict[str, Any]] = []
    over: list[str] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        # In a process of its own: what this one holds, its children are said to have held too.
        generator = [sys.executable, str(Path(__file__).with_name("opencode_session.py"))]
        run([*generator, str(folder / "opencode"), "--segments", str(args.segments)], folder)
        for path in sorted((folder / "opencode").iterdir()):
            cost, seconds = _imported(path, folder / "home")
            rows.append(_row(f"import: opencode {path.name}", cost, seconds))
            if cost.cpu > OPENCODE_S:
                over.append(f"opencode {path.name}: {cost.cpu:.1f} s, at most {OPENCODE_S:g}")
        file = folder / "6f1c1d9e-0000-4000-8000-000000000000.jsonl"
        claude_code(file, int(args.megabytes * 1e6))
        cost, seconds = _imported(file, folder / "home")
        rows.append(_row("import: Claude Code", cost, seconds))
        if cost.cpu > max(1.0, CLAUDE_S * args.megabytes / 107):
            over.append(f"Claude Code: {cost.cpu:.1f} s, at most {CLAUDE_S:g}")
        if cost.memory > CLAUDE_MB:
            over.append(f"Claude Code: {cost.memory:.0f} MB, at most {CLAUDE_MB:g}")
        cost, seconds = _timed([sys.executable, "-c", PARSE, str(file)], folder)
        rows.append(_row("json.loads of each line", cost, seconds))
        if args.viewer:
            alone = folder / "alone" / "project"
            alone.mkdir(parents=True)
            shutil.copyfile(file, alone / file.name)
            command = [word.replace("{}", str(alone / file.name)) for word in shlex.split(args.viewer)]
            cost, seconds = _timed(command, folder / "home")
            rows.append(_row(f"viewer: {Path(command[0]).name}", cost, seconds))
    return tell(rows, over, args.json)


def _imported(path: Path, home: Path) -> tuple[Cost, float]:
    shutil.rmtree(home, ignore_errors=True)
    return _timed([*PROGRAM, "transcripts", "import", str(path)], home)


def _timed(command: list[str], home: Path) -> tuple[Cost, float]:
    start = time.monotonic()
    return run(command, home), time.monotonic() - start


def _row(name: str, cost: Cost, seconds: float) -> dict[str, Any]:
    return {"what": name, "cpu_s": round(cost.cpu, 2), "wall_s": round(seconds, 2), "mb": round(cost.memory)}


def claude_code(path: Path, size: int, seed: int = 11) -> None:
    """A session of so many bytes: answers in several records, results with their twins, progress between
    them."""
    chance = random.Random(seed)  # noqa: S311 - repeatable, not secret
    words = ["moe", "gemm", "fp4", "kernel", "launch", "error", "cutlass", "def", "return", "self", "tensor"]
    session, parent, number, written = path.stem, None, 0, 0
    with path.open("w", encoding="utf-8") as file:

        def add(kind: str, **more: Any) -> None:
            nonlocal parent, number, written
            number += 1
            uuid = f"{number:08x}-0000-4000-8000-000000000000"
            record = {"parentUuid": parent, "isSidechain": False, "userType": "external", "cwd": "/opt/work"}
            record |= {"sessionId": session, "version": "2.1.0", "type": kind, "uuid": uuid, **more}
            record["timestamp"] = (
                f"2026-02-{1 + number // 86400:02}T{number // 3600 % 24:02}:00:00.{number % 1000:03}Z"
            )
            line = json.dumps(record) + "\n"
            written += len(line)
            file.write(line)
            if kind != "progress":
                parent = uuid

        def said(count: int) -> str:
            return " ".join(chance.choices(words, k=count))

        while written < size:
            if chance.random() < 0.03:
                add("user", message={"role": "user", "content": said(40)})
            answer = {"id": f"msg_{number}", "role": "assistant", "model": "m-1"}
            usage = {"input_tokens": 5, "output_tokens": 300, "cache_read_input_tokens": 90_000}
            add(
                "assistant",
                message={**answer, "usage": usage, "content": [{"type": "text", "text": said(30)}]},
            )
            call = {
                "type": "tool_use",
                "id": f"toolu_{number}",
                "name": "Bash",
                "input": {"command": f"grep -rn {said(2)}"},
            }
            add("assistant", message={**answer, "usage": usage, "content": [call]})
            output = "\n".join(said(9) for _ in range(min(int(chance.lognormvariate(3.2, 1.2)), 900)))
            for _ in range(chance.randint(0, 2)):
                add(
                    "progress",
                    data={"type": "bash_progress", "output": output[-900:], "fullOutput": output[-900:]},
                )
            result = {"type": "tool_result", "tool_use_id": call["id"], "content": output, "is_error": False}
            twin = {"stdout": output, "stderr": "", "interrupted": False, "isImage": False}
            add("user", message={"role": "user", "content": [result]}, toolUseResult=twin)


if __name__ == "__main__":
    sys.exit(main())
