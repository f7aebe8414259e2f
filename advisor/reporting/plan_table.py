"""The plan of a search on the terminal: the candidates, what is skipped and why, and the cost."""

from collections import Counter
from collections.abc import Mapping, Sequence

from rich.console import Console

from advisor.core.evaluation import HOST
from advisor.core.quantity import Provenance
from advisor.core.units import listed, plural, show_bytes, show_ms, show_seconds
from advisor.engine.space.forecast import COLUMNS, CardForecast, Forecast, PlanView
from advisor.reporting.blocks import DataTable, Paragraph, Span, TableColumn, Words
from advisor.reporting.console import show
from advisor.reporting.selection import Rows

PLAN = Rows(COLUMNS, Forecast.to_row)
"""Configurations of a plan."""

MARKS = {Provenance.MEASURED: "", Provenance.PUBLISHED: "", Provenance.PREDICTED: "~", Provenance.ESTIMATED: "?"}
LEGEND = "latency: timed here before, ~ predicted from timings on this machine, ? rough (from MACs only)"
LEGEND_THERE = "latency: measured or published for that device, ~ predicted, ? rough (from MACs only)"
NAMES_SHOWN = 8

ROOMY = 100
"""Terminal width from which the table also shows accuracy, size and the source of the weights."""


def print_plan(view: PlanView, console: Console | None = None, shown: Sequence[Forecast] | None = None) -> None:
    """Write the plan to ``console``, or to standard output.

    Args:
        view: the plan.
        console: where to.
        shown: the configurations of the table, in their order; all of them, by card, if None.
    """
    show([_table(view, shown), *map(Paragraph, sentences(view))], console)


def sentences(view: PlanView) -> list[str]:
    """Return the lines below the table, one sentence each."""
    filtered = {forecast.configuration: forecast.filtered for forecast in view.forecasts if forecast.filtered}
    lines = [LEGEND if view.request.question.devices == (HOST,) else LEGEND_THERE]
    lines += [f"Note: {remark}" for remark in view.remarks]
    if filtered:
        lines.append(f"Filtered: {len(filtered)} of {len(view.forecasts)} configurations, marked x:")
        reasons = Counter(filtered.values()).most_common(NAMES_SHOWN)
        lines += [f"  {times} x {reason}" for reason, times in reasons]
    lines += _images(view)
    lines += _skipped(view.left_out)
    lines.append(_cost(view))
    if view.request.question.tuning_limited and view.tuning_s:
        lines.append(_fine_tuning(view))
    lines.append(_weights(view))
    lines.append("Nothing was spent. To start, use the same options with advisor search.")
    return lines


def _table(view: PlanView, shown: Sequence[Forecast] | None) -> DataTable:
    cards = {card.card: card for card in view.cards}
    if by_card := shown is None:
        order = {card: index for index, card in enumerate(cards)}
        shown = sorted(view.forecasts, key=lambda row: order[row.configuration.card])
    budgeted = view.request.question.limits.latency_ms is not None
    counts = [count for count in view.request.question.thread_counts if count in {_threads(row) for row in shown}]
    variants: dict[tuple[str, str], list[Forecast]] = {}
    for each in shown:
        variants.setdefault((each.configuration.card, each.configuration.variant_name), []).append(each)
    header = _columns(view, counts, by_card=by_card)
    rows, previous = list[Sequence[Words]](), ""
    for (name, variant), forecasts in variants.items():
        by_count = sorted(forecasts, key=lambda row: counts.index(_threads(row)) if _threads(row) in counts else 0)
        if by_card and name != previous:
            rows.append([Span(name, "strong"), *[""] * (len(header) - 2), _place(cards[name])])
            previous = name
        first = f"  {variant}" if by_card else f"{name} {variant}"
        rows.append([first, *_figures(by_count, budgeted=budgeted), "" if by_card else _place(cards[name])])
    return DataTable(header, rows)


def _threads(row: Forecast) -> int:
    return row.configuration.target.threads


def _columns(view: PlanView, counts: Sequence[int], *, by_card: bool) -> tuple[TableColumn, ...]:
    budget = view.request.question.limits.latency_ms
    probability = () if budget is None else (TableColumn(f"meets\n{show_ms(budget)}", whole=True),)
    return (
        TableColumn("candidate\n  form" if by_card else "candidate, form", left=True, whole=by_card),
        TableColumn("published\ntop-1 %", width=ROOMY, whole=True),
        TableColumn(f"latency ms\n{_place_of(view, counts)}", whole=True),
        *probability,
        TableColumn("size MB", width=ROOMY, whole=True),
        TableColumn("cost", whole=True),
        TableColumn("weights", left=True, width=ROOMY),
    )


