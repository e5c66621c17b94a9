"""Shell commands as typed calls: two labelled corpora, and what must never pass for a safe read."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from program import agent, one_line

from transcripts.commands import parse_command

CORPORA = Path(__file__).parent / "commands"
CORPUS = ["samples.jsonl", "own.jsonl", "more.jsonl", "third.jsonl"]
READS = {"read_source", "search_source", "list_source", "gpu_status"}


def labelled(name: str) -> list[dict[str, Any]]:
    lines = (CORPORA / name).read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def differences(expected: dict[str, Any], found: dict[str, Any]) -> Iterator[str]:
    """Fields that are not as labelled; notes are for people."""
    for name, value in expected.items():
        if name != "note" and found.get(name, "(none)") != value:
            yield f"{name}: expected {value!r}, found {found.get(name, '(none)')!r}"


def wrong(row: dict[str, Any]) -> list[str]:
    found = parse_command(row["command"]).document()
    problems = list(differences(row["expected_fields"], found["fields"]))
    steps = row.get("expected_steps")
    if steps is not None:
        if [step["kind"] for step in steps] != [step["kind"] for step in found["steps"]]:
            problems.append(f"steps: found {[step['kind'] for step in found['steps']]}")
        for step, other in zip(steps, found["steps"], strict=False):
            problems += differences(step["fields"], other["fields"])
    return problems


def is_labelled_mutating(row: dict[str, Any]) -> bool:
    fields = [row["expected_fields"], *(step["fields"] for step in row.get("expected_steps", []))]
    return any(one.get("mutates") for one in fields)


@pytest.mark.parametrize("corpus", CORPUS)
def test_kinds_and_fields_are_as_a_person_labelled_them(
    corpus: str, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = labelled(corpus)
    kinds = [parse_command(row["command"]).kind.value == row["expected_kind"] for row in rows]
    problems = [wrong(row) for row in rows]
    for row, same, found in zip(rows, kinds, problems, strict=True):
        if found or not same:
            print(
                row["id"],
                row["command"],
                "" if same else f"kind is not {row['expected_kind']}",
                *found,
                sep="\n  ",
            )
    assert sum(kinds) >= 0.97 * len(rows)
    assert sum(not found for found in problems) >= 0.92 * len(rows)


@pytest.mark.parametrize("corpus", CORPUS)
def test_no_command_that_changes_something_is_a_safe_read(corpus: str) -> None:
    changing = [row for row in labelled(corpus) if is_labelled_mutating(row)]
    assert len(changing) > 5
    assert not [row["id"] for row in changing if not parse_command(row["command"]).mutates]


def test_a_typed_read_alone_is_known_to_be_safe() -> None:
    rows = [
        row
        for corpus in CORPUS
        for row in labelled(corpus)
        if row["expected_kind"] in READS and not is_labelled_mutating(row)
    ]
    unsafe = [row["id"] for row in rows if parse_command(row["command"]).mutates]
    assert len(unsafe) <= 0.05 * len(rows), unsafe


def test_what_may_change_something_is_never_known_to_be_safe() -> None:
    """Redirections, editing options, hidden substitutions, pagers, aliases, programs from elsewhere."""
    commands = [row["command"] for row in labelled("changing.jsonl")]
    assert len(commands) > 300
    assert not [command for command in commands if not parse_command(command).mutates]


@pytest.mark.parametrize(
    "command",
    [
        *('sort -- "$X"', 'sort -k "$K" f', "sort '$X'", "X=f; sort $X", 'for f in a b; do sort "$f"; done'),
        *('git diff HEAD.."$A"', 'git log --format="$X"', 'git show HEAD:"$F"', 'git show -- "$F"'),
        *("head -n $N f", 'cat "$F"', 'grep foo "$X"', "awk 'NR == 5' \"$F\"", 'sed -n 5p -- "$F"'),
    ],
)
def test_what_a_variable_cannot_make_an_option_that_writes_is_safe(command: str) -> None:
    assert not parse_command(command).mutates


ODD = {
    "a megabyte": "sed -n 1,5p f; " * 70_000,
    "as long as is read": "sed -n 1,5p f; " * 4_000,
    "an open quote": "echo '" + "x" * 90_000,
    "open brackets": "(" * 90_000,
    "open substitutions": "$(" * 40_000,
    "nested substitutions": "echo " + "$(echo " * 3_000 + "ls" + ")" * 3_000,
    "nested expansions": "echo " + "${a:-" * 5_000 + "}" * 5_000,
    "nested braces": "{ " * 3_000 + "ls;" + " }" * 3_000,
    "open conditions": "if true; then " * 6_000,
    "many pipes": "|".join(["ls"] * 8_000),
    "many lists": " && ".join(["ls"] * 10_000),
    "many arguments": "ls " + "a " * 40_000,
    "many wrappers": "timeout 5 nohup sudo " * 900 + "ls",
    "a variable that doubles": "A=xx; " + 'A="$A$A"; ' * 60 + "cat $A",
    "an endless script": "awk '" + "{print} " * 10_000 + "' f",
    "open blocks": "sed -n '" + "{" * 50_000 + "' f",
    "spans of many files": "sed -n '" + "1p;" * 1_500 + "' " + "f " * 10_000,
    "a NUL": "ls \0 x",
    "half a character": "ls \ud800",
    "open documents": "cat <<EOF\n" * 3_000,
}


@pytest.mark.parametrize("name", ODD)
def test_odd_text_is_parsed_in_bounded_time(name: str) -> None:
    started = time.process_time()
    document = parse_command(ODD[name]).document()
    assert time.process_time() - started < 5
    assert json.dumps(document)


def test_no_text_makes_a_traceback() -> None:
    seed = random.Random(20)
    real = [row["command"] for name in [*CORPUS, "changing.jsonl"] for row in labelled(name)]
    signs = " $(){}|&;<>\"'`\n\\abls-n=/.*!~#[]"
    for _ in range(400):
        parse_command("".join(seed.choice(signs) for _ in range(seed.randrange(60))))
        parse_command(bytes(seed.randrange(256) for _ in range(seed.randrange(100))).decode("latin-1"))
        text = list(seed.choice(real))
        for _ in range(seed.randrange(1, 4)):
            place, other = seed.randrange(len(text) + 1), seed.choice(real)
            start = seed.randrange(len(other))
            text[place : place + seed.randrange(3)] = other[start : start + seed.randrange(20)]
        parse_command("".join(text))


def test_the_command_line_gives_one_answer_or_a_list(tmp_path: Path) -> None:
    one = agent("transcripts", "parse-command", "ssh box 'sed -n 5,9p a.py'", "--json")
    expected = {"file": "a.py", "start": 5, "end": 9, "host": "box"}
    assert json.loads(one.stdout) == {
        "kind": "read_source",
        "fields": expected,
        "steps": [{"kind": "read_source", "fields": expected}],
        "mutates": False,
    }
    file = tmp_path / "commands.jsonl"
    file.write_text('{"command": "nvidia-smi"}\n\n{"id": 2, "command": "rm x"}\n', encoding="utf-8")
    answers = json.loads(agent("transcripts", "parse-command", "--file", str(file)).stdout)
    assert [(answer["kind"], answer["mutates"]) for answer in answers] == [
        ("gpu_status", False),
        ("other", True),
    ]
    assert "may change something" in agent("transcripts", "parse-command", "rm x").stdout


@pytest.mark.parametrize("line", ["no json", "[]", '{"command": 5}', "{}", "\udcff"])
def test_a_line_without_a_command_is_said_with_its_number(line: str, tmp_path: Path) -> None:
    file = tmp_path / "commands.jsonl"
    file.write_bytes(b'{"command": "ls"}\n' + line.encode("utf-8", "surrogateescape") + b"\n")
    one_line(agent("transcripts", "parse-command", "--file", str(file)), 2, "commands.jsonl, line 2")
