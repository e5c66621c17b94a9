"""Checks on the host, in sources that a library compiles when it runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from viability_fixtures.support import Engine, before_elm, forms, same_lines

from memory.vocabulary import Because, Verdict
from tools.source.tree import SourceTree
from tools.viability.hostcode.follow import HostCode
from tools.viability.hostcode.sources import Sources

REFUSED, UNSURE = forms("host_refused"), forms("host_unsure")
HELPERS = """\
#pragma once
constexpr int kNew = 100;
inline int deviceNumber() {
  int major = 0;
  int minor{0};
  CUDA_CHECK(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0));
  CUDA_CHECK(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, 0));
  return major * 10 + minor;
}
inline std::tuple<int, int> deviceParts() {
  cudaDeviceProp props;
  cudaGetDeviceProperties(&props, 0);
  return std::make_tuple(props.major, props.minor);
}
"""


def refuses(folder: Path, body: str) -> dict[str, bool]:
    """Which devices the exported function of ``body`` refuses."""
    (folder / "lib" / "include" / "lib").mkdir(parents=True)
    (folder / "lib" / "csrc").mkdir()
    (folder / "lib" / "include" / "lib" / "device.h").write_text(HELPERS, encoding="utf-8")
    text = f"#include <lib/device.h>\n{body}\nLIB_EXPORT_FUNC(go, entry);\n"
    (folder / "lib" / "csrc" / "go.cu").write_text(text, encoding="utf-8")
    code = HostCode(Sources(SourceTree(folder)))
    found = {}
    for arch in ((9, 0), (10, 0), (12, 0)):
        refusal, _ = code.refusal(("lib/csrc/go.cu",), "go", arch)
        found[f"sm{arch[0]}{arch[1]}"] = refusal is not None
    return found


@pytest.mark.parametrize("form", REFUSED)
def test_what_the_host_refuses_on_every_way_is_found(tmp_path: Path, form: str) -> None:
    assert refuses(tmp_path, REFUSED[form]) == {"sm90": True, "sm100": False, "sm120": True}


@pytest.mark.parametrize("form", UNSURE)
def test_what_some_ways_do_not_come_by_refuses_nobody(tmp_path: Path, form: str) -> None:
    assert not any(refuses(tmp_path, UNSURE[form]).values())


def test_files_that_cannot_be_read_refuse_nobody(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "a.cu").write_bytes(b"\xff\xfe void entry( { " + b"((" * 5000)
    code = HostCode(Sources(SourceTree(tmp_path)))
    assert code.refusal(("lib/a.cu", "lib/gone.cu"), "entry", (12, 0)) == (None, False)


# -- from Python to the source that it has compiled ------------------------------------------------

BUILDS = """\
from pathlib import Path

import tvm_ffi

from minilib.jit import env as jit_env


class Spec:
    def __init__(self, name, sources):
        self.name = name
        self.sources = [Path(one) for one in sources]
        self.library = jit_env.CACHE / f"{name}.so"

    def try_load(self):
        if self.library.exists():
            return self.load()
        return None

    def load(self):
        return tvm_ffi.load_module(str(self.library))

    def build_and_load(self):
        cached = self.try_load()
        if cached is not None:
            return cached
        return self.load()


def run(x):
    sources = [jit_env.SOURCES / "go.cu", *jit_env.CACHE.rglob("*.cu")]
    return Spec("go", sources).build_and_load().go(x)
"""
ENV = """\
import os
import pathlib

ROOT: pathlib.Path = pathlib.Path(__file__).resolve().parents[1]
SOURCES = ROOT / "data" / "csrc"
CACHE = pathlib.Path(os.getenv("MINI_CACHE", "~")) / "cache"
"""
HOST = """\
void entry(Tensor x) {
  int major = 0;
  cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0);
  LIB_ICHECK_EQ(major, 10) << "made for one generation";
  kernel<<<1, 32>>>(x);
}
LIB_EXPORT_FUNC(go, entry);
"""


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    """The small engine, whose library compiles sources of its own."""
    made = Engine.copy(tmp_path)
    jit = (made.root / "minilib" / "jit.py").read_text(encoding="utf-8")
    (made.root / "minilib" / "jit.py").unlink()
    made.add("minilib/jit/__init__.py", f"from . import env as env\n{jit}")
    made.add("minilib/jit/env.py", ENV)
    made.add("minilib/builds.py", BUILDS)
    made.add("minilib/data/csrc/go.cu", HOST)
    before_elm(made, "from minilib.builds import run\nreturn run(x)")
    return made


def test_a_check_in_what_is_compiled_blocks_with_its_line(engine: Engine) -> None:
    row = engine.trace("elm", "sm120").row
    assert (row.verdict, row.because) == (Verdict.BLOCKED, Because.ARCHITECTURE)
    file = "minilib/data/csrc/go.cu"
    assert (row.evidence[0].file, row.evidence[0].line) == (file, engine.line(file, "ICHECK_EQ"))
    same_lines(row, engine.root)
    assert engine.trace("elm", "sm100").row.verdict is Verdict.NO_STATIC_OBSTACLE
    assert engine.trace("amber", "sm120").row.verdict is Verdict.NO_STATIC_OBSTACLE


def test_a_check_in_another_function_of_what_is_compiled_blocks_nobody(engine: Engine) -> None:
    engine.edit("minilib/data/csrc/go.cu", "void entry(", "void other(")
    assert engine.trace("elm", "sm120").row.verdict is Verdict.NO_STATIC_OBSTACLE
