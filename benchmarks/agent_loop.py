"""What a step with a model costs beside asking the model: CPU a step, and memory, in 400 steps.

    python benchmarks/agent_loop.py [--steps N] [--peer mini=PYTHON] [--peer pydantic-ai=PYTHON] [--json]

A server on loopback asks for one call of a tool that does nothing, so and so often. Every loop is a process
of its own, run with N/8 and with N steps in turns: a step is the difference, so that starting up counts for
none. The floor is the openai client with the history as it is typed. A peer is named with an interpreter that
has it: mini-swe-agent, pydantic-ai. Ours writes and syncs a transcript meanwhile. Exit 1 if it is over its
budget.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from measure import run, tell

MOST_CPU = 3.0
"""Milliseconds a step."""
MOST_MEMORY = 80 * 1.048576
"""MB: 80 MiB."""
LOOPS = Path(__file__).with_name("loops.py")
MOST_GROWTH = 2.0
"""How many times a late step may cost what an early one does."""

ENDS = {"bash": ("bash", {"command": "echo THE_END"})}
"""How a loop is ended that knows no answer without a call."""

PEERS = ("mini", "pydantic-ai")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--peer", action="append", default=[], metavar="NAME=PYTHON")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    loops = {"assay": sys.executable, "openai, typed history": sys.executable}
    for one in args.peer:
        name, _, python = one.partition("=")
        if name not in PEERS or not python:
            parser.error(f"{one!r} is no peer; expected NAME=PYTHON, NAME one of {', '.join(PEERS)}")
        loops[name] = python
    few, half, all_of = args.steps // 8, args.steps // 2, args.steps
    cpu: dict[tuple[str, int], list[float]] = {}
    memory: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder, Served() as url:
        for repeat in range(args.repeats):
            for name, python in loops.items():
                for steps in (few, half, all_of):
                    home = Path(folder, f"{len(cpu)}-{repeat}")
                    cost = run([python, str(LOOPS), name, url, str(steps), str(home)], home)
                    cpu.setdefault((name, steps), []).append(cost.cpu)
                    memory[name] = max(memory.get(name, 0.0), cost.memory)
                    print(f"{name}, {steps} steps: {cost.cpu:.2f} s of CPU", file=sys.stderr, flush=True)
    rows: list[dict[str, object]] = []
    over: list[str] = []
    for name in loops:
        took = {steps: statistics.median(cpu[name, steps]) for steps in (few, half, all_of)}
        early = 1000 * (took[half] - took[few]) / (half - few)
        late = 1000 * (took[all_of] - took[half]) / (all_of - half)
        each = 1000 * (took[all_of] - took[few]) / (all_of - few)
        rows.append(
            {
                "loop": name,
                "CPU ms a step": f"{each:.2f}",
                "first half": f"{early:.2f}",
                "second half": f"{late:.2f}",
                "memory": f"{memory[name]:.0f} MB",
            }
        )
        if name == "assay":
            over += [f"assay: {each:.2f} ms a step"] if each > MOST_CPU else []
            over += [f"assay: {memory[name]:.0f} MB"] if memory[name] > MOST_MEMORY else []
            over += ["assay: late steps cost more"] if late > MOST_GROWTH * max(early, 1.0) else []
    return tell(rows, over, args.json)


class Served:
    """The server, in a process of its own; its address."""

    def __enter__(self) -> str:
        self._process = subprocess.Popen(
            [sys.executable, __file__, "server"], stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


class Handler(BaseHTTPRequestHandler):
    """``/STEPS/TOOL/v1``: asks for ``TOOL`` until a conversation has so many answers, then ends it."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        _, steps, tool, *_ = self.path.split("/")
        # Counted, not parsed: what the server does must not grow with the conversation.
        done = body.count(b'"tool_call_id"')
        name, given = (tool, {"text": f"{done}"}) if done < int(steps) else ENDS.get(tool, (tool, {}))
        message: dict[str, Any] = {"role": "assistant", "content": None}
        ended = done >= int(steps) and tool not in ENDS
        if tool == "bash" and not ended and done < int(steps):
            given = {"command": f"echo {done}"}
        if ended and tool == "conclude":
            raise AssertionError
        if ended and b'"conclude"' in body:
            name, given, ended = (
                "conclude",
                {"result": "answered", "account": "Nothing was done here."},
                False,
            )
        if ended:
            message["content"] = "done"
        else:
            function = {"name": name, "arguments": json.dumps(given)}
            call = {"index": 0, "id": f"call-{done}", "type": "function", "function": function}
            message["tool_calls"] = [call]
        choice = {"index": 0, "finish_reason": "stop" if ended else "tool_calls"}
        usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
        about = {"id": "x", "created": 0, "model": "mock", "usage": usage}
        if b'"stream":true' in body.replace(b" ", b""):
            chunk = {**about, "object": "chat.completion.chunk", "choices": [{**choice, "delta": message}]}
            data, kind = f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n".encode(), "text/event-stream"
        else:
            whole = {**about, "object": "chat.completion", "choices": [{**choice, "message": message}]}
            data, kind = json.dumps(whole).encode(), "application/json"
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


def server() -> None:
    served = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(f"http://127.0.0.1:{served.server_address[1]}", flush=True)
    served.serve_forever()


if __name__ == "__main__":
    if sys.argv[1:] == ["server"]:
        server()
    else:
        sys.exit(main())
