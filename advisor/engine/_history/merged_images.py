"""Merge the images of a run with new ones: some are learnt from, and some judge both files.

:func:`advisor.update` calls :func:`merge_images` before it searches, and :func:`write_merged`
writes the manifest that the new search reads. The task reads the images and their labels
(:class:`.Growth`). An image of the run never changes its part. The draw of new images depends on
their bytes alone, so the same images are divided in the same way again.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from advisor.core import UsageError, plural
from advisor.datasets import SplitPart
from advisor.engine import _growth as growth

if TYPE_CHECKING:
    from advisor.datasets import LabelledImage
    from advisor.engine._history.loaded_run import LoadedRun

SHARES_OF_NEW = ((SplitPart.HOLDOUT, 0.3), (SplitPart.VALIDATION, 0.15))
"""Shares of the new images of each label that judge both files, enough to show a gain on a few
hundred, and that choose among the forms of the new file.
"""

WRITTEN_PARTS: Mapping[str, str] = {
    SplitPart.HOLDOUT: "test",
    SplitPart.VALIDATION: "val",
    SplitPart.TRAIN: "train",
}


@dataclass(frozen=True)
class MergedImages:
    """The images of a run with new ones, and how many of the new ones were left out, and why."""

    images: tuple[growth.GrownImage, ...]
    new_labels: tuple[str, ...]  # labels that the run did not know
    known: int  # new files that the run has with the same labels
    returned: int  # new files that show the same as an image of the old hold-out
    corrected: tuple[Path, ...]  # images of the run whose labels the new files correct
    notes: tuple[str, ...] = ()  # sentences for the answer

    @property
    def added(self) -> int:
        """Number of new images that are learnt from."""
        return sum(image.new and image.part != SplitPart.HOLDOUT for image in self.images)

    def list_holdout(self, new: bool) -> list[growth.GrownImage]:
        """Return the images that judge both files: the new ones, or those of the old hold-out."""
        judging = []
        for image in self.images:
            if image.part == SplitPart.HOLDOUT and image.new is new:
                judging.append(image)
        return judging


def merge_images(earlier: LoadedRun, data: Path, task_growth: growth.Growth) -> MergedImages:
    """Return the images of a run together with new ones, each in one part.

    Images of the run keep their parts. A new file with the bytes of an old one is not added;
    other labels correct the old ones. A new image that shows the same as one of the old hold-out
    is left out, and one that shows the same as another old image goes to that one's part. Of the
    others, groups of near duplicates stay together.

    Raises:
        UsageError: images of the run are gone or changed, the new ones cannot be read, nothing is
            new, or a label of the run has another name.
    """
    from advisor.datasets import Pair

    read = task_growth.read(earlier, data)
    pairs = [(pair.first, pair.second) for pair in Pair.find_alike(read.thumbnails)]
    matched = _match_bytes(data, task_growth, read)
    before = read.labels[: read.of_run]
    read = replace(read, labels=matched.labels)
    merged = []
    for place, image in enumerate(read.images[: read.of_run]):
        merged.append(growth.GrownImage(image.path, read.labels[place], image.part, image.group))
    claims = _claim_copies(read, pairs)
    returned = 0
    free: list[int] = []
    for place in range(read.of_run, len(read.images)):
        part = claims.get(place, "")
        # It is there already, in the part of the run's image.
        if place in matched.known:
            continue
        if part == SplitPart.HOLDOUT:
            returned += 1
        elif part:
            image = read.images[place]
            merged.append(
                growth.GrownImage(image.path, read.labels[place], part, image.group, True)
            )
        else:
            free.append(place)
    merged += _divide_images(read, free, pairs)
    _require_names(data, task_growth, read.named, before, merged)
    if not any(image.new for image in merged) and not matched.corrected:
        raise _refuse_nothing_new(data, matched.unchanged, returned)
    learnt = task_growth.list_learnable([image.labels for image in merged])
    return MergedImages(
        images=tuple(merged),
        new_labels=tuple(sorted(learnt - task_growth.list_learnable(before))),
        known=matched.unchanged,
        returned=returned,
        corrected=matched.corrected,
        notes=read.notes,
    )


def _require_names(
    data: Path,
    task_growth: growth.Growth,
    named: frozenset[str],
    before: Sequence[growth.LabelSet],
    merged: Sequence[growth.GrownImage],
) -> None:
    """Refuse new images whose labels are those of the run under other names."""
    old = _list_places(before)
    new = _list_places([image.labels for image in merged if image.new])
    _require_known_label(data, task_growth, set(old), set(new))
    of_run = [image.labels for image in merged if not image.new]
    _require_same_names(data, task_growth, named, old, _list_places(of_run))


def _list_places(labels: Sequence[growth.LabelSet]) -> dict[str, set[int]]:
    """Return the places of the images that have each label."""
    places: dict[str, set[int]] = {}
    for place, image in enumerate(labels):
        for label in image.there:
            places.setdefault(label, set()).add(place)
    return places


def _refuse_nothing_new(data: Path, known: int, returned: int) -> UsageError:
    """Return the error of new files that are all known or returned, see :class:`MergedImages`."""
    reasons = []
    if known:
        reasons.append(f"{plural(known, 'file is', 'files are')} in the run with this label")
    if returned:
        reasons.append(f"{plural(returned, 'file shows', 'files show')} the same as its hold-out")
    return UsageError(
        f"'{data}' has nothing new: {' and '.join(reasons) or 'all of it is in the run'}",
        "add images that the run has not seen, or correct labels",
    )


def _claim_copies(read: growth.GrowingSet, pairs: Iterable[tuple[int, int]]) -> dict[int, str]:
    """Return the part that claims each new image which shows the same as an image of the run,
    by its place.
    """
    claims: dict[int, str] = {}
    # The hold-out claims first: an image that is learnt from must not judge.
    for old, new in pairs:
        if old < read.of_run <= new:
            part = read.images[old].part
            claims[new] = min(part, claims.get(new, part), key=growth.CLAIMING_PARTS.index)
    return claims


def _require_same_names(
    data: Path,
    task_growth: growth.Growth,
    named: frozenset[str],
    before: Mapping[str, set[int]],
    after: Mapping[str, set[int]],
) -> None:
    """Refuse corrections by which a new label takes the place of an old one: it was renamed.

    ``before`` and ``after`` have the places of the images of the run with each label. By its old
    names the earlier file would be wrong everywhere. Where an image may have several labels, the
    new images need not say that the old one is gone: it is enough that they do not name it.
    """
    word = task_growth.words.label
    for old, places in sorted(before.items()):
        for name in sorted(after.keys() - before.keys()):
            is_gone = old not in after and places <= after[name]
            has_twin = old not in named and places == after[name]
            if is_gone or has_twin:
                raise UsageError(
                    f"'{data}': all images of the {word} '{old}' of the run are '{name}' now: the"
                    f" {word} was renamed",
                    "give it the name of the run, or search again with all images",
                )


def _require_known_label(
    data: Path, task_growth: growth.Growth, known: set[str], labels: set[str]
) -> None:
    """Refuse several new labels without an old one:
    they are probably the old ones under other names.
    """
    words = task_growth.words
    if len(labels) > 1 and not labels & known:
        raise UsageError(
            f"'{data}': none of its {words.labels} ({', '.join(sorted(labels))}) is a"
            f" {words.label} of the run: {', '.join(sorted(known))}",
            f"give them the names of the run; to add several new {words.labels}, add images of"
            " an old one as well",
        )


@dataclass(frozen=True)
class _Matched:
    """New files that have the bytes of other files."""

    labels: tuple[growth.LabelSet, ...]  # of all images, corrected by the new files
    known: frozenset[int]  # places of new files that the run has
    unchanged: int  # number of these that say nothing new
    corrected: tuple[Path, ...]  # images of the run


def _match_bytes(data: Path, task_growth: growth.Growth, read: growth.GrowingSet) -> _Matched:
    """Return the labels of all images, and which new files are those of the run."""
    labels = list(read.labels)
    # The places of the images with the same bytes.
    alike: dict[str, list[int]] = {}
    for place, image in enumerate(read.images):
        alike.setdefault(image.sha256, []).append(place)
    known: set[int] = set()
    corrected: list[Path] = []
    unchanged = 0
    for places in alike.values():
        new = [place for place in places if place >= read.of_run]
        if not new:
            continue
        stated = _join_labels(data, task_growth, read, new)
        for place in new:
            labels[place] = stated
        changed = []
        # A file that the run has twice is corrected twice.
        for place in set(places).difference(new):
            known.update(new)
            labels[place] = stated.correct(read.labels[place])
            if labels[place] != read.labels[place]:
                changed.append(read.images[place].path)
        corrected += changed
        if not changed and known.issuperset(new):
            unchanged += len(new)
    return _Matched(tuple(labels), frozenset(known), unchanged, tuple(corrected))


def _join_labels(
    data: Path, task_growth: growth.Growth, read: growth.GrowingSet, places: Sequence[int]
) -> growth.LabelSet:
    """Return what new files of the same bytes say together; refuse files that contradict
    each other: nothing tells which of them is right.
    """
    first, *others = places
    stated = read.labels[first]
    for place in others:
        if stated.contradicts(read.labels[place]):
            names = []
            for labels in (stated, read.labels[place]):
                names.append(repr(labels.sentence))
            raise UsageError(
                f"'{data}' has {len(places)} files with the bytes of a file of another"
                f" {task_growth.words.corrected}: '{read.images[place].path.name}' is"
                f" {' and '.join(sorted(names))}",
                f"leave each image once, with its {task_growth.words.corrected}",
            )
        stated = read.labels[place].correct(stated)
    return stated


def _divide_images(
    read: growth.GrowingSet, free: Sequence[int], pairs: Iterable[tuple[int, int]]
) -> list[growth.GrownImage]:
    """Return new images with their parts:
    of each label a share for the hold-out and the validation.

    Images that show the same, or that the user put in one group, stay together.
    The draw depends on the bytes alone.
    """
    images = read.images
    units = _join_units(images, free, pairs)
    rarest = _name_rarest(read, free)
    total = Counter(rarest.values())
    taken: Counter[tuple[str, str]] = Counter()
    divided: list[growth.GrownImage] = []
    for unit in sorted(units, key=lambda places: _draw_key(images[places[0]].sha256)):
        label = rarest[unit[0]]
        part = SplitPart.TRAIN
        for name, share in SHARES_OF_NEW:
            # A unit that is too large for the rest of a share is learnt from:
            # the shares are never exceeded.
            if taken[label, name] + len(unit) <= share * total[label]:
                part = name
                break
        taken[label, part] += len(unit)
        for place in unit:
            image = images[place]
            divided.append(
                growth.GrownImage(image.path, read.labels[place], part, image.group, True)
            )
    return divided


def _name_rarest(read: growth.GrowingSet, free: Sequence[int]) -> dict[int, str]:
    """Return the label of each new image that the fewest of them have; empty for no label.

    Parts that share the rare labels share the frequent ones, too.
    """
    counts = Counter[str]()
    # Of the new images alone: their shares are drawn.
    for place in free:
        counts.update(read.labels[place].there)
    rarest = {}
    for place in free:
        by_count = sorted(read.labels[place].there, key=lambda label: (counts[label], label))
        rarest[place] = by_count[0] if by_count else ""
    return rarest


def _join_units(
    images: Sequence[LabelledImage], free: Sequence[int], pairs: Iterable[tuple[int, int]]
) -> list[list[int]]:
    """Return the places of new images in units that stay together:
    copies, and groups of the user.
    """
    # The images of a unit lead to one of them, from each through the one that it was joined to.
    leader = {place: place for place in free}

    def find_leader(place: int) -> int:
        while leader[place] != place:
            place = leader[place]
        return place

    linked = []
    for first, second in pairs:
        if {first, second} <= leader.keys():
            linked.append((first, second))
    first_of_group: dict[str, int] = {}
    for place in free:
        group = images[place].group
        if group:
            linked.append((first_of_group.setdefault(group, place), place))
    for first, second in linked:
        leader[find_leader(second)] = find_leader(first)
    units: dict[int, list[int]] = {}
    for place in free:
        units.setdefault(find_leader(place), []).append(place)
    return list(units.values())


def _draw_key(sha256: str) -> str:
    """Return a key that orders images at random, and always in the same way."""
    return hashlib.sha256(f"update {sha256}".encode()).hexdigest()


def write_merged(merged: MergedImages, path: Path, task_growth: growth.Growth) -> Path:
    """Write a manifest of the images with their parts, and return its path;
    its folder is made if need be.
    """
    from advisor.datasets import write_rows

    rows: list[dict[str, str]] = []
    for image in merged.images:
        stated = {
            # Absolute, because the manifest is in another folder than the images.
            "path": str(image.path.resolve()),
            "split": WRITTEN_PARTS[image.part],
            "group": image.group,
        }
        for row in task_growth.list_rows(image.labels):
            rows.append({**stated, **row})
    # What is wrong with the folder is said by the error of the file.
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
    columns = dict.fromkeys(chain.from_iterable(rows))
    write_rows(path, list(columns), rows, "--out")
    return path
