"""The diagnosis of a quantized file against its float origin: on the terminal, and as a part of a page with plots."""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

from markupsafe import Markup

from advisor.compression.diagnosis.values import Channels, DiagnosedLayer, Diagnosis, Outlier
from advisor.reporting import text
from advisor.reporting.blocks import PAGES, Block, DataTable, Heading, Labelled, Paragraph, Span, TableColumn, Words
from advisor.reporting.console import WIDE
from advisor.reporting.templating import render

SHOWN = 10

WIDTH, HEIGHT = 640, 170
LEFT, BOTTOM = 44, 22
BARS = 200
"""Bars drawn for a layer; with more channels, neighbours share a bar."""

TOP_DB = 60.0

_BAR = Markup('<rect class="{}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}"><title>{}</title></rect>')

LAYERS = (
    TableColumn("op"),
    TableColumn("type", left=True, width=WIDE),
    TableColumn("layer", left=True, head=True),
    TableColumn("data", left=True, width=PAGES),
    TableColumn("SNR dB alone", short="alone"),
    TableColumn("arriving"),
    TableColumn("range", width=76),
    TableColumn("values", width=PAGES),
    TableColumn("used %"),
    TableColumn("clipped %", short="cut %"),
    TableColumn("widest channel", width=76, short="channel"),
    TableColumn("kernel", width=WIDE),
    TableColumn("scale", left=True, width=WIDE),
    TableColumn("left by XNNPACK", left=True, width=PAGES),
    TableColumn("why", left=True, width=PAGES),
)


CAPTION = (
    "Noise of each layer quantized alone, and arriving with all layers before it, in dB; how much of the quantized "
    "range its values use; its widest channel and the widest channel of its kernel, as multiples of the median"
)


def diagnosis_lines(found: Diagnosis, everything: bool = False) -> Iterator[Block]:
    """Return the heading, the layers that add most noise (or all, in order), and the verdict, for a terminal."""
    rows = found.layers if everything else found.worst(SHOWN)
    yield Heading(f"Compared with {Path(found.against).name}, layer by layer")
    yield Paragraph(f"{found.images} images: {found.source}", "dim")
    if rows:
        yield DataTable(LAYERS, list(map(_row, rows)))
    for index, sentence in enumerate(found.verdict):
        yield Labelled("Verdict" if index == 0 else "Why", sentence, "good")


def diagnosis_html(found: Diagnosis) -> Markup:
    """Return verdict, plots and every layer; names from the files are escaped."""
    layers = {layer.index: layer for layer in found.layers}
    return render(
        "diagnosis",
        found=found,
        against=Path(found.against).name,
        snr=snr_plot(found),
        plots=[(layers[one.index], channel_plot(layers[one.index], one)) for one in found.channels],
        decibel=decibel,
        layers=[DataTable(LAYERS, list(map(_row, found.layers)), CAPTION, "tall layers")],
    )


def _row(layer: DiagnosedLayer) -> list[Words]:
    used = layer.range_used
    return [
        str(layer.index),
        layer.operator,
        Span(layer.name, "name"),
        layer.data,
        decibel(layer.own_snr_db),
        decibel(layer.snr_db),
        span(layer.range),
        span(layer.used),
        text.MISSING if used is None else f"{100 * used:.0f}",
        text.MISSING if layer.range is None else f"{100 * layer.clipped:.1f}",
        outlier(layer.channels),
        outlier(layer.kernel),
        scale(layer),
        layer.refused,
        layer.cause,
    ]


def decibel(value: float | None) -> str:
    """Format a ratio in dB; a dash where nothing differs."""
    return text.MISSING if value is None else f"{value:.0f}"


def span(ends: tuple[float, float] | None) -> str:
    """Format a range; a dash for float outputs."""
    return text.MISSING if ends is None else f"{ends[0]:.3g} to {ends[1]:.3g}"


def outlier(found: Outlier | None) -> str:
    """Format a channel and its range as a multiple of the median."""
    return text.MISSING if found is None else f"{found.channel}: {found.ratio:.1f}x"


def scale(layer: DiagnosedLayer) -> str:
    """Return the granularity of a kernel's scale."""
    return text.MISSING if layer.per_channel is None else "per channel" if layer.per_channel else "per tensor"


def snr_plot(found: Diagnosis) -> Markup:
    """Draw the signal-to-noise ratio of each layer: quantized alone as a bar, with all layers before it as a line."""
    layers = found.layers
    step = (WIDTH - LEFT) / max(1, len(layers))
    bars = Markup().join(_snr_bar(layer, LEFT + index * step, step) for index, layer in enumerate(layers))
    points = [
        f"{LEFT + (index + 0.5) * step:.1f},{_decibel_y(layer.snr_db):.1f}"
        for index, layer in enumerate(layers)
        if layer.snr_db is not None
    ]
    arriving = Markup('<polyline class="arriving" points="{}"/>').format(" ".join(points))
    grid = Markup().join(_tick(_decibel_y(value), f"{value} dB") for value in (0, 20, 40, 60))
    return _drawing("Signal to noise of every layer", grid + bars + arriving)


def channel_plot(layer: DiagnosedLayer, channels: Channels) -> Markup:
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


def _snr_bar(layer: DiagnosedLayer, x: float, step: float) -> Markup:
    own = layer.own_snr_db
    if own is None:
        return Markup()
    top = _decibel_y(own)
    kind, title = "weak" if layer.cause else "bar", f"{layer.index} {layer.name}: {own:.0f} dB"
    return _BAR.format(kind, x, top, max(1.0, step - 1), HEIGHT - BOTTOM - top, title)


def _channel_bars(layer: DiagnosedLayer, channels: Channels, low: float, high: float) -> Iterator[Markup]:
    widest = layer.channels.channel if layer.channels else -1
    size = math.ceil(len(channels.least) / BARS)
    groups = range(0, len(channels.least), size)
    step = (WIDTH - LEFT) / max(1, len(groups))
    for index, start in enumerate(groups):
        least, most = min(channels.least[start : start + size]), max(channels.most[start : start + size])
        top, bottom = _value_y(most, low, high), _value_y(least, low, high)
        kind = "weak" if start <= widest < start + size else "bar"
        title = f"channel {start}: {least:.3g} to {most:.3g}"
        yield _BAR.format(kind, LEFT + index * step, top, max(0.8, step - 0.6), max(0.8, bottom - top), title)


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
