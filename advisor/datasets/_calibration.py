"""Choose and read the images that a file is calibrated on, in the form that the file takes.

The stages of a search, `advisor compress` and the diagnosis use a user's images, or crops of the
bundled photographs. Draws are by seed: equal images and seeds must give equal arrays, as the
compressed files are cached by them. If they change, raise the versions of the stages of
calibration and of compression (``docs/extend-stages.md``, "Which version to raise").
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from advisor.core import UsageError
from advisor.datasets._images import InputSpec, try_images

PHOTOGRAPHS_VERSION = 3
"""Raised when the crops that :func:`.photograph_crops` draws change."""

PROBED_SIDE = 8
"""Pixels of a side at which an image is decoded to see whether it can be used."""


@dataclass(frozen=True)
class CalibrationImages:
    """Images to calibrate on, by their files; the first ``limit`` of them if it is given.

    Without files, they are crops of the bundled photographs, drawn by ``seed``.
    """

    USUAL: ClassVar[int] = 100
    #: With fewer images, one unusual image decides the range of every activation.
    FEWEST: ClassVar[int] = 10

    paths: tuple[Path, ...]
    spec: InputSpec
    seed: int = 0
    limit: int | None = None

    def read(self) -> NDArray[np.float32]:
        """Return the images as model input, float32 (n, size, size, 3)."""
        if self.paths:
            images = self.spec.read_all(self.paths)
        else:
            images = self.spec.draw_photographs(self.seed)
        return images[: self.limit]

    @classmethod
    def find_paths(cls, folder: Path) -> tuple[Path, ...]:
        """Return the readable images of a folder and its sub-folders, sorted.

        Fewer than :attr:`FEWEST` are a UsageError.
        """
        if not folder.is_dir():
            reason = "is a file, not a folder" if folder.exists() else "does not exist"
            raise UsageError(f"--calibration: '{folder}' {reason}", "give a folder of images")
        verdicts = try_images(folder, PROBED_SIDE)
        readable = []
        first_failure = ""
        for file, reason in verdicts.items():
            if not reason:
                readable.append(file)
            elif not first_failure:
                first_failure = f"; '{file.name}': {reason}"
        if len(readable) < cls.FEWEST:
            counts = f"{len(readable)} readable images of {len(verdicts)} in '{folder}'"
            raise UsageError(
                f"--calibration: {counts}, and {cls.FEWEST} are needed{first_failure}",
                f"give about {cls.USUAL} images like those that the app will see",
            )
        return tuple(readable)


def choose_images(labels: Sequence[int], count: int, seed: int) -> tuple[int, ...]:
    """Return the sorted indices of at most ``count`` images, drawn from each class in turn."""
    by_class: dict[int, list[int]] = defaultdict(list)
    for index, label in enumerate(labels):
        by_class[label].append(index)
    draw = random.Random(seed)
    queues = []
    for _, indices in sorted(by_class.items()):
        queues.append(draw.sample(indices, len(indices)))
    chosen: list[int] = []
    # From each class in turn: a rare class has activations that no other image reaches.
    while len(chosen) < count and any(queues):
        chosen += [queue.pop() for queue in queues if queue]
    return tuple(sorted(chosen[:count]))
