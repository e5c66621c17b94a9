"""Lines of a file, as ``head``, ``tail``, ``sed -n`` and ``awk`` choose them one after another."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Window:
    """Lines ``start`` to ``end``, 1-based, inclusive; ``end`` None is the end of the file.

    A negative number counts from the end: -1 is the last line.
    """

    start: int = 1
    end: int | None = None

    def first(self, count: int) -> Window:
        """``head -n count``; a negative ``count`` leaves out as many at the end."""
        if count < 0:
            return self if self.end is not None else Window(self.start, count - 1)
        if self.start > 0:
            last = self.start + count - 1
            return Window(self.start, min(last, self.end) if self.end and self.end > 0 else last)
        last = self.start + count - 1
        return Window(self.start, last if last < (self.end or 0) else self.end)

    def last(self, count: int) -> Window:
        """``tail -n count``."""
        if self.end is None:
            return Window(-count) if self.start > 0 else Window(max(self.start, -count))
        start = self.end - count + 1
        if (self.start > 0) == (self.end > 0):
            return Window(max(self.start, start), self.end)
        return Window(start, self.end) if self.end < 0 else self

    def part(self, start: int, end: int | None) -> Window:
        """``sed -n 'start,endp'``; a negative number counts from this window's end."""
        if start < 0:
            narrowed = self.last(-start)
            return narrowed if end is None else narrowed.first(end - start + 1)
        from_there = self.start + start - 1
        if self.start < 0 <= from_there:
            from_there = -1
        begun = Window(from_there, self.end)
        if end is None or end < 0:
            return begun if end is None else begun.first(end + 1)
        return begun.first(max(end - start + 1, 0))
