"""The reasons of a pick in words, each made of the facts of one choice, so that no two disagree.

``_decision.py`` asks for them. Reports, and the answers of earlier runs, show the sentences as
they are: tests hold them.
"""

from collections.abc import Iterator

from advisor.core._choice import Choice
from advisor.core._configuration import HOST
from advisor.core._evaluation import Evaluation
from advisor.core._limits import NAMES, Limits, is_drop
from advisor.core._preference import Preference
from advisor.core._quantity import Provenance
from advisor.core._units import plural, show_against, show_bytes, show_figure, show_ms

ALIKE = (0.95, 1.05)
"""Ratios of latencies or sizes between which a comparison says that neither is better."""

SHOWN_POINTS = 0.05
"""Points of accuracy that are not 0 with the one decimal that is shown."""

SHOWN_SAVING = 0.01
"""Points that a saving must be worth to be shown with its two decimals."""

FIRST_BY = {"latency": "fastest", "size": "smallest", "accuracy": "most accurate"}
"""The place of the pick among the candidates, by the preference for one figure."""


def explain_choice(choice: Choice, limits: Limits, preference: Preference) -> str:
    """Return why a candidate was picked:
    one sentence, and one for each other file that would come first but for it.
    """
    return " ".join((_explain_pick(choice, limits, preference), *_name_displaced(choice)))


def _explain_pick(choice: Choice, limits: Limits, preference: Preference) -> str:
    """Return why the pick comes first: by a preference for one figure or by weights, as the most
    accurate candidate, or as the cheapest of those that are tied with it.
    """
    pick = choice.pick
    best = choice.best
    met = _describe_limits_met(pick, limits)
    behind = best.accuracy_percent - pick.accuracy_percent
    if not preference.accuracy_first and (preference.name != "accuracy" or behind > 0):
        return _explain_preferred(choice, preference, met)
    if behind <= 0:
        others = _describe_ties(choice)
        comma = "," if others and met.startswith(" and") else ""
        return (
            f"{pick.describe_figures()} is the most accurate candidate within the"
            f" limits{others}{comma}{met}."
        )
    saving = _describe_saving(choice, preference)
    return (
        f"{pick.describe_figures()} is statistically tied with the most accurate candidate within"
        f" the limits ({best.name}, {best.accuracy_percent:.1f} %). It gives up"
        f" {_show_points(behind)}, and up to {_show_points(choice.noise_points)} may be noise"
        f" here. It is {_compare_speed(best, pick)} and {_compare_size(best, pick)}{saving}{met}."
    )


def _explain_preferred(choice: Choice, preference: Preference, met: str) -> str:
    """Return why the pick comes first by a preference for one figure, or by weights."""
    pick = choice.pick
    best = choice.best
    behind = best.accuracy_percent - pick.accuracy_percent
    first = FIRST_BY.get(preference.name, "best")
    by = ""
    if first == "fastest":
        # The budget counts another figure of the latency.
        by = " by median latency"
    elif first == "best":
        by = f" by the weights {preference}"
    often = ""
    if choice.unsteady is not None or preference.name == "accuracy":
        often = " in most draws of the images"
    price = ""
    if behind > 0:
        price = f", {_show_points(behind)} behind the most accurate ({best.describe_figures()})"
    start = f"{pick.describe_figures()} is the {first} candidate within the limits"
    return f"{start}{by}{often}{price}{met}."


def _describe_ties(choice: Choice) -> str:
    """Say how many other files may be as accurate as the pick."""
    files = {e.variant for e in choice.tied} - {choice.pick.variant}
    if files:
        return f", statistically tied with {plural(len(files), 'other')}"
    return ""


def _name_displaced(choice: Choice) -> Iterator[str]:
    """Say which file another fact than the price kept from being the pick."""
    if choice.unjudged is not None:
        yield (
            f"{choice.unjudged.describe_figures()} would be the pick, but it did not run on the"
            " hold-out, so no other images judged it."
        )
    if choice.unsteady is not None:
        first = choice.unsteady.name
        yield (
            f"{first} is cheaper, but other files replace it too often if the images are drawn"
            " again."
        )


def _show_points(points: float) -> str:
    return f"{points:.1f} points"


def _describe_saving(choice: Choice, preference: Preference) -> str:
    """Return what is saved against the most accurate:
    `` (3.1 ms and 9.6 MB less, in all worth 1.7 points)``.
    """
    best = choice.best
    pick = choice.pick
    savings = []
    if pick.is_noticeably_faster_than(best):
        savings.append(show_ms(best.latency_ms - pick.latency_ms))
    if pick.is_noticeably_smaller_than(best):
        savings.append(show_bytes(best.size_bytes - pick.size_bytes))
    if not savings:
        return ""
    less = f"{' and '.join(savings)} less"
    # Where another fact than the price decided, the worth of the saving is no reason for the pick.
    if choice.unjudged is not None or choice.unsteady is not None:
        return f" ({less})"
    worth = _price_of(best, preference) - _price_of(pick, preference)
    return f" ({less}, in all worth {_show_points(worth)})"


