"""Tests of a release that run something of it, an import or a kernel on a GPU: for a person alone."""

from __future__ import annotations

import os
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memory.artifacts import Artifacts
from tools.environment.caches import cache_variables
from tools.environment.child import allowed_environment, run_child
from tools.environment.experiment import Outcome
from tools.environment.full import interpreter
from tools.environment.model import Environment
from tools.errors import ToolError
from tools.logs.reading import read_log
from tools.probe.kernel import ProbeKernel, probe_many
from tools.probe.pack import make_plan
from tools.probe.plan import cells_of

SECONDS = 600.0
"""For an import: what is compiled at the first one included."""
WORDS = 300
MODULE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")


@dataclass(frozen=True)
class Imports:
    """Whether a module can be imported; where not, what Python said."""

    module: str

    def run(self, context: Any, environment: Environment) -> Outcome:
        python = interpreter(environment)
        if python is None:
            raise _needs_interpreter(environment)
        with tempfile.TemporaryDirectory(prefix="assay-") as name:
            output = Path(name, "import.log")
            ended = run_child(
                [str(python), "-P", "-c", f"import {self.module}"],
                environment=allowed_environment(os.environ) | cache_variables(context.home, environment),
                folder=Path(name),
                output=output,
                seconds=SECONDS,
            )
            if ended.timed_out:
                return Outcome(f"no end in {SECONDS:.0f} s")
            if ended.code == 0:
                return Outcome("imports")
            with output.open("rb") as log:
                first = read_log(log).first
        if first is None:
            return Outcome(f"ended with {ended.code}")
        words = first.message.splitlines() or [""]
        return Outcome(f"import_failed, {first.error}: {words[0]}"[:WORDS])


@dataclass(frozen=True)
class Kernel:
    """What becomes of the kernels of a component with a backend, on a GPU of this machine."""

    component: str
    backend: str
    gpu: str | None = None

    def run(self, context: Any, environment: Environment) -> Outcome:
        if interpreter(environment) is None:
            raise _needs_interpreter(environment)
        cells = cells_of(environment, [self.component], [self.backend])
        plan = make_plan(environment, cells)
        kept = Artifacts(context.home.artifacts).put(plan.text().encode())
        asked = [
            ProbeKernel(environment=environment.name, plan=kept, cell=cell.id, gpu=self.gpu) for cell in cells
        ]
        results = probe_many(context, asked)
        return Outcome(", ".join(f"{one.cell.id} {one.outcome.value}" for one in results))


def _needs_interpreter(environment: Environment) -> ToolError:
    return ToolError(
        f"{environment.name} is only read; this test runs in a full environment: "
        "agent environment create --full --name N, then -e N",
        missing=True,
    )
