"""From a run folder's evaluations to its decision, computed anew whenever asked: deciding again is free."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from advisor.core.budget import Budget
from advisor.core.budget_probability import with_budget_probability
from advisor.core.decision import Decision, Tie, decide, tied_by_interval
from advisor.core.evaluation import Evaluation, Status
from advisor.core.figures import describe
from advisor.core.relaxation import Relaxation
from advisor.core.statistics import paired
from advisor.core.training import HEAD_SUBSET
from advisor.core.worst_case import on_device, with_required_figures, worst_case
from advisor.datasets.split import VALIDATION
from advisor.engine.question import Question
from advisor.store import RunFolder


@dataclass(frozen=True)
class Answer:
    """What follows from a run's evaluations.

    Attributes:
        evaluations: as they were, with what their predictions say of the budget, and what is known of each file on the
            devices that it must run on as well.
        decision: the answer; of several devices, the one model for all of them.
        by_device: the answer for each device by its name, where there are several.
    """

    evaluations: tuple[Evaluation, ...]
    decision: Decision
    by_device: Mapping[str, Decision] = field(default_factory=dict)


def conclude(run: RunFolder, evaluations: Sequence[Evaluation], question: Question) -> Answer:
    """Decide over the evaluations; accuracies measured on the same pictures are compared picture by picture."""
    budget = question.limits
    known = _with_others(
        [with_budget_probability(_own(e), budget.latency_ms, budget.confidence) for e in evaluations], budget
    )
    only_required = set(budget.must_run_on) - set(question.devices)
    own = _answers_only([e for e in known if e.configuration.target.device not in only_required])
    tie = tie_on_images(run)

    def decided(candidates: Sequence[Evaluation]) -> Decision:
        return _with_missing_weights(decide(candidates, budget, tie, question.preference))

    if len(question.devices) == 1:
        return Answer(tuple(known), decided(own))
    by_device = {device: decided(on_device(own, device)) for device in question.devices}
    return Answer(tuple(known), for_all(own, question.devices, decided), by_device)


def _own(evaluation: Evaluation) -> Evaluation:
    """Return an evaluation without what an earlier decision noted beside it."""
    if not evaluation.device_figures and evaluation.required_figures is None:
        return evaluation
    return replace(evaluation, device_figures={}, required_figures=None)


def _answers_only(evaluations: list[Evaluation]) -> list[Evaluation]:
    """Leave first looks out: they decide who learns from all pictures, and answer only where nobody has."""
    full = [e for e in evaluations if e.configuration.training != HEAD_SUBSET]
    return full if any(e.status is Status.OK for e in full) else evaluations


def for_all(
    evaluations: Sequence[Evaluation], devices: Sequence[str], decided: Callable[[Sequence[Evaluation]], Decision]
) -> Decision:
    """Return the one model for all devices; where none fits, also which device has to be left out for one that does."""
    decision = decided(worst_case(evaluations, devices))
    if decision.feasible:
        return decision
    if decision.pick is None and any(e.status is Status.OK for e in evaluations):
        decision = replace(decision, reason=f"No file runs on all of {', '.join(devices)}.")
    ways = [way for device in devices if (way := _without(device, evaluations, devices, decided)) is not None]
    return replace(decision, relaxations=(*decision.relaxations, *ways))


def _without(
    device: str,
    evaluations: Sequence[Evaluation],
    devices: Sequence[str],
    decided: Callable[[Sequence[Evaluation]], Decision],
) -> Relaxation | None:
    rest = [other for other in devices if other != device]
    decision = decided(worst_case(evaluations, rest))
    if decision.pick is None or not decision.feasible:
        return None
    now, then = ", ".join(devices), ", ".join(rest)
    text = f"devices {now} -> {then} admits {describe(decision.pick)}"
    return Relaxation("devices", now, then, decision.pick.configuration.key, text)


def _with_others(known: list[Evaluation], budget: Budget) -> list[Evaluation]:
    """Note beside each evaluation what is known of its file on the devices that it must run on."""
    if not budget.must_run_on:
        return known
    return with_required_figures(known, {device: on_device(known, device) for device in budget.must_run_on})


def tie_on_images(run: RunFolder) -> Tie:
    """Return what tells two accuracies apart: the answers of both on each picture, else their intervals."""
    labels = _labels(run.path)

    @cache
    def right(answers: str) -> tuple[float, ...] | None:
        return _right(run.path / answers, labels) if answers and labels else None

    @cache
    def same(one: str, other: str) -> bool | None:
        first, second = right(one), right(other)
        return paired(first, second).spans_zero if first and second else None

    def tie(first: Evaluation, second: Evaluation) -> bool:
        paired = same(first.answers.file, second.answers.file)
        return tied_by_interval(first, second) if paired is None else paired

    return tie


def _with_missing_weights(decision: Decision) -> Decision:
    """Say so where the pick was measured without the weights that its published accuracy belongs to."""
    if decision.pick is None or not decision.pick.card_facts.lacks_weights:
        return decision
    card = decision.pick.configuration.card
    remark = f" To ship it, get its weights first: advisor catalog show {card} names where they are."
    return replace(decision, reason=decision.reason + remark)


def right_answers(run: RunFolder, evaluation: Evaluation) -> tuple[float, ...] | None:
    """Return for each picture that candidates were compared on the share of right answers, None where not known.

    That is 0 or 1, but for candidates that were compared under capture conditions: those saw each picture many times.
    """
    labels, answers = _labels(run.path), evaluation.answers.file
    return _right(run.path / answers, labels) if labels and answers else None


def compared_on(run: RunFolder) -> tuple[str, ...]:
    """Return the hashes of the pictures that candidates were compared on, in order; empty where not known."""
    rows = run.read_json("split.json").get(VALIDATION)
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        return ()
    return tuple(str(row.get("sha256", "")) for row in rows)


def _labels(path: Path) -> tuple[int, ...]:
    split = RunFolder(path).read_json("split.json")
    try:
        place = {name: label for label, name in enumerate(split["classes"])}
        return tuple(place[row["class"]] for row in split[VALIDATION])
    except (KeyError, TypeError):
        return ()


def _right(path: Path, labels: Sequence[int]) -> tuple[float, ...] | None:
    """Return how often each picture was answered rightly, or None where answers are missing, damaged or of others."""
    import numpy as np

    try:
        answers = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None
    if answers.ndim not in (1, 2) or answers.shape[-1] != len(labels) or not answers.size:
        return None
    return tuple((answers.reshape(-1, len(labels)) == np.asarray(labels)).mean(axis=0).tolist())
