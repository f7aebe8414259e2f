"""Risks of an answer: the images it was judged on, the budget, compression, capture conditions,
the licence.
"""

import math
from collections.abc import Iterator, Sequence, Sized
from dataclasses import dataclass
from enum import StrEnum

from advisor.core import (
    FLOAT,
    HOST,
    ROBUST,
    Evaluation,
    Interval,
    Limits,
    Metric,
    Provenance,
    Quantity,
    listed,
    plural,
    show_ms,
    show_probability,
)
from advisor.engine import Question
from advisor.reporting import _text as text
from advisor.reporting._confidence import NAMED, list_broken_guarantees
from advisor.reporting._unknown_images import other_things
from advisor.reporting._view import DatasetSummary, RunView

LEAST_ROOM = 0.1
"""A measured latency is far from the limit if at least this share (0-1) of the limit is left."""

SURE = 0.95
"""Probability (0-1) from which on a predicted latency is as good as within the limit."""

FEW_IMAGES = 10
"""A class with fewer validation images than this says little:
one image is more than ten points of its accuracy.
"""

LEAST_PERCENT = 1.0
"""A file whose accuracy in % is below this has learnt nothing."""

FEW_GROUPS = 3
"""With fewer groups, a class cannot have one in each part of the images."""

BUDGET = "Latency budget"

NOT_YOUR_DEVICE = "Not your device"

FINDS_NOTHING = "Finds nothing"

A_GUESS = "No better than a guess"

CLEAR_AUROC = 0.9
"""AUROC (0-1) from which on images of other things are told apart well enough."""

LEAST_FOUND = 0.5
"""Share (0-1) of the user's images of other things;
if fewer are found, most of them pass as known.
"""

SMALL_DROP = 1.0
LARGE_DROP = 2.0
"""Points of accuracy that compression loses: up to the first, the risk is low;
above the second, it is high.
"""

SMALL_LOSS = 5.0
LARGE_LOSS = 15.0
"""Points of accuracy that the worst capture condition loses:
below the first the risk is low, from the second high.
"""


class Level(StrEnum):
    """Severity of a risk."""

    LOW = "low"
    SOME = "some"
    HIGH = "high"


@dataclass(frozen=True)
class Risk:
    """One risk.

    Attributes:
        name: its topic.
        level: its severity.
        text: a sentence with its figures.
    """

    name: str
    level: Level
    text: str

    @property
    def warns(self) -> bool:
        """Return whether every form of an answer shows the risk beside the pick,
        because it is high.

        A latency over its limit is not such a risk:
        nothing meets the budget then, and the answer begins with that.
        """
        return self.level is Level.HIGH and self.name != BUDGET


def list_risks(view: RunView, evaluation: Evaluation) -> tuple[Risk, ...]:
    """Return every risk of an evaluation of a run; see :func:`risks_of`."""
    return risks_of(view.request.question, view.dataset, evaluation)


def risks_of(
    question: Question, dataset: DatasetSummary | None, evaluation: Evaluation
) -> tuple[Risk, ...]:
    """Return every risk; where a figure is missing, the risk says that it is unknown."""
    grouped = list(_few_groups(dataset))
    guessed = _compare_with_guess(question, dataset, evaluation)
    # A file that reaches next to nothing misses all classes, too: it is said once.
    missed = (
        None
        if guessed and guessed.name == FINDS_NOTHING
        else _name_missed_classes(question, evaluation)
    )
    all_risks = (
        guessed,
        missed,
        *_leaks(dataset),
        *_few_images(dataset),
        *grouped,
        *_compare_parts(evaluation),
        *_new_conditions(question, evaluation),
        *_compare_with_training(question, evaluation, bool(grouped)),
        *_warn_of_penalty(evaluation),
        *(Risk(name, Level.HIGH, said) for name, said in list_broken_guarantees(evaluation)),
        _budget(question.limits, evaluation),
        _compression(evaluation),
        _capture(question, dataset, evaluation),
        _unknown(evaluation),
        _licence(question.limits, evaluation),
    )
    return tuple(risk for risk in all_risks if risk is not None)


