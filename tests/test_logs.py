"""Logs as they are kept: undressed, their tracebacks told apart, the first failure told from what follows."""

from __future__ import annotations

from io import BytesIO

import pytest

from tools.diagnosis.diagnose import diagnose
from tools.logs import in_order, read_log, tracebacks, undress

ERROR = "flashinfer.BackendSupportedError: mm_fp4 does not support backend 'trtllm' with capability 120"
BODY = f"""Traceback (most recent call last):
  File "/venv/sglang/srt/managers/scheduler.py", line 3173, in run_scheduler_process
    scheduler = Scheduler(
                ^^^^^^^^^^
  File "/venv/lib/python3.12/site-packages/flashinfer/utils.py", line 1176, in wrapper
    raise BackendSupportedError(
{ERROR}
"""
SGLANG = f"""[2026-03-07 19:20:01] server_args=ServerArgs(fp4_gemm_runner_backend='flashinfer_trtllm')
[2026-03-07 19:20:40 TP0] Load weight begin. avail mem=94.02 GB
[2026-03-07 19:22:11 TP3] Scheduler hit an exception: {BODY}
[2026-03-07 19:22:12] Received sigquit from a child process. It usually means the child failed.
[2026-03-07 19:22:13] Rank 0 scheduler is dead. Please check if there are relevant logs.
Traceback (most recent call last):
  File "/venv/sglang/srt/entrypoints/engine.py", line 895, in _wait_for_scheduler_ready
    data = scheduler_pipe_readers[i].recv()
EOFError
"""
VLLM_PREFIX = "(EngineCore_DP0 pid=311) ERROR 11-02 10:14:32 [core.py:900] "
VLLM = (
    "".join(f"{VLLM_PREFIX}{line}\n" for line in ["EngineCore failed to start.", *BODY.splitlines()])
    + """(APIServer pid=100) Traceback (most recent call last):
(APIServer pid=100)   File "/venv/vllm/v1/engine/utils.py", line 1473, in wait
(APIServer pid=100)     raise RuntimeError(
(APIServer pid=100) RuntimeError: Engine core initialization failed. See root cause above. Failed: {}
"""
)
DRESSED = {
    "bare": lambda line: line,
    "colours": lambda line: f"\x1b[1;36m{line[:9]}\x1b[0;0m{line[9:]}",
    "docker -t": lambda line: f"2026-03-07T19:22:11.123456789Z {line}",
    "compose": lambda line: f"sglang-1  | {line}",
    "kubernetes": lambda line: f"2026-03-07T19:22:11.123456789Z stderr F {line}",
    "journal": lambda line: f"Mar 07 19:22:11 node-3 sglang[41277]: {line}",
    "docker's desktop": lambda line: f"2025-05-30 18:28:27.890 | {line}",
    "loguru": lambda line: f"2025-07-02 16:41:32 | ERROR | stderr | {line}",
    "a pane": lambda line: f"│ {line}   ",
    "a build": lambda line: f"[2025-07-09T23:17:11Z] {line}",
    "colours whose escape is lost": lambda line: f"[36m{line}[0m",
    "ray": lambda line: f"{line} [repeated 3x across cluster]",
}


def dress(text: str, how: str) -> bytes:
    return "".join(f"{DRESSED[how](line)}\n" for line in text.splitlines()).encode()


@pytest.mark.parametrize("how", DRESSED)
@pytest.mark.parametrize("log", [SGLANG, VLLM], ids=["sglang", "vllm"])
def test_the_first_failure_is_told_from_what_follows_it(log: str, how: str) -> None:
    reading = read_log(BytesIO(dress(log, how)))
    assert reading.first is not None
    assert f"{reading.first.error}: {reading.first.message}" == ERROR
    assert [frame.line for frame in reading.first.frames] == [3173, 1176]
    assert reading.first.frames[0].text == "scheduler = Scheduler("
    assert reading.first.rank in {"TP3", "EngineCore_DP0 pid=311"}
    assert reading.cause is not None
    assert (reading.cause.signature.id, reading.cause.arch) == ("backend-capability", "sm120")
    assert len(reading.tracebacks) == 2
    assert not reading.follows


