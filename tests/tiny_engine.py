"""A tiny engine for tests: an installed package shaped like a real one, and a fake trace over it.

The backends are named after nothing, so that no test can pass because a name is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field

from memory.vocabulary import (
    Because,
    Condition,
    Contract,
    Effect,
    FirstGate,
    Row,
    Verdict,
)
from tools.base import Tool, ToolError
from tools.environment.store import open_environment

SERVER_ARGS = """\
from dataclasses import dataclass

FP4_GEMM_BACKEND_CHOICES = ["auto", "amber", "birch", "cedar"]
MOE_RUNNER_BACKEND_CHOICES = ["auto", "amber", "birch", "dune"]
ATTENTION_BACKEND_CHOICES = ["elm", "fern"]


@dataclass
class ServerArgs:
    model_path: str
    fp4_gemm_backend: str = "auto"
    moe_runner_backend: str = "auto"
    attention_backend: str | None = None

    @staticmethod
    def add_cli_args(parser):
        parser.add_argument("--model-path", type=str, required=True)
        parser.add_argument(
            "--fp4-gemm-backend",
            type=str,
            choices=FP4_GEMM_BACKEND_CHOICES,
            default=ServerArgs.fp4_gemm_backend,
        )
        parser.add_argument(
            "--moe-runner-backend",
            type=str,
            choices=MOE_RUNNER_BACKEND_CHOICES,
            default=ServerArgs.moe_runner_backend,
        )
        parser.add_argument(
            "--attention-backend",
            type=str,
            choices=ATTENTION_BACKEND_CHOICES,
            default=ServerArgs.attention_backend,
        )
"""

GATES = '''\
from sglang.srt.server_args import ServerArgs


def pick(server_args: ServerArgs, major: int):
    """What decides."""
    if server_args.fp4_gemm_backend == "cedar" and major != 10:
        raise ValueError("cedar needs 10.x")
    return server_args.fp4_gemm_backend
'''

MODEL = """\
class Qwen3_5ForConditionalGeneration:
    pass


EntryClass = Qwen3_5ForConditionalGeneration
"""


def write_engine(root: Path, version: str = "9.9.0") -> Path:
    """The package unpacked in ``root`` (a ``site-packages`` shape); returns ``root``."""
    files = {
        "sglang/__init__.py": "",
        "sglang/srt/__init__.py": "",
        "sglang/srt/server_args.py": SERVER_ARGS,
        "sglang/srt/gates.py": GATES,
        "sglang/srt/models/__init__.py": "",
        "sglang/srt/models/qwen3_5.py": MODEL,
    }
    info = f"sglang-{version}.dist-info"
    files[f"{info}/METADATA"] = f"Metadata-Version: 2.1\nName: sglang\nVersion: {version}\n"
    files[f"{info}/RECORD"] = "".join(f"{name},,\n" for name in [*files, f"{info}/RECORD"])
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root


class FakeTraceInput(BaseModel):
    environment: str
    component: str
    backend: str
    arch: str
    engine: str = "sglang"
    model_classes: list[str] = []
    quantisation: str | None = None
    scenario: dict[str, str] = Field(default_factory=dict)


class FakeTrace(Contract):
    row: Row
    hops: tuple[dict[str, Any], ...] = ()
    scenario: dict[str, str] = Field(default_factory=dict)
    notes: tuple[str, ...] = ()


VERDICTS = {
    ("fp4_gemm", "auto"): Verdict.REROUTED,
    ("fp4_gemm", "amber"): Verdict.NO_STATIC_OBSTACLE,
    ("fp4_gemm", "birch"): Verdict.NO_STATIC_OBSTACLE,
    ("fp4_gemm", "cedar"): Verdict.BLOCKED,
    ("moe_runner", "auto"): Verdict.UNKNOWN,
    ("moe_runner", "amber"): Verdict.BLOCKED,
    ("moe_runner", "birch"): Verdict.NO_STATIC_OBSTACLE,
    ("moe_runner", "dune"): Verdict.NOT_APPLICABLE,
    ("attention", "elm"): Verdict.NO_STATIC_OBSTACLE,
    ("attention", "fern"): Verdict.UNKNOWN,
}


def fake_trace(
    args: FakeTraceInput, context: Any, verdicts: dict[tuple[str, str], Verdict] | None = None
) -> FakeTrace:
    """A verdict out of a table, with real lines of the tiny engine as evidence."""
    tree = open_environment(context.home, args.environment).tree()
    verdict = (verdicts or VERDICTS)[args.component, args.backend]
    decided = verdict not in {Verdict.UNKNOWN, Verdict.NOT_APPLICABLE}
    blocked = verdict is Verdict.BLOCKED
    return FakeTrace(
        row=Row(
            component=args.component,
            backend=args.backend,
            arch=args.arch,
            verdict=verdict,
            because=Because.ARCHITECTURE if blocked else None,
            runs_instead="birch" if verdict is Verdict.REROUTED else None,
            conditions=(Condition(fact="library", op=">=", value=3),) if args.backend == "amber" else (),
            first_gate=FirstGate(verdict=Verdict.NO_STATIC_OBSTACLE, file="sglang/srt/server_args.py", line=3)
            if blocked
            else None,
            evidence=(tree.evidence("sglang/srt/gates.py", 6, 7, idiom="fake"),) if decided else (),
        ),
        scenario={"quantisation": args.quantisation or "none", **args.scenario},
    )


FAKE_TRACE: Tool[Any, Any] = Tool(
    name="trace_viability",
    description="A fake.",
    input=FakeTraceInput,
    result=FakeTrace,
    effect=Effect.READS,
    run=fake_trace,
)


def fake_trace_many(context: Any, inputs: Sequence[FakeTraceInput]) -> list[FakeTrace]:
    return [fake_trace(one, context) for one in inputs]


def failing_trace(args: FakeTraceInput, context: Any) -> FakeTrace:
    """Fails for one backend as expected errors do, for another as a bug does."""
    if args.backend == "cedar":
        raise ToolError("cannot follow cedar")
    if args.backend == "birch":
        raise ZeroDivisionError("a bug")
    return fake_trace(args, context)
