"""Transcripts with findings, made by hand, and the rows that a database holds of them."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from memory.canonical import finding_id
from memory.clock import FixedClock
from memory.home import Home
from memory.vocabulary import Because, Claim, Evidence, Finding, HypothesisState, Level, Row, Target, Verdict
from transcripts.events import Concluded, Found, HypothesisChanged, Opened, Understood
from transcripts.log import Log

EVIDENCE = Evidence(
    package="flashinfer-python", version="0.6.5", file="flashinfer/jit/fused_moe.py", line=251, end_line=253,
    sha256="ab" * 32, text="supported_major_versions=[10]", idiom="jit_major_versions",
)  # fmt: skip
CLAIM = Claim(
    component="moe_runner", backend="alpha_kernels", arch="sm120", engine="sglang",
    packages={"flashinfer-python": "0.6.5", "sglang": "0.5.9"}, scenario={"quantisation": "nvfp4"},
    level=Level.STATIC, verdict=Verdict.BLOCKED, because=Because.ARCHITECTURE, source_evidence=(EVIDENCE,),
)  # fmt: skip


def finding(**changes: Any) -> Finding:
    claim = CLAIM.model_copy(update=changes)
    return Finding(id=finding_id(claim.model_dump(mode="json")), claim=claim, transcript="", event=0)


def write(home: Home, name: str, findings: list[Finding], day: int = 1, *, conclude: bool = True) -> Path:
    """A transcript with a question, a hypothesis, ``findings``, and an end."""
    path = home.transcripts / f"{name}.jsonl"
    opened = Opened(investigation=name, program="assay-agent 0.1.0", driver="planner", question="q", seed=1)
    target = Target(question="q", model="m", quantisation="nvfp4", arch="sm120")
    row = Row(component="moe_runner", backend="alpha_kernels", arch="sm120", verdict=Verdict.BLOCKED)
    with Log.create(path, opened, FixedClock(f"2026-01-{day:02}T00:00:00.000Z")) as log:
        log.append(Understood(target=target, environment="env", packages={"sglang": "0.5.9"}))
        for state in (HypothesisState.OPEN, HypothesisState.PREDICTED):
            log.append(
                HypothesisChanged(
                    id="h1", component="moe_runner", backend="alpha_kernels", arch="sm120", state=state,
                    because=f"it is {state.value}", row=row if state is HypothesisState.PREDICTED else None,
                )
            )  # fmt: skip
        for item in findings:
            log.append(Found(finding=item))
        if conclude:
            log.append(Concluded(exit_reason="answered", exit_code=0, summary="done"))
    return path


def rows(home: Home) -> dict[str, list[tuple[Any, ...]]]:
    """Every row of every table, sorted: the content of the database."""
    with closing(sqlite3.connect(home.findings_db)) as connection:
        # What an index of words is kept in depends on the order of writing; its words are those of the rows.
        tables = "SELECT name FROM pragma_table_list WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
        names = [name for (name,) in connection.execute(tables)]
        return {n: sorted(connection.execute(f"SELECT * FROM {n}"), key=repr) for n in names}  # noqa: S608
