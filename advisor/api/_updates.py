"""Let a model grow: learn from more images, and say whether the new file should ship.

Read :func:`update` first. :func:`merge_images` adds the new images to those of the run, each in one part.
:func:`compare_answers` decides by what both files answer to the old hold-out and to a new one.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from advisor.core import StageError, UsageError, Written, plural

if TYPE_CHECKING:
    from advisor.datasets import LabelledImage, Survey
    from advisor.engine import LoadedRun

HOLDOUT_OF_NEW = 0.3
"""Share of the new images of each class that judge both files: enough to show a gain on a few hundred."""

VALIDATION_OF_NEW = 0.15
"""Share of the new images of each class that choose among the forms of the new file."""

PARTS = ("holdout", "validation", "train")
"""Parts of the run in the order in which they claim a new image that shows the same as one of theirs."""

WRITTEN_PARTS = {"holdout": "test", "validation": "val", "train": "train"}

LINEAGE = "lineage.json"
"""File of the new run that names the earlier one, and what was compared."""

TAIL = 0.025  # Probability outside each end of a 95 % interval
SHOWN = 5  # Images that are named for each class that got worse
FROM_RUN = (
    "out",
    "request",
    "max_trials",
    "resume",
    "most_images",
)  # Options of the run that the new search leaves out


@dataclass(frozen=True)
class GrownImage:
    """One image of the old and new ones together."""

    path: Path
    label: str
    part: str  # of :data:`PARTS`
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
        return sum(image.new and image.part != PARTS[0] for image in self.images)

    def holdout(self, new: bool) -> list[GrownImage]:
        """Return the images that judge both files: the new ones, or those of the old hold-out."""
        return [image for image in self.images if image.part == PARTS[0] and image.new is new]


@dataclass(frozen=True)
class JudgedPart(Written):
    """What two files reach on the same images.

    Attributes:
        images: number of images.
        before: share of right answers of the earlier file, in %.
        after: that of the new file, in %.
        gain: points that the new file gains.
        low: lower end of its 95 % interval.
        high: upper end.
    """

    images: int
    before: float
    after: float
    gain: float
    low: float
    high: float

    @property
    def sentence(self) -> str:
        """The gain with its interval: ``+1.8 points (0.3 to 3.3)``."""
        return f"{self.gain:+.1f} points ({self.low:+.1f} to {self.high:+.1f})"


@dataclass(frozen=True)
class WorseClass(Written):
    """A class of which the new file recognises fewer images of the old hold-out.

    Attributes:
        label: the class.
        before: images that the earlier file recognised.
        after: images that the new file recognises.
        images: number of its images.
        examples: images that the earlier file had right and the new one has not.
    """

    label: str
    before: int
    after: int
    images: int
    examples: tuple[str, ...]


@dataclass(frozen=True)
class Update(Written):
    """The answer to whether a file that learnt from more images should take the place of the earlier one.

    Attributes:
        parent: the earlier run.
        run: the new run.
        ship: the new file is better, and the old hold-out shows no loss.
        reason: why, in a sentence.
        old: both files on the old hold-out.
        new: both files on new images that neither learnt from; None without such images.
        added: new images that were learnt from.
        known: new files that the run had already.
        returned: new files that show the same as an image of the old hold-out, and were not learnt from.
        corrected: images of the run with a corrected label.
        new_classes: classes that the earlier file does not know.
        worse: classes that got worse on the old hold-out.
    """

    entries = ("schema_version", "*")
    schema_version = 1

    parent: str
    run: str
    ship: bool
    reason: str
    old: JudgedPart
    new: JudgedPart | None
    added: int
    known: int
    returned: int
    corrected: int
    new_classes: tuple[str, ...]
    worse: tuple[WorseClass, ...]

    @property
    def lines(self) -> tuple[str, ...]:
        """The answer in lines of text."""
        lines = [self.reason, f"right on the old hold-out: {self.old.before:.1f} %, then {self.old.after:.1f} %"]
        if self.new is not None:
            lines.append(f"right on new images: {self.new.before:.1f} %, then {self.new.after:.1f} %")
        lines.append(_count_images(self))
        if self.new_classes:
            lines.append(f"new classes: {', '.join(self.new_classes)}")
        for row in self.worse:
            lines.append(
                f"class '{row.label}' got worse on the old hold-out: {row.before}, then {row.after} of {row.images} "
                f"right, such as {row.examples[0]}"
            )
        lines.append(f"next: advisor export {self.run} --to bundle" if self.ship else f"the new run: {self.run}")
        return tuple(lines)


def _count_images(update: Update) -> str:
    """Return how many new images were learnt from, and what became of the others, as a sentence."""
    parts = [f"learnt from {plural(update.added, 'new image')}"]
    if update.returned:
        verb = "shows" if update.returned == 1 else "show"
        parts.append(f"{update.returned} {verb} the same as images of the old hold-out and were left out")
    if update.known:
        parts.append(f"{update.known} were known")
    if update.corrected:
        parts.append(f"{plural(update.corrected, 'label')} of the run corrected")
    return "; ".join(parts)


def update(
    run: str | Path,
    data: str | Path,
    *,
    search_again: bool = False,
    time_limit: str | None = None,
    out: str | Path | None = None,
    quiet: bool = False,
) -> Update:
    """Learn from more images, and say whether the new file should take the place of the earlier one.

    The card, the training and the compression of the pick are used again. Both files are judged on the old hold-out and
    on new images that neither learnt from.

    ::

        import advisor
        answer = advisor.update("runs/latest", "more")
        print(answer.ship, answer.reason)

    Args:
        run: folder of the earlier run.
        data: folder or manifest of labelled images: new ones of old classes, new classes, or corrected labels.
        search_again: ask the question of the run again, with all its candidates, in place of the pick alone.
        time_limit: most time of the search, such as ``"3min"``; None for that of the run.
        out: folder of the new run; None for the folder of the earlier one.
        quiet: show no progress.

    Raises:
        UsageError: the run has no pick or no classes, its images are gone, or the new ones hold nothing new.
        StageError: no file was made, or a file cannot run.
    """
    from advisor.api._runs import search
    from advisor.engine import load_run
    from advisor.store import RunFolder

    earlier = load_run(run)
    pick = earlier.decision.pick
    task = earlier.question.of_task
    if not task.labelled:
        raise UsageError(
            f"'{run}' is a run of --task {task.name}, and only images with one class each can be added to",
            "search again with all images: advisor search --request RUN/request.yaml --data DIR",
        )
    if pick is None or not pick.artefact:
        raise UsageError(f"'{run}' has no file that could be compared", "continue it: advisor search --resume RUN")
    merged = merge_images(earlier, Path(data))
    folder = Path(out) if out is not None else earlier.folder.path.resolve().parent
    manifest = write_merged(merged, folder / f"{earlier.name}-and-{Path(data).stem}.csv")
    asked: dict[str, Any] = {name: value for name, value in earlier.request.written.items() if name not in FROM_RUN}
    asked |= {"data": str(manifest), "out": str(folder)}
    if time_limit is not None:
        asked["time_limit"] = time_limit
    if not search_again:
        configuration = pick.configuration
        asked |= {
            "candidates": [configuration.card],
            "training": [configuration.training],
            "compressions": [configuration.compression],
        }
    found = search(quiet=quiet, **asked)
    if found.decision.pick is None:
        raise StageError(f"the search with the new images ended without a file: {found.decision.reason}")
    answer = judge_runs(earlier, Path(found.path), merged)
    RunFolder.open(Path(found.path)).write_json(LINEAGE, answer.to_json())
    return answer


def merge_images(earlier: LoadedRun, data: Path) -> MergedImages:
    """Return the images of a run together with new ones, each in one part.

    Images of the run keep their parts. A new file with the bytes of an old one is not added; another label corrects the
    old one. A new image that shows the same as one of the old hold-out is left out, and one that shows the same as
    another old image goes to that one's part. Of the others, groups of near duplicates stay together.

    Raises:
        UsageError: images of the run are gone or changed, the new ones cannot be read, or nothing is new.
    """
    from advisor.datasets import Entry, Listing, list_files, near_duplicates, survey
    from advisor.engine import images_folder

    root = images_folder(earlier.folder)
    split = earlier.folder.read_json("split.json")
    rows = [(part, row) for part in PARTS for row in split.get(part, ())]
    if not rows:
        raise UsageError(f"'{earlier.folder.path}' does not say which images it learnt from", "search again")
    hashes = {root / row["path"]: row["sha256"] for _, row in rows}
    old = [Entry(root / row["path"], row["class"], part) for part, row in rows]
    there = {entry.path.resolve(): entry.label for entry in old}
    listing = list_files(data)
    # A list may name files of the run: with another label they are corrections, with the same one nothing is new.
    new = [replace(entry, part="") for entry in listing.entries if there.get(entry.path.resolve()) != entry.label]
    read = survey(Listing(root, [*old, *new], rejected=listing.rejected))
    _require_old_images(earlier, hashes, read)
    classes = read.dataset.classes
    kept = [image for image in read.dataset.images if image.part]
    known_classes = {classes[image.label] for image in kept}
    first_new = len(kept)
    pairs = near_duplicates(read.thumbnails)
    labels, known, corrected = _match_bytes(read.dataset.images, first_new)
    claims: dict[int, set[str]] = {}
    for pair in pairs:
        if pair.first < first_new <= pair.second:
            claims.setdefault(pair.second, set()).add(kept[pair.first].part)
    images = [
        GrownImage(image.path, classes[labels.get(place, image.label)], image.part, image.group)
        for place, image in enumerate(kept)
    ]
    returned = 0
    free: list[int] = []
    for place in range(first_new, len(read.dataset.images)):
        if place in known:
            continue
        claim = next((part for part in PARTS if part in claims.get(place, ())), "")
        if claim == PARTS[0]:
            returned += 1
        elif claim:
            image = read.dataset.images[place]
            images.append(GrownImage(image.path, classes[image.label], claim, image.group, new=True))
        else:
            free.append(place)
    images += _divide(read, free, [(pair.first, pair.second) for pair in pairs])
    _require_known_class(data, known_classes, {image.label for image in images if image.new})
    new_classes = tuple(sorted({image.label for image in images} - known_classes))
    if not any(image.new for image in images) and not corrected:
        raise UsageError(
            f"'{data}' has nothing new: {plural(len(known), 'file')} of the run, and {returned} of its hold-out",
            "add images that the run has not seen, or correct labels",
        )
    same_labels = len(known) - len(corrected)
    return MergedImages(tuple(images), new_classes, same_labels, returned, tuple(corrected))


def _require_old_images(earlier: LoadedRun, hashes: Mapping[Path, str], read: Survey) -> None:
    """Refuse a run whose images are gone, cannot be read, or have changed."""
    seen = {image.path: image.sha256 for image in read.dataset.images}
    lost = [path for path, sha256 in hashes.items() if seen.get(path) != sha256]
    if lost:
        what = f"{len(lost)} of {len(hashes)} images of '{earlier.name}' are gone or changed, such as '{lost[0]}'"
        raise UsageError(what, "restore the images that the run learnt from, or search again")


def _require_known_class(data: Path, known: set[str], labels: set[str]) -> None:
    """Refuse several new classes without an old one: they are probably the old ones under other names."""
    if len(labels) > 1 and not labels & known:
        raise UsageError(
            f"'{data}': none of its classes ({', '.join(sorted(labels))}) is a class of the run: "
            f"{', '.join(sorted(known))}",
            "give the folders the names of the run; to add several new classes, add images of an old class as well",
        )


def _match_bytes(images: Sequence[LabelledImage], first_new: int) -> tuple[dict[int, int], set[int], list[Path]]:
    """Return the corrected label of old images by place, the places of new files that are old ones, and the corrected.

    Of several new files with the bytes of one image, the last label counts.
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


