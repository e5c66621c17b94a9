"""Asking a model over any OpenAI-compatible endpoint: one request, tried again where that may help.

Every wait is put on record before it begins. The history travels as it stands (``extra_body``): the client's
own transformation of it costs more than all else that a step does. The client is imported when it is first
needed.
"""

from __future__ import annotations

import json
import os
import random
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from functools import cached_property
from typing import Any
from urllib.parse import urlsplit

from agent.model.answers import MISSING, OVERFLOW, sent
from agent.model.reply import Reply, ReplyError
from agent.model.responses import SETTINGS, Response, items, offered
from agent.model.telling import is_too_long
from agent.text import shorten
from transcripts.events import Answered, Asked, Body, Event, Noted
from transcripts.messages import Messages
from transcripts.redaction.secrets import JSON, redacted

API, RESPONSES = "api", "responses"
"""The setting of a request that says by which interface it is asked; without it, by chat completions."""
_CHAT: Mapping[str, Any] = {"stream": True, "stream_options": {"include_usage": True}}
TRIES = 6
LONGEST_WAIT = 120.0
"""Seconds that are waited for the next try; who asks for more is not waited for."""
SILENCE = 300.0
"""Seconds without a word, after which an answer counts as broken off: models think long."""
LONGEST_ANSWER = 1800.0
"""Seconds after which it does although something comes: signs of life are no answer."""
CONNECTING = 20.0

_AGAIN = frozenset({408, 409, 425, 429})
"""Refusals that may not be repeated; so may not be those of the server itself (500 and up)."""


class RefusedError(Exception):
    """A request that came to nothing, and trying again would not help. The message is for the record."""


class AgainError(Exception):
    """A request that may go well another time. ``after``: seconds that the server asks to wait."""

    def __init__(self, why: str, after: float | None = None) -> None:
        super().__init__(why)
        self.after = after


