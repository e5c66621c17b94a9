"""Words of a shell command: quotes taken off, expansions kept apart as they stand.

A word is a row of pieces. Text is what the shell would see after quoting; a variable or a substitution stays
as it is written until its value is known (:meth:`transcripts.commands.shell.Shell.text`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transcripts.commands.syntax import Block


class UnsoundError(Exception):
    """The text is no sound shell command, or too long or too deep to be one that a person would write."""


@dataclass
class Piece:
    text: str
    name: str | None = None
    """Of the variable whose value stands here."""
    raw: bool = False
    """An expansion whose value is not to be had: ``text`` is how it is written."""
    quoted: bool = False


@dataclass
class Word:
    pieces: list[Piece] = field(default_factory=list)
    nested: list[Block] = field(default_factory=list)
    """What runs to make this word: command and process substitutions."""


class Arg(str):
    """A word as text.

    ``unsure``: the shell may make something else of it, even several words. ``open``: it holds something
    whose value is not known; as a script it may be any.
    """

    __slots__ = ("open", "unsure")
    unsure: bool
    open: bool

    def __new__(cls, text: str, unsure: bool = False, open_: bool = False) -> Arg:
        made = super().__new__(cls, text)
        made.unsure = unsure
        made.open = open_ or unsure
        return made


EXPANSIONS = {
    "simple_expansion",
    "expansion",
    "command_substitution",
    "process_substitution",
    "arithmetic_expansion",
}
_ESCAPE = re.compile(r"\\(\n|.)", re.DOTALL)
_ESCAPE_IN_DOUBLE = re.compile(r'\\(["$`\\\n])')
_ANSI = re.compile(r"\\(x[0-9a-fA-F]{1,2}|u[0-9a-fA-F]{1,4}|U[0-9a-fA-F]{1,8}|[0-7]{1,3}|c.|.)", re.DOTALL)
_ANSI_LETTERS = {"a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_PLAIN_EXPANSION = re.compile(r"\$(?:([A-Za-z_]\w*)|\{([A-Za-z_]\w*)\})")


def make_word(node: Any, blocks: Any) -> Word:
    """The word at a syntax node. ``blocks`` makes a :class:`Block` of a node that holds statements."""
    word = Word()
    _add(node, word, blocks, quoted=False)
    return word


def _add(node: Any, word: Word, blocks: Any, *, quoted: bool) -> None:
    kind = node.type
    if kind in EXPANSIONS:
        _add_expansion(node, word, blocks, quoted=quoted)
    elif kind == "raw_string":
        word.pieces.append(Piece(text_of(node)[1:-1], quoted=True))
    elif kind == "ansi_c_string":
        word.pieces.append(Piece(_ANSI.sub(_ansi, text_of(node)[2:-1]), quoted=True))
    elif kind == "translated_string":
        for child in node.named_children:
            _add(child, word, blocks, quoted=True)
    elif kind == "string":
        _between(node, word, blocks, quoted=True)
    elif node.named_child_count and kind not in {"extglob_pattern", "regex", "brace_expression"}:
        _between(node, word, blocks, quoted=quoted)
    else:
        word.pieces.append(Piece(_ESCAPE.sub(_unescape, text_of(node)), quoted=quoted))
        word.nested += nested_in(node, blocks)


def _between(node: Any, word: Word, blocks: Any, *, quoted: bool) -> None:
    """Children, and the text between them, which the grammar leaves out in places."""
    source, place, end = text_bytes(node), node.start_byte, node.end_byte
    string = node.type == "string"
    if string:  # without its quotes
        place, end = place + 1, end - 1
    for child in node.named_children:
        if string and child.type not in EXPANSIONS:
            continue  # plain content, which is taken as what lies between expansions
        _literal(source, node.start_byte, place, child.start_byte, word, quoted)
        _add(child, word, blocks, quoted=quoted)
        place = child.end_byte
    _literal(source, node.start_byte, place, end, word, quoted)
    if quoted and not word.pieces:
        word.pieces.append(Piece("", quoted=True))


def _literal(source: bytes, base: int, start: int, end: int, word: Word, quoted: bool) -> None:
    if end > start:
        text = source[start - base : end - base].decode("utf-8", "replace")
        pattern = _ESCAPE_IN_DOUBLE if quoted else _ESCAPE
        word.pieces.append(Piece(pattern.sub(_unescape, text), quoted=quoted))


def _add_expansion(node: Any, word: Word, blocks: Any, *, quoted: bool) -> None:
    text = text_of(node)
    plain = _PLAIN_EXPANSION.fullmatch(text)
    if plain:
        word.pieces.append(Piece(text, name=plain[1] or plain[2], quoted=quoted))
    else:
        word.pieces.append(Piece(text, raw=True, quoted=quoted))
        word.nested += nested_in(node, blocks)
        if (
            is_hiding(node) or "@P}" in text or "[" in text.partition("$(")[0]
        ):  # values that are run when they are looked at
            word.nested.append(blocks(None))


def nested_in(node: Any, blocks: Any) -> list[Block]:
    """What runs inside a node: its outermost command and process substitutions."""
    if node.type in {"command_substitution", "process_substitution"}:
        return [blocks(node)]
    return [block for child in node.named_children for block in nested_in(child, blocks)]


def is_hiding(node: Any) -> bool:
    """Whether a node's text has more substitutions than the grammar found in it: quotes within ``${…}`` or a
    here-document are none to the shell."""
    text = text_of(node)
    written = text.count("`") // 2 + text.count("$(") - text.count("$((")
    return written > _substitutions(node)


def _substitutions(node: Any) -> int:
    return int(node.type == "command_substitution") + sum(map(_substitutions, node.named_children))


def text_bytes(node: Any) -> bytes:
    text: bytes = node.text or b""
    return text


def text_of(node: Any) -> str:
    return text_bytes(node).decode("utf-8", "replace")


def _unescape(found: re.Match[str]) -> str:
    return "" if found[1] == "\n" else found[1]


def _ansi(found: re.Match[str]) -> str:
    code = found[1]
    if code[0] in "xuU":
        number = int(code[1:], 16) if len(code) > 1 else 0
        return chr(number) if number < 0x110000 else "�"
    if code[0] in "01234567":
        return chr(int(code, 8))
    if code[0] == "c" and len(code) == 2:
        return chr(ord(code[1]) & 0x1F)
    return _ANSI_LETTERS.get(code, code)
