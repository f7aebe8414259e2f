"""The catalogue on the terminal: the table of cards, one card, findings, fetched weights."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import typer

from advisor.catalog import listing
from advisor.core.tasks import TASKS
from advisor.core.units import plural, show_bytes
from advisor.downloads.files import MemberFile, WeightSource
from advisor.reporting.blocks import DataTable, TableColumn
from advisor.reporting.console import WIDE, show
from advisor.reporting.selection import Rows
from advisor.reporting.text import MISSING, plain

if TYPE_CHECKING:
    from advisor.catalog.cards import Card, Conversion, Published
    from advisor.catalog.checking import Checked
    from advisor.catalog.listing import CardRow, Fetched
    from advisor.catalog.user_models.import_model import ImportedModel
    from advisor.compression.user_model.values import FileAgreement

CARDS = Rows(listing.COLUMNS, listing.CardRow.to_row)
"""Cards of the catalogue."""

RICH_ROWS = 300
"""Up to this number of rows, a table is laid out for the terminal width, which takes 0.3 ms a row."""

COLUMNS = (
    TableColumn("card", left=True, whole=True),
    TableColumn("top-1 %"),
    TableColumn("int8 %"),
    TableColumn("params M"),
    TableColumn("MACs M"),
    TableColumn("~MB", width=90),
    TableColumn("licence", left=True, width=WIDE),
    TableColumn("here", left=True),
    TableColumn("weights from", left=True, width=150),
)


def print_rows(rows: Sequence[CardRow]) -> None:
    """Print the table, and a legend."""
    cells = [_cells(row) for row in rows]
    if not cells:
        typer.echo("no card passes these filters")
        return
    if len(cells) <= RICH_ROWS:
        show([DataTable(COLUMNS, cells)])
    else:
        _print_plain(cells)
    here = sum(row.here for row in rows)
    count = f"{plural(len(rows), 'card')}, the weights of {here} on this machine"
    typer.echo(f"{count}; details: advisor catalog show NAME")
    typer.echo("Top-1: published, ImageNet; * quantization-aware training, other weights. ~MB: a float32 file.")


def print_card(card: Card, here: bool) -> None:
    """Print the content of a card, with its sources."""
    preprocessing = card.preprocessing
    typer.secho(plain(card.name), bold=True)
    lines = [
        ("family", card.family),
        ("input", f"{card.input_size} x {card.input_size} RGB, (value - mean) / std"),
        ("mean", _numbers(preprocessing.mean)),
        ("std", _numbers(preprocessing.std)),
        ("classes", f"{card.classes}" + (", label 0 is the background" if card.label_offset else "")),
        ("parameters", f"{card.params:,}"),
        ("MACs", f"{card.macs:,}"),
        ("licence", card.licence),
        ("paper", card.paper),
        ("graph", " ".join([card.architecture, *(f"{key}={value}" for key, value in card.arguments)])),
        ("conversion", _converted(card.conversion) if card.conversion else ""),
        ("note", card.note),
    ]
    for key, value in lines:
        if value:
            typer.echo(f"  {key:<11} {plain(value)}")
    typer.secho("published", bold=True)
    for published in card.published:
        _print_published(published)
    if not card.published:
        typer.echo("  nothing")
    typer.secho("weights" + (" (on this machine)" if here else " (not on this machine)"), bold=True)
    for source in card.weights:
        _print_source(source)
    if not card.weights:
        typer.echo("  no source is known: latency, size and memory can be measured; shipping needs your own file")


def print_checked(checked: Checked, build: bool) -> None:
    """Print every error, the notes by kind, and the outcome; ``build``: graphs were to be built as well."""
    for finding in checked.errors:
        name = f"{finding.card}: " if finding.card else ""
        typer.secho(f"{finding.place}: {name}{plain(finding.text)}", err=True)
    notes = Counter(finding.text for finding in checked.findings if finding.level.value == "note")
    for text, count in notes.most_common():
        typer.echo(f"note: {count} x {plain(text)}")
    verified = checked.verified
    typer.echo(f"compared with: the schema, each other's names, {plural(verified.counts, 'published count')}")
    hashes = f"{verified.strong} by SHA-256 or SHA-384, {verified.weak} by MD5 or first digits of a hash"
    typer.echo(f"sources of weights: {hashes}, {verified.unknown} without a hash (never downloaded)")
    typer.echo(f"on this machine: the weights of {plural(len(verified.hashed), 'card')}, hashed now: as stated")
    if verified.sourceless:
        typer.echo(f"no source that can be checked (see their notes): {', '.join(verified.sourceless)}")
    graphs = f", {checked.built or 'no'} graphs built" if build else ""
    outcome = plural(len(checked.errors), "error") if checked.errors else "all hold"
    typer.echo(f"{plural(checked.cards, 'card')}{graphs}: {outcome}.")


def print_fetched(fetched: Sequence[Fetched]) -> None:
    """Print the fetched weights, and the reason for each card without weights."""
    there = [entry for entry in fetched if entry.cached]
    new = [entry for entry in there if entry.source != "cache"]
    for entry in new:
        typer.echo(f"{entry.card}: from {plain(entry.source)}")
    lacking = [entry for entry in fetched if not entry.cached]
    for reason, cards in _by_reason(lacking):
        typer.echo(f"not fetched: {', '.join(cards)}\n  {reason}")
    hints = dict.fromkeys(entry.hint for entry in lacking if entry.hint)
    for hint in list(hints)[:2]:
        typer.echo(f"hint: {plain(hint)}")
    typer.echo(f"{len(there)} of {len(fetched)} cards have their weights in the cache, {len(new)} of them new.")


def print_added(added: ImportedModel) -> None:
    """Print the new card, its answers on photographs, and the next command."""
    from advisor.catalog.catalogue import user_catalogue_file

    card = added.card
    typer.echo(
        f"{card.name}: input {card.input_size} x {card.input_size}, {card.classes} classes, "
        f"{card.params:,} parameters, {card.macs:,} MACs"
    )
    if card.conversion:
        typer.echo(f"  {_converted(card.conversion)}")
    for photograph, label, probability in added.seen:
        typer.echo(f"  {photograph}: {plain(label)} ({100 * probability:.0f} %)")
    own = TASKS[card.task].own_files()
    if card.form:
        typer.echo(f"  it keeps its form ({card.form}): a search measures and judges it as it is")
    for remark in own.remarks(added):
        typer.echo(f"  {remark}")
    typer.echo(f"kept in {added.catalogue} and {added.model}")
    named = "" if added.catalogue == user_catalogue_file() else f" --catalog {shlex.quote(str(added.catalogue))}"
    typer.echo(f"next: advisor search --budget 50ms{own.search_options} --candidates {card.name}{named}")


def _converted(conversion: Conversion) -> str:
    """Return how a conversion went: against what, how far apart, and the transposes that it left."""
    left = "no transposes left"
    if conversion.transposes:
        moved = f"{100 * conversion.transposed:.1f} % of the values that operators read and write"
        left = f"{plural(conversion.transposes, 'transpose')} left, with {moved}"
    return (
        f"by {conversion.converter}; against {conversion.runtime} on {conversion.images} images: the same class on top "
        f"in {100 * conversion.agreement:.0f} %, largest difference {conversion.difference:.1g} of the largest score; "
        f"{left}"
    )


def print_judged(card: Card, images: str, found: FileAgreement) -> None:
    """Print the accuracy of a user's own file on the user's images."""
    reached = found.accuracy
    assert reached is not None, "the images were labelled"
    low, high = 100 * reached.low, 100 * reached.high
    metric = TASKS[card.task].metric
    typer.echo(f"{metric} on {images}: {100 * reached.value:.1f} % (95 %: {low:.1f} to {high:.1f})")


def _cells(row: CardRow) -> tuple[str, ...]:
    card = row.card
    return (
        card.name,
        _percent(row.top1),
        _percent(row.top1_int8) if row.top1_int8 or not row.top1_int8_qat else f"{_percent(row.top1_int8_qat)}*",
        f"{card.params / 1e6:.2f}",
        f"{card.macs / 1e6:,.0f}",
        f"{row.size_bytes / 1e6:.1f}",
        card.licence,
        "yes" if row.here else "",
        ", ".join(dict.fromkeys(row.weights)) or "no known source",
    )


def _print_plain(cells: Sequence[Sequence[str]]) -> None:
    rows = [[column.title for column in COLUMNS], *([plain(cell) for cell in row] for row in cells)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        padded = (
            cell.ljust(width) if column.left else cell.rjust(width)
            for column, cell, width in zip(COLUMNS, row, widths, strict=True)
        )
        lines.append("  ".join(padded).rstrip())
    typer.echo("\n".join(lines))


def _print_published(published: Published) -> None:
    figures = (
        f"{published.precision:<9}",
        published.top1 is not None and f"top-1 {published.top1:g} %",
        published.top5 is not None and f"top-5 {published.top5:g} %",
        published.params is not None and f"{published.params:,} parameters",
        published.macs is not None and f"{published.macs:,} MACs",
    )
    typer.echo(f"  {'  '.join(figure for figure in figures if figure)}")
    typer.echo(f"    {plain(published.source)}" + (f" ({plain(published.note)})" if published.note else ""))


def _print_source(source: WeightSource) -> None:
    typer.echo(f"  {plain(source.label)}" + (f"  {source.licence}" if source.licence else ""))
    if source.archive:
        typer.echo(f"    archive {plain(source.archive)}  sha256 {source.archive_sha256}")
    for member in source.members:
        typer.echo(f"    {source.format}  {plain(member.path)}  {_hash(member)}")


def _hash(member: MemberFile) -> str:
    size = f"{show_bytes(member.size_bytes)}  " if member.size_bytes else ""
    if member.sha256:
        return f"{size}sha256 {member.sha256}"
    return f"{size}{member.key.replace('-', ' ', 1)}" if member.key else f"{size}no hash: use your own copy"


def _by_reason(lacking: Iterable[Fetched]) -> list[tuple[str, list[str]]]:
    """Return the cards without weights by reason, without the addresses that were tried."""
    groups: dict[str, list[str]] = {}
    for entry in lacking:
        first, *tried = entry.reason.splitlines()
        reasons = dict.fromkeys(line.strip().partition(": ")[2] for line in tried) or {
            first.partition(" for '")[0]: None
        }
        groups.setdefault(plain("; ".join(reasons)), []).append(entry.card)
    return list(groups.items())


def _numbers(values: Sequence[float]) -> str:
    return ", ".join(f"{value:g}" for value in values)


def _percent(value: float | None) -> str:
    return MISSING if value is None else f"{value:.1f}"
