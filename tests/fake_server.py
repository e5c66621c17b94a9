"""A FAKE server, and a fake engine around it: no model, no kernel, no GPU; nothing it answers was measured.

As a program it takes the command line of an engine, writes such a server's log and answers such a server's
requests. ``fake`` in the model's config says how it behaves, see :class:`Behaviour`. As a module it
makes the packages (:func:`fake_engine`) and models (:func:`fake_model`) that tests hand to ``plan_launch``.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import asdict, dataclass, fields
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

WORDS = [
    "the",
    " river",
    " and",
    " a",
    " stone",
    " of",
    " light",
    " was",
    " green",
    " far",
    " in",
    " time",
    ".",
]


@dataclass(frozen=True)
class Behaviour:
    """Everything right by default. Requests are busy "together" from ``crowd`` on."""

    crash: str = ""
    """At the start: ``import``, ``memory``, ``port``, ``silent`` or ``kernel``, each with such a log;
    ``linger``: it says that its port is taken, and then does nothing more, but does not end."""
    crash_times: int = 1000
    """How many starts crash; those after that do not."""
    never_healthy: bool = False
    """Starts, logs, and then nothing more happens."""
    slow: int = 0
    """Lines of weights being loaded, a tenth of a second each, before it is healthy."""
    crowd: int = 32
    crash_in_crowd: bool = False
    nan_in_crowd: bool = False
    wrong_in_crowd: bool = False
    """Answers that are fluent, and not those that it gives to one request alone."""
    nan: bool = False
    degenerate: bool = False
    crash_after: int = 0
    """Requests for tokens that are answered; at the next it crashes."""
    hang_after: int = 0
    """Requests for tokens that are answered; after them none is, and ``/health`` still says 200."""
    refuse_after: int = 0
    """Requests for tokens that are answered; those after them are refused."""
    used: str = ""
    """Backend that the log says MoE layers have, whatever was asked for."""
    refused: str = ""
    """A backend with which it crashes at the start, for want of a package."""
    needs: str = ""
    """A backend without which it crashes at the start."""
    shares: str = ""
    """Name of shared memory that its scheduler has, and does not remove."""
    semaphore: bool = False
    """It makes one as engines do, by Python's multiprocessing, and writes its name beside the model."""
    orphan: bool = False
    """A scheduler in a session of its own, deaf to SIGTERM, that outlives the server."""
    random: bool = False
    """No answer is as the one before."""
    level: float = 0.0
    """Seconds that each token takes, in the stream as well."""

    @property
    def of_a_crowd(self) -> bool:
        """Whether anything happens in a crowd that does not happen otherwise."""
        return self.crash_in_crowd or self.nan_in_crowd or self.wrong_in_crowd


def fake_model(folder: Path, **behaviour: Any) -> Path:
    """A folder that counts as a model, for a server that behaves so."""
    folder.mkdir(parents=True, exist_ok=True)
    config = {
        "architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "hidden_size": 128,
        "head_dim": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
        "intermediate_size": 256,
        "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 64, "vocab_size": 512,
        "torch_dtype": "bfloat16", "max_position_embeddings": 2048,
    }  # fmt: skip
    config["fake"] = asdict(Behaviour(**behaviour))
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return folder


_SGLANG_ARGUMENTS = """\
from dataclasses import dataclass

MOE_CHOICES = ["auto", "triton", "marlin", "flashinfer_cutlass"]
ATTENTION_BACKEND_CHOICES = ["triton", "flashinfer", "fa3", "torch_native"]
FP4_GEMM_BACKEND_CHOICES = ["auto", "flashinfer_cutlass", "marlin"]


@dataclass
class ServerArgs:
    model_path: str

    @staticmethod
    def add_cli_args(parser):
        parser.add_argument("--model-path", "--model", type=str, required=True)
        parser.add_argument("--host", type=str, default="127.0.0.1")
        parser.add_argument("--port", type=int, default=30000)
        parser.add_argument("--api-key", type=str)
        parser.add_argument("--served-model-name", type=str)
        parser.add_argument("--tp-size", "--tensor-parallel-size", type=int, default=1)
        parser.add_argument("--dtype", type=str, default="auto")
        parser.add_argument("--quantization", type=str)
        parser.add_argument("--context-length", type=int)
        parser.add_argument("--mem-fraction-static", type=float)
        parser.add_argument("--load-format", type=str, default="auto")
        parser.add_argument("--device", type=str)
        parser.add_argument("--trust-remote-code", action="store_true")
        parser.add_argument("--enable-metrics", action="store_true")
        parser.add_argument("--disable-cuda-graph", action="store_true")
        parser.add_argument("--max-running-requests", type=int)
        parser.add_argument("--random-seed", type=int)
        parser.add_argument("--moe-runner-backend", type=str, choices=MOE_CHOICES, default="auto")
        parser.add_argument("--attention-backend", type=str, choices=ATTENTION_BACKEND_CHOICES)
        parser.add_argument("--fp4-gemm-backend", type=str, choices=FP4_GEMM_BACKEND_CHOICES, default="auto")
"""

