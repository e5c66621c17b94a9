"""One filled-in sample of every contract model and every event body, and the files that hold them."""

from __future__ import annotations

import json
from pathlib import Path

from pydantic import TypeAdapter

from memory.vocabulary import (
    Answer,
    Because,
    Capsule,
    CapsuleEvent,
    Claim,
    Condition,
    Contract,
    Effect,
    EnvironmentSummary,
    EventEvidence,
    Evidence,
    Finding,
    FindingStatus,
    FirstGate,
    HypothesisState,
    Level,
    Measurement,
    NotRun,
    Observed,
    Outcome,
    Recommendation,
    Report,
    Row,
    Scope,
    Target,
    Verdict,
)
from transcripts.chain import encode
from transcripts.events import (
    GENESIS,
    Answered,
    Asked,
    Body,
    Called,
    Concluded,
    Event,
    Found,
    HypothesisChanged,
    Noted,
    Opened,
    Resumed,
    Returned,
    Said,
    Steered,
    Understood,
)

FOLDER = Path(__file__).parent

EVIDENCE = Evidence(
    package="kernel-lib", version="1.2.3", file="kernel_lib/gates.py", line=10, end_line=12, sha256="0a" * 32,
    text="def gate(major):\n    return major in (10,)  # „ü“", idiom="capability_decorator",
)  # fmt: skip
CONDITION = Condition(fact="cudnn_backend", op=">=", value=91002)
GATE = FirstGate(verdict=Verdict.NO_STATIC_OBSTACLE, file="engine/options.py", line=3)
OBSERVED = Observed(level=Level.PROBE, outcome=Outcome.NAN, experiment="c7")
ROW = Row(
    component="fp4_gemm", backend="alpha", arch="sm120", verdict=Verdict.REROUTED,
    because=Because.ARCHITECTURE, runs_instead="beta",
    conditions=(CONDITION, Condition(fact="dtype", op="in", value=["a", None, True, 1.5])),
    first_gate=GATE, observed=OBSERVED, state=HypothesisState.REFUTED, evidence=(EVIDENCE,),
)  # fmt: skip
RECOMMENDATION = Recommendation(
    command="engine serve --fp4-gemm beta", tested=False, ranked_by=("static verdict",),
    alternatives=("gamma",),
)  # fmt: skip
TARGET = Target(
    question="model x nvfp4 on sm120", model="x", model_classes=("XForCausalLM",), quantisation="nvfp4",
    arch="sm120", gpu="RTX PRO 6000 Blackwell", gpu_count=8, engine="engine", packages={"engine": "1.0"},
    assumed=("engine: the newest version",),
)  # fmt: skip
SUMMARY = EnvironmentSummary(packages={"engine": "1.0"}, name="engine-1.0", fingerprint="0b" * 32)
NOT_RUN = NotRun(level=Level.PROBE, what="a kernel of beta", command="agent probe beta", minutes=0.5)
ANSWER = Answer(
    investigation="20260101-abcdef", target=TARGET, environment=SUMMARY, backends=(ROW,),
    recommendation=RECOMMENDATION, not_run=(NOT_RUN,), transcript="20260101-abcdef",
)  # fmt: skip
EVENT_EVIDENCE = EventEvidence(
    transcript="20260101-abcdef", head="0c" * 32, event=4, excerpt='said "nan"', sha256="0d" * 32
)
MEASUREMENT = Measurement(
    metric="throughput", value=812.5, unit="tok/s", event=4, json_pointer="/output/throughput"
)
SCOPE = Scope(
    archs=("sm121",), ranges={"kernel-lib": "<1.3"}, model="x", quantisation="nvfp4",
    gpu="RTX PRO 6000 Blackwell", gpu_count=8, driver="580.1",
)  # fmt: skip
REPORT = Report(url="https://example.org/1", date="2026-01-01", by="maintainer", note="„ü“ at 64 requests")
CAPSULE_EVENT = CapsuleEvent(transcript="20260101-abcdef", line="{}")
CAPSULE = Capsule(
    events=(CAPSULE_EVENT,), spans={"0a" * 32: "x"}, wholes={"0e" * 32: "{}"}, judged={"backend": "alpha"}
)  # fmt: skip
CLAIM = Claim(
    component="fp4_gemm", backend="alpha", arch="sm120", engine="engine",
    packages={"engine": "1.0", "kernel-lib": "1.2.3"}, scenario={"quantisation": "nvfp4"}, level=Level.PROBE,
    verdict=Verdict.BLOCKED, outcome=Outcome.CRASHED, because=Because.DEPENDENCY, runs_instead="beta",
    conditions=(CONDITION,), source_evidence=(EVIDENCE,), event_evidence=(EVENT_EVIDENCE,),
    measurements=(MEASUREMENT,), scope=SCOPE, report=REPORT,
)  # fmt: skip
FINDING = Finding(
    id="0123456789abcdef", claim=CLAIM, status=FindingStatus.CURRENT, transcript="20260101-abcdef", event=5
)