def _place_of(view: PlanView, counts: Sequence[int]) -> str:
    """Return where the latencies belong: threads of this machine, the device, or the slowest device."""
    devices = view.request.question.devices
    if devices == (HOST,):
        return " / ".join(map(str, counts)) + " threads"
    return devices[0] if len(devices) == 1 else f"worst of {len(devices)} devices"


def _figures(rows: Sequence[Forecast], *, budgeted: bool) -> list[str]:
    row = rows[0]
    top1 = f"{row.accuracy.value:.1f}" if row.accuracy else "-"
    latencies = [
        MARKS.get(each.latency.provenance, "") + show_ms(each.latency.value).removesuffix(" ms") for each in rows
    ]
    probability = [_probability(rows)] if budgeted else []
    size = f"{'' if row.size.provenance is Provenance.MEASURED else '?'}{row.size.value / 1e6:.1f}"
    cost = "x" if row.filtered else show_seconds(sum(each.price_s for each in rows))
    return [top1, " / ".join(latencies), *probability, size, cost]


def _probability(rows: Sequence[Forecast]) -> str:
    known = [row.chance for row in rows if row.chance is not None]
    return f"{100 * max(known):.0f} %" if known else "?"


def _place(card: CardForecast) -> str:
    if card.on_disk:
        return "here"
    if card.download_bytes is None:
        return "to download"
    return f"to download, {show_bytes(card.download_bytes)}" if card.download_bytes else "none"


def _images(view: PlanView) -> list[str]:
    if view.split is None:
        return []
    counts = Counter[str]()
    for part in (view.split.boxes or view.split.parts).values():
        counts.update(part)
    fewest, most = min(counts.values()), max(counts.values())
    each = f"{fewest} in each" if fewest == most else f"{fewest} to {most} in each"
    boxes = f" with {counts.total():,} boxes" if view.split.boxes else ""
    classes = plural(len(counts), "class", "classes")
    return [f"Images: {view.images:,}{boxes} in {classes}, {each}.", *view.split.lines]


def _skipped(skipped: Mapping[str, str]) -> list[str]:
    by_reason: dict[str, list[str]] = {}
    for name, reason in skipped.items():
        by_reason.setdefault(reason, []).append(name)
    lines = []
    for reason, names in by_reason.items():
        lines.append(f"Skipped: {listed(names, NAMES_SHOWN)}: {reason}.")
    return lines


def _cost(view: PlanView) -> str:
    count = sum(not forecast.filtered for forecast in view.forecasts)
    planned = f"{plural(count, 'configuration')} of {plural(len(view.cards), 'card')}"
    text = f"Cost: about {show_seconds(view.price_s)} for {planned}"
    if view.request.execution.time_limit_s is not None and view.price_s > view.request.execution.time_limit_s:
        text += f"; with --time-limit {view.request.execution.time_limit} about {view.reached} of them"
    elif view.reached < count:
        text += f"; with --max-trials {view.request.execution.max_trials} only {view.reached} of them"
    return f"{text}. First result after about {show_seconds(view.cheapest.first_s)} ({view.cheapest.card})."


def _fine_tuning(view: PlanView) -> str:
    """Return what the default fine-tuning does, and how to change it."""
    tuned, possible = view.tuned
    which = f"the most promising {tuned} of {possible} cards" if tuned < possible else plural(possible, "card")
    return (
        f"Fine-tuning: about {show_seconds(view.tuning_s)} of this, for {which} (finetune_cached). --training head "
        "leaves it out; --training finetune_cached tunes every card that can still win."
    )


def _weights(view: PlanView) -> str:
    here = sum(card.on_disk for card in view.cards)
    missing = [card for card in view.cards if not card.on_disk and card.download_bytes != 0]
    cards = plural(len(view.cards), "card")
    if not missing:
        return f"Weights: {here} of {cards} on this machine, nothing to download."
    unknown = sum(card.download_bytes is None for card in missing)
    size = show_bytes(view.download_bytes) if view.download_bytes else "sizes unknown"
    more = f", and {unknown} of unknown size" if unknown and view.download_bytes else ""
    return f"Weights: {here} of {cards} on this machine; to download: {len(missing)} ({size}{more})."
