"""What is wrong with a set of pictures, before anything is learnt from it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from statistics import median

from advisor.datasets.duplicates import Pair, groups, near_duplicates
from advisor.datasets.folder import Dataset
from advisor.datasets.looks import Look, looks

GOOD_CLASS = 50
"""Fewer pictures a class leave a hold-out of under ten."""

MAX_IMBALANCE = 5.0
DARK, BRIGHT = 40.0, 215.0
FLAT = 15.0
BLURRED = 0.02
"""A fifth of TrashNet's median (0.11); 3 % of its pictures lie below, all of them smooth or out of focus."""

POOR_JPEG = 50
SMALL_SIDE = 64
LONG_RATIO = 3.0
FEW = 0.01
"""A condition that fewer pictures than this share show is as good as absent from the set."""


class Kind(StrEnum):
    """What a finding is about."""

    UNREADABLE = "unreadable"
    EXACT_DUPLICATES = "exact duplicates"
    NEAR_DUPLICATES = "near duplicates"
    SAME_PICTURE_TWO_CLASSES = "same picture in two classes"
    SMALL_CLASS = "small class"
    IMBALANCE = "imbalance"
    SIZE = "size"
    CAPTURE = "capture conditions"


@dataclass(frozen=True)
class Finding:
    """One thing to look at.

    Attributes:
        kind: what it is about.
        message: one sentence with the figures.
        advice: what to do about it.
        groups: the pictures concerned; duplicates come as groups of the same picture, others one by one.
    """

    kind: Kind
    message: str
    advice: str
    groups: tuple[tuple[Path, ...], ...] = ()

    @property
    def pictures(self) -> tuple[Path, ...]:
        """The pictures of all groups."""
        return tuple(path for group in self.groups for path in group)


@dataclass(frozen=True)
class Check:
    """The result: findings, the pairs of alike pictures (indices into the dataset), and every picture's look."""

    findings: tuple[Finding, ...]
    pairs: tuple[Pair, ...]
    looks: tuple[Look, ...]


def check(dataset: Dataset, progress: Callable[[int, int], None] | None = None) -> Check:
    """Look at every picture once and say what stands out; nothing is changed.

    Args:
        dataset: what :func:`advisor.datasets.folder.read_folder` gave.
        progress: called with (pictures done, pictures).
    """
    seen, thumbnails = looks([picture.path for picture in dataset.pictures], progress)
    pairs = near_duplicates(thumbnails)
    findings = (
        *_unreadable(dataset),
        *_duplicates(dataset, pairs),
        *_classes(dataset),
        *_sizes(dataset, seen),
        *_capture(dataset, seen),
    )
    return Check(findings, pairs, seen)


def _unreadable(dataset: Dataset) -> Iterator[Finding]:
    if dataset.rejected:
        reasons = Counter(row.reason for row in dataset.rejected).most_common(3)
        listed = "; ".join(f"{reason} ({count})" for reason, count in reasons)
        yield Finding(
            Kind.UNREADABLE,
            f"{len(dataset.rejected)} files cannot be read: {listed}",
            "replace or remove them",
            tuple((row.path,) for row in dataset.rejected),
        )


def _duplicates(dataset: Dataset, pairs: Sequence[Pair]) -> Iterator[Finding]:
    alike = groups(pairs, len(dataset.pictures))
    mixed = [group for group in alike if len({dataset.pictures[index].label for index in group}) > 1]
    exact = _equal_files(dataset)
    known = {frozenset(group) for group in exact}
    near = [group for group in alike if group not in mixed and frozenset(group) not in known]
    within = [group for group in exact if len({dataset.pictures[index].label for index in group}) == 1]
    yield from _grouped(
        dataset,
        Kind.SAME_PICTURE_TWO_CLASSES,
        mixed,
        "pictures lie in more than one class",
        "keep one of each, rightly",
    )
    yield from _grouped(dataset, Kind.EXACT_DUPLICATES, within, "pictures lie there twice or more", "keep one of each")
    yield from _grouped(
        dataset,
        Kind.NEAR_DUPLICATES,
        near,
        "pictures have near copies",
        "keep one of each, or all on one side of a split",
    )


