"""Find images that occur more than once: within a class, across classes, across the parts of a split."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from advisor.datasets.checks.findings import Finding, Kind, counted, paths_of
from advisor.datasets.dataset import PARTS, Dataset
from advisor.datasets.duplicates import Pair, groups

_KEPT_LONGEST = tuple(dict.fromkeys(PARTS.values()))
"""Parts in the order of use. Of copies in several parts, the one in the last part is kept to preserve the test set."""

Group = tuple[int, ...]


def repeated(dataset: Dataset, pairs: Sequence[Pair]) -> Iterator[Finding]:
    """Yield findings on repeated images; each group of similar images is reported once, by its most serious fault.

    Args:
        dataset: the images.
        pairs: near duplicates by index into its images, equal ones included.
    """
    alike = groups(pairs, len(dataset.images))
    across = [group for group in alike if len({dataset.images[index].label for index in group}) > 1]
    within = [group for group in alike if group not in set(across)]
    yield from _across_classes(dataset, across)
    yield from _across_parts(dataset, alike)
    exact = {group for group in within if len({dataset.images[index].sha256 for index in group}) == 1}
    yield from _within(dataset, Kind.EXACT_DUPLICATES, [group for group in within if group in exact])
    yield from _within(dataset, Kind.NEAR_DUPLICATES, [group for group in within if group not in exact])


def leaks(dataset: Dataset, together: Sequence[Sequence[int]]) -> tuple[Group, ...]:
    """Return the groups whose images are in several parts of the user's own split.

    Args:
        dataset: the images with their parts.
        together: groups of indices that belong into one part: copies, near duplicates, the user's groups.
    """
    parts = [image.part for image in dataset.images]
    return tuple(tuple(group) for group in together if len({parts[index] for index in group} - {""}) > 1)


def kept_together(dataset: Dataset, pairs: Sequence[Pair]) -> tuple[Group, ...]:
    """Return the groups of indices that a split must keep together: similar images, and the user's groups."""
    by_name: dict[str, list[int]] = defaultdict(list)
    for index, image in enumerate(dataset.images):
        if image.group:
            by_name[image.group].append(index)
    own = tuple(tuple(group) for group in by_name.values() if len(group) > 1)
    return (*groups(pairs, len(dataset.images)), *own)


def _across_classes(dataset: Dataset, found: Sequence[Group]) -> Iterator[Finding]:
    if found:
        groups_of_paths = paths_of(dataset, found)
        yield Finding(
            Kind.SAME_IMAGE_TWO_CLASSES,
            f"{counted(len(found), 'image lies', 'images lie')} in more than one class",
            "keep one of each, in the right class; only you know which, so --fix leaves all of them out",
            groups_of_paths,
            tuple(_classes(dataset, group) for group in found),
            tuple(path for group in groups_of_paths for path in group),
        )


def _across_parts(dataset: Dataset, alike: Sequence[Group]) -> Iterator[Finding]:
    found = leaks(dataset, alike)
    if found:
        yield Finding(
            Kind.LEAK,
            f"{counted(len(found), 'image lies', 'images lie')} in more than one part of the split",
            "keep one of each: a test that shares images with training gives too high an accuracy",
            paths_of(dataset, found),
            tuple(_parts(dataset, group) for group in found),
            tuple(dataset.images[index].path for group in found for index in _superfluous(dataset, group)),
        )
    shared = leaks(dataset, kept_together(dataset, ()))
    if shared:
        yield Finding(
            Kind.LEAK,
            f"{counted(len(shared), 'group lies', 'groups lie')} in more than one part of the split",
            "put each group into one part: otherwise the accuracy is too high",
            paths_of(dataset, shared),
            tuple(f"group '{dataset.images[group[0]].group}': {_parts(dataset, group)}" for group in shared),
        )


def _within(dataset: Dataset, kind: Kind, found: Sequence[Group]) -> Iterator[Finding]:
    if not found:
        return
    superfluous = [index for group in found for index in _superfluous(dataset, group)]
    what = "occur twice or more" if kind is Kind.EXACT_DUPLICATES else "have near copies"
    single = "occurs twice or more" if kind is Kind.EXACT_DUPLICATES else "has near copies"
    yield Finding(
        kind,
        f"{counted(len(found), f'image {single}', f'images {what}')}, {counted(len(superfluous), 'file')} too many",
        "keep one of each; a search keeps copies in one part of its split",
        paths_of(dataset, found),
        (),
        tuple(dataset.images[index].path for index in superfluous),
    )


def _superfluous(dataset: Dataset, group: Group) -> list[int]:
    """Return all but the one to keep: that of the last part, then the largest file, then the first."""

    def merit(index: int) -> tuple[int, int, int]:
        image = dataset.images[index]
        part = _KEPT_LONGEST.index(image.part) if image.part else -1
        return part, image.stamp[0], -index

    best = max(group, key=merit)
    return [index for index in group if index != best]


def _classes(dataset: Dataset, group: Group) -> str:
    return " and ".join(dict.fromkeys(dataset.classes[dataset.images[index].label] for index in group))


def _parts(dataset: Dataset, group: Group) -> str:
    return " and ".join(dict.fromkeys(part for index in group if (part := dataset.images[index].part)))
