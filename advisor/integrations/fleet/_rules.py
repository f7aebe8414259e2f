"""Make the rules by which a selector chooses its file on a phone: a part of ``tiers.json``.

``_tiers.py`` calls :func:`rules_document` for a bundle. Selectors in four languages read the keys
(``selector.py``, ``selectors/``), also those in apps that are shipped already: keys stay, or
``SCHEMA_VERSION`` of ``_tiers.py`` rises.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from advisor.core import Evaluation, Status, UsageError, form_of
from advisor.devices import CALIBRATED, Measurement, arm_cores
from advisor.engine import DevicePredictor, TargetDevice
from advisor.integrations.fleet._choice import Floats
from advisor.integrations.fleet._phone_devices import compute_speed, index_socs
from advisor.integrations.fleet._phones import Fleet
from advisor.integrations.fleet.selector import plain

WINDOW_MS = 300
"""Time for which an app runs the fastest file at its first start."""

RULES = {"up": 0.8, "late": 1.1, "window": 20, "memory_share": 0.25}
"""Hysteresis: a better file is tried again only if it is expected below ``up`` times the budget; a
file is left if the 90th percentile of ``window`` runs exceeds the budget ``late`` times. A file
may take ``memory_share`` of the memory.
"""

REFERENCES = 5
"""Phones, from slow to fast, on which the predictor says what a measurement moves."""

RATIO = 1.25
"""Factor by which the measured file is assumed to be slower, and faster, than predicted there."""

LEAST_GAIN = 0.05
"""Least share by which a measurement moves a file of a related form:
below it, the predictor keeps both forms apart.
"""


def core_macs() -> dict[str, int]:
    """Return the float32 multiply-accumulates a cycle of Arm's own cores by their part numbers."""
    return {part: round(core.macs) for part, core in arm_cores().items()}


@dataclass(frozen=True)
class KnownPhone:
    """A phone that rules can recognise."""

    names: tuple[str, ...]  # as :func:`.selector.plain` writes them, without doubles
    gpu: str  # name of its graphics processor, empty if unknown
    speed: float  # 10^9 multiply-accumulates a second, in theory
    device: TargetDevice  # what predictions are made for


def list_phones(fleet: Fleet) -> tuple[KnownPhone, ...]:
    """Return the phones of a fleet, each once.

    A selector places other phones among them, by cores and times.
    """
    phones = list[KnownPhone]()
    listed_names = set[str]()
    for phone in fleet.known:
        device = phone.device
        if device is None:
            continue
        soc = index_socs().get(plain(device.profile.soc)) or index_socs().get(plain(device.label))
        soc_names = soc.names if soc else ()
        names = set(map(plain, (device.label, device.profile.soc, *soc_names)))
        # A selector cannot tell phones with one SoC apart by its name:
        # the first one stands for all.
        if names & listed_names:
            continue
        listed_names |= names
        gpu = plain(soc.gpu) if soc else ""
        phones.append(KnownPhone(tuple(sorted(names)), gpu, compute_speed(device.profile), device))
    return tuple(phones)


def rules_document(
    files: Sequence[Evaluation],
    phones: Sequence[KnownPhone],
    budget_ms: float,
    confidence: float,
    predictor: DevicePredictor,
) -> dict[str, Any]:
    """Return the part of ``tiers.json`` that selectors decide by.

    ``files`` are ordered by accuracy, the floor first. A phone has the median of each file in
    ms, and the latency that is not exceeded with the confidence; None where nothing can be
    predicted. ``measuring`` says how the measured file moves the others: log ms of a file rise
    by ``gain`` times the log of the ratio, and ``factor`` times the median is not exceeded
    with the confidence.
    """
    references = list[tuple[KnownPhone, Floats]]()
    for phone in phones:
        figures = _figures_of_files(files, phone.device, confidence, predictor)
        # A selector compares the files of one phone,
        # so a phone that lacks one of them cannot serve as a reference.
        if len(figures) == len(files):
            references.append((phone, figures))
    if not references:
        raise UsageError(
            "--tiers: no known phone runs all files",
            "choose files of other forms with --compressions",
        )
    # Means of logarithms: a slow phone must not outweigh the fast ones.
    mean_log_ms = np.mean([np.log(figures[:, 0]) for _, figures in references], axis=0)
    fastest = int(np.argmin(mean_log_ms))
    # A selector takes the first phone with the GPU that it sees,
    # and the slowest one is the cautious choice.
    references.sort(key=lambda reference: reference[0].speed)
    reference_phones = [phone for phone, _ in references]
    return {
        "budget_ms": budget_ms,
        "confidence": confidence,
        "measured_tier": fastest,
        "window_ms": WINDOW_MS,
        "measuring": _describe_measuring(files, fastest, reference_phones, confidence, predictor),
        "rules": RULES,
        "core_macs": core_macs(),
        "phones": [_describe_phone(phone, figures) for phone, figures in references],
    }


