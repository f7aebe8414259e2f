"""Evaluations as JSON objects, one line of ``evaluations.jsonl`` each."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from typing import Any, TypeVar

from advisor.core.codec import parse, parse_known, to_json, types_of
from advisor.core.evaluation import Evaluation
from advisor.core.evaluation_facts import (
    Agreement,
    CaptureAccuracy,
    CardFacts,
    DeviceFigures,
    FileFacts,
    HeadFacts,
    ImageAnswers,
    NewConditions,
    RemoteFacts,
    TimingFacts,
)
from advisor.core.file_features import FileFeatures
from advisor.core.latency_distribution import LatencyDistribution
from advisor.core.metrics import COST_SAVED
from advisor.core.quantity import Quantity
from advisor.core.unknown_facts import UnknownFacts

Details = Mapping[str, Any]
"""The entry ``details`` of an evaluation: what it knows besides its figures."""

_QUANTITIES = ("accuracy", "holdout_accuracy", "new_conditions", "latency", "latency_p90", "size", "memory", "drop")
_ABOVE_ZERO = ("latency", "latency_p90", "size")
_PERCENT = ("accuracy", "holdout_accuracy", "new_conditions")

_NAMES = {
    "file": "answers", "share": "agreement", "images": "agreement_pictures", "kept": "answers_kept",
    "recipe_notes": "compression", "by_condition": "robustness", "plain": "plain_accuracy",
    "holdout": "robust_accuracy", "connection": "reached_over", "p90_ms": "held_ms",
}  # fmt: skip
"""Entries of ``details`` that have another name than the field."""

MERGED: Mapping[str, type] = {
    "timing": TimingFacts, "answers": ImageAnswers, "agreement": Agreement, "file_facts": FileFacts,
    "card_facts": CardFacts, "capture": CaptureAccuracy, "remote": RemoteFacts,
}  # fmt: skip
"""Facts whose fields are entries of ``details``, by their name in the evaluation."""

_T = TypeVar("_T", bound=Hashable)


def entry_name(field: str) -> str:
    """Return the name that a field of some facts has in ``details``."""
    return _NAMES.get(field, field)


def evaluation_to_json(evaluation: Evaluation) -> dict[str, Any]:
    """Return the evaluation as a JSON object."""
    return {
        "configuration": asdict(evaluation.configuration),
        "status": evaluation.status.value,
        **{name: getattr(evaluation, name) for name in ("family", "reason", "stage")},
        **{name: _quantity(getattr(evaluation, name)) for name in _QUANTITIES},
        **{name: getattr(evaluation, name) for name in ("contended", "artefact", "artefact_sha256")},
        "details": _details(evaluation),
        "key": evaluation.configuration.key,
    }


def _quantity(quantity: Quantity | None) -> dict[str, Any] | None:
    return quantity.to_json() if quantity else None


def _details(evaluation: Evaluation) -> dict[str, Any]:
    distribution, probability = evaluation.latency_distribution, evaluation.budget_probability
    features, holdout = evaluation.file_features, evaluation.holdout_answers
    devices, required = evaluation.device_figures, evaluation.required_figures
    timing = evaluation.timing
    return {
        **(to_json(timing, defaults=timing.wall_ms is not None) if timing else {}),
        **_named(evaluation.answers),
        **_named(evaluation.agreement),
        **_named(evaluation.file_facts),
        **_named(evaluation.card_facts),
        **({"graph": asdict(features)} if features else {}),
        **({"expectation": asdict(evaluation.expectation)} if evaluation.expectation else {}),
        **({"head": asdict(evaluation.head)} if evaluation.head else {}),
        **({"holdout": _named(holdout)} if holdout else {}),
        **({"holdout_drop": evaluation.holdout_drop.to_json()} if evaluation.holdout_drop else {}),
        **_named(evaluation.capture),
        **({"latency_quantiles": distribution.milliseconds} if distribution else {}),
        **({"budget_probability": probability} if probability is not None else {}),
        **_named(evaluation.remote),
        **({"targets": _by_device(devices)} if devices else {}),
        **({"elsewhere": _by_device(required)} if required is not None else {}),
        **({"unknown": to_json(evaluation.unknown)} if evaluation.unknown else {}),
    }


def _named(facts: object, defaults: bool = False) -> dict[str, Any]:
    entries = to_json(facts, defaults) if facts else {}
    return {entry_name(name): value for name, value in entries.items()}


def _by_device(figures: Mapping[str, DeviceFigures]) -> dict[str, Any]:
    return {device: _named(known, defaults=True) for device, known in figures.items()}


def evaluation_from_json(data: Mapping[str, Any]) -> Evaluation:
    """Return the evaluation of a JSON object; a detail that is damaged counts as unknown.

    Raises:
        KeyError, TypeError, ValueError: the object is not what :func:`evaluation_to_json` returns.
    """
    entries = dict(data)
    details = entries.pop("details", {})
    entries.pop("key", None)
    evaluation: Evaluation = parse(Evaluation, entries)
    found = _with_details(evaluation, parse(Mapping[str, object], details))
    least = -math.inf if COST_SAVED in found.answers.metrics else 0.0  # a model may cost more than one fixed answer
    for name in _QUANTITIES:
        _check(name, getattr(found, name), least)
    return found


def _check(name: str, quantity: Quantity | None, least: float) -> None:
    """Raise ValueError for a figure that its quantity cannot have, or for an interval that is none.

    ``least`` is the lowest possible accuracy.
    """
    if quantity is None:
        return
    low = quantity.value if quantity.low is None else quantity.low
    if name in _ABOVE_ZERO and min(quantity.value, low) <= 0:
        raise ValueError(f"{name} is not above zero")
    if name in _PERCENT and not least <= quantity.value <= 100:
        raise ValueError(f"{name} is not between {least:g} and 100 %")
    if quantity.high is not None and low > quantity.high:
        raise ValueError(f"the interval of {name} ends below its beginning")
    if quantity.level is not None and not 0 < quantity.level < 1:
        raise ValueError(f"the confidence of {name} is not between 0 and 1")


def _with_details(evaluation: Evaluation, details: Details) -> Evaluation:
    whole = parse_known(
        {
            "graph": FileFeatures,
            "head": HeadFacts,
            "expectation": NewConditions,
            "budget_probability": float,
            "holdout_drop": Quantity,
            "unknown": UnknownFacts,
        },
        details,
    )
    timing, holdout = facts_from_json(TimingFacts, details), details.get("holdout")
    return replace(
        evaluation,
        timing=None if timing == TimingFacts() else timing,
        answers=facts_from_json(ImageAnswers, details),
        agreement=_if_complete(Agreement, details),
        file_facts=facts_from_json(FileFacts, details),
        card_facts=facts_from_json(CardFacts, details),
        file_features=whole.get("graph"),
        expectation=whole.get("expectation"),
        head=whole.get("head"),
        holdout_answers=facts_from_json(ImageAnswers, holdout) if isinstance(holdout, Mapping) and holdout else None,
        capture=facts_from_json(CaptureAccuracy, details),
        latency_distribution=LatencyDistribution.read(details.get("latency_quantiles")),
        budget_probability=whole.get("budget_probability"),
        holdout_drop=whole.get("holdout_drop"),
        remote=_if_complete(RemoteFacts, details),
        device_figures=_devices(details.get("targets")) or {},
        required_figures=_devices(details.get("elsewhere")),
        unknown=whole.get("unknown"),
    )


def facts_from_json(kind: type[_T], details: Details) -> _T:
    """Return one kind of facts from the entry ``details``; what is missing or damaged is unknown.

    Raises:
        TypeError: a fact without which there is no such object is unknown.
    """
    named = {name: details[entry] for name in types_of(kind) if (entry := entry_name(name)) in details}
    return kind(**parse_known(types_of(kind), named))


def _if_complete(kind: type[_T], details: Details) -> _T | None:
    with suppress(TypeError):
        return facts_from_json(kind, details)
    return None


def _devices(value: object) -> dict[str, DeviceFigures] | None:
    if not isinstance(value, Mapping):
        return None
    rows = {str(device): facts for device, facts in value.items() if isinstance(facts, Mapping)}
    return {device: facts_from_json(DeviceFigures, facts) for device, facts in rows.items()}
