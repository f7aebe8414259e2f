"""Records what the files of several networks answer to each image, from whole and from shortened trainings.

    python -m benchmarks decision_answers --minutes 60     # adds missing pieces; begins none after 60 minutes

A piece is one card on one set. Each of its files is one row of ``results/decision_answers.csv``: the head, and the
network fine-tuned for all epochs and for fewer, each in several forms. ``validation`` is what a search sees; ``test``
judges, and no file learnt from it. Both are bits in hexadecimal, one for each image, which is 1 for a right answer.
"""

import argparse
import csv
import json
import math
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from advisor.catalog import Card, Catalogue, fetch_weights
from advisor.core import HeadFacts, TrainingName, parse, to_json
from advisor.datasets import CalibrationImages, choose_images
from advisor.engine import input_spec
from advisor.isolation import ChildPool
from benchmarks import anytime_table
from benchmarks.anytime_table import LIMITS, SEED, SETS, Parts, Step, timed
from benchmarks.tables import RESULTS

TABLE = RESULTS / "decision_answers.csv"
CARDS = ("efficientnet_lite0_224", "mobilenet_v1_0.25_224", "mobilenet_v2_1.0_224", "squeezenet_1.1_224_onnx")
FORMS = ("float32", "weight_int8", "int8")
WHOLE, SHORTENED = 6, (1,)
"""Epochs of a whole fine-tuning, and of shortened ones."""

TRAINED, VALIDATED, TESTED = 400, 300, 600
"""Images of each part, at most."""


@dataclass(frozen=True)
class RecordedFile:
    """A file with its costs, and whether it answered each image rightly."""

    set: str
    card: str
    training: str
    epochs: int  #: of fine-tuning; 0 for the head
    form: str
    latency_ms: float  #: the shortest CPU time of a run at one thread
    size_bytes: int
    validation: NDArray[np.bool_]
    test: NDArray[np.bool_]

    @property
    def shortened(self) -> bool:
        """True for a fine-tuning of fewer epochs than planned."""
        return 0 < self.epochs < WHOLE


def main() -> None:
    """Record the pieces that the table lacks."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--minutes", type=float, default=math.inf, help="begin no piece after them")
    parser.add_argument("--sets", default=",".join(SETS), help="joined by commas")
    parser.add_argument("--cards", default=",".join(CARDS), help="joined by commas")
    arguments, began = parser.parse_args(), time.monotonic()
    for name in arguments.sets.split(","):
        for card in arguments.cards.split(","):
            known = {(file.set, file.card) for file in read_files()}
            if (name, card) in known or time.monotonic() - began > 60 * arguments.minutes:
                continue
            files = record_piece(name, card)
            append_files(files)
            print(name, card, f"{len(files)} files, {time.monotonic() - began:.0f} s", flush=True)


def read_files(path: Path = TABLE) -> list[RecordedFile]:
    """Return the recorded files; none if the table is not there."""
    if not path.is_file():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return [_read_row(row) for row in csv.DictReader(file)]


def _read_row(row: dict[str, str]) -> RecordedFile:
    return RecordedFile(
        row["set"], row["card"], row["training"], int(row["epochs"]), row["form"], float(row["latency_ms"]),
        int(row["size_bytes"]), _bits_of(row["validation"]), _bits_of(row["test"]),
    )  # fmt: skip


def _bits_of(text: str) -> NDArray[np.bool_]:
    count, digits = text.split(":")
    return np.unpackbits(np.frombuffer(bytes.fromhex(digits), dtype=np.uint8), count=int(count)).astype(bool)


def _text_of(bits: NDArray[np.bool_]) -> str:
    return f"{len(bits)}:{np.packbits(bits).tobytes().hex()}"


def append_files(files: Sequence[RecordedFile]) -> None:
    """Add the rows of a piece to the table."""
    fresh = not TABLE.is_file()
    with TABLE.open("a", newline="", encoding="utf-8") as out:
        writer = csv.writer(out)
        if fresh:
            writer.writerow([field.name for field in fields(RecordedFile)])
        for file in files:
            row = {**vars(file), "latency_ms": f"{file.latency_ms:.4g}"}
            row["validation"] = _text_of(file.validation)
            row["test"] = _text_of(file.test)
            writer.writerow(row.values())


def record_piece(name: str, card: str) -> list[RecordedFile]:
    """Record one card on one set, head and fine-tunings each in a new process."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        parts = _parts_of(name, place / "drawn")
        files = list[RecordedFile]()
        works = [(record_head, 0), *((record_tuning, epochs) for epochs in (*SHORTENED, WHOLE))]
        for work, epochs in works:
            with ChildPool(place / "child.log", {"PYTHONPATH": str(Path(__file__).parents[1])}) as pool:
                rows = pool.call(f"{__name__}:{work.__name__}", name, card, parts, place, epochs, limits=LIMITS)
            files += [_read_row(row) for row in rows]
        return files