def _price_of(evaluation: Evaluation, preference: Preference) -> float:
    """Return the points that latency and size are worth."""
    return float(preference.price(evaluation.latency_ms, evaluation.size_bytes))


def _describe_limits_met(pick: Evaluation, limits: Limits) -> str:
    """Say how the pick meets the latency budget,
    and with which probability the limits of uncertain figures.
    """
    uncertain = ""
    for name, text in limits.show_met(pick).items():
        figure = f"of {NAMES[name]}" if is_drop(name) else NAMES[name]
        uncertain += (
            f"; the limit of {show_figure(name, limits.by_figure[name])} {figure} is {text}"
        )
    if limits.latency_ms is None:
        return uncertain
    if pick.budget_probability is not None:
        sure = pick.show_budget_probability(limits.latency_ms)
        origin = pick.latency.provenance if pick.latency else Provenance.PREDICTED
        return f"; it is {sure}, which is {origin}, not measured{uncertain}"
    p90, budget = show_against("latency", limits.latency_ms, pick.p90_ms)
    device = pick.configuration.target.device
    # Where no device is named, the budget is that of another one than the machine of the search.
    where = "this machine" if device == HOST else device
    return f" and meets the {budget} budget on {where} with p90 {p90}{uncertain}"


def compare_with_pick(other: Evaluation, pick: Evaluation, with_p90: bool = False) -> str:
    """Return the figures of another evaluation, and how they differ from those of the pick."""
    return f"{other.describe_figures(with_p90)}: {describe_difference(other, pick)}"


def describe_difference(other: Evaluation, pick: Evaluation) -> str:
    """Say how another evaluation differs from the pick: points of accuracy, latency, size."""
    points = round(other.accuracy_percent - pick.accuracy_percent, 1)
    right = f"{points:+.1f} points" if points else "as accurate"
    judged = other.holdout_accuracy
    chosen = pick.holdout_accuracy
    if judged is not None or chosen is not None:
        right += " on validation"
    # Figures of other numbers of images would compare parts of the hold-out.
    if judged is not None and chosen is not None and judged.n == chosen.n:
        right += f" and {judged.value - chosen.value:+.1f} on the hold-out"
    return f"{right}, {_compare_speed(pick, other)}, {_compare_size(pick, other)}"


def explain_slower_pick(choice: Choice, preference: Preference) -> str:
    """Return one sentence why the fastest of the tied files is not the pick;
    empty where the pick is as fast.
    """
    pick = choice.pick
    if not preference.accuracy_first:
        return ""
    fastest = min(choice.tied, key=lambda e: (e.latency_ms, -e.accuracy_percent, e.configuration))
    if fastest.variant == pick.variant or not fastest.is_noticeably_faster_than(pick):
        return ""
    ratio = pick.latency_ms / fastest.latency_ms
    drawbacks = list(_list_drawbacks(fastest, choice, preference))
    if not drawbacks:
        drawbacks = ["other files replace it too often if the images are drawn again"]
    return f"{fastest.name} is tied too and {ratio:.1f}x faster, but {' and '.join(drawbacks)}."


def _list_drawbacks(other: Evaluation, choice: Choice, preference: Preference) -> Iterator[str]:
    """Say why a tied file that is faster comes after the pick."""
    pick = choice.pick
    points = pick.accuracy_percent - other.accuracy_percent
    saved = _price_of(pick, preference) - _price_of(other, preference)
    # Otherwise the drawbacks below are why it did not run there, so that cannot be the reason.
    if choice.unjudged is not None and other.holdout_accuracy is None:
        yield "it did not run on the hold-out"
    if pick.is_noticeably_smaller_than(other):
        yield f"it is {other.size_bytes / pick.size_bytes:.1f}x larger"
    if points >= SHOWN_POINTS and saved <= points:
        worth = f"less than {SHOWN_SAVING} points"
        if saved >= SHOWN_SAVING:
            worth = f"{saved:.2f} points"
        yield (
            f"it is {points:.2f} points less accurate, and its time and size together save"
            f" {worth} ({preference.point()} are worth one)"
        )


def _compare_speed(reference: Evaluation, other: Evaluation) -> str:
    """Return how fast another evaluation is: ``1.8x slower``, ``about as fast``."""
    return (
        _show_ratio(reference.latency_ms, other.latency_ms, "faster", "slower") or "about as fast"
    )


def _compare_size(reference: Evaluation, other: Evaluation) -> str:
    """Return how large another evaluation is: ``3.0x smaller``, ``about as large``."""
    return (
        _show_ratio(reference.size_bytes, other.size_bytes, "smaller", "larger")
        or "about as large"
    )


def _show_ratio(reference: float, value: float, better: str, worse: str) -> str:
    """Return a ratio in words; empty where the two are nearly equal."""
    ratio = reference / value
    if ALIKE[0] < ratio < ALIKE[1]:
        return ""
    if ratio > 1:
        return f"{ratio:.1f}x {better}"
    return f"{1 / ratio:.1f}x {worse}"
