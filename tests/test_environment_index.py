"""Creating environments from a package index in a folder: what real indexes seldom do. No network."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from wheel_index import Index

from memory.architecture import parse_architecture
from memory.home import Home
from tools.base import ToolError
from tools.environment.create import create_environment
from tools.environment.model import DEFAULT_PLATFORM
from tools.environment.staging import PARTIAL
from tools.environment.store import list_environments
from tools.environment.uv import Uv


def told_of(home: Home, *requirements: str, refresh: bool = False) -> tuple[dict[str, str], list[str]]:
    """Packages of the environment made, and what was told."""
    told: list[str] = []
    return create_environment(home, requirements, None, told.append, refresh=refresh).packages, told


def test_an_engine_alone_brings_its_pins_and_nothing_else(home: Home, index: Index) -> None:
    index.add(
        "sglang", "0.5.9", requires=("flashinfer_python[cu13]==0.6.3", "sgl-kernel==0.3.21", "torch==2")
    )
    index.add("sglang", "0.5.8")
    for version in ("0.6.3", "0.6.5"):
        index.add("flashinfer-python", version)
    index.add("sgl-kernel", "0.3.21", tag="cp310-abi3-manylinux2014_x86_64")
    index.add("torch", "2")
    packages, told = told_of(home)
    assert packages == {"sglang": "0.5.9", "flashinfer-python": "0.6.3", "sgl-kernel": "0.3.21"}
    assert not [text for text in told if text.startswith("warning")]
    packages, told = told_of(home, "sglang==0.5.9", "flashinfer-python")
    assert packages == {"sglang": "0.5.9", "flashinfer-python": "0.6.5"}
    (warning,) = [text for text in told if text.startswith("warning")]
    assert "flashinfer-python==0.6.3" in warning


def test_a_pinned_library_without_a_wheel_here_is_left_out_and_said(home: Home, index: Index) -> None:
    index.add("sglang", "0.5.9", requires=("flashinfer_python==0.6.3", "sgl-kernel==0.3.21"))
    index.add("flashinfer-python", "0.6.3")
    index.add("sgl-kernel", "0.3.21", tag="cp310-abi3-manylinux2014_aarch64")
    packages, told = told_of(home, "sglang")
    assert packages == {"sglang": "0.5.9", "flashinfer-python": "0.6.3"}
    assert any(text.startswith("warning: left out sgl-kernel==0.3.21") for text in told)
    other = create_environment(home, ["sglang"], parse_architecture("sm121"))
    assert "sgl-kernel" in other.packages


def test_a_wheel_other_than_the_promised_one_is_refused(home: Home, index: Index) -> None:
    index.add("sglang", "0.5.9", promised="1" * 64)
    with pytest.raises(ToolError, match=r"sglang==0\.5\.9 is not the one that the index promised"):
        create_environment(home, ["sglang==0.5.9"])
    assert list_environments(home) == []
    assert list((home.environments / PARTIAL).iterdir()) == []


def test_the_recorded_hash_is_that_of_the_wheel(home: Home, index: Index) -> None:
    wheel = index.add("sglang", "0.5.9")
    made = create_environment(home, ["sglang==0.5.9"], with_pins=False)
    assert made.wheels[0].sha256 == hashlib.sha256(wheel.read_bytes()).hexdigest()
    assert made.wheels[0].filename == wheel.name


def test_an_index_that_promises_no_hash_still_gives_the_wheels_own(home: Home, index: Index) -> None:
    wheel = index.add("sglang", "0.5.9", promised="")
    made = create_environment(home, ["sglang==0.5.9"], with_pins=False)
    assert made.wheels[0].sha256 == hashlib.sha256(wheel.read_bytes()).hexdigest()
    assert made.wheels[0].size is None


def test_the_same_version_from_another_wheel_is_another_environment(home: Home, index: Index) -> None:
    index.add("sglang", "0.5.9")
    first = create_environment(home, ["sglang==0.5.9"], with_pins=False)
    (index.root / "sglang" / "index.html").unlink()
    index.add("sglang", "0.5.9", text="changed = 1\n")
    second = create_environment(home, ["sglang==0.5.9"], with_pins=False, refresh=True)
    assert second.name == f"{first.name}+{second.fingerprint[:8]}"
    assert first.tree().lines("sglang/__init__.py") != second.tree().lines("sglang/__init__.py")
    third = create_environment(home, ["sglang==0.5.9"], with_pins=False, refresh=True)
    assert third == second


def test_a_new_release_is_seen_on_refresh(home: Home, index: Index) -> None:
    index.add("sglang", "0.5.9")
    assert told_of(home, "sglang")[0] == {"sglang": "0.5.9"}
    index.add("sglang", "0.5.10")
    assert told_of(home, "sglang")[0] == {"sglang": "0.5.9"}
    assert told_of(home, "sglang", refresh=True)[0] == {"sglang": "0.5.10"}
    assert told_of(home, "sglang")[0] == {"sglang": "0.5.10"}


def test_nothing_of_a_package_is_executed(home: Home, index: Index) -> None:
    index.add("sglang", "0.5.9")
    made = create_environment(home, ["sglang==0.5.9"], with_pins=False)
    assert made.tree().lines("sglang/__init__.py")[0].startswith("raise RuntimeError")


def test_a_home_inside_a_project_does_not_follow_that_projects_settings(
    tmp_path: Path, index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    index.add("sglang", "0.5.9")
    (tmp_path / "uv.toml").write_text("this is not toml")
    (tmp_path / "pyproject.toml").write_text("nor is this")
    made = create_environment(Home(tmp_path / "inside"), ["sglang==0.5.9"], with_pins=False)
    assert made.packages == {"sglang": "0.5.9"}


def test_what_uv_says_is_told_without_passwords_and_with_what_to_do(tmp_path: Path) -> None:
    uv = Uv.find(tmp_path, lambda _: None)
    untrusted = (
        "error: Failed to fetch: https://host/simple/sglang/\n"
        "  cause: client error (Connect)\n  cause: invalid peer certificate: UnknownIssuer\n"
    )
    told = uv.explain(untrusted, ["sglang"], DEFAULT_PLATFORM)
    assert told.missing
    assert "SSL_CERT_FILE" in str(told)
    odd = "error: something new at https://me:secret@host/simple and http://token@host"
    assert str(uv.explain(odd, ["sglang"], DEFAULT_PLATFORM)) == (
        "uv could not provide sglang: something new at https://…@host/simple and http://…@host"
    )


def test_of_two_wheels_that_fit_the_one_that_was_noted_is_unpacked(home: Home, index: Index) -> None:
    for tag in (
        "cp312-cp312-manylinux_2_28_x86_64",
        "cp312-cp312-manylinux_2_17_x86_64.manylinux_2_28_x86_64",
    ):
        index.add("library", "1", tag=tag, text=f"tag = {tag!r}\n")
    made = create_environment(home, ["library==1"])
    (wheel,) = made.wheels
    (line, _) = made.tree().lines("library/__init__.py")
    assert wheel.filename.split("-", 2)[2] == f"{line.split(chr(39))[1]}.whl"
