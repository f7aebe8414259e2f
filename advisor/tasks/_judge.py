"""Judge files by a figure that is the mean of one share for each image.

Tasks with such a figure derive from :class:`JudgeByShares`, which compares files image by image.
The search calls ``verdict``, ``held_out`` and ``captured``; a task implements the other three. The
rest of the module keeps the images of the hold-out with the most errors, with a colour for each
pixel, as reports show them (:func:`collect_overlays`).
"""

from __future__ import annotations

import base64
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from advisor.core import Evaluation, ImageAnswers, Interval, OverlaidImage, Overlays
from advisor.datasets import STAYING, read_upright_size
from advisor.engine import (
    AccuracyVerdict,
    Captured,
    HeldOut,
    Images,
    Role,
    Scored,
)

EVERY = slice(None)  # Selects every answer of a file
Scores = NDArray[np.floating[Any]]
VALIDATED = "on the validation part of --data, run in LiteRT"
HELD_OUT = "on the hold-out of --data, run in LiteRT"
PALETTE = ("#e6194b", "#3cb44b", "#4363d8", "#f58231", "#911eb4", "#42d4f4", "#f032e6", "#9a6324")
"""Colours of classes over an image; the background has none. Further classes have them again."""
# Images of the hold-out that are kept with their pixels, and the longer side of these.
WORST = 8
SHOWN_SIDE = 160


class ImageScores(Protocol):
    """The figure of a file on some images."""

    @property
    def figure(self) -> Interval:
        """The figure that decides."""

    @property
    def shares(self) -> Sequence[float]:
        """Each image's share in it, whose mean it is."""


R = TypeVar("R", bound=ImageScores)


@dataclass(frozen=True)
class JudgeByShares(ABC, Generic[R]):
    """See :class:`advisor.engine.Judge`; files are compared image by image."""

    metric: str  # name of the figure

    @abstractmethod
    def score_images(
        self,
        answers: Path,
        images: Images,
        role: Role,
        selection: slice = EVERY,
    ) -> R:
        """Return what the answers of a file reach on a part; ``selection`` selects one answer
        of each image.
        """

    @abstractmethod
    def compare_answers(self, shipped: R, floats: R | None, images: Images) -> ImageAnswers:
        """Return what is kept of the validation part; ``floats`` is what the float32 file reached,
        or None for a file that is not trained here.
        """

    @abstractmethod
    def judge_answers(self, shipped: R, images: Images, chosen: ImageAnswers) -> ImageAnswers:
        """Return what is kept of the hold-out; ``chosen`` was kept of the validation part."""

    def verdict(
        self, scored: Scored, images: Images, file: str
    ) -> tuple[AccuracyVerdict, Mapping[str, Sequence[float]]]:
        """Return the figure on the validation part with what compression lost,
        and the shares to keep by their file.
        """
        shipped, floats = (
            self.score_images(path, images, Role.VALIDATION)
            for path in (scored.answers, scored.float_answers)
        )
        part = images.part(Role.VALIDATION)
        count = len(part.paths)
        answers = self.compare_answers(shipped, floats if scored.trained else None, images)
        verdict = AccuracyVerdict(
            accuracy=shipped.figure.as_percent(count, f"{self.metric} {VALIDATED}"),
            drop=Interval.paired_shares(floats.shares, shipped.shares, part.groups).as_drop(count),
            answers=replace(answers, file=file),
        )
        return verdict, {file: shipped.shares}

    def held_out(
        self,
        evaluation: Evaluation,
        answers_path: Path,
        images: Images,
        file: str = "",
    ) -> HeldOut:
        """Return the figure on the hold-out, and what is kept of it."""
        reached = self.score_images(answers_path, images, Role.HOLDOUT)
        figure = reached.figure.as_percent(
            len(images.part(Role.HOLDOUT).paths), f"{self.metric} {HELD_OUT}"
        )
        answers = self.judge_answers(reached, images, evaluation.answers)
        return replace(evaluation, holdout_accuracy=figure, holdout_answers=answers), {}

    def captured(self, answers: Path, images: Images, role: Role) -> Captured:
        """Return the figure under the capture conditions that leave objects and pixels
        in their places.
        """
        tests = len(STAYING)
        rows = []
        for test in range(tests):
            # A file answers all conditions of one image before the next image,
            # so each condition is every so many answers.
            selection = slice(test, None, tests)
            rows.append(self.score_images(answers, images, role, selection).shares)
        shares = np.array(rows, np.float64)
        means = shares.mean(axis=0) if shares.size else shares
        return Captured(STAYING, shares, means, self.metric, images.part(role).groups)


def encode_png(image: Image.Image, **options: Any) -> bytes:
    """Return an image as a PNG file; ``options`` are Pillow's."""
    stored = BytesIO()
    image.save(stored, "PNG", optimize=True, **options)
    return stored.getvalue()


def collect_overlays(
    images: Images,
    scores: Scores,
    is_wrong: Callable[[int], bool],
    describe: Callable[[int], str],
    draw_layers: Callable[[int], Iterable[bytes]],
    legend: Mapping[str, str],
) -> Overlays:
    """Return the :data:`WORST` images of the hold-out, those with the lowest scores,
    with a colour for each pixel.

    The functions take the place of an image. ``describe`` returns what is written below it, and
    ``draw_layers`` two PNG files: what is true, empty if that is not known, and what was found.
    An image that ``is_wrong`` has a lower score than one without an error. ``legend`` is the
    colour of each class.
    """
    part = images.part(Role.HOLDOUT)
    rows = []
    wrong = 0
    # Stable, so that images of equal scores are the same ones in every report of a run.
    worst = np.argsort(scores, kind="stable")[:WORST].tolist()
    for place in worst:
        width, height = read_upright_size(part.paths[place])
        true, answer = (base64.b64encode(layer).decode() for layer in draw_layers(place))
        path = images.dataset.show_path(part.paths[place])
        sha256 = part.hashes[place]
        rows.append(OverlaidImage(path, sha256, width, height, describe(place), true, answer))
        wrong += is_wrong(place)
    return Overlays(tuple(rows), legend, wrong)


def describe_classes(true: Collection[str], answered: Collection[str]) -> str:
    """Return in words which classes of an image are missed, wrong and found."""
    by_verdict = {
        "missed": [name for name in true if name not in answered],
        "wrong": [name for name in answered if name not in true],
        "found": [name for name in answered if name in true],
    }
    phrases = []
    for verdict, names in by_verdict.items():
        if names:
            phrases.append(f"{verdict}: {', '.join(names)}")
    return "; ".join(phrases)
