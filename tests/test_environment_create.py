"""Creating environments from real wheels: every test here talks to a package index through uv."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from conftest import Wheels

from memory.architecture import parse_architecture
from memory.home import Home
from memory.vocabulary import Effect
from tools.base import ToolError
from tools.environment.create import create_environment
from tools.environment.model import fingerprint, read_description
from tools.environment.pins import pin_warnings
from tools.environment.staging import PARTIAL
from tools.environment.store import list_environments, open_environment
from tools.environment.uv import human_size
from tools.registry import registry

pytestmark = pytest.mark.network

PAIR = ("sglang==0.5.9", "flashinfer-python==0.6.5")
SMALL = "torch-memory-saver==0.0.9"
"""Half a megabyte, with a wheel for x86_64 alone."""

BOTH = "markupsafe==3.0.2"
"""Some kilobytes, with compiled wheels for each CPU."""

CREATE = """
import sys
from pathlib import Path
from memory.home import Home
from tools.environment.create import create_environment
made = create_environment(Home(Path(sys.argv[1])), sys.argv[2:], None, lambda text: print(text, flush=True))
print("MADE", made.name, made.fingerprint, flush=True)
"""
REPOSITORY = Path(__file__).parent.parent


def creating(home: Home, *requirements: str, first: str = "") -> subprocess.Popen[str]:
    """Start it; ``first``, lines of Python, are done before."""
    return subprocess.Popen(
        [sys.executable, "-c", first + CREATE, str(home.root), *requirements],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=REPOSITORY,
    )


def hidden(home: Home, folder: str) -> list[str]:
    return sorted(each.name for each in (home.environments / folder).iterdir())


def unreachable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A network without a way out, and a uv that remembers nothing."""
    for name in ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "https_proxy", "http_proxy", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "")
    monkeypatch.setenv("no_proxy", "")
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv-cache"))


def test_packages_are_unpacked_with_the_hashes_of_their_wheels(wheels: Wheels) -> None:
    made = wheels(*PAIR)
    assert made.packages == {"sglang": "0.5.9", "flashinfer-python": "0.6.5"}
    assert made.platform == "x86_64-manylinux_2_39"
    assert made.name == "sglang-0.5.9+flashinfer-python-0.6.5"
    assert {wheel.filename for wheel in made.wheels} == {
        "sglang-0.5.9-py3-none-any.whl",
        "flashinfer_python-0.6.5-py3-none-any.whl",
    }
    # As published: these files do not change.
    assert {wheel.sha256 for wheel in made.wheels} == {
        "8a936c4d25fea605f44254e533cff2144c73ceffbc1f8738aba393461bbb64d1",
        "500a8b75451281411e042b2e2d667aaae37c3bc6df2d00ceb49b3cd83d84a950",
    }
    assert {wheel.size for wheel in made.wheels} == {5201033, 7803165}
    assert made.fingerprint == fingerprint(made.platform, made.python, made.wheels)
    assert made.tree().lines("sglang/version.py")
    assert (made.root / "flashinfer" / "__init__.py").is_file()


def test_every_unpacked_file_is_what_the_wheel_recorded_and_nothing_was_compiled(wheels: Wheels) -> None:
    made = wheels(SMALL)
    assert list(made.root.rglob("*.py[co]")) == []
    (record,) = made.root.glob("*.dist-info/RECORD")
    checked = 0
    for line in record.read_text().splitlines():
        name, digest, _ = line.rsplit(",", 2)
        if digest:
            algorithm, value = digest.split("=", 1)
            data = (made.root / name).read_bytes()
            found = base64.urlsafe_b64encode(hashlib.new(algorithm, data).digest()).rstrip(b"=").decode()
            assert found == value, name
            checked += 1
    assert checked > 5


