"""Evaluations as JSON objects, one line of ``evaluations.jsonl`` each."""

import math
from collections.abc import Hashable, Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from functools import cache
from typing import Any, TypeVar, get_args

from advisor.core.codec import parse, parse_known, to_json, types_of, with_new_names
from advisor.core.evaluation import Evaluation
from advisor.core.evaluation_facts import DeviceFigures, ImageAnswers, TimingFacts
from advisor.core.forms import FileFeatures
from advisor.core.metrics import COST_SAVED
from advisor.core.quantity import LatencyDistribution, Quantity

_QUANTITIES = ("accuracy", "holdout_accuracy", "new_conditions", "latency", "latency_p90", "size", "memory", "drop")
_ABOVE_ZERO = ("latency", "latency_p90", "size")
_PERCENT = ("accuracy", "holdout_accuracy", "new_conditions")

_NAMES = {
    "file": "answers", "share": "agreement", "images": "agreement_images", "kept": "answers_kept",
    "recipe_notes": "compression", "by_condition": "robustness", "plain": "plain_accuracy",
    "holdout": "robust_accuracy",
}  # fmt: skip
"""Entries of ``details`` that have another name than the field."""

DETAILS: Mapping[str, str] = {
    "timing": "", "answers": "", "agreement": "", "file_facts": "", "card_facts": "", "file_features": "graph",
    "expectation": "expectation", "head": "head", "holdout_answers": "holdout", "holdout_drop": "holdout_drop",
    "capture": "", "latency_distribution": "latency_quantiles", "budget_probability": "budget_probability",
    "remote": "", "device_figures": "targets", "required_figures": "required_devices", "unknown": "unknown",
}  # fmt: skip
"""The entry of ``details`` for each field of an evaluation, in the order of a line; empty where the fields of its facts
are entries themselves."""

_T = TypeVar("_T", bound=Hashable)


def entry_name(field: str) -> str:
    """Return the name that a field of some facts has in ``details``."""
    return _NAMES.get(field, field)


@cache
def merged_facts() -> dict[str, type]:
    """Return the class of each field of an evaluation whose own fields are entries of ``details``."""
    kinds = {name: types_of(Evaluation)[name] for name, entry in DETAILS.items() if not entry}
    return {name: next(iter(get_args(kind)), kind) for name, kind in kinds.items()}


def evaluation_to_json(evaluation: Evaluation) -> dict[str, Any]:
    """Return the evaluation as a JSON object."""
    return {
        "configuration": asdict(evaluation.configuration),
        "status": evaluation.status.value,
        **{name: getattr(evaluation, name) for name in ("family", "reason", "stage")},
        **{name: to_json(found) if (found := getattr(evaluation, name)) else None for name in _QUANTITIES},
        **{name: getattr(evaluation, name) for name in ("contended", "artefact", "artefact_sha256")},
        "details": _details(evaluation),
        "key": evaluation.configuration.key,
    }


def _details(evaluation: Evaluation) -> dict[str, Any]:
    empty, found = Evaluation(evaluation.configuration, evaluation.status), dict[str, Any]()
    for name, entry in DETAILS.items():
        value = getattr(evaluation, name)
        if value != getattr(empty, name):
            whole = isinstance(value, TimingFacts) and value.wall_ms is not None
            found |= {entry: _written(value)} if entry else _named(value, defaults=whole)
    return found


def _written(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {device: _named(figures, defaults=True) for device, figures in value.items()}
    if isinstance(value, int | float):
        return value
    if isinstance(value, LatencyDistribution):
        return value.milliseconds
    if isinstance(value, ImageAnswers):
        return _named(value, defaults=False)
    return asdict(value) if isinstance(value, FileFeatures) else to_json(value)


def _named(facts: object, defaults: bool) -> dict[str, Any]:
    return {entry_name(name): value for name, value in to_json(facts, defaults).items()}


def evaluation_from_json(data: Mapping[str, Any]) -> Evaluation:
    """Return the evaluation of a JSON object; a detail that is damaged counts as unknown.

    Raises KeyError, TypeError, ValueError: the object is not what :func:`evaluation_to_json` returns.
    """
    entries = dict(data)
    details = entries.pop("details", {})
    entries.pop("key", None)
    evaluation: Evaluation = parse(Evaluation, entries)
    details = with_new_names(parse(Mapping[str, object], details))
    known = {name: _read(name, details) for name in DETAILS}
    found = replace(evaluation, **{name: value for name, value in known.items() if value is not None})
    least = -math.inf if COST_SAVED in found.answers.metrics else 0.0  # a model may cost more than one fixed answer
    for name in _QUANTITIES:
        _check(name, getattr(found, name), least)
    return found


def _check(name: str, quantity: Quantity | None, least: float) -> None:
    """Raise ValueError for a figure that its quantity cannot have, such as an accuracy below the ``least`` one."""
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


def _read(name: str, details: Mapping[str, Any]) -> Any:
    """Return what ``details`` says about a field of an evaluation; None if that is unknown or damaged."""
    entry = DETAILS[name]
    value = details.get(entry) if entry else details
    if name == "holdout_answers":
        return facts_from_json(ImageAnswers, value) if isinstance(value, Mapping) and value else None
    if name == "latency_distribution":
        return LatencyDistribution.read(value)
    if name in ("device_figures", "required_figures"):
        return _devices(value)
    if entry:
        return parse_known({name: types_of(Evaluation)[name]}, {name: value}).get(name)
    with suppress(TypeError):
        found: object = facts_from_json(merged_facts()[name], details)
        return None if found == TimingFacts() else found
    return None


def facts_from_json(kind: type[_T], details: Mapping[str, Any]) -> _T:
    """Return facts of the entry ``details``; damaged ones are unknown. Raises TypeError: a needed one is unknown."""
    entries = with_new_names(details)
    named = {name: entries[entry] for name in types_of(kind) if (entry := entry_name(name)) in entries}
    return kind(**parse_known(types_of(kind), named))


def _devices(value: object) -> dict[str, DeviceFigures] | None:
    if not isinstance(value, Mapping):
        return None
    rows = {str(device): facts for device, facts in value.items() if isinstance(facts, Mapping)}
    return {device: facts_from_json(DeviceFigures, facts) for device, facts in rows.items()}
