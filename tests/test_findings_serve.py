"""Datasette over HTTP: facets, prepared queries, and nothing that writes."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import pytest
from test_findings_share import agent as agent
from test_trust import OTHERWISE, PROBED, READ, statuses

import agent.cli.findings_serve as serving
from agent.cli.findings_serve import metadata
from memory.home import Home
from memory.vocabulary import Outcome

ROOT = Path(__file__).parents[1]


@pytest.fixture
def url(home: Home) -> Iterator[str]:
    statuses(home, READ, OTHERWISE, PROBED[Outcome.NAN])
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "agent", "findings", "serve", "--port", "0"],
        env={**os.environ, "ASSAY_HOME": str(home.root), "PYTHONPATH": str(ROOT)},
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert process.stderr is not None
        said = ""
        # It says so when it listens, and ends where it cannot.
        for line in process.stderr:
            said += line
            if found := re.search(r"running on (http://127\.0\.0\.1:\d+)", line):
                yield found[1]
                break
        else:
            pytest.fail(f"it does not come up: {said}")
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()


def get(url: str, **query: Any) -> Any:
    with urlopen(f"{url}?{urlencode(query)}", timeout=60) as answer:  # noqa: S310 - ours
        return json.loads(answer.read())


def test_it_shows_views_facets_and_prepared_queries_and_writes_nothing(home: Home, url: str) -> None:
    found = get(f"{url}/findings/v_findings.json", _shape="objects", _facet="level")
    assert {row["id"] for row in found["rows"]} == {READ.id, OTHERWISE.id, PROBED[Outcome.NAN].id}
    facets = found["facet_results"]
    facets = facets.get("results", facets)
    assert {one["value"]: one["count"] for one in facets["level"]["results"]} == {"static": 2, "probe": 1}
    for name, (_, sql) in serving._QUERIES.items():
        given = {"words": "nan", "finding": READ.id}
        asked = {key: value for key, value in given.items() if f":{key}" in sql}
        assert get(f"{url}/findings/{name}.json", _shape="array", **asked) or name == "cost", name
    (failed,) = get(f"{url}/findings/failures.json", _shape="array")
    assert (failed["outcome"], failed["id"]) == ("nan", PROBED[Outcome.NAN].id)
    before = home.findings_db.read_bytes()
    for sql in ("DELETE FROM findings", "ATTACH 'x' AS y", "PRAGMA journal_mode = DELETE"):
        with pytest.raises(HTTPError) as refused:
            get(f"{url}/findings.json", sql=sql)
        refused.value.close()
        assert refused.value.code == 400
    with pytest.raises(HTTPError) as refused:
        urlopen(Request(f"{url}/findings/failures", data=b"x=1", method="POST"), timeout=60)  # noqa: S310
    refused.value.close()
    assert home.findings_db.read_bytes() == before


def test_who_asks_for_another_host_is_refused(url: str) -> None:
    """A page of somebody else whose name was made to lead here would read all findings."""
    own = url.removeprefix("http://")
    port = own.rpartition(":")[2]
    for host, status in {
        own: 200, f"localhost:{port}": 200, f"LOCALHOST:{port}": 200, "evil.example": 403,
        f"evil.example:{port}": 403, "127.0.0.1": 403, "127.0.0.1:1": 403,
        f"127.0.0.1.evil.example:{port}": 403,
    }.items():  # fmt: skip
        with closing(HTTPConnection(own, timeout=60)) as connection:
            connection.putrequest("GET", "/findings/v_findings.json", skip_host=True)
            connection.putheader("Host", host)
            connection.endheaders()
            answer = connection.getresponse()
            assert (answer.status, b"v_findings" in answer.read()) == (status, status == 200), host


def test_every_view_and_table_that_is_described_is_there(agent: Any, home: Home) -> None:
    statuses(home, READ)
    named = set(metadata(8001)["databases"]["findings"]["tables"])
    asked = "SELECT name FROM sqlite_master WHERE type IN ('table', 'view')"
    there = {row[0] for row in json.loads(agent(home, "sql", asked, "--json"))["rows"]}
    assert named <= there
    assert {name for name in there if not name.startswith("v_")} <= named


def test_without_datasette_it_says_how_to_bring_it(
    agent: Any, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "find_spec", lambda _: None)
    said = agent(home, "serve", code=3)
    assert "pip install 'assay-agent[serve]'" in said
    assert len(said.splitlines()) == 1


def test_a_port_that_is_taken_is_said_in_one_line(agent: Any, home: Home) -> None:
    statuses(home, READ)
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        said = agent(home, "serve", "--port", other.getsockname()[1], code=2)
    assert "choose another --port" in said
    assert len(said.splitlines()) == 1
