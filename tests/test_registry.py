"""How tools are found: ours by being there, those of other distributions by their entry points."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import BaseModel

from memory.vocabulary import Effect
from tools.base import tool

ROOT = Path(__file__).parent.parent
COUNT = '''
from pydantic import BaseModel
from memory.vocabulary import Effect
from tools.base import ToolContext, tool


class Input(BaseModel):
    text: str


class Result(BaseModel):
    words: int


@tool(effect=Effect.READS)
def NAME(args: Input, context: ToolContext) -> Result:
    """Count words."""
    return Result(words=len(args.text.split()))
'''


def plugin(folder: Path, code: str, point: str) -> None:
    """A distribution as an installer leaves it: one module and its entry point."""
    (folder / "counting.py").write_text(code)
    info = folder / "counting-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: counting\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[assay.tools]\n{point} = counting:{point}\n")


def with_plugin(folder: Path, command: list[str]) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(folder)])}
    return subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, check=False, env=environment, cwd=folder
    )


def test_a_tool_of_another_distribution_is_found_and_runs(tmp_path: Path) -> None:
    plugin(tmp_path, COUNT.replace("NAME", "count_words"), "count_words")
    script = """
from tools.registry import registry
tool = registry()["count_words"]
print(tool.description, tool.schema()["required"], tool.run(tool.input(text="a b c"), None).words)
"""
    done = with_plugin(tmp_path, ["-c", script])
    assert (done.stdout, done.stderr) == ("Count words. ['text'] 3\n", "")


@pytest.mark.parametrize(
    ("code", "point", "says"),
    [
        ("import nothing_like_it", "count_words", "ModuleNotFoundError: No module named"),
        ("raise RuntimeError('line one\\nline two')", "count_words", "RuntimeError: line one line two"),
        ("count_words = 3", "count_words", "counting:count_words is no tool"),
        (COUNT.replace("NAME", "read_source"), "read_source", "named read_source already"),
    ],
)
def test_a_plugin_that_cannot_be_used_is_named_in_one_line(
    tmp_path: Path, code: str, point: str, says: str
) -> None:
    plugin(tmp_path, code, point)
    script = """
from tools.base import ToolError
from tools.registry import registry
try:
    registry()
except ToolError as error:
    print(error)
"""
    done = with_plugin(tmp_path, ["-c", script])
    (said,) = done.stdout.splitlines()
    assert said.startswith(f"the plug-in {point} of counting cannot be used (")
    assert says in said
    assert said.endswith("; mend or uninstall counting")


def test_a_tool_without_its_types_or_its_docstring_is_refused() -> None:
    def untyped(args, context):  # type: ignore[no-untyped-def]
        """Do something."""

    def half_typed(args: BaseModel, context: object) -> dict[str, int]:
        """Do something."""
        return {}

    def silent(args: BaseModel, context: object) -> BaseModel:
        return args

    for function, says in (
        (untyped, "pydantic models as"),
        (half_typed, "pydantic models as"),
        (silent, "docstring"),
    ):
        with pytest.raises(TypeError, match=says):
            tool(effect=Effect.READS)(function)


def test_listing_the_tools_loads_little_of_what_they_are_made_of(tmp_path: Path) -> None:
    script = """
import sys
from tools.registry import registry
registry()
heavy = {"psutil", "re2", "sqlalchemy", "multiprocessing", "tools.viability.analysis"}
print(sorted(heavy & set(sys.modules)))
"""
    done = with_plugin(tmp_path, ["-c", script])
    assert (done.stdout, done.stderr) == ("[]\n", "")
