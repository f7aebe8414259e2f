"""How honest the accuracy "in new conditions" is: the estimate against images of another visit.

    python -m benchmarks accuracy --part expectation
    python -m benchmarks accuracy --part expectation --cases ten --cards mobilenet_v2_1.0_224

``visit`` draws everything from the folder ``grocery/train``, as a user without other images would; the truth is the
official test part, which is another visit to the shops. ``ten`` does the same with ten images of each class, drawn five
times. ``trashnet`` has no other visit: its hold-out is the truth, and the estimate must not be lower than that. Method
and constants were chosen with other networks, other splits, and the ``val`` part (docs/decisions).
"""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from advisor.catalog import Catalogue
from advisor.core import Configuration, Evaluation, Quantity, Status, Target, TrainingName, with_new_conditions
from advisor.datasets import Division, Survey
from advisor.engine import share_of
from advisor.engine._pipeline.evaluation.accuracy import HELD_OUT, VALIDATED
from advisor.training import expect_new_conditions, fit_head
from benchmarks.accuracy import part_parser
from benchmarks.accuracy_head import FOLDERS, image_features
from benchmarks.accuracy_search import TRASHNET
from benchmarks.tables import Row, keep, kept_of_others

NAME = "accuracy_expectation"
GROCERY = FOLDERS["grocery"]
CASES = ("visit", "ten", "trashnet")
CARDS = (
    "mobilenet_v2_1.0_224", "efficientnet_lite0_224", "efficientnet_lite1_240", "efficientnet_lite2_260",
    "mobilenet_v1_1.0_224",
)  # fmt: skip
SEEDS = range(5)
FEW = 10
PENALTY = 0.01
HEADER = (
    "case", "set", "seed", "network", "validation %", "hold-out %", "in new conditions %", "95 % interval", "truth %",
    "covered", "off by, points", "silhouette", "groups",
)  # fmt: skip
REMARKS = (
    "Heads: logistic regression on all levels, C = 0.01. The judged one learnt from everything but the hold-out.",
    "Hold-out: of the split that a search draws; whole groups where images come in groups.",
    "Truth: grocery: the official test part, another visit. TrashNet: its own hold-out, as there is no other visit.",
    "Second look at these data. Between the looks, joining distances, thresholds and the least spread between visits "
    "were chosen again, with grocery's train and val parts, TrashNet's seeds 5-9 and other networks (decision 0051).",
    "First look: case visit: 5 of 5 intervals held the truth; the middle was off by 8.4 points in the mean, 13.8 at "
    "most. Case ten: 25 of 25, 3.6 and 8.1. Case trashnet: 25 of 25, 0.0 and 0.0.",
    "Rows of TrashNet are of the first look, 2026-11-21. No groups are found there, and no silhouette reaches 0.2, so "
    "the estimate is the hold-out's figure under the new rule, too.",
)

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Case:
    """Images that a user has, and images of another visit if there are any.

    Attributes:
        name: of the case.
        seed: of the split, or of the drawing.
        folder: the user's images, one folder a class.
        split_seed: of the split.
        others: images of another visit, one folder a class.
    """

    name: str
    seed: int
    folder: Path
    split_seed: int = 0
    others: Path | None = None


def main(options: Sequence[str] = ()) -> None:
    """Estimate for each case and network, compare with the truth, and keep the table."""
    parser = part_parser("expectation", __doc__)
    parser.add_argument("--cases", default=",".join(CASES), help=f"of {', '.join(CASES)}, joined by commas")
    parser.add_argument("--cards", default=",".join(CARDS), help="cards, joined by commas")
    chosen = parser.parse_args(list(options))
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as place:
        for case in _cases(chosen.cases.split(","), Path(place)):
            for card in chosen.cards.split(","):
                rows.append(_row(case, card))
                others, _ = kept_of_others(NAME, [str(row[0]) for row in rows])
                table = sorted([*others, *rows], key=str)
                print(*rows[-1], sep=" | ", flush=True)
                keep(NAME, 'Accuracy "in new conditions"', HEADER, table, (*REMARKS, *_summary(table)))


