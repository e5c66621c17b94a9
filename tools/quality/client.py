"""Asking a server for completions, many at a time: what it answered, or how it failed to.

Every request has a limit of time, every answer one of size. Addresses come from the person or from a launch
of our own; a key goes to nobody else, since redirects are not followed.
"""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from tools import stopping
from tools.errors import ToolError
from tools.quality.answer import LONGEST, Answer, read_answer, read_chat

if TYPE_CHECKING:
    import httpx

LARGEST = 8 << 20
"""Bytes of an answer: one of thirty tokens has a few thousand."""
BUSY = frozenset({429, 503})
"""Refusals of a server that has enough to do: asked again until the time is up."""
AGAIN = 0.5
"""Seconds before a busy server is asked again."""
WATCH = 0.2
BEST = 5
"""Tokens beside the chosen one whose logprobs are asked for; what every engine gives."""
_FORMS = ((True, True), (False, True), (True, False), (False, False))
"""What is asked beside the completion itself, the first that a server understands: what engines add to the
protocol (the full length whatever the model thinks, nothing out of a cache), and logprobs."""
COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"
NO_PATH = frozenset({404, 405})


@dataclass(frozen=True)
class Request:
    prompt: str
    tokens: int
    stop: str | None = None
    logprobs: bool = True
    salt: str = ""
    """Answers are not put together from what a server has kept of requests with another salt: so that the
    prompt is computed each time, and not only the first."""


