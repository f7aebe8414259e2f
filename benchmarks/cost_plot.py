"""Plots shares against the seconds spent, without a plotting library."""

import math
import statistics
from collections.abc import Mapping, Sequence
from itertools import groupby

COLOURS = ("#0b6e4f", "#888888", "#c8553d", "#3d5a98", "#a06cd5", "#b8860b")
LEFT, TOP, RIGHT, BOTTOM = 60, 50, 680, 390
"""The corners of the plot in an SVG of 720 x 450."""

FLOOR = 0.5
"""Share at the bottom of the plot: a search passes it within seconds."""

HEAD = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 720 450" font-family="sans-serif" font-size="13">'
HALO = 'stroke="white" stroke-width="3" paint-order="stroke"'


def plot(
    curves: Mapping[str, Sequence[Sequence[float]]],
    everything: float,
    goals: Mapping[float, float],
    title: str = "",
    shares: str = "share of the whole hypervolume, median over seeds",
    costs: str = "seconds of this machine (two cores)",
) -> str:
    """Return an SVG of the share reached against seconds, the median over the runs of each curve.

    Args:
        curves: for each name and run, the share reached at equal steps of the cost of everything; NaN draws no line.
        everything: that cost in seconds.
        goals: for each share to reach, the share of that cost within which to reach it.
        title: what is searched.
        shares: what the shares are.
        costs: what the seconds are.
    """
    lines = [_curve(name, runs, place) for place, (name, runs) in enumerate(curves.items())]
    area = f'<clipPath id="a"><path d="M{LEFT} {TOP - 2}H{RIGHT}V{BOTTOM}H{LEFT}z"/></clipPath>'
    paper = '<rect width="720" height="450" fill="white"/>'
    return f"{HEAD}{area}{paper}{_axes(everything, title, shares, costs)}{''.join(lines)}{_goals(goals)}</svg>\n"


def _curve(name: str, runs: Sequence[Sequence[float]], place: int) -> str:
    colour = COLOURS[place % len(COLOURS)]
    medians = [0.0, *(statistics.median(values) for values in zip(*runs, strict=True))]
    steps = len(medians) - 1
    places = [(step, reached) for step, reached in enumerate(medians) if step or not math.isnan(medians[1])]
    parts = [list(points) for unknown, points in groupby(places, key=lambda each: math.isnan(each[1])) if not unknown]
    line = "".join(
        f'<polyline clip-path="url(#a)" fill="none" stroke="{colour}" stroke-width="2" points="'
        f'{" ".join(f"{_x(step / steps):.1f},{_y(reached):.1f}" for step, reached in points)}"/>'
        for points in parts
    )
    return f'{line}<text x="560" y="{270 + 18 * place}" fill="{colour}" {HALO}>{name}</text>'


def _goals(goals: Mapping[float, float]) -> str:
    """Mark where each share is to be reached: a line may not pass below or to the right of its mark."""
    return "".join(
        f'<path d="M{_x(cost) - 6:.0f} {_y(share):.0f}h12m-6 -6v12" stroke="#222" stroke-width="1.5"/>'
        f'<text x="{_x(cost) + 8:.0f}" y="{_y(share) + 20:.0f}" fill="#222" {HALO}>{share:.0%} to reach by here</text>'
        for share, cost in goals.items()
    )


def _axes(everything: float, title: str, shares: str, costs: str) -> str:
    step = _round(everything / 5)
    seconds = "".join(
        f'<text x="{_x(place * step / everything):.0f}" y="{BOTTOM + 18}" text-anchor="middle">{place * step:g}</text>'
        for place in range(int(everything // step) + 1)
    )
    heights = "".join(
        f'<path d="M{LEFT} {_y(share):.0f}H{RIGHT}" stroke="#ddd"/>'
        f'<text x="{LEFT - 6}" y="{_y(share) + 4:.0f}" text-anchor="end">{share:.0%}</text>'
        for share in (0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
    )
    return (
        f'{heights}<path d="M{LEFT} {TOP}V{BOTTOM}H{RIGHT}" fill="none" stroke="#444"/>{seconds}'
        f'<text x="370" y="{BOTTOM + 40}" text-anchor="middle">{costs}</text>'
        f'<text x="{LEFT}" y="20" font-weight="bold">{title}</text>'
        f'<text x="{LEFT}" y="38">{shares}</text>'
    )


def _round(step: float) -> float:
    """Return the largest of 1, 2 and 5 times a power of ten that is no more than ``step``."""
    power = 10.0 ** math.floor(math.log10(step))
    return max(factor * power for factor in (1, 2, 5) if factor * power <= step)


def _x(share: float) -> float:
    return LEFT + share * (RIGHT - LEFT)


def _y(share: float) -> float:
    return BOTTOM - (share - FLOOR) / (1 - FLOOR) * (BOTTOM - TOP)
