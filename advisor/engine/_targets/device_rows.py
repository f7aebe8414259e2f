"""Move evaluations to other devices, choose those of one device, and find the worst case over all.

A row is one evaluation, of one artefact on one target. The answer for several devices is decided
over worst cases, see "Several devices" in ``docs/design.md``. Reports and re-evaluations use the
same functions.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from advisor.core import DeviceFigures, Evaluation, Status, Target, Variant
from advisor.engine._pipeline.stage import StageName
from advisor.engine._targets.target_devices import TargetDevice


def one_each(evaluations: Iterable[Evaluation]) -> tuple[Evaluation, ...]:
    """Return one evaluation of each artefact that was made:
    its thread count does not matter on another device.
    """
    artefacts: dict[tuple[str, str, str], Evaluation] = {}
    for evaluation in evaluations:
        if evaluation.status is Status.OK:
            artefacts.setdefault(evaluation.variant, evaluation)
    return tuple(artefacts.values())


def reject_evaluation(evaluation: Evaluation, reason: str) -> Evaluation:
    """Return an evaluation as skipped, with the reason why its file cannot run on its device."""
    return replace(evaluation, status=Status.SKIPPED, stage=StageName.PREDICT, reason=reason)


def move_to_device(evaluation: Evaluation, device: TargetDevice) -> Evaluation:
    """Return the evaluation for another device, see :func:`move_to_target`."""
    return move_to_target(evaluation, device.identity)


def move_to_target(evaluation: Evaluation, target: Target) -> Evaluation:
    """Return the evaluation for another target, with the facts that hold on any device:
    accuracy, size, artefact.
    """
    return replace(
        evaluation,
        configuration=replace(evaluation.configuration, target=target),
        latency=None,
        latency_p90=None,
        memory=None,
        contended=False,
        timing=None,
        remote=None,
        latency_distribution=None,
        budget_probability=None,
        device_figures={},
        required_figures=None,
    )


def select_rows(evaluations: Iterable[Evaluation], device: str) -> tuple[Evaluation, ...]:
    """Return the evaluations on one device."""
    rows = []
    for evaluation in evaluations:
        if evaluation.configuration.target.device == device:
            rows.append(evaluation)
    return tuple(rows)


def find_worst_cases(
    evaluations: Sequence[Evaluation], devices: Sequence[str]
) -> tuple[Evaluation, ...]:
    """Return one evaluation an artefact: the one on the device where it is slowest.

    An artefact that does not run on a device is represented by that evaluation, with its reason.
    The figures on every device are in ``device_figures``. Evaluations on other devices are
    ignored.
    """
    best = {device: _find_best(select_rows(evaluations, device)) for device in devices}
    # In the order of the devices; a set would have none.
    artefacts = dict[Variant, None]()
    for by_artefact in best.values():
        artefacts |= dict.fromkeys(by_artefact)
    rows = []
    for artefact in artefacts:
        # A file that lacks a figure on one device cannot be the file for all.
        if all(artefact in best[device] for device in devices):
            by_device = {device: best[device][artefact] for device in devices}
            rows.append(_find_worst(by_device))
    return tuple(rows)


def with_required_figures(
    evaluations: Sequence[Evaluation], others: Mapping[str, Sequence[Evaluation]]
) -> list[Evaluation]:
    """Return the evaluations, each with what is known of its file in ``others``,
    the evaluations by required device.
    """
    best = {device: _find_best(rows) for device, rows in others.items()}
    updated = []
    for evaluation in evaluations:
        figures = dict[str, DeviceFigures]()
        for device, by_artefact in best.items():
            row = by_artefact.get(evaluation.variant)
            if row is not None:
                figures[device] = row.figures
        updated.append(replace(evaluation, required_figures=figures))
    return updated


def _find_best(evaluations: Iterable[Evaluation]) -> dict[Variant, Evaluation]:
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


def _find_worst(by_device: Mapping[str, Evaluation]) -> Evaluation:
    """Return the evaluation of a file on its worst device, with its figures on all of them."""
    # A device on which the file does not run counts as slower than any on which it runs.
    worst = max(by_device.values(), key=_rank)
    figures = {device: evaluation.figures for device, evaluation in by_device.items()}
    return replace(worst, device_figures=figures)