def test_dressings_are_taken_off_in_any_order() -> None:
    line = undress(
        "Mar 07 19:22:11 node vllm[7]: 2026-03-07T19:22:11Z \x1b[36m(Worker_TP1 pid=5)\x1b[0m "
        "ERROR 11-02 10:14:32 [core.py:9]   File"
    )
    assert (line.text, line.rank, line.level, line.logged) == ("  File", "Worker_TP1 pid=5", "ERROR", True)
    assert (
        undress('{"log":"\\u001b[31m[rank2]: boom\\u001b[0m\\n","stream":"stderr","time":"t"}\n').text
        == "boom"
    )
    assert undress("[rank2]:   File").rank == "rank2"
    for dressed, level in (
        ("#033[1;36m(Worker pid=5)#033[0;0m ERROR 11-02 10:14:32 [core.py:9] boom#015", "ERROR"),
        ("  Line 116: (Worker pid=5) ERROR 11-02 10:14:32 [core.py:9] boom", "ERROR"),
        ("116:ERROR 11-02 10:14:32 [core.py:9] boom", "ERROR"),
        ("[11/18/2026-09:33:30] [TRT-LLM] [RANK 0] [W] boom", "WARNING"),
        ("[TensorRT-LLM][ERROR] boom", "ERROR"),
        ("E0612 14:05:26.176716 1192408 tcp.cpp:136] boom", "ERROR"),
        ("[1,0]<stderr>:boom", None),
        ("[Worker_TP3 pid=540] ERROR 11-19 21:10:38 [v1/executor/a.py:671] boom", "ERROR"),
    ):
        line = undress(dressed)
        assert (line.text, line.level) == ("boom", level)
    assert undress("19:22:11 up").text == "19:22:11 up"
    assert undress("    a | b").text == "    a | b"
    assert undress('  File "x.py", line 3, in f').text == '  File "x.py", line 3, in f'


def test_tracebacks_of_processes_that_write_at_once_are_told_apart() -> None:
    one, two = (
        [
            f"[rank{rank}]: {line}"
            for line in BODY.replace("capability 120", f"capability 12{rank}").splitlines()
        ]
        for rank in (0, 1)
    )
    mixed = [line for pair in zip(one, two, strict=True) for line in pair]
    found = list(tracebacks(mixed))
    assert [(item.rank, item.line, item.end, len(item.frames)) for item in found] == [
        ("rank0", 1, 13, 2),
        ("rank1", 2, 14, 2),
    ]
    assert [item.message[-3:] for item in found] == ["120", "121"]


def test_a_chain_begins_with_its_cause() -> None:
    chain = f"""{BODY}
The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "a.py", line 1, in <module>
RuntimeError: Initialization failed
"""
    first, second = tracebacks(chain.splitlines())
    assert (first.chained, second.chained) == (False, True)
    assert read_log(BytesIO(chain.encode())).first == first


def test_a_warning_that_was_caught_is_not_the_failure() -> None:
    warned = BODY.replace(ERROR, "ImportError: cannot import name 'x' from 'y'")
    dressed = "".join(f"WARNING 11-02 10:00:00 [a.py:1] {line}\n" for line in warned.splitlines())
    reading = read_log(BytesIO(f"{dressed}{VLLM}".encode()))
    assert reading.first is not None
    assert reading.first.error == "flashinfer.BackendSupportedError"
    assert reading.cause is not None
    assert reading.cause.signature.id == "backend-capability"


def test_a_log_of_aftermath_alone_says_so() -> None:
    tail = SGLANG[SGLANG.index("[2026-03-07 19:22:12]") :]
    reading = read_log(BytesIO(tail.encode()))
    assert (reading.first, reading.cause, reading.follows) == (None, None, True)
    assert read_log(BytesIO(b"all is well\n")).follows is False


def test_what_goes_on_with_aftermath_is_aftermath() -> None:
    again = """(EngineCore pid=7) Traceback (most recent call last):
(EngineCore pid=7)   File "/usr/lib/python3.12/multiprocessing/process.py", line 314, in _bootstrap
(EngineCore pid=7)     self.run()
"""
    before = """(EngineCore pid=7) ERROR 06-03 12:30:47 [core.py:9]   File "/a/vllm/executor.py", line 7, in wait
(EngineCore pid=7) ERROR 06-03 12:30:47 [core.py:9]     raise e from None
(EngineCore pid=7) ERROR 06-03 12:30:47 [core.py:9] Exception: WorkerProc initialization failed due to an exception in a background process. See stack trace for root cause.
(EngineCore pid=7) Process EngineCore:
"""  # noqa: E501
    reading = read_log(BytesIO((before + again).encode()))
    assert reading.first is None
    assert reading.follows
    assert read_log(BytesIO(again.encode())).first is not None


