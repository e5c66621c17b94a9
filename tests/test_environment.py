"""Opening, naming and describing environments; folders of others read in place. No network."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import time
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from memory.architecture import parse_architecture
from memory.home import Home
from tools.base import ToolError
from tools.environment.environment_tools import check_allowed
from tools.environment.model import (
    DEFAULT_PLATFORM,
    Environment,
    Wheel,
    environment_name,
    fingerprint,
    read_description,
)
from tools.environment.pins import kernel_pins, pin_warnings, profiles
from tools.environment.request import parse_request
from tools.environment.staging import PARTIAL, Staging
from tools.environment.store import list_environments, open_environment, open_for
from tools.source.tree import SourceError


def unpacked(site: Path, name: str, version: str, requires: tuple[str, ...] = (), record: str = "") -> None:
    """Write a package as an installer leaves it."""
    module = name.replace("-", "_")
    (site / module).mkdir(parents=True)
    (site / module / "__init__.py").write_text(f'__version__ = "{version}"\n')
    info = site / f"{module}-{version}.dist-info"
    info.mkdir()
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    lines += [f"Requires-Dist: {text}" for text in requires]
    (info / "METADATA").write_text("\n".join(lines) + "\n\nRequires-Dist: not-a-header==1\n")
    (info / "RECORD").write_text(record or f"{module}/__init__.py,sha256=x,1\n")


def stored(home: Home, packages: dict[str, str], platform: str = DEFAULT_PLATFORM) -> Environment:
    """Put an environment of small packages under the home, as creating leaves it."""
    name = environment_name(packages, profiles(), platform)
    site = home.environments / name / "site"
    site.mkdir(parents=True)
    made = tuple(
        Wheel(name=package, version=version, filename=f"{package}.whl", sha256="0" * 64, size=10)
        for package, version in packages.items()
    )
    for package, version in packages.items():
        unpacked(site, package, version)
    environment = Environment(
        name=name,
        kind="source",
        path=str(site),
        platform=platform,
        python="3.12",
        packages=packages,
        wheels=made,
        fingerprint=fingerprint(platform, "3.12", made),
    )
    (home.environments / name / "environment.json").write_text(json.dumps(environment.document()))
    return environment


def test_an_environment_opens_by_name_and_by_the_beginning_of_one(home: Home) -> None:
    made = stored(home, {"sglang": "0.5.9", "flashinfer-python": "0.6.5"})
    stored(home, {"sglang": "0.5.10"})
    assert open_environment(home, "sglang-0.5.9+flashinfer-python-0.6.5") == made
    assert open_environment(home, "sglang-0.5.9") == made
    assert open_environment(home, made.path) == made
    assert [each.name for each in list_environments(home)] == ["sglang-0.5.10", made.name]


def test_a_whole_name_wins_over_longer_ones_that_begin_with_it(home: Home) -> None:
    short = stored(home, {"sglang": "0.5.9"})
    stored(home, {"sglang": "0.5.9", "flashinfer-python": "0.6.5"})
    assert open_environment(home, "sglang-0.5.9") == short


def test_an_ambiguous_beginning_is_listed_not_guessed(home: Home) -> None:
    stored(home, {"sglang": "0.5.9"})
    stored(home, {"sglang": "0.5.10"})
    with pytest.raises(ToolError, match=r"fits several.*sglang-0\.5\.10, sglang-0\.5\.9") as error:
        open_environment(home, "sglang")
    assert not error.value.missing


def test_an_unknown_name_tells_what_there_is_and_how_to_make_one(home: Home) -> None:
    stored(home, {"sglang": "0.5.9"})
    with pytest.raises(ToolError, match=r"'vllm'.*sglang-0\.5\.9.*agent environment create") as error:
        open_environment(home, "vllm")
    assert error.value.missing


def test_a_moved_home_still_opens(tmp_path: Path) -> None:
    old = Home(tmp_path / "old").prepare()
    made = stored(old, {"sglang": "0.5.9"})
    old.root.rename(tmp_path / "new")
    found = open_environment(Home(tmp_path / "new"), made.name)
    assert found.root == tmp_path / "new" / "environments" / made.name / "site"
    assert found.tree().lines("sglang/__init__.py")[0] == '__version__ = "0.5.9"'


def test_a_damaged_environment_says_so_and_is_not_listed(home: Home) -> None:
    made = stored(home, {"sglang": "0.5.9"})
    (home.environments / made.name / "environment.json").write_text('{"format": 1}')
    assert list_environments(home) == []
    with pytest.raises(ToolError, match=r"damaged.*create it again"):
        open_environment(home, made.name)


def test_a_folder_without_description_is_no_environment(home: Home) -> None:
    (home.environments / "sglang-0.5.9" / "site").mkdir(parents=True)
    assert list_environments(home) == []
    with pytest.raises(ToolError, match="there is none yet"):
        open_environment(home, "sglang-0.5.9")


def test_an_installed_file_edited_in_place_makes_another_environment(home: Home, tmp_path: Path) -> None:
    site = tmp_path / "site-packages"
    text = '__version__ = "0.5.9"\n'
    digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
    unpacked(site, "sglang", "0.5.9", record=f"sglang/__init__.py,sha256={digest},{len(text)}\n")
    path, record = site / "sglang" / "__init__.py", site / "sglang-0.5.9.dist-info" / "RECORD"
    installed = record.stat().st_mtime_ns
    os.utime(path, ns=(installed, installed))
    made = open_environment(home, str(site)).fingerprint
    os.utime(path, ns=(installed + 10**9, installed + 10**9))
    assert open_environment(home, str(site)).fingerprint == made, "copied, and the same"
    path.write_text(text.replace("9", "8"))
    os.utime(path, ns=(installed + 10**9, installed + 10**9))
    edited = open_environment(home, str(site)).fingerprint
    assert edited != made
    path.write_text(text + "EDITED = True\n")
    os.utime(path, ns=(installed, installed))
    assert open_environment(home, str(site)).fingerprint not in {made, edited}, "of another size"
    path.write_text(text)
    assert open_environment(home, str(site)).fingerprint == made, "put back"


def test_site_packages_of_others_are_read_in_place(home: Home, tmp_path: Path) -> None:
    site = tmp_path / "venv" / "lib" / "python3.11" / "site-packages"
    unpacked(site, "flashinfer_python", "0.6.5")
    unpacked(site, "sglang", "0.5.9")
    before = sorted(tmp_path.rglob("*"))
    for given in (site, tmp_path / "venv"):
        found = open_environment(home, str(given))
        assert found.kind == "adopted"
        assert found.root == site
        assert found.python == "3.11"
        assert found.packages == {"flashinfer-python": "0.6.5", "sglang": "0.5.9"}
    assert sorted(tmp_path.rglob("*")) == before


def test_another_record_is_another_fingerprint(home: Home, tmp_path: Path) -> None:
    prints = set()
    for number, record in enumerate(("a,sha256=1,1\n", "a,sha256=2,1\n", "a,sha256=2,1\n")):
        unpacked(tmp_path / str(number), "sglang", "0.5.9", record=record)
        prints.add(open_environment(home, str(tmp_path / str(number))).fingerprint)
    assert len(prints) == 2


def test_a_checkout_is_read_in_place_and_an_edit_shows(home: Home, tmp_path: Path) -> None:
    package = tmp_path / "repo" / "python" / "sglang"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "version.py").write_text('__version__ = "0.5.9.dev3"\n')
    (tmp_path / "repo" / ".git").mkdir()
    (tmp_path / "repo" / ".git" / "HEAD").write_text("1" * 40 + "\n")
    first = open_environment(home, str(tmp_path / "repo"))
    assert first.root == tmp_path / "repo" / "python"
    assert first.packages == {"sglang": "0.5.9.dev3"}
    assert open_environment(home, str(tmp_path / "repo")) == first
    (package / "__init__.py").write_text("changed = 1\n")
    edited = open_environment(home, str(tmp_path / "repo"))
    (tmp_path / "repo" / ".git" / "HEAD").write_text("2" * 40 + "\n")
    moved = open_environment(home, str(tmp_path / "repo"))
    assert len({first.fingerprint, edited.fingerprint, moved.fingerprint}) == 3


def test_a_checkout_with_its_own_project_name_keeps_it(home: Home, tmp_path: Path) -> None:
    (tmp_path / "flashinfer").mkdir()
    (tmp_path / "flashinfer" / "__init__.py").write_text("")
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "flashinfer_python"\nversion = "0.6.5"\n')
    assert open_environment(home, str(tmp_path)).packages == {"flashinfer-python": "0.6.5"}


def test_a_folder_without_packages_is_refused(home: Home, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(ToolError, match=r"no packages in .*expected a site-packages") as error:
        open_environment(home, str(tmp_path / "empty"))
    assert not error.value.missing
    with pytest.raises(ToolError, match="no folder"):
        open_environment(home, str(tmp_path / "absent"))


def test_reading_thirty_thousand_files_in_place_is_quick(home: Home, tmp_path: Path) -> None:
    unpacked(
        tmp_path / "site", "big", "1.0", record="".join(f"big/{n}.py,sha256=x,1\n" for n in range(30_000))
    )
    for folder in range(30):
        (tmp_path / "site" / "big" / str(folder)).mkdir()
        for n in range(100):
            (tmp_path / "site" / "big" / str(folder) / f"{n}.py").touch()
    names = [tmp_path / "site" / "big" / f"{n}.py" for n in range(30_000)]
    started = time.process_time()
    assert not any(name.exists() for name in names)
    asked = time.process_time()
    open_environment(home, str(tmp_path / "site"))
    # A few times what asking for each file alone costs, whatever the machine.
    ratio = (time.process_time() - asked) / (asked - started)
    assert ratio < 4, ratio


def test_a_fingerprint_is_of_wheels_platform_and_python_in_any_order() -> None:
    a = Wheel(name="a", version="1", filename="a.whl", sha256="a" * 64)
    b = Wheel(name="b", version="1", filename="b.whl", sha256="b" * 64)
    assert fingerprint("p", "3.12", [a, b]) == fingerprint("p", "3.12", [b, a])
    others = [
        fingerprint("p", "3.12", [a, b]),
        fingerprint("q", "3.12", [a, b]),
        fingerprint("p", "3.13", [a, b]),
        fingerprint("p", "3.12", [a]),
        fingerprint("p", "3.12", [a, replace(b, sha256="c" * 64)]),
        fingerprint("p", "3.12", [a, replace(b, version="2")]),
    ]
    assert len(set(others)) == 6


def test_a_fingerprint_is_the_same_tomorrow() -> None:
    wheel = Wheel(name="SGLang", version="0.5.9", filename="x.whl", sha256="1" * 64)
    text = '{"packages":[["sglang","0.5.9","' + "1" * 64 + '"]],"platform":"p","python":"3.12"}'
    assert fingerprint("p", "3.12", [wheel]) == hashlib.sha256(text.encode()).hexdigest()


FORMAT_1 = """
{"format": 1, "name": "sglang-0.5.9", "kind": "source", "path": "/home/u/environments/sglang-0.5.9/site",
 "platform": "x86_64-manylinux_2_39", "python": "3.12", "packages": {"sglang": "0.5.9"},
 "wheels": [{"name": "sglang", "version": "0.5.9", "filename": "sglang-0.5.9-py3-none-any.whl",
             "sha256": "SHA", "size": 5201033}],
 "requested": ["sglang==0.5.9"], "fingerprint": "SHA"}
