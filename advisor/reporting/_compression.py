"""The answer of ``advisor compress``, and the diagnosis of a quantized file against its origin.

The diagnosis has a form for the terminal (:func:`diagnosis_lines`) and one for pages with plots
(:func:`diagnosis_html`), which the report of a run has, too.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from markupsafe import Markup, escape
from rich.console import Console

from advisor.core import DiagnosedLayer, Diagnosis, Outlier, plural
from advisor.engine import Compression, RecipeResult
from advisor.reporting import _blocks as blocks, _text as text
from advisor.reporting._blocks import WIDE, Cell, Labelled, TableColumn, next_command, table_of
from advisor.reporting._pages import render
from advisor.store import value_at

ALL = 0.999
"""Share of the arithmetic from which the rest is not worth a line."""

SHOWN = 10

WIDTH = 640
HEIGHT = 170
LEFT = 44
BOTTOM = 22
BARS = 200
"""Bars drawn for a layer; with more channels, neighbours share a bar."""

TOP_DB = 60.0

LAYERS: tuple[TableColumn[DiagnosedLayer], ...] = (
    TableColumn("op", lambda layer: layer.index),
    TableColumn("type", lambda layer: layer.operator, left=True, width=WIDE),
    TableColumn("layer", lambda layer: blocks.Span(layer.name, "name"), left=True, head=True),
    TableColumn("data", lambda layer: layer.data, left=True, width=blocks.PAGES),
    TableColumn("SNR dB alone", lambda layer: show_decibel(layer.own_snr_db), short="alone"),
    TableColumn("arriving", lambda layer: show_decibel(layer.snr_db)),
    TableColumn("range", lambda layer: _show_span(layer.range), width=76),
    TableColumn("values", lambda layer: _show_span(layer.used), width=blocks.PAGES),
    TableColumn("used %", lambda layer: _show_scaled(layer.range_used, 100, 0)),
    TableColumn(
        "clipped %", lambda layer: layer.range and f"{100 * layer.clipped:.1f}", short="cut %"
    ),
    TableColumn(
        "widest channel", lambda layer: _show_outlier(layer.channels), width=76, short="channel"
    ),
    TableColumn("kernel", lambda layer: _show_outlier(layer.kernel), width=WIDE),
    TableColumn("scale", lambda layer: _name_scale(layer), left=True, width=WIDE),
    TableColumn("left by XNNPACK", lambda layer: layer.refused, left=True, width=blocks.PAGES),
    TableColumn("why", lambda layer: layer.cause, left=True, width=blocks.PAGES),
)
CAPTION = (
    "Noise of each layer quantized alone, and arriving with all layers before it, in dB; how much"
    " of the quantized range its values use; its widest channel and the widest channel of its"
    " kernel, as multiples of the median"
)


def _name_scale(layer: DiagnosedLayer) -> str | None:
    if layer.per_channel is None:
        return None
    return "per channel" if layer.per_channel else "per tensor"


def _make_cell(
    path: str, factor: float, digits: int, sign: str = ""
) -> Callable[[RecipeResult], Cell]:
    """Return the cell of a figure of a form, times ``factor``; a dash if it is not known."""
    return lambda form: _show_scaled(value_at(form, path), factor, digits, sign)


def _make_interval_cell(path: str) -> Callable[[RecipeResult], Cell]:
    """Return the cell of an interval of shares."""

    def ends(form: RecipeResult) -> Cell:
        interval = value_at(form, path)
        return interval and f"{100 * interval.low:.1f}\u2013{100 * interval.high:.1f}"

    return ends


def _leave_out_float(cell: Callable[[RecipeResult], Cell]) -> Callable[[RecipeResult], Cell]:
    """Return the cell of what a form loses against float32, which is the reference."""
    return lambda form: None if form.recipe == "float32" else cell(form)


def _show_scaled(value: float | None, factor: float, digits: int, sign: str = "") -> str | None:
    if value is None:
        return None
    return f"{factor * value:{sign}.{digits}f}"


def _list_columns(compression: Compression) -> tuple[TableColumn[RecipeResult], ...]:
    """Return the columns: accuracy and drop where images were labelled,
    otherwise the agreement with float.
    """
    answers: tuple[TableColumn[RecipeResult], ...] = (
        TableColumn("as float %", _make_cell("agreement.share.value", 100, 1)),
        TableColumn("95 %", _make_interval_cell("agreement.share"), width=WIDE),
        TableColumn("SNR dB", _make_cell("agreement.snr_db", 1, 0)),
    )
    if any(form.agreement and form.agreement.accuracy for form in compression.forms):
        answers = (
            TableColumn(f"{compression.metric} %", _make_cell("agreement.accuracy.value", 100, 1)),
            TableColumn("95 %", _make_interval_cell("agreement.accuracy"), width=WIDE),
            TableColumn("drop", _leave_out_float(_make_cell("agreement.drop.value", 100, 1, "+"))),
            TableColumn("95 %", _leave_out_float(_make_interval_cell("agreement.drop")), width=76),
        )
    return (
        TableColumn("form", lambda form: form.recipe, left=True),
        TableColumn("MB", _make_cell("sizes.size_bytes", 1e-6, 2)),
        TableColumn("deflated", _make_cell("sizes.download_bytes", 1e-6, 2)),
        TableColumn("zstd", _make_cell("sizes.download_zstd_bytes", 1e-6, 2), width=96),
        *answers,
        TableColumn("ms", lambda form: form.speed.latency_ms if form.speed else None),
        TableColumn(
            "95 %",
            lambda form: text.span(form.speed.low, form.speed.high) if form.speed else None,
            width=WIDE,
        ),
        TableColumn(
            "memory MB", _make_cell("speed.memory_bytes", 1e-6, 1), width=WIDE, short="memory"
        ),
        TableColumn(
            f"{compression.accelerator} takes",
            lambda form: f"{form.taken.taken} of {form.taken.operators}" if form.taken else None,
            width=WIDE,
        ),
    )


def print_compression(
    compression: Compression,
    console: Console | None = None,
    shown: Sequence[RecipeResult] | None = None,
) -> None:
    """Write the table of the forms ``shown`` (all of them if None)
    and the sentences to the console.
    """
    good = []
    for form in compression.forms if shown is None else shown:
        if form.status == "ok":
            good.append(form)
    report: list[blocks.Block] = [
        blocks.Paragraph(compression.model, "strong"),
        blocks.Paragraph(f"calibrated on {compression.calibration}", "dim"),
        blocks.Paragraph(f"scored on {compression.scored}", "dim"),
        table_of(_list_columns(compression), good),
        *_list_sentences(compression),
    ]
    blocks.show(report, console)


def _list_sentences(compression: Compression) -> Iterator[Labelled]:
    """Yield what a row of the table cannot hold:
    failures, operators left to the CPU, outputs, notes, the next step.
    """
    for form in compression.forms:
        yield from _describe_form(compression, form)
    if compression.max_drop_points is not None:
        names = ", ".join(form.recipe for form in compression.good) or "none"
        look = "good" if compression.good else "warn"
        yield Labelled(
            "Within --max-drop", f"{names} ({compression.max_drop_points:g} points)", look
        )
    for note in compression.notes:
        yield Labelled("Note", note, "warn")
    if any(form.status == "ok" for form in compression.forms[1:]):
        yield Labelled("Written", compression.folder)
        # The first form is the float file itself.
        scored = []
        for form in compression.forms[1:]:
            if form.agreement:
                scored.append((form.agreement.share.value, form.path))
        # The file that differs most from float.
        if scored and compression.metric:
            _, worst = min(scored, key=lambda pair: pair[0])
            yield next_command(f"advisor profile {worst} --against {compression.model}")


def _describe_form(compression: Compression, form: RecipeResult) -> Iterator[Labelled]:
    """Yield why a form failed or was not timed, what is left to the CPU, its outputs and notes."""
    if form.status != "ok":
        look = "bad" if form.status == "failed" else "warn"
        yield Labelled(f"{form.recipe} {form.status}", form.reason, look)
    elif form.reason:
        yield Labelled(form.recipe, f"not timed: {form.reason}", "warn")
    taken = form.taken
    if taken and taken.left and (taken.share < ALL or taken.pieces > 1):
        reasons = "; ".join(f"{reason} ({count}x)" for reason, count in taken.left.items())
        runs = f"{compression.accelerator} runs {taken.share:.0%} of the arithmetic"
        if taken.taken:
            runs += f", in {plural(taken.pieces, 'piece')}"
        yield Labelled(form.recipe, f"{runs}; the rest falls back to the CPU: {reasons}")
    ratios = form.agreement.by_output if form.agreement else {}
    if any(ratio is not None for ratio in ratios.values()):
        outputs = []
        for name, ratio in ratios.items():
            outputs.append(f"{name} equal" if ratio is None else f"{name} {ratio:.0f}")
        yield Labelled(form.recipe, f"SNR by output: {', '.join(outputs)}")
    notes = form.notes_text
    if notes:
        yield Labelled(form.recipe, notes)


def show_decibel(value: float | None) -> str:
    """Format a ratio in dB; a dash where nothing differs."""
    if value is None:
        return text.MISSING
    return f"{value:.0f}"


def _show_span(ends: tuple[float, float] | None) -> str | None:
    return ends and f"{ends[0]:.3g} to {ends[1]:.3g}"


def _show_outlier(outlier: Outlier | None) -> str | None:
    """Return a channel and its range as a multiple of the median."""
    if outlier is None:
        return None
    return f"{outlier.channel}: {outlier.ratio:.1f}x"


def diagnosis_lines(diagnosis: Diagnosis, everything: bool = False) -> Iterator[blocks.Block]:
    """Yield the heading, the layers that add most noise (or all, in order), and the verdict,
    for a terminal.
    """
    yield blocks.Heading(f"Compared with {Path(diagnosis.against).name}, layer by layer")
    yield blocks.Paragraph(f"{diagnosis.images} images: {diagnosis.source}", "dim")
    rows = diagnosis.layers if everything else diagnosis.worst(SHOWN)
    if rows:
        yield table_of(LAYERS, rows)
    for index, sentence in enumerate(diagnosis.verdict):
        yield Labelled("Verdict" if index == 0 else "Why", sentence, "good")


def diagnosis_html(diagnosis: Diagnosis) -> Markup:
    """Return verdict, plots and every layer; names from the files are escaped."""
    layers = {layer.index: layer for layer in diagnosis.layers}
    return render(
        "diagnosis",
        diagnosis=diagnosis,
        against=Path(diagnosis.against).name,
        snr=snr_plot(diagnosis),
        plots=[
            (
                layers[channels.index],
                channel_plot(layers[channels.index], channels.least, channels.most),
            )
            for channels in diagnosis.channels
        ],
        decibel=show_decibel,
        layers=[table_of(LAYERS, diagnosis.layers, CAPTION, "tall layers")],
    )


def snr_plot(diagnosis: Diagnosis) -> Markup:
    """Draw the signal-to-noise ratio of each layer:
    quantized alone as a bar, with all layers before it as a line.
    """
    bars = ""
    points = []
    step = (WIDTH - LEFT) / max(1, len(diagnosis.layers))
    for index, layer in enumerate(diagnosis.layers):
        ratio = layer.own_snr_db
        if ratio is not None:
            top = _place_decibel(ratio)
            title = f"{layer.index} {layer.name}: {ratio:.0f} dB"
            kind = "weak" if layer.cause else "bar"
            height = HEIGHT - BOTTOM - top
            bars += _draw_bar(kind, LEFT + index * step, top, max(1.0, step - 1), height, title)
        if layer.snr_db is not None:
            points.append(f"{LEFT + (index + 0.5) * step:.1f},{_place_decibel(layer.snr_db):.1f}")
    arriving = f'<polyline class="arriving" points="{" ".join(points)}"/>'
    grid = "".join(_draw_tick(_place_decibel(value), f"{value} dB") for value in (0, 20, 40, 60))
    return _draw_frame("Signal to noise of every layer", grid + bars + arriving)


def channel_plot(layer: DiagnosedLayer, least: Sequence[float], most: Sequence[float]) -> Markup:
    """Draw the range of each channel's values over the range that the quantized file can hold.

    ``least`` and ``most`` are the ends of each channel's range.
    """
    ends = [*(layer.range or ()), *layer.used]
    low = float(min(ends))
    high = float(max(ends))

    def compute_y(value: float) -> float:
        # All values of a layer can be equal.
        return 8 + (high - value) / ((high - low) or 1.0) * (HEIGHT - BOTTOM - 8)

    held = ""
    if layer.range is not None:
        bottom, top = map(compute_y, layer.range)
        tall = max(1.0, bottom - top)
        held = (
            f'<rect class="held" x="{LEFT}" y="{top:.1f}" width="{WIDTH - LEFT}"'
            f' height="{tall:.1f}"/>'
        )
    grid = "".join(_draw_tick(compute_y(end), f"{end:.3g}") for end in dict.fromkeys((low, high)))
    return _draw_frame(
        f"Channels of {layer.name}",
        held + grid + "".join(_draw_channels(layer, least, most, compute_y)),
    )


def _draw_channels(
    layer: DiagnosedLayer,
    least: Sequence[float],
    most: Sequence[float],
    place: Callable[[float], float],
) -> Iterator[str]:
    """Yield a bar for each group of channels, from the least to the largest of their values."""
    widest = layer.channels.channel if layer.channels else -1
    size = math.ceil(len(least) / BARS)
    groups = range(0, len(least), size)
    step = (WIDTH - LEFT) / max(1, len(groups))
    for index, start in enumerate(groups):
        low = min(least[start : start + size])
        high = max(most[start : start + size])
        kind = "bar"
        if start <= widest < start + size:
            kind = "weak"
        title = f"channel {start}: {low:.3g} to {high:.3g}"
        height = place(low) - place(high)
        yield _draw_bar(
            kind, LEFT + index * step, place(high), max(0.8, step - 0.6), max(0.8, height), title
        )


def _draw_bar(kind: str, x: float, y: float, width: float, height: float, title: str) -> str:
    where = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"'
    return f'<rect class="{kind}" {where}><title>{escape(title)}</title></rect>'


def _place_decibel(value: float) -> float:
    return 8 + (1 - min(1.0, max(0.0, value / TOP_DB))) * (HEIGHT - BOTTOM - 8)


def _draw_tick(y: float, label: str) -> str:
    line = f'<line class="grid" x1="{LEFT}" x2="{WIDTH}" y1="{y:.1f}" y2="{y:.1f}"/>'
    return f'{line}<text x="{LEFT - 4}" y="{y + 4:.1f}">{label}</text>'


def _draw_frame(title: str, body: str) -> Markup:
    box = f'class="drawing" viewBox="0 0 {WIDTH} {HEIGHT}" role="img"'
    return Markup(f'<svg {box} aria-label="{escape(title)}">{body}</svg>')  # noqa: S704 - every name in it is escaped
