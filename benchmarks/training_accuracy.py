"""What retraining reaches on TrashNet's hold-out (seed 0): head, head with captured views, fine-tuning.

    python -m benchmarks training_accuracy --minutes 10     # a piece; the same again goes on where it ended
    python -m benchmarks training_accuracy --card efficientnet_lite0_224 --heads

Everything is made and scored as a search does: features and answers by LiteRT, the artefact that ships. Each step is
kept in a folder, each epoch of a fine-tuning leaves its checkpoint: what is stopped, by the clock or by hand, is gone
on with. A card's rows enter the table when all of them are there.
"""

import argparse
import json
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from advisor.catalog import CONVERT_VERSION, Catalogue, build_model, fetch_weights
from advisor.datasets import InputSpec, Survey
from advisor.datasets._split import draw_split
from advisor.engine import input_spec
from advisor.store import cache_root, write_atomically
from advisor.tflite import LEVELS_VERSION
from advisor.training import FINETUNE_VERSION
from benchmarks.tables import Row, keep, kept_of_others

NAME = "training_accuracy"
TRASHNET = Path(__file__).resolve().parents[2] / "shared" / "data" / "images" / "trashnet"
CARDS = ("mobilenet_v2_1.0_224", "efficientnet_lite0_224")
SEED = 0
HEAD, HEAD_CAPTURED, FINETUNED = "head", "head, captured views", "fine-tuned"
HEADER = (
    "card", "training", "hold-out top-1", "95 % interval", "against the head, points", "robust accuracy",
    "95 % interval", "against the head, points",
)  # fmt: skip


@dataclass(frozen=True)
class Case:
    """One classifier: its card, how it was trained, its file, and what it answers to hold-out and captures."""

    card: str
    training: str
    right: tuple[bool, ...]
    captured: Any


def main() -> None:
    """Train and score what is missing, for so many minutes, and keep the table of the cards that are whole."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--card", action="append", help=f"a card of the catalogue; otherwise {' and '.join(CARDS)}")
    parser.add_argument("--heads", action="store_true", help="fine-tune nothing that is not")
    parser.add_argument("--minutes", type=float, default=0, help="stop after so many; the next call goes on")
    parser.add_argument("--folder", type=Path, default=cache_root() / "benchmarks" / NAME, help="where steps are kept")
    arguments = parser.parse_args()
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, 60 * arguments.minutes)
    try:
        for card in arguments.card or CARDS:
            steps = Steps(card, arguments.folder)
            tuned = [] if arguments.heads and not steps.has(FINETUNED) else [FINETUNED]
            put(_rows([steps.case(training) for training in (HEAD, HEAD_CAPTURED, *tuned)]))
    except KeyboardInterrupt:
        print(f"stopped; the same command goes on with what {arguments.folder} holds")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def put(rows: Sequence[Row]) -> None:
    """Put a card's rows into the table in place of older ones."""
    others, _ = kept_of_others(NAME, [str(rows[0][0])])
    remarks = [
        "TrashNet, six classes, split seed 0: 2,021 pictures to learn from, 506 held out; intervals by Wilson, "
        "differences by the paired bootstrap",
        "robust accuracy: the mean over seven capture conditions at two strengths, interval over pictures",
    ]
    print(keep(NAME, "Accuracy after retraining", HEADER, [*others, *rows], remarks), flush=True)