def is_worthless(view: RunView) -> bool:
    """Return whether the pick finds nothing, so that no form of an answer recommends it."""
    pick = view.decision.pick
    return pick is not None and any(risk.name == FINDS_NOTHING for risk in list_risks(view, pick))


def list_warnings(risks: Sequence[Risk]) -> tuple[Risk, ...]:
    """Return the risks that every form of an answer shows beside the pick."""
    return tuple(risk for risk in risks if risk.warns)


def _compare_with_guess(
    question: Question, dataset: DatasetSummary | None, evaluation: Evaluation
) -> Risk | None:
    """Return the risk that a file is worth nothing:
    it finds nothing, or a guess may be right as often.
    """
    figure = evaluation.holdout_accuracy or evaluation.accuracy
    if dataset is None or figure is None or figure.provenance is not Provenance.MEASURED:
        return None
    if figure.value < LEAST_PERCENT:
        said = (
            f"It reaches {figure.value:.1f} % {question.of_task.metric}, next to nothing: do not"
            " ship it."
        )
        return Risk(FINDS_NOTHING, Level.HIGH, f"{said} Give the search more time or more images.")
    guess = question.of_task.guess
    if guess and figure.low is not None and figure.low <= guess:
        said = (
            f"A guess reaches {guess:.0f} % {question.of_task.metric}; this file reaches"
            f" {text.with_interval(figure)} %"
        )
        return Risk(A_GUESS, Level.HIGH, f"{said}. Give the search more time or more images.")
    counts = dataset.images_per_class
    # The share of a class is comparable with top-1 only; other metrics do not count images.
    is_top1 = question.of_task.probabilities and question.metric == Metric.TOP1
    if not is_top1 or len(counts) < 2:
        return None
    usual = max(counts, key=lambda name: counts[name])
    share = 100 * counts[usual] / dataset.images
    if figure.low is None or figure.low > share:
        return None
    said = f"Always answering '{usual}' would be right on {share:.0f} % of your images"
    return Risk(A_GUESS, Level.HIGH, f"{said}; this file reaches {text.with_interval(figure)} %.")


def _name_missed_classes(question: Question, evaluation: Evaluation) -> Risk | None:
    """Return the risk that objects of some classes are hardly ever found;
    None for answers of one class.

    A mean over classes hides it: a mask that is all background has a third
    of the best mean IoU of three classes.
    """
    if question.of_task.probabilities:
        return None
    shares = (evaluation.holdout_answers or evaluation.answers).per_class_recall
    missed = list[str]()
    for name, share in shares.items():
        # A class without an object has no share.
        if share is not None and 100 * share < LEAST_PERCENT:
            missed.append(repr(name))
    if not missed or len(shares) < 2:
        return None
    of_all = f"{len(missed)} of {plural(len(shares), 'class', 'classes')}"
    said = f"It finds next to nothing of {listed(missed, NAMED)} ({of_all})."
    topic = "Missed classes"
    # One class that is found is the background, which covers most of an image.
    if len(missed) >= len(shares) - 1:
        topic = FINDS_NOTHING
    return Risk(topic, Level.HIGH, f"{said} Give the search more time or more images of them.")


def _leaks(dataset: DatasetSummary | None) -> Iterator[Risk]:
    if dataset is None:
        return
    if dataset.copied:
        yield Risk("Copies in your split", Level.HIGH, dataset.copied)
    if dataset.leaking:
        yield Risk("Leaks", Level.HIGH, dataset.leaking)


def _few_images(dataset: DatasetSummary | None) -> Iterator[Risk]:
    """Yield the risk of classes with no or few validation images."""
    validated = dataset.validated_per_class if dataset else {}
    missing = [repr(name) for name, count in validated.items() if not count]
    if missing:
        shown = (
            f"{_begin_sentence(missing, validated)} no validation image: {listed(missing, NAMED)}"
        )
        advice = "The figures say nothing there: add images to the validation part."
        yield Risk("Missing classes", Level.HIGH, f"{shown}. {advice}")
    few = {}
    for name, count in validated.items():
        if 0 < count < FEW_IMAGES:
            few[name] = count
    if few and len(validated) == 1:
        yield Risk(
            "Few images",
            Level.HIGH,
            f"The validation part has only {min(few.values())} images: add images.",
        )
    elif few:
        worst = min(few, key=lambda name: few[name])
        share = f"{_begin_sentence(few, validated)} fewer than {FEW_IMAGES} validation images"
        yield Risk("Few images", Level.HIGH, f"{share}, {worst!r} only {few[worst]}: add images.")


