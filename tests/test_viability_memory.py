"""Shared memory that a kernel needs, worked out from what stands in the source, against what a device has."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_viability_hostcode import refuses
from viability_fixtures.support import Engine, before_elm, same_lines

from memory.architecture import Architecture, known_architectures
from memory.vocabulary import Because, Verdict

STAGED = """\
constexpr int kStages = 4;
constexpr int kTileBytes = 128 * 128 * 2;
int needed() { return kStages * kTileBytes; }
void entry(Tensor x) {
  int limit = 0;
  cudaDeviceGetAttribute(&limit, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0);
  LIB_CHECK(needed() <= limit) << "not enough shared memory";
  kernel<<<1, 32, needed()>>>(x);
}
"""
BY_PROPERTIES = """\
void entry(Tensor x) {
  cudaDeviceProp props;
  cudaGetDeviceProperties(&props, 0);
  if (props.sharedMemPerBlockOptin < 4 * 32768) { LIB_THROW("not enough shared memory"); }
  kernel<<<1, 32>>>(x);
}
"""
NEED = """\
def needed(stages, tile=(128, 128), bytes_each=2):
    return stages * tile[0] * tile[1] * bytes_each


props = torch.cuda.get_device_properties(0)
if needed(STAGES) > props.shared_memory_per_block_optin:
    raise ValueError("not enough shared memory")"""


def test_what_a_block_may_have_is_known_of_every_recent_architecture() -> None:
    known = {one.name: one.shared_memory for one in known_architectures()}
    assert known["sm120"] == known["sm89"] == (101376, 102400)
    assert known["sm90"] == known["sm100"] == (232448, 233472)
    assert Architecture(99, 0).shared_memory is None
    assert all(limits is None or limits[0] <= limits[1] for limits in known.values())


@pytest.mark.parametrize("body", [STAGED, BY_PROPERTIES])
def test_the_host_refuses_what_does_not_fit(tmp_path: Path, body: str) -> None:
    assert refuses(tmp_path, body) == {"sm90": False, "sm100": False, "sm120": True}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("kStages = 4", "kStages = 3"),
        ("kStages = 4", "kStages = stages_of(x)"),
        ("* 128 * 2", "* 128 * sizeof(T)"),
        ("cudaDevAttrMaxSharedMemoryPerBlockOptin", "cudaDevAttrClockRate"),
    ],
)
def test_what_fits_or_is_not_known_refuses_nobody(tmp_path: Path, old: str, new: str) -> None:
    assert not any(refuses(tmp_path, STAGED.replace(old, new)).values())


def test_a_check_in_python_blocks_where_tiles_are_literal(tmp_path: Path) -> None:
    engine = Engine.copy(tmp_path)
    before_elm(engine, NEED.replace("STAGES", "4"))
    assert engine.verdicts("elm", "sm89", "sm90", "sm100", "sm120", "sm121") == {
        "sm89": "blocked",
        "sm90": "no_static_obstacle",
        "sm100": "no_static_obstacle",
        "sm120": "blocked",
        "sm121": "blocked",
    }
    row = engine.trace("elm", "sm120").row
    assert row.because is Because.ARCHITECTURE
    same_lines(row, engine.root)
    assert engine.trace("amber", "sm120").row.verdict is Verdict.NO_STATIC_OBSTACLE


@pytest.mark.parametrize("stages", ["3", "x.shape[0]", "otherlib.stages()"])
def test_what_fits_in_python_or_hangs_on_data_blocks_nobody(tmp_path: Path, stages: str) -> None:
    engine = Engine.copy(tmp_path)
    before_elm(engine, NEED.replace("STAGES", stages))
    assert "blocked" not in engine.verdicts("elm", "sm100", "sm120").values()
