"""What a client may begin with: a question, and packages that a person gave or that lie here already."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from agent.cli.common import local_archs, scenario_of
from agent.policy import Policy
from agent.question import NoArchitectureError, parse_question
from memory.architecture import parse_architecture
from memory.home import Home
from memory.vocabulary import Effect, Target
from tools.environment.create import create_environment
from tools.environment.model import Environment
from tools.environment.store import list_environments, open_environment, open_for
from tools.errors import ToolError


class BeginInvestigation(BaseModel):
    """Begin an investigation: the analyser follows every backend through the source; you get the board."""

    model_config = ConfigDict(extra="forbid")

    question: str = Field(
        min_length=1,
        max_length=2000,
        description="Model, quantisation and GPU or architecture, e.g. qwen3.5 nvfp4 on sm120.",
    )
    environment: str | None = Field(
        default=None, max_length=300, description="Name of an environment here; else the one of this server."
    )
    packages: tuple[str, ...] = Field(
        default=(), max_length=20, description="NAME==VERSION to fetch and read, where that is granted."
    )
    arch: str | None = Field(default=None, max_length=100, description="Where the question does not say.")
    engine: str | None = Field(default=None, max_length=100)
    scenario: tuple[str, ...] = Field(
        default=(), max_length=50, description="[COMPONENT.]KEY=VALUE: facts to judge under."
    )


class ResumeInvestigation(BaseModel):
    """Go on with an investigation that a client had begun and that did not come to its end."""

    model_config = ConfigDict(extra="forbid")

    investigation: str = Field(max_length=100, description="Its id; one that a client had begun.")


@dataclass(frozen=True)
class Given:
    """What the person gave at the start. ``environment``: a name or a folder; or ``requirements``."""

    environment: str | None = None
    requirements: tuple[str, ...] = ()
    arch: str | None = None
    engine: str | None = None


@dataclass(frozen=True)
class _Granted:
    """The context in which a client names an environment: one here, or the very folder that was given."""

    home: Home
    folders: tuple[Path, ...]


class Beginnings:
    """Makes the options of a transcript of what was given and what is asked for."""

    def __init__(self, home: Home, given: Given, policy: Policy) -> None:
        self._home = home
        self._given = given
        self._policy = policy
        self._made: Environment | None = None

    def options(self, asked: BeginInvestigation, say: Callable[[str], None]) -> dict[str, Any]:
        """The options of a transcript. What the person gave is fetched for the first who asks (told to
        ``say``). Raises ``ToolError``, ``QuestionError`` and other errors of one line.
        """
        if asked.environment is not None and asked.packages:
            raise ToolError("give an environment or packages, not both")
        scenario = scenario_of(asked.scenario)
        arch, engine = asked.arch or self._given.arch, asked.engine or self._given.engine
        if asked.packages:
            if Effect.WRITES_ENVIRONMENT not in self._policy.allowed:
                raise ToolError(
                    "packages cannot be fetched: writes_environment was not granted; name an environment "
                    f"({self._there()}), or a person starts agent mcp with -p or --allow writes_environment"
                )
            local = self._understood(asked.question, arch, engine, asked.packages, {})[1]
            source: dict[str, Any] = {"requirements": list(asked.packages)}
        else:
            found = self._environment(asked, arch, engine, say)
            local = self._understood(asked.question, arch, engine, (), found.packages)[1]
            source = {"environment": found.name if found.kind == "source" else found.path}
        return {
            **source,
            "arch": arch,
            "engine": engine,
            "scenario": scenario,
            "local_archs": list(local),
        }

    def check(self, environment: object) -> None:
        """Raise ``ToolError`` unless an investigation of ``environment`` may be gone on with here."""
        if environment:
            open_for(self._granted(), str(environment))

    def _environment(
        self, asked: BeginInvestigation, arch: str | None, engine: str | None, say: Callable[[str], None]
    ) -> Environment:
        if asked.environment is not None:
            return open_for(self._granted(), asked.environment)
        if self._given.environment is not None:
            return open_environment(self._home, self._given.environment)
        if not self._given.requirements:
            raise ToolError(f"say which environment is to be read: {self._there()}")
        if self._made is None:
            target, _ = self._understood(asked.question, arch, engine, self._given.requirements, {})
            named = list(self._given.requirements)
            self._made = create_environment(self._home, named, parse_architecture(target.arch), say)
        return self._made

    def _understood(
        self,
        question: str,
        arch: str | None,
        engine: str | None,
        requirements: tuple[str, ...],
        installed: dict[str, str],
    ) -> tuple[Target, tuple[str, ...]]:
        def parsed(local: tuple[str, ...]) -> Target:
            return parse_question(
                question,
                arch=arch,
                engine=engine,
                requirements=requirements,
                installed=installed,
                local_archs=local,
            )

        try:
            return parsed(()), ()
        except NoArchitectureError:
            local = local_archs(self._home)
            return parsed(local), local

    def _granted(self) -> _Granted:
        named = self._given.environment
        if named is None:
            return _Granted(self._home, ())
        return _Granted(self._home, (Path(open_environment(self._home, named).path), Path(named)))

    def _there(self) -> str:
        names = [one.name for one in list_environments(self._home)]
        more = f" and {len(names) - 12} more" if len(names) > 12 else ""
        return f"there are {', '.join(names[:12])}{more}" if names else "there is none yet"
