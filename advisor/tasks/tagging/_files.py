"""Judge files that give images labels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from advisor.core import BoxGuarantee, Guarantees, ImageAnswers, Interval, Quantity, parse
from advisor.engine import AccuracyVerdict, Images, Role, Scored, make_percent
from advisor.exporting import Found, ShippedModel
from advisor.measurement import label_precision, label_thresholds
from advisor.store import RunFolder
from advisor.tasks._judge import EVERY, JudgeByShares, describe_classes, overlays

LabelScores = label_precision.LabelScores
LEAST = label_precision.LEAST
SHOWN_CLASSES = 20  # Labels whose average precision has an interval in the report, at most


def find_tags(outputs: Sequence[Any], model: ShippedModel) -> tuple[Found, ...]:
    """Return the labels of a photograph that reach the threshold, the highest score first."""
    (row,) = outputs
    best = sorted(zip(model.labels, row.tolist(), strict=True), key=lambda pair: -pair[1])
    return tuple(
        Found(label, score) for label, score in best if score >= model.thresholds.least(label)
    )


@dataclass(frozen=True)
class ByPrecision(JudgeByShares[LabelScores]):
    """Judge by the mean average precision."""

    guarantees: Guarantees = field(default_factory=Guarantees)  # what is asked of the thresholds

    def score_images(
        self, answers: Path, images: Images, role: Role, selection: slice = EVERY
    ) -> LabelScores:
        """Return the scores of the images beside their labels."""
        part = images.part(role)
        scores = np.load(answers, allow_pickle=False)[selection]
        return LabelScores(scores, np.array(part.objects, np.int8), part.groups)

    def verdict(
        self, scored: Scored, images: Images, run: RunFolder, name: str
    ) -> AccuracyVerdict:
        """Return the figure on the validation part,
        and what the thresholds of the file that ships guarantee.

        A finished file of the user keeps its scores, so its thresholds are kept beside it.
        """
        verdict = super().verdict(scored, images, run, name)
        notes = scored.notes or ()
        guarantees: Sequence[BoxGuarantee | None] = [
            parse(BoxGuarantee, note) if note else None for note in notes
        ]
        thresholds = {}
        if not scored.made_here:
            chosen = self._choose_for_finished(
                self.score_images(scored.answers, images, Role.VALIDATION), images
            )
            guarantees = chosen.guarantees
            thresholds = dict(zip(images.classes, chosen.scores, strict=True))
        named = zip(images.classes, guarantees, strict=False)
        of_labels = {label: guarantee for label, guarantee in named if guarantee}
        answers = replace(verdict.answers, label_guarantees=of_labels, label_thresholds=thresholds)
        return replace(verdict, answers=answers)

    def _choose_for_finished(
        self, scores: LabelScores, images: Images
    ) -> label_thresholds.ChosenThresholds:
        """Return thresholds of the scores that a file gives the validation part."""
        wishes = (
            label_thresholds.list_wishes(self.guarantees, images.classes)
            if self.guarantees.options
            else ()
        )
        batch = len(images.part(Role.HOLDOUT).paths) / len(scores.truth)
        groups = scores.groups or range(len(scores.truth))
        return label_thresholds.choose_thresholds(
            label_thresholds.logits_of(scores.scores), scores.truth, groups, wishes, batch
        )

    def compare_answers(
        self, shipped: LabelScores, floats: LabelScores | None, images: Images
    ) -> ImageAnswers:
        """Return the average precision of each label."""
        by_class = zip(images.classes, shipped.by_class.tolist(), strict=True)
        return ImageAnswers({name: None if np.isnan(value) else value for name, value in by_class})

    def judge_answers(
        self, shipped: LabelScores, images: Images, chosen: ImageAnswers
    ) -> ImageAnswers:
        """Return it, F1, exact sets, the range of each label, and the images with the most
        errors.
        """
        least = chosen.label_thresholds
        if least:
            shipped = replace(shipped, least=[least.get(label, LEAST) for label in images.classes])
        count = len(shipped.truth)
        macro, micro, exact = shipped.f1_scores()
        figures = {
            "Macro F1": make_percent(
                macro, count, "the mean over the labels, of the scores from the threshold on"
            ),
            "Micro F1": make_percent(micro, count, "of all labels together"),
            "Exact sets": make_percent(
                exact, count, "the share of images with exactly the right labels"
            ),
            **dict(_list_class_figures(shipped, images.classes)),
        }
        for label, score in least.items():
            why = (
                "the score from which on the label counts; validation chose it, and the file does"
                " not know it"
            )
            figures[f"Threshold of {label}"] = make_percent(
                Interval(score, score, score), count, why
            )
        guarantees = {}
        for place, label in enumerate(images.classes):
            guarantee = shipped.complete(place, chosen.label_guarantees.get(label))
            if guarantee is None:
                continue
            guarantees[label] = guarantee
            if guarantee.seen:
                verb = "is" if guarantee.kept else "cannot be"
                promise = f"at least {100 * guarantee.wanted:g} % {verb} guaranteed"
                figures[f"{guarantee.of.capitalize()} of {label}"] = make_percent(
                    guarantee.seen, count, promise
                )

        def layers(_place: int) -> Iterator[bytes]:
            return iter((b"", b""))

        def describe(place: int) -> str:
            return describe_errors(shipped, place, images.classes)

        shown = overlays(
            images,
            -shipped.errors,
            lambda place: bool(shipped.errors[place]),
            describe,
            layers,
            {},
        )
        answers = self.compare_answers(shipped, None, images)
        return replace(
            answers,
            figures=figures,
            overlays=shown,
            label_guarantees=guarantees,
            label_thresholds=least,
        )


def _list_class_figures(
    scores: LabelScores, classes: Sequence[str]
) -> Iterator[tuple[str, Quantity]]:
    """Yield the average precision of each label with its range,
    those with the lowest first if there are many.
    """
    ranges = scores.list_ranges()
    known = [
        (interval.value, place) for place, interval in enumerate(ranges) if interval is not None
    ]
    for _, place in sorted(sorted(known)[:SHOWN_CLASSES], key=lambda pair: pair[1]):
        interval = ranges[place]
        if interval is not None:
            there = int((scores.truth[:, place] == 1).sum())
            yield (
                f"AP of {classes[place]}",
                make_percent(interval, len(scores.truth), f"of images by score, {there} have it"),
            )


def describe_errors(scores: LabelScores, place: int, classes: Sequence[str]) -> str:
    """Return what is missed and what is wrong in an image, in words."""
    flags = scores.flags[place] == 1
    known = scores.truth[place]
    true = [name for name, label in zip(classes, known, strict=True) if label == 1]
    # A label of which nobody knows whether it fits is neither right nor wrong.
    answered = []
    for name, label, flag in zip(classes, known, flags, strict=True):
        if flag and label in (0, 1):
            answered.append(name)
    return describe_classes(true, answered) or "no label, none found"
