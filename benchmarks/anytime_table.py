"""What each step of a card costs and reaches on several sets: head, each epoch of fine-tuning, and their int8 files.

    python -m benchmarks anytime_table --minutes 30     # adds missing pieces; begins none after 30 minutes

A piece is one card on one set, and each of its steps is one row of ``results/anytime_table.csv``. ``validation`` is
what a search sees; ``test`` judges, and no step learns from it. CPU seconds are those of the step alone, without what
only ``test`` took. ``trashnet`` and ``grocery`` choose constants; ``tiles`` and ``few`` judge the rule.
"""

import argparse
import csv
import json
import math
import os
import random
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from advisor.catalog import Card, Catalogue, fetch_weights
from advisor.core import HeadFacts, TrainingName, parse, to_json
from advisor.datasets import CalibrationImages, choose_images
from advisor.engine import input_spec
from advisor.isolation import CallLimits, ChildPool
from benchmarks.accuracy_search import GROCERY, TRASHNET, labelled
from benchmarks.tables import RESULTS

TABLE = RESULTS / "anytime_table.csv"
SETS = ("trashnet", "grocery", "tiles", "few")
CARDS = (
    "efficientnet_lite0_224", "mobilenet_v2_1.0_224_torchvision", "mobilenet_v1_1.0_224", "squeezenet_1.1_224_onnx",
    "mobilenet_v1_0.25_224", "efficientnet_lite1_240", "mobilenet_v2_1.0_224",
)  # fmt: skip
CONVERT, FEATURES, HEAD, HEAD_INT8, TUNED, TUNED_INT8 = (
    "convert",
    "features",
    "head",
    "head_int8",
    "tuned",
    "tuned_int8",
)
TRAINED, VALIDATED, TESTED = 700, 200, 500
"""Images of each part, at most: more would take longer, and change how methods compare little."""

FEW, SEED, TIMED, LEARNT = 40, 0, 30, 0.7

LIMITS = CallLimits(seconds=3 * 3600, memory_bytes=8_000_000_000)
Image = tuple[Path, str]


@dataclass(frozen=True)
class Step:
    """A row of the table.

    ``epoch`` is that of the step ``tuned``: 0 is the network before the first one, with maps and a head. The accuracies
    are in %. ``score_s`` are the CPU seconds of running the file over the validation images, 0 where the accuracy comes
    with the step. Latencies are the shortest of some runs: CPU time at one thread, and by the clock, which
    other work makes longer, at two.
    """

    set: str
    card: str
    step: str
    epoch: int = 0
    cpu_s: float = 0.0
    score_s: float = 0.0
    validation: float = math.nan
    test: float = math.nan
    latency_1_ms: float = math.nan
    latency_2_ms: float = math.nan
    size_bytes: int = 0
    trained: int = 0
    validated: int = 0
    tested: int = 0
    classes: int = 0


@dataclass(frozen=True)
class Parts:
    """The images of a set: to learn from, to validate on and to judge by."""

    train: Sequence[Image]
    validation: Sequence[Image]
    test: Sequence[Image]

    @property
    def classes(self) -> list[str]:
        """The names of the classes in order."""
        return sorted({label for _, label in self.train})

    def labels(self, images: Sequence[Image]) -> list[int]:
        """Return the classes of images as numbers."""
        return [self.classes.index(label) for _, label in images]


