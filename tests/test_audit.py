"""What of a machine holds a server back, by answers of the driver that are written here, and by files."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_hardware import by_name, path, program

from tools.hardware.audit import audit, cpu_quota, memory_limit, numa, peers, slowed

assert path  # a fixture

SMI = """#!/bin/sh
case "$1" in
--query-gpu=index,uuid*) cat <<'END'
0, GPU-aaaa, NVIDIA H200, 9.0, 143771, 1024, 550.54.15
1, GPU-bbbb, NVIDIA H200, 9.0, 143771, 0, 550.54.15
END
;;
--query-gpu=uuid*) cat <<'END'
GPU-aaaa, 500, 700, 1980, 3201, 1200, 3201, Enabled, Disabled, Enabled, 5, 16
GPU-bbbb, 700, 700, 1980, 3201, 1980, 3201, Enabled, Enabled, Enabled, 5, 16
END
;;
--query-gpu=index,clocks_event_reasons*) echo "1, Not Active, Active, Not Active, Active";;
--query-compute-apps=*) echo "GPU-aaaa, 4242, python3, 1000";;
--version) echo "CUDA Version        : 12.4";;
topo) case "$2" in
  -m) printf '\\tGPU0\\tGPU1\\tCPU Affinity\\tNUMA Affinity\\tGPU NUMA ID\\n'
      printf 'GPU0\\tX\\tSYS\\t0-47\\t0\\tN/A\\nGPU1\\tSYS\\tX\\t48-95\\t1\\tN/A\\n\\nLegend:\\n';;
  -p2p) printf ' GPU0 GPU1\\n GPU0 X CNS\\n GPU1 CNS X\\n';;
esac;;
esac
"""


def test_all_that_is_wrong_with_cards_is_named(path: Path) -> None:
    program(path, "nvidia-smi", SMI)
    found = [(one.name, one.ok, one.found) for one in audit(packages={"torch": "2.11.0+cu130"})]
    told = {(name, ok): words for name, ok, words in found}
    assert ("driver", False, "driver 550.54.15, up to CUDA 12.4; torch has 13.0") in found
    assert ("gpu 0", False, "used by 4242 (1000 MiB)") in found
    assert ("gpu 0", False, "held to 500 W of 700 W") in found
    assert ("gpu 0", None, "application clock 1200 of 1980 MHz") in found
    assert told["gpu 1", None].startswith("divided (MIG)")
    assert told["gpu 1", False] == "slowed down now: hw thermal slowdown, hw slowdown"
    assert told["p2p", False] == "1 pairs of GPUs do not reach each other"
    assert told["topology", None] == "joined by SYS"
    assert told["numa", None].endswith("node 0: gpu 0; node 1: gpu 1")


def test_only_the_cards_that_are_meant_are_looked_at(path: Path) -> None:
    program(path, "nvidia-smi", SMI)
    found = by_name(audit(["GPU-bbbb"], {"torch": "2.11.0+cu124"}))
    assert found["driver"].ok is True
    assert "gpu 0" not in found
    assert "p2p" not in found, "one card has nobody to reach"
    assert (found["numa"].found, found["numa"].fix) == (
        "all at node 1 of several", "numactl --cpunodebind=1 --membind=1",
    )  # fmt: skip


def test_a_machine_without_a_card_is_told_of_all_the_same(path: Path) -> None:
    found = by_name(audit())
    assert set(found) >= {"memory", "shm"}
    assert "driver" not in found


@pytest.mark.parametrize(
    ("text", "ok"),
    [
        ("", None),
        ("garbage \x1b[2J GPU", None),
        (" GPU0 GPU1\n GPU0 X OK\n GPU1 OK X\n", True),
        (" GPU0 GPU1\n GPU0 X NS\n GPU1 NS X\n", False),
    ],
)
def test_whether_cards_reach_each_other_is_only_said_where_it_is_told(text: str, ok: bool | None) -> None:
    assert peers(text).ok is ok


def test_what_is_not_active_slows_nothing() -> None:
    assert list(slowed([["0", "Not Active", "Not Active"]], ("a", "b"))) == []
    assert [one.found for one in slowed([["0", "Not Active", "Active"]], ("a_b", "c_d"))] == [
        "slowed down now: c d"
    ]


def test_a_table_of_one_node_or_none_says_nothing() -> None:
    assert list(numa((), [0])) == []
    assert list(numa(("GPU0 CPU Affinity NUMA Affinity", "GPU0 X 0-15 0"), [0])) == []
    assert list(numa(("GPU0 CPU Affinity NUMA Affinity", "GPU0", "x"), [0])) == []


def test_what_a_container_may_have_is_read_from_its_group(tmp_path: Path) -> None:
    assert memory_limit(tmp_path) is None
    assert cpu_quota(tmp_path) is None
    (tmp_path / "memory.max").write_text("34359738368\n")
    (tmp_path / "cpu.max").write_text("250000 100000\n")
    assert memory_limit(tmp_path) == 32 << 30
    assert cpu_quota(tmp_path) == 2.5
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "cpu.max").write_text("max 100000\n")
    assert memory_limit(tmp_path) is None
    assert cpu_quota(tmp_path) is None
    (tmp_path / "cpu.max").write_text("100000 0")
    assert cpu_quota(tmp_path) is None
