"""Let classifiers learn from more images, and compare two of them by the share of right answers.

``advisor update`` asks :class:`ClassifierGrowth`. The intervals are exact, because few images
differ between two files.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from advisor.engine import growth

if TYPE_CHECKING:
    from advisor.engine import LoadedRun

TAIL = 0.025  # Probability outside each end of a 95 % interval


class ClassifierGrowth(growth.Growth):
    """See :class:`.Growth`."""

    def read(self, earlier: LoadedRun, data: Path) -> growth.GrowingSet:
        """Return the images of a run and the new ones, each with its one class."""
        from advisor.datasets import Entry, Listing, Survey, list_files

        run = growth.RunImages.of_run(earlier)
        old = []
        for name, row in run.rows.items():
            old.append(Entry(run.root / name, row["class"], run.parts[name]))
        labels = {entry.path.resolve(): entry.label for entry in old}
        listing = list_files(data, known=sorted(set(labels.values())))
        # A list may name files of the run:
        # with another label they are corrections, with the same one nothing is new.
        new = []
        for entry in listing.entries:
            if labels.get(entry.path.resolve()) != entry.label:
                new.append(replace(entry, part=""))
        survey = Survey.read(Listing(run.root, [*old, *new], rejected=listing.rejected))
        images = survey.dataset.images
        present = {image.path: image.sha256 for image in images if image.part}
        run.require_all({name: present.get(run.root / name, "") for name in run.rows})
        sets = []
        for image in images:
            sets.append(growth.LabelSet(frozenset((survey.dataset.classes[image.label],))))
        named = frozenset[str]().union(*(labels.there for labels in sets[len(old) :]))
        return growth.GrowingSet(images, tuple(sets), survey.thumbnails, named)

    def list_rows(self, labels: growth.LabelSet) -> list[dict[str, str]]:
        """Return one row with the class."""
        return [{"label": label} for label in labels.there]

    def judge(
        self,
        images: Sequence[growth.GrownImage],
        before: growth.Answers,
        after: growth.Answers,
    ) -> growth.JudgedPart:
        """Return the shares of right answers, with the exact interval of their difference."""
        return _judge_answers(_list_right(images, before), _list_right(images, after))

    def has_learnt(
        self,
        labels: Collection[str],
        images: Sequence[growth.GrownImage],
        after: growth.Answers,
    ) -> bool:
        """Return whether so many of their images are right that a guess among all classes
        would not reach it.
        """
        classes = self.list_learnable([image.labels for image in images])
        right = []
        for image, is_right in zip(images, _list_right(images, after), strict=True):
            if not image.labels.there.isdisjoint(labels):
                right.append(is_right)
        return _beats_guess(right, len(classes))

    def list_rights(
        self,
        images: Sequence[growth.GrownImage],
        before: growth.Answers,
        after: growth.Answers,
    ) -> Iterator[tuple[str, list[growth.Rights]]]:
        """Yield each class with its images."""
        earlier = _list_right(images, before)
        later = _list_right(images, after)
        for label in sorted(self.list_learnable([image.labels for image in images])):
            rights = []
            for image, was_right, is_right in zip(images, earlier, later, strict=True):
                if label in image.labels.there:
                    rights.append((image.path, was_right, is_right))
            yield label, rights


def _list_right(images: Sequence[growth.GrownImage], answers: growth.Answers) -> list[bool]:
    """Return whether the most probable class of each image is its own.

    An image without an answer counts as wrong.
    """
    right = []
    for image, answer in zip(images, answers, strict=True):
        right.append(next(iter(answer.scores), "") in image.labels.there)
    return right


def _judge_answers(before: Sequence[bool], after: Sequence[bool]) -> growth.JudgedPart:
    """Return what two files reach on the same images,
    with the exact 95 % interval of their difference.

    Images on which both are right or both are wrong say nothing. Of the others, the share that the
    new file has right is compared with one half by the exact interval of a binomial share (C.
    Clopper and E. Pearson, Biometrika 26, 1934; the test is McNemar's, Psychometrika 12, 1947). A
    bootstrap is too sure where few images differ.
    """
    from scipy.special import betaincinv

    count = len(before)
    wins = sum(now and not then for then, now in zip(before, after, strict=True))
    losses = sum(then and not now for then, now in zip(before, after, strict=True))
    differ = wins + losses
    # The function is not defined at its ends.
    low = 0.0
    if wins:
        low = float(betaincinv(wins, losses + 1, TAIL))
    high = 1.0
    if losses:
        high = float(betaincinv(wins + 1, losses, 1 - TAIL))
    points = 100 * differ / count
    return growth.JudgedPart(
        images=count,
        before=100 * sum(before) / count,
        after=100 * sum(after) / count,
        gain=100 * (wins - losses) / count,
        low=points * (2 * low - 1),
        high=points * (2 * high - 1),
    )


def _beats_guess(right: Sequence[bool], classes: int) -> bool:
    """Return whether so many right answers are more than a guess among the classes gives,
    with 97.5 % certainty.
    """
    from scipy.special import betaincinv

    if not any(right):
        return False
    least = float(betaincinv(sum(right), len(right) - sum(right) + 1, TAIL))
    return least > 1 / classes