def main() -> None:
    """Record the pieces that the table lacks."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--minutes", type=float, default=math.inf, help="begin no piece after them")
    parser.add_argument("--sets", default=",".join(SETS), help="joined by commas")
    parser.add_argument("--cards", default=",".join(CARDS), help="joined by commas")
    arguments, began = parser.parse_args(), time.monotonic()
    for card in arguments.cards.split(","):
        for name in arguments.sets.split(","):
            if (name, card) in read() or time.monotonic() - began > 60 * arguments.minutes:
                continue
            steps = piece(name, card)
            append(steps)
            print(name, card, f"{sum(each.cpu_s + each.score_s for each in steps):.0f} CPU s", flush=True)


def read(path: Path = TABLE) -> dict[tuple[str, str], list[Step]]:
    """Return the steps of each set and card in order; empty if the table is not there."""
    found: dict[tuple[str, str], list[Step]] = {}
    if path.is_file():
        with path.open(newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                values: dict[str, Any] = {each.name: _typed(each.type, row[each.name]) for each in fields(Step)}
                found.setdefault((row["set"], row["card"]), []).append(Step(**values))
    return found


def _typed(kind: Any, text: str) -> Any:
    return kind(text) if text else math.nan


def append(steps: Sequence[Step]) -> None:
    """Add the rows of a piece to the table."""
    fresh = not TABLE.is_file()
    with TABLE.open("a", newline="", encoding="utf-8") as file:
        rows = [[_text(value) for value in asdict(step).values()] for step in steps]
        csv.writer(file).writerows([*([[each.name for each in fields(Step)]] if fresh else []), *rows])


def _text(value: object) -> object:
    return ("" if math.isnan(value) else f"{value:.6g}") if isinstance(value, float) else value


def piece(name: str, card: str) -> list[Step]:
    """Record one card on one set, head and fine-tuning each in a new process, as a search runs them."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        parts = parts_of(name, place / "drawn")
        counts = {"trained": len(parts.train), "validated": len(parts.validation), "tested": len(parts.test)}
        blank, steps = Step(name, card, "", classes=len(parts.classes), **counts), list[Step]()
        for work in (head_steps, tuning_steps):
            with ChildPool(place / "child.log", {"PYTHONPATH": str(Path(__file__).parents[1])}) as pool:
                steps += pool.call(f"{__name__}:{work.__name__}", blank, parts, place, limits=LIMITS)
        return steps