def _few_groups(dataset: DatasetSummary | None) -> Iterator[Risk]:
    """Yield the risk of classes whose images come from few occasions."""
    groups = dataset.groups_per_class if dataset else {}
    few = {name: count for name, count in groups.items() if count < FEW_GROUPS}
    if not few:
        return
    worst = min(few, key=lambda name: (few[name], name))
    share = (
        f"{_begin_sentence(few, groups)} fewer than {FEW_GROUPS} groups of images, {worst!r} only"
        f" {few[worst]}"
    )
    if len(groups) == 1:
        share = f"There are fewer than {FEW_GROUPS} groups of images"
    # Nothing shows how another group differs, see docs/decisions/0051.
    lone = few[worst] == 1
    then = "expect less in new conditions than is estimated, and add" if lone else "add"
    yield Risk("Few groups", Level.HIGH, f"{share}: {then} images of other places and days.")


def _compare_parts(evaluation: Evaluation) -> Iterator[Risk]:
    """Compare the hold-out with validation, which chose the pick:
    they differ by more than 95 % of chance explains.
    """
    # Validation under capture conditions chooses where the question asks for them:
    # then its figure without them counts.
    validated = evaluation.capture.plain or evaluation.accuracy
    judged = evaluation.holdout_accuracy
    if validated is None or judged is None:
        return
    noise = math.hypot(compute_half_width(validated), compute_half_width(judged))
    more = judged.value - validated.value
    if abs(more) <= noise or not math.isfinite(noise):
        return
    figures = (
        f"{validated.value:.1f} % on validation, which chose the pick, {judged.value:.1f} % on the"
        " hold-out"
    )
    apart = f"{figures}: {abs(more):.1f} points apart, where chance explains {noise:.1f}"
    if more < 0:
        yield Risk(
            "Validation",
            Level.HIGH,
            f"{apart}. Expect the figure of the hold-out on other images.",
        )
    else:
        # A head that ships is fitted to the validation images as well,
        # which few images make visible.
        why = (
            "The hold-out is easier, or it helped that the file has learnt from the validation"
            " images too."
        )
        yield Risk("Validation", Level.SOME, f"{apart}. {why}")


def compute_half_width(quantity: Quantity) -> float:
    """Return half of the 95 % interval of a figure itself, infinite where it is unknown.

    A range on other images is wider by the root of two, and allows for few groups;
    its standard error alone does not.
    """
    if (
        quantity.low is None
        or quantity.high is None
        or quantity.provenance is not Provenance.MEASURED
    ):
        return math.inf
    half = (quantity.high - quantity.low) / 2
    if quantity.error is None:
        return half
    return half / math.sqrt(2.0)


def _new_conditions(question: Question, evaluation: Evaluation) -> Iterator[Risk]:
    """Compare the figure in new conditions with the measured one: it lies below the 95 %
    interval.
    """
    plain, judged = evaluation.top1_on_parts
    expected = evaluation.new_conditions
    measured = judged or plain
    if expected and measured and measured.low is not None and expected.value < measured.low:
        figure = "%" if question.metric == Metric.TOP1 else "% top-1"
        expect = f"{expected.value:.1f} {figure}{text.confidence(expected, ' (', ')')}"
        said = (
            f"Expect about {expect} on images of another place or day, not {measured.value:.1f} %."
        )
        yield Risk("New conditions", Level.HIGH, said)


