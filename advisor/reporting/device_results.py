"""Results on several devices: one file on each of them, and the decision for each device alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from advisor.core.decision import Decision
from advisor.core.evaluation import Evaluation, variant_of
from advisor.core.evaluation_facts import DeviceFigures
from advisor.core.quantity import percent
from advisor.core.units import plural, show_ms, show_ms_interval

if TYPE_CHECKING:
    from advisor.reporting.view import RunView


@dataclass(frozen=True)
class DeviceResult:
    """One file on one device.

    Attributes:
        device: the device.
        target: runtime, accelerator and threads, in words.
        latency: ``predicted 11.8 ms [10.2-13.9]``, or why the file does not run there.
        against_budget: what is compared with the budget: ``97 % sure`` or ``p90 12.1 ms``; empty where neither is
            known.
        meets: the file meets the latency budget.
        required: the file must run there, but the question is not about this device.
    """

    device: str
    target: str
    latency: str
    against_budget: str
    meets: bool
    required: bool = False


@dataclass(frozen=True)
class DeviceDecision:
    """The decision for one device alone, and whether it picks the same artefact as the decision for all."""

    device: str
    decision: Decision
    same: bool


def device_results(view: RunView, evaluation: Evaluation) -> tuple[DeviceResult, ...]:
    """Return the results of an evaluation's file on every device of the question."""
    required = evaluation.required_figures or {}
    return (
        *(_result(view, device, figures, False) for device, figures in evaluation.device_figures.items()),
        *(_result(view, device, figures, True) for device, figures in required.items()),
    )


def device_decisions(view: RunView) -> tuple[DeviceDecision, ...]:
    """Return the decision for each device alone; empty where the question is about one device."""
    chosen = view.decision.pick
    return tuple(
        DeviceDecision(
            device,
            decision,
            chosen is not None and decision.pick is not None and variant_of(chosen) == variant_of(decision.pick),
        )
        for device, decision in view.by_device.items()
    )


def foreign_runtimes(view: RunView, rows: Sequence[Evaluation] = ()) -> list[str]:
    """Return a sentence for each device whose latencies belong to a runtime that cannot run ``.tflite`` files.

    Args:
        view: the run; its front and its pick count.
        rows: further evaluations that are shown.
    """
    from advisor.devices.profiles import runtime_remark
    from advisor.devices.profiles.runtimes import runtime_of

    pick = view.decision.pick
    fronts = [each for decision in (view.decision, *view.by_device.values()) for each in decision.front]
    shown = [*rows, *([pick] if pick else ()), *fronts]
    runtimes = [(each.configuration.target.device, each.configuration.target.runtime) for each in shown]
    for figures in (pick.device_figures, pick.required_figures or {}) if pick else ():
        runtimes += [(device, each.runtime) for device, each in figures.items()]
    return list(
        dict.fromkeys(filter(None, (runtime_remark(*each) for each in runtimes if runtime_of(each[0]) is None)))
    )


def runtimes_sentence(view: RunView) -> str:
    """Return the latencies of the pick in the runtimes of this machine; empty where it was measured in one only.

    For example ``LiteRT 1.10 ms, ONNX Runtime 1.90 ms (1.73 times as long) for the same model on this machine``.
    """
    from advisor.devices.profiles.runtimes import title_of

    pick = view.decision.pick
    figures = {**pick.device_figures, **(pick.required_figures or {})} if pick else {}
    known = {title_of(device): each for device, each in figures.items() if title_of(device)}
    times = {title: each.latency_ms for title, each in known.items() if each.latency_ms and not each.reason}
    if len(times) < 2:
        return ""
    first = next(iter(times.values()))
    parts = [f"{title} {show_ms(ms)}{_times(ms, first)}" for title, ms in times.items()]
    return f"{', '.join(parts)} for the same model on this machine"


def _times(ms: float, first: float) -> str:
    return "" if ms == first else f" ({ms / first:.2f} times as long)"


def _result(view: RunView, device: str, figures: DeviceFigures, required: bool) -> DeviceResult:
    probability = figures.budget_probability
    target = f"{figures.accelerator}, {plural(figures.threads, 'thread')}, {figures.runtime}"
    if figures.reason or figures.latency_ms is None:
        return DeviceResult(device, target, figures.reason or "not known", "", False, required)
    p90_ms, limit = figures.p90_ms or figures.latency_ms, view.budget.latency_ms
    return DeviceResult(
        device,
        target,
        f"{figures.provenance} {show_ms_interval(figures.latency_ms, figures.low_ms, figures.high_ms)}",
        f"{percent(probability)} sure" if probability is not None else f"p90 {show_ms(p90_ms)}",
        limit is None or p90_ms <= limit,
        required,
    )


def sentence(result: DeviceResult) -> str:
    """Format one device's figures in a line: ``galaxy-s24: predicted 1.2 ms [0.9-1.6], over 99 % sure``."""
    also = " (required)" if result.required else ""
    return f"{result.device}{also}: {result.latency}{f', {result.against_budget}' if result.against_budget else ''}"
