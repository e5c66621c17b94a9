"""What the machine has: the driver's tool is stood in for by a small program with the same answers."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest

from memory.home import Home
from memory.vocabulary import Effect
from tools.environment.marks import marks
from tools.environment.model import Environment
from tools.hardware.doctor import Check, checks
from tools.hardware.gpu import gpu_status, read_gpus
from tools.hardware.settings import gpu_settings

TWO_GPUS = """#!/bin/sh
case "$1" in
--query-gpu=*) cat <<'END'
0, GPU-aaaa, NVIDIA RTX PRO 6000 Blackwell Workstation Edition, 12.0, 97887, 1024, 580.95.05
1, GPU-bbbb, "NVIDIA, odd name", [N/A], [N/A], 0, 580.95.05
END
;;
--query-compute-apps=*) cat <<'END'
GPU-aaaa, 4242, /usr/bin/python3, 1000
GPU-aaaa, 4243, [Not Found], [N/A]
END
;;
esac
"""


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH with nothing on it but what a test puts there, and a shell."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("sh", "cat", "sleep"):
        (folder / name).symlink_to(str(shutil.which(name)))
    monkeypatch.setenv("PATH", str(folder))
    return folder


def program(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(text)
    (folder / name).chmod(0o755)


def by_name(found: list[Check]) -> dict[str, Check]:
    return {check.name: check for check in found}


def test_gpus_are_read_with_their_processes(path: Path) -> None:
    program(path, "nvidia-smi", TWO_GPUS)
    status = read_gpus(seconds=60)
    assert status.missing is None
    first, second = status.gpus
    assert (first.index, first.uuid, first.compute_capability) == (0, "GPU-aaaa", "12.0")
    assert (first.memory_total_mib, first.memory_used_mib, first.driver) == (97887, 1024, "580.95.05")
    assert [(each.pid, each.memory_mib) for each in first.processes] == [(4242, 1000), (4243, None)]
    assert second.name == "NVIDIA, odd name"
    assert second.compute_capability is None
    assert second.memory_total_mib is None
    assert second.processes == ()


def test_a_machine_without_a_driver_is_an_answer(path: Path) -> None:
    status = read_gpus(seconds=60)
    assert status.gpus == ()
    assert status.missing is not None
    assert "no nvidia-smi" in status.missing


def test_a_failing_driver_gives_its_first_words(path: Path) -> None:
    program(path, "nvidia-smi", "#!/bin/sh\necho 'Failed to initialize NVML: Driver mismatch'\nexit 9\n")
    status = read_gpus(seconds=60)
    assert status.gpus == ()
    assert status.missing is not None
    assert "Driver mismatch" in status.missing


def test_a_hanging_driver_is_not_waited_for(path: Path) -> None:
    program(path, "nvidia-smi", "#!/bin/sh\ntrap '' TERM\nsleep 300\n")
    started = time.monotonic()
    status = read_gpus(seconds=0.5)
    assert time.monotonic() - started < 200
    assert status.missing is not None
    assert "no answer" in status.missing


def test_gpu_status_is_a_reading_tool(path: Path) -> None:
    program(path, "nvidia-smi", TWO_GPUS)
    assert gpu_status.effect is Effect.READS
    assert len(gpu_status.run(gpu_status.input(), None).gpus) == 2


def test_the_doctor_tells_what_is_optional_and_what_is_needed(
    path: Path, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UV_OFFLINE", "1")
    program(path, "nvcc", "#!/bin/sh\necho 'Cuda compilation tools, release 12.9, V12.9.86'\n")
    program(path, "nvidia-smi", TWO_GPUS)
    found = by_name(checks(home, {}, seconds=60))
    assert list(found) == ["python", "uv", "network", "home", "disk", "rg", "nvcc", "gpu", "model"]
    assert found["python"].ok is True
    assert found["uv"].ok is True
    assert found["network"].ok is False
    assert found["rg"].ok is None
    assert "optional" in found["rg"].found
    assert found["nvcc"].found.startswith("12.9 ")
    assert found["gpu"].ok is True
    assert "RTX PRO 6000" in found["gpu"].found
    assert found["model"].ok is None
    for check in found.values():
        assert (check.fix is None) == (check.ok is True), check


def test_a_key_is_never_shown(home: Home, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UV_OFFLINE", "1")
    found = checks(home, {"OPENAI_API_KEY": "sk-secret", "OPENAI_BASE_URL": "http://user:pw@127.0.0.1/v1"})
    assert by_name(found)["model"].ok is True
    assert "secret" not in str(found)
    assert "user:pw" not in str(found)


def test_a_home_that_cannot_be_written_is_told(
    tmp_path: Path, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UV_OFFLINE", "1")
    (tmp_path / "file").touch()
    found = by_name(checks(Home(tmp_path / "file" / "home"), {}))
    assert found["home"].ok is False
    assert "ASSAY_HOME" in (found["home"].fix or "")


def test_programs_that_hang_do_not_keep_the_doctor(
    path: Path, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UV_OFFLINE", "1")
    for name in ("nvidia-smi", "rg", "nvcc"):
        program(path, name, "#!/bin/sh\ntrap '' TERM\nsleep 300\n")
    started = time.monotonic()
    found = by_name(checks(home, {}, seconds=1.0))
    assert time.monotonic() - started < 200
    assert found["rg"].ok is None
    assert found["gpu"].ok is None


@pytest.mark.network
def test_the_doctor_asks_the_index_that_uv_is_set_up_for(
    home: Home, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert by_name(checks(home, seconds=60))["network"].ok is True
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "")
    monkeypatch.setenv("no_proxy", "")
    # What uv has in its cache does not count as an answer.
    assert by_name(checks(home, seconds=60))["network"].ok is False


@pytest.mark.parametrize(
    ("says", "gpus"),
    [
        ("0, GPU-a, X, 9.0, inf, 1e400, 1", 1),
        ("one, two", 0),
        ("", 0),
        ("0, GPU-a, " + "x" * 200_000 + ", 9.0, 1, 1, 1", None),
    ],
)
def test_an_answer_that_is_none_is_no_crash(path: Path, says: str, gpus: int | None) -> None:
    program(path, "nvidia-smi", f"#!/bin/sh\necho '{says}'\n")
    status = read_gpus(seconds=60)
    if gpus is None:
        assert "no table" in str(status.missing)
    else:
        assert (len(status.gpus), status.missing) == (gpus, None)


SET_UP = r"""#!/bin/sh
case "$*" in
*mig.mode.current*) echo 'Field "mig.mode.current" is not a valid field to query.'; exit 2 ;;
--query-gpu=uuid,*) cat <<'END'
GPU-aaaa, 450.00, 600.00, 3090, 14001, [N/A], [Not Supported], Enabled, Disabled, 5, 16
GPU-bbbb, 600.00, 600.00, 3090, 14001, [N/A], [Not Supported], Enabled, Disabled, 5, 16
END
;;
'topo -m') printf '\t\033[4mGPU0\tGPU1\033[0m\nGPU0\t X \tSYS\t\nGPU1\tSYS\t X \t\n\nLegend:\n  X = Self\n' ;;
--version) printf 'NVIDIA-SMI version  : 580.95.05\nCUDA Version        : 13.0\n' ;;
esac
"""


def test_how_gpus_are_set_up_is_read_without_what_this_driver_does_not_know(path: Path) -> None:
    program(path, "nvidia-smi", SET_UP)
    told = gpu_settings(seconds=60)
    assert told.gpus["GPU-aaaa"] == {
        "power_limit_w": "450.00",
        "power_default_w": "600.00",
        "max_sm_mhz": "3090",
        "max_memory_mhz": "14001",
        "persistence": "Enabled",
        "ecc": "Disabled",
        "pcie_generation": "5",
        "pcie_width": "16",
    }
    assert told.gpus["GPU-bbbb"]["power_limit_w"] == "600.00"
    assert told.topology == ("GPU0 GPU1", "GPU0 X SYS", "GPU1 SYS X")
    assert told.cuda == "13.0"


@pytest.mark.parametrize(
    "text", ["#!/bin/sh\nexit 9\n", "#!/bin/sh\necho '\"uuid\" is not a valid field'; exit 2\n"]
)
def test_a_driver_that_tells_nothing_of_its_settings_is_an_answer(path: Path, text: str) -> None:
    assert gpu_settings().gpus == {}
    program(path, "nvidia-smi", text)
    assert gpu_settings(seconds=60).model_dump() == {"gpus": {}, "topology": (), "cuda": None}


def test_another_power_limit_is_another_machine(path: Path, home: Home) -> None:
    both = TWO_GPUS.replace("--query-gpu=*)", "--query-gpu=index*)")
    program(path, "nvidia-smi", both.replace("esac", SET_UP.partition("in\n")[2]))
    here = Environment("e", "source", "/nowhere", "linux", "3.12", {}, "0" * 64)
    first = marks(here, {}, None)
    assert first["gpus"][0]["settings"]["power_limit_w"] == "450.00"
    assert first["cuda"] == {"driver": "13.0", "compiler": None}
    assert marks(here, {}, None)["machine"] == first["machine"]
    (path / "nvidia-smi").write_text((path / "nvidia-smi").read_text().replace("450.00", "300.00"))
    assert marks(here, {}, None)["machine"] != first["machine"]
    program(path, "nvcc", "#!/bin/sh\necho 'Cuda compilation tools, release 12.9, V12.9.86'\n")
    assert marks(here, {}, None)["cuda"]["compiler"] == "12.9"
