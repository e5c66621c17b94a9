"""Which kernels are tried: backends and their names are those of the installed version."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from memory.architecture import parse_architecture
from memory.home import Home
from tools.environment.adopt import adopt
from tools.environment.model import Environment
from tools.errors import ToolError
from tools.probe.foreign.case import bound
from tools.probe.pack import make_plan, pack
from tools.probe.plan import backends_of, cells_of, modules_of
from tools.probe.reaching import modules_reached
from tools.probe.results import plan_of
from tools.probe.sizing import shapes_of

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


CONFIG = {
    "hidden_size": 4096,
    "intermediate_size": 1024,
    "num_attention_heads": 32,
    "num_key_value_heads": 2,
    "head_dim": 128,
    "num_experts": 64,
    "num_experts_per_tok": 8,
    "moe_intermediate_size": 512,
}
DEFAULT: dict[str, dict[str, int]] = {"attention": {"page": 16, "heads": 1}, "decode": {"page": 16}}


def test_sizes_are_those_of_the_model_as_a_rank_holds_them(tmp_path: Path) -> None:
    found = shapes_of(json.dumps(CONFIG), 4, DEFAULT)
    assert found["gemm"] == [
        {"n": (8 + 2) * 128, "k": 4096},
        {"n": 4096, "k": 1024},
        {"n": 512, "k": 4096},
        {"n": 4096, "k": 256},
    ]
    assert found["moe"] == [{"experts": 64, "top_k": 8, "hidden": 4096, "inter": 128}]
    assert found["attention"] == [{"page": 16, "heads": 8, "kv_heads": 1, "head_dim": 128}]
    assert shapes_of(json.dumps({"text_config": CONFIG}), 4, DEFAULT) == found
    cells = cells_of(library(tmp_path / "site"), ["fp4_gemm"], ["elm"], config=json.dumps(CONFIG), tp=4)
    assert [cell.size for cell in cells] == found["gemm"]
    assert [cell.id for cell in cells] == ["mm_fp4:elm", "mm_fp4:elm@1", "mm_fp4:elm@2", "mm_fp4:elm@3"]


@pytest.mark.parametrize(
    ("config", "tp", "says"),
    [
        ("{", 1, "is no JSON"),
        ("[]", 1, "is no JSON object"),
        ("{}", 1, "says no hidden size"),
        (json.dumps({"hidden_size": True}), 1, "says no hidden size"),
        (json.dumps(CONFIG), 5, "cannot be divided over 5 ranks"),
    ],
)
def test_a_config_that_says_no_sizes_is_refused(config: str, tp: int, says: str) -> None:
    with pytest.raises(ToolError, match=says):
        shapes_of(config, tp, DEFAULT)


def test_what_a_function_hands_on_is_what_it_documents() -> None:
    def plan(indptr: int, **kwargs: int) -> None:
        """Plan.

        Parameters
        ----------
        indptr : int
            Where it begins.
        sm_scale : float
            What it is multiplied with.
        """

    def silent(indptr: int, **kwargs: int) -> None:
        """Says nothing of names."""

    def plain(indptr: int, sm_scale: float = 1.0) -> None:
        """Takes what it names."""

    given = {"indptr": 1, "sm_scale": 2, "qo_indptr": 3}
    assert bound(plan, given) == {"indptr": 1, "sm_scale": 2}
    assert bound(silent, given) == given
    assert bound(plain, given) == {"indptr": 1, "sm_scale": 2}


def test_kernels_that_triton_compiles_are_found_where_the_installed_engine_has_them(tmp_path: Path) -> None:
    info = tmp_path / "sglang-9.9.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: sglang\nVersion: 9.9\n")
    (info / "RECORD").write_text("sglang/__init__.py,,\n")
    folder = tmp_path / "sglang" / "some" / "where"
    folder.mkdir(parents=True)
    (tmp_path / "sglang" / "__init__.py").write_text("")
    (folder / "fp8_kernel.py").write_text("def _w8a8_block_fp8_matmul(A, B):\n    pass\n")
    (folder / "other.py").write_text("def fused_moe_kernel(a):\n    pass\n")
    environment = adopt(tmp_path)
    (cell,) = modules_of(environment, parse_architecture("sm90"), (), (), 1)
    assert (cell.component, cell.function) == (
        "fp8_gemm",
        "sglang.some.where.fp8_kernel:_w8a8_block_fp8_matmul",
    )
    assert (cell.maker, cell.given["A"]) == ("triton", "*fp8e4nv")
    assert make_plan(environment, [cell]).libraries == {"sglang": "9.9"}
    names = ("_w8a8_block_fp8_matmul", "fp8_kernel")
    trace = {"row": {"runs_instead": None}, "hops": [{"says": f"calls {'.'.join(names)}", "text": ""}]}
    assert modules_reached([cell], "fp8_gemm", "triton", [trace], environment) == [cell]
    assert modules_reached([cell], "attention", "triton", [trace], environment) == []
    assert modules_reached([cell], "fp8_gemm", "loom", [trace], environment) == [], "it only falls back to it"
