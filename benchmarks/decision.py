"""What the rule of the pick loses against hindsight, beside two rules that everybody knows.

    python -m benchmarks decision              # recorded answers and made-up ones, about one CPU minute

``this rule`` is the product's. ``one standard error`` is the rule of textbooks (Breiman and others, 1984): the cheapest
file, by latency x size, within one standard error of the accuracy of the most accurate one. ``most accurate`` is the
most accurate file within the limits, of equal ones the cheapest. All see the same validation images. Recorded answers
are those of ``decision_answers``; made-up ones come from a normal distribution for each image and file, with
differences between files as in the recorded answers. There, hindsight knows each file's true accuracy.

Cases: ``whole`` and ``shortened`` fine-tunings; ``device later``: as shortened, where the pick and the runner-up of one
device ran on the hold-out, and the pick is for another device, with other latencies.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import mean, stdev

import numpy as np
from numpy.typing import NDArray

from advisor.core import (
    BALANCED,
    Configuration,
    Evaluation,
    Limits,
    Provenance,
    Quantity,
    Status,
    Target,
    TrainingName,
    TuningFacts,
)
from advisor.core._choosing import Chooser
from advisor.core._posterior import Posterior
from benchmarks.decision_answers import RecordedFile, read_files
from benchmarks.tables import Row, keep

NAME, TITLE = "decision", "The rule of the pick against hindsight"
OURS, TEXTBOOK, MOST = "this rule", "one standard error", "most accurate"
WHOLE, SHORTENED, LATER = "whole", "shortened", "device later"
LIMITS = Limits(latency_ms=50.0)
CHOSE = "tiles"
SIZES, DRAWS, WORLDS = (50, 150, 300), 40, 100
UNSEEN = 600
"""Images of made-up answers that no rule saw, on which a pick is compared with all other files."""

HEADER = (
    "case", "validation images", "rule", "points lost against hindsight", "latency x size against most accurate",
    "behind another file beyond the noise on unseen images",
)  # fmt: skip
REMARKS = (
    "Points lost: against the file within the limits that is best on images that chose nothing; mean over draws, with "
    "the standard error over sets and worlds. Latency x size: geometric mean of the ratios.",
    "Behind: picks that another file beats on the unseen images by more than the 95 % interval of the difference.",
    "The whole limit as the worth of a point was chosen on other made-up answers (seeds 0 and 2), and on tiles that a "
    "head gives way to its fine-tuned network only at equal accuracy. All other rows judge the rule.",
)

Bits = NDArray[np.bool_]
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Candidate:
    """A file with its costs, its answers to the validation images, to unseen ones, and its true accuracy in %."""

    card: str
    training: str
    form: str
    shortened: bool
    latency_ms: float
    size_bytes: float
    validation: Bits
    unseen: Bits
    truth: float

    def judged(self, images: NDArray[np.int64], holdout: bool = False) -> Evaluation:
        """Return what a search knows of it from some of the validation images."""
        top1 = Quantity(100 * float(self.validation[images].mean()), "%", Provenance.MEASURED)
        target = Target("host", "ai-edge-litert", "cpu", 1)
        return Evaluation(
            Configuration(self.card, self.training, self.form, target),
            Status.OK,
            accuracy=top1,
            holdout_accuracy=top1 if holdout else None,
            latency=Quantity(self.latency_ms, "ms", Provenance.MEASURED),
            size=Quantity(self.size_bytes, "bytes", Provenance.MEASURED),
            tuning=TuningFacts(self.shortened) if self.training != TrainingName.HEAD else None,
        )


@dataclass(frozen=True)
class Drawn:
    """The files of one case with the answers that a search has."""

    candidates: Sequence[Candidate]
    evaluations: Sequence[Evaluation]
    images: NDArray[np.int64]

    def right(self, evaluation: Evaluation) -> list[float]:
        """Return the answers of a file to the images, 1 for a right one."""
        right: list[float] = self.candidate(evaluation).validation[self.images].astype(float).tolist()
        return right

    def candidate(self, evaluation: Evaluation) -> Candidate:
        """Return the file of an evaluation."""
        places = [each.configuration for each in self.evaluations]
        return self.candidates[places.index(evaluation.configuration)]


Rule = Callable[[Drawn], Evaluation]


def pick_by_product(drawn: Drawn) -> Evaluation:
    """Pick as a search does."""
    posterior = Posterior(drawn.evaluations, drawn.right)
    return Chooser(posterior, BALANCED.within(LIMITS.by_figure)).pick(drawn.evaluations)


def pick_by_textbook(drawn: Drawn) -> Evaluation:
    """Pick the cheapest within one standard error of the most accurate one's accuracy."""
    best = pick_most_accurate(drawn).accuracy_percent
    error = 100 * (best / 100 * (1 - best / 100) / len(drawn.images)) ** 0.5
    within = [each for each in drawn.evaluations if each.accuracy_percent >= best - error]
    return min(within, key=_cost)


