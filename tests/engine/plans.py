"""Plans of searches that were never asked for, by the names of what differs."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from advisor.catalog import Card
from advisor.engine import Question, Role, Workload
from advisor.engine._pipeline.images import CAPTURED_IMAGES, SUBSET_IMAGES
from advisor.engine._space.plan import Plan

ASKED = {"threads": "thread_counts", "tunings": "tune_training"}
"""Names in the question."""


def planned(
    cards: Sequence[Card], recipes: Sequence[str], threads: Sequence[int], trainings: Sequence[str], runtime: str,
    **more: Any,
) -> Plan:  # fmt: skip
    """Return a plan; ``more`` is what :func:`changed` takes."""
    workload = Workload(tuple(trainings), tuple(recipes))
    return changed(Plan(tuple(cards), workload, runtime), threads=tuple(threads), **more)


def changed(plan: Plan, **changes: Any) -> Plan:
    """Return the plan with other images, recipes, trainings, threads, trials or own attributes."""
    work, now = plan.workload, plan.workload.images
    counts = image_counts(
        changes.pop("images", plan.images),
        changes.pop("validation", now.get(Role.VALIDATION, 0)),
        changes.pop("holdout", plan.holdout),
        changes.pop("subset", SUBSET_IMAGES),
    )
    question = replace(work.question, **{ASKED[name]: changes.pop(name) for name in ASKED if name in changes})
    own = {name: changes.pop(name) for name in ("trainings", "recipes") if name in changes}
    work = replace(work, images=counts, question=question, **own)
    return replace(plan, workload=work, **changes)


def asking(plan: Plan, question: Question) -> Plan:
    """Return the plan for a question; its threads stay."""
    return replace(plan, workload=replace(plan.workload, question=replace(question, thread_counts=plan.threads)))


def image_counts(learnt: int, validation: int, holdout: int, subset: int = SUBSET_IMAGES) -> dict[Role, int]:
    """Return the number of images by role; ``learnt`` includes validation, and a quick head has at most ``subset``."""
    if not learnt:
        return {}
    return {
        Role.TRAIN: learnt - validation,
        Role.VALIDATION: validation,
        Role.LEARNT: learnt,
        Role.ALL: learnt + holdout,
        Role.SUBSET: min(subset, learnt - validation),
        Role.HOLDOUT: holdout,
        Role.CAPTURED: min(holdout, CAPTURED_IMAGES),
    }
