"""Read the images of a question, checked and split before anything is spent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from advisor.core.errors import UsageError
from advisor.core.metrics import COST_SAVED, LEAST_GROUP_IMAGES, TOP5, WORST_GROUP
from advisor.datasets.checks.findings import counted
from advisor.datasets.dataset import Dataset
from advisor.datasets.division import Division
from advisor.datasets.split import Split
from advisor.engine.pipeline.images import SUBSET_IMAGES, Images, Role
from advisor.engine.question import Question, require_classes
from advisor.measurement.metrics import FIRST

PARTS = {Role.VALIDATION: "validation part", Role.HOLDOUT: "hold-out"}


def require_metrics(question: Question, images: Images) -> None:
    """Refuse a metric that counts or is limited, and that cannot be computed on the images.

    Raises:
        UsageError: top5 with five classes or fewer, costs of other classes or without a mistake that costs anything, or
            fewer than two groups of enough images.
    """
    limited = dict.fromkeys(dict(question.limits.min_metrics), "--min-accuracy")
    asked = {question.metric: "--metric", **limited}
    if question.costs is not None:
        _require_costs(question.costs.of(images.classes), images, counted=COST_SAVED in asked)
    for name, option in asked.items():
        if name == TOP5 and len(images.classes) <= FIRST:
            raise UsageError(
                f"{option}: {TOP5} needs more than {FIRST} classes, and the images have {len(images.classes)}",
                "take top1, balanced-accuracy or macro-f1",
            )
        if name == WORST_GROUP:
            _require_groups(option, images)


def _require_costs(rows: Sequence[Sequence[float]], images: Images, counted: bool) -> None:
    """Refuse parts of the images on which one answer costs nothing, if saved costs are counted."""
    for role, part in PARTS.items():
        seen = sorted(set(images.part(role).labels))
        free = [name for label, name in enumerate(images.classes) if not any(rows[true][label] for true in seen)]
        if free and counted:
            raise UsageError(
                f"--costs: always answering '{free[0]}' costs nothing on the {part}, so no cost can be saved there",
                "add images of the other classes, or take another --metric",
            )


def _require_groups(option: str, images: Images) -> None:
    """Refuse parts with fewer than two groups of enough images."""
    for role, part in PARTS.items():
        sizes = Counter(images.group_names(role))
        compared = sum(size >= LEAST_GROUP_IMAGES for size in sizes.values())
        if compared < 2:
            raise UsageError(
                f"{option}: {WORST_GROUP} compares groups of at least {LEAST_GROUP_IMAGES} images, and the {part} has "
                f"{compared} of them",
                "name cameras or sites in the column 'group' of a manifest; a split keeps groups whole, so name at "
                "least two for each part, or put images of each group into all parts by the column 'split'",
            )


Say = Callable[[str], None]


def read_images(question: Question, say: Say) -> Images | None:
    """Read, check and split the user's images.

    Near duplicates and groups stay in one part. A split of the user's own is kept.

    Raises:
        UsageError: a guarantee names a class that no image has. See also :mod:`advisor.datasets.survey`,
            :mod:`advisor.datasets.checks.check` and :func:`advisor.datasets.division.divide`; for boxes
            :mod:`advisor.datasets.boxes.reading`; or a metric cannot be computed on the images.
    """
    if question.data is None:
        return None
    say(f"reading images of {question.data}")
    images = question.of_task.read(question, say)
    require_classes(question.guarantees, images.classes)
    require_metrics(question, images)
    return images


def undivided(dataset: Dataset, seed: int) -> Images:
    """Return images that are all held out."""
    return Images(dataset, Split((), (), tuple(range(len(dataset.images))), seed))


def divided(dataset: Dataset, division: Division, notes: tuple[str, ...], say: Say) -> Images:
    """Return divided images, and say what is notable about the parts."""
    for note in (*notes, *_leaking(division)):
        say(note)
    return Images(
        dataset,
        division.split,
        division.leaks,
        SUBSET_IMAGES,
        division.groups,
        division.grouping,
        notes,
    )


def _leaking(division: Division) -> Iterator[str]:
    if division.leaks:
        what = counted(len(division.leaks), "image or group lies", "images or groups lie")
        yield f"{what} in several parts of the split"
