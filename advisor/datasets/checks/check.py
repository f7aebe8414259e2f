"""Check a set of images before training: findings, and the minimum for a search."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from advisor.core.errors import UsageError
from advisor.core.units import listed
from advisor.datasets.boxes.reading import BoxSurvey
from advisor.datasets.checks.findings import Finding, Kind, counted
from advisor.datasets.checks.image_quality import captured, sizes
from advisor.datasets.checks.repeated import repeated
from advisor.datasets.dataset import PARTS, Dataset
from advisor.datasets.look_alikes import Pair, near_duplicates
from advisor.datasets.split import HOLDOUT, TRAIN, VALIDATION, Split
from advisor.datasets.survey import Survey

GOOD_CLASS = 50
"""With fewer images, a class has fewer than ten in the hold-out."""

MAX_IMBALANCE = 5.0
MIN_IMAGES_PER_CLASS = 8
MAX_UNREADABLE_SHARE = 0.2


def check(survey: Survey, alike: Sequence[Pair] | None = None) -> tuple[Finding, ...]:
    """Return the findings about a set, the most serious first; ``alike`` is None to find similar images by their
    hashes.
    """
    pairs = near_duplicates(survey.thumbnails) if alike is None else alike
    dataset = survey.dataset
    return (
        *unreadable(dataset),
        *spellings(dataset.spellings),
        *_parts(dataset),
        *repeated(dataset, pairs),
        *_classes(dataset),
        *sizes(survey),
        *captured(survey),
    )


def unreadable(dataset: Dataset) -> Iterator[Finding]:
    """Yield a finding on the files that were left out."""
    if dataset.rejected:
        reasons = Counter(row.reason for row in dataset.rejected).most_common(3)
        listed = "; ".join(f"{reason} ({count})" for reason, count in reasons)
        yield Finding(
            Kind.UNREADABLE,
            f"{counted(len(dataset.rejected), 'file')} cannot be used: {listed}",
            "replace or remove them",
            tuple((row.path,) for row in dataset.rejected),
            tuple(row.reason for row in dataset.rejected),
            tuple(row.path for row in dataset.rejected),
        )


def spellings(written: Sequence[Sequence[str]]) -> Iterator[Finding]:
    """Yield a finding on each class that is written in several ways; ``written`` has its spellings."""
    for group in written:
        names = " and ".join(f"'{name}'" for name in group)
        yield Finding(
            Kind.SPELLING,
            f"the labels {names} differ only by case or blanks",
            "a search refuses them; --fix writes one name for all",
        )


def _parts(dataset: Dataset) -> Iterator[Finding]:
    """Yield classes without an image in a part of the user's split."""
    present = Counter((image.part, image.label) for image in dataset.images)
    for part in dict.fromkeys(PARTS.values()):
        missing = [f"'{name}'" for label, name in enumerate(dataset.classes) if not present[part, label]]
        if missing and any(found == part for found, _ in present):
            yield Finding(
                Kind.SPLIT,
                f"the {part} part has no image of {listed(missing)}",
                "put images of these classes into the part, or remove the split: one is drawn then",
            )


def _classes(dataset: Dataset) -> Iterator[Finding]:
    rows = sorted(zip(dataset.counts, dataset.classes, strict=True))
    small = [f"'{name}' ({count})" for count, name in rows if count < GOOD_CLASS]
    if small:
        yield Finding(
            Kind.SMALL_CLASS,
            f"fewer than {GOOD_CLASS} images in {listed(small)}",
            f"take more images of these classes; a search refuses classes with fewer than {MIN_IMAGES_PER_CLASS}",
        )
    (fewest, rare), (most, common) = rows[0], rows[-1]
    if most > MAX_IMBALANCE * max(fewest, 1):
        yield Finding(
            Kind.IMBALANCE,
            f"'{common}' has {most / max(fewest, 1):.1f} times as many images as '{rare}' ({most} and {fewest})",
            f"take more images of '{rare}'; the report has the figures of each class",
        )


def require_usable(dataset: Dataset) -> None:
    """Check that a model can be trained and scored on a data set.

    Raises UsageError for labels that differ by case or blanks, a class with fewer than ``MIN_IMAGES_PER_CLASS``
    readable images, or more than ``MAX_UNREADABLE_SHARE`` unreadable files.
    """
    require_one_spelling(dataset.spellings)
    require_readable(dataset)
    _require_images(dataset)