@dataclass
class Server:
    """``url``: up to and without ``/v1``. ``form``: how much of what is asked it turned out to understand;
    ``chat``: whether it turned out to have chats alone."""

    url: str
    model: str | None = None
    key: str | None = None
    form: int = 0
    chat: bool = False

    def __post_init__(self) -> None:
        self.url = base_url(self.url)

    @property
    def logprobs(self) -> bool:
        """Whether it is asked for logprobs."""
        return _FORMS[self.form][1]

    def models(self, seconds: float = 20.0) -> list[str]:
        """Names of what it serves. Raises :class:`ToolError` where it cannot be asked."""
        import httpx

        until = time.monotonic() + seconds
        data = bytearray()
        try:
            with (
                httpx.Client(**self._options(seconds)) as client,
                client.stream("GET", "/v1/models") as response,
            ):
                for piece in response.iter_bytes():
                    data += piece
                    if len(data) > LARGEST or time.monotonic() > until:
                        break
        except (httpx.HTTPError, OSError) as error:
            raise ToolError(
                f"{self.url} does not answer ({_words(error)}); is the server up, and the address right?",
                missing=True,
            ) from error
        if response.status_code in (401, 403):
            raise ToolError(
                f"{self.url} wants a key (HTTP {response.status_code}); name the variable that holds it: "
                "--api-key-env NAME"
            )
        try:
            return [str(one["id"]) for one in json.loads(data)["data"]]
        except (ValueError, KeyError, TypeError, RecursionError):
            raise ToolError(
                f"{self.url}/v1/models answers HTTP {response.status_code} and no list of models; "
                "expected an OpenAI-compatible server"
            ) from None

    def ask(
        self,
        requests: Sequence[Request],
        *,
        in_flight: int,
        seconds: float,
        until: float = math.inf,
    ) -> list[Answer]:
        """The answers in the order of ``requests``; at most ``in_flight`` at once.

        A request has timed out when for ``seconds`` neither it nor any other was answered: a server that is
        slow answers somebody. ``until``, a moment of ``time.monotonic``, cuts off all. Stops where this
        thread is asked to.
        """
        return asyncio.run(self._all(requests, in_flight, seconds, until))

    def _options(self, seconds: float | None) -> dict[str, Any]:
        host = urlsplit(self.url).hostname or ""
        headers = {"Authorization": f"Bearer {self.key}"} if self.key else {}
        # A server on this machine is never asked through a proxy.
        near = host in ("localhost", "::1") or host.startswith("127.")
        return {"base_url": self.url, "headers": headers, "timeout": seconds, "trust_env": not near}

    async def _all(
        self, requests: Sequence[Request], in_flight: int, seconds: float, until: float
    ) -> list[Answer]:
        import httpx

        room = asyncio.Semaphore(in_flight)
        clock = Waiting(seconds, until)
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=in_flight)
        async with httpx.AsyncClient(limits=limits, **self._options(None)) as client:

            async def one(request: Request) -> Answer:
                async with room:
                    return await self._limited(client, request, clock)

            asked = asyncio.gather(*(one(request) for request in requests))
            watch = asyncio.ensure_future(_watch())
            both: set[asyncio.Future[Any]] = {asked, watch}
            try:
                await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
                if watch.done():
                    await watch
                return await asked
            finally:
                for task in (asked, watch):
                    task.cancel()
                with suppress(asyncio.CancelledError, stopping.Stopped):
                    await asked

    async def _limited(self, client: httpx.AsyncClient, request: Request, clock: Waiting) -> Answer:
        began = time.monotonic()
        asking = asyncio.ensure_future(self._one(client, request))
        try:
            while (left := clock.left(began)) > 0:
                await asyncio.wait({asking}, timeout=left)
                if asking.done():
                    clock.answered = time.monotonic()
                    return replace(asking.result(), seconds=clock.answered - began)
        finally:
            asking.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await asking
        gone = time.monotonic() - began
        if time.monotonic() >= clock.until:
            return Answer("cut_off", error="the time was used up", seconds=gone)
        return Answer("timed_out", error=f"no answer after {gone:.0f} s", seconds=gone)

    async def _one(self, client: httpx.AsyncClient, request: Request) -> Answer:
        while True:
            form, chat = self.form, self.chat
            answer = await self._sent(client, request)
            if answer.status in NO_PATH and not chat:
                self.chat = True  # found out by whoever is first, for all that follow
            elif answer.status == 400 and (form != self.form or form + 1 < len(_FORMS)):
                # Something is asked that it does not know: the next form leaves it out, for all that follow.
                self.form = max(self.form, form + 1)
            elif answer.status in BUSY:
                await asyncio.sleep(AGAIN)
            else:
                return answer

    def _body(self, request: Request) -> dict[str, Any]:
        body: dict[str, Any] = {"model": self.model, "max_tokens": request.tokens, "temperature": 0}
        if self.chat:
            body["messages"] = [{"role": "user", "content": request.prompt}]
        else:
            body["prompt"] = request.prompt
        whole, logprobs = _FORMS[self.form]
        if request.stop is not None:
            body["stop"] = request.stop
        elif whole:
            body["ignore_eos"] = True
        if request.salt and whole:
            body["cache_salt"] = request.salt
        if request.logprobs and logprobs:
            body |= {"logprobs": True, "top_logprobs": BEST} if self.chat else {"logprobs": BEST}
        return body

    async def _sent(self, client: httpx.AsyncClient, request: Request) -> Answer:
        import httpx

        chat = self.chat
        try:
            path = CHAT if chat else COMPLETIONS
            async with client.stream("POST", path, json=self._body(request)) as response:
                data = bytearray()
                async for piece in response.aiter_bytes():
                    data += piece
                    if len(data) > LARGEST:
                        return Answer("failed", error=f"an answer of more than {LARGEST >> 20} MB")
                status = response.status_code
        except httpx.ConnectError as error:
            return Answer("unreachable", error=_words(error))
        except httpx.TimeoutException:
            return Answer("timed_out", error="no answer in time")
        except (httpx.HTTPError, OSError, ValueError) as error:
            return Answer("broken", error=_words(error))
        return (read_chat if chat else read_answer)(status, bytes(data))


def base_url(url: str) -> str:
    """The address without ``/v1``. Raises :class:`ToolError` for what is none."""
    try:
        parts = urlsplit(url.strip())
        host = (parts.hostname or "").encode("idna")
        sound = parts.scheme in ("http", "https") and bool(host) and parts.port != 0
    except ValueError:
        sound = False
    if not sound or parts.username or parts.query or parts.fragment:
        raise ToolError(f"{url[:80]!r} is no address of a server; expected e.g. http://127.0.0.1:30000")
    return url.strip().rstrip("/").removesuffix("/v1").rstrip("/")


@dataclass
class Waiting:
    """How long may be waited: ``answered`` is when the last answer came, to whichever request."""

    seconds: float
    until: float
    answered: float = -math.inf

    def left(self, began: float) -> float:
        return min(max(began, self.answered) + self.seconds, self.until) - time.monotonic()


async def _watch() -> None:
    """Ends when this thread is asked to stop, by raising what says so."""
    while True:
        stopping.check()
        await asyncio.sleep(WATCH)


def _words(error: BaseException) -> str:
    said = " ".join(str(error).split())[:LONGEST]
    return said or type(error).__name__
