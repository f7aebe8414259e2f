"""From a run folder's evaluations to its decision, computed anew whenever asked: deciding again is free."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from advisor.core.budget import Budget
from advisor.core.decision import Decision, decide, tied_by_interval
from advisor.core.evaluation import Evaluation
from advisor.core.statistics import paired_difference
from advisor.store import RunFolder


def conclude(run: RunFolder, evaluations: Sequence[Evaluation], budget: Budget) -> Decision:
    """Decide over the evaluations; accuracies measured on the same pictures are compared picture by picture."""
    labels = _labels(run.path)

    @cache
    def right(answers: str) -> tuple[bool, ...]:
        return _right(run.path / answers, labels)

    def tie(first: Evaluation, second: Evaluation) -> bool:
        one, other = (str(evaluation.details.get("answers", "")) for evaluation in (first, second))
        if not (labels and one and other and (run.path / one).is_file() and (run.path / other).is_file()):
            return tied_by_interval(first, second)
        return paired_difference(right(one), right(other)).spans_zero

    return _with_missing_weights(decide(evaluations, budget, tie))


def _with_missing_weights(decision: Decision) -> Decision:
    """Say so where the pick was measured without the weights that its published accuracy belongs to."""
    if decision.pick is None or decision.pick.details.get("weights") != "":
        return decision
    card = decision.pick.configuration.card
    remark = f" To ship it, get its weights first: advisor catalog show {card} names where they are."
    return replace(decision, reason=decision.reason + remark)


def _labels(path: Path) -> tuple[int, ...]:
    split = RunFolder(path).read_json("split.json")
    if not split:
        return ()
    place = {name: label for label, name in enumerate(split["classes"])}
    return tuple(place[row["class"]] for row in split["holdout"])


def _right(path: Path, labels: Sequence[int]) -> tuple[bool, ...]:
    import numpy as np

    answers = np.load(path, allow_pickle=False)
    return tuple(bool(answer == label) for answer, label in zip(answers, labels, strict=True))
