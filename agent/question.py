"""The question, read without a model: words are looked up in ``data/question.toml``, nothing is guessed.

What fits several things is listed, what contradicts itself is refused, and every default taken is a
sentence in ``Target.assumed``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from agent.text import squeeze
from agent.words import (
    QuestionError,
    filler,
    gpu_hints,
    one_quantisation,
    phrases,
    plain,
    quantisation_named,
    quantisations_in,
    words_data,
)
from memory.architecture import ArchitectureError, find_gpus, parse_architecture
from memory.vocabulary import Target

__all__ = ["DEFAULT_ENGINE", "NoArchitectureError", "QuestionError", "parse_question"]

DEFAULT_ENGINE = "sglang"
USAGE = 'ask for a model on an architecture, e.g. agent investigate "qwen3.5 nvfp4 on sm120"'

_VERSION = re.compile(r"v?(\d+(\.\d+)+[a-z0-9.+-]*)", re.IGNORECASE)
_TIMES = re.compile(r"(\d{1,4})[x×*](.*)", re.IGNORECASE)
_TIMES_SIGNS = frozenset({"x", "×", "*"})
_SIZE = re.compile(r"a?\d+(\.\d+)?[bt]", re.IGNORECASE)
_CAPABILITY = re.compile(r"(sm|compute)[ _-]?\d+\.?\d*[af]?", re.IGNORECASE)
_LONGEST_NAME = 6
"""Words in the longest GPU name that is looked for."""


class NoArchitectureError(QuestionError):
    """The question names none, and neither does anything else."""


@dataclass
class _Word:
    text: str
    taken: bool = False


@dataclass
class _Reading:
    """What has been understood so far."""

    words: list[_Word]
    packages: dict[str, str] = field(default_factory=dict)
    engines: dict[str, None] = field(default_factory=dict)
    archs: dict[str, str] = field(default_factory=dict)
    """Architecture → the words that named it."""
    loose: list[tuple[str, tuple[str, ...], str]] = field(default_factory=list)
    """GPU names that fit several architectures: the words, the architectures, the explanation."""
    gpu: str | None = None
    gpu_count: int | None = None
    assumed: list[str] = field(default_factory=list)

    def free(self, longest: int) -> Iterator[tuple[int, int]]:
        """Spans of words not taken yet, longest first."""
        for size in range(longest, 0, -1):
            for start in range(len(self.words) - size + 1):
                if not any(word.taken for word in self.words[start : start + size]):
                    yield start, start + size

    def text(self, start: int, end: int) -> str:
        return " ".join(word.text for word in self.words[start:end])

    def take(self, start: int, end: int) -> None:
        for word in self.words[start:end]:
            word.taken = True


def parse_question(
    text: str,
    *,
    arch: str | None = None,
    engine: str | None = None,
    packages: Mapping[str, str] | None = None,
    local_archs: Iterable[str] = (),
) -> Target:
    """``text`` as a target. ``arch``, ``engine`` and ``packages`` come from options and must agree with it.

    ``local_archs`` are the architectures of the GPUs of this machine: where the question names none
    and there is exactly one, it is assumed (and said). Raises :class:`QuestionError`.
    """
    if not text.strip():
        raise QuestionError(f"the question is empty; {USAGE}")
    reading = _Reading([_Word(word) for word in _split(text)])
    _read_packages(reading)
    _read_versions_of_others(reading)
    unknown = _read_architectures(reading, bare=False)
    if not reading.archs and arch is None:
        _read_architectures(reading, bare=True)
    if unknown and not reading.archs and arch is None:
        raise QuestionError(unknown)
    _read_gpu_count(reading)
    _read_kv_cache(reading)
    quantisations = _read_quantisations(reading)
    model = _read_model(reading)
    quantisation = one_quantisation(quantisations | quantisations_in(model or ""))
    chosen_engine = _one_engine(reading, engine)
    for name, version in (packages or {}).items():
        _add_package(reading, name, version)
    chosen_arch = _one_architecture(reading, arch, tuple(dict.fromkeys(local_archs)))
    if quantisation is None:
        reading.assumed.append("no quantisation was named: each backend is judged by its component's default")
    if model is None:
        reading.assumed.append("no model was named: model-specific rules are not applied")
    return Target(
        question=text,
        model=model,
        quantisation=quantisation,
        arch=chosen_arch,
        gpu=reading.gpu,
        gpu_count=reading.gpu_count,
        engine=chosen_engine,
        packages=reading.packages,
        assumed=tuple(reading.assumed),
    )


def _split(text: str) -> list[str]:
    words = (word.strip(",;!?()[]{}\"'`").rstrip(".:") for word in text.split())
    return [word for word in words if word]


def _read_packages(reading: _Reading) -> None:
    names = phrases("package")
    for start, end in list(reading.free(1)):
        name, equals, version = reading.words[start].text.partition("==")
        if equals and name and version:
            _add_package(reading, names.get(plain(name), name), version)
            reading.take(start, end)
    for start, end in list(reading.free(2)):
        package = names.get(plain(reading.text(start, end)))
        if package is None or any(word.taken for word in reading.words[start:end]):
            continue
        following = reading.words[end] if end < len(reading.words) else None
        version_match = _VERSION.fullmatch(following.text) if following and not following.taken else None
        if version_match:
            _add_package(reading, package, version_match[1])
            end += 1
        if words_data()["package"][package].get("engine"):
            reading.engines[package] = None
        reading.take(start, end)


def _add_package(reading: _Reading, name: str, version: str) -> None:
    had = reading.packages.setdefault(name, version)
    if had != version:
        raise QuestionError(f"{name} is named in two versions, {had} and {version}; give one")
    if words_data()["package"].get(name, {}).get("engine"):
        reading.engines[name] = None


def _read_versions_of_others(reading: _Reading) -> None:
    """ "cuda 12.8" is a version, not an architecture."""
    versioned = set(words_data()["versioned"]["words"])
    for index, word in enumerate(reading.words[1:], 1):
        if word.text[:1].isdigit() and reading.words[index - 1].text.lower() in versioned:
            reading.take(index - 1, index + 1)
            reading.assumed.append(
                f'"{squeeze(reading.text(index - 1, index + 1))}" was read and is not used: '
                "the versions that count are those of the packages"
            )


def _read_architectures(reading: _Reading, *, bare: bool) -> str | None:
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
        if name.rstrip("afAF").replace(".", "").isdigit() and not (bare and "." in name):
            continue
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


def _count(reading: _Reading, start: int, end: int, times: re.Match[str] | None) -> None:
    """Take the words of a GPU and the number in front of it ("8x RTX …", "two h200")."""
    number = int(times[1]) if times else None
    if number is None and start > 1 and reading.words[start - 1].text.lower() in _TIMES_SIGNS:
        start -= 1
    if number is None and start > 0 and not reading.words[start - 1].taken:
        number = _number(reading.words[start - 1].text)
        if number is not None:
            start -= 1
    reading.take(start, end)
    if number is not None:
        _set_count(reading, number)


def _number(text: str) -> int | None:
    digits = re.fullmatch(r"(\d{1,4})[x×*]?", text, re.IGNORECASE)
    if digits:
        return int(digits[1])
    known = words_data()["numbers"].get(text.lower())
    return None if text.lower() == "a" else known


def _set_count(reading: _Reading, number: int) -> None:
    if number < 1:
        raise QuestionError("the number of GPUs must be at least 1")
    if reading.gpu_count not in (None, number):
        raise QuestionError(f"two numbers of GPUs are named, {reading.gpu_count} and {number}; give one")
    reading.gpu_count = number


def _read_gpu_count(reading: _Reading) -> None:
    for index, word in enumerate(reading.words[1:], 1):
        before = reading.words[index - 1]
        if word.text.lower() in ("gpu", "gpus", "card", "cards") and not before.taken:
            number = _number(before.text)
            if number is not None:
                _set_count(reading, number)
                reading.take(index - 1, index + 1)


def _read_kv_cache(reading: _Reading) -> None:
    """ "fp8 kv cache" says nothing of the weights."""
    names = {plain(word) for word in words_data()["kv_cache"]["words"]}
    types = {plain(word) for word in words_data()["kv_cache"]["types"]}
    for start, end in list(reading.free(4)):
        if any(word.taken for word in reading.words[start:end]):
            continue
        for cut in range(start + 1, end):
            head, tail = plain(reading.text(start, cut)), plain(reading.text(cut, end))
            if (head in types and tail in names) or (head in names and tail in types):
                reading.take(start, end)
                kind = squeeze(reading.text(start, end))
                reading.assumed.append(f'"{kind}" was read as the type of the KV cache and is not traced')
                break


def _read_quantisations(reading: _Reading) -> set[str]:
    found: set[str] = set()
    for start, end in list(reading.free(3)):
        text = reading.text(start, end)
        if any(word.taken for word in reading.words[start:end]):
            continue
        named = quantisation_named(text)
        if named:
            found.add(named)
            reading.take(start, end)
    return found


def _one_engine(reading: _Reading, option: str | None) -> str:
    if option is not None:
        wanted = phrases("package").get(plain(option), option)
        if not words_data()["package"].get(wanted, {}).get("engine"):
            known = [name for name, entry in words_data()["package"].items() if entry.get("engine")]
            raise QuestionError(f"unknown engine {squeeze(option)!r}; expected one of {', '.join(known)}")
        reading.engines[wanted] = None
    if len(reading.engines) > 1:
        raise QuestionError(f"several engines are named: {', '.join(reading.engines)}; name one")
    if not reading.engines:
        reading.assumed.append(f"engine {DEFAULT_ENGINE}: none was named")
    return next(iter(reading.engines), DEFAULT_ENGINE)


def _one_architecture(reading: _Reading, option: str | None, local: tuple[str, ...]) -> str:
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


def _read_model(reading: _Reading) -> str | None:
    """What is left over: the run of words that looks like a name. A size ("397B") goes with the run."""
    runs: list[list[str]] = []
    adjacent = False
    for word in reading.words:
        if word.taken or word.text.lower() in filler() or not any(map(str.isalnum, word.text)):
            adjacent = False
        elif runs and (adjacent or _SIZE.fullmatch(word.text)):
            runs[-1].append(word.text)
            adjacent = True
        else:
            runs.append([word.text])
            adjacent = True
    named = [" ".join(run) for run in runs]
    likely = [name for name in named if name[0].isalpha() and re.search(r"[\d/_-]", name)] or named
    if len(likely) > 1:
        listed = ", ".join(repr(squeeze(name)) for name in likely)
        raise QuestionError(f"several words could be the model: {listed}; name one model")
    ignored = [squeeze(name) for name in named if name not in likely]
    if ignored:
        reading.assumed.append("not understood and ignored: " + ", ".join(repr(word) for word in ignored))
    return likely[0] if likely else None