def require_one_spelling(written: Sequence[Sequence[str]]) -> None:
    """Check that no class is written in several ways; ``written`` has the spellings of each such class."""
    if written:
        shown = "; ".join(" and ".join(f"'{name}'" for name in group) for group in written[:3])
        raise UsageError(
            f"--data: the classes {shown} differ only by case or blanks",
            "merge them under one name; advisor data check --fix writes a manifest that does",
        )


def require_readable(dataset: Dataset) -> None:
    """Check that no more than ``MAX_UNREADABLE_SHARE`` of the files were left out."""
    bad, total = len(dataset.rejected), len(dataset.rejected) + len(dataset.images)
    if bad <= MAX_UNREADABLE_SHARE * total:
        return
    examples = "; ".join(f"'{dataset.shown(row.path)}': {row.reason}" for row in dataset.rejected[:3])
    raise UsageError(
        f"--data: {bad} of {total} images in '{dataset.root}' cannot be read ({100 * bad / total:.0f} %, "
        f"the limit is {100 * MAX_UNREADABLE_SHARE:.0f} %): {examples}",
        "replace or remove the unreadable files; was everything copied completely?",
    )


def _require_images(dataset: Dataset) -> None:
    rows = zip(dataset.classes, dataset.counts, strict=True)
    small = [f"'{name}' ({count})" for name, count in rows if count < MIN_IMAGES_PER_CLASS]
    if small:
        raise UsageError(
            f"--data: fewer than {MIN_IMAGES_PER_CLASS} readable images in {listed(small)}",
            f"add images (at least {MIN_IMAGES_PER_CLASS} a class, better 50) or remove the class",
        )


Counts = Mapping[str, Mapping[str, int]]
"""Number of boxes of each class, by part of a split."""


def require_usable_boxes(read: BoxSurvey) -> None:
    """Check that a detector can be trained and scored on a set.

    Raises UsageError for labels that differ by case or blanks, a class in fewer than ``MIN_IMAGES_PER_CLASS`` images,
    or more than ``MAX_UNREADABLE_SHARE`` of the images or boxes left out.
    """
    require_one_spelling(read.spellings)
    require_readable(read.images.dataset)
    _require_boxes(read)
    images = read.images_per_class
    rare = [f"'{name}' ({images[name]})" for name in read.classes if images[name] < MIN_IMAGES_PER_CLASS]
    if rare:
        raise UsageError(
            f"--data: fewer than {MIN_IMAGES_PER_CLASS} images with a box of {listed(rare)}",
            f"annotate more (at least {MIN_IMAGES_PER_CLASS} images a class, better 50), or remove the class",
        )


def boxes_in_parts(read: BoxSurvey, split: Split) -> Counts:
    """Return the number of boxes of each class in each part.

    Raises UsageError if a part has no box, or the training part lacks a class.
    """
    parts = {TRAIN: split.train, VALIDATION: split.validation, HOLDOUT: split.holdout}
    counts = {part: _counts(read, indices) for part, indices in parts.items()}
    for part, of_class in counts.items():
        if not any(of_class.values()):
            raise UsageError(
                f"--data: the {part} part has {counted(len(parts[part]), 'image')}, but no box",
                "put annotated images into it",
            )
    missing = [f"'{name}'" for name, count in counts[TRAIN].items() if not count]
    if missing:
        raise UsageError(
            f"--data: the training part has no box of {listed(missing)}",
            "put some of their images there; if there is only one group of them, name more groups",
        )
    return counts


def lacking(counts: Counts) -> tuple[str, ...]:
    """Return a sentence about each part that lacks classes."""
    missing = {part: [name for name, count in of_class.items() if not count] for part, of_class in counts.items()}
    return tuple(
        f"The {part} part has no box of {listed(names)}: no average precision there."
        for part, names in missing.items()
        if names
    )


def _require_boxes(read: BoxSurvey) -> None:
    bad, total = len(read.faults), len(read.faults) + read.count
    if bad > MAX_UNREADABLE_SHARE * total:
        examples = "; ".join(f"{fault.place}: {fault.reason}" for fault in read.faults[:3])
        raise UsageError(
            f"--data: {bad:,} of {total:,} boxes cannot be used ({100 * bad / total:.0f} %, "
            f"the limit is {100 * MAX_UNREADABLE_SHARE:.0f} %): {examples}",
            "correct them; is the format what its rows say, in pixels or in shares of the image?",
        )


def _counts(read: BoxSurvey, indices: Sequence[int]) -> dict[str, int]:
    found = dict.fromkeys(read.classes, 0)
    for index in indices:
        for box in read.boxes[index]:
            found[box.label] += 1
    return found
