"""Group images of similar light and background, and test whether such groups tell the class.

Photos of one shop visit or one film share light and background. If each class was photographed on few occasions, light
and background tell the class, and a random split gives an accuracy that no new photo reaches. In a set of single photos
they do not: then such groups are no occasions, and nothing is gained by keeping them together. A few classes of very
different colours are told apart anyhow. There the test has no power, and groups count if they are clear.
"""

import hashlib
from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

DIAMETER = 1.2
"""Largest distance inside a group, relative to the median distance of two images of the class. Chosen on the training
part of a set whose other visits are known: a head then reaches on held-out groups what it reaches on another visit."""

TOGETHER = 2000
"""Images of one class that are compared with each other; larger classes are grouped in runs of their listing."""

TESTED = 3000
"""Images in the test, at most: whole classes, drawn by the hash of their names."""

ODDS = 2.0
"""Groups count if the odds of a right answer fall at least by this factor without the image's own group."""

SIGNIFICANT = 3.0
"""Standard errors by which right answers must fall."""

TOLD = 0.9
"""Share of right answers without the image's own group above which that test has little left to lose."""

CLEAR = 0.06
"""Mean silhouette of groups, above that of structureless images, from which they count where the test has no power.
Measured with 20 images a class or more: 3-10 classes of GroceryStoreDataset's ``train`` part have 0.03-0.18, two of
three draws above 0.08; 3-6 classes of TrashNet have -0.08 to 0.08, three of four draws below 0.035."""

REFERENCES = 3
"""Sets of structureless images for that."""

MEASURED = 500
"""Images of one class that it compares, at most."""

Floats = NDArray[np.float32]


def look_alikes(colours: NDArray[np.uint8], cells: Sequence[Hashable]) -> tuple[int, ...]:
    """Return the number of the group of each image; all images of a group resemble each other.

    Complete linkage of the distances of small RGB versions, uint8 (N, S, S, 3). Images of different cells, such as
    classes, are in different groups.
    """
    members: dict[Hashable, list[int]] = {}
    for index, cell in enumerate(cells):
        members.setdefault(cell, []).append(index)
    flat = colours.reshape(len(colours), -1)
    found, first = np.zeros(len(colours), int), 0
    for indices in members.values():
        for start in range(0, len(indices), TOGETHER):
            run = indices[start : start + TOGETHER]
            numbers = _clusters(flat[run].astype(np.float32))
            found[run] = first + numbers
            first += int(numbers.max()) + 1
    return tuple(found.tolist())


def groups_tell_classes(
    colours: NDArray[np.uint8], histograms: NDArray[np.uint8], labels: Sequence[int], groups: Sequence[int]
) -> bool:
    """Return whether the colours of an image tell its class by its own group, more than groups in general do.

    Each image gets the class of the image with the nearest colours: once of all others, and once without its own group.
    The second time, the group of the nearest image of every other class is left out, too: so single photos, whose
    groups are accidental, lose nothing. Where the second answers are right, too, return whether the groups are clear.

    ``colours`` are the small RGB versions which made the groups, and ``histograms`` the roots of the shares of each
    colour, uint8 (N, B); their distance is Hellinger's. Each group lies in one class.
    """
    chosen = _chosen(labels)
    groups_of_label: dict[int, set[int]] = {}
    for index in chosen:
        groups_of_label.setdefault(labels[index], set()).add(groups[index])
    tested = [index for index in chosen if len(groups_of_label[labels[index]]) > 1]
    if not tested or len(groups_of_label) < 2:
        return False
    with_own, without_own = _answers(histograms, labels, groups, chosen, tested)
    if _lost(with_own, without_own):
        return True
    return float(without_own.mean()) > TOLD and _excess(colours, histograms, labels, groups, tested) >= CLEAR


