"""Listing, reading, searching and finding symbols, and the cap on what a result shows."""

from __future__ import annotations

import ast
import hashlib
import json
import os
import re
import shutil
import sys
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from memory.home import Home
from tools.base import ToolError
from tools.output import cap
from tools.registry import registry
from tools.source import _candidates, _matching, search_source
from tools.source._candidates import holding, literal_in
from tools.source.files import glob_filter, walk
from tools.source.find_symbol import may_define
from tools.source.parse import parse_python
from tools.source.search_source import SearchInput, SearchResult, search_tree
from tools.source.tree import READ_LIMIT, SourceError, SourceTree, decode, span_sha256


@dataclass
class Context:
    home: Home

    def progress(self, text: str) -> None:
        raise AssertionError(text)


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """An unpacked environment with one package of every kind of file."""
    root = tmp_path / "site"
    folder = root / "loom"
    (folder / "parts").mkdir(parents=True)
    info = root / "loom-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: loom\nVersion: 1.2\n")
    (info / "RECORD").write_text("loom/__init__.py,,\nloom/parts/weft.py,,\n")
    (folder / "__init__.py").write_text("from loom.parts.weft import Weft\nPICKS = 12\n")
    (folder / "parts" / "weft.py").write_text(
        "LIMIT: int = 7\n"
        "A, B = 1, 2\n\n\n"
        "class Weft:\n"
        "    colour = 'red'\n\n"
        "    async def beat(self):\n"
        "        LIMIT = 3\n"
        "        return LIMIT\n\n"
        "    class Inner:\n"
        "        def beat(self): ...\n\n\n"
        "if True:\n"
        "    def beat(): ...\n"
    )
    (folder / "parts" / "broken.py").write_text("def beat(:\n    pass\nclass Beat\n")
    (folder / "parts" / "weft.cu").write_text("// beat\n__global__ void beat() {}\n")
    (folder / "latin.txt").write_bytes(b"caf\xe9 beat\r\nsecond beat\rthird\n")
    (folder / "bom.txt").write_bytes(b"\xef\xbb\xbfbeat first\n")
    (folder / "kernel.bin").write_bytes(b"beat\0\1\2" * 40)
    (folder / "--files").write_text("beat in an odd name\n")
    (folder / "long.txt").write_text("x" * 100_000 + "\nbeat\n")
    (folder / "empty.py").write_text("")
    return root


@pytest.fixture
def call(tmp_path: Path) -> Callable[..., Any]:
    """Run a tool by name, as the loop does."""

    def run(name: str, /, **given: Any) -> Any:
        tool = registry()[name]
        return tool.run(tool.input(**given), Context(Home(tmp_path / "home")))

    return run


def test_the_tools_only_read() -> None:
    for name in ("list_source", "read_source", "search_source", "find_symbol", "list_backends", "find_model"):
        assert registry()[name].effect == "reads"
        assert "environment" in registry()[name].schema()["required"]


def test_list_source(call: Callable[..., Any], package: Path) -> None:
    top = call("list_source", environment=str(package))
    assert [entry.path for entry in top.entries] == ["loom", "loom-1.2.dist-info"]
    inside = call("list_source", environment=str(package), path="loom/parts")
    assert [(e.path, e.kind) for e in inside.entries] == [
        (f"loom/parts/{name}", "file") for name in ("broken.py", "weft.cu", "weft.py")
    ]
    found = call("list_source", environment=str(package), include="*.py", limit=2)
    assert (len(found.entries), found.total, found.truncated) == (2, 4, True)
    with pytest.raises(ToolError, match="read it with read_source"):
        call("list_source", environment=str(package), path="loom/latin.txt")


def test_read_source(call: Callable[..., Any], package: Path) -> None:
    read = call("read_source", environment=str(package), file="loom/parts/weft.py", start=5, end=6)
    assert (read.package, read.version) == ("loom", "1.2")
    assert read.text == "class Weft:\n    colour = 'red'"
    assert (read.start, read.end, read.total_lines, read.next_start) == (5, 6, 17, None)
    assert read.sha256 == span_sha256(["class Weft:", "    colour = 'red'"])


