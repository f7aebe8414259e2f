"""The entry ``details`` of an evaluation's JSON object: the only place that knows its names."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from advisor.core.evaluation import Evaluation
from advisor.core.evaluation_facts import (
    Agreement,
    CaptureAccuracy,
    CardFacts,
    ConditionAccuracy,
    DeviceFigures,
    FileFacts,
    ImageAnswers,
    Normalisation,
    RemoteFacts,
    TimeSummary,
    TimingFacts,
)
from advisor.core.file_features import FileFeatures, Traits
from advisor.core.latency_distribution import LatencyDistribution
from advisor.core.quantity import Quantity

Json = Mapping[str, object]


def details_to_json(evaluation: Evaluation) -> dict[str, object]:
    """Return what an evaluation knows besides its figures; what is not known has no entry."""
    distribution, holdout, required = (
        evaluation.latency_distribution, evaluation.holdout_answers, evaluation.required_figures,
    )  # fmt: skip
    return {
        **(timing_to_json(evaluation.timing) if evaluation.timing else {}),
        **_answers_to_json(evaluation.answers),
        **(_agreement_to_json(evaluation.agreement) if evaluation.agreement else {}),
        **_file_to_json(evaluation.file_facts),
        **_card_to_json(evaluation.card_facts),
        **({"graph": asdict(evaluation.file_features)} if evaluation.file_features else {}),
        **({"holdout": _answers_to_json(holdout)} if holdout else {}),
        **_capture_to_json(evaluation.capture),
        **({"latency_quantiles": list(distribution.milliseconds)} if distribution else {}),
        **_known({"budget_probability": evaluation.budget_probability}),
        **(_remote_to_json(evaluation.remote) if evaluation.remote else {}),
        **({"targets": _devices_to_json(evaluation.device_figures)} if evaluation.device_figures else {}),
        **({"elsewhere": _devices_to_json(required)} if required is not None else {}),
    }


def with_details(evaluation: Evaluation, details: Json) -> Evaluation:
    """Return the evaluation with what :func:`details_to_json` wrote; a damaged entry counts as unknown."""
    holdout = details.get("holdout")
    return replace(
        evaluation,
        timing=timing_from_json(details),
        answers=_answers_from_json(details),
        agreement=_agreement_from_json(details),
        file_facts=file_from_json(details),
        card_facts=_card_from_json(details),
        file_features=_features_from_json(details.get("graph")),
        holdout_answers=_answers_from_json(holdout) if isinstance(holdout, Mapping) and holdout else None,
        capture=_capture_from_json(details),
        latency_distribution=LatencyDistribution.read(details.get("latency_quantiles")),
        budget_probability=_number(details.get("budget_probability")),
        remote=_remote_from_json(details),
        device_figures=_devices_from_json(details.get("targets")) or {},
        required_figures=_devices_from_json(details.get("elsewhere")),
    )


def timing_to_json(timing: TimingFacts) -> dict[str, object]:
    """Return how a latency was measured as entries of ``details``."""
    if timing.wall_ms is None:
        return _known({"load_ms": timing.load_ms, "first_ms": timing.first_ms, "threads": timing.threads})
    return {
        "threads": timing.threads,
        "effort": timing.effort,
        "load_ms": timing.load_ms,
        "first_ms": timing.first_ms,
        "verdict": timing.verdict,
        "verdict_reason": timing.verdict_reason,
        "measured_at": timing.measured_at,
        "wall_ms": _known(asdict(timing.wall_ms)),
        "cpu_ms": _known(asdict(timing.cpu_ms)) if timing.cpu_ms else None,
    }


def timing_from_json(details: Json) -> TimingFacts | None:
    """Read how a latency was measured from ``details``; None where nothing says it."""
    found = TimingFacts(
        load_ms=_number(details.get("load_ms")),
        first_ms=_number(details.get("first_ms")),
        threads=_integer(details.get("threads")),
        effort=_text(details.get("effort")),
        verdict=_text(details.get("verdict")),
        verdict_reason=_text(details.get("verdict_reason")),
        measured_at=_text(details.get("measured_at")),
        wall_ms=_summary(details.get("wall_ms")),
        cpu_ms=_summary(details.get("cpu_ms")),
    )
    return None if found == TimingFacts() else found


def _summary(data: object) -> TimeSummary | None:
    if not isinstance(data, Mapping):
        return None
    p50, p90 = _number(data.get("p50")), _number(data.get("p90"))
    if p50 is None or p90 is None:
        return None
    return TimeSummary(p50, p90, _number(data.get("min")), _number(data.get("cv")))


def _answers_to_json(answers: ImageAnswers) -> dict[str, object]:
    return {
        **({"per_class_recall": dict(answers.per_class_recall)} if answers.per_class_recall else {}),
        **({"confusion": [list(row) for row in answers.confusion]} if answers.confusion else {}),
        **({"answers": answers.file} if answers.file else {}),
    }


def _answers_from_json(data: Json) -> ImageAnswers:
    return ImageAnswers(
        file=_text(data.get("answers")),
        per_class_recall=_shares(data.get("per_class_recall")),
        confusion=_table(data.get("confusion")),
    )


def _shares(data: object) -> dict[str, float | None]:
    if not isinstance(data, Mapping) or any(each is not None and _number(each) is None for each in data.values()):
        return {}
    return dict(data)


def _table(data: object) -> tuple[tuple[int, ...], ...] | None:
    if not isinstance(data, list) or not data or not all(isinstance(row, list) for row in data):
        return None
    rows = tuple(tuple(row) for row in data)
    return rows if {type(count) for row in rows for count in row} <= {int} else None


def _agreement_to_json(agreement: Agreement) -> dict[str, object]:
    return {"agreement": agreement.share, "agreement_pictures": agreement.images, "answers_kept": agreement.kept}


def _agreement_from_json(details: Json) -> Agreement | None:
    share, kept = _number(details.get("agreement")), _number(details.get("answers_kept"))
    images = _integer(details.get("agreement_pictures"))
    return None if share is None or kept is None or images is None else Agreement(share, images, kept)


def _file_to_json(file: FileFacts) -> dict[str, object]:
    sizes = asdict(file)
    notes = sizes.pop("recipe_notes")
    return {**_known(sizes), **({"compression": notes} if notes else {})}


def file_from_json(details: Json) -> FileFacts:
    """Read what is known of a file without running it from ``details``."""
    notes = details.get("compression")
    return FileFacts(
        arena_bytes=_number(details.get("arena_bytes")),
        download_bytes=_number(details.get("download_bytes")),
        download_zstd_bytes=_number(details.get("download_zstd_bytes")),
        recipe_notes=dict(notes) if isinstance(notes, Mapping) else {},
    )


def _card_to_json(card: CardFacts) -> dict[str, object]:
    return _known(asdict(card))


def _card_from_json(details: Json) -> CardFacts:
    licence, weights = details.get("licence"), details.get("weights")
    return CardFacts(
        params=_number(details.get("params")),
        macs=_number(details.get("macs")),
        licence=licence if isinstance(licence, str) else None,
        input_size=_integer(details.get("input_size")),
        preprocessing=_normalisation(details.get("preprocessing")),
        weights=weights if isinstance(weights, str) else None,
    )


def _normalisation(data: object) -> Normalisation | None:
    if not isinstance(data, Mapping):
        return None
    mean, std = _channels(data.get("mean")), _channels(data.get("std"))
    return None if mean is None or std is None else Normalisation(mean, std)


def _channels(data: object) -> tuple[float, float, float] | None:
    values = [number for each in data if (number := _number(each)) is not None] if isinstance(data, list) else []
    return (values[0], values[1], values[2]) if len(values) == 3 else None


def _features_from_json(data: Any) -> FileFeatures | None:
    """Return the features of a file; None where an entry is missing, unknown or of another type."""
    try:
        traits = Traits(**data["traits"])
        found = FileFeatures(**{**data, "traits": traits})
        counts = (found.macs, found.parameters, found.input_size, found.layers, found.arena_bytes)
        numbers = (*counts, found.weight_bytes, found.held_bytes, *found.operators.values(), *traits.values)
    except (KeyError, TypeError, AttributeError):
        return None
    whole = isinstance(found.form, str) and all(_number(number) is not None for number in numbers)
    return found if whole else None


def _capture_to_json(capture: CaptureAccuracy) -> dict[str, object]:
    rows = [[row.condition, row.strength, row.top1] for row in capture.by_condition]
    return {
        **({"robustness": rows} if rows else {}),
        **({"plain_accuracy": capture.plain.to_json()} if capture.plain else {}),
        **({"robust_accuracy": capture.holdout.to_json()} if capture.holdout else {}),
    }


def _capture_from_json(details: Json) -> CaptureAccuracy:
    return CaptureAccuracy(
        by_condition=_conditions(details.get("robustness")),
        holdout=_quantity(details.get("robust_accuracy")),
        plain=_quantity(details.get("plain_accuracy")),
    )


def _conditions(data: Any) -> tuple[ConditionAccuracy, ...]:
    try:
        rows = [(str(name), float(strength), float(top1)) for name, strength, top1 in data]
    except (TypeError, ValueError):
        return ()
    return tuple(ConditionAccuracy(*row) for row in rows)


def _quantity(data: object) -> Quantity | None:
    with contextlib.suppress(KeyError, TypeError, ValueError):
        return Quantity.from_json(data) if isinstance(data, dict) else None
    return None


def _remote_to_json(remote: RemoteFacts) -> dict[str, object]:
    return {
        "reached_over": remote.connection,
        **({"delegated": list(remote.delegated)} if remote.delegated else {}),
        **({"operators": [dict(row) for row in remote.operators]} if remote.operators else {}),
    }


def _remote_from_json(details: Json) -> RemoteFacts | None:
    connection = _text(details.get("reached_over"))
    return remote_facts(connection, details.get("delegated"), details.get("operators")) if connection else None


def remote_facts(connection: str, delegated: object, operators: object) -> RemoteFacts:
    """Return how a file ran on a device, from what the device's tool printed."""
    rows = operators if isinstance(operators, list | tuple) else ()
    pair = delegated if isinstance(delegated, list | tuple) and len(delegated) == 2 else ()
    taken = [count for each in pair if (count := _integer(each)) is not None]
    return RemoteFacts(
        connection,
        delegated=(taken[0], taken[1]) if len(taken) == 2 else None,
        operators=tuple(row for row in rows if isinstance(row, Mapping)),
    )


