"""Damaged, odd and missing sources, and what lies around the interpreter: rows still come. No network."""

from __future__ import annotations

import os
import sqlite3
import sys
import threading
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from viability_fixtures.support import (
    BACKENDS,
    COMPONENT,
    METHOD,
    WEAVE,
    Context,
    Engine,
    before_elm,
    same_lines,
)

from memory.home import Home
from memory.vocabulary import Row, Verdict
from tools.base import ToolError
from tools.environment.store import open_for
from tools.source.tree import SourceTree
from tools.viability.analysis import Analysis, with_stack
from tools.viability.cache import TraceCache
from tools.viability.judge import Cell
from tools.viability.trace import trace_key, trace_many, trace_viability

GEMM = "minilib/gemm.py"
BLOCKED = Verdict.BLOCKED
PASSES = Verdict.NO_STATIC_OBSTACLE
TWELVE = "get_device_capability()[0] == 12"


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    return Engine.copy(tmp_path)


# -- damage -----------------------------------------------------------------------------------------


def everything(engine: Engine) -> list[Row]:
    cells = [engine.asking(backend, arch) for backend in BACKENDS for arch in ("sm90", "sm120")]
    traces = list(trace_many(engine.context, cells))
    assert [(trace.row.backend, trace.row.arch) for trace in traces] == [
        (cell.backend, cell.arch) for cell in cells
    ]
    for trace in traces:
        same_lines(trace.row, engine.root)
        if trace.row.verdict is Verdict.UNKNOWN:
            assert trace.notes, "an unknown without a reason"
    return [trace.row for trace in traces]


def verdicts(rows: list[Row]) -> dict[tuple[str, str], str]:
    return {(row.backend, row.arch): row.verdict.value for row in rows}


def test_a_byte_order_mark_changes_nothing(engine: Engine) -> None:
    plain = verdicts(everything(engine))
    for file in (METHOD, WEAVE, GEMM, "sglang/srt/server_args.py"):
        path = engine.root / file
        path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    marked = Engine(engine.root, Context(Home(engine.root.parent / "other").prepare()))
    assert verdicts(everything(marked)) == plain


def test_line_ends_of_another_system_change_nothing(engine: Engine) -> None:
    plain = verdicts(everything(engine))
    for path in engine.root.rglob("*.py"):
        path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    other = Engine(engine.root, Context(Home(engine.root.parent / "other").prepare()))
    assert verdicts(everything(other)) == plain


def test_bytes_that_are_no_utf8_change_nothing(engine: Engine) -> None:
    plain = verdicts(everything(engine))
    for file in (METHOD, WEAVE, GEMM):
        path = engine.root / file
        path.write_bytes(b"# Gr\xfc\xdfe\n" + path.read_bytes())
    other = Engine(engine.root, Context(Home(engine.root.parent / "other").prepare()))
    assert verdicts(everything(other)) == plain


DAMAGED = {
    "the method": METHOD,
    "the option's reader": WEAVE,
    "the library's kernels": GEMM,
    "the library's decorators": "minilib/utils.py",
    "the library": "minilib/__init__.py",
    "the layers": "sglang/srt/layers/linear.py",
    "the loader": "sglang/srt/model_loader.py",
    "the quantisations": "sglang/srt/layers/quantization/__init__.py",
    "the device": "sglang/srt/platform.py",
}


@pytest.mark.parametrize("what", DAMAGED)
@pytest.mark.parametrize("how", ["a syntax error", "a null byte", "empty", "missing", "a folder"])
def test_damage_never_blocks_and_rows_still_come(engine: Engine, what: str, how: str) -> None:
    whole = verdicts(everything(engine))
    path = engine.root / DAMAGED[what]
    text = path.read_text(encoding="utf-8")
    path.unlink()
    if how == "a syntax error":
        path.write_text(text + "\ndef broken(:\n", encoding="utf-8")
    elif how == "a null byte":
        path.write_bytes(text.encode() + b"\0\n")
    elif how == "empty":
        path.write_text("", encoding="utf-8")
    elif how == "a folder":
        path.mkdir()
    rows = everything(Engine(engine.root, Context(Home(engine.root.parent / "other").prepare())))
    for row in rows:
        if row.verdict is BLOCKED:
            assert whole[row.backend, row.arch] == "blocked", row.model_dump_json(indent=1)