def _divide(read: Survey, free: Sequence[int], pairs: Iterable[tuple[int, int]]) -> list[GrownImage]:
    """Return new images with their parts: of each class a share for the hold-out and the validation.

    Images that show the same, or that the user put in one group, stay together. The draw depends on the bytes alone.
    """
    images = read.dataset.images
    leader = {place: place for place in free}

    def find_leader(place: int) -> int:
        while leader[place] != place:
            place = leader[place]
        return place

    by_group: dict[str, int] = {}
    linked = [pair for pair in pairs if pair[0] in leader and pair[1] in leader]
    for place in free:
        group = images[place].group
        if group:
            linked.append((by_group.setdefault(group, place), place))
    for first, second in linked:
        leader[find_leader(second)] = find_leader(first)
    units: dict[int, list[int]] = {}
    for place in free:
        units.setdefault(find_leader(place), []).append(place)
    total = Counter(images[place].label for place in free)
    taken: Counter[tuple[int, str]] = Counter()
    divided: list[GrownImage] = []
    for unit in sorted(units.values(), key=lambda places: _draw(images[places[0]].sha256)):
        label = images[unit[0]].label
        part = "train"
        for name, share in ((PARTS[0], HOLDOUT_OF_NEW), (PARTS[1], VALIDATION_OF_NEW)):
            if taken[label, name] + len(unit) <= share * total[label]:
                part = name
                break
        taken[label, part] += len(unit)
        for place in unit:
            image = images[place]
            divided.append(GrownImage(image.path, read.dataset.classes[image.label], part, image.group, new=True))
    return divided


