"""The sentences of a comparison: why a recommendation changed, or did not."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from advisor.core.evaluation import Evaluation, Status
from advisor.core.figures import describe, show_figure
from advisor.core.noise import Delta
from advisor.core.relaxation import excess_texts
from advisor.engine.history.differences import Difference
from advisor.engine.history.loaded_run import LoadedRun

CHANGES_SHOWN = 3


class ComparisonResult(StrEnum):
    """What happened to the recommendation between two runs."""

    SAME = "same"
    NOISE = "within noise"
    WORSE = "worse"
    CHANGED = "changed"


def choice(evaluation: Evaluation | None, with_device: bool) -> tuple[str, ...]:
    """Return what a team chooses: the artefact, and the device. The number of threads is a setting, not a choice."""
    if evaluation is None:
        return ()
    configuration = evaluation.configuration
    target = configuration.target
    artefact = (configuration.card, configuration.training, configuration.compression)
    return (*artefact, target.device, target.accelerator) if with_device else artefact


def reason(
    result: ComparisonResult,
    before: LoadedRun,
    after: LoadedRun,
    changes: Mapping[str, tuple[Delta, ...]],
    differences: tuple[Difference, ...],
) -> str:
    """Return the reason for the result of a comparison, in one or more sentences.

    Args:
        result: what happened to the recommendation.
        before: the earlier run.
        after: the later run.
        changes: changes of the figures of every configuration that both evaluated, by key.
        differences: everything else that differs.
    """
    then, now = before.decision.pick, after.decision.pick
    if result is ComparisonResult.SAME:
        return f"The pick did not change: {_named(now)}."
    if result is ComparisonResult.NOISE:
        return (
            f"The pick would be {_named(now)} instead of {_named(then)}, but no figure that decides it changed beyond "
            "the noise: not counted as a change."
        )
    if result is ComparisonResult.WORSE:
        return f"The pick is still {_named(now)}, and worse: {'; '.join(_losses(then, after, changes))}."
    causes = [
        *(
            f"{row.what}: {row.before or 'none'} -> {row.after or 'none'}"
            for row in differences
            if row.topic == "question"
        ),
        *_losses(then, after, changes),
        *_gains(now, before, changes),
    ]
    because = f" Because {'; '.join(causes)}." if causes else f" {after.decision.reason}"
    if now is not None and not after.decision.feasible:
        return (
            f"Nothing meets the budget; closest to the limits is {_named(now)}, the pick was {_named(then)}.{because}"
        )
    return f"The pick changed from {_named(then)} to {_named(now)}.{because}"


def _named(evaluation: Evaluation | None) -> str:
    return "nothing" if evaluation is None else describe(evaluation)


def _losses(then: Evaluation | None, after: LoadedRun, changes: Mapping[str, tuple[Delta, ...]]) -> list[str]:
    """Return what happened to the earlier pick."""
    if then is None:
        return []
    now = _counterpart(then, after)
    if now is None:
        return [f"{then.configuration.key} was not evaluated again"]
    key = now.configuration.key
    if now.status is not Status.OK:
        return [f"{key} was {now.status}: {now.reason}"]
    broken = excess_texts(now, after.question.limits)
    texts = [_changed_text(key, change) for change in changes.get(key, ()) if change.worse]
    return [*texts, *([f"{key} breaks the budget: {' and '.join(broken)}"] if broken else [])]


def _counterpart(evaluation: Evaluation, run: LoadedRun) -> Evaluation | None:
    """Return the same configuration in another run; where there is none, the same artefact on another device."""
    same = [e for e in run.evaluations if choice(e, False) == choice(evaluation, False)]
    exact = [e for e in same if e.configuration.key == evaluation.configuration.key]
    return next(iter([*exact, *same]), None)


def _gains(now: Evaluation | None, before: LoadedRun, changes: Mapping[str, tuple[Delta, ...]]) -> list[str]:
    """Return what is new about the later pick."""
    if now is None:
        return []
    key = now.configuration.key
    then = _counterpart(now, before)
    if then is None:
        return [f"{key} is new"]
    if then.status is not Status.OK:
        return [f"{key} was {then.status} before ({then.reason})"]
    return [_changed_text(key, c) for c in changes.get(key, ()) if c.counts and not c.worse][:CHANGES_SHOWN]


def _changed_text(key: str, change: Delta) -> str:
    ends = [
        "unknown" if quantity is None else show_figure(change.figure, quantity.value)
        for quantity in (change.before, change.after)
    ]
    return f"{change.figure.replace('_', ' ')} of {key} {ends[0]} -> {ends[1]}"