def test_a_broken_declaration_is_an_unknown_with_a_reason(engine: Engine) -> None:
    (engine.root / "sglang/srt/server_args.py").write_text("def broken(:\n", encoding="utf-8")
    trace = engine.trace("birch", "sm120")
    assert trace.row.verdict is Verdict.UNKNOWN
    assert trace.notes


def test_a_circular_import_is_followed(engine: Engine) -> None:
    engine.edit(
        WEAVE,
        "from sglang.srt.platform import is_new_enough\n",
        "from sglang.srt.platform import is_new_enough\n"
        "from sglang.srt.layers.quantization.small import SmallConfig\n\nCONFIGS = [SmallConfig]\n",
    )
    engine.edit(
        "sglang/srt/layers/linear.py",
        "import torch\n",
        "import torch\n\nimport sglang.srt.layers.quantization\n",
    )
    assert engine.verdicts("birch", "sm100", "sm120") == {"sm100": "no_static_obstacle", "sm120": "blocked"}


def test_a_circle_of_names_ends(engine: Engine) -> None:
    engine.add("sglang/srt/one.py", "from sglang.srt.two import VALUE\n")
    engine.add("sglang/srt/two.py", "from sglang.srt.one import VALUE\n")
    before_elm(engine, f"from sglang.srt.one import VALUE\nif VALUE and {TWELVE}:\n    raise ValueError")
    assert engine.trace("elm", "sm120").row.verdict is not BLOCKED


def test_a_recursion_ends(engine: Engine) -> None:
    before_elm(
        engine, f"def down(n):\n    return down(n + 1)\nif down(0) and {TWELVE}:\n    raise ValueError"
    )
    trace = engine.trace("elm", "sm120")
    assert trace.row.verdict is not BLOCKED


def test_a_loop_without_end_ends(engine: Engine) -> None:
    before_elm(engine, f"while True:\n    x = x + 1\nif {TWELVE}:\n    raise ValueError")
    trace = engine.trace("elm", "sm120")
    assert trace.row.verdict is not BLOCKED


def test_a_large_generated_file_is_no_obstacle(engine: Engine) -> None:
    """Three megabytes of table, on the way and beside it."""
    rows = "".join(f"    ({number}, {number % 7}, 'entry-{number:08d}'),\n" for number in range(90_000))
    engine.add("minilib/table.py", f"TABLE = [\n{rows}]\nLIMIT = 3\n")
    assert (engine.root / "minilib/table.py").stat().st_size > 3_000_000
    engine.add("sglang/srt/layers/generated.py", f"ROWS = (\n{rows})\n")
    engine.edit(GEMM, "import functools\n", "import functools\n\nfrom .table import LIMIT, TABLE\n")
    engine.edit(
        GEMM,
        "    return get_common().run(a, b)\n\n\ndef mm_plain",
        "    if LIMIT > 2 and len(TABLE) > 2:\n        return get_common().run(a, b)\n\n\ndef mm_plain",
    )
    assert engine.trace("birch", "sm120").row.verdict is BLOCKED  # by what stands before the table is asked
    through = engine.trace("birch", "sm100")
    assert through.row.verdict is PASSES or (through.row.verdict is Verdict.UNKNOWN and through.notes)


def test_deeply_nested_code_does_not_end_the_process(engine: Engine) -> None:
    engine.add("minilib/deep.py", "VALUE = " + "(" * 150 + "1" + ")" * 150 + "\nSUM = " + "1+" * 5000 + "1\n")
    before_elm(engine, f"from minilib.deep import SUM, VALUE\nif SUM < 0 and {TWELVE}:\n    raise ValueError")
    assert engine.trace("elm", "sm120").row.verdict is not BLOCKED


