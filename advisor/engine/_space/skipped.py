"""Record which configurations a search does not evaluate, and choose which it evaluates after all.

The search loop asks before its first job (:func:`skip_ruled_out`), when nothing meets the budget
(:func:`list_too_slow`, :func:`list_too_large`) and at its end (:func:`list_failed_timings`). The
stage and the reason of a skipped configuration are in ``evaluations.jsonl``, and a resumed run
reads them: :data:`UNDECIDED` stages are considered again.
"""

from collections.abc import Sequence

from advisor.core import HOST, Configuration, Evaluation, Status
from advisor.engine._pipeline.rule import RuleNeeds, Rules
from advisor.engine._pipeline.stage import StageName
from advisor.engine._space.plan import Plan
from advisor.store import RunFolder

RESCUED = 2
"""Skipped cards, or files, that are evaluated after all if nothing meets the budget."""

TOO_SLOW = (StageName.SCREEN, StageName.PREDICT)
"""Stages that skip what would be too slow."""

UNDECIDED = (StageName.STOP, StageName.PROMOTION)
"""Stages whose skipped configurations are considered again when a run is resumed."""


def skip_ruled_out(run: RunFolder, plan: Plan, rules: Rules) -> list[Evaluation]:
    """Record what is ruled out beforehand, and return all evaluations that are final.

    A failure may have been the machine's: a resumed run tries it again. It also considers again
    what was skipped because its training could not reach the front.
    """
    planned = set(plan.configurations())
    done = {}
    for evaluation in run.evaluations():
        is_final = evaluation.status is not Status.FAILED and evaluation.stage not in UNDECIDED
        if is_final and evaluation.configuration in planned:
            done[evaluation.configuration] = evaluation
    for configuration, reason in rule_out(plan, rules).items():
        if configuration not in done:
            done[configuration] = plan.skipped(configuration, reason, StageName.PLAN)
            run.append(done[configuration])
    return list(done.values())


def rule_out(plan: Plan, rules: Rules) -> dict[Configuration, str]:
    """Return what the plan alone rules out, with the reason.

    A rule that rejects everything rules nothing out.
    """
    reasons: dict[Configuration, str] = {}
    for rule in rules.that_need(RuleNeeds.PLAN):
        rejected = {}
        keeps_some = False
        for configuration in plan.configurations():
            reason = rule.reason(configuration, rules.known)
            if reason:
                rejected[configuration] = reason
            else:
                keeps_some = True
        # Without any file, the answer could not say what comes closest to the limit.
        if keeps_some:
            reasons |= rejected
    return reasons


def record_unevaluated(run: RunFolder, plan: Plan, why: str) -> None:
    """Record each card of which nothing was evaluated, with the reason why the search ended."""
    evaluated = {evaluation.configuration.card for evaluation in run.evaluations()}
    for configuration in plan.configurations():
        if configuration.card in evaluated:
            continue
        # A head may have been trained and judged when the search ended.
        answers = run.path / RunFolder.name_answers(configuration.file_stem)
        state = Evaluation.NOT_TIMED if answers.exists() else Evaluation.NOT_STARTED
        run.append(plan.skipped(configuration, f"{state}: {why}", StageName.STOP))


def list_failed_timings(evaluations: Sequence[Evaluation]) -> list[Configuration]:
    """Return the configurations that failed while this machine timed them."""
    failed = []
    for evaluation in evaluations:
        on_this_machine = evaluation.configuration.target.device == HOST
        has_failed = evaluation.status is Status.FAILED
        if on_this_machine and has_failed and evaluation.stage == StageName.TIMING:
            failed.append(evaluation.configuration)
    return failed


def list_too_slow(plan: Plan, evaluations: Sequence[Evaluation]) -> list[Configuration]:
    """Return configurations of the cards with the fewest MACs of those that were too slow;
    none if anything was evaluated.
    """
    if any(evaluation.status is Status.OK for evaluation in evaluations):
        return []
    screened = set()
    for evaluation in evaluations:
        if evaluation.stage in TOO_SLOW:
            screened.add(evaluation.configuration.card)
    cards = [card for card in plan.cards if card.name in screened]
    fewest_macs_first = sorted(cards, key=lambda card: card.macs)
    rescued = {card.name for card in fewest_macs_first[:RESCUED]}
    lightest = plan.trainings[0]
    configurations = []
    for configuration in plan.configurations():
        if configuration.card in rescued and configuration.training == lightest:
            configurations.append(configuration)
    return configurations


def list_too_large(plan: Plan, evaluations: Sequence[Evaluation]) -> list[Configuration]:
    """Return the smallest of the files over the size budget."""
    cards = plan.cards_by_name

    def find_least_size(configuration: Configuration) -> float:
        return plan.least_size(cards[configuration.card], configuration.compression)

    ruled_out = []
    for evaluation in evaluations:
        if evaluation.stage == StageName.PLAN and evaluation.configuration.card in cards:
            ruled_out.append(evaluation.configuration)
    # If nothing meets the size budget, the nearest miss tells the user by how much to raise it.
    smallest = sorted(ruled_out, key=find_least_size)[: RESCUED * len(plan.threads)]
    files = {(configuration.card, configuration.compression) for configuration in smallest}
    return [
        configuration
        for configuration in ruled_out
        if (configuration.card, configuration.compression) in files
    ]
