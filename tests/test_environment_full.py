"""Environments with an interpreter and all dependencies, from an index in a folder. No network."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from program import agent, one_line
from wheel_index import Index

from memory.clock import FixedClock
from memory.home import Home
from tools.base import ToolError
from tools.environment.caches import cache_variables, stale_caches
from tools.environment.choosing import roll_back
from tools.environment.collect import collect, collection
from tools.environment.full import create_full, interpreter
from tools.environment.history import choose
from tools.environment.model import Environment
from tools.environment.plan import Wanted
from tools.environment.store import chosen, list_environments, open_environment
from tools.environment.upgrade import upgrade
from tools.environment.uv_settings import settings_of

CLOCK = FixedClock()


def silent(_: str) -> None:
    pass


@pytest.fixture
def full(home: Home, index: Index) -> Environment:
    """An engine, a library that it pins, and one that is only depended on; newer ones are published."""
    index.add("engine", "1", requires=("library==1", "helper>=1"), text="import library, helper\nv = 1\n")
    index.add("engine", "2", requires=("library==2", "helper>=1"), text="import library, helper\nv = 2\n")
    for version in ("1", "2"):
        index.add("library", version, text=f"v = {version}\n")
    index.add("helper", "1", text="v = 1\n")
    made = create_full(home, ["engine==1"], None, silent)
    choose(home, "run", chosen(made), "create", CLOCK)
    index.add("helper", "2", text="v = 2\n")
    return made


def runs(environment: Environment, code: str) -> str:
    program = interpreter(environment)
    assert program is not None
    return subprocess.run(
        [str(program), "-P", "-c", code], capture_output=True, text=True, check=True
    ).stdout.strip()


def test_it_holds_all_dependencies_and_runs_where_it_lies(home: Home, full: Environment) -> None:
    assert full.packages == {"engine": "1", "helper": "1", "library": "1"}
    assert full.kind == "full"
    assert open_environment(home, "run") == full
    assert runs(full, "import engine; print(engine.v, engine.library.v)") == "1 1"
    assert full.tree().lines("library/__init__.py")[0] == "v = 1"
    assert create_full(home, ["engine==1"], None, silent).packages["helper"] == "2", "the newest there is"
    assert interpreter(full) == Path(full.path).parent / "venv" / "bin" / "python"


def test_an_upgrade_moves_what_it_must_and_nothing_else(home: Home, full: Environment) -> None:
    plan, made = upgrade(home, "run", Wanted(("engine==2",)), lambda _: True, silent, CLOCK)
    assert made is not None
    assert plan.changes == [("engine", "1", "2"), ("library", "1", "2")]
    assert made.packages == {"engine": "2", "helper": "1", "library": "2"}
    assert runs(made, "import engine; print(engine.v, engine.library.v)") == "2 2"
    assert runs(full, "import engine; print(engine.v, engine.library.v)") == "1 1"
    _, newest = upgrade(home, "run", Wanted(("latest",)), lambda _: True, silent, CLOCK)
    assert newest is not None
    assert newest.packages == {"engine": "2", "helper": "2", "library": "2"}
    roll_back(home, "run", CLOCK)
    roll_back(home, "run", CLOCK)
    assert open_environment(home, "run") == full


def test_packages_that_cannot_be_together_are_both_named(home: Home, full: Environment) -> None:
    with pytest.raises(ToolError, match="cannot be together") as error:
        upgrade(home, "run", Wanted(("library==2",)), lambda _: True, silent, CLOCK)
    assert "depends on library==1 and you require engine==1" in str(error.value)
    assert "library==2" in str(error.value)
    assert open_environment(home, "run") == full
    assert list_environments(home) == [full]


def test_a_python_that_is_not_here_is_named_with_what_brings_it(home: Home, index: Index) -> None:
    index.add("engine", "1")
    told = agent("environment", "create", "engine==1", "--full", "--python", "3.99", home=home.root)
    one_line(told, 3, "no Python 3.99 here", "this machine has", "uv python install 3.99")
    one_line(agent("environment", "create", "engine==1", "--python", "3.12", home=home.root), 2, "--full")


def test_made_shown_and_removed_at_the_command_line(home: Home, index: Index) -> None:
    index.add("engine", "1", requires=("library>=1",))
    index.add("library", "1")
    made = agent("environment", "create", "engine==1", "--full", "--name", "run", home=home.root)
    assert made.returncode == 0, made.stderr
    shown = json.loads(agent("environment", "show", "run", "--json", home=home.root).stdout)
    assert (shown["kind"], sorted(shown["packages"])) == ("full", ["engine", "library"])
    assert made.stdout.startswith("engine-1+python-3.")


def test_each_environment_compiles_into_a_cache_of_its_own(home: Home, full: Environment) -> None:
    _, made = upgrade(home, "run", Wanted(("engine==2",)), lambda _: True, silent, CLOCK)
    assert made is not None
    one, other = cache_variables(home, full), cache_variables(home, made)
    assert one.keys() == other.keys()
    assert not set(one.values()) & set(other.values())
    for variables in (one, other):
        place = Path(variables["TRITON_CACHE_DIR"])
        place.mkdir(parents=True)
        (place / "kernel").write_bytes(b"x" * 10_000)
    assert stale_caches(home, list_environments(home)) == []
    upgrade(home, "run", Wanted(("latest",)), lambda _: True, silent, CLOCK)
    found = collection(home)
    assert found.gone == (full.name,)
    assert found.space.free >= 10_000
    collect(home, found.gone)
    assert not Path(one["TRITON_CACHE_DIR"]).exists()
    assert (Path(other["TRITON_CACHE_DIR"]) / "kernel").exists()


def test_a_folder_of_wheels_is_asked_beside_the_index(home: Home, index: Index, tmp_path: Path) -> None:
    index.add("engine", "1", requires=("library>=1",))
    flat = Index(tmp_path / "flat").add("library", "1+local").parent
    made = agent("environment", "create", "engine==1", "--full", "--index", str(flat), home=home.root)
    assert made.returncode == 0, made.stderr
    assert open_environment(home, made.stdout.split()[0]).packages["library"] == "1+local"


@pytest.mark.servers
def test_a_real_one_is_made_runs_is_told_adopted_and_removed(home: Home) -> None:
    """torch and transformers from the person's own index: gigabytes, minutes. ``ASSAY_TORCH`` names another
    requirement (``torch==2.13.0+cpu``), ``ASSAY_TORCH_INDEX`` where it is."""
    torch, where = os.environ.get("ASSAY_TORCH", "torch"), os.environ.get("ASSAY_TORCH_INDEX")
    environment = create_full(
        home, [torch, "transformers"], None, silent, settings_of([where] if where else [])
    )
    choose(home, "real", chosen(environment), "create", CLOCK)
    assert {"torch", "transformers", "numpy", "huggingface-hub"} <= environment.packages.keys()
    added = runs(environment, "import torch, transformers; print(torch.ones(3).sum().item())")
    assert added == "3.0"
    told = json.loads(agent("environment", "fingerprint", "real", "--json", home=home.root).stdout)
    assert told["environment"] == environment.fingerprint
    assert all(len(one["sha256"]) == 64 for one in told["packages"])
    adopted = agent("environment", "adopt", environment.path, "--name", "theirs", home=home.root)
    assert adopted.returncode == 0, adopted.stderr
    assert open_environment(home, environment.path).packages == environment.packages
    for name in ("theirs", "real"):
        assert agent("environment", "forget", name, home=home.root).returncode == 0
    assert agent("environment", "gc", "--yes", home=home.root).returncode == 0
    assert not environment.root.exists()
    assert list_environments(home) == []
