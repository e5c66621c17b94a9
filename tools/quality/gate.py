"""``check_server``: the quality gate on a running server, cheap questions first.

An address is asked only where the person gave it, or where a launch of our own listens: ``context.servers``
maps such addresses to the key that unlocks them, or None.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from memory.artifacts import ArtifactError, Artifacts
from memory.canonical import canonical
from memory.home import Home
from memory.terms import Level, Outcome
from memory.vocabulary import Effect
from tools.base import ToolContext, ToolError, tool
from tools.quality.answer import ALIEN, Answer, Token
from tools.quality.checked import Checked, CheckServer, Example, Run, Stage, read_run
from tools.quality.client import Request, Server
from tools.quality.faults import Fault
from tools.quality.masks import masking
from tools.quality.prompts import Question, crowd, fixed, questions
from tools.quality.stages import SURE, Judged, judge_alone, judge_crowd, judge_oracle, judge_paired

TOKENS = 32
"""Of an answer to a fixed prompt, and to the crowd's, which must be busy as long."""
ANSWER = 24
EXAMPLES = 5
"""Of the worst faults, in a report."""
PATIENCE = 10.0
"""Times of what the slowest took alone that one under load may take, where that is more than the limit."""
MORE = 2
"""Rounds that are added where one fault could be a coincidence."""

ALONE, CROWD, PAIRED, ORACLE = "alone", "crowd", "paired", "oracle"


@tool(effect=Effect.NETWORK)
def check_server(args: CheckServer, context: ToolContext) -> Checked:
    """Ask a running server: are its answers numbers, the same again, the same under load, and right?"""
    server = _server(args.url, args.model, context)
    if masked := masking(args.engine, args.settings):
        raise ToolError(f"{masked} hides NaN from whoever asks; start the server without it, then check it")
    reference = _reference(args, context)
    asks = args.questions and not args.random_weights
    if asks and isinstance(reference, Run) and reference.seed != args.seed:
        raise ToolError(f"the stored run asked with --seed {reference.seed}; ask with the same")
    return _Gate(args, context, server, reference).run()


def _server(url: str, model: str | None, context: ToolContext) -> Server:
    known = getattr(context, "servers", None) or {}
    server = Server(url)
    if server.url not in known:
        raise ToolError(
            f"{server.url} is no server that may be asked here; a person names it, or launches one"
        )
    server.key = known[server.url]
    served = server.models()
    if model is not None and model not in served:
        raise ToolError(f"{server.url} serves {', '.join(served[:6]) or 'nothing'}, not {model[:80]}")
    if not served:
        raise ToolError(f"{server.url} serves no model")
    server.model = model or served[0]
    return server


def _reference(args: CheckServer, context: ToolContext) -> Server | Run | None:
    if args.reference is not None and args.reference_run is not None:
        raise ToolError("a reference is a server or a stored run, not both")
    if args.reference is not None:
        return _server(args.reference, args.reference_model, context)
    return None if args.reference_run is None else stored_run(context.home, args.reference_run)


def stored_run(home: Home, sha256: str) -> Run:
    """What was kept of a server. Raises :class:`ToolError` where it is not there, or none."""
    try:
        return read_run(Artifacts(home.artifacts).get(sha256))
    except ArtifactError as error:
        raise ToolError(str(error)) from None


