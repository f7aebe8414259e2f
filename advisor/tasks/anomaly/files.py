"""Files that mark anomalies: run and judge them, ship them, and draw faults into images for sets without any."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFilter

from advisor.core.evaluation import Evaluation
from advisor.core.evaluation_facts import ImageAnswers, OverlaidImage, Overlays
from advisor.core.quantity import Interval, paired_shares, wilson
from advisor.datasets.images import InputSpec, load, open_image
from advisor.engine.pipeline.evaluation.accuracy import AccuracyVerdict, drop_of, percent
from advisor.engine.pipeline.evaluation.scorer import HeldOut, Scored
from advisor.engine.pipeline.materials import Images, Part, Role
from advisor.exporting.shipping import Found, Page, Shipping
from advisor.measurement.accuracy import Floats, Pixels, Runner
from advisor.measurement.unknown import auroc
from advisor.store import RunFolder
from advisor.tasks.anomaly.images import ANOMALY, GOOD
from advisor.tasks.detection.files import marked

HEAT = "heat"  # Output of a file: how unusual each place is, (1, rows, columns, 1); its largest value is the score
LEAST = 0.5  # Score from which on an image is an anomaly
HOT = "#e5342c"


def heat_png(heat: NDArray[np.floating[Any]]) -> bytes:
    """Return a map as a PNG of one colour, clear up to half of the least score of an anomaly."""
    pixels, stored = np.zeros((*heat.shape, 4), np.uint8), BytesIO()
    pixels[..., :3] = tuple(bytes.fromhex(HOT[1:]))
    pixels[..., 3] = np.clip((heat - LEAST / 2) / LEAST * 255, 0, 255)
    Image.fromarray(pixels).save(stored, "PNG", optimize=True)
    return stored.getvalue()


SHIPPING = Shipping(
    "finds anomalies in images", "maps", "anomaly_card.md.j2",
    {"android": "android/AnomalyDetector.kt", "ios": "ios/AnomalyDetector.swift", "python": "python/anomaly.py"},
    "", marked, lambda outputs, _model: (Found(ANOMALY, float(outputs[0].max())),),
    page=Page("templates/heat.js", {"least": LEAST, "hot": HOT, "good": GOOD[0]}, __package__),
    least=LEAST, said=lambda found, least: found[0].label if found[0].score >= least else "good",
    layer=lambda outputs, _model: heat_png(outputs[0][..., 0]), package=__package__,
)  # fmt: skip


LARGEST, SMALLEST = 0.05, 0.002  # Shares of the image that a patch covers
THIN = 0.012  # Width of a scratch over the side of the image
LEAST_ALPHA = 0.4  # Share of a fault in a pixel from which on the pixel is of it


def spoiled(pixels: Pixels, seed: int) -> tuple[Pixels, NDArray[np.bool_]]:
    """Return an image, uint8 (S, S, 3), with a patch from another place, a spot or a scratch, and the mask of it.

    Patches from the image itself: C.-L. Li et al., "CutPaste" (2021).
    """
    draw, side = np.random.default_rng(seed), len(pixels)
    shape, kind = Image.new("L", (side, side)), seed % 3
    pen, (x, y) = ImageDraw.Draw(shape), draw.uniform(0.1, 0.9, 2) * side
    radius = side * float(np.sqrt(np.exp(draw.uniform(np.log(SMALLEST), np.log(LARGEST))) / np.pi))
    wide, high = radius * float(np.exp(draw.normal(0, 0.4))), radius
    if kind == 2:
        turns = np.cumsum(draw.normal(0, 0.3, 12)) + draw.uniform(0, 2 * np.pi)
        steps = np.stack([np.cos(turns), np.sin(turns)], axis=1) * side * draw.uniform(0.01, 0.04)
        pen.line(
            [(float(a), float(b)) for a, b in np.cumsum(steps, axis=0) + np.array([x, y])],
            255,
            max(2, round(THIN * side)),
        )
    else:
        (pen.ellipse if kind else pen.rectangle)((x - wide, y - high, x + wide, y + high), 255)
    alpha = np.asarray(shape.filter(ImageFilter.GaussianBlur(0.7)), np.float32)[..., None] / 255
    other = np.roll(pixels, draw.integers(side // 4, side // 2, 2), (0, 1)).astype(np.float32)
    brighter = float(draw.choice((-1, 1)) * draw.uniform(25, 90))
    new = other + draw.normal(0, 20) if kind == 0 else pixels.astype(np.float32) + brighter
    found = pixels + alpha * (new - pixels)
    return np.clip(np.rint(found), 0, 255).astype(np.uint8), alpha[..., 0] > LEAST_ALPHA


HEATS_FILE = "heats.npz"
WORST, SHOWN_SIDE = 8, 160  # Images of the hold-out that are kept with their maps, and the longer side of these
BINS = 4096  # Steps of the scores by which pixels are ranked
VALIDATED = "AUROC on the validation part of --data, run in LiteRT"
HELD_OUT = "AUROC on the hold-out of --data, run in LiteRT"


class Marker(Runner[Floats]):
    """A loaded file with a map of how unusual each place is: one output ``heat``, (1, rows, columns, 1)."""

    outputs, kind = (HEAT,), "an anomaly detector"

    def read(self, found: Mapping[str, Floats]) -> Floats:
        """Return the map, float32 (rows, columns)."""
        return np.asarray(found[HEAT][0, :, :, 0], np.float32)


def mark(model: Path, images: Sequence[Path], view: InputSpec, path: Path, _classes: Sequence[str]) -> None:
    """Run a file over images, and over copies with a fault drawn into them, in a child process; write the maps."""
    run = Marker(model, view)
    own = [run(image) for image in images]
    drawn = [
        run.found_in(view.normalise(spoiled(load(image, view.size), place)[0])) for place, image in enumerate(images)
    ]
    np.savez(path, own=np.stack(own), drawn=np.stack(drawn))


@dataclass(frozen=True, eq=False)
class Marked:
    """The scores of good images and of faulty ones, and each image's share in the AUROC."""

    good: Floats
    faulty: Floats

    @classmethod
    def of(cls, file: Path, part: Part) -> Marked:
        """Return the scores of a part; without a faulty image, those of the drawn faults are taken."""
        with np.load(file, allow_pickle=False) as kept:
            own, drawn = (kept[name].max(axis=(1, 2)) for name in ("own", "drawn"))
        good = np.array(part.labels) == 0
        return cls(own[good], own[~good] if not good.all() else drawn)

    @property
    def auroc(self) -> Interval:
        """The probability that a faulty image has a higher score than a good one."""
        return auroc(self.good, self.faulty)

    @property
    def shares(self) -> list[float]:
        """Each image's share in the AUROC, whose mean it is: its rank among the others (DeLong et al., 1988)."""
        above = [float(np.mean((each > self.good) + (each == self.good) / 2)) for each in self.faulty]
        below = [float(np.mean((each < self.faulty) + (each == self.faulty) / 2)) for each in self.good]
        return [*above, *below]


