"""Preview a search: what it would do and cost, by the results of earlier searches.

``advisor plan`` shows it. It writes no file, opens no connection, and starts no child except a
browser that is a device of the question, which is asked for its version.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from advisor.core import UsageError
from advisor.datasets import Overview, SplitPart
from advisor.engine._located_weights import count_spare
from advisor.engine._pipeline.images import Images
from advisor.engine._question import Request
from advisor.engine._search_space import find_search_space
from advisor.engine._space.forecast import PlanView
from advisor.engine._space.resolving import resolve_parts
from advisor.engine._targets.target_devices import TargetDevices
from advisor.isolation import part_of_a_core


def preview(request: Request) -> PlanView:
    """Return what a search would do and what it would cost;
    refuse what ``search`` would refuse.
    """
    from advisor.engine._targets.processor_comparison import describe_units
    from advisor.engine._targets.processors import WHOLE_CARD, choose_processors

    resolved = resolve_parts(request, lambda _: None)
    space = find_search_space(resolved)
    if space is None:
        raise UsageError(
            f"none of {len(resolved.cards)} candidates has weights on this machine or at a known"
            " address",
            "put them into a folder and name it with --mirror DIR, or choose others with"
            " --candidates",
        )
    cards = space.forecast_cards()
    space.refuse_too_short(request, cards)
    plan = space.plan
    budget_ms = plan.workload.question.limits.latency_ms
    choices = choose_processors(space.card_predictor, plan.cards, plan.forms, budget_ms)
    with_processors = []
    for card in cards:
        processors = choices.get((card.card, WHOLE_CARD), ())
        with_processors.append(replace(card, processors=processors))
    unit_remarks = describe_units(space.card_predictor, plan.cards, plan.forms, choices)
    return PlanView(
        request=request,
        forecasts=space.forecast_configurations(choices),
        cards=tuple(with_processors),
        left_out=space.weights.candidates.missing,
        images=plan.images + plan.holdout,
        course=space.forecast_course(request),
        split=overview_of(resolved.images) if resolved.images else None,
        remarks=(
            *resolved.targets.remarks,
            *_describe_doubts(resolved.targets),
            *unit_remarks,
            *resolved.remarks,
            *_describe_quota(),
        ),
        spare=count_spare(resolved, space.weights.candidates),
    )


def _describe_doubts(targets: TargetDevices) -> Iterator[str]:
    """Yield a remark for each doubt about a measurement of the user on the devices of the
    question.
    """
    from advisor.devices import describe_doubts

    for device in targets.devices:
        if device.runtime is None:
            yield from describe_doubts(device.profile, device.target)


def _describe_quota() -> Iterator[str]:
    """Yield a remark where a quota leaves this process less than a core."""
    part = part_of_a_core()
    if part < 1.0:
        yield f"this process may use {part:.2g} of a core; the costs are for that"


def overview_of(images: Images) -> Overview:
    """Return the images, and the boxes if there are any, of each class in each part."""
    split = images.split
    overview = Overview.of_split(images.dataset, split, images.grouping, images.notes)
    if images.boxes is None:
        return overview
    parts = {
        SplitPart.TRAIN: split.train,
        SplitPart.VALIDATION: split.validation,
        SplitPart.HOLDOUT: split.holdout,
    }
    return replace(
        overview, boxes={part: images.boxes.among(indices) for part, indices in parts.items()}
    )
