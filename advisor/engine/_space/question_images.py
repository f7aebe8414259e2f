"""Read and divide the images of a question, and check that they allow its metrics.

``resolving.py`` calls :func:`read_images`, which asks the task; the task calls
:meth:`.Images.of_division` with what its layouts gave. What a user can only learn from the images,
such as a class that is missing, is refused here.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from advisor.core import LEAST_GROUP_IMAGES, METRICS, Metric, UsageError, without_password
from advisor.engine._pipeline.images import Images, Role
from advisor.engine._question import Execution, Question, require_classes
from advisor.measurement import FIRST_CLASSES
from advisor.store import copy_from_store

Say = Callable[[str], None]

PARTS = {Role.VALIDATION: "validation part", Role.HOLDOUT: "hold-out"}


def read_images(question: Question, say: Say, execution: Execution | None = None) -> Images | None:
    """Read, check and split the user's images as their task does it;
    refuse what the question cannot have of them.

    Images in an object store are fetched first;
    ``execution`` says whether this may be, and the limit of the cache.
    """
    if question.data is None:
        return None
    offline = execution.offline if execution else False
    cache_size = execution.cache_size if execution else None
    # From here on, a path is a local one: no task knows object stores.
    data = copy_from_store(question.data, say, offline, cache_size)
    unknown = question.unknown
    if unknown is not None:
        unknown = copy_from_store(unknown, say, offline, cache_size)
    say(f"reading images of {without_password(str(question.data))}")
    images = question.of_task.read(replace(question, data=data, unknown=unknown), say)
    require_classes(question.guarantees, images.classes)
    # After reading, because only the images say which classes, groups and sizes there are.
    require_metrics(question, images)
    return images


def require_metrics(question: Question, images: Images) -> None:
    """Refuse a metric that counts or is limited, and that cannot be computed on the images."""
    option_of = {question.metric: "--metric"}
    option_of |= dict.fromkeys(dict(question.limits.max_metric_drops), "--max-drop")
    option_of |= dict.fromkeys(dict(question.limits.min_metrics), "--min-accuracy")
    if question.costs is not None:
        # A table without a class of the images is refused here, whatever the metric.
        rows = question.costs.of(images.classes)
        if Metric.COST_SAVED in option_of:
            _refuse_free_answers(rows, images)
    for name, option in option_of.items():
        if name == Metric.TOP5 and len(images.classes) <= FIRST_CLASSES:
            raise UsageError(
                f"{option}: {Metric.TOP5} needs more than {FIRST_CLASSES} classes, and the images"
                f" have {len(images.classes)}",
                "take top1, balanced-accuracy or macro-f1",
            )
        if name == Metric.WORST_GROUP:
            _require_groups(option, images)
        sides = METRICS[name].sides
        if sides is not None:
            _require_objects(option, METRICS[name], sides, images)


def _require_objects(
    option: str, metric: Metric, sides: tuple[float, float], images: Images
) -> None:
    """Refuse parts of the images that have no object of the sizes that a metric judges."""
    boxes = images.boxes
    if boxes is None:
        return
    least, most = sides
    for role, part in PARTS.items():
        has_object = False
        for index in images.part(role).indices:
            width, height = boxes.sizes[index]
            for _, top, left, bottom, right in boxes.objects[index]:
                area = (bottom - top) * height * (right - left) * width
                has_object |= least**2 <= area < most**2
        if not has_object:
            raise UsageError(
                f"{option}: {metric.name} judges {metric.meaning}, and the {part} has none",
                "take map, which judges objects of every size, or add images with such objects",
            )


def _refuse_free_answers(rows: Sequence[Sequence[float]], images: Images) -> None:
    """Refuse parts of the images on which one answer costs nothing."""
    for role, part in PARTS.items():
        labels = set(images.part(role).labels)
        # Saved cost is relative to the cheapest constant answer,
        # and a free one would make the divisor 0.
        free = []
        for label, name in enumerate(images.classes):
            if not any(rows[true][label] for true in labels):
                free.append(name)
        if free:
            raise UsageError(
                f"--costs: always answering '{free[0]}' costs nothing on the {part}, so no cost"
                " can be saved there",
                "add images of the other classes, or take another --metric",
            )


def _require_groups(option: str, images: Images) -> None:
    """Refuse parts with fewer than two groups of enough images."""
    for role, part in PARTS.items():
        sizes = Counter(images.group_names(role))
        compared = sum(size >= LEAST_GROUP_IMAGES for size in sizes.values())
        if compared < 2:
            raise UsageError(
                f"{option}: {Metric.WORST_GROUP} compares groups of at least {LEAST_GROUP_IMAGES}"
                f" images, and the {part} has {compared} of them",
                "name cameras or sites in the column 'group' of a manifest; a split keeps groups"
                " whole, so name at least two for each part, or put images of each group into all"
                " parts by the column 'split'",
            )
