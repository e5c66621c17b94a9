"""What a large knowledge base costs: many findings with evidence from real packages, by the public import.

    python -P benchmarks/knowledge.py -e SITE-PACKAGES [--against SITE-PACKAGES] [--findings N] [--json]

Makes an export of N findings that cite lines of the packages in the folder, imports it with `agent findings
import -e` into an empty home, and asks it: searches, lists, the matrix, and `stale` on 10,000 of them. Prints
times and sizes, and how each query goes through the database. Exit 1 if a budget is exceeded.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from memory.canonical import finding_id  # noqa: E402
from memory.home import Home  # noqa: E402
from memory.views import Views  # noqa: E402
from memory.vocabulary import Because, Claim, Finding, Level, Verdict  # noqa: E402
from tools.environment.adopt import adopt  # noqa: E402
from tools.findings.share import written  # noqa: E402
from tools.findings.stale import check  # noqa: E402

SEARCH_MS, LIST_MS, CLI_MS, STALE_S = 60.0, 20.0, 400.0, 2.0
"""Budgets: a search (95 of 100) and a list in the database, CPU of the command, 10,000 findings checked."""
COMPONENTS = ("attention", "fp4_gemm", "fp8_gemm", "moe_runner", "allreduce", "kv_cache")
ARCHS = ("sm80", "sm89", "sm90", "sm100", "sm103", "sm120", "sm121")
VERDICTS = (Verdict.BLOCKED, Verdict.REROUTED, Verdict.NO_STATIC_OBSTACLE)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("-e", "--environment", required=True)
    parser.add_argument("--against", help="Other packages to check findings against; else the same.")
    parser.add_argument("--findings", type=int, default=100_000)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        home = Home(Path(name) / "home").prepare()
        os.environ["ASSAY_HOME"] = str(home.root)
        export = Path(name) / "export.json"
        generate(export, args.environment, args.findings)
        result: dict[str, Any] = {"export_mb": export.stat().st_size / 1e6}
        result |= imported(home, export, args.environment, args.findings)
        result |= asked(home)
        result |= checked(home, args.environment, args.against or args.environment)
        plans = query_plans(home)
    over = [
        key
        for key, most in {
            "search_p95_ms": SEARCH_MS, "list_ms": LIST_MS, "cli_search_cpu_ms": CLI_MS,
            "stale_10000_warm_s": STALE_S,
        }.items()
        if result[key] > most
    ]  # fmt: skip
    if args.json:
        print(json.dumps({**result, "plans": plans, "over_budget": over}))
    else:
        for key, value in result.items():
            print(f"{key:24} {value:10.1f}")
        for key, lines in plans.items():
            print(f"{key}: {'; '.join(lines)}")
    return 1 if over else 0


def generate(path: Path, environment: str, count: int) -> None:
    """An export of ``count`` different findings; each cites three of some thousand places."""
    chance = random.Random(7)  # noqa: S311 - repeatable
    where = adopt(Path(environment))
    tree = where.tree()
    files = [
        file.relative_to(tree.root).as_posix()
        for file in sorted(tree.root.rglob("*.py"))
        if 2000 < file.stat().st_size < 200_000
    ]
    chosen = chance.sample(files, min(len(files), 400))
    spans = []
    for file in chosen:
        lines = tree.lines(file)
        gates = [
            at for at, line in enumerate(lines, start=1) if line.strip().startswith(("if ", "return ", "@"))
        ]
        spans += [tree.evidence(file, at, idiom="compare") for at in chance.sample(gates, min(8, len(gates)))]
    spans = [
        span for span in spans if where.packages.get(span.package) == span.version and "…" not in span.text
    ]
    engine = next(name for name in ("sglang", "vllm", *where.packages) if name in where.packages)
    packages = {engine: where.packages[engine]}

    def findings() -> Any:
        for number in range(count):
            cited = tuple(chance.sample(spans, 3))
            verdict = VERDICTS[number % 3]
            claim = Claim(
                component=COMPONENTS[number % 6], backend=f"backend_{number % 97}", arch=ARCHS[number % 7],
                engine=engine, packages={**packages, **{one.package: one.version for one in cited}},
                scenario={"quantization": f"scheme_{number % 1009}"}, level=Level.STATIC, verdict=verdict,
                because=Because.ARCHITECTURE if verdict is Verdict.BLOCKED else None, source_evidence=cited,
            )  # fmt: skip
            name = finding_id(claim.model_dump(mode="json"))
            row = {"sentence": "", "origin": "own", "recorded_at": ""}
            yield row, Finding(id=name, claim=claim, transcript="t", event=number), None

    with path.open("w", encoding="utf-8") as out:
        out.writelines(f"{line}\n" for line in written(findings(), "benchmark"))


def imported(home: Home, export: Path, environment: str, count: int) -> dict[str, float]:
    seconds, cpu, said = agent("findings", "import", str(export), "-e", environment, "--json")
    done = json.loads(said)
    assert len(done["new"]) == count, (
        len(done["new"]),
        done["refused"][:3],
        list(done["reports"].items())[:3],
    )
    assert not done["reports"], list(done["reports"].items())[:3]
    log = sum(path.stat().st_size for path in home.transcripts.iterdir())
    return {
        "import_s": seconds, "import_cpu_s": cpu,
        "import_peak_mb": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e3,
        "database_mb": home.findings_db.stat().st_size / 1e6, "log_mb": log / 1e6,
    }  # fmt: skip


def asked(home: Home) -> dict[str, float]:
    chance = random.Random(11)  # noqa: S311
    views = Views(home)
    words = (
        "moe_runner", "backend_7", "blocked", "sm120", "architecture", "return", "scheme_12", "capability",
        "quantization", "if not", "fused", "attention triton", "no static obstacle",
    )  # fmt: skip
    times = []
    for number in range(100):
        text = words[number % len(words)]
        equal = {"arch": chance.choice(ARCHS)} if number % 2 else {"component": chance.choice(COMPONENTS)}
        times.append(timed(lambda text=text, equal=equal: views.search(text, limit=20, **equal)))
    times += [timed(lambda text=text: views.search(text, limit=20)) for text in words]
    lists = [
        timed(lambda given=given: views.findings(limit=200, disputed=True, **given))
        for given in (
            {}, {"component": "moe_runner"}, {"arch": "sm120"}, {"component": "fp4_gemm", "arch": "sm90"},
            {"component": "attention", "backend": "backend_3", "arch": "sm100"},
        )
        for _ in range(5)
    ]  # fmt: skip
    _, cpu, _ = agent("findings", "search", "backend_7", "capability", "--arch", "sm120")
    _, listed, _ = agent("findings", "list", "--limit", "50")
    times.sort()
    lists.sort()
    return {
        "search_p50_ms": times[len(times) // 2], "search_p95_ms": times[int(len(times) * 0.95)],
        "search_max_ms": times[-1], "list_ms": lists[int(len(lists) * 0.95)],
        "matrix_ms": timed(views.matrix),
        "cli_search_cpu_ms": cpu * 1e3, "cli_list_cpu_ms": listed * 1e3,
    }  # fmt: skip


def checked(home: Home, environment: str, against: str) -> dict[str, float]:
    views = Views(home)
    before, now = adopt(Path(environment)), adopt(Path(against))
    found = {}
    for name in ("cold", "warm"):
        started = time.process_time()
        rows = views.findings(limit=10_000, disputed=True)
        counted = len(list(check(home, views, rows, now, None, before)))
        found[f"stale_10000_{name}_s"] = time.process_time() - started
        assert counted == len(rows)
    return found


def query_plans(home: Home) -> dict[str, list[str]]:
    queries = {
        "list": "SELECT * FROM v_findings WHERE status = 'current' ORDER BY seen_at DESC, transcript DESC,"
        " event DESC LIMIT 200",
        "list by arch": "SELECT * FROM v_findings WHERE arch = 'sm120' AND status = 'current'"
        " ORDER BY seen_at DESC, transcript DESC, event DESC LIMIT 200",
        "show": "SELECT * FROM v_findings WHERE id = 'x'",
        "evidence": "SELECT * FROM v_evidence WHERE finding = 'x' ORDER BY number",
    }
    with closing(sqlite3.connect(home.findings_db)) as connection:
        return {
            name: [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {sql}")]
            for name, sql in queries.items()
        }


def timed(work: Callable[[], Any]) -> float:
    """Milliseconds of CPU: of this machine others have the rest."""
    started = time.process_time()
    work()
    return (time.process_time() - started) * 1e3


def agent(*args: str) -> tuple[float, float, str]:
    """Wall and CPU seconds of the command, and what it says."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(
        [sys.executable, "-P", "-m", "agent.cli.main", *args],
        capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.monotonic() - started, cpu, done.stdout


if __name__ == "__main__":
    sys.exit(main())
