"""Searching, the matrix, the chain behind a finding, and questions in SQL that may say anything."""

from __future__ import annotations

import io
import json
import os
import re
from contextlib import redirect_stderr, redirect_stdout
from types import SimpleNamespace
from typing import Any

import pytest
from known import CLAIM, EVIDENCE, finding, write
from test_trust import PROBED, reported, statuses

from agent.cli.main import run
from memory.database import StoreError
from memory.home import Home
from memory.sql import ask
from memory.store import Store
from memory.views import Views
from memory.vocabulary import Evidence, Level, Outcome, Verdict
from transcripts.catch_up import catch_up


def findings(home: Home, *args: str, code: int = 0) -> str:
    """stdout of ``agent findings ARGS``, which ends with ``code``; where that is not 0, stderr."""
    said, told = io.StringIO(), io.StringIO()
    assert os.environ["ASSAY_HOME"] == str(home.root)
    with redirect_stdout(said), redirect_stderr(told):
        assert run(["findings", *args]) == code, told.getvalue()
    return told.getvalue() if code else said.getvalue()


def listed(home: Home, *args: str) -> list[dict[str, Any]]:
    return list(json.loads(findings(home, args[0], "--json", *args[1:]))["findings"])


def span(line: int, text: str) -> tuple[Evidence, ...]:
    return (EVIDENCE.model_copy(update={"line": line, "end_line": line, "text": text}),)


@pytest.fixture
def known(home: Home) -> Home:
    """Findings of two backends, one of which was run."""
    given = [
        finding(),
        finding(backend="beta_kernels", verdict=Verdict.NO_STATIC_OBSTACLE, because=None,
                source_evidence=span(9, "if major == 12: use(beta)")),
        PROBED[Outcome.NAN],
        finding(arch="sm100", source_evidence=span(4, "assert fast")),
    ]  # fmt: skip
    for day, one in enumerate(given, start=1):
        write(home, f"t{day}", [one], day)
    with Store(home) as store:
        assert catch_up(store, home.transcripts) == []
    return home


def test_words_are_found_by_their_beginning_wherever_they_stand(known: Home) -> None:
    def found(*words: str) -> set[tuple[str, str]]:
        return {(row["backend"], row["level"]) for row in listed(known, "search", *words)}

    assert found("beta") == {("beta_kernels", "static")}
    assert found("alpha_ker") == {("alpha_kernels", "static"), ("alpha_kernels", "probe")}
    assert found("nan") == {("alpha_kernels", "probe")}
    assert found("fused_moe.py", "assert") == {("alpha_kernels", "static")}
    assert found("quantisation=nvfp4", "kernels", "beta") == {("beta_kernels", "static")}
    assert found("ernels") == set()
    for nothing in ("--", "'", '"', "*", "^", "NEAR(", "(", ":", "\x00"):
        assert found("--", nothing) == set()
    assert found('beta" OR "alpha') == set()


def test_what_stands_and_was_won_higher_comes_first(home: Home) -> None:
    """Three that say ``nan`` alike: a report, one that ran, and one that another has replaced."""
    statuses(home, reported(Outcome.NAN, "https://example.org/1"), PROBED[Outcome.NAN])
    assert [row["level"] for row in listed(home, "search", "nan")] == ["probe", "report"]
    (row,) = listed(home, "search", "nan", "--level", "report")
    assert row["url"] == "https://example.org/1"
    assert listed(home, "search", "nan", "--status", "superseded") == []
    assert [row["level"] for row in listed(home, "search", "nan", "--limit", "1")] == ["probe"]


