"""Judge the files of anomaly detectors: does a faulty image get a higher score than a good one?

The search calls a :class:`ByAuroc` after a file has run over the validation part or the hold-out.
It reads the maps that :func:`._jobs.mark` wrote. A part without faulty images is judged by copies
with drawn faults. What it returns is written to ``evaluations.jsonl``, and the names of
``figures`` are shown in reports.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from advisor.core import ImageAnswers, Interval, Overlays, Provenance, Quantity
from advisor.datasets import open_image
from advisor.engine import Images, Part, Role, compute_auroc
from advisor.measurement import Floats
from advisor.tasks._judge import EVERY, SHOWN_SIDE, JudgeByShares, collect_overlays
from advisor.tasks.anomaly._drawing import HOT, LEAST, heat_png
from advisor.tasks.anomaly._images import GOOD

BINS = 4096  # Steps of the scores by which pixels are ranked


@dataclass(frozen=True, eq=False)
class Marked:
    """The scores of good images and of faulty ones, which are drawn if a part has none."""

    good: Floats
    faulty: Floats
    heats: Floats  # of all images, (N, rows, columns)
    labels: NDArray[np.int64]  # the kind of each, 0 for good ones

    @classmethod
    def of(cls, file: Path, part: Part) -> Marked:
        """Return the scores of a part."""
        with np.load(file, allow_pickle=False) as arrays:
            heats = arrays["own"]
            drawn = arrays["drawn"].max(axis=(1, 2))
        labels = np.array(part.labels)
        scores = heats.max(axis=(1, 2))
        faulty = drawn
        if labels.any():
            faulty = scores[labels > 0]
        return cls(scores[labels == 0], faulty, heats, labels)

    @property
    def scores(self) -> Floats:
        """The score of each image, its largest value, (N,)."""
        return np.asarray(self.heats.max(axis=(1, 2)))

    @property
    def figure(self) -> Interval:
        """The probability that a faulty image has a higher score than a good one (AUROC)."""
        return compute_auroc(self.good, self.faulty)

    @property
    def shares(self) -> list[float]:
        """Each image's share in the AUROC: its rank among the others (DeLong et al., 1988)."""
        above = [_rank_among(self.good, score) for score in self.faulty]
        # A good image is right below the faulty ones, so its rank counts from the other end.
        below = [_rank_among(-self.faulty, -score) for score in self.good]
        return [*above, *below]


def _rank_among(others: Floats, score: float) -> float:
    """Return the share of the other scores that are below a score; an equal one counts half."""
    return float(np.mean((score > others) + (score == others) / 2))


@dataclass(frozen=True)
class ByAuroc(JudgeByShares[Marked]):
    """Judge by the AUROC of images."""

    def score_images(
        self,
        answers: Path,
        images: Images,
        role: Role,
        selection: slice = EVERY,
    ) -> Marked:
        """Return the scores of good and faulty images."""
        return Marked.of(answers, images.part(role))

    def compare_answers(
        self, shipped: Marked, floats: Marked | None, images: Images
    ) -> ImageAnswers:
        """Return the share of each kind of fault that is found."""
        alarms = shipped.scores >= LEAST
        shares = {}
        for kind, name in enumerate(images.dataset.classes):
            # The first class is that of good images.
            if kind and kind in shipped.labels:
                shares[name] = float(alarms[shipped.labels == kind].mean())
        return ImageAnswers(shares)

    def judge_answers(self, shipped: Marked, images: Images, chosen: ImageAnswers) -> ImageAnswers:
        """Return the found share of each kind, false alarms and found faults, and the images with
        the most errors.
        """
        part = images.part(Role.HOLDOUT)
        figures = {
            "False alarms": _share_above(shipped.good, "of the good images "),
            "Faults found": _share_above(shipped.faulty),
        }
        pixels = pixel_auroc(shipped.heats, part)
        if pixels is not None:
            source = "of images with masks and good ones"
            figures["Pixel AUROC"] = Quantity(
                100 * pixels, "%", Provenance.MEASURED, n=len(shipped.scores), source=source
            )
        return replace(
            self.compare_answers(shipped, None, images),
            figures=figures,
            overlays=_show_errors(shipped, images, part),
        )


def _share_above(scores: Floats, of: str = "") -> Quantity:
    """Return the share of the images that are alarms."""
    alarms = int((scores >= LEAST).sum())
    source = f"{of}from a score of a half on"
    return Interval.wilson(alarms, len(scores)).as_percent(len(scores), source)


def _show_errors(marked: Marked, images: Images, part: Part) -> Overlays:
    """Return the images with the most errors, with their maps over them."""
    scores = marked.scores
    kinds = images.dataset.classes
    alarms = scores >= LEAST

    def is_wrong(place: int) -> bool:
        return bool(alarms[place] == (marked.labels[place] == 0))

    def describe(place: int) -> str:
        kind = kinds[part.labels[place]]
        if is_wrong(place):
            kind += f" taken for {'an anomaly' if alarms[place] else GOOD[0]}"
        return f"{kind}, score {scores[place]:.2f}"

    def draw_layers(place: int) -> Iterator[bytes]:
        mask = part.objects[place]
        yield heat_png(_read_mask(mask, SHOWN_SIDE).astype(np.float32)) if mask else b""
        yield heat_png(marked.heats[place])

    # The lowest come first: of a faulty image a low score is the error,
    # of a good one a high score.
    ranked = np.where(marked.labels == 0, 1 - scores, scores)
    return collect_overlays(images, ranked, is_wrong, describe, draw_layers, {"unusual": HOT})


def _read_mask(path: str, side: int = 100_000) -> NDArray[np.bool_]:
    """Return the pixels of a mask that are not 0, at ``side`` pixels at most."""
    with open_image(Path(path)) as image:
        image.thumbnail((side, side), Image.Resampling.NEAREST)
        return np.asarray(image.convert("L")) > 0


def pixel_auroc(heats: Floats, part: Part) -> float | None:
    """Return the AUROC of pixels in the masks against all others, at the size of the masks.

    Without masks, it is None.
    """
    counts = np.zeros((2, BINS), np.int64)
    for heat, mask, label, path in zip(heats, part.objects, part.labels, part.paths, strict=True):
        # Nobody knows which pixels of a faulty image are faulty if it has no mask.
        if label and not mask:
            continue
        true = _read_mask(mask or str(path)) & bool(mask)
        large = np.asarray(
            Image.fromarray(heat).resize(true.shape[::-1], Image.Resampling.BILINEAR)
        )
        # Counts in steps of the score, so that the memory does not grow with the pixels of a set.
        for row, inside in enumerate((False, True)):
            counts[row] += np.histogram(large[true == inside], BINS, (0, 1))[0]
    if not counts[1].any():
        return None
    below = np.cumsum(counts[0]) - counts[0] / 2
    return float((below * counts[1]).sum() / (counts[0].sum() * counts[1].sum()))
