"""What docs/mcp.md has agents told is what this program takes."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from typing import Any

import pytest
from program import ROOT

from agent.cli.mcp import TOKEN, mcp
from agent.mcp.http import HOST, PATH

PAGE = (ROOT / "docs" / "mcp.md").read_text(encoding="utf-8")
READ = {"json": json.loads, "toml": tomllib.loads}


def configured() -> Iterator[Any]:
    """Every server of every configuration on the page."""
    for kind, text in re.findall(r"^```(json|toml)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL):
        config = READ[kind](text)
        known = config.get("mcpServers") or config.get("mcp_servers") or config["mcp"]["servers"]
        yield pytest.param(known["assay"], id=text.split('"')[1] if kind == "json" else kind)


def started() -> list[list[str]]:
    """Every command line on the page."""
    lines = re.findall(r"^    (agent mcp[^\n]*)$|-- (agent mcp[^\n]*)$", PAGE, re.MULTILINE)
    return [(plain or after).split() for plain, after in lines]


@pytest.mark.parametrize("server", list(configured()))
def test_a_configured_server_is_one_that_can_be_started_or_reached(server: dict[str, Any]) -> None:
    if "url" in server:
        assert re.fullmatch(rf"http://{re.escape(HOST)}:\d+{PATH}", server["url"])
        assert TOKEN in json.dumps(server)
        return
    command = server["command"]
    words = [*command] if isinstance(command, list) else [command, *server["args"]]
    assert words[:2] == ["agent", "mcp"]
    mcp.make_context("agent mcp", words[2:])


@pytest.mark.parametrize("words", started(), ids=" ".join)
def test_a_command_that_is_shown_can_be_typed(words: list[str]) -> None:
    assert len(started()) >= 2
    mcp.make_context("agent mcp", words[2:])
