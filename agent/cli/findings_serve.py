"""``agent findings serve``: the database in Datasette, with prepared queries and facets. Read only, for this
machine alone."""

from __future__ import annotations

import json
import os
import socket
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

from agent.cli.common import CommandError, progress, the_home
from agent.cli.findings_rows import views_of

INSTALL = "pip install 'assay-agent[serve]'"
HOST = "127.0.0.1"
NAMES = (HOST, "localhost", "[::1]")
"""What a browser may call this machine; another name in a request is refused."""
HTTP = 80
"""The port that nobody names."""
PLUGINS = Path(__file__).parents[1] / "serving"

_VIEWS: dict[str, dict[str, Any]] = {
    "v_findings": {
        "facets": ["component", "arch", "level", "status", "verdict", "outcome", "engine", "origin"],
        "sort_desc": "seen_at",
    },
    "v_experiments": {"facets": ["tool", "level", "outcome", "status"]},
    "v_hypotheses": {"facets": ["component", "state", "arch"]},
    "v_evidence": {"facets": ["package", "version", "idiom"]},
    "v_investigations": {"facets": ["driver", "exit_reason", "engine", "arch"], "sort_desc": "opened_at"},
}
_QUERIES: dict[str, tuple[str, str]] = {
    "matrix": (
        "The best evidence for each backend",
        "SELECT component, backend, arch, level, verdict, outcome, id, max(CASE level WHEN 'report' THEN 0"
        " WHEN 'static' THEN 1 WHEN 'compile' THEN 2 WHEN 'probe' THEN 3 WHEN 'server' THEN 4"
        " WHEN 'stress' THEN 5 ELSE 6 END) AS rung FROM v_findings WHERE status = 'current'"
        " GROUP BY component, backend, arch",
    ),
    "contradictions": (
        "What contradicts each other while nothing has decided",
        "SELECT component, backend, arch, packages, scenario, level, verdict, outcome, id FROM v_findings"
        " WHERE status = 'contradicted' AND replaced_by IS NULL ORDER BY component, backend, arch, packages",
    ),
    "failures": (
        "What ran and failed, or is reported to have failed",
        "SELECT outcome, level, component, backend, arch, packages, url, sentence, id FROM v_findings"
        " WHERE status = 'current' AND outcome NOT IN ('ok', 'not_run') ORDER BY outcome, component, backend",
    ),
    "words": (
        "Findings with these words",
        "SELECT v.* FROM words w JOIN findings f ON f.rowid = w.rowid JOIN v_findings v ON v.id = f.id"
        " WHERE words MATCH :words ORDER BY bm25(words) LIMIT 100",
    ),
    "cost": (
        "What experiments cost, by tool and outcome",
        "SELECT tool, outcome, count(*) AS experiments, round(sum(seconds), 1) AS seconds,"
        " round(sum(gpu_seconds), 1) AS gpu_seconds FROM v_experiments GROUP BY tool, outcome",
    ),
    "chain": (
        "The evidence of a finding, by its id",
        "SELECT * FROM v_evidence WHERE finding = :finding ORDER BY number",
    ),
}
_TABLES = (
    "findings", "positions", "sightings", "evidence", "measurements", "experiments", "hypotheses",
    "investigations", "folded", "words", "words_data", "words_idx", "words_docsize", "words_config",
)  # fmt: skip


@click.command()
@click.option("--port", type=click.IntRange(0, 65535), default=8001, metavar="N", help="0: any that is free.")
def serve(port: int) -> int:
    """Look through the findings in a browser, with Datasette: facets, prepared queries, SQL. Read only.

    Datasette is an extra: pip install 'assay-agent[serve]'. It listens on 127.0.0.1 alone; Ctrl-C ends it.

    \b
    Examples:
      agent findings serve
      agent findings serve --port 0
    """
    if find_spec("datasette") is None:
        raise CommandError(f"Datasette is not installed here; bring it with: {INSTALL}", 3)
    home = the_home().prepare()
    views_of(home)
    if not home.findings_db.exists():
        raise CommandError("there are no findings yet; see: agent investigate --help", 3)
    described = home.root / "datasette.json"
    chosen = _port(port)
    try:
        described.write_text(json.dumps(metadata(chosen), indent=1), encoding="utf-8")
    except OSError as error:
        raise CommandError(f"cannot write {described}: {error.strerror or error}", 3) from error
    progress(f"the findings are at http://{HOST}:{chosen}/findings; Ctrl-C ends it")
    settings = {"sql_time_limit_ms": "5000", "allow_download": "off", "suggest_facets": "off",
                "max_returned_rows": "1000", "facet_time_limit_ms": "2000"}  # fmt: skip
    command = [sys.executable, "-P", "-m", "datasette", "serve", str(home.findings_db),
               "--metadata", str(described), "--plugins-dir", str(PLUGINS),
               "--host", HOST, "--port", str(chosen)]  # fmt: skip
    for name, value in settings.items():
        command += ["--setting", name, value]
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR") if name in os.environ}
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(sys.executable, command, kept)  # noqa: S606 - our own interpreter, nothing through a shell


def metadata(port: int) -> dict[str, Any]:
    """What Datasette is told: facets of the views, prepared queries, tables to hide, and its own names."""
    queries = {name: {"title": title, "sql": sql} for name, (title, sql) in _QUERIES.items()}
    tables = {**{name: {"hidden": True} for name in _TABLES}, **_VIEWS}
    hosts = [f"{name}:{port}" for name in NAMES] + ([*NAMES] if port == HTTP else [])
    plugins = {"loopback": {"hosts": hosts}}
    return {
        "title": "Findings",
        "plugins": plugins,
        "databases": {"findings": {"tables": tables, "queries": queries}},
    }


def _port(wanted: int) -> int:
    """The port, or one that is free for 0. Raises :class:`CommandError` where nobody can listen on it."""
    try:
        with socket.socket() as one:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            one.bind((HOST, wanted))
            return int(one.getsockname()[1])
    except OSError as error:
        why = error.strerror or error
        raise CommandError(f"cannot listen on {HOST}:{wanted}: {why}; choose another --port, or 0") from error
