"""A search's devices other than this machine: predicted again where what is known of them changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from advisor.core.errors import UsageError
from advisor.core.evaluation import Evaluation
from advisor.core.figures import HOST
from advisor.engine.history.loaded_run import LoadedRun
from advisor.engine.targets.compatibility import TargetDevice
from advisor.engine.targets.device_prediction import DevicePredictor
from advisor.engine.targets.selection import select_devices

ENVIRONMENTS = "targets"
"""Name in the manifest of what the predictions for each device rest on: device to hash."""


@dataclass(frozen=True)
class Changed:
    """Devices of a question of which something else is known now.

    Attributes:
        places: the devices.
        environments: what predictions for them rest on now, by name.
        remark: why that is not known, or empty.
    """

    places: tuple[TargetDevice, ...] = ()
    environments: Mapping[str, str] = field(default_factory=dict)
    remark: str = ""

    @property
    def causes(self) -> Iterator[str]:
        """What changed, in words."""
        return (f"the device {place.label} was changed" for place in self.places)


def environments(forecaster: DevicePredictor, places: Sequence[TargetDevice]) -> dict[str, str]:
    """Return what the predictions for each device rest on, by its name."""
    return {place.label: forecaster.environment(place.profile, place.target) for place in places}


def changed_places(run: LoadedRun, forecaster: Callable[[], DevicePredictor]) -> Changed:
    """Hold what a run's predictions rest on against what is known now.

    A device that was measured over its connection stays as it was measured.
    """
    then = run.manifest.get(ENVIRONMENTS)
    reached = {e.configuration.target.device for e in run.evaluations if e.remote is not None}
    labels = [label for label in then if label != HOST and label not in reached] if isinstance(then, Mapping) else []
    if not labels or not isinstance(then, Mapping):
        return Changed()
    try:
        places = select_devices(labels, run.question.profiles, "--device")
    except UsageError as error:
        return Changed(remark=f"its devices could not be looked at: {error.message}")
    now = environments(forecaster(), places)
    return Changed(tuple(place for place in places if then[place.label] != now[place.label]), {**then, **now})


def predicted_again(
    run: LoadedRun, evaluations: Sequence[Evaluation], places: Sequence[TargetDevice], forecaster: DevicePredictor
) -> tuple[Evaluation, ...]:
    """Return the evaluations with those on ``places`` predicted anew; others stay."""
    labels, limits = {place.label for place in places}, run.question.limits
    kept = [e for e in evaluations if e.configuration.target.device not in labels]
    found = [
        evaluation
        for place in places
        for evaluation in forecaster.evaluate(evaluations, place, limits.latency_ms, limits.confidence)
    ]
    return (*kept, *found)
