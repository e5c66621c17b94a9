"""One investigation put together: transcript, tools, driver and store around the loop."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from agent import __version__
from agent.board import Board, fold
from agent.budget import check_priced, renewed
from agent.drivers import DriverError, make_driver
from agent.execute import Batch, Cap, Executor, Stops, batch_functions
from agent.interrupts import Interrupts
from agent.loop import Driver, Investigation, Model
from agent.policy import PERSON, Grants, Heeding, Rules, Supervised
from memory.artifacts import ArtifactError, Artifacts, document
from memory.canonical import canonical
from memory.clock import Clock, Ids, SystemClock
from memory.home import Home
from tools.base import AnyTool, ToolError
from tools.environment.store import open_environment
from tools.output import cap
from tools.probe.running import stopped_early
from tools.registry import registry
from transcripts.catch_up import Follower
from transcripts.chain import LogError
from transcripts.events import Concluded, Opened, Resumed
from transcripts.inbox import Inbox
from transcripts.log import Log, read
from transcripts.reader import transcript_path
from transcripts.redaction.secrets import JSON, redacted

PROGRAM = f"assay-agent {__version__}"
FATAL = (LogError, ArtifactError)
"""Nothing more can be recorded: the investigation ends where its log ends."""
LLM, MCP = "llm", "mcp"
"""The drivers that ask a model, and a client."""
FINAL = ("answered", "none_viable")
"""Ends that there is nothing to go on from."""


@dataclass(frozen=True)
class Running:
    """What tools are given."""

    home: Home
    say: Callable[[str], None]
    transcript: str
    board: Board
    interpreter: tuple[Path, Path | None] | None = None
    """What runs packages that lie in a folder of others, and where it finds more of them: a person's word."""

    @property
    def folders(self) -> tuple[Path, ...]:
        """The folders of others that may be read: what the person gave, which no driver can add to."""
        options = self.board.opened.options if self.board.opened else {}
        trace = options.get("trace")
        given = (options.get("environment"), trace.get("environment") if isinstance(trace, dict) else None)
        return tuple(Path(str(one)) for one in given if one and os.sep in str(one))

    @property
    def servers(self) -> dict[str, str | None]:
        """Servers that may be asked, with their keys: what the person gave, which no driver can add to. The
        transcript has the names of variables, never a key."""
        given = self.board.opened.options.get("servers", ()) if self.board.opened else ()
        return {str(one["url"]): os.environ.get(str(one.get("key"))) for one in given}

    def progress(self, text: str) -> None:
        self.say(text)


@dataclass(frozen=True)
class Setting:
    """What an investigation is run with. The defaults are a person's at the command line."""

    say: Callable[[str], None] = lambda _: None
    clock: Clock = field(default_factory=SystemClock)
    tools: Mapping[str, AnyTool] | None = None
    batches: Mapping[str, Batch] | None = None
    policy: Rules = PERSON
    grants: Grants = field(default_factory=Grants)
    """What a model or a client may do: they decide in the person's place, not with their rights."""
    stops: Stops = lambda _: None
    """What ends a call alone, where a client may cancel one."""
    redact: Callable[[JSON], JSON] = redacted
    """What is recorded of a value: without the secrets that the program knows of."""
    interpreter: tuple[Path, Path | None] | None = None
    """See :class:`Running`. It is in no transcript: who resumes one names it anew."""

    def all_tools(self, driver: str) -> Mapping[str, AnyTool]:
        """The tools that a driver has: a model also those of the board."""
        tools = registry() if self.tools is None else self.tools
        if driver != LLM:
            return tools
        from agent.board_tools import BOARD_TOOLS

        return {**tools, **BOARD_TOOLS}

    def driver(self, name: str, home: Home) -> Driver:
        """The driver of that name. Raises ``DriverError``."""
        if name != LLM:
            return make_driver(name)
        if not (os.environ.get("OPENAI_API_KEY") or os.environ.get("OPENAI_BASE_URL")):
            raise DriverError(
                "no model can be asked: set OPENAI_API_KEY, or OPENAI_BASE_URL to an endpoint of your own"
            )
        _check_address(os.environ.get("OPENAI_BASE_URL") or "")
        offered = [tool for tool in self.all_tools(name).values() if self.grants.may_have(tool)]
        keep = Artifacts(home.artifacts).put
        return make_driver(name, keep=keep, tools=offered, redact=self.redact)

    def endpoint(self, driver: str, home: Home) -> Model | None:
        """What answers where the driver asks a model."""
        if driver != LLM:
            return None
        from agent.model.endpoint import Endpoint

        artifacts = Artifacts(home.artifacts)
        return Endpoint(partial(whole, artifacts), artifacts.put, self.redact, self.say)

    def executor(self, home: Home, board: Board, artifacts: Artifacts, driver: str) -> Executor:
        opened = board.opened
        assert opened is not None, "readers refuse a log that begins with anything else"
        decided = driver in (LLM, MCP)
        deciding = Supervised(board, self.policy, self.grants) if decided else self.policy
        rules = Heeding(board, deciding)
        return Executor(
            self.all_tools(driver),
            Running(home, self.say, opened.investigation, board, self.interpreter),
            rules,
            capped(artifacts, self.redact),
            batches=batch_functions() if self.batches is None else self.batches,
            fatal=FATAL,
            stops=self.stops,
        )