class ByAuroc:
    """See :class:`advisor.engine.pipeline.evaluation.scorer.Judge`."""

    def verdict(self, scored: Scored, images: Images, run: RunFolder, name: str) -> AccuracyVerdict:
        """Return the AUROC on the validation part, and what compression lost."""
        part = images.part(Role.VALIDATION)
        own, floats = (Marked.of(file, part) for file in (scored.own, scored.floats))
        shares, count = own.shares, len(part.paths)
        drop = drop_of(paired_shares(floats.shares, shares), count)
        answers = ImageAnswers(_found(scored.own, part, images), file=run.keep_answers(name, shares))
        return AccuracyVerdict(percent(own.auroc, count, VALIDATED), drop, answers)

    def held_out(self, evaluation: Evaluation, own: Path, images: Images, file: str = "") -> HeldOut:
        """Return the AUROC on the hold-out, false alarms and found faults, and the images with the most errors."""
        part = images.part(Role.HOLDOUT)
        marked, count = Marked.of(own, part), len(part.paths)
        alarms, found = ((scores >= LEAST).sum() for scores in (marked.good, marked.faulty))
        good, faulty, of = len(marked.good), len(marked.faulty), "from a score of a half on"
        figures = {
            "False alarms": percent(wilson(int(alarms), good), good, f"of the good images {of}"),
            "Faults found": percent(wilson(int(found), faulty), faulty, of),
        }
        if (pixels := pixel_auroc(own, part)) is not None:
            whole = percent(Interval(pixels, pixels, pixels), count, "of images with masks and good ones")
            figures["Pixel AUROC"] = replace(whole, low=None, high=None)
        answers = ImageAnswers(_found(own, part, images), figures=figures, overlays=_worst(own, part, images))
        reached = percent(marked.auroc, count, HELD_OUT)
        return replace(evaluation, holdout_accuracy=reached, holdout_answers=answers), {}


