"""What the chosen head reaches against each plain one, and in an int8 file, on images that chose nothing.

    python -m benchmarks accuracy --part head
    python -m benchmarks accuracy --part head --sets grocery --cards squeezenet_1.1_227
    python -m benchmarks accuracy --part head --int8 --sets tiles --seeds 0

As in a search, kind and penalty are chosen on the training part, and the head is fitted again with the validation part
too. It is scored on the hold-out: of ``grocery`` the official test, which is another visit to the shops, of
``trashnet`` a fifth for each seed. The plain heads learn from the same images, with penalties that are fixed.
"""

import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np
from numpy.typing import NDArray

from advisor.catalog import Card, Catalogue, fetch_weights
from advisor.core import HeadFacts, Interval
from advisor.datasets import Dataset, Division, InputSpec, Pair, Survey
from advisor.store import cache_root
from benchmarks.accuracy import parser_of
from benchmarks.accuracy_search import TRASHNET
from benchmarks.tables import Row, keep, kept_of_others

NAME = "accuracy_head"
FOLDERS = {"grocery": TRASHNET.parent / "grocery", "trashnet": TRASHNET}
INT8_FOLDERS = {**FOLDERS, "tiles": TRASHNET.parent / "tiles" / "images"}
CARDS = (
    "mobilenet_v2_1.0_224,mobilenet_v1_1.0_224,efficientnet_lite0_224,efficientnet_lite1_240,efficientnet_lite2_260,"
    "squeezenet_1.1_227"
)
INT8_CARDS = "mobilenet_v1_0.25_224,mobilenet_v2_1.0_224_torchvision,efficientnet_lite0_224,squeezenet_1.1_224_onnx"
IN_INT8 = "mobilenet_v2_1.0_224"
CALIBRATION = 100
OURS, COSINE = "ours", "cosine"
HEADER = (
    "case", "set", "network", "method", "top-1 %", "spread over seeds", "ours minus this, points", "95 % interval",
    "kinds", "seconds of CPU",
)  # fmt: skip
REMARKS = (
    "Top-1 on the hold-out, scored once; the mean over the seeds of the split. Intervals: paired, over the images.",
    "last layer: scikit-learn's logistic regression on standardised features, C = 0.01. all levels: the same features "
    "and those of all levels, C = 0.1. cosine: features of length 1, C = 1. All but the first use our solver.",
    "kinds: what each seed chose, with its C. CPU: choosing and both fits.",
)

Floats = NDArray[np.float32]
Answers = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Case:
    """One network on one split: features and labels to learn from and to be scored on."""

    train: NDArray[np.int64]
    learnt: NDArray[np.int64]
    holdout: NDArray[np.int64]
    features: Floats
    labels: NDArray[np.int64]
    groups: tuple[int, ...]
    last: int
    seed: int

    @property
    def classes(self) -> int:
        """Number of classes."""
        return int(self.labels.max()) + 1

    def right(self, features: Floats, weights: Floats, bias: Floats) -> Answers:
        """Return which images of the hold-out a head answers correctly."""
        answers: Answers = (features[self.holdout] @ weights + bias).argmax(axis=1) == self.labels[self.holdout]
        return answers


INT8_NAME = "accuracy_int8"
INT8_HEADER = (
    "case", "set", "seed", "network", "images", "float32 %", "int8 %", "int8, head adjusted %", "drop, points",
    "drop adjusted, points", "seconds of CPU",
)  # fmt: skip
INT8_REMARKS = (
    "Top-1 on the hold-out, scored once, of files whose head learnt from training and validation part. Drop: float32 "
    "minus int8.",
    "Adjusted: the head is fitted again to the features of the int8 file, as a search does. CPU: of this, with the "
    "pass over the images.",
    "The seeds 7 to 9 of trashnet chose the method. Its seeds 0 to 4, tiles and grocery's official test judge it.",
)


