"""Evaluations of one file on several devices: those of one device, and the worst case over all."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from advisor.core import DeviceFigures, Evaluation, Status, Variant


def on_device(evaluations: Iterable[Evaluation], device: str) -> tuple[Evaluation, ...]:
    """Return the evaluations on one device."""
    return tuple(e for e in evaluations if e.configuration.target.device == device)


def worst_case(
    evaluations: Sequence[Evaluation], devices: Sequence[str]
) -> tuple[Evaluation, ...]:
    """Return one evaluation an artefact: the one on the device where it is slowest.

    An artefact that does not run on a device is represented by that evaluation, with its reason.
    The figures on every device are in ``device_figures``. Evaluations on other devices are
    ignored.
    """
    best = {device: _best(on_device(evaluations, device)) for device in devices}
    # In the order of the devices; a set would have none.
    artefacts = dict[Variant, None]()
    for by_artefact in best.values():
        artefacts |= dict.fromkeys(by_artefact)
    rows = []
    for artefact in artefacts:
        # A file that lacks a figure on one device cannot be the file for all.
        if all(artefact in best[device] for device in devices):
            rows.append(_worst({device: best[device][artefact] for device in devices}))
    return tuple(rows)


def with_required_figures(
    evaluations: Sequence[Evaluation], others: Mapping[str, Sequence[Evaluation]]
) -> list[Evaluation]:
    """Return the evaluations, each with what is known of its file in ``others``,
    the evaluations by required device.
    """
    best = {device: _best(device_evaluations) for device, device_evaluations in others.items()}

    def known(evaluation: Evaluation) -> dict[str, DeviceFigures]:
        artefact = evaluation.variant
        figures = {}
        for device, by_artefact in best.items():
            if artefact in by_artefact:
                figures[device] = by_artefact[artefact].figures
        return figures

    return [replace(e, required_figures=known(e)) for e in evaluations]


def _best(evaluations: Iterable[Evaluation]) -> dict[Variant, Evaluation]:
    """Return the best evaluation of each artefact on a device:
    the fastest that ran, else one that did not.
    """
    best: dict[Variant, Evaluation] = {}
    for evaluation in evaluations:
        artefact = evaluation.variant
        if artefact not in best or _rank(evaluation) < _rank(best[artefact]):
            best[artefact] = evaluation
    return best


def _rank(evaluation: Evaluation) -> tuple[bool, float, float]:
    return (evaluation.status is not Status.OK, evaluation.p90_ms, evaluation.latency_ms)


def _worst(by_device: Mapping[str, Evaluation]) -> Evaluation:
    # A device on which the file does not run counts as slower than any on which it runs.
    worst = max(by_device.values(), key=_rank)
    known = {device: evaluation.figures for device, evaluation in by_device.items()}
    return replace(worst, device_figures=known)
