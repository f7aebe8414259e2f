"""The plan of a search on the terminal: the candidates, what is skipped and why, and the cost."""

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from rich.console import Console

from advisor.core import (
    HOST,
    Configuration,
    Provenance,
    Quantity,
    listed,
    plural,
    recipe_of,
    show_bytes,
    show_ms,
    show_seconds,
)
from advisor.engine import CardForecast, Forecast, PlanView
from advisor.reporting._blocks import WIDE, DataTable, Paragraph, Span, TableColumn, Words, show
from advisor.reporting._plan_nodes import (
    MARKS,
    NODES_WIDTH,
    PROCESSOR_WIDTH,
    count_nodes,
    describe_nodes,
    show_processor,
)
from advisor.reporting._row_selection import Rows

PLAN = Rows(tuple(Forecast.columns), Forecast.to_row)
"""Configurations of a plan."""

LEGEND = (
    "latency without a mark: timed here before; ~ predicted from other machines and timings here; "
    "? rough (latency from MACs, size from parameters)"
)
LEGEND_THERE = (
    "latency without a mark: measured or published for that device; ~ predicted; "
    "? rough (latency from MACs, size from parameters)"
)
NAMES_SHOWN = 8

ROOMY = 100
"""Terminal width from which the table also shows accuracy, size and the source of the weights."""


def print_plan(
    view: PlanView,
    console: Console | None = None,
    shown: Sequence[Forecast] | None = None,
    every: bool = False,
) -> None:
    """Write the plan to the console, with the configurations ``shown`` in their order.

    None stands for one row a card, that of its fastest form with the cost of all;
    or for ``every`` form, by card.
    """
    rows = shown
    if shown is None and not every:
        rows = list(_fastest_forms(view))
    more = []
    if rows is not None and rows is not shown:
        more.append(
            "A row costs what all forms of its network cost; --all lists all"
            f" {len(view.forecasts)} forms."
        )
    show([_table(view, rows), *map(Paragraph, (*more, *sentences(view, not more)))], console)


def _fastest_forms(view: PlanView) -> Iterator[Forecast]:
    """Yield the forecasts of the fastest form of each card;
    the first has the cost of all forms of the card.
    """
    for card in view.cards:
        every = []
        for row in view.forecasts:
            if row.configuration.card == card.card:
                every.append(row)
        # A form that the search leaves out stands for its card only if it leaves out all of them.
        best = min(every, key=_rank_form)
        fastest = []
        for row in every:
            if row.configuration.variant_name == best.configuration.variant_name:
                fastest.append(row)
        others_s = sum(row.price_s for row in every if row not in fastest)
        # A form that is slower on the processor of the row may be the fastest one on another.
        yield replace(
            fastest[0], price_s=fastest[0].price_s + others_s, processors=card.processors
        )
        yield from fastest[1:]


def sentences(view: PlanView, every: bool = True) -> Iterator[str]:
    """Yield the lines below the table, one sentence each;
    the table has ``every`` form or the fastest of each card.
    """
    question = view.request.question
    yield LEGEND if question.devices == (HOST,) else LEGEND_THERE
    for remark in view.remarks:
        yield f"Note: {remark}"
    yield from describe_nodes(view)
    yield from _describe_filtered(view.forecasts, every)
    yield from _images(view)
    skipped: dict[str, list[str]] = {}
    for name, reason in view.left_out.items():
        skipped.setdefault(reason, []).append(name)
    for reason, names in skipped.items():
        yield f"Skipped: {listed(names, NAMES_SHOWN)}: {reason}."
    yield _cost(view)
    if question.tuning_limited and view.tuning_s:
        tuned, possible = view.tuned
        which = (
            f"the most promising {tuned} of {possible} cards"
            if tuned < possible
            else plural(possible, "card")
        )
        recipe = next(
            training for training in question.trainings if recipe_of(training).tunes_backbone
        )
        yield (
            f"Fine-tuning: about {show_seconds(view.tuning_s)} of this, for {which} ({recipe})."
            f" --training head leaves it out; --training {recipe} tunes every card that can still"
            " win."
        )
    yield _weights(view)
    yield "Nothing was spent. To start, use the same options with advisor search."


def _describe_filtered(forecasts: Sequence[Forecast], every: bool) -> Iterator[str]:
    """Yield a line for each reason to leave configurations out;
    reasons that differ only in figures are one.
    """
    alike: dict[str, list[Forecast]] = {}
    filtered = [forecast for forecast in forecasts if forecast.filtered]
    for forecast in filtered:
        alike.setdefault(re.sub(r"(under )?\d[\d.,]*", "", forecast.filtered), []).append(forecast)
    if filtered:
        yield (
            f"Filtered: {len(filtered)} of {len(forecasts)}"
            f" configurations{', marked x' if every else ''}:"
        )
    for rows in sorted(alike.values(), key=len, reverse=True)[:NAMES_SHOWN]:
        first = rows[0]
        name = f"{first.configuration.card} {first.configuration.variant_name}:"
        which = ""
        if len(rows) == 1:
            which = f" {name}"
        elif len({row.filtered for row in rows}) > 1:
            which = f", such as {name}"
        yield f"  {len(rows)} x{which} {first.filtered}"


