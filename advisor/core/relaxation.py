"""Limits that are broken: by how much, in words, and the smallest loosening that admits a candidate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from advisor.core.budget import Budget
from advisor.core.evaluation import Evaluation
from advisor.core.figures import accuracy_of, describe
from advisor.core.units import show_bytes, show_ms


@dataclass(frozen=True)
class Relaxation:
    """The smallest loosening of one limit that makes a candidate feasible."""

    limit: str
    current: str
    needed: str
    key: str
    text: str


def overrun(evaluation: Evaluation, budget: Budget) -> float:
    """Sum of the relative excesses over the broken limits."""
    limits = limits_of(budget)
    return sum(excess / max(abs(limits[name]), 1e-9) for name, excess in budget.violations(evaluation).items())


def limits_of(budget: Budget) -> dict[str, float]:
    """The limits that are set, by name, in their base units."""
    values = {
        "latency": budget.latency_ms,
        "size": budget.size_bytes,
        "drop": budget.max_drop_points,
        "accuracy": budget.min_accuracy,
        "memory": budget.memory_bytes,
    }
    return {name: float(value) for name, value in values.items() if value is not None}


def relaxations(known: Sequence[Evaluation], budget: Budget) -> tuple[Relaxation, ...]:
    """For each limit alone, the smallest loosening that makes something feasible, if any does."""
    found = []
    for limit, current in limits_of(budget).items():
        only = [e for e in known if set(budget.violations(e)) == {limit} and budget.violations(e)[limit] < float("inf")]
        if not only:
            continue
        nearest = min(only, key=lambda e: (budget.violations(e)[limit], -accuracy_of(e)))
        excess = budget.violations(nearest)[limit]
        wanted = current - excess if limit == "accuracy" else current + excess
        found.append(_relaxation(limit, current, wanted, nearest))
    return tuple(found)


def _relaxation(limit: str, current: float, wanted: float, evaluation: Evaluation) -> Relaxation:
    now, then = show_limit(limit, current), show_limit(limit, _outward(limit, wanted))
    text = f"{limit} {now} -> {then} admits {describe(evaluation)}"
    return Relaxation(limit, now, then, evaluation.configuration.key, text)


def _outward(limit: str, value: float) -> float:
    """Round to what :func:`show_limit` shows so that the limit as shown still admits the candidate."""
    if limit == "accuracy":
        return math.floor(value * 10) / 10
    if limit == "latency":
        step = 0.01 if value < 9.9 else 0.1 if value < 99 else 1.0
    elif limit == "drop":
        step = 0.1
    else:
        step = next((unit / 10 for unit in (1e9, 1e6, 1e3) if value >= unit), 1.0)
    return math.ceil(value / step) * step


def show_limit(limit: str, value: float) -> str:
    """Format the value of a limit (``latency``, ``size``, ``drop``, ``accuracy``, ``memory``) with its unit."""
    if limit == "latency":
        return show_ms(value)
    if limit in ("size", "memory"):
        return show_bytes(value)
    return f"{value:.1f} points" if limit == "drop" else f"{value:.1f} %"


def excess_texts(evaluation: Evaluation, budget: Budget) -> list[str]:
    """Say of each limit that ``evaluation`` breaks what it is against what is allowed."""
    names = {
        "latency": "p90 latency",
        "size": "size",
        "drop": "drop",
        "accuracy": "accuracy",
        "memory": "memory",
    }
    texts = []
    for limit, excess in budget.violations(evaluation).items():
        allowed = limits_of(budget)[limit]
        if excess == float("inf"):
            texts.append(f"its {names[limit]} is not known (limit {show_limit(limit, allowed)})")
            continue
        actual = allowed - excess if limit == "accuracy" else allowed + excess
        texts.append(f"{names[limit]} {show_limit(limit, actual)} against {show_limit(limit, allowed)}")
    return texts
