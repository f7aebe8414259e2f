"""The data of the page's script: each evaluation that was begun, the limits and the filters.

``_html.py`` puts it into the page as JSON, and ``assets/report.js`` draws the plots and filters
the table. ``templates/explore.html.j2`` has the filters and the places of the plots. The three
files change together: the script expects these names, in this order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from advisor.core import FLOAT, Evaluation, Quantity, TimingFacts, plural
from advisor.reporting import _phrases as phrases
from advisor.reporting._view import RunView

LOG_RATIO = 8.0
"""An axis whose largest value is this many times the smallest is drawn on a logarithmic scale."""


QUANTITIES = ("accuracy", "latency", "latency_p90", "size", "memory", "drop", "holdout_accuracy")


_FACETS: tuple[tuple[str, str, Callable[[Evaluation], str | int]], ...] = (
    ("family", "Family", lambda e: e.family),
    ("compression", "Compression", lambda e: e.configuration.compression),
    ("training", "Training", lambda e: e.configuration.training),
    ("threads", "Threads", lambda e: e.configuration.target.threads),
    ("device", "Device", lambda e: e.configuration.target.device),
    ("accelerator", "Accelerator", lambda e: e.configuration.target.accelerator),
)


def list_facets(view: RunView) -> list[dict[str, Any]]:
    """Return the filters with at least two values:
    their field, their title, and each value with its label.
    """
    begun = [row for row in view.evaluations if row.was_begun]
    licences = _map_licences(begun)
    choices: list[tuple[str, str, list[Any]]] = []
    for field, title, read_value in _FACETS:
        choices.append((field, title, list(map(read_value, begun))))
    filters: list[dict[str, Any]] = []
    for field, title, values in (*choices, ("licence", "Licence", list(licences.values()))):
        labels = []
        for value in _list_distinct(values):
            # Numbers are counts of threads; a card may have no family.
            label = plural(value, "thread") if isinstance(value, int) else value or "unnamed"
            labels.append((str(value), label))
        filters.append({"field": field, "title": title, "options": labels})
    # With one value there is nothing to filter.
    return [facet for facet in filters if len(facet["options"]) > 1]


def _map_licences(rows: Sequence[Evaluation]) -> dict[str, str]:
    """Return the licence of each card, from any of its evaluations."""
    licences: dict[str, str] = {}
    for evaluation in rows:
        card = evaluation.configuration.card
        licences[card] = evaluation.card_facts.licence or licences.get(card, "not stated")
    return licences


def _list_distinct(values: Sequence[Any]) -> list[Any]:
    """Return each value once: numbers ascending, names in order of appearance."""
    unique = list(dict.fromkeys(values))
    return sorted(unique) if all(isinstance(value, int) for value in unique) else unique


def make_payload(view: RunView) -> dict[str, object]:
    """Return the data of the page's script, plain JSON values."""
    rows = phrases.rank_begun(view)
    begun = [row for row in view.evaluations if row.was_begun]
    licences = _map_licences(begun)
    limits = view.limits
    sources: dict[str, int] = {}
    positions = {row.configuration.key: index for index, row in enumerate(rows)}
    first = []
    for row in (view.decision.pick, view.decision.runner_up):
        if row is not None:
            first.append(row.configuration.key)
    return {
        "rows": [
            {**_describe_row(view, row, sources), "licence": licences[row.configuration.card]}
            for row in rows
        ],
        "quantities": QUANTITIES,
        "metric": view.task.heading,
        "sources": list(sources),
        "families": _list_distinct([row.family for row in begun]),
        "compressions": _list_distinct([row.configuration.compression for row in begun]),
        "budget": {
            "latency": limits.latency_ms,
            "size": limits.size_bytes,
            "accuracy": limits.min_accuracy,
        },
        "log": {
            "latency": is_wide(evaluation.p90_ms for evaluation in view.ok),
            "size": is_wide(evaluation.size_bytes for evaluation in view.ok),
        },
        "compare": [positions[key] for key in first if key in positions],
    }


def _list_quantities(evaluation: Evaluation) -> Iterator[Quantity | None]:
    """Yield the figures of an evaluation in the order of :data:`QUANTITIES`.

    A float32 file is what the others are compared with, so nobody measured what it loses.
    """
    for name in QUANTITIES:
        is_reference = name == "drop" and evaluation.configuration.compression == FLOAT
        yield None if is_reference else getattr(evaluation, name)


def _describe_row(
    view: RunView, evaluation: Evaluation, sources: dict[str, int]
) -> dict[str, object]:
    """Return an evaluation as the page's script reads it: names, flags, numbers, sources."""
    configuration = evaluation.configuration
    target = evaluation.configuration.target
    key = configuration.key
    probability = evaluation.budget_probability
    timing = evaluation.timing or TimingFacts()
    file = evaluation.file_facts
    flags = {
        "pick": key == view.pick_key,
        "front": key in view.front_keys,
        "tie": key in view.tie_keys,
        "meets": view.limits.met_by(evaluation),
        "contended": evaluation.contended,
    }
    return {
        "card": configuration.card,
        "family": evaluation.family,
        "training": configuration.training,
        "compression": configuration.compression,
        "variant": configuration.variant_name,
        **{name: getattr(target, name) for name in ("threads", "device", "accelerator")},
        "status": evaluation.status.value,
        # A flag that does not hold is left out: thousands of rows would repeat it.
        **{name: True for name, value in flags.items() if value},
        **({} if probability is None else {"budget_probability": _round_digits(probability)}),
        "q": [_list_numbers(quantity, sources) for quantity in _list_quantities(evaluation)],
        # What hover and comparison show besides, in the order that the script expects.
        "x": [
            timing.load_ms,
            timing.first_ms,
            file.arena_bytes,
            _read_macs(evaluation),
            file.download_bytes,
            file.download_zstd_bytes,
        ],
    }


def _read_macs(evaluation: Evaluation) -> float | None:
    """Return the multiply-accumulates of the file; those of the card where no file was read."""
    # The card counts the classes of its weights, and the file has the classes of the user.
    if evaluation.file_features is not None:
        return evaluation.file_features.macs
    return evaluation.card_facts.macs


def _list_numbers(quantity: Quantity | None, sources: dict[str, int]) -> list[object] | None:
    """Return [value, low, high, index of ``provenance: source``, n], rounded for display."""
    if quantity is None:
        return None
    # Thousands of figures share a few sources, so each row has only the number of its source.
    origin = quantity.provenance.value + (f": {quantity.source}" if quantity.source else "")
    ends = [None if end is None else _round_digits(end) for end in (quantity.low, quantity.high)]
    return [
        _round_digits(quantity.value),
        *ends,
        sources.setdefault(origin, len(sources)),
        quantity.n,
    ]


def _round_digits(value: float) -> float:
    """Round to six significant digits."""
    return float(f"{value:.6g}")


def is_wide(values: Iterable[float]) -> bool:
    """Return whether the values span so much
    that most would be squeezed together on a linear axis.
    """
    finite = list(filter(math.isfinite, values))
    return bool(finite) and min(finite) > 0 and max(finite) / min(finite) >= LOG_RATIO
