"""Looking all evidence up again, and giving back what nothing refers to."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from test_findings_share import (
    agent as agent,
    exported as exported,
    ids,
    read as read,
    site as site,
    theirs as theirs,
)

from memory.artifacts import Artifacts
from memory.home import Home
from transcripts.catch_up import rebuild_home


def checked(document: dict[str, Any]) -> dict[str, tuple[str, str | None]]:
    return {one["finding"]: (one["found"], one["because"]) for one in document["findings"]}


def test_what_is_as_it_was_stands_and_what_ran_has_its_price(agent: Any, theirs: Home, site: Path) -> None:
    named = ids(theirs)
    found = json.loads(agent(theirs, "verify", *named.values(), "-e", site, "--json"))
    assert found["counts"] == {"stands": 2}
    costs = {one["finding"]: one["costs"] for one in found["findings"]}
    assert costs == {
        named["static"]: None, named["probe"]: "fp4_gemm alpha on sm120: a probe (one GPU for seconds)",
    }  # fmt: skip
    assert "1 of them ran; running them again takes a GPU" in agent(theirs, "verify", "-e", site)


def test_packages_that_are_not_here_decide_nothing(agent: Any, theirs: Home) -> None:
    found = json.loads(agent(theirs, "verify", *ids(theirs).values(), "--json"))
    assert found["counts"] == {"stands": 1, "not here": 1}


def test_a_line_that_was_changed_is_wrong(agent: Any, theirs: Home, site: Path) -> None:
    name = ids(theirs)["static"]
    path = site / "kernel_lib" / "gate.py"
    path.write_text(path.read_text().replace("(10,)", "(10, 12)"))
    found = json.loads(agent(theirs, "verify", name, "-e", site, "--json", code=1))
    assert found["counts"] == {"wrong": 1}
    assert "they are others" in checked(found)[name][1]


def test_an_event_that_was_changed_is_wrong(agent: Any, theirs: Home, site: Path) -> None:
    """The chain tells; whoever makes it anew is told by the number."""
    name = ids(theirs)["probe"]
    path = theirs.transcripts / "t1.jsonl"
    path.write_bytes(path.read_bytes().replace(b"812.5,", b"912.5,"))
    found = json.loads(agent(theirs, "verify", name, "-e", site, "--json", code=1))
    assert "the log was changed" in checked(found)[name][1]


def test_what_was_brought_is_checked_by_what_came_with_it(
    agent: Any, home: Home, exported: Path, site: Path
) -> None:
    agent(home, "import", exported, "-e", site)
    found = json.loads(agent(home, "verify", *ids(home).values(), "-e", site, "--json"))
    assert found["counts"] == {"stands": 2}


@pytest.fixture
def littered(theirs: Home) -> dict[str, Path]:
    """A home with files that nothing refers to, an hour and more old, and with some that stay."""
    artifacts = Artifacts(theirs.artifacts)
    kept = artifacts.put(b"kept")
    path = theirs.transcripts / "named.jsonl"
    path.write_text(f'{{"artifact":"{kept}"}}\n')
    files = {
        "artifact": artifacts.path(artifacts.put(b"nobody's")),
        "damaged": theirs.root / "findings.db.damaged-1",
        "earlier": theirs.root / "findings.db.schema-1",
        "part": theirs.transcripts / ".t9-abc.part",
    }
    for name in ("damaged", "earlier", "part"):
        files[name].write_bytes(b"x" * 10)
    for file in files.values():
        os.utime(file, (time.time() - 7200,) * 2)
    files["kept"] = artifacts.path(kept)
    files["young"] = artifacts.path(artifacts.put(b"just written"))
    return files


def test_only_what_nothing_refers_to_goes_and_only_when_told(
    agent: Any, theirs: Home, littered: dict[str, Path]
) -> None:
    gone = {"artifact", "damaged", "earlier", "part"}
    found = json.loads(agent(theirs, "gc", "--json"))
    assert {theirs.root / one["path"] for one in found["found"]} == {littered[name] for name in gone}
    assert all(path.exists() for path in littered.values())
    assert "can be removed with --delete" in agent(theirs, "gc")
    assert json.loads(agent(theirs, "gc", "--delete", "--json"))["removed"]
    assert {name for name, path in littered.items() if path.exists()} == {"kept", "young"}
    assert agent(theirs, "gc") == "Nothing to remove.\n"
    (theirs.transcripts / "named.jsonl").unlink()
    assert rebuild_home(theirs).same


def test_there_is_nothing_to_remove_where_there_is_nothing(agent: Any, tmp_path: Path) -> None:
    assert agent(Home(tmp_path / "none"), "gc") == "Nothing to remove.\n"
