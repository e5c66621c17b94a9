"""Which kernels are tried: backends and their names are those of the installed version."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from memory.home import Home
from tools.environment.adopt import adopt
from tools.environment.model import Environment
from tools.errors import ToolError
from tools.probe.pack import make_plan, pack
from tools.probe.plan import backends_of, cells_of
from tools.probe.results import plan_of

LIBRARY = '''
from typing import Literal, overload

@overload
def mm_fp4(a, backend: Literal["none"] = "none"): ...
def mm_fp4(a, b, backend: Literal["oak", "elm", "auto"] = "auto"): return a
def bmm_fp8(a, b):
    """No choice at all."""
def single_prefill_with_kv_cache(q, backend: str = "auto"):
    """Attend.

    Parameters
    ----------
    backend : str
        The way it is done, could be ``auto``/``oak` or ``ash``. Defaults to ``auto``.
        With ``never`` nothing is done.
    """
class BatchDecodeWithPagedKVCacheWrapper:
    def __init__(self, workspace, *, backend: str = "auto"):
        """Decode.

        backend : str
            One of ``"auto"``, ``"fir"``. Default ``"auto"``.
        """
'''


def library(folder: Path, version: str = "9.9") -> Environment:
    info = folder / f"flashinfer_python-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: flashinfer-python\nVersion: {version}\n")
    (folder / "flashinfer").mkdir()
    (folder / "flashinfer" / "__init__.py").write_text(LIBRARY)
    (info / "RECORD").write_text("flashinfer/__init__.py,,\n")
    return adopt(folder)


@pytest.mark.parametrize(
    ("function", "backends"),
    [
        ("flashinfer:mm_fp4", ("oak", "elm", "auto")),
        ("flashinfer:bmm_fp8", ()),
        ("flashinfer:single_prefill_with_kv_cache", ("auto", "oak", "ash")),
        ("flashinfer:BatchDecodeWithPagedKVCacheWrapper", ("auto", "fir")),
        ("flashinfer:not_there", None),
    ],
)
def test_backends_are_read_in_the_installed_source(
    tmp_path: Path, function: str, backends: tuple[str, ...] | None
) -> None:
    assert backends_of(library(tmp_path / "site"), function) == backends


def test_a_cell_is_a_backend_at_a_shape_and_what_is_not_installed_has_none(tmp_path: Path) -> None:
    environment = library(tmp_path / "site")
    cells = cells_of(environment)
    assert {cell.operation for cell in cells} == {
        "mm_fp4",
        "bmm_fp8",
        "single_prefill_with_kv_cache",
        "BatchDecodeWithPagedKVCacheWrapper",
    }
    assert [cell.id for cell in cells_of(environment, ["fp4_gemm"], ["elm"])] == [
        "mm_fp4:elm",
        "mm_fp4:elm@1",
    ]
    assert {cell.choice for cell in cells_of(environment, backends=["bmm_fp8"])} == {None}


def test_what_cannot_be_probed_is_said_in_a_line(tmp_path: Path) -> None:
    environment = library(tmp_path / "site")
    with pytest.raises(ToolError, match="no probe for 'teapot'; there are probes for: attention, "):
        cells_of(environment, ["teapot"])
    with pytest.raises(ToolError, match="no backend birch to probe; there are: mm_fp4:oak"):
        cells_of(environment, backends=["birch"])
    (tmp_path / "bare").mkdir()
    with pytest.raises(ToolError, match="holds none of flashinfer-python"):
        cells_of(Environment("bare", "adopted", str(tmp_path / "bare"), "", "", {}, "0"))


def test_a_pack_is_whole_and_its_plan_is_kept(tmp_path: Path, home: Home) -> None:
    from memory.artifacts import Artifacts

    environment = library(tmp_path / "site")
    plan = make_plan(environment, cells_of(environment, controls=True))
    pack(plan, tmp_path / "pack", home)
    assert plan_of(Artifacts(home.artifacts), plan.sha256) == plan
    assert json.loads((tmp_path / "pack" / "plan.json").read_text()) == plan.model_dump(mode="json")
    said = subprocess.run(
        [sys.executable, "-P", "run.py", "--help"],
        cwd=tmp_path / "pack",
        capture_output=True,
        text=True,
        check=False,
    )
    assert said.returncode == 0
    assert "--site" in said.stdout
    with pytest.raises(ToolError, match="is not empty; give a new folder"):
        pack(plan, tmp_path / "pack", home)
    with pytest.raises(ToolError, match="was not packed in this home"):
        plan_of(Artifacts(home.artifacts), "0" * 64)


def test_scripts_that_were_changed_are_not_run(tmp_path: Path, home: Home) -> None:
    environment = library(tmp_path / "site")
    pack(make_plan(environment, cells_of(environment)), tmp_path / "pack", home)
    with (tmp_path / "pack" / "assay_probe" / "gate.py").open("a") as file:
        file.write("\n")
    done = subprocess.run(
        [sys.executable, "-P", "run.py", "--cpu"],
        cwd=tmp_path / "pack",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("gate.py is not what the plan was made for")
