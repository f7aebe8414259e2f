"""What fine-tuning on cached maps gains over the head, in float and int8, and what it costs.

    python -m benchmarks accuracy --part finetune
    python -m benchmarks accuracy --part finetune --sets trashnet --seeds 0,1 --cards efficientnet_lite0_224
    python -m benchmarks accuracy --part finetune --epochs 1,2,4

Each network learns as in a search: the compared one from the training part, stopped by the validation part; the one
that ships continues with both. The files are scored once: ``grocery`` on its official test, which is another visit to
the shops, and ``trashnet`` on the hold-out of a split for each seed.
"""

import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from advisor.catalog import Catalogue, build_model, fetch_weights
from advisor.core import TrainingName
from advisor.datasets import CalibrationImages, Dataset, InputSpec, Survey, choose_images
from advisor.datasets._split import draw_split
from advisor.training import FINETUNING, Finetuning
from benchmarks.accuracy import parser_of
from benchmarks.accuracy_head import FOLDERS, image_features
from benchmarks.tables import Row, keep, kept_of_others

NAME, RECIPE = "accuracy_finetune", FINETUNING[TrainingName.FINETUNE_CACHED]
CARDS = "mobilenet_v2_1.0_224,efficientnet_lite0_224"
CALIBRATION = 100
HEADER = (
    "case", "set", "seed", "network", "head float %", "head int8 %", "tuned float %", "tuned int8 %",
    "validation at start %", "validation at best %", "CPU min",
)  # fmt: skip
REMARKS = (
    "Head: logistic regression on the features of training and validation part. Top-1 on the hold-out, scored once.",
    "CPU minutes: user and system time of fine-tuning the compared network and the one that ships, after features.",
)


@dataclass(frozen=True)
class Part:
    """Images and their classes."""

    paths: list[Path]
    labels: list[int]


@dataclass(frozen=True)
class Case:
    """A set with one split: what is learnt from, the rows of it that validate, and the hold-out.

    ``known`` are the indices in the set of what is learnt from.
    """

    name: str
    seed: int
    dataset: Dataset
    known: list[int]
    learnt: Part
    validation: list[int]
    holdout: Part


def main(options: Sequence[str] = ()) -> None:
    """Fine-tune each network on each split, and keep the table."""
    parser = parser_of("finetune", __doc__, CARDS, tuple(FOLDERS))
    parser.add_argument("--epochs", default=str(RECIPE.epochs), help="numbers of epochs, joined by commas")
    chosen = parser.parse_args(list(options))
    plans = [(card, int(epochs)) for card in chosen.cards.split(",") for epochs in chosen.epochs.split(",")]
    rows: list[Row] = []
    for name in chosen.sets.split(","):
        for seed in [0] if name == "grocery" else [int(seed) for seed in chosen.seeds.split(",")]:
            for card, epochs in plans:
                rows.append(_row(_case(name, seed), card, replace(RECIPE, seed=seed, epochs=epochs)))
                others, _ = kept_of_others(NAME, [str(row[0]) for row in rows])
                table = sorted([*others, *rows], key=str)
                print(keep(NAME, "Fine-tuning on cached maps", HEADER, table, REMARKS), flush=True)


def _case(name: str, seed: int) -> Case:
    found = Survey.read(FOLDERS[name])
    parts = draw_split(found.dataset, seed, given=[image.part or None for image in found.dataset.images])
    known = sorted((*parts.train, *parts.validation))

    def part(indices: Sequence[int]) -> Part:
        images = [found.dataset.images[index] for index in indices]
        return Part([image.path for image in images], [image.label for image in images])

    validation = [row for row, index in enumerate(known) if index in set(parts.validation)]
    return Case(name, seed, found.dataset, known, part(known), validation, part(parts.holdout))


def _row(case: Case, name: str, recipe: Finetuning) -> Row:
    """Train the head and the network, and return what their files score."""
    from advisor.tflite import attach_head
    from advisor.training import TuningImages, train_head, tune_network

    card = Catalogue.load()[name]
    spec = InputSpec(card.input_size, card.preprocessing.mean, card.preprocessing.std)
    build = partial(build_model, card, fetch_weights(card))
    score = partial(_scores, case, spec)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        backbone, every, _ = image_features(case.name, card, case.dataset)
        features: NDArray[np.float32] = every[case.known]
        np.save(folder / "features.npy", features)
        head = train_head(features, case.learnt.labels, max(case.learnt.labels) + 1, case.seed)
        (folder / "head.tflite").write_bytes(attach_head(backbone.read_bytes(), head.weights, head.bias))
        began = sum(os.times()[:2])
        images = TuningImages([folder / "features.npy"], case.learnt.paths, case.learnt.labels, case.validation)
        call = partial(tune_network, build, spec, images, recipe, maps=folder / "maps")
        (folder / "compared").mkdir()
        result = call(folder / "compare", folder / "compared" / "model.tflite")
        call(folder / "ship", folder / "model.tflite", folder / "compared" / "model.tflite")
        minutes = (sum(os.times()[:2]) - began) / 60
        accuracies = [f"{100 * result[key]:.1f}" for key in ("start_accuracy", "validation_accuracy")]
        figures = (*score(folder / "head.tflite"), *score(folder / "model.tflite"))
        fewer = "" if recipe.epochs == RECIPE.epochs else f", epochs: {recipe.epochs}"
        key = f"{case.name}, seed {case.seed}, {name}{fewer}"
        return (key, case.name, case.seed, name, *figures, *accuracies, f"{minutes:.1f}")


def _scores(case: Case, spec: InputSpec, model: Path) -> tuple[str, str]:
    """Return the top-1 in % of a float file and of its int8 form on the hold-out."""
    from advisor.compression import RecipeInputs, make_file
    from advisor.measurement import predict

    train = sorted(set(range(len(case.learnt.labels))) - set(case.validation))
    drawn = choose_images([case.learnt.labels[row] for row in train], CALIBRATION, case.seed)
    images = CalibrationImages(tuple(case.learnt.paths[train[row]] for row in drawn), spec, case.seed)
    quantized = model.with_name(f"int8-{model.name}")
    make_file(model, "int8", images, RecipeInputs(), None, quantized)
    answers = (predict(file, case.holdout.paths, spec).argmax(axis=1) for file in (model, quantized))
    floats, integers = (f"{100 * np.mean(answer == case.holdout.labels):.1f}" for answer in answers)
    return floats, integers


if __name__ == "__main__":
    main()