@pytest.mark.parametrize(
    ("args", "backends"),
    [
        (["--component", "moe_runner", "--backend", "beta_kernels"], ["beta_kernels"]),
        (["--arch", "12.0", "--level", "static"], ["beta_kernels", "alpha_kernels"]),
        (["--verdict", "no_static_obstacle"], ["beta_kernels"]),
        (["--outcome", "nan"], ["alpha_kernels"]),
        (["-p", "Sglang==0.5.9", "-p", "flashinfer_python", "--limit", "2"], ["alpha_kernels"] * 2),
        (["-p", "sglang==0.5.10"], []),
        (["--engine", "vllm"], []),
        (["--status", "contradicted"], []),
    ],
)
def test_filters(known: Home, args: list[str], backends: list[str]) -> None:
    assert [row["backend"] for row in listed(known, "list", *args)] == backends


def test_a_list_says_that_there_are_more(known: Home) -> None:
    document = json.loads(findings(known, "list", "--limit", "2", "--json"))
    assert (len(document["findings"]), document["more"]) == (2, True)
    assert json.loads(findings(known, "list", "--json"))["more"] is False


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["list", "--limit", "99999999999999999999"], "not in the range"),
        (["list", "-p", "sglang>=0.5"], "is no package"),
        (["sql", "SELECT 1", "--seconds", "nan"], "no number that ends"),
    ],
)
def test_what_cannot_be_asked_is_said_in_one_line(known: Home, args: list[str], says: str) -> None:
    told = findings(known, *args, code=2)
    assert says in told
    assert len(told.splitlines()) == 1


def test_the_matrix_shows_the_best_evidence_of_each_cell(known: Home) -> None:
    document = json.loads(findings(known, "matrix", "--json"))
    best = [(row["backend"], row["arch"], row["level"], row["findings"]) for row in document["cells"]]
    assert best == [
        ("alpha_kernels", "sm100", "static", 1),
        ("alpha_kernels", "sm120", "probe", 2),
        ("beta_kernels", "sm120", "static", 1),
    ]
    assert "probe" in findings(known, "matrix", "--arch", "sm120", "--backend", "alpha_kernels")


def test_what_contradicts_each_other_is_listed_with_what_would_decide(home: Home) -> None:
    other = finding(verdict=Verdict.NO_STATIC_OBSTACLE, because=None)
    assert statuses(home, finding(), other) == ["contradicted", "contradicted"]
    assert len(listed(home, "list")) == 2
    assert "contradicted" in findings(home, "list")
    shown = findings(home, "show", other.id)
    assert f"contradicted: {finding().id[:12]}" in shown
    again = "-p flashinfer-python==0.6.5 -p sglang==0.5.9"
    cell = "--component moe_runner --backend alpha_kernels --arch sm120"
    assert f"reading it again: agent findings verify {cell} {again}" in shown
    assert "a probe on sm120, which outranks both" in shown
    document = json.loads(findings(home, "show", other.id, "--json"))
    assert len(document["decides"]) == 2
    assert [one["id"] for one in document["rivals"]] == [finding().id]


def test_show_tells_the_whole_chain(known: Home) -> None:
    shown = findings(known, "show", PROBED[Outcome.NAN].id)
    for words in ("probe nan", "status     current", "t, head", "said nan", f"current: {finding().id[:12]}"):
        assert words in shown, words
    assert CLAIM.level is Level.STATIC


# Questions in SQL


def test_a_question_is_answered_with_its_columns(known: Home) -> None:
    asked = "SELECT arch, count(*) AS n FROM v_findings WHERE status = 'current' GROUP BY arch ORDER BY arch"
    document = json.loads(findings(known, "sql", asked, "--json"))
    assert document == {"columns": ["arch", "n"], "rows": [["sm100", 1], ["sm120", 3]], "more": False}
    assert findings(known, "sql", asked).split() == ["arch", "n", "sm100", "1", "sm120", "3"]
    words = "SELECT count(*) FROM words WHERE words MATCH 'beta'"
    assert json.loads(findings(known, "sql", words, "--json"))["rows"] == [[1]]


