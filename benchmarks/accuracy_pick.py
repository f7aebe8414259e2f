"""What the rule of the pick reaches on images that chose nothing, and at what latency and size.

    python -m benchmarks accuracy --part pick                  # seeds 0 to 2, and grocery: they chose nothing
    python -m benchmarks accuracy --part pick --sets trashnet,tiles --seeds 5,6,7     # they chose the constants

The candidates are networks in five forms, within a budget of 50 ms. Their answers come from the real files of the forms
of the backbone, with one head for all forms of a network but int8, which has its own as in a search. Validation parts
of several sizes are drawn from the split's validation part. Each rule picks by the answers there. The pick is scored on
the hold-out, with the head that ships; of ``grocery`` that is the official test.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np
from numpy.typing import NDArray

from advisor.catalog import Card, Catalogue
from advisor.compression import RecipeInputs, make_file
from advisor.core import (
    BALANCED,
    Answers,
    Configuration,
    Decision,
    Evaluation,
    Limits,
    Preference,
    Provenance,
    Quantity,
    Status,
    Target,
)
from advisor.datasets import CalibrationImages, Dataset, Division, Pair, Split, Survey, choose_images
from advisor.measurement import Classifier
from advisor.training import fit_head
from advisor.training._features import OUTPUT_NAME
from benchmarks.accuracy import parser_of
from benchmarks.accuracy_head import CALIBRATION, INT8_FOLDERS, _spec, image_features
from benchmarks.tables import Row, keep, kept_of_others

NAME = "accuracy_pick"
CARDS = (
    "mobilenet_v1_0.25_224,mobilenet_v2_1.0_224,mobilenet_v1_1.0_224,efficientnet_lite0_224,squeezenet_1.1_227,"
    "mobilenet_v2_1.0_224_torchvision,efficientnet_lite1_240,efficientnet_lite2_260"
)
FORMS = ("float32", "float16", "dynamic_int8", "weight_int8", "int8")
FLOATS = ("float32", "float16")
OWN_HEAD = "int8"
LIMITS = Limits(latency_ms=50.0)
TIMINGS = 40
REGULARIZATION = 0.03
"""``C`` of every head, on all levels: what cross-validation chooses here for most networks."""
SIZES = (50, 150, 300)
DRAWS = 20
FORMER, OURS, MOST = "former rule", "this rule", "most accurate"
HEADER = (
    "case", "set", "seeds", "validation images", "rule", "hold-out %", "points against the most accurate",
    "latency x size against it", "latency against it", "picks: int8, other integer forms, floats %",
)  # fmt: skip
REMARKS = (
    "Budget: 50 ms. Points: mean over seeds with its standard error; 20 draws for each seed. Latency and size: "
    "geometric mean of the ratios to the most accurate candidate within the budget, by the same validation images.",
    "Former rule: latency and size count by their logarithms alone, whatever the budget.",
    "Latency: the shortest CPU time of the backbone's form. The constants were chosen on seeds 5 to 7 of trashnet and "
    "tiles; seeds 0 to 2 and grocery's official test judge them.",
)

Floats = NDArray[np.floating[Any]]
Rule = Callable[[Sequence[Evaluation], Answers], Evaluation]


@dataclass(frozen=True, eq=False)
class Candidate:
    """A form of a network: its answers to the validation part, its top-1 on the hold-out in %, and its costs."""

    card: str
    form: str
    right: NDArray[np.bool_]
    holdout: float
    latency_ms: float
    size_bytes: int

    def judged(self, images: NDArray[np.int64]) -> Evaluation:
        """Return what a search knows of it from some of the validation images."""
        top1 = 100 * float(self.right[images].mean())
        return Evaluation(
            Configuration(self.card, "head", self.form, Target("host", "ai-edge-litert", "cpu", 1)),
            Status.OK,
            accuracy=Quantity(top1, "%", Provenance.MEASURED),
            latency=Quantity(self.latency_ms, "ms", Provenance.MEASURED),
            size=Quantity(self.size_bytes, "bytes", Provenance.MEASURED),
        )


def main(options: Sequence[str] = ()) -> None:
    """Draw validation parts, let each rule pick, and keep the table."""
    parser = parser_of("pick", __doc__, CARDS, tuple(INT8_FOLDERS))
    parser.set_defaults(seeds="0,1,2")
    chosen = parser.parse_args(list(options))
    rows: list[Row] = []
    for name in chosen.sets.split(","):
        seeds = "0" if name == "grocery" else chosen.seeds
        by_seed = candidates(name, [int(seed) for seed in seeds.split(",")], chosen.cards.split(","))
        sizes = (size for size in SIZES if size <= min(len(each[0].right) for each in by_seed.values()))
        rows += [row for size in sizes for row in _rows(name, seeds, size, by_seed)]
    others, _ = kept_of_others(NAME, [str(row[0]) for row in rows])
    print(keep(NAME, "The rule of the pick", HEADER, sorted([*others, *rows], key=str), REMARKS), flush=True)


class _WithoutScale(Preference):
    """The default preference, for which a budget is no scale."""

    def price(self, latency_ms: Any, size_bytes: Any) -> Any:
        """Return the sum of the logarithms."""
        return np.log(latency_ms) + np.log(size_bytes)


def former(evaluations: Sequence[Evaluation], answers: Answers) -> Evaluation:
    """Pick by the logarithms of latency and size, without a scale."""
    return _picked(evaluations, LIMITS, answers, _WithoutScale(accuracy_first=True))


def ours(evaluations: Sequence[Evaluation], answers: Answers) -> Evaluation:
    """Pick as a search does."""
    return _picked(evaluations, LIMITS, answers, BALANCED)


def _picked(evaluations: Sequence[Evaluation], limits: Limits, answers: Answers, by: Preference) -> Evaluation:
    pick = Decision.of_evaluations(evaluations, limits, answers, by).pick
    assert pick is not None
    return pick


def most_accurate(evaluations: Sequence[Evaluation], _answers: Answers) -> Evaluation:
    """Pick the most accurate, of equal ones the cheapest."""
    return max(evaluations, key=lambda each: (each.accuracy_percent, -each.latency_ms * each.size_bytes))


RULES: Mapping[str, Rule] = {FORMER: former, OURS: ours, MOST: most_accurate}


def _rows(name: str, seeds: str, size: int, by_seed: Mapping[int, Sequence[Candidate]]) -> list[Row]:
    """Return the row of each rule for validation parts of one size."""
    picks = drawn_picks(size, by_seed, RULES)
    rows: list[Row] = []
    for rule, picked in picks.items():
        gains = [mean(map(_holdout, picked[seed])) - mean(map(_holdout, picks[MOST][seed])) for seed in picked]
        every, best = list(chain(*picked.values())), list(chain(*picks[MOST].values()))
        cost, latency = (np.exp(mean(map(log, every)) - mean(map(log, best))) for log in (_log_cost, _log_latency))
        error = f" ± {stdev(gains) / len(gains) ** 0.5:.2f}" if len(gains) > 1 else ""
        shares = [100 * mean(each.form in forms for each in every) for forms in (FORMS[4:], FORMS[2:4], FLOATS)]
        cells = f"{mean(map(_holdout, every)):.2f}", f"{mean(gains):+.2f}{error}", f"{cost:.2f}", f"{latency:.2f}"
        case = f"{name}, seeds {seeds}, {size:3d} images, {rule}"
        rows.append((case, name, seeds, size, rule, *cells, ", ".join(f"{share:.0f}" for share in shares)))
    return rows


def drawn_picks(
    size: int, by_seed: Mapping[int, Sequence[Candidate]], rules: Mapping[str, Rule]
) -> dict[str, dict[int, list[Candidate]]]:
    """Return by rule and seed what is picked by each of :data:`DRAWS` validation parts of ``size`` images."""
    picks: dict[str, dict[int, list[Candidate]]] = {rule: {seed: [] for seed in by_seed} for rule in rules}
    for seed, each_of in by_seed.items():
        random = np.random.default_rng(seed)
        for _ in range(DRAWS):
            images = random.choice(len(each_of[0].right), size, replace=False)
            evaluations = [candidate.judged(images) for candidate in each_of]
            keys = {each.configuration: candidate for each, candidate in zip(evaluations, each_of, strict=True)}
            rights = {key: candidate.right[images].astype(float).tolist() for key, candidate in keys.items()}
            for rule, pick in rules.items():
                found = pick(evaluations, partial(_right_of, rights))
                picks[rule][seed].append(keys[found.configuration])
    return picks


def _right_of(rights: Mapping[Configuration, list[float]], each: Evaluation) -> list[float]:
    return rights[each.configuration]


def _holdout(candidate: Candidate) -> float:
    return candidate.holdout


def _log_cost(candidate: Candidate) -> float:
    return float(np.log(candidate.latency_ms * candidate.size_bytes))


def _log_latency(candidate: Candidate) -> float:
    return float(np.log(candidate.latency_ms))


def candidates(name: str, seeds: Sequence[int], cards: Sequence[str]) -> dict[int, list[Candidate]]:
    """Return by seed the forms of the networks on a set. Answers are kept in the cache."""
    found = Survey.read(INT8_FOLDERS[name])
    alike = Pair.find_alike(found.thumbnails)
    splits = {seed: Division.of_survey(found, seed, alike).split for seed in seeds}
    by_seed: dict[int, list[Candidate]] = {seed: [] for seed in seeds}
    for card in (Catalogue.load()[each] for each in cards):
        for seed, each_of in _candidates(name, card, found.dataset, splits).items():
            by_seed[seed] += each_of
        print(name, card.name, flush=True)
    return by_seed


def _candidates(name: str, card: Card, dataset: Dataset, splits: Mapping[int, Split]) -> dict[int, list[Candidate]]:
    """Return the forms of a network for the split of each seed."""
    backbone, floats, _ = image_features(name, card, dataset)
    folder = backbone.with_name(f"{name}-{dataset.fingerprint[:12]}-{card.name}-forms")
    _run_forms(backbone, folder, card, dataset)
    labels = np.array([image.label for image in dataset.images])
    costs = {form: _costs(folder / f"{form}.tflite", card, dataset) for form in FORMS}
    found = {}
    for seed, split in splits.items():
        kept = folder / f"answers-{seed}-own.npz"
        if not kept.exists():
            features = {form: floats if form in FLOATS else np.load(folder / f"{form}.npy") for form in FORMS}
            np.savez(kept, **_answers(features, labels, split))
        with np.load(kept) as each:
            rows = zip(FORMS, each["validation"], 100 * each["holdout"].mean(axis=1), strict=True)
            found[seed] = [Candidate(card.name, form, right, float(top1), *costs[form]) for form, right, top1 in rows]
    return found


def _answers(features: Mapping[str, Floats], labels: NDArray[np.int64], split: Split) -> dict[str, NDArray[np.bool_]]:
    """Return which images each form answers rightly: those of the validation part, and those of the hold-out.

    The heads of the first learn from the training part, the heads of the second from the validation part too.
    """
    found = {}
    for name, learnt, judged in (
        ("validation", np.array(split.train), np.array(split.validation)),
        ("holdout", np.array(split.learnt), np.array(split.holdout)),
    ):
        heads = {
            form: fit_head(
                features[form][learnt].astype(np.float32), labels[learnt].tolist(), int(labels.max()) + 1,
                REGULARIZATION,
            )
            for form in (FORMS[0], OWN_HEAD)
        }  # fmt: skip
        right = []
        for form, each in features.items():
            weights, bias = heads.get(form, heads[FORMS[0]])
            right.append((each[judged].astype(np.float32) @ weights + bias).argmax(axis=1) == labels[judged])
        found[name] = np.array(right)
    return found


def _run_forms(backbone: Path, folder: Path, card: Card, dataset: Dataset) -> None:
    """Make the forms of the backbone, and keep the features of every image by each integer form."""
    folder.mkdir(exist_ok=True)
    drawn = [
        dataset.images[row].path for row in choose_images([image.label for image in dataset.images], CALIBRATION, 0)
    ]
    calibration = CalibrationImages(tuple(drawn), _spec(card), 0)
    for form in FORMS:
        if not (folder / f"{form}.tflite").exists():
            make_file(backbone, form, calibration, RecipeInputs(), None, folder / f"{form}.tflite")
    missing = [form for form in FORMS if form not in FLOATS and not (folder / f"{form}.npy").exists()]
    models = {form: Classifier(folder / f"{form}.tflite", OUTPUT_NAME) for form in missing}
    rows: dict[str, list[Floats]] = {form: [] for form in missing}
    for image in dataset.images if missing else ():
        pixels = _spec(card).read(image.path)
        for form, model in models.items():
            rows[form].append(model(pixels).astype(np.float16))
    for form, each in rows.items():
        np.save(folder / f"{form}.npy", np.stack(each))


def _costs(file: Path, card: Card, dataset: Dataset) -> tuple[float, int]:
    """Return the shortest CPU time of an answer in ms, which other work hardly changes, and the bytes of the file."""
    model, pixels = Classifier(file, OUTPUT_NAME), _spec(card).read(dataset.images[0].path)
    found = []
    for _ in range(TIMINGS):
        began = time.thread_time()
        model(pixels)
        found.append(time.thread_time() - began)
    return 1000 * min(found), file.stat().st_size


if __name__ == "__main__":
    main()
