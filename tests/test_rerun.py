"""What another agent read, read again on other packages: five words, each on trees that were made for it."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from conftest import Wheels
from program import agent, one_line

from memory.terms import Drift
from tools.rerun.again import Again, Rerun, rerun
from tools.rerun.posix import to_python
from tools.rerun.recorded import recorded, without_numbers
from tools.source.tree import SourceTree
from transcripts.imported.model import OK, Call

SITE = "/opt/ml-env/lib/python3.12/site-packages"

GATES = '''"""Gates."""

import os


def is_new(major):
    return major in (10, 12)


def is_old(major):
    return major < 9
'''
MOVED = GATES.replace("import os\n", "import os\nimport sys\n\nTABLE = {}\n")
CHANGED = GATES.replace("(10, 12)", "(10, 11, 12)")


def tree(root: Path, files: dict[str, str]) -> SourceTree:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    info = root / "weave-2.0.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    (info / "METADATA").write_text("Name: weave\n", encoding="utf-8")
    return SourceTree(root, {"weave": "2.0"})


def call(command: str | None, output: str, **more: Any) -> Call:
    facts = {"seq": 4, "result": 5, "status": OK, "tool": "bash", "returned": output, "command": command}
    return Call(**{**facts, **more})


def only(done: Rerun) -> Again:
    (read,) = done.reads
    return read


def lines(text: str, start: int, end: int) -> str:
    return "".join(f"{line}\n" for line in text.splitlines()[start - 1 : end])


READ = f"sed -n '6,7p' {SITE}/weave/gates.py"


@pytest.mark.parametrize(
    ("now", "drift", "where"),
    [
        ({"weave/gates.py": GATES}, Drift.SAME, "weave/gates.py:6-7"),
        ({"weave/gates.py": MOVED}, Drift.MOVED, "weave/gates.py:9-10"),
        ({"weave/gates.py": "x = 1\n", "weave/other.py": MOVED}, Drift.MOVED, "weave/other.py:9-10"),
        ({"weave/other.py": MOVED}, Drift.MOVED, "weave/other.py:9-10"),
        ({"weave/gates.py": CHANGED}, Drift.CHANGED, "weave/gates.py:6-7"),
        ({"weave/empty.py": ""}, Drift.GONE, None),
    ],
)
def test_lines_are_the_same_elsewhere_changed_or_gone(
    now: dict[str, str], drift: Drift, where: str | None, tmp_path: Path
) -> None:
    read = only(rerun([call(READ, lines(GATES, 6, 7))], tree(tmp_path, now)))
    assert (read.verdict.drift, read.verdict.where) == (drift, where)
    assert bool(read.verdict.diff) == (drift is Drift.CHANGED)


def test_a_diff_says_what_has_changed(tmp_path: Path) -> None:
    read = only(rerun([call(READ, lines(GATES, 6, 7))], tree(tmp_path, {"weave/gates.py": CHANGED})))
    assert "-    return major in (10, 12)" in read.verdict.diff
    assert "+    return major in (10, 11, 12)" in read.verdict.diff


@pytest.mark.parametrize(
    "command",
    [
        f"ssh root@192.0.2.1 'sed -n 6,7p {SITE}/weave/gates.py'",
        "cd /opt/weave && head -7 weave/gates.py | tail -2",
        "docker exec c bash -lc \"sed -n '6,7p' /src/python/weave/gates.py\"",
        "awk 'NR>=6 && NR<=7' /usr/local/lib/python3.12/dist-packages/weave/gates.py",
        "nl -ba /x/weave/gates.py | sed -n '6,7p'",
    ],
)
def test_paths_of_other_machines_lead_into_the_environment(command: str, tmp_path: Path) -> None:
    output = lines(GATES, 6, 7)
    if command.startswith("nl"):
        output = "".join(f"{number:6}\t{line}\n" for number, line in enumerate(output.splitlines(), 6))
    read = only(rerun([call(command, output)], tree(tmp_path, {"weave/gates.py": MOVED})))
    assert (read.verdict.drift, read.files) == (Drift.MOVED, ["weave/gates.py"])


@pytest.mark.parametrize(
    "path",
    [
        "/opt/server.log",
        f"{SITE}/torch/nn.py",
        "/opt/.cache/weave/x.json",
        "/opt/weave/README.md",
        "/opt/weave",
        f"{SITE}/weave/{'a' * 300}.py",
        f"{SITE}/weave/{'a/' * 200}b.py",
    ],
)
def test_what_is_not_of_the_packages_is_listed(path: str, tmp_path: Path) -> None:
    done = rerun([call(f"cat {path}", "text\n")], tree(tmp_path, {"weave/gates.py": GATES}))
    assert (done.reads, dict(done.unmapped)) == ([], {path: 1})


@pytest.mark.parametrize(
    ("command", "output", "why"),
    [
        (READ, "", "nothing was shown"),
        (f"{READ} | cut -c1-5", "def i\n", "another program"),
        (f"git show v1:weave/gates.py; : {SITE}", GATES, "another revision"),
        (f"for f in gates; do cat {SITE}/weave/$f.py; done", GATES, "a variable"),
        (f"{READ}; wc -l {SITE}/weave/gates.py", lines(GATES, 6, 7) + "9 x\n", "several parts"),
        (f"grep -rn def {SITE}/weave | head -1", f"{SITE}/weave/gates.py:6:def x\n", "cut at 1 lines"),
        (f"grep -A1 -n def {SITE}/weave/gates.py", "6:def is_new(major):\n", "-A"),
    ],
)
def test_what_the_record_does_not_decide_is_not_compared(
    command: str, output: str, why: str, tmp_path: Path
) -> None:
    read = only(rerun([call(command, output)], tree(tmp_path, {"weave/gates.py": GATES})))
    assert read.verdict.drift is Drift.NOT_COMPARABLE
    assert why in str(read.verdict.why)


def test_a_cut_record_proves_a_change_and_no_more(tmp_path: Path) -> None:
    whole = f"cat {SITE}/weave/gates.py"
    cut = lines(GATES, 1, 7) + "\n...12 lines truncated...\n"
    same = tree(tmp_path / "a", {"weave/gates.py": GATES})
    other = tree(tmp_path / "b", {"weave/gates.py": CHANGED})
    assert "first 7 lines are the same" in str(only(rerun([call(whole, cut)], same)).verdict.why)
    assert only(rerun([call(whole, cut)], other)).verdict.drift is Drift.CHANGED


def test_parts_between_printed_lines_are_told_apart(tmp_path: Path) -> None:
    command = f'echo "== a"; sed -n 6,7p {SITE}/weave/gates.py; echo "== b"; cat {SITE}/weave/b.py'
    output = f"== a\n{lines(GATES, 6, 7)}== b\nb = 2\n"
    done = rerun([call(command, output)], tree(tmp_path, {"weave/gates.py": MOVED, "weave/b.py": "b = 2\n"}))
    assert [read.verdict.drift for read in done.reads] == [Drift.MOVED, Drift.SAME]


@pytest.mark.parametrize(
    "command",
    [
        f"rm -f {SITE}/weave/gates.py; cat {SITE}/weave/gates.py",
        f"cat {SITE}/weave/gates.py > {SITE}/weave/b.py",
        f"sed -i s/a/b/ {SITE}/weave/gates.py && {READ}",
    ],
)
def test_what_may_change_something_is_never_made_again(command: str, tmp_path: Path) -> None:
    source = tree(tmp_path, {"weave/gates.py": GATES})
    command = command.replace(SITE, str(tmp_path))
    done = rerun([call(command, GATES)], source)
    assert (done.reads, dict(done.not_run)) == ([], {"may change something": 1})
    assert (tmp_path / "weave/gates.py").read_text(encoding="utf-8") == GATES


HITS = f"{SITE}/weave/gates.py:6:def is_new(major):\n{SITE}/weave/gates.py:10:def is_old(major):\n"


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (f"grep -n '' {SITE}/weave/gates.py", "a pattern that is empty"),
        (f"grep -n {'a' * 501} {SITE}/weave/gates.py", "longer than 500 characters"),
        (f"grep -nw {'a' * 499} {SITE}/weave/gates.py", "too long"),
        (f"cat {SITE}/weave/gate*.py", "a pattern of names"),
        (f"grep -n major {SITE}/weave/*.py", "a pattern of names"),
        (f"cat {SITE}/weave/{{gates,ways}}.py", "a pattern of names"),
        (f"ls {SITE}/weave/*.py", "a pattern of names"),
    ],
)
def test_what_cannot_be_looked_for_here_is_not_compared(command: str, why: str, tmp_path: Path) -> None:
    read = only(rerun([call(command, "text\n")], tree(tmp_path, {"weave/gates.py": GATES})))
    assert read.verdict.drift is Drift.NOT_COMPARABLE
    assert why in (read.verdict.why or "")


@pytest.mark.parametrize(
    ("now", "drift"),
    [
        ({"weave/gates.py": GATES}, Drift.SAME),
        ({"weave/gates.py": MOVED}, Drift.MOVED),
        ({"weave/gates.py": GATES, "weave/b.py": "def is_other(): ...\n"}, Drift.CHANGED),
        ({"weave/gates.py": "pass\n"}, Drift.GONE),
    ],
)
def test_a_search_is_compared_as_a_set_of_hits(now: dict[str, str], drift: Drift, tmp_path: Path) -> None:
    command = f"grep -rn 'def is_\\(new\\|old\\|other\\)' {SITE}/weave --include='*.py' | head -40"
    turned = "".join(f"{line}\n" for line in reversed(HITS.splitlines()))
    for output in (HITS, turned):
        assert only(rerun([call(command, output)], tree(tmp_path, now))).verdict.drift is drift


@pytest.mark.parametrize(
    ("command", "output", "drift"),
    [
        ("ls {}/weave", "b.py\ngates.py\n", Drift.SAME),
        ("ls -la {}/weave", "total 8\n-rw-r--r-- 1 root root 5 Jan  1 10:00 gates.py\n", Drift.CHANGED),
        ("find {0}/weave -name '*.py'", "{0}/weave/gates.py\n{0}/weave/b.py\n", Drift.SAME),
        ("ls {}/weave/kernels", "a.cu\n", Drift.GONE),
    ],
)
def test_a_listing_is_compared_as_a_set_of_names(
    command: str, output: str, drift: Drift, tmp_path: Path
) -> None:
    source = tree(tmp_path, {"weave/gates.py": GATES, "weave/b.py": "", "weave/__pycache__/b.pyc": ""})
    read = only(rerun([call(command.format(SITE), output.format(SITE))], source))
    assert read.verdict.drift is drift


def test_tools_that_are_no_shell_are_read_again_too(tmp_path: Path) -> None:
    shown = "00006| def is_new(major):\n00007|     return major in (10, 12)\n"
    output = f"<file>\n{shown}</file>"
    given = {"filePath": f"{SITE}/weave/gates.py", "offset": 5, "limit": 2}
    done = rerun(
        [call(None, output, tool="read", input=given)],
        tree(tmp_path, {"weave/gates.py": MOVED}),
    )
    assert only(done).verdict.where == "weave/gates.py:9-10"


@pytest.mark.parametrize(
    ("tool", "given", "output", "drift"),
    [
        ("Grep", {"pattern": "def is_"}, "Found 1 file\n{}/weave/gates.py\n", Drift.SAME),
        ("Grep", {"pattern": "is_lost"}, "Found 1 file\n{}/weave/gates.py\n", Drift.GONE),
        ("Grep", {"pattern": "is_lost"}, "No files found", Drift.SAME),
        (
            "Grep",
            {"pattern": "def is_new", "output_mode": "content", "-n": True},
            "{}/weave/gates.py:6:def is_new(major):\n",
            Drift.MOVED,
        ),
        (
            "grep",
            {"pattern": "def is_new", "include": "*.py"},
            "Found 1 matches\n{}/weave/gates.py:\n  Line 6: def is_new(major):\n",
            Drift.MOVED,
        ),
        ("Grep", {"pattern": "def is_"}, "Found 1 file\nsrc/weave/gates.py\n", Drift.NOT_COMPARABLE),
        ("Glob", {"pattern": "**/*.py"}, "{0}/weave/gates.py\n", Drift.SAME),
        ("Glob", {"pattern": "*.py"}, "{0}/weave/gates.py\n{0}/weave/lost.py\n", Drift.CHANGED),
    ],
)
def test_search_tools_of_agents_are_made_again(
    tool: str, given: dict[str, Any], output: str, drift: Drift, tmp_path: Path
) -> None:
    made = call(None, output.format(SITE), tool=tool, input={"path": f"{SITE}/weave", **given})
    assert only(rerun([made], tree(tmp_path, {"weave/gates.py": MOVED}))).verdict.drift is drift


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("     6\ta\n     7\tb\n", ["a", "b"]),
        ("     6→a\n     7→b", ["a", "b"]),
        ("6: a\n7: b", ["a", "b"]),
        ("6: a\n9: b", ["6: a", "9: b"]),
        ("Exit code: 0\nWall time: 0.1 s\nOutput:\na\nb\n", ["a", "b"]),
        ("<returncode>0</returncode>\n<output>\na\nb\n</output>", ["a", "b"]),
        ("a\r\nb\r\n", ["a", "b"]),
        ("a\n\n<system-reminder>be good</system-reminder>", ["a"]),
    ],
)
def test_the_dressing_of_tools_is_taken_off(output: str, expected: list[str]) -> None:
    assert without_numbers(recorded(output)).lines == expected


@pytest.mark.parametrize(
    ("pattern", "extended", "text", "fits"),
    [
        (r"a\|b", False, "b", True),
        ("a|b", False, "b", False),
        ("a|b", True, "b", True),
        (r"f(x)", False, "f(x)", True),
        (r"f\(x\)\1", False, "fxx", True),
        ("*x", False, "*x", True),
        ("[[:space:]]x", False, " x", True),
        (r"[\n]", False, "\\", True),
        ("[]x]", False, "]", True),
        (r"\<is_", True, "if is_x", True),
        ("x{2}", True, "xx", True),
        ("x{2}", False, "xx", False),
    ],
)
def test_expressions_of_grep_mean_what_they_mean_there(
    pattern: str, extended: bool, text: str, fits: bool
) -> None:
    assert bool(re.search(to_python(pattern, extended=extended), text)) is fits


def chat(calls: Sequence[tuple[str, str]]) -> str:
    """A session as messages with tool calls."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "look"}]
    for number, (command, output) in enumerate(calls):
        function = {"name": "bash", "arguments": json.dumps({"command": command})}
        asked = [{"id": f"c{number}", "type": "function", "function": function}]
        messages.append({"role": "assistant", "content": "", "tool_calls": asked})
        messages.append({"role": "tool", "tool_call_id": f"c{number}", "content": output})
    return json.dumps(messages)