def silhouettes(distances: NDArray[np.float64], clusters: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the silhouette (N,) of each image, -1 to 1: how much nearer its own cluster is than the next; 0 if alone.

    Clusters are numbered from 0. Source: P. J. Rousseeuw, "Silhouettes", Journal of Computational and Applied
    Mathematics 20 (1987).
    """
    sizes = np.bincount(clusters)
    if len(sizes) < 2:
        return np.zeros(len(clusters))
    means = distances @ np.eye(len(sizes))[clusters]
    rows, own = np.arange(len(clusters)), sizes[clusters]
    within = means[rows, clusters] / np.maximum(own - 1, 1)
    means /= sizes
    means[rows, clusters] = np.inf
    nearest = means.min(axis=1)
    widest = np.maximum(np.maximum(within, nearest), 1e-12)
    return np.where(own > 1, (nearest - within) / widest, 0.0)


def _clusters(flat: Floats) -> NDArray[np.int64]:
    from scipy.cluster.hierarchy import fcluster, linkage
    from scipy.spatial.distance import pdist

    if len(flat) < 2:
        return np.zeros(len(flat), np.int64)
    distances = pdist(flat)
    numbers = fcluster(linkage(distances, "complete"), DIAMETER * float(np.median(distances)), "distance")
    return np.asarray(numbers, np.int64) - 1


def _chosen(labels: Sequence[int]) -> list[int]:
    """Return the images of whole classes, up to :data:`TESTED` and of two classes at least."""
    members: dict[int, list[int]] = {}
    for index, label in enumerate(labels):
        members.setdefault(label, []).append(index)
    chosen: list[int] = []
    ordered = sorted(members, key=lambda label: hashlib.sha256(str(label).encode()).digest())
    for number, label in enumerate(ordered):
        some = members[label][: TESTED // 2]
        if number < 2 or len(chosen) + len(some) <= TESTED:
            chosen += some
    return sorted(chosen)


def _answers(
    histograms: NDArray[np.uint8], labels: Sequence[int], groups: Sequence[int], chosen: Sequence[int],
    tested: Sequence[int],
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:  # fmt: skip
    """Return whether the nearest image has the right class, with the own group and without."""
    label_of = np.array([labels[index] for index in chosen])
    names, group_of = np.unique([groups[index] for index in chosen], return_inverse=True)
    class_of_group = np.zeros(len(names), int)
    class_of_group[group_of] = label_of
    place = {index: number for number, index in enumerate(chosen)}
    rows = np.array([place[index] for index in tested])
    distances = _distances(histograms[list(chosen)].astype(np.float32))
    if len(rows) < len(chosen):
        distances = distances[rows]
    distances[np.arange(len(rows)), rows] = np.inf
    own = label_of[rows]
    with_own = label_of[distances.argmin(axis=1)] == own
    order = np.argsort(group_of, kind="stable")
    starts = np.searchsorted(group_of[order], np.arange(len(names)))
    to_group = np.minimum.reduceat(distances[:, order], starts, axis=1)
    to_group[np.arange(len(rows)), group_of[rows]] = np.inf
    return with_own, _nearest_class(to_group, class_of_group, own) == own


def _nearest_class(to_group: Floats, class_of_group: NDArray[np.int64], own: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the nearest class of each row, without the nearest group of each class but the own."""
    classes = np.unique(class_of_group)
    best = np.full((len(to_group), len(classes)), np.inf, np.float32)
    for column, label in enumerate(classes):
        some = to_group[:, class_of_group == label]
        nearest = np.sort(some, axis=1)[:, :2]
        other = nearest[:, 1] if nearest.shape[1] > 1 else np.inf
        best[:, column] = np.where(own == label, nearest[:, 0], other)
    return np.asarray(classes[best.argmin(axis=1)], np.int64)


def _distances(values: Floats) -> Floats:
    squares = (values**2).sum(axis=1)
    found: Floats = values @ values.T  # changed in place, as it is large
    found *= -2
    found += squares[:, None]
    found += squares[None]
    np.maximum(found, 0, out=found)
    return found


def _excess(
    colours: NDArray[np.uint8], histograms: NDArray[np.uint8], labels: Sequence[int], groups: Sequence[int],
    tested: Sequence[int],
) -> float:  # fmt: skip
    """Return by how much the mean silhouette of the groups exceeds that of structureless images.

    Those have the covariance of the class's images and a normal distribution, and are grouped alike. The silhouettes
    are of histograms, which did not make the groups. Source of the comparison: R. Tibshirani, G. Walther, T. Hastie,
    "Estimating the number of clusters in a data set via the gap statistic", JRSS B 63 (2001).
    """
    random = np.random.default_rng(0)
    flat, label_of = colours.reshape(len(colours), -1), np.array([labels[index] for index in tested])
    excess, images = 0.0, 0
    for label in np.unique(label_of):
        places = np.array(tested)[label_of == label][:MEASURED]
        small, shares = (_centred(values[places]) for values in (flat, histograms))
        numbers = np.unique([groups[place] for place in places], return_inverse=True)[1].astype(np.int64)
        reference = 0.0
        for _ in range(REFERENCES):
            mixing: Floats = random.normal(size=(len(places),) * 2).astype(np.float32)
            mixing /= len(places) ** 0.5
            reference += _silhouette(mixing @ shares, _clusters(mixing @ small)) / REFERENCES
        excess += len(places) * (_silhouette(shares, numbers) - reference)
        images += len(places)
    return excess / images


def _centred(values: NDArray[np.uint8]) -> Floats:
    found: Floats = values.astype(np.float32)
    found -= found.mean(axis=0)
    return found


def _silhouette(values: Floats, numbers: NDArray[np.int64]) -> float:
    distances = np.sqrt(_distances(values)).astype(np.float64)
    np.fill_diagonal(distances, 0.0)
    return float(silhouettes(distances, numbers).mean())


def _lost(before: NDArray[np.bool_], after: NDArray[np.bool_]) -> bool:
    """Return whether right answers became much rarer, by McNemar's test and by their odds."""
    worse, better = int((before & ~after).sum()), int((~before & after).sum())
    if worse <= better or (worse - better) < SIGNIFICANT * (worse + better) ** 0.5:
        return False
    odds = [(right.sum() + 0.5) / ((~right).sum() + 0.5) for right in (before, after)]
    return bool(odds[0] >= ODDS * odds[1])


# Find near duplicates by a perceptual hash.
#
# The hash compares the low frequencies of a small grey version with their median (pHash; Zauner, "Implementation and
# Benchmarking of Perceptual Image Hash Functions", 2010). Resizing, recompression and mild changes of brightness keep
# it; crops and rotations do not. A match is confirmed on the small grey versions.

THUMBNAIL = 32
BITS = 64
MAX_DISTANCE = 8
"""Largest number of differing bits, of 64; unrelated images differ in 32 on average."""

MIN_CORRELATION = 0.97
"""Least correlation of the grey thumbnails of near duplicates."""

_LOW = 9
_BLOCK = 2048


@dataclass(frozen=True)
class Pair:
    """Two similar images by index (first < second), and the correlation of their thumbnails."""

    first: int
    second: int
    similarity: float


def perceptual_hashes(thumbnails: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """Return the 64-bit hash of each grey thumbnail: uint8 (N, THUMBNAIL, THUMBNAIL) to uint64 (N,)."""
    from scipy.fft import dctn

    low = dctn(thumbnails.astype(np.float32), axes=(1, 2), norm="ortho")[:, :_LOW, :_LOW].reshape(len(thumbnails), -1)
    kept = low[:, 1 : BITS + 1]
    bits = kept > np.median(kept, axis=1, keepdims=True)
    packed: NDArray[np.uint64] = np.packbits(bits, axis=1).view(">u8").reshape(-1).astype(np.uint64)
    return packed


def near_duplicates(thumbnails: NDArray[np.uint8]) -> tuple[Pair, ...]:
    """Return every pair of similar images, equal ones included, sorted by index, from grey thumbnails.

    All pairs are compared in blocks: 100,000 images take less than a minute and the memory of one block.
    """
    starts = range(0, len(thumbnails), _BLOCK)  # in blocks, as intermediate values need eight times the memory
    hashes = np.concatenate([np.zeros(0, np.uint64), *(perceptual_hashes(thumbnails[i : i + _BLOCK]) for i in starts)])
    pairs = []
    for row in range(0, len(hashes), _BLOCK):
        for column in range(row, len(hashes), _BLOCK):
            distances = np.bitwise_count(hashes[row : row + _BLOCK, None] ^ hashes[None, column : column + _BLOCK])
            for first, second in np.argwhere(distances <= MAX_DISTANCE):
                if column + second > row + first:
                    pairs.append((row + int(first), column + int(second)))
    pairs.sort()
    alike = ((pair, correlation(thumbnails[pair[0]], thumbnails[pair[1]])) for pair in pairs)
    return tuple(Pair(*pair, round(value, 4)) for pair, value in alike if value >= MIN_CORRELATION)


def correlation(first: NDArray[np.uint8], second: NDArray[np.uint8]) -> float:
    """Return the correlation of two grey thumbnails; 1 for two flat ones of the same level."""
    one, two = (thumbnail.astype(np.float64) - thumbnail.mean() for thumbnail in (first, second))
    scale = float(np.sqrt((one**2).sum() * (two**2).sum()))
    if scale < 1e-9:
        return 1.0 if np.abs(first.astype(int) - second).max() <= 2 else 0.0
    return float((one * two).sum()) / scale


def groups(pairs: Sequence[Pair], count: int) -> tuple[tuple[int, ...], ...]:
    """Return groups of images that are connected by pairs; single images are left out."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    links = [pair.first for pair in pairs], [pair.second for pair in pairs]
    _, names = connected_components(coo_array((np.ones(len(pairs)), links), (count, count)), directed=False)
    members: dict[int, list[int]] = defaultdict(list)
    for index, name in enumerate(names):
        members[name].append(index)
    return tuple(tuple(group) for group in members.values() if len(group) > 1)
