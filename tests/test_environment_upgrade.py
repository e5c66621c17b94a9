"""Names, upgrades, going back and giving back: with a package index in a folder. No network."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from program import agent, one_line
from wheel_index import Index

from memory.clock import FixedClock
from memory.home import Home
from tools.base import ToolError
from tools.environment.choosing import roll_back, subject
from tools.environment.create import create_environment
from tools.environment.history import Chosen, check_name, choose, is_name, read_history
from tools.environment.make import check_space
from tools.environment.model import Environment, Wheel
from tools.environment.plan import Plan, Wanted
from tools.environment.staging import PARTIAL
from tools.environment.store import chosen, list_environments, open_environment
from tools.environment.upgrade import upgrade

CLOCK = FixedClock()
PAIR = ("sglang==0.5.9", "flashinfer-python==0.6.5")


def silent(_: str) -> None:
    pass


@pytest.fixture
def pair(home: Home, index: Index) -> Environment:
    """An engine and a kernel library that it does not pin at this version; later ones are published."""
    index.add("sglang", "0.5.9", requires=("flashinfer_python==0.6.3",))
    index.add("sglang", "0.5.10", requires=("flashinfer_python==0.6.7",))
    for version in ("0.6.3", "0.6.5", "0.6.7", "0.6.8", "0.7.0.dev1"):
        index.add("flashinfer-python", version, text=f"version = '{version}'\n")
    made = create_environment(home, PAIR)
    choose(home, "work", chosen(made), "create", CLOCK)
    return made


def upgraded(
    home: Home, *to: str, name: str = "work", only: tuple[str, ...] = (), **more: Any
) -> Environment:
    wanted = Wanted(to, only, **more)
    _, made = upgrade(home, name, wanted, lambda _: True, silent, CLOCK)
    assert made is not None
    return made


def files(environment: Environment) -> dict[str, bytes]:
    paths = [path for path in environment.root.rglob("*") if path.is_file()]
    return {str(path.relative_to(environment.root)): path.read_bytes() for path in paths}


def test_an_upgrade_is_a_new_environment_and_the_old_one_is_as_it_was(home: Home, pair: Environment) -> None:
    before = files(pair)
    made = upgraded(home, "flashinfer-python==0.6.7")
    assert made.packages == {"sglang": "0.5.9", "flashinfer-python": "0.6.7"}
    assert open_environment(home, "work") == made
    assert open_environment(home, pair.name) == pair
    assert files(pair) == before
    assert files(made)["flashinfer_python/__init__.py"] == b"version = '0.6.7'\n"
    assert not [path for path in files(made) if "0.6.5" in path]
    # The same as if it had been made at once.
    assert (
        made.fingerprint
        == create_environment(home, ["sglang==0.5.9", "flashinfer-python==0.6.7"]).fingerprint
    )


def test_what_does_not_change_takes_no_more_space(home: Home, pair: Environment) -> None:
    made = upgraded(home, "flashinfer-python==0.6.7")
    one, other = (each.root / "sglang" / "__init__.py" for each in (pair, made))
    assert one.samefile(other)


def test_going_back_needs_neither_index_nor_uv_and_is_repeatable(
    home: Home, pair: Environment, index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    second = upgraded(home, "flashinfer-python==0.6.7")
    third = upgraded(home, "flashinfer-python==0.6.8")
    monkeypatch.setenv("UV_DEFAULT_INDEX", (index.root / "nowhere").as_uri())
    monkeypatch.setattr("tools.environment.uv.find_uv", lambda: pytest.fail("uv was looked for"))
    for expected in (second, pair):
        roll_back(home, "work", CLOCK)
        assert open_environment(home, "work") == expected
    with pytest.raises(ToolError, match="stood for nothing before sglang-0"):
        roll_back(home, "work", CLOCK)
    roll_back(home, "work", CLOCK, third.name)
    assert open_environment(home, "work") == third
    # What was made once is made again without asking anyone.
    assert upgraded(home, "flashinfer-python==0.6.7") == second


def test_going_back_from_what_was_lost_is_possible(home: Home, pair: Environment) -> None:
    made = upgraded(home, "flashinfer-python==0.6.7")
    shutil.rmtree(made.root)
    told = agent("environment", "rollback", "work", home=home.root)
    assert (told.returncode, told.stdout) == (0, f"work stands for {pair.name}\n"), told.stderr


def test_the_newest_of_a_library_is_what_the_engine_beside_it_pins(home: Home, pair: Environment) -> None:
    made = upgraded(home, "latest")
    assert made.packages == {"sglang": "0.5.10", "flashinfer-python": "0.6.7"}
    only = upgraded(home, "latest", only=("flashinfer-python",))
    assert only.packages == {"sglang": "0.5.10", "flashinfer-python": "0.6.8"}
    nightly = upgraded(home, "nightly", only=("flashinfer_python",))
    assert nightly.packages["flashinfer-python"] == "0.7.0.dev1"


def test_an_engine_alone_takes_its_pins_along(home: Home, pair: Environment, index: Index) -> None:
    index.add("sgl-kernel", "0.4")
    index.add("sglang", "0.5.11", requires=("sgl-kernel==0.4",))
    made = create_environment(home, ["sglang==0.5.9"])
    assert made.packages == {"sglang": "0.5.9", "flashinfer-python": "0.6.3"}
    choose(home, "alone", chosen(made), "create", CLOCK)
    after = upgraded(home, "latest", name="alone")
    assert after.packages == {"sglang": "0.5.11", "sgl-kernel": "0.4"}
    assert after.requested == ("sglang==0.5.11",)


def proposal(home: Home, *to: str, **more: Any) -> Plan:
    """What would be done; it is refused."""
    plan, made = upgrade(home, "work", Wanted(to, **more), lambda _: False, silent, CLOCK)
    assert made is None
    return plan


def test_it_is_said_first_what_changes_and_who_asks_for_something_else(home: Home, pair: Environment) -> None:
    plan = proposal(home, "flashinfer-python==0.6.7")
    assert plan.changes == [("flashinfer-python", "0.6.5", "0.6.7")]
    assert plan.conflicts == ("sglang 0.5.9 asks for flashinfer-python==0.6.3, not flashinfer-python 0.6.7",)
    assert proposal(home, "sglang==0.5.10").conflicts == (
        "sglang 0.5.10 asks for flashinfer-python==0.6.7, not flashinfer-python 0.6.5",
    )
    assert proposal(home, "flashinfer-python==0.6.3").conflicts == ()
    assert list_environments(home) == [pair]
    assert open_environment(home, "work") == pair


def test_a_version_that_was_taken_back_is_said_and_not_taken_unasked(
    home: Home, pair: Environment, index: Index
) -> None:
    index.add("flashinfer-python", "0.6.9", yanked="wrong kernels")
    assert proposal(home, "latest", only=("flashinfer-python",)).packages["flashinfer-python"] == "0.6.8"
    (warning,) = proposal(home, "flashinfer-python==0.6.9").warnings
    assert "wrong kernels" in warning


def test_another_index_serves_what_changes_and_nothing_else(
    home: Home, pair: Environment, index: Index, tmp_path: Path
) -> None:
    nightly = Index(tmp_path / "nightly")
    nightly.add("flashinfer-python", "0.8.0.dev20261129", text="nightly = 1\n")
    made = upgraded(home, "nightly", only=("flashinfer-python",), indexes=(str(nightly.root),))
    assert made.packages == {"sglang": "0.5.9", "flashinfer-python": "0.8.0.dev20261129"}
    history = read_history(home, "work")
    assert history is not None
    assert history.current.because == "upgrade --to nightly --only flashinfer-python"


@pytest.mark.parametrize(
    ("to", "more", "words"),
    [
        (("flashinfer-python==9",), {}, ["no version 9 of flashinfer-python", "0.6.8"]),
        (("nothing-like-it==1",), {}, ["no package 'nothing-like-it'"]),
        (("latest", "sglang==1"), {}, ["expected latest, nightly"]),
        (("latest",), {"only": ("torch",)}, ["torch: not in sglang-0.5.9"]),
        (("sglang==0.5.10",), {"only": ("flashinfer-python",)}, ["--to names sglang"]),
        (("git+https://localhost/e.git@main",), {}, ["--only NAME"]),
        (("git+https://localhost/e.git@main",), {"only": ("sglang",)}, ["--allow-build sglang"]),
        (("only-abroad==1",), {}, ["no wheel for x86_64"]),
        (("latest",), {"indexes": ("/no/such/folder",)}, ["no folder /no/such/folder"]),
        (("latest",), {"indexes": ("ftp://u:secret@localhost",)}, ["ftp:// is no way to an index"]),
    ],
)
def test_what_cannot_be_is_one_line_and_changes_nothing(
    home: Home, pair: Environment, index: Index, to: tuple[str, ...], more: dict[str, Any], words: list[str]
) -> None:
    index.add("only-abroad", "1", tag="cp312-cp312-win_amd64")
    with pytest.raises(ToolError) as error:
        upgrade(home, "work", Wanted(to, **more), lambda _: True, silent, CLOCK)
    for word in words:
        assert word in str(error.value)
    assert list_environments(home) == [pair]
    assert open_environment(home, "work") == pair
    assert list((home.environments / PARTIAL).iterdir()) == []


def test_too_little_space_is_said_before_anything_is_fetched(tmp_path: Path) -> None:
    wheel = Wheel("a", "1", "a.whl", "0" * 64, 10**6)
    check_space(tmp_path, [wheel], free=4 * 10**6)
    with pytest.raises(ToolError, match=r"about 4\.0 MB are needed in .* and 4\.0 MB are free") as error:
        check_space(tmp_path, [wheel], free=4 * 10**6 - 1)
    assert error.value.missing


def test_a_folder_that_cannot_be_written_leaves_all_as_it_was(home: Home, pair: Environment) -> None:
    block = home.environments / PARTIAL
    block.rmdir()
    block.write_text("in the way")  # also for root, whom permissions do not stop
    with pytest.raises(ToolError, match="nothing was changed"):
        upgraded(home, "flashinfer-python==0.6.7")
    assert open_environment(home, "work") == pair


def test_a_revision_is_built_only_where_a_person_allowed_it(
    home: Home, pair: Environment, tmp_path: Path
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "pyproject.toml").write_text(
        '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
        '[project]\nname = "flashinfer-python"\nversion = "0.9"\n'
    )
    (project / "backend.py").write_text(BACKEND)
    for command in (["init", "-qb", "main"], ["add", "."], ["commit", "-qm", "x"]):
        identity = ["-c", "user.name=t", "-c", "user.email=t@localhost"]
        subprocess.run(["git", *identity, *command], cwd=project, check=True)
    url = f"git+{project.as_uri()}@main"
    with pytest.raises(ToolError, match=r"git cannot get .*@nowhere: couldn't find remote ref"):
        upgraded(home, url[:-4] + "nowhere", only=("flashinfer-python",), allow_build=("flashinfer-python",))
    made = upgraded(home, url, only=("flashinfer-python",), allow_build=("flashinfer-python",))
    assert made.packages == {"sglang": "0.5.9", "flashinfer-python": "0.9"}
    head = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=project, check=True, capture_output=True, text=True
    ).stdout.strip()
    (wheel,) = [wheel for wheel in made.wheels if wheel.name == "flashinfer-python"]
    assert head in wheel.filename
    assert files(made)["flashinfer/__init__.py"] == b"built = 1\n"


BACKEND = """
import zipfile
def build_wheel(folder, config_settings=None, metadata_directory=None):
    name = "flashinfer_python-0.9-py3-none-any.whl"
    info = "flashinfer_python-0.9.dist-info"
    with zipfile.ZipFile(folder + "/" + name, "w") as wheel:
        wheel.writestr("flashinfer/__init__.py", "built = 1\\n")
        metadata = "Metadata-Version: 2.1\\nName: flashinfer-python\\nVersion: 0.9\\n"
        wheel.writestr(info + "/METADATA", metadata)
        wheel.writestr(info + "/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        files = ["flashinfer/__init__.py", info + "/METADATA", info + "/WHEEL", info + "/RECORD"]
        wheel.writestr(info + "/RECORD", "".join(f + ",,\\n" for f in files))
    return name
"""


def test_a_name_is_never_what_an_environment_is_called(home: Home, pair: Environment) -> None:
    for good in ("work", "vllm_next", "my-env", "A1"):
        assert check_name(good) == good
    for bad in ("", "sglang-0.5.9", "a/b", "..", "a.b", "1a", "a-1", "-a", "a" * 61, "a\n"):
        assert not is_name(bad)
    with pytest.raises(ToolError, match="letters, digits and underscores"):
        choose(home, pair.name, chosen(pair), "x", CLOCK)


def test_without_a_name_the_only_environment_is_meant(home: Home, pair: Environment) -> None:
    assert subject(home, "current") == ("current", pair)
    create_environment(home, ["sglang==0.5.10", "flashinfer-python==0.6.7"])
    with pytest.raises(ToolError, match=r"name one: sglang-0\.5\.10.*, sglang-0\.5\.9"):
        subject(home, "current")
    choose(home, "current", chosen(pair), "create", CLOCK)
    assert subject(home, "current") == ("current", pair)


def test_a_damaged_history_is_one_line_and_no_other_name_suffers(home: Home, pair: Environment) -> None:
    choose(home, "other", chosen(pair), "create", CLOCK)
    path = home.environments / ".history" / "work.json"
    for text in ("", "[]", '{"format":1}', path.read_text().replace('"chosen": 0', '"chosen": 7')):
        path.write_text(text)
        with pytest.raises(ToolError, match=r"work\.json is damaged"):
            open_environment(home, "work")
    assert open_environment(home, "other") == pair
    assert agent("environment", "forget", "work", home=home.root).returncode == 0
    one_line(agent("environment", "forget", "work", home=home.root), 3, "'work' is no name here")
    listed = agent("environment", "list", home=home.root)
    assert listed.returncode == 0
    assert "← other" in listed.stdout


def test_a_history_remembers_where_it_came_from(home: Home) -> None:
    one, two, three = (Chosen(name, "0" * 64) for name in ("/a", "/b", "/c"))
    choose(home, "n", one, "first", CLOCK)
    choose(home, "n", two, "second", CLOCK)
    again = choose(home, "n", two, "second again", CLOCK)
    assert len(again.choices) == 2
    # Made from something else than what the name stands for: back leads there first.
    history = choose(home, "n", three, "third", CLOCK, before=one)
    assert history.previous is not None
    assert history.previous.environment == "/a"
    assert read_history(home, "n") == history


def test_the_whole_way_at_the_command_line(home: Home, pair: Environment, index: Index) -> None:
    at = home.root
    made = agent("environment", "create", *PAIR, "--name", "line", home=at)
    assert made.stdout == f"{pair.name}\n"
    to = ("environment", "upgrade", "line", "--to", "flashinfer-python==0.6.7")
    refused = agent(*to, home=at)
    assert refused.returncode == 4
    assert "0.6.5 → 0.6.7" in refused.stdout
    assert "conflict: sglang 0.5.9 asks for flashinfer-python==0.6.3" in refused.stdout
    assert refused.stderr.splitlines()[-1] == (
        "agent: nothing was changed, since it was not approved; do it with --yes"
    )
    done = json.loads(agent(*to, "--yes", "--json", home=at).stdout)
    assert done["changes"] == [{"package": "flashinfer-python", "before": "0.6.5", "after": "0.6.7"}]
    new = done["made"]
    assert agent("environment", "current", "line", home=at).stdout == f"{new}\n"
    assert json.loads(agent("environment", "show", "line", "--json", home=at).stdout)["name"] == new
    assert agent("environment", "rollback", "line", home=at).stdout == f"line stands for {pair.name}\n"
    (listed,) = [line for line in agent("environment", "list", home=at).stdout.splitlines() if "line" in line]
    assert listed.startswith(pair.name)
    one_line(agent("environment", "rollback", "line", home=at), 2, "stood for nothing before")
    one_line(agent("environment", "rollback", "nobody", home=at), 3, "stands for no environment yet")
    none = Path(at).with_name("none")
    for command, code, words in (
        (("rollback",), 3, "stands for no environment yet"),
        (("upgrade", "--to", "latest"), 3, "there is none yet"),
        (("forget", "../x"), 2, "cannot be a name"),
        (("forget", "x"), 3, "no name here"),
    ):
        one_line(agent("environment", *command, home=none), code, words)
    marks = json.loads(
        agent("environment", "fingerprint", "line", "--json", home=at, FLASHINFER_X="1").stdout
    )
    assert marks["environment"] == pair.fingerprint
    assert marks["variables"]["FLASHINFER_X"] == "1"
    other = json.loads(agent("environment", "fingerprint", "line", "--json", home=at).stdout)
    assert (other["environment"], other["machine"] != marks["machine"]) == (pair.fingerprint, True)


def test_wheels_in_a_folder_are_enough(home: Home, index: Index, tmp_path: Path) -> None:
    away = Index(tmp_path / "away")
    folder = away.add("sglang", "0.5.9").parent
    (tmp_path / "wanted.txt").write_text("# the engine\nsglang==0.5.9  # this one\n")
    made = agent(
        "environment", "create", "-r", str(tmp_path / "wanted.txt"), "--no-pins", "--wheels", str(folder),
        home=home.root,
    )  # fmt: skip
    assert (made.returncode, made.stdout) == (0, "sglang-0.5.9\n"), made.stderr


def test_what_a_name_stands_for_stays_and_the_rest_gives_its_space_back(
    home: Home, pair: Environment
) -> None:
    second = upgraded(home, "flashinfer-python==0.6.7")
    third = upgraded(home, "flashinfer-python==0.6.8")
    told = json.loads(agent("environment", "gc", "--json", home=home.root).stdout)
    assert (told["gone"], told["removed"]) == ([pair.name], False)
    assert set(told["kept"]) == {second.name, third.name}
    # What it shares with the others does not come back; what uv keeps does when uv forgets it.
    assert told["held"] > 0
    own = [path for path in pair.root.rglob("*") if path.is_file() and path.stat().st_nlink == 1]
    assert (
        0
        < told["bytes"]
        <= sum(path.stat().st_blocks * 512 for path in [*own, pair.root.parent / "environment.json"])
    )
    assert open_environment(home, pair.name) == pair
    assert agent("environment", "gc", "--yes", home=home.root).returncode == 0
    assert list_environments(home) == sorted([second, third], key=lambda one: one.name)
    assert files(second)["sglang/__init__.py"]
    roll_back(home, "work", CLOCK)
    with pytest.raises(ToolError, match="damaged"):
        roll_back(home, "work", CLOCK)
    assert open_environment(home, "work") == second


def test_a_folder_of_someone_else_gets_a_name_and_is_only_read(
    home: Home, pair: Environment, tmp_path: Path
) -> None:
    venv = tmp_path / "venv" / "lib" / "python3.12" / "site-packages"
    venv.parent.mkdir(parents=True)
    subprocess.run(["cp", "-r", str(pair.root), str(venv)], check=True)
    (venv / "sglang" / "__init__.py").write_text("patched = 1\n")
    before = {path: path.stat().st_mtime_ns for path in venv.rglob("*")}
    told = agent("environment", "adopt", str(tmp_path / "venv"), "--name", "mine", home=home.root)
    assert told.returncode == 0, told.stderr
    assert "edited in sglang: sglang/__init__.py" in told.stdout
    assert {path: path.stat().st_mtime_ns for path in venv.rglob("*")} == before
    assert open_environment(home, "mine").packages == pair.packages
    one_line(
        agent("environment", "upgrade", "mine", "--to", "latest", "--yes", home=home.root),
        2,
        "someone else's",
    )
    (venv / "sglang" / "__init__.py").write_text("patched = 2\n")
    assert agent("environment", "gc", "--yes", home=home.root).returncode == 0
    assert (venv / "sglang" / "__init__.py").is_file(), "what is someone else's is never removed"
    assert "it has changed since" in agent("environment", "show", "mine", home=home.root).stdout


def test_the_local_changes_of_a_checkout_are_shown_and_nothing_of_it_runs(home: Home, tmp_path: Path) -> None:
    checkout = tmp_path / "checkout"
    (checkout / "engine").mkdir(parents=True)
    (checkout / "engine" / "__init__.py").write_text("__version__ = '1.2'\nold = 1\n")
    identity = ["-c", "user.name=t", "-c", "user.email=t@localhost"]
    for command in (["init", "-qb", "main"], ["add", "."], ["commit", "-qm", "x"]):
        subprocess.run(["git", *identity, *command], cwd=checkout, check=True)
    ran = tmp_path / "ran"
    for key in ("core.fsmonitor", "diff.external", "core.pager"):
        subprocess.run(["git", "config", key, f"touch {ran}"], cwd=checkout, check=True)
    (checkout / "engine" / "__init__.py").write_text("__version__ = '1.2'\nnew = 1\n")
    told = json.loads(
        agent("environment", "adopt", str(checkout), "--name", "patched", "--json", home=home.root).stdout
    )
    assert "-old = 1\n+new = 1\n" in told["patches"]["diff"]
    assert not ran.exists()


def test_nothing_to_remove_is_said() -> None:
    finished = agent("environment", "gc")
    assert (finished.returncode, finished.stdout) == (0, "Nothing to remove.\n")
