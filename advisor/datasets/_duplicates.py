"""Find near duplicates among the images of a data set, by a perceptual hash of their thumbnails.

Checks report the pairs, and a split keeps them on one side. A pair more or less changes splits of
existing data, and so their results. ``_cropped_copies.py`` finds crops, which needs a network.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from hashlib import sha256
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from advisor.datasets._dataset import members_of

THUMBNAIL = 32
BITS = 64
# Largest number of differing bits, of 64; unrelated images differ in 32 on average.
MAX_DISTANCE = 14
MIN_CORRELATION = 0.97  # Least correlation of the grey thumbnails of near duplicates
# The same where one is cropped, mirrored or turned: these are more ways to be alike by chance.
MIN_CROPPED = 0.98
CROPPED_FROM = 0.8  # Correlation from which on crops are tried
CROPS = (31, 30)  # Sides of the crops in pixels of a thumbnail: 3 and 6 % less
PLACES = 5  # Places of a crop from the left, and from the top, evenly between the edges
SYMMETRIES = (
    (0, False),
    (1, False),
    (2, False),
    (3, False),
    (0, True),
    (1, True),
    (2, True),
    (3, True),
)
"""Quarter turns, and whether the image is mirrored first; the first one leaves it as it is."""

_LOW = 9  # Lowest frequencies in each direction; the hash takes 64 of them
_BLOCK = 2048  # Images that are compared at once, to bound the memory
_CROPPED = 1024  # Images whose crops are kept for the next comparison: 200 kB each

MANY = 15_000  # Images from which on hashes are not all compared, but looked up by their pieces
PIECES = 5  # Pieces of a hash
PIECE = 12  # Bits of a piece

_BITS = [1 << bit for bit in range(PIECE)]
_CHANGES = (0, *_BITS, *(first ^ second for first, second in combinations(_BITS, 2)))
"""Changes of a piece in two bits at most."""

_FIXED = 2.0**-22  # Pillow's smallest weight of a pixel


@dataclass(frozen=True)
class Pair:
    """Two similar images by index (first < second), and the correlation of their thumbnails."""

    first: int
    second: int
    similarity: float
    # One is mirrored or turned, so that it may be of another class: an arrow to the left.
    turned: bool = False

    @classmethod
    def find_alike(cls, thumbnails: NDArray[np.uint8]) -> tuple[Pair, ...]:
        """Return every pair of similar or equal images, sorted by index, from grey thumbnails.

        A perceptual hash compares the low frequencies of a small grey version with their median
        (pHash; Zauner, "Implementation and Benchmarking of Perceptual Image Hash Functions",
        2010). Resizing, recompression, crops of a few percent and mild changes of brightness keep
        it. Each image is compared with the eight symmetries of the others. A match is confirmed on
        the small grey versions. Of equal images, the first one stands for all: each other one is
        paired with it, and with the first of those that are similar.
        """
        digests = (sha256(thumbnail.tobytes()).digest() for thumbnail in thumbnails)
        groups_of_copies = list(members_of(digests).values())
        pairs = []
        firsts = []
        for members in groups_of_copies:
            first, *copies = members
            firsts.append(first)
            pairs += [cls(first, copy, 1.0) for copy in copies]
        # Of equal images only the first is compared: all pairs of many copies would be far too
        # many.
        distinct = thumbnails
        if len(firsts) != len(thumbnails):
            distinct = thumbnails[firsts]
        for pair in _find_near(distinct):
            copies = groups_of_copies[pair.first]
            others = groups_of_copies[pair.second]
            pairs += [_order_pair(copies[0], other, pair) for other in others]
            pairs += [_order_pair(copy, others[0], pair) for copy in copies[1:]]
        return tuple(sorted(pairs, key=_order_of_pair))

    @staticmethod
    def group_images(pairs: Sequence[Pair], count: int) -> tuple[tuple[int, ...], ...]:
        """Return groups of images that are connected by pairs; single images are left out."""
        from scipy.sparse import coo_array
        from scipy.sparse.csgraph import connected_components

        links = [pair.first for pair in pairs], [pair.second for pair in pairs]
        graph = coo_array((np.ones(len(pairs)), links), (count, count))
        _, names = connected_components(graph, directed=False)
        return tuple(tuple(group) for group in members_of(names).values() if len(group) > 1)


def compute_perceptual_hashes(thumbnails: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """Return the 64-bit hash of each grey thumbnail, uint64 (N,), of uint8 (N, side, side)."""
    from scipy.fft import dctn

    frequencies = dctn(thumbnails.astype(np.float32), axes=(1, 2), norm="ortho")
    low = frequencies[:, :_LOW, :_LOW].reshape(len(thumbnails), -1)
    # The first frequency is the brightness of the whole image, which a copy may have changed.
    pattern = low[:, 1 : BITS + 1]
    bits = pattern > np.median(pattern, axis=1, keepdims=True)
    packed = np.packbits(bits, axis=1).view(">u8").reshape(-1)
    return np.asarray(packed, np.uint64)


def _order_pair(first: int, second: int, pair: Pair) -> Pair:
    return replace(pair, first=min(first, second), second=max(first, second))


def _order_of_pair(pair: Pair) -> tuple[int, int]:
    return pair.first, pair.second


def _find_near(thumbnails: NDArray[np.uint8]) -> tuple[Pair, ...]:
    """Return every pair of similar images, sorted, by the symmetry in which it is most alike."""
    hashes = _compute_hashes(thumbnails)
    best: dict[tuple[int, int], Pair] = {}
    for symmetry in SYMMETRIES:
        changed = transform_thumbnails(thumbnails, symmetry)
        turned = symmetry != SYMMETRIES[0]
        others = _compute_hashes(changed) if turned else hashes
        # To look hashes up by their pieces is slower for few images.
        find_close = find_close_pairs if len(hashes) > MANY else list_all_close
        for first, second in sorted(find_close(hashes, others)):
            value = compute_likeness(thumbnails[first], changed[second], turned)
            known = best.get((first, second))
            if value and (known is None or value > known.similarity):
                best[first, second] = Pair(first, second, round(value, 4), turned)
    return tuple(sorted(best.values(), key=_order_of_pair))


def _compute_hashes(thumbnails: NDArray[np.uint8]) -> NDArray[np.uint64]:
    # In blocks, as intermediate values need eight times the memory.
    starts = range(0, len(thumbnails), _BLOCK)
    parts = [compute_perceptual_hashes(thumbnails[start : start + _BLOCK]) for start in starts]
    return np.concatenate([np.zeros(0, np.uint64), *parts])


def transform_thumbnails(
    thumbnails: NDArray[np.uint8], symmetry: tuple[int, bool]
) -> NDArray[np.uint8]:
    """Return thumbnails mirrored or turned by one of :data:`SYMMETRIES`, uint8 (N, side, side)."""
    turns, mirrored = symmetry
    images = thumbnails
    if mirrored:
        images = thumbnails[:, :, ::-1]
    return np.ascontiguousarray(np.rot90(images, turns, axes=(1, 2)))


def compute_likeness(
    first: NDArray[np.uint8], second: NDArray[np.uint8], turned: bool = False
) -> float:
    """Return the correlation of two near duplicates, of which one may be cropped; else 0.

    ``turned``: one was mirrored or turned before.
    """
    value = correlate_thumbnails(first, second)
    if value >= (MIN_CROPPED if turned else MIN_CORRELATION) or value < CROPPED_FROM:
        return value if value >= MIN_CORRELATION else 0.0
    # Either of the two may be the crop.
    value = max(_match_best_crop(first, second), _match_best_crop(second, first))
    return value if value >= MIN_CROPPED else 0.0


def _match_best_crop(whole: NDArray[np.uint8], other: NDArray[np.uint8]) -> float:
    """Return the best correlation of slightly smaller parts of a thumbnail with another one.

    The other one must not be flat.
    """
    values = other.reshape(-1).astype(np.float32)
    values -= values.mean()
    return float((_make_crops(whole.tobytes()) @ values).max() / np.linalg.norm(values))


@lru_cache(maxsize=_CROPPED)
def _make_crops(content: bytes) -> NDArray[np.float32]:
    """Return slightly smaller parts of a thumbnail, enlarged to its size, as unit vectors (C, N).

    Their mean is 0. They are enlarged as Pillow does, to the last bit, in a quarter of its time:
    50 images at once in place of one.
    """
    pixels = np.frombuffer(content, np.uint8).reshape(THUMBNAIL, THUMBNAIL).astype(np.float64)
    crops = []
    for across in _map_enlarging():
        rows = _round_pixels(pixels @ across.transpose(0, 2, 1))
        whole = _round_pixels(across[None] @ rows[:, None])
        crops.append(whole.reshape(-1, THUMBNAIL**2))
    vectors = np.concatenate(crops).astype(np.float32)
    vectors -= vectors.mean(axis=1, keepdims=True)
    vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)
    return vectors


@cache
def _map_enlarging() -> tuple[NDArray[np.float64], ...]:
    """Return for each size of crops the weights of pixels in a line, (PLACES, N, N).

    They enlarge a part to the whole line, and are whole numbers of :data:`_FIXED`: Pillow's
    bilinear filter counts so (``Resample.c``).
    """
    pixels = np.arange(THUMBNAIL) + 0.5
    of_sizes = []
    for side in CROPS:
        centres = pixels * (side / THUMBNAIL) + np.linspace(0.0, THUMBNAIL - side, PLACES)[:, None]
        weights = np.maximum(0.0, 1.0 - np.abs(pixels - centres[..., None]))
        weights /= weights.sum(axis=-1, keepdims=True)
        of_sizes.append(np.floor(weights / _FIXED + 0.5))
    return tuple(of_sizes)


def _round_pixels(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.floor(sums * _FIXED + 0.5)


def list_all_close(
    hashes: NDArray[np.uint64], others: NDArray[np.uint64]
) -> Iterator[tuple[int, int]]:
    """Yield the places of close hashes in two arrays (first < second), comparing all in blocks."""
    for row in range(0, len(hashes), _BLOCK):
        for column in range(row, len(hashes), _BLOCK):
            differing = hashes[row : row + _BLOCK, None] ^ others[None, column : column + _BLOCK]
            distances = np.bitwise_count(differing)
            for first, second in np.argwhere(distances <= MAX_DISTANCE):
                if column + second > row + first:
                    yield row + int(first), column + int(second)


def find_close_pairs(
    hashes: NDArray[np.uint64], others: NDArray[np.uint64]
) -> set[tuple[int, int]]:
    """Return the places of close hashes in two arrays, the same as :func:`list_all_close`.

    Of :data:`PIECES` pieces of two such hashes, one differs in two bits at most: three bits in
    each would be 15. So a hash is compared with those alone that have nearly the same piece.
    Source: M. Norouzi, A. Punjani, D. Fleet, "Fast Search in Hamming Space with Multi-Index
    Hashing", CVPR 2012.
    """
    pairs = set[tuple[int, int]]()
    for number in range(PIECES):
        places_of_others = _index_pieces(others, number)
        for key, places in _index_pieces(hashes, number).items():
            nearly = [key ^ change for change in _CHANGES]
            near = []
            for piece in nearly:
                if piece in places_of_others:
                    near.append(places_of_others[piece])
            if near:
                pairs |= _compare_places(hashes, others, places, np.concatenate(near))
    return pairs


def _index_pieces(hashes: NDArray[np.uint64], number: int) -> dict[int, NDArray[np.intp]]:
    """Return the places of the hashes that have each value of a piece."""
    pieces = (hashes >> np.uint64(number * PIECE)) & np.uint64(2**PIECE - 1)
    order = np.argsort(pieces, kind="stable")
    values, starts = np.unique(pieces[order], return_index=True)
    return dict(zip(values.tolist(), np.split(order, starts[1:]), strict=True))


def _compare_places(
    hashes: NDArray[np.uint64],
    others: NDArray[np.uint64],
    places: NDArray[np.intp],
    near: NDArray[np.intp],
) -> set[tuple[int, int]]:
    pairs = set[tuple[int, int]]()
    for start in range(0, len(places), _BLOCK):
        block = places[start : start + _BLOCK]
        distances = np.bitwise_count(hashes[block, None] ^ others[None, near])
        for row, column in np.argwhere(distances <= MAX_DISTANCE):
            first = int(block[row])
            second = int(near[column])
            if first < second:
                pairs.add((first, second))
    return pairs


def correlate_thumbnails(first: NDArray[np.uint8], second: NDArray[np.uint8]) -> float:
    """Return the correlation of two grey thumbnails; 1 for two flat ones of the same level."""
    centred = first.astype(np.float64) - first.mean()
    other = second.astype(np.float64) - second.mean()
    scale = float(np.sqrt((centred**2).sum() * (other**2).sum()))
    # Images of one colour have no correlation, so their level decides.
    if scale < 1e-9:
        if np.abs(first.astype(int) - second).max() <= 2:
            return 1.0
        return 0.0
    return float((centred * other).sum()) / scale
