"""Gains and costs of switching from a file that the user ships to the pick."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from advisor.core.evaluation import Evaluation, Status
from advisor.core.figures import latency_of
from advisor.core.quantity import Provenance, Quantity
from advisor.core.statistics import paired
from advisor.datasets.split import HOLDOUT, VALIDATION
from advisor.engine.decide import correct_answers
from advisor.engine.history.disagreements import PARTS
from advisor.store import RunFolder


@dataclass(frozen=True)
class Incumbent:
    """A file that the user ships today, beside the pick.

    Attributes:
        evaluation: the file with the threads of the pick, if it was measured with them.
        picked: it is the pick itself.
        points: accuracy of the pick less that of the file on the same images, with a 95 % interval; None if it is not
            known.
        part: the part of these images in words.
    """

    evaluation: Evaluation
    picked: bool
    points: Quantity | None = None
    part: str = ""


def incumbents(
    run: RunFolder, evaluations: Sequence[Evaluation], pick: Evaluation | None, robust: bool = False
) -> tuple[Incumbent, ...]:
    """Return the files that the user ships, in the order of their names.

    Accuracies are compared on the hold-out if both files ran there, otherwise on validation. If candidates are compared
    under capture conditions (``robust``), it is validation.
    """
    shipped = [each for each in evaluations if each.status is Status.OK and each.card_facts.as_it_is]
    if pick is None:
        return ()
    there = [each for each in shipped if each.configuration.target.device == pick.configuration.target.device]
    names = sorted({each.configuration.card for each in there})
    return tuple(
        _compared(run, _nearest([each for each in there if each.configuration.card == name], pick), pick, robust)
        for name in names
    )


def _nearest(rows: Sequence[Evaluation], pick: Evaluation) -> Evaluation:
    """Return the evaluation with the threads of the pick, or the fastest."""
    threads = pick.configuration.target.threads
    return min(rows, key=lambda each: (each.configuration.target.threads != threads, latency_of(each)))


def _compared(run: RunFolder, own: Evaluation, pick: Evaluation, robust: bool) -> Incumbent:
    if own.configuration.card == pick.configuration.card:
        return Incumbent(own, picked=True)
    for part in (VALIDATION,) if robust else (HOLDOUT, VALIDATION):
        ours, theirs = correct_answers(run, own, part), correct_answers(run, pick, part)
        if ours and theirs:
            gained = paired(theirs, ours)
            value, low, high = (100 * each for each in (gained.value, gained.low, gained.high))
            points = Quantity(value, "points", Provenance.MEASURED, low, high, 0.95, len(ours), PARTS[part])
            return Incumbent(own, False, points, PARTS[part])
    return Incumbent(own, picked=False)
