"""A step explained from what stands around it: every statement with the events that say so."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from program import ROOT, agent, one_line
from told import Told, investigation

from memory.home import Home
from tools.sessions.explain_imported import explain_imported
from tools.sessions.explain_own import explain_own
from tools.sessions.explaining import Explanation, same_file
from transcripts.imported.reader import Library
from transcripts.importers.importing import import_path

FILE = "/opt/sglang/srt/layers/quantization/fp4_utils.py"
SEED = ROOT / "transcripts" / "recorded" / "seed-sm120.jsonl"


def explained(told: Told, tmp_path: Path, home: Home, event: int) -> Explanation:
    import_path(home, told.write(tmp_path), lambda value: value, lambda _: None)
    with Library(home) as library:
        return explain_imported(library.open(told.name), event)


def said(explanation: Explanation, about: str) -> list[tuple[str, tuple[int, ...]]]:
    return [(one.text, one.events) for one in explanation.statements if one.about == about]


def test_a_read_is_told_with_what_came_before_and_after(tmp_path: Path, home: Home) -> None:
    told, at = investigation()
    explanation = explained(told, tmp_path, home, at["read"])
    read, grep, again = at["read"], at["grep"], at["again"]
    assert explanation.step == (read - 1, read, read + 2)
    assert said(explanation, "did") == [
        ("the agent said “Which backend does the code choose?”", (read - 1,)),
        (f"event {read} read {FILE} lines 30–60: ok", (read, read + 2)),
    ]
    assert said(explanation, "request") == [
        ("the person had said “update all to nightly, then find the FP4 GEMM that works”", (at["request"],))
    ]
    # The search before it named the folder; its result the file: no call had.
    assert (f"no call before event {read - 1} names fp4_utils.py", (read - 1,)) in said(explanation, "first")
    assert ("seen here for the first time: fp4_gemm_runner", (read + 2,)) in said(explanation, "first")
    assert said(explanation, "later") == [
        (f"event {again} read {FILE} lines 50–90: ok", (again, again + 2)),
    ]
    assert grep < read < again


def test_a_later_read_knows_the_earlier_ones_and_symbols(tmp_path: Path, home: Home) -> None:
    told, at = investigation()
    explanation = explained(told, tmp_path, home, at["again"] + 2)
    read = at["read"]
    assert said(explanation, "before") == [
        (f"fp4_utils.py had been named by 1 call: event {read}", (read,)),
        (f"event {read} read {FILE} lines 30–60: ok", (read, read + 2)),
        (f"event {read} had shown lines 50–60 of these already", (read, read + 2)),
    ]
    first = said(explanation, "first")
    assert first == [("seen here for the first time: fp4_gemm_autotune", (at["again"] + 2,))]
    searched = explained(told, tmp_path, home, at["grep"])
    assert said(searched, "before") == []


def test_a_launch_is_told_with_how_it_and_the_others_came_out(tmp_path: Path, home: Home) -> None:
    told, at = investigation()
    explanation = explained(told, tmp_path, home, at["launch"])
    later = dict(said(explanation, "later"))
    (text,) = [text for text in later if "flashinfer_cutlass was launched" in text]
    assert f"it answered (event {at['log'] + 2})" in text
    assert f"event {at['figures'] + 2} measured output_throughput 2810.22 tok/s" in text
    assert f"nan, as event {at['crash'] + 2} says: “Detected errors during sampling!" in text
    assert later[text] == (at["launch"], at["log"] + 2, at["figures"] + 2, at["crash"] + 2)
    refused = explained(told, tmp_path, home, at["trtllm"])
    (text,) = [text for text, _ in said(refused, "later") if "flashinfer_trtllm" in text]
    assert f"unsupported, as event {at['trtllm'] + 2} says: “mm_fp4 does not support backend" in text


def test_a_word_like_continue_is_told_with_the_request_before_it(tmp_path: Path, home: Home) -> None:
    told = Told()
    first = told.asks("find out why the MoE runner falls back to triton on this machine")
    told.runs("ls", "a")
    second = told.asks("continue")
    call = told.runs("cat notes.md", "nothing")
    explanation = explained(told, tmp_path, home, call)
    assert [events for _, events in said(explanation, "request")] == [(second,), (first,)]
    asked = explained(told, tmp_path, home, second)
    assert said(asked, "did")[0] == ("the person said “continue”; 1 call followed", (second, call, call))


def test_every_statement_names_its_events(tmp_path: Path, home: Home) -> None:
    told, _ = investigation()
    import_path(home, told.write(tmp_path), lambda value: value, lambda _: None)
    with Library(home) as library:
        imported = library.open("hunt")
        numbers = {event["seq"] for event in imported.events()}
        for number in sorted(numbers)[:-1]:
            for one in explain_imported(imported, number).statements:
                assert one.events, one
                assert set(one.events) <= numbers, one


def test_an_event_of_our_own_is_told_with_its_hypothesis_and_what_became_of_it() -> None:
    explanation = explain_own("seed", _events(), 74)
    assert explanation.step == (44, 74)
    assert said(explanation, "request") == [("the question was “qwen3.5 nvfp4 on sm120”", (0,))]
    assert said(explanation, "hypothesis") == [
        ("fp4_gemm auto on sm120 was opened in event 8: --fp4-gemm-backend accepts it", (8,))
    ]
    assumed = said(explanation, "assumption")
    assert assumed[0][1] == (7,)
    assert any("cudnn.backend_version() >= 91002" in text and events == (104,) for text, events in assumed)
    later = said(explanation, "later")
    assert later[0][0].startswith(
        "fp4_gemm auto on sm120: expected by event 104 from reading; nothing that ran"
    )
    assert later[0][1] == (104, 74)
    assert any("keeps the finding fp4_gemm auto" in text for text, _ in later)
    for number in range(0, 180, 7):
        for one in explain_own("seed", _events(), number).statements:
            assert one.events, one


@pytest.mark.parametrize(
    ("state", "word"),
    [("confirmed", "upheld by event"), ("refuted", "refuted by event"), ("open", "open since")],
)
def test_whether_a_hypothesis_was_upheld(state: str, word: str) -> None:
    events = list(_events())
    changed = json.loads(json.dumps(events[104]))
    changed["seq"], changed["data"]["state"], changed["data"]["causes"] = len(events), state, [74]
    (later, *_) = said(explain_own("seed", [*events, changed], 74), "later")
    assert f"{word} {'event ' if state == 'open' else ''}{len(events)}" in later[0]


def test_at_the_command_line(tmp_path: Path, home: Home) -> None:
    told, at = investigation()
    import_path(home, told.write(tmp_path), lambda value: value, lambda _: None)
    screen = agent("transcripts", "explain", "hunt", str(at["read"])).stdout
    assert screen.startswith(f"event {at['read']} of hunt (claude_code)\nWhat it did\n")
    assert "What it served\n  the person had said" in screen
    document = json.loads(agent("transcripts", "explain", "hun", str(at["read"]), "--json").stdout)
    assert document["transcript"] == "hunt"
    assert {one["about"] for one in document["statements"]} == {"did", "request", "first", "later"}
    home.prepare()
    shutil.copy(SEED, home.transcripts / "20261129-463fed.jsonl")
    assert "What it tested" in agent("transcripts", "explain", "20261129", "74").stdout
    one_line(agent("transcripts", "explain", "20261129", "74000"), 2, "there is no event 74000")
    one_line(agent("transcripts", "explain", "hunt", "74000"), 2, "has no event 74000")
    one_line(agent("transcripts", "explain", "nobody", "1"), 2, "no imported session")


def test_a_file_is_the_same_by_the_end_of_its_name() -> None:
    assert same_file("/opt/sglang/srt/a.py", "srt/a.py")
    assert same_file("a.py", "/x/a.py")
    assert not same_file("/x/a.py", "/y/a.py")
    assert not same_file("a.py", "ba.py")
    assert not same_file("", "a.py")


def _events() -> Iterator[dict[str, Any]]:
    return map(json.loads, SEED.read_text("utf-8").splitlines())
