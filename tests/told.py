"""Sessions of another agent, written for tests as that agent writes them: a JSON line a record."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

HOST = "ssh root@192.0.2.7"
LOG = "/opt/sglang.log"


class Told:
    """A session under construction; each method returns the number that its event has when imported."""

    def __init__(self, name: str = "told") -> None:
        self.name = name
        self._records: list[dict[str, Any]] = []
        self._events = 0
        self._calls = 0

    def asks(self, text: str) -> int:
        """The person says something."""
        return self._record("user", text, 1)

    def says(self, text: str) -> int:
        """The agent says something and does nothing."""
        return self._record("assistant", [{"type": "text", "text": text}], 1)

    def runs(self, command: str, output: str, *, failed: bool = False, text: str = "") -> int:
        """The agent runs a command. The number of the call's event; its result is two further on."""
        return self.uses("Bash", {"command": command}, output, failed=failed, text=text)

    def uses(
        self, tool: str, given: dict[str, Any], output: str, *, failed: bool = False, text: str = ""
    ) -> int:
        self._calls += 1
        name = f"toolu_{self._calls:04d}"
        say = [{"type": "text", "text": text}] if text else []
        use = {"type": "tool_use", "id": name, "name": tool, "input": given}
        # The answer is an event, and the call another.
        call = self._record("assistant", [*say, use], 2) + 1
        if failed:
            output = f"Exit code 1\n{output}"
        result = {"type": "tool_result", "tool_use_id": name, "content": output, "is_error": failed}
        self._record("user", [result], 2)
        return call

    def write(self, folder: Path) -> Path:
        path = folder / f"{self.name}.jsonl"
        path.write_text("".join(f"{json.dumps(record)}\n" for record in self._records), encoding="utf-8")
        return path

    def _record(self, role: str, content: Any, events: int) -> int:
        number = len(self._records)
        self._records.append(
            {
                "type": role,
                "uuid": f"u{number:06d}",
                "parentUuid": f"u{number - 1:06d}" if number else None,
                "sessionId": self.name,
                "timestamp": f"2026-03-07T{number // 3600:02d}:{number // 60 % 60:02d}:{number % 60:02d}Z",
                "cwd": "/root",
                "version": "2.0.0",
                "isSidechain": False,
                "message": {"role": role, "id": f"msg_{number:06d}", "content": content},
            }
        )
        first = self._events
        self._events += events
        return first


def investigation() -> tuple[Told, dict[str, int]]:
    """An engineer's hunt for a backend, as an agent did it, and the numbers of the events that matter."""
    told = Told("hunt")
    at: dict[str, int] = {}
    at["request"] = told.asks("update all to nightly, then find the FP4 GEMM that works")
    at["gpu"] = told.runs(
        f"{HOST} 'nvidia-smi --query-gpu=name,memory.total --format=csv,noheader'",
        "NVIDIA RTX PRO 6000 Blackwell Server Edition, 97887 MiB\n" * 8,
    )
    at["install"] = told.runs(
        f"{HOST} 'uv pip install --upgrade sglang==0.5.9 flashinfer-python==0.6.5'",
        "Resolved 148 packages in 1.11s\n - flashinfer-python==0.6.4\n + flashinfer-python==0.6.5\n"
        " + sglang==0.5.9\n",
    )
    at["grep"] = told.runs(
        f"{HOST} \"grep -rn 'is_sm120_supported' /opt/sglang/srt/layers/quantization\"",
        "/opt/sglang/srt/layers/quantization/fp4_utils.py:38:    if is_sm120_supported():\n",
    )
    at["read"] = told.runs(
        f"{HOST} \"sed -n '30,60p' /opt/sglang/srt/layers/quantization/fp4_utils.py\"",
        "def fp4_gemm_runner():\n    if is_sm120_supported():\n"
        "        raise ValueError('MXFP8 dense linear requires Blackwell GPUs (SM100+).')\n",
        text="Which backend does the code choose?",
    )
    at["launch"] = told.runs(
        f"{HOST} 'nohup python -m sglang.launch_server --model-path /models/q35 --quantization modelopt_fp4 "
        f"--fp4-gemm-backend flashinfer_cutlass --moe-runner-backend flashinfer_cutlass > {LOG} 2>&1 &'",
        "",
    )
    at["log"] = told.runs(f"{HOST} 'tail -n 50 {LOG}'", "The server is fired up and ready to roll!\n")
    at["figures"] = told.runs(
        f"{HOST} 'python -m sglang.bench_serving --backend sglang --port 30000 --max-concurrency 64 "
        '| grep -E "throughput|TPOT"\'',
        "Output token throughput (tok/s):         2810.22\nMedian TPOT (ms):                        18.20\n",
    )
    at["crash"] = told.runs(
        f"{HOST} 'tail -n 100 {LOG}'",
        "[2026-03-07 19:22:11 TP3] Scheduler hit an exception: Traceback (most recent call last):\n"
        '  File "/opt/sglang/srt/layers/sampler.py", line 72, in forward\n    raise ValueError(\n'
        "ValueError: Detected errors during sampling! NaN in the logits.\n\n"
        "[2026-03-07 19:22:12] Received sigquit from a child process. It usually means the child failed.\n",
        failed=True,
    )
    at["trtllm"] = told.runs(
        f"{HOST} 'python -m sglang.launch_server --model-path /m --fp4-gemm-backend flashinfer_trtllm'",
        'Traceback (most recent call last):\n  File "/opt/flashinfer/utils.py", line 1176, in wrapper\n'
        "    raise BackendSupportedError(\nflashinfer.utils.BackendSupportedError: mm_fp4 does not support "
        "backend 'trtllm' with capability 120\n",
        failed=True,
    )
    at["again"] = told.runs(
        f"{HOST} \"sed -n '50,90p' /opt/sglang/srt/layers/quantization/fp4_utils.py\"",
        "def fp4_gemm_autotune():\n    return is_sm120_supported()\n",
    )
    at["end"] = told.says("flashinfer_cutlass gives NaN under load, flashinfer_trtllm is refused.")
    return told, at
