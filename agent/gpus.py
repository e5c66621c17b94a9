"""GPUs in a question: architectures, names of products, and how many of them."""

from __future__ import annotations

import re

from agent.reading import Reading
from agent.text import squeeze
from agent.words import QuestionError, filler, gpu_hints, plain, words_data
from memory.architecture import ArchitectureError, find_gpus, parse_architecture

_TIMES = re.compile(r"(\d{1,4})[x×*](.*)", re.IGNORECASE)
_TIMES_SIGNS = frozenset({"x", "×", "*"})
_PLACES = frozenset({"on", "@"})
_AFTER = re.compile(r"[x×*](\d{1,4})", re.IGNORECASE)
_TENSOR_PARALLEL = re.compile(
    r"(--)?(tp|tp[-_]?size|tensor[-_ ]parallel([-_]size)?)[ =]?(\d{1,4})", re.IGNORECASE
)
_OTHER_RANKS = re.compile(r"(--)?(ep|dp|pp|cp|dcp)([-_]?size)?[ =]?\d{1,4}", re.IGNORECASE)
_CAPABILITY = re.compile(r"(sm|compute)[ _-]?\d+\.?\d*[af]?", re.IGNORECASE)
_LONGEST_NAME = 6
"""Words in the longest GPU name that is looked for."""


class NoArchitectureError(QuestionError):
    """The question names none, and neither does anything else."""


def read_architectures(reading: Reading, *, bare: bool) -> str | None:
    """Architectures and GPU names; ``bare`` takes a number such as ``12.0`` for one too.

    The result explains a word that looks like one and is unknown.
    """
    unknown = None
    for start, end in reading.free(_LONGEST_NAME):
        text = reading.text(start, end)
        times = _TIMES.fullmatch(text)
        name = times[2].strip() if times else text
        words = name.split()
        if not words or {words[0].lower(), words[-1].lower()} & (filler() | _TIMES_SIGNS):
            continue
        if name.rstrip("afAF").replace(".", "").isdigit() and not (bare and ("." in name or find_gpus(name))):
            continue
        if name[-1] in "sS" and not find_gpus(name) and find_gpus(name[:-1]):
            name = name[:-1]
        try:
            found = parse_architecture(name)
        except ArchitectureError as error:
            archs = tuple(dict.fromkeys(gpu.architecture.name for gpu in error.candidates))
            if archs:
                reading.loose.append((name, archs, str(error)))
                _count(reading, start, end, times)
            elif plain(words[0]) in gpu_hints() or _CAPABILITY.fullmatch(name):
                unknown = unknown or str(error)
            continue
        reading.archs.setdefault(found.base.name, name)
        if find_gpus(name):
            reading.gpu = name
        _count(reading, start, end, times)
    return unknown


def unknown_place(reading: Reading) -> str | None:
    """The explanation of a word that is said where an architecture stands ("on mi300x") and is none."""
    for before, word in zip(reading.words, reading.words[1:], strict=False):
        if before.text.lower() not in _PLACES or word.taken or word.text.lower() in filler():
            continue
        try:
            parse_architecture(word.text)
        except ArchitectureError as error:
            return str(error)
    return None


def _count(reading: Reading, start: int, end: int, times: re.Match[str] | None) -> None:
    """Take the words of a GPU and the number beside it ("8x RTX …", "two h200", "h200 x8")."""
    number = int(times[1]) if times else None
    if number is None and start > 1 and reading.words[start - 1].text.lower() in _TIMES_SIGNS:
        start -= 1
    if number is None and start > 0 and not reading.words[start - 1].taken:
        number = _number(reading.words[start - 1].text)
        if number is not None:
            start -= 1
    following = reading.words[end] if number is None and end < len(reading.words) else None
    if following is not None and not following.taken and (after := _AFTER.fullmatch(following.text)):
        number = int(after[1])
        end += 1
    elif following is not None and following.text.lower() in _TIMES_SIGNS and end + 1 < len(reading.words):
        number = _number(reading.words[end + 1].text)
        end += 2 if number is not None else 0
    reading.take(start, end)
    if number is not None:
        _set_count(reading, number)


def _number(text: str) -> int | None:
    digits = re.fullmatch(r"(\d{1,4})[x×*]?", text, re.IGNORECASE)
    if digits:
        return int(digits[1])
    known = words_data()["numbers"].get(text.lower())
    return None if text.lower() == "a" else known


def _set_count(reading: Reading, number: int) -> None:
    if number < 1:
        raise QuestionError("the number of GPUs must be at least 1")
    if reading.gpu_count not in (None, number):
        raise QuestionError(f"two numbers of GPUs are named, {reading.gpu_count} and {number}; give one")
    reading.gpu_count = number


def read_gpu_count(reading: Reading) -> None:
    for index, word in enumerate(reading.words[1:], 1):
        before = reading.words[index - 1]
        if word.text.lower() in ("gpu", "gpus", "card", "cards") and not before.taken:
            number = _number(before.text)
            if number is not None:
                _set_count(reading, number)
                reading.take(index - 1, index + 1)
    for start, end in list(reading.free(2)):
        if _OTHER_RANKS.fullmatch(reading.text(start, end)):
            reading.take(start, end)
            reading.assumed.append(f'"{squeeze(reading.text(start, end))}" was read and is not used')
    for start, end in list(reading.free(3)):
        text = reading.text(start, end)
        match = _TENSOR_PARALLEL.fullmatch(text)
        if match is None or any(word.taken for word in reading.words[start:end]):
            continue
        reading.take(start, end)
        if reading.gpu_count in (None, int(match[4])):
            _set_count(reading, int(match[4]))
            reading.assumed.append(f'"{squeeze(text)}" was read as {int(match[4])} GPUs')
        else:
            reading.assumed.append(
                f'"{squeeze(text)}" was read and is not used: {reading.gpu_count} GPUs are named'
            )


def one_architecture(reading: Reading, option: str | None, local: tuple[str, ...]) -> str:
    if option is not None:
        try:
            reading.archs.setdefault(parse_architecture(option).base.name, option)
        except ArchitectureError as error:
            raise QuestionError(str(error)) from error
    for words, candidates, explanation in reading.loose:
        if not set(candidates) & set(reading.archs):
            if reading.archs:
                named = ", ".join(reading.archs)
                raise QuestionError(f"{squeeze(words)!r} is one of {', '.join(candidates)}, not {named}")
            raise QuestionError(explanation)
    if len(reading.archs) > 1:
        both = " and ".join(
            arch if plain(words) == arch else f"{arch} ({squeeze(words)})"
            for arch, words in reading.archs.items()
        )
        raise QuestionError(f"two architectures are named, {both}; give one")
    if reading.archs:
        return next(iter(reading.archs))
    if len(local) == 1:
        reading.assumed.append(f"architecture {local[0]}: the GPU of this machine")
        return local[0]
    here = f" (this machine has {', '.join(local)})" if local else ""
    raise NoArchitectureError(
        f'no GPU architecture in the question{here}; say "on sm120" or give --arch sm120'
    )
