"""Order in which evaluations are shown."""

from __future__ import annotations

from collections.abc import Sequence

from advisor.core.evaluation import Evaluation, Status
from advisor.reporting.view import RunView

TABLE_ROWS = 10
TIES_SHOWN = 4


def shortlist(view: RunView, rows: int = TABLE_ROWS) -> tuple[Evaluation, ...]:
    """Return at most ``rows`` evaluations for the short table: the pick, its first ties, then the whole front."""
    decision = view.decision
    ties = fastest_per_artefact(decision.ties)[:TIES_SHOWN]
    chosen = [evaluation for evaluation in (decision.pick, *ties) if evaluation is not None][:rows]
    seen = {evaluation.configuration.key for evaluation in chosen}
    others = [evaluation for evaluation in decision.front if evaluation.configuration.key not in seen]
    return (*chosen, *sorted(_spread(others, rows - len(chosen)), key=_accuracy, reverse=True))


def fastest_per_artefact(evaluations: Sequence[Evaluation]) -> tuple[Evaluation, ...]:
    """Keep the fastest evaluation of every artefact, in the given order; the number of threads makes no other file."""
    best: dict[tuple[str, str, str], Evaluation] = {}
    for evaluation in evaluations:
        configuration = evaluation.configuration
        artefact = (configuration.card, configuration.training, configuration.compression)
        if artefact not in best or _latency(evaluation) < _latency(best[artefact]):
            best[artefact] = evaluation
    return tuple(best.values())


def _latency(evaluation: Evaluation) -> float:
    return evaluation.latency.value if evaluation.latency else float("inf")


def _spread(items: Sequence[Evaluation], count: int) -> list[Evaluation]:
    """Return ``count`` of ``items`` at even distances, including both ends."""
    if count <= 0:
        return []
    if len(items) <= count:
        return list(items)
    step = (len(items) - 1) / max(count - 1, 1)
    return [items[round(index * step)] for index in range(count)]


def _accuracy(evaluation: Evaluation) -> float:
    return evaluation.accuracy.value if evaluation.accuracy else float("-inf")


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
        return groups.index(True) if True in groups else len(groups), -_accuracy(evaluation)

    return tuple(sorted(view.evaluations, key=rank))
