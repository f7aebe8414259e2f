"""What another camera costs detectors and counters, and another light segmenters, beside the robust figure.

    python -m benchmarks other_conditions
    python -m benchmarks other_conditions --cases object-counting,1

Needs ../shared/data/images/cards and tiles. Playing cards are of two cameras (``IMG`` and ``cam_image``): networks
learn from four fifths of the first one. Tiles were taken under six lights (``exp1`` to ``exp6``): networks learn from
one light, and the tiles that are held out are in none of what is learnt. Nothing was chosen on these figures.
"""

import argparse
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from advisor.catalog import Catalogue, fetch_weights
from advisor.datasets import BoxSurvey, Dataset, MaskSurvey, Pair, Split
from advisor.engine import Boxes, Images, Question, Role, input_spec
from advisor.tasks._counting import COUNTING
from advisor.tasks._on_maps import train
from advisor.tasks._task import HeadOnMaps
from advisor.tasks.detection import DETECTION
from advisor.tasks.segmentation import SEGMENTATION
from advisor.training._on_maps.train import NEW
from benchmarks.tables import Row, keep, kept_of_others, percent

NAME = "other_conditions"
FOLDER = Path(__file__).resolve().parents[2] / "shared" / "data" / "images"
CASES = {f"{task.name},{seed}": (task, seed) for task in (DETECTION, COUNTING, SEGMENTATION) for seed in (1, 2, 3)}
CARDS = {1: "mobilenet_v2_1.0_224", 2: "mobilenet_v1_1.0_224", 3: "efficientnet_lite0_224"}
HEADER = ("case", "network", "images learnt from", "hold-out %", "other conditions %", "under capture conditions %")
REMARKS = (
    "Heads on frozen backbones, float32. Intervals (95 %): bootstrap over the images.",
    "Objects: a fifth of the first camera's images is held out, drawn at random. Other conditions: the 52 images of "
    "the second one.",
    "Segmentation: learnt from one light (that of the case's number), of two thirds of the tiles. Other conditions: "
    "the tiles that are held out, under the five other lights. Tiles are told by their masks.",
    "Under capture conditions: the hold-out, mean over those that move nothing, without an interval.",
)
SAME_TILE = 0.6  # Cosine of two masks at 48 x 48 from which on they are of one tile
HELD = 0.35  # Share of a light's images with a fault that are held out


def main() -> None:
    """Train, judge, and keep the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--cases", nargs="*", default=list(CASES), choices=CASES, help="task and number")
    chosen, rows = parser.parse_args().cases, list[Row]()
    for name in chosen:
        rows.append((name, *measured(*CASES[name])))
        print(*rows[-1], sep=" | ", flush=True)
    rows = sorted([*kept_of_others(NAME, chosen)[0], *rows], key=lambda row: str(row[0]))
    print(keep(NAME, "Other conditions", HEADER, rows, REMARKS))


def measured(task: HeadOnMaps, seed: int) -> Row:
    """Train a network, and return the row of its figures."""
    images = tiles(seed) if task is SEGMENTATION else playing_cards(seed)
    card = Catalogue.load()[CARDS[seed]].at(task.side)
    judge: Any = task.judge(Question(task.name))
    learnt, classes, answer = images.part(Role.TRAIN), images.classes, task.functions.answer
    with tempfile.TemporaryDirectory() as folder:
        model, found = Path(folder) / "model.tflite", Path(folder) / task.functions.answers
        pairs = list(zip(learnt.paths, learnt.objects, strict=True))
        train(card, fetch_weights(card), pairs, len(classes), task.name, seed, model, model.parent, NEW)
        figures = []
        for role in (Role.HOLDOUT, Role.VALIDATION):
            answer(False, model, images.part(role).paths, input_spec(card), found, classes)
            figures.append(percent(judge.score_images(found, images, role).figure))
        answer(True, model, images.part(Role.HOLDOUT).paths, input_spec(card), found, classes)
        robust = judge.captured(found, images, Role.HOLDOUT).shares.mean()
    return card.name, len(pairs), *figures, f"{100 * robust:.1f}"


def playing_cards(seed: int) -> Images:
    """Return the images of one camera, divided, and those of the other one as validation."""
    read = BoxSurvey.read_images(FOLDER / "cards")
    dataset = read.images.dataset
    other = [place for place, image in enumerate(dataset.images) if image.path.name.startswith("cam_image")]
    own = sorted({*range(len(dataset.images))} - {*other})
    held = np.random.default_rng(seed).permutation(own)[: len(own) // 5].tolist()
    return replace(parts(dataset, own, other, held), boxes=Boxes(read.classes, read.objects, read.sizes))


def tiles(light: int) -> Images:
    """Return the tiles under one light, divided, and the held-out ones under the others as validation."""
    read = MaskSurvey.read_images(FOLDER / "tiles")
    dataset = read.images.dataset
    faulty = [place for place, image in enumerate(dataset.images) if image.path.parent.name != "free"]
    small = []
    for place in faulty:
        with Image.open(read.masks[place].path) as mask:
            small.append(np.asarray(mask.convert("L").resize((48, 48), Image.Resampling.BOX), float).reshape(-1))
    alike = np.stack(small) / np.maximum(np.linalg.norm(small, axis=1, keepdims=True), 1e-9)
    near = np.argwhere(np.triu(alike @ alike.T > SAME_TILE, 1))
    joined = Pair.group_images([Pair(one, two, 1.0) for one, two in near.tolist()], len(faulty))
    tile = {faulty[place]: number for number, group in enumerate(joined) for place in group}
    tile |= {place: -place for place in faulty if place not in tile}
    lit = [place for place, image in enumerate(dataset.images) if image.path.name.startswith(f"exp{light}")]
    own, held = [place for place in lit if place in tile], list[int]()
    for number in np.random.default_rng(light).permutation(sorted({tile[place] for place in own})):
        more = [place for place in own if tile[place] == number]
        held += more if len(held) + len(more) <= HELD * len(own) else []
    free = [place for place in lit if place not in tile][::4]
    other = [place for place in faulty if place not in lit and tile[place] in {tile[each] for each in held}]
    return replace(parts(dataset, [*own, *free], other, held), objects=read.masks)


def parts(dataset: Dataset, own: Sequence[int], other: Sequence[int], held: Sequence[int]) -> Images:
    """Return images of which ``held`` are the hold-out, ``other`` are validation, and the rest of ``own`` is learnt."""
    learnt = sorted({*own} - {*held})
    return Images(dataset, Split(tuple(learnt), tuple(sorted(other)), tuple(sorted(held)), 0))


if __name__ == "__main__":
    main()
