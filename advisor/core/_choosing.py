"""The rule of the pick: of the files that the images do not show to be behind the best one,
the cheapest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from advisor.core._choice import Choice
from advisor.core._evaluation import (
    Configuration,
    Evaluation,
    Status,
    Variant,
)
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
        cost = costs_of(evaluation)
        if cost is not None:
            points.append((evaluation, cost))
    best: list[tuple[Evaluation, Costs]] = []
    # What dominates a point comes before it.
    for evaluation, cost in sorted(points, key=lambda pair: pair[1]):
        if not any(dominates(other, cost) for _, other in best):
            best.append((evaluation, cost))
    return tuple(
        evaluation
        for evaluation, cost in sorted(best, key=lambda pair: (pair[1][1], pair[0].configuration))
    )


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
        others. Of equal accuracies, a fine-tuned network comes before its head, which costs the
        same, if all epochs were trained. Resampled images must not choose another one more often:
        then the next cheapest is the pick.
        """
        best = self.most_accurate(feasible)
        ties = self.posterior.tied(best, feasible)
        tied = []
        for evaluation, tie in zip(feasible, ties, strict=True):
            if tie or evaluation is best:
                tied.append(evaluation)
        # A preference that prices accuracy pays for the points behind the best,
        # so it leaves nothing out in advance.
        weighed = tied if self.preference.accuracy_first else feasible
        # The figure of validation chose these files, so it flatters them.
        # Only the hold-out can say otherwise.
        judged = [e for e in weighed if e.holdout_accuracy is not None]
        allowed = weighed
        if judged and self.judged_first and self.preference.accuracy_first:
            allowed = judged
        ranking = self._by_loss(allowed, best)
        # Far down the ranking nothing becomes the pick by resampling,
        # and each file costs its share of the samples.
        pick, shares = self._steady(ranking[:MOST_LIKELY])
        ((behind,),), ((noise,),) = self.posterior.differences([pick], [best])
        wanted = pick
        # The answer names the file that only its missing figure
        # on the hold-out kept from being the pick.
        if len(allowed) < len(weighed):
            wanted = self._steady(self._by_loss(weighed, best)[:MOST_LIKELY])[0]
        unsteady = None
        if ranking[0].variant != pick.variant:
            unsteady = ranking[0]
        unjudged = None
        if wanted.holdout_accuracy is None and pick.holdout_accuracy is not None:
            unjudged = wanted
        return Choice(
            pick=pick,
            best=best,
            behind_points=max(0.0, float(behind)),
            noise_points=float(noise),
            tied=tuple(sorted(tied, key=lambda e: -e.accuracy_percent)),
            chances=_chances(ranking, pick, shares),
            unjudged=unjudged,
            unsteady=unsteady,
        )

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

    def _by_loss(self, allowed: Sequence[Evaluation], best: Evaluation) -> list[Evaluation]:
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
        losses = self._losses(pool, behind, latencies).round(9).tolist()

        def rank(row: tuple[float, Evaluation]) -> tuple[object, ...]:
            loss, evaluation = row
            figures = -evaluation.accuracy_percent, evaluation.latency_ms, evaluation.size_bytes
            return loss, *figures, evaluation.configuration

        return [evaluation for _, evaluation in sorted(zip(losses, pool, strict=True), key=rank)]

    def _steady(self, pool: Sequence[Evaluation]) -> tuple[Evaluation, dict[Variant, float]]:
        """Return the first of the pool that no other file replaces more often,
        and how often each file is chosen.

        Images and timings are resampled. A file stays in a draw unless another one is better there
        by more than the noise of their difference; then the best one of the draw takes its place.
        """
        import numpy as np

        accuracies, latencies = self.posterior.draws(pool)
        losses = self._losses(pool, -accuracies, latencies)
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

    def _losses(self, pool: Sequence[Evaluation], behind: Floats, latencies: Floats) -> Floats:
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


def _chances(
    pool: Sequence[Evaluation], pick: Evaluation, shares: Mapping[Variant, float]
) -> dict[str, float]:
    """Return the shares above 0 by key:
    that of the pick, then of each other file's fastest evaluation, by size.
    """
    chances = {pick.configuration.key: round(shares[pick.variant], CHANCE_DIGITS)}
    for file in sorted(shares, key=lambda file: -shares[file]):
        if file != pick.variant and shares[file] > 0:
            fastest = min(
                (e for e in pool if e.variant == file),
                key=lambda evaluation: evaluation.latency_ms,
            )
            chances[fastest.configuration.key] = round(shares[file], CHANCE_DIGITS)
    return chances
