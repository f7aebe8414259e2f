"""Judge the files of segmenters by the mean IoU of their masks.

The search calls a :class:`Segmented` after a file has run over the validation part or the
hold-out. It reads the masks that :func:`._jobs.segment` wrote. What it returns is written to
``evaluations.jsonl``, and the names of ``figures`` are shown in reports.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from advisor.core import ImageAnswers, Overlays
from advisor.datasets import BACKGROUND, IGNORED_LABEL, Mask
from advisor.engine import Images, Role
from advisor.measurement import Overlaps, ratio_of
from advisor.tasks._judge import (
    EVERY,
    SHOWN_SIDE,
    JudgeByShares,
    collect_overlays,
    describe_classes,
)
from advisor.tasks.segmentation._drawing import colour_mask, colours
from advisor.tasks.segmentation._jobs import Classes, resize_labels

LONGEST = 512  # Side in pixels at which masks are compared, at most
# Distance of boundaries that count as equal, over the diagonal: G. Csurka et al.
# (2013), section 3.
TOLERANCE = 0.0075


def align_masks(predicted: Classes, mask: Mask) -> tuple[Classes, Classes]:
    """Return a found mask and the true one at one size: that of the image, at most
    :data:`LONGEST` pixels.
    """
    true = mask.labels()
    shrink = min(1.0, LONGEST / max(mask.size))
    size = (max(1, round(mask.size[0] * shrink)), max(1, round(mask.size[1] * shrink)))
    # A true mask that is small enough is compared as it is: resizing could only change it.
    if shrink < 1:
        true = resize_labels(true, size)
    return resize_labels(predicted, size), true


def compare_masks(
    predictions: Sequence[Classes], masks: Sequence[Mask], classes: int, groups: Sequence[int] = ()
) -> Overlaps:
    """Compare found masks with the true ones; ``groups`` as in :class:`Overlaps`."""
    both = np.zeros((len(masks), classes), np.int64)
    either = np.zeros((len(masks), classes), np.int64)
    for row, (predicted, true) in enumerate(map(align_masks, predictions, masks)):
        known = true != IGNORED_LABEL
        # One number for each pair of classes: counting these gives the whole table at once.
        pairs = true[known].astype(np.int64) * classes + predicted[known]
        table = np.bincount(pairs, minlength=classes**2)
        square = table.reshape(classes, classes)
        both[row] = square.diagonal()
        either[row] = square.sum(axis=0) + square.sum(axis=1) - both[row]
    return Overlaps(both, either, predictions, groups)


def boundary_f1(predictions: Sequence[Classes], masks: Sequence[Mask]) -> list[float]:
    """Return for each image the F1 of boundary pixels, the mean over its classes.

    It is 1 for an image without a boundary.

    A pixel of a boundary is right if one of the other mask is nearer than :data:`TOLERANCE`.
    """
    scores = []
    for seen, true in map(align_masks, predictions, masks):
        near = TOLERANCE * float(np.hypot(*true.shape))
        class_scores = []
        for label in np.union1d(seen, true[true != IGNORED_LABEL]).tolist():
            found_points = np.argwhere(_find_boundary(seen == label, true))
            true_points = np.argwhere(_find_boundary(true == label, true))
            # A class that fills the image has no boundary, and says nothing here.
            if not len(found_points) and not len(true_points):
                continue
            if not len(found_points) or not len(true_points):
                class_scores.append(0.0)
                continue
            precision = _share_near(found_points, true_points, near)
            recall = _share_near(true_points, found_points, near)
            class_scores.append(2 * precision * recall / max(precision + recall, 1e-9))
        scores.append(float(np.mean(class_scores)) if class_scores else 1.0)
    return scores


def _share_near(points: NDArray[np.int64], others: NDArray[np.int64], near: float) -> float:
    """Return the share (0-1) of points (N, 2) that have one
    of the other points (M, 2) within a distance in pixels.
    """
    from scipy.spatial import cKDTree

    # A tree of the points of a boundary takes a tenth of the time of a map of distances over the
    # whole image. The tree leaves out points at exactly its bound, which count here.
    distances, _ = cKDTree(others).query(points, distance_upper_bound=near + 1e-9)
    return float((distances <= near).mean())


def _find_boundary(inside: NDArray[np.bool_], true: Classes) -> NDArray[np.bool_]:
    """Return the pixels of a class beside one of another class."""
    from scipy.ndimage import binary_erosion

    # The edge of the image ends the picture and no object, so it is no boundary.
    return np.asarray(
        inside & ~binary_erosion(inside, border_value=1) & (true != IGNORED_LABEL), bool
    )


@dataclass(frozen=True)
class Segmented(JudgeByShares[Overlaps]):
    """Judge by the mean IoU."""

    def score_images(
        self,
        answers: Path,
        images: Images,
        role: Role,
        selection: slice = EVERY,
    ) -> Overlaps:
        """Return the overlap of masks with the true ones."""
        part = images.part(role)
        with np.load(answers, allow_pickle=False) as arrays:
            return compare_masks(
                arrays["masks"][selection], part.objects, len(images.classes), part.groups
            )

    def compare_answers(
        self, shipped: Overlaps, floats: Overlaps | None, images: Images
    ) -> ImageAnswers:
        """Return the IoU of each class."""
        by_class = zip(images.classes, shipped.by_class.tolist(), strict=True)
        # The documents of a run hold finite numbers alone.
        return ImageAnswers({name: None if np.isnan(value) else value for name, value in by_class})

    def judge_answers(
        self, shipped: Overlaps, images: Images, chosen: ImageAnswers
    ) -> ImageAnswers:
        """Return the IoU of each class, other figures, and the images with the most errors."""
        masks = images.part(Role.HOLDOUT).objects
        edges = np.array(boundary_f1(shipped.found, masks))
        edge = ratio_of(edges, np.ones(len(edges)), shipped.units)
        figures = {
            "Boundary F1": edge.as_percent(len(edges), "the mean over the images"),
            "Pixel accuracy": shipped.right.as_percent(len(edges), "the share of all pixels"),
        }
        return replace(
            self.compare_answers(shipped, None, images),
            figures=figures,
            overlays=_show_errors(shipped, images, masks),
        )


def _show_errors(overlaps: Overlaps, images: Images, masks: Sequence[Mask]) -> Overlays:
    """Return the images with the lowest mean IoU, with the true masks and the found ones."""
    classes = images.classes
    scores = overlaps.of_images

    def is_wrong(place: int) -> bool:
        return bool(scores[place] < 1)

    def describe(place: int) -> str:
        true = _name_classes(masks[place].labels(), classes)
        named = describe_classes(true, _name_classes(overlaps.found[place], classes))
        return f"{named or 'no class, none found'}; mean IoU {100 * scores[place]:.0f} %"

    def draw_layers(place: int) -> Iterator[bytes]:
        mask = masks[place]
        longest = max(mask.size)
        height, width = (max(1, side * SHOWN_SIDE // longest) for side in mask.size)
        # First what is true, then what was found: the page shows them in this order.
        for pixels in (mask.labels(), overlaps.found[place]):
            yield colour_mask(resize_labels(pixels, (height, width)), classes)

    return collect_overlays(images, scores, is_wrong, describe, draw_layers, colours(classes))


def _name_classes(pixels: Classes, classes: Sequence[str]) -> list[str]:
    """Return the classes in an image, without the background and pixels that do not count."""
    names = []
    for label in np.unique(pixels).tolist():
        # Pixels that do not count have a label above those of the classes.
        if label < len(classes) and classes[label] != BACKGROUND:
            names.append(classes[label])
    return names
