"""A stand-in for an inference engine: a real HTTP server with a made-up model, and faults planted in it.

The model is deterministic: the words so far give the logits of the next. ``noise`` is what batching does to
rounding: it moves the logits of whoever is not alone. A fault befalls answers of a batch of ``at`` or more.
No engine runs here, and no weights are there.
"""

from __future__ import annotations

import asyncio
import json
import math
import random
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Self

QUIET = 0.01
"""Seconds without another request after which those that came are one batch."""
CROWDED = 0.25
"""The same where several have come."""
WORDS = [
    first + second for first in ("ka", "lo", "mi", "ru", "te", "vo") for second in ("", "n", "r", "sha", "to")
]


@dataclass
class Fake:
    """``with Fake() as server``: listens on ``server.url``. ``answers``: prompt → its answer."""

    noise: float = 0.0
    fault: str | None = None
    at: int = 1
    after: int = 0
    """Requests that are answered before a fault may strike."""
    share: float = 1.0
    """Of the prompts, which a fault befalls."""
    seed: int = 0
    flat: bool = False
    """As of random weights: no token is likely."""
    logprobs: bool = True
    chat: bool = False
    """It has chats alone."""
    refuses: str | None = None
    """A field that it does not know."""
    key: str | None = None
    answers: Mapping[str, str] = field(default_factory=dict)
    longest: int = 1 << 20
    """Characters of a prompt."""
    seen: list[dict[str, Any]] = field(default_factory=list)
    peak: int = 0
    strikes: threading.Event = field(default_factory=threading.Event)
    """Set when the fault has struck."""
    url: str = ""
    port: int = 0

    def __enter__(self) -> Self:
        self._loop = asyncio.new_event_loop()
        ready = threading.Event()
        self._thread = threading.Thread(target=self._live, args=(ready,))
        self._thread.start()
        ready.wait()
        self.url = f"http://127.0.0.1:{self.port}"
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(RuntimeError):  # it has crashed, as planted
            self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join()

    def _live(self, ready: threading.Event) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._serve(ready))
        self._loop.close()

    async def _serve(self, ready: threading.Event) -> None:
        self._end = asyncio.Event()
        self._waiting: list[tuple[dict[str, Any], asyncio.Future[tuple[int, bytes]]]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._batches = 0
        server = await asyncio.start_server(self._connection, "127.0.0.1", self.port, backlog=512)
        self.port = server.sockets[0].getsockname()[1]
        ready.set()
        await self._end.wait()
        await _turns()  # who has called is let in: a connection on the threshold would be left open
        server.close()
        for writer in self._writers:
            writer.transport.abort()
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await _turns()  # what was closed is gone

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                lines = head.decode().split("\r\n")
                fields = {
                    name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:])
                }
                body = await reader.readexactly(int(fields.get("content-length", 0)))
                status, answer = await self._answer(lines[0].split()[1], fields, body)
                writer.write(
                    f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\n"
                    f"Content-Length: {len(answer)}\r\n\r\n".encode()
                    + answer
                )
                await writer.drain()
        except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
            pass
        finally:
            writer.transport.abort()

    async def _answer(self, path: str, fields: Mapping[str, str], body: bytes) -> tuple[int, bytes]:
        if self.key is not None and fields.get("authorization") != f"Bearer {self.key}":
            return 401, b'{"error": "no key"}'
        if path == "/v1/models":
            return 200, json.dumps({"data": [{"id": "toy"}]}).encode()
        if path != ("/v1/chat/completions" if self.chat else "/v1/completions"):
            return 404, b'{"detail": "Not Found"}'
        asked = json.loads(body)
        if self.chat:
            asked["prompt"] = asked["messages"][-1]["content"]
        self.seen.append(asked)
        if self.refuses in asked:
            return 400, json.dumps({"error": f"unknown field {self.refuses}"}).encode()
        if len(asked["prompt"]) > self.longest:
            return 400, b'{"error": "longer than the context"}'
        done: asyncio.Future[tuple[int, bytes]] = self._loop.create_future()
        self._waiting.append((asked, done))
        if self._timer is not None:
            self._timer.cancel()
        # Of many there may be more to come, however long the scheduler lets them wait.
        self._timer = self._loop.call_later(QUIET if len(self._waiting) == 1 else CROWDED, self._batch)
        return await done

    def _batch(self) -> None:
        """Answer all that came."""
        batch, self._waiting = self._waiting, []
        self.peak = max(self.peak, len(batch))
        self._batches += 1
        struck = self.fault is not None and len(batch) >= self.at and len(self.seen) > self.after
        if struck:
            self.strikes.set()
        if struck and self.fault == "crash":
            self._end.set()
            return
        if struck and self.fault == "hang":
            return
        texts = [self.complete(asked, len(batch), place) for place, (asked, _) in enumerate(batch)]
        for place, (asked, done) in enumerate(batch):
            if done.cancelled():
                continue
            # By prompt: how requests come together is for the scheduler to say, what befalls them is not.
            luck = random.Random(f"{self.seed} luck {asked['prompt']}").random()
            if struck and luck < self.share:
                done.set_result(self.struck(asked, texts, place))
            else:
                done.set_result((200, self.worded(asked, texts[place])))

    def complete(self, asked: dict[str, Any], size: int, place: int) -> list[tuple[str, dict[str, float]]]:
        """Tokens, each with the logprobs of the best."""
        if (known := self.answers.get(asked["prompt"])) is not None:
            return [(f" {known}", {f" {known}": -0.1}), ("\n", {"\n": -0.1})]
        noise = (
            random.Random(f"{self.seed} {self._batches} {place} noise") if size > 1 and self.noise else None
        )
        said: list[tuple[str, dict[str, float]]] = []
        context = asked["prompt"]
        for _ in range(asked["max_tokens"]):
            logits = self._logits(context)
            if noise is not None:
                logits = {word: value + noise.gauss(0, self.noise) for word, value in logits.items()}
            total = math.log(sum(math.exp(value) for value in logits.values()))
            lower = 9.0 if self.flat else 0.0
            best = dict(
                sorted(((w, v - total - lower) for w, v in logits.items()), key=lambda one: -one[1])[:5]
            )
            word = next(iter(best))
            said.append((word, best))
            context += word
        return said

    def _logits(self, context: str) -> dict[str, float]:
        source = random.Random(f"{self.seed} {context}")
        words = source.sample(WORDS, 8)
        if self.flat:
            return {f" {word}": -source.uniform(0, 0.5) for word in words}
        sure = source.random()
        gap = (
            source.uniform(3, 8)
            if sure < 0.6
            else source.uniform(0.3, 3)
            if sure < 0.9
            else source.uniform(0, 0.3)
        )
        return {f" {word}": -gap - source.uniform(0, 2) if place else 0.0 for place, word in enumerate(words)}

    def worded(self, asked: dict[str, Any], said: list[tuple[str, dict[str, float]]], **more: Any) -> bytes:
        logprobs = None
        if self.logprobs and asked.get("logprobs"):
            logprobs = {
                "tokens": [word for word, _ in said],
                "token_logprobs": [best.get(word) for word, best in said],
                "top_logprobs": [best for _, best in said],
            }
        text = "".join(word for word, _ in said)
        stop = asked.get("stop")
        choice = {
            "text": text.split(stop)[0] if stop else text,
            "logprobs": logprobs,
            "finish_reason": "length",
        }
        if self.chat:
            choice["message"] = {"role": "assistant", "content": choice.pop("text")}
            choice["logprobs"] = logprobs and {
                "content": [
                    {"token": word, "logprob": best.get(word),
                     "top_logprobs": [{"token": one, "logprob": value} for one, value in best.items()]}
                    for word, best in said
                ]
            }  # fmt: skip
        return json.dumps({"choices": [{**choice, **more}]}).encode()

    def struck(self, asked: dict[str, Any], texts: list[Any], place: int) -> tuple[int, bytes]:
        said, fault = texts[place], self.fault
        if fault == "error":
            return 500, b'{"message": "internal error"}'
        if fault == "page":
            return 200, b"<html>it works</html>"
        if fault == "nan error":
            return 500, b'{"message": "Out of range float values are not JSON compliant: nan"}'
        if fault == "nan reason":
            return 200, self.worded(asked, said[:2], finish_reason="stop", matched_stop="NaN happened")
        if fault == "nan":
            said = [*said[:3], *(("!", {"!": math.nan}) for _ in said[3:])]
        elif fault == "null":
            said = [*said[:3], *(("!", {}) for _ in said[3:])]
        elif fault == "empty":
            said = []
        elif fault == "characters":
            said = [("\ufffd", {"\ufffd": -3.0 - place % 7}) for _ in said]
        elif fault == "one token":
            said = [("!", {"!": -0.2}) for _ in said]
        elif fault == "neighbour":
            said = texts[(place + 1) % len(texts)]
        elif fault == "other":
            # The least of the candidates, as if it were the best.
            said = [*said[:4], *((list(best)[-1], {list(best)[-1]: -0.3}) for _, best in said[4:])]
        elif fault == "moved":
            said = [(word, {one: value - 4.0 for one, value in best.items()}) for word, best in said]
        return 200, self.worded(asked, said)


async def _turns() -> None:
    for _ in range(20):
        await asyncio.sleep(0)
