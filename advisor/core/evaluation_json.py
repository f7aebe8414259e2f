"""Evaluations as JSON objects, one line of ``evaluations.jsonl`` each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from advisor.core.details_json import details_to_json, with_details
from advisor.core.evaluation import Configuration, Evaluation, Status, Target
from advisor.core.quantity import Quantity

_TEXTS = ("family", "reason", "stage", "artefact", "artefact_sha256")

_QUANTITIES = ("accuracy", "holdout_accuracy", "latency", "latency_p90", "size", "memory", "drop")

_ABOVE_ZERO = ("latency", "latency_p90", "size")

_NAMES = frozenset({"key", "configuration", "status", "contended", "details", *_TEXTS, *_QUANTITIES})


def evaluation_to_json(evaluation: Evaluation) -> dict[str, object]:
    """Return the evaluation as a JSON object."""
    return {
        "configuration": asdict(evaluation.configuration),
        "status": evaluation.status.value,
        **{name: getattr(evaluation, name) for name in ("family", "reason", "stage")},
        **{name: _quantity(getattr(evaluation, name)) for name in _QUANTITIES},
        **{name: getattr(evaluation, name) for name in ("contended", "artefact", "artefact_sha256")},
        "details": details_to_json(evaluation),
        "key": evaluation.configuration.key,
    }


def _quantity(quantity: Quantity | None) -> dict[str, object] | None:
    return quantity.to_json() if quantity else None


def evaluation_from_json(data: Mapping[str, Any]) -> Evaluation:
    """Read back :func:`evaluation_to_json`; a detail that is damaged is not known.

    Raises:
        KeyError, TypeError, ValueError: it is not what that writes.
    """
    details, contended = data.get("details", {}), data.get("contended", False)
    if not data.keys() <= _NAMES:
        raise TypeError("an entry is unknown")
    if not isinstance(details, Mapping) or not isinstance(contended, bool):
        raise TypeError("details are not a mapping, or contended is not a boolean")
    _require_texts(data, _TEXTS)
    quantities = {name: Quantity.from_json(data[name]) if data.get(name) else None for name in _QUANTITIES}
    if any((quantity := quantities[name]) is not None and quantity.value <= 0 for name in _ABOVE_ZERO):
        raise ValueError("a latency or size is not above zero")
    figures: dict[str, Any] = {name: data.get(name, "") for name in _TEXTS} | quantities
    configuration, status = _configuration(data["configuration"]), Status(data["status"])
    return with_details(Evaluation(configuration, status, contended=contended, **figures), details)


def _configuration(data: Mapping[str, Any]) -> Configuration:
    target = Target(**data["target"])
    _require_texts(data["target"], ("device", "runtime", "accelerator"))
    _require_texts(data, ("card", "training", "compression"))
    if not isinstance(target.threads, int) or isinstance(target.threads, bool):
        raise TypeError("threads are not a whole number")
    return Configuration(**{**data, "target": target})


def _require_texts(data: Mapping[str, object], names: tuple[str, ...]) -> None:
    for name in names:
        if not isinstance(data.get(name, ""), str):
            raise TypeError(f"{name} is not a text")
