"""Order in which evaluations are shown."""

from __future__ import annotations

from collections.abc import Sequence

from advisor.core.evaluation import Evaluation, Status
from advisor.core.figures import accuracy_of, latency_of, variant_of
from advisor.reporting.view import RunView

TABLE_ROWS = 10
TIES_SHOWN = 4


def shortlist(view: RunView) -> tuple[Evaluation, ...]:
    """Return the evaluations for the short table: the pick, its first ties, what the user ships, the front."""
    decision = view.decision
    ties = fastest_per_artefact(decision.ties)[:TIES_SHOWN]
    shipped = (each.evaluation for each in view.incumbents if not each.picked)
    named = [evaluation for evaluation in (decision.pick, *ties, *shipped) if evaluation is not None]
    chosen = list({evaluation.configuration.key: evaluation for evaluation in named}.values())
    seen = {evaluation.configuration.key for evaluation in chosen}
    others = [evaluation for evaluation in decision.front if evaluation.configuration.key not in seen]
    return (*chosen, *sorted(_spread(others, TABLE_ROWS - len(chosen)), key=accuracy_of, reverse=True))


def fastest_per_artefact(evaluations: Sequence[Evaluation]) -> tuple[Evaluation, ...]:
    """Keep the fastest evaluation of every artefact, in the given order; the number of threads makes no other file."""
    best: dict[tuple[str, str, str], Evaluation] = {}
    for evaluation in evaluations:
        known = best.setdefault(variant_of(evaluation), evaluation)
        if latency_of(evaluation) < latency_of(known):
            best[variant_of(evaluation)] = evaluation
    return tuple(best.values())


def _spread(items: Sequence[Evaluation], count: int) -> list[Evaluation]:
    """Return ``count`` (at least 2) of ``items`` at even distances, including both ends."""
    if len(items) <= count:
        return list(items)
    step = (len(items) - 1) / (count - 1)
    return [items[round(index * step)] for index in range(count)]


def ranked(view: RunView) -> tuple[Evaluation, ...]:
    """Return all evaluations: the pick, the front, what meets the budget, the rest; each group by falling accuracy."""

    def rank(evaluation: Evaluation) -> tuple[int, float]:
        key = evaluation.configuration.key
        groups = (
            key == view.pick_key,
            key in view.front_keys,
            view.budget.met_by(evaluation),
            evaluation.status is Status.OK,
        )
        return groups.index(True) if True in groups else len(groups), -accuracy_of(evaluation)

    return tuple(sorted(view.evaluations, key=rank))
