"""Plots as SVG, drawn here: nothing is loaded, nothing runs, every label is escaped."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from agent.text import squeeze

WIDTH, HEIGHT = 720, 420
_LEFT, _RIGHT, _TOP, _BOTTOM = 76, 16, 28, 48
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000")
"""Told apart by who sees colours otherwise, too."""
_STEPS = 6


@dataclass(frozen=True)
class Dot:
    """``half``: half of the interval of ``y``; ``label``: what stands beside it."""

    x: float
    y: float
    half: float | None = None
    label: str = ""
    ringed: bool = False


@dataclass(frozen=True)
class Line:
    name: str
    dots: tuple[Dot, ...]


def plot(lines: Sequence[Line], title: str, x: str, y: str) -> str:
    """Lines with their dots; both axes begin at zero. One SVG element, whatever the numbers are."""
    dots = [dot for line in lines for dot in line.dots]
    right = _nice(max((dot.x for dot in dots), default=1.0))
    top = _nice(max((dot.y + (dot.half or 0.0) for dot in dots), default=1.0))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" '
        f'height="{HEIGHT}" font-family="sans-serif" font-size="12" role="img">',
        f"<title>{_text(title)}</title>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
        f'<text x="{_LEFT}" y="18" font-weight="bold">{_text(title)}</text>',
    ]
    for step in range(_STEPS + 1):
        at_x, at_y = right * step / _STEPS, top * step / _STEPS
        left, bottom = _x(at_x, right), _y(at_y, top)
        parts += [
            f'<path d="M{left} {_TOP}V{HEIGHT - _BOTTOM}M{_LEFT} {bottom}H{WIDTH - _RIGHT}" stroke="#ddd"/>',
            f'<text x="{left}" y="{HEIGHT - _BOTTOM + 16}" text-anchor="middle">{_number(at_x)}</text>',
            f'<text x="{_LEFT - 6}" y="{bottom + 4}" text-anchor="end">{_number(at_y)}</text>',
        ]
    middle = (_LEFT + WIDTH - _RIGHT) // 2
    parts += [
        f'<text x="{middle}" y="{HEIGHT - 10}" text-anchor="middle">{_text(x)}</text>',
        f'<text x="14" y="{HEIGHT // 2}" text-anchor="middle" transform="rotate(-90 14 {HEIGHT // 2})">'
        f"{_text(y)}</text>",
    ]
    for number, line in enumerate(lines):
        parts += _drawn(line, _COLOURS[number % len(_COLOURS)], number, right, top)
    return "\n".join([*parts, "</svg>"])


def _drawn(line: Line, colour: str, number: int, right: float, top: float) -> list[str]:
    places = [(_x(dot.x, right), _y(dot.y, top), dot) for dot in line.dots]
    way = "L".join(f"{x} {y}" for x, y, _ in places)
    parts = [f'<path d="M{way}" fill="none" stroke="{colour}" stroke-width="1.5"/>'] if places else []
    for x, y, dot in places:
        if dot.half is not None:
            low, high = _y(max(dot.y - dot.half, 0.0), top), _y(dot.y + dot.half, top)
            parts.append(f'<path d="M{x} {low}V{high}M{x - 4} {low}h8M{x - 4} {high}h8" stroke="{colour}"/>')
        if dot.ringed:
            parts.append(f'<circle cx="{x}" cy="{y}" r="8" fill="none" stroke="{colour}"/>')
        parts.append(f'<circle cx="{x}" cy="{y}" r="4" fill="{colour}"/>')
        parts.append(f'<text x="{x + 8}" y="{y - 8}" fill="{colour}">{_text(dot.label)}</text>')
    height = _TOP + 14 + 16 * number
    parts.append(
        f'<text x="{WIDTH - _RIGHT - 4}" y="{height}" text-anchor="end" fill="{colour}">'
        f"{_text(line.name)}</text>"
    )
    return parts


def _x(value: float, most: float) -> float:
    return round(_LEFT + (WIDTH - _LEFT - _RIGHT) * value / most, 1)


def _y(value: float, most: float) -> float:
    return round(HEIGHT - _BOTTOM - (HEIGHT - _TOP - _BOTTOM) * value / most, 1)


def _nice(value: float) -> float:
    """A round number that is not less."""
    if not (math.isfinite(value) and value > 0):
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1.2, 1.8, 2.4, 3.0, 4.2, 6.0, 9.0, 12.0) if step * power >= value)


def _number(value: float) -> str:
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}"


def _text(text: str) -> str:
    line = squeeze(text)
    return escape(line if len(line) <= 60 else line[:59] + "…")