def test_what_was_ignored_is_not_the_failure_of_a_log_that_ends_early() -> None:
    ignored = """Exception ignored in: <function Larch.__del__ at 0x7f4d8c3212d0>
Traceback (most recent call last):
  File "/a/larch.py", line 264, in __del__
    destroy(self.larch)
AttributeError: 'Larch' object has no attribute 'larch'
"""
    failed = """ERROR 04-17 09:00:33 ray_utils.py:44] Traceback (most recent call last):
ERROR 04-17 09:00:33 ray_utils.py:44]   File "/a/ray_utils.py", line 37, in execute_method
ERROR 04-17 09:00:33 ray_utils.py:44]     return executor(*args, **kwargs)
"""
    first = read_log(BytesIO((ignored + failed).encode())).first
    assert first is not None
    assert first.line == 6
    alone = read_log(BytesIO(ignored.encode())).first
    assert alone is not None
    assert alone.error == "AttributeError"


def test_a_failure_without_traceback_is_found() -> None:
    reading = read_log(BytesIO(b"ptxas fatal   : Value 'sm_121a' is not defined for option 'gpu-name'\n"))
    assert reading.first is None
    assert reading.cause is not None
    assert reading.cause.signature.outcome.value == "compile_failed"


def test_a_traceback_cut_off_is_kept_without_its_end() -> None:
    (lost,) = tracebacks(BODY.splitlines()[:4])
    assert (lost.error, lost.end, len(lost.frames)) == ("", 4, 1)


def test_what_a_shell_says_is_not_the_exception_of_a_traceback_cut_off() -> None:
    log = "\n".join(BODY.splitlines()[:5])
    for said in ("Killed", "Aborted"):
        assert [one.error for one in read_log(BytesIO(f"{log}\n{said}\n".encode())).tracebacks] == [""]


def test_a_traceback_whose_frames_are_left_out_has_its_exception() -> None:
    (found,) = tracebacks(
        ["Traceback (most recent call last):", "RuntimeError: must be a tensor", "on it goes"]
    )
    assert (found.error, found.message, found.end, found.frames) == (
        "RuntimeError",
        "must be a tensor",
        2,
        (),
    )
    (found,) = tracebacks(["Traceback (most recent call last):", "Loading: 3 of 4", "KeyError: 'x'"])
    assert found.error == ""


def test_only_where_tracebacks_begin_a_long_log_is_read_again() -> None:
    filler = b"[2026-03-07 19:20:40 TP0] Decode batch. #running-req: 64\n" * 60_000
    log = BytesIO(filler + SGLANG.encode() + filler + SGLANG.encode())
    reading = read_log(log)
    assert [one.line for one in reading.tracebacks] == [60_003, 60_013, 120_019, 120_029]
    assert reading.cause is not None
    assert reading.cause.line == 60_009


@pytest.mark.parametrize("before", ["[LOG 12] ", "    | ", "node7> ", "      ", "\t"])
def test_what_stands_before_each_line_is_taken_off_whatever_it_is(before: str) -> None:
    lines = [f"{before.replace('12', str(number))}{line}" for number, line in enumerate(BODY.splitlines())]
    (found,) = tracebacks(lines)
    assert f"{found.error}: {found.message}" == ERROR
    assert [frame.line for frame in found.frames] == [3173, 1176]


def test_a_log_that_begins_in_the_middle_of_a_traceback_has_its_end() -> None:
    tail = BODY.split("\n", 1)[1]
    reading = read_log(BytesIO(tail.encode()))
    assert reading.first is not None
    assert (reading.first.line, f"{reading.first.error}: {reading.first.message}") == (1, ERROR)
    # Only there: frames of a dump are none.
    assert read_log(BytesIO(tail.splitlines()[0].encode())).first is None
    assert read_log(BytesIO((BODY + tail).encode())).tracebacks == read_log(BytesIO(BODY.encode())).tracebacks