def _found(file: Path, part: Part, images: Images) -> dict[str, float | None]:
    """Return the share of each kind of fault that is found."""
    with np.load(file, allow_pickle=False) as kept:
        scores, labels = kept["own"].max(axis=(1, 2)), np.array(part.labels)
    kinds = enumerate(images.dataset.classes)
    return {
        name: float((scores[labels == kind] >= LEAST).mean()) for kind, name in kinds if kind and (labels == kind).any()
    }


def pixel_auroc(file: Path, part: Part) -> float | None:
    """Return the AUROC of pixels in the masks against all others, at the size of the masks; None without masks."""
    counts = np.zeros((2, BINS), np.int64)
    with np.load(file, allow_pickle=False) as kept:
        heats = kept["own"]
    for heat, mask, label, path in zip(heats, part.objects, part.labels, part.paths, strict=True):
        if label and not mask:
            continue
        with open_image(Path(mask or path)) as image:
            true = np.asarray(image.convert("L")) > 0 if mask else np.zeros(image.size[::-1], bool)
        large = np.asarray(Image.fromarray(heat).resize(true.shape[::-1], Image.Resampling.BILINEAR))
        place = np.clip(large * BINS, 0, BINS - 1).astype(int)
        for inside in (0, 1):
            counts[inside] += np.bincount(place[true == inside], minlength=BINS)
    if not counts[1].any():
        return None
    below = np.cumsum(counts[0]) - counts[0] / 2
    return float((below * counts[1]).sum() / (counts[0].sum() * counts[1].sum()))


def _worst(file: Path, part: Part, images: Images) -> Overlays:
    """Return faulty images with the lowest scores, and good ones with the highest."""
    with np.load(file, allow_pickle=False) as kept:
        heats = kept["own"]
    scores, good = heats.max(axis=(1, 2)), np.array(part.labels) == 0
    order = np.argsort(np.where(good, scores, 1 - scores))[::-1][:WORST].tolist()
    rows = []
    for place in order:
        with open_image(part.paths[place]) as image:
            width, height = image.size
        kind = images.dataset.classes[part.labels[place]]
        truth = base64.b64encode(_mask_png(part.objects[place])).decode() if part.objects[place] else ""
        found = base64.b64encode(heat_png(heats[place])).decode()
        path = images.dataset.shown(part.paths[place])
        rows.append(
            OverlaidImage(path, part.hashes[place], width, height, f"{kind}, score {scores[place]:.2f}", truth, found)
        )
    return Overlays(tuple(rows), {"unusual": HOT})


def _mask_png(path: str) -> bytes:
    with open_image(Path(path)) as image:
        image.thumbnail((SHOWN_SIDE, SHOWN_SIDE), Image.Resampling.NEAREST)
        inside = np.asarray(image.convert("L")) > 0
    return heat_png(inside.astype(np.float32))