def _draw(sha256: str) -> str:
    """Return a key that orders images at random, and always in the same way."""
    return hashlib.sha256(f"update {sha256}".encode()).hexdigest()


def write_merged(merged: MergedImages, path: Path) -> Path:
    """Write a manifest of the images with their parts, and return its path."""
    from advisor.datasets import write_rows

    rows = (
        {
            "path": str(image.path.resolve()),
            "label": image.label,
            "split": WRITTEN_PARTS[image.part],
            "group": image.group,
        }
        for image in merged.images
    )
    write_rows(path, ["path", "label", "split", "group"], rows)
    return path


def judge_runs(earlier: LoadedRun, run: Path, merged: MergedImages) -> Update:
    """Return which file should ship, by the answers of both to the old hold-out and to the new one."""
    from advisor.exporting import predict

    old = merged.holdout(new=False)
    new = merged.holdout(new=True)
    photographs = [image.path for image in (*old, *new)]
    answers = [
        [answer.found[0].label if answer.found else "" for answer in predict(folder, photographs)]
        for folder in (earlier.folder.path, run)
    ]
    return compare_answers(earlier.name, str(run), merged, *answers)


def compare_answers(parent: str, run: str, merged: MergedImages, before: Sequence[str], after: Sequence[str]) -> Update:
    """Return which file should ship.

    The new file ships if it is right more often on all images than chance allows, and the old hold-out does not show a
    loss: 95 % intervals of paired answers, see :func:`_judge`.

    Args:
        parent: name of the earlier run.
        run: folder of the new run.
        merged: the images; their old hold-out comes first in the answers.
        before: class that the earlier file gives to each image of the old and the new hold-out.
        after: that of the new file.
    """
    old = merged.holdout(new=False)
    new = merged.holdout(new=True)
    true = [image.label for image in (*old, *new)]
    right = [[answer == label for answer, label in zip(answers, true, strict=True)] for answers in (before, after)]
    on_old = _judge(right[0][: len(old)], right[1][: len(old)])
    on_new = _judge(right[0][len(old) :], right[1][len(old) :]) if new else None
    every = _judge(*right)
    loses = on_old.high < 0
    ship = every.low > 0 and not loses
    gained = f"{on_new.sentence} on {plural(on_new.images, 'new image')}, " if on_new else ""
    kept = f"{on_old.sentence} on the {on_old.images} of the old hold-out"
    if loses:
        reason = f"keep the old file: the new one loses on what was learnt before: {gained}{kept}"
    elif ship:
        reason = f"ship the new file: {gained}{kept}, which shows no loss"
    else:
        reason = f"keep the old file: the images show no gain: {gained}{kept}"
    return Update(
        parent=parent,
        run=run,
        ship=ship,
        reason=reason,
        old=on_old,
        new=on_new,
        added=merged.added,
        known=merged.known,
        returned=merged.returned,
        corrected=len(merged.corrected),
        new_classes=merged.new_classes,
        worse=_list_worse(old, before[: len(old)], after[: len(old)]),
    )


