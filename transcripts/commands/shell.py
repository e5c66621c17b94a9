"""Where a command runs, and what is known there: wrappers undone so far, folder, variables."""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass, field, replace

from transcripts.commands.model import Fields
from transcripts.commands.words import Arg, UnsoundError, Word

_OPTION_LIKE = re.compile(r"\s|^-")
_HARMLESS_VALUE = re.compile(r"[\w./:@%+,~*?=][\w./:@%+,~*?=-]*")
_NAME = re.compile(r"[A-Za-z_]\w*")
LONGEST = 20_000
"""Characters that variables may add to one word."""

_PLAIN = re.compile(
    r"LC_\w+|LANG|LANGUAGE|TZ|TERM|COLUMNS|LINES|NO_COLOR|CLICOLOR\w*|FORCE_COLOR|DEBIAN_FRONTEND|HF_\w+|OMP_\w+"
    r"|(?:CUDA|NVIDIA|NCCL|TORCH|TRITON|HIP|ROCR|MKL|TOKENIZERS)_\w+|[a-z][a-z0-9]*|[A-Z]\w{0,2}"
)
"""Names of variables that do not change what a reading program runs, exported or not."""

_TELLING = re.compile(
    r"PATH|CDPATH|IFS|ENV|SHELL|SHELLOPTS|HOME|PS4|PROMPT_COMMAND|EDITOR|VISUAL|TMPDIR|\w*PAGER\w*|POSIXLY_CORRECT"
    r"|(?:LD|DYLD|GIT|BASH|ZSH|PYTHON|PERL|RUBY|NODE|LESS|MORE|GREP|RIPGREP|BAT|AWK|GAWK|XDG|SSH|SUDO|MALLOC|GLIBC"
    r"|GCONV|NLS|LOC|DOCKER|KUBE|PIP|UV|CONDA|HISTFILE|FZF|TREE|TMUX|JQ|CURL|WGET|NSS|LS|BLOCK|TIME)\w*"
    r"|\w*(?:PRELOAD|STARTUP)\w*"
)
"""Names of variables that may change what runs, even when they are only set."""


@dataclass
class Shell:
    where: Fields = field(default_factory=dict)
    """What wrappers said: ``host``, ``container``, ``tmux``, ``timeout_s``, …"""
    cwd: str | None = None
    venv: str | None = None
    env: dict[str, str] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)
    loop: dict[str, list[str]] = field(default_factory=dict)
    depth: int = 0
    """Scripts within scripts."""
    background: bool = False

    def copy(self) -> Shell:
        """The same for a part that changes nothing out here: a subshell, a pipe, another host."""
        return replace(
            self,
            where=dict(self.where),
            env=dict(self.env),
            variables=dict(self.variables),
            loop=dict(self.loop),
        )

    def inner(self, **where: object) -> Shell:
        """A shell of its own one wrapper further in: it knows none of the variables out here."""
        made = self.copy()
        made.where.update({name: value for name, value in where.items() if value is not None})
        made.variables = {}
        made.depth += 1
        return made

    def fields(self) -> Fields:
        """What every step has besides its own: the wrappers, the folder, the environment."""
        found = dict(self.where)
        if self.cwd is not None:
            found["cwd"] = self.cwd
        if self.venv is not None:
            found["venv"] = self.venv
        if self.env:
            found["env"] = dict(self.env)
        if self.loop:
            found["loop"] = {name: list(values) for name, values in self.loop.items()}
        if self.background:
            found["background"] = True
        return found

    def enter(self, folder: str) -> None:
        """``cd folder``."""
        if folder.startswith(("/", "~", "$")) or self.cwd is None:
            self.cwd = folder
        else:
            self.cwd = posixpath.normpath(posixpath.join(self.cwd, folder))

    def text(self, word: Word) -> Arg:
        """A word with the variables that are known here put in; the others stay as they are written."""
        out: list[str] = []
        unsure = open_ = False
        room = LONGEST
        for piece in word.pieces:
            if piece.raw:
                unsure |= not piece.quoted
                open_ = True
                out.append(piece.text)
            elif piece.name is None:
                out.append(piece.text)
            elif piece.name in self.variables:
                value = self.variables[piece.name]
                unsure |= not piece.quoted and bool(_OPTION_LIKE.search(value))
                room -= len(value)
                if room < 0:
                    raise UnsoundError("a variable that grows without end")
                out.append(value)
            else:
                values = self.loop.get(piece.name)
                known = values is not None and all(_HARMLESS_VALUE.fullmatch(one) for one in values)
                unsure |= not piece.quoted and not known
                open_ |= not known
                out.append(piece.text)
        return Arg("".join(out), unsure, open_)


def is_harmless_variable(name: str, *, exported: bool) -> bool:
    """Whether giving a variable this name a value leaves alone what later programs run."""
    if not _NAME.fullmatch(name):
        return False
    return not _TELLING.fullmatch(name) and (not exported or bool(_PLAIN.fullmatch(name)))
