"""Judge files that give images labels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from advisor.core import BoxGuarantee, Guarantees, ImageAnswers, Interval, Quantity, parse
from advisor.engine import AccuracyVerdict, Images, Role, Scored, make_percent
from advisor.exporting import Found, ShippedModel
from advisor.measurement import (
    Floats,
    label_precision,
    label_thresholds,
    of_other_images,
    sums_of_units,
    units_of,
)
from advisor.store import RunFolder
from advisor.tasks._judge import EVERY, JudgeByShares, describe_classes, overlays

Doubles = NDArray[np.float64]
Truth = NDArray[np.int8]

LEAST = 0.5  # Score from which on a label is shown: heads are fitted so that it is the threshold of each label
SHOWN_CLASSES = 20  # Labels whose average precision has an interval in the report, at most


def find_tags(outputs: Sequence[Any], model: ShippedModel) -> tuple[Found, ...]:
    """Return the labels of a photograph that reach the threshold, the highest score first."""
    (row,) = outputs
    best = sorted(zip(model.labels, row.tolist(), strict=True), key=lambda pair: -pair[1])
    return tuple(Found(label, score) for label, score in best if score >= model.thresholds.least(label))


@dataclass(frozen=True, eq=False)
class TagScores:
    """The scores that a file gives N images, beside their labels."""

    scores: Floats  # (N, C)
    truth: Truth  # (N, C): 1, 0, or -1 where nothing is known
    groups: Sequence[int] = ()  # the number of the group of each image; empty if each image is one
    least: Sequence[float] = (LEAST,)  # the threshold of each label, or of all

    @cached_property
    def by_class(self) -> Doubles:
        """The average precision of each label, (C,); NaN for one that all images have or lack."""
        return label_precision.list_precisions(self.truth, self.scores)

    @cached_property
    def _without(self) -> Doubles:
        """The same without each image, (N, C)."""
        return label_precision.list_precisions_without(self.truth, self.scores)

    @property
    def figure(self) -> Interval:
        """The mean average precision, with its range on as many other images."""
        known = ~np.isnan(self.by_class)
        if not known.any():
            return Interval(0.0, 0.0, 1.0)
        values = float(self.by_class[known].mean())
        without = _mean_known(self._without[:, known])
        return self._range(values, without)

    @property
    def shares(self) -> list[float]:
        """Each image's share in it, whose mean it is: pseudo-values of the jackknife, see :func:`.split_precision`."""
        known = ~np.isnan(self.by_class)
        if not known.any():
            return [0.0] * len(self.truth)
        whole = float(self.by_class[known].mean())
        without = _mean_known(self._without[:, known])
        without = np.where(np.isfinite(without), without, whole)
        return list(map(float, whole + (len(without) - 1) * (without.mean() - without)))

    def _range(self, value: float, without: Doubles) -> Interval:
        """Return a figure with its range; ``without`` is the figure without each image, which add up to first order."""
        units = units_of(self.groups, len(without))
        # Without its only image a label has no figure; such an image counts as one that moves nothing.
        moved = np.where(np.isfinite(without), without - value, 0.0)
        return of_other_images(value, value + sums_of_units(moved, units))

    def list_ranges(self) -> list[Interval | None]:
        """Return the average precision of each label with its range; None as for ``by_class``."""
        ranges = []
        for label, value in enumerate(self.by_class):
            interval = None
            if not np.isnan(value):
                interval = self._range(float(value), self._without[:, label])
            ranges.append(interval)
        return ranges

    @property
    def flags(self) -> Truth:
        """1 where a label is shown and known to be there or not, else 0, (N, C)."""
        return np.asarray((self.scores >= self._thresholds) & (self.truth >= 0), np.int8)

    @property
    def _thresholds(self) -> Floats:
        # In the type of the scores: a score that is exactly the threshold reaches it.
        return np.asarray(self.least, self.scores.dtype)

    @property
    def errors(self) -> Doubles:
        """Number of wrong labels of each image, with the distance of each from the threshold added, float (N,)."""
        wrong = (self.flags != (self.truth == 1)) & (self.truth >= 0)
        return np.asarray((wrong * (1 + np.abs(self.scores - self._thresholds))).sum(axis=1), np.float64)

    def complete(self, label: int, chosen: BoxGuarantee | None) -> BoxGuarantee | None:
        """Return a guarantee of a label's threshold with what these images show of it."""
        answers = label_thresholds.answers_of_label(self.truth[:, label], self.scores[:, label], self.groups)
        least = float(np.broadcast_to(self._thresholds, self.scores.shape[1:])[label])
        return answers.complete_guarantee(least, chosen)

    def f1_scores(self) -> tuple[Interval, Interval, Interval]:
        """Return macro F1, micro F1, and the share of images of which all known labels are right."""
        there = (self.truth == 1).astype(float)
        shown = self.flags.astype(float)
        counts = np.stack([shown * there, shown, there], axis=-1)  # (N, C, 3): right, shown, true
        whole = counts.sum(axis=0)
        units = units_of(self.groups, len(counts))
        left = whole - sums_of_units(counts.reshape(len(counts), -1), units).reshape(-1, *whole.shape)
        macro = of_other_images(float(_f1(whole).mean()), _f1(left).mean(axis=-1))
        micro = of_other_images(float(_f1(whole.sum(axis=0))), _f1(left.sum(axis=1)))
        exact = (self.errors == 0).astype(float)
        sizes = np.bincount(units)
        rest = (exact.sum() - sums_of_units(exact, units)) / np.maximum(len(exact) - sizes, 1)
        return macro, micro, of_other_images(float(exact.mean()), rest)

    def describe_errors(self, place: int, classes: Sequence[str]) -> str:
        """Return what is missed and what is wrong in an image, in words."""
        flags = self.flags[place] == 1
        known = self.truth[place]
        true = [name for name, label in zip(classes, known, strict=True) if label == 1]
        # A label of which nobody knows whether it fits is neither right nor wrong.
        answered = []
        for name, label, flag in zip(classes, known, flags, strict=True):
            if flag and label in (0, 1):
                answered.append(name)
        return describe_classes(true, answered) or "no label, none found"


