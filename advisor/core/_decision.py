"""The answer of a run: one pick from its evaluations, the reason, and what would change it.

:meth:`Decision.of_evaluations` is pure: the same evaluations, limits and answers always give the
same decision. The engine calls it while a search runs, at its end, and whenever a run is read
(``engine/_decide.py``). The rule itself is in ``_choosing.py``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from advisor.core._choosing import Chooser, costs_of, front
from advisor.core._evaluation import Evaluation, Status
from advisor.core._limits import Limits
from advisor.core._posterior import Answers, Posterior, not_known
from advisor.core._preference import Preference
from advisor.core._preferences import BALANCED, PREFERENCES
from advisor.core._reasons import (
    compare_with_pick,
    describe_difference,
    explain_choice,
    explain_slower_pick,
)
from advisor.core._relaxation import (
    Relaxation,
    excess_texts,
    find_loosening,
    list_just_beyond,
    list_relaxations,
    sum_overrun,
)
from advisor.core._tightened_limit import TightenedLimit
from advisor.core._units import plural

OR_UNJUDGED = ", also among files that did not run on the hold-out"
"""Follows a condition under which a file without a figure of the hold-out becomes the pick."""

UNRANKED = (
    "No candidate has an accuracy: none is published and none was measured. Give labelled images"
    " with --data."
)


class _OtherPick(NamedTuple):
    """The pick under another condition."""

    condition: str  # in words
    pick: Evaluation
    for_accuracy: bool = False  # under the condition, accuracy alone counts
    by_p90: bool = False  # the condition limits the 90th percentile of the latency
    tightens: bool = False  # the condition is a tighter limit


@dataclass(frozen=True)
class Flip:
    """A change of the question that changes the pick."""

    condition: str  #: the change, such as ``the size budget is below 4.0 MB``
    key: str  #: the other pick
    text: str  #: condition and other pick in words
    tightens: bool = False  #: whether it is a tighter limit, and no other preference


@dataclass(frozen=True, repr=False)
class Decision:
    """The answer of a run."""

    #: the recommended evaluation; the one closest to the limits where ``feasible`` is false;
    #: None where nothing ran.
    pick: Evaluation | None
    feasible: bool  #: the pick meets the budget
    reason: str  #: one sentence why
    runner_up: Evaluation | None = None  #: the next best evaluation of another artefact, or None
    runner_up_reason: str = ""  #: how its figures differ from those of the pick
    #: evaluations that are statistically tied in accuracy with the most accurate
    ties: tuple[Evaluation, ...] = ()
    flips: tuple[Flip, ...] = ()  #: what would change the pick, computed by deciding again
    #: where nothing is feasible, the smallest change of each limit that admits a candidate.
    relaxations: tuple[Relaxation, ...] = ()
    #: the non-dominated evaluations that meet the budget, or all of them where none does.
    front: tuple[Evaluation, ...] = ()
    #: what a slightly looser limit would buy: another pick, and how it differs.
    loosenings: tuple[Relaxation, ...] = ()
    rule: str = ""  #: how the pick was chosen, in words
    #: why the fastest of the ties is not the pick; empty where the pick is the fastest of them.
    why_not_faster: str = ""
    #: by key, how often (0-1) a file would be the pick if images and timings were resampled: the
    #: pick, which stays unless another file is shown to be better, and each other file's fastest
    #: evaluation, the most probable first.
    chances: Mapping[str, float] = field(default_factory=dict)
    #: by how many points the pick may be behind the most accurate candidate by chance;
    #: None without a feasible pick.
    noise_points: float | None = None
    #: the evaluation that would be the pick if it had run on the hold-out as the pick did;
    #: None for none.
    unjudged: Evaluation | None = None

    @property
    def runner_up_difference(self) -> str:
        """The differences of the runner-up from the pick in words, without its figures;
        empty without a runner-up.
        """
        if self.pick is None or self.runner_up is None:
            return ""
        return describe_difference(self.runner_up, self.pick)

    def __repr__(self) -> str:
        pick = self.pick.configuration.key if self.pick is not None else "no pick"
        return f"Decision({pick}: {' '.join(self.reason.split())})"

    @classmethod
    def of_evaluations(
        cls,
        evaluations: Sequence[Evaluation],
        limits: Limits,
        answers: Answers = not_known,
        preference: Preference = BALANCED,
        judged_first: bool = True,
        groups: Sequence[Hashable] = (),
    ) -> Decision:
        """Pick one of the evaluations that meet the budget, by the rule of :class:`.Chooser`.

        By default that is the cheapest of those that the validation images do not show to be
        behind the most accurate one. ``judged_first``: of these, one with a figure on the hold-out
        comes before one without it. ``groups`` has the group of each validation image, see
        :class:`.ImageUnits`.
        """
        # Without accuracy, latency and size, an evaluation has no price, so no rule can rank it.
        ranked = [evaluation for evaluation in evaluations if costs_of(evaluation) is not None]
        if not ranked and any(evaluation.status is Status.OK for evaluation in evaluations):
            return cls(None, False, UNRANKED)
        feasible = list(filter(limits.met_by, ranked))
        if not ranked:
            return cls(None, False, _explain_no_result(evaluations))
        if not feasible:
            return _pick_closest(ranked, limits)
        # Only now are the limits known to be reachable:
        # a preference that is scaled by them ranks what meets them.
        preference = preference.within(limits.by_figure)
        chooser = Chooser(Posterior(ranked, answers, groups), preference, judged_first)
        choice = chooser.choose(feasible)
        pick = choice.pick
        others = [e for e in feasible if e.variant != pick.variant]
        # The runner-up may lack a figure of the hold-out:
        # it is there to show what the pick is compared with.
        runner_up = replace(chooser, judged_first=False).pick(others) if others else None
        return cls(
            pick=pick,
            feasible=True,
            reason=explain_choice(choice, limits, preference),
            runner_up=runner_up,
            runner_up_reason=compare_with_pick(runner_up, pick) if runner_up else "",
            ties=tuple(e for e in choice.tied if e.variant != pick.variant),
            noise_points=choice.noise_points,
            unjudged=choice.unjudged,
            flips=_find_flips(feasible, pick, chooser),
            loosenings=_find_loosenings(ranked, feasible, pick, limits, chooser),
            front=front(feasible),
            rule=preference.rule,
            why_not_faster=explain_slower_pick(choice, preference),
            chances=choice.chances,
        )


def _explain_no_result(evaluations: Sequence[Evaluation]) -> str:
    """Return why there is no figure:
    the reason that most evaluations give, of failed ones if there are any.
    """
    explained = [evaluation for evaluation in evaluations if evaluation.reason]
    # What was skipped often follows from a failure, and does not say what went wrong.
    failed = [evaluation for evaluation in explained if evaluation.status is Status.FAILED]
    reasons = Counter(evaluation.reason for evaluation in failed or explained)
    if not reasons:
        return "No candidate could be evaluated. The failures list the reasons."
    ((reason, count),) = reasons.most_common(1)
    return (
        f"No candidate could be evaluated. {count} of {plural(len(evaluations), 'configuration')}:"
        f" {reason}"
    )


def _pick_closest(ranked: Sequence[Evaluation], limits: Limits) -> Decision:
    # Accuracy only orders what is equally far beyond the limits:
    # the question was about the limits.
    pick = min(
        ranked, key=lambda e: (sum_overrun(e, limits), -e.accuracy_percent, e.configuration)
    )
    broken = " and ".join(excess_texts(pick, limits))
    return Decision(
        pick=pick,
        feasible=False,
        reason=(
            f"Nothing meets the budget; closest to the limits is {pick.describe_figures()}:"
            f" {broken}."
        ),
        relaxations=list_relaxations(ranked, limits),
        front=front(ranked),
    )


def _find_flips(
    feasible: Sequence[Evaluation], pick: Evaluation, chooser: Chooser
) -> tuple[Flip, ...]:
    """Decide again with tighter limits, then with other preferences;
    keep the first change to each other artefact.
    """
    tighter = _tighten_limits(feasible, pick, chooser)
    preferred = _change_preferences(feasible, chooser)
    return (*_list_first_flips(tighter, pick), *_list_first_flips(preferred, pick))


def _list_first_flips(others: Iterable[_OtherPick], pick: Evaluation) -> list[Flip]:
    """Return the first change to each other artefact than that of the pick."""
    flips = dict[str, Flip]()
    for other in others:
        evaluation = other.pick
        # Priors may order files of one accuracy: a reader would see the same figure twice.
        is_gain = not other.for_accuracy or evaluation.accuracy_percent > pick.accuracy_percent
        if is_gain and evaluation.variant != pick.variant:
            key = evaluation.configuration.key
            text = f"{other.condition}: {evaluation.describe_figures(other.by_p90)}"
            flips.setdefault(key, Flip(other.condition, key, text, other.tightens))
    return list(flips.values())


def _find_loosenings(
    ranked: Sequence[Evaluation],
    feasible: Sequence[Evaluation],
    pick: Evaluation,
    limits: Limits,
    chooser: Chooser,
) -> tuple[Relaxation, ...]:
    """Decide again with each limit a little looser;
    keep the smallest change that gives the best other pick.
    """
    loosenings = []
    for limit, beyond in list_just_beyond(ranked, limits).items():
        other = chooser.pick([*feasible, *beyond])
        # A looser limit admits every file up to it, and each may change the ties:
        # so the rule decides among them again.
        admitted = []
        if other in beyond:
            admitted = [*feasible, *beyond[: beyond.index(other) + 1]]
        if admitted and other.variant != pick.variant and chooser.pick(admitted) == other:
            difference = compare_with_pick(other, pick, with_p90=limit == "latency")
            loosenings.append(find_loosening(limit, other, difference, limits))
    return tuple(loosenings)


def _tighten_limits(
    feasible: Sequence[Evaluation], pick: Evaluation, chooser: Chooser
) -> Iterator[_OtherPick]:
    """Yield the pick under tighter limits of the latency, then of the size.

    A tighter limit is also another scale of the preference.
    """
    for limit in TightenedLimit.list_limits(feasible, pick, chooser):
        change = limit.find_change(pick)
        if change is not None:
            condition = limit.describe_range(change)
            by_p90 = limit.name == "latency"
            yield _OtherPick(condition, change.pick, by_p90=by_p90, tightens=True)


def _change_preferences(feasible: Sequence[Evaluation], chooser: Chooser) -> Iterator[_OtherPick]:
    """Yield the pick under other weights of accuracy, latency and size."""
    is_judged = any(evaluation.holdout_accuracy is not None for evaluation in feasible)
    for name in ("latency", "size"):
        doubled = replace(chooser, preference=chooser.preference.doubled(name))
        yield _OtherPick(f"{name} matters twice as much", doubled.pick(feasible))
    for name in ("accuracy", "latency", "size"):
        other = replace(chooser, preference=PREFERENCES[name]).pick(feasible)
        # The rule puts files that ran on the hold-out first, and a single figure does not.
        unjudged = is_judged and other.holdout_accuracy is None
        condition = f"only {name} matters{OR_UNJUDGED if unjudged else ''}"
        yield _OtherPick(condition, other, for_accuracy=name == "accuracy")
