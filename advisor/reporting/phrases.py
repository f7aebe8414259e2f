"""Phrases that all forms of a report share: limits, verdicts, counts, what the images were used for."""

from __future__ import annotations

from advisor.core.budget import ON
from advisor.core.evaluation import Evaluation, Status
from advisor.core.figures import show_figure
from advisor.core.latency_distribution import CONFIDENCE, percent
from advisor.reporting import text
from advisor.reporting.view import DatasetSummary, RunView


def limits(view: RunView) -> tuple[tuple[str, str], ...]:
    """Return every limit set, by its name, as text."""
    budget = view.budget
    labels = {"latency": "p90 latency", "accuracy": "top-1"}
    numbers = [
        (labels.get(name, name), f"{'≥' if name == 'accuracy' else '≤'} {show_figure(name, value)}")
        for name, value in budget.limits.items()
    ]
    words = (
        ("confidence", "" if budget.confidence == CONFIDENCE else percent(budget.confidence)),
        ("licence", ", ".join(budget.licence)),
        ("must run on", ", ".join(budget.must_run_on)),
        ("prefer", str(view.request.get("prefer") or "")),
    )
    return (*numbers, *((label, value) for label, value in words if value))


def verdict(view: RunView, evaluation: Evaluation) -> str:
    """Return the verdict on an evaluation in one or two words."""
    key = evaluation.configuration.key
    if key == view.pick_key:
        return "pick" if view.decision.feasible else "closest"
    if evaluation.status is not Status.OK:
        return evaluation.status.value
    if key in view.device_picks:
        return f"pick on {evaluation.configuration.target.device}"
    if key in view.tie_keys:
        return "tie"
    if key in view.front_keys:
        return "front"
    broken = view.budget.violations(evaluation)
    return "over " + ", ".join(_broken(name) for name in broken) if broken else "dominated"


def _broken(limit: str) -> str:
    return "budget " + limit if limit.startswith(ON) else limit


def counts(view: RunView) -> str:
    """Return how many evaluations ran, met the budget, failed and were skipped."""
    meets = sum(view.budget.met_by(evaluation) for evaluation in view.ok)
    failed, skipped = len(view.with_status(Status.FAILED)), len(view.with_status(Status.SKIPPED))
    total = text.plural(len(view.evaluations), "configuration")
    return f"{total}: {meets} meet the budget, {len(view.ok) - meets} do not, {failed} failed, {skipped} skipped."


def parts(dataset: DatasetSummary) -> str:
    """Return what the images were used for."""
    own = " (your own split)" if dataset.own_split else ""
    return (
        f"{dataset.train} for training, {dataset.validation} to compare candidates (validation), {dataset.holdout} "
        f"held out to test the finalists{own}"
    )