@dataclass
class _Gate:
    """One pass through the stages."""

    args: CheckServer
    context: ToolContext
    server: Server
    reference: Server | Run | None
    stages: list[Stage] = field(default_factory=list)
    began: float = field(default_factory=time.monotonic)
    requests: int = 0
    slowest: float = 0.0
    alone: list[Answer] = field(default_factory=list)
    right: list[bool] = field(default_factory=list)
    asked: list[Question] = field(default_factory=list)

    def run(self) -> Checked:
        prompts = fixed()
        steps: list[tuple[str, Callable[[], Judged | None]]] = [
            (ALONE, self._alone), (CROWD, self._crowd), (PAIRED, self._paired), (ORACLE, self._oracle),
        ]  # fmt: skip
        for name, step in steps:
            started = time.monotonic()
            try:
                judged = step()
            except _TimeUpError:
                why = f"stopped after {self.args.minutes:g} minutes; give it more (--minutes)"
                judged = Judged(Outcome.NOT_RUN, why)
            if judged is None:
                continue
            stage = _stage(name, judged, prompts, self.alone, time.monotonic() - started)
            self.stages.append(stage)
            self.context.progress(f"{name}: {stage.outcome.value.replace('_', ' ')}, {stage.because}")
            if judged.outcome is not Outcome.OK and not (
                name == ORACLE and judged.outcome is Outcome.NOT_RUN
            ):
                break
        return self._result()

    def _result(self) -> Checked:
        decided = [one for one in self.stages if one.outcome not in (Outcome.OK, Outcome.NOT_RUN)]
        last = next(iter(decided), None)
        if last is None:
            last = next(
                (one for one in self.stages if one.outcome is Outcome.NOT_RUN and one.name != ORACLE), None
            )
        notes = [note for stage in self.stages for note in stage.notes]
        if self.reference is None:
            notes.append("no reference: whether what it says is right was not asked")
        if self.server.chat:
            notes.append("it has chats alone: each prompt was asked as one, in the words of its template")
        if not self.args.settings:
            notes.append("with what settings it runs is not known: one that hides NaN would not be noticed")
        return Checked(
            level=Level.SERVER if len(self.stages) < 2 else Level.STRESS,
            outcome=last.outcome if last else Outcome.OK,
            because=f"{last.name}: {last.because}" if last else "; ".join(one.because for one in self.stages),
            url=self.server.url,
            model=str(self.server.model),
            concurrency=self.args.concurrency,
            stages=self.stages,
            notes=notes,
            seconds=time.monotonic() - self.began,
            requests=self.requests,
            run=self._kept(),
        )

    def _alone(self) -> Judged:
        runs: list[list[Answer]] = []
        for _ in range(2):
            self.context.progress(f"alone: {len(fixed())} requests, one at a time")
            runs.append([])
            for prompt in fixed():
                runs[-1] += self._ask([Request(prompt, TOKENS)], 1)
                if (said := runs[0][0].error) == ALIEN:
                    raise ToolError(f"{self.server.url}: {said}; expected an OpenAI-compatible server")
                if runs[-1][-1].ended not in ("answered", "refused"):
                    return judge_alone(runs[-1], runs[-1], random_weights=self.args.random_weights)
        self.alone = runs[0]
        self.slowest = max(one.seconds for one in runs[0])
        if all(one.ended == "refused" for one in self.alone):
            first = self.alone[0]
            raise ToolError(
                f"{self.server.url} refuses every prompt (HTTP {first.status}): {first.error[:200]}"
            )
        return judge_alone(runs[0], runs[-1], random_weights=self.args.random_weights)

    def _crowd(self) -> Judged:
        rounds: list[tuple[Sequence[Answer], Sequence[Answer]]] = []
        number = self.args.rounds
        while True:
            rounds.append(self._round(len(rounds)))
            judged = judge_crowd(self.alone, rounds, random_weights=self.args.random_weights)
            if judged.again:
                number = max(number, min(len(rounds) + MORE, self.args.rounds + MORE))
            if judged.outcome is not Outcome.OK or len(rounds) >= number:
                return judged

    def _round(self, number: int) -> tuple[list[Answer], list[Answer]]:
        mine = fixed()
        others = crowd(self.args.seed * 1000 + number, self.args.concurrency)
        # Spread among the others, other places each time: where in a batch a prompt stands may matter.
        step = (len(others) + len(mine)) / len(mine)
        places = [int((place + (number % 4) / 4) * step) for place in range(len(mine))]
        left = iter(range(len(others)))
        order = [
            (True, places.index(place)) if place in places else (False, next(left))
            for place in range(len(others) + len(mine))
        ]
        requests = [Request(mine[one] if own else others[one], TOKENS) for own, one in order]
        answers = self._ask(requests, len(requests), f"under load, round {number + 1}")
        found = dict(zip(order, answers, strict=True))
        return [found[True, n] for n in range(len(mine))], [found[False, n] for n in range(len(others))]

    def _paired(self) -> Judged | None:
        if self.args.random_weights or not self.args.questions:
            return None
        self.asked = questions(self.args.seed, self.args.questions)
        self.right = self._answered(self.server, self.asked)
        if isinstance(self.reference, Server):
            return self._paired_with(self.reference)
        run = self.reference
        known = {} if run is None else dict(zip(run.questions, run.right, strict=True))
        both = [place for place, one in enumerate(self.asked) if one.prompt in known]
        if both:
            theirs = [known[self.asked[place].prompt] for place in both]
            # It cannot be asked other questions, so one answer must be enough.
            return judge_paired([self.right[place] for place in both], theirs, doubt=SURE, again=True)
        figures = {"questions": float(len(self.asked)), "right": float(sum(self.right))}
        beside = "beside no reference" if run is None else "the stored run was asked none of them"
        return Judged(
            Outcome.OK, f"{sum(self.right)} of {len(self.asked)} questions right, {beside}", figures
        )

    def _paired_with(self, reference: Server) -> Judged:
        judged = judge_paired(self.right, self._answered(reference, self.asked), again=False)
        if judged.again:
            self.context.progress("fewer right than the reference: other questions decide")
            more = questions(self.args.seed + 1_000_003, self.args.questions)
            mine, theirs = self._answered(self.server, more), self._answered(reference, more)
            judged = judge_paired(mine, theirs, again=True)
        return judged

    def _oracle(self) -> Judged | None:
        if self.reference is None:
            return None
        if isinstance(self.reference, Run):
            if self.reference.prompts != fixed():
                return Judged(Outcome.NOT_RUN, "the stored run answered other prompts")
            theirs = [
                Answer("answered", tokens=tuple(Token(*token) for token in tokens))
                for tokens in self.reference.answers
            ]
        else:
            theirs = self._ask([Request(one, TOKENS) for one in fixed()], 1, "reference", self.reference)
        return judge_oracle(self.alone, theirs)

    def _answered(self, server: Server, asked: Sequence[Question]) -> list[bool]:
        requests = [Request(one.prompt, ANSWER, stop="\n", logprobs=False) for one in asked]
        what = "questions" if server is self.server else "questions to the reference"
        answers = self._ask(requests, self.args.concurrency, what, server)
        return [
            answer.ended == "answered" and one.right(answer.text)
            for one, answer in zip(asked, answers, strict=True)
        ]

    def _ask(
        self, requests: Sequence[Request], in_flight: int, what: str = "", server: Server | None = None
    ) -> list[Answer]:
        until = self.began + 60 * self.args.minutes
        if time.monotonic() >= until:
            raise _TimeUpError
        seconds = max(self.args.timeout, PATIENCE * self.slowest)
        run = getattr(self.context, "transcript", "") or str(self.args.seed)
        salted = [replace(one, salt=f"{run}-{place}") for place, one in enumerate(requests, self.requests)]
        self.requests += len(requests)
        if what:
            self.context.progress(f"{what}: {len(requests)} requests, {in_flight} at once")
        answers = (server or self.server).ask(salted, in_flight=in_flight, seconds=seconds, until=until)
        if any(one.ended == "cut_off" for one in answers):
            raise _TimeUpError
        return answers

    def _kept(self) -> str | None:
        if not self.stages or self.stages[0].outcome is not Outcome.OK:
            return None
        run = Run(
            model=str(self.server.model),
            seed=self.args.seed,
            prompts=fixed(),
            answers=[[(t.text, t.logprob, t.best) for t in one.tokens] for one in self.alone],
            questions=[one.prompt for one in self.asked],
            right=self.right,
        )
        return Artifacts(self.context.home.artifacts).put(canonical(run.model_dump(mode="json")).encode())


class _TimeUpError(Exception):
    pass


def _stage(
    name: str, judged: Judged, prompts: Sequence[str], alone: Sequence[Answer], seconds: float
) -> Stage:
    worst = sorted(judged.faults, key=lambda fault: -fault.size)[:EXAMPLES]
    return Stage(
        name=name,
        outcome=judged.outcome,
        because=judged.because,
        figures={key: float(value) for key, value in judged.figures.items()},
        examples=[_example(fault, prompts, alone) for fault in worst],
        notes=list(judged.notes),
        seconds=seconds,
    )


def _example(fault: Fault, prompts: Sequence[str], alone: Sequence[Answer]) -> Example:
    own = 0 <= fault.prompt < len(prompts)
    told: dict[str, Any] = {key: asdict(fault)[key] for key in ("kind", "why", "got")}
    return Example(
        prompt=prompts[fault.prompt] if own else "(one of the crowd)",
        alone=alone[fault.prompt].text if own and alone else "",
        **told,
    )
