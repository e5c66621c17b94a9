"""The door for findings of other machines: nothing of them is taken on trust.

What can be looked up here is: cited lines in the environments of this home, events in what came with the
finding. What does not hold is refused, whole; what cannot be looked up is somebody's account, a report.
"""

from __future__ import annotations

from dataclasses import dataclass
from textwrap import dedent

from memory.canonical import finding_id, text_sha256
from memory.home import Home
from memory.names import distribution
from memory.vocabulary import Capsule, Claim, Evidence, Finding, Level
from tools.environment.model import Environment
from tools.environment.store import list_environments
from tools.errors import ToolError
from tools.findings.check import check_shape, check_source
from tools.findings.events import check_events
from tools.source.tree import TEXT_LIMIT, SourceTree
from transcripts.redaction.secrets import shows


@dataclass(frozen=True)
class Admitted:
    """``finding`` as it is kept; ``because``: why it is no more than a report, where it said that it was."""

    finding: Finding
    because: str | None = None


class Door:
    """``given``: environments to look lines up in, besides those of the home."""

    def __init__(self, home: Home, given: tuple[Environment, ...] = ()) -> None:
        self._home = home
        self._trees: dict[tuple[str, str], tuple[SourceTree, str]] = {}
        for environment in (*given, *list_environments(home)):
            tree = environment.tree()
            for name, version in environment.packages.items():
                self._trees.setdefault((distribution(name), version), (tree, environment.name))

    def admit(self, finding: Finding, capsule: Capsule | None) -> Admitted:
        """Raises :class:`ToolError` for a finding of which anything does not hold."""
        claim = finding.claim
        self.check_id(finding)
        check_shape(claim)
        lacking = self.lacking(finding, capsule)
        if lacking is None or claim.level is Level.REPORT:
            return Admitted(finding)
        report = claim.model_copy(update={"level": Level.REPORT, "measurements": ()})
        known = finding.model_copy(update={"claim": report, "id": finding_id(report.model_dump(mode="json"))})
        return Admitted(known, lacking)

    def check_id(self, finding: Finding) -> None:
        """Raises :class:`ToolError` unless a finding's id is that of its claim."""
        name = finding_id(finding.claim.model_dump(mode="json"))
        if name != finding.id:
            raise ToolError(f"its id is not that of its claim, which is {name}")

    def lacking(self, finding: Finding, capsule: Capsule | None) -> str | None:
        """Look up all that a finding cites; returns what cannot be, None where all of it was.

        Raises :class:`ToolError` where something does not hold.
        """
        claim = finding.claim
        lacking = [why for item in claim.source_evidence if (why := self._lines(item, claim, capsule))]
        if claim.event_evidence:
            named = {item.transcript for item in claim.event_evidence}
            brought = capsule is not None and bool(capsule.events or not capsule.spans)
            if brought or all(self._has(name) for name in named):
                check_events(claim, self._home, None, capsule)
            else:
                lacking.append("the events that it cites did not come with it")
        return lacking[0] if lacking else None

    def _has(self, transcript: str) -> bool:
        return (self._home.transcripts / f"{transcript}.jsonl").is_file()

    def _lines(self, item: Evidence, claim: Claim, capsule: Capsule | None) -> str | None:
        """Look cited lines up; returns why that cannot be done here."""
        versions = {distribution(name): version for name, version in claim.packages.items()}
        if versions.get(distribution(item.package)) != item.version:
            raise ToolError(f"{item.package} {item.version} of evidence {item.file} is none of its packages")
        span = capsule.spans.get(item.sha256) if capsule is not None else None
        if span is not None:
            if text_sha256(span) != item.sha256:
                raise ToolError(f"the lines of {item.file}:{item.line} in its capsule hash to something else")
            text = dedent(span).strip("\n")
            if not shows(item.text, text if len(text) <= TEXT_LIMIT else f"{text[: TEXT_LIMIT - 1]}…"):
                raise ToolError(f"the text of evidence {item.file}:{item.line} is not that of its lines")
        found = self._trees.get((distribution(item.package), item.version))
        if found is None:
            return f"{item.package} {item.version} is not here to look its lines up"
        check_source(item, *found)
        return None
