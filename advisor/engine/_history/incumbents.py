"""Compare the files that the user ships today with the pick of a run.

They are cards of finished files (``advisor catalog add --as-it-is``), which a search measures and
never trains. A report shows whether the pick is worth a change of the file in the app.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from advisor.core import Evaluation, Interval, Provenance, Quantity, Status
from advisor.datasets import SplitPart
from advisor.engine._image_answers import PART_NAMES, correct_answers, read_groups
from advisor.store import RunFolder


@dataclass(frozen=True)
class Incumbent:
    """A file that the user ships today, beside the pick.

    Attributes:
        evaluation: the file with the threads of the pick, if it was measured with them.
        picked: it is the pick itself.
        points: accuracy of the pick less that of the file on the same images, with a 95 %
            interval; of the pick itself, less that of ``rival``; None if it is not known.
        part: the part of these images in words.
        rival: where the file is the pick, the file trained here that is best on the hold-out; None
            if none ran there.
    """

    evaluation: Evaluation
    picked: bool
    points: Quantity | None = None
    part: str = ""
    rival: Evaluation | None = None


def find_incumbents(
    run: RunFolder,
    evaluations: Sequence[Evaluation],
    pick: Evaluation | None,
    robust: bool = False,
) -> tuple[Incumbent, ...]:
    """Return the files that the user ships, in the order of their names.

    Accuracies are compared on the hold-out if both files ran there
    and ``robust`` accuracy does not count, otherwise on validation.
    """
    if pick is None:
        return ()
    target = pick.configuration.target
    on_target = []
    for evaluation in evaluations:
        is_shipped = evaluation.status is Status.OK and evaluation.card_facts.as_it_is
        if is_shipped and evaluation.configuration.target.device == target.device:
            on_target.append(evaluation)
    # With the threads of the pick, or the fastest.
    on_target.sort(
        key=lambda evaluation: (
            evaluation.configuration.target.threads != target.threads,
            evaluation.latency_ms,
        )
    )
    preferred: dict[str, Evaluation] = {}
    for evaluation in on_target:
        preferred.setdefault(evaluation.configuration.card, evaluation)
    rival = _best_on_holdout(evaluations)
    incumbents = []
    for _, shipped in sorted(preferred.items()):
        incumbents.append(_compare_with_pick(run, shipped, pick, robust, rival))
    return tuple(incumbents)


def _best_on_holdout(evaluations: Sequence[Evaluation]) -> Evaluation | None:
    """Return the file trained here with the highest accuracy on the hold-out;
    None if none ran there.
    """
    best = None
    highest = float("-inf")
    for evaluation in evaluations:
        accuracy = evaluation.holdout_accuracy
        if accuracy is None or evaluation.card_facts.as_it_is:
            continue
        if accuracy.value > highest:
            highest = accuracy.value
            best = evaluation
    return best


def _compare_with_pick(
    run: RunFolder,
    shipped: Evaluation,
    pick: Evaluation,
    robust: bool,
    rival: Evaluation | None,
) -> Incumbent:
    """Return a file that the user ships with its points below the pick, or over the rival if it
    is the pick.
    """
    if shipped.configuration.card == pick.configuration.card:
        # It may have learnt the validation images that chose it,
        # so the hold-out alone tells the two apart.
        points = None
        if rival is not None:
            points = _measure_gain(run, rival, pick, SplitPart.HOLDOUT)
        part = PART_NAMES[SplitPart.HOLDOUT] if points else ""
        return Incumbent(shipped, True, points, part, rival)
    # Robust accuracy is of answers under capture conditions, which validation has.
    parts = (SplitPart.VALIDATION,) if robust else (SplitPart.HOLDOUT, SplitPart.VALIDATION)
    for part in parts:
        points = _measure_gain(run, shipped, pick, part)
        if points is not None:
            return Incumbent(shipped, False, points, PART_NAMES[part])
    return Incumbent(shipped, picked=False)


def _measure_gain(
    run: RunFolder, shipped: Evaluation, pick: Evaluation, part: str
) -> Quantity | None:
    """Return the points of the pick over another file on the same images of a part;
    None if they are not known.
    """
    shipped_shares = correct_answers(run, shipped, part)
    pick_shares = correct_answers(run, pick, part)
    if not shipped_shares or not pick_shares:
        return None
    gain = Interval.difference_of_means(pick_shares, shipped_shares, read_groups(run, part))
    return Quantity(
        value=100 * gain.value,
        unit="points",
        provenance=Provenance.MEASURED,
        low=100 * gain.low,
        high=100 * gain.high,
        level=0.95,
        n=len(shipped_shares),
        source=PART_NAMES[part],
    )
