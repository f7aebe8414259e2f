"""Refuse metrics that the images cannot give, before anything is spent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from advisor.core.errors import UsageError
from advisor.core.metrics import COST_SAVED, LEAST_GROUP_IMAGES, TOP5, WORST_GROUP
from advisor.engine.pipeline.images import Images, Role
from advisor.engine.question import Question
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
