"""Order in which evaluations are shown, and the funnel: how many stopped at which stage."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from advisor.core.evaluation import Evaluation, Status
from advisor.reporting.view import RunView

TABLE_ROWS = 10
TIES_SHOWN = 4

STAGES = ("plan", "screen", "weights", "convert", "compress", "latency", "memory", "features", "train", "head", "score")
"""Order in which stages usually end an evaluation; others follow in order of appearance."""


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


@dataclass(frozen=True)
class Step:
    """One step of the funnel.

    Attributes:
        name: the stage or condition.
        left: evaluations still in the run after it.
        lost: evaluations that stopped here.
        reasons: the most frequent reasons with their counts.
    """

    name: str
    left: int
    lost: int
    reasons: tuple[tuple[str, int], ...] = ()


def funnel(view: RunView) -> tuple[Step, ...]:
    """Return how many evaluations are left after each step, from all configurations to the pick."""
    left = len(view.evaluations)
    steps = [Step("planned", left, 0)]
    ended = [evaluation for evaluation in view.evaluations if evaluation.status is not Status.OK]
    for stage in _stages(ended):
        lost = [evaluation for evaluation in ended if evaluation.stage == stage]
        left -= len(lost)
        steps.append(Step(stage or "unnamed stage", left, len(lost), _reasons(lost)))
    return (*steps, *_decided(view, left))


def _stages(ended: Sequence[Evaluation]) -> list[str]:
    present = list(dict.fromkeys(evaluation.stage for evaluation in ended))
    return sorted(present, key=lambda stage: STAGES.index(stage) if stage in STAGES else len(STAGES))


def _reasons(lost: Sequence[Evaluation]) -> tuple[tuple[str, int], ...]:
    return tuple(Counter(evaluation.reason or evaluation.status.value for evaluation in lost).most_common(3))


def _decided(view: RunView, left: int) -> tuple[Step, ...]:
    """Return the steps after the last stage: the budget, the front and the pick."""
    meets = sum(view.budget.met_by(evaluation) for evaluation in view.ok)
    broken = Counter(limit for evaluation in view.ok for limit in view.budget.violations(evaluation))
    reasons = tuple((f"over the {limit} limit", count) for limit, count in broken.most_common())
    budget = Step("meets the budget", meets, left - meets, reasons)
    if not view.decision.feasible:
        return (budget,)
    front = len(view.decision.front)
    return (
        budget,
        Step(
            "on the front",
            front,
            meets - front,
            (("another candidate is as good or better in every figure", meets - front),),
        ),
        Step("the pick", 1, front - 1),
    )
