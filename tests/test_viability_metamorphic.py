"""Nothing about a backend is known beforehand: under other names the sources say the same.

The words are renamed through copies of both packages (see ``metamorphic``), so that the code means what it
meant: the engine's values, the library's names that it makes of them by cutting off a prefix, enum members,
predicates, modules and files. What may differ in the answer is the name, nothing else.
"""

from __future__ import annotations

import builtins
import keyword
import os
import random
import re
import string
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from conftest import Wheels
from metamorphic import rename, renamed
from program import ROOT
from viability_fixtures.support import BACKENDS, Context, Engine, run_context, traced

from memory.home import Home
from tools.engines.options import backend_options, discover_options
from tools.source.tree import SourceTree, decode
from tools.viability.cell import AUTOMATIC
from tools.viability.trace import Trace, TraceInput

PAIR = ("sglang==0.5.9", "flashinfer-python==0.6.5")
RENAMINGS = {
    "a backend": {"trtllm": "quuxes"},
    # Also the name of a package outside, which keeps its name: `import cutlass as zebrano`.
    "a backend named like a package": {"cutlass": "zebrano"},
    # The prefix of the engine's values, which is the library's own name: package, distribution and all.
    "the library and a backend": {"flashinfer": "quicksteps", "trtllm": "quuxes"},
}
COMPONENTS = ("fp4_gemm", "moe_runner")
ARCHS = ("sm120", "sm100")
STRESS = int(os.environ.get("ASSAY_STRESS", "1"))
WORD = re.compile(r"[A-Za-z]+")
TORCH = re.compile(r"\btorch\.[\w.]+")


def asking(root: str) -> list[TraceInput]:
    return [
        TraceInput(
            environment=root,
            component=option.component,
            backend=value.value,
            arch=arch,
            quantisation="nvfp4",
        )
        for option in discover_options(SourceTree(Path(root)), "sglang")
        if option.component in COMPONENTS
        for value in option.values
        for arch in ARCHS
    ]


def told(trace: Trace, mapping: Mapping[str, str]) -> dict[str, Any]:
    """What a trace says, its names renamed; hashes and texts of lines are the file's own."""

    def name(text: str | None) -> str | None:
        return None if text is None else renamed(text, mapping)

    row = trace.row
    return {
        "cell": (row.component, name(row.backend), row.arch),
        "verdict": row.verdict,
        "because": row.because,
        "runs_instead": name(row.runs_instead),
        "first_gate": row.first_gate
        and (row.first_gate.verdict, name(row.first_gate.file), row.first_gate.line),
        "conditions": [(name(one.fact), one.op, one.value) for one in row.conditions],
        "evidence": [
            (name(item.package), item.version, name(item.file), item.line, item.end_line, item.idiom)
            for item in row.evidence
        ],
        "hops": [(name(hop.file), hop.line) for hop in trace.hops],
        "notes": len(trace.notes),
    }


def assert_same(original: list[Trace], copies: list[Trace], mapping: Mapping[str, str]) -> None:
    assert len(original) == len(copies)
    for one, other in zip(original, copies, strict=True):
        assert told(other, {"\0": "\0"}) == told(one, mapping)


@pytest.mark.network
@pytest.mark.parametrize("which", RENAMINGS)
def test_real_backends_under_other_names(
    wheels: Wheels, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, which: str
) -> None:
    mapping = RENAMINGS[which]
    context = run_context(tmp_path_factory.getbasetemp())
    pair = wheels(*PAIR)
    original = traced(context, asking(pair.path))
    assert {"blocked", "no_static_obstacle"} <= {trace.row.verdict.value for trace in original}
    rename(Path(pair.path), tmp_path / "copy", mapping)
    copies = traced(context, asking(str(tmp_path / "copy")))
    backends = {trace.row.backend for trace in copies}
    for old, new in mapping.items():
        assert any(new in backend for backend in backends)
        assert not any(old in backend for backend in backends)
    assert_same(original, copies, mapping)


