"""Find out which images were taken on one occasion: a visit, a film, a burst.

``_division.py`` calls :func:`find_groups`, and a split keeps the groups whole. Photos of one shop
visit or one film share light and background. If each class was photographed on few occasions,
light and background tell the class, and a random split gives an accuracy that no new photo
reaches.

In a set of single photos they do not: then such groups are no occasions, and nothing is gained by
keeping them together. A few classes of very different colours are told apart anyhow. There the
test has no power, and groups count if they are clear.
"""

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from advisor.core import UsageError
from advisor.datasets._dataset import Dataset, members_of
from advisor.datasets._image_groups import Grouping, Source
from advisor.datasets._image_stats import Shot
from advisor.datasets._split import UNGROUPED
from advisor.datasets._survey import Survey

DIAMETER = 1.2
"""Largest distance inside a group, relative to the median distance of two images of the class.
Chosen on the training part of a set whose other visits are known: a head then reaches on held-out
groups what it reaches on another visit.
"""

# Images of a class that are compared; larger classes are grouped in runs of their listing.
TOGETHER = 2000
TESTED = 3000  # Images in the test, at most: whole classes, drawn by the hash of their names
# Groups count if the odds of a right answer fall at least
# by this factor without the image's own group.
ODDS = 2.0
SIGNIFICANT = 3.0  # Standard errors by which right answers must fall
# Share of right answers without the image's own group above which
# that test has little left to lose.
TOLD = 0.9

CLEAR = 0.06
"""Mean silhouette of groups, above that of structureless images, from which they count where the
test has no power. Measured with 20 images a class or more: 3-10 classes of GroceryStoreDataset's
``train`` part have 0.03-0.18, two of three draws above 0.08; 3-6 classes of TrashNet have -0.08 to
0.08, three of four draws below 0.035.
"""

REFERENCES = 3  # Sets of structureless images for that
# Least share of neighbours at one distance in number with which every
# so many-th frame of a film is kept.
REGULAR = 0.5
MEASURED = 500  # Images of one class that it compares, at most

Floats = NDArray[np.float32]

PAUSE_S = 600.0  # A longer pause between two photos of a camera starts another group
TIMED = 0.8  # Least share of images with a time
# Inferred groups have at least this many images in the mean; otherwise the images are single ones.
LEAST_MEAN = 2.0
NUMBERED = 0.8  # Least share of images with a number in their names
# File names are sequences if neighbours differ by less than this share
# of what two images differ by.
ALIKE = 0.8
# A new group starts where neighbours differ by this many times the median of their class.
JUMP = 3.0
GAP = 10  # A new group starts where more images are missing

_NUMBER = re.compile(r"\d+(?=\D*$)")


def group_look_alikes(colours: NDArray[np.uint8], cells: Sequence[Hashable]) -> tuple[int, ...]:
    """Return the number of the group of each image; all images of a group resemble each other.

    Complete linkage of the distances of small RGB versions, uint8 (N, S, S, 3). Images of
    different cells, such as classes, are in different groups.
    """
    flat = colours.reshape(len(colours), -1)
    groups = np.zeros(len(colours), int)
    first = 0
    for indices in members_of(cells).values():
        for start in range(0, len(indices), TOGETHER):
            run = indices[start : start + TOGETHER]
            numbers = _find_clusters(flat[run].astype(np.float32))
            groups[run] = first + numbers
            first += int(numbers.max()) + 1
    return tuple(groups.tolist())


def groups_tell_classes(
    colours: NDArray[np.uint8],
    histograms: NDArray[np.uint8],
    labels: Sequence[int],
    groups: Sequence[int],
) -> bool:
    """Return whether an image's own group tells its class, more than groups in general do.

    Each image gets the class of the image with the nearest colours: once of all others, and once
    without its own group. The second time, the group of the nearest image of every other class is
    left out, too: so single photos, whose groups are accidental, lose nothing. Where the second
    answers are right, too, return whether the groups are clear.

    ``colours`` are the small RGB versions which made the groups, and ``histograms`` the roots of
    the shares of each colour, uint8 (N, B); their distance is Hellinger's. Each group lies in one
    class.
    """
    chosen = _choose_images(labels)
    pairs = {(labels[index], groups[index]) for index in chosen}
    count = Counter(label for label, _ in pairs)
    # Without its own group, an image of a class with one group has no right answer left.
    tested = []
    for index in chosen:
        if count[labels[index]] > 1:
            tested.append(index)
    if not tested or len(count) < 2:
        return False
    with_own, without_own = _compute_answers(histograms, labels, groups, chosen, tested)
    if _are_answers_lost(with_own, without_own):
        return True
    return (
        float(without_own.mean()) > TOLD
        and _measure_excess(colours, histograms, labels, groups, tested) >= CLEAR
    )


