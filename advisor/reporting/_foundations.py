"""How far the figures of a pick can be relied on: what each rests on, and what would differ.

Every form of an answer has these sentences: what accuracy to expect (:func:`list_expectations`),
how sure the pick is (:func:`describe_certainty`), and which file is better on the hold-out
(:func:`find_holdout_rival`). The figures themselves are in ``_figures.py``.
"""

from __future__ import annotations

import math

from advisor.core import (
    Evaluation,
    Provenance,
    Quantity,
    plural,
    show_bytes,
    show_latency,
    show_probability,
)
from advisor.reporting import _text as text
from advisor.reporting._device_results import foreign_runtimes
from advisor.reporting._image_risks import compute_half_width
from advisor.reporting._phrases import fastest_per_artefact
from advisor.reporting._view import RunView

NAMED = 5
"""Files that a sentence names at most."""


TO_KNOW = "To know it, hold out images of another visit, camera or day by a split of your own"


SURE = 0.8
"""Share of draws from which the alternatives are not nearly as good."""


STANDARD_ERRORS = 1.96
"""Standard errors in half of a 95 % interval."""


RIVALS_NAMED = 3
"""Files that resampled figures pick instead, named at most."""


def list_expectations(view: RunView, evaluation: Evaluation) -> tuple[tuple[str, str], ...]:
    """Return what to expect of its accuracy, each with the images that it holds for;
    empty if nothing is to be said.

    The estimate for new conditions is top-1, and says so where accuracy is another metric.
    """
    metric = f" {view.other_metric}" if view.other_metric else ""
    top1 = " top-1" if view.other_metric else ""
    judged = evaluation.holdout_accuracy
    estimate = evaluation.new_conditions
    plain = judged or evaluation.accuracy
    unknown = view.unknown_conditions(evaluation)
    if plain is None or (estimate is None and not unknown):
        return ()
    where = f"on {plain.n} images of the validation part"
    if judged:
        where = f"on {text.show_holdout_images(evaluation)}"
    measured = f"{plain.value:.1f} %{metric} ({text.interval(plain)}), measured {where}"
    if estimate is None or unknown:
        expected = ("On images like these", measured)
        # Another visit or camera means nothing for drawn images.
        if view.demonstration:
            return (expected,)
        return (expected, ("In new conditions", f"{_explain_unknown(view, unknown)}."))
    if estimate.provenance is Provenance.MEASURED:
        return (("On images like your hold-out", measured),)
    ends = text.interval(estimate, 0)
    shown = (
        f"about {estimate.value:.0f} %{top1} ({ends}), estimated for another visit, camera or day"
    )
    return (("On images like these", measured), ("In new conditions", shown))


def list_foundations(view: RunView, evaluation: Evaluation) -> tuple[str, ...]:
    """Return sentences that say how reliable the answer is."""
    tied = ""
    ties = len({e.variant for e in view.decision.ties})
    if ties:
        others = plural(ties, "other model file")
        tied = (
            f"The most accurate candidate is statistically tied with {others}; more images would"
            " narrow the intervals."
        )
    sure = describe_certainty(view)
    sentences = (
        _explain_accuracy(evaluation),
        _explain_new_conditions(view, evaluation),
        _explain_latency(evaluation),
        tied,
        f"{sure[:1].upper()}{sure[1:]}",
        compare_on_holdout(view),
        _name_unjudged(view),
        *(f"{remark}." for remark in foreign_runtimes(view)),
    )
    return tuple(sentence for sentence in sentences if sentence)


def on_all_images(evaluation: Evaluation) -> str:
    """Return what is known of the file that learns from all images, or why there is none;
    empty if not asked for.
    """
    shipped = evaluation.on_all
    if shipped is None:
        return ""
    if not shipped.file:
        return (
            "It has not learnt from all images, but from all outside the hold-out:"
            f" {shipped.reason}."
        )
    share = 100 * shipped.more / max(1, shipped.images - shipped.more)
    more = f"{shipped.more:,} ({share:.0f} %) more than the judged file"
    same = f"{100 * shipped.same:.1f} % of {shipped.compared:,} validation images"
    return (
        f"It has learnt from all {shipped.images:,} images, {more}. Its accuracy is not measured:"
        " each figure is of the judged file, the same network without the hold-out. Both files"
        f" give the same answer to {same}, which both have learnt from."
    )


