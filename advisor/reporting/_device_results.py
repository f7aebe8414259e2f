"""The pick on each device of the question, the decision for each device alone, and runtimes.

The answer on the terminal and in Markdown, the table of an answer and the page's section on
devices read these values. They are empty where the question is about one device.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from advisor.core import (
    HOST,
    Decision,
    DeviceFigures,
    Evaluation,
    Provenance,
    UsageError,
    plural,
    show_ms,
    show_probability,
    units,
)
from advisor.reporting._view import RunView

if TYPE_CHECKING:
    from advisor.engine import TargetDevice


def find_device(view: RunView, evaluation: Evaluation) -> TargetDevice | None:
    """Return the device of the question that an evaluation is for; None for this machine, and
    where a report is read without the profile.
    """
    from advisor.engine import TargetDevice

    question = view.request.question
    selectors = tuple(selector for selector in question.devices if selector != HOST)
    try:
        devices = TargetDevice.select(selectors, question.profiles, "--device")
    except UsageError:
        return None
    for device in devices:
        if device.identity == evaluation.configuration.target:
            return device
    return None


def remark_build(view: RunView, pick: Evaluation) -> str:
    """Return which build of the runtime the predicted latency of the pick belongs to, and how much
    slower others may be; empty where the device has no other, and for a measured latency.
    """
    device = find_device(view, pick)
    latency = pick.latency
    if device is None or latency is None or latency.provenance is not Provenance.PREDICTED:
        return ""
    build = device.profile.remark_other_builds(device.target)
    return f"the build on {device.profile.name} (predicted with {build})" if build else ""


@dataclass(frozen=True)
class DeviceResult:
    """One file on one device, which may be ``required`` although the question is not about it.

    The target is in words, and the latency is ``predicted 11.8 ms [10.2-13.9]``, or why the file
    does not run there. ``97 % sure`` or ``p90 12.1 ms`` is compared with the budget; it is empty
    where neither is known. ``source`` says how a latency was measured over a connection.
    """

    device: str
    target: str
    latency: str
    against_budget: str
    meets: bool
    required: bool = False
    source: str = ""

    @property
    def sentence(self) -> str:
        """The figures in a line: ``galaxy-s24: predicted 1.2 ms [0.9-1.6], over 99 % sure``."""
        also = " (required)" if self.required else ""
        compared = f", {self.against_budget}" if self.against_budget else ""
        return f"{self.device}{also}: {self.latency}{compared}"


@dataclass(frozen=True)
class DeviceDecision:
    """The decision for one device alone,
    and whether it picks the same artefact as the decision for all.
    """

    device: str
    decision: Decision
    same: bool


def device_results(view: RunView, evaluation: Evaluation) -> tuple[DeviceResult, ...]:
    """Return the results of an evaluation's file on every device of the question."""
    results = []
    for device, figures in evaluation.device_figures.items():
        results.append(_describe_result(view, device, figures, required=False))
    for device, figures in (evaluation.required_figures or {}).items():
        results.append(_describe_result(view, device, figures, required=True))
    return tuple(results)


def _describe_result(
    view: RunView, device: str, figures: DeviceFigures, required: bool
) -> DeviceResult:
    """Return the figures of the pick on one device in words."""
    probability = figures.budget_probability
    target = f"{figures.accelerator}, {plural(figures.threads, 'thread')}, {figures.runtime}"
    if figures.reason or figures.latency_ms is None:
        return DeviceResult(device, target, figures.reason or "not known", "", False, required)
    p90_ms = figures.p90_ms or figures.latency_ms
    limit = view.limits.latency_ms
    latency = units.show_ms_interval(figures.latency_ms, figures.low_ms, figures.high_ms)
    compared = f"p90 {show_ms(p90_ms)}"
    if limit is not None:
        compared = f"p90 {units.show_against('latency', limit, p90_ms)[0]}"
    if probability is not None:
        compared = f"{show_probability(probability)} sure"
    return DeviceResult(
        device=device,
        target=target,
        latency=f"{figures.provenance} {latency}",
        against_budget=compared,
        meets=limit is None or p90_ms <= limit,
        required=required,
        source=figures.source,
    )


def device_decisions(view: RunView) -> tuple[DeviceDecision, ...]:
    """Return the decision for each device alone; empty where the question is about one device."""
    chosen = view.decision.pick.variant if view.decision.pick else None
    decisions = []
    for device, decision in view.by_device.items():
        is_same = (
            chosen is not None and decision.pick is not None and decision.pick.variant == chosen
        )
        decisions.append(DeviceDecision(device, decision, is_same))
    return tuple(decisions)


def foreign_runtimes(view: RunView, rows: Sequence[Evaluation] = ()) -> list[str]:
    """Return a sentence for each device whose latencies belong to a runtime
    that cannot run ``.tflite`` files.

    The front and the pick of the run count, and further ``rows`` that are shown.
    """
    from advisor.engine import list_foreign_runtimes

    pick = view.decision.pick
    shown = [*rows, *([pick] if pick else ())]
    for decision in (view.decision, *view.by_device.values()):
        shown += decision.front
    runtimes = []
    for row in shown:
        target = row.configuration.target
        runtimes.append((target.device, target.runtime))
    for device, figures in (_list_figures(pick) if pick else {}).items():
        runtimes.append((device, figures.runtime))
    return list_foreign_runtimes(runtimes)


def runtimes_sentence(view: RunView) -> str:
    """Return the latencies of the pick in the runtimes of this machine;
    empty where it was measured in one only.

    For example ``LiteRT 1.10 ms, ONNX Runtime 1.90 ms (1.73 times as long)
    for the same model on this machine``.
    """
    from advisor.engine import name_runtime

    pick = view.decision.pick
    times = {}
    for device, figures in (_list_figures(pick) if pick else {}).items():
        title = name_runtime(device)
        if title and figures.latency_ms and not figures.reason:
            times[title] = figures.latency_ms
    if len(times) < 2:
        return ""
    first_ms = next(iter(times.values()))
    parts = []
    for title, latency_ms in times.items():
        longer = ""
        if latency_ms != first_ms:
            longer = f" ({latency_ms / first_ms:.2f} times as long)"
        parts.append(f"{title} {show_ms(latency_ms)}{longer}")
    return f"{', '.join(parts)} for the same model on this machine"


def _list_figures(pick: Evaluation) -> dict[str, DeviceFigures]:
    """Return the figures on the devices of the question and on the required ones."""
    return {**pick.device_figures, **(pick.required_figures or {})}