def imported(folder: Path, calls: Sequence[tuple[str, str]]) -> str:
    """The id of such a session, imported."""
    (folder / "chat.json").write_text(chat(calls), encoding="utf-8")
    ended = agent("transcripts", "import", str(folder / "chat.json"), "--json")
    assert ended.returncode == 0, ended.stderr
    (kept,) = json.loads(ended.stdout)["sessions"]
    return str(kept["id"])


def test_the_command_line_says_what_has_drifted(tmp_path: Path) -> None:
    others = [("cat /opt/a.log", "x\n"), ("rm x; cat /a.py", "x\n")]
    name = imported(tmp_path, [(READ, lines(GATES, 6, 7)), *others])
    tree(tmp_path / "moved", {"weave/gates.py": MOVED})
    tree(tmp_path / "same", {"weave/gates.py": GATES})
    ended = agent("replay", name, "--rerun", "reads", "-e", str(tmp_path / "moved"))
    assert ended.returncode == 1, ended.stderr
    assert "moved  weave/gates.py → weave/gates.py:9-10" in ended.stdout
    assert "1 moved" in ended.stdout
    assert "not of these packages: /opt/a.log (1)" in ended.stdout
    assert "not made again: 1, may change something" in ended.stdout
    ended = agent("replay", name, "--rerun", "reads", "-e", str(tmp_path / "same"), "--json")
    assert ended.returncode == 0, ended.stderr
    document = json.loads(ended.stdout)
    assert document["counts"] == {"same": 1, "moved": 0, "changed": 0, "gone": 0, "not_comparable": 0}
    assert document["unmapped"] == [{"path": "/opt/a.log", "reads": 1}]
    assert document["not_run"] == {"may change something": 1}
    one_line(agent("replay", name, "--rerun", "reads"), 2, "-e ENVIRONMENT")
    one_line(agent("replay", "nobody", "--rerun", "reads", "-e", str(tmp_path / "same")), 2, "nobody")