def main(options: Sequence[str] = ()) -> None:
    """Fit and score every head, and keep the table; with ``--int8``, that of their int8 files."""
    parser = parser_of("head", __doc__, "", tuple(INT8_FOLDERS))
    parser.add_argument("--int8", action="store_true", help="measure int8 files of the chosen heads instead")
    parser.set_defaults(sets=",".join(FOLDERS))
    chosen = parser.parse_args(list(options))
    rows: list[Row] = []
    for name in chosen.sets.split(","):
        found = Survey.read(INT8_FOLDERS[name])
        seeds = [0] if name == "grocery" else [int(seed) for seed in chosen.seeds.split(",")]
        alike = Pair.find_alike(found.thumbnails)
        divisions = {seed: Division.of_survey(found, seed, alike) for seed in seeds}
        cards = chosen.cards or (INT8_CARDS if chosen.int8 else CARDS)
        for card in (Catalogue.load()[each] for each in cards.split(",")):
            backbone, features, last = image_features(name, card, found.dataset)
            labels = np.array([image.label for image in found.dataset.images])
            cases = []
            for seed, division in divisions.items():
                parts = division.split
                train, learnt, holdout = (np.array(part) for part in (parts.train, parts.learnt, parts.holdout))
                cases.append(Case(train, learnt, holdout, features, labels, division.groups, last, seed))
            if chosen.int8:
                rows += [_in_int8(name, card, backbone, found.dataset, case) for case in cases]
            else:
                rows += _rows(name, card.name, cases)
                if card.name == IN_INT8:
                    int8 = _in_int8(name, card, backbone, found.dataset, cases[0])
                    method = f"{OURS}, int8 file, seed {cases[0].seed}"
                    rows.append((f"{name}, {card.name}, {method}", name, card.name, method, int8[7], *[""] * 5))
            _keep(INT8_NAME if chosen.int8 else NAME, rows)


def _keep(name: str, rows: Sequence[Row]) -> None:
    others, _ = kept_of_others(name, [str(row[0]) for row in rows])
    title, header, remarks = ("Heads", HEADER, REMARKS)
    if name == INT8_NAME:
        title, header, remarks = ("Heads in int8 files", INT8_HEADER, INT8_REMARKS)
    print(keep(name, title, header, sorted([*others, *rows], key=str), remarks), flush=True)


def image_features(name: str, card: Card, dataset: Dataset) -> tuple[Path, Floats, int]:
    """Return the backbone's file, the features of every image, and the width of the last layer."""
    from advisor.catalog import CONVERT_VERSION, convert
    from advisor.tflite import FEATURES, LEVELS_VERSION, last_width, select_output, with_levels
    from advisor.training import extract_features

    folder = cache_root() / "benchmarks" / f"{NAME}-{CONVERT_VERSION}-{LEVELS_VERSION}"
    folder.mkdir(parents=True, exist_ok=True)
    backbone, file = folder / f"{card.name}.tflite", folder / f"{name}-{dataset.fingerprint[:12]}-{card.name}.npy"
    if not backbone.exists():
        with tempfile.TemporaryDirectory() as place:
            convert(card, fetch_weights(card), Path(place) / "master.tflite")
            data = select_output((Path(place) / "master.tflite").read_bytes(), FEATURES)
        backbone.write_bytes(with_levels(data))
    if not file.exists():
        np.save(file, extract_features(backbone, [image.path for image in dataset.images], _spec(card)))
    return backbone, np.load(file), last_width(backbone.read_bytes())


def _spec(card: Card) -> InputSpec:
    return InputSpec(card.input_size, card.preprocessing.mean, card.preprocessing.std)


def _rows(name: str, card: str, cases: Sequence[Case]) -> list[Row]:
    began = time.process_time()
    fitted = [_ours(case) for case in cases]
    seconds = (time.process_time() - began) / len(cases)
    kinds = ", ".join(f"{facts.kind} {facts.regularization:g}" for *_, facts in fitted)
    ours = [case.right(case.features, *head) for case, (*head, _) in zip(cases, fitted, strict=True)]
    rows: list[Row] = [(f"{name}, {card}, {OURS}", name, card, OURS, *_mean(ours), "", "", kinds, f"{seconds:.1f}")]
    for method, answer in PLAIN.items():
        plain = [answer(case) for case in cases]
        gain = Interval.paired_difference(np.concatenate(ours).tolist(), np.concatenate(plain).tolist())
        interval = f"[{100 * gain.low:.1f}, {100 * gain.high:.1f}]"
        key = f"{name}, {card}, {method}"
        rows.append((key, name, card, method, *_mean(plain), f"{100 * gain.value:+.1f}", interval, "", ""))
    return rows


