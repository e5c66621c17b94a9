"""``agent findings``: what is known, over the read views of the database; nothing heavy is imported."""

from __future__ import annotations

import click

from agent.cli.lazy import LazyGroup

COMMANDS = {
    "list": ("agent.cli.findings_read:list_", "Findings, newest first."),
    "search": ("agent.cli.findings_read:search", "Findings by words, the best first."),
    "show": ("agent.cli.findings_show:show", "One finding, and the whole chain behind it."),
    "matrix": ("agent.cli.findings_read:matrix", "The best evidence for every backend."),
    "stale": ("agent.cli.findings_stale:stale", "Which no longer hold in other packages."),
    "calibration": ("agent.cli.findings_calibration:calibration", "What was predicted, and what came."),
    "export": ("agent.cli.findings_export:export", "For others: JSON, CSV, Markdown, HTML."),
    "import": ("agent.cli.findings_import:import_", "Findings of others, and public cases."),
    "load-pack": ("agent.cli.findings_reports:load_pack", "Public cases that come with the program."),
    "merge": ("agent.cli.findings_import:merge", "The findings of another home's database."),
    "diff": ("agent.cli.findings_import:diff", "What another home knows, and this one does not."),
    "verify": ("agent.cli.findings_verify:verify", "Look all evidence up again."),
    "gc": ("agent.cli.findings_gc:gc", "Give back disk space; nothing that is cited goes."),
    "sql": ("agent.cli.findings_sql:sql", "One question in SQL."),
    "serve": ("agent.cli.findings_serve:serve", "Look through them in a browser (Datasette)."),
    "rebuild": ("agent.cli.findings_rebuild:rebuild", "Make every row again from the transcripts."),
}


@click.group(cls=LazyGroup, lazy=COMMANDS, no_args_is_help=False)
def findings() -> None:
    """Read what is known.

    \b
    Examples:
      agent findings list --arch sm120
      agent findings search flashinfer_trtllm nan
      agent findings show 3f9a1c
    """
