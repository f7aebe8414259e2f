"""The risks of an answer: of the images (``_image_risks.py``), of guarantees, and of the file.

Every form of a report shows the high ones beside the pick; bundles and integrations read them,
too. The order is that of the reports. :func:`is_worthless` decides whether any form recommends the
pick at all.
"""

from collections.abc import Sequence

from advisor.core import (
    FLOAT,
    HOST,
    ROBUST,
    Evaluation,
    Interval,
    Limits,
    Provenance,
    plural,
    show_ms,
    show_probability,
    units,
)
from advisor.engine import LoadedRun, Question
from advisor.reporting import _text as text
from advisor.reporting._confidence import list_broken_guarantees
from advisor.reporting._image_risks import FINDS_NOTHING, list_image_risks
from advisor.reporting._risk import BUDGET, Level, Risk
from advisor.reporting._unknown_images import other_things
from advisor.reporting._view import DatasetSummary, RunView, summary_of

LEAST_ROOM = 0.1
"""A measured latency is far from the limit if at least this share (0-1) of the limit is left."""

SURE = 0.95
"""Probability (0-1) from which on a predicted latency is as good as within the limit."""


NOT_YOUR_DEVICE = "Not your device"


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


def list_risks(view: RunView, evaluation: Evaluation) -> tuple[Risk, ...]:
    """Return every risk of an evaluation of a run; see :func:`risks_of`."""
    return risks_of(view.request.question, view.dataset, evaluation)


def list_run_risks(run: LoadedRun, evaluation: Evaluation) -> tuple[Risk, ...]:
    """Return every risk of an evaluation of a loaded run; see :func:`risks_of`."""
    return risks_of(run.question, summary_of(run), evaluation)


def risks_of(
    question: Question, dataset: DatasetSummary | None, evaluation: Evaluation
) -> tuple[Risk, ...]:
    """Return every risk; where a figure is missing, the risk says that it is unknown."""
    risks = list_image_risks(question, dataset, evaluation)
    for name, sentence in list_broken_guarantees(evaluation):
        risks.append(Risk(name, Level.HIGH, sentence))
    of_file = (
        _judge_latency(question.limits, evaluation),
        _judge_compression(evaluation),
        _judge_capture(question, dataset, evaluation),
        _judge_unknown(evaluation),
        _judge_licence(question.limits, evaluation),
    )
    risks += filter(None, of_file)
    return tuple(risks)


def is_worthless(view: RunView) -> bool:
    """Return whether the pick finds nothing, so that no form of an answer recommends it."""
    pick = view.decision.pick
    return pick is not None and any(risk.name == FINDS_NOTHING for risk in list_risks(view, pick))


def list_warnings(risks: Sequence[Risk]) -> tuple[Risk, ...]:
    """Return the risks that every form of an answer shows beside the pick."""
    return tuple(risk for risk in risks if risk.warns)


def _judge_latency(limits: Limits, evaluation: Evaluation) -> Risk | None:
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
        slow, budget = units.show_against("latency", limit, latency.value)
        return Risk(BUDGET, Level.HIGH, f"{slow} on {device} is over {budget}.")
    # The machine of a search is rarely the one that the file ships to.
    if device == HOST:
        sentence = (
            f"The budget was checked on this machine, which leaves {100 * room:.0f} % of"
            f" {show_ms(limit)}."
        )
        return Risk(
            NOT_YOUR_DEVICE, Level.SOME, f"{sentence} Name the device to ship on: --device."
        )
    is_certain = room >= LEAST_ROOM and latency.provenance is Provenance.MEASURED
    level = Level.LOW if is_certain else Level.SOME
    return Risk(
        BUDGET,
        level,
        f"{100 * room:.0f} % of {show_ms(limit)} is left on {device} ({latency.provenance}).",
    )


def _judge_compression(evaluation: Evaluation) -> Risk | None:
    """Return the risk that compression costs accuracy; None for a file that is not compressed."""
    drop = evaluation.drop
    recipe = evaluation.configuration.compression
    if evaluation.card_facts.as_it_is:
        sentence = (
            "It is judged as you ship it: its figures are too high if it has learnt from your"
            " images."
        )
        return Risk("Learnt images", Level.HIGH, sentence)
    if recipe == FLOAT:
        return None
    if drop is None:
        return Risk(
            "Compression", Level.SOME, f"The accuracy that {recipe} loses was not measured."
        )
    if drop.n and drop.low == drop.high == 0.0:
        return _judge_equal_answers(recipe, drop.n)
    worst = drop.high if drop.high is not None else drop.value
    level = Level.LOW if drop.value <= SMALL_DROP and worst <= LARGE_DROP else Level.SOME
    if drop.value > LARGE_DROP:
        level = Level.HIGH
    if drop.value < 0:
        gain = text.as_gain(drop)
        sentence = (
            f"{recipe} gains {text.points(gain)} points{text.confidence(gain, ' (', ')')} against"
            " float32 on validation."
        )
    else:
        sentence = (
            f"{recipe} loses {text.points(drop)} points{text.confidence(drop, ' (', ')')} against"
            " float32 on validation."
        )
    return Risk("Compression", level, sentence)


def _judge_equal_answers(recipe: str, images: int) -> Risk:
    """Return the risk of a form that is right on the same images as float32."""
    unseen = 100 * Interval.wilson(0, images).high
    level = Level.LOW if unseen <= LARGE_DROP else Level.SOME
    sentence = (
        f"{recipe} and float32 are right on the same of {plural(images, 'validation image')}, so a"
        f" loss of up to {unseen:.1f} points (95 %) may be there unseen."
    )
    return Risk("Compression", level, sentence)


def _judge_capture(
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
    sentence = f"Under the worst capture condition ({condition}), {reached}, {less}."
    if level is Level.HIGH and question.of_task.robust and not question.robust:
        learns = ", and trains with them" if question.of_task.labelled else ""
        sentence += f" A search with --objective {ROBUST} compares by such images{learns}."
    return Risk("Capture", level, sentence)


def _judge_unknown(evaluation: Evaluation) -> Risk | None:
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
    auroc = facts.auroc.value
    shown = f"{auroc:.{units.decimals_apart(2, CLEAR_AUROC, auroc)}f}"
    return Risk("Unknown", Level.SOME, f"{passes}; AUROC {shown}, below {CLEAR_AUROC:g}. {advice}")


def _judge_licence(limits: Limits, evaluation: Evaluation) -> Risk:
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