# -- around the interpreter -------------------------------------------------------------------------


def test_an_environment_without_the_engine_is_refused(engine: Engine) -> None:
    (engine.root / "sglang").rename(engine.root.parent / "gone")
    with pytest.raises(ToolError, match="sglang"):
        engine.trace("birch", "sm120")


def test_an_engine_without_a_profile_is_refused(engine: Engine) -> None:
    cell = engine.asking("birch", "sm120").model_copy(update={"engine": "nonesuch"})
    with pytest.raises(ToolError, match="nonesuch"):
        list(trace_many(engine.context, [cell]))


def test_no_environment_of_that_name_is_refused(engine: Engine) -> None:
    cell = engine.asking("birch", "sm120").model_copy(update={"environment": str(engine.root / "nowhere")})
    with pytest.raises(ToolError, match="nowhere"):
        list(trace_many(engine.context, [cell]))


@pytest.mark.parametrize(
    ("component", "backend", "said"),
    [("nonesuch", "birch", "nonesuch"), (COMPONENT, "nonesuch", "amber, birch")],
)
def test_what_the_engine_does_not_declare_is_unknown_with_what_it_declares(
    engine: Engine, component: str, backend: str, said: str
) -> None:
    cell = engine.asking(backend, "sm120").model_copy(update={"component": component})
    (trace,) = trace_many(engine.context, [cell])
    assert trace.row.verdict is Verdict.UNKNOWN
    assert any(said in note for note in trace.notes)


def test_the_order_of_the_cells_is_kept_and_changes_nothing(engine: Engine, tmp_path: Path) -> None:
    """Many cells go to several processes; one alone does not."""
    many = everything(engine)
    alone = Context(Home(tmp_path / "alone").prepare())
    for row in many[:4] + many[-4:]:
        assert trace_viability.run(engine.asking(row.backend, row.arch), alone).row == row
    backwards = Context(Home(tmp_path / "backwards").prepare())
    cells = [engine.asking(row.backend, row.arch) for row in reversed(many)]
    assert [trace.row for trace in trace_many(backwards, cells)] == list(reversed(many))


def test_a_trace_is_given_as_soon_as_it_and_those_before_it_are_done(engine: Engine) -> None:
    cells = [engine.asking(backend, arch) for arch in ("sm90", "sm120") for backend in BACKENDS]
    traces = trace_many(engine.context, cells)
    assert next(traces).row.backend == cells[0].backend
    with closing(sqlite3.connect(engine.context.home.source_index_db)) as cache:
        (remembered,) = cache.execute("SELECT count(*) FROM traces").fetchone()
    assert 1 <= remembered < len(cells)
    traces.close()
    assert psutil.Process().children() == []
    assert [trace.row.backend for trace in trace_many(engine.context, cells)] == [*BACKENDS, *BACKENDS]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"arch": "sm_nonsense"}, "sm_nonsense"),
        ({"environment": "/nowhere"}, "nowhere"),
        ({"engine": "x"}, "x"),
    ],
)
def test_a_wrong_cell_is_refused_when_its_turn_comes(
    engine: Engine, wrong: dict[str, str], said: str
) -> None:
    right = engine.asking("birch", "sm120")
    traces = trace_many(engine.context, [right, right.model_copy(update=wrong), right])
    assert next(traces).row.backend == "birch"
    with pytest.raises(ToolError, match=said):
        next(traces)