def test_what_json_has_no_word_for_is_text_in_it(known: Home) -> None:
    said = findings(known, "sql", "SELECT 9e999, -9e999, x'00ff', NULL", "--json")
    assert json.loads(said, parse_constant=pytest.fail)["rows"] == [["inf", "-inf", "00ff", None]]


@pytest.mark.parametrize(
    ("sql", "says"),
    [
        ("DELETE FROM findings", "DELETE is not allowed"),
        ("INSERT INTO folded VALUES ('a', 1, 'b', 2)", "INSERT is not allowed"),
        ("UPDATE findings SET sentence = 'x'", "UPDATE is not allowed"),
        ("DROP TABLE findings", "not allowed"),
        ("CREATE TEMP TABLE x (a)", "not allowed"),
        ("CREATE VIEW x AS SELECT 1", "not allowed"),
        ("ATTACH '/etc/passwd' AS x", "ATTACH is not allowed"),
        ("ATTACH ':memory:' AS x", "ATTACH is not allowed"),
        ("DETACH main", "DETACH is not allowed"),
        ("PRAGMA query_only = OFF", "PRAGMA is not allowed"),
        ("PRAGMA user_version", "PRAGMA is not allowed"),
        ("SELECT * FROM pragma_database_list", "^that is not allowed"),
        ("VACUUM INTO '/tmp/x.db'", "not allowed"),
        ("BEGIN", "a transaction is not allowed"),
        ("REINDEX", "not allowed"),
        ("ANALYZE", "not allowed"),
        ("SELECT load_extension('x')", "cannot be asked|not allowed"),
        ("SELECT 1; SELECT 2", "one statement"),
        ("INSERT INTO words (words) VALUES ('rebuild')", "not allowed"),
        ("", "asks for nothing"),
        ("-- nothing", "asks for nothing"),
        ("SELECT", "cannot be asked"),
        ("SELECT * FROM no_such_view", "no such table"),
        ("SELECT length(zeroblob(100000000))", "too big"),
        ("SELECT '\x00'", "cannot be asked"),
        ("EXPLAIN DELETE FROM findings", "DELETE is not allowed"),
    ],
)
def test_whatever_is_asked_nothing_is_written(known: Home, sql: str, says: str) -> None:
    before = known.findings_db.read_bytes()
    with pytest.raises(StoreError) as caught:
        ask(known, sql)
    assert re.search(says, str(caught.value)), str(caught.value)
    assert "\n" not in str(caught.value)
    assert known.findings_db.read_bytes() == before
    assert len(Views(known).findings()) == 4


def test_a_question_without_end_is_stopped(known: Home) -> None:
    endless = "WITH RECURSIVE t(a) AS (SELECT 1 UNION ALL SELECT a + 1 FROM t) SELECT count(*) FROM t"
    with pytest.raises(StoreError, match=r"no answer within 0\.2 s") as caught:
        ask(known, endless, seconds=0.2)
    assert caught.value.exit_code == 4
    many = "WITH RECURSIVE t(a) AS (SELECT 1 UNION ALL SELECT a + 1 FROM t) SELECT a FROM t"
    answered = ask(known, many, most=5)
    assert ([row[0] for row in answered.rows], answered.more) == ([1, 2, 3, 4, 5], True)


def test_ctrl_c_ends_a_question(known: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float] = []

    def clock() -> float:
        asked.append(0.0)
        if len(asked) == 3:  # as Ctrl-C does it: at whatever line of Python runs, here one that SQLite calls
            raise KeyboardInterrupt
        return 0.0

    monkeypatch.setattr("memory.sql.time", SimpleNamespace(monotonic=clock))
    endless = "WITH RECURSIVE t(a) AS (SELECT 1 UNION ALL SELECT a + 1 FROM t) SELECT count(*) FROM t"
    with pytest.raises(KeyboardInterrupt):
        ask(known, endless)


def test_a_question_without_findings_says_so(home: Home) -> None:
    with pytest.raises(StoreError, match="no findings yet"):
        ask(home, "SELECT 1")
