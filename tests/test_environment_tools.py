"""Environments as tools: what a driver may do with them, and what it is told. No network."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from test_environment_bisect import GATE, OPTIONS, REFUSES, changed, parts, publish, released
from wheel_index import Index

from agent.policy import READING
from memory.home import Home
from memory.vocabulary import Effect
from tools.base import ToolError
from tools.environment.create import create_environment
from tools.environment.store import list_environments, open_environment
from tools.registry import registry

__all__ = ["parts", "released"]

READS = ("compare_environment", "describe_environment", "list_environments")
WRITES = ("bisect_environment", "create_environment", "rollback_environment", "upgrade_environment")


@dataclass
class Given:
    """What a driver's tools run with: no folder of others may be read."""

    home: Home
    folders: tuple[Path, ...] = ()
    told: list[str] = field(default_factory=list)

    def progress(self, text: str) -> None:
        self.told.append(text)


def call(home: Home, tool_name: str, /, **given: Any) -> Any:
    tool = registry()[tool_name]
    return tool.run(tool.input.model_validate(given), Given(home))


@pytest.fixture
def pair(home: Home, index: Index) -> str:
    index.add("sglang", "0.5.9", requires=("flashinfer_python==0.6.3", "tile>=1"))
    for version in ("0.6.3", "0.6.5", "0.6.7"):
        index.add("flashinfer-python", version)
    index.add("tile", "1")
    index.add("stranger", "1")
    return create_environment(home, ["sglang==0.5.9", "flashinfer-python==0.6.5"]).name


def test_a_model_may_read_unasked_and_change_nothing() -> None:
    tools = registry()
    for name in (*READS, *WRITES):
        assert tools[name].effect == (Effect.READS if name in READS else Effect.WRITES_ENVIRONMENT)
        assert (READING.refusal(tools[name]) is None) == (name in READS)
        assert tools[name].schema()["type"] == "object"


def test_whoever_changes_a_name_has_it_to_themselves() -> None:
    for name in ("upgrade_environment", "rollback_environment"):
        tool = registry()[name]
        more = {"to": ["latest"]} if name.startswith("upgrade") else {}
        held = tool.resources(tool.input.model_validate({"name": "work", **more}))
        assert set(held) == {"environment:work", "environment:current"}
        # An environment's own name moves the default one.
        assert tool.resources(tool.input.model_validate({"name": "a-1.0+b-2", **more})) == (
            "environment:current",
        )


def test_an_upgrade_can_be_planned_done_and_taken_back(home: Home, pair: str) -> None:
    planned = call(home, "upgrade_environment", to=["flashinfer-python==0.6.7"], plan_only=True)
    assert planned.environment is None
    assert [one.model_dump() for one in planned.changes] == [
        {"package": "flashinfer-python", "before": "0.6.5", "after": "0.6.7"}
    ]
    assert "sglang 0.5.9 asks for flashinfer-python==0.6.3" in planned.conflicts[0]
    assert [one.name for one in list_environments(home)] == [pair]

    done = call(home, "upgrade_environment", name=pair, to=["flashinfer-python==0.6.7"])
    assert (done.name, open_environment(home, "current")) == ("current", done.environment)
    described = call(home, "describe_environment")
    assert described.environment == done.environment
    assert described.names == ("current",)
    assert described.fingerprint["environment"] == done.environment.fingerprint
    assert "asks for flashinfer-python==0.6.3" in described.warnings[0]
    assert call(home, "rollback_environment").environment == pair
    assert call(home, "rollback_environment", to=done.environment.name).environment == done.environment.name


@pytest.mark.parametrize(
    ("to", "words"),
    [
        (["git+https://localhost/e.git@main"], "only a person may allow"),
        (["stranger==1"], "stranger: neither an engine"),
        (["flashinfer-python==0.6.7", "stranger==1"], "stranger: neither an engine"),
    ],
)
def test_a_driver_brings_in_nothing_that_nobody_asks_for(
    home: Home, pair: str, to: list[str], words: str
) -> None:
    with pytest.raises(ToolError, match=words):
        call(home, "upgrade_environment", name=pair, to=to)
    assert [one.name for one in list_environments(home)] == [pair]
    if to == ["stranger==1"]:
        with pytest.raises(ToolError, match=words):
            call(home, "bisect_environment", environment=pair, package="stranger", good="1", bad="2",
                 test="option x")  # fmt: skip


def test_what_a_package_here_asks_for_may_come_along(home: Home, pair: str) -> None:
    assert "tile" in call(home, "upgrade_environment", name=pair, to=["tile==1"]).environment.packages


def test_no_folder_of_others_is_read_under_another_name(home: Home, pair: str, tmp_path: Path) -> None:
    for name in ("describe_environment", "compare_environment", "upgrade_environment"):
        given = {"compare_environment": {"before": str(tmp_path), "after": pair}}.get(
            name, {"environment": str(tmp_path), "name": str(tmp_path), "to": ["latest"]}
        )
        with pytest.raises(ToolError, match="not one of the folders that may be read"):
            call(home, name, **given)


def test_two_releases_are_compared_and_the_one_that_changed_it_is_found(home: Home, released: Index) -> None:
    one, two = (create_environment(home, ["sglang==1.0", f"minilib==0.{n}"]).name for n in (11, 12))
    target = {"component": "fp4_gemm", "arch": "sm120", "quantisation": "nvfp4"}
    found = call(home, "compare_environment", before=one, after=two, **target)
    assert [change.package for change in found.differences.packages] == ["minilib"]
    verdicts = {each.backend: each for each in found.verdicts}
    assert verdicts["birch"].before.evidence[0].file == GATE
    assert verdicts["birch"].before.evidence[0].text == REFUSES
    assert call(home, "compare_environment", before=one, after=one, **target).verdicts == ()
    with pytest.raises(ToolError, match="give both, or neither"):
        call(home, "compare_environment", before=one, after=two, arch="sm120")
    with pytest.raises(ToolError, match="no component 'velvet'"):
        call(home, "compare_environment", before=one, after=two, component="velvet", arch="sm120")

    test = "static fp4_gemm birch sm120 quantisation=nvfp4"
    search = {"environment": one, "package": "minilib", "good": "0.10", "bad": "0.13", "test": test}
    found = call(home, "bisect_environment", **search)
    assert (found.same.version, found.other.version, found.versions) == ("0.11", "0.12", 4)
    assert found.same.row.verdict == "blocked"
    assert found.moved == ((None, "tile>=2"),)


def test_options_that_came_and_went_are_told(
    home: Home, index: Index, parts: dict[str, dict[str, str]]
) -> None:
    publish(index, "sglang", "1.0", parts["sglang"])
    publish(index, "sglang", "1.1", changed(parts["sglang"], OPTIONS, '    "flax",\n', '    "grove",\n'))
    one, two = (create_environment(home, [f"sglang=={v}"]).name for v in ("1.0", "1.1"))
    found = call(home, "compare_environment", before=one, after=two).differences
    (option,) = [each for each in found.options if each.component == "fp4_gemm"]
    assert (option.appeared, option.gone) == (("grove",), ("flax",))
