"""Print the catalogue: the table of cards, one card, and what was checked, fetched or added.

``_catalog.py`` calls these functions for ``advisor catalog``, and imports them only to print. With
``--json`` it prints the values themselves.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

import typer

from advisor.catalog import listing, own_files_of, user_catalogue_file
from advisor.core import TASKS, plain, plural, show_bytes, show_latency
from advisor.reporting import Rows, blocks, text

if TYPE_CHECKING:
    from advisor.catalog import Card, Checked, Conversion, ImportedModel
    from advisor.core import Interval

CARDS = Rows(listing.COLUMNS, listing.CardRow.to_row)
"""Cards of the catalogue."""

RICH_ROWS = 300
"""Up to this number of rows, a table is laid out for the terminal width, which takes 0.3 ms a
row.
"""

WIDE_ONLY = ("int8 %", "params M", "MACs M")
"""Columns that only a wide terminal shows beside a latency."""

ONE_ADDRESS = re.compile(r"^the weights of '.*?' are not available: \S+: ")
"""The beginning of a reason of weights that have a single address."""

CARD_LATENCY = blocks.TableColumn[listing.CardRow](
    "latency", lambda row: show_latency(row.latency) if row.latency else "", left=True, whole=True
)


def _show_percent(value: float | None) -> str:
    if value is None:
        return text.MISSING
    return f"{value:.1f}"


def _show_int8(row: listing.CardRow) -> str:
    """Return the published accuracy as int8, marked if it belongs to other weights."""
    if row.top1_int8_qat and not row.top1_int8:
        return f"{_show_percent(row.top1_int8_qat)}*"
    return _show_percent(row.top1_int8)


@cache
def _list_card_columns() -> tuple[blocks.TableColumn[listing.CardRow], ...]:
    """Return the columns of the cards."""
    return (
        blocks.TableColumn("card", lambda row: row.card.name, left=True, whole=True),
        blocks.TableColumn("top-1 %", lambda row: _show_percent(row.top1)),
        CARD_LATENCY,
        blocks.TableColumn("int8 %", _show_int8),
        blocks.TableColumn("params M", lambda row: f"{row.card.params / 1e6:.2f}"),
        blocks.TableColumn("MACs M", lambda row: f"{row.card.macs / 1e6:,.0f}"),
        blocks.TableColumn("~MB", lambda row: f"{row.size_bytes / 1e6:.1f}", width=90),
        blocks.TableColumn("licence", lambda row: row.card.licence, left=True, width=blocks.WIDE),
        blocks.TableColumn("here", lambda row: "yes" if row.here else "", left=True),
        blocks.TableColumn(
            "weights from",
            lambda row: ", ".join(dict.fromkeys(row.weights)) or "no known source",
            left=True,
            width=150,
        ),
    )


def _list_timed_columns() -> list[blocks.TableColumn[listing.CardRow]]:
    """Return the columns of cards that have a latency.

    On a narrow terminal, a latency with its interval takes the place of three figures, and long
    names are folded.
    """
    columns = []
    for column in _list_card_columns():
        width = blocks.WIDE if column.title in WIDE_ONLY else column.width
        columns.append(replace(column, width=width, whole=column is CARD_LATENCY))
    return columns


def print_cards(rows: Sequence[listing.CardRow]) -> None:
    """Print the table of cards, and a legend."""
    if not rows:
        typer.echo("no card passes these filters")
        return
    # The column would be empty unless --front timed or predicted the cards.
    timed = any(row.latency for row in rows)
    columns = _list_timed_columns()
    if not timed:
        columns = []
        for column in _list_card_columns():
            if column is not CARD_LATENCY:
                columns.append(column)
    shown = blocks.table_of(columns, rows)
    if len(rows) <= RICH_ROWS:
        blocks.show([shown])
    else:
        lines = [[column.title for column in columns]]
        for row in shown.rows:
            lines.append(list(map(plain, row)))
        widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
        for line in lines:
            padded = []
            for cell, width, column in zip(line, widths, columns, strict=True):
                padded.append(cell.ljust(width) if column.left else cell.rjust(width))
            typer.echo("  ".join(padded).rstrip())
    on_disk = sum(row.here for row in rows)
    count = f"{plural(len(rows), 'card')}, the weights of {on_disk} on this machine"
    typer.echo(f"{count}; details: advisor catalog show NAME")
    typer.echo(
        "Top-1: published, ImageNet; * quantization-aware training, other weights. ~MB: a float32"
        " file."
    )


def print_facts(name: str, facts: Iterable[tuple[str, str]], width: int) -> None:
    """Print the facts that are known, below a name."""
    typer.secho(plain(name), bold=True)
    for key, value in facts:
        if value:
            typer.echo(f"  {key:<{width}} {plain(value)}")


def print_card(card: Card, on_disk: bool) -> None:
    """Print the content of a card, with its sources."""
    print_facts(card.name, _list_facts(card), 11)
    _print_published(card)
    where = "on this machine" if on_disk else "not on this machine"
    typer.secho(f"weights ({where})", bold=True)
    _print_sources(card)


def _list_facts(card: Card) -> tuple[tuple[str, str], ...]:
    """Return the facts of a card with their labels; those that are not known are empty."""
    classes = str(card.classes)
    if card.label_offset:
        classes += ", label 0 is the background"
    arguments = [f"{key}={value}" for key, value in card.arguments]
    return (
        ("family", card.family),
        ("input", f"{card.input_size} x {card.input_size} RGB, (value - mean) / std"),
        ("mean", ", ".join(f"{value:g}" for value in card.preprocessing.mean)),
        ("std", ", ".join(f"{value:g}" for value in card.preprocessing.std)),
        ("classes", classes),
        ("parameters", f"{card.params:,}"),
        ("MACs", f"{card.macs:,}"),
        ("licence", card.licence),
        ("paper", card.paper),
        ("graph", " ".join([card.architecture, *arguments])),
        ("conversion", _describe_conversion(card.conversion) if card.conversion else ""),
        ("note", card.note),
    )


def _print_published(card: Card) -> None:
    """Print the published figures of a card, each with its source."""
    typer.secho("published", bold=True)
    for record in card.published:
        figures = [f"{record.precision:<9}"]
        if record.top1 is not None:
            figures.append(f"top-1 {record.top1:g} %")
        if record.top5 is not None:
            figures.append(f"top-5 {record.top5:g} %")
        if record.map is not None:
            figures.append(f"COCO's mAP {record.map:g} %")
        if record.params is not None:
            figures.append(f"{record.params:,} parameters")
        if record.macs is not None:
            figures.append(f"{record.macs:,} MACs")
        typer.echo(f"  {'  '.join(figures)}")
        note = f" ({plain(record.note)})" if record.note else ""
        typer.echo(f"    {plain(record.source)}{note}")
    if not card.published:
        typer.echo("  nothing")


def _print_sources(card: Card) -> None:
    """Print the sources of the weights, their archives, and each file with its hash."""
    for source in card.weights:
        licence = f"  {source.licence}" if source.licence else ""
        typer.echo(f"  {plain(source.label)}{licence}")
        if source.archive:
            typer.echo(f"    archive {plain(source.archive)}  sha256 {source.archive_sha256}")
        for member in source.members:
            size = f"{show_bytes(member.size_bytes)}  " if member.size_bytes else ""
            # A hash of another kind than SHA-256 is a part of the key.
            sha256 = f"sha256 {member.sha256}" if member.sha256 else ""
            digest = sha256 or member.key.replace("-", " ", 1) or "no hash: use your own copy"
            typer.echo(f"    {source.format}  {plain(member.path)}  {size}{digest}")
    if not card.weights:
        typer.echo(
            "  no source is known: latency, size and memory can be measured; shipping needs your"
            " own file"
        )


def print_checked_cards(checked: Checked, build: bool) -> None:
    """Print every error, the notes by kind, and the outcome; ``build``:
    graphs were to be built as well.
    """
    for finding in checked.errors:
        name = f"{finding.card}: " if finding.card else ""
        typer.secho(f"{plain(finding.place)}: {name}{plain(finding.text)}", err=True)
    # Many cards share a note, which is printed once with its count.
    notes = Counter(finding.text for finding in checked.findings if finding.level.value == "note")
    for note, count in notes.most_common():
        typer.echo(f"note: {count} x {plain(note)}")
    verified = checked.verified
    typer.echo(
        "compared with: the schema, each other's names,"
        f" {plural(verified.counts, 'published count')}"
    )
    hashes = (
        f"{verified.strong} by SHA-256 or SHA-384, {verified.weak} by MD5 or first digits of a"
        " hash"
    )
    typer.echo(
        f"sources of weights: {hashes}, {verified.unknown} without a hash (never downloaded)"
    )
    typer.echo(
        f"on this machine: the weights of {plural(len(verified.hashed), 'card')}, hashed now: as"
        " stated"
    )
    if verified.sourceless:
        typer.echo(
            f"no source that can be checked (see their notes): {', '.join(verified.sourceless)}"
        )
    graphs = ""
    if build:
        graphs = f", {checked.built or 'no'} graphs built"
    outcome = "all hold"
    if checked.errors:
        outcome = plural(len(checked.errors), "error")
    typer.echo(f"{plural(checked.cards, 'card')}{graphs}: {outcome}.")


def print_fetched(fetched: Sequence[listing.Fetched]) -> None:
    """Print the fetched weights, and for the cards without weights the reasons,
    without the addresses tried.
    """
    cached = [entry for entry in fetched if entry.cached]
    # What was in the cache before needs no line of its own.
    new = [entry for entry in cached if entry.source != "cache"]
    for entry in new:
        typer.echo(f"{entry.card}: from {plain(entry.source)}")
    lacking = [entry for entry in fetched if not entry.cached]
    by_reason: dict[str, list[str]] = {}
    for entry in lacking:
        reason = plain(_strip_addresses(entry.reason))
        by_reason.setdefault(reason, []).append(entry.card)
    for reason, cards in by_reason.items():
        typer.echo(f"not fetched: {', '.join(cards)}\n  {reason}")
    # A hint that several cards share is printed once.
    hints = dict.fromkeys(entry.hint for entry in lacking if entry.hint)
    for hint in list(hints)[:2]:
        typer.echo(f"hint: {plain(hint)}")
    count = f"{len(cached)} of {len(fetched)} cards"
    typer.echo(f"{count} have their weights in the cache, {len(new)} of them new.")


def _strip_addresses(reason: str) -> str:
    """Return why weights could not be fetched, without the addresses that were tried.

    Cards lack weights for the same few reasons; with the addresses, each would be another one.
    """
    first, *attempts = reason.splitlines()
    if not attempts:
        return ONE_ADDRESS.sub("", first).partition(" for '")[0]
    causes = [line.strip().partition(": ")[2] for line in attempts]
    return "; ".join(dict.fromkeys(causes))


def print_added_card(added: ImportedModel, images: str | None = None) -> None:
    """Print the new card, its answers on photographs, and the next command,
    with the ``images`` that the user has named.
    """
    card = added.card
    typer.echo(
        f"{card.name}: input {card.input_size} x {card.input_size}, {card.classes} classes, "
        f"{card.params:,} parameters, {card.macs:,} MACs"
    )
    if card.conversion:
        typer.echo(f"  {_describe_conversion(card.conversion)}")
    for photograph, label, probability in added.seen:
        typer.echo(f"  {photograph}: {plain(label)} ({100 * probability:.0f} %)")
    files = own_files_of(card.task)
    if card.form:
        typer.echo(f"  it keeps its form ({card.form}): a search measures and judges it as it is")
    for remark in files.remarks(added):
        typer.echo(f"  {remark}")
    typer.echo(f"kept in {added.catalogue} and {added.model}")
    named = ""
    if added.catalogue != user_catalogue_file():
        named = f" --catalog {shlex.quote(str(added.catalogue))}"
    options = files.search_options
    if images:
        options = f"{options.partition(' --data ')[0]} --data {shlex.quote(images)}"
    typer.echo(f"next: advisor search --budget 50ms{options} --candidates {card.name}{named}")


def _describe_conversion(conversion: Conversion) -> str:
    """Return how a conversion went: against what, how far apart, transposes left."""
    left = "no transposes left"
    if conversion.transposes:
        moved = f"{100 * conversion.transposed:.1f} % of the values that operators read and write"
        left = f"{plural(conversion.transposes, 'transpose')} left, with {moved}"
    return (
        f"by {conversion.converter}; against {conversion.runtime} on {conversion.images} images:"
        f" the same class on top in {100 * conversion.agreement:.0f} %, largest difference"
        f" {conversion.difference:.1g} of the largest score; {left}"
    )


def print_judged(card: Card, images: str, accuracy: Interval | None) -> None:
    """Print the accuracy of a user's own file on the user's images."""
    assert accuracy is not None, "the images were labelled"
    low = 100 * accuracy.low
    high = 100 * accuracy.high
    metric = TASKS[card.task].metric
    typer.echo(
        f"{metric} on {images}: {100 * accuracy.value:.1f} % (95 %: {low:.1f} to {high:.1f})"
    )
