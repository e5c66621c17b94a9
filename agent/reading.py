"""A question being read: its words, which of them are taken, and what was understood so far."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass
class Word:
    text: str
    taken: bool = False


@dataclass
class Reading:
    """What has been understood so far."""

    words: list[Word]
    packages: dict[str, str] = field(default_factory=dict)
    engines: dict[str, None] = field(default_factory=dict)
    archs: dict[str, str] = field(default_factory=dict)
    """Architecture → the words that named it."""
    loose: list[tuple[str, tuple[str, ...], str]] = field(default_factory=list)
    """GPU names that fit several architectures: the words, the architectures, the explanation."""
    gpu: str | None = None
    gpu_count: int | None = None
    assumed: list[str] = field(default_factory=list)

    def free(self, longest: int) -> Iterator[tuple[int, int]]:
        """Spans of words not taken yet, longest first."""
        for size in range(longest, 0, -1):
            for start in range(len(self.words) - size + 1):
                if not any(word.taken for word in self.words[start : start + size]):
                    yield start, start + size

    def text(self, start: int, end: int) -> str:
        return " ".join(word.text for word in self.words[start:end])

    def take(self, start: int, end: int) -> None:
        for word in self.words[start:end]:
            word.taken = True


def split(text: str) -> list[str]:
    """The words, without the punctuation around them."""
    words = (word.strip(",;!?()[]{}\"'`").rstrip(".:") for word in text.split())
    return [word for word in words if word]