def _describe_phone(phone: KnownPhone, figures: Floats) -> dict[str, Any]:
    return {
        "names": phone.names,
        "gpu": phone.gpu,
        "speed": shorten_number(phone.speed),
        "ms": list(map(shorten_number, figures[:, 0])),
        "sure_ms": list(map(shorten_number, figures[:, 1])),
    }


def _figures_of(evaluation: Evaluation, confidence: float) -> tuple[float, float] | None:
    """Return median and latency with the confidence, in ms; None if nothing can be predicted."""
    distribution = evaluation.latency_distribution
    if evaluation.status is not Status.OK or distribution is None or evaluation.latency is None:
        return None
    return evaluation.latency.value, distribution.at(confidence)


def _figures_of_files(
    files: Sequence[Evaluation],
    device: TargetDevice,
    confidence: float,
    predictor: DevicePredictor,
) -> Floats:
    """Return the two figures (files, 2) of each file that a phone runs."""
    predicted = []
    for evaluation in predictor.evaluate(files, device, None):
        figures = _figures_of(evaluation, confidence)
        if figures is not None:
            predicted.append(figures)
    return np.array(predicted).reshape(-1, 2)


def shorten_number(value: float) -> float:
    """Return a number with the four digits that ``tiers.json`` states."""
    return float(f"{value:.4g}")


def set_measured(device: TargetDevice, file: Evaluation, milliseconds: float) -> TargetDevice:
    """Return a device on which a file took some time, for the predictor."""
    form = form_of(file.configuration.compression).like
    row = Measurement(
        device.target.name,
        file.configuration.card,
        form,
        milliseconds,
        "median",
        source_repo=CALIBRATED,
    )
    profile = replace(device.profile, measurements=(*device.profile.measurements, row))
    return replace(device, profile=profile)


def _describe_measuring(
    files: Sequence[Evaluation],
    fastest: int,
    phones: Sequence[KnownPhone],
    confidence: float,
    predictor: DevicePredictor,
) -> list[dict[str, float]]:
    """Return what a measurement of the fastest file says of each, by the predictor on phones from
    slow to fast.

    The gain is the mean, the factor the largest one. The predictor keeps forms apart that compute
    otherwise. So a file whose form the measurement does not reach is moved in full, and keeps the
    factor of the prediction alone.
    """
    ordered = sorted(phones, key=lambda phone: phone.speed)
    places = np.linspace(0, len(ordered) - 1, min(REFERENCES, len(ordered)))
    gains = []
    factors = []
    for place in places:
        phone = ordered[round(place)]
        base_ms = _figures_of_files(files, phone.device, confidence, predictor)[fastest, 0]
        fast_device = set_measured(phone.device, files[fastest], base_ms / RATIO)
        slow_device = set_measured(phone.device, files[fastest], base_ms * RATIO)
        low = _figures_of_files(files, fast_device, confidence, predictor)
        high = _figures_of_files(files, slow_device, confidence, predictor)
        # The slope of log ms of a file over log ms of the measured one,
        # between the two measurements.
        gains.append(np.log(high[:, 0] / low[:, 0]) / (2 * np.log(RATIO)))
        # The geometric mean of the factors at both ends.
        low_factor = low[:, 1] / low[:, 0]
        high_factor = high[:, 1] / high[:, 0]
        factors.append(np.sqrt(low_factor * high_factor))
    gain = np.clip(np.mean(gains, axis=0), 0.0, 1.0)
    factor = np.max(factors, axis=0)
    # No gain means that the form is not reached, not that the phone's speed does not matter to it.
    gain = np.where(gain < LEAST_GAIN, 1.0, gain)
    measuring = []
    for gain_of_file, factor_of_file in zip(gain.tolist(), factor.tolist(), strict=True):
        measuring.append(
            {"gain": shorten_number(gain_of_file), "factor": shorten_number(factor_of_file)}
        )
    return measuring