REAL = [
    # Read by hand in both versions: the file is the same byte for byte.
    ("sed -n '1,40p'", "layers/moe/token_dispatcher/flashinfer_utils.py", Drift.SAME, None),
    # The five lines of is_sm120_supported, 51 lines further down.
    ("sed -n '253,257p'", "utils/common.py", Drift.MOVED, "sglang/srt/utils/common.py:304-308"),
    # metrics became observability; the functions did not change (line 60 is blank, and not compared).
    ("sed -n '25,60p'", "metrics/func_timer.py", Drift.MOVED, "sglang/srt/observability/func_timer.py:25-59"),
    # The class has another base, and more members between those of before.
    ("sed -n '57,70p'", "layers/moe/utils.py", Drift.CHANGED, None),
    # Into a package beside, and a line up.
    ("sed -n '12,25p'", "layers/moe/router.py", Drift.MOVED, "sglang/kernels/ops/moe/router.py:11-24"),
    # Neither the file nor its class is there.
    ("sed -n '11,20p'", "managers/async_mm_data_processor.py", Drift.GONE, None),
    # One line, at 231 then and at 642 now.
    ("grep -n '^def is_tbo'", "layers/moe/utils.py", Drift.MOVED, "sglang/srt/layers/moe/utils.py:642"),
    # kernels.py is no longer there.
    ("ls", "layers/moe/ep_moe", Drift.CHANGED, None),
    ("head -c 100", "utils/common.py", Drift.NOT_COMPARABLE, None),
]


