"""Read the labels of a run and of new images from their tables, for models that learn from both.

The growth of taggers and of detectors is a :class:`TableGrowth`. Nobody has looked at the old
images for a label that their table does not name, and nobody at the new ones for a label that only
the old table names: so such labels are unknown, and do not judge. Absent would be wrong wherever
the label was there all the time, as a cell type that was not yet counted.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Generic, Protocol, Self, TypeVar

import numpy as np

from advisor.core import UsageError, listed
from advisor.engine import growth

if TYPE_CHECKING:
    from advisor.datasets import Survey
    from advisor.engine import LoadedRun

NAMED = 5  # Labels that a sentence names


class LabelTable(Protocol):
    """Images of a table, as the survey of a task has them."""

    @property
    def images(self) -> Survey:
        """The images and their measures."""

    @property
    def classes(self) -> tuple[str, ...]:
        """The labels that images have."""

    def keep_images(self, names: Collection[str]) -> Self:
        """Return some images alone, by their paths within the data."""


AnyTable = TypeVar("AnyTable", bound=LabelTable)


class TableGrowth(growth.Growth, Generic[AnyTable]):
    """See :class:`.Growth`: what each table says of its labels counts for its own images."""

    least: ClassVar[int]  # Images with a label from which a search learns it
    unstated: ClassVar[str]  # What a label is where its table does not name it, in words

    @abstractmethod
    def read_table(
        self, path: Path, known: Collection[str] = (), most: int | None = None
    ) -> AnyTable:
        """Return the images of a table; ``known`` are the labels of other images, and ``most`` is
        as of :meth:`.Survey.read`.
        """

    @abstractmethod
    def list_labels(self, table: AnyTable) -> Sequence[growth.LabelSet]:
        """Return what a table says of the labels of each image."""

    def list_named(self, table: AnyTable) -> tuple[str, ...]:
        """Return the labels that a table names, be they in no image."""
        return table.classes

    def fingerprint_of(self, table: AnyTable, path: Path) -> str:
        """Return the fingerprint of what a search learns of a table."""
        return table.images.dataset.fingerprint

    def speaks_of_all(self, old: AnyTable, new: AnyTable) -> bool:
        """Return whether a new image without labels lacks those of the run, too.

        It does not where somebody labelled new labels alone.
        """
        named = self.list_named(new)
        return not named or not set(named).isdisjoint(self.list_named(old))

    def require_counterexamples(
        self, data: Path, label: str, added: Sequence[growth.LabelSet]
    ) -> None:
        """Refuse a new label that cannot be learnt because too few images lack it."""

    def read(self, earlier: LoadedRun, data: Path) -> growth.GrowingSet:
        """Return the images of a run and the new ones, with what each table says of their
        labels.
        """
        run = growth.RunImages.of_run(earlier)
        path = earlier.question.require_data()
        if not path.exists():
            raise UsageError(
                f"'{earlier.name}' learnt the {self.words.labels} of '{path}', which is gone",
                "restore it, or search again",
            )
        old = self.read_table(path, most=earlier.question.most_images)
        run.require_all(_hash_images(old))
        # A table that has grown is read once.
        new = old
        if data.resolve() != path.resolve():
            new = self.read_table(data, known=old.classes)
        self._require_one_spelling(data, old.classes, new.classes)
        notes = self._compare_labels(earlier, run, path, old)
        return self._join_tables(run, old, new, data, notes)

    def _require_one_spelling(self, data: Path, old: Sequence[str], new: Sequence[str]) -> None:
        """Refuse labels of new images that differ from those of the run by the case of letters
        alone.
        """
        names = {label.casefold(): label for label in old}
        for label in new:
            known = names.get(label.casefold(), label)
            # The run itself may have both, and then tells them apart.
            if label not in old and known != label:
                raise UsageError(
                    f"'{data}': the {self.words.label} '{label}' is '{known}' of the run in other"
                    " letters",
                    "give it the name of the run",
                )

    def _compare_labels(
        self, earlier: LoadedRun, run: growth.RunImages, path: Path, old: AnyTable
    ) -> tuple[str, ...]:
        """Return a sentence if the table of the run has other labels than the run learnt.

        UsageError: it no longer has a label that the file of the run knows.
        """
        # The table may have more images than the run, and the run more than it divided.
        for table in (old, old.keep_images(run.rows)):
            if self.fingerprint_of(table, path) == run.fingerprint:
                return ()
        # Which labels were changed is kept nowhere, but their names are: with a renamed label the
        # earlier file would be wrong everywhere.
        pick = earlier.decision.pick
        known = pick.answers.per_class_recall if pick else {}
        gone = [label for label in known if label not in old.classes]
        if gone:
            raise UsageError(
                f"'{path}' no longer has the {self.words.label} '{gone[0]}', which"
                f" '{earlier.name}' learnt",
                "give it the name of the run, or search again",
            )
        return (f"labels in '{path.name}' were changed since the run; they count as they are now",)

    def _join_tables(
        self,
        run: growth.RunImages,
        old: AnyTable,
        new: AnyTable,
        data: Path,
        notes: Sequence[str],
    ) -> growth.GrowingSet:
        """Return the images of the run, and behind them those of the new table that are not the
        same file with the same labels.
        """
        old_labels = self._state_labels(old, new)
        new_labels = self._state_labels(new, old, self.speaks_of_all(old, new))
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
        added = labels[len(rows[True]) :]
        thumbnails = (old.images.thumbnails[rows[True]], new.images.thumbnails[rows[False]])
        return growth.GrowingSet(
            images=tuple(images),
            labels=tuple(labels),
            thumbnails=np.concatenate(thumbnails),
            named=frozenset(self.list_named(new)),
            notes=(*notes, *self._describe_unknown(data, old, new, added)),
        )

    def _state_labels(
        self, table: AnyTable, other: AnyTable, is_complete: bool = False
    ) -> list[growth.LabelSet]:
        """Return what a table says of the labels of its images; it says nothing of those that the
        ``other`` one alone names.

        If it ``is_complete``, an image without labels lacks those, too.
        """
        unnamed = frozenset(self.list_named(other)) - frozenset(self.list_named(table))
        stated = []
        for labels in self.list_labels(table):
            # Whoever looked for labels of the run, and wrote none, has seen that none is there.
            is_empty = not labels.there and not labels.unknown
            if not (is_empty and is_complete):
                labels = labels.without_knowledge_of(unnamed)
            stated.append(labels)
        return stated

    def _describe_unknown(
        self, data: Path, old: AnyTable, new: AnyTable, added: Sequence[growth.LabelSet]
    ) -> list[str]:
        """Return sentences about labels that one of the two tables does not name."""
        notes = []
        old_named = self.list_named(old)
        new_named = self.list_named(new)
        # A table may name more labels than its images have, such as all of its labelling tool.
        only_new = [label for label in new.classes if label not in old_named]
        rare = []
        for label in only_new:
            if sum(label in labels.there for labels in added) < self.least:
                rare.append(label)
            else:
                self.require_counterexamples(data, label, added)
        if rare:
            notes.append(
                f"not learnt, as fewer than {self.least} images have it: {listed(rare, NAMED)}"
            )
        learnt = [label for label in only_new if label not in rare]
        if learnt:
            names = listed(learnt, NAMED)
            notes.append(f"not stated for the images of the run, so {self.unstated}: {names}")
        silent = [label for label in old.classes if label not in new_named]
        if silent and added:
            names = listed(silent, NAMED)
            notes.append(
                f"not stated for the new images, so {self.unstated}: {names} (give a renamed"
                f" {self.words.label} its name in the run)"
            )
        return notes


def _hash_images(table: LabelTable) -> dict[str, str]:
    """Return the hashes of images by their paths, as a run has them."""
    dataset = table.images.dataset
    return {dataset.show_path(image.path): image.sha256 for image in dataset.images}


def number_groups(images: Sequence[growth.GrownImage]) -> list[int]:
    """Return the number of the group of each image that the user named; an image without one is a
    group.
    """
    numbers: dict[str, int] = {}
    groups = []
    for place, image in enumerate(images):
        groups.append(numbers.setdefault(image.group or f"\0{place}", len(numbers)))
    return groups