@pytest.mark.network
@pytest.mark.skipif(STRESS == 1, reason="takes minutes: ASSAY_STRESS=2 renames every backend at once")
@pytest.mark.parametrize("pair", [PAIR, ("sglang==0.5.10", "flashinfer-python==0.6.7.post2")])
def test_every_real_backend_under_another_name(
    wheels: Wheels, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, pair: tuple[str, str]
) -> None:
    root = Path(wheels(*pair).path)
    mapping = every_backend(root, random.Random(0))
    context = run_context(tmp_path_factory.getbasetemp())
    original = traced(context, asking(str(root)))
    rename(root, tmp_path / "copy", mapping)
    assert_same(original, traced(context, asking(str(tmp_path / "copy"))), mapping)


def every_backend(root: Path, rng: random.Random) -> dict[str, str]:
    """A word of random letters for each word of the values of backend options.

    Left alone are words that also name what is outside the copy: of Python and its library, of torch, and of
    what the program itself looks for.
    """
    options = backend_options(discover_options(SourceTree(root), "sglang"))
    values = " ".join(value.value for option in options for value in option.values)
    used = " ".join(part for path in root.rglob("*.py") for part in TORCH.findall(decode(path.read_bytes())))
    ours = " ".join(path.read_text() for path in (ROOT / "tools/viability/profiles").glob("*.toml"))
    names = " ".join([*dir(builtins), *keyword.kwlist, *sys.stdlib_module_names, *AUTOMATIC])
    outside = {word.lower() for word in WORD.findall(f"{used} {ours} {names}")}
    words = sorted({word.lower() for word in WORD.findall(values) if len(word) > 3} - outside)
    return {word: "".join(rng.choices(string.ascii_lowercase, k=len(word))) for word in words}


def test_the_small_engine_under_other_names(tmp_path: Path) -> None:
    """The same without a network, with every word of the small engine's backends renamed at once."""
    mapping = {"birch": "zelko", "cedar": "yprex", "minilib": "quarnex", "fern": "vust"}
    engine = Engine.copy(tmp_path)
    rename(engine.root, tmp_path / "copy", mapping)
    context = Context(Home(tmp_path / "home").prepare())
    cells = [engine.asking(backend, arch) for backend in BACKENDS for arch in ("sm90", "sm100", "sm120")]
    copied = [
        cell.model_copy(
            update={"environment": str(tmp_path / "copy"), "backend": renamed(cell.backend, mapping)}
        )
        for cell in cells
    ]
    original = traced(context, cells)
    assert {"blocked", "rerouted", "no_static_obstacle"} <= {trace.row.verdict.value for trace in original}
    assert_same(original, traced(context, copied), mapping)


def test_renaming_means_the_same_code(tmp_path: Path) -> None:
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "worm_kernel.py").write_text(
        "import worm\nimport worm.deep\nimport worm.deep as deep\n"
        "from worm.deep import worm_thing\n"
        "from pkg.worm_other import WormKind\nimport pkg.worm_other, os\n"
        'A = WormKind.WORM.value.removeprefix("pre_") == "worm"\nB = find_spec("worm")\n'
        'C = version("worm-pkg") or version("pkg")  # Worm\n',
        encoding="utf-8",
    )
    (tmp_path / "pkg" / "worm.bin").write_bytes(b"worm")
    rename(tmp_path, tmp_path.parent / f"{tmp_path.name}-copy", {"worm": "zorb"})
    copy = tmp_path.parent / f"{tmp_path.name}-copy" / "pkg"
    assert [path.name for path in copy.iterdir()] == ["zorb_kernel.py"]
    assert (copy / "zorb_kernel.py").read_text(encoding="utf-8") == (
        "import worm as zorb\nimport worm as zorb\nimport worm.deep as deep\n"
        "from worm.deep import zorb_thing\n"
        "from pkg.zorb_other import ZorbKind\nimport pkg.zorb_other, os\n"
        'A = ZorbKind.ZORB.value.removeprefix("pre_") == "zorb"\nB = find_spec("worm")\n'
        'C = version("worm-pkg") or version("pkg")  # Zorb\n'
    )


@pytest.mark.parametrize("mapping", [{"worm": "worms"}, {"worm": "Zorb"}, {"worm": "wo-m"}, {"worm": "seen"}])
def test_a_renaming_that_is_not_one_to_one_is_refused(tmp_path: Path, mapping: dict[str, str]) -> None:
    (tmp_path / "one.py").write_text("worm = seen\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"must be|already"):
        rename(tmp_path, tmp_path / "copy", mapping)
