"""Check the minimum requirements of a data set."""

from __future__ import annotations

from advisor.core.errors import UsageError
from advisor.datasets.dataset import Dataset

MIN_IMAGES_PER_CLASS = 8
MAX_UNREADABLE_SHARE = 0.2


def require_usable(dataset: Dataset) -> None:
    """Check that a model can be trained and scored on a data set.

    Raises:
        UsageError: labels that differ by case or blanks, a class with fewer than ``MIN_IMAGES_PER_CLASS`` readable
            images, or more than ``MAX_UNREADABLE_SHARE`` unreadable files.
    """
    _require_one_spelling(dataset)
    _require_readable(dataset)
    _require_images(dataset)


def _require_one_spelling(dataset: Dataset) -> None:
    if dataset.spellings:
        shown = "; ".join(" and ".join(f"'{name}'" for name in group) for group in dataset.spellings[:3])
        raise UsageError(
            f"--data: the classes {shown} differ only by case or blanks",
            "merge them under one name; advisor data check --fix writes a manifest that does",
        )


def _require_readable(dataset: Dataset) -> None:
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
            f"--data: fewer than {MIN_IMAGES_PER_CLASS} readable images in {', '.join(small)}",
            f"add images (at least {MIN_IMAGES_PER_CLASS} a class, better 50) or remove the class",
        )
