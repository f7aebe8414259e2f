"""The funnel of a search: how many evaluations stopped at which stage, down to the pick."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from advisor.core.evaluation import Evaluation, Status
from advisor.engine.pipeline.names import StageName
from advisor.reporting.view import RunView

REASONS_SHOWN = 3


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
    stopped = [evaluation for evaluation in view.evaluations if evaluation.status is not Status.OK]
    for stage in _in_order(stopped):
        lost = [evaluation for evaluation in stopped if evaluation.stage == stage]
        reasons = Counter(evaluation.reason or evaluation.status.value for evaluation in lost)
        left -= len(lost)
        steps.append(Step(stage or "unnamed stage", left, len(lost), tuple(reasons.most_common(REASONS_SHOWN))))
    return (*steps, *_decided(view, left))


def _in_order(stopped: Sequence[Evaluation]) -> list[str]:
    """Return the stages at which evaluations stopped, in the order of the work; unknown names come last."""
    order = {stage.value: index for index, stage in enumerate(StageName)}
    present = dict.fromkeys(evaluation.stage for evaluation in stopped)
    return sorted(present, key=lambda stage: order.get(stage, len(order)))


def _decided(view: RunView, left: int) -> tuple[Step, ...]:
    """Return the steps after the last stage: the budget, the front and the pick."""
    meets = sum(view.budget.met_by(evaluation) for evaluation in view.ok)
    exceeded = Counter(limit for evaluation in view.ok for limit in view.budget.violations(evaluation))
    reasons = tuple((f"over the {limit} limit", count) for limit, count in exceeded.most_common())
    budget = Step("meets the budget", meets, left - meets, reasons)
    if not view.decision.feasible:
        return (budget,)
    front = len(view.decision.front)
    dominated = (("another candidate is as good or better in every figure", meets - front),)
    return (budget, Step("on the front", front, meets - front, dominated), Step("the pick", 1, front - 1))
