"""Files that mark anomalies: run and judge them, ship them,
and draw faults into images for sets without any.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFilter

from advisor.core import ImageAnswers, Interval, Provenance, Quantity
from advisor.datasets import InputSpec, load, open_image
from advisor.engine import Images, Part, Role, compute_auroc, make_percent
from advisor.exporting import Found, Page, Shipping
from advisor.measurement import Floats, Pixels, Runner
from advisor.tasks._judge import EVERY, SHOWN_SIDE, JudgeByShares, overlays, png
from advisor.tasks.anomaly._images import ANOMALY, GOOD
from advisor.tasks.detection._shipping import mark_map

# Output of a file: how unusual each place is, (1, rows, columns, 1);
# its largest value is the score.
HEAT = "heat"
LEAST = 0.5  # Score from which on an image is an anomaly
HOT = "#e5342c"
BINS = 4096  # Steps of the scores by which pixels are ranked

SHIPPING = Shipping(
    does="finds anomalies in images",
    answers="maps",
    card="anomaly_card.md.j2",
    snippets={
        "android": "android/AnomalyDetector.kt",
        "ios": "ios/AnomalyDetector.swift",
        "python": "python/anomaly.py",
    },
    answering=mark_map,
    found=lambda outputs, _model: (Found(ANOMALY, float(outputs[0].max())),),
    page=Page(
        "templates/heat.js",
        {"least": LEAST, "hot": HOT, "good": GOOD[0]},
        __package__,
        "Is anything unusual in the image?",
        counted=(),
        bars=f"Score of the image, no probability: an anomaly from {LEAST:.0%} on".replace(
            "%", " %"
        ),
    ),
    least=LEAST,
    said=lambda answers, least: answers[0].label if answers[0].score >= least else "good",
    layer=lambda outputs, _model: heat_png(outputs[0][..., 0]),
    package=__package__,
)

# Shares of the image that a patch covers.
LARGEST = 0.05
SMALLEST = 0.002
THIN = 0.012  # Width of a scratch over the side of the image


def heat_png(heat: NDArray[np.floating[Any]]) -> bytes:
    """Return a map as a PNG of one colour, clear up to half of the least score of an anomaly."""
    image = Image.new("RGB", heat.shape[::-1], HOT)
    opacity = (heat - LEAST / 2) / LEAST * 255
    image.putalpha(Image.fromarray(np.clip(opacity, 0, 255).astype(np.uint8)))
    return png(image)


def spoil_image(pixels: Pixels, seed: int) -> Pixels:
    """Return an image, uint8 (S, S, 3), with a patch from another place, a spot or a scratch.

    Patches from the image itself: C.-L. Li et al., "CutPaste" (2021).
    """
    draw = np.random.default_rng(seed)
    side = len(pixels)
    shape = Image.new("L", (side, side))
    # In turn, so that every part of a set has patches, spots and scratches alike.
    kind = seed % 3
    pen = ImageDraw.Draw(shape)
    x, y = draw.uniform(0.1, 0.9, 2) * side
    # Each doubling of the area is as frequent as any other.
    area = np.exp(draw.uniform(np.log(SMALLEST), np.log(LARGEST)))
    radius = side * float(np.sqrt(area / np.pi))
    wide = radius * float(np.exp(draw.normal(0, 0.4)))
    high = radius
    if kind == 2:
        turns = np.cumsum(draw.normal(0, 0.3, 12)) + draw.uniform(0, 2 * np.pi)
        steps = np.stack([np.cos(turns), np.sin(turns)], axis=1) * side * draw.uniform(0.01, 0.04)
        line = np.cumsum(steps, axis=0) + np.array([x, y])
        pen.line(line.reshape(-1).tolist(), 255, max(2, round(THIN * side)))
    else:
        (pen.ellipse if kind else pen.rectangle)((x - wide, y - high, x + wide, y + high), 255)
    alpha = np.asarray(shape.filter(ImageFilter.GaussianBlur(0.7)), np.float32)[..., None] / 255
    other = np.roll(pixels, draw.integers(side // 4, side // 2, 2), (0, 1)).astype(np.float32)
    brighter = float(draw.choice((-1, 1)) * draw.uniform(25, 90))
    new = other + draw.normal(0, 20) if kind == 0 else pixels.astype(np.float32) + brighter
    return np.clip(np.rint(pixels + alpha * (new - pixels)), 0, 255).astype(np.uint8)


class Marker(Runner[Floats]):
    """A loaded file with a map of how unusual each place is:
    one output ``heat``, (1, rows, columns, 1).
    """

    outputs = (HEAT,)
    kind = "an anomaly detector"


def mark(
    _: bool,
    model: Path,
    images: Sequence[Path],
    view: InputSpec,
    path: Path,
    _classes: Sequence[str],
) -> None:
    """Run a file over images, and over copies with a fault drawn into them, in a child process;
    write the maps.
    """
    run = Marker(model, view)
    # The place of the image is the seed, so that all files are judged by the same faults.
    faulty = (spoil_image(load(image, view.size), place) for place, image in enumerate(images))
    drawn = [run.answer_for(view.normalise(pixels)) for pixels in faulty]
    np.savez(path, own=np.stack(list(run.over(images)))[..., 0], drawn=np.stack(drawn)[..., 0])


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
        """Each image's share in the AUROC, whose mean it is:
        its rank among the others (DeLong et al., 1988).
        """
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
        self, answers: Path, images: Images, role: Role, selection: slice = EVERY
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
        """Return it, false alarms and found faults, and the images with the most errors."""
        part = images.part(Role.HOLDOUT)
        scores = shipped.scores
        kinds = images.dataset.classes

        def share(some: Floats, of: str = "") -> Quantity:
            return make_percent(
                Interval.wilson(int((some >= LEAST).sum()), len(some)),
                len(some),
                f"{of}from a score of a half on",
            )

        figures = {
            "False alarms": share(shipped.good, "of the good images "),
            "Faults found": share(shipped.faulty),
        }
        if (pixels := pixel_auroc(shipped.heats, part)) is not None:
            source = "of images with masks and good ones"
            figures["Pixel AUROC"] = Quantity(
                100 * pixels, "%", Provenance.MEASURED, n=len(scores), source=source
            )

        def layers(place: int) -> Iterator[bytes]:
            mask = part.objects[place]
            yield heat_png(_truth(mask, SHOWN_SIDE).astype(np.float32)) if mask else b""
            yield heat_png(shipped.heats[place])

        alarms = scores >= LEAST

        def errs(place: int) -> bool:
            return bool(alarms[place] == (shipped.labels[place] == 0))

        def describe(place: int) -> str:
            kind = kinds[part.labels[place]]
            if errs(place):
                kind += f" taken for {'an anomaly' if alarms[place] else GOOD[0]}"
            return f"{kind}, score {scores[place]:.2f}"

        # The lowest come first: of a faulty image a low score is the error,
        # of a good one a high score.
        ranked = np.where(shipped.labels == 0, 1 - scores, scores)
        shown = overlays(images, ranked, errs, describe, layers, {"unusual": HOT})
        return replace(
            self.compare_answers(shipped, None, images), figures=figures, overlays=shown
        )


def _truth(path: str, side: int = 100_000) -> NDArray[np.bool_]:
    """Return the pixels of a mask that are not 0, at ``side`` pixels at most."""
    with open_image(Path(path)) as image:
        image.thumbnail((side, side), Image.Resampling.NEAREST)
        return np.asarray(image.convert("L")) > 0


def pixel_auroc(heats: Floats, part: Part) -> float | None:
    """Return the AUROC of pixels in the masks against all others, at the size of the masks;
    None without masks.
    """
    counts = np.zeros((2, BINS), np.int64)
    for heat, mask, label, path in zip(heats, part.objects, part.labels, part.paths, strict=True):
        # Nobody knows which pixels of a faulty image are faulty if it has no mask.
        if label and not mask:
            continue
        true = _truth(mask or str(path)) & bool(mask)
        large = np.asarray(
            Image.fromarray(heat).resize(true.shape[::-1], Image.Resampling.BILINEAR)
        )
        # Counts in steps of the score, so that the memory does not grow with the pixels of a set.
        counts += [
            np.histogram(large[true == inside], BINS, (0, 1))[0] for inside in (False, True)
        ]
    if not counts[1].any():
        return None
    below = np.cumsum(counts[0]) - counts[0] / 2
    return float((below * counts[1]).sum() / (counts[0].sum() * counts[1].sum()))