def _compare_with_training(
    question: Question, evaluation: Evaluation, few_groups: bool
) -> Iterator[Risk]:
    """Compare the head's cross-validation with validation:
    they differ by more than both 95 % intervals allow.

    Cross-validation holds out whole groups.
    It is too low if a class has few of them, so it proves nothing then.
    """
    judged, _ = evaluation.top1_on_parts
    head = evaluation.head
    if head is None:
        return
    # With another metric, what a compressed file loses of top-1 is not known.
    known = question.metric == Metric.TOP1 or evaluation.configuration.compression == FLOAT
    if known and head.cv_images and judged and judged.low is not None and judged.high is not None:
        # Cross-validation judged the float head.
        lost = evaluation.drop.value if evaluation.drop else 0.0
        crossed = Interval.wilson(round(head.cv_accuracy * head.cv_images), head.cv_images)
        difference = 100 * crossed.value - judged.value - lost
        allowed = math.hypot(50 * (crossed.high - crossed.low), (judged.high - judged.low) / 2)
        if difference > allowed or (-difference > allowed and not few_groups):
            figures = (
                f"{100 * crossed.value:.1f} % on the training part, {judged.value:.1f} % on"
                " validation"
            )
            why = (
                "resemble the training images, or are easier by chance. Expect less on other"
                " images"
            )
            if difference > 0:
                why = "differ from the training images. Other images can differ as much again"
            yield Risk("Cross-validation", Level.HIGH, f"{figures}: validation images {why}.")


def _warn_of_penalty(evaluation: Evaluation) -> Iterator[Risk]:
    """Warn of a head whose penalty is the strongest or the weakest that was tried:
    a better one may lie beyond.
    """
    head = evaluation.head
    if head is not None and head.at_grid_end:
        end = f"C = {head.regularization:g} of the head is at the end of the values tried"
        said = f"{end}: cross-validation found no optimum, so do not rely on it."
        yield Risk("Regularization", Level.HIGH, said)


def _begin_sentence(some: Sized, classes: Sized) -> str:
    """Return the subject of a sentence about some of the classes, with its verb."""
    if len(some) == len(classes) > 1:
        return f"All {len(classes)} classes have"
    return (
        f"{len(some)} of {plural(len(classes), 'class', 'classes')}"
        f" {'has' if len(some) == 1 else 'have'}"
    )


def _budget(limits: Limits, evaluation: Evaluation) -> Risk | None:
    """Return how far the latency is from its limit, and whether it was measured on the device;
    None without a limit.
    """
    limit = limits.latency_ms
    latency = evaluation.latency_p90 or evaluation.latency
    if limit is None or latency is None:
        return None
    device = evaluation.configuration.target.device
    probability = evaluation.budget_probability
    if probability is not None:
        level = Level.SOME if probability >= limits.confidence else Level.HIGH
        level = Level.LOW if probability >= SURE else level
        provenance = evaluation.latency.provenance if evaluation.latency else Provenance.PREDICTED
        sure = show_probability(probability)
        chance = f"{sure} sure to meet {show_ms(limit)} on {device}: {provenance}, not measured"
        return Risk(
            BUDGET, level, f"{chance}. A few measurements on the device would narrow the interval."
        )
    room = 1 - latency.value / limit
    if room < 0:
        return Risk(
            BUDGET, Level.HIGH, f"{show_ms(latency.value)} on {device} is over {show_ms(limit)}."
        )
    # The machine of a search is rarely the one that the file ships to.
    if device == HOST:
        said = (
            f"The budget was checked on this machine, which leaves {100 * room:.0f} % of"
            f" {show_ms(limit)}."
        )
        return Risk(NOT_YOUR_DEVICE, Level.SOME, f"{said} Name the device to ship on: --device.")
    is_certain = room >= LEAST_ROOM and latency.provenance is Provenance.MEASURED
    level = Level.LOW if is_certain else Level.SOME
    return Risk(
        BUDGET,
        level,
        f"{100 * room:.0f} % of {show_ms(limit)} is left on {device} ({latency.provenance}).",
    )