def measure_silhouettes(
    distances: NDArray[np.float64], clusters: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return the silhouette of each image, (N,), from -1 to 1.

    It says how much nearer the image's own cluster is than the next one; 0 for an image alone.
    Clusters are numbered from 0. Source: P. J. Rousseeuw, "Silhouettes", Journal of Computational
    and Applied Mathematics 20 (1987).
    """
    sizes = np.bincount(clusters)
    if len(sizes) < 2:
        return np.zeros(len(clusters))
    means = distances @ np.eye(len(sizes))[clusters]
    rows = np.arange(len(clusters))
    cluster_sizes = sizes[clusters]
    within = means[rows, clusters] / np.maximum(cluster_sizes - 1, 1)
    means /= sizes
    means[rows, clusters] = np.inf
    nearest = means.min(axis=1)
    widest = np.maximum(np.maximum(within, nearest), 1e-12)
    return np.where(cluster_sizes > 1, (nearest - within) / widest, 0.0)


def _find_clusters(flat: Floats) -> NDArray[np.int64]:
    from scipy.cluster.hierarchy import fcluster, linkage
    from scipy.spatial.distance import pdist

    if len(flat) < 2:
        return np.zeros(len(flat), np.int64)
    distances = pdist(flat)
    numbers = fcluster(
        linkage(distances, "complete"), DIAMETER * float(np.median(distances)), "distance"
    )
    return np.asarray(numbers, np.int64) - 1


def _choose_images(labels: Sequence[int]) -> list[int]:
    """Return the images of whole classes, up to :data:`TESTED` and of two classes at least."""
    members = members_of(labels)
    chosen: list[int] = []
    # By hash: classes that are neighbours in the alphabet often belong together.
    ordered = sorted(members, key=_hash_label)
    for number, label in enumerate(ordered):
        images = members[label][: TESTED // 2]
        # Two classes at least, however large: with one class every answer would be right.
        if number < 2 or len(chosen) + len(images) <= TESTED:
            chosen += images
    return sorted(chosen)


def _hash_label(label: int) -> bytes:
    return hashlib.sha256(str(label).encode()).digest()


def _compute_answers(
    histograms: NDArray[np.uint8],
    labels: Sequence[int],
    groups: Sequence[int],
    chosen: Sequence[int],
    tested: Sequence[int],
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return whether the nearest image has the right class, with the own group and without."""
    label_of = np.array([labels[index] for index in chosen])
    names, group_of = np.unique([groups[index] for index in chosen], return_inverse=True)
    class_of_group = np.zeros(len(names), int)
    class_of_group[group_of] = label_of
    place = {index: number for number, index in enumerate(chosen)}
    rows = np.array([place[index] for index in tested])
    distances = _compute_distances(histograms[list(chosen)].astype(np.float32))
    if len(rows) < len(chosen):
        distances = distances[rows]
    # No image answers for itself.
    distances[np.arange(len(rows)), rows] = np.inf
    truth = label_of[rows]
    with_own = label_of[distances.argmin(axis=1)] == truth
    order = np.argsort(group_of, kind="stable")
    starts = np.searchsorted(group_of[order], np.arange(len(names)))
    to_group = np.minimum.reduceat(distances[:, order], starts, axis=1)
    # Now without its own group, which may be one visit of which all images look the same.
    to_group[np.arange(len(rows)), group_of[rows]] = np.inf
    return with_own, _find_nearest_class(to_group, class_of_group, truth) == truth


def _find_nearest_class(
    to_group: Floats, class_of_group: NDArray[np.int64], truth: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the nearest class of each row, (N,).

    Each class but the row's own is without its nearest group.
    """
    classes = np.unique(class_of_group)
    best = np.full((len(to_group), len(classes)), np.inf, np.float32)
    for column, label in enumerate(classes):
        to_class = to_group[:, class_of_group == label]
        nearest = np.sort(to_class, axis=1)[:, :2]
        # Every other class loses its nearest group as well, so that single photos lose nothing.
        other = nearest[:, 1] if nearest.shape[1] > 1 else np.inf
        best[:, column] = np.where(truth == label, nearest[:, 0], other)
    return np.asarray(classes[best.argmin(axis=1)], np.int64)


def _compute_distances(values: Floats) -> Floats:
    squares = (values**2).sum(axis=1)
    distances: Floats = values @ values.T  # changed in place, as it is large
    distances *= -2
    distances += squares[:, None]
    distances += squares[None]
    np.maximum(distances, 0, out=distances)
    return distances


def _measure_excess(
    colours: NDArray[np.uint8],
    histograms: NDArray[np.uint8],
    labels: Sequence[int],
    groups: Sequence[int],
    tested: Sequence[int],
) -> float:
    """Return by how much the mean silhouette of the groups exceeds that of structureless images.

    Those have the covariance of the class's images and a normal distribution, and are grouped
    alike. The silhouettes are of histograms, which did not make the groups. Source of the
    comparison: R. Tibshirani, G. Walther, T. Hastie, "Estimating the number of clusters in a data
    set via the gap statistic", JRSS B 63 (2001).
    """
    random = np.random.default_rng(0)
    flat = colours.reshape(len(colours), -1)
    label_of = np.array([labels[index] for index in tested])
    excess = 0.0
    images = 0
    for label in np.unique(label_of):
        places = np.array(tested)[label_of == label][:MEASURED]
        small = flat[places].astype(np.float32)
        small = small - small.mean(axis=0)
        shares = histograms[places].astype(np.float32)
        shares = shares - shares.mean(axis=0)
        # Silhouettes need numbers from 0 without gaps, and the class has only some of the groups.
        _, numbers = np.unique([groups[place] for place in places], return_inverse=True)
        reference = 0.0
        for _ in range(REFERENCES):
            # Mixtures of the class's own images have their spread, and no groups.
            mixing: Floats = random.normal(size=(len(places),) * 2).astype(np.float32)
            mixing /= len(places) ** 0.5
            reference += (
                _measure_silhouette(mixing @ shares, _find_clusters(mixing @ small)) / REFERENCES
            )
        excess += len(places) * (_measure_silhouette(shares, numbers.astype(np.int64)) - reference)
        images += len(places)
    return excess / images


def _measure_silhouette(values: Floats, numbers: NDArray[np.int64]) -> float:
    distances = np.sqrt(_compute_distances(values)).astype(np.float64)
    np.fill_diagonal(distances, 0.0)
    return float(measure_silhouettes(distances, numbers).mean())


def _are_answers_lost(before: NDArray[np.bool_], after: NDArray[np.bool_]) -> bool:
    """Return whether right answers became much rarer, by McNemar's test and by their odds."""
    worse = int((before & ~after).sum())
    better = int((~before & after).sum())
    if worse <= better or (worse - better) < SIGNIFICANT * (worse + better) ** 0.5:
        return False
    return bool(_compute_odds(before) >= ODDS * _compute_odds(after))


def _compute_odds(right: NDArray[np.bool_]) -> float:
    """Return the odds of a right answer, with half an answer added to both sides: none is 0."""
    return float((right.sum() + 0.5) / ((~right).sum() + 0.5))


def find_groups(read: Survey) -> Grouping:
    """Return the groups of a data set, by the first source that has groups.

    The sources are the manifest, time and camera, numbers in file names, and appearance. Groups
    that are inferred lie inside one part of the user's own split. Raises UsageError if the
    manifest has one group that holds every image.
    """
    dataset = read.dataset
    if any(image.group for image in dataset.images):
        names = [image.group or (index,) for index, image in enumerate(dataset.images)]
        if len(set(names)) == 1 and len(names) > 1:
            raise UsageError(
                f"--data: all {len(names)} images are in one group, '{names[0]}': none could be"
                " held out",
                "name at least three groups (visits, subjects, films), or remove the column"
                " 'group'",
            )
        return Grouping(_number_names(names), Source.MANIFEST)
    parts = [image.part for image in dataset.images]
    inferred = {
        Source.CAMERA: group_by_camera(read.shots),
        Source.SEQUENCE: group_by_sequence(dataset, read.colours),
    }
    # The first source with groups is used alone (decision 0050).
    for source, numbers in inferred.items():
        if _are_groups(numbers):
            return Grouping(_number_names(list(zip(numbers, parts, strict=True))), source)
    alike = group_look_alikes(read.colours, list(zip(dataset.labels, parts, strict=True)))
    if _are_groups(alike) and groups_tell_classes(
        read.colours, read.histograms, dataset.labels, alike
    ):
        return Grouping(alike, Source.APPEARANCE)
    return UNGROUPED


def group_by_camera(shots: Sequence[Shot]) -> tuple[int, ...]:
    """Return the group of each image by time and camera, empty if too few images have a time.

    Photos of one camera without a long pause are a group. An image without a time is a group.
    """
    timed = [index for index, shot in enumerate(shots) if shot.taken_s is not None]
    if not timed or len(timed) < TIMED * len(shots):
        return ()
    groups = [-1] * len(shots)
    number = -1
    last_camera: str | None = None
    last_s = 0.0
    ordered = sorted((shots[index].camera, shots[index].taken_s or 0.0, index) for index in timed)
    for camera, taken_s, index in ordered:
        if camera != last_camera or taken_s - last_s > PAUSE_S:
            number += 1
        groups[index] = number
        last_camera = camera
        last_s = taken_s
    return tuple(number + 1 + index if group < 0 else group for index, group in enumerate(groups))


def group_by_sequence(dataset: Dataset, colours: NDArray[np.uint8]) -> tuple[int, ...]:
    """Return the group of each image by the numbers in file names; empty if they say nothing.

    Neighbours have the same folder, class and name but for the last number. A gap in the numbers
    or a jump in appearance starts another group. Of a film, every so many-th frame may be kept.
    Names that were numbered in random order say nothing.
    """
    flat = colours.reshape(len(colours), -1).astype(np.float32)
    series: dict[tuple[str, int, str, str], list[tuple[int, int]]] = defaultdict(list)
    for index, image in enumerate(dataset.images):
        name = image.path.stem
        match = _NUMBER.search(name)
        if match:
            key = str(image.path.parent), image.label, name[: match.start()], name[match.end() :]
            series[key].append((int(match.group()), index))
    if sum(map(len, series.values())) < NUMBERED * len(dataset.images):
        return ()
    ordered = list(map(sorted, series.values()))
    steps = []
    for rows in ordered:
        indices = [index for _, index in rows]
        steps.append(np.linalg.norm(np.diff(flat[indices], axis=0), axis=1))
    # Frames of a film whose camera stands still are alike whatever lies between them. Those of
    # other films differ, and tell so where there are no classes that differ too.
    others = []
    if len(dataset.classes) == 1:
        others = [index for _, index in chain.from_iterable(ordered)]
    if not _are_near(flat, ordered, steps, others):
        return ()
    numbers = {}
    number = 0
    for rows, distances in zip(ordered, steps, strict=True):
        limit = 0.0
        if len(distances):
            limit = JUMP * float(np.median(distances))
        gap = GAP * _find_usual_step([written for written, _ in rows])
        number += 1
        last = rows[0][0]
        for place, (written, index) in enumerate(rows):
            is_jump = place > 0 and distances[place - 1] > limit
            if written - last > gap or is_jump:
                number += 1
            numbers[index] = number
            last = written
    return tuple(numbers.get(index, number + 1 + index) for index in range(len(dataset.images)))


def _find_usual_step(written: Sequence[int]) -> int:
    """Return the distance between numbers that most neighbours have; 1 if there is none."""
    steps = Counter(int(step) for step in np.diff(written) if step > 0)
    step, count = max(steps.items(), key=lambda pair: pair[1], default=(1, 0))
    if count >= REGULAR * (len(written) - 1):
        return step
    return 1


def _are_groups(numbers: Sequence[int]) -> bool:
    """Return whether these are groups: more than one, and more than single images."""
    return len(numbers) >= LEAST_MEAN * len(set(numbers)) > LEAST_MEAN


def _number_names(names: Sequence[object]) -> tuple[int, ...]:
    known = {name: number for number, name in enumerate(dict.fromkeys(names))}
    return tuple(known[name] for name in names)


def _are_near(
    flat: Floats,
    ordered: Sequence[Sequence[tuple[int, int]]],
    steps: Sequence[NDArray[np.floating]],
    others: Sequence[int] = (),
) -> bool:
    """Return whether neighbours in sequences resemble each other more than images at random.

    The images at random are of the same sequence, or of ``others`` if there are some.
    """
    random = np.random.default_rng(0)
    near = 0.0
    far = 0.0
    for rows, distances in zip(ordered, steps, strict=True):
        # Of two images, the neighbours are all that there is to compare with.
        if len(rows) <= 2:
            continue
        indices = np.array([index for _, index in rows])
        firsts = random.permutation(indices)
        pool = np.array(others) if len(others) else indices
        seconds = random.permutation(pool)[: len(indices)]
        unequal = firsts != seconds
        apart = np.linalg.norm(flat[firsts[unequal]] - flat[seconds[unequal]], axis=1)
        near_mean = float(distances.mean())
        far_mean = float(apart.mean()) if len(apart) else near_mean
        near += near_mean * len(rows)
        far += far_mean * len(rows)
    return far > 0 and near < ALIKE * far