_VLLM_ARGUMENTS = """\
MOE_BACKENDS = ["auto", "triton", "marlin", "flashinfer_cutlass"]
ATTENTION_BACKENDS = ["FLASH_ATTN", "FLASHINFER", "TRITON_ATTN"]


def add_cli_args(parser):
    parser.add_argument("--model", type=str)
    parser.add_argument("--host", type=str)
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--api-key", type=str)
    parser.add_argument("--served-model-name", type=str)
    parser.add_argument("--tensor-parallel-size", "-tp", type=int, default=1)
    parser.add_argument("--dtype", type=str, default="auto")
    parser.add_argument("--quantization", type=str)
    parser.add_argument("--max-model-len", type=int)
    parser.add_argument("--max-num-seqs", type=int)
    parser.add_argument("--gpu-memory-utilization", type=float)
    parser.add_argument("--load-format", type=str, default="auto")
    parser.add_argument("--enforce-eager", action="store_true")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--trust-remote-code", action="store_true")
    parser.add_argument("--moe-backend", type=str, choices=MOE_BACKENDS, default="auto")
    parser.add_argument("--attention-backend", type=str, choices=ATTENTION_BACKENDS)
"""

_ENGINES = {
    # name: file that declares options, its text, module that is started
    "sglang": ("sglang/srt/server_args.py", _SGLANG_ARGUMENTS, "sglang/launch_server.py"),
    "vllm": ("vllm/engine/arg_utils.py", _VLLM_ARGUMENTS, "vllm/entrypoints/cli/main.py"),
}
_PROGRAM = """\
import runpy
from pathlib import Path

runpy.run_path(str(Path(__file__).parents[{up}] / "fake_server.py"), run_name="__main__")
"""


def fake_engine(site: Path, engine: str = "sglang", version: str = "0.0.1") -> Path:
    """Packages of an engine that starts this program; the folder to adopt, and to give as ``site``."""
    options, text, program = _ENGINES[engine]
    for file, content in ((options, text), (program, _PROGRAM.format(up=program.count("/")))):
        path = site / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
        for folder in path.relative_to(site).parents:
            if folder.name:
                (site / folder / "__init__.py").touch()
    (site / "fake_server.py").write_text(Path(__file__).read_text("utf-8"), encoding="utf-8")
    info = site / f"{engine}-{version}.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {engine}\nVersion: {version}\n", "utf-8")
    (info / "RECORD").write_text("".join(f"{file},,\n" for file in (options, program)), "utf-8")
    return site


# --- the program --------------------------------------------------------------------------------------------


def log(engine: str, text: str, level: str = "INFO") -> None:
    when = time.localtime()
    if engine == "sglang":
        line = f"[{time.strftime('%Y-%m-%d %H:%M:%S', when)}] {text}"
    else:
        dressed = f"{level} {time.strftime('%m-%d %H:%M:%S', when)} [core.py:1]"
        line = f"(APIServer pid={os.getpid()}) {dressed} {text}"
    print(line, file=sys.stderr, flush=True)


TRACEBACK = """\
Traceback (most recent call last):
  File "/site/{engine}/srt/managers/scheduler.py", line 3110, in run_scheduler_process
    scheduler = Scheduler(server_args, port_args, gpu_id)
  File "/site/{engine}/srt/layers/attention/backend.py", line 41, in __init__
    {source}
{error}
"""
CRASHES = {
    "import": (
        "from sgl_kernel import flash_ops",
        "ImportError: cannot import name 'flash_ops' from 'sgl_kernel' (/site/sgl_kernel/__init__.py)",
    ),
    "memory": (
        "self.k_buffer = torch.empty(size)",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB.",
    ),
    "port": (
        "sock.bind((host, port))",
        "OSError: [Errno 98] error while attempting to bind on address: address already in use",
    ),
    "kernel": (
        "torch.cuda.synchronize()",
        "RuntimeError: CUDA error: an illegal memory access was encountered",
    ),
}