def start(
    home: Home,
    question: str,
    options: Mapping[str, Any],
    *,
    setting: Setting | None = None,
    name: str | None = None,
    ids: Ids | None = None,
    seed: int = 0,
    driver: Driver | str = "planner",
) -> Concluded:
    """Investigate ``question`` to its end and return how it ended. ``home`` must be prepared.

    ``options``: ``requirements`` (``P==V``…), or ``environment`` (a name or a folder); ``arch``, ``engine``,
    ``scenario``. ``name``: the investigation's id, else the next of ``ids``. The same options, clock, ids and
    seed write the same transcript, byte for byte.
    Raises ``ToolError`` for an environment that is not there, ``LogError`` where the log cannot be written.
    """
    setting = setting or Setting()
    chosen = setting.driver(driver, home) if isinstance(driver, str) else driver
    settled = {key: value for key, value in options.items() if value not in (None, [], {}, ())}
    if named := settled.get("environment"):
        environment = open_environment(home, str(named))
        # A folder of someone else's has no name here: its path is what opens it again.
        settled["environment"] = environment.name if environment.kind == "source" else environment.path
        settled["packages"] = environment.packages
        settled["fingerprint"] = environment.fingerprint
    name = name or (ids or Ids()).investigation(setting.clock)
    opened = Opened(
        investigation=name,
        program=PROGRAM,
        driver=chosen.name,
        question=question,
        seed=seed,
        options=settled,
    )
    path = transcript_path(home, name)
    setting.say(f"recording as {name}")
    with (
        _working(home, setting) as (interrupts, follower),
        Log.create(path, opened, setting.clock, redact=setting.redact) as log,
    ):
        board = board_of(path, Artifacts(home.artifacts))
        return _investigation(home, setting, log, follower, board, chosen, interrupts).run()


