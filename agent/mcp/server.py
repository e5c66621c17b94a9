"""The server: what a client lists, reads and calls. It says nothing of its own that is not on record."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

import anyio
import anyio.to_thread
from mcp import types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp.types import INVALID_PARAMS
from pydantic import BaseModel, ValidationError

from agent import __version__
from agent.board_text import board_text
from agent.mcp.begin import BeginInvestigation, ResumeInvestigation
from agent.mcp.desk import Answer, Desk, Wish
from agent.mcp.desks import Desks
from agent.mcp.offers import offers, own_offer
from agent.mcp.telling import waiting_text
from agent.policy import Policy
from agent.prompts import prompt
from agent.session import board_of
from agent.text import shorten
from memory.artifacts import Artifacts
from memory.canonical import canonical
from tools.base import Tool
from transcripts.reader import transcript_path

Context = ServerRequestContext[Any]
LONGEST = 200
"""Characters of a name."""
MOST = 4 << 20
"""Characters of the arguments of one call."""
BOARD = "assay://board"
PROMPT = "investigate"
EVERY = 5.0
"""Seconds between two words to a client that waits."""
PATIENCE = 40.0
"""Seconds that a client is let wait for the ground to be laid: some give up after a minute."""
OWN: Mapping[str, type[BaseModel]] = {
    "begin_investigation": BeginInvestigation,
    "resume_investigation": ResumeInvestigation,
}
"""Tools that are the server's alone: their record is how a transcript begins."""


def make_server(
    desks: Desks, tools: Mapping[str, Tool[Any, Any]], policy: Policy, patience: float = PATIENCE
) -> Server[Any]:
    """The server of the SDK, to be run over whatever carries its messages. ``patience`` in seconds."""
    return _Handlers(desks, tools, policy, patience).server()


