"""Servers started, waited for and ended: what runs is a fake (``fake_server.py``), its processes are real."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from fake_server import fake_engine, fake_model

from memory.home import Home
from tools.environment.adopt import adopt
from tools.server import Patience, Plan, ServerSettings, launched, plan_launch
from tools.server.ending import marked

SHORT = Patience(quiet=3.0, failed=1.0)
"""For servers that will not do anything any more; others are never waited for so briefly."""


@pytest.fixture
def planned(tmp_path: Path, home: Home) -> Callable[..., Plan]:
    """A plan for a fake of an engine that behaves so."""

    def make(engine: str = "sglang", settings: dict[str, Any] | None = None, **behaviour: Any) -> Plan:
        site = fake_engine(tmp_path / f"site-{engine}", engine)
        model = fake_model(tmp_path / "model", **behaviour)
        asked = {"model": str(model), "engine": engine, "device": "cpu", **(settings or {})}
        return plan_launch(home, adopt(site), ServerSettings(**asked), python=Path(sys.executable), site=site)

    return make


def silent(_: str) -> None:
    """Nobody listens."""


@pytest.mark.parametrize("engine", ["sglang", "vllm"])
def test_a_server_is_ready_when_it_has_given_a_token_and_leaves_nothing(
    engine: str, planned: Callable[..., Plan], home: Home
) -> None:
    plan = planned(engine, {"backends": {"moe_runner": "marlin"}}, slow=2, orphan=True)
    with launched(plan, home, silent) as server:
        assert server.alive()
        there = psutil.Process(server.pid).children(recursive=True)
        assert len(there) == 2
        answer = server.ask("/v1/completions", {"prompt": "a", "max_tokens": 3}).document()
        assert answer["usage"]["completion_tokens"] == 3
        assert server.phases["weights"] > 0
        assert server.failure() is None
    assert server.ended is not None
    assert server.ended.left == ()
    assert not any(one.is_running() and one.status() != psutil.STATUS_ZOMBIE for one in there)
    assert marked(server.name) == []
    assert server.failure() is None
    assert not list((home.root / "servers").glob("*/record.json"))
