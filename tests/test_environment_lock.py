"""The project's own dependencies: the lock covers what is declared, for every platform, and names no host."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

from packaging.requirements import Requirement

from memory.names import distribution

ROOT = Path(__file__).parent.parent
LOCK = (ROOT / "requirements.lock").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def locked() -> dict[str, Requirement]:
    """Requirement by canonical name, markers included."""
    lines = LOCK.replace("\\\n", " ").splitlines()
    found = [Requirement(line.split(" --hash", 1)[0]) for line in lines if line and not line.startswith("#")]
    return {distribution(each.name): each for each in found}


def test_every_dependency_is_locked_at_a_version_that_is_allowed() -> None:
    there = locked()
    for text in [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["dev"]]:
        wanted = Requirement(text)
        (exact,) = there[distribution(wanted.name)].specifier
        assert exact.operator == "=="
        assert wanted.specifier.contains(exact.version), text


def test_every_locked_package_has_hashes_and_nothing_names_a_host() -> None:
    entries = LOCK.replace("\\\n", " ").splitlines()
    assert len(entries) > 20
    for entry in entries:
        assert re.search(r"--hash=sha256:[0-9a-f]{64}", entry), entry
    assert not re.search(r"https?:|find-links|index-url|file:", LOCK)


def test_the_engines_to_investigate_are_no_dependency_of_the_agent() -> None:
    engines = {distribution(Requirement(text).name) for text in PROJECT["optional-dependencies"]["engines"]}
    assert {"sglang", "torch", "flashinfer-python"} <= engines
    assert not engines & set(locked())


def test_ci_is_a_script_that_shells_accept() -> None:
    subprocess.run(["bash", "-n", str(ROOT / ".ci" / "run")], check=True)
    assert (ROOT / ".ci" / "run").stat().st_mode & 0o100
