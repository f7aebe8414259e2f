"""Compare two runs: what changed, and whether the recommendation changed beyond the noise.

``advisor compare`` and a re-evaluation call ``compare``. The recommendation has changed if the
decision still changes after every figure within the noise is set back (``differences.py`` says
what noise is). ``entries`` and ``columns`` are the keys of the JSON documents and tables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
)
from advisor.datasets import SplitPart
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
from advisor.engine._image_answers import correct_answers, read_compared_hashes, read_groups

if TYPE_CHECKING:
    import pandas as pd

HELD_OUT = "holdout_accuracy"
ACCURACIES = ("accuracy", HELD_OUT, "drop")
"""Figures that cannot be compared between two runs whose accuracies are different metrics."""

OTHER_IMAGES = "The validation images differ, so accuracies are not compared."

CHANGES_SHOWN = 3

CORRECTION = "The pick did not change, and a measurement corrected its figures:"

Deltas = Mapping[Configuration, tuple[Delta, ...]]
"""Changes of the figures of every configuration that both runs evaluated, as the later run has
it.
"""


class ComparisonResult(StrEnum):
    """The change of the recommendation between two runs."""

    SAME = "same"
    NOISE = "within noise"
    CORRECTED = "corrected"
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
        delta = self.delta
        quantity = delta.before or delta.after
        cells = (
            self.key,
            delta.figure,
            quantity.unit if quantity else None,
            _value_of(delta.before),
            _value_of(delta.after),
            delta.counts,
            delta.why,
        )
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

    @classmethod
    def of_runs(cls, before: LoadedRun, after: LoadedRun) -> Comparison:
        """Compare a run with an earlier one.

        The recommendation counts as changed only where the decision still changes after every
        figure within the noise is set back to its earlier value.
        """
        deltas = _find_deltas(before, after)
        differences = find_differences(before, after)
        # A run without any result has no pick either,
        # which would otherwise read as a changed recommendation.
        if after.too_early:
            result = ComparisonResult.INCOMPLETE
        else:
            steady = _decide_without_noise(after, deltas)
            result = _judge_change(before, after, steady, deltas)
        reasons = [_explain_result(result, before, after, deltas, differences)]
        if _images_differ(before, after):
            reasons.append(OTHER_IMAGES)
        changed = []
        for configuration, of_configuration in deltas.items():
            for delta in of_configuration:
                if _value_of(delta.before) != _value_of(delta.after):
                    changed.append(ChangedFigure(configuration, delta))
        return cls(
            before=before.name,
            after=after.name,
            result=result,
            reason=" ".join(filter(None, reasons)),
            pick_before=before.decision.pick,
            pick_after=after.decision.pick,
            differences=differences,
            figures=tuple(sorted(changed, key=lambda row: (not row.delta.counts, row.key))),
        )


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


def _decide_without_noise(run: LoadedRun, deltas: Deltas) -> Decision:
    """Return the decision of the later run, with every figure within the noise set back."""
    # A decision takes a while, and without common figures it is the same.
    # Runs for two devices have no figure in common.
    if not deltas:
        return run.decision
    evaluations = []
    for evaluation in run.evaluations:
        of_configuration = deltas.get(evaluation.configuration, ())
        evaluations.append(without_noise(evaluation, of_configuration))
    return decide_run(run.folder, evaluations, run.question).decision


def _find_deltas(before: LoadedRun, after: LoadedRun) -> dict[Configuration, tuple[Delta, ...]]:
    """Return the changes of figures;
    without accuracies, if the runs ask for different ones or have other images.
    """
    earlier = {}
    for evaluation in before.evaluations:
        if evaluation.status is Status.OK:
            earlier[evaluation.configuration.key] = evaluation
    images_differ = _images_differ(before, after)
    same_images = bool(read_compared_hashes(before.folder)) and not images_differ
    # A size and a latency are the same quantity in both runs;
    # an accuracy by another metric or of other images is not.
    not_compared: tuple[str, ...] = ()
    if images_differ or _describe_metric(before) != _describe_metric(after):
        not_compared = ACCURACIES
    deltas = {}
    for evaluation in after.evaluations:
        then = earlier.get(evaluation.configuration.key)
        if then is None or evaluation.status is not Status.OK:
            continue
        of_figures = []
        for delta in compare_figures(then, evaluation):
            if delta.figure not in not_compared:
                of_figures.append(delta)
        if same_images:
            of_figures = _pair_accuracies(of_figures, before, then, after, evaluation)
        deltas[evaluation.configuration] = tuple(of_figures)
    return deltas


def _describe_metric(run: LoadedRun) -> tuple[object, ...]:
    """Return what the accuracies of a run are."""
    return run.question.metric, run.question.costs, run.question.robust


def _images_differ(before: LoadedRun, after: LoadedRun) -> bool:
    """Return whether two runs compared their candidates on different images of the user."""
    then = read_compared_hashes(before.folder)
    now = read_compared_hashes(after.folder)
    return bool(then and now) and then != now


def _pair_accuracies(
    deltas: Sequence[Delta],
    before: LoadedRun,
    then: Evaluation,
    after: LoadedRun,
    now: Evaluation,
) -> list[Delta]:
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
            groups = read_groups(after.folder, SplitPart.VALIDATION)
            apart = not Interval.difference_of_means(earlier, later, groups).spans_zero
    paired = []
    for delta in deltas:
        is_held_out = same_file and delta.figure == HELD_OUT and delta.before and delta.after
        if delta.figure == "accuracy" or is_held_out:
            delta = compare_figure(delta.figure, delta.before, delta.after, apart)
        paired.append(delta)
    return paired


def _judge_change(
    before: LoadedRun, after: LoadedRun, steady: Decision, deltas: Deltas
) -> ComparisonResult:
    """Return what happened to the recommendation;
    ``steady`` is the later decision with all noise set back.
    """
    then = before.decision
    now = after.decision
    # Runs for two devices answer two questions: their picks differ in the device anyway.
    with_device = before.question.devices == after.question.devices
    choice_then = _identify_choice(then.pick, with_device)
    choice_now = _identify_choice(now.pick, with_device)
    choice_steady = _identify_choice(steady.pick, with_device)
    # `steady` is the later run with all noise set back: what still changes there is a change.
    if choice_then != choice_steady:
        return ComparisonResult.CHANGED
    if then.feasible != steady.feasible:
        return ComparisonResult.CHANGED if steady.feasible else ComparisonResult.WORSE
    # The pick is another, but setting the noise back brings the earlier one:
    # nothing a team should act on.
    if choice_then != choice_now or then.feasible != now.feasible:
        return ComparisonResult.NOISE
    of_pick = deltas.get(now.pick.configuration, ()) if now.pick else ()
    if any(delta.worse for delta in of_pick):
        return ComparisonResult.WORSE
    if any(delta.corrected for delta in of_pick):
        return ComparisonResult.CORRECTED
    return ComparisonResult.SAME


def _value_of(quantity: Quantity | None) -> float | None:
    return None if quantity is None else quantity.value


def _identify_choice(evaluation: Evaluation | None, with_device: bool) -> tuple[str, ...]:
    """Return what a team chooses: the artefact, and the device.
    The number of threads is a setting, not a choice.
    """
    if evaluation is None:
        return ()
    if not with_device:
        return evaluation.variant
    target = evaluation.configuration.target
    return (*evaluation.variant, target.device, target.accelerator)


def _describe_pick(pick: Evaluation | None) -> str:
    return "nothing" if pick is None else pick.describe_figures()


def _explain_result(
    result: ComparisonResult,
    before: LoadedRun,
    after: LoadedRun,
    deltas: Deltas,
    differences: tuple[Difference, ...],
) -> str:
    """Return the reason for the result of a comparison, in one or more sentences."""
    then = _describe_pick(before.decision.pick)
    now = _describe_pick(after.decision.pick)
    if result is ComparisonResult.INCOMPLETE:
        return (
            f"{after.name} ended before its first result: it says nothing of the earlier pick,"
            f" {then}."
        )
    if result is ComparisonResult.SAME:
        if after.decision.pick is None:
            return "Neither run has a pick."
        return f"The pick did not change: {now}."
    if result is ComparisonResult.NOISE:
        return (
            f"The later run picks {now}, and the earlier one {then}. No figure that decides it"
            " changed beyond the noise, so it is not counted as a change."
        )
    if result is ComparisonResult.CORRECTED:
        return f"{CORRECTION} {now}. {'; '.join(_describe_corrections(after, deltas))}."
    losses = _describe_losses(before.decision.pick, after, deltas)
    if result is ComparisonResult.WORSE:
        verdict = "worse" if after.decision.feasible else "no longer meets the budget"
        return f"The pick is still {now}, and {verdict}: {'; '.join(losses)}."
    causes = []
    for row in differences:
        if row.topic == "question":
            causes.append(f"{row.what}: {row.before or 'not given'} -> {row.after or 'not given'}")
    causes += losses
    causes += _describe_gains(after.decision.pick, before, deltas)
    because = f" Because {'; '.join(causes)}." if causes else f" {after.decision.reason}"
    if after.decision.pick is not None and not after.decision.feasible:
        return (
            f"Nothing meets the budget; closest to the limits is {now}, the pick was"
            f" {then}.{because}"
        )
    return f"The pick changed from {then} to {now}.{because}"


def _describe_losses(then: Evaluation | None, after: LoadedRun, deltas: Deltas) -> list[str]:
    """Return what happened to the earlier pick."""
    if then is None:
        return []
    now = _find_counterpart(then, after)
    if now is None:
        return [f"{then.name} was not evaluated again"]
    if now.status is not Status.OK:
        return [f"{now.name} was {now.status}: {now.reason}"]
    texts = []
    for delta in deltas.get(now.configuration, ()):
        if delta.poorer:
            texts.append(delta.show(now.name))
    excesses = excess_texts(now, after.question.limits)
    if excesses:
        texts.append(f"{now.name} breaks the budget: {' and '.join(excesses)}")
    return texts


def _describe_corrections(after: LoadedRun, deltas: Deltas) -> list[str]:
    """Return the figures of the pick that a measurement corrected."""
    pick = after.decision.pick
    if pick is None:
        return []
    of_pick = deltas.get(pick.configuration, ())
    return [delta.show(pick.name) for delta in of_pick if delta.corrected]


def _find_counterpart(evaluation: Evaluation, run: LoadedRun) -> Evaluation | None:
    """Return the same configuration in another run;
    where there is none, the same artefact on another device.
    """
    counterpart = None
    for other in run.evaluations:
        # The same threads and device come first: a latency with other threads is another figure.
        if other.configuration.key == evaluation.configuration.key:
            return other
        if counterpart is None and other.variant == evaluation.variant:
            counterpart = other
    return counterpart


def _describe_gains(now: Evaluation | None, before: LoadedRun, deltas: Deltas) -> list[str]:
    """Return what is new about the later pick."""
    if now is None:
        return []
    then = _find_counterpart(now, before)
    if then is None:
        return [f"{now.name} is new"]
    if then.status is not Status.OK:
        return [f"{now.name} was {then.status} before ({then.reason})"]
    texts = []
    for delta in deltas.get(now.configuration, ()):
        if delta.counts and not delta.poorer:
            texts.append(delta.show(now.name))
    return texts[:CHANGES_SHOWN]
