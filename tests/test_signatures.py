"""The table of log signatures and its scanner: right lines, no others, whatever the log."""

from __future__ import annotations

import re
import time
from io import BytesIO
from pathlib import Path

import pytest
import re2

from memory.signatures import CLASSES, Scanner, signatures
from memory.signatures.scan import BLOCK

HERE = Path(__file__).with_name("signatures")
GROUPS = {"backend", "arch", "operation", "component", "option", "value", "package"}
POSITIVE = [
    tuple(line.split("\t", 1))
    for line in (HERE / "positive.txt").read_text("utf-8").splitlines()
    if not line.startswith("#")
]
NO_IMAGE = "RuntimeError: CUDA error: no kernel image is available for execution on the device"


@pytest.fixture(scope="module")
def scanner() -> Scanner:
    return Scanner()


def test_every_signature_is_data_that_can_be_used() -> None:
    assert len(signatures()) > 100
    for signature in signatures():
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", signature.id)
        assert signature.kind in CLASSES, signature.id
        assert signature.advice.endswith("."), signature.id
        assert signature.sources, signature.id
        for source in signature.sources:
            assert re.match(r"https://|printed by |[\w-]+ \d[\w.]*: [\w./-]+$", source), source
        assert signature.kind != "aftermath" or signature.after, signature.id
    assert {signature.kind for signature in signatures()} == set(CLASSES)


def test_every_pattern_is_linear_and_names_only_known_groups() -> None:
    for signature in signatures():
        # What RE2 compiles has neither backreferences nor lookaround: its time is linear in the text.
        pattern = re2.compile(signature.pattern)
        assert set(pattern.groupindex) <= GROUPS, signature.id
        assert signature.pattern.isascii(), signature.id
        assert not pattern.search(""), signature.id


@pytest.mark.parametrize(("name", "line"), POSITIVE)
def test_the_first_signature_of_a_line_is_the_one_that_says_most(
    scanner: Scanner, name: str, line: str
) -> None:
    assert [match.signature.id for match in scanner.scan_text(line)][:1] == [name]


def test_every_signature_has_a_line() -> None:
    assert {name for name, _ in POSITIVE} == {signature.id for signature in signatures()}


def test_what_engines_print_when_all_is_well_fits_no_signature(scanner: Scanner) -> None:
    with (HERE / "innocent.log").open("rb") as log:
        found = [match for match in scanner.scan(log) if not match.signature.stops]
        assert [(match.signature.id, match.text) for match in found] == []


def test_what_a_line_names_is_caught(scanner: Scanner) -> None:
    (match,) = scanner.scan_text("mm_fp4 does not support backend 'trtllm' with capability 121")
    assert (match.component, match.backend, match.arch) == ("fp4_gemm", "trtllm", "sm121")
    (match,) = scanner.scan_text("ptxas fatal   : Value 'sm_121a' is not defined for option 'gpu-name'")
    assert (match.component, match.backend, match.arch) == (None, None, "sm121")
    (match,) = scanner.scan_text("error: argument --moe-runner-backend: invalid choice: 'b12x' (choose from)")
    assert match.named == {"option": "--moe-runner-backend", "value": "b12x"}


def test_lines_and_places_are_those_of_the_log(scanner: Scanner) -> None:
    line = b"\x1b[32m[2026-03-07 19:20:01 TP0]\x1b[0m Decode batch. #running-req: 1\n"
    before = line * (2 * BLOCK // len(line) + 7)
    log = (
        before + b"\x1b[31mRuntime\x1b[0mError: CUDA error: an illegal \x1b[1mmemory access was encountered\n"
    )
    (match,) = scanner.scan(BytesIO(log + line))
    assert match.line == before.count(b"\n") + 1
    assert match.offset == len(before)
    assert match.text == "RuntimeError: CUDA error: an illegal memory access was encountered"
    assert match.words == "an illegal memory access was encountered"


def test_a_line_without_end_is_searched_in_little_pieces(scanner: Scanner) -> None:
    text = NO_IMAGE.encode()
    # One stands across the end of the first block, and in what is looked at twice.
    line = b"x" * (BLOCK - 20) + text + b"y" * BLOCK + text + b"z" * BLOCK
    found = list(scanner.scan(BytesIO(b"first\n" + line + b"\nlast " + text)))
    assert [(match.line, match.offset) for match in found] == [(2, 6), (3, 6 + len(line) + 1)]
    assert all(len(match.text) <= 400 and text.decode() in match.text for match in found)


def test_bytes_that_are_no_text_are_no_hindrance(scanner: Scanner) -> None:
    log = b"\xff\xfe\x00\n\xe2\x82" + NO_IMAGE.encode() + b" \xc3\x28\n"
    assert [match.line for match in scanner.scan(BytesIO(log))] == [2]
    assert list(scanner.scan(BytesIO(b""))) == []


def test_no_signature_fills_the_memory(scanner: Scanner) -> None:
    log = BytesIO((NO_IMAGE + "\n").encode() * 1000 + b"CUDA out of memory\n")
    found = [match.signature.id for match in scanner.scan(log, most=3)]
    assert found == ["no-kernel-image"] * 3 + ["cuda-out-of-memory"]


def test_a_hostile_line_takes_linear_time(scanner: Scanner) -> None:
    pieces = [
        b"does not support backend '" * 40_000,
        b"No x MoE backend " * 60_000,
        b"ptxas " * 170_000,
        b"NVRM: Check failed: Out of memory " * 30_000,
        b"requires OutOfResources shared memory, Required: " * 20_000,
    ]
    started = time.process_time()
    assert list(scanner.scan(BytesIO(b"".join(pieces * 2)))) == []
    assert time.process_time() - started < 5  # it is about 0.05
