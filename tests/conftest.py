"""What all tests share: a home of their own, and real wheels."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Protocol

import platformdirs
import pytest
from wheel_index import Index

from memory.architecture import Architecture
from memory.home import Home
from tools.base import ToolError
from tools.environment.create import create_environment
from tools.environment.model import Environment

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell starts what it leaves in the background deaf to Ctrl-C, and so would be all that tests start.
    signal.signal(signal.SIGINT, signal.default_int_handler)


class Wheels(Protocol):
    """Give the environment that holds exactly these packages, e.g. ``wheels("sglang==0.5.9")``."""

    def __call__(self, *requirements: str, arch: Architecture | None = None) -> Environment: ...


@pytest.fixture(autouse=True)
def _own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test sees or touches what the person who runs it has: neither findings nor a configured model."""
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path / "home"))
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "ASSAY_MODEL"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """An empty, writable home."""
    return Home(tmp_path / "home").prepare()


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Index:
    """An empty index, which is the only one that uv knows."""
    made = Index(tmp_path / "index")
    made.root.mkdir()
    monkeypatch.setenv("UV_DEFAULT_INDEX", made.root.as_uri())
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv-cache"))
    return made


@pytest.fixture
def wheels(request: pytest.FixtureRequest) -> Wheels:
    """Real packages, unpacked once and kept between runs. Only for tests marked ``network``.

    They lie in the user's cache folder, or in ``ASSAY_TEST_HOME``; environments never change, so tests,
    workers and runs can share them. Without a network the test is skipped, except in CI, where it fails.
    """
    if request.node.get_closest_marker("network") is None:
        pytest.fail("a test that uses the fixture `wheels` must be marked `network`")
    named = os.environ.get("ASSAY_TEST_HOME")
    kept = Home(Path(named) if named else platformdirs.user_cache_path("assay") / "tests")

    def give(*requirements: str, arch: Architecture | None = None) -> Environment:
        try:
            return create_environment(kept, requirements, arch, with_pins=False)
        except ToolError as error:
            if error.missing and not os.environ.get("CI"):
                pytest.skip(f"real wheels are out of reach: {error}")
            raise

    return give


OPT_IN = ("gpu", "servers")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Files with ``network`` tests first: they take longest, and one worker does all of a file (loadfile),
    so that what it prepares is prepared once. The short ones then fill what is left of the time.

    What is opt-in runs where ``-m`` names it."""
    for mark in OPT_IN:
        if mark not in str(config.option.markexpr):
            for item in items:
                if item.get_closest_marker(mark):
                    item.add_marker(pytest.mark.skip(reason=f"opt-in: pytest -m {mark}"))
    slow = {item.path for item in items if item.get_closest_marker("network")}
    items.sort(key=lambda item: item.path not in slow)
