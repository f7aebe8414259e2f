"""What changed between two runs, and whether the recommendation did, beyond the noise of its figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from advisor.core.decision import Decision
from advisor.core.evaluation import Evaluation, Status
from advisor.core.noise import Delta, delta, deltas, without_noise
from advisor.core.statistics import paired
from advisor.engine.decide import compared_on, conclude, right_answers
from advisor.engine.history.compare_reasons import Outcome, choice, reason
from advisor.engine.history.differences import Difference, find_differences
from advisor.engine.history.loaded_run import LoadedRun

HELD_OUT = "holdout_accuracy"


@dataclass(frozen=True)
class ChangedFigure:
    """A figure of one configuration that differs."""

    key: str
    delta: Delta


@dataclass(frozen=True)
class Comparison:
    """Two runs held against each other.

    Attributes:
        before: name of the earlier run.
        after: name of the later run.
        outcome: what became of the recommendation.
        reason: why, in one or more sentences.
        pick_before: the earlier pick.
        pick_after: the later pick.
        differences: what is not as it was, but for figures.
        figures: figures that differ, those that count first.
    """

    before: str
    after: str
    outcome: Outcome
    reason: str
    pick_before: Evaluation | None
    pick_after: Evaluation | None
    differences: tuple[Difference, ...]
    figures: tuple[ChangedFigure, ...]

    @property
    def recommends_otherwise(self) -> bool:
        """True where the recommendation changed, or the same one got worse, beyond the noise."""
        return self.outcome in (Outcome.CHANGED, Outcome.WORSE)


def compare(before: LoadedRun, after: LoadedRun) -> Comparison:
    """Hold a run against an earlier one.

    The recommendation counts as changed only where deciding again still changes it after every figure that did not
    move beyond the noise (:mod:`advisor.core.noise`) is set back to what it was.
    """
    changes = _deltas(before, after)
    steady = _steady_decision(after, changes)
    differences = find_differences(before, after)
    one_device = before.question.devices == after.question.devices
    outcome = _outcome(before.decision, after.decision, steady, changes, one_device)
    return Comparison(
        before=before.name,
        after=after.name,
        outcome=outcome,
        reason=reason(outcome, before, after, changes, differences),
        pick_before=before.decision.pick,
        pick_after=after.decision.pick,
        differences=differences,
        figures=_changed(changes),
    )


def _deltas(before: LoadedRun, after: LoadedRun) -> dict[str, tuple[Delta, ...]]:
    """Return the deltas of every configuration that both runs evaluated, by key."""
    earlier = {e.configuration.key: e for e in before.evaluations if e.status is Status.OK}
    paired = _paired(before, after)
    found = {}
    for evaluation in after.evaluations:
        then = earlier.get(evaluation.configuration.key)
        if then is not None and evaluation.status is Status.OK:
            changes = deltas(then, evaluation)
            refined = _refined(changes, before, then, after, evaluation) if paired else changes
            found[evaluation.configuration.key] = refined
    return found


def _paired(before: LoadedRun, after: LoadedRun) -> bool:
    images = compared_on(before.folder)
    return bool(images) and images == compared_on(after.folder)


def _refined(
    changes: tuple[Delta, ...], before: LoadedRun, then: Evaluation, after: LoadedRun, now: Evaluation
) -> tuple[Delta, ...]:
    """On the same pictures, compare accuracies picture by picture; one file has one accuracy."""
    same = then.artefact_sha256 == now.artefact_sha256 != ""
    apart: bool | None = False
    if not same:
        earlier, later = right_answers(before.folder, then), right_answers(after.folder, now)
        apart = None if earlier is None or later is None else not paired(earlier, later).spans_zero
    return tuple(
        delta(change.figure, change.before, change.after, apart)
        if change.figure == "accuracy" or (same and change.before and change.after and change.figure == HELD_OUT)
        else change
        for change in changes
    )


def _steady_decision(after: LoadedRun, changes: Mapping[str, tuple[Delta, ...]]) -> Decision:
    evaluations = [
        without_noise(evaluation, changes[evaluation.configuration.key])
        if evaluation.configuration.key in changes
        else evaluation
        for evaluation in after.evaluations
    ]
    return conclude(after.folder, evaluations, after.question).decision


def _outcome(
    then: Decision, now: Decision, steady: Decision, changes: Mapping[str, tuple[Delta, ...]], one_device: bool
) -> Outcome:
    chosen = [choice(decision.pick, one_device) for decision in (then, now, steady)]
    if chosen[0] != chosen[2]:
        return Outcome.CHANGED
    if then.feasible != steady.feasible:
        return Outcome.CHANGED if steady.feasible else Outcome.WORSE
    if chosen[0] != chosen[1] or then.feasible != now.feasible:
        return Outcome.NOISE
    key = now.pick.configuration.key if now.pick else ""
    return Outcome.WORSE if any(change.worse for change in changes.get(key, ())) else Outcome.SAME


def _changed(changes: Mapping[str, tuple[Delta, ...]]) -> tuple[ChangedFigure, ...]:
    rows = [
        ChangedFigure(key, change)
        for key, figures in changes.items()
        for change in figures
        if _value(change.before) != _value(change.after)
    ]
    return tuple(sorted(rows, key=lambda row: (not row.delta.counts, row.key)))


def _value(quantity: Any) -> float | None:
    return None if quantity is None else quantity.value
