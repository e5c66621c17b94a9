"""The contracts are frozen: what they write today is what the golden files hold, byte for byte.

A failure here means that a stored transcript or finding would be read differently. If that is meant, it
is a new ``format``; then write the files anew with ``python -m tests.golden``.
"""

from __future__ import annotations

import inspect
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import get_args

import pytest
from golden.samples import BODIES, CONTRACTS, FOLDER, TRANSCRIPT, contract_file, documents
from pydantic import ValidationError

from memory import vocabulary
from memory.home import Home
from memory.store import Store
from memory.vocabulary import (
    Because,
    Contract,
    FindingStatus,
    HypothesisState,
    Level,
    Outcome,
    Verdict,
)
from transcripts import events
from transcripts.events import Body, Event
from transcripts.log import read, verify

DOCUMENTS = documents()
CONCEPTS = Path(__file__).parent.parent / "docs" / "concepts.md"


@pytest.mark.parametrize("name", sorted(DOCUMENTS))
def test_what_is_written_is_the_golden_file(name: str) -> None:
    assert DOCUMENTS[name] == (FOLDER / name).read_text("utf-8")


def test_no_golden_file_is_left_over() -> None:
    kept = {path.name for path in FOLDER.iterdir() if path.suffix in {".json", ".jsonl"}}
    assert kept == set(DOCUMENTS)


@pytest.mark.parametrize("sample", CONTRACTS, ids=lambda sample: type(sample).__name__)
def test_a_golden_file_is_read_back(sample: Contract) -> None:
    text = (FOLDER / contract_file(sample)).read_text("utf-8")
    assert type(sample).model_validate_json(text) == sample


def test_the_golden_transcript_is_intact_and_read_back() -> None:
    path = FOLDER / TRANSCRIPT
    assert verify(path) == []
    assert tuple(event.data for event in read(path)) == BODIES


@pytest.mark.parametrize("path", sorted((FOLDER / "earlier").iterdir()), ids=lambda path: path.stem)
def test_what_earlier_programs_wrote_is_read(path: Path) -> None:
    assert verify(path) == []
    assert [event.seq for event in read(path)] == list(range(len(path.read_bytes().splitlines())))


def test_every_version_of_the_format_is_summed_up_and_the_newest_is_written() -> None:
    assert list(events.FORMATS) == list(range(1, events.FORMAT + 1))
    assert all(line and "\n" not in line and len(line) < 120 for line in events.FORMATS.values())


def test_every_contract_and_every_kind_of_event_has_a_sample() -> None:
    def models(module: object) -> set[type[Contract]]:
        found = {value for _, value in inspect.getmembers(module, inspect.isclass)}
        return {
            value
            for value in found
            if issubclass(value, Contract) and value is not Contract and value.__module__ == module.__name__  # type: ignore[attr-defined]
        }

    assert models(vocabulary) == {type(sample) for sample in CONTRACTS}
    assert models(events) == {type(body) for body in BODIES} | {Event}
    assert {type(body) for body in BODIES} == set(get_args(get_args(Body)[0]))


@pytest.mark.parametrize("sample", [*CONTRACTS, *BODIES], ids=lambda sample: type(sample).__name__)
def test_samples_fill_every_field_and_unknown_ones_are_refused(sample: Contract) -> None:
    # A sample that leaves optional fields at their default would not notice that one was lost.
    unset = set(type(sample).model_fields) - sample.model_fields_set - {"format", "kind"}
    assert unset == set()
    with pytest.raises(ValidationError):
        type(sample).model_validate({**sample.model_dump(), "surprise": 1})
    with pytest.raises(ValidationError):
        sample.surprise = 1  # type: ignore[attr-defined]


@pytest.mark.parametrize("words", [Verdict, Outcome, Level, Because, HypothesisState, FindingStatus])
def test_concepts_explains_every_word(words: type) -> None:
    text = CONCEPTS.read_text("utf-8")
    assert [value for value in words if f"`{value}`" not in text] == []  # type: ignore[attr-defined]


def test_concepts_lists_the_events_of_the_format() -> None:
    events_of = CONCEPTS.read_text("utf-8").partition("## Transcript format 1")[2]
    table = re.findall(r"^\| `(\w+)` \|(.*)\|$", events_of, re.MULTILINE)
    listed = {kind: set(re.findall(r"`(\w+)`", rest)) for kind, rest in table}
    for body in BODIES:
        assert body.kind in listed
        assert set(type(body).model_fields) - {"kind"} == listed[body.kind]


def test_concepts_promises_the_columns_of_every_view(home: Home) -> None:
    """In their order, for those who count them."""
    table = re.findall(r"^\| `(v_\w+)` \|(.*)\|$", CONCEPTS.read_text("utf-8"), re.MULTILINE)
    promised = {name: re.findall(r"`(\w+)`", re.sub(r"\([^)]*\)", "", rest)) for name, rest in table}
    with Store(home), closing(sqlite3.connect(home.findings_db)) as connection:
        names = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'view'")]
        there = {
            name: [
                column for (column,) in connection.execute("SELECT name FROM pragma_table_info(?)", (name,))
            ]
            for name in names
        }
    assert promised == there
