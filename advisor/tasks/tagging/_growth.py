"""Let taggers learn from more images, and compare two of them by mean average precision.

``advisor update`` asks :class:`TaggerGrowth`. Nobody has looked at the old images for a label that
their table does not name, and nobody at the new ones for a label that only the old table names: so
such labels are unknown, and neither teach nor judge. Absent would be wrong wherever the label was
there all the time, as a cell type that was not yet counted.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from advisor.core import UsageError, listed, plural
from advisor.datasets import LabelSetSurvey
from advisor.engine import growth
from advisor.measurement import label_precision

if TYPE_CHECKING:
    from advisor.engine import LoadedRun

LEAST = 3  # Images with a label, and without it, from which a search learns it
NAMED = 5  # Labels that a sentence names


class TaggerGrowth(growth.Growth):
    """See :class:`.Growth`."""

    words = growth.Words("label", "labels", "mAP", "set of labels", "sets of labels")

    def read(self, earlier: LoadedRun, data: Path) -> growth.GrowingSet:
        """Return the images of a run and the new ones, with what each table says of their
        labels.
        """
        run = growth.RunImages.of_run(earlier)
        table = earlier.question.require_data()
        if not table.exists():
            raise UsageError(
                f"'{earlier.name}' learnt the labels of '{table}', which is gone",
                "restore it, or search again",
            )
        old = LabelSetSurvey.read_all(table, most=earlier.question.most_images)
        run.require_all(_hash_images(old))
        # A table that has grown is read once.
        new = old
        if data.resolve() != table.resolve():
            new = LabelSetSurvey.read_all(data, known=old.classes)
        _require_one_spelling(data, old.classes, new.classes)
        notes = _compare_labels(earlier, run, table, old)
        return _join_surveys(run, old, new, data, notes)

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
        return growth.JudgedPart(
            images=len(images),
            before=100 * earlier.figure.value,
            after=100 * later.figure.value,
            gain=100 * gain.value,
            low=100 * gain.low,
            high=100 * gain.high,
        )

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
    # The number of each group that the user named; an image without one is a group.
    numbers: dict[str, int] = {}
    groups = []
    for row, image in enumerate(images):
        groups.append(numbers.setdefault(image.group or f"\0{row}", len(numbers)))
    return label_precision.LabelScores(scores, truth, groups)


def _hash_images(survey: LabelSetSurvey) -> dict[str, str]:
    """Return the hashes of images by their paths, as a run has them."""
    dataset = survey.images.dataset
    return {dataset.show_path(image.path): image.sha256 for image in dataset.images}


def _require_one_spelling(data: Path, old: Sequence[str], new: Sequence[str]) -> None:
    """Refuse labels of new images that differ from those of the run by the case of letters
    alone.
    """
    names = {label.casefold(): label for label in old}
    for label in new:
        known = names.get(label.casefold(), label)
        # The run itself may have both, and then tells them apart.
        if label not in old and known != label:
            raise UsageError(
                f"'{data}': the label '{label}' is '{known}' of the run in other letters",
                "give it the name of the run",
            )


def _compare_labels(
    earlier: LoadedRun, run: growth.RunImages, table: Path, old: LabelSetSurvey
) -> tuple[str, ...]:
    """Return a sentence if the table of the run has other labels than the run learnt.

    UsageError: it no longer has a label that the file of the run knows.
    """
    # The table may have more images than the run, and the run more than it divided.
    for images in (old, old.keep_images(run.rows)):
        if images.without_useless(table).images.dataset.fingerprint == run.fingerprint:
            return ()
    # Which labels were changed is kept nowhere, but their names are: with a renamed label the
    # earlier file would be wrong everywhere.
    pick = earlier.decision.pick
    known = pick.answers.per_class_recall if pick else {}
    gone = [label for label in known if label not in old.classes]
    if gone:
        raise UsageError(
            f"'{table}' no longer has the label '{gone[0]}', which '{earlier.name}' learnt",
            "give it the name of the run, or search again",
        )
    return (f"labels in '{table.name}' were changed since the run; they count as they are now",)


def _join_surveys(
    run: growth.RunImages,
    old: LabelSetSurvey,
    new: LabelSetSurvey,
    data: Path,
    notes: Sequence[str],
) -> growth.GrowingSet:
    """Return the images of the run, and behind them those of the new table that are not the same
    file with the same labels.
    """
    old_labels = _list_label_sets(old, frozenset(new.classes) - frozenset(old.classes))
    unnamed = frozenset(old.classes) - frozenset(new.classes)
    new_labels = _list_label_sets(new, unnamed, is_complete=_speaks_of_all(old, new))
    images = []
    labels = []
    rows: dict[bool, list[int]] = {True: [], False: []}
    # By path, because a table that has grown names files of the run again.
    of_run = {}
    for place, image in enumerate(old.images.dataset.images):
        name = old.images.dataset.show_path(image.path)
        if name in run.parts:
            images.append(replace(image, part=run.parts[name]))
            labels.append(old_labels[place])
            rows[True].append(place)
            of_run[image.path.resolve()] = old_labels[place]
    for place, image in enumerate(new.images.dataset.images):
        known = of_run.get(image.path.resolve())
        # A file of the run comes again only with labels that correct it.
        if known is None or new_labels[place].correct(known) != known:
            images.append(replace(image, part=""))
            labels.append(new_labels[place])
            rows[False].append(place)
    added = [labels_of for image, labels_of in zip(images, labels, strict=True) if not image.part]
    thumbnails = (old.images.thumbnails[rows[True]], new.images.thumbnails[rows[False]])
    return growth.GrowingSet(
        images=tuple(images),
        labels=tuple(labels),
        thumbnails=np.concatenate(thumbnails),
        named=frozenset(new.classes),
        notes=(*notes, *_describe_unknown(data, old, new, added)),
    )


def _speaks_of_all(old: LabelSetSurvey, new: LabelSetSurvey) -> bool:
    """Return whether a new image without labels lacks those of the run, too.

    It does not in a table with a column for each label, nor where somebody labelled new labels
    alone.
    """
    return not new.by_columns and (not new.classes or not set(new.classes).isdisjoint(old.classes))


def _list_label_sets(
    survey: LabelSetSurvey, unnamed: frozenset[str], is_complete: bool = False
) -> list[growth.LabelSet]:
    """Return what a table says of the labels of its images; it says nothing of ``unnamed`` ones.

    If it ``is_complete``, an image without labels lacks those, too.
    """
    sets = []
    for row in survey.truth.tolist():
        stated = list(zip(survey.classes, row, strict=True))
        there = frozenset(label for label, value in stated if value == 1)
        unknown = frozenset(label for label, value in stated if value < 0)
        if there or unknown or not is_complete:
            unknown |= unnamed
        sets.append(growth.LabelSet(there, unknown))
    return sets


def _describe_unknown(
    data: Path, old: LabelSetSurvey, new: LabelSetSurvey, added: Sequence[growth.LabelSet]
) -> list[str]:
    """Return sentences about labels that one of the two tables does not name.

    UsageError: enough images have a new label, and too few are known to lack it.
    """
    notes = []
    only_new = [label for label in new.classes if label not in old.classes]
    rare = []
    for label in only_new:
        there = sum(label in labels.there for labels in added)
        lacking = sum(label not in labels.there | labels.unknown for labels in added)
        # Unknown in all old images, it needs counterexamples among the new ones.
        if there >= LEAST > lacking:
            raise UsageError(
                f"'{data}': {plural(lacking, 'image is', 'images are')} known to lack the new"
                f" label '{label}', and the images of the run do not state it",
                f"add {LEAST} images without it, or images of the run with their labels, which"
                " then lack it",
            )
        if there < LEAST:
            rare.append(label)
    if rare:
        notes.append(f"not learnt, as fewer than {LEAST} images have it: {listed(rare, NAMED)}")
    learnt = [label for label in only_new if label not in rare]
    if learnt:
        names = listed(learnt, NAMED)
        notes.append(f"not stated for the images of the run, so unknown there: {names}")
    silent = [label for label in old.classes if label not in new.classes]
    if silent and added:
        names = listed(silent, NAMED)
        notes.append(
            f"not stated for the new images, so unknown there: {names} (give a renamed label its"
            " name in the run)"
        )
    return notes
