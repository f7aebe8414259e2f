"""The plan of a search on the terminal: the candidates, what is skipped and why, and the cost.

``advisor plan`` calls :func:`print_plan`. The values are those of ``engine``'s ``PlanView``;
nothing is estimated here. ``_plan_nodes.py`` has the cells about accelerators.
"""

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

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
    show(
        [_make_table(view, rows), *map(Paragraph, (*more, *list_sentences(view, not more)))],
        console,
    )


def _fastest_forms(view: PlanView) -> Iterator[Forecast]:
    """Yield the forecasts of the fastest form of each card;
    the first has the cost of all forms of the card.
    """
    for card in view.cards:
        forms = [row for row in view.forecasts if row.configuration.card == card.card]
        # A form that the search leaves out stands for its card only if it leaves out all of them.
        variant = min(forms, key=_rank_form).configuration.variant_name
        fastest = [row for row in forms if row.configuration.variant_name == variant]
        others_s = sum(row.price_s for row in forms if row not in fastest)
        # A form that is slower on the processor of the row may be the fastest one on another.
        yield replace(
            fastest[0], price_s=fastest[0].price_s + others_s, processors=card.processors
        )
        yield from fastest[1:]


def list_sentences(view: PlanView, every: bool = True) -> Iterator[str]:
    """Yield the lines below the table, one sentence each;
    the table has ``every`` form or the fastest of each card.
    """
    question = view.request.question
    yield LEGEND if question.devices == (HOST,) else LEGEND_THERE
    for remark in view.remarks:
        yield f"Note: {remark}"
    yield from describe_nodes(view)
    yield from _describe_filtered(view.forecasts, every)
    yield from _describe_images(view)
    skipped: dict[str, list[str]] = {}
    for name, reason in view.left_out.items():
        skipped.setdefault(reason, []).append(name)
    for reason, names in skipped.items():
        yield f"Skipped: {listed(names, NAMES_SHOWN)}: {reason}."
    yield _describe_cost(view)
    if question.tuning_limited and view.tuning_s:
        yield _describe_tuning(view)
    yield _describe_weights(view)
    yield "Nothing was spent. To start, use the same options with advisor search."


def _describe_tuning(view: PlanView) -> str:
    """Return what of the cost is fine-tuning, of which cards, and how to ask for less or more."""
    tuned, possible = view.tuned
    which = plural(possible, "card")
    if tuned < possible:
        which = f"the most promising {tuned} of {possible} cards"
    trainings = view.request.question.trainings
    recipe = next(training for training in trainings if recipe_of(training).tunes_backbone)
    return (
        f"Fine-tuning: about {show_seconds(view.tuning_s)} of this, for {which} ({recipe})."
        f" --training head leaves it out; --training {recipe} tunes every card that can still"
        " win."
    )


def _describe_filtered(forecasts: Sequence[Forecast], every: bool) -> Iterator[str]:
    """Yield a line for each reason to leave configurations out;
    reasons that differ only in figures are one.
    """
    alike: dict[str, list[Forecast]] = {}
    filtered = [forecast for forecast in forecasts if forecast.filtered]
    for forecast in filtered:
        alike.setdefault(re.sub(r"(under )?\d[\d.,]*", "", forecast.filtered), []).append(forecast)
    if filtered:
        marked = ", marked x" if every else ""
        yield f"Filtered: {len(filtered)} of {len(forecasts)} configurations{marked}:"
    for rows in sorted(alike.values(), key=len, reverse=True)[:NAMES_SHOWN]:
        first = rows[0]
        name = f"{first.configuration.card} {first.configuration.variant_name}:"
        which = ""
        if len(rows) == 1:
            which = f" {name}"
        elif len({row.filtered for row in rows}) > 1:
            which = f", such as {name}"
        yield f"  {len(rows)} x{which} {first.filtered}"


@dataclass(frozen=True)
class _Layout:
    """The columns of the table of a plan that not every plan has, and what its rows are."""

    by_card: bool  # a row with the name of each card stands above those of its forms
    place: str  # below the title of the latency: the threads, or the device
    counts: tuple[int, ...]  # thread counts whose latencies share a cell
    budget_ms: float | None  # the limit of the probabilities; None for no such column
    has_intervals: bool
    unit: str  # accelerator whose nodes are counted; empty for no such column
    has_processors: bool  # the best processor of each file

    @property
    def weights_width(self) -> int:
        """Terminal width from which the table has the source of the weights.

        The interval leaves no room for it beside a name, and a line below the table names what is
        missing.
        """
        width = WIDE if self.has_intervals else ROOMY
        if self.unit:
            width += NODES_WIDTH
        if self.has_processors:
            width += PROCESSOR_WIDTH
        return width


def _make_table(view: PlanView, shown: Sequence[Forecast] | None) -> DataTable:
    """Return the table of a plan: every card with its forms, or the rows ``shown``."""
    rows = _sort_by_card(view) if shown is None else shown
    layout = _choose_layout(view, rows, by_card=shown is None)
    columns = _list_columns(layout)
    return DataTable(columns, _list_rows(view, rows, layout, len(columns)))


def _sort_by_card(view: PlanView) -> list[Forecast]:
    """Return all forecasts in the order of the cards."""
    order = {card.card: index for index, card in enumerate(view.cards)}
    return sorted(view.forecasts, key=lambda row: order[row.configuration.card])


