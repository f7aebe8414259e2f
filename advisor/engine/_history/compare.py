"""Compare two runs: what changed,
and whether the recommendation changed beyond the noise of its figures.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from advisor.core import (
    Configuration,
    Decision,
    Evaluation,
    Interval,
    Quantity,
    Status,
    Written,
    excess_texts,
    show_figure,
)
from advisor.engine._decide import decide_run
from advisor.engine._history.differences import (
    Delta,
    Difference,
    compare_figure,
    compare_figures,
    find_differences,
    without_noise,
)
from advisor.engine._history.loaded_run import LoadedRun
from advisor.engine._image_answers import correct_answers, read_compared_hashes

if TYPE_CHECKING:
    import pandas as pd

HELD_OUT = "holdout_accuracy"
ACCURACIES = ("accuracy", HELD_OUT, "drop")
"""Figures that cannot be compared between two runs whose accuracies are different metrics."""

OTHER_IMAGES = "The validation images differ, so accuracies are not compared."

CHANGES_SHOWN = 3

Deltas = Mapping[Configuration, tuple[Delta, ...]]
"""Changes of the figures of every configuration that both runs evaluated, as the later run has
it.
"""


class ComparisonResult(StrEnum):
    """The change of the recommendation between two runs."""

    SAME = "same"
    NOISE = "within noise"
    WORSE = "worse"
    CHANGED = "changed"
    INCOMPLETE = "incomplete"


@dataclass(frozen=True)
class ChangedFigure(Written):
    """A figure of one configuration that differs.

    Attributes:
        configuration: the configuration.
        delta: the figure in both runs.
    """

    entries = (
        "key",
        "figure=delta.figure",
        "before=delta.before",
        "after=delta.after",
        "counts=delta.counts",
        "worse=delta.worse",
        "why=delta.why",
    )

    columns: ClassVar[tuple[str, ...]] = (
        "key",
        "figure",
        "unit",
        "before",
        "after",
        "beyond_noise",
        "why",
    )
    """Columns of :meth:`Comparison.to_frame`."""

    configuration: Configuration
    delta: Delta

    @property
    def key(self) -> str:
        """The key of the configuration."""
        return self.configuration.key

    def to_row(self) -> dict[str, object]:
        """Return a row of a table, with the names of :attr:`columns`."""
        change = self.delta
        known = self.delta.before or self.delta.after
        unit = known.unit if known else None
        before = _value(change.before)
        after = _value(change.after)
        cells = (self.key, change.figure, unit, before, after, change.counts, change.why)
        return dict(zip(self.columns, cells, strict=True))


@dataclass(frozen=True)
class Comparison(Written):
    """Two runs, compared.

    Attributes:
        before: name of the earlier run.
        after: name of the later run.
        result: what happened to the recommendation.
        reason: why, in one or more sentences.
        pick_before: the earlier pick.
        pick_after: the later pick.
        differences: everything that differs besides figures.
        figures: figures that differ; those beyond the noise come first.
    """

    entries = (
        "schema_version",
        "before",
        "after",
        "outcome=result",
        "recommends_otherwise",
        "reason",
        "pick_before=pick_before.configuration.key",
        "pick_after=pick_after.configuration.key",
        "differences",
        "figures",
    )
    schema_version = 1

    before: str
    after: str
    result: ComparisonResult
    reason: str
    pick_before: Evaluation | None
    pick_after: Evaluation | None
    differences: tuple[Difference, ...]
    figures: tuple[ChangedFigure, ...]

    @property
    def recommends_otherwise(self) -> bool:
        """True where the recommendation changed, or the same one got worse, beyond the noise."""
        return self.result in (ComparisonResult.CHANGED, ComparisonResult.WORSE)

    @property
    def incomplete(self) -> bool:
        """True where the later run ended before its first result,
        so that nothing is known of a change.
        """
        return self.result is ComparisonResult.INCOMPLETE

    def to_frame(self) -> pd.DataFrame:
        """Return every figure that differs as a row of a table;
        ``unit`` is that of ``before`` and ``after``.
        """
        from advisor.store import build_frame

        return build_frame(ChangedFigure.columns, (changed.to_row() for changed in self.figures))


@dataclass(frozen=True)
class Reevaluation(Written):
    """The result of one re-evaluation.

    Attributes:
        parent: name of the run.
        device: the device that it was evaluated for.
        causes: what changed since the run, in words; empty where nothing did.
        run: the new run, or the one that was made for the same changes before; None where nothing
            changed.
        comparison: the new run compared with its parent; None where there is no new run.
        remarks: what could not be done.
        error: why the run could not be read or evaluated, or empty.
    """

    entries = (
        "run=parent",
        "device",
        "causes",
        "new_run=run",
        "changed",
        "remarks",
        "error",
        "comparison",
    )

    parent: str
    device: str
    causes: tuple[str, ...] = ()
    run: Path | None = None
    comparison: Comparison | None = None
    remarks: tuple[str, ...] = ()
    error: str = ""

    @property
    def new(self) -> bool:
        """True where anything changed since the run, or its answer cannot be known."""
        return bool(self.causes or self.error)

    @property
    def changed(self) -> bool:
        """True where the recommendation changed, or got worse."""
        return self.comparison is not None and self.comparison.recommends_otherwise


def compare(before: LoadedRun, after: LoadedRun) -> Comparison:
    """Compare a run with an earlier one.

    The recommendation counts as changed only where the decision still changes after every figure
    within the noise is set back to its earlier value.
    """
    changes = _find_deltas(before, after)
    steady = after.decision
    # Deciding again with the noise set back costs a whole decision,
    # and without common figures it changes nothing.
    if changes:  # another device has no figure in common
        quiet = [without_noise(e, changes.get(e.configuration, ())) for e in after.evaluations]
        steady = decide_run(after.folder, quiet, after.question).decision
    differences = find_differences(before, after)
    one_device = before.question.devices == after.question.devices
    result = _result(before.decision, after.decision, steady, changes, one_device)
    # A run without any result has no pick either,
    # which would otherwise read as a changed recommendation.
    result = ComparisonResult.INCOMPLETE if after.too_early else result
    reasons = [_reason(result, before, after, changes, differences)]
    if _images_differ(before, after):
        reasons.append(OTHER_IMAGES)
    changed = []
    for configuration, deltas in changes.items():
        for delta in deltas:
            if _value(delta.before) != _value(delta.after):
                changed.append(ChangedFigure(configuration, delta))
    return Comparison(
        before=before.name,
        after=after.name,
        result=result,
        reason=" ".join(filter(None, reasons)),
        pick_before=before.decision.pick,
        pick_after=after.decision.pick,
        differences=differences,
        figures=tuple(sorted(changed, key=lambda row: (not row.delta.counts, row.key))),
    )


def _find_deltas(before: LoadedRun, after: LoadedRun) -> dict[Configuration, tuple[Delta, ...]]:
    """Return the changes of figures;
    without accuracies, if the runs ask for different ones or have other images.
    """
    earlier = {}
    for evaluation in before.evaluations:
        if evaluation.status is Status.OK:
            earlier[evaluation.configuration.key] = evaluation
    asked = [
        (run.question.metric, run.question.costs, run.question.robust) for run in (before, after)
    ]
    same_images = bool(read_compared_hashes(before.folder)) and not _images_differ(before, after)
    # A size and a latency are the same quantity in both runs;
    # an accuracy by another metric or of other images is not.
    other = () if asked[0] == asked[1] and not _images_differ(before, after) else ACCURACIES
    changed = {}
    for evaluation in after.evaluations:
        then = earlier.get(evaluation.configuration.key)
        if then is not None and evaluation.status is Status.OK:
            changes = tuple(
                change
                for change in compare_figures(then, evaluation)
                if change.figure not in other
            )
            paired_changes = (
                _pair_accuracies(changes, before, then, after, evaluation)
                if same_images
                else changes
            )
            changed[evaluation.configuration] = paired_changes
    return changed


def _images_differ(before: LoadedRun, after: LoadedRun) -> bool:
    """Return whether two runs compared their candidates on different images of the user."""
    then = read_compared_hashes(before.folder)
    now = read_compared_hashes(after.folder)
    return bool(then and now) and then != now


def _pair_accuracies(
    changes: tuple[Delta, ...],
    before: LoadedRun,
    then: Evaluation,
    after: LoadedRun,
    now: Evaluation,
) -> tuple[Delta, ...]:
    """Compare accuracies image by image.
    The same file has the same accuracy, so it never counts as changed.
    """
    same_file = then.artefact_sha256 == now.artefact_sha256 != ""
    # None lets the intervals decide. False: the two are known to be equal.
    apart: bool | None = False
    if not same_file:
        earlier = correct_answers(before.folder, then)
        later = correct_answers(after.folder, now)
        apart = None
        if earlier is not None and later is not None:
            apart = not Interval.difference_of_means(earlier, later).spans_zero
    compared = []
    for change in changes:
        is_held_out = same_file and change.figure == HELD_OUT and change.before and change.after
        if change.figure == "accuracy" or is_held_out:
            change = compare_figure(change.figure, change.before, change.after, apart)
        compared.append(change)
    return tuple(compared)


def _result(
    then: Decision, now: Decision, steady: Decision, changes: Deltas, one_device: bool
) -> ComparisonResult:
    choice_then, choice_now, choice_steady = (
        _choice(decision.pick, one_device) for decision in (then, now, steady)
    )
    # `steady` is the later run with all noise set back: what still changes there is a change.
    if choice_then != choice_steady:
        return ComparisonResult.CHANGED
    if then.feasible != steady.feasible:
        return ComparisonResult.CHANGED if steady.feasible else ComparisonResult.WORSE
    # The pick is another, but setting the noise back brings the earlier one:
    # nothing a team should act on.
    if choice_then != choice_now or then.feasible != now.feasible:
        return ComparisonResult.NOISE
    deltas = changes.get(now.pick.configuration, ()) if now.pick else ()
    return (
        ComparisonResult.WORSE if any(delta.worse for delta in deltas) else ComparisonResult.SAME
    )


def _value(quantity: Quantity | None) -> float | None:
    return None if quantity is None else quantity.value


def _choice(evaluation: Evaluation | None, with_device: bool) -> tuple[str, ...]:
    """Return what a team chooses: the artefact, and the device.
    The number of threads is a setting, not a choice.
    """
    if evaluation is None:
        return ()
    target = evaluation.configuration.target
    return (*evaluation.variant, *((target.device, target.accelerator) if with_device else ()))


def _reason(
    result: ComparisonResult,
    before: LoadedRun,
    after: LoadedRun,
    changes: Deltas,
    differences: tuple[Difference, ...],
) -> str:
    """Return the reason for the result of a comparison, in one or more sentences."""
    picks = before.decision.pick, after.decision.pick
    then, now = ("nothing" if pick is None else pick.describe_figures() for pick in picks)
    if result is ComparisonResult.INCOMPLETE:
        return (
            f"{after.name} ended before its first result: it says nothing of the earlier pick,"
            f" {then}."
        )
    if result is ComparisonResult.SAME:
        return f"The pick did not change: {now}." if picks[1] else "Neither run has a pick."
    if result is ComparisonResult.NOISE:
        return (
            f"The later run picks {now}, and the earlier one {then}. No figure that decides it"
            " changed beyond the noise, so it is not counted as a change."
        )
    losses = _losses(picks[0], after, changes)
    if result is ComparisonResult.WORSE:
        return f"The pick is still {now}, and worse: {'; '.join(losses)}."
    questions = [row for row in differences if row.topic == "question"]
    asked = (
        f"{row.what}: {row.before or 'not given'} -> {row.after or 'not given'}"
        for row in questions
    )
    causes = [*asked, *losses, *_gains(picks[1], before, changes)]
    because = f" Because {'; '.join(causes)}." if causes else f" {after.decision.reason}"
    if picks[1] is not None and not after.decision.feasible:
        return (
            f"Nothing meets the budget; closest to the limits is {now}, the pick was"
            f" {then}.{because}"
        )
    return f"The pick changed from {then} to {now}.{because}"


def _losses(then: Evaluation | None, after: LoadedRun, changes: Deltas) -> list[str]:
    """Return what happened to the earlier pick."""
    if then is None:
        return []
    now = _counterpart(then, after)
    if now is None:
        return [f"{then.name} was not evaluated again"]
    if now.status is not Status.OK:
        return [f"{now.name} was {now.status}: {now.reason}"]
    broken = excess_texts(now, after.question.limits)
    texts = []
    for change in changes.get(now.configuration, ()):
        if change.worse:
            texts.append(_describe_change(now, change))
    return [*texts, *([f"{now.name} breaks the budget: {' and '.join(broken)}"] if broken else [])]


def _counterpart(evaluation: Evaluation, run: LoadedRun) -> Evaluation | None:
    """Return the same configuration in another run;
    where there is none, the same artefact on another device.
    """
    same = [e for e in run.evaluations if _choice(e, False) == _choice(evaluation, False)]
    exact = [e for e in same if e.configuration.key == evaluation.configuration.key]
    # The same threads and device come first: a latency with other threads is another figure.
    return next(iter([*exact, *same]), None)


def _gains(now: Evaluation | None, before: LoadedRun, changes: Deltas) -> list[str]:
    """Return what is new about the later pick."""
    if now is None:
        return []
    then = _counterpart(now, before)
    if then is None:
        return [f"{now.name} is new"]
    if then.status is not Status.OK:
        return [f"{now.name} was {then.status} before ({then.reason})"]
    better = []
    for change in changes.get(now.configuration, ()):
        if change.counts and not change.worse:
            better.append(_describe_change(now, change))
    return better[:CHANGES_SHOWN]


def _describe_change(evaluation: Evaluation, change: Delta) -> str:
    values = (change.before, change.after)
    then, now = (
        "unknown" if value is None else show_figure(change.figure, value.value) for value in values
    )
    return f"{change.figure.replace('_', ' ')} of {evaluation.name} {then} -> {now}"
