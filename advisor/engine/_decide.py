"""Decide over the evaluations of a run: which file to ship, by the rule of a question.

``LoadedRun.load`` makes the last decision when a run is read, and the search asks for decisions on
its way: what to judge next, and the answer so far. The rule itself is
:meth:`Decision.of_evaluations`. Here are the rows that it chooses among, the answers of the run on
each image, and devices.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped,unused-ignore]

from advisor.core import (
    FLOAT,
    Answers,
    Decision,
    Evaluation,
    Interval,
    Limits,
    Preference,
    Provenance,
    Quantity,
    Relaxation,
    Status,
    pool_timings,
    recipe_of,
)
from advisor.datasets import SplitPart
from advisor.engine._image_answers import answers_on_images, read_groups, read_labels, read_shares
from advisor.engine._question import Question
from advisor.engine._refutation import accuracy_on_both, is_refuted, sentence_of_refutation
from advisor.engine._targets.device_rows import (
    find_worst_cases,
    select_rows,
    with_required_figures,
)
from advisor.store import RunFolder


@dataclass(frozen=True)
class Answer:
    """The decision over a run's evaluations,
    which have the probability of meeting the budget and device figures.

    For several devices, ``decision`` is the one model for all of them,
    and ``by_device`` has the answer for each.
    """

    evaluations: tuple[Evaluation, ...]
    decision: Decision
    by_device: Mapping[str, Decision] = field(default_factory=dict)


def decide_run(
    run: RunFolder,
    evaluations: Sequence[Evaluation],
    question: Question,
    judged_first: bool = True,
) -> Answer:
    """Return the decision; it compares accuracies on the same images image by image.

    Files of one graph have one latency. ``judged_first``: of files that are tied, one that ran on
    the hold-out comes before one that did not; False to find what should run there.
    """
    # Threads of BLAS that wait between two small products would spin.
    with _blas().limit(limits=1):
        return _make_answer(run, evaluations, question, judged_first)


@cache
def _blas() -> ThreadpoolController:
    return ThreadpoolController()


def _make_answer(
    run: RunFolder, evaluations: Sequence[Evaluation], question: Question, judged_first: bool
) -> Answer:
    """See :func:`decide_run`."""
    devices = question.devices
    known = _prepare_rows(run, evaluations, question.limits)
    candidates = _list_candidates(known, question)
    # Random weights make a valid file with real timings, which must never ship.
    without_weights = set()
    shippable = []
    for evaluation in candidates:
        if evaluation.card_facts.lacks_weights:
            without_weights.add(evaluation.configuration.card)
        else:
            shippable.append(evaluation)
    rule = _DecisionRule(
        question.limits,
        question.preference,
        answers_on_images(run),
        read_groups(run, SplitPart.VALIDATION),
        judged_first,
        tuple(sorted(without_weights)),
    )
    # For one device, the worst case over all devices is that device,
    # and a second decision would say the same.
    if len(devices) == 1:
        return Answer(known, rule.decide_over(shippable))
    by_device = {device: rule.decide_over(select_rows(shippable, device)) for device in devices}
    return Answer(known, _decide_for_all(shippable, devices, rule), by_device)


def _prepare_rows(
    run: RunFolder, evaluations: Sequence[Evaluation], limits: Limits
) -> tuple[Evaluation, ...]:
    """Return the evaluations with what a decision derives from all of them.

    These are pooled latencies, the probability of meeting the budget, drops on the hold-out, and
    figures on required devices.
    """
    # Without the figures on devices of an earlier decision,
    # and without what earlier versions said of new conditions.
    fresh = []
    for evaluation in evaluations:
        row = replace(evaluation, device_figures={}, required_figures=None)
        if row.in_unknown_conditions:
            row = replace(row, new_conditions=None)
        fresh.append(row)
    fresh = _with_holdout_drops(run, fresh, limits)
    known = [limits.with_budget_probability(row) for row in pool_timings(fresh)]
    if limits.must_run_on:
        by_device = {device: select_rows(known, device) for device in limits.must_run_on}
        known = with_required_figures(known, by_device)
    return tuple(known)


def _list_candidates(rows: Sequence[Evaluation], question: Question) -> list[Evaluation]:
    """Return the rows among which the rule may choose."""
    # A required device sets limits alone:
    # its own rows are no candidates, unless the question names it too.
    only_required = set(question.limits.must_run_on) - set(question.devices)
    candidates = []
    fully_trained = []
    for row in rows:
        if row.configuration.target.device in only_required:
            continue
        candidates.append(row)
        if not recipe_of(row.configuration.training).quick_head:
            fully_trained.append(row)
    # A quick head is the last resort.
    if any(row.status is Status.OK for row in fully_trained):
        return fully_trained
    return candidates


@dataclass(frozen=True)
class _DecisionRule:
    """Everything that a decision over rows depends on beside them.

    ``groups`` has the group of each validation image, and ``without_weights`` the cards that ran
    with random weights. See :func:`decide_run` for ``judged_first``.
    """

    limits: Limits
    preference: Preference
    answers: Answers
    groups: Sequence[int]
    judged_first: bool
    without_weights: tuple[str, ...]

    def decide_over(self, rows: Sequence[Evaluation]) -> Decision:
        """Return the decision over rows, without a pick that the hold-out refutes."""
        decision = self._decide(rows)
        pick = decision.pick
        if pick is None:
            return self._explain_weights(decision)
        others = [row for row in rows if row.network != pick.network]
        # Only this pick is questioned. Each refutation uses the hold-out once more,
        # and makes its figure a little too high.
        if not decision.feasible or not others or not is_refuted(pick):
            return decision
        return _unless_refuted(decision, self._decide(others), self.judged_first)

    def _decide(self, rows: Sequence[Evaluation]) -> Decision:
        return Decision.of_evaluations(
            rows, self.limits, self.answers, self.preference, self.judged_first, self.groups
        )

    def _explain_weights(self, decision: Decision) -> Decision:
        """Return a decision without a pick, which says so if cards lacked weights."""
        if not self.without_weights:
            return decision
        fetch = f"advisor catalog fetch {' '.join(self.without_weights)}"
        reason = (
            f"Nothing to ship: {', '.join(self.without_weights)} ran without weights."
            f" Get weights ({fetch}), then search again."
        )
        return replace(decision, reason=reason)


def _unless_refuted(decision: Decision, again: Decision, judged_first: bool) -> Decision:
    """Return the decision, or the one ``again`` without the network of its pick,
    which the hold-out refutes.

    The other pick must be better on validation and hold-out together. One that did not run on the
    hold-out is only returned to find what should run there, where ``judged_first`` is False.
    """
    refuted = decision.pick
    other = again.pick
    if refuted is None or other is None or not again.feasible:
        return decision
    # A refuted pick is still better known than a file that nothing has judged.
    if other.holdout_accuracy is None:
        return decision if judged_first else again
    refuted_accuracy = accuracy_on_both(refuted)
    other_accuracy = accuracy_on_both(other)
    if refuted_accuracy is None or other_accuracy is None or other_accuracy <= refuted_accuracy:
        return decision
    # Under another preference, the refuted network would be asked first again.
    flips = tuple(flip for flip in again.flips if flip.tightens)
    reason = f"{again.reason} {sentence_of_refutation(refuted)}"
    return replace(again, reason=reason, flips=flips)


def _with_holdout_drops(
    run: RunFolder, evaluations: list[Evaluation], limits: Limits
) -> list[Evaluation]:
    """Return the evaluations with the loss on the hold-out where both a file
    and its float32 file ran there.
    """
    # Without a limit of the drop nobody reads this figure, and the files of answers are large.
    if limits.max_drop_points is None:
        return evaluations
    labels = read_labels(run, SplitPart.HOLDOUT)
    if not labels:
        return evaluations
    groups = read_groups(run, SplitPart.HOLDOUT)

    @cache
    def read_file(file: str) -> tuple[float, ...] | None:
        return read_shares(run, file, labels)

    def find_shares(evaluation: Evaluation) -> tuple[float, ...] | None:
        judged = evaluation.holdout_answers
        if judged is not None and judged.compared_by:
            return read_file(judged.compared_by)
        return None

    floats = {}
    for evaluation in evaluations:
        shares = find_shares(evaluation)
        if evaluation.configuration.compression == FLOAT and shares:
            floats[evaluation.network] = shares
    updated = []
    for evaluation in evaluations:
        shares = find_shares(evaluation)
        reference = floats.get(evaluation.network)
        # A drop of an earlier decision may belong to another float file.
        drop = None
        if shares and reference:
            drop = _measure_drop(reference, shares, groups)
        updated.append(replace(evaluation, holdout_drop=drop))
    return updated


def _measure_drop(
    reference: Sequence[float], shares: Sequence[float], groups: Sequence[int]
) -> Quantity:
    """Return the points that a file loses against its float32 file on the same images."""
    lost = Interval.difference_of_means(reference, shares, groups)
    return Quantity(
        value=100 * lost.value,
        unit="points",
        provenance=Provenance.MEASURED,
        low=100 * lost.low,
        high=100 * lost.high,
        level=0.95,
        n=len(shares),
        source="against float32 on the hold-out",
    )


def _decide_for_all(
    evaluations: Sequence[Evaluation], devices: Sequence[str], rule: _DecisionRule
) -> Decision:
    """Return the one model for all devices;
    if none fits, name the device whose removal allows one.
    """
    decision = rule.decide_over(find_worst_cases(evaluations, devices))
    if decision.feasible:
        return decision
    has_files = any(evaluation.status is Status.OK for evaluation in evaluations)
    if decision.pick is None and has_files:
        decision = replace(decision, reason=f"No file runs on all of {', '.join(devices)}.")
    relaxations = list(decision.relaxations)
    now = ", ".join(devices)
    for device in devices:
        rest = [other for other in devices if other != device]
        without = rule.decide_over(find_worst_cases(evaluations, rest))
        if without.pick is None or not without.feasible:
            continue
        then = ", ".join(rest)
        text = f"devices {now} -> {then} admits {without.pick.describe_figures()}"
        key = without.pick.configuration.key
        relaxations.append(Relaxation("devices", now, then, key, text))
    return replace(decision, relaxations=tuple(relaxations))