def _equal_files(dataset: Dataset) -> list[tuple[int, ...]]:
    by_hash: dict[str, list[int]] = defaultdict(list)
    for index, picture in enumerate(dataset.pictures):
        by_hash[picture.sha256].append(index)
    return [tuple(group) for group in by_hash.values() if len(group) > 1]


def _grouped(
    dataset: Dataset, kind: Kind, found: Sequence[tuple[int, ...]], what: str, advice: str
) -> Iterator[Finding]:
    if found:
        paths = tuple(tuple(dataset.pictures[index].path for index in group) for group in found)
        yield Finding(kind, f"{len(found)} {what}", advice, paths)


def _classes(dataset: Dataset) -> Iterator[Finding]:
    rows = sorted(zip(dataset.counts, dataset.classes, strict=True))
    small = [f"'{name}' ({count})" for count, name in rows if count < GOOD_CLASS]
    if small:
        yield Finding(
            Kind.SMALL_CLASS, f"fewer than {GOOD_CLASS} pictures in {', '.join(small)}", "take more pictures of them"
        )
    (fewest, rare), (most, common) = rows[0], rows[-1]
    if most > MAX_IMBALANCE * fewest:
        yield Finding(
            Kind.IMBALANCE,
            f"'{common}' has {most / fewest:.1f} times as many pictures as '{rare}' ({most} and {fewest})",
            f"take more pictures of '{rare}'; the figures a class are in the report",
        )


def _sizes(dataset: Dataset, seen: Sequence[Look]) -> Iterator[Finding]:
    small = [index for index, one in enumerate(seen) if min(one.width, one.height) < SMALL_SIDE]
    long = [i for i, one in enumerate(seen) if max(one.width, one.height) > LONG_RATIO * min(one.width, one.height)]
    yield from _singled(dataset, Kind.SIZE, small, f"have a side below {SMALL_SIDE} pixels", "take larger ones")
    yield from _singled(dataset, Kind.SIZE, long, f"are over {LONG_RATIO:.0f} times as long as wide", "crop them")
    middle = median(min(one.width, one.height) for one in seen)
    if middle < 224:
        yield Finding(
            Kind.SIZE,
            f"half of the pictures have a side below {middle + 1:.0f} pixels, less than most models take (224)",
            "use the originals if they are larger: a phone's camera gives thousands of pixels",
        )


def _capture(dataset: Dataset, seen: Sequence[Look]) -> Iterator[Finding]:
    tests: tuple[tuple[str, Callable[[Look], bool]], ...] = (
        ("very dark", lambda one: one.brightness < DARK),
        ("very bright", lambda one: one.brightness > BRIGHT),
        ("almost without contrast", lambda one: one.contrast < FLAT),
        ("blurred", lambda one: one.sharpness < BLURRED),
        (f"compressed below JPEG quality {POOR_JPEG}", lambda one: (one.jpeg_quality or 100) < POOR_JPEG),
    )
    absent = []
    for name, holds in tests:
        found = [index for index, one in enumerate(seen) if holds(one)]
        yield from _singled(dataset, Kind.CAPTURE, found, f"are {name}", "look whether the subject can be seen")
        if len(found) < FEW * len(seen):
            absent.append(name)
    if absent:
        yield Finding(
            Kind.CAPTURE,
            f"under {100 * FEW:.0f} % of the pictures are {', '.join(absent)}, as a phone's often are in use",
            "add such pictures, or train with capture augmentation and watch the robust accuracy",
        )


def _singled(dataset: Dataset, kind: Kind, indices: Sequence[int], what: str, advice: str) -> Iterator[Finding]:
    if indices:
        share = 100 * len(indices) / len(dataset.pictures)
        paths = tuple((dataset.pictures[index].path,) for index in indices)
        yield Finding(kind, f"{len(indices)} pictures ({share:.1f} %) {what}", advice, paths)
