"""Find images that occur more than once: copies, near copies and crops, in one class or in several."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageFilter

from advisor.core.errors import StageError
from advisor.datasets.checks.findings import Finding, Kind, counted, paths_of
from advisor.datasets.dataset import PARTS, Dataset
from advisor.datasets.images import load
from advisor.datasets.look_alikes import Pair, groups

_KEPT_LONGEST = tuple(dict.fromkeys(PARTS.values()))
"""Parts in the order of use. Of copies in several parts, the one in the last part is kept to preserve the test set."""

Group = tuple[int, ...]


def repeated(dataset: Dataset, pairs: Sequence[Pair]) -> Iterator[Finding]:
    """Yield findings on repeated images; each group of similar images is reported once, by its most serious fault."""
    alike = groups(pairs, len(dataset.images))
    across = [group for group in alike if len({dataset.images[index].label for index in group}) > 1]
    within = [group for group in alike if group not in set(across)]
    yield from _across_classes(dataset, across)
    yield from _across_parts(dataset, alike)
    exact = {group for group in within if len({dataset.images[index].sha256 for index in group}) == 1}
    yield from _within(dataset, Kind.EXACT_DUPLICATES, [group for group in within if group in exact])
    yield from _within(dataset, Kind.NEAR_DUPLICATES, [group for group in within if group not in exact])


def leaks(dataset: Dataset, together: Sequence[Sequence[int]]) -> tuple[Group, ...]:
    """Return those groups of indices (copies, near duplicates, the user's) that the user's own split puts into several
    parts.
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


# Find crops: near duplicates that a perceptual hash misses, as one image is a part of the other.
#
# Candidates have similar network features, which change little with a crop. Each is confirmed on the pixels by
# normalised cross-correlation with every part of the other image that is not much smaller (Lewis, "Fast Normalized
# Cross-Correlation", 1995).

SIDE = 48
SMALLEST = 0.8
"""Least share of a side that a crop keeps."""

MIN_COSINE = 0.7
"""Least cosine of centred features. Crops of TrashNet's images have 0.87 in the median, unrelated images 0."""

MIN_MATCH = 0.98
NEIGHBOURS = 2
"""Candidates for each image."""

LARGE, COMPACT = 20_000, 256
"""Sets of more than ``LARGE`` images are compared in ``COMPACT`` random directions: a fifth of the time, cosines
within 0.1."""

_WORTH_A_LOOK = 0.85
_BLOCK = 512
_KEPT = 4096


def cropped_copies(features: NDArray[np.float32], paths: Sequence[Path]) -> tuple[Pair, ...]:
    """Return the sorted pairs of images in which one is a crop of the other, or nearly equal to it.

    ``features`` (N, F) are of any classifier's backbone. The images of candidates are opened again.
    """
    grey = lru_cache(maxsize=_KEPT)(_grey)
    found = []
    for first, second in candidates(features):
        try:
            value = match(grey(paths[first]), grey(paths[second]))
        except StageError:  # the file disappeared since it was read; later stages report it
            continue
        if value >= MIN_MATCH:
            found.append(Pair(first, second, round(value, 4)))
    return tuple(found)


def candidates(features: NDArray[np.float32]) -> list[tuple[int, int]]:
    """Return the sorted pairs (first < second) in which one image is among the nearest of the other, compared in
    blocks.
    """
    if len(features) < 2:
        return []
    centred = _compact(features)
    centred -= centred.mean(axis=0)
    centred /= np.maximum(np.linalg.norm(centred, axis=1, keepdims=True), 1e-9)
    nearest = min(NEIGHBOURS, len(features) - 1)
    pairs = set()
    for start in range(0, len(centred), _BLOCK):
        cosines = centred[start : start + _BLOCK] @ centred.T
        rows = np.arange(len(cosines))
        cosines[rows, start + rows] = -1.0
        best = np.argpartition(cosines, -nearest, axis=1)[:, -nearest:]
        for row, column in zip(np.repeat(rows, nearest), best.ravel(), strict=True):
            if cosines[row, column] >= MIN_COSINE:
                pairs.add((min(start + int(row), int(column)), max(start + int(row), int(column))))
    return sorted(pairs)


def _compact(features: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return a copy of the features, or a random projection of a large set (Johnson and Lindenstrauss)."""
    if len(features) <= LARGE or features.shape[1] <= COMPACT:
        return features.copy()
    directions = np.random.default_rng(0).standard_normal((features.shape[1], COMPACT), np.float32)
    projected: NDArray[np.float32] = features @ (directions / np.float32(COMPACT**0.5))
    return projected


def match(first: NDArray[np.float32], second: NDArray[np.float32]) -> float:
    """Return how well one of two grey images (SIDE, SIDE) matches a part of the other, from 0 to 1."""
    return max(_best_place(first, second), _best_place(second, first))


def _best_place(whole: NDArray[np.float32], part: NDArray[np.float32]) -> float:
    """Return the best correlation of ``part``, at several sizes, with any window of ``whole``."""
    sides = range(round(SMALLEST * SIDE), SIDE + 1)
    coarse = max(_correlation(whole, part, side) for side in sides[::3])
    return coarse if coarse < _WORTH_A_LOOK else max(_correlation(whole, part, side) for side in sides)


def _correlation(whole: NDArray[np.float32], part: NDArray[np.float32], side: int) -> float:
    template = _array(Image.fromarray(part).resize((side, side), Image.Resampling.BILINEAR)).ravel()
    template = template - template.mean()
    strength = float(np.linalg.norm(template))
    if strength < side:  # a deviation of less than one level: nothing to match
        return 0.0
    windows = np.lib.stride_tricks.sliding_window_view(whole, (side, side)).reshape(-1, side * side)
    spread = np.sqrt(np.einsum("ij,ij->i", windows, windows) - windows.sum(axis=1) ** 2 / side**2)
    return float(((windows @ template) / np.maximum(spread * strength, 1e-3)).max())


def _grey(path: Path) -> NDArray[np.float32]:
    """Return a slightly blurred grey image, as parts are compared at whole pixels only."""
    grey = Image.fromarray(load(path, 2 * SIDE)).convert("L").filter(ImageFilter.GaussianBlur(1))
    return _array(grey.resize((SIDE, SIDE), Image.Resampling.BILINEAR)) - 128.0


def _array(image: Image.Image) -> NDArray[np.float32]:
    return np.asarray(image, np.float32)