def resume(
    home: Home,
    path: Path,
    *,
    setting: Setting | None = None,
    driver: Driver | None = None,
    llm: Mapping[str, Any] | None = None,
) -> Concluded:
    """Go on with the transcript at ``path`` where its last process left it, and return how it ended.

    What was concluded with an answer, or with none viable, is returned as it stands. ``driver``: the one that
    decided last, unless another is given. ``llm``: which model decides from here on, and what it may spend,
    where that was said anew (as the option of that name).
    Raises ``LogError`` for a log that is damaged, or has a writer; ``ToolError`` where no model decides, and
    ``BudgetError`` for a limit of cost without a price.
    """
    setting = setting or Setting()
    with (
        _working(home, setting) as (interrupts, follower),
        Log.open(path, setting.clock, setting.redact) as log,
    ):
        if log.cut:
            setting.say(f"{path.stem}: its last line was torn; {log.cut} bytes, no whole event, are cut off")
        board = board_of(path, Artifacts(home.artifacts))
        if board.concluded is not None and board.concluded.exit_reason in FINAL:
            setting.say(f"{path.stem} came to its end already; nothing is done again")
            return board.concluded
        chosen = driver or setting.driver(board.driver, home)
        if llm and driver is None and chosen.name != LLM:
            raise ToolError(
                f"{path.stem} is decided by {chosen.name}, not by a model: leave out --model and --budget; "
                f"agent replay {path.stem} --fork llm lets a model go on with a copy"
            )
        check_priced(renewed(board.llm, llm or {}), home)
        if left := board.unanswered:
            what = "who asked for them is gone" if chosen.name == MCP else "made again as far as needed"
            setting.say(f"{len(left)} calls had not returned: {what}")
        resumed = Resumed(
            program=PROGRAM,
            driver=chosen.name,
            cut=log.cut,
            open=tuple(left),
            again=failed_calls(board),
            llm=dict(llm or {}),
        )
        investigation = _investigation(home, setting, log, follower, board, chosen, interrupts)
        investigation.resume(resumed)
        return investigation.run()


def failed_calls(board: Board) -> tuple[str, ...]:
    """Calls whose failure ended the investigation: what they lacked may be there by now. So may time, for
    cells whose turn did not come."""
    if board.concluded is None or board.concluded.exit_reason == "interrupted":
        return ()
    results = ((name, board.calls.result(name)) for name in board.calls)
    return tuple(
        name
        for name, one in results
        if one is not None and (one.status in {"error", "denied"} or stopped_early(board.output(name)))
    )


@contextmanager
def _working(home: Home, setting: Setting) -> Iterator[tuple[Interrupts, Follower]]:
    """The database, up to date, and requests to stop kept back until the loop runs.

    From the first event on, whatever happens is concluded.
    """
    with Interrupts() as interrupts, Follower(home, setting.say) as follower:
        interrupts.hold()
        yield interrupts, follower


def _investigation(
    home: Home,
    setting: Setting,
    log: Log,
    follower: Follower,
    board: Board,
    driver: Driver,
    interrupts: Interrupts,
) -> Investigation:
    assert board.opened is not None, "readers refuse a log that begins with anything else"
    # Not its file's name: a log that was renamed goes on as what it says it is, or would contradict itself.
    name = board.opened.investigation
    executor = setting.executor(home, board, Artifacts(home.artifacts), driver.name)
    model = setting.endpoint(driver.name, home)
    folded, inbox = follower.follow(log.path), Inbox(log.path)
    return Investigation(name, log, board, driver, executor, folded, interrupts, model, inbox)


def board_of(path: Path, artifacts: Artifacts) -> Board:
    """The board that a transcript makes. Raises ``LogError`` at the first event that is wrong."""
    return fold(read(path), partial(whole, artifacts))


def whole(artifacts: Artifacts, sha256: str) -> Any:
    """An artifact as the JSON that it is."""
    return document(sha256, artifacts.get(sha256))


def capped(artifacts: Artifacts, redact: Callable[[JSON], JSON] = redacted) -> Cap:
    """The one place where outputs are cut; the whole is kept, without its secrets."""

    def apply(document: Any) -> tuple[Any, str | None, int | None]:
        document = redact(document)
        # What is shown is looked through as text when it is written: so is the whole that it is a part of.
        shown, whole = cap(redact(canonical(document)))
        if whole is None:
            return document, None, None
        return shown, artifacts.put(whole), len(whole)

    return apply


def _check_address(url: str) -> None:
    """Raises ``DriverError`` for what can be no endpoint: nobody need wait for it to answer."""
    try:
        parts = urlsplit(url)
        sound = not url or (parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0)
    except ValueError:
        sound = False
    if not sound:
        raise DriverError(
            "OPENAI_BASE_URL is no address of an endpoint; expected e.g. http://127.0.0.1:8000/v1"
        )
