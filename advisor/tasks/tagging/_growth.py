"""Let taggers learn from more images, and compare two of them by mean average precision.

``advisor update`` asks :class:`TaggerGrowth`. A label that is unknown in an image neither teaches
nor judges there.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from advisor.core import UsageError, plural
from advisor.datasets import LabelSetSurvey
from advisor.engine import growth
from advisor.measurement import label_precision
from advisor.tasks._table_growth import TableGrowth, number_groups

LEAST = 3  # Images with a label, and without it, from which a search learns it


class TaggerGrowth(TableGrowth[LabelSetSurvey]):
    """See :class:`.Growth`."""

    words = growth.Words("label", "labels", "mAP", "right", "set of labels", "sets of labels")

    least = LEAST
    unstated = "unknown there"

    def read_table(
        self, path: Path, known: Collection[str] = (), most: int | None = None
    ) -> LabelSetSurvey:
        """Return the images of a table with all its labels."""
        return LabelSetSurvey.read_all(path, most=most, known=known)

    def list_labels(self, table: LabelSetSurvey) -> list[growth.LabelSet]:
        """Return what a table says of the labels of each image."""
        sets = []
        for row in table.truth.tolist():
            stated = list(zip(table.classes, row, strict=True))
            there = frozenset(label for label, value in stated if value == 1)
            unknown = frozenset(label for label, value in stated if value < 0)
            sets.append(growth.LabelSet(there, unknown))
        return sets

    def fingerprint_of(self, table: LabelSetSurvey, path: Path) -> str:
        """Return the fingerprint of the labels that a search learns."""
        return table.without_useless(path).images.dataset.fingerprint

    def speaks_of_all(self, old: LabelSetSurvey, new: LabelSetSurvey) -> bool:
        """Return whether a new image without labels lacks those of the run, too.

        It does not in a table with a column for each label, either.
        """
        return not new.by_columns and super().speaks_of_all(old, new)

    def require_counterexamples(
        self, data: Path, label: str, added: Sequence[growth.LabelSet]
    ) -> None:
        """Refuse a new label that too few images are known to lack: unknown in all old images, it
        needs counterexamples among the new ones.
        """
        lacking = sum(label not in labels.there | labels.unknown for labels in added)
        if lacking < LEAST:
            raise UsageError(
                f"'{data}': {plural(lacking, 'image is', 'images are')} known to lack the new"
                f" label '{label}', and the images of the run do not state it",
                f"add {LEAST} images without it, or images of the run with their labels, which"
                " then lack it",
            )

    def list_learnable(self, labels: Sequence[growth.LabelSet]) -> frozenset[str]:
        """Return the labels that enough images have, and enough lack."""
        learnable = set()
        # A label that all images have teaches nothing, as one that none has.
        for label in super().list_learnable(labels):
            there = sum(label in image.there for image in labels)
            unknown = sum(label in image.unknown for image in labels)
            if min(there, len(labels) - there - unknown) >= LEAST:
                learnable.add(label)
        return frozenset(learnable)

    def list_rows(self, labels: growth.LabelSet) -> list[dict[str, str]]:
        """Return a row for each label, because a cell with many of them would be too long."""
        unknown = json.dumps(sorted(labels.unknown), ensure_ascii=False)
        cells = ["[]"]
        if labels.there:
            # In a list, a name may contain what separates labels.
            cells = [json.dumps([label], ensure_ascii=False) for label in sorted(labels.there)]
        return [{"labels": cell, "unknown_labels": unknown} for cell in cells]

    def judge(
        self,
        images: Sequence[growth.GrownImage],
        before: growth.Answers,
        after: growth.Answers,
    ) -> growth.JudgedPart:
        """Return the mean average precision of two files, over the labels that either knows."""
        labels = _list_labels((*before, *after))
        earlier = _score_images(images, before, labels)
        later = _score_images(images, after, labels)
        gain = label_precision.measure_gain(earlier, later)
        of_earlier = earlier.figure.value
        of_later = later.figure.value
        return growth.JudgedPart.of_shares(len(images), of_earlier, of_later, gain)

    def has_learnt(
        self,
        labels: Collection[str],
        images: Sequence[growth.GrownImage],
        after: growth.Answers,
    ) -> bool:
        """Return whether their precision on other images would be above that of random scores."""
        if not labels:
            return False
        scores = _score_images(images, after, sorted(labels))
        return scores.figure.low > label_precision.precision_by_chance(scores.truth)

    def list_rights(
        self,
        images: Sequence[growth.GrownImage],
        before: growth.Answers,
        after: growth.Answers,
    ) -> Iterator[tuple[str, list[growth.Rights]]]:
        """Yield each label of the earlier file with the images that are known to have or lack it.

        A file is right if it says rightly whether the label is there.
        """
        answers = list(zip(images, before, after, strict=True))
        for label in _list_labels(before):
            rights = []
            for image, earlier, later in answers:
                if label not in image.labels.unknown:
                    is_there = label in image.labels.there
                    was_right = _shows(earlier, label) == is_there
                    is_right = _shows(later, label) == is_there
                    rights.append((image.path, was_right, is_right))
            yield label, rights


def _list_labels(answers: Iterable[growth.FileAnswer]) -> list[str]:
    """Return the labels that files know."""
    return sorted(set().union(*(answer.scores for answer in answers)))


def _shows(answer: growth.FileAnswer, label: str) -> bool:
    """Return whether the score of a label reaches its threshold."""
    least = answer.thresholds.get(label, label_precision.LEAST)
    return answer.scores.get(label, 0.0) >= least


def _score_images(
    images: Sequence[growth.GrownImage], answers: growth.Answers, labels: Sequence[str]
) -> label_precision.LabelScores:
    """Return the scores of labels beside what is known of them.

    A label that a file does not know, or an image that it cannot answer, has the lowest score.
    """
    truth = np.zeros((len(images), len(labels)), np.int8)
    scores = np.zeros(truth.shape, np.float32)
    for row, (image, answer) in enumerate(zip(images, answers, strict=True)):
        for column, label in enumerate(labels):
            truth[row, column] = label in image.labels.there
            # What nobody looked at judges neither file.
            if label in image.labels.unknown:
                truth[row, column] = -1
            scores[row, column] = answer.scores.get(label, 0.0)
    return label_precision.LabelScores(scores, truth, number_groups(images))
