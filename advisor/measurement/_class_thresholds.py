"""Choose a classifier's temperature and thresholds by its probabilities of classes,
and judge them on other images.

The search chooses on validation and judges finalists on the hold-out. ``rows`` are float
(N, C); a user's own file may have further columns. ``labels`` are the true classes, (N,).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from advisor.core import (
    ConfidenceFacts,
    Guarantees,
    ImageUnits,
    Reachable,
    RecallThreshold,
    ShippedThresholds,
    Threshold,
)
from advisor.measurement._calibration import (
    OutOfFold,
    apply_temperature,
    assess_reliability,
    crossfit_probabilities,
    fit_temperature,
)
from advisor.measurement._guarantees import (
    at_recall,
    at_score,
    draw_curve,
    find_covering,
    find_reachable,
    find_recalling,
    find_threshold,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.floating[Any]]
    Flags = NDArray[np.bool_]
    Labels = NDArray[np.integer[Any]]


GUARANTEE = 0.95  # Share of right answers that thresholds guarantee if the user asks for none


@dataclass(frozen=True, eq=False)
class ClassProbabilities:
    """Probabilities of the images of a part, and what follows from them."""

    rows: Floats
    labels: Labels
    classes: tuple[str, ...]
    groups: Sequence[str] = ()

    @property
    def apart(self) -> float:
        """Independent answers in one answer, 0 to 1: images of one group are often all right, or
        all wrong.
        """
        right = self.right.astype(float)
        independent = ImageUnits.of(self.groups, len(right)).count_independent(right)
        return independent / max(len(right), 1)

    @property
    def sure(self) -> Floats:
        """The probability of each answer, (N,)."""
        return np.asarray(self.rows.max(axis=1))

    @property
    def answers(self) -> Labels:
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
        """Return the answers of classes of which no precision is asked by name, as :meth:`of`."""
        stricter = list(map(self.classes.index, guarantees.precision.by_class))
        place = ~np.isin(self.answers, stricter)
        return self.sure[place], self.right[place]

    def members(self, name: str) -> tuple[Floats, Flags]:
        """Return the probability of a class for each image,
        and whether the image is of that class; (N,) each.
        """
        label = self.classes.index(name)
        return self.rows[:, label], self.labels == label

    def counted(self, limits: ShippedThresholds) -> Threshold | None:
        """Return the answers that count with the thresholds of a product; None if all of them do.

        An answer that is none of the classes, which only a user's own file gives, never counts.
        """
        if limits.plain is None and not limits.by_class:
            return None
        other_columns = self.rows.shape[1] - len(self.classes)
        least = np.array([*map(limits.least, self.classes), *(other_columns * [np.inf])])
        taken = self.sure >= least[self.answers]
        counted = at_score(1.0, taken.astype(float), self.right, self.apart)
        return replace(counted, score=float(least.min()))


def choose_class_thresholds(
    rows: Floats,
    labels: Labels,
    classes: tuple[str, ...],
    guarantees: Guarantees,
    new_images: int,
    folds: OutOfFold | None = None,
    groups: Sequence[str] = (),
) -> ConfidenceFacts:
    """Return the temperature of a file, what it does, and the thresholds,
    all by images that its head did not learn.

    Figures with the temperature come from cross-fitting: each image is calibrated by others. They
    are those of the given images. Temperature and thresholds are chosen on the out-of-fold answers
    of the training part too, if the file answers like the float head that gave them.

    ``guarantees`` are what the user asked of thresholds; those for a precision are chosen without
    a wish too. They are about ``new_images`` other images. ``groups`` names the group of each
    image; images of one group count as fewer independent ones.
    """
    all_rows, all_labels, all_groups = rows, labels, groups
    if folds:
        all_rows, all_labels, all_groups = folds.beside(rows, labels, groups)
    calibrated = crossfit_probabilities(all_rows, all_labels)
    every = ClassProbabilities(calibrated, all_labels, classes, all_groups)
    # The given images are the last ones.
    seen = replace(every, rows=every.rows[-len(rows) :], labels=labels, groups=groups)
    before = assess_reliability(rows, labels)
    after = assess_reliability(seen.rows, labels)
    batch = new_images / len(every.labels)
    apart = every.apart
    asked = guarantees.precision.by_class
    wanted = guarantees.precision.plain or GUARANTEE
    by_class = {}
    for name in classes:
        precision = asked.get(name, wanted)
        by_class[name] = find_threshold(*every.of(name), precision, batch, apart)
    recall = _find_recall_thresholds(every, guarantees, batch)
    coverage = None
    if guarantees.coverage is not None:
        coverage = find_covering(every.sure, every.right, guarantees.coverage, batch, apart)
    facts = ConfidenceFacts(
        temperature=fit_temperature(all_rows, all_labels),
        error=after.error,
        error_before=before.error,
        brier=after.brier,
        brier_before=before.brier,
        bins=after.bins,
        guaranteed=wanted,
        threshold=find_threshold(*every.without(guarantees), wanted, batch, apart),
        by_class=by_class,
        reachable=find_reachable(*every.without(guarantees), batch, apart),
        wanted=guarantees,
        reachable_by_class=_find_reachable_by_class(every, asked, by_class, batch),
        recall=recall,
        coverage=coverage,
        curve=draw_curve(seen.sure, seen.right),
    )
    return replace(facts, answered=seen.counted(facts.thresholds))


def _find_recall_thresholds(
    every: ClassProbabilities, guarantees: Guarantees, batch: float
) -> dict[str, RecallThreshold]:
    """Return the thresholds of the classes of which a recall was asked."""
    thresholds = {}
    for name in every.classes:
        share = guarantees.recall.of(name)
        if share is not None:
            members = every.members(name)
            thresholds[name] = find_recalling(*members, share, batch, every.apart)
    return thresholds


def _find_reachable_by_class(
    every: ClassProbabilities,
    asked: Iterable[str],
    by_class: Mapping[str, Threshold | None],
    batch: float,
) -> dict[str, Reachable]:
    """Return what can be guaranteed of the classes whose wish no threshold keeps."""
    reachable = {}
    for name in asked:
        if by_class[name] is None:
            reachable[name] = find_reachable(*every.of(name), batch, every.apart)
    return reachable


def judge_class_thresholds(
    rows: Floats,
    labels: Labels,
    classes: tuple[str, ...],
    chosen: ConfidenceFacts,
    groups: Sequence[str] = (),
) -> ConfidenceFacts:
    """Return what the chosen temperature and thresholds do on other images, such as the hold-out.

    ``rows`` are of the file whose head has the temperature, and ``groups`` names the group of each
    image. What ``chosen`` lists of single mistakes stays.
    """
    seen = ClassProbabilities(rows, labels, classes, groups)
    apart = seen.apart
    after = assess_reliability(rows, labels)
    before = assess_reliability(apply_temperature(rows, 1 / chosen.temperature), labels)
    threshold = None
    if chosen.threshold:
        threshold = at_score(chosen.threshold.score, *seen.without(chosen.wanted), apart)
    by_class: dict[str, Threshold | None] = {}
    for name in classes:
        of_class = chosen.by_class.get(name)
        by_class[name] = at_score(of_class.score, *seen.of(name), apart) if of_class else None
    recall = {}
    for name, of_recall in chosen.recall.items():
        recall[name] = at_recall(of_recall, *seen.members(name), apart)
    coverage = chosen.coverage
    if coverage:
        at = at_score(coverage.at.score, seen.sure, seen.right, apart)
        coverage = replace(coverage, at=at)
    return replace(
        chosen,
        error=after.error,
        error_before=before.error,
        brier=after.brier,
        brier_before=before.brier,
        bins=after.bins,
        threshold=threshold,
        by_class=by_class,
        recall=recall,
        coverage=coverage,
        answered=seen.counted(chosen.thresholds),
        curve=draw_curve(seen.sure, seen.right),
    )
