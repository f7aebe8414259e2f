"""Compare the whole detectors of the catalogue with the networks of their packages, on 32 inputs.

    python -m benchmarks.whole_detectors --torch PYTHON [--cards ssdlite320_mobilenet_v3_large]

PYTHON is that of an environment with torch, torchvision, timm and effdet, which writes random weights and what its
networks answer. The weights take the way of those that are published: a checkpoint named by the card is read, and fills
the card's graph. Compared are the float file, and the Keras graph that a training begins with. A few answers are kept
in ``results/whole_detectors_answers.csv``, so a test compares the files without these packages.
"""

import argparse
import csv
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from advisor.catalog import Card, Catalogue, MemberFile, WeightSource, build_detector, convert, fetch_weights, run
from advisor.core import WeightsFile
from advisor.store import sha256_file
from advisor.training._detection.whole import SCALES, begin_detector
from benchmarks import whole_detectors_networks as networks
from benchmarks.tables import RESULTS, Row, keep, kept_of_others

NAME = "whole_detectors"
ANSWERS = RESULTS / f"{NAME}_answers.csv"
CLOSE = 1e-4
KEPT_IMAGES, KEPT_VALUES = 2, 24
OUTPUTS = ("logits", "encodings")
HEADER = (
    "card",
    "package",
    "largest difference of the logits",
    "of the encodings",
    "of the boxes that a training begins with",
    "same anchor on top %",
)
REMARKS = (
    f"Seeded random weights and statistics of batch normalisation; {networks.IMAGES} images of coarse and fine noise; "
    "float32 on the CPU, before suppression. COCO's own weights could not be fetched here.",
    "A difference is relative: the largest one of an image over the largest value of the package's output for it.",
    "Logits and encodings: of the float file. Boxes: as the package decodes them, beside those of the Keras graph with "
    "the encodings in our order and scale. Top: the anchor with the largest logit.",
)


def main() -> None:
    """Compare each card, and keep the table."""
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{NAME}")
    parser.add_argument("--torch", default=sys.executable, help="Python that has torch, torchvision, timm and effdet")
    parser.add_argument("--cards", help="joined by commas; default: all whole detectors")
    chosen = parser.parse_args()
    cards = {name: card for name, card in Catalogue.load().items() if card.whole}
    names = chosen.cards.split(",") if chosen.cards else list(cards)
    rows, _ = kept_of_others(NAME, names)
    for name in names:
        rows.append(compare(cards[name], chosen.torch))
        print(*rows[-1], sep=" | ", flush=True)
    same = sum(max(float(str(value)) for value in row[2:5]) <= CLOSE for row in rows)
    summary = f"{same} of {len(rows)} cards equal the network of their package within {CLOSE:g}."
    print(keep(NAME, "Whole detectors beside the networks of their packages", HEADER, rows, (summary, *REMARKS)))


def compare(card: Card, python: str) -> Row:
    """Return the row of a card."""
    network = Path(str(card.keywords["file"])).stem
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        subprocess.run([python, networks.__file__, folder, network], check=True)
        with np.load(place / f"{network}.npz") as stored:
            answers = {key: stored[key] for key in (*OUTPUTS, "boxes")}
            versions = json.loads(str(stored["versions"]))
        weights = weights_of(card, place / f"{network}.pth")
        convert(card, weights, place / "whole.tflite")
        file = (place / "whole.tflite").read_bytes()
        worst = dict.fromkeys(answers, 0.0)
        top = 0
        decode = box_decoder(card, weights)
        for number, image in enumerate(networks.draw_images(card.input_size)):
            pixels = normalise(card, image)
            outputs = {**run(file, pixels), "boxes": decode(pixels)}
            for key, expected in answers.items():
                far = np.abs(outputs[key][0] - expected[number]).max() / np.abs(expected[number]).max()
                worst[key] = max(worst[key], float(far))
            top += int(outputs["logits"][0].max(axis=1).argmax() == answers["logits"][number].max(axis=1).argmax())
    keep_answers(card.name, answers)
    package = ", ".join(f"{name} {number}" for name, number in versions.items())
    shown = [f"{value:.1e}" for value in worst.values()]
    return card.name, package, *shown, f"{100 * top / networks.IMAGES:g}"


def keep_answers(name: str, answers: Mapping[str, np.ndarray]) -> None:
    """Keep the largest absolute value of the package's answers to the first images, and some values of each."""
    rows = []
    if ANSWERS.is_file():
        with ANSWERS.open(newline="", encoding="utf-8") as file:
            rows = [row for row in list(csv.reader(file))[1:] if row[0] != name]
    for output in OUTPUTS:
        for number, answer in enumerate(answers[output][:KEPT_IMAGES]):
            values = [np.abs(answer).max(), *pick_values(answer)]
            rows.append([name, output, str(number), *(f"{value:.7g}" for value in values)])
    with ANSWERS.open("w", newline="", encoding="utf-8") as file:
        header = ("card", "output", "image", "largest", *(f"value {place}" for place in range(KEPT_VALUES)))
        csv.writer(file, lineterminator="\n").writerows([header, *rows])


def pick_values(answer: np.ndarray) -> np.ndarray:
    """Return some values of an answer at equal distances."""
    flat = answer.reshape(-1)
    return flat[np.linspace(0, flat.size - 1, KEPT_VALUES).astype(int)]


def weights_of(card: Card, checkpoint: Path) -> WeightsFile | None:
    """Return weights of a checkpoint, fetched as those that the card names."""
    member = MemberFile(str(checkpoint), sha256_file(checkpoint))
    source = WeightSource("file", card.weights[0].format, card.weights[0].port, member)
    return fetch_weights(replace(card, weights=(source,)))


def normalise(card: Card, image: np.ndarray) -> np.ndarray:
    """Return the input (1, S, S, 3) of a card for an image (S, S, 3) of 0 to 255."""
    spec = card.preprocessing
    return ((image - np.array(spec.mean)) / np.array(spec.std))[None].astype(np.float32)


def box_decoder(card: Card, weights: WeightsFile | None) -> Callable[[np.ndarray], np.ndarray]:
    """Return a function from an input to the boxes (1, N, 4) of the Keras graph that a training begins with."""
    import keras

    detector = build_detector(card, weights)
    maps, head = begin_detector(detector, 1)
    model = keras.Model(maps.inputs, head.model(maps.outputs)[1])
    anchors = np.concatenate(detector.anchors)

    def decode(pixels: np.ndarray) -> np.ndarray:
        codes = np.asarray(model([pixels]))[0] / np.array(SCALES)
        middles = codes[:, :2] * anchors[:, 2:] + anchors[:, :2]
        halves = np.exp(codes[:, 2:]) * anchors[:, 2:] / 2
        return np.concatenate([middles - halves, middles + halves], axis=1)[None]

    return decode


if __name__ == "__main__":
    main()
