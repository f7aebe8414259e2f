"""Declare what a rule is that rejects configurations: what it knows, and when it is asked.

``advisor/engine/_rules.py`` lists the rules of a search. The plan asks those that need nothing
else, and the evaluator asks the others before it spends time on a configuration. A reason that a
rule gives is in ``evaluations.jsonl`` and in the report.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, NamedTuple

from advisor.core import Configuration, Limits, Status
from advisor.engine._pipeline.stage import StageAborted, StageName


class RuleNeeds(StrEnum):
    """The facts that a rule needs, in the order in which a search learns them.

    A rule is asked as soon as it can be.
    """

    PLAN = "the search space"  # Asked by the plan, before the search
    # Asked by the evaluator before any job, and by ``advisor plan``.
    PREDICTION = "predictions for other devices"
    BACKBONE = "the time of the float backbone"  # Asked by the evaluator, before training
    # Asked by the evaluator, before a form is made.
    LIGHTER = "what lighter recipes lost on the same network"


@dataclass(frozen=True)
class Known:
    """The facts that a search has when it asks a rule;
    all but the limits are there for rules that need them.

    ``backbone_ms`` is the CPU time of the float backbone for an image. ``lighter`` are the recipes
    that were tried before, the lightest first, and ``drops`` the points that each lost; None if
    its file could not be scored or exceeds a limit of another metric's drop, no entry if it gave
    none.
    """

    limits: Limits
    backbone_ms: float = 0.0
    lighter: tuple[str, ...] = ()
    drops: Mapping[str, float | None] = field(default_factory=dict)


class RejectionRule(NamedTuple):
    """Returns the ``reason`` to reject a configuration, empty if there is none;
    evaluations note its ``stage``.
    """

    needs: RuleNeeds
    stage: StageName
    reason: Callable[[Configuration, Known], str]


@dataclass(frozen=True)
class Rules:
    """The limits of a search, and its rules in the order in which they are asked."""

    limits: Limits
    listed: tuple[RejectionRule, ...] = ()

    @property
    def known(self) -> Known:
        """The facts that are known of every configuration."""
        return Known(self.limits)

    def that_need(self, needs: RuleNeeds) -> tuple[RejectionRule, ...]:
        """Return the rules that are asked when something is known."""
        return tuple(rule for rule in self.listed if rule.needs is needs)

    def find_reason(self, needs: RuleNeeds, candidate: Configuration) -> str:
        """Return the first reason to reject a configuration by what is known of every one;
        empty if there is none.
        """
        for rule in self.that_need(needs):
            reason = rule.reason(candidate, self.known)
            if reason:
                return reason
        return ""

    def require_none(self, needs: RuleNeeds, candidate: Configuration, **facts: Any) -> None:
        """Raise :class:`StageAborted` for the first reason to reject a configuration,
        of which ``facts`` are known.
        """
        known = replace(self.known, **facts)
        for rule in self.that_need(needs):
            reason = rule.reason(candidate, known)
            if reason:
                raise StageAborted(Status.SKIPPED, rule.stage, reason)
