"""The answer of ``advisor compress`` on the terminal."""

from collections.abc import Iterator, Mapping, Sequence

from rich.console import Console

from advisor.compression.user_model.values import ANY, Compression, DelegatedPart, RecipeResult, notes_text
from advisor.core.quantity import Interval
from advisor.core.units import plural
from advisor.reporting import blocks, text
from advisor.reporting.blocks import TableColumn
from advisor.reporting.console import WIDE, show
from advisor.reporting.selection import Rows, rows_of
from advisor.reporting.text import figure, span

FORMS: Rows[RecipeResult] = rows_of(
    {
        "form": "recipe", "status": "status", "size_bytes": "sizes.size_bytes",
        "download_bytes": "sizes.download_bytes", "arena_bytes": "sizes.arena_bytes",
        "accuracy_share": "agreement.accuracy.value",
        "drop_share": "agreement.drop.value", "agreement_share": "agreement.share.value", "snr_db": "agreement.snr_db",
        "latency_median_ms": "speed.latency_ms", "memory_bytes": "speed.memory_bytes", "verdict": "speed.verdict",
    }
)  # fmt: skip
"""Forms of a file."""

ALL = 0.999
"""Share of the arithmetic from which the rest is not worth a line."""

_SIZES = (TableColumn("MB"), TableColumn("deflated"), TableColumn("zstd", width=96))
_SPEED = (TableColumn("ms"), TableColumn("95 %", width=WIDE), TableColumn("memory MB", width=WIDE, short="memory"))
_LABELLED = (TableColumn("95 %", width=WIDE), TableColumn("drop"), TableColumn("95 %", width=76))
_UNLABELLED = (TableColumn("as float %"), TableColumn("95 %", width=WIDE), TableColumn("SNR dB"))


def print_compression(
    found: Compression, console: Console | None = None, shown: Sequence[RecipeResult] | None = None
) -> None:
    """Write the table and the sentences to ``console``, or to standard output.

    Args:
        found: what was made.
        console: where to.
        shown: the forms of the table, in their order; all of them if None.
    """
    labelled = any(form.agreement and form.agreement.accuracy for form in found.forms)
    answers = (TableColumn(f"{found.metric} %"), *_LABELLED) if labelled else _UNLABELLED
    columns = (
        TableColumn("form", left=True),
        *_SIZES,
        *answers,
        *_SPEED,
        TableColumn(f"{found.accelerator} takes", width=WIDE),
    )
    good = [form for form in (found.forms if shown is None else shown) if form.status == "ok"]
    head = [f"calibrated on {found.calibration}", f"scored on {found.scored}"]
    report: list[blocks.Block] = [
        blocks.Paragraph(found.model, "strong"),
        *(blocks.Paragraph(sentence, "dim") for sentence in head),
        blocks.DataTable(columns, [_row(form, labelled) for form in good]),
        *_sentences(found),
    ]
    show(report, console)


def _row(form: RecipeResult, labelled: bool) -> list[str]:
    sizes = form.sizes
    assert sizes is not None, "a form that was made has a size"
    bytes_ = (sizes.size_bytes, sizes.download_bytes, sizes.download_zstd_bytes)
    return [form.recipe, *map(_megabytes, bytes_), *_answers(form, labelled), *_speed(form)]


def _megabytes(size: int | None) -> str:
    return text.MISSING if size is None else f"{size / 1e6:.2f}"


def _answers(form: RecipeResult, labelled: bool) -> list[str]:
    agreement = form.agreement
    if agreement is None:
        return [text.MISSING] * (1 + len(_LABELLED) if labelled else len(_UNLABELLED))
    if labelled and agreement.accuracy and agreement.drop:
        reference = form.recipe == "float32"
        drop = [text.MISSING] * 2 if reference else [f"{100 * agreement.drop.value:+.1f}", _percents(agreement.drop)]
        return [f"{100 * agreement.accuracy.value:.1f}", _percents(agreement.accuracy), *drop]
    noise = text.MISSING if agreement.snr_db is None else f"{agreement.snr_db:.0f}"
    return [f"{100 * agreement.share.value:.1f}", _percents(agreement.share), noise]


def _speed(form: RecipeResult) -> list[str]:
    taken = f"{form.taken.taken} of {form.taken.operators}" if form.taken else text.MISSING
    speed = form.speed
    if speed is None:
        return [text.MISSING] * 3 + [taken]
    memory = text.MISSING if speed.memory_bytes is None else f"{speed.memory_bytes / 1e6:.1f}"
    return [figure(speed.latency_ms), span(speed.low, speed.high), memory, taken]


def _percents(interval: Interval) -> str:
    return f"{100 * interval.low:.1f}\u2013{100 * interval.high:.1f}"


def _sentences(found: Compression) -> Iterator[blocks.Labelled]:
    for form in found.forms:
        if form.status != "ok":
            yield blocks.Labelled(
                f"{form.recipe} {form.status}", form.reason, "bad" if form.status == "failed" else "warn"
            )
        elif form.reason:
            yield blocks.Labelled(form.recipe, f"not timed: {form.reason}", "warn")
        if form.taken and form.taken.left and (form.taken.share < ALL or form.taken.pieces > 1):
            yield blocks.Labelled(form.recipe, _left(form.taken, found.accelerator))
        if form.agreement and any(ratio is not None for ratio in form.agreement.by_output.values()):
            yield blocks.Labelled(form.recipe, _by_output(form.agreement.by_output))
        if notes := notes_text(form.notes):
            yield blocks.Labelled(form.recipe, notes)
    if found.max_drop_points is not None:
        names = ", ".join(form.recipe for form in found.good) or "none"
        look = "good" if found.good else "warn"
        yield blocks.Labelled("Within --max-drop", f"{names} ({found.max_drop_points:g} points)", look)
    for note in found.notes:
        yield blocks.Labelled("Note", note, "warn")
    if any(form.status == "ok" for form in found.forms[1:]):
        yield blocks.Labelled("Written", found.folder)
        yield from _next(found)


def _by_output(ratios: Mapping[str, float | None]) -> str:
    shown = ("equal" if ratio is None else f"{ratio:.0f}" for ratio in ratios.values())
    return "SNR by output: " + ", ".join(f"{name} {ratio}" for name, ratio in zip(ratios, shown, strict=True))


def _left(taken: DelegatedPart, accelerator: str) -> str:
    reasons = "; ".join(f"{reason} ({count}x)" for reason, count in taken.left.items())
    pieces = f", in {plural(taken.pieces, 'piece')}" if taken.taken else ""
    return f"{accelerator} runs {taken.share:.0%} of the arithmetic{pieces}; the rest falls back to the CPU: {reasons}"


def _next(found: Compression) -> Iterator[blocks.Labelled]:
    """Yield the command to run next: profile the file that differs most from float."""
    scored = [form for form in found.forms[1:] if form.agreement]
    worst = min(scored, key=lambda form: form.agreement.share.value if form.agreement else 1.0, default=None)
    if worst is not None and found.task != ANY:
        yield blocks.next_command(f"advisor profile {worst.path} --against {found.model}")
