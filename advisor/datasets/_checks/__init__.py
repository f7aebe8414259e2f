"""Check a data set for faults before anything is learnt from it.

``advisor data check`` prints the findings of :func:`check_survey`; a search calls
:func:`require_usable`, which raises an error for a set below its minimum. A function
``report_...`` yields the findings of one kind. Splits use :func:`find_copies` and
:func:`find_leaks`, too. No check changes an image or a label.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path

from advisor.core import UsageError, listed
from advisor.datasets._checks.findings import (
    Finding,
    Kind,
    list_paths,
    phrase_count,
    quote_small_classes,
)
from advisor.datasets._checks.image_quality import check_captures, report_sizes
from advisor.datasets._dataset import Dataset, members_of
from advisor.datasets._duplicates import Pair
from advisor.datasets._parts import PARTS
from advisor.datasets._survey import Survey

_KEPT_LONGEST = PARTS
"""Parts in the order of use: of copies in several parts, the one in the last part stays."""

Group = tuple[int, ...]

GOOD_CLASS = 50  # With fewer images, a class has fewer than ten in the hold-out
MAX_IMBALANCE = 5.0
MIN_IMAGES_PER_CLASS = 8
MAX_UNREADABLE_SHARE = 0.2
NUMBER = re.compile(r"\d+")


def report_repeats(dataset: Dataset, pairs: Sequence[Pair]) -> Iterator[Finding]:
    """Yield findings on repeated images, each group once and by its most serious fault."""
    alike = find_copies(dataset, pairs)
    across: list[Group] = []
    exact: list[Group] = []
    near: list[Group] = []
    for group in alike:
        images = [dataset.images[index] for index in group]
        # Each group has one finding: a copy in two classes is the graver fault.
        if len({image.label for image in images}) > 1:
            across.append(group)
        elif len({image.sha256 for image in images}) == 1:
            exact.append(group)
        else:
            near.append(group)
    yield from _report_across_classes(dataset, across)
    yield from _report_across_parts(dataset, alike)
    yield from _report_within(dataset, Kind.EXACT_DUPLICATES, exact)
    yield from _report_within(dataset, Kind.NEAR_DUPLICATES, near)


def find_copies(dataset: Dataset, pairs: Sequence[Pair]) -> tuple[Group, ...]:
    """Return the groups of indices of images that are copies of one another.

    A mirrored or turned copy in another class is none,
    as of an arrow to the left and one to the right.
    """
    labels = dataset.labels
    copies = []
    for pair in pairs:
        is_same_class = labels[pair.first] == labels[pair.second]
        if is_same_class or not pair.turned:
            copies.append(pair)
    return Pair.group_images(copies, len(dataset.images))


def find_copies_of_learnt(
    alike: Sequence[Sequence[int]], part_of: Mapping[int, str]
) -> tuple[int, ...]:
    """Return the images of validation and the hold-out that copy images which are learnt from.

    ``alike`` are groups of copies, and ``part_of`` has the part of each image by its index. The
    hold-out judges what has learnt from validation, too.
    """
    later: list[int] = []
    for group in alike:
        places = {}
        for index in group:
            if index in part_of:
                places[index] = PARTS.index(part_of[index])
        first = min(places.values(), default=0)
        # The part that learns first keeps its image:
        # the later one would be judged by what was learnt.
        later += [index for index, place in places.items() if place > first]
    return tuple(sorted(later))


def find_leaks(dataset: Dataset, together: Sequence[Sequence[int]]) -> tuple[Group, ...]:
    """Return those of some groups that the user's own split puts into several parts."""
    leaks = []
    for group in together:
        # An image without a part is divided later, so it leaks nothing yet.
        parts = {dataset.images[index].part for index in group} - {""}
        if len(parts) > 1:
            leaks.append(tuple(group))
    return tuple(leaks)


def list_linked_groups(dataset: Dataset, pairs: Sequence[Pair]) -> tuple[Group, ...]:
    """Return the sets of images that no split may part: similar images, and the user's groups."""
    by_name = members_of(image.group for image in dataset.images)
    # The images without a group have an empty name: they are no group together.
    by_name.pop("", None)
    named_groups = []
    for group in by_name.values():
        if len(group) > 1:
            named_groups.append(tuple(group))
    return (*Pair.group_images(pairs, len(dataset.images)), *named_groups)


