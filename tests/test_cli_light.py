"""Starting is fast: which modules each command loads, and answering again without reading again."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from program import ROOT, Finished, agent, one_line, python
from test_manual import commands
from viability_fixtures.support import TREE, WEAVE

from transcripts.chain import encode
from transcripts.events import GENESIS, Opened

HEAVY = {
    "mcp",
    "openai",
    "packaging",
    "platformdirs",
    "psutil",
    "pydantic",
    "rich",
    "sqlalchemy",
    "sqlmodel",
    "ssl",
    "tree_sitter",
}
"""What takes longer to import than a command that only reads takes in all."""

SHOW_MODULES = (
    "import sys\n"
    "from agent.cli.main import run\n"
    "code = run(sys.argv[1:])\n"
    "print(code, *sorted({name.partition('.')[0] for name in sys.modules}), file=sys.stderr)\n"
)

READING: list[tuple[str, set[str]]] = [
    ("", set()),
    ("--help", set()),
    ("findings list", set()),
    ("findings list --arch sm120 --json", set()),
    ("findings show FINDING", set()),
    ("transcripts list", set()),
    ("transcripts list --json", set()),
    ("transcripts list --imported", set()),
    ("transcripts search anything", set()),
    ("transcripts stats", set()),
    ("transcripts show --last", set()),
    ("transcripts show TRANSCRIPT --from 2 --json", set()),
    ("transcripts explain TRANSCRIPT 2", set()),
    ("transcripts findings TRANSCRIPT", set()),
    ("report --last", set()),
    ("report TRANSCRIPT --all", set()),
    ("report --last --markdown", set()),
    ("report --last --json", set()),
    ("environment list", set()),
    ("environment show ENGINE", {"packaging"}),
    ("explain fp4_gemm birch -e ENGINE --arch sm120", set()),
    ("explain fp4_gemm birch --transcript TRANSCRIPT --json", set()),
    ("backends -e ENGINE --arch sm90 --arch sm120", set()),
]
"""Command line, and what of the heavy it may load when what it asks for was read before."""


def loaded(*args: str, home: Path | None = None) -> set[str]:
    """The packages that a command has imported at its end. It ends well."""
    finished = python(SHOW_MODULES, *args, home=home)
    code, *modules = finished.stderr.splitlines()[-1].split()
    assert code == "0", finished.stderr
    return set(modules)


def known_engine(folder: Path) -> Path:
    """The small engine of the viability tests, its component called as one that every target has."""
    root = Path(shutil.copytree(TREE, folder / "site-packages"))
    (root / WEAVE).rename(root / WEAVE.replace("weave", "fp4_gemm"))
    for path in [path for path in root.rglob("*") if path.is_file() and path.suffix != ".pyc"]:
        text = path.read_text(encoding="utf-8").replace("--weave", "--fp4-gemm")
        path.write_text(text.replace("weave", "fp4_gemm").replace("Weave", "Fp4Gemm"), encoding="utf-8")
    return root


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return known_engine(tmp_path_factory.mktemp("engine"))


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, engine: Path) -> Path:
    """A home in which one question was answered."""
    home = tmp_path_factory.mktemp("answered") / "home"
    finished = agent("investigate", "qwen3.5 nvfp4 on sm120", "-e", str(engine), home=home)
    assert finished.returncode in {0, 1, 4}, finished.stderr
    return home


def typed(line: str, home: Path, engine: Path) -> list[str]:
    """The words of a command line, with what they stand for."""
    (transcript,) = (home / "transcripts").glob("*.jsonl")
    words = {"ENGINE": str(engine), "TRANSCRIPT": transcript.stem}
    if "FINDING" in line:
        known = json.loads(agent("findings", "list", "--json", home=home).stdout)["findings"]
        words["FINDING"] = known[0]["id"]
    return [words.get(word, word) for word in line.split()]


@pytest.mark.parametrize(("line", "may"), READING, ids=[line or "nothing" for line, _ in READING])
def test_a_command_that_only_reads_loads_nothing_heavy(
    line: str, may: set[str], home: Path, engine: Path
) -> None:
    args = typed(line, home, engine)
    first = agent(*args, home=home)
    assert first.returncode == 0, first.stderr
    assert HEAVY & loaded(*args, home=home) <= may
    again = agent(*args, home=home)
    assert (again.returncode, again.stdout) == (0, first.stdout), "what was read before is told the same"


@pytest.mark.parametrize("command", commands(), ids=" ".join)
def test_help_loads_nothing_heavy(command: tuple[str, ...]) -> None:
    assert not HEAVY & loaded(*command, "--help")


def explained(home: Path, engine: Path, *more: str) -> Finished:
    arch = () if "--arch" in more else ("--arch", "sm120")
    finished = agent("explain", "fp4_gemm", "birch", "-e", str(engine), *arch, *more, home=home)
    assert finished.returncode == 0, finished.stderr
    return finished


FOLLOWED = "· following "
"""What is said on stderr where the source is read."""


def test_what_is_remembered_is_forgotten_with_what_it_follows_from(tmp_path: Path) -> None:
    engine, home = known_engine(tmp_path), tmp_path / "home"
    assert FOLLOWED in explained(home, engine).stderr
    assert FOLLOWED not in explained(home, engine).stderr
    for other in (["--scenario", "quantization=fp8"], ["--arch", "sm90"]):
        assert FOLLOWED in explained(home, engine, *other).stderr
        assert FOLLOWED not in explained(home, engine, *other).stderr
    with next(engine.glob("minilib-*/RECORD")).open("a") as record:
        record.write("minilib/other.py,sha256=x,1\n")
    assert FOLLOWED in explained(home, engine).stderr, "the packages are others now"
    assert FOLLOWED not in explained(home, engine).stderr
    (home / "source_index.db").unlink()
    assert FOLLOWED in explained(home, engine).stderr, "a cache may be deleted at any time"


def test_an_answer_of_which_a_part_was_lost_is_read_again(tmp_path: Path, engine: Path) -> None:
    home = tmp_path / "home"
    matrix = ["backends", "-e", str(engine), "--arch", "sm120", "--json"]
    first = agent(*matrix, home=home)
    with closing(sqlite3.connect(home / "source_index.db", isolation_level=None)) as cache:
        (rows,) = cache.execute("SELECT count(*) FROM traces WHERE trace LIKE '{%'").fetchone()
        assert rows == len(json.loads(first.stdout)["backends"])
        cache.execute(
            "DELETE FROM traces WHERE rowid = (SELECT max(rowid) FROM traces WHERE trace LIKE '{%')"
        )
    again = agent(*matrix, home=home)
    assert FOLLOWED in again.stderr
    assert again.stdout == first.stdout


def test_wrong_questions_are_refused_also_where_others_were_answered(home: Path, engine: Path) -> None:
    explained(home, engine)
    finished = agent("explain", "fp4_gemm", "zinc", "-e", str(engine), "--arch", "sm120", home=home)
    assert finished.returncode == 2
    assert "cedar" in finished.stderr


def test_a_report_is_the_document_that_was_given_first(tmp_path: Path, engine: Path) -> None:
    home = tmp_path / "home"
    first = agent("investigate", "qwen3.5 nvfp4 on sm120", "-e", str(engine), "--json", home=home)
    again = agent("report", "--last", "--json", home=home)
    assert json.loads(first.stdout)["format"] == 1
    assert again.stdout == first.stdout


def test_every_experiment_says_in_which_packages_it_was_made(tmp_path: Path, engine: Path) -> None:
    home = tmp_path / "home"
    told = json.loads(
        agent("investigate", "qwen3.5 nvfp4 on sm120", "-e", str(engine), "--json", home=home).stdout
    )
    marked = agent("environment", "fingerprint", str(engine), "--json", home=home)
    fingerprint = json.loads(marked.stdout)["environment"]
    assert told["environment"]["fingerprint"] == fingerprint
    asked = "SELECT tool, fingerprint FROM v_experiments WHERE environment IS NOT NULL"
    rows = json.loads(agent("findings", "sql", asked, "--json", home=home).stdout)["rows"]
    assert {mark for _, mark in rows} == {fingerprint}
    (first, *_) = json.loads(agent("findings", "list", "--json", home=home).stdout)["findings"]
    assert f"(fingerprint {fingerprint[:16]})" in agent("findings", "show", first["id"], home=home).stdout


def test_another_program_remembers_nothing_of_this_one(tmp_path: Path) -> None:
    for folder in ("memory", "tools"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))

    def version() -> str:
        ask = "from memory.program import program_version; print(program_version('memory', 'tools'))"
        return python(ask, PYTHONPATH=str(tmp_path), PYTHONSAFEPATH="1").stdout

    seen = [version(), version()]
    assert seen[0] == seen[1] != ""
    for changed in ("memory/data/gpus.toml", "tools/source/tree.py"):
        with (tmp_path / changed).open("a") as file:
            file.write("# another\n")
        seen.append(version())
    (tmp_path / "tools" / "source" / "tree.py").rename(tmp_path / "tools" / "tree.py")
    seen.append(version())
    assert len(set(seen)) == 4


def test_a_conclusion_that_was_not_written_by_a_program_is_one_line(tmp_path: Path) -> None:
    opened = Opened(investigation="x", program="p", driver="d", question="q", seed=0).model_dump(mode="json")
    end = {"kind": "concluded", "exit_reason": "answered", "exit_code": 0, "summary": "s"}
    for answer in ({}, [], {"target": 1}, {"target": {}, "environment": {}, "backends": 5}):
        first, head = encode(0, "2026-01-01T00:00:00.000Z", opened, GENESIS)
        last, _ = encode(1, "2026-01-01T00:00:00.000Z", {**end, "answer": answer}, head)
        (tmp_path / "x.jsonl").write_bytes(first + last)
        for more in ([], ["--all"], ["--markdown"]):
            one_line(
                agent("report", str(tmp_path / "x.jsonl"), *more), 2, "not an event as format 1 writes it"
            )


def test_a_report_of_another_shape_is_still_drawn(tmp_path: Path, home: Path) -> None:
    """What an older program left out, because it had no such field yet, is what the model has for it."""
    (path,) = (home / "transcripts").glob("*.jsonl")
    *before, line = path.read_bytes().splitlines(keepends=True)
    event = json.loads(line)
    for row in event["data"]["answer"]["backends"]:
        del row["observed"], row["runs_instead"], row["conditions"]
    last, _ = encode(event["seq"], event["at"], event["data"], event["prev"])
    (tmp_path / "old.jsonl").write_bytes(b"".join([*before, last]))
    for more in ([], ["--all"], ["--markdown"]):
        finished = agent("report", str(tmp_path / "old.jsonl"), *more)
        assert finished.returncode == 0, finished.stderr
        assert "fp4_gemm" in finished.stdout.replace("\\", "")
