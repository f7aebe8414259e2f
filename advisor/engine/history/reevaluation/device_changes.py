"""Devices of a search other than this machine: predicted again where their profile or the predictor changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from advisor.core.errors import UsageError
from advisor.core.evaluation import Evaluation
from advisor.core.figures import HOST
from advisor.engine.history.documents import section
from advisor.engine.history.loaded_run import LoadedRun
from advisor.engine.targets.compatibility import TargetDevice
from advisor.engine.targets.device_prediction import DevicePredictor
from advisor.engine.targets.selection import select_devices

ENVIRONMENTS = "targets"
"""Name in the manifest of the hash of what the predictions for each device depend on, by device."""


@dataclass(frozen=True)
class DeviceChanges:
    """Devices of a question whose predictions would be others now.

    Attributes:
        devices: the devices.
        environments: hash of what the predictions depend on now, by device.
        remark: why that is not known, or empty.
    """

    devices: tuple[TargetDevice, ...] = ()
    environments: Mapping[str, str] = field(default_factory=dict)
    remark: str = ""

    @property
    def causes(self) -> Iterator[str]:
        """What changed, in words."""
        return (f"the device {device.label} was changed" for device in self.devices)


def find_environments(predictor: DevicePredictor, devices: Sequence[TargetDevice]) -> dict[str, str]:
    """Return the hash of what the predictions for each device depend on, by its name."""
    return {device.label: predictor.environment(device.profile, device.target) for device in devices}


def find_device_changes(run: LoadedRun, load_predictor: Callable[[], DevicePredictor]) -> DeviceChanges:
    """Compare what a run's predictions depended on with what they would depend on now.

    A device that was measured over its connection keeps its measurements.

    Args:
        run: the run.
        load_predictor: called only where the run has predictions.
    """
    then = section(run.manifest, ENVIRONMENTS)
    measured = {e.configuration.target.device for e in run.evaluations if e.remote is not None}
    names = [name for name in then if name != HOST and name not in measured]
    if not names:
        return DeviceChanges()
    try:
        devices = select_devices(names, run.question.profiles, "--device")
    except UsageError as error:
        return DeviceChanges(remark=f"the devices of the run cannot be read: {error.message}")
    now = find_environments(load_predictor(), devices)
    changed = tuple(device for device in devices if then[device.label] != now[device.label])
    return DeviceChanges(changed, {**then, **now})


def predict_again(
    run: LoadedRun, evaluations: Sequence[Evaluation], devices: Sequence[TargetDevice], predictor: DevicePredictor
) -> tuple[Evaluation, ...]:
    """Return the evaluations; those on ``devices`` are predicted anew."""
    names, limits = {device.label for device in devices}, run.question.limits
    kept = [e for e in evaluations if e.configuration.target.device not in names]
    predicted = [
        evaluation
        for device in devices
        for evaluation in predictor.evaluate(evaluations, device, limits.latency_ms, limits.confidence)
    ]
    return (*kept, *predicted)