def _devices_to_json(devices: Mapping[str, DeviceFigures]) -> dict[str, object]:
    return {device: _device_to_json(figures) for device, figures in devices.items()}


def _device_to_json(figures: DeviceFigures) -> dict[str, object]:
    data = asdict(figures)
    probability, p90 = data.pop("budget_probability"), data.pop("p90_ms")
    return {**data, "held_ms": p90, "budget_probability": probability}


def _devices_from_json(data: object) -> dict[str, DeviceFigures] | None:
    if not isinstance(data, Mapping):
        return None
    return {str(device): _device_from_json(facts) for device, facts in data.items() if isinstance(facts, Mapping)}


def _device_from_json(facts: Json) -> DeviceFigures:
    return DeviceFigures(
        key=_text(facts.get("key")),
        runtime=_text(facts.get("runtime")),
        accelerator=_text(facts.get("accelerator")),
        threads=_integer(facts.get("threads")) or 1,
        reason=_text(facts.get("reason")),
        latency_ms=_number(facts.get("latency_ms")),
        low_ms=_number(facts.get("low_ms")),
        high_ms=_number(facts.get("high_ms")),
        provenance=_text(facts.get("provenance")),
        p90_ms=_number(facts.get("held_ms")),
        budget_probability=_number(facts.get("budget_probability")),
    )


def _known(entries: Json) -> dict[str, object]:
    return {name: value for name, value in entries.items() if value is not None}


def _number(value: object) -> float | None:
    return value if type(value) is float or type(value) is int else None


def _integer(value: object) -> int | None:
    return value if type(value) is int else None


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
