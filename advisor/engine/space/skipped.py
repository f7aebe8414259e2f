"""Skip what cannot meet the budget, with the reason; and evaluate a little of it if nothing else meets it."""

from __future__ import annotations

from collections.abc import Sequence

from advisor.core.evaluation import Configuration, Evaluation, Status
from advisor.engine.pipeline.names import StageName
from advisor.engine.pipeline.rule import RuleNeeds, Rules
from advisor.engine.space.plan import Plan
from advisor.store import RunFolder

RESCUED = 2
"""Skipped cards, or files, that are evaluated after all if nothing meets the budget."""

TOO_SLOW = (StageName.SCREEN, StageName.PREDICT)
"""Stages that skip what would be too slow."""

UNDECIDED = (StageName.STOP, StageName.PROMOTION)
"""Stages whose skipped configurations are considered again when a run is resumed."""


def skip_ruled_out(run: RunFolder, plan: Plan, rules: Rules) -> list[Evaluation]:
    """Record what is ruled out beforehand, and return all evaluations that are final.

    Final is what an earlier part of the run evaluated, and what cannot meet the size budget or the accepted licences.
    A failure may have been the machine's: a resumed run tries it again. It also considers again what was skipped
    because its training could not reach the front.
    """
    own = set(plan.configurations())
    ended = [e for e in run.evaluations() if e.status is not Status.FAILED and e.stage not in UNDECIDED]
    done = {e.configuration: e for e in ended if e.configuration in own}
    for configuration, reason in ruled_out(plan, rules).items():
        if configuration not in done:
            family = plan.cards_by_name[configuration.card].family
            done[configuration] = Evaluation(configuration, Status.SKIPPED, family, reason, StageName.PLAN)
            run.append(done[configuration])
    return list(done.values())


def ruled_out(plan: Plan, rules: Rules) -> dict[Configuration, str]:
    """Return what the plan alone rules out, with the reason.

    A rule that rejects everything rules nothing out: the closest answer needs figures.
    """
    found: dict[Configuration, str] = {}
    for rule in rules.that_need(RuleNeeds.PLAN):
        reasons = {each: rule.reason(each, rules.known) for each in plan.configurations()}
        if not all(reasons.values()):
            found |= {each: reason for each, reason in reasons.items() if reason}
    return found


def record_unevaluated(run: RunFolder, plan: Plan, why: str) -> None:
    """Record each card of which nothing was evaluated, with the reason why the search ended.

    Every card of the question is then in the answer: evaluated, failed, or skipped with a reason.
    """
    named = {evaluation.configuration.card for evaluation in run.evaluations()}
    for configuration in plan.configurations():
        if configuration.card not in named:
            family = plan.cards_by_name[configuration.card].family
            run.append(Evaluation(configuration, Status.SKIPPED, family, f"not started: {why}", StageName.STOP))


def too_slow(plan: Plan, evaluations: Sequence[Evaluation]) -> list[Configuration]:
    """Return the cards with the fewest MACs of those that were too slow; none if anything was evaluated."""
    if any(e.status is Status.OK for e in evaluations):
        return []
    screened = {e.configuration.card for e in evaluations if e.stage in TOO_SLOW}
    fewest = sorted((card for card in plan.cards if card.name in screened), key=lambda card: card.macs)[:RESCUED]
    names = {card.name for card in fewest}
    return [c for c in plan.configurations() if c.card in names and c.training == plan.trainings[0]]


def too_large(plan: Plan, evaluations: Sequence[Evaluation]) -> list[Configuration]:
    """Return the smallest of the files over the size budget."""
    cards = plan.cards_by_name
    filtered = [e.configuration for e in evaluations if e.stage == StageName.PLAN and e.configuration.card in cards]
    smallest = sorted(filtered, key=lambda c: plan.least_size(cards[c.card], c.compression))
    chosen = [(c.card, c.compression) for c in smallest[: RESCUED * len(plan.threads)]]
    return [c for c in filtered if (c.card, c.compression) in chosen]
