"""Images that are there more than once: within a class, across classes, across the parts of a split."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from advisor.datasets.checks.findings import Finding, Kind, counted, paths_of
from advisor.datasets.dataset import Dataset
from advisor.datasets.duplicates import Pair, groups
from advisor.datasets.layouts.layout import PARTS

_KEPT_LONGEST = tuple(dict.fromkeys(PARTS.values()))
"""Of copies in several parts, the one in the part that is looked at last stays: figures keep their test set."""

Group = tuple[int, ...]


def repeated(dataset: Dataset, pairs: Sequence[Pair]) -> Iterator[Finding]:
    """Yield what is repeated; each group of alike images is reported once under what is worst about it.

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
    """Return the groups whose images the user's own split puts on several sides.

    Args:
        dataset: the images with their parts.
        together: groups of indices that belong on one side: copies, near duplicates, the user's groups.
    """
    parts = [image.part for image in dataset.images]
    return tuple(tuple(group) for group in together if len({parts[index] for index in group} - {""}) > 1)


def kept_together(dataset: Dataset, pairs: Sequence[Pair]) -> tuple[Group, ...]:
    """Return the groups of indices that must stay on one side of a split: alike images, and the user's groups."""
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
            "keep one of each, in the right class; nobody but you knows which, so --fix leaves all of them out",
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
            "a test that shares images with training flatters: keep one of each",
            paths_of(dataset, found),
            tuple(_parts(dataset, group) for group in found),
            tuple(dataset.images[index].path for group in found for index in _superfluous(dataset, group)),
        )
    shared = leaks(dataset, kept_together(dataset, ()))
    if shared:
        yield Finding(
            Kind.LEAK,
            f"{counted(len(shared), 'group lies', 'groups lie')} in more than one part of the split",
            "put each group into one part; the figures of the others flatter",
            paths_of(dataset, shared),
            tuple(f"group '{dataset.images[group[0]].group}': {_parts(dataset, group)}" for group in shared),
        )


def _within(dataset: Dataset, kind: Kind, found: Sequence[Group]) -> Iterator[Finding]:
    if not found:
        return
    spare = [index for group in found for index in _superfluous(dataset, group)]
    what = "lie there twice or more" if kind is Kind.EXACT_DUPLICATES else "have near copies"
    single = "lies there twice or more" if kind is Kind.EXACT_DUPLICATES else "has near copies"
    yield Finding(
        kind,
        f"{counted(len(found), f'image {single}', f'images {what}')}, {counted(len(spare), 'file')} too many",
        "keep one of each; a search keeps those that it finds on one side of its split",
        paths_of(dataset, found),
        (),
        tuple(dataset.images[index].path for index in spare),
    )


def _superfluous(dataset: Dataset, group: Group) -> list[int]:
    """All but the one to keep: of the part that is looked at last, then the largest file, then the first."""

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
