"""Run detectors over images: boxes, or centres of objects, as values and as a file of arrays.

Stages of detectors write what a file finds in the images of one part of the split with
:meth:`.Detections.save_all`, and ``engine/_history/tiles.py`` what it finds in tiles. That file is
in the cache: a change of its arrays or of what is found needs a new version of ``over_images``
(``docs/extend-stages.md``, "Which version to raise").
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from advisor.measurement._other_images import Floats
from advisor.measurement._runners import Runner
from advisor.tflite import CENTRE_DISTANCE, CENTRES, DETECTIONS

# Least score of a centre that is kept: the answers of a file serve other thresholds, too.
# Another value gives other answers in the cache.
KEPT = 0.05


@dataclass(frozen=True, eq=False)
class Detections:
    """The boxes in one image, true or found:
    float32 (n, 4), top, left, bottom and right in shares of the image.

    Labels are indices of classes, int64 (n,). Scores are float32 (n,), the highest first;
    ones for true boxes.
    """

    boxes: Floats
    labels: NDArray[np.int64]
    scores: Floats

    def above(self, least: float) -> Detections:
        """Return the boxes with at least this score."""
        sure = self.scores >= least
        return Detections(self.boxes[sure], self.labels[sure], self.scores[sure])

    def relabel_boxes(self, places: Mapping[int, int]) -> Detections:
        """Return the boxes of some classes under other labels,
        without the boxes of all other classes.
        """
        is_listed = np.isin(self.labels, list(places))
        labels = np.array([places[label] for label in self.labels[is_listed].tolist()], np.int64)
        return Detections(self.boxes[is_listed], labels, self.scores[is_listed])

    @classmethod
    def of_true_boxes(cls, rows: Sequence[tuple[int, float, float, float, float]]) -> Detections:
        """Return true boxes given as label, top, left, bottom and right in shares of the image."""
        table = np.array(rows, np.float64).reshape(-1, 5)
        labels = table[:, 0].astype(np.int64)
        boxes = table[:, 1:].astype(np.float32)
        return cls(boxes, labels, np.ones(len(labels), np.float32))

    @staticmethod
    def load_all(path: Path) -> list[Detections]:
        """Read what :meth:`.Detections.save_all` wrote."""
        with np.load(path, allow_pickle=False) as arrays:
            ends = np.cumsum(arrays["counts"])[:-1]
            boxes = np.split(arrays["boxes"], ends)
            labels = np.split(arrays["labels"], ends)
            scores = np.split(arrays["scores"], ends)
        return list(map(Detections, boxes, labels, scores))

    @classmethod
    def save_all(cls, path: Path, detections: Sequence[Detections]) -> None:
        """Write what was found in images as ``.npz``:
        ``counts`` (N,), and ``boxes``, ``labels`` and ``scores`` of all.
        """
        # An empty part first, for no images at all: nothing cannot be joined.
        nothing = cls(np.zeros((0, 4), np.float32), np.zeros(0, np.int64), np.zeros(0, np.float32))
        parts = [nothing, *detections]
        np.savez(
            path,
            counts=np.array([len(part.labels) for part in detections], np.int64),
            boxes=np.concatenate([part.boxes for part in parts]),
            labels=np.concatenate([part.labels for part in parts]),
            scores=np.concatenate([part.scores for part in parts]),
        )

    @classmethod
    def find_centres(cls, scores: Floats, least: float) -> Detections:
        """Return the centres in a map of scores:
        places with the highest score of their class among their neighbours.

        Of several neighbours with equal scores, as integers have, the first one stands for all.
        The scores are float32 (rows, columns, C), at least ``least``. Returned are boxes without
        area at the centres, the highest score first.
        """
        rows, columns, _ = scores.shape
        side = 2 * CENTRE_DISTANCE + 1
        # No score is below 0, so the border never wins.
        border = (CENTRE_DISTANCE, CENTRE_DISTANCE)
        padded = np.pad(scores, (border, border, (0, 0)), constant_values=-1)
        windows = np.lib.stride_tricks.sliding_window_view(padded, (side, side), (0, 1))
        highest = windows.max(axis=(-2, -1))
        down, across, labels = np.nonzero((scores >= highest) & (scores >= least))
        order = np.argsort(-scores[down, across, labels], kind="stable")
        # Places with equal scores are all highest:
        # the first one, by the stable order, suppresses the others near it.
        peaks: list[int] = []
        for place in order:
            same = [peak for peak in peaks if labels[peak] == labels[place]]
            distances = []
            for peak in same:
                rows_apart = abs(down[peak] - down[place])
                columns_apart = abs(across[peak] - across[place])
                distances.append(max(rows_apart, columns_apart))
            if min(distances, default=CENTRE_DISTANCE + 1) > CENTRE_DISTANCE:
                peaks.append(int(place))
        y = (down[peaks] + 0.5) / rows
        x = (across[peaks] + 0.5) / columns
        boxes = np.stack([y, x, y, x], axis=1).astype(np.float32)
        return cls(
            boxes,
            labels[peaks].astype(np.int64),
            scores[down, across, labels][peaks].astype(np.float32),
        )


class Detector(Runner[Detections]):
    """A loaded detector with post-processing, see :meth:`.Suppression.append_to`."""

    outputs: tuple[str, ...] = DETECTIONS
    kind = "a detector"

    def read(self, outputs: Mapping[str, Floats]) -> Detections:
        """Return the boxes in the outputs."""
        count = int(outputs["count"].reshape(-1)[0])
        # A decoded box may reach beyond the image.
        boxes = np.clip(outputs["boxes"][0, :count], 0.0, 1.0)
        return Detections(
            boxes, outputs["classes"][0, :count].astype(np.int64), outputs["scores"][0, :count]
        )


class CentreFinder(Detector):
    """A loaded network that marks centres:
    one output ``centres``, a map of scores (1, rows, columns, C).
    """

    outputs = (CENTRES,)

    def read(self, outputs: Mapping[str, Floats]) -> Detections:
        """Return the centres in the outputs, as boxes without area."""
        return Detections.find_centres(outputs[CENTRES][0], KEPT)
