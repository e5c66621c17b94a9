"""What a logger, a container runtime or a journal put in front of a line, taken off again.

Patterns match at the beginning of a line only, and a repetition in them is over characters that what follows
it does not hold: none of them backtracks.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

LONGEST = 8192
"""Characters of a line that are looked at."""

_REPEATED = re.compile(r" \[repeated \d+x across cluster\]$")
"""What ray says of lines that several processes wrote."""
_CONTROL = re.compile(
    r"(?:\x1b|#033)\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\[\d{1,2}(?:;\d{1,3})*m"
)
"""Colours, also those that lost their escape where a log was copied, or that syslog wrote in digits."""
_BOLD = re.compile(r"\*\*[\w.]*(?:Error|Exception)\b")
_LEVEL = r"(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL)"
_LEVEL_OF = _LEVEL.replace("?P<level>", "?:")
_LETTERS = {"V": "DEBUG", "D": "DEBUG", "I": "INFO", "W": "WARNING", "E": "ERROR", "F": "CRITICAL"}
"""Levels of which some loggers write the first letter alone."""
_TIME = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?"
_DRESSING = tuple(
    re.compile(pattern)
    for pattern in (
        r"\[pod/[^\]]+\] ?",  # kubectl logs --prefix
        r" *[Ll]ine \d{1,7}: ",  # what an editor found
        r"\d{1,7}:(?=\(|\[|(?:DEBUG|INFO|WARNING|ERROR) )",  # what grep found
        r"\[\d+,\d+\]<std(?:err|out)>: ?",  # mpirun
        rf" {{1,8}}(?=\((?:\w+ )?(?:rank=\d+ )?pid=\d|\[{_TIME}|{_LEVEL_OF} \d\d-\d\d \d\d:)",  # set in
        r"[\w.-]+ +\| ?",  # docker compose
        r"[│┃║] ?",  # panes of a terminal
        r"(?:\^[CZ])+",  # keys that a terminal shows
        r">(?: |$)",  # mails, and questions asked of others
        rf" *\| (?={_TIME})",
        rf"\[{_TIME}Z\] ?",  # builds
        rf"{_TIME}(?:Z|[+-]\d\d:?\d\d) (?:(?:stdout|stderr) [FP] |\| ?)?",  # docker logs -t, CRI
        rf"{_TIME} +\| ?(?:[A-Z]+ +\| +(?:[\w.:<>-]+ +[|-] ?)?)?",  # docker's desktop, loguru
        r"[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d (?:\S+ )?[\w./@:-]+(?:\[\d+\])?: ",  # journald, syslog
        r"\[(?P<rank>rank\d+|default\d+|\d+)\]: ?",  # torchrun, mpirun
        rf"\[{_TIME}(?: (?P<rank>[A-Z]+\d+[^\]]*))?\] (?=(?P<logged>))",  # sglang
        r"\((?P<rank>[\w.: -]*(?:rank=\d+ +)?pid=\d+)[^()]*\) ?",  # vllm, ray
        r"\[(?P<rank>[\w.: -]*pid=\d+)\] ?",  # vllm of one's own
        r"\((?:raylet|autoscaler|gcs_server)[^()]*\) ?",  # ray itself
        rf"{_LEVEL} (?:\d{{4}}-)?\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)? (?:\[?[\w./-]+:\d+\] ?)?",  # vllm
        rf"{_LEVEL} +\[[\w./-]+\.py:\d+\] ?",  # the same whose time was left out
        rf"\[[A-Z]\w+ \(\w+\)\] (?={_TIME})",  # sglang's router
        rf"{_TIME} - (?:\S+ - )?{_LEVEL} - (?:\S+ - )?",
        rf"{_TIME} (?! *[|-])",
        rf"{_LEVEL}:[\w.]+:",  # Python's own logger
        r"(?:\[\d\d/\d\d/\d{4}-\d\d:\d\d:\d\d\] )?\[[A-Za-z][\w-]*\] ?(?:\[RANK (?P<rank>\d+)\] )?"
        r"\[(?P<level>[VDIWEF]|DEBUG|INFO|WARNING|ERROR)\] ",  # TensorRT's
        r"(?P<level>[DIWEF])\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ [\w./-]+:\d+\] ?",  # glog
    )
)


@dataclass(frozen=True)
class Line:
    """A line as its program wrote it."""

    text: str
    rank: str | None = None
    """Which of several processes wrote it, as the log calls it; None where it does not say."""
    outer: str | None = None
    """Which one passed it on, where both are named; of what goes on with a record it may be named alone."""
    level: str | None = None
    """``WARNING``, ``ERROR``, …, where it says so."""
    logged: bool = False
    """Whether a logger of the program began a record here."""


def undress(line: str) -> Line:
    """Take off colours, times, container and unit names, ranks and levels, in whatever order they stand."""
    text = _REPEATED.sub("", plain(line[:LONGEST]))
    rank = outer = level = None
    logged = False
    bare = False
    while not bare:
        bare = True
        for pattern in _DRESSING:
            if match := pattern.match(text):
                found = match.groupdict()
                if found.get("rank"):
                    rank, outer = found["rank"], outer or rank
                level = _LETTERS.get(named := found.get("level") or "", named) or level
                logged = logged or found.get("logged") is not None or found.get("level") is not None
                text = text[match.end() :]
                bare = not match.end()
                break
    if _BOLD.match(text):
        text = text.replace("**", "")
    return Line(text.rstrip(), rank, outer, level, logged)


def plain(line: str) -> str:
    """A line without colours; of docker's files what was logged."""
    return _logged(line) if line.startswith('{"log":') else _bare(line)


def _bare(text: str) -> str:
    # Editors show the line ends of another system as ^M, and so they are copied; syslog writes digits.
    return _CONTROL.sub("", text).rstrip("\r\n").removesuffix("^M").removesuffix("#015")


def _logged(text: str) -> str:
    try:
        value = json.loads(text).get("log")
    except (ValueError, AttributeError):
        return text
    return _CONTROL.sub("", value).rstrip("\r\n") if isinstance(value, str) else text