def _judge(before: Sequence[bool], after: Sequence[bool]) -> JudgedPart:
    """Return what two files reach on the same images, with the exact 95 % interval of their difference.

    Images on which both are right or both are wrong say nothing. Of the others, the share that the new file has right
    is compared with one half by the exact interval of a binomial share (C. Clopper and E. Pearson, Biometrika 26, 1934;
    the test is McNemar's, Psychometrika 12, 1947). A bootstrap is too sure where few images differ.
    """
    from scipy.special import betaincinv

    count = len(before)
    wins = sum(now and not then for then, now in zip(before, after, strict=True))
    losses = sum(then and not now for then, now in zip(before, after, strict=True))
    differ = wins + losses
    low = float(betaincinv(wins, losses + 1, TAIL)) if wins else 0.0
    high = float(betaincinv(wins + 1, losses, 1 - TAIL)) if losses else 1.0
    points = 100 * differ / count
    return JudgedPart(
        images=count,
        before=100 * sum(before) / count,
        after=100 * sum(after) / count,
        gain=100 * (wins - losses) / count,
        low=points * (2 * low - 1),
        high=points * (2 * high - 1),
    )


def _list_worse(images: Sequence[GrownImage], before: Sequence[str], after: Sequence[str]) -> tuple[WorseClass, ...]:
    """Return the classes of which the new file recognises fewer images, those with the largest loss first."""
    worse = []
    for label in sorted({image.label for image in images}):
        places = [place for place, image in enumerate(images) if image.label == label]
        counts = [sum(answers[place] == label for place in places) for answers in (before, after)]
        if counts[1] < counts[0]:
            lost = [str(images[place].path) for place in places if before[place] == label != after[place]]
            worse.append(WorseClass(label, *counts, len(places), tuple(lost[:SHOWN])))
    return tuple(sorted(worse, key=lambda row: row.after - row.before))