def _explain_accuracy(evaluation: Evaluation) -> str:
    """Return on which images the accuracy was measured, and what had learnt from them."""
    quantity = evaluation.accuracy
    judged = evaluation.holdout_accuracy
    if quantity is None:
        return "Its accuracy is unknown."
    if evaluation.card_facts.as_it_is:
        return (
            "It was not trained here: what it has learnt from is not known. These images may be"
            " among it."
        )
    if judged is not None:
        file = "The file that ships"
        if evaluation.on_all and evaluation.on_all.file:
            file = "The judged file"
        held_out = text.show_holdout_images(evaluation)
        return (
            f"It was compared with the others on {quantity.n} validation images, after training on"
            f" the training part alone. {file} was then run once on {held_out}."
            " Nothing was trained on these, and they rank no files: expect that accuracy on images"
            " like these."
        )
    if quantity.provenance is Provenance.MEASURED:
        sample = f" on {quantity.n} validation images" if quantity.n else ""
        return (
            f"Accuracy was measured{sample}, after training on the training part alone. The"
            " hold-out was not used yet."
        )
    source = f" ({quantity.source})" if quantity.source else ""
    return (
        f"Accuracy is {quantity.provenance.value}{source}. It says nothing about your own images"
        " yet."
    )


def _explain_unknown(view: RunView, why: str) -> str:
    less = ""
    if view.task.other_conditions:
        less = f" Expect less: {view.task.other_conditions}."
    return f"unknown, because {why}.{less} {TO_KNOW}"


def _explain_new_conditions(view: RunView, evaluation: Evaluation) -> str:
    """Return what the accuracy in new conditions rests on; empty where nothing is to say."""
    quantity = evaluation.new_conditions
    named = " top-1" if view.other_metric else ""
    unknown = view.unknown_conditions(evaluation)
    if unknown:
        return (
            "Its accuracy in new conditions (another visit, camera or day) is"
            f" {_explain_unknown(view, unknown)}."
        )
    if quantity is None:
        return ""
    if quantity.provenance is Provenance.MEASURED:
        return (
            "The hold-out is of your own split: its figure holds in the conditions of its images."
            " No other figure is estimated for new conditions."
        )
    return (
        f"In new conditions (another visit, camera or day), about {quantity.value:.0f} %{named} is"
        f" expected, with 95 % confidence {text.interval(quantity, 0).replace(text.DASH, ' to ')}"
        f" %. This is an estimate: {quantity.source}."
    )


def _explain_latency(evaluation: Evaluation) -> str:
    """Return where the latency was measured, or how far it is only predicted."""
    quantity = evaluation.latency
    target = evaluation.configuration.target
    if quantity is None:
        return "Its latency is unknown."
    what_ran = f"{target.runtime}, {target.accelerator}, {plural(target.threads, 'thread')}"
    device = f"{text.name_place(target.device)} ({what_ran})"
    if quantity.provenance is Provenance.MEASURED:
        busy = " Other programs used the machine meanwhile: measure again before you rely on it."
        return f"Latency was measured on {device}.{busy if evaluation.contended else ''}"
    ends = text.interval(quantity)
    margin = ""
    if ends:
        margin = f", between {ends.replace(text.DASH, ' and ')} ms (80 %)"
    return (
        f"Latency on {device} is {quantity.provenance.value}{margin}, not measured: try it there"
        " before you decide."
    )


def describe_certainty(view: RunView) -> str:
    """Return how often other images and timings would give the same pick, and what else;
    empty without another one.
    """
    chances = view.decision.chances
    if not chances or view.decision.runner_up is None:
        return ""
    again = "the figures within their noise"
    if view.dataset:
        again = f"the validation images and {_name_latencies(view)}"
    share = chances.get(view.pick_key, 0.0)
    # "99 % sure" beside files that are tied with the pick read as a contradiction,
    # so the draws speak for themselves.
    nearly = "" if share >= SURE else "The alternatives are nearly as good. "
    stays = (
        f"{nearly}With {again} drawn again, the pick stays in {show_probability(share)} of the"
        " draws"
    )
    order = ""
    if view.decision.unjudged:
        order = " Files that did not run on the hold-out come after the others."
    return f"{stays}{_name_replacements(view)}.{order}{_say_limits_stay(view)}"


