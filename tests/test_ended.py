"""How a process ended, where it does not say why: told, never for certain; and what it went on from."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import pytest
from program import agent

from tools.diagnosis.diagnose import Diagnosis, diagnose

LINES = """\
memory likely|Killed
memory likely|./run.sh: line 12:  4242 Killed                  python -m sglang.launch_server --model m
memory likely|[1]+  Killed                  vllm serve m
memory likely|[1]  + 4242 killed     vllm serve m
memory likely|zsh: killed     python -m sglang.launch_server
memory likely|vllm-1 exited with code 137
memory likely|    Exit Code:    137
memory likely|Process finished with exit code 137 (interrupted by signal 9: SIGKILL)
memory likely|srun: error: node01: task 0: Killed
memory likely|    exitcode  : -9 (pid: 3)
memory likely|Main process exited, code=killed, status=9/KILL
memory likely|Scheduler or DataParallelController 1234 terminated with -9
memory likely|mpirun noticed that process rank 0 with PID 0 on node x exited on signal 9 (Killed).
memory certain|slurmstepd: error: Detected 1 oom_kill event in StepId=1.0. Some of the tasks have been Killed.
memory certain|vllm-0   0/1     OOMKilled   3 (20s ago)   5m
memory certain|vllm.service: Failed with result 'oom-kill'.
memory certain|(raylet) 1 Workers (tasks / actors) killed due to memory pressure (OOM), 0 Workers crashed
fault likely|./run.sh: line 2: 99 Aborted                 (core dumped) vllm serve m
fault likely|[2]-  Aborted                 (core dumped) vllm serve m
fault likely|exited with code 134
fault likely|[12345.678] python[4242]: segfault at 0 ip 00007f sp 00007f error 4 in libx.so.1[7f]
fault likely|Segmentation fault (core dumped)
fault likely|Main process exited, code=dumped, status=11/SEGV
machine likely|Bus error (core dumped)
machine likely|Illegal instruction (core dumped)
machine certain|docker: Error response from daemon: could not select device driver "" with capabilities
machine likely|Error response from daemon: pull access denied for larch
machine certain|slurmstepd: error: *** JOB 123 ON n1 CANCELLED AT 2026-01-01T10:00:00 DUE TO TIME LIMIT ***
machine certain|exec /usr/local/bin/vllm: exec format error
machine likely|-bash: ./run.sh: Permission denied
dependency likely|/bin/bash: line 1: vllm: command not found
dependency likely|zsh: command not found: sglang
dependency likely|sh: 1: vllm: not found
dependency certain|/usr/bin/python3: No module named sglang.launch_server
files certain|python: can't open file '/x/launch.py': [Errno 2] No such file or directory
hang likely|vllm.service: Failed with result 'timeout'.
hang likely|Liveness probe failed: Get "http://1.1.1.1:8000/health": context deadline exceeded
hang likely|[rank1]:[E101 a.cpp:632] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=5)
follows|vllm-0   0/1     CrashLoopBackOff   3 (20s ago)   5m
follows|Main process exited, code=exited, status=1/FAILURE
follows|vllm-1 exited with code 1
ended|exited with code 143
ended|slurmstepd: error: *** STEP 1.0 ON n CANCELLED AT 2026-01-01T10:00:00 ***
memory likely|<SpawnProcess name='larch' exitcode=-SIGKILL>
nothing|+ trap 'kill -SIGKILL $PID' EXIT
nothing|exited with code 0
nothing|"OOMKilled": false,
nothing|step 9, status 9 of 10, 137 tokens
nothing|INFO: 127.0.0.1:137 - "POST /v1/completions HTTP/1.1" 200 OK"""
WELL = "INFO 11-02 10:00:00 [a.py:1] vLLM API server version 0.11.0\n"


def diagnosed(log: str) -> Diagnosis:
    return diagnose(BytesIO(log.encode()))


def told(found: Diagnosis) -> str:
    if found.cause is not None:
        return f"{found.cause.kind} {'certain' if found.cause.certain else 'likely'}"
    return "follows" if found.follows else "ended" if found.stopped else "nothing"


@pytest.mark.parametrize("row", LINES.splitlines())
def test_the_end_of_a_process_is_told_for_what_it_is(row: str) -> None:
    wanted, _, line = row.partition("|")
    for before in (WELL, "maple-1  | ", "2026-09-22T06:50:05.1Z "):
        assert told(diagnosed(f"{before}{line}\n")) == wanted, before


def test_what_says_why_counts_before_the_end_of_a_process() -> None:
    for end in ("Killed\n", "vllm-1 exited with code 139\n", "bash: larch: command not found\n"):
        for log in (f"{end}cudaErrorLaunchFailure\n", f"cudaErrorLaunchFailure\n{end}"):
            assert told(diagnosed(log)) == "fault certain"
    failed = 'Traceback (most recent call last):\n  File "/v/vllm/a.py", line 1, in f\nMemoryError\n'
    found = diagnosed(f"{failed}Aborted (core dumped)\n")
    assert (told(found), found.first and found.first.line) == ("memory likely", 1)


def test_a_server_that_was_asked_to_end_is_killed_in_the_end() -> None:
    assert (
        told(diagnosed(f"{WELL}SIGTERM received. signum=None\ncommand terminated with exit code 137\n"))
        == "ended"
    )
    assert told(diagnosed(f"{WELL}Killed\nSIGTERM received. signum=None\n")) == "memory likely"


READY = "INFO:     Application startup complete.\n"


@pytest.mark.parametrize("ready", [READY, 'INFO: 10.0.0.1:5 - "GET /v1/models HTTP/1.1" 200 OK\n'])
def test_what_ended_before_a_server_was_ready_is_not_that_server(ready: str) -> None:
    for other in ("bash: larch: command not found", "Killed", "Error response from daemon: larch"):
        assert told(diagnosed(f"{other}\n{WELL}{ready}")) == "nothing"
        assert told(diagnosed(f"{other}\n{WELL}")) != "nothing"
    assert told(diagnosed(f"{WELL}{ready}bash: larch: command not found\n")) == "nothing"
    assert told(diagnosed(f"{WELL}{ready}Killed\n{WELL}{ready}")) == "memory likely"


def test_what_a_server_says_of_an_end_as_of_no_failure_is_none() -> None:
    said = "[a.py:1] Sending SIGKILL to what has not stopped within 5 s\n"
    assert told(diagnosed(f"WARNING 11-02 10:00:00 {said}")) == "nothing"
    assert told(diagnosed(f"ERROR 11-02 10:00:00 {said}")) == "memory likely"


ANNOUNCED = "Exception ignored in: <function Larch.__del__ at 0x7f>"
IGNORED = f"""\
{ANNOUNCED}
Traceback (most recent call last):
  File "/v/site-packages/sglang/a.py", line 3, in __del__
    self.a.close()
torch.AcceleratorError: CUDA error: an illegal memory access was encountered
"""


def test_what_a_program_went_on_from_is_noise() -> None:
    for log in (
        f"{WELL}{IGNORED}{WELL}",
        f"{WELL}{IGNORED}".replace("\n", "\n(Worker pid=7) "),
    ):
        found = diagnosed(log)
        assert (found.first, found.cause, found.follows) == (None, None, False)
    found = diagnosed(f"{IGNORED}CUDA out of memory\n")
    assert (found.first, told(found)) == (None, "memory certain")
    alone = diagnosed(IGNORED)
    assert alone.first is not None
    assert (alone.first.line, told(alone)) == (2, "fault certain")


def test_a_script_that_breaks_is_no_engine_that_breaks(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text(
        'Traceback (most recent call last):\n  File "/home/run.py", line 3, in <module>\n    d\nKeyError: 1\n'
    )
    finished = agent("diagnose", str(path))
    assert finished.returncode == 4
    assert "A script of one's own raised it" in finished.stdout
    assert "upstream" not in finished.stdout
    path.write_text(path.read_text().replace("/home/run.py", "/v/site-packages/sglang/run.py"))
    assert agent("diagnose", str(path)).returncode == 0
