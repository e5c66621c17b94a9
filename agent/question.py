"""The question, read without a model: words are looked up in ``data/question.toml``, nothing is guessed.

What fits several things is listed, what contradicts itself is refused, and every default taken is a
sentence in ``Target.assumed``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from agent.gpus import (
    NoArchitectureError,
    one_architecture,
    read_architectures,
    read_gpu_count,
    unknown_place,
)
from agent.reading import Reading, Word, split
from agent.text import squeeze
from agent.words import (
    DEFAULT_ENGINE,
    QuestionError,
    filler,
    is_engine,
    one_engine,
    one_quantisation,
    phrases,
    plain,
    quantisation_named,
    quantisations_in,
    refuse_unjudged,
    words_data,
)
from memory.vocabulary import Target

__all__ = ["DEFAULT_ENGINE", "NoArchitectureError", "QuestionError", "parse_question"]

USAGE = 'ask for a model on an architecture, e.g. agent investigate "qwen3.5 nvfp4 on sm120"'

NO_MODEL = "no model was named: model-specific rules are not applied"
NO_QUANTISATION = "no quantisation was named: each backend is judged by its component's default"

_VERSION = re.compile(r"v?(\d+(\.\d+)+[a-z0-9.+-]*)", re.IGNORECASE)
_IDENTIFIER = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)+")
_SIZE = re.compile(r"a?\d+(\.\d+)?[bt]", re.IGNORECASE)
LONGEST_QUESTION = 2000
"""Characters. What is longer is a document, and names of models and GPUs are not looked for in those."""


def parse_question(
    text: str,
    *,
    arch: str | None = None,
    engine: str | None = None,
    requirements: Iterable[str] = (),
    installed: Mapping[str, str] = MappingProxyType({}),
    local_archs: Iterable[str] = (),
) -> Target:
    """``text`` as a target. ``arch``, ``engine`` and ``requirements`` (``P==V`` or ``P``) come from options
    and must agree with it.

    ``installed`` are the packages of the environment that was named (which must agree too), ``local_archs``
    the architectures of the GPUs of this machine: where nothing else says it and there is exactly one engine
    or architecture among them, it is assumed (and said). Raises :class:`QuestionError`.
    """
    if not text.strip():
        raise QuestionError(f"the question is empty; {USAGE}")
    if len(text) > LONGEST_QUESTION:
        raise QuestionError(
            f"the question has {len(text)} characters, at most {LONGEST_QUESTION} are read; {USAGE}"
        )
    reading = Reading([Word(word) for word in split(text)])
    _read_packages(reading)
    _read_versions_of_others(reading)
    unknown = read_architectures(reading, bare=False)
    if not reading.archs and arch is None:
        read_architectures(reading, bare=True)
    if not reading.archs and not reading.loose and arch is None:
        unknown = unknown or unknown_place(reading)
        if unknown:
            raise QuestionError(unknown)
    read_gpu_count(reading)
    _read_kv_cache(reading)
    quantisations = _read_quantisations(reading)
    model = _read_model(reading)
    refuse_unjudged(model or "")
    quantisation = one_quantisation(quantisations | quantisations_in(model or ""))
    named = dict(reading.packages)
    for requirement in requirements:
        _read_requirement(reading, requirement)
    for name, version in reading.packages.items():
        # A build of a version for some CUDA (1.2+cu130) is that version.
        if version not in ((there := installed.get(name, version)), there.partition("+")[0]):
            raise QuestionError(
                f"{name} {version} is named, but the environment has {there}; give another environment"
            )
    chosen_engine = _one_engine(reading, engine, installed)
    chosen_arch = one_architecture(reading, arch, tuple(dict.fromkeys(local_archs)))
    if quantisation is None:
        reading.assumed.append(NO_QUANTISATION)
    if model is None:
        reading.assumed.append(NO_MODEL)
    return Target(
        question=text,
        model=model,
        quantisation=quantisation,
        arch=chosen_arch,
        gpu=reading.gpu,
        gpu_count=reading.gpu_count,
        engine=chosen_engine,
        packages=named,
        assumed=tuple(reading.assumed),
    )


def _read_packages(reading: Reading) -> None:
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
        if is_engine(package):
            reading.engines[package] = None
        reading.take(start, end)


def _read_requirement(reading: Reading, requirement: str) -> None:
    """A package of an option: its version must be the question's, an engine among them is the engine."""
    name, _, version = (part.strip() for part in requirement.partition("=="))
    name = re.sub(r"[-_.]+", "-", name).lower()
    if version:
        _add_package(reading, name, version)
    elif is_engine(name):
        reading.engines[name] = None


def _add_package(reading: Reading, name: str, version: str) -> None:
    had = reading.packages.setdefault(name, version)
    if had != version:
        raise QuestionError(f"{name} is named in two versions, {had} and {version}; give one")
    if is_engine(name):
        reading.engines[name] = None


def _read_versions_of_others(reading: Reading) -> None:
    """ "cuda 12.8" is a version, not an architecture."""
    versioned = set(words_data()["versioned"]["words"])
    for index, word in enumerate(reading.words[1:], 1):
        if word.text[:1].isdigit() and reading.words[index - 1].text.lower() in versioned:
            reading.take(index - 1, index + 1)
            reading.assumed.append(
                f'"{squeeze(reading.text(index - 1, index + 1))}" was read and is not used: '
                "the versions that count are those of the packages"
            )


def _read_kv_cache(reading: Reading) -> None:
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


def _read_quantisations(reading: Reading) -> set[str]:
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


def _one_engine(reading: Reading, option: str | None, installed: Iterable[str]) -> str:
    if option is not None:
        wanted = phrases("package").get(plain(option), option)
        if not is_engine(wanted):
            known = [name for name in words_data()["package"] if is_engine(name)]
            raise QuestionError(f"unknown engine {squeeze(option)!r}; expected one of {', '.join(known)}")
        reading.engines[wanted] = None
    if len(reading.engines) > 1:
        raise QuestionError(f"several engines are named: {', '.join(reading.engines)}; name one")
    if reading.engines:
        return next(iter(reading.engines))
    found = one_engine(installed)
    reading.assumed.append(
        f"engine {DEFAULT_ENGINE}: none was named"
        if found is None
        else f"engine {found}: the one of this environment"
    )
    return found or DEFAULT_ENGINE


def _read_model(reading: Reading) -> str | None:
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
    # A backend's name in a question is written like this one's value; a model's hardly ever is.
    likely = [name for name in likely if not _IDENTIFIER.fullmatch(name)] or likely
    if len(likely) > 1:
        listed = ", ".join(repr(squeeze(name)) for name in likely)
        raise QuestionError(f"several words could be the model: {listed}; name one model")
    ignored = [squeeze(name) for name in named if name not in likely]
    if ignored:
        reading.assumed.append("not understood and ignored: " + ", ".join(repr(word) for word in ignored))
    return likely[0] if likely else None
