"""Environments that lie elsewhere: checkouts, images, other hosts.

``docker`` and ``ssh`` are fakes on PATH here: the first copies from a folder that stands for an image, the
second runs its command on this machine.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from program import agent, one_line
from tiny_engine import write_engine

from memory.home import Home
from tools.environment.places import arrived
from tools.environment.store import load, open_environment
from tools.errors import ToolError

FAKE_DOCKER = """\
#!/usr/bin/env bash
# fake docker: the image is the folder {image}
echo "$@" >> {image}/../calls
case "$1" in
  image) [ "$3" = maple:1 ] || {{ echo "Error: No such image: $3" >&2; exit 1; }}
         echo '[{{"Id": "sha256:1", "Config": {{"Env": ["PATH=/opt/env/bin:/bin"]}}}}]';;
  create) echo c0ffee;;
  rm) ;;
  cp) path={image}${{3#c0ffee:}}
      [ -e "$path" ] || {{ echo "no such path" >&2; exit 1; }}
      tar -chf - -C "$(dirname "$path")" "$(basename "$path")";;
esac
"""
FAKE_SSH = """\
#!/usr/bin/env bash
# fake ssh: everything up to the host is passed over, the command runs here
while [ "$1" != -- ]; do shift; done
[ "$2" = box ] || { echo "ssh: Could not resolve hostname $2" >&2; exit 255; }
shift 2
exec sh -c "$*"
"""


def fake(folder: Path, name: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(text)
    (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


def checkout(root: Path) -> Path:
    """A virtual environment in which the engine is a checkout outside of it; returns the environment."""
    source = write_engine(root / "checkout" / "python")
    (info,) = source.glob("*.dist-info")
    site = root / "venv" / "lib" / "python3.12" / "site-packages"
    site.mkdir(parents=True)
    info.rename(site / info.name)
    info = site / info.name
    (info / "RECORD").write_text(f"_sglang.pth,,\n{info.name}/RECORD,,\n")
    (info / "direct_url.json").write_text(
        json.dumps({"url": source.as_uri(), "dir_info": {"editable": True}})
    )
    (site / "_sglang.pth").write_text(f"{source}\n")
    other = site / "torch-2.9.1.dist-info"
    other.mkdir()
    (other / "METADATA").write_text("Name: torch\nVersion: 2.9.1\n")
    return root / "venv"


def test_a_checkout_is_read_through_the_environment_that_it_is_installed_in(
    home: Home, tmp_path: Path
) -> None:
    venv = checkout(tmp_path)
    lines: list[str] = []
    name = arrived(home, str(venv), lines.append)
    found = open_environment(home, name)
    assert found.packages == {"sglang": "9.9.0", "torch": "2.9.1"}
    assert (found.kind, found.python) == ("adopted", "3.12")
    tree = found.tree()
    assert "cedar needs 10.x" in "\n".join(tree.lines("sglang/srt/gates.py"))
    assert tree.owner("sglang/srt/gates.py") == ("sglang", "9.9.0")
    assert f"sglang is a checkout there: {tmp_path}/checkout/python" in lines
    # The same is not copied twice; what was edited is another environment, and the first one stays.
    assert arrived(home, str(venv), lines.append) == name
    assert lines[-1] == f"nothing there has changed: {name}"
    (tmp_path / "checkout/python/sglang/srt/gates.py").write_text("# edited\n")
    again = arrived(home, str(venv), lines.append)
    assert again != name
    assert open_environment(home, again).tree().lines("sglang/srt/gates.py")[0] == "# edited"
    assert open_environment(home, name).fingerprint == found.fingerprint


def test_what_a_checkout_has_changed_since_its_commit_is_said(home: Home, tmp_path: Path) -> None:
    venv = checkout(tmp_path)
    git = ["git", "-c", "user.name=x", "-c", "user.email=x@y", "-C", str(tmp_path / "checkout")]
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "one"]):
        subprocess.run([*git, *command], check=True, capture_output=True)
    (tmp_path / "checkout/python/sglang/srt/gates.py").write_text("# edited\n")
    lines: list[str] = []
    arrived(home, str(venv), lines.append)
    assert any("changed since its commit: python/sglang/srt/gates.py" in line for line in lines)


def test_a_folder_without_checkouts_is_read_in_place(home: Home, tmp_path: Path) -> None:
    site = write_engine(tmp_path / "site-packages")
    assert arrived(home, str(site), lambda _: None) == str(site)
    assert arrived(home, "sglang-0.5.9", lambda _: None) == "sglang-0.5.9"
    assert list(home.environments.iterdir()) == []


def test_an_image_is_copied_through_docker(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = tmp_path / "image"
    site = write_engine(image / "opt/env/lib/python3.12/dist-packages")
    (site / "torch").mkdir()
    (site / "torch/__init__.py").write_text("x = 1\n")
    fake(tmp_path / "bin", "docker", FAKE_DOCKER.format(image=image), monkeypatch)
    name = arrived(home, "docker:maple:1", lambda _: None)
    found = load(home.environments / name)
    assert (found.packages, found.python) == ({"sglang": "9.9.0"}, "3.12")
    assert (found.root / "sglang/srt/gates.py").is_file()
    assert not (found.root / "torch").exists(), "only what is read"
    calls = (tmp_path / "calls").read_text().splitlines()
    assert calls[-1] == "rm -f c0ffee"
    assert not any(call.startswith(("run", "exec", "start")) for call in calls)
    assert arrived(home, "docker:maple:1", lambda _: None) == name
    assert not any(
        call.startswith("cp") for call in (tmp_path / "calls").read_text().splitlines()[len(calls) :]
    )
    with pytest.raises(ToolError, match="No such image"):
        arrived(home, "docker:birch:2", lambda _: None)
    with pytest.raises(ToolError, match="names no image"):
        arrived(home, "docker:-v /:/x", lambda _: None)


def test_another_host_is_read_through_the_persons_own_ssh(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    venv = checkout(tmp_path)
    strange = tmp_path / "it's a venv; touch owned"
    venv.rename(strange)
    fake(tmp_path / "bin", "ssh", FAKE_SSH, monkeypatch)
    name = arrived(home, f"ssh://box{strange}", lambda _: None)
    found = load(home.environments / name)
    assert found.packages == {"sglang": "9.9.0", "torch": "2.9.1"}
    assert (found.root / "sglang/srt/gates.py").is_file(), "a checkout there is read through too"
    assert not list(tmp_path.rglob("owned*"))
    lines: list[str] = []
    assert arrived(home, f"ssh://box{strange}", lines.append) == name
    assert lines == [f"nothing there has changed: {name}"]
    (tmp_path / "checkout/python/sglang/srt/gates.py").write_text("# edited\n")
    assert arrived(home, f"ssh://box{strange}", lines.append) != name
    with pytest.raises(ToolError, match="Could not resolve hostname"):
        arrived(home, "ssh://nowhere/x", lambda _: None)
    with pytest.raises(ToolError, match="no installed packages there"):
        arrived(home, f"ssh://box{tmp_path}/checkout", lambda _: None)
    with pytest.raises(ToolError, match="expected ssh://"):
        arrived(home, "ssh://-oProxyCommand=x/y", lambda _: None)


def test_nothing_is_left_of_what_failed_half_way(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torn = FAKE_SSH.replace('exec sh -c "$*"', 'sh -c "$*" | head -c 1700; exit 255')
    fake(tmp_path / "bin", "ssh", torn, monkeypatch)
    venv = checkout(tmp_path)
    with pytest.raises(ToolError, match="ssh failed"):
        arrived(home, f"ssh://box{venv}", lambda _: None)
    assert [path.name for path in home.environments.iterdir() if not path.name.startswith(".")] == []


def test_the_commands_take_them(tmp_path: Path) -> None:
    venv = checkout(tmp_path)
    shown = agent("explain", "fp4_gemm", "cedar", "-e", str(venv), "--arch", "sm120", "--json")
    assert shown.returncode == 0, shown.stderr
    assert json.loads(shown.stdout)["row"]["backend"] == "cedar"
    assert "is a checkout there" in shown.stderr
    log = tmp_path / "a.log"
    log.write_text(
        "Traceback (most recent call last):\n"
        '  File "/w/python/sglang/srt/gates.py", line 7, in pick\n'
        '    raise ValueError("cedar needs 10.x")\n'
        "ValueError: cedar needs 10.x\n"
    )
    found = json.loads(agent("diagnose", str(log), "-e", str(venv), "--json").stdout)
    assert found["gate"]["raised"]["file"] == "sglang/srt/gates.py"
    one_line(agent("backends", "-e", "docker:x", "--arch", "sm120", PATH="/nowhere"), 3, "docker is needed")