def test_the_message_of_an_exception_goes_on_where_it_is_set_in() -> None:
    body = BODY.replace(
        ERROR, "pydantic.ValidationError: 1 error for Config\n  Value error, no such model\nnext"
    )
    (found,) = tracebacks(body.splitlines())
    assert found.message == "1 error for Config\nValue error, no such model"
    (found,) = tracebacks(BODY.replace(ERROR, "ValueError:\nlong words\nnext").splitlines())
    assert found.message == "long words"


def test_a_traceback_that_lost_what_sets_its_lines_in_is_read() -> None:
    (found,) = tracebacks(line.strip() for line in BODY.splitlines())
    assert f"{found.error}: {found.message}" == ERROR
    assert [frame.text for frame in found.frames] == [
        "scheduler = Scheduler(",
        "raise BackendSupportedError(",
    ]


def test_a_frame_without_its_line_and_one_of_two_lines_are_read() -> None:
    torn = BODY.replace("/srt/managers/scheduler", "/srt/man\nagers/scheduler", 1)
    assert torn != BODY
    (found,) = tracebacks(torn.splitlines())
    assert (found.error, found.frames[0].line) == (ERROR.partition(":")[0], 3173)
    (found,) = tracebacks(BODY.replace(", line 3173", "").splitlines())
    assert (found.error, found.frames[0].line, found.frames[1].line) == (ERROR.partition(":")[0], 0, 1176)


def test_what_goes_on_with_a_record_may_name_only_who_passed_it_on() -> None:
    head, *rest = BODY.splitlines()
    lines = [f"(Larch pid=7) [2026-03-07 19:22:11 TP3] Scheduler hit an exception: {head}"]
    other = "(Larch pid=8) [2026-03-07 19:22:11 TP4] going on"
    lines += [line for one in rest for line in (f"(Larch pid=7) {one}", other)]
    (found,) = tracebacks(lines)
    assert (f"{found.error}: {found.message}", found.rank, len(found.frames)) == (ERROR, "TP3", 2)


def test_frames_of_an_error_without_beginning_and_end_are_one() -> None:
    frames = [line for line in BODY.splitlines()[1:] if line != ERROR]
    told = "\n".join(f"{VLLM_PREFIX}{line}" for line in frames)
    assert [len(one.frames) for one in read_log(BytesIO(told.encode())).tracebacks] == [2]
    dumped = "\n".join(frames).encode()
    assert not read_log(BytesIO(dumped)).tracebacks
    assert undress("[Router (Python)] 2025-01-09 00:28:10 - ERROR - larch").text == "larch"


def test_a_record_whose_time_was_left_out_and_one_set_in_are_read() -> None:
    for before in ("ERROR [multiproc_executor.py:912] ", "ERROR 2025-11-02 10:14:32.123 [core.py:9] "):
        assert undress(f"{before}{ERROR}").text == ERROR
        assert undress(f"    (Worker pid=7) {before}{ERROR}").rank == "Worker pid=7"
        assert undress(f"{before}{ERROR}").level == "ERROR"
    assert undress("  [2026-03-07 19:20:40 TP0] Load").text == "Load"
    assert undress("    return (self.pid)").text == "    return (self.pid)"


def test_a_scope_of_c_is_no_exception() -> None:
    (found,) = tracebacks([*BODY.splitlines()[:-1], "Session::writeBody failed"])
    assert found.error == ""


def test_of_a_group_of_exceptions_the_one_within_counts() -> None:
    inner = "\n".join(f"    | {line}" for line in BODY.splitlines())
    group = f"""  + Exception Group Traceback (most recent call last):
  |   File "/x/anyio.py", line 9, in __aexit__
  |     raise BaseExceptionGroup(
  | ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)
  +-+---------------- 1 ----------------
{inner}
    +------------------------------------
"""
    first = read_log(BytesIO(group.encode())).first
    assert first is not None
    assert f"{first.error}: {first.message}" == ERROR


def test_no_number_is_too_long() -> None:
    lines = ["Traceback (most recent call last):", f'  File "x.py", line {"9" * 5000}, in f', "ValueError: x"]
    (found,) = tracebacks(lines)
    assert found.frames == ()


