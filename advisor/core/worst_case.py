"""One model for several devices: each file stands and falls with the device on which it does worst."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from advisor.core.budget import ELSEWHERE
from advisor.core.evaluation import Evaluation, Status
from advisor.core.figures import artefact_of, latency_of, p90_of

Artefact = tuple[str, str, str]

EVERYWHERE = "targets"
"""Name among a joint evaluation's details of what is known by device."""


def on_device(evaluations: Iterable[Evaluation], device: str) -> tuple[Evaluation, ...]:
    """Return the evaluations on one device."""
    return tuple(e for e in evaluations if e.configuration.target.device == device)


def joint(evaluations: Sequence[Evaluation], devices: Sequence[str]) -> tuple[Evaluation, ...]:
    """Return one evaluation an artefact: the one on the device where it is slowest.

    One that does not run on a device is represented there, with its reason. Figures by device are in
    ``details["targets"]``.

    Args:
        evaluations: on any devices; those on others than ``devices`` are left out.
        devices: where the model is to run.
    """
    best = {device: _best(on_device(evaluations, device)) for device in devices}
    artefacts = dict.fromkeys(artefact for found in best.values() for artefact in found)
    return tuple(
        _worst({device: best[device][artefact] for device in devices})
        for artefact in artefacts
        if all(artefact in best[device] for device in devices)
    )


def with_elsewhere(evaluations: Sequence[Evaluation], others: Mapping[str, Sequence[Evaluation]]) -> list[Evaluation]:
    """Return the evaluations, each with what is known of its file on the devices that it must run on as well.

    Args:
        evaluations: to be decided over.
        others: by device, the evaluations there.
    """
    best = {device: _best(found) for device, found in others.items()}

    def known(evaluation: Evaluation) -> dict[str, Any]:
        artefact = artefact_of(evaluation)
        return {device: figures_of(found[artefact]) for device, found in best.items() if artefact in found}

    return [replace(e, details={**e.details, ELSEWHERE: known(e)}) for e in evaluations]


def figures_of(evaluation: Evaluation) -> dict[str, Any]:
    """Return what is known of a file on a device as plain values."""
    latency, target = evaluation.latency, evaluation.configuration.target
    return {
        "key": evaluation.configuration.key,
        "runtime": target.runtime,
        "accelerator": target.accelerator,
        "threads": target.threads,
        "reason": "" if evaluation.status is Status.OK else evaluation.reason,
        "latency_ms": latency.value if latency else None,
        "low_ms": latency.low if latency else None,
        "high_ms": latency.high if latency else None,
        "provenance": latency.provenance.value if latency else "",
        "held_ms": p90_of(evaluation) if latency else None,
        "budget_probability": evaluation.details.get("budget_probability"),
    }


def _best(evaluations: Iterable[Evaluation]) -> dict[Artefact, Evaluation]:
    """Return for each artefact its best evaluation on a device: the fastest that ran, else one that did not."""
    found: dict[Artefact, Evaluation] = {}
    for evaluation in evaluations:
        artefact = artefact_of(evaluation)
        if artefact not in found or _rank(evaluation) < _rank(found[artefact]):
            found[artefact] = evaluation
    return found


def _rank(evaluation: Evaluation) -> tuple[bool, float, float]:
    return (evaluation.status is not Status.OK, p90_of(evaluation), latency_of(evaluation))


def _worst(by_device: Mapping[str, Evaluation]) -> Evaluation:
    worst = max(by_device.values(), key=_rank)
    known = {device: figures_of(evaluation) for device, evaluation in by_device.items()}
    return replace(worst, details={**worst.details, EVERYWHERE: known})