def _cases(names: Sequence[str], place: Path) -> Iterator[Case]:
    if "visit" in names:
        yield Case("visit", 0, GROCERY / "train", 0, GROCERY / "test")
    for seed in SEEDS:
        if "ten" in names:
            yield Case("ten", seed, _few(GROCERY / "train", place / f"{seed}", seed), 0, GROCERY / "test")
        if "trashnet" in names:
            yield Case("trashnet", seed, TRASHNET, seed)


def _few(folder: Path, place: Path, seed: int) -> Path:
    """Return a folder with links to ten images of each class."""
    random = np.random.default_rng(seed)
    for kind in sorted(path for path in folder.iterdir() if path.is_dir()):
        (place / kind.name).mkdir(parents=True)
        files = sorted(kind.iterdir())
        for index in random.permutation(len(files))[:FEW]:
            (place / kind.name / files[index].name).symlink_to(files[index])
    return place


@cache
def _surveyed(folder: Path) -> Survey:
    return Survey.read(folder)


def _row(case: Case, name: str) -> Row:
    read = _surveyed(case.folder)
    division, images = Division.of_survey(read, case.split_seed), read.dataset.images
    learnt, held = division.split.learnt, division.split.holdout
    kind = "grocery" if case.others else "trashnet"
    known = _features(name, kind)

    def part(indices: Sequence[int]) -> tuple[Floats, list[int]]:
        chosen = [images[index] for index in indices]
        return np.stack([known[image.sha256] for image in chosen]), [image.label for image in chosen]

    features, labels = part(learnt)
    train, validation = division.split.train, division.split.validation
    classes, rows = len(read.dataset.classes), [learnt.index(index) for index in validation]
    compared = share_of(_right(fit_head(*part(train), classes, PENALTY), *part(validation)), VALIDATED)
    head = fit_head(features, labels, classes, PENALTY)
    plain = share_of(_right(head, *part(held)), HELD_OUT)
    facts = expect_new_conditions(features, labels, rows, bool(division.grouping.of))
    target = Target("host", "litert", "cpu", 1)
    judged = Evaluation(
        Configuration(name, TrainingName.HEAD, "float32", target), Status.OK,
        accuracy=compared, holdout_accuracy=plain, expectation=facts,
    )  # fmt: skip
    found, truth = with_new_conditions(judged).new_conditions or plain, plain.value
    if case.others:
        rest = _surveyed(case.others).dataset
        numbers = [read.dataset.classes.index(rest.classes[image.label]) for image in rest.images]
        right = _right(head, np.stack([known[image.sha256] for image in rest.images]), numbers)
        truth = 100 * float(np.mean(right))
    key = f"{case.name}, seed {case.seed}, {name}"
    covered = (found.low or 0.0) <= truth <= (found.high or 0.0)
    return (
        key, f"{kind}/train" if case.others else kind, case.seed, name, f"{compared.value:.1f}", f"{plain.value:.1f}",
        f"{found.value:.1f}", _ends(found), f"{truth:.1f}", "yes" if covered else "no", f"{found.value - truth:+.1f}",
        f"{facts.silhouette:.3f}", division.grouping.count,
    )  # fmt: skip


def _ends(quantity: Quantity) -> str:
    return f"{quantity.low:.1f}-{quantity.high:.1f}"


def _right(head: tuple[Floats, Floats], features: Floats, labels: Sequence[int]) -> list[bool]:
    weights, bias = head
    answers = (features @ weights + bias).argmax(axis=1)
    return [bool(answer == label) for answer, label in zip(answers, labels, strict=True)]


@cache
def _features(name: str, whole: str) -> Mapping[str, Floats]:
    """Return the features of the images of a whole set by their hashes."""
    dataset = _surveyed(FOLDERS[whole]).dataset
    _, rows, _ = image_features(whole, Catalogue.load()[name], dataset)
    return dict(zip((image.sha256 for image in dataset.images), rows, strict=True))


def _summary(table: Sequence[Row]) -> Iterator[str]:
    for case in CASES:
        rows = [row for row in table if str(row[0]).startswith(f"{case},")]
        if rows:
            off = [abs(float(str(row[10]))) for row in rows]
            covered = sum(row[9] == "yes" for row in rows)
            yield (
                f"Case {case}: {covered} of {len(rows)} intervals hold the truth; the middle is off by "
                f"{np.mean(off):.1f} points in the mean, {max(off):.1f} at most."
            )
