"""The risks that lie in the images: what they were judged on, and what they may hide.

``_risks.py`` puts them before the risks of the file itself: a figure that rests on few, copied or
unlike images is worth little, however good the file is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sized

from advisor.core import (
    FLOAT,
    METRICS,
    Evaluation,
    Interval,
    Metric,
    Provenance,
    Quantity,
    listed,
    plural,
)
from advisor.engine import Question
from advisor.reporting import _text as text
from advisor.reporting._confidence import NAMED
from advisor.reporting._risk import Level, Risk
from advisor.reporting._view import DatasetSummary

FEW_IMAGES = 10
"""A class with fewer validation images than this says little:
one image is more than ten points of its accuracy.
"""


LEAST_PERCENT = 1.0
"""A file whose accuracy in % is below this has learnt nothing."""


FEW_GROUPS = 3
"""With fewer groups, a class cannot have one in each part of the images."""


FINDS_NOTHING = "Finds nothing"


A_GUESS = "No better than a guess"


def list_image_risks(
    question: Question, dataset: DatasetSummary | None, evaluation: Evaluation
) -> list[Risk]:
    """Return the risks of an evaluation that lie in the images, in the order of reports."""
    risks = []
    guess = _compare_with_guess(question, dataset, evaluation)
    if guess is not None:
        risks.append(guess)
    # A file that reaches next to nothing misses all classes, too: it is said once.
    if guess is None or guess.name != FINDS_NOTHING:
        risks += _name_missed_classes(question, evaluation)
    risks += _warn_of_leaks(dataset)
    risks += _warn_of_few_images(dataset)
    few_groups = list(_warn_of_few_groups(dataset))
    risks += few_groups
    risks += _compare_parts(evaluation)
    risks += _compare_new_conditions(question, evaluation)
    risks += _compare_with_training(question, evaluation, bool(few_groups))
    risks += _warn_of_penalty(evaluation)
    return risks


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
        sentence = (
            f"It reaches {figure.value:.1f} % {question.of_task.metric}, next to nothing: do not"
            " ship it."
        )
        return Risk(
            FINDS_NOTHING, Level.HIGH, f"{sentence} Give the search more time or more images."
        )
    guess, sentence = _describe_guess(question, dataset, evaluation)
    if figure.low is None or figure.low > guess:
        return None
    return Risk(
        A_GUESS,
        Level.HIGH,
        f"{sentence}; this file reaches {text.with_interval(figure)} %. Give the search more time"
        " or more images.",
    )


def _describe_guess(
    question: Question, dataset: DatasetSummary, evaluation: Evaluation
) -> tuple[float, str]:
    """Return what an answer that does not look at the image reaches in % of the metric, and that
    in words; 0 where nobody knows it.
    """
    task = question.of_task
    if task.guess:
        return task.guess, f"A guess reaches {task.guess:.0f} % {task.metric}"
    answers = evaluation.holdout_answers or evaluation.answers
    by_chance = answers.figures.get(task.guess_figure)
    if by_chance is not None:
        return by_chance.value, f"Random scores reach {by_chance.value:.0f} % {task.metric}"
    counts = dataset.images_per_class
    if len(counts) < 2 or not task.probabilities:
        return 0.0, ""
    usual = max(counts, key=lambda name: counts[name])
    share = counts[usual] / dataset.images
    if question.metric == Metric.TOP1:
        words = f"Always answering '{usual}' would be right on {100 * share:.0f} % of your images"
        return 100 * share, words
    # One class has a recall of 1, and a precision of its share; the others have none.
    means = {
        Metric.BALANCED_ACCURACY: 100 / len(counts),
        Metric.MACRO_F1: 100 * 2 * share / (1 + share) / len(counts),
    }
    guess = means.get(question.metric, 0.0)
    metric = METRICS[question.metric].label
    return guess, f"Always answering '{usual}' would reach {guess:.0f} % {metric}"


def _name_missed_classes(question: Question, evaluation: Evaluation) -> Iterator[Risk]:
    """Yield the risk that objects of some classes are hardly ever found;
    nothing for answers of one class.

    A mean over classes hides it: a mask that is all background has a third
    of the best mean IoU of three classes.
    """
    if question.of_task.probabilities:
        return
    shares = (evaluation.holdout_answers or evaluation.answers).per_class_recall
    missed = list[str]()
    for name, share in shares.items():
        # A class without an object has no share.
        if share is not None and 100 * share < LEAST_PERCENT:
            missed.append(repr(name))
    if not missed or len(shares) < 2:
        return
    of_all = f"{len(missed)} of {plural(len(shares), 'class', 'classes')}"
    sentence = f"It finds next to nothing of {listed(missed, NAMED)} ({of_all})."
    topic = "Missed classes"
    # One class that is found is the background, which covers most of an image.
    if len(missed) >= len(shares) - 1:
        topic = FINDS_NOTHING
    yield Risk(topic, Level.HIGH, f"{sentence} Give the search more time or more images of them.")


def _warn_of_leaks(dataset: DatasetSummary | None) -> Iterator[Risk]:
    if dataset is None:
        return
    if dataset.copied:
        yield Risk("Copies in your split", Level.HIGH, dataset.copied)
    if dataset.leaking:
        yield Risk("Leaks", Level.HIGH, dataset.leaking)


def _warn_of_few_images(dataset: DatasetSummary | None) -> Iterator[Risk]:
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


def _warn_of_few_groups(dataset: DatasetSummary | None) -> Iterator[Risk]:
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


def _compare_new_conditions(question: Question, evaluation: Evaluation) -> Iterator[Risk]:
    """Warn if the figure in new conditions lies below the 95 % interval of the measured one."""
    plain, judged = evaluation.top1_on_parts
    expected = evaluation.new_conditions
    measured = judged or plain
    if expected and measured and measured.low is not None and expected.value < measured.low:
        figure = "%" if question.metric == Metric.TOP1 else "% top-1"
        expect = f"{expected.value:.1f} {figure}{text.confidence(expected, ' (', ')')}"
        sentence = (
            f"Expect about {expect} on images of another place or day; {measured.value:.1f} %"
            " holds where images come from the places and days of yours."
        )
        yield Risk("New conditions", Level.HIGH, sentence)


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
    is_comparable = question.metric == Metric.TOP1 or evaluation.configuration.compression == FLOAT
    if (
        is_comparable
        and head.cv_images
        and judged
        and judged.low is not None
        and judged.high is not None
    ):
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
                "resemble the training images, or are easier by chance. Expect less than on"
                " validation"
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
        sentence = f"{end}: cross-validation found no optimum, so do not rely on it."
        yield Risk("Regularization", Level.HIGH, sentence)


def _begin_sentence(some: Sized, classes: Sized) -> str:
    """Return the subject of a sentence about some of the classes, with its verb."""
    if len(some) == len(classes) > 1:
        return f"All {len(classes)} classes have"
    verb = "has" if len(some) == 1 else "have"
    return f"{len(some)} of {plural(len(classes), 'class', 'classes')} {verb}"
