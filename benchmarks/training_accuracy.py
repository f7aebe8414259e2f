"""What retraining reaches on TrashNet's hold-out (seed 0): head, head with captured views, fine-tuning.

Everything is made and scored as a search does: features and answers by LiteRT, the artefact that ships. Fine-tuning
takes its time on a processor; ``BENCHMARK_FINETUNE=card,card`` names the cards to fine-tune, and their folders under
``BENCHMARK_FOLDER`` are gone on with where they stopped.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from advisor.datasets.pictures import View
from benchmarks.tables import Row, keep

TRASHNET = Path(__file__).resolve().parents[2] / "shared" / "data" / "images" / "trashnet"
CARDS = os.environ.get("BENCHMARK_CARDS", "mobilenet_v2_1.0_224,efficientnet_lite0_224").split(",")
FINETUNED = [name for name in os.environ.get("BENCHMARK_FINETUNE", "").split(",") if name]
SEED = 0


@dataclass(frozen=True)
class Case:
    """One classifier: its card, how it was trained, its file, and what it answers to hold-out and captures."""

    card: str
    training: str
    right: tuple[bool, ...]
    captured: Any


def main() -> None:
    """Train, score and keep the table."""
    place = os.environ.get("BENCHMARK_FOLDER")
    with tempfile.TemporaryDirectory() as name:
        rows = [row for card in CARDS for row in _rows(list(_cases(card, Path(place or name) / card)))]
    header = (
        "card", "training", "hold-out top-1", "95 % interval", "against the head, points", "robust accuracy",
        "95 % interval", "against the head, points",
    )  # fmt: skip
    remarks = [
        "TrashNet, six classes, split seed 0: 2,021 pictures to learn from, 506 held out; intervals by Wilson, "
        "differences by the paired bootstrap",
        "robust accuracy: the mean over seven capture conditions at two strengths, interval over pictures",
    ]
    print(keep("training_accuracy", "Accuracy after retraining", header, rows, remarks))


def _cases(name: str, folder: Path) -> Iterator[Case]:
    from advisor.catalog.catalogue import load_catalogue
    from advisor.catalog.convert import convert
    from advisor.catalog.weights.fetching import fetch
    from advisor.datasets.split import split
    from advisor.datasets.survey import survey
    from advisor.tflite.levels import with_levels
    from advisor.tflite.surgery import attach_head, select_output
    from advisor.training.features import extract
    from advisor.training.head import train_head
    from advisor.training.views import CAPTURED

    folder.mkdir(parents=True, exist_ok=True)
    card, dataset = load_catalogue().select([name])[0], survey(TRASHNET).dataset
    parts = split(dataset, SEED)
    labels = np.array(dataset.labels)
    known_at = sorted((*parts.train, *parts.validation))
    learnt, held = ([dataset.pictures[index].path for index in part] for part in (known_at, parts.holdout))
    master, trunk = folder / "master.tflite", folder / "trunk.tflite"
    convert(card, fetch(card), master)
    trunk.write_bytes(with_levels(select_output(master.read_bytes(), "features")))
    view = View(card.input_size, card.preprocessing.mean, card.preprocessing.std)
    plain = extract(trunk, learnt, view)
    captured = [extract(trunk, learnt, view, seen=seen) for seen in CAPTURED]
    known, truth = labels[known_at].tolist(), labels[list(parts.holdout)].tolist()
    for training, views in (("head", []), ("head, captured views", captured)):
        head = train_head(plain, known, len(dataset.classes), SEED, views)
        path = folder / f"{training.replace(', ', '-').replace(' ', '-')}.tflite"
        path.write_bytes(attach_head(trunk.read_bytes(), head.weights, head.bias))
        yield _scored(name, training, path, held, truth, view)
    if name in FINETUNED:
        validation = [place for place, index in enumerate(known_at) if index in set(parts.validation)]
        path = _finetuned(card, plain, learnt, known, validation, folder)
        yield _scored(name, "fine-tuned", path, held, truth, view)


def _finetuned(
    card: Any, features: Any, paths: Sequence[Path], labels: Sequence[int], validation: Sequence[int], folder: Path
) -> Path:
    """Fine-tune as a search does: validation stops it, then what ships goes on with the validation part too."""
    from advisor.catalog.weights.fetching import fetch
    from advisor.training.knobs import FINETUNE_TOP
    from advisor.training.tuning import tune

    rows = folder / "features.npy"
    np.save(rows, features)
    compared, ships = folder / "compared", folder / "ships"
    for made, after in ((compared, None), (ships, compared / "model.tflite")):
        made.mkdir(exist_ok=True)
        tune(
            card, fetch(card), [rows], paths, labels, validation, FINETUNE_TOP, made / "checkpoints",
            made / "model.tflite", after,
        )  # fmt: skip
    return ships / "model.tflite"


def _scored(card: str, training: str, path: Path, held: Sequence[Path], truth: Sequence[int], view: Any) -> Case:
    from advisor.benchmark.accuracy import predict
    from advisor.benchmark.robustness import captured_answers

    right = predict(path, held, view).argmax(axis=1) == np.array(truth)
    captured = captured_answers(path, held, view) == np.array(truth)
    return Case(card, training, tuple(bool(one) for one in right), captured)


def _rows(cases: list[Case]) -> list[Row]:
    return [_row(case, cases[0]) for case in cases]


def _row(case: Case, head: Case) -> Row:
    from advisor.core.statistics import paired_difference, wilson

    clean = wilson(sum(case.right), len(case.right))
    against = paired_difference(case.right, head.right)
    robust, gained = _bootstrap(case.captured), _bootstrap(case.captured.astype(int) - head.captured.astype(int))
    same = case is head
    return (
        case.card, case.training, f"{100 * clean.value:.1f} %", _interval(clean.low, clean.high),
        "" if same else f"{100 * against.value:+.1f} {_interval(against.low, against.high)}",
        f"{100 * robust[0]:.1f} %", _interval(*robust[1:]),
        "" if same else f"{100 * gained[0]:+.1f} {_interval(*gained[1:])}",
    )  # fmt: skip


def _bootstrap(values: Any) -> tuple[float, float, float]:
    """Return mean and 95 % interval over pictures of (tests, pictures)."""
    means = values.mean(axis=0)
    drawn = np.random.default_rng(0).integers(0, len(means), (2000, len(means)))
    low, high = np.quantile(means[drawn].mean(axis=1), [0.025, 0.975])
    return float(means.mean()), float(low), float(high)


def _interval(low: float, high: float) -> str:
    return f"[{100 * low:.1f}, {100 * high:.1f}]"


if __name__ == "__main__":
    main()