def _table(view: PlanView, shown: Sequence[Forecast] | None) -> DataTable:
    """Return the table of a plan: of every card with its forms, or of the rows that are
    ``shown``.
    """
    cards = {card.card: card for card in view.cards}
    question = view.request.question
    by_card = shown is None
    if shown is None:
        order = {card: index for index, card in enumerate(cards)}
        shown = sorted(view.forecasts, key=lambda row: order[row.configuration.card])
    budget = question.limits.latency_ms
    shown_counts = set(map(_threads, shown))
    counts = [count for count in question.thread_counts if count in shown_counts]
    place = (
        question.devices[0] if len(question.devices) == 1 else f"worst of {len(question.devices)}"
    )
    threads = f"{' / '.join(map(str, counts))} thread{'' if [*counts] == [1] else 's'}"
    ranged = question.devices != (HOST,) and any(_interval(row.latency) for row in shown)
    one_device = len(question.devices) == 1
    units_of_nodes = set[str]()
    if one_device:
        for row in shown:
            units_of_nodes.update(share.unit for share in row.nodes)
    units = "".join(units_of_nodes)
    chosen = one_device and any(row.processors for row in shown)
    weights_width = WIDE if ranged else ROOMY
    if units:
        weights_width += NODES_WIDTH
    if chosen:
        weights_width += PROCESSOR_WIDTH
    header: list[TableColumn[Forecast]] = [
        TableColumn(
            "candidate\n  form" if by_card else "candidate, form", left=True, whole=by_card
        ),
        TableColumn("published\ntop-1 %", width=ROOMY, whole=True),
        TableColumn(
            f"latency ms\n{threads if question.devices == (HOST,) else place}", whole=True
        ),
        *([TableColumn[Forecast]("80 %\ninterval", width=ROOMY, whole=True)] if ranged else []),
        *(
            []
            if budget is None
            else [TableColumn[Forecast](f"meets\n{show_ms(budget)}", whole=True)]
        ),
        *([TableColumn[Forecast](f"nodes on\n{units.upper()}", whole=True)] if units else []),
        *([TableColumn[Forecast]("best\nprocessor", left=True, whole=True)] if chosen else []),
        TableColumn("size MB", width=ROOMY, whole=True),
        TableColumn("cost", whole=True),
        # The interval leaves no room for it beside a name,
        # and a line below the table names what is missing.
        TableColumn("weights", left=True, width=weights_width),
    ]
    variants: dict[tuple[str, str], list[Forecast]] = {}
    for forecast in shown:
        variants.setdefault(
            (forecast.configuration.card, forecast.configuration.variant_name), []
        ).append(forecast)
    rows = list[Sequence[Words]]()
    previous = ""
    for (name, variant), forecasts in variants.items():
        by_count = sorted(
            forecasts,
            key=lambda row: counts.index(_threads(row)) if _threads(row) in counts else 0,
        )
        if by_card and name != previous:
            rows.append([Span(name, "strong"), *[""] * (len(header) - 2), _place(cards[name])])
            previous = name
        first = f"  {variant}" if by_card else f"{name} {variant}"
        figures = _figures(by_count, budget is not None, ranged, bool(units), chosen)
        rows.append([first, *figures, "" if by_card else _place(cards[name])])
    return DataTable(header, rows)


def _threads(row: Forecast) -> int:
    return row.configuration.target.threads


def _figures(
    rows: Sequence[Forecast], budgeted: bool, ranged: bool, placed: bool, chosen: bool
) -> list[str]:
    """Return the figures of a row: accuracy, the latency by threads and its interval, the
    probability to meet a budget, the nodes on an accelerator, the processor that is chosen, size
    and cost.
    """
    row = rows[0]
    chances = []
    for forecast in rows:
        if forecast.chance is not None:
            chances.append(forecast.chance)
    probability = f"{100 * max(chances):.0f} %" if chances else "?"
    return [
        f"{row.accuracy.value:.1f}" if row.accuracy else "-",
        " / ".join(_show_latency(forecast.latency) for forecast in rows),
        *([_interval(row.latency)] if ranged else []),
        *([probability] if budgeted else []),
        *([count_nodes(row)] if placed else []),
        *([show_processor(row)] if chosen else []),
        f"{'' if row.size.provenance is Provenance.MEASURED else '?'}{row.size.value / 1e6:.1f}",
        "x" if row.filtered else show_seconds(sum(forecast.price_s for forecast in rows)),
    ]


