"""Judge the files of taggers by the mean average precision of their labels.

The search calls a :class:`ByPrecision` after a file has run over the validation part or the
hold-out. It reads the scores that :func:`._stages.tag` wrote. What it returns is written to
``evaluations.jsonl``, and the names of ``figures`` are shown in reports.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from advisor.core import (
    BoxGuarantee,
    Guarantees,
    ImageAnswers,
    Interval,
    Overlays,
    Quantity,
    parse,
)
from advisor.engine import AccuracyVerdict, Images, Role, Scored
from advisor.measurement import label_precision, label_thresholds
from advisor.tasks._judge import EVERY, JudgeByShares, collect_overlays, describe_classes

LabelScores = label_precision.LabelScores
LEAST = label_precision.LEAST
SHOWN_CLASSES = 20  # Labels whose average precision has an interval in the report, at most


@dataclass(frozen=True)
class ByPrecision(JudgeByShares[LabelScores]):
    """Judge by the mean average precision."""

    # Name of the figure that says what random scores reach on the images of a part.
    guess_figure: str
    guarantees: Guarantees = field(default_factory=Guarantees)  # what is asked of the thresholds

    def score_images(
        self,
        answers: Path,
        images: Images,
        role: Role,
        selection: slice = EVERY,
    ) -> LabelScores:
        """Return the scores of the images beside their labels."""
        part = images.part(role)
        scores = np.load(answers, allow_pickle=False)[selection]
        return LabelScores(scores, np.array(part.objects, np.int8), part.groups)

    def verdict(
        self, scored: Scored, images: Images, file: str
    ) -> tuple[AccuracyVerdict, Mapping[str, Sequence[float]]]:
        """Return the figure on the validation part with what the thresholds of the file guarantee,
        and the shares to keep by their file.

        A finished file of the user keeps its scores, so its thresholds are kept beside it.
        """
        verdict, answers_by_file = super().verdict(scored, images, file)
        guarantees: Sequence[BoxGuarantee | None] = [
            parse(BoxGuarantee, note) if note else None for note in scored.notes or ()
        ]
        thresholds = {}
        if not scored.made_here:
            scores = self.score_images(scored.answers, images, Role.VALIDATION)
            chosen = self._choose_for_finished(scores, images)
            guarantees = chosen.guarantees
            thresholds = dict(zip(images.classes, chosen.scores, strict=True))
        named = zip(images.classes, guarantees, strict=False)
        of_labels = {label: guarantee for label, guarantee in named if guarantee}
        answers = replace(verdict.answers, label_guarantees=of_labels, label_thresholds=thresholds)
        return replace(verdict, answers=answers), answers_by_file

    def _choose_for_finished(
        self, scores: LabelScores, images: Images
    ) -> label_thresholds.ChosenThresholds:
        """Return thresholds of the scores that a file gives the validation part."""
        wishes: tuple[Guarantees, ...] = ()
        if self.guarantees.options:
            wishes = label_thresholds.list_wishes(self.guarantees, images.classes)
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
        """Return the average precision of each label, further figures, what the thresholds keep,
        and the images with the most errors.
        """
        classes = images.classes
        least = chosen.label_thresholds
        if least:
            shipped = replace(shipped, least=[least.get(label, LEAST) for label in classes])
        guarantees = {}
        for place, label in enumerate(classes):
            guarantee = shipped.complete(place, chosen.label_guarantees.get(label))
            if guarantee is not None:
                guarantees[label] = guarantee
        chance = label_precision.precision_by_chance(shipped.truth)
        by_chance = Interval(chance, chance, chance).as_percent(
            len(shipped.truth),
            "random scores reach it: the mean over the labels of the share of images with a label",
        )
        figures = {
            self.guess_figure: by_chance,
            **_list_set_figures(shipped),
            **dict(_list_class_figures(shipped, classes)),
            **_list_threshold_figures(least, len(shipped.truth)),
            **_list_guarantee_figures(guarantees, len(shipped.truth)),
        }
        answers = self.compare_answers(shipped, None, images)
        return replace(
            answers,
            figures=figures,
            overlays=_show_errors(shipped, images),
            label_guarantees=guarantees,
            label_thresholds=least,
        )


def _list_set_figures(scores: LabelScores) -> dict[str, Quantity]:
    """Return the figures of all labels together, by their names in reports."""
    count = len(scores.truth)
    macro, micro, exact = scores.f1_scores()
    return {
        "Macro F1": macro.as_percent(
            count, "the mean over the labels, of the scores from the threshold on"
        ),
        "Micro F1": micro.as_percent(count, "of all labels together"),
        "Exact sets": exact.as_percent(count, "the share of images with exactly the right labels"),
    }


def _list_threshold_figures(least: Mapping[str, float], count: int) -> dict[str, Quantity]:
    """Return the thresholds of a file that does not know them, by their names in reports."""
    source = (
        "the score from which on the label counts; validation chose it, and the file does not know"
        " it"
    )
    figures = {}
    for label, score in least.items():
        threshold = Interval(score, score, score)
        figures[f"Threshold of {label}"] = threshold.as_percent(count, source)
    return figures


def _list_guarantee_figures(
    guarantees: Mapping[str, BoxGuarantee], count: int
) -> dict[str, Quantity]:
    """Return what the thresholds keep on the hold-out, by their names in reports."""
    figures = {}
    for label, guarantee in guarantees.items():
        if guarantee.seen:
            verb = "is" if guarantee.kept else "cannot be"
            source = f"at least {100 * guarantee.wanted:g} % {verb} guaranteed"
            name = f"{guarantee.of.capitalize()} of {label}"
            figures[name] = guarantee.seen.as_percent(count, source)
    return figures


def _show_errors(scores: LabelScores, images: Images) -> Overlays:
    """Return the images with the most wrong labels; labels have no pixels to draw."""

    def is_wrong(place: int) -> bool:
        return bool(scores.errors[place])

    def describe(place: int) -> str:
        return describe_errors(scores, place, images.classes)

    def draw_layers(_place: int) -> tuple[bytes, bytes]:
        return b"", b""

    return collect_overlays(images, -scores.errors, is_wrong, describe, draw_layers, {})


def _list_class_figures(
    scores: LabelScores, classes: Sequence[str]
) -> Iterator[tuple[str, Quantity]]:
    """Yield the average precision of each label with its range, in the order of the labels.

    Of many labels, those with the lowest precision are taken.
    """
    by_place = {}
    for place, interval in enumerate(scores.list_ranges()):
        if interval is not None:
            by_place[place] = interval
    lowest = sorted(by_place, key=lambda place: (by_place[place].value, place))
    for place in sorted(lowest[:SHOWN_CLASSES]):
        count = int((scores.truth[:, place] == 1).sum())
        source = f"of images by score, {count} have it"
        yield f"AP of {classes[place]}", by_place[place].as_percent(count, source)


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
