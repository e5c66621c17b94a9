"""Logs with a hand-written key: the first traceback, the class of the cause, versions and GPU.

``tests/logs/key.csv`` says of each where it comes from: ``ran`` (an engine really failed so; usage texts and
repeated lines shortened, paths renamed) or ``written`` by hand from a public case. ``first``: the line of the
first traceback's head, empty where there is none. ``class``: empty where nothing is to be named, several
where more than one is right.
"""

from __future__ import annotations

import csv
from functools import cache

import pytest
from program import ROOT

from memory.signatures import CLASSES
from tools.diagnosis.diagnose import Diagnosis, diagnose
from tools.diagnosis.kinds import next_step

LOGS = ROOT / "tests" / "logs"
with (LOGS / "key.csv").open(encoding="utf-8", newline="") as _file:
    KEY = list(csv.DictReader(_file))


@cache
def diagnosed(name: str) -> Diagnosis:
    with (LOGS / f"{name}.log").open("rb") as log:
        return diagnose(log)


def first_of(found: Diagnosis) -> str:
    return str(found.first.line) if found.first is not None else ""


def kind_of(found: Diagnosis) -> str:
    return found.cause.kind if found.cause is not None else ""


def test_the_key_is_of_these_logs() -> None:
    assert {row["log"] for row in KEY} == {path.stem for path in LOGS.glob("*.log")}
    assert len(KEY) >= 40
    assert sum(row["origin"] == "ran" for row in KEY) >= 20
    assert {kind for row in KEY for kind in row["class"].split("|") if kind} <= set(CLASSES)


def test_the_first_traceback_is_right_in_95_of_100() -> None:
    wrong = [row["log"] for row in KEY if first_of(diagnosed(row["log"])) != row["first"]]
    assert len(wrong) <= len(KEY) * 0.05, wrong


def test_the_class_is_right_in_90_of_100_and_none_is_wrong_for_certain() -> None:
    wrong = [row["log"] for row in KEY if kind_of(diagnosed(row["log"])) not in row["class"].split("|")]
    assert len(wrong) <= len(KEY) * 0.1, wrong
    for name in wrong:
        cause = diagnosed(name).cause
        assert cause is None or not cause.certain, name


@pytest.mark.parametrize("row", KEY, ids=[row["log"] for row in KEY])
def test_what_was_launched_is_told(row: dict[str, str]) -> None:
    found = diagnosed(row["log"])
    assert found.engine == row["engine"]
    versions = {f"{name}={version}" for name, version in found.packages.items()}
    assert set(row["packages"].split()) <= versions
    assert (found.arch or "") == row["arch"]


def test_a_plain_end_is_no_failure() -> None:
    for name in ("ran-and-served", "ran-vllm-and-served", "served-and-fell-back"):
        assert not diagnosed(name).follows, name
    assert diagnosed("only-the-tail").follows


def test_there_is_a_next_step_for_each_class_of_causes() -> None:
    for kind in CLASSES:
        assert next_step(kind)
