"""What the source says of cells, without an investigation: as it was read before, or read now.

What was read before is found without importing what reads (:mod:`agent.cli.cells`): an answer is remembered
under all that it follows from, which is the question, the packages and this program.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from agent.cli.common import CommandError, progress
from agent.plain import plain
from agent.words import DEFAULT_ENGINE, one_engine
from memory.architecture import parse_architecture
from memory.canonical import sha256_of
from memory.home import Home
from memory.program import program_version
from tools.environment.model import Environment
from tools.viability.cache import TraceCache

FOLDERS = ("memory", "transcripts", "tools", "agent")


@dataclass(frozen=True)
class Question:
    """Which cells, and under what they are judged. No ``components``: all that matter; no ``backend``: every
    one. ``model`` is a name that the engine's own classes are looked up for; else ``model_classes`` count.
    """

    engine: str
    components: tuple[str, ...]
    archs: tuple[str, ...]
    backend: str | None = None
    quantisation: str | None = None
    scenario: dict[str, str] = field(default_factory=dict)
    model: str | None = None
    model_classes: tuple[str, ...] = ()
    checkpoint: str | None = None
    """The text of the model's ``config.json``."""
    tp: int | None = None
    """Over how many ranks tensors are divided."""
    choices: tuple[tuple[str, str], ...] = ()
    """Component and backend: these cells alone."""

    @property
    def models(self) -> tuple[str, ...]:
        """By what names the model is asked about, its classes' included."""
        named = json.loads(self.checkpoint).get("architectures") if self.checkpoint is not None else None
        classes = [str(one) for one in named] if isinstance(named, list) else []
        return (*([self.model] if self.model else []), *self.model_classes, *classes)


def architectures(home: Home, given: Sequence[str]) -> list[str]:
    """Architectures by name or GPU, each once; this machine's where none is given and it has one."""
    if given:
        return list(dict.fromkeys(parse_architecture(one).base.name for one in given))
    from agent.cli.common import local_archs

    local = local_archs(home)
    if len(local) == 1:
        return list(local)
    here = f" (this machine has {', '.join(local)})" if local else ""
    raise CommandError(f"no architecture was given{here}; give --arch sm120 or a GPU's name")


def engine_of(environment: Environment, named: str | None) -> str:
    """The engine that was named, else the only one of the environment, else the default."""
    return named or one_engine(environment.packages) or DEFAULT_ENGINE


def traces(home: Home, environment: Environment, question: Question) -> list[Any]:
    """A trace for each cell of ``question``, in order, as a :class:`agent.plain.Plain` document.

    Raises :class:`CommandError` for what the engine does not have: a component, a backend, a model, a fact.
    """
    key = sha256_of(["answer", program_version(*FOLDERS), environment.fingerprint, asdict(question)])
    with TraceCache(home.source_index_db, progress) as cache:
        found = cache.get_all(key)
        if found is None:
            from agent.cli.cells import read

            found, keys = read(home, environment, question)
            cache.put_all(key, keys)
            for row in (plain(text).row for text in found):
                one = replace(question, components=(row.component,), backend=row.backend, archs=(row.arch,))
                cache.put(_cell_key(environment, one), row.verdict)
    return [plain(text) for text in found]


def reports(
    home: Home, environment: Environment, question: Question, traced: Sequence[Any]
) -> list[tuple[dict[str, Any], ...]]:
    """What others saw of each trace's cell; nothing of what cannot be read now."""
    from agent.cli.findings_rows import views_of
    from agent.reported import reported
    from memory.database import StoreError

    with TraceCache(home.source_index_db, progress) as cache:
        try:
            return reported(
                views_of(home)[0], cache, traced, question.engine, environment.packages, question.models
            )
        except StoreError as error:
            progress(f"warning: {error}; what was recorded here is not shown")
            return [() for _ in traced]


def known_verdict(cache: TraceCache, environment: Environment, question: Question) -> str | None:
    """The verdict of the one cell of ``question``, if that was ever read there."""
    return cache.get(_cell_key(environment, question))


def _cell_key(environment: Environment, one: Question) -> str:
    return sha256_of(["cell", program_version(*FOLDERS), environment.fingerprint, asdict(one)])
