"""One model for several devices: the device on which a file is slowest decides."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from advisor.core.evaluation import Evaluation, Status
from advisor.core.evaluation_facts import DeviceFigures
from advisor.core.figures import latency_of, p90_of, variant_of

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