def shown(program: str, path: Path) -> str:
    """What one of these commands gives."""
    if path.is_dir():
        return "".join(f"{entry.name}\n" for entry in sorted(path.iterdir()) if entry.suffix == ".py")
    text = path.read_text(encoding="utf-8")
    span = re.search(r"(\d+),(\d+)p", program)
    if span:
        return lines(text, int(span[1]), int(span[2]))
    hits = [f"{number}:{line}\n" for number, line in enumerate(text.splitlines(), 1) if "def is_tbo" in line]
    return hits[0] if "grep" in program else text[:100]


@pytest.mark.network
def test_reads_of_one_version_on_a_later_one_are_as_read_by_hand(wheels: Wheels) -> None:
    before, now = wheels("sglang==0.5.9").root / "sglang/srt", wheels("sglang==0.5.23").tree()
    calls = []
    for number, (program, file, *_) in enumerate(REAL):
        output = shown(program, before / file)
        command = f'ssh box "{program} {SITE}/sglang/srt/{file}"'
        calls.append(call(command, output, seq=number))
    found = {read.event: read.verdict for read in rerun(calls, now).reads}
    for number, (program, file, drift, where) in enumerate(REAL):
        verdict = found.get(number)
        assert (verdict.drift if verdict else None) is drift, (program, file, verdict)
        assert where is None or (verdict is not None and verdict.where == where), (program, file, verdict)