def arguments(words: list[str]) -> dict[str, str]:
    """Flags by name, without dashes; a first word that is no flag is the model."""
    found: dict[str, str] = {}
    rest = [word for word in words if word != "serve"]
    while rest:
        word = rest.pop(0)
        if not word.startswith("--"):
            found.setdefault("model", word)
            continue
        name, equals, value = word[2:].partition("=")
        if not equals:
            value = rest.pop(0) if rest and not rest[0].startswith("--") else "true"
        found["model" if name == "model-path" else name] = value
    return found


class Fake:
    """What is shared by all requests."""

    def __init__(self, engine: str, given: dict[str, str], behaviour: Behaviour) -> None:
        self.engine = engine
        self.given = given
        self.behaviour = behaviour
        self.key = given.get("api-key") or os.environ.get("VLLM_API_KEY")
        self.name = given.get("served-model-name", given["model"])
        self.healthy = False
        self.lock = threading.Condition()
        self.inside = 0
        self.arrived = 0.0
        self.gathered = False
        self.served = 0

    def enter(self) -> bool:
        """Whether the request is one of a crowd. One that is not alone waits until nobody comes any more, so
        that it does not depend on the machine's scheduler how many there are at a time."""
        with self.lock:
            self.inside += 1
            self.served += 1
            self.arrived = time.monotonic()
            self.lock.notify_all()
            # Where something is to happen in a crowd, one must come together, on however slow a machine.
            patience = 0.25 if self.gathered or not self.behaviour.of_a_crowd else 20.0
            while 1 < self.inside < self.behaviour.crowd and time.monotonic() - self.arrived < patience:
                self.lock.wait(0.05)
            crowd = self.inside >= self.behaviour.crowd
            self.gathered = self.gathered or crowd
            return crowd

    def leave(self) -> None:
        with self.lock:
            self.inside -= 1

    def tokens(self, prompt: str, count: int, crowd: bool) -> tuple[list[str], list[float]]:
        """Tokens and their log probabilities: always the same for a prompt."""
        seed = prompt + ("!" if crowd and self.behaviour.wrong_in_crowd else "")
        if self.behaviour.random:
            seed += str(self.served)
        words, numbers = [], []
        for place in range(count):
            digest = hashlib.sha256(f"{seed}/{place}".encode()).digest()
            words.append("!" if self.behaviour.degenerate else WORDS[digest[0] % len(WORDS)])
            numbers.append(round(-digest[1] / 64 - 0.01, 6))
        if self.behaviour.nan or (crowd and self.behaviour.nan_in_crowd):
            return ["!"] * count, [float("nan")] * count
        return words, numbers


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    fake: Fake

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        fake = self.fake
        path = self.path.partition("?")[0]
        if path in ("/health", "/health_generate"):
            return self.send(200 if fake.healthy else 503, {})
        if not self.allowed():
            return None
        if path == "/v1/models":
            return self.send(
                200, {"object": "list", "data": [{"id": fake.name, "object": "model", "max_model_len": 2048}]}
            )
        if path in ("/server_info", "/get_server_info") and fake.engine == "sglang":
            return self.send(
                200,
                {name.replace("-", "_"): value for name, value in fake.given.items()} | {"version": "0.0.1"},
            )
        if path == "/version" and fake.engine == "vllm":
            return self.send(200, {"version": "0.0.1"})
        return self.send(404, {"error": f"no {path}"})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"{}")
        if not self.allowed():
            return None
        path = self.path.partition("?")[0]
        if path in ("/flush_cache", "/reset_prefix_cache"):
            return self.send(200, {})
        if path not in ("/v1/completions", "/v1/chat/completions", "/generate"):
            return self.send(404, {"error": f"no {path}"})
        try:
            crowd = self.fake.enter()
            return self.answer(path, body, crowd)
        finally:
            self.fake.leave()

    def answer(self, path: str, body: dict[str, Any], crowd: bool) -> None:
        fake = self.fake
        if fake.behaviour.hang_after and fake.served > fake.behaviour.hang_after:
            threading.Event().wait()
        if 0 < fake.behaviour.refuse_after < fake.served:
            return self.send(400, {"error": "refused: planted"})
        late = 0 < fake.behaviour.crash_after < fake.served
        if late or (crowd and fake.behaviour.crash_in_crowd):
            source, error = CRASHES["kernel"]
            print(
                TRACEBACK.format(engine=fake.engine, source=source, error=error), file=sys.stderr, flush=True
            )
            os._exit(1)
        sampling = body.get("sampling_params") or {}
        count = int(
            body.get("max_tokens")
            or body.get("max_completion_tokens")
            or sampling.get("max_new_tokens")
            or 16
        )
        if path == "/v1/chat/completions":
            prompt = "\n".join(str(one.get("content")) for one in body.get("messages", ()))
        else:
            prompt = str(body.get("prompt", body.get("text", body.get("input_ids", ""))))
        words, numbers = fake.tokens(prompt, count, crowd)
        usage = {"prompt_tokens": len(prompt.split()), "completion_tokens": count}
        usage["total_tokens"] = sum(usage.values())
        if body.get("stream"):
            return self.stream(path, body, words, usage)
        time.sleep(fake.behaviour.level * count)
        text = "".join(words)
        if path == "/generate":
            meta = {
                "prompt_tokens": usage["prompt_tokens"],
                "completion_tokens": count,
                "finish_reason": {"type": "length"},
            }
            if body.get("return_logprob"):
                meta["output_token_logprobs"] = [
                    [n, i, w] for i, (n, w) in enumerate(zip(numbers, words, strict=True))
                ]
            return self.send(200, {"text": text, "meta_info": meta})
        choice: dict[str, Any] = {"index": 0, "finish_reason": "length"}
        if path == "/v1/completions":
            choice |= {"text": text, "logprobs": None}
            if body.get("logprobs") is not None:
                top = [
                    {word: number, " other": number - 1} for word, number in zip(words, numbers, strict=True)
                ]
                choice["logprobs"] = {
                    "tokens": words,
                    "token_logprobs": numbers,
                    "top_logprobs": top,
                    "text_offset": [],
                }
        else:
            choice["message"] = {"role": "assistant", "content": text}
            if body.get("logprobs"):
                content = [
                    {"token": w, "logprob": n, "top_logprobs": [{"token": w, "logprob": n}]}
                    for w, n in zip(words, numbers, strict=True)
                ]
                choice["logprobs"] = {"content": content}
        return self.send(
            200,
            {
                "id": "fake",
                "object": "text_completion",
                "created": 0,
                "model": fake.name,
                "choices": [choice],
                "usage": usage,
            },
        )

    def stream(self, path: str, body: dict[str, Any], words: list[str], usage: dict[str, int]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        whole = ""
        for place, word in enumerate(words, 1):
            time.sleep(self.fake.behaviour.level)
            whole += word
            finish = "length" if place == len(words) else None
            if path == "/generate":
                chunk: dict[str, Any] = {
                    "text": whole,
                    "meta_info": {"completion_tokens": place, "prompt_tokens": usage["prompt_tokens"]},
                }
            elif path == "/v1/completions":
                chunk = {
                    "id": "fake",
                    "model": self.fake.name,
                    "choices": [{"index": 0, "text": word, "finish_reason": finish}],
                }
            else:
                chunk = {
                    "id": "fake",
                    "model": self.fake.name,
                    "choices": [{"index": 0, "delta": {"content": word}, "finish_reason": finish}],
                }
            self.event(json.dumps(chunk))
        if (body.get("stream_options") or {}).get("include_usage"):
            self.event(json.dumps({"id": "fake", "model": self.fake.name, "choices": [], "usage": usage}))
        self.event("[DONE]")

    def event(self, text: str) -> None:
        self.wfile.write(f"data: {text}\n\n".encode())
        self.wfile.flush()

    def allowed(self) -> bool:
        if self.fake.key and self.headers.get("Authorization") != f"Bearer {self.fake.key}":
            self.send(401, {"error": "unauthorized"})
            return False
        return True

    def send(self, status: int, document: dict[str, Any]) -> None:
        data = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


class Listener(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = False
    request_queue_size = 256

    def handle_error(self, *_: Any) -> None:
        pass


SCHEDULER = """\
import signal, sys, time
if sys.argv[1] == "deaf":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if sys.argv[2:]:
    import mmap
    with open("/dev/shm/" + sys.argv[2], "w+b") as file:
        file.truncate(4096)
        shared = mmap.mmap(file.fileno(), 4096)
    print(flush=True)
time.sleep(600)
"""


def crash(engine: str, kind: str) -> None:
    if kind == "silent":
        os.kill(os.getpid(), signal.SIGKILL)
    if kind == "linger":
        log(engine, "[Errno 98] error while attempting to bind on address: address already in use", "ERROR")
        threading.Event().wait()
    source, error = CRASHES[kind]
    print(TRACEBACK.format(engine=engine, source=source, error=error), file=sys.stderr, flush=True)
    log(engine, "Subprocess scheduler_0 crashed with exit code 1. Triggering SIGQUIT for cleanup...", "ERROR")
    os._exit(1)


def semaphore_of(model: Path) -> tuple[list[int], object]:
    """What each process of such a program has of the one that removes what is left, and a semaphore."""
    import multiprocessing
    from multiprocessing.resource_tracker import _resource_tracker  # type: ignore[attr-defined]

    made: Any = multiprocessing.get_context("spawn").Semaphore()
    (model / "semaphore").write_text(made._semlock.name, "utf-8")
    return [_resource_tracker.getfd()], made


def main() -> None:
    engine = "vllm" if sys.argv[1:2] == ["serve"] else "sglang"
    given = arguments(sys.argv[1:])
    model = Path(given["model"])
    if not (model / "config.json").is_file():
        print(f"OSError: Can't load the configuration of '{model}'.", file=sys.stderr, flush=True)
        raise SystemExit(1)
    told = json.loads((model / "config.json").read_text("utf-8")).get("fake", {})
    behaviour = Behaviour(
        **{field.name: told[field.name] for field in fields(Behaviour) if field.name in told}
    )
    moe = given.get("moe-runner-backend") or given.get("moe-backend") or "auto"
    moe = behaviour.used or ("triton" if moe == "auto" else moe)
    log(engine, "A FAKE server: no model, no kernel, no GPU")
    shown = ", ".join(f"{name.replace('-', '_')}={value!r}" for name, value in given.items())
    log(engine, f"server_args=ServerArgs({shown})")
    # Schedulers are processes of their own, in engines as here.
    deaf = ["deaf"] if behaviour.orphan else ["hears"]
    shares = [behaviour.shares] if behaviour.shares else []
    cleaner, _semaphore = semaphore_of(model) if behaviour.semaphore else ([], None)
    scheduler = subprocess.Popen(
        [sys.executable, "-c", SCHEDULER, *deaf, *shares],
        start_new_session=behaviour.orphan,
        stdout=subprocess.PIPE,
        pass_fds=cleaner,
    )
    if shares:
        assert scheduler.stdout is not None
        scheduler.stdout.readline()
    lacking = behaviour.needs and behaviour.needs not in given.values()
    if lacking or (behaviour.refused and behaviour.refused in given.values()):
        scheduler.kill()
        crash(engine, "import")
    if behaviour.crash:
        starts = model / "starts"
        count = len(starts.read_text("utf-8")) if starts.exists() else 0
        starts.write_text("x" * (count + 1), "utf-8")
        if count < behaviour.crash_times:
            if not behaviour.orphan:
                scheduler.kill()
            crash(engine, behaviour.crash)
    if engine == "sglang":
        if "attention-backend" in given:
            log(engine, f"Using {given['attention-backend']} as attention backend for Qwen3MoeForCausalLM.")
        log(engine, f"Use {moe} as MoE runner backend on SM90")
        log(engine, "Load weight begin. avail mem=21.58 GB")
    else:
        log(engine, f"Using {given.get('attention-backend', 'FLASH_ATTN')} backend.")
        log(engine, f"Using {moe} Unquantized MoE backend out of potential backends: ['TRITON'].")
        log(engine, f"Starting to load model {model}...")
    for place in range(behaviour.slow):
        time.sleep(0.1)
        log(engine, f"Loading safetensors checkpoint shards: {place + 1}/{behaviour.slow}")
    if engine == "sglang":
        log(engine, "Load weight end. elapsed=0.02 s, type=Qwen3MoeForCausalLM")
        log(engine, "Capture decode CUDA graph begin. This can take up to several minutes.")
        log(engine, "Capture decode CUDA graph end. Time elapsed: 0.01 s.")
    else:
        log(engine, "Model loading took 0.1 GiB memory and 0.02 seconds")
    fake = Fake(engine, given, behaviour)
    Handler.fake = fake
    try:
        server = Listener(("127.0.0.1", int(given["port"])), Handler)
    except OSError:
        scheduler.kill()
        crash(engine, "port")
    if behaviour.never_healthy:
        log(engine, "Init torch distributed begin.")
    else:
        fake.healthy = True
        log(engine, "Application startup complete.")
        log(engine, "The server is fired up and ready to roll!")

    def stop(*_: Any) -> None:
        log(engine, "SIGTERM received. Draining requests and shutting down...")
        if not behaviour.orphan:
            scheduler.kill()
        os._exit(0)

    signal.signal(signal.SIGTERM, stop)
    server.serve_forever()


if __name__ == "__main__":
    main()
