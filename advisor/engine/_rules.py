"""List the rules that reject a configuration, before or while it is evaluated.

The plan asks them before a search begins, and the evaluator of the pipeline while it works: a
rejected configuration becomes an evaluation that was skipped, with the reason. Reasons are read by
people and stand in ``evaluations.jsonl``.
"""

from functools import partial

from advisor.core import Configuration, show_bytes, show_ms
from advisor.engine._pipeline.rule import Known, RejectionRule, RuleNeeds, Rules
from advisor.engine._pipeline.stage import StageName
from advisor.engine._space.plan import Plan
from advisor.engine._targets.device_prediction import CardPredictor

SCREEN_MARGIN = 6.0
"""Largest ratio of the float backbone's time (with all cores) to the budget at which a card is
trained. int8 was measured up to 2.3 times faster than float with LiteRT 2.3 on x86 (MobileNetV2),
so no good card is lost.
"""


def rules_of(plan: Plan, card_predictor: CardPredictor) -> Rules:
    """Return the rules of a search, in the order in which they are asked;
    a rule that cannot apply is left out.

    To add a rule, write a function or a method ``reason(candidate, known)``, and add a line. Its
    need (:class:`RuleNeeds`) says when it can be asked, its stage how far the work came.
    """
    question = plan.workload.question
    on_host = card_predictor.targets.host
    elsewhere = bool(card_predictor.targets.devices)
    images = question.data is not None
    threads = max(question.thread_counts)
    limited = question.limits.latency_ms is not None
    # From cheap to expensive: the plan alone, a prediction, a timing of the backbone,
    # and then results of lighter recipes.
    rules = [
        RejectionRule(RuleNeeds.PLAN, StageName.PLAN, partial(explain_size, plan)),
        RejectionRule(RuleNeeds.PLAN, StageName.PLAN, partial(explain_licence, plan)),
    ]
    if elsewhere:
        explain = card_predictor.explain_no_training
        rules.append(RejectionRule(RuleNeeds.PREDICTION, StageName.PREDICT, explain))
    if images and on_host and limited:
        explain = partial(explain_slowness, threads)
        rules.append(RejectionRule(RuleNeeds.BACKBONE, StageName.SCREEN, explain))
    rules.append(RejectionRule(RuleNeeds.LIGHTER, StageName.COMPRESS, explain_needless))
    return Rules(question.limits, tuple(rules))


def explain_size(plan: Plan, candidate: Configuration, known: Known) -> str:
    """Return why no file of a card meets the size budget; empty if one may."""
    card = plan.cards_by_name[candidate.card]
    limit = known.limits.size_bytes
    least = plan.least_size(card, candidate.compression)
    if limit is None or card.own_file or least <= limit:
        return ""
    return (
        f"its file has at least {show_bytes(least)}, more than the size budget {show_bytes(limit)}"
    )


def explain_licence(plan: Plan, candidate: Configuration, known: Known) -> str:
    """Return why the licence of a card is not accepted; empty if it is."""
    return known.limits.licence_refusal(plan.cards_by_name[candidate.card].licence)


def explain_slowness(threads: int, _candidate: Configuration, known: Known) -> str:
    """Return why a card cannot meet the latency budget in any form, by its float backbone;
    empty if it may.
    """
    limit = known.limits.latency_ms
    least_ms = known.backbone_ms
    if limit is None or least_ms / threads <= SCREEN_MARGIN * limit:
        return ""
    return (
        f"its float backbone takes {show_ms(least_ms)} of CPU time an image, over"
        f" {SCREEN_MARGIN:.0f} times the budget {show_ms(limit)} with every thread at work: not"
        " trained"
    )


def explain_needless(_candidate: Configuration, known: Known) -> str:
    """Return why a recipe is not worth trying after the lighter ones; empty if it is."""
    limit = known.limits.max_drop_points
    if not known.lighter:
        return ""
    if not known.limits.drops:
        return f"no --max-drop was given, so {known.lighter[0]} cannot miss it"
    for before in known.lighter:
        drop = known.drops.get(before)
        if drop is not None and (limit is None or drop <= limit):
            return f"{before} keeps within --max-drop already: it lost {drop:.1f} points"
    if not any(before in known.drops for before in known.lighter):
        return f"{known.lighter[-1]} gave no file to improve on"
    return ""
