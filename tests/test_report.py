"""The answer on one screen, and as Markdown: from the answer alone, foreign text made harmless."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from agent.layout import command_lines, path_of, plain
from agent.markdown import markdown
from agent.ranking import matter
from agent.reasons import undecided
from agent.recommend import PLACEHOLDER, choose, command, recommend
from agent.report import HEIGHT, MOST_ROWS, screen
from agent.text import safe, shorten
from memory.vocabulary import (
    Answer,
    Because,
    Claim,
    Condition,
    EnvironmentSummary,
    EventEvidence,
    Evidence,
    Finding,
    FindingStatus,
    FirstGate,
    HypothesisState,
    Level,
    NotRun,
    Observed,
    Outcome,
    Recommendation,
    Row,
    Target,
    Verdict,
)
from tools.engines.adapter import engines
from tools.engines.options import DeclaredValue, Option
from transcripts.events import HypothesisChanged

LAUNCH = engines()["sglang"].launch
EVIL = "\x1b[31m[bold]\u202eevil[/bold]\n| `x` <b>"


def evidence(text: str = "@gate([100, 103])", file: str = "pkg/gates.py") -> Evidence:
    return Evidence(
        package="pkg", version="1", file=file, line=12, end_line=12, sha256="a" * 64, text=text, idiom="gate"
    )


def row(component: str, backend: str, verdict: Verdict, **fields: Any) -> Row:
    if verdict is Verdict.BLOCKED:
        fields = {"because": Because.ARCHITECTURE, "evidence": (evidence(),), **fields}
    return Row(component=component, backend=backend, arch="sm120", verdict=verdict, **fields)


def trap(component: str, backend: str) -> Row:
    gate = FirstGate(verdict=Verdict.NO_STATIC_OBSTACLE, file="engine/options.py", line=3)
    return row(component, backend, Verdict.BLOCKED, first_gate=gate)


def answer(rows: Sequence[Row], recommended: Recommendation | None = None, **fields: Any) -> Answer:
    target = fields.pop("target", Target(question="q", model="m", quantisation="nvfp4", arch="sm120"))
    return Answer(
        investigation="20260307-abcdef",
        target=target,
        environment=EnvironmentSummary(packages={"pkg": "1.2", "sglang": "9.9"}),
        backends=tuple(rows),
        recommendation=recommended,
        not_run=(
            NotRun(level=Level.STATIC, what="why x is blocked", command="agent explain c x --arch sm120"),
            NotRun(level=Level.PROBE, what="no kernel has run"),
        ),
        transcript="20260307-abcdef",
        **fields,
    )


def many_rows() -> list[Row]:
    rows = []
    for component in ("fp4_gemm", "moe_runner", "attention", "linear_attention"):
        rows += [row(component, f"good_{number}", Verdict.NO_STATIC_OBSTACLE) for number in range(6)]
        rows += [trap(component, f"trap_{number}") for number in range(3)]
        rows += [row(component, f"bad_{number}", Verdict.BLOCKED) for number in range(3)]
        rows += [row(component, f"other_{number}", Verdict.NOT_APPLICABLE) for number in range(5)]
        rows += [row(component, f"dark_{number}", Verdict.UNKNOWN) for number in range(5)]
    return rows


FOUND = Recommendation(
    command="python -m sglang.launch_server --model-path MODEL_PATH --fp4-gemm-backend good_0 "
    "--moe-runner-backend good_0 --attention-backend good_0 --linear-attention-backend good_0 --tp-size 8",
    tested=False,
    ranked_by=tuple(
        f"{component}: good_0, the engine's default"
        for component in ("fp4_gemm", "moe_runner", "attention", "linear_attention")
    ),
)


def test_a_large_answer_fits_one_screen() -> None:
    long = Target(
        question="q",
        model="a-very-long-organisation/" + "Model-" * 12 + "NVFP4",
        quantisation="nvfp4",
        arch="sm120",
        gpu="RTX PRO 6000 Blackwell Server Edition",
        gpu_count=8,
        assumed=tuple(f"a default that takes a whole sentence to say, number {n}" for n in range(6)),
    )
    lines = screen(answer(many_rows(), FOUND, target=long))
    assert len(lines) < HEIGHT
    text = plain(lines)
    assert max(len(line) for line in text.split("\n")) <= 80
    assert "Candidate, untested:" in text
    assert "20 of other vendors" in text
    assert "20 unknown" in text
    shown = [line for line in text.split("\n") if line[:1] in "▸✗·→" and line[:1].strip()]
    assert 4 <= len(shown) <= MOST_ROWS


def test_everything_shows_every_row() -> None:
    rows = many_rows()
    text = plain(screen(answer(rows, FOUND), everything=True))
    for one in rows:
        assert f"{one.component} " in text
        assert one.backend in text
    assert len([line for line in text.split("\n") if "_" in line and line[2:].startswith("fp4_gemm")]) == 22
    assert "because fp4_gemm: good_0" in text


def test_the_rows_that_matter_come_first() -> None:
    rows = [
        row("c", "bad", Verdict.BLOCKED),
        row("c", "dark", Verdict.UNKNOWN),
        trap("c", "trap"),
        row("c", "good_1", Verdict.NO_STATIC_OBSTACLE),
        row("c", "good_0", Verdict.NO_STATIC_OBSTACLE),
        row("d", "only", Verdict.REROUTED, runs_instead="x"),
    ]
    found = Recommendation(command="x", tested=False, ranked_by=("c: good_0, why",))
    names = [[one.backend for one in group] for group in matter(answer(rows, found))]
    assert names == [["good_0"], ["trap"], ["good_1"], ["only"], ["bad"]]


def test_backends_of_which_the_same_lines_say_the_same_stand_together() -> None:
    other = (evidence(file="pkg/other.py"),)
    rows = [
        row("c", "a", Verdict.BLOCKED),
        row("c", "b", Verdict.BLOCKED, evidence=other),
        row("c", "c", Verdict.BLOCKED),
        row("d", "a", Verdict.BLOCKED),
    ]
    names = [[one.backend for one in group] for group in matter(answer(rows))]
    assert sorted(names) == [["a"], ["a", "c"], ["b"]]
    assert "✗ c a, c " in plain(screen(answer(rows)))
    assert "✗ c a, c " not in plain(screen(answer(rows), everything=True))


def test_a_trap_says_where_and_that_the_first_gate_lets_it_through() -> None:
    text = plain(screen(answer([trap("c", "x")])))
    assert re.search(
        r"✗ c x +blocked  architecture \(first gate: yes\)\n +pkg/gates.py:12  @gate\(\[100, 103\]\)", text
    )
    assert "No backend can be recommended." in text


def test_conditions_and_reroutes_are_said() -> None:
    rows = [
        row("c", "a", Verdict.NO_STATIC_OBSTACLE, conditions=(Condition(fact="lib", op=">=", value=9),)),
        row("c", "b", Verdict.REROUTED, runs_instead="z"),
    ]
    text = plain(screen(answer(rows)))
    assert "if lib >= 9" in text
    assert "rerouted  runs z" in text


@pytest.mark.parametrize(
    ("conditions", "said"),
    [
        ([("lib.backend_version()", ">=", 91002)], "if lib backend_version >= 91002"),
        ([("lib.__version__", ">=", [1, 13])], "if lib version >= 1.13"),
        ([("n", ">=", 3), ("n", ">=", 7), ("n", ">=", 5), ("m", "<", 2)], "if n >= 7 and m < 2"),
        ([("n", "<=", 3), ("n", "<=", 2)], "if n <= 2"),
        ([("n", ">=", 3), ("n", ">=", "x")], "if n >= 3 and n >= x"),
        ([("kind", "in", [1, 2])], "if kind in [1, 2]"),
        ([("f(x)", "unknown", None)], "if f(x) (not readable)"),
    ],
)
def test_conditions_are_written_as_people_do(conditions: list[tuple[str, Any, Any]], said: str) -> None:
    facts = tuple(Condition(fact=fact, op=op, value=value) for fact, op, value in conditions)
    text = plain(screen(answer([row("c", "a", Verdict.NO_STATIC_OBSTACLE, conditions=facts)])))
    assert said in [line.strip() for line in text.split("\n")]


def test_why_reading_does_not_decide_is_said_with_every_row() -> None:
    rows = [row("c", "a", Verdict.UNKNOWN), row("c", "b", Verdict.UNKNOWN)]
    why = {("c", "a"): "runs compiled code that was not read: lib.kernel"}
    text = plain(screen(answer(rows), everything=True, why=why))
    assert re.search(r"c a +unknown\n +runs compiled code that was not read: lib.kernel\n", text)
    assert "| `c` | `a` | unknown | runs compiled code that was not read: lib.kernel |" in markdown(
        answer(rows), why
    )
    hypotheses = [
        HypothesisChanged(
            id=one.backend,
            component="c",
            backend=one.backend,
            arch="sm120",
            state=HypothesisState.INCONCLUSIVE,
            because=f"unknown: {one.backend} leads nowhere",
            row=one,
        )
        for one in rows
    ]
    assert undecided(hypotheses) == {("c", "a"): "a leads nowhere", ("c", "b"): "b leads nowhere"}


def test_an_automatic_value_is_shown_with_what_it_leads_to() -> None:
    rows = [
        row("c", "auto", Verdict.NO_STATIC_OBSTACLE, runs_instead="good"),
        row("c", "good", Verdict.NO_STATIC_OBSTACLE),
        row("d", "auto", Verdict.NO_STATIC_OBSTACLE, runs_instead="other"),
    ]
    found = Recommendation(command="x", tested=False, ranked_by=("c: good, the default leads to it",))
    text = plain(screen(answer(rows, found)))
    assert re.search(r"▸ c auto → good +no static obstacle", text)
    assert re.search(r"· d auto +no static obstacle  → other", text)
    assert re.search(r"▸ c good +no static", plain(screen(answer(rows, found), everything=True)))


def test_a_component_that_the_engine_decides_gets_no_flag() -> None:
    choice = choose(option(None, "a", "b"), GOOD, [])
    assert choice is not None
    assert choice.left is not None
    found = recommend(Target(question="q", arch="sm120"), LAUNCH, [choice], [])
    assert found is not None
    assert "--c-backend" not in found.command
    assert found.ranked_by == ("c: left to the engine; --c-backend has no default, it decides by itself",)
    assert found.alternatives == ("c: a", "c: b")
    found = recommend(Target(question="q", arch="sm120"), LAUNCH, [choice], [], ["d"])
    assert found is not None
    assert found.ranked_by[-1].startswith("d: left to the engine; reading finds no candidate")
    text = plain(screen(answer([*GOOD, row("d", "dark", Verdict.UNKNOWN)], found)))
    assert "Candidate, untested (c, d: left to the engine):" in text
    assert "▸" not in text


def test_what_was_measured_is_better_than_what_the_engine_would_guess() -> None:
    ran = Observed(level=Level.SERVER, outcome=Outcome.OK, experiment="e1")
    choice = choose(option(None, "a", "b"), [GOOD[0], GOOD[1].model_copy(update={"observed": ran})], [])
    assert choice is not None
    found = recommend(Target(question="q", arch="sm120"), LAUNCH, [choice], [])
    assert found is not None
    assert found.command.endswith("--c-backend b")


def test_a_default_that_leads_to_what_no_value_names_is_given_by_its_own_name() -> None:
    leads = row("c", "auto", Verdict.REROUTED, runs_instead="lib.kernel")
    choice = choose(option("auto", "auto", "a", "b"), [leads, *GOOD], [])
    assert choice is not None
    found = recommend(Target(question="q", arch="sm120"), LAUNCH, [choice], [])
    assert found is not None
    assert "--c-backend auto" in found.command
    assert found.ranked_by == ("c: auto, the engine's default; it runs lib.kernel, which no value names",)


def test_where_the_engine_would_take_what_is_refused_a_flag_names_another() -> None:
    rows = [row("c", "a", Verdict.BLOCKED), row("c", "b", Verdict.NO_STATIC_OBSTACLE)]
    for taken, given, why in (
        (
            "a",
            True,
            "b, first declared that no gate refuses; left alone the engine takes a, which is refused",
        ),
        ("b", False, "left to the engine; --c-backend has no default, for this model it takes b"),
        (None, False, "left to the engine; --c-backend has no default, it decides by itself"),
    ):
        choice = choose(option(None, "a", "b"), rows, [], taken=taken)
        assert choice is not None
        found = recommend(Target(question="q", arch="sm120"), LAUNCH, [choice], [])
        assert found is not None
        assert ("--c-backend b" in found.command) is given, taken
        assert found.ranked_by == (f"c: {why}",)


def test_of_what_is_refused_the_gpu_comes_before_the_candidates_and_options_once() -> None:
    def stopped(name: str, line: str) -> Row:
        return trap("c", name).model_copy(
            update={"because": Because.OPTION, "evidence": (evidence(file=f"pkg/{line}.py"),)}
        )

    rows = [
        *[stopped(name, "few") for name in ("x1",)],
        *[stopped(name, "many") for name in ("y1", "y2", "y3")],
        row("c", "second", Verdict.NO_STATIC_OBSTACLE),
        row("c", "first", Verdict.NO_STATIC_OBSTACLE),
        trap("c", "gpu"),
    ]
    found = Recommendation(command="x", tested=False, ranked_by=("c: first, why",))
    names = [[one.backend for one in group] for group in matter(answer(rows, found))]
    assert names == [["first"], ["gpu"], ["second"], ["y1", "y2", "y3"], ["x1"]]
    # A first gate that does not say yes lets nobody believe anything.
    unsure = FirstGate(verdict=Verdict.UNKNOWN, file="engine/options.py", line=3)
    assert "first gate: yes" not in plain(
        screen(answer([trap("c", "x").model_copy(update={"first_gate": unsure})]))
    )


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_a_screen_is_a_screen_whatever_is_on_it(width: int) -> None:
    random = Random(width)
    words = ["a", "flash", "x" * 50, "gemm_backend", EVIL, "/very/long/path" * 12, "it's", "\\\\"]

    def text(most: int) -> str:
        return "_".join(random.choice(words) for _ in range(random.randint(1, most)))

    for _ in range(60):
        rows = [
            row(
                random.choice(["fp4_gemm", "moe_runner", "c" * 40]),
                text(3),
                random.choice(list(Verdict)),
                conditions=tuple(
                    Condition(fact=text(4), op=">=", value=n) for n in range(random.randint(0, 3))
                ),
                runs_instead=random.choice([None, text(3)]),
                first_gate=random.choice(
                    [None, FirstGate(verdict=Verdict.NO_STATIC_OBSTACLE, file="f", line=1)]
                ),
                evidence=(evidence(text(5), f"{text(5)}.py"),),
            )
            for _ in range(random.randint(0, 30))
        ]
        command = " ".join(
            ["python", "--model-path", text(20), *(f"--{text(2)} {text(2)}" for _ in range(9))]
        )
        found = Recommendation(command=command, tested=False, ranked_by=(f"{text(1)}: {text(1)}, why",))
        target = Target(question="q", model=text(9), arch="sm120", assumed=tuple(text(6) for _ in range(5)))
        drawn = screen(answer(rows, random.choice([None, found]), target=target), width=width)
        assert len(drawn) < HEIGHT
        for line in plain(drawn).split("\n"):
            assert len(line) <= width, line
            assert line.isprintable()


@pytest.mark.parametrize("width", [30, 40, 80])
def test_a_broken_command_is_the_same_command_to_a_shell(width: int) -> None:
    path = "/data/models/" + "a-long-folder/" * 12 + "snapshot\\\\x"
    command = f"python -m engine --model-path {path} --c-backend good --tp-size 8"
    lines = command_lines(command, width)
    assert all(len(line) <= width for line in lines)
    finished = subprocess.run(
        ["sh", "-c", "set -- " + "\n".join(lines) + "\nprintf '%s\\n' \"$@\""],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert finished.stdout.split("\n")[:-1] == shlex.split(command)


def test_a_path_is_cut_between_folders() -> None:
    assert path_of("a/bb/ccc/file.py:12", 40) == "a/bb/ccc/file.py:12"
    assert path_of("a/bb/ccc/file.py:12", 18) == "…/ccc/file.py:12"
    assert path_of("a/bb/ccc/file.py:12", 12) == "…/file.py:12"
    assert path_of("a/bb/ccc/file.py:12", 8) == "…e.py:12"


def test_foreign_text_cannot_drive_a_terminal_or_become_markup() -> None:
    target = Target(question=EVIL, model=EVIL, arch="sm120", assumed=(EVIL,))
    rows = [row(EVIL, EVIL, Verdict.BLOCKED, evidence=(evidence(EVIL, EVIL),), because=None)]
    found = Recommendation(command=EVIL, tested=False, ranked_by=(EVIL,))
    for everything in (False, True):
        for line in plain(screen(answer(rows, found, target=target), everything=everything)).split("\n"):
            assert line.isprintable()
    document = markdown(answer(rows, found, target=target))
    assert "\x1b" not in document
    assert "\u202e" not in document
    assert not [
        line for line in document.split("\n") if "<b>" in line and "`" not in line and line[:4].strip()
    ]
    table = [line for line in document.split("\n") if line.startswith("| `")]
    assert len(table) == 1
    assert len(re.findall(r"(?<!\\)\|", table[0])) == 6, "a bar in foreign text makes no cell"


def test_safe_spells_out_what_cannot_be_seen() -> None:
    assert safe("a\tb") == "a b"
    assert safe("\x1b[0m\x07\x7f") == "\\x1b[0m\\x07\\x7f"
    assert safe("\u202e\u2066\u200b") == "\\u202e\\u2066\\u200b"
    assert safe("\udc80") == "\\udc80"
    assert safe("Größe 8 × ✓") == "Größe 8 × ✓"
    assert shorten("a\n b  c", 4) == "a b…"


def test_markdown_has_every_row_and_its_evidence() -> None:
    document = markdown(answer([trap("c", "x"), row("c", "y", Verdict.NO_STATIC_OBSTACLE)], FOUND))
    assert "| `c` | `x` | blocked |" in document
    assert "| `c` | `y` | no static obstacle |" in document
    assert "    @gate([100, 103])" in document
    assert "**Candidate, untested:**" in document
    assert document.endswith("\n")


def test_a_command_breaks_between_options_and_stays_one_command() -> None:
    lines = command_lines(FOUND.command, 80)
    assert all(len(line) <= 80 for line in lines)
    joined = " ".join(line.strip().removesuffix("\\").strip() for line in lines)
    assert joined == FOUND.command
    assert all(line.endswith(" \\") for line in lines[:-1])


def option(default: Any, *values: str) -> Option:
    return Option(
        component="c",
        flag="--c-backend",
        field="c_backend",
        values=tuple(DeclaredValue(value=value, evidence=evidence()) for value in values),
        default=default,
        evidence=evidence(),
    )


def finding(backend: str, outcome: Outcome, status: FindingStatus = FindingStatus.CURRENT) -> Finding:
    seen = EventEvidence(transcript="t", head="0" * 64, event=1, excerpt="nan", sha256="0" * 64)
    claim = Claim(
        component="c",
        backend=backend,
        arch="sm120",
        engine="sglang",
        packages={"sglang": "9.8"},
        level=Level.REPORT,
        outcome=outcome,
        event_evidence=(seen,),
    )
    return Finding(id="0123456789abcdef", claim=claim, status=status, transcript="t", event=1)


GOOD = [row("c", name, Verdict.NO_STATIC_OBSTACLE) for name in ("a", "b")]


def test_the_engines_own_default_comes_before_the_first_declared() -> None:
    for default, expected in (("b", "b"), ("a", "a"), (None, "a"), ("blocked", "a")):
        choice = choose(
            option(default, "a", "b", "blocked"), [*GOOD, row("c", "blocked", Verdict.BLOCKED)], []
        )
        assert choice is not None
        assert choice.row.backend == expected
    leads = row("c", "auto", Verdict.REROUTED, runs_instead="b")
    choice = choose(option("auto", "auto", "a", "b"), [leads, *GOOD], [])
    assert choice is not None
    assert (choice.row.backend, choice.why) == ("b", "what the engine's default (auto) leads to")
    leads = row("c", "auto", Verdict.REROUTED, runs_instead="blocked")
    choice = choose(
        option("auto", "auto", "a", "b"), [leads, *GOOD, row("c", "blocked", Verdict.BLOCKED)], []
    )
    assert choice is not None
    assert choice.row.backend == "a"


def test_what_was_measured_comes_before_everything() -> None:
    ran = Observed(level=Level.SERVER, outcome=Outcome.OK, experiment="e1")
    rows = [GOOD[0], row("c", "b", Verdict.NO_STATIC_OBSTACLE, observed=ran)]
    choice = choose(option("a", "a", "b"), rows, [])
    assert choice is not None
    assert choice.row.backend == "b"


@pytest.mark.parametrize("outcome", [Outcome.NAN, Outcome.CRASHED])
def test_a_current_report_of_nan_or_crash_demotes_with_its_link(outcome: Outcome) -> None:
    target = Target(question="q", arch="sm120")
    known = [finding("a", outcome)]
    choice = choose(option("a", "a", "b"), GOOD, known)
    assert choice is not None
    assert choice.row.backend == "b"
    found = recommend(target, LAUNCH, [choice], known)
    assert found is not None
    assert any("a" in note and "agent findings show 0123456789ab" in note for note in found.ranked_by)
    # One that is no longer current, or about something else, demotes nothing.
    for harmless in (
        finding("a", outcome, FindingStatus.STALE),
        finding("z", outcome),
        finding("a", Outcome.OK),
    ):
        choice = choose(option("a", "a", "b"), GOOD, [harmless])
        assert choice is not None
        assert choice.row.backend == "a"
    # If nothing else is left it is still the candidate, and the report is said with it.
    choice = choose(option("a", "a"), GOOD[:1], known)
    assert choice is not None
    assert "0123456789ab" in choice.why


def test_a_command_holds_what_was_given_and_nothing_else() -> None:
    flags = {"--c-backend": "a"}
    bare = command(Target(question="q", model="qwen3.5", arch="sm120"), LAUNCH, flags)
    assert bare == f"python -m sglang.launch_server --model-path {PLACEHOLDER} --c-backend a"
    full = command(Target(question="q", model="org/m;rm -rf", arch="sm120", gpu_count=8), LAUNCH, {})
    assert full == f"python -m sglang.launch_server --model-path {PLACEHOLDER} --tp-size 8"
    full = command(Target(question="q", model="org/m;rm", arch="sm120"), LAUNCH, {})
    assert full == "python -m sglang.launch_server --model-path 'org/m;rm'"
    vllm = command(Target(question="q", model="org/m", arch="sm120"), engines()["vllm"].launch, flags)
    assert vllm == "vllm serve org/m --c-backend a"


def test_a_pick_that_is_refused_or_rerouted_is_never_recommended() -> None:
    rows = [row("c", "a", Verdict.BLOCKED), row("c", "b", Verdict.REROUTED, runs_instead="a")]
    assert choose(option("a", "a", "b"), rows, []) is None
    assert recommend(Target(question="q", arch="sm120"), LAUNCH, [], []) is None
