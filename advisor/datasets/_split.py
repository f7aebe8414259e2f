"""Split a data set into training part, validation and hold-out, with each class in each part.

``_division.py`` calls :func:`draw_split` at the start of a search. What must stay on one side is
decided in ``_units.py``, and which images a part gets in ``_part_draw.py``. The split depends on
the images' bytes and the seed alone: a resumed run draws it again and must get the same parts.
``Split.to_json`` is the content of ``split.json``; the names of the parts are its keys.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from advisor.core import UsageError
from advisor.datasets._dataset import Dataset
from advisor.datasets._image_groups import Grouping, Source
from advisor.datasets._part_draw import draw_groups, draw_units
from advisor.datasets._parts import PARTS
from advisor.datasets._split_part import SplitPart
from advisor.datasets._units import Group, Unit, order_groups, order_units

HOLDOUT_SHARE = 0.2
VALIDATION_SHARE = 0.2  # Share of what is not in the hold-out

UNGROUPED: Grouping = Grouping()


def expect_parts(images: int) -> tuple[int, int]:
    """Return roughly how many of ``images`` images validation and hold-out will have."""
    held_out = round(HOLDOUT_SHARE * images)
    return round(VALIDATION_SHARE * (images - held_out)), held_out


@dataclass(frozen=True)
class Split:
    """The three parts of a data set, as indices into ``Dataset.images``, each sorted."""

    train: tuple[int, ...]  # for training while candidates are compared
    # For comparing candidates; the model that ships is trained on these too.
    validation: tuple[int, ...]
    holdout: tuple[int, ...]  # for the final accuracy of the finalists; never trained on
    seed: int  # the seed of the split
    given: tuple[str, ...] = ()  # names of the parts in the user's own split

    @property
    def learnt(self) -> tuple[int, ...]:
        """Everything but the hold-out: the training images of the model that ships."""
        return tuple(sorted((*self.train, *self.validation)))

    def to_json(self, dataset: Dataset, grouping: Grouping = UNGROUPED) -> dict[str, object]:
        """Return the content of ``split.json``: hash, class, path and group of every image."""
        rows_by_part = {}
        for name in PARTS:
            indices: tuple[int, ...] = getattr(self, name)
            rows_by_part[name] = [_make_row(dataset, index, grouping) for index in indices]
        return {
            "seed": self.seed,
            "fingerprint": dataset.fingerprint,
            "classes": list(dataset.classes),
            "given": list(self.given),
            "grouping": grouping.to_json(),
            **rows_by_part,
        }


def draw_split(
    dataset: Dataset,
    seed: int,
    holdout: float = HOLDOUT_SHARE,
    together: Sequence[Sequence[int]] = (),
    given: Sequence[str | None] = (),
    validation: float = VALIDATION_SHARE,
    grouping: Grouping = UNGROUPED,
) -> Split:
    """Return a split: ``holdout`` of each class, ``validation`` of the rest, else training.

    Equal seeds and equal bytes give equal splits. Byte-identical images and the sets of indices in
    ``together`` stay on one side, even across classes. A class of two different images has none in
    the validation part. Where the images come in groups (``grouping``), whole groups are drawn,
    see :func:`._part_draw.draw_groups`. Inferred groups are divided if a class has no other.

    ``given`` is the part of each image in the user's own split, None for none; empty without such
    a split. It is used unchanged, including leaks. A part that it does not name is drawn from its
    training part. If it names only two parts, the second is the hold-out.

    Raises UsageError if a class has no image in the training part or the hold-out,
    or nothing is left for validation.
    """
    for name, share in ((SplitPart.HOLDOUT, holdout), (SplitPart.VALIDATION, validation)):
        if not 0 < share < 1:
            raise UsageError(f"{name}: {share} is not between 0 and 1", "write for example 0.2")
    units_by_class = order_units(dataset, seed, together)
    given_parts = _complete_given_parts(dataset, given, units_by_class)
    pool = _Pool(
        dataset,
        units_by_class,
        order_groups(dataset, seed, together, grouping),
        divide=grouping.source is not Source.MANIFEST,
    )
    # The hold-out first: its figure is the one that users rely on,
    # so it gets the groups that fit its share best.
    held_out = pool.draw_part(SplitPart.HOLDOUT, given_parts, holdout, {})
    part_of_held_out = dict.fromkeys(held_out, SplitPart.HOLDOUT)
    compared = pool.draw_part(SplitPart.VALIDATION, given_parts, validation, part_of_held_out)
    part_of = {**given_parts, **part_of_held_out, **dict.fromkeys(compared, SplitPart.VALIDATION)}
    indices: dict[str, list[int]] = {part: [] for part in PARTS}
    for index in range(len(dataset.images)):
        indices[part_of.get(index, SplitPart.TRAIN)].append(index)
    named = tuple(part for part in PARTS if part in given_parts.values())
    split = Split(
        train=tuple(indices[SplitPart.TRAIN]),
        validation=tuple(indices[SplitPart.VALIDATION]),
        holdout=tuple(indices[SplitPart.HOLDOUT]),
        seed=seed,
        given=named,
    )
    _require_classes(dataset, split, grouping)
    return split


def copies_sentence(copied: Mapping[str, int], left: Mapping[str, int]) -> str:
    """Return a sentence on the images that judge nothing, as copies of them are learnt from.

    ``copied`` has their number in each part, and ``left`` that of the others. Empty if there are
    no such images.
    """
    names = {SplitPart.VALIDATION: "of validation", SplitPart.HOLDOUT: "of the hold-out"}
    shares = []
    for part, name in names.items():
        count = copied.get(part, 0)
        if count:
            shares.append(f"{count:,} of {count + left[part]:,} images {name}")
    if not shares:
        return ""
    if sum(copied.get(part, 0) for part in names) == 1:
        return (
            f"{shares[0]} copies one that is learnt from. It judges nothing: the figures are"
            " without it."
        )
    return (
        f"{' and '.join(shares)} copy images that are learnt from. They judge nothing: the figures"
        " are without them."
    )


def split_halves(
    dataset: Dataset, indices: Sequence[int], seed: int, together: Sequence[Sequence[int]] = ()
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return two halves of some of the images, class by class, in whole units.

    A class with one unit has it in the second half; so the first may be empty.
    """
    chosen = set(indices)
    first = draw_units(order_units(dataset, seed, together), 0.5, chosen.issuperset)
    return tuple(sorted(first)), tuple(sorted(chosen - first))


