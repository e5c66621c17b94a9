"""What only speaks of a failure is no record of one: the shapes of prose, beside those of a log."""

from __future__ import annotations

import time
from io import BytesIO

import pytest

from tools.diagnosis.diagnose import diagnose

FULL = "CUDA out of memory"
PROSE = {
    "a commit": f"commit 0a1b2c3d4e\nAuthor: A <a@b>\nDate:   Mon\n\n    Larch\n\n    ValueError: {FULL}\n",
    "a subject": f"abc1234 [Larch] Fix RuntimeError: {FULL} in maple (#12)\n",
    "a subject of its kind": f"fix(maple): RuntimeError: {FULL}\n",
    "a hunk": f"@@ -1,2 +1,2 @@ def f\n context\n-    pass\n+    ValueError: {FULL}\n",
    "words in backticks": f"# Larch\nWe saw `torch.OutOfMemoryError: {FULL}` with sglang.\n",
    "a list": f"# Larch\n- {FULL}: use less\n",
    "a table": f"| error | what to do |\n|---|---|\n| {FULL} | use less |\n",
    "a question": f"Why RuntimeError: {FULL}?\n",
    "a title": f"[Bug] {FULL} when loading maple\n",
    "a sentence": f"{FULL} means that the weights are large.\n",
    "a sentence over two lines": f"If it ends while it loads and you see\n{FULL}, use less.\n",
    "a conversation": f"User: mine says {FULL}\nAssistant: You get RuntimeError: {FULL} when it is full.\n",
    "a prompt in a record": f"INFO 11-02 10:00:00 [a.py:9] Received: prompt: 'why {FULL}', params: x\n",
    "an answer in a record": f"INFO 11-02 10:00:00 [a.py:9] Answered: output: 'see {FULL}', n: 1\n",
    "what a model thinks": f"INFO 11-02 10:00:00 [a.py:9] reasoning_content='{FULL}', n=1\n",
    "a record that tells of people": f"INFO 11-02 10:00:00 [a.py:9] we often see how {FULL} ends it\n",
    "a long prompt": f"[2026-01-01 10:00:00] Receive: obj=A(text='{'x ' * 3000}RuntimeError: {FULL}')\n",
    "a request": f'{{"messages": [{{"role": "user", "content": "I get {FULL}"}}]}}\n',
    "how a process ends": "Note that a server which ends with exit code 137 had too little memory.\n",
    "what follows a failure": "Received sigquit from a child process means that a child ended.\n",
}
RECORDS = (
    f"RuntimeError: {FULL}. Tried to allocate 2.00 GiB. You can use less.",
    f"    ValueError: {FULL}",
    f"- ImportError: {FULL}",
    "alloc_buffer: allocating 20000.00 MiB on device 0: cudaMalloc failed: out of memory",
    'called `Result::unwrap()` on an `Err` value: Os { code: 28, message: "No space left on device" }',
    f"larch could not start: ValueError: {FULL}",
    f"Capture cuda graph failed: {FULL}. You can lower it",
    f"terminate called after throwing an instance\n  what():  {FULL}",
    "python: x.cu:12: void f(): Assertion `index < 0` failed.",
    f"ERROR 11-02 10:00:00 [core.py:1] You got {FULL}",
    f"2026-09-22T06:50:05Z we ran into {FULL} and stop",
    f"INFO 11-02 10:00:00 [a.py:9] Command output: '{FULL}'",
    f"Worker failed with error '{FULL}. Tried",
    f'{{"error": {{"message": "{FULL}"}}}}',
)


@pytest.mark.parametrize("how", PROSE)
def test_what_speaks_of_a_failure_is_none(how: str) -> None:
    found = diagnose(BytesIO(PROSE[how].encode()))
    assert (found.first, found.cause, found.follows) == (None, None, False)


@pytest.mark.parametrize("line", RECORDS)
def test_a_record_of_a_failure_is_one(line: str) -> None:
    assert diagnose(BytesIO(f"larch\n{line}\n".encode())).cause is not None


def test_what_is_said_does_not_hide_what_fails() -> None:
    log = f"{PROSE['a prompt in a record']}{PROSE['a commit']}\ncudaErrorLaunchFailure\n"
    cause = diagnose(BytesIO(log.encode())).cause
    assert cause is not None
    assert (cause.kind, cause.line) == ("fault", 10)


def test_hostile_text_takes_little_time() -> None:
    log = "commit 0123456789\n" + "    \n" * 800 + f"x\n    ValueError: {FULL}\n"
    started = time.process_time()
    assert diagnose(BytesIO(log.encode())).cause is not None
    for before in ("x" * 300_000, "Error: " * 40_000, "prompt" + " " * 250_000):
        diagnose(BytesIO(f"{before} {FULL}\n".encode()))
    assert time.process_time() - started < 20  # it is about 0.1


def test_a_record_after_a_line_that_could_go_on_is_one() -> None:
    log = f"larch loads what it was asked for with the\nworker 3: {FULL}\n"
    assert diagnose(BytesIO(log.encode())).cause is not None
