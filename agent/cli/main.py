"""The program ``agent`` (and ``assay``). Before a command runs, only click and the standard library load."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from contextlib import suppress

import click

from agent.cli.lazy import LazyGroup
from agent.interrupts import Interrupts

ERRORS = {
    ("tools.errors", "ToolError"): 2,
    ("tools.source.tree", "SourceError"): 2,
    ("memory.home", "HomeError"): 3,
    ("memory.architecture", "ArchitectureError"): 2,
    ("memory.artifacts", "ArtifactError"): 4,
    ("memory.database", "StoreError"): 2,
    ("transcripts.chain", "LogError"): 2,
    ("transcripts.importers.source", "ImportingError"): 2,
    ("agent.drivers", "DriverError"): 3,
    ("agent.budget", "BudgetError"): 2,
    ("agent.model.prices", "PriceError"): 2,
    ("agent.words", "QuestionError"): 2,
    ("agent.cli.common", "CommandError"): 2,
}
"""Expected errors, each one line, and the exit code; by name, so that none of their modules is imported.
An error's own ``exit_code`` or ``missing`` comes first."""

INTERRUPTED = 130
LONGEST = 800
"""Characters of an error's line."""


COMMANDS = {
    "investigate": ("agent.cli.investigate:investigate", "Answer a question, with the proof."),
    "backends": ("agent.cli.backends:backends", "The static matrix: every backend, per architecture."),
    "explain": ("agent.cli.explain:explain", "Why a backend is let through or not, hop by hop."),
    "diagnose": ("agent.cli.diagnose:diagnose", "A crash log: what failed first, why, what helps."),
    "resume": ("agent.cli.resume:resume", "Go on with an investigation that was stopped."),
    "steer": ("agent.cli.steer:steer", "Ask something of an investigation that runs."),
    "replay": ("agent.cli.replay:replay", "Check a transcript, or decide it again from its results."),
    "report": ("agent.cli.report:report", "An answer again, from its transcript."),
    "transcripts": ("agent.cli.transcripts:transcripts", "Read what was done."),
    "findings": ("agent.cli.findings:findings", "Read what is known."),
    "note": ("agent.cli.note:note", "Keep what you know as a report."),
    "environment": ("agent.cli.environment:environment", "The packages that are investigated."),
    "mcp": ("agent.cli.mcp:mcp", "Serve the tools to another agent."),
    "probe": ("agent.cli.probe:probe", "Run kernels, alone, on a GPU here or elsewhere."),
    "serve": ("agent.cli.serve:serve", "Launch a server, say what it really runs, end it."),
    "check": ("agent.cli.check:check", "Can the answers of a running server be trusted?"),
    "benchmark": ("agent.cli.benchmark:benchmark", "How fast is a server, at each load?"),
    "compare": ("agent.cli.benchmark_compare:compare", "Benchmarks side by side, with intervals."),
    "doctor": ("agent.cli.doctor:doctor", "Check this machine, with fixes."),
}

START = """\
agent investigate "qwen3.5 nvfp4 on sm120"     answer a question
agent backends --arch sm120                    what the source says of every backend
agent doctor                                   check this machine

All commands: agent --help
"""


@click.group(
    cls=LazyGroup,
    lazy=COMMANDS,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="assay-agent", prog_name="agent")
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Find out which kernel backends work for a model on a GPU, and keep the proof.

    \b
    Examples:
      agent investigate "qwen3.5 nvfp4 on sm120"
      agent backends -p sglang==0.5.9 -p flashinfer-python==0.6.5 --arch sm120
      agent explain moe_runner flashinfer_trtllm --arch sm120

    \b
    Exit codes: 0 a candidate was found, or done · 1 none is viable, or a check failed · 2 wrong input
    3 something needed is missing · 4 stopped early · 130 interrupted. ASSAY_HOME: where things are kept.
    """
    if ctx.invoked_subcommand is None:
        click.echo(START, nl=False)


def main(args: Sequence[str] | None = None) -> None:
    """Run the program and exit with its code. Expected errors are one line on stderr."""
    sys.exit(run(args))


def run(args: Sequence[str] | None = None) -> int:
    """Run the program; returns the exit code."""
    _streams()
    stdout = sys.stdout
    try:
        with Interrupts():
            code = cli.main(
                args=None if args is None else list(args), prog_name="agent", standalone_mode=False
            )
        sys.stdout.flush()
    except BrokenPipeError:
        return _unread()
    except SystemExit:
        # click makes an exit of a reader that went away, and puts another stream in place of stdout.
        if sys.stdout is not stdout:
            return _unread()
        raise
    except (KeyboardInterrupt, click.Abort):
        say("interrupted")
        return INTERRUPTED
    except click.ClickException as error:
        return _usage(error)
    except Exception as error:
        if os.environ.get("ASSAY_DEBUG"):
            raise
        return _explain(error)
    return code if isinstance(code, int) else 0


def _streams() -> None:
    """Streams that can be written to, whatever was closed, and whatever characters the locale lacks."""
    for name, mode in (("stdout", 1), ("stderr", 2)):
        stream = getattr(sys, name)
        if stream is None:
            # Closed by the caller. The number must be taken, or the next file that is opened gets it.
            stream = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115
            if stream.fileno() != mode:
                os.dup2(stream.fileno(), mode)
            setattr(sys, name, stream)
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")


def _unread() -> int:
    """The reader has seen enough. Nothing more can be written, not even by the interpreter at its end."""
    _silence()
    return 0


def _silence() -> None:
    sys.stdout = sys.__stdout__
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def say(text: str) -> None:
    """One line on stderr."""
    from agent.text import squeeze

    line = squeeze(text)
    if len(line) > LONGEST:
        # What was given may be of any length; what happened stands before it, what to do after it.
        line = f"{line[: LONGEST // 2]} … {line[-LONGEST // 2 :]}"
    # Whoever closed stderr does not want to know; what is said there changes no result.
    with suppress(OSError, ValueError):
        click.echo(f"agent: {line}", err=True)


def _usage(error: click.ClickException) -> int:
    context = error.ctx if isinstance(error, click.UsageError) else None
    message = error.format_message().rstrip(".")
    if context is not None and isinstance(context.command, click.Group) and message == "Missing command":
        message = (
            f"{context.command_path} needs a command: {', '.join(context.command.list_commands(context))}"
        )
    hint = f" (see {context.command_path} --help)" if context else ""
    say(message + hint)
    return 2


def _explain(error: Exception) -> int:
    for (module, name), code in ERRORS.items():
        known = getattr(sys.modules.get(module), name, None)
        if known is not None and isinstance(error, known):
            say(str(error))
            own = getattr(error, "exit_code", None)
            return own if isinstance(own, int) else 3 if getattr(error, "missing", False) else code
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO):
        # What commands write themselves goes to stdout; files of the home have errors of their own.
        _silence()
        say(f"cannot write the result: {error.strerror}")
        return 4
    say(f"unexpected error: {type(error).__name__}: {error}; set ASSAY_DEBUG=1 to see where")
    return 4


if __name__ == "__main__":
    main()
