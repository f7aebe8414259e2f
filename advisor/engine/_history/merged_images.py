"""The images of a run together with new ones: which are learnt from, and which judge both files.

:func:`advisor.update` calls :func:`merge_images` before it searches, and :func:`write_merged`
writes the manifest that the new search reads. An image of the run never changes its part. The draw
of new images depends on their bytes alone, so the same images are divided in the same way again.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from advisor.core import UsageError, plural

if TYPE_CHECKING:
    from advisor.datasets import LabelledImage, Survey
    from advisor.engine._history.loaded_run import LoadedRun

HOLDOUT_OF_NEW = 0.3
"""Share of the new images of each class that judge both files:
enough to show a gain on a few hundred.
"""

VALIDATION_OF_NEW = 0.15
"""Share of the new images of each class that choose among the forms of the new file."""

CLAIMING_PARTS = ("holdout", "validation", "train")
"""Parts of the run in the order in which they claim a new image
that shows the same as one of theirs.
"""

WRITTEN_PARTS = {"holdout": "test", "validation": "val", "train": "train"}


@dataclass(frozen=True)
class GrownImage:
    """One image of the old and new ones together."""

    path: Path
    label: str
    part: str  # of :data:`CLAIMING_PARTS`
    group: str = ""
    new: bool = False


@dataclass(frozen=True)
class MergedImages:
    """The images of a run with new ones, and how many of the new ones were left out, and why."""

    images: tuple[GrownImage, ...]
    new_classes: tuple[str, ...]  # classes that the run did not know
    known: int  # new files that the run has with the same label
    returned: int  # new files that show the same as an image of the old hold-out
    corrected: tuple[Path, ...]  # images of the run whose label the new files correct

    @property
    def added(self) -> int:
        """Number of new images that are learnt from."""
        return sum(image.new and image.part != CLAIMING_PARTS[0] for image in self.images)

    def list_holdout(self, new: bool) -> list[GrownImage]:
        """Return the images that judge both files: the new ones, or those of the old hold-out."""
        judging = []
        for image in self.images:
            if image.part == CLAIMING_PARTS[0] and image.new is new:
                judging.append(image)
        return judging


def merge_images(earlier: LoadedRun, data: Path) -> MergedImages:
    """Return the images of a run together with new ones, each in one part.

    Images of the run keep their parts. A new file with the bytes of an old one is not added;
    another label corrects the old one. A new image that shows the same as one of the old hold-out
    is left out, and one that shows the same as another old image goes to that one's part. Of the
    others, groups of near duplicates stay together.

    Raises:
        UsageError: images of the run are gone or changed, the new ones cannot be read, nothing is
            new, or a class of the run has another name.
    """
    from advisor.datasets import Pair

    survey = _read_images(earlier, data)
    classes = survey.dataset.classes
    images = survey.dataset.images
    of_run = [image for image in images if image.part]
    pairs = [(pair.first, pair.second) for pair in Pair.find_alike(survey.thumbnails)]
    labels, known, corrected = _match_bytes(images, len(of_run))
    merged = []
    for place, image in enumerate(of_run):
        label = labels.get(place, image.label)
        merged.append(GrownImage(image.path, classes[label], image.part, image.group))
    claims = _claim_copies(of_run, pairs)
    returned = 0
    free: list[int] = []
    for place in range(len(of_run), len(images)):
        if place in known:
            continue
        part = claims.get(place, "")
        image = images[place]
        if part == CLAIMING_PARTS[0]:
            returned += 1
        elif part:
            label_of_new = classes[image.label]
            merged.append(GrownImage(image.path, label_of_new, part, image.group, new=True))
        else:
            free.append(place)
    merged += _divide_images(survey, free, pairs)
    labels_of_run = [classes[image.label] for image in of_run]
    _require_names(data, labels_of_run, merged)
    if not any(image.new for image in merged) and not corrected:
        raise _refuse_nothing_new(data, len(known), returned)
    new_classes = {image.label for image in merged} - set(labels_of_run)
    return MergedImages(
        images=tuple(merged),
        new_classes=tuple(sorted(new_classes)),
        known=len(known) - len(corrected),
        returned=returned,
        corrected=tuple(corrected),
    )


def _require_names(data: Path, before: Sequence[str], merged: Sequence[GrownImage]) -> None:
    """Refuse new images whose classes are those of the run under other names."""
    new = {image.label for image in merged if image.new}
    _require_known_class(data, set(before), new)
    _require_same_names(data, before, [image.label for image in merged])


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


def _read_images(earlier: LoadedRun, data: Path) -> Survey:
    """Return the images of a run, which have their parts, and then those of a folder,
    which have none.
    """
    from advisor.datasets import Entry, Listing, Survey, list_files
    from advisor.engine._history.run_inputs import images_folder

    root = images_folder(earlier.folder)
    split = earlier.folder.read_json("split.json")
    old = []
    hashes = {}
    for part in CLAIMING_PARTS:
        for row in split.get(part, ()):
            path = root / row["path"]
            old.append(Entry(path, row["class"], part))
            hashes[path] = row["sha256"]
    if not old:
        raise UsageError(
            f"'{earlier.name}' does not say which images it learnt from", "search again"
        )
    labels = {entry.path.resolve(): entry.label for entry in old}
    listing = list_files(data, known=sorted({entry.label for entry in old}))
    # A list may name files of the run:
    # with another label they are corrections, with the same one nothing is new.
    new = []
    for entry in listing.entries:
        if labels.get(entry.path.resolve()) != entry.label:
            new.append(replace(entry, part=""))
    surveyed = Survey.read(Listing(root, [*old, *new], rejected=listing.rejected))
    _require_old_images(earlier, hashes, surveyed)
    dataset = surveyed.dataset
    added = [image for image in dataset.images if not image.part]
    _require_one_label(data, dataset.classes, added)
    return surveyed


def _claim_copies(
    of_run: Sequence[LabelledImage], pairs: Iterable[tuple[int, int]]
) -> dict[int, str]:
    """Return the part that claims each new image which shows the same as an image of the run,
    by its place.
    """
    claims: dict[int, str] = {}
    # The hold-out claims first: an image that is learnt from must not judge.
    for old, new in pairs:
        if old < len(of_run) <= new:
            part = of_run[old].part
            claims[new] = min(part, claims.get(new, part), key=CLAIMING_PARTS.index)
    return claims


def _require_old_images(earlier: LoadedRun, hashes: Mapping[Path, str], survey: Survey) -> None:
    """Refuse a run whose images are gone, cannot be read, or have changed."""
    present = {image.path: image.sha256 for image in survey.dataset.images}
    lost = []
    for path, sha256 in hashes.items():
        if present.get(path) != sha256:
            lost.append(path)
    if lost:
        what = (
            f"{len(lost)} of {len(hashes)} images of '{earlier.name}' are gone or changed, such as"
            f" '{lost[0]}'"
        )
        raise UsageError(what, "restore the images that the run learnt from, or search again")


def _require_one_label(
    data: Path, classes: Sequence[str], images: Sequence[LabelledImage]
) -> None:
    """Refuse new images of which the same bytes have two labels:
    nothing tells which of the two is right.
    """
    labels: dict[str, set[str]] = {}
    for image in images:
        labels.setdefault(image.sha256, set()).add(classes[image.label])
    twice = [image for image in images if len(labels[image.sha256]) > 1]
    if twice:
        names = " and ".join(map(repr, sorted(labels[twice[0].sha256])))
        raise UsageError(
            f"'{data}' has {plural(len(twice), 'file')} with the bytes of a file of another class:"
            f" '{twice[0].path.name}' is {names}",
            "leave each image in the folder of its class",
        )


def _require_same_names(data: Path, before: Sequence[str], after: Sequence[str]) -> None:
    """Refuse corrections by which all images of a class become one new class:
    the class was renamed.

    ``before`` and ``after`` are the labels of the images of the run, which come first in
    ``after``. By its old names the earlier file would be wrong everywhere.
    """
    names: dict[str, set[str]] = {}
    for old, new in zip(before, after, strict=False):
        names.setdefault(old, set()).add(new)
    for old, labels in sorted(names.items()):
        name, *others = labels
        if not others and name not in names:
            raise UsageError(
                f"'{data}': all images of the class '{old}' of the run are in '{name}' now: the"
                " class was renamed",
                "give the folders the names of the run, or search again with all images",
            )


def _require_known_class(data: Path, known: set[str], labels: set[str]) -> None:
    """Refuse several new classes without an old one:
    they are probably the old ones under other names.
    """
    if len(labels) > 1 and not labels & known:
        raise UsageError(
            f"'{data}': none of its classes ({', '.join(sorted(labels))}) is a class of the run: "
            f"{', '.join(sorted(known))}",
            "give the folders the names of the run; to add several new classes, add images of an"
            " old class as well",
        )


def _match_bytes(
    images: Sequence[LabelledImage], first_new: int
) -> tuple[dict[int, int], set[int], list[Path]]:
    """Return new labels of old images by place, the places of new files that are old ones,
    and the corrected.
    """
    places = {image.sha256: place for place, image in enumerate(images[:first_new])}
    labels: dict[int, int] = {}
    known: set[int] = set()
    for place in range(first_new, len(images)):
        old = places.get(images[place].sha256)
        if old is None:
            continue
        known.add(place)
        if images[place].label != images[old].label:
            labels[old] = images[place].label
    return labels, known, [images[old].path for old in labels]


def _divide_images(
    survey: Survey, free: Sequence[int], pairs: Iterable[tuple[int, int]]
) -> list[GrownImage]:
    """Return new images with their parts:
    of each class a share for the hold-out and the validation.

    Images that show the same, or that the user put in one group, stay together.
    The draw depends on the bytes alone.
    """
    images = survey.dataset.images
    units = _join_units(images, free, pairs)
    total = Counter(images[place].label for place in free)
    taken: Counter[tuple[int, str]] = Counter()
    divided: list[GrownImage] = []
    for unit in sorted(units, key=lambda places: _draw_key(images[places[0]].sha256)):
        label = images[unit[0]].label
        part = "train"
        for name, share in (
            (CLAIMING_PARTS[0], HOLDOUT_OF_NEW),
            (CLAIMING_PARTS[1], VALIDATION_OF_NEW),
        ):
            # A unit that is too large for the rest of a share is learnt from:
            # the shares are never exceeded.
            if taken[label, name] + len(unit) <= share * total[label]:
                part = name
                break
        taken[label, part] += len(unit)
        for place in unit:
            image = images[place]
            name_of_class = survey.dataset.classes[image.label]
            divided.append(GrownImage(image.path, name_of_class, part, image.group, new=True))
    return divided


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


def write_merged(merged: MergedImages, path: Path) -> Path:
    """Write a manifest of the images with their parts, and return its path;
    its folder is made if need be.
    """
    from advisor.datasets import write_rows

    rows = []
    for image in merged.images:
        rows.append(
            {
                # Absolute, because the manifest is in another folder than the images.
                "path": str(image.path.resolve()),
                "label": image.label,
                "split": WRITTEN_PARTS[image.part],
                "group": image.group,
            }
        )
    # What is wrong with the folder is said by the error of the file.
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
    write_rows(path, ["path", "label", "split", "group"], rows, "--out")
    return path
