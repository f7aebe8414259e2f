"""An answer for several devices: the one model for all, device by device, and each device's own pick."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from advisor.core.decision import Decision
from advisor.core.evaluation import Evaluation
from advisor.core.evaluation_facts import DeviceFigures
from advisor.core.figures import artefact_of
from advisor.core.latency_distribution import percent
from advisor.core.units import show_ms
from advisor.reporting.view import RunView


@dataclass(frozen=True)
class DeviceResult:
    """One file on one device.

    Attributes:
        device: the device.
        target: runtime, accelerator and threads, in words.
        latency: ``predicted 11.8 ms [10.2-13.9]``, or why it does not run there.
        sure: the chance to meet the budget in words, empty where there is none.
        meets: it meets the latency budget.
        required: it must run there, but the question is not about this device.
    """

    device: str
    target: str
    latency: str
    sure: str
    meets: bool
    required: bool = False


@dataclass(frozen=True)
class Own:
    """A device's own answer: its decision, and whether its pick is the one for all."""

    device: str
    decision: Decision
    same: bool


def spots(view: RunView, evaluation: Evaluation) -> tuple[DeviceResult, ...]:
    """Return what is known of an evaluation's file on every device of the question."""
    return (
        *_results(view, evaluation.device_figures, False),
        *_results(view, evaluation.required_figures or {}, True),
    )


def own_answers(view: RunView) -> tuple[Own, ...]:
    """Return each device's own answer; empty where the question is about one device."""
    chosen = view.decision.pick
    return tuple(
        Own(
            device,
            decision,
            chosen is not None and decision.pick is not None and artefact_of(chosen) == artefact_of(decision.pick),
        )
        for device, decision in view.by_device.items()
    )


def foreign_runtimes(view: RunView, rows: Sequence[Evaluation]) -> list[str]:
    """Say of which devices the latencies are another runtime's than that of ``.tflite`` files."""
    from advisor.devices.profiles.compatibility import TFLITE_RUNTIMES

    others = [each for decision in view.by_device.values() for each in decision.front]
    targets = dict.fromkeys(each.configuration.target for each in (*rows, *others))
    foreign = {
        target.device: runtime
        for target in targets
        if (runtime := target.runtime.partition("==")[0]) not in TFLITE_RUNTIMES
    }
    return [
        f"{device}: the latencies are those of {runtime}, which does not run .tflite files: take them as a guide"
        for device, runtime in foreign.items()
    ]


def _results(view: RunView, known: Mapping[str, DeviceFigures], required: bool) -> Iterable[DeviceResult]:
    return (_result(view, device, figures, required) for device, figures in known.items())


def _result(view: RunView, device: str, figures: DeviceFigures, required: bool) -> DeviceResult:
    threads, probability = figures.threads, figures.budget_probability
    target = f"{figures.accelerator}, {threads} thread{'s'[: threads > 1]}, {figures.runtime}"
    if figures.reason or figures.latency_ms is None:
        return DeviceResult(device, target, figures.reason or "not known", "", False, required)
    p90_ms, limit = figures.p90_ms or figures.latency_ms, view.budget.latency_ms
    return DeviceResult(
        device,
        target,
        _latency(figures, figures.latency_ms),
        f"{percent(probability)} sure" if probability is not None else f"p90 {show_ms(p90_ms)}",
        limit is None or p90_ms <= limit,
        required,
    )


def _latency(figures: DeviceFigures, latency_ms: float) -> str:
    shown = f"{figures.provenance} {show_ms(latency_ms)}"
    low, high = figures.low_ms, figures.high_ms
    if low is None or high is None:
        return shown
    return f"{shown} [{show_ms(low).removesuffix(' ms')}-{show_ms(high).removesuffix(' ms')}]"


def sentence(spot: DeviceResult) -> str:
    """Say one device's figures in a line: ``galaxy-s24: predicted 1.2 ms [0.9-1.6], over 99 % sure``."""
    also = " (required)" if spot.required else ""
    return f"{spot.device}{also}: {spot.latency}{f', {spot.sure}' if spot.sure else ''}"
