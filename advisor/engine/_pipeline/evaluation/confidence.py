"""Calibration of a classifier's probabilities and thresholds: chosen on validation, verified on the hold-out."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from advisor.core import (
    LOG_LOSS,
    ConfidenceFacts,
    Costs,
    Guarantees,
    Mistake,
    Quantity,
    ShippedThresholds,
    Threshold,
)
from advisor.engine._pipeline.evaluation.accuracy import percent
from advisor.engine._pipeline.materials import Images, Role
from advisor.measurement import (
    Judged,
    OutOfFold,
    Score,
    apply_temperature,
    assess_reliability,
    at_recall,
    at_score,
    crossfit_probabilities,
    draw_curve,
    find_covering,
    find_reachable,
    find_recalling,
    fit_temperature,
    scores,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.floating[Any]]
    Flags = NDArray[np.bool_]
    Whole = NDArray[np.integer[Any]]


MISTAKES = 24  # Wrong answers of the hold-out that are kept
GUARANTEE = 0.95  # Share of right answers that thresholds guarantee if the user asks for none


@dataclass(frozen=True, eq=False)
class ClassProbabilities:
    """Probabilities of the images of a part, and what follows from them.

    ``rows`` are float (N, C); a user's own file may have further columns. ``labels`` are the true classes, (N,).
    """

    rows: Floats
    labels: Whole
    classes: tuple[str, ...]

    @property
    def sure(self) -> Floats:
        """The probability of each answer, (N,)."""
        return np.asarray(self.rows.max(axis=1))

    @property
    def answers(self) -> Whole:
        """The class of each answer, (N,)."""
        return np.asarray(self.rows.argmax(axis=1))

    @property
    def right(self) -> Flags:
        """A mask of the right answers, (N,)."""
        return np.asarray(self.answers == self.labels)

    def of(self, name: str) -> tuple[Floats, Flags]:
        """Return the answers of one class: their probabilities, and whether they are right."""
        place = self.answers == self.classes.index(name)
        return self.sure[place], self.right[place]

    def without(self, guarantees: Guarantees) -> tuple[Floats, Flags]:
        """Return the answers of all classes of which no precision is asked by name; as :meth:`of`."""
        stricter = [self.classes.index(name) for name in guarantees.precision.by_class]
        place = ~np.isin(self.answers, stricter)
        return self.sure[place], self.right[place]

    def members(self, name: str) -> tuple[Floats, Flags]:
        """Return the probability of a class for each image, and whether the image is of that class; (N,) each."""
        label = self.classes.index(name)
        return self.rows[:, label], self.labels == label

    def counted(self, limits: ShippedThresholds) -> Threshold | None:
        """Return the answers that count with the thresholds of a product; None if all of them do.

        An answer that is none of the classes, which only a user's own file gives, never counts.
        """

        if limits.plain is None and not limits.by_class:
            return None
        further = self.rows.shape[1] - len(self.classes)
        least = np.array([*(limits.least(name) for name in self.classes), *(further * [np.inf])])
        taken = self.sure >= least[self.answers]
        return replace(at_score(1.0, taken.astype(float), self.right), score=float(least.min()))


def choose_thresholds(
    probabilities: Path, images: Images, guarantees: Guarantees, folds: OutOfFold | None = None
) -> ConfidenceFacts:
    """Return the temperature of a file, what it does, and the thresholds, all by images that its head did not learn.

    Figures with the temperature come from cross-fitting: each image is calibrated by others. They are those of the
    validation part. Temperature and thresholds are chosen on the out-of-fold answers of the training part too, if the
    file answers like the float head that gave them.

    ``probabilities`` is the ``.npy`` of the compared file, float32 (N, C). ``guarantees`` are what the user asked of
    thresholds; those for a precision are chosen without a wish too.
    """

    from advisor.measurement import find_threshold

    rows = np.load(probabilities, allow_pickle=False)
    labels = np.asarray(images.part(Role.VALIDATION).labels)
    given = folds.beside(rows, labels) if folds else (rows, labels)
    every = ClassProbabilities(crossfit_probabilities(*given), given[1], images.classes)
    seen = replace(every, rows=every.rows[-len(rows) :], labels=labels)
    before = assess_reliability(rows, labels)
    after = assess_reliability(seen.rows, labels)
    batch = len(images.part(Role.HOLDOUT).labels) / len(every.labels)
    asked = guarantees.precision.by_class
    wanted = guarantees.precision.plain or GUARANTEE
    by_class = {name: find_threshold(*every.of(name), asked.get(name, wanted), batch=batch) for name in images.classes}
    recalls = {name: share for name in images.classes if (share := guarantees.recall.of(name)) is not None}
    facts = ConfidenceFacts(
        temperature=fit_temperature(*given),
        error=after.error,
        error_before=before.error,
        brier=after.brier,
        brier_before=before.brier,
        bins=after.bins,
        guaranteed=wanted,
        threshold=find_threshold(*every.without(guarantees), wanted, batch=batch),
        by_class=by_class,
        reachable=find_reachable(*every.without(guarantees), batch=batch),
        wanted=guarantees,
        reachable_by_class={
            name: find_reachable(*every.of(name), batch=batch) for name in asked if by_class[name] is None
        },
        recall={name: find_recalling(*every.members(name), share, batch=batch) for name, share in recalls.items()},
        coverage=None
        if guarantees.coverage is None
        else find_covering(every.sure, every.right, guarantees.coverage, batch=batch),
        curve=draw_curve(seen.sure, seen.right),
    )
    return replace(facts, answered=seen.counted(facts.thresholds))


def verify_thresholds(probabilities: Path, images: Images, chosen: ConfidenceFacts) -> ConfidenceFacts:
    """Return the figures of the file that ships on the hold-out, at the temperature and thresholds that were chosen.

    ``probabilities`` is the ``.npy`` of that file, whose head has the temperature, float32 (N, C).
    """

    part = images.part(Role.HOLDOUT)
    rows = np.load(probabilities, allow_pickle=False)
    labels = np.asarray(part.labels)
    seen = ClassProbabilities(rows, labels, images.classes)
    after = assess_reliability(rows, labels)
    before = assess_reliability(apply_temperature(rows, 1 / chosen.temperature), labels)
    sure = seen.sure
    right = seen.right
    cover = chosen.coverage
    wrong = replace(chosen, mistakes=_wrong_answers(seen, images))
    return replace(
        chosen,
        error=after.error,
        error_before=before.error,
        brier=after.brier,
        brier_before=before.brier,
        bins=after.bins,
        threshold=at_score(chosen.threshold.score, *seen.without(chosen.wanted)) if chosen.threshold else None,
        by_class={
            name: at_score(one.score, *seen.of(name)) if (one := chosen.by_class.get(name)) else None
            for name in images.classes
        },
        recall={name: at_recall(one, *seen.members(name)) for name, one in chosen.recall.items()},
        coverage=cover and replace(cover, at=at_score(cover.at.score, sure, right)),
        answered=seen.counted(chosen.thresholds),
        curve=draw_curve(sure, right),
        mistakes=wrong.varied_mistakes[:MISTAKES],
    )


def _wrong_answers(seen: ClassProbabilities, images: Images) -> tuple[Mistake, ...]:
    """Return the wrong answers on the hold-out, the most probable first."""
    part = images.part(Role.HOLDOUT)
    sure = seen.sure
    answers = seen.answers
    wrong = np.flatnonzero(~seen.right)
    mistakes = []
    for row in wrong[np.argsort(-sure[wrong], kind="stable")]:
        path = images.dataset.show_path(part.paths[row])
        label = int(seen.labels[row])
        mistakes.append(Mistake(path, part.hashes[row], label, int(answers[row]), float(sure[row])))
    return tuple(mistakes)


def score_metrics(
    probabilities: Path, images: Images, role: Role, costs: Costs | None = None, names: Collection[str] = ()
) -> dict[str, Score]:
    """Return those of some metrics that the images with a role allow, by name; those of all without names.

    ``probabilities`` is the ``.npy`` of a file, float32 (N, C). That of the file that ships has the temperature;
    answers to the validation part get one that was fitted to other images of it. ``costs`` are those of each answer.
    """
    rows = np.load(probabilities, allow_pickle=False)
    labels = np.asarray(images.part(role).labels)
    calibrated = (
        crossfit_probabilities(rows, labels) if role is Role.VALIDATION and (LOG_LOSS in names or not names) else None
    )
    table = None if costs is None else np.array(costs.of(images.classes))
    if table is not None and rows.shape[1] > len(table):  # an answer that is no class costs as much as the worst one
        further = np.repeat(table.max(axis=1, keepdims=True), rows.shape[1] - len(table), axis=1)
        table = np.hstack([table, further])
    return scores(Judged(rows, labels, calibrated, images.group_names(role), table), names)


def quantities(found: Mapping[str, Score], source: str) -> dict[str, Quantity]:
    """Return metrics in %; each names its source, and what it belongs to where the metric does not say it."""
    return {
        name: percent(score.figure, score.images or len(score.shares), ", ".join(filter(None, (score.note, source))))
        for name, score in found.items()
    }