def _compression(evaluation: Evaluation) -> Risk:
    """Return the risk that compression costs accuracy."""
    drop = evaluation.drop
    recipe = evaluation.configuration.compression
    if evaluation.card_facts.as_it_is:
        said = (
            "It is judged as you ship it: its figures are too high if it has learnt from your"
            " images."
        )
        return Risk("Learnt images", Level.HIGH, said)
    if recipe == FLOAT:
        return Risk(
            "Compression",
            Level.LOW,
            "The file is not compressed, so compression has lost nothing.",
        )
    if drop is None:
        return Risk(
            "Compression", Level.SOME, f"The accuracy that {recipe} loses was not measured."
        )
    worst = drop.high if drop.high is not None else drop.value
    level = Level.LOW if drop.value <= SMALL_DROP and worst <= LARGE_DROP else Level.SOME
    if drop.value > LARGE_DROP:
        level = Level.HIGH
    if drop.value < 0:
        gain = text.as_gain(drop)
        said = (
            f"{recipe} gains {text.points(gain)} points{text.confidence(gain, ' (', ')')} against"
            " float32."
        )
    else:
        said = (
            f"{recipe} loses {text.points(drop)} points{text.confidence(drop, ' (', ')')} against"
            " float32."
        )
    return Risk("Compression", level, said)


def _capture(
    question: Question, dataset: DatasetSummary | None, evaluation: Evaluation
) -> Risk | None:
    """Return the risk of the capture condition that costs most;
    None if conditions mean nothing here.
    """
    if dataset is None or not question.of_task.conditions:
        return None
    if not evaluation.capture.by_condition:
        return Risk(
            "Capture", Level.SOME, "Accuracy in poor light, blur and noise was not measured."
        )
    worst = min(evaluation.capture.by_condition, key=lambda row: row.top1)
    plain, judged = evaluation.top1_on_parts
    # The conditions were tried on the hold-out.
    usual = judged or plain
    lost = (usual.value if usual else worst.top1) - worst.top1
    level = Level.HIGH
    if lost < SMALL_LOSS:
        level = Level.LOW
    elif lost < LARGE_LOSS:
        level = Level.SOME
    condition = f"{worst.condition}, strength {worst.strength:g}"
    reached = f"{worst.top1:.1f} % are right"
    if not question.of_task.probabilities:
        reached = f"it reaches {worst.top1:.1f} % {question.of_task.metric}"
    less = f"{lost:.1f} points less than on the unchanged images"
    said = f"Under the worst capture condition ({condition}), {reached}, {less}."
    if level is Level.HIGH and question.of_task.robust and not question.robust:
        learns = ", and trains with them" if question.of_task.labelled else ""
        said += f" A search with --objective {ROBUST} compares by such images{learns}."
    return Risk("Capture", level, said)


def _unknown(evaluation: Evaluation) -> Risk | None:
    """Return the risk that images of other things pass as known ones;
    None if few do, or if nothing is known.
    """
    facts = evaluation.unknown
    if facts is None:
        return None
    advice = (
        "Give images of such things a class of their own in --data, export with --unknown-class,"
        " or raise the threshold with --min-precision."
    )
    if facts.others is not None and facts.others.found.value < LEAST_FOUND:
        return Risk("Unknown", Level.HIGH, f"{other_things(facts)} {advice}")
    if facts.auroc is None or facts.accepted is None or facts.auroc.value >= CLEAR_AUROC:
        return None
    passes = (
        f"Images of a class that was left out pass as known in {100 * facts.accepted:.0f} % of the"
        " cases"
    )
    return Risk(
        "Unknown",
        Level.SOME,
        f"{passes}; AUROC {facts.auroc.value:.2f}, below {CLEAR_AUROC:g}. {advice}",
    )


def _licence(limits: Limits, evaluation: Evaluation) -> Risk:
    licence = evaluation.card_facts.licence
    if not licence:
        return Risk(
            "Licence",
            Level.HIGH,
            "The licence of the network is not stated: find it out before you ship it.",
        )
    if limits.is_permissive(licence):
        return Risk("Licence", Level.LOW, f"{licence}: permissive; keep its notice in the app.")
    # Who has set a limit of licences has admitted this one.
    level = Level.SOME if limits.licence else Level.HIGH
    return Risk(
        "Licence", level, f"{licence}: not permissive; have it reviewed before you ship it."
    )