def test_the_same_request_is_the_same_environment_without_network_or_uv(
    home: Home, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made = create_environment(home, [SMALL])
    unreachable(monkeypatch, tmp_path)
    monkeypatch.setattr("tools.environment.uv.find_uv", lambda: pytest.fail("uv was looked for"))
    told: list[str] = []
    assert create_environment(home, [SMALL.replace("-", "_")], None, told.append) == made
    assert told == [f"using environment {made.name}"]


def test_sizes_are_told_before_anything_is_fetched(home: Home) -> None:
    told: list[str] = []
    create_environment(home, [SMALL], None, told.append)
    assert told[0].startswith("resolving torch-memory-saver==0.0.9 for x86_64-manylinux_2_39")
    assert (
        told[1]
        == "torch-memory-saver 0.0.9: 0.5 MB (torch_memory_saver-0.0.9-cp39-abi3-manylinux2014_x86_64.whl)"
    )
    assert told[-1].startswith("created environment torch-memory-saver-0.0.9 in ")


def test_a_machine_with_another_cpu_gets_its_own_wheels(wheels: Wheels) -> None:
    usual, other = wheels(BOTH), wheels(BOTH, arch=parse_architecture("sm121"))
    assert other.platform == "aarch64-manylinux_2_39"
    assert other.name == f"{usual.name}+aarch64"
    assert other.fingerprint != usual.fingerprint
    assert "aarch64" in other.wheels[0].filename
    assert "x86_64" in usual.wheels[0].filename
    library = next(path for path in other.root.rglob("*.so*") if path.is_file())
    assert library.read_bytes()[18:20] == b"\xb7\x00", "an ELF file for AArch64"


def test_a_version_other_than_the_engines_pin_is_warned_of_each_time(wheels: Wheels, home: Home) -> None:
    (warning,) = pin_warnings(wheels(*PAIR))
    assert "sglang 0.5.9" in warning
    assert "flashinfer-python==0.6.3" in warning
    assert "flashinfer-python 0.6.5" in warning
    for _ in range(2):
        told: list[str] = []
        create_environment(home, PAIR, None, told.append)
        assert f"warning: {warning}" in told


def test_the_pinned_version_is_not_warned_of(wheels: Wheels) -> None:
    assert pin_warnings(wheels("sglang==0.5.9", "flashinfer-python==0.6.3")) == []


def test_an_engine_alone_brings_what_it_pins(home: Home) -> None:
    # The one release of this engine whose pinned kernel libraries are small for this CPU.
    told: list[str] = []
    made = create_environment(home, ["sglang==0.5.23"], parse_architecture("sm121"), told.append)
    pinned = {"flashinfer-python": "0.7.2", "sglang-kernel": "0.4.10"}
    pinned |= {"sgl-deep-gemm": "0.2.3.post2", "sgl-flash-mla": "1.0.0"}
    assert made.packages == {"sglang": "0.5.23", **pinned}
    (said,) = (line for line in told if line.startswith("sglang pins "))
    assert set(said.removeprefix("sglang pins ").split(", ")) == {f"{a}=={b}" for a, b in pinned.items()}
    (total,) = (line for line in told if line.startswith("in all: "))
    assert total == f"in all: {human_size(sum(wheel.size or 0 for wheel in made.wheels))} to fetch"
    assert pin_warnings(made) == []
    alone = create_environment(home, ["sglang==0.5.23"], parse_architecture("sm121"), with_pins=False)
    assert alone.packages == {"sglang": "0.5.23"}
    again = create_environment(home, ["sglang==0.5.23"], parse_architecture("sm121"))
    assert again == made


def test_the_newest_is_asked_for_once_a_day(
    home: Home, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made = create_environment(home, ["torch-memory-saver"], now=lambda: 1000.0)
    unreachable(monkeypatch, tmp_path)
    told: list[str] = []
    hour, day = 1000.0 + 3600, 1000.0 + 25 * 3600
    assert create_environment(home, ["torch-memory-saver"], None, told.append, now=lambda: hour) == made
    assert "less than a day ago" in told[0]
    # Later it is asked for again, and what there is still serves where nobody answers.
    told.clear()
    assert create_environment(home, ["torch-memory-saver"], None, told.append, now=lambda: day) == made
    assert any("cannot ask for newer versions" in text for text in told)


def test_an_unknown_package_is_one_clear_line(home: Home) -> None:
    with pytest.raises(ToolError, match="no package 'sglang-of-nobody-at-all' on the package index") as error:
        create_environment(home, ["sglang-of-nobody-at-all==1.0"])
    assert not error.value.missing
    assert "\n" not in str(error.value)
    assert list_environments(home) == []
    assert hidden(home, PARTIAL) == []


def test_an_unknown_version_names_the_nearest(home: Home) -> None:
    with pytest.raises(
        ToolError, match=r"no version 0\.5\.9\.post7 of sglang; nearest: 0\.5\.9, 0\.5\.10$"
    ) as error:
        create_environment(home, ["sglang==0.5.9.post7"])
    assert not error.value.missing


def test_a_package_without_a_wheel_for_the_target_is_one_clear_line(home: Home) -> None:
    with pytest.raises(
        ToolError, match=r"torch-memory-saver 0\.0\.9 has no wheel for aarch64-manylinux"
    ) as error:
        create_environment(home, [SMALL], parse_architecture("sm121"))
    assert not error.value.missing


@pytest.mark.parametrize("how", ["offline", "proxy"])
def test_without_a_network_it_says_so(
    how: str, home: Home, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    unreachable(monkeypatch, tmp_path)
    if how == "offline":
        monkeypatch.setenv("UV_OFFLINE", "1")
    with pytest.raises(ToolError, match=r"cannot reach the package index for torch-memory-saver") as error:
        create_environment(home, [SMALL])
    assert error.value.missing
    assert "\n" not in str(error.value)
    assert hidden(home, PARTIAL) == []


def test_a_home_that_cannot_be_written_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ToolError, match=r"cannot write to .*ASSAY_HOME") as error:
        create_environment(Home(tmp_path / "file" / "home"), [SMALL])
    assert error.value.missing


def test_an_environment_that_exists_is_used_from_a_home_that_cannot_be_written(home: Home) -> None:
    made = create_environment(home, [SMALL])
    before = sorted(home.root.rglob("*"))
    for folder in (home.root, home.environments):
        folder.chmod(0o555)
    try:
        assert create_environment(home, [SMALL]) == made
        assert open_environment(home, made.name) == made
    finally:
        for folder in (home.root, home.environments):
            folder.chmod(0o755)
    assert sorted(home.root.rglob("*")) == before


NEVER_DONE = """
import time
from pathlib import Path
Path.rename = lambda *_: time.sleep(600)  # what would make it complete
"""


def test_killed_half_way_nothing_looks_complete_and_the_next_one_clears_up(home: Home) -> None:
    # Big enough to be still unpacking when the kill comes, and not complete however late that is.
    with creating(home, "flashinfer-python==0.6.5", first=NEVER_DONE) as first:
        until = time.monotonic() + 300
        while not any(home.environments.glob(f"{PARTIAL}/*/whole/site/*")):
            assert first.poll() is None, first.stdout and first.stdout.read()
            assert time.monotonic() < until, "nothing is unpacked"
        below = psutil.Process(first.pid).children(recursive=True)
        os.kill(first.pid, signal.SIGKILL)
    psutil.wait_procs(below, timeout=120)  # they end by themselves, at a time of their own
    assert list_environments(home) == []
    assert len(hidden(home, PARTIAL)) == 2, "a folder in the making and its lock"
    with pytest.raises(ToolError, match="there is none yet"):
        open_environment(home, "flashinfer-python-0.6.5")
    made = create_environment(home, ["flashinfer-python==0.6.5"])
    assert hidden(home, PARTIAL) == []
    recorded = len(next(made.root.glob("*.dist-info/RECORD")).read_text().splitlines())
    assert sum(path.is_file() for path in made.root.rglob("*")) >= recorded > 1000


def test_two_that_create_the_same_at_once_both_succeed(home: Home) -> None:
    home.prepare()
    both = [creating(home, "flashinfer-python==0.6.5"), creating(home, "flashinfer-python==0.6.5")]
    answers = [process.communicate(timeout=300)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0], answers
    lines = {line for text in answers for line in text.splitlines() if line.startswith("MADE")}
    assert len(lines) == 1
    assert [each.name for each in list_environments(home)] == ["flashinfer-python-0.6.5"]
    assert hidden(home, PARTIAL) == []
    assert sum("created environment" in text for text in answers) == 1, "the work was done once"


def test_what_is_kept_reads_back_equal(home: Home) -> None:
    made = create_environment(home, [SMALL])
    document = json.loads((home.environments / made.name / "environment.json").read_text())
    assert read_description(json.dumps(document)) == made
    assert document["format"] == 1
    assert sorted(each.name for each in (home.environments / made.name).iterdir()) == [
        "environment.json",
        "site",
    ]


def test_the_tool_gives_environment_and_warnings(home: Home) -> None:
    class Context:
        def __init__(self) -> None:
            self.home = home
            self.told: list[str] = []

        def progress(self, text: str) -> None:
            self.told.append(text)

    create, listing = registry()["create_environment"], registry()["list_environments"]
    assert create.effect is Effect.WRITES_ENVIRONMENT
    assert listing.effect is Effect.READS
    context = Context()
    result = create.run(create.input(packages=list(PAIR), arch="sm120"), context)
    assert result.environment.packages["sglang"] == "0.5.9"
    assert len(result.warnings) == 1
    assert context.told
    (row,) = listing.run(listing.input(), context).environments
    assert row.name == result.environment.name
    assert row.megabytes == 13.0
