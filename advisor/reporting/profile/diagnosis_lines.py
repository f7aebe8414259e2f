"""Why a quantized file is less accurate than its float origin, as lines and a table for the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rich.console import Console, RenderableType
from rich.text import Text

from advisor.compression.diagnosis.values import Diagnosis, Layer, Outlier
from advisor.reporting import text
from advisor.reporting.console import WIDE, Column, line, table

SHOWN = 10
LAYERS = (
    Column("op"),
    Column("type", left=True, width=WIDE),
    Column("layer", left=True),
    Column("SNR dB alone", short="alone"),
    Column("arriving"),
    Column("range", width=76),
    Column("used %"),
    Column("clipped %", short="cut %"),
    Column("widest channel", width=76, short="channel"),
    Column("kernel", width=WIDE),
    Column("scale", left=True, width=WIDE),
)


def lines(found: Diagnosis, console: Console, everything: bool = False) -> Iterator[RenderableType]:
    """Return the heading, the layers that add most noise (or all, in order), and the verdict."""
    rows = found.layers if everything else found.worst(SHOWN)
    yield Text()
    yield Text(text.plain(f"Compared with {Path(found.against).name}, layer by layer"), style="bold")
    yield Text(text.plain(f"{found.images} images: {found.source}"), style="dim")
    if rows:
        yield table(LAYERS, map(_row, rows), console)
        yield Text()
    for place, sentence in enumerate(found.verdict):
        yield line("Verdict" if place == 0 else "Why", sentence, "green")


def _row(layer: Layer) -> list[str | Text]:
    used = layer.range_used
    return [
        str(layer.index),
        layer.operator,
        layer.name,
        decibel(layer.own_snr_db),
        decibel(layer.snr_db),
        span(layer.range),
        text.MISSING if used is None else f"{100 * used:.0f}",
        text.MISSING if layer.range is None else f"{100 * layer.clipped:.1f}",
        outlier(layer.channels),
        outlier(layer.kernel),
        scale(layer),
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


def scale(layer: Layer) -> str:
    """Return the granularity of a kernel's scale."""
    return text.MISSING if layer.per_channel is None else "per channel" if layer.per_channel else "per tensor"