def pick_most_accurate(drawn: Drawn) -> Evaluation:
    """Pick the most accurate, of equal ones the cheapest."""
    return max(drawn.evaluations, key=lambda each: (each.accuracy_percent, -_cost(each)))


RULES: Mapping[str, Rule] = {OURS: pick_by_product, TEXTBOOK: pick_by_textbook, MOST: pick_most_accurate}


def _cost(evaluation: Evaluation) -> float:
    return evaluation.latency_ms * evaluation.size_bytes


@dataclass(frozen=True)
class Outcome:
    """What a pick lost, its log cost, and whether unseen images show another file to be better."""

    lost: float
    log_cost: float
    beaten: bool


def main() -> None:
    """Let each rule pick from recorded and made-up answers, and keep the table."""
    rows: list[Row] = []
    pooled: dict[str, dict[str, list[list[Outcome]]]] = {}
    for case, problems in cases():
        by_rule = pooled.setdefault(_group_of(case), {rule: [] for rule in RULES})
        for size in SIZES:
            outcomes = judge_rules(problems, size)
            rows += _rows(case, size, outcomes)
            print(*rows[-len(RULES) :], sep="\n", flush=True)
            for rule, judged in outcomes.items():
                by_rule[rule] += judged
    for kind, by_rule in pooled.items():
        rows += _rows(kind, "all", by_rule)
    print(keep(NAME, TITLE, HEADER, rows, REMARKS), flush=True)


def _group_of(case: str) -> str:
    """Return the name of the cases that are summed with this one: sets that chose do not judge."""
    if case.startswith("made-up"):
        return "made-up, all"
    return "recorded, which chose" if case.startswith(CHOSE) else "recorded, which judge"


def cases() -> Iterator[tuple[str, list[list[Candidate]]]]:
    """Yield each case with its problems: the files of one set, or of one made-up world."""
    recorded = read_files()
    for name in sorted({file.set for file in recorded}):
        files = [file for file in recorded if file.set == name]
        for kind in (WHOLE, SHORTENED, LATER):
            yield f"{name}, {kind}", [_of_recorded(files, kind)]
    for kind in (WHOLE, SHORTENED, LATER):
        yield f"made-up, {kind}", [make_world(np.random.default_rng([1, seed]), kind) for seed in range(WORLDS)]


def judge_rules(problems: Sequence[Sequence[Candidate]], size: int) -> dict[str, list[list[Outcome]]]:
    """Return by rule the outcomes of each problem, of which some are drawn several times."""
    found: dict[str, list[list[Outcome]]] = {rule: [] for rule in RULES}
    for number, candidates in enumerate(problems):
        random = np.random.default_rng([size, number])
        draws = DRAWS if len(problems) == 1 else 1
        drawn = [_draw(candidates, size, random) for _ in range(draws)]
        for rule, pick in RULES.items():
            found[rule].append([_outcome(each, pick(each)) for each in drawn])
    return found


def _draw(candidates: Sequence[Candidate], size: int, random: np.random.Generator) -> Drawn:
    """Return the files with some of their validation images.

    For a device that is added later, pick and runner-up of the first device have run on the hold-out.
    """
    count = len(candidates[0].validation)
    images = random.choice(count, min(size, count), replace=False)
    later = _later_latencies(candidates, random)
    drawn = Drawn(candidates, [each.judged(images) for each in candidates], images)
    if not later:
        return drawn
    first = pick_by_product(drawn)
    others = [each for each in drawn.evaluations if each.configuration != first.configuration]
    second = pick_by_product(Drawn([drawn.candidate(each) for each in others], others, images))
    judged = {first.configuration, second.configuration}
    moved = [replace(each, latency_ms=latency) for each, latency in zip(candidates, later, strict=True)]
    known = [each.judged(images) for each in moved]
    known = [replace(each, holdout_accuracy=each.accuracy) if each.configuration in judged else each for each in known]
    return Drawn(moved, known, images)


def _later_latencies(candidates: Sequence[Candidate], random: np.random.Generator) -> list[float]:
    """Return latencies on another device, where forms have other ratios; none if no device is added."""
    if not getattr(candidates, "later", False):
        return []
    integer = random.uniform(0.3, 1.0)
    return [each.latency_ms * 1.5 * (integer if each.form == "int8" else 1.0) for each in candidates]


class _Later(list[Candidate]):
    """Files of a device that is followed by another one."""

    later = True


def _outcome(drawn: Drawn, pick: Evaluation) -> Outcome:
    chosen = drawn.candidate(pick)
    lost = max(each.truth for each in drawn.candidates) - chosen.truth
    beaten = any(_beats(each.unseen, chosen.unseen) for each in drawn.candidates)
    return Outcome(lost, float(np.log(_cost(pick))), beaten)