class _Handlers:
    def __init__(
        self, desks: Desks, tools: Mapping[str, Tool[Any, Any]], policy: Policy, patience: float
    ) -> None:
        self._desks = desks
        self._tools = tools
        self._policy = policy
        self._patience = patience

    def server(self) -> Server[Any]:
        return Server(
            "assay",
            version=__version__,
            instructions=prompt("client"),
            on_list_tools=self.list_tools,
            on_call_tool=self.call_tool,
            on_list_resources=self.list_resources,
            on_list_resource_templates=self.list_templates,
            on_read_resource=self.read_resource,
            on_list_prompts=self.list_prompts,
            on_get_prompt=self.get_prompt,
        )

    async def list_tools(self, _: Context, __: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        own = [own_offer(name, kind) for name, kind in OWN.items()]
        return types.ListToolsResult(
            tools=[*own, *offers(self._tools.values(), self._policy, shared=self._desks.shared)]
        )

    async def call_tool(self, context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        """A call goes to the loop of its investigation; what is refused there is on record, too."""
        given = dict(params.arguments or {})
        size = len(canonical(given))
        if size > MOST or len(params.name) > LONGEST:
            return _told(f"not run: the call has {size} characters, at most {MOST} are read", wrong=True)
        try:
            if kind := OWN.get(params.name):
                desk = await anyio.to_thread.run_sync(self._open, kind.model_validate(given))
                if await self._is_begun(context, desk):
                    return _said(desk.begun.result())
                return _told(waiting_text(desk.name, desk.doing), wrong=False)
            name = given.pop("investigation", None)
            desk = self._desks.find(None if name is None else str(name)[:LONGEST])
            if not await self._is_begun(context, desk):
                return _told(f"not run. {waiting_text(desk.name, desk.doing)}", wrong=True)
            return _said(await self._asked(context, desk, desk.ask(params.name, given)))
        except Exception as error:  # noqa: BLE001 - the client is told, whatever it was
            return _told(_one_line(error), wrong=True)

    async def _asked(self, context: Context, desk: Desk, wish: Wish) -> Answer:
        """What came of a call. Who cancels it has it ended; who is gone does not."""
        try:
            return await _answer(context, desk, wish.answer)
        except anyio.get_cancelled_exc_class():
            if _was_cancelled(context):
                wish.stop.ask()
            raise

    async def _is_begun(self, context: Context, desk: Desk) -> bool:
        """Whether the client may decide, or it is over, once that has been waited for."""
        with anyio.move_on_after(self._patience):
            await _answer(context, desk, desk.begun)
        return desk.begun.done()

    def _open(self, asked: BaseModel) -> Desk:
        if isinstance(asked, BeginInvestigation):
            return self._desks.begin(asked)
        assert isinstance(asked, ResumeInvestigation), "there are two"
        return self._desks.resume(asked)

    async def list_resources(
        self, _: Context, __: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        board = types.Resource(
            uri=BOARD,
            name="board",
            description="What is known so far in the investigation that was begun last.",
            mime_type="text/plain",
        )
        return types.ListResourcesResult(resources=[] if self._desks.shared else [board])

    async def list_templates(
        self, _: Context, __: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        board = types.ResourceTemplate(
            uri_template=f"{BOARD}/{{investigation}}",
            name="board",
            description="What is known so far in an investigation that is open.",
            mime_type="text/plain",
        )
        return types.ListResourceTemplatesResult(resource_templates=[board])

    async def read_resource(
        self, _: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        uri = str(params.uri)
        if uri != BOARD and not uri.startswith(f"{BOARD}/"):
            raise MCPError(INVALID_PARAMS, f"no resource {shorten(uri, LONGEST)}; there is {BOARD}")
        try:
            desk = self._desks.find(uri.removeprefix(BOARD).removeprefix("/")[:LONGEST] or None)
            text = await anyio.to_thread.run_sync(self._board, desk.name)
        except Exception as error:
            raise MCPError(INVALID_PARAMS, _one_line(error)) from error
        return types.ReadResourceResult(
            contents=[types.TextResourceContents(uri=uri, mime_type="text/plain", text=text)]
        )

    def _board(self, name: str) -> str:
        """Folded from the transcript anew: the loop's own belongs to its thread."""
        home = self._desks.home
        return board_text(board_of(transcript_path(home, name), Artifacts(home.artifacts)))

    async def list_prompts(
        self, _: Context, __: types.PaginatedRequestParams | None
    ) -> types.ListPromptsResult:
        question = types.PromptArgument(
            name="question", description="Model, quantisation, GPU or architecture.", required=True
        )
        offered = types.Prompt(
            name=PROMPT,
            description="Find out which kernel backends are viable, with the proof.",
            arguments=[question],
        )
        return types.ListPromptsResult(prompts=[offered])

    async def get_prompt(self, _: Context, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        question = (params.arguments or {}).get("question", "").strip()
        if params.name != PROMPT or not question:
            raise MCPError(INVALID_PARAMS, f"there is one prompt, {PROMPT}, and it needs a question")
        text = "\n\n".join([prompt("client"), prompt("investigator"), f"The question: {question}"])
        return types.GetPromptResult(
            messages=[types.PromptMessage(role="user", content=types.TextContent(text=text))]
        )


async def _answer(context: Context, desk: Desk, promised: Future[Answer]) -> Answer:
    """What was promised, once it is there. Who is not there any more to hear it changes nothing."""
    waiting = asyncio.wrap_future(promised)
    begun = time.monotonic()
    while not (await asyncio.wait({waiting}, timeout=EVERY))[0]:
        await context.session.report_progress(time.monotonic() - begun, message=desk.doing)
    return waiting.result()


def _was_cancelled(context: Context) -> bool:
    """Whether the client sent ``notifications/cancelled`` for this request; else its connection has ended."""
    # The SDK tells it to handlers of tools alone, not to those of its lower level.
    request = getattr(context.session, "_request_outbound", None)
    return request is not None and request.cancel_requested.is_set()


def _said(answer: Answer) -> types.CallToolResult:
    return _told(answer.text, wrong=answer.wrong)


def _told(text: str, *, wrong: bool) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=text)], is_error=wrong)


def _one_line(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "arguments"
        return shorten(f"{where}: {first['msg']}", 500)
    return shorten(str(error) or type(error).__name__, 800)
