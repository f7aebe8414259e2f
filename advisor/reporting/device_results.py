"""An answer for several devices: the one model for all, device by device, and each device's own pick."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from advisor.core.budget import ELSEWHERE
from advisor.core.decision import Decision
from advisor.core.evaluation import Evaluation
from advisor.core.figures import artefact_of
from advisor.core.latency_distribution import percent
from advisor.core.units import show_ms
from advisor.core.worst_case import EVERYWHERE
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
        *_spots(view, evaluation.details.get(EVERYWHERE), False),
        *_spots(view, evaluation.details.get(ELSEWHERE), True),
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


def _spots(view: RunView, known: Any, required: bool) -> Iterable[DeviceResult]:
    for device, facts in known.items() if isinstance(known, Mapping) else ():
        yield _spot(view, str(device), facts, required)


def _spot(view: RunView, device: str, facts: Mapping[str, Any], required: bool) -> DeviceResult:
    threads = int(facts.get("threads") or 1)
    target = f"{facts.get('accelerator')}, {threads} thread{'s'[: threads > 1]}, {facts.get('runtime')}"
    if facts.get("reason") or facts.get("latency_ms") is None:
        return DeviceResult(device, target, str(facts.get("reason") or "not known"), "", False, required)
    held, limit = float(facts.get("held_ms") or facts["latency_ms"]), view.budget.latency_ms
    chance = facts.get("budget_probability")
    return DeviceResult(
        device,
        target,
        _latency(facts),
        f"{percent(float(chance))} sure" if chance is not None else f"p90 {show_ms(held)}",
        limit is None or held <= limit,
        required,
    )


def _latency(facts: Mapping[str, Any]) -> str:
    shown = f"{facts.get('provenance')} {show_ms(float(facts['latency_ms']))}"
    low, high = facts.get("low_ms"), facts.get("high_ms")
    if low is None or high is None:
        return shown
    return f"{shown} [{show_ms(float(low)).removesuffix(' ms')}-{show_ms(float(high)).removesuffix(' ms')}]"


def sentence(spot: DeviceResult) -> str:
    """Say one device's figures in a line: ``galaxy-s24: predicted 1.2 ms [0.9-1.6], over 99 % sure``."""
    also = " (required)" if spot.required else ""
    return f"{spot.device}{also}: {spot.latency}{f', {spot.sure}' if spot.sure else ''}"