def _mean(right: Sequence[Answers]) -> tuple[str, str]:
    shares = [100 * float(each.mean()) for each in right]
    return f"{mean(shares):.1f}", f"{stdev(shares):.1f}" if len(shares) > 1 else ""


def _ours(case: Case) -> tuple[Floats, Floats, HeadFacts]:
    """Choose on the training part, and fit with the validation part too, as a search does."""
    from advisor.training import fit_head, train_head

    own, classes = case.features[case.train], case.classes
    groups = [case.groups[index] for index in case.train] if case.groups else []
    facts = train_head(own, case.labels[case.train].tolist(), classes, case.seed, (), groups, case.last).facts
    learnt, labels = case.features[case.learnt], case.labels[case.learnt].tolist()
    weights, bias = fit_head(learnt, labels, classes, facts.regularization, (), facts.kind, case.last)
    return weights, bias, facts


def _last_layer(case: Case) -> Answers:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    own = case.features[:, : case.last]
    model: Any = make_pipeline(StandardScaler(), LogisticRegression(C=0.01, max_iter=1000))
    model.fit(own[case.learnt], case.labels[case.learnt])
    answers: Answers = model.predict(own[case.holdout]) == case.labels[case.holdout]
    return answers


def _fixed(case: Case, features: Floats, strength: float, kind: str = "all_levels", last: int = 0) -> Answers:
    from advisor.training import fit_head

    labels = case.labels[case.learnt].tolist()
    weights, bias = fit_head(features[case.learnt], labels, case.classes, strength, (), kind, last)
    return case.right(features, weights, bias)


def _cosine(case: Case) -> Answers:
    own = case.features[:, : case.last]
    unit = own / np.linalg.norm(own, axis=1, keepdims=True)
    return _fixed(case, unit, 1.0, "last_layer", case.last)


PLAIN: dict[str, Callable[[Case], Answers]] = {
    "last layer": _last_layer,
    "all levels": lambda case: _fixed(case, case.features, 0.1),
    "nearest mean": lambda case: _fixed(case, case.features[:, : case.last], 0.0),
    COSINE: _cosine,
}


def _in_int8(name: str, card: Card, backbone: Path, dataset: Dataset, case: Case) -> Row:
    """Return what the float file of our head scores on the hold-out, and its int8 file before and after adjusting."""
    from advisor.compression import RecipeInputs, make_file
    from advisor.datasets import CalibrationImages, choose_images
    from advisor.engine._pipeline.stages.adjusting_jobs import HeadImages, adjust_head
    from advisor.measurement import predict
    from advisor.tflite import attach_head

    weights, bias, facts = _ours(case)
    labels = case.labels[case.learnt].tolist()
    paths = tuple(dataset.images[index].path for index in case.learnt)
    groups = tuple(case.groups[index] for index in case.learnt) if case.groups else ()
    calibration = tuple(paths[row] for row in choose_images(labels, CALIBRATION, case.seed))
    with tempfile.TemporaryDirectory() as place:
        model, quantized, adjusted = (Path(place) / f"{kind}.tflite" for kind in ("model", "int8", "adjusted"))
        model.write_bytes(attach_head(backbone.read_bytes(), weights, bias))
        make_file(
            model, "int8", CalibrationImages(calibration, _spec(card), case.seed), RecipeInputs(), None, quantized
        )
        np.save(Path(place) / "features.npy", case.features[case.learnt])
        images = HeadImages(
            paths, tuple(labels), groups, tuple(range(len(paths))), case.classes, case.seed, facts,
            (Path(place) / "features.npy",), backbone,
        )  # fmt: skip
        began = time.process_time()
        adjust_head(quantized, model, images, _spec(card), None, {}, {}, adjusted)
        seconds = time.process_time() - began
        holdout, truth = [dataset.images[index].path for index in case.holdout], case.labels[case.holdout]
        right = [predict(each, holdout, _spec(card)).argmax(axis=1) == truth for each in (quantized, adjusted)]
    floats, plain, ours = (100 * float(each.mean()) for each in (case.right(case.features, weights, bias), *right))
    figures = (f"{value:.1f}" for value in (floats, plain, ours, floats - plain, floats - ours, seconds))
    return (f"{name}, seed {case.seed}, {card.name}", name, case.seed, card.name, len(holdout), *figures)


if __name__ == "__main__":
    main()