def _mean_known(values: Doubles) -> Doubles:
    """Return the mean of each row without NaN, (N,); NaN for a row of them."""
    known = ~np.isnan(values)
    sums = np.where(known, values, 0.0).sum(axis=1)
    counts = np.where(known.any(axis=1), known.sum(axis=1), np.nan)
    return np.asarray(sums / counts)


def _f1(counts: Doubles) -> Doubles:
    """Return the F1 of counts (..., 3) of right, shown and true labels; 1 where there is nothing to find or show."""
    right, shown, true = np.moveaxis(counts, -1, 0)
    labels = shown + true
    f1 = 2 * right / np.maximum(labels, 1e-9)
    return np.asarray(np.where(labels > 0, f1, 1.0))


@dataclass(frozen=True)
class ByPrecision(JudgeByShares[TagScores]):
    """Judge by the mean average precision."""

    guarantees: Guarantees = field(default_factory=Guarantees)  # what is asked of the thresholds

    def score_images(self, answers: Path, images: Images, role: Role, each: slice = EVERY) -> TagScores:
        """Return the scores of the images beside their labels."""
        part = images.part(role)
        scores = np.load(answers, allow_pickle=False)[each]
        return TagScores(scores, np.array(part.objects, np.int8), part.groups)

    def verdict(self, scored: Scored, images: Images, run: RunFolder, name: str) -> AccuracyVerdict:
        """Return the figure on the validation part, and what the thresholds of the file that ships guarantee.

        A finished file of the user keeps its scores, so its thresholds are kept beside it.
        """
        verdict = super().verdict(scored, images, run, name)
        notes = scored.notes or ()
        guarantees: Sequence[BoxGuarantee | None] = [parse(BoxGuarantee, note) if note else None for note in notes]
        thresholds = {}
        if not scored.made_here:
            chosen = self._choose_for_finished(self.score_images(scored.own, images, Role.VALIDATION), images)
            guarantees = chosen.guarantees
            thresholds = dict(zip(images.classes, chosen.scores, strict=True))
        named = zip(images.classes, guarantees, strict=False)
        of_labels = {label: guarantee for label, guarantee in named if guarantee}
        answers = replace(verdict.answers, label_guarantees=of_labels, label_thresholds=thresholds)
        return replace(verdict, answers=answers)

    def _choose_for_finished(self, own: TagScores, images: Images) -> label_thresholds.ChosenThresholds:
        """Return thresholds of the scores that a file gives the validation part."""
        wishes = label_thresholds.list_wishes(self.guarantees, images.classes) if self.guarantees.options else ()
        batch = len(images.part(Role.HOLDOUT).paths) / len(own.truth)
        groups = own.groups or range(len(own.truth))
        return label_thresholds.choose_thresholds(
            label_thresholds.logits_of(own.scores), own.truth, groups, wishes, batch
        )

    def compare_answers(self, own: TagScores, floats: TagScores | None, images: Images) -> ImageAnswers:
        """Return the average precision of each label."""
        by_class = zip(images.classes, own.by_class.tolist(), strict=True)
        return ImageAnswers({name: None if np.isnan(value) else value for name, value in by_class})

    def judge_answers(self, own: TagScores, images: Images, chosen: ImageAnswers) -> ImageAnswers:
        """Return it, F1, exact sets, the range of each label, and the images with the most errors."""
        least = chosen.label_thresholds
        if least:
            own = replace(own, least=[least.get(label, LEAST) for label in images.classes])
        count = len(own.truth)
        macro, micro, exact = own.f1_scores()
        figures = {
            "Macro F1": make_percent(macro, count, "the mean over the labels, of the scores from the threshold on"),
            "Micro F1": make_percent(micro, count, "of all labels together"),
            "Exact sets": make_percent(exact, count, "the share of images with exactly the right labels"),
            **dict(_list_class_figures(own, images.classes)),
        }
        for label, score in least.items():
            why = "the score from which on the label counts; validation chose it, and the file does not know it"
            figures[f"Threshold of {label}"] = make_percent(Interval(score, score, score), count, why)
        guarantees = {}
        for place, label in enumerate(images.classes):
            guarantee = own.complete(place, chosen.label_guarantees.get(label))
            if guarantee is None:
                continue
            guarantees[label] = guarantee
            if guarantee.seen:
                verb = "is" if guarantee.kept else "cannot be"
                promise = f"at least {100 * guarantee.wanted:g} % {verb} guaranteed"
                figures[f"{guarantee.of.capitalize()} of {label}"] = make_percent(guarantee.seen, count, promise)

        def layers(_place: int) -> Iterator[bytes]:
            return iter((b"", b""))

        def describe(place: int) -> str:
            return own.describe_errors(place, images.classes)

        shown = overlays(images, -own.errors, lambda place: bool(own.errors[place]), describe, layers, {})
        answers = self.compare_answers(own, None, images)
        return replace(answers, figures=figures, overlays=shown, label_guarantees=guarantees, label_thresholds=least)


def _list_class_figures(own: TagScores, classes: Sequence[str]) -> Iterator[tuple[str, Quantity]]:
    """Yield the average precision of each label with its range, those with the lowest first if there are many."""
    ranges = own.list_ranges()
    known = [(interval.value, place) for place, interval in enumerate(ranges) if interval is not None]
    for _, place in sorted(sorted(known)[:SHOWN_CLASSES], key=lambda pair: pair[1]):
        interval = ranges[place]
        if interval is not None:
            there = int((own.truth[:, place] == 1).sum())
            yield (
                f"AP of {classes[place]}",
                make_percent(interval, len(own.truth), f"of images by score, {there} have it"),
            )