def _latency_ms(row: Forecast) -> float:
    """Return the latency of a row; infinity if the device does not take its form."""
    if row.latency is None:
        return math.inf
    return row.latency.value


def _rank_form(row: Forecast) -> tuple[bool, float, float, Configuration]:
    """Return the rank of a form among those of its card:
    those that are left, then the fastest, then the surest.

    A form that nobody measured takes the latency of a similar one, and its interval is wider.
    """
    slowest_ms = row.latency.high if row.latency and row.latency.high is not None else math.inf
    return bool(row.filtered), _latency_ms(row), slowest_ms, row.configuration


def _show_latency(latency: Quantity | None) -> str:
    """Return a latency in ms with its mark; a dash if there is none."""
    if latency is None:
        return "-"
    return f"{MARKS.get(latency.provenance, '')}{show_ms(latency.value).removesuffix(' ms')}"


def _interval(latency: Quantity | None) -> str:
    """Return the 80 % interval in ms of a latency that is predicted, else ""."""
    if latency is None or latency.provenance is not Provenance.PREDICTED:
        return ""
    if latency.low is None or latency.high is None:
        return ""
    return (
        f"{show_ms(latency.low).removesuffix(' ms')} to"
        f" {show_ms(latency.high).removesuffix(' ms')}"
    )


def _place(card: CardForecast) -> str:
    if card.on_disk:
        return "here"
    if card.download_bytes is None:
        return "to download"
    if card.download_bytes:
        return f"to download, {show_bytes(card.download_bytes)}"
    return "none"


def _images(view: PlanView) -> Iterator[str]:
    """Yield how many images and boxes the classes have, and how they would be split."""
    if view.split is None:
        return
    counts = Counter[str]()
    for part in (view.split.boxes or view.split.parts).values():
        counts.update(part)
    fewest = min(counts.values())
    most = max(counts.values())
    spread = f"{fewest} in each" if fewest == most else f"{fewest} to {most} in each"
    boxes = ""
    if view.split.boxes:
        boxes = f" with {counts.total():,} boxes"
    classes = f" in {plural(len(counts), 'class', 'classes')}, {spread}"
    # Images with several labels or with masks are one class to the split, which tells nothing.
    if len(counts) == 1 and not boxes:
        classes = ""
    yield f"Images: {view.images:,}{boxes}{classes}."
    yield from view.split.lines


def _cost(view: PlanView) -> str:
    """Return what the search costs, how much of it a limit leaves,
    and when the first result is there.
    """
    count = sum(not forecast.filtered for forecast in view.forecasts)
    execution = view.request.execution
    if not count:
        return "Nothing would be trained: no candidate is left."
    planned = f"{plural(count, 'configuration')} of {plural(len(view.cards), 'card')}"
    text = f"Cost: about {show_seconds(view.price_s)} for {planned}"
    if execution.time_limit_s is not None and view.price_s > execution.time_limit_s:
        text += f"; with --time-limit {execution.time_limit} about {view.reached} of them"
    elif view.course is not None and view.reached < count:
        text += f": about {view.reached} of them, those that are expected to be worth it"
    elif view.reached < count:
        text += f"; with --max-trials {execution.max_trials} only {view.reached} of them"
    return f"{text}. First result {_when(view.cheapest)}."


def _when(first: CardForecast) -> str:
    """Return when the first result is there; nobody knows how long a download takes."""
    time = f"about {show_seconds(first.first_s)}"
    if first.on_disk or first.download_bytes == 0:
        return f"after {time} ({first.card})"
    size = ""
    if first.download_bytes:
        size = f" ({show_bytes(first.download_bytes)})"
    return f"{time} after the download of {first.card}{size}"


def _weights(view: PlanView) -> str:
    """Return which cards have their weights here, what must be downloaded,
    and what a search does if that fails.
    """
    local = [card.card for card in view.cards if card.on_disk]
    missing = []
    for card in view.cards:
        if not card.on_disk and card.download_bytes != 0:
            missing.append(card)
    start = f"Weights: {len(local)} of {plural(len(view.cards), 'card')} on this machine"
    if not missing:
        return f"{start}, nothing to download."
    named = ""
    if local:
        named = f" ({listed(local, NAMES_SHOWN)})"
    unknown = sum(card.download_bytes is None for card in missing)
    size = show_bytes(view.download_bytes) if view.download_bytes else "sizes unknown"
    more = ""
    if unknown and view.download_bytes:
        more = f", and {unknown} of unknown size"
    text = f"{start}{named}; to download: {len(missing)} ({size}{more})."
    if not view.spare:
        return text
    others = plural(view.spare, "other card")
    return (
        f"{text} If that fails, a search tries {others}, whose weights are here (--offline plans"
        " with these alone)."
    )
