"""The rule of the pick: of the files that the images do not show to be behind the best one,
the cheapest.

``_decision.py`` applies it to the evaluations that meet the limits, and again under other limits
and preferences, to say what would change the pick. A change of the rule changes the answer of
every earlier run that is read again; decision 0138 in ``docs/decisions`` gives its reasons.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from advisor.core._choice import Choice
from advisor.core._configuration import Configuration, Variant
from advisor.core._evaluation import Evaluation, Status
from advisor.core._posterior import Posterior
from advisor.core._preference import Preference
from advisor.core._training import recipe_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

Costs = tuple[float, ...]
"""Accuracy negated, latency and size: less is better."""

CHANCE_DIGITS = 3

MOST_LIKELY = 64
"""The cheapest candidates, whose chances to be the pick are computed."""


def costs_of(evaluation: Evaluation) -> Costs | None:
    """Return (negative accuracy in %, latency in ms, size in bytes), to be minimised;
    None where one is missing.
    """
    accuracy = evaluation.accuracy
    latency = evaluation.latency
    size = evaluation.size
    if evaluation.status is not Status.OK or accuracy is None or latency is None or size is None:
        return None
    return (-accuracy.value, latency.value, size.value)


def dominates(first: Costs, second: Costs) -> bool:
    """Return whether ``first`` is nowhere worse than ``second`` and somewhere better."""
    return all(a <= b for a, b in zip(first, second, strict=True)) and first != second


def front(evaluations: Sequence[Evaluation]) -> tuple[Evaluation, ...]:
    """Return the evaluations that no other dominates, fastest first,
    of those that are ok with the three figures.
    """
    points: list[tuple[Evaluation, Costs]] = []
    for evaluation in evaluations:
        costs = costs_of(evaluation)
        if costs is not None:
            points.append((evaluation, costs))
    on_front: list[tuple[Evaluation, Costs]] = []
    # What dominates a point comes before it.
    for evaluation, costs in sorted(points, key=lambda point: point[1]):
        if not any(dominates(other, costs) for _, other in on_front):
            on_front.append((evaluation, costs))

    def rank(point: tuple[Evaluation, Costs]) -> tuple[float, Configuration]:
        evaluation, (_, latency_ms, _size) = point
        return latency_ms, evaluation.configuration

    return tuple(evaluation for evaluation, _ in sorted(on_front, key=rank))


@dataclass(frozen=True)
class Chooser:
    """Applies the rule to evaluations that meet the limits."""

    posterior: Posterior
    preference: Preference
    #: whether files with a figure on the hold-out come before those without one
    judged_first: bool = True

    def pick(self, feasible: Sequence[Evaluation]) -> Evaluation:
        """Return what the rule chooses."""
        return self.choose(feasible).pick

    def choose(self, feasible: Sequence[Evaluation]) -> Choice:
        """Return what the rule chooses of at least one evaluation, and why.

        Of the candidates that are tied with the most accurate one, the cheapest by the preference.
        A file with a figure on the hold-out comes before the price: nothing else judged the
        others. A head gives way to its network, fine-tuned in all epochs, that is at least as
        accurate: both cost the same. Resampled images must not choose another one more often:
        then the next cheapest is the pick.
        """
        best = self.most_accurate(feasible)
        tied = self._list_tied(best, feasible)
        # A preference that prices accuracy pays for the points behind the best,
        # so it leaves nothing out in advance.
        weighed = tied if self.preference.accuracy_first else feasible
        allowed = self._list_judged(weighed) or weighed
        ranking = self._rank_by_loss(allowed, best)
        # Far down the ranking nothing becomes the pick by resampling,
        # and each file costs its share of the samples.
        pick, shares = self._find_steady(ranking[:MOST_LIKELY])
        ((behind,),), ((noise,),) = self.posterior.differences([pick], [best])
        unsteady = None
        if ranking[0].variant != pick.variant:
            unsteady = ranking[0]
        unjudged = None
        if len(allowed) < len(weighed):
            unjudged = self._find_unjudged(weighed, best)
        return Choice(
            pick=pick,
            best=best,
            behind_points=max(0.0, float(behind)),
            noise_points=float(noise),
            tied=tuple(sorted(tied, key=lambda e: -e.accuracy_percent)),
            chances=_list_chances(ranking, pick, shares),
            unjudged=unjudged,
            unsteady=unsteady,
        )

    def _list_tied(self, best: Evaluation, feasible: Sequence[Evaluation]) -> list[Evaluation]:
        """Return the evaluations that the images do not show to be behind the best one."""
        tied = []
        ties = self.posterior.tied(best, feasible)
        for evaluation, is_tied in zip(feasible, ties, strict=True):
            if is_tied or evaluation is best:
                tied.append(evaluation)
        return tied

    def _list_judged(self, weighed: Sequence[Evaluation]) -> list[Evaluation]:
        """Return the evaluations with a figure on the hold-out if they come first, else none.

        The figure of validation chose these files, so it flatters them.
        Only the hold-out can say otherwise.
        """
        if not (self.judged_first and self.preference.accuracy_first):
            return []
        return [e for e in weighed if e.holdout_accuracy is not None]

    def _find_unjudged(self, weighed: Sequence[Evaluation], best: Evaluation) -> Evaluation | None:
        """Return the file that only its missing figure on the hold-out kept from being the pick;
        None if the pick would be a judged one anyway.
        """
        ranking = self._rank_by_loss(weighed, best)
        wanted, _ = self._find_steady(ranking[:MOST_LIKELY])
        if wanted.holdout_accuracy is None:
            return wanted
        return None

    def most_accurate(self, feasible: Sequence[Evaluation]) -> Evaluation:
        """Return the most accurate evaluation, of equal ones the fastest and smallest."""
        return max(feasible, key=lambda e: (e.accuracy_percent, -e.latency_ms, -e.size_bytes))

    def _find_equal_heads(self, tied: Sequence[Evaluation]) -> set[Configuration]:
        """Return the heads of which the same file, fine-tuned, is tied and at least as accurate.

        Both cost the same, and fine-tuning usually gains.
        It gains less in a training that a time limit shortened.
        """
        if not self.preference.accuracy_first:
            return set()
        by_configuration = {e.configuration: e for e in tied}
        heads = set[Configuration]()
        for tuned in tied:
            if not tuned.is_wholly_tuned:
                continue
            configuration = tuned.configuration
            head = by_configuration.get(
                replace(configuration, training=recipe_of(configuration.training).over)
            )
            if head is not None and head.accuracy_percent <= tuned.accuracy_percent:
                heads.add(head.configuration)
        return heads

    def _rank_by_loss(self, allowed: Sequence[Evaluation], best: Evaluation) -> list[Evaluation]:
        """Return what no other dominates by rising loss: the prices of latency and size and of the
        points behind the best. Heads that are no better than their fine-tuned networks are left
        out.
        """
        import numpy as np

        heads = self._find_equal_heads(allowed)
        pool = front([e for e in allowed if e.configuration not in heads])
        behind = self.posterior.differences(pool, [best])[0][:, 0]
        latencies = np.array([e.latency_ms for e in pool])
        # Rounded, so that neither a unit nor the order of a sum decides between equal losses.
        losses = self._compute_losses(pool, behind, latencies).round(9).tolist()

        def rank(row: tuple[float, Evaluation]) -> tuple[object, ...]:
            loss, evaluation = row
            figures = -evaluation.accuracy_percent, evaluation.latency_ms, evaluation.size_bytes
            return loss, *figures, evaluation.configuration

        return [evaluation for _, evaluation in sorted(zip(losses, pool, strict=True), key=rank)]

    def _find_steady(self, pool: Sequence[Evaluation]) -> tuple[Evaluation, dict[Variant, float]]:
        """Return the first of the pool that no other file replaces more often,
        and how often each file is chosen.

        Images and timings are resampled. A file stays in a draw unless another one is better there
        by more than the noise of their difference; then the best one of the draw takes its place.
        """
        import numpy as np

        accuracies, latencies = self.posterior.draws(pool)
        losses = self._compute_losses(pool, -accuracies, latencies)
        noise = self.preference.price_of_points(self.posterior.differences(pool, pool)[1])
        least = losses.argmin(axis=1)
        for place, evaluation in enumerate(pool):
            stays = (losses[:, [place]] - losses <= noise[place] + 1e-9).all(axis=1)
            wins = np.bincount(np.where(stays, place, least), minlength=len(pool))
            counts = _count_by_file(pool, wins.tolist())
            if counts[evaluation.variant] == max(counts.values()):
                return evaluation, {file: count / len(losses) for file, count in counts.items()}
        # Staying takes draws from other files only.
        # So the file that is best most often has most of them here, too.
        raise AssertionError("one file is chosen most often")

    def _compute_losses(
        self, pool: Sequence[Evaluation], behind: Floats, latencies: Floats
    ) -> Floats:
        """Return the loss of each candidate (last axis),
        from points behind any fixed accuracy and latencies in ms.
        """
        import numpy as np

        sizes = np.array([e.size_bytes for e in pool])
        losses: Floats = self.preference.price(latencies, sizes) + self.preference.price_of_points(
            behind
        )
        return losses


def _count_by_file(pool: Sequence[Evaluation], wins: Sequence[int]) -> dict[Variant, int]:
    """Return how often each file is chosen; it has one evaluation for each number of threads."""
    counts = dict[Variant, int]()
    for evaluation, count in zip(pool, wins, strict=True):
        counts[evaluation.variant] = counts.get(evaluation.variant, 0) + count
    return counts


def _list_chances(
    pool: Sequence[Evaluation], pick: Evaluation, shares: Mapping[Variant, float]
) -> dict[str, float]:
    """Return the shares above 0 by key:
    that of the pick, then of each other file's fastest evaluation, by size.
    """
    chances = {pick.configuration.key: round(shares[pick.variant], CHANCE_DIGITS)}
    for file in sorted(shares, key=lambda file: -shares[file]):
        if file != pick.variant and shares[file] > 0:
            timings = [evaluation for evaluation in pool if evaluation.variant == file]
            fastest = min(timings, key=lambda evaluation: evaluation.latency_ms)
            chances[fastest.configuration.key] = round(shares[file], CHANCE_DIGITS)
    return chances