def test_read_source_is_capped_and_says_where_to_go_on(call: Callable[..., Any], package: Path) -> None:
    (package / "loom" / "many.txt").write_text("".join(f"line {n}\n" for n in range(1, 1001)))
    seen, start = [], 1
    while start is not None:
        read = call("read_source", environment=str(package), file="loom/many.txt", start=start)
        assert read.end - read.start < 400
        seen += read.text.split("\n")
        start = read.next_start
    assert seen == [f"line {n}" for n in range(1, 1001)]
    # A line longer than the cap is given whole and alone.
    read = call("read_source", environment=str(package), file="loom/long.txt")
    assert (len(read.text), read.next_start) == (100_000, 2)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"file": "loom/kernel.bin"}, "binary file of 280 bytes"),
        ({"file": "loom"}, "is a folder; list it with list_source"),
        ({"file": "loom/nothing.py"}, "no 'loom/nothing.py' in the environment"),
        ({"file": "../outside.txt"}, "outside the environment"),
        ({"file": "loom/../../outside.txt"}, "outside the environment"),
        ({"file": "/etc/passwd"}, "outside the environment"),
        ({"file": "loom/way_out"}, "outside the environment"),
        ({"file": "loom/round"}, "no path of the environment|in the environment"),
        ({"file": "a\0b"}, "no path of the environment"),
        ({"file": "a" * 5000}, "no path of the environment"),
        ({"file": "loom/latin.txt", "start": 9}, "has 3 lines; there is no line 9"),
        ({"file": "loom/latin.txt", "start": 3, "end": 2}, "is no span"),
    ],
)
def test_what_cannot_be_read_is_one_clear_line(
    call: Callable[..., Any], package: Path, given: dict[str, Any], says: str
) -> None:
    (package.parent / "outside.txt").write_text("secret\n")
    (package / "loom" / "way_out").symlink_to(package.parent / "outside.txt")
    (package / "loom" / "round").symlink_to(package / "loom" / "round")
    with pytest.raises(ToolError, match=says) as raised:
        call("read_source", environment=str(package), **given)
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 400


def test_links_are_not_followed_by_walks(package: Path) -> None:
    (package.parent / "outside.py").write_text("beat\n")
    (package / "loom" / "out.py").symlink_to(package.parent / "outside.py")
    (package / "loom" / "again").symlink_to(package)
    assert not any("again" in file or "out.py" in file for file in walk(SourceTree(package)))


def test_search_gives_file_line_text_in_order(call: Callable[..., Any], package: Path) -> None:
    found = call("search_source", environment=str(package), pattern=r"\bbeat\b")
    assert [(hit.file, hit.line) for hit in found.hits] == [
        ("loom/--files", 1),
        ("loom/bom.txt", 1),
        ("loom/latin.txt", 1),
        ("loom/latin.txt", 2),
        ("loom/long.txt", 2),
        ("loom/parts/broken.py", 1),
        ("loom/parts/weft.cu", 1),
        ("loom/parts/weft.cu", 2),
        ("loom/parts/weft.py", 8),
        ("loom/parts/weft.py", 13),
        ("loom/parts/weft.py", 17),
    ]
    assert (found.count, found.files_with_hits, found.truncated) == (11, 7, False)
    assert found.hits[2].text == "caf\ufffd beat"


def test_search_options(call: Callable[..., Any], package: Path) -> None:
    def search(**given: Any) -> SearchResult:
        return SearchResult.model_validate(call("search_source", environment=str(package), **given))

    around = search(pattern="colour", context=1).hits[0]
    assert (around.before, around.after) == (["class Weft:"], [""])
    assert search(pattern="BEAT").count == 0
    assert search(pattern="BEAT", ignore_case=True, include="*.cu").count == 2
    assert search(pattern="beat()", regex=False).count == 2
    assert search(pattern="beat", path="loom/parts", include="*.py").files_searched == 2
    assert search(pattern="beat", path="loom/parts/weft.py").count == 3
    assert search(pattern="beat", include="loom/**/*.py").files_searched == 4
    few = search(pattern="beat", limit=2)
    assert (len(few.hits), few.count, few.truncated) == (2, 11, True)
    assert search(pattern="-e", regex=False).count == 0
    assert search(pattern="--files|nothing").count == 0
    assert len(search(pattern="^x").hits[0].text) == 400