""".replace("SHA", "8" * 64)
"""As the first release wrote it. Never edited: a change is a new format, and this still reads."""


def test_a_description_of_format_1_reads_and_writes_the_same() -> None:
    read = read_description(FORMAT_1)
    assert json.dumps(read.document()) == json.dumps(json.loads(FORMAT_1))


def test_names_put_the_engine_first_and_name_an_unusual_machine() -> None:
    packages = {"flashinfer-python": "0.6.5", "sglang": "0.5.9"}
    assert environment_name(packages, ["sglang"], DEFAULT_PLATFORM) == "sglang-0.5.9+flashinfer-python-0.6.5"
    assert environment_name(packages, ["sglang"], "aarch64-manylinux_2_39").endswith("-0.6.5+aarch64")
    many = {f"package-with-a-long-name-{n}": "1.0" for n in range(20)}
    assert len(environment_name(many, [], DEFAULT_PLATFORM)) <= 120


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("sglang>=0.5", "allows several versions"),
        ("sglang==0.5.*", "allows several versions"),
        ("sglang=0.5.9", "is not a package"),
        ("", "is not a package"),
        ("sglang[all]==0.5.9", "extras"),
        ("sglang @ git+https://example.org/x", "not on the package index"),
        ("--index-url=http://example.org", "is not a package"),
        ("../wheels/sglang.whl", "is not a package"),
    ],
)
def test_what_is_no_exact_package_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ToolError, match=reason) as error:
        parse_request([text])
    assert not error.value.missing
    assert "\n" not in str(error.value)


def test_a_request_reads_names_versions_and_the_machine() -> None:
    request = parse_request(["SGLang==0.5.9", "flashinfer_python"], parse_architecture("sm121"))
    assert request.packages == {"sglang": "0.5.9", "flashinfer-python": None}
    assert request.platform == "aarch64-manylinux_2_39"
    assert request.engine_alone is None
    assert not request.exact
    assert parse_request(["sglang==0.5.9"], parse_architecture("sm120")).platform == DEFAULT_PLATFORM
    with pytest.raises(ToolError, match="twice"):
        parse_request(["sglang==0.5.9", "sglang==0.5.10"])


def test_nothing_asked_is_the_newest_default_engine_with_its_pins() -> None:
    request = parse_request([])
    assert request.engine_alone == "sglang"
    assert request.packages == {"sglang": None}
    assert parse_request([], with_pins=False).engine_alone is None


def test_pins_are_read_from_the_engines_metadata(home: Home, tmp_path: Path) -> None:
    unpacked(
        tmp_path,
        "sglang",
        "0.5.9",
        requires=(
            "flashinfer_python[cu13]==0.6.3",
            "flashinfer_cubin==0.6.3",
            'sgl-kernel==0.3.21; platform_machine == "x86_64"',
            'sglang-kernel==9; extra == "next"',
            "torch==2.9.1",
        ),
    )
    assert kernel_pins(tmp_path, "sglang", "x86_64") == {"flashinfer-python": "0.6.3", "sgl-kernel": "0.3.21"}
    assert kernel_pins(tmp_path, "sglang", "aarch64") == {"flashinfer-python": "0.6.3"}
    unpacked(tmp_path, "flashinfer_python", "0.6.5")
    (warning,) = pin_warnings(open_environment(home, str(tmp_path)))
    assert "sglang 0.5.9 asks for flashinfer-python==0.6.3" in warning
    assert "flashinfer-python 0.6.5" in warning


def test_a_driver_may_install_only_engines_kernel_libraries_and_what_they_need(home: Home) -> None:
    check_allowed(home, ["sglang==0.5.9", "flashinfer-python", "vllm"])
    with pytest.raises(ToolError, match=r"^left-pad: .*a person can add it"):
        check_allowed(home, ["sglang", "left-pad==1.0"])
    made = stored(home, {"sglang": "0.5.9"})
    (info,) = made.root.glob("*.dist-info")
    (info / "METADATA").write_text("Name: sglang\nRequires-Dist: left-pad>=1\n\n")
    check_allowed(home, ["sglang", "left-pad==1.0"])


def test_a_folder_in_the_making_is_gone_when_the_making_fails(tmp_path: Path) -> None:
    def fail_half_way() -> None:
        with Staging(tmp_path) as stage:
            (stage.whole / "file").touch()
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail_half_way()
    assert list((tmp_path / PARTIAL).iterdir()) == []
    assert [each.name for each in tmp_path.iterdir()] == [PARTIAL]


def test_clearing_up_spares_what_another_is_making(tmp_path: Path) -> None:
    with Staging(tmp_path) as first:
        (first.whole / "file").touch()
        with Staging(tmp_path) as second:
            (second.whole / "other").touch()
            assert (first.whole / "file").exists()
            assert second.publish("made")
            assert not first.publish("made")
    assert sorted(each.name for each in tmp_path.iterdir()) == [PARTIAL, "made"]
    assert [each.name for each in (tmp_path / "made").iterdir()] == ["other"]


def test_a_driver_reads_only_the_folders_that_were_given(home: Home, tmp_path: Path) -> None:
    @dataclass
    class Context:
        home: Home
        folders: tuple[Path, ...]

    unpacked(tmp_path / "mine", "sglang", "0.5.9")
    unpacked(tmp_path / "other", "sglang", "0.5.9")
    (tmp_path / "link").symlink_to("other")
    context = Context(home, (tmp_path / "mine",))
    for given in ("mine", "other/../mine"):
        assert open_for(context, f"{tmp_path}/{given}").kind == "adopted"
    for given in ("other", "mine/../other", "link", "mine/sglang", "", "/"):
        with pytest.raises(ToolError, match="may be read here"):
            open_for(context, f"{tmp_path}/{given}")
    made = stored(home, {"sglang": "0.5.9"})
    assert open_for(context, made.name) == open_for(context, made.path) == made


@pytest.mark.parametrize(
    "given", ["~nobody-of-that-name", "~nobody-of-that-name/x", "a" * 300, "b" * 5000, "./" + "c" * 5000]
)
def test_what_no_file_system_takes_is_one_clear_line(home: Home, given: str) -> None:
    with pytest.raises(ToolError, match=r"is no environment \(|no environment") as caught:
        open_environment(home, given)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("where", ["loose", "packed", "worktree"])
def test_a_commit_shows_wherever_git_keeps_it(home: Home, tmp_path: Path, where: str) -> None:
    package = tmp_path / "repo" / "sglang"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    git = tmp_path / "repo" / ".git"
    if where == "worktree":
        git.write_text("gitdir: ../main/.git/worktrees/repo\n")
        git = tmp_path / "main" / ".git" / "worktrees" / "repo"
    git.mkdir(parents=True)
    (git / "HEAD").write_text("ref: refs/heads/main\n")
    common = git
    if where == "worktree":
        (git / "commondir").write_text("../..\n")
        common = tmp_path / "main" / ".git"
    found = set()
    for commit in ("1" * 40, "2" * 40):
        if where == "loose":
            (common / "refs" / "heads").mkdir(parents=True, exist_ok=True)
            (common / "refs" / "heads" / "main").write_text(commit + "\n")
        else:
            (common / "packed-refs").write_text(
                f"# pack-refs\n{'3' * 40} refs/heads/x\n{commit} refs/heads/main\n"
            )
        found.add(open_environment(home, str(tmp_path / "repo")).fingerprint)
    assert len(found) == 2


@pytest.mark.parametrize(
    "project", ["project = 3\n", "[project]\nname = 'a b\\n'\nversion = 7\n", "a = " + "[" * 5000, "\xff = ["]
)
def test_a_project_file_that_says_nothing_stops_nothing(home: Home, tmp_path: Path, project: str) -> None:
    (tmp_path / "sglang").mkdir()
    (tmp_path / "sglang" / "__init__.py").write_text('__version__ = "1.0\n"\n')
    (tmp_path / "pyproject.toml").write_text(project)
    assert open_environment(home, str(tmp_path)).packages == {"sglang": "unknown"}


def test_a_record_that_names_pipes_and_files_elsewhere_stops_nothing(home: Home, tmp_path: Path) -> None:
    (tmp_path / "outside.py").write_text("secret = 1\n")
    record = "".join(
        f"{name},sha256=x,1\n" for name in ("sglang/pipe.py", "../outside.py", "/nul\0.py", "sglang")
    )
    unpacked(tmp_path / "site", "sglang", "0.5.9", record=record)
    os.mkfifo(tmp_path / "site" / "sglang" / "pipe.py")
    first = open_environment(home, str(tmp_path / "site"))
    assert first.packages == {"sglang": "0.5.9"}
    assert open_environment(home, str(tmp_path / "site")).fingerprint == first.fingerprint


def test_a_file_in_place_of_a_folder_is_wrong_and_a_folder_that_is_not_there_is_missing(
    home: Home, tmp_path: Path
) -> None:
    file = tmp_path / "engine.whl"
    file.write_text("")
    with pytest.raises(ToolError, match="is a file; expected a folder") as wrong:
        open_environment(home, str(file))
    with pytest.raises(ToolError, match="no folder") as missing:
        open_environment(home, str(tmp_path / "nowhere"))
    assert (wrong.value.missing, missing.value.missing) == (False, True)


def test_of_many_names_an_error_says_the_first_and_how_many_more(home: Home) -> None:
    for number in range(30):
        stored(home, {"sglang": f"0.{number}"})
    with pytest.raises(ToolError, match=r"sglang-0\.0, .* and 22 more; create one with"):
        open_environment(home, "vllm")
    tree = stored(home, {f"package-{number}": "1" for number in range(30)}).tree()
    with pytest.raises(SourceError, match=r"no 'x' in the environment \(package-0, .* and 22 more\)"):
        tree.lines("x")
