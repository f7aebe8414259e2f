"""From a run folder's evaluations to its decision, computed anew whenever asked: deciding again is free."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from advisor.core.budget import Budget
from advisor.core.decision import Decision, Tie, decide, tied_by_interval
from advisor.core.evaluation import Evaluation
from advisor.core.preference import BALANCED, Preference
from advisor.core.statistics import paired_difference
from advisor.store import RunFolder


def conclude(
    run: RunFolder, evaluations: Sequence[Evaluation], budget: Budget, preference: Preference = BALANCED
) -> Decision:
    """Decide over the evaluations; accuracies measured on the same pictures are compared picture by picture."""
    return _with_missing_weights(decide(evaluations, budget, tie_on_pictures(run), preference))


def tie_on_pictures(run: RunFolder) -> Tie:
    """Return what tells two accuracies apart: the answers of both on each hold-out picture, else their intervals."""
    labels = _labels(run.path)

    @cache
    def right(answers: str) -> tuple[bool, ...] | None:
        return _right(run.path / answers, labels) if answers and labels else None

    @cache
    def same(one: str, other: str) -> bool | None:
        first, second = right(one), right(other)
        return paired_difference(first, second).spans_zero if first and second else None

    def tie(first: Evaluation, second: Evaluation) -> bool:
        paired = same(*(str(evaluation.details.get("answers") or "") for evaluation in (first, second)))
        return tied_by_interval(first, second) if paired is None else paired

    return tie


def _with_missing_weights(decision: Decision) -> Decision:
    """Say so where the pick was measured without the weights that its published accuracy belongs to."""
    if decision.pick is None or decision.pick.details.get("weights") != "":
        return decision
    card = decision.pick.configuration.card
    remark = f" To ship it, get its weights first: advisor catalog show {card} names where they are."
    return replace(decision, reason=decision.reason + remark)


def right_answers(run: RunFolder, evaluation: Evaluation) -> tuple[bool, ...] | None:
    """Return for each hold-out picture whether the artefact was right, None where that is not known."""
    labels, answers = _labels(run.path), str(evaluation.details.get("answers") or "")
    return _right(run.path / answers, labels) if labels and answers else None


def holdout(run: RunFolder) -> tuple[str, ...]:
    """Return the hashes of the hold-out's pictures in their order; empty where they are not known."""
    rows = run.read_json("split.json").get("holdout")
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        return ()
    return tuple(str(row.get("sha256", "")) for row in rows)


def _labels(path: Path) -> tuple[int, ...]:
    split = RunFolder(path).read_json("split.json")
    try:
        place = {name: label for label, name in enumerate(split["classes"])}
        return tuple(place[row["class"]] for row in split["holdout"])
    except (KeyError, TypeError):
        return ()


def _right(path: Path, labels: Sequence[int]) -> tuple[bool, ...] | None:
    """Return which pictures were answered rightly, or None where the answers are missing, damaged or of others."""
    import numpy as np

    try:
        answers = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None
    if answers.shape != (len(labels),):
        return None
    return tuple(bool(answer == label) for answer, label in zip(answers, labels, strict=True))