def _parts_of(name: str, place: Path) -> Parts:
    """Return the images of a set, in other numbers than those of the table of steps."""
    anytime_table.TRAINED, anytime_table.VALIDATED, anytime_table.TESTED = TRAINED, VALIDATED, TESTED
    return anytime_table.parts_of(name, place)


def record_head(name: str, card_name: str, parts: Parts, folder: Path, epochs: int) -> list[dict[str, str]]:
    """Convert a card, train its head, and record the forms of its file."""
    from advisor.catalog import convert
    from advisor.tflite import attach_head, last_width, select_output, with_levels
    from advisor.training import extract_features, train_head

    card = Catalogue.load()[card_name]
    convert(card, fetch_weights(card), folder / "master.tflite")
    backbone = with_levels(select_output((folder / "master.tflite").read_bytes(), "features"))
    (folder / "backbone.tflite").write_bytes(backbone)
    learnt = [path for path, _ in (*parts.train, *parts.validation)]
    known, count = extract_features(folder / "backbone.tflite", learnt, input_spec(card)), len(parts.train)
    labels = parts.labels(parts.train)
    head = train_head(known[:count], labels, len(parts.classes), SEED, last=last_width(backbone))
    np.savez(folder / "known.npz", features=known, weights=head.weights, bias=head.bias)
    (folder / "facts.json").write_text(json.dumps(to_json(head.facts)))
    (folder / "head.tflite").write_bytes(attach_head(backbone, head.weights, head.bias))
    return record_forms(name, card, parts, folder / "head.tflite", TrainingName.HEAD, epochs)


def record_tuning(name: str, card_name: str, parts: Parts, folder: Path, epochs: int) -> list[dict[str, str]]:
    """Fine-tune a card from its head for so many epochs, and record the forms of its file."""
    import keras

    from advisor.catalog import build_model
    from advisor.training import FINETUNING
    from advisor.training._finetune import to_tflite
    from advisor.training._finetune.finetune import finetune
    from advisor.training._finetune.network import FinetuneData
    from advisor.training._head import Head

    card, known = Catalogue.load()[card_name], np.load(folder / "known.npz")
    facts = parse(HeadFacts, json.loads((folder / "facts.json").read_text()))
    learnt = (*parts.train, *parts.validation)
    data = FinetuneData(
        known["features"], [path for path, _ in learnt], parts.labels(learnt), input_spec(card),
        range(len(parts.train), len(learnt)), head=Head(known["weights"], known["bias"], facts),
    )  # fmt: skip
    model = build_model(card, fetch_weights(card))
    backbone = keras.Model(model.inputs[0], model.output["features"])
    plan = replace(FINETUNING[TrainingName.FINETUNE_CACHED], seed=SEED, epochs=epochs, patience=99)
    tuned = finetune(backbone, data, plan, folder / f"tuning-{epochs}", maps=folder / "maps")
    file = folder / f"tuned-{epochs}.tflite"
    file.write_bytes(to_tflite(backbone, tuned))
    return record_forms(name, card, parts, file, TrainingName.FINETUNE_CACHED, epochs)


def record_forms(name: str, card: Card, parts: Parts, model: Path, training: str, epochs: int) -> list[dict[str, str]]:
    """Make the forms of a float file, and return a row for each."""
    from advisor.compression import RecipeInputs, make_file
    from advisor.measurement import predict

    spec, rows = input_spec(card), []
    drawn = choose_images(parts.labels(parts.train), CalibrationImages.USUAL, SEED)
    images = CalibrationImages(tuple(parts.train[row][0] for row in drawn), spec, SEED)
    for form in FORMS:
        file = model.with_name(f"{form}-{model.name}")
        make_file(model, form, images, RecipeInputs(), None, file)
        step = timed(Step(name, card.name, training), file)
        row: dict[str, Any] = {"set": name, "card": card.name, "training": training, "epochs": epochs, "form": form}
        row |= {"latency_ms": step.latency_1_ms, "size_bytes": step.size_bytes}
        for part, some in (("validation", parts.validation), ("test", parts.test)):
            answers = predict(file, [path for path, _ in some], spec).argmax(axis=1)
            row[part] = _text_of(answers == np.asarray(parts.labels(some)))
        rows.append({key: str(value) for key, value in row.items()})
    return rows


if __name__ == "__main__":
    main()
