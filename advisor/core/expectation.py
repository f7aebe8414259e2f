"""Figures that follow from others: the accuracy in new conditions, and the worst case of several devices."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import NormalDist

from advisor.core.beliefs import top1_on_parts
from advisor.core.evaluation import Evaluation, Status
from advisor.core.evaluation_facts import DeviceFigures, NewConditions
from advisor.core.figures import latency_of, p90_of, variant_of
from advisor.core.quantity import Provenance, Quantity
from advisor.core.training import recipe_of

OWN_HOLDOUT = "the hold-out of your own split, run in LiteRT"

LEVEL = 0.95
LEAST = 1e-3
"""Accuracies are kept at this distance from 0 and 1, where log odds are infinite."""


def with_new_conditions(evaluation: Evaluation, own_holdout: bool = False) -> Evaluation:
    """Return the evaluation with its top-1 in new conditions, if it can be estimated; of detectors, their figure.

    Args:
        evaluation: a candidate with its measured accuracies.
        own_holdout: the user's own split names the hold-out, which then is the figure itself.
    """
    facts = evaluation.expectation
    plain, judged = top1_on_parts(evaluation)
    if own_holdout:
        return replace(evaluation, new_conditions=replace(judged, source=OWN_HOLDOUT) if judged else None)
    if facts is None or plain is None:
        return evaluation
    if judged and not facts.grouped:
        plain = judged
    finetuned = recipe_of(evaluation.configuration.training).tunes_backbone
    return replace(evaluation, new_conditions=_at_most(in_new_conditions(plain, facts, finetuned), judged))


def in_new_conditions(plain: Quantity, facts: NewConditions, finetuned: bool = False) -> Quantity:
    """Return the estimated top-1 in % on images of another occasion.

    The plain figure is multiplied by the share of right answers that is kept. Three things make the interval,
    in log odds: the range of that share, the differences between occasions, and the interval of the plain figure.

    Args:
        plain: the top-1 in % on validation, which the share belongs to; without groups, the hold-out does as well.
        facts: of the card's features.
        finetuned: the network itself was trained, so the share of the head on frozen features stands for it.
    """
    share, kept = plain.value / 100, facts.kept
    visits = NormalDist().inv_cdf(0.5 + LEVEL / 2) * facts.sd
    below, above = (abs(plain.value - (plain.value if end is None else end)) / 100 for end in (plain.low, plain.high))
    middle = _log_odds(share * kept)
    down = math.hypot(
        middle - _log_odds(share * facts.kept_low), middle - _log_odds(share * kept - math.hypot(kept * below, visits))
    )
    up = math.hypot(
        _log_odds(share * facts.kept_high) - middle, _log_odds(share * kept + math.hypot(kept * above, visits)) - middle
    )
    value = 100 * share * kept
    ends = 100 * _share(middle - down), 100 * _share(middle + up)
    return Quantity(
        value, "%", Provenance.ESTIMATED, min(value, ends[0]), max(value, ends[1]), LEVEL, facts.images,
        _source(facts, finetuned),
    )  # fmt: skip


def _at_most(estimate: Quantity, judged: Quantity | None) -> Quantity:
    """Return the estimate, or the figure of the hold-out if that is lower: validation may flatter a candidate."""
    if judged is None or estimate.value <= judged.value:
        return estimate
    low = estimate.value if estimate.low is None else estimate.low
    return replace(estimate, value=judged.value, low=min(low, judged.value))


def _source(facts: NewConditions, finetuned: bool) -> str:
    if not facts.grouped:
        return (
            f"the {facts.images} images show no groups of one visit, so the figure on images like these is the only "
            "evidence; conditions that no image shows are not covered"
        )
    whose = "of the head on the frozen network" if finetuned else "of the head"
    return (
        f"{100 * facts.kept:.0f} % of the right answers {whose} stay right if the whole cluster of similar images is "
        f"left out of training ({facts.clusters} clusters of {facts.images} images)"
    )


def _log_odds(share: float) -> float:
    inside = min(1 - LEAST, max(LEAST, share))
    return math.log(inside / (1 - inside))


def _share(log_odds: float) -> float:
    certain = _log_odds(1.0) - 1e-9
    return float(log_odds > 0) if abs(log_odds) >= certain else 1 / (1 + math.exp(-log_odds))


Artefact = tuple[str, str, str]


def on_device(evaluations: Iterable[Evaluation], device: str) -> tuple[Evaluation, ...]:
    """Return the evaluations on one device."""
    return tuple(e for e in evaluations if e.configuration.target.device == device)


def worst_case(evaluations: Sequence[Evaluation], devices: Sequence[str]) -> tuple[Evaluation, ...]:
    """Return one evaluation an artefact: the one on the device where it is slowest.

    An artefact that does not run on a device is represented by that evaluation, with its reason. The figures on every
    device are in ``device_figures``.

    Args:
        evaluations: on any devices; those on devices other than ``devices`` are ignored.
        devices: where the model is to run.
    """
    best = {device: _best(on_device(evaluations, device)) for device in devices}
    artefacts = dict.fromkeys(artefact for found in best.values() for artefact in found)
    return tuple(
        _worst({device: best[device][artefact] for device in devices})
        for artefact in artefacts
        if all(artefact in best[device] for device in devices)
    )


def with_required_figures(
    evaluations: Sequence[Evaluation], others: Mapping[str, Sequence[Evaluation]]
) -> list[Evaluation]:
    """Return the evaluations, each with what is known of its file on the devices that it must also run on.

    Args:
        evaluations: to be decided over.
        others: by device, the evaluations there.
    """
    best = {device: _best(found) for device, found in others.items()}

    def known(evaluation: Evaluation) -> dict[str, DeviceFigures]:
        artefact = variant_of(evaluation)
        return {device: figures_of(found[artefact]) for device, found in best.items() if artefact in found}

    return [replace(e, required_figures=known(e)) for e in evaluations]


def figures_of(evaluation: Evaluation) -> DeviceFigures:
    """Return what is known of a file on the device of its evaluation."""
    latency, target = evaluation.latency, evaluation.configuration.target
    return DeviceFigures(
        key=evaluation.configuration.key,
        runtime=target.runtime,
        accelerator=target.accelerator,
        threads=target.threads,
        reason="" if evaluation.status is Status.OK else evaluation.reason,
        latency_ms=latency.value if latency else None,
        low_ms=latency.low if latency else None,
        high_ms=latency.high if latency else None,
        provenance=latency.provenance.value if latency else "",
        p90_ms=p90_of(evaluation) if latency else None,
        budget_probability=evaluation.budget_probability,
    )


def _best(evaluations: Iterable[Evaluation]) -> dict[Artefact, Evaluation]:
    """Return the best evaluation of each artefact on a device: the fastest that ran, else one that did not."""
    found: dict[Artefact, Evaluation] = {}
    for evaluation in evaluations:
        artefact = variant_of(evaluation)
        if artefact not in found or _rank(evaluation) < _rank(found[artefact]):
            found[artefact] = evaluation
    return found


def _rank(evaluation: Evaluation) -> tuple[bool, float, float]:
    return (evaluation.status is not Status.OK, p90_of(evaluation), latency_of(evaluation))


def _worst(by_device: Mapping[str, Evaluation]) -> Evaluation:
    worst = max(by_device.values(), key=_rank)
    known = {device: figures_of(evaluation) for device, evaluation in by_device.items()}
    return replace(worst, device_figures=known)