def _complete_given_parts(
    dataset: Dataset, given: Sequence[str | None], units_by_class: Sequence[Sequence[Unit]]
) -> dict[int, str]:
    """Return the part of each image that has one in the user's own split, or whose unit has one.

    An image without a part gets the last of the parts that its unit has.
    """
    part_of = {index: part for index, part in enumerate(given) if part is not None}
    for index, part in part_of.items():
        if part not in PARTS:
            path = dataset.images[index].path
            raise UsageError(
                f"'{path}': '{part}' is not a part of a split", f"one of: {', '.join(PARTS)}"
            )
    # The one part beside training was not learnt from, so it judges the model that ships.
    if SplitPart.HOLDOUT not in part_of.values():
        for index, part in part_of.items():
            part_of[index] = SplitPart.HOLDOUT if part == SplitPart.VALIDATION else part
    for units in units_by_class:
        for unit in units:
            # A copy follows the copy that has a part:
            # drawn apart, it would be learnt from and judge.
            unit_parts = [part_of[index] for index in unit if index in part_of]
            if unit_parts:
                last_part = max(unit_parts, key=PARTS.index)
                for index in unit:
                    part_of.setdefault(index, last_part)
    return part_of


@dataclass(frozen=True)
class _Pool:
    """The units and groups that parts are drawn from, one part after the other."""

    dataset: Dataset
    units_by_class: Sequence[Sequence[Unit]]
    groups: Sequence[Group]  # empty if the images do not come in groups
    divide: bool  # a group is divided if its class has no other

    def draw_part(
        self,
        name: str,
        given_parts: Mapping[int, str],
        share: float,
        drawn: Mapping[int, str],
    ) -> set[int]:
        """Return the images of a part: about ``share`` of each class of the images that are free.

        Free are images without a part in the user's own split, ``given_parts``, and if it does not
        name this part, those of its training part; but none of ``drawn``, the parts drawn before.
        """
        free = {None} if name in given_parts.values() else {None, SplitPart.TRAIN}

        def is_free(unit: Unit) -> bool:
            # One image with another part is enough: the images of a unit are never separated.
            return all((drawn.get(index) or given_parts.get(index)) in free for index in unit)

        if not self.groups:
            return draw_units(self.units_by_class, share, is_free)
        free_groups = []
        for group in self.groups:
            units = list(filter(is_free, group))
            if units:
                free_groups.append(units)
        # The first draw leaves two groups of each class:
        # one for the second draw, and one to learn from.
        keep = 1 if drawn else 2
        return draw_groups(self.dataset, free_groups, share, divide=self.divide, keep=keep)


def _require_classes(dataset: Dataset, split: Split, grouping: Grouping) -> None:
    """Refuse a split whose training part or hold-out lacks a class, or without validation."""
    for name, indices in (("training part", split.train), ("hold-out", split.holdout)):
        present = {dataset.images[index].label for index in indices}
        missing = []
        for label, class_name in enumerate(dataset.classes):
            if label not in present:
                missing.append(repr(class_name))
        if missing:
            raise _lacking_classes_error(
                ", ".join(missing), name, bool(split.given), grouping.source
            )
    if not split.validation:
        raise UsageError(
            "--data: no image is left for validation: no class has three different images",
            "add different images",
        )


def _lacking_classes_error(classes: str, part: str, given: bool, source: Source) -> UsageError:
    if given:
        return UsageError(
            f"--data: the split has no image of {classes} in the {part}",
            "put some of them there, or remove the split: one is drawn then",
        )
    if source is Source.MANIFEST:
        return UsageError(
            f"--data: no image of {classes} is left for the {part}: all of the class are in one"
            " group",
            "name more groups, or leave the column group empty for this class: its images are then"
            " drawn one by one",
        )
    return UsageError(
        f"--data: no image of {classes} is left for the {part}, as its images are copies of one"
        " another or of another class's",
        "remove the copies and add different images of the class",
    )


def _make_row(dataset: Dataset, index: int, grouping: Grouping) -> dict[str, object]:
    image = dataset.images[index]
    row: dict[str, object] = {
        "sha256": image.sha256,
        "class": dataset.classes[image.label],
        "path": dataset.show_path(image.path),
    }
    if grouping.of:
        row["group"] = grouping.of[index]
    return row
