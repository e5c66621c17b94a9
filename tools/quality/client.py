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
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

from tools import stopping
from tools.errors import ToolError

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
_LONGEST = 400
_SURELY_NOT = -1000.0
"""A chosen token has no such logprob; some engines write one where they have none that is a number."""

Ended = Literal["answered", "refused", "failed", "broken", "unreachable", "timed_out", "cut_off"]


@dataclass(frozen=True)
class Token:
    """``logprob``: None where the server says none, or none that is a number. ``best``: by token, in nats."""

    text: str
    logprob: float | None
    best: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Answer:
    """``refused``: an HTTP status below 500, ``failed``: one from there on, ``broken``: a connection that
    ended in between, ``cut_off``: by us, when all time was used up. ``tokens`` is empty where the server
    gives no logprobs; ``finite``: all are numbers."""

    ended: Ended
    text: str = ""
    tokens: tuple[Token, ...] = ()
    finite: bool = True
    status: int | None = None
    error: str = ""
    seconds: float = 0.0


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
    """``url``: up to and without ``/v1``. ``form``: how much of what is asked it turned out to understand."""

    url: str
    model: str | None = None
    key: str | None = None
    form: int = 0

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
            form = self.form
            answer = await self._sent(client, request)
            if answer.status == 400 and (form != self.form or form + 1 < len(_FORMS)):
                # Something is asked that it does not know: the next form leaves it out, for all that follow.
                self.form = max(self.form, form + 1)
            elif answer.status in BUSY:
                await asyncio.sleep(AGAIN)
            else:
                return answer

    def _body(self, request: Request) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self.model, "prompt": request.prompt, "max_tokens": request.tokens, "temperature": 0,
        }  # fmt: skip
        whole, logprobs = _FORMS[self.form]
        if request.stop is not None:
            body["stop"] = request.stop
        elif whole:
            body["ignore_eos"] = True
        if request.salt and whole:
            body["cache_salt"] = request.salt
        if request.logprobs and logprobs:
            body["logprobs"] = BEST
        return body

    async def _sent(self, client: httpx.AsyncClient, request: Request) -> Answer:
        import httpx

        try:
            async with client.stream("POST", "/v1/completions", json=self._body(request)) as response:
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
        return read_answer(status, bytes(data))


def read_answer(status: int, data: bytes) -> Answer:
    """What an HTTP answer of ``/v1/completions`` says. Whatever it holds, it is data."""
    if status != 200:
        words = " ".join(data[: 4 * _LONGEST].decode("utf-8", "replace").split())[:_LONGEST]
        return Answer("failed" if status >= 500 else "refused", status=status, error=words)
    try:
        choice = json.loads(data)["choices"][0]
        text = choice["text"]
        if not isinstance(text, str):
            raise TypeError
    except (ValueError, KeyError, IndexError, TypeError, RecursionError):
        return Answer("failed", status=status, error="the answer is no completion as OpenAI words it")
    reason = choice.get("finish_reason")
    if isinstance(reason, str) and reason not in ("stop", "length"):
        return Answer("failed", text, status=status, error=f"it ended for: {reason[:_LONGEST]}")
    tokens = _tokens(choice.get("logprobs"))
    finite = all(one.logprob is not None for one in tokens)
    # Engines that look for numbers that are none say here that they ended an answer for one.
    matched = choice.get("matched_stop")
    told = matched[:_LONGEST] if isinstance(matched, str) else ""
    return Answer("answered", text, tokens, finite, status, told)


def _tokens(given: Any) -> tuple[Token, ...]:
    if not isinstance(given, dict) or not isinstance(given.get("token_logprobs"), list):
        return ()
    texts, best = given.get("tokens"), given.get("top_logprobs")
    texts = texts if isinstance(texts, list) else []
    best = best if isinstance(best, list) else []
    return tuple(
        Token(
            str(texts[place]) if place < len(texts) else "",
            number(logprob),
            _best(best[place]) if place < len(best) else {},
        )
        for place, logprob in enumerate(given["token_logprobs"])
    )


def _best(given: Any) -> dict[str, float]:
    if not isinstance(given, dict):
        return {}
    found = {str(name): number(value) for name, value in given.items()}
    return {name: value for name, value in found.items() if value is not None}


def number(value: Any) -> float | None:
    """A logprob; None for what is none: NaN, an infinity, nothing, or above certainty."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if _SURELY_NOT < value <= 1e-3 else None


def base_url(url: str) -> str:
    """The address without ``/v1``. Raises :class:`ToolError` for what is none."""
    try:
        parts = urlsplit(url.strip())
        sound = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
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
    said = " ".join(str(error).split())[:_LONGEST]
    return said or type(error).__name__
