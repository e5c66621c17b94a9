"""Shell commands as typed calls: two labelled corpora, and what must never pass for a safe read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from transcripts.commands import parse_command

CORPORA = Path(__file__).parent / "commands"
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


@pytest.mark.parametrize("corpus", ["samples.jsonl", "own.jsonl"])
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


@pytest.mark.parametrize("corpus", ["samples.jsonl", "own.jsonl"])
def test_no_command_that_changes_something_is_a_safe_read(corpus: str) -> None:
    changing = [row for row in labelled(corpus) if is_labelled_mutating(row)]
    assert len(changing) > 5
    assert not [row["id"] for row in changing if not parse_command(row["command"]).mutates]


def test_a_typed_read_alone_is_known_to_be_safe() -> None:
    rows = [
        row
        for corpus in ("samples.jsonl", "own.jsonl")
        for row in labelled(corpus)
        if row["expected_kind"] in READS and not is_labelled_mutating(row)
    ]
    unsafe = [row["id"] for row in rows if parse_command(row["command"]).mutates]
    assert len(unsafe) <= 0.05 * len(rows), unsafe