def test_a_process_is_named_in_many_ways() -> None:
    for given, rank in (
        ("(VllmWorker rank=2 pid=808339) x", "VllmWorker rank=2 pid=808339"),
        ("(RayWorkerWrapper pid=2698, ip=10.1.1.7) x", "RayWorkerWrapper pid=2698"),
        ("(Worker pid=9) ERROR 07-11 06:04:42 workers.py:226] x", "Worker pid=9"),
        ("(EngineCore_DP0 pid=9) (Worker_TP0 pid=12) ERROR 11-12 16:25:35 [m.py:7] x", "Worker_TP0 pid=12"),
    ):
        assert (undress(given).rank, undress(given).text) == (rank, "x")


# As other programs draw them

NOTEBOOK = """Processed prompts:   0%|          | 0/5 [00:00<?, ?it/s]
---------------------------------------------------------------------------
KeyError                                  Traceback (most recent call last)
Cell In[3], line 2
      1 # begins the engine
----> 2 llm = LLM(model="m")

File ~/venv/lib/python3.12/site-packages/vllm/entrypoints/llm.py:123, in LLM.__init__(self, model, **kwargs)
    121     raise ValueError(model)
    122 # the engine
--> 123 self.llm_engine = LLMEngine.from_engine_args(
    124     engine_args)

KeyError: 'layers.0.wk.weight'
INFO 11-02 10:14:33 [core.py:9] going down
"""
COLAB = """ValueError                                Traceback (most recent call last)
[<ipython-input-3-ac9a>](https://localhost:8080/#) in <cell line: 11>()
     10
---> 11 llm = LLM("m")

[/usr/lib/python3.11/dist-packages/vllm/llm.py](https://localhost:8080/#) in __init__(self, model, *args)
     53         super().__init__()
---> 54         self.client = start(*args)

ValueError: no such model
"""
RICH = """╭─────────────────── Traceback (most recent call last) ───────────────────╮
│ /venv/lib/python3.12/site-packages/sglang/launch_server.py:24 in <module> │
│                                                                           │
│    22 if __name__ == "__main__":                                          │
│ ❱  24 │   launch(server_args)                                             │
│                                                                           │
│ /venv/lib/python3.12/site-packages/sglang/srt/engine.py:895 in launch     │
│                                                                           │
│   893 │   for reader in readers:                                          │
│ ❱ 895 │   │   data = reader.recv()                                        │
╰──────────────────────────────────────────────────────────────────────────╯
RuntimeError: CUDA error: no kernel image is available for execution on the device
"""


@pytest.mark.parametrize(
    ("text", "line", "error", "last"),
    [
        (
            NOTEBOOK,
            3,
            "KeyError",
            ("vllm/entrypoints/llm.py", 123, "LLM.__init__", "self.llm_engine = LLMEngine"),
        ),
        (COLAB, 1, "ValueError", ("dist-packages/vllm/llm.py", 54, "__init__", "self.client = start(*args)")),
        (RICH, 1, "RuntimeError", ("sglang/srt/engine.py", 895, "launch", "data = reader.recv()")),
    ],
)
def test_a_traceback_is_read_however_it_is_drawn(
    text: str, line: int, error: str, last: tuple[object, ...]
) -> None:
    found = read_log(BytesIO(text.encode())).first
    assert found is not None
    assert (found.line, found.error, len(found.frames)) == (line, error, 2)
    frame = found.frames[-1]
    assert frame.file.endswith(str(last[0]))
    assert (frame.line, frame.function) == last[1:3]
    assert str(last[3]) in frame.text
    assert text.splitlines()[found.end - 1].startswith(error)


def test_a_notebook_whose_beginning_is_lost_is_read_from_its_first_frame() -> None:
    text = NOTEBOOK[NOTEBOOK.index("File ~") :]
    found = read_log(BytesIO(text.encode())).first
    assert found is not None
    assert (found.line, found.error, found.message) == (1, "KeyError", "'layers.0.wk.weight'")


# Newest first


def records(text: str) -> list[str]:
    """What belongs together: a line with a time, and those behind it."""
    found: list[str] = []
    for line in text.splitlines():
        if line.startswith("[20") or not found:
            found.append(line)
        else:
            found[-1] += f"\n{line}"
    return found