def _name_latencies(view: RunView) -> str:
    """Return the word for the latencies of an answer: ``timings`` if one was measured."""
    for row in view.ok:
        if row.latency is not None and row.latency.provenance is Provenance.MEASURED:
            return "timings"
    return "predicted latencies"


def _say_limits_stay(view: RunView) -> str:
    """Return that the draws do not ask whether a predicted latency meets its limit; else empty."""
    pick = view.decision.pick
    if view.limits.latency_ms is None or pick is None or pick.latency is None:
        return ""
    if pick.latency.provenance is not Provenance.PREDICTED:
        return ""
    return " The draws do not ask whether a predicted latency meets the budget."


def _name_replacements(view: RunView) -> str:
    """Return which files are the pick in the other draws, and in how many; empty for none."""
    chances = view.decision.chances
    by_key = {e.configuration.key: e for e in view.evaluations}
    others = []
    for key, chance in chances.items():
        if key != view.pick_key:
            others.append((by_key[key], chance))
    names = []
    for other, chance in others[:RIVALS_NAMED]:
        names.append(f"{text.file(other)} ({show_probability(chance)})")
    left = sum(chance for _, chance in others[RIVALS_NAMED:])
    if left:
        count = plural(len(others) - RIVALS_NAMED, "other")
        names.append(f"{count} ({show_probability(left)})")
    return f"; otherwise it is {', '.join(names)}" if names else ""


def find_holdout_rival(view: RunView) -> Evaluation | None:
    """Return the file within the limits that is best on the hold-out, if the pick is not.

    None where it is ahead by no more than one standard error of the difference:
    then nobody asks why.
    """
    pick = view.decision.pick
    if pick is None or pick.holdout_accuracy is None or not view.decision.feasible:
        return None
    chosen = pick.holdout_accuracy
    best = chosen
    rival = None
    for row in view.ok:
        figure = row.holdout_accuracy
        # Another number of threads of the pick is the same file.
        if figure is None or row.variant == pick.variant:
            continue
        # A few right answers are no reason to doubt a file that ran on many images.
        if (figure.n or 0) < (chosen.n or 0):
            continue
        if figure.value > best.value and view.limits.met_by(row):
            best = figure
            rival = row
    if best.value - chosen.value > _compute_noise(best, chosen) / STANDARD_ERRORS:
        return rival
    return None


def _compute_noise(first: Quantity, second: Quantity) -> float:
    """Return the half width in points of the 95 % interval of the difference of two accuracies."""
    return math.hypot(compute_half_width(first), compute_half_width(second))


def compare_on_holdout(view: RunView) -> str:
    """Return a sentence about the file that :func:`find_holdout_rival` finds; empty for none."""
    pick = view.decision.pick
    rival = find_holdout_rival(view)
    if rival is None or pick is None:
        return ""
    best = rival.holdout_accuracy
    chosen = pick.holdout_accuracy
    if best is None or chosen is None:
        return ""
    more = best.value - chosen.value
    noise = _compute_noise(best, chosen)
    costs = f"{show_latency(rival.latency)}, {show_bytes(rival.size_bytes)}"
    named = (
        f"{text.file(rival)} ({costs}) has {best.value:.1f} % on the hold-out, {more:.1f} points"
        " more than the pick"
    )
    if more <= noise:
        return (
            f"{named}. Chance explains up to {noise:.1f} on so few images, and validation chose"
            " the pick."
        )
    return (
        f"{named}, and chance explains up to {noise:.1f}: compare both files on more images before"
        " you ship one."
    )


def _name_unjudged(view: RunView) -> str:
    """Name the files on the front without a hold-out figure, and say why."""
    files = fastest_per_artefact(view.decision.front)
    without = [e for e in files if e.holdout_accuracy is None]
    if len(without) == len(files) or not without:
        return ""
    names = ", ".join(map(text.file, without[:NAMED]))
    more = ""
    if len(without) > NAMED:
        more = f" and {len(without) - NAMED} more"
    judged = name_judged(view)
    return (
        f"{judged[:1].upper()}{judged[1:]} ran on the hold-out. Of the front, {names}{more} did"
        " not run there."
    )


def name_judged(view: RunView) -> str:
    """Return which files of a search ran on the hold-out, in words.

    Within a time limit, picks come first, and there may be no time for the others.
    """
    time = ", where the time limit allowed it," if view.manifest.get("time_limit") else ""
    picks = "picks (earlier ones, too), their closest rivals"
    return f"{picks} and{time} one file of each network on the front"
