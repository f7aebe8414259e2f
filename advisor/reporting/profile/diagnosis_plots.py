"""Plots of a diagnosis as SVG: they need no script and print well."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from markupsafe import Markup

from advisor.compression.diagnosis.values import Channels, Diagnosis, Layer

WIDTH, HEIGHT = 640, 170
LEFT, BOTTOM = 44, 22
BARS = 200
"""Bars drawn for a layer; with more channels, neighbours share a bar."""

TOP_DB = 60.0

_BAR = Markup('<rect class="{}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}"><title>{}</title></rect>')


def snr_plot(found: Diagnosis) -> Markup:
    """Draw the signal-to-noise ratio of each layer: quantized alone as a bar, with all layers before it as a line."""
    layers = found.layers
    step = (WIDTH - LEFT) / max(1, len(layers))
    bars = Markup().join(_snr_bar(layer, LEFT + place * step, step) for place, layer in enumerate(layers))
    points = [
        f"{LEFT + (place + 0.5) * step:.1f},{_decibel_y(layer.snr_db):.1f}"
        for place, layer in enumerate(layers)
        if layer.snr_db is not None
    ]
    arriving = Markup('<polyline class="arriving" points="{}"/>').format(" ".join(points))
    grid = Markup().join(_tick(_decibel_y(value), f"{value} dB") for value in (0, 20, 40, 60))
    return _drawing("Signal to noise of every layer", grid + bars + arriving)


def channel_plot(layer: Layer, channels: Channels) -> Markup:
    """Draw the range of each channel's values over the range that the quantized file can hold."""
    ends = [*(layer.range or ()), *layer.used]
    low, high = min(ends), max(ends)
    held = Markup()
    if layer.range is not None:
        top, bottom = (_value_y(end, low, high) for end in (layer.range[1], layer.range[0]))
        held = Markup('<rect class="held" x="{}" y="{:.1f}" width="{}" height="{:.1f}"/>').format(
            LEFT, top, WIDTH - LEFT, max(1.0, bottom - top)
        )
    bars = Markup().join(_channel_bars(layer, channels, low, high))
    grid = Markup().join(_tick(_value_y(end, low, high), f"{end:.3g}") for end in dict.fromkeys((low, high)))
    return _drawing(f"Channels of {layer.name}", held + grid + bars)


def _snr_bar(layer: Layer, x: float, step: float) -> Markup:
    own = layer.own_snr_db
    if own is None:
        return Markup()
    top = _decibel_y(own)
    kind, title = "weak" if layer.cause else "bar", f"{layer.index} {layer.name}: {own:.0f} dB"
    return _BAR.format(kind, x, top, max(1.0, step - 1), HEIGHT - BOTTOM - top, title)


def _channel_bars(layer: Layer, channels: Channels, low: float, high: float) -> Iterator[Markup]:
    outlier = layer.channels.channel if layer.channels else -1
    size = math.ceil(len(channels.least) / BARS)
    groups = range(0, len(channels.least), size)
    step = (WIDTH - LEFT) / max(1, len(groups))
    for place, start in enumerate(groups):
        least, most = min(channels.least[start : start + size]), max(channels.most[start : start + size])
        top, bottom = _value_y(most, low, high), _value_y(least, low, high)
        kind = "weak" if start <= outlier < start + size else "bar"
        yield _BAR.format(
            kind, LEFT + place * step, top, max(0.8, step - 0.6), max(0.8, bottom - top),
            f"channel {start}: {least:.3g} to {most:.3g}",
        )  # fmt: skip


def _decibel_y(value: float | None) -> float:
    part = 0.0 if value is None else min(1.0, max(0.0, value / TOP_DB))
    return 8 + (1 - part) * (HEIGHT - BOTTOM - 8)


def _value_y(value: float, low: float, high: float) -> float:
    return 8 + (high - value) / ((high - low) or 1.0) * (HEIGHT - BOTTOM - 8)


def _tick(y: float, label: str) -> Markup:
    return Markup(
        '<line class="grid" x1="{}" x2="{}" y1="{:.1f}" y2="{:.1f}"/><text x="{}" y="{:.1f}">{}</text>'
    ).format(LEFT, WIDTH, y, y, LEFT - 4, y + 4, label)


def _drawing(title: str, *parts: Sequence[Markup] | Markup) -> Markup:
    body = Markup().join(part if isinstance(part, Markup) else Markup().join(part) for part in parts)
    return Markup('<svg class="drawing" viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>').format(
        WIDTH, HEIGHT, title, body
    )