def _choose_layout(view: PlanView, rows: Sequence[Forecast], by_card: bool) -> _Layout:
    """Return the layout that has a column for all that is known of the rows."""
    question = view.request.question
    shown_counts = set(map(_count_threads, rows))
    counts = tuple(count for count in question.thread_counts if count in shown_counts)
    is_here = question.devices == (HOST,)
    is_one_device = len(question.devices) == 1
    place = f"worst of {len(question.devices)}"
    if is_here:
        plural_s = "" if counts == (1,) else "s"
        place = f"{' / '.join(map(str, counts))} thread{plural_s}"
    elif is_one_device:
        place = question.devices[0]
    units = set[str]()
    if is_one_device:
        for row in rows:
            units.update(share.unit for share in row.nodes)
    return _Layout(
        by_card=by_card,
        place=place,
        counts=counts,
        budget_ms=question.limits.latency_ms,
        has_intervals=not is_here and any(_show_interval(row.latency) for row in rows),
        unit="".join(units),
        has_processors=is_one_device and any(row.processors for row in rows),
    )


def _list_columns(layout: _Layout) -> list[TableColumn[Forecast]]:
    """Return the columns of the table, in their order."""
    first = "candidate\n  form" if layout.by_card else "candidate, form"
    columns: list[TableColumn[Forecast]] = [
        TableColumn(first, left=True, whole=layout.by_card),
        TableColumn("published\ntop-1 %", width=ROOMY, whole=True),
        TableColumn(f"latency ms\n{layout.place}", whole=True),
    ]
    if layout.has_intervals:
        columns.append(TableColumn("80 %\ninterval", width=ROOMY, whole=True))
    if layout.budget_ms is not None:
        columns.append(TableColumn(f"meets\n{show_ms(layout.budget_ms)}", whole=True))
    if layout.unit:
        columns.append(TableColumn(f"nodes on\n{layout.unit.upper()}", whole=True))
    if layout.has_processors:
        columns.append(TableColumn("best\nprocessor", left=True, whole=True))
    columns += (
        TableColumn("size MB", width=ROOMY, whole=True),
        TableColumn("cost", whole=True),
        TableColumn("weights", left=True, width=layout.weights_width),
    )
    return columns


def _list_rows(
    view: PlanView, forecasts: Sequence[Forecast], layout: _Layout, width: int
) -> list[Sequence[Words]]:
    """Return the cells of the rows, ``width`` in each: one row a form, by card below its name."""
    cards = {card.card: card for card in view.cards}
    forms: dict[tuple[str, str], list[Forecast]] = {}
    for forecast in forecasts:
        configuration = forecast.configuration
        forms.setdefault((configuration.card, configuration.variant_name), []).append(forecast)
    rows = list[Sequence[Words]]()
    previous = ""
    for (name, variant), forecasts_of_form in forms.items():
        place = _show_place(cards[name])
        figures = _show_figures(_sort_by_threads(forecasts_of_form, layout.counts), layout)
        if not layout.by_card:
            rows.append([f"{name} {variant}", *figures, place])
            continue
        if name != previous:
            rows.append([Span(name, "strong"), *[""] * (width - 2), place])
            previous = name
        rows.append([f"  {variant}", *figures, ""])
    return rows


def _sort_by_threads(rows: Sequence[Forecast], counts: Sequence[int]) -> list[Forecast]:
    """Return the forecasts of a form in the order of the thread counts in the title."""

    def find_place(row: Forecast) -> int:
        threads = _count_threads(row)
        return counts.index(threads) if threads in counts else 0

    return sorted(rows, key=find_place)


def _count_threads(row: Forecast) -> int:
    return row.configuration.target.threads


def _show_figures(rows: Sequence[Forecast], layout: _Layout) -> list[str]:
    """Return the figures of a form, whose first row has those that do not depend on threads."""
    first = rows[0]
    figures = [
        f"{first.accuracy.value:.1f}" if first.accuracy else "-",
        " / ".join(_show_latency(row.latency) for row in rows),
    ]
    if layout.has_intervals:
        figures.append(_show_interval(first.latency))
    if layout.budget_ms is not None:
        chances = [row.chance for row in rows if row.chance is not None]
        figures.append(f"{100 * max(chances):.0f} %" if chances else "?")
    if layout.unit:
        figures.append(count_nodes(first))
    if layout.has_processors:
        figures.append(show_processor(first))
    mark = "" if first.size.provenance is Provenance.MEASURED else "?"
    figures.append(f"{mark}{first.size.value / 1e6:.1f}")
    price_s = sum(row.price_s for row in rows)
    figures.append("x" if first.filtered else show_seconds(price_s))
    return figures


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


def _show_interval(latency: Quantity | None) -> str:
    """Return the 80 % interval in ms of a latency that is predicted, else ""."""
    if latency is None or latency.provenance is not Provenance.PREDICTED:
        return ""
    if latency.low is None or latency.high is None:
        return ""
    return (
        f"{show_ms(latency.low).removesuffix(' ms')} to"
        f" {show_ms(latency.high).removesuffix(' ms')}"
    )


def _show_place(card: CardForecast) -> str:
    if card.on_disk:
        return "here"
    if card.download_bytes is None:
        return "to download"
    if card.download_bytes:
        return f"to download, {show_bytes(card.download_bytes)}"
    return "none"


def _describe_images(view: PlanView) -> Iterator[str]:
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


def _describe_cost(view: PlanView) -> str:
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
    return f"{text}. First result {_describe_first_result(view.cheapest)}."


def _describe_first_result(first: CardForecast) -> str:
    """Return when the first result is there; nobody knows how long a download takes."""
    time = f"about {show_seconds(first.first_s)}"
    if first.on_disk or first.download_bytes == 0:
        return f"after {time} ({first.card})"
    size = ""
    if first.download_bytes:
        size = f" ({show_bytes(first.download_bytes)})"
    return f"{time} after the download of {first.card}{size}"


def _describe_weights(view: PlanView) -> str:
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