CONTRACTS: tuple[Contract, ...] = (
    EVIDENCE, CONDITION, GATE, OBSERVED, ROW, RECOMMENDATION, TARGET, SUMMARY, NOT_RUN, ANSWER,
    EVENT_EVIDENCE, MEASUREMENT, SCOPE, REPORT, CAPSULE_EVENT, CAPSULE, CLAIM, FINDING,
)  # fmt: skip

BODIES: tuple[Body, ...] = (
    Opened(
        investigation="20260101-abcdef", program="assay-agent 0.1.0", driver="planner",
        question="model x nvfp4 on sm120", seed=7, options={"run": None}, parent="20251231-abcdef@12",
        redacted=2,
    ),
    Understood(target=TARGET, environment="engine-1.0", packages={"engine": "1.0"}),
    HypothesisChanged(
        id="0a1b2c3d", component="fp4_gemm", backend="alpha", arch="sm120", state=HypothesisState.PREDICTED,
        because="the source reroutes it", row=ROW, causes=(3,),
    ),
    Called(
        call="c1", tool="read_source", effect=Effect.READS, input={"file": "a.py"}, why="to see the gate",
        rung="static", hypothesis="0a1b2c3d",
    ),
    Returned(
        call="c1", status="ok", output={"text": "„ü“\n", "throughput": 812.5}, error=None, artifact="0e" * 32,
        artifact_bytes=123456,
    ),
    Found(finding=FINDING, capsule=CAPSULE),
    Said(id="0f" * 32, parent="1a" * 32, message={"role": "user", "content": "„ü“"}, artifact=None),
    Said(id="1b" * 32, parent=None, message=None, artifact="1c" * 32),
    Asked(request="r1", model="m", head="0f" * 32, settings={"temperature": 0}, tools="1d" * 32),
    Answered(
        request="r1", status="ok", head="1e" * 32, error=None, usage={"total_tokens": 12}, waited=1.5,
    ),
    Steered(message="0f" * 8, asks="skip", component="fp4_gemm", backend="alpha"),
    Noted(text="a warning"),
    Concluded(exit_reason="interrupted", exit_code=130, summary="interrupted", answer=None),
    Resumed(program="assay-agent 0.1.0", driver="planner", cut=17, open=("c2",), again=("c3",),
            llm={"budget": {"steps": 20}}),
    Concluded(exit_reason="answered", exit_code=0, summary="beta is a candidate", answer=ANSWER),
)  # fmt: skip

TRANSCRIPT = "transcript.jsonl"
"""All event bodies of format 1 as one log, chain included."""


def contract_file(sample: Contract) -> str:
    return f"{type(sample).__name__}.json"


def schema_file(model: type[Contract]) -> str:
    return f"{model.__name__}.schema.json"


def documents() -> dict[str, str]:
    """File name → its text, as the code makes it now."""
    made = {contract_file(sample): sample.model_dump_json(indent=2) + "\n" for sample in CONTRACTS}
    for model in (*(type(sample) for sample in CONTRACTS), *(type(body) for body in BODIES), Event):
        made[schema_file(model)] = _schema(TypeAdapter(model))
    made[TRANSCRIPT] = transcript()
    return made


def transcript() -> str:
    """The bodies as the lines of a log, one second apart."""
    lines, prev = [], GENESIS
    for seq, body in enumerate(BODIES):
        line, prev = encode(seq, f"2026-01-01T00:00:{seq:02}.000Z", body.model_dump(mode="json"), prev)
        lines.append(line.decode())
    return "".join(lines)


def _schema(adapter: TypeAdapter[Contract]) -> str:
    return json.dumps(_plain(adapter.json_schema(mode="serialization")), indent=1, sort_keys=True) + "\n"


def _plain(value: object) -> object:
    """A schema without prose, since docstrings may be made better without a new format, and without what
    versions of pydantic write differently for the same model."""
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if not isinstance(value, dict):
        return value
    kept = {
        key: _plain(item)
        for key, item in value.items()
        if not (key in {"description", "title"} and isinstance(item, str))
        and not (key == "additionalProperties" and item is True)
        and not (key == "enum" and "const" in value)
    }
    if isinstance(only := kept.get("allOf"), list) and len(only) == 1 and isinstance(only[0], dict):
        del kept["allOf"]
        kept |= only[0]
    return kept