def _report_across_classes(dataset: Dataset, repeats: Sequence[Group]) -> Iterator[Finding]:
    if repeats:
        groups_of_paths = list_paths(dataset, repeats)
        notes = []
        for group in repeats:
            names = [dataset.classes[dataset.images[index].label] for index in group]
            notes.append(" and ".join(dict.fromkeys(names)))
        yield Finding(
            Kind.SAME_IMAGE_TWO_CLASSES,
            f"{phrase_count(len(repeats), 'image lies', 'images lie')} in more than one class",
            "keep one of each, in the right class; only you know which, so --fix leaves all of"
            " them out. If images may have several labels, a search for image tags reads these"
            " folders",
            groups_of_paths,
            tuple(notes),
            tuple(chain.from_iterable(groups_of_paths)),
        )


def _report_across_parts(dataset: Dataset, alike: Sequence[Group]) -> Iterator[Finding]:
    leaking = find_leaks(dataset, alike)
    if leaking:
        yield Finding(
            Kind.LEAK,
            f"{phrase_count(len(leaking), 'image lies', 'images lie')} in more than one part of"
            " the split",
            "keep one of each: a test that shares images with training gives too high an accuracy",
            list_paths(dataset, leaking),
            tuple(_name_parts(dataset, group) for group in leaking),
            _list_superfluous_paths(dataset, leaking),
        )
    shared = find_leaks(dataset, list_linked_groups(dataset, ()))
    if shared:
        notes = []
        for group in shared:
            name = dataset.images[group[0]].group
            notes.append(f"group '{name}': {_name_parts(dataset, group)}")
        yield Finding(
            Kind.LEAK,
            f"{phrase_count(len(shared), 'group lies', 'groups lie')} in more than one part of the"
            " split",
            "put each group into one part: otherwise the accuracy is too high",
            list_paths(dataset, shared),
            tuple(notes),
        )


def _report_within(dataset: Dataset, kind: Kind, repeats: Sequence[Group]) -> Iterator[Finding]:
    if not repeats:
        return
    if kind is Kind.EXACT_DUPLICATES:
        images = phrase_count(
            len(repeats), "image occurs twice or more", "images occur twice or more"
        )
    else:
        images = phrase_count(len(repeats), "group of near copies", "groups of near copies")
    paths = _list_superfluous_paths(dataset, repeats)
    message = f"{images}, {phrase_count(len(paths), 'file')} too many"
    advice = "keep one of each; a search keeps copies in one part of its split"
    yield Finding(kind, message, advice, list_paths(dataset, repeats), (), paths)


def _list_superfluous_paths(dataset: Dataset, repeats: Sequence[Group]) -> tuple[Path, ...]:
    """Return the paths of the images that are too many, group by group."""
    superfluous = chain.from_iterable(_list_superfluous(dataset, group) for group in repeats)
    return tuple(dataset.images[index].path for index in superfluous)


def _list_superfluous(dataset: Dataset, group: Group) -> list[int]:
    """Return all images of a group but the one to keep.

    It is the one of the last part, then the largest file, then the first image.
    """
    order = ("", *_KEPT_LONGEST)

    def rank_image(index: int) -> tuple[int, int, int]:
        image = dataset.images[index]
        size_bytes, _ = image.stamp
        # The size of a file stands for its quality:
        # of two copies, the smaller one was compressed again.
        return order.index(image.part), size_bytes, -index

    best = max(group, key=rank_image)
    return [index for index in group if index != best]


def _name_parts(dataset: Dataset, group: Group) -> str:
    parts = [dataset.images[index].part for index in group]
    return " and ".join(dict.fromkeys(filter(None, parts)))


def check_survey(survey: Survey, alike: Sequence[Pair] | None = None) -> tuple[Finding, ...]:
    """Return the findings about a set, the most serious first.

    ``alike`` are the pairs of similar images; None: they are searched.
    """
    dataset = survey.dataset
    pairs = Pair.find_alike(survey.thumbnails) if alike is None else alike
    return (
        *report_unreadable(dataset),
        *report_spellings(dataset.spellings),
        *_report_missing_classes(dataset),
        *report_repeats(dataset, pairs),
        *_report_class_sizes(dataset),
        *report_sizes(survey),
        *check_captures(survey),
    )


def check_images(
    survey: Survey, alike: Sequence[Pair], faults: Iterable[Finding]
) -> tuple[Finding, ...]:
    """Return the findings about images whose labels the caller has judged: ``faults``.

    ``alike`` are pairs of similar images, by index.
    """
    return (
        *report_unreadable(survey.dataset),
        *report_repeats(survey.dataset, alike),
        *faults,
        *report_sizes(survey),
    )