def test_only_folders_that_may_be_read_are_traced(engine: Engine) -> None:
    """As every tool: a driver may name any folder, and reads only those that the person gave."""

    @dataclass(frozen=True)
    class Given(Context):
        folders: tuple[Path, ...]

    cell = engine.asking("birch", "sm120")
    given = Given(engine.context.home, (engine.root,))
    assert trace_viability.run(cell, given).row.backend == "birch"
    with pytest.raises(ToolError, match="is not one of the folders that may be read here"):
        trace_viability.run(cell, Given(engine.context.home, (engine.root.parent,)))
    with pytest.raises(ToolError, match="is not one of the folders that may be read here"):
        next(trace_many(Given(engine.context.home, ()), [cell, cell]))


def test_what_is_remembered_and_cannot_be_read_is_traced_again(engine: Engine) -> None:
    """Written whole, but by a program whose traces were others."""
    first = engine.trace("birch", "sm120")
    key = trace_key(open_for(engine.context, str(engine.root)), engine.asking("birch", "sm120"))
    with TraceCache(engine.context.home.source_index_db) as cache:
        assert cache.get(key) is not None
        cache.put(key, "{}")
    assert engine.trace("birch", "sm120") == first


@pytest.mark.parametrize("how", ["text", "page", "another program's", "words", "folder"])
def test_a_damaged_cache_is_no_obstacle(engine: Engine, how: str) -> None:
    path = engine.context.home.source_index_db
    first = engine.trace("birch", "sm120")
    data = bytearray(path.read_bytes())
    path.unlink()
    match how:
        case "text":
            path.write_bytes(b"this is no database, but it is long enough " * 40)
        case "page":
            data[4096:] = os.urandom(len(data) - 4096)
            path.write_bytes(data)
        case "another program's":
            with closing(sqlite3.connect(path)) as connection:
                connection.execute("CREATE TABLE traces (colour TEXT)")
        case "words":
            path.write_bytes(data.replace(b"blocked", b"unknown"))
        case _:
            path.mkdir()
    said: list[str] = []
    with TraceCache(path, said.append) as cache:
        cache.put("a key", "{}")
        cache.put("a key", "{}")
        assert cache.get("a key") == (None if how == "folder" else "{}")
    assert said == ([] if how in {"words", "folder"} else [f"{path.name} was damaged; it begins anew"])
    for _ in range(2):
        assert engine.trace("birch", "sm120") == first


def test_tracing_leaves_the_process_as_it_was(engine: Engine) -> None:
    limit, size, threads = sys.getrecursionlimit(), threading.stack_size(), threading.active_count()
    engine.trace("birch", "sm120")
    assert (sys.getrecursionlimit(), threading.stack_size(), threading.active_count()) == (
        limit,
        size,
        threads,
    )


def test_nothing_of_the_engine_is_run_or_written(engine: Engine) -> None:
    """The sources are read, never imported: a module that would leave a mark leaves none."""
    mark = engine.root.parent / "mark"
    for file in (METHOD, WEAVE, GEMM):
        path = engine.root / file
        path.write_text(
            f"open({str(mark)!r}, 'w').close()\n" + path.read_text(encoding="utf-8"), encoding="utf-8"
        )
    before = sorted(path.as_posix() for path in engine.root.rglob("*"))
    assert engine.trace("birch", "sm120").row.verdict is BLOCKED
    assert not mark.exists()
    assert sorted(path.as_posix() for path in engine.root.rglob("*")) == before
    assert not {"sglang", "minilib"} & set(sys.modules)


def test_the_scenario_is_printed_with_the_row(engine: Engine) -> None:
    trace = engine.trace("birch", "sm120")
    assert trace.scenario["quantisation"] == "nvfp4"
    assert trace.scenario["quantization"] == "nvfp4"


def test_an_analysis_gives_the_same_row_twice(engine: Engine) -> None:
    analysis = Analysis(SourceTree(engine.root), "sglang")
    scenario = analysis.scenario(COMPONENT, "nvfp4", {})
    first, second = (
        with_stack(lambda: analysis.judge(Cell(COMPONENT, "cedar", (12, 0)), scenario).row) for _ in range(2)
    )
    assert first == second