def parts_of(name: str, place: Path) -> Parts:
    """Return the images of one of :data:`SETS`."""
    chance = random.Random(f"anytime {name}")
    if name == "grocery":
        train, validation, test = (spread(labelled(GROCERY / part), chance) for part in ("train", "val", "test"))
        return Parts(train[:TRAINED], validation[:VALIDATED], test[:TESTED])
    draws: Mapping[str, tuple[Path, str]] = {
        "trashnet": (TRASHNET, "7"), "few": (TRASHNET, "8"), "tiles": (TRASHNET.parent / "tiles" / "images", "0"),
    }  # fmt: skip
    if name not in SETS:
        raise SystemExit(f"'{name}' is not one of {', '.join(SETS)}")
    learnt, test = (spread(labelled(folder), chance) for folder in drawn(*draws[name], place))
    if name == "few":
        learnt = spread(
            [image for label in {label for _, label in learnt} for image in _of(learnt, label)[:FEW]], chance
        )
    validated = min(VALIDATED, len(learnt) // 5)
    return Parts(learnt[validated : validated + TRAINED], learnt[:validated], test[:TESTED])


def drawn(source: Path, draw: str, place: Path) -> tuple[Path, Path]:
    """Link a share of the images of each class into one folder and the others into a second one; return both."""
    chance = random.Random(f"draw {draw}")
    for folder in sorted(each for each in source.iterdir() if each.is_dir()):
        files = sorted(folder.iterdir())
        chance.shuffle(files)
        count = round(LEARNT * len(files))
        for part, some in (("learnt", files[:count]), ("test", files[count:])):
            (place / part / folder.name).mkdir(parents=True)
            for file in some:
                (place / part / folder.name / file.name).symlink_to(file)
    return place / "learnt", place / "test"


def _of(images: Sequence[Image], label: str) -> list[Image]:
    return [image for image in images if image[1] == label]


def spread(images: Sequence[Image], chance: random.Random) -> list[Image]:
    """Return the images in an order in which every stretch has its share of each class, drawn by ``chance``."""
    places: list[tuple[float, Image]] = []
    for label in sorted({label for _, label in images}):
        own = sorted(_of(images, label))
        chance.shuffle(own)
        places += [((place + chance.random()) / len(own), image) for place, image in enumerate(own)]
    return [image for _, image in sorted(places)]


class Clock:
    """CPU seconds of this process since the last reading, or since ``last``: 0 is the start of the process."""

    def __init__(self, last: float | None = None) -> None:
        self._last = sum(os.times()[:4]) if last is None else last

    def __call__(self) -> float:
        before, self._last = self._last, sum(os.times()[:4])
        return self._last - before


def head_steps(blank: Step, parts: Parts, folder: Path) -> list[Step]:
    """Convert a card, compute its features, and train its head; compress the file to int8."""
    import numpy as np

    from advisor.catalog import convert
    from advisor.tflite import attach_head, last_width, select_output, with_levels
    from advisor.training import extract_features, train_head

    card, clock = Catalogue.load()[blank.card], Clock(0.0)
    convert(card, fetch_weights(card), folder / "master.tflite")
    backbone = with_levels(select_output((folder / "master.tflite").read_bytes(), "features"))
    (folder / "backbone.tflite").write_bytes(backbone)
    steps, spec = [replace(blank, step=CONVERT, cpu_s=clock())], input_spec(card)
    known = extract_features(folder / "backbone.tflite", [path for path, _ in (*parts.train, *parts.validation)], spec)
    steps.append(replace(blank, step=FEATURES, cpu_s=clock()))
    count = len(parts.train)
    head = train_head(known[:count], parts.labels(parts.train), len(parts.classes), SEED, last=last_width(backbone))
    (folder / "head.tflite").write_bytes(attach_head(backbone, head.weights, head.bias))
    head_s, unseen = clock(), extract_features(folder / "backbone.tflite", [path for path, _ in parts.test], spec)
    shares = [
        _share((rows @ head.weights + head.bias).argmax(axis=1), parts.labels(images))
        for rows, images in ((known[count:], parts.validation), (unseen, parts.test))
    ]
    found = replace(blank, step=HEAD, cpu_s=head_s, validation=shares[0], test=shares[1])
    steps.append(timed(found, folder / "head.tflite"))
    np.savez(folder / "known.npz", features=known, weights=head.weights, bias=head.bias)
    (folder / "facts.json").write_text(json.dumps(to_json(head.facts)))
    steps.append(int8_step(replace(blank, step=HEAD_INT8), parts, card, folder / "head.tflite"))
    return steps


def tuning_steps(blank: Step, parts: Parts, folder: Path) -> list[Step]:
    """Fine-tune the card from its head, and score it after every epoch; compress the best network to int8."""
    import keras
    import numpy as np

    from advisor.catalog import build_model
    from advisor.training import FINETUNING
    from advisor.training._finetune import to_tflite
    from advisor.training._finetune.network import FinetuneData
    from advisor.training._head import Head
    from advisor.training._loop import run_training

    card, known = Catalogue.load()[blank.card], np.load(folder / "known.npz")
    facts = parse(HeadFacts, json.loads((folder / "facts.json").read_text()))
    learnt = (*parts.train, *parts.validation)
    data = FinetuneData(
        known["features"], [path for path, _ in learnt], parts.labels(learnt), input_spec(card),
        range(len(parts.train), len(learnt)), head=Head(known["weights"], known["bias"], facts),
    )  # fmt: skip
    model = build_model(card, fetch_weights(card))
    backbone = keras.Model(model.inputs[0], model.output["features"])
    session = watched(parts)(
        backbone, data, replace(FINETUNING[TrainingName.FINETUNE_CACHED], seed=SEED, patience=99), folder
    )
    session.resume()
    run_training(session)
    tuned, file = session.finish(backbone), folder / "tuned.tflite"
    file.write_bytes(to_tflite(backbone, tuned))
    steps = [
        replace(blank, step=TUNED, epoch=epoch, cpu_s=spent, validation=100 * validation, test=100 * test)
        for epoch, (spent, validation, test) in enumerate(session.seen)
    ]
    steps[-1] = timed(steps[-1], file)
    return [*steps, int8_step(replace(blank, step=TUNED_INT8, epoch=tuned.best_epoch + 1), parts, card, file)]


def watched(parts: Parts) -> Any:
    """Return the class of a fine-tuning that also scores the test images after every epoch, outside its seconds."""
    from advisor.training import TrainingTime
    from advisor.training._batches import Batches
    from advisor.training._finetune.finetune import _Session
    from advisor.training._finetune.halves import halve_network
    from advisor.training._finetune.maps import MapBatches

    class Watched(_Session):
        def __init__(self, backbone: Any, data: Any, hyperparameters: Any, folder: Path) -> None:
            self._clock = Clock(0.0)
            self._spent = 0.0
            self.seen = list[tuple[float, float, float]]()
            for name in ("tuning", "maps", "unseen"):
                (folder / name).mkdir(exist_ok=True)
            super().__init__(backbone, data, hyperparameters, folder / "tuning", None, folder / "maps", TrainingTime())
            self._spent += self._clock()
            images = Batches([path for path, _ in parts.test], parts.labels(parts.test), self._size, None)
            lower = halve_network(
                self._model, (1 + hyperparameters.copies) * len(data.images), self._start.levels
            ).lower
            self._unseen = MapBatches(lower, images, replace(hyperparameters, copies=0), folder / "unseen")
            self._clock()

        def _validate(self) -> float:
            import numpy as np

            accuracy, right = super()._validate(), 0
            spent, self._spent = self._spent + self._clock(), 0.0
            for maps, labels in self._unseen.epoch(np.arange(len(parts.test)), 32):
                right += int((self._optimizer.predict(maps).argmax(axis=1) == labels).sum())
            self.seen.append((spent, accuracy, right / len(parts.test)))
            self._clock()
            return accuracy

    return Watched


def int8_step(step: Step, parts: Parts, card: Card, model: Path) -> Step:
    """Compress a float file to int8, and score it."""
    from advisor.compression import RecipeInputs, make_file
    from advisor.measurement import predict

    clock, out, spec = Clock(), model.with_name(f"int8-{model.name}"), input_spec(card)
    drawn_rows = choose_images(parts.labels(parts.train), CalibrationImages.USUAL, SEED)
    images = CalibrationImages(tuple(parts.train[row][0] for row in drawn_rows), spec, SEED)
    make_file(model, "int8", images, RecipeInputs(), None, out)
    made_s = clock()
    answers = predict(out, [path for path, _ in parts.validation], spec).argmax(axis=1)
    score_s, unseen = clock(), predict(out, [path for path, _ in parts.test], spec).argmax(axis=1)
    shares = _share(answers, parts.labels(parts.validation)), _share(unseen, parts.labels(parts.test))
    return timed(replace(step, cpu_s=made_s, score_s=score_s, validation=shares[0], test=shares[1]), out)


def timed(step: Step, model: Path) -> Step:
    """Return the step with the size of its file, and with its shortest latency at one thread and at two."""
    from ai_edge_litert.interpreter import Interpreter

    latencies = []
    for threads, now in ((1, time.thread_time_ns), (2, time.perf_counter_ns)):
        interpreter = Interpreter(model_path=str(model), num_threads=threads)
        interpreter.allocate_tensors()
        taken = []
        for _ in range(TIMED):
            began = now()
            interpreter.invoke()
            taken.append(now() - began)
        latencies.append(min(taken) / 1e6)
    return replace(step, latency_1_ms=latencies[0], latency_2_ms=latencies[1], size_bytes=model.stat().st_size)


def _share(answers: Any, labels: Sequence[int]) -> float:
    return 100 * sum(int(answer == label) for answer, label in zip(answers, labels, strict=True)) / len(labels)