def report_unreadable(dataset: Dataset) -> Iterator[Finding]:
    """Yield a finding on the files that were left out."""
    if dataset.rejected:
        # Reasons that name the rows of a table differ in their numbers alone.
        alike: dict[str, list[str]] = {}
        for row in dataset.rejected:
            alike.setdefault(NUMBER.sub("", row.reason), []).append(row.reason)
        groups = sorted(alike.values(), key=len, reverse=True)[:3]
        texts = []
        for group in groups:
            example = group[0]
            if len(set(group)) > 1:
                example = f"such as {example}"
            texts.append(f"{example} ({len(group)})")
        listed = "; ".join(texts)
        yield Finding(
            Kind.UNREADABLE,
            f"{phrase_count(len(dataset.rejected), 'file')} cannot be used: {listed}",
            "replace, correct or remove them",
            tuple((row.path,) for row in dataset.rejected),
            tuple(row.reason for row in dataset.rejected),
            tuple(row.path for row in dataset.rejected),
        )


def report_spellings(written: Sequence[Sequence[str]]) -> Iterator[Finding]:
    """Yield a finding on each class that has several spellings, which ``written`` has."""
    for group in written:
        yield Finding(
            Kind.SPELLING,
            f"the labels {_quote_names(group)} differ only by case or blanks",
            "a search refuses them; --fix writes one name for all",
        )


def _quote_names(names: Sequence[str]) -> str:
    return " and ".join(f"'{name}'" for name in names)


def _report_missing_classes(dataset: Dataset) -> Iterator[Finding]:
    """Yield classes without an image in a part of the user's split."""
    present = Counter((image.part, image.label) for image in dataset.images)
    for part in PARTS:
        missing = []
        for label, name in enumerate(dataset.classes):
            if not present[part, label]:
                missing.append(f"'{name}'")
        if missing and any(named_part == part for named_part, _ in present):
            yield Finding(
                Kind.SPLIT,
                f"the {part} part has no image of {listed(missing)}",
                "put images of these classes into the part, or remove the split: one is drawn"
                " then",
            )


def _report_class_sizes(dataset: Dataset) -> Iterator[Finding]:
    rows = sorted(zip(dataset.counts, dataset.classes, strict=True))
    small = quote_small_classes([(name, count) for count, name in rows], GOOD_CLASS)
    if small:
        yield Finding(
            Kind.SMALL_CLASS,
            f"fewer than {GOOD_CLASS} images in {listed(small)}",
            "take more images of these classes; a search refuses classes with fewer than"
            f" {MIN_IMAGES_PER_CLASS}",
        )
    fewest, rare = rows[0]
    most, common = rows[-1]
    if most > MAX_IMBALANCE * max(fewest, 1):
        yield Finding(
            Kind.IMBALANCE,
            f"'{common}' has {most / max(fewest, 1):.1f} times as many images as '{rare}' ({most}"
            f" and {fewest})",
            f"take more images of '{rare}'; the report has the figures of each class",
        )


def require_usable(dataset: Dataset) -> None:
    """Check that a model can be trained and scored on a data set.

    Raises UsageError for labels that differ by case or blanks, a class with fewer than
    ``MIN_IMAGES_PER_CLASS`` readable images, or more than ``MAX_UNREADABLE_SHARE`` unreadable
    files.
    """
    require_readable(dataset, dataset.spellings)
    rows = zip(dataset.classes, dataset.counts, strict=True)
    small = quote_small_classes(rows, MIN_IMAGES_PER_CLASS)
    if small:
        raise UsageError(
            f"--data: fewer than {MIN_IMAGES_PER_CLASS} readable images in {listed(small)}",
            f"add images (at least {MIN_IMAGES_PER_CLASS} a class, better 50) or remove the class",
        )


def require_readable(dataset: Dataset, written: Sequence[Sequence[str]]) -> None:
    """Refuse a set of which too many files are unreadable, or a class has several spellings.

    ``written`` has the spellings of each such class.
    """
    if written:
        spellings = "; ".join(map(_quote_names, written[:3]))
        raise UsageError(
            f"--data: the classes {spellings} differ only by case or blanks",
            "merge them under one name; advisor data check --fix writes a manifest that does",
        )
    bad = len(dataset.rejected)
    total = len(dataset.rejected) + len(dataset.images)
    if bad > MAX_UNREADABLE_SHARE * total:
        examples = []
        for row in dataset.rejected[:3]:
            examples.append(f"'{dataset.show_path(row.path)}': {row.reason}")
        raise UsageError(
            f"--data: {bad} of {total} images in '{dataset.root}' cannot be read"
            f" ({100 * bad / total:.0f} %, the limit is {100 * MAX_UNREADABLE_SHARE:.0f} %):"
            f" {'; '.join(examples)}",
            "replace or remove the unreadable files; was everything copied completely?",
        )