@pytest.mark.parametrize("how", ["lines", "records"])
def test_a_log_whose_newest_lines_come_first_is_read_in_its_order(how: str) -> None:
    """By lines, as tac turns it; by records, as pages of log services show it."""
    lines = SGLANG.splitlines() if how == "lines" else records(SGLANG)
    turned = "\n".join(reversed(lines)) + "\n"
    straight, found = diagnose(BytesIO(SGLANG.encode())), diagnose(BytesIO(turned.encode()))
    assert (straight.newest_first, found.newest_first) == (False, True)
    assert straight.first is not None
    assert found.first is not None
    assert (found.first.error, found.first.frames) == (straight.first.error, straight.first.frames)
    assert (found.cause is not None, found.arguments) == (True, straight.arguments)
    shown = turned.splitlines()
    assert "Scheduler hit an exception" in shown[found.first.line - 1]
    assert shown[found.first.end - 1] == ERROR
    assert "server_args" in shown[found.said["arguments"] - 1]


def test_a_log_of_which_nothing_says_the_order_is_read_as_it_stands() -> None:
    for text in (
        SGLANG,
        VLLM,
        BODY,
        "x\n" * 10,
        "",
        "2026-03-07 19:20:01 a\n" * 9,
        f"{'y' * 3_000_000}\nz\n",
    ):
        with in_order(BytesIO(text.encode())) as (_, numbers):
            assert numbers is None


def test_a_turned_log_of_many_blocks_and_a_long_line_keeps_its_numbers() -> None:
    count = 60_000
    lines = [f"2026-03-07 10:{at // 60 % 60:02}:{at % 60:02} {'z' * 40} {at}" for at in range(3599)]
    text = "\n".join([*reversed(lines), "x" * 3_000_000, *(f"{lines[0]} {at}" for at in range(count))])
    with in_order(BytesIO(text.encode())) as (file, numbers):
        assert numbers is not None
        read = file.read().decode().splitlines()
    there = text.splitlines()
    assert len(read) == len(numbers) == len(there)
    assert sorted(numbers) == list(range(1, len(there) + 1))
    for place in (0, 1, count, len(read) - 1):
        assert there[numbers[place] - 1].startswith(read[place][:1000])


FAILED = 'Traceback (most recent call last):\n  File "/v/vllm/a.py", line 1, in f\n    x\n{}\n'


def test_quotes_keys_and_times_before_a_line_are_taken_off() -> None:
    failed = 'Traceback (most recent call last):\n  File "/v/a.py", line 1, in f\n    x\nKeyError: 1'
    for before in ("> ", "^C[rank0]: ", "2026-03-07 19:22:11 "):
        lines = f"INFO 11-02 10:14:32 [a.py:1] on\n{failed}".replace("\n", f"\n{before}").split("\n")
        (found,) = tracebacks(lines)
        assert (found.line, found.error, found.frames[0].text) == (2, "KeyError", "x"), before
    (found,) = tracebacks(failed.replace("KeyError: 1", "**KeyError: 1**").split("\n"))
    assert (found.error, found.message) == ("KeyError", "1")


def test_what_was_raised_from_a_connection_that_is_gone_is_not_first() -> None:
    gone = FAILED.format("ConnectionRefusedError: [Errno 111] Connection refused")
    chained = "\nDuring handling of the above exception, another exception occurred:\n\n"
    raised = FAILED.format("requests.exceptions.ConnectionError: Max retries exceeded")
    own = FAILED.format("KeyError: 'larch'")
    assert (first := read_log(BytesIO(f"{gone}{chained}{raised}{own}".encode())).first) is not None
    assert first.error == "KeyError"
    assert (first := read_log(BytesIO(f"{gone}{chained}{raised}".encode())).first) is not None
    assert first.error == "ConnectionRefusedError"


def test_of_what_only_passes_on_a_failure_that_counts_which_it_passes_on() -> None:
    raised = "torch._dynamo.exc.BackendCompilerFailed: backend='larch' raised:\nRuntimeError: {}"
    for inner, name in {"CUDA out of memory": "cuda-out-of-memory", "larch": "inductor"}.items():
        cause = read_log(BytesIO(FAILED.format(raised.format(inner)).encode())).cause
        assert cause is not None
        assert cause.signature.id == name
