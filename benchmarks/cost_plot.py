"""The plot of a benchmark: what is reached against the seconds spent, a line a method, without a plotting library."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

COLOURS = ("#0b6e4f", "#5fb49c", "#888888", "#c8553d", "#3d5a98", "#a06cd5")
LEFT, TOP, RIGHT, BOTTOM = 50, 40, 670, 340
"""The corners of the plot in an SVG of 720 x 400."""


def plot(curves: Mapping[str, Sequence[Sequence[float]]], everything: float, goals: Mapping[float, float]) -> str:
    """Return an SVG of the hypervolume reached against seconds, the median over seeds of each method.

    Args:
        curves: of each method, of each seed, what was reached at equal steps of the cost of everything.
        everything: that cost in seconds.
        goals: the share of that cost within which each share is to be reached.
    """
    lines = [_curve(name, runs, place) for place, (name, runs) in enumerate(curves.items())]
    head = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 720 400" font-family="sans-serif" font-size="13">'
    return (
        f'{head}<rect width="720" height="400" fill="white"/>{_axes(everything)}{_goals(goals)}{"".join(lines)}</svg>\n'
    )


def _curve(name: str, runs: Sequence[Sequence[float]], place: int) -> str:
    colour = COLOURS[place % len(COLOURS)]
    medians = [0.0, *(statistics.median(values) for values in zip(*runs, strict=True))]
    steps = len(medians) - 1
    points = " ".join(f"{_x(step / steps):.1f},{_y(reached):.1f}" for step, reached in enumerate(medians))
    label = f'<text x="570" y="{230 + 18 * place}" fill="{colour}">{name}</text>'
    return f'<polyline fill="none" stroke="{colour}" stroke-width="2" points="{points}"/>{label}'


def _goals(goals: Mapping[float, float]) -> str:
    return "".join(
        f'<path d="M{_x(cost) - 5:.0f} {_y(share):.0f}h10m-5 -5v10" stroke="#444"/>'
        f'<text x="{_x(cost) + 8:.0f}" y="{_y(share) - 4:.0f}" fill="#444">{share:.0%} to reach here</text>'
        for share, cost in goals.items()
    )


def _axes(everything: float) -> str:
    ticks = "".join(
        f'<text x="{_x(share):.0f}" y="{BOTTOM + 18}" text-anchor="middle">{share * everything:.0f}</text>'
        f'<text x="{LEFT - 6}" y="{_y(share) + 4:.0f}" text-anchor="end">{share:.0%}</text>'
        for share in (0, 0.25, 0.5, 0.75, 1)
    )
    return (
        f'<path d="M{LEFT} {TOP}V{BOTTOM}H{RIGHT}" fill="none" stroke="#444"/>{ticks}'
        f'<text x="360" y="390" text-anchor="middle">seconds of this machine</text>'
        f'<text x="{LEFT}" y="24">share of the whole table\'s hypervolume, median over seeds</text>'
    )


def _x(share: float) -> float:
    return LEFT + share * (RIGHT - LEFT)


def _y(share: float) -> float:
    return BOTTOM - share * (BOTTOM - TOP)
