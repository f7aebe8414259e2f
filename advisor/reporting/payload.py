"""Data of the page's script: the figures of every evaluation, the limits, the filters and the scales."""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from advisor.core.evaluation import Evaluation, p90_of, size_of
from advisor.core.evaluation_facts import TimingFacts
from advisor.core.quantity import Quantity
from advisor.core.units import plural
from advisor.reporting.phrases import ranked
from advisor.reporting.view import RunView

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

UNSTATED = "not stated"


def facets(view: RunView) -> list[dict[str, Any]]:
    """Return the filters with at least two values: their field, their title, and each value with its label."""
    filters: list[dict[str, Any]] = []
    for field, title, value in _FACETS:
        values = _distinct([value(evaluation) for evaluation in view.evaluations])
        labels = [(str(v), plural(v, "thread") if isinstance(v, int) else v or "unnamed") for v in values]
        filters.append({"field": field, "title": title, "options": labels})
    licences = [(str(licence), str(licence)) for licence in _distinct(list(_licences(view).values()))]
    filters.append({"field": "licence", "title": "Licence", "options": licences})
    return [each for each in filters if len(each["options"]) > 1]


def _licences(view: RunView) -> dict[str, str]:
    """Return the licence of each card, from any of its evaluations."""
    found = {e.configuration.card: UNSTATED for e in view.evaluations}
    stated = ((e.configuration.card, e.card_facts.licence) for e in view.evaluations)
    return found | {card: licence for card, licence in stated if licence}


def _distinct(values: Sequence[str | int]) -> list[str | int]:
    """Return each value once: numbers ascending, names in order of appearance."""
    unique = list(dict.fromkeys(values))
    return sorted(unique) if all(isinstance(value, int) for value in unique) else unique


def payload(view: RunView) -> dict[str, object]:
    """Return the data of the page's script, plain JSON values."""
    rows = ranked(view)
    sources: dict[str, int] = {}
    licences = _licences(view)
    return {
        "rows": [{**_row(view, row, sources), "licence": licences[row.configuration.card]} for row in rows],
        "quantities": QUANTITIES,
        "metric": view.task.heading,
        "sources": list(sources),
        "families": _distinct([row.family for row in view.evaluations]),
        "compressions": _distinct([row.configuration.compression for row in view.evaluations]),
        "budget": {
            "latency": view.budget.latency_ms,
            "size": view.budget.size_bytes,
            "accuracy": view.budget.min_accuracy,
        },
        "log": {"latency": _is_wide(map(p90_of, view.ok)), "size": _is_wide(map(size_of, view.ok))},
        "compare": _compared(view, rows),
    }


def _row(view: RunView, evaluation: Evaluation, sources: dict[str, int]) -> dict[str, object]:
    configuration = evaluation.configuration
    target = configuration.target
    key, probability = configuration.key, evaluation.budget_probability
    flags = {
        "pick": key == view.pick_key,
        "front": key in view.front_keys,
        "tie": key in view.tie_keys,
        "meets": view.budget.met_by(evaluation),
        "contended": evaluation.contended,
    }
    return {
        "card": configuration.card,
        "family": evaluation.family,
        "training": configuration.training,
        "compression": configuration.compression,
        "variant": configuration.variant_name,
        "threads": target.threads,
        "device": target.device,
        "accelerator": target.accelerator,
        "status": evaluation.status.value,
        **{name: True for name, value in flags.items() if value},
        **({} if probability is None else {"budget_probability": _short(probability)}),
        "q": [_numbers(getattr(evaluation, name), sources) for name in QUANTITIES],
        "x": _extras(evaluation),
    }


def _extras(evaluation: Evaluation) -> list[float | None]:
    """Return what hover and comparison show besides, in the order that the script expects."""
    timing, file = evaluation.timing or TimingFacts(), evaluation.file_facts
    return [
        timing.load_ms,
        timing.first_ms,
        file.arena_bytes,
        evaluation.card_facts.macs,
        file.download_bytes,
        file.download_zstd_bytes,
    ]


def _numbers(quantity: Quantity | None, sources: dict[str, int]) -> list[object] | None:
    """Return [value, low, high, index of ``provenance: source``, n], rounded for display."""
    if quantity is None:
        return None
    origin = quantity.provenance.value + (f": {quantity.source}" if quantity.source else "")
    ends = [None if end is None else _short(end) for end in (quantity.low, quantity.high)]
    return [_short(quantity.value), *ends, sources.setdefault(origin, len(sources)), quantity.n]


def _short(value: float) -> float:
    """Round to six significant digits."""
    return float(f"{value:.6g}")


def _is_wide(values: Iterable[float]) -> bool:
    """Return whether the values span so much that most would be squeezed together on a linear axis."""
    known = [value for value in values if math.isfinite(value)]
    return bool(known) and min(known) > 0 and max(known) / min(known) >= LOG_RATIO


def _compared(view: RunView, rows: Sequence[Evaluation]) -> list[int]:
    """Return the positions of the pick and the runner-up: the first two to compare."""
    wanted = [e.configuration.key for e in (view.decision.pick, view.decision.runner_up) if e is not None]
    positions = {row.configuration.key: index for index, row in enumerate(rows)}
    return [positions[key] for key in wanted if key in positions]