class Steps:
    """The steps of one card, each made once.

    Args:
        name: of the card.
        folder: of all cards; what other versions of the product made is not looked at.
    """

    def __init__(self, name: str, folder: Path) -> None:
        self._card = Catalogue.load().card(name)
        versions = f"{CONVERT_VERSION}-levels-{LEVELS_VERSION}-finetune-{FINETUNE_VERSION}"
        self._folder = folder / versions / name
        self._folder.mkdir(parents=True, exist_ok=True)
        self._view = InputSpec(self._card.input_size, self._card.preprocessing.mean, self._card.preprocessing.std)

    def has(self, training: str) -> bool:
        """Say whether a training is scored."""
        return (self._folder / f"{training}.npz").exists()

    def case(self, training: str) -> Case:
        """Return how a training does, made where it is not there."""
        from advisor.measurement import predict, predict_captured

        def score(path: Path) -> None:
            model = self._finetuned() if training == FINETUNED else self._headed(training)
            answers = predict(model, self._held, self._view).argmax(axis=1)
            with path.open("wb") as file:
                np.savez(file, answers=answers, captured=predict_captured(model, self._held, self._view))

        with np.load(self._kept(f"{training}.npz", score)) as answers:
            right = tuple(bool(one) for one in answers["answers"] == self._truth)
            return Case(self._card.name, training, right, answers["captured"] == self._truth)

    def _kept(self, name: str, make: Callable[[Path], object]) -> Path:
        """Return a file of the folder, whole or made anew."""
        path, unfinished = self._folder / name, self._folder / f"unfinished-{name}"
        if not path.exists():
            make(unfinished)
            unfinished.replace(path)
            print(f"{self._card.name}: {name}", flush=True)
        return path

    @cached_property
    def _dataset(self) -> Any:
        return Survey.read(TRASHNET).dataset

    @cached_property
    def _parts(self) -> Any:
        return draw_split(self._dataset, SEED)

    @cached_property
    def _known(self) -> list[int]:
        return sorted((*self._parts.train, *self._parts.validation))

    @cached_property
    def _held(self) -> list[Path]:
        return [self._dataset.images[index].path for index in self._parts.holdout]

    @cached_property
    def _truth(self) -> Any:
        return np.array(self._dataset.labels)[list(self._parts.holdout)]

    def _learnt(self) -> tuple[list[Path], list[int]]:
        """Return the pictures to learn from, and their labels."""
        images = [self._dataset.images[index] for index in self._known]
        return [image.path for image in images], [image.label for image in images]

    def _backbone(self) -> Path:
        from advisor.catalog import convert
        from advisor.tflite import select_output, with_levels

        def cut(path: Path) -> None:
            master = self._kept("master.tflite", lambda made: convert(self._card, fetch_weights(self._card), made))
            path.write_bytes(with_levels(select_output(master.read_bytes(), "features")))

        return self._kept("backbone.tflite", cut)

    def _features(self, captured: int = 0) -> Path:
        """Return the features of the pictures to learn from, as they are or under a capture condition."""
        from advisor.training import CaptureAugmentation, extract_features

        def read(path: Path) -> None:
            values = extract_features(
                self._backbone(), self._learnt()[0], self._view, augmentation=CaptureAugmentation(captured)
            )
            with path.open("wb") as file:
                np.save(file, values)

        return self._kept(f"features-{captured}.npy", read)

    def _headed(self, training: str) -> Path:
        from advisor.tflite import attach_head
        from advisor.training import CAPTURED, train_head

        def fit(path: Path) -> None:
            seen = CAPTURED if training == HEAD_CAPTURED else ()
            views = [np.load(self._features(one.captured)) for one in seen]
            classes = len(self._dataset.classes)
            head = train_head(np.load(self._features()), self._learnt()[1], classes, SEED, views)
            path.write_bytes(attach_head(self._backbone().read_bytes(), head.weights, head.bias))

        return self._kept(f"{training}.tflite", fit)

    def _finetuned(self) -> Path:
        """Fine-tune as a search does: validation stops it, then what ships goes on with the validation part too."""
        return self._tuned("ships", self._tuned("compared", None))

    def _tuned(self, name: str, after: Path | None) -> Path:
        from advisor.training import FINETUNING, TuningImages, tune_network

        made, validation = self._folder / name, set(self._parts.validation)
        if not (made / "result.json").exists():
            made.mkdir(exist_ok=True)
            judged = [place for place, index in enumerate(self._known) if index in validation]
            images = TuningImages([self._features()], *self._learnt(), judged)
            build = partial(build_model, self._card, fetch_weights(self._card))
            spec = input_spec(self._card)
            places = (made / "checkpoints", made / "model.tflite", after)
            result = tune_network(build, spec, images, FINETUNING["finetune_top"], *places)
            write_atomically(made / "result.json", json.dumps(result))
        return made / "model.tflite"


def _rows(cases: list[Case]) -> list[Row]:
    return [_row(case, cases[0]) for case in cases]


def _row(case: Case, head: Case) -> Row:
    from advisor.core import Interval

    clean = Interval.wilson(sum(case.right), len(case.right))
    against = Interval.paired_difference(case.right, head.right)
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