def _beats(other: Bits, own: Bits) -> bool:
    """Return whether other answers are better on the same images beyond the 95 % interval of the difference."""
    better, worse = int((other & ~own).sum()), int((own & ~other).sum())
    return bool(better - worse > 1.96 * (better + worse + 2) ** 0.5)


def _rows(case: str, size: int | str, outcomes: Mapping[str, Sequence[Sequence[Outcome]]]) -> list[Row]:
    rows: list[Row] = []
    dearest = mean(each.log_cost for problem in outcomes[MOST] for each in problem)
    for rule, problems in outcomes.items():
        every = [each for problem in problems for each in problem]
        lost = [mean(each.lost for each in problem) for problem in problems]
        error = f" ± {stdev(lost) / len(lost) ** 0.5:.2f}" if len(lost) > 1 else ""
        ratio = float(np.exp(mean(each.log_cost for each in every) - dearest))
        beaten = f"{sum(each.beaten for each in every)} of {len(every)}"
        rows.append((case, size, rule, f"{mean(lost):.2f}{error}", f"{ratio:.2f}", beaten))
    return rows


def _of_recorded(files: Sequence[RecordedFile], kind: str) -> list[Candidate]:
    """Return the recorded files of one set with heads, and whole or shortened fine-tunings."""
    some = [file for file in files if file.training == TrainingName.HEAD or file.shortened == (kind != WHOLE)]
    latencies: dict[tuple[str, str], list[float]] = {}
    for file in files:
        latencies.setdefault((file.card, file.form), []).append(file.latency_ms)
    found = [
        Candidate(
            file.card, file.training, file.form, file.shortened,
            float(np.median(latencies[file.card, file.form])),  # files of one graph have one latency
            file.size_bytes, file.validation, file.test, 100 * float(file.test.mean()),
        )
        for file in some
    ]  # fmt: skip
    return _Later(found) if kind == LATER else found


EASE, OWN, FORM_NOISE = 0.85, 0.5, {"float32": 0.0, "weight_int8": 0.04, "int8": 0.12}
"""Standard deviations of the logit-like score of an image: what all networks share, what one network adds, and what
one form adds. Set beforehand, and not fitted to recorded answers."""

COSTLIER = 0.16
"""Gain of a network's mean score for each factor e in latency."""


def make_world(random: np.random.Generator, kind: str) -> list[Candidate]:
    """Return made-up files: three to eight networks as head and fine-tuned, each in three forms."""
    count, spread = max(SIZES), float(np.hypot(EASE, OWN))
    ease = random.normal(0, EASE, count + UNSEEN)
    base, candidates = random.uniform(1.0, 1.8), list[Candidate]()
    for number in range(random.integers(3, 9)):
        log_latency = random.uniform(np.log(1.5), np.log(45))
        size = 1.5e6 * np.exp(random.normal(0, 0.25) + 0.75 * (log_latency - np.log(1.5)))
        head = base + COSTLIER * (log_latency - np.log(10)) + random.normal(0, 0.17)
        own = random.normal(0, OWN, count + UNSEEN)
        gain = random.normal(0.2, 0.15) if kind == WHOLE else random.normal(-0.05, 0.2)
        for training, score in ((TrainingName.HEAD, head), (TrainingName.FINETUNE_CACHED, head + gain)):
            # A fine-tuned network shares half of the variance that its head does not share with other networks.
            mixed = own if training == TrainingName.HEAD else (own + random.normal(0, OWN, count + UNSEEN)) / 2**0.5
            for form, noise in FORM_NOISE.items():
                mean_score = (score - _made_up_loss(form, random)) * spread
                right = mean_score + ease + mixed + random.normal(0, noise, count + UNSEEN) > 0
                truth = 100 * _normal_share(mean_score / float(np.hypot(spread, noise)))
                latency = float(np.exp(log_latency)) * {"float32": 1.0, "weight_int8": 1.0, "int8": 0.55}[form]
                weight = float(size) * (1.0 if form == "float32" else 0.27)
                shortened = training != TrainingName.HEAD and kind != WHOLE
                candidates.append(
                    Candidate(
                        f"net{number}", training, form, shortened, latency, weight, right[:count], right[count:], truth
                    )
                )
    return _Later(candidates) if kind == LATER else candidates


def _made_up_loss(form: str, random: np.random.Generator) -> float:
    """Return what a form loses of the mean score: quantization to int8 fails once in twenty."""
    if form == "float32":
        return 0.0
    if form == "weight_int8":
        return abs(float(random.normal(0, 0.01)))
    return float(random.uniform(0.2, 1.0)) if random.random() < 0.05 else abs(float(random.normal(0.03, 0.04)))


def _normal_share(value: float) -> float:
    from statistics import NormalDist

    return NormalDist().cdf(value)


if __name__ == "__main__":
    main()