@pytest.mark.parametrize(
    ("pattern", "says"),
    [("(", "is no regular expression"), ("a\nb", "line break"), ("[", "set regex to false")],
)
def test_a_pattern_that_cannot_be_used_is_refused(
    call: Callable[..., Any], package: Path, pattern: str, says: str
) -> None:
    with pytest.raises(ToolError, match=says):
        call("search_source", environment=str(package), pattern=pattern)
    with pytest.raises(ValidationError):
        call("search_source", environment=str(package), pattern="")


def test_a_pattern_that_runs_away_is_stopped(
    package: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (package / "loom" / "trap.txt").write_text("a" * 60 + "!\n")
    monkeypatch.setattr(search_source, "SECONDS", 0.5)
    started = time.monotonic()
    with pytest.raises(ToolError, match="took more than"):
        search_tree(SourceTree(package), SearchInput(environment="", pattern="(a+)+$"))
    assert time.monotonic() - started < 200  # unstopped it takes years


SEARCHERS = ("none", "grep", "rg")
PATTERNS = [
    {"pattern": r"beat\("},
    {"pattern": "beat"},
    {"pattern": "BEAT", "ignore_case": True},
    {"pattern": "café", "regex": False},
    {"pattern": "-e", "regex": False},
    {"pattern": r"^(class|def) \w+"},
    {"pattern": r"name_\d+ = [0-9]{2}"},
    {"pattern": "$HOME `id`", "regex": False},
    {"pattern": "nowhere at all"},
]


@pytest.mark.parametrize("searcher", SEARCHERS)
@pytest.mark.parametrize("given", PATTERNS, ids=lambda given: str(given["pattern"]))
def test_the_result_is_the_same_whatever_narrows(
    package: Path, given: dict[str, Any], searcher: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if searcher != "none" and shutil.which(searcher) is None:
        pytest.skip(f"no {searcher} here")
    for number in range(40):
        (package / "loom" / f"-n {number}.py").write_text(f"name_{number} = {number}\n# café\n$HOME `id`\n")
    source = SourceTree(package)
    args = SearchInput(environment="", limit=1000, **given)
    everything = search_tree(source, args, narrow=lambda tree, files, literal, **_: files)
    monkeypatch.setattr(_candidates, "WORTH_A_PROCESS", 0)
    monkeypatch.setattr(_candidates, "ARGUMENTS", 300)  # several command lines
    asked: list[str] = []

    def which(name: str) -> str | None:
        asked.append(name)
        return shutil.which(name) if name == searcher else None

    def narrow(tree: SourceTree, files: list[str], literal: str, **more: bool) -> list[str]:
        narrowed = holding(tree, files, literal, which=which, **more)
        assert not literal or len(narrowed) < len(files)
        return narrowed

    assert search_tree(source, args, narrow=narrow) == everything


@pytest.mark.parametrize(
    ("pattern", "literal"),
    [
        ("mm_fp4", "mm_fp4"),
        (r"is_sm1\d+_supported", "_supported"),
        (r"a\.b\(", "a.b("),
        ("colou?r", "colo"),
        ("abc*", "ab"),
        ("ab+c", "ab"),
        ("ab{2,3}cd", "cd"),
        ("(optional)?x", "x"),
        ("[abc]def", "def"),
        (r"[]x]de[^]y]f", "de"),
        ("one|two", ""),
        ("(?i)abc", ""),
        (r"\w+\s*\d", ""),
        (r"\bword\b", "word"),
        ("", ""),
    ],
)
def test_the_literal_of_a_pattern(pattern: str, literal: str) -> None:
    assert literal_in(pattern) == literal


def test_no_match_lacks_the_literal() -> None:
    """Whatever the pattern, a text that matches contains what was taken for sure."""
    texts = ["abcabc", "aab", "xyz", "a.b(c)", "{2}", "a{2}", "ab]c", "", "aaa", "cab", r"a\d"]
    parts = ["a", "b", "c", ".", r"\.", r"\d", "[ab]", "(a)", "(b)?", "+", "*", "?", "{2}", "^", "$", "]"]
    tried = 0
    for first in parts:
        for second in parts:
            for third in parts:
                pattern = first + second + third
                try:
                    compiled = re.compile(pattern)
                except re.error:
                    continue
                for text in texts:
                    if compiled.search(text):
                        tried += 1
                        assert literal_in(pattern) in text, (pattern, text)
    assert tried > 1000


def test_matching_decodes_as_the_tree_does() -> None:
    for data in (b"\xef\xbb\xbfa\r\nb\rc\n", b"\xff\xfe\x00", b"caf\xe9", b"", b"\r\r\n"):
        assert _matching.decode(data) == decode(data)


def test_matching_needs_nothing_but_the_standard_library() -> None:
    """It is started by its path, isolated: an import of ours would fail only there."""
    imported = {
        name.name
        for node in ast.walk(ast.parse(Path(_matching.__file__).read_text()))
        if isinstance(node, ast.Import)
        for name in node.names
    }
    assert imported <= {"json", "re", "sys"}


@pytest.mark.parametrize(
    ("glob", "fits", "misses"),
    [
        ("*.py", ["a.py", "x/y/a.py"], ["a.pyc", "py"]),
        ("x/**/a*.py", ["x/a.py", "x/y/z/ab.py"], ["a.py", "x/ba.py", "w/x/a.py"]),
        ("x/*.py", ["x/a.py"], ["x/y/a.py"]),
        ("x/**", ["x/a", "x/y/a"], ["xa"]),
        ("a?.c[u]", ["ab.c[u]"], ["ab.cu"]),
    ],
)
def test_globs(glob: str, fits: list[str], misses: list[str]) -> None:
    assert [name for name in [*fits, *misses] if glob_filter(glob)(name)] == fits


def test_find_symbol(call: Callable[..., Any], package: Path) -> None:
    def find(name: str, **given: Any) -> list[tuple[str, str, str, int, int]]:
        found = call("find_symbol", environment=str(package), name=name, **given)
        return [(s.name, s.kind, s.file.rsplit("/", 1)[-1], s.line, s.end_line) for s in found.symbols]

    assert find("beat") == [
        ("beat", "function", "broken.py", 1, 1),
        ("Weft.beat", "method", "weft.py", 8, 10),
        ("Weft.Inner.beat", "method", "weft.py", 13, 13),
        ("beat", "function", "weft.py", 17, 17),
    ]
    assert find("Weft") == [("Weft", "class", "weft.py", 5, 13)]
    assert find("Inner.beat") == [("Weft.Inner.beat", "method", "weft.py", 13, 13)]
    assert find("LIMIT") == [("LIMIT", "constant", "weft.py", 1, 1)]  # the local one is no definition
    assert find("B") == [("B", "constant", "weft.py", 2, 2)]
    assert find("A") == [("A", "constant", "weft.py", 2, 2)]
    assert find("colour") == [("Weft.colour", "attribute", "weft.py", 6, 6)]
    assert find("beat", path="loom/parts", include="weft*") == find("beat")[1:]
    assert find("nowhere") == []
    few = call("find_symbol", environment=str(package), name="beat", limit=2)
    assert (len(few.symbols), few.truncated) == (2, True)
    assert not call("find_symbol", environment=str(package), name="beat", limit=4).truncated
    broken = call("find_symbol", environment=str(package), name="beat").symbols[0]
    assert not broken.parsed
    with pytest.raises(ValidationError):
        find("beat(")


def test_an_unknown_environment_is_one_clear_line(call: Callable[..., Any], tmp_path: Path) -> None:
    for name in ("list_source", "read_source", "search_source", "find_symbol", "list_backends", "find_model"):
        given = {"file": "x", "pattern": "x", "name": "x", "model": "x"}
        wanted = registry()[name].input.model_fields
        with pytest.raises(ToolError) as raised:
            call(name, environment="nowhere", **{k: v for k, v in given.items() if k in wanted})
        assert "nowhere" in str(raised.value)
        assert raised.value.missing


def test_list_backends(call: Callable[..., Any]) -> None:
    root = Path(__file__).parent / "source_fixtures" / "argparse_style"
    found = call("list_backends", environment=str(root))
    assert "weave" in found.components
    assert "tension" not in found.components
    one = call("list_backends", environment=str(root), component="weave")
    assert [option.flag for option in one.options] == ["--weave-backend"]
    assert {o.field for o in call("list_backends", environment=str(root), all_options=True).options} > {
        o.field for o in found.options
    }
    with pytest.raises(ToolError, match="has no component 'velvet' here; it has colour"):
        call("list_backends", environment=str(root), component="velvet")


def test_a_short_result_is_shown_whole() -> None:
    text = json.dumps({"a": "é" * 100})
    assert cap(text, 1000) == (text, None)
    assert cap("x" * 1000, 1000) == ("x" * 1000, None)


@pytest.mark.parametrize("size", [1001, 1500, 100_000])
@pytest.mark.parametrize("letter", ["x", "é", "😀", "\ud800"])
def test_a_long_result_shows_head_tail_and_a_pointer(size: int, letter: str) -> None:
    text = "HEAD" + letter * (size - 8) + "TAIL"
    shown, whole = cap(text, 1000)
    assert whole is not None
    assert len(shown) <= 1000
    assert shown.startswith("HEAD")
    assert shown.endswith("TAIL")
    digest = hashlib.sha256(whole).hexdigest()
    assert f"the whole is {len(whole)} bytes, sha256 {digest}" in shown
    assert whole.decode("utf-8", "surrogatepass") == text
    left = re.search(r"… (\d+) characters left out", shown)
    assert left is not None
    head, tail = re.split(r"\n… .* …\n", shown)
    assert len(head) + len(tail) + int(left[1]) == size


def test_a_limit_without_room_is_refused() -> None:
    with pytest.raises(ValueError, match="too small"):
        cap("x" * 500, 100)


# What else may lie in a folder


def test_what_is_hidden_is_no_part_of_an_environment(call: Callable[..., Any], package: Path) -> None:
    """An adopted folder may hold keys beside its packages."""
    (package / ".env").write_text("KEY=beat\n")
    (package / "loom" / ".git").mkdir()
    (package / "loom" / ".git" / "config").write_text("beat\n")
    (package / "loom" / "settings.txt").symlink_to(package / ".env")
    for file in (".env", "loom/.git/config", "loom/settings.txt", "loom/../.env"):
        with pytest.raises(ToolError, match="hidden"):
            call("read_source", environment=str(package), file=file)
    assert not [file for file in walk(SourceTree(package)) if "/." in f"/{file}"]
    for path in ("", "loom"):
        listed = call("list_source", environment=str(package), path=path).entries
        assert not [entry for entry in listed if entry.path.rsplit("/", 1)[-1].startswith(".")]


def test_pipes_and_names_that_are_no_text_stop_nothing(call: Callable[..., Any], package: Path) -> None:
    os.mkfifo(package / "loom" / "pipe.py")
    Path(os.fsdecode(os.fsencode(package / "loom") + b"/caf\xe9.py")).write_text("beat = 1\n")
    before = call("search_source", environment=str(package), pattern="beat", regex=False)
    assert (before.count, call("find_symbol", environment=str(package), name="beat").truncated) == (11, False)
    assert "loom/pipe.py" not in [e.path for e in call("list_source", environment=str(package)).entries]
    with pytest.raises(ToolError, match="no plain file"):
        call("read_source", environment=str(package), file="loom/pipe.py")
    with pytest.raises(SourceError, match="is a device"):
        SourceTree(package).lines("loom/pipe.py")


def test_a_file_of_many_megabytes_is_no_text(call: Callable[..., Any], package: Path) -> None:
    assert _matching.READ_LIMIT == READ_LIMIT
    with (package / "loom" / "huge.py").open("wb") as file:
        file.write(b"beat = 1\n")
        file.truncate(READ_LIMIT + 1)
        file.seek(0, os.SEEK_END)
    data = b"# beat\n" * (READ_LIMIT // 7 + 1)
    (package / "loom" / "long.py").write_bytes(data)
    with pytest.raises(ToolError, match=rf"has {len(data)} bytes; at most {READ_LIMIT}"):
        call("read_source", environment=str(package), file="loom/long.py")
    assert call("search_source", environment=str(package), pattern="beat").count == 11
    assert call("search_source", environment=str(package), pattern="beat", regex=False).count == 11
    assert [s.file for s in call("find_symbol", environment=str(package), name="beat").symbols].count(
        "loom/huge.py"
    ) == 0


def test_a_file_has_one_name(package: Path) -> None:
    (package / "loom" / "again.py").symlink_to("parts/weft.py")
    source = SourceTree(package)
    plain = source.evidence("loom/parts/weft.py", 5, idiom="x")
    for other in ("loom/again.py", "loom/./parts/weft.py", "loom/../loom/parts//weft.py"):
        assert source.evidence(other, 5, idiom="x") == plain


def test_a_folder_that_two_packages_share_is_told_apart_by_file(tmp_path: Path) -> None:
    for name, file in (("one", "common/a.py"), ("two", "common/b,c.py")):
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text("x = 1\n")
        info = tmp_path / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Name: {name}\n")
        (info / "RECORD").write_text(f'"{file}",,\n')
    source = SourceTree(tmp_path)
    assert [source.owner(file)[0] for file in ("common/a.py", "common/b,c.py")] == ["one", "two"]


def test_patterns_and_files_made_to_be_slow_are_not(package: Path) -> None:
    started = time.process_time()
    slow = glob_filter("x/" + "*a" * 40 + "b/**/" * 10 + "*?" * 40 + "z")
    assert not slow("x/" + "a" * 200 + "/" + "a/" * 200 + "a" * 200)
    assert not may_define(b"beat " * 400_000, b"beat")
    assert not may_define(b"# = " + b"beat = " * 200_000, b"beat")
    assert time.process_time() - started < 5


@pytest.mark.parametrize(
    ("line", "defines"),
    [
        ("def beat(x):", True), ("class  beat:", True), ("    beat: int", True), ("a, beat = 1, 2", True),
        ("x.beat = 1", True), ("beat()", False), ("y = beat", False), ("f(a=1, b=beat)", False),
        ("# beat = 1", False), ("if beat: pass", False), ("beats = 1", False), ("use(beat)\nbeat = 1", True),
    ],
)  # fmt: skip
def test_only_what_may_define_a_name_is_parsed(line: str, defines: bool) -> None:
    assert may_define(f"{line}\n".encode(), b"beat") is defines


def test_a_searcher_that_hangs_or_is_slow_on_each_part_is_stopped(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "slow"
    program.write_text("#!/bin/sh\nsleep 0.3\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setattr(_candidates, "WORTH_A_PROCESS", 0)
    monkeypatch.setattr(_candidates, "ARGUMENTS", 40)  # a command line for each file
    monkeypatch.setattr(_candidates, "SECONDS", 0.8)
    source = SourceTree(package)
    with pytest.raises(ToolError, match="took more than"):
        holding(source, list(walk(source)), "beat", which=lambda name: str(program))


def test_what_python_warns_of_in_foreign_source_is_nobodys_news_in_any_thread() -> None:
    """Warnings are errors here: one that gets through makes of a good file one that cannot be parsed."""
    source = b"x = '\\d'\ny = 1 is 1\n"
    before, interval = list(warnings.filters), sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as pool:
            trees = list(pool.map(lambda _: parse_python(source), range(5000)))
    finally:
        sys.setswitchinterval(interval)
    assert all(len(tree.body) == 2 for tree in trees)
    assert warnings.filters == before
