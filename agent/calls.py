"""The calls of an investigation and what came of them, however many: the newest are held in memory.

Older ones lie in a file without a name and are read again when they are asked for. What is kept of each
besides is a few numbers, so that a transcript of any length can be replayed and resumed.
"""

from __future__ import annotations

import tempfile
import weakref
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import IO, Generic, TypeVar, overload

from pydantic import BaseModel

from transcripts.events import Called, Returned

NEWEST = 2000
"""Models of a kind that are held in memory."""

T = TypeVar("T", bound=BaseModel)
_NONE = -1


class Calls(Mapping[str, Called]):
    """Call → what was asked, in the order of the asking; :meth:`result` is what came of it."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._called = _Shelf(Called, NEWEST)
        self._returned = _Shelf(Returned, NEWEST)
        self._results = array("q")
        """Of each call the number of its result, and the event that holds it; -1: none so far."""
        self._seqs = array("q")
        self._hashes = bytearray()
        """Of each call the hash of that event, 32 bytes."""
        self._open: dict[str, None] = {}

    def __getitem__(self, name: str) -> Called:
        return self._called[self._numbers[name]]

    def __iter__(self) -> Iterator[str]:
        return iter(self._numbers)

    def __len__(self) -> int:
        return len(self._numbers)

    def ask(self, called: Called) -> None:
        self._numbers[called.call] = self._called.append(called)
        self._results.append(_NONE)
        self._seqs.append(_NONE)
        self._hashes += bytes(32)
        self._open[called.call] = None

    def answer(self, returned: Returned, seq: int, digest: str) -> None:
        """Note what came of a call; event ``seq``, whose hash is ``digest``, holds it. Nothing is kept of one
        that was not made."""
        number = self._numbers.get(returned.call)
        if number is not None:
            self._results[number] = self._returned.append(returned)
            self._seqs[number] = seq
            self._hashes[32 * number : 32 * number + 32] = bytes.fromhex(digest)
            self._open.pop(returned.call, None)

    def result(self, name: str) -> Returned | None:
        """What came of a call; None where it has not returned, or was not made."""
        number = self._numbers.get(name)
        if number is None or self._results[number] == _NONE:
            return None
        return self._returned[self._results[number]]

    def seq(self, name: str) -> int:
        """The event that holds the result of a call; -1 where there is none."""
        return self._seqs[self._numbers[name]]

    def hash(self, name: str) -> str:
        """The hash of the event that holds the result of a call that has one."""
        number = self._numbers[name]
        return self._hashes[32 * number : 32 * number + 32].hex()

    @property
    def open(self) -> list[str]:
        """Calls that have not returned, in order."""
        return list(self._open)


class Results(Sequence[tuple[Called, Returned]]):
    """Calls with what came of them, each fetched when it is looked at."""

    def __init__(self, names: Sequence[str], one: Callable[[str], tuple[Called, Returned]]) -> None:
        self._names = names
        self._one = one

    def __len__(self) -> int:
        return len(self._names)

    @overload
    def __getitem__(self, index: int) -> tuple[Called, Returned]: ...
    @overload
    def __getitem__(self, index: slice) -> Results: ...
    def __getitem__(self, index: int | slice) -> tuple[Called, Returned] | Results:
        if isinstance(index, slice):
            return Results(self._names[index], self._one)
        return self._one(self._names[index])


class _Shelf(Generic[T]):
    """Models by number. The oldest in memory goes to the file when there are too many."""

    def __init__(self, kind: type[T], newest: int) -> None:
        self._kind = kind
        self._newest: int | None = newest
        self._recent: dict[int, T] = {}
        self._ends = array("q", [0])
        """Where each model that is in the file ends; they go there in their order."""
        self._file: IO[bytes] | None = None

    def append(self, one: T) -> int:
        number = len(self._ends) - 1 + len(self._recent)
        self._recent[number] = one
        if self._newest is not None and len(self._recent) > self._newest:
            oldest = next(iter(self._recent))
            try:
                self._put_away(self._recent[oldest])
                del self._recent[oldest]
            except OSError:
                self._newest = None  # no room outside: from here on all is held in memory
        return number

    def __getitem__(self, number: int) -> T:
        recent = self._recent.get(number)
        if recent is not None:
            return recent
        assert self._file is not None, "what is not recent was put away"
        self._file.seek(self._ends[number])
        data = self._file.read(self._ends[number + 1] - self._ends[number])
        return self._kind.model_validate_json(data)

    def _put_away(self, one: T) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="assay-")  # noqa: SIM115 - it goes with the shelf
            weakref.finalize(self, self._file.close)
        data = one.model_dump_json().encode()
        self._file.seek(self._ends[-1])
        self._file.write(data)
        self._file.flush()
        self._ends.append(self._ends[-1] + len(data))