@dataclass
class Endpoint:
    """``tools`` gives an artifact's JSON: the schemas that a request offers. ``keep`` stores what is too long
    for the log. Key and address come from ``OPENAI_API_KEY`` and ``OPENAI_BASE_URL``."""

    tools: Callable[[str], Any]
    keep: Callable[[bytes], str]
    redact: Callable[[JSON], JSON] = redacted
    say: Callable[[str], None] = lambda _: None
    sleep: Callable[[float], None] = time.sleep
    jitter: random.Random = field(default_factory=lambda: random.Random(0))  # noqa: S311 - no secret
    now: Callable[[], float] = time.time
    monotonic: Callable[[], float] = time.monotonic
    tries: int = TRIES
    _waited: float = field(default=0.0, init=False)
    _offered: tuple[str, bytes] = field(default=("", b""), init=False)
    _encoded: list[tuple[Mapping[str, Any], bytes]] = field(default_factory=list, init=False)

    def answer(
        self, asked: Asked, messages: Sequence[Mapping[str, Any]], record: Callable[[Body], Event]
    ) -> None:
        """Record what the model says, and one ``answered``. Only Ctrl-C and a log that cannot be written end
        it otherwise."""
        self._waited = 0.0
        try:
            reply, message = self._until_it_answers(asked, messages, record)
        except (AgainError, RefusedError) as error:
            why = shorten(str(self.redact(str(error))), 1000)
            record(Answered(request=asked.request, status="error", error=why, waited=round(self._waited, 3)))
            return
        said = Messages(_said(record), self.keep, lambda _: b"", redact=self.redact)
        head = said.say(message, asked.head)
        record(
            Answered(
                request=asked.request,
                status="ok",
                head=head,
                usage=reply.usage,
                waited=round(self._waited, 3),
            )
        )
        self._tell(asked.request, message)

    def _until_it_answers(
        self, asked: Asked, messages: Sequence[Mapping[str, Any]], record: Callable[[Body], Event]
    ) -> tuple[Reply, dict[str, Any]]:
        from tenacity import RetryCallState, Retrying, retry_if_exception_type, stop_after_attempt

        def wait(state: RetryCallState) -> float:
            error = state.outcome and state.outcome.exception()
            if isinstance(error, AgainError) and error.after is not None:
                return error.after
            longest = min(LONGEST_WAIT, 2.0**state.attempt_number)
            return longest * (0.5 + self.jitter.random() / 2)

        def tell(state: RetryCallState) -> None:
            seconds = state.upcoming_sleep
            why = shorten(str(self.redact(str(state.outcome and state.outcome.exception()))), 300)
            following = f"then try {state.attempt_number + 1} of {self.tries}"
            text = f"{asked.request}: {why}; waiting {seconds:.1f} s, {following}"
            self.say(text)
            record(Noted(text=text))
            self._waited += seconds

        return Retrying(
            stop=stop_after_attempt(self.tries),
            retry=retry_if_exception_type(AgainError),
            wait=wait,
            before_sleep=tell,
            sleep=self.sleep,
            reraise=True,
        )(self._once, asked, messages)

    def _once(self, asked: Asked, messages: Sequence[Mapping[str, Any]]) -> tuple[Reply, dict[str, Any]]:
        import openai

        try:
            stream = self._client.post(
                "/responses" if _is_response(asked) else "/chat/completions",
                content=self._body(asked, messages),
                options={"headers": {"content-type": "application/json"}},
                cast_to=object,
                stream=True,
                stream_cls=openai.Stream[object],
            )
            with stream:
                return self._read(stream.response, asked)
        except openai.APIStatusError as error:
            raise self._refused(error.status_code, error.response.headers, str(error.message)) from None
        except openai.APIConnectionError as error:
            why = error.__cause__ or error
            raise AgainError(f"cannot reach {self.address} ({type(why).__name__}: {why})") from None
        except (AgainError, RefusedError):
            raise
        except Exception as error:  # noqa: BLE001 - whatever is wrong in the client is no reason to lose the run
            lines = "".join(traceback.format_exception(error)[-3:])
            raise RefusedError(f"the request failed ({type(error).__name__}: {error}): {lines}") from None

    def _read(self, response: Any, asked: Asked) -> tuple[Reply, dict[str, Any]]:
        """The answer that a response holds. Raises :class:`AgainError` or :class:`RefusedError`."""
        reply = Response() if _is_response(asked) else Reply()
        try:
            if "json" in response.headers.get("content-type", ""):
                reply.read_whole(response.read().decode("utf-8", "replace"))
            else:
                reply.read(self._in_time(response.iter_lines()))
            return reply, reply.message(asked.request)
        except ReplyError as error:
            if is_too_long(str(error)):
                raise RefusedError(f"{OVERFLOW}: {error}") from None
            raise AgainError(str(error)) from None
        except Exception as error:  # noqa: BLE001 - whatever the transport of this version calls it
            raise AgainError(f"the answer broke off ({type(error).__name__}: {error})") from None

    def _in_time(self, lines: Iterable[str]) -> Iterator[str]:
        began = self.monotonic()
        for line in lines:
            if self.monotonic() - began > LONGEST_ANSWER:
                raise ReplyError(f"no end of the answer within {LONGEST_ANSWER:.0f} s")
            yield line

    def _refused(self, status: int, headers: Mapping[str, str], message: str) -> Exception:
        why = f"{self.address} says {status}: {shorten(message, 400)}"
        if status == 413 or (status in {400, 422} and is_too_long(message)):
            return RefusedError(f"{OVERFLOW}: {why}")
        if status in {401, 403}:
            return RefusedError(f"{MISSING}{why}; set OPENAI_API_KEY to a key that is good there")
        if status == 404:
            return RefusedError(
                f"{MISSING}{why}; check OPENAI_BASE_URL (it ends with /v1), the model's name, and --api"
            )
        if status not in _AGAIN and status < 500:
            return RefusedError(f"{why}; trying again would not help")
        after = self._asked_to_wait(headers)
        if "insufficient_quota" in message:
            return RefusedError(f"{MISSING}{why}; this key has no quota left")
        if after is not None and after > LONGEST_WAIT:
            return RefusedError(f"{why}; it asks to wait {after:.0f} s: resume then")
        return AgainError(why, after)

    def _asked_to_wait(self, headers: Mapping[str, str]) -> float | None:
        """Seconds, from Retry-After in either of its forms."""
        text = headers.get("retry-after", "").strip()
        try:
            if "retry-after-ms" in headers:
                return max(0.0, float(headers["retry-after-ms"]) / 1000)
            return max(0.0, float(text)) if text else None
        except ValueError:
            try:
                return max(0.0, parsedate_to_datetime(text).timestamp() - self.now())
            except (ValueError, TypeError):
                return None

    def _body(self, asked: Asked, messages: Sequence[Mapping[str, Any]]) -> bytes:
        """The request. A message is encoded once, however often it is sent."""
        response = _is_response(asked)
        settings = {key: value for key, value in asked.settings.items() if key != API}
        told = {"model": asked.model, **(SETTINGS if response else _CHAT), **settings}
        if asked.tools is not None and self._offered[0] != asked.tools:
            tools_then = self.tools(asked.tools)
            self._offered = (asked.tools, _encoded(offered(tools_then) if response else tools_then))
        tools = b"" if asked.tools is None else b',"tools":' + self._offered[1]
        sent_before = self._encoded
        same = 0
        while same < min(len(sent_before), len(messages)) and sent_before[same][0] is messages[same]:
            same += 1
        del sent_before[same:]
        as_sent = _as_items if response else lambda message: _encoded(sent(message))
        sent_before += [(message, as_sent(message)) for message in messages[same:]]
        name = b',"input":[' if response else b',"messages":['
        return _encoded(told)[:-1] + tools + name + b",".join(one for _, one in sent_before if one) + b"]}"

    def _tell(self, request: str, message: Mapping[str, Any]) -> None:
        calls = [call["function"]["name"] for call in message.get("tool_calls") or ()]
        words = shorten(str(message.get("content") or ""), 120)
        self.say(f"{request}: {' '.join(part for part in (words, ', '.join(calls)) if part)}"[:300])

    @cached_property
    def _client(self) -> Any:
        import openai

        return openai.OpenAI(
            api_key=os.environ.get("OPENAI_API_KEY") or "none",
            max_retries=0,
            timeout=openai.Timeout(SILENCE, connect=CONNECTING),
        )

    @property
    def address(self) -> str:
        """Host and port, without what may be a secret."""
        parts = urlsplit(os.environ.get("OPENAI_BASE_URL") or "https://api.openai.com/v1")
        return f"{parts.hostname}{f':{parts.port}' if parts.port else ''}"


def _is_response(asked: Asked) -> bool:
    return asked.settings.get(API) == RESPONSES


def _as_items(message: Mapping[str, Any]) -> bytes:
    return b",".join(map(_encoded, items({**message, "tool_calls": sent(message).get("tool_calls")})))


def _encoded(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def _said(record: Callable[[Body], Event]) -> Callable[[Any], object]:
    """Named for its type: what :class:`Messages` records is one kind of event."""
    return record
