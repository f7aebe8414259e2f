"""Calibrate an available device:
measure a few models and kernels, keep the figures in its profile, and judge them.

``advisor devices calibrate`` calls :func:`check_target`, then :func:`calibrate`. Kernels are
written into the profile after each job, networks at the end, all with the source
``calibrated``. The keys of :meth:`Calibrated.to_json` are a document that users read.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from advisor.catalog import Card, Catalogue
from advisor.core import UsageError
from advisor.devices._calibration.decisive import PickForBudget
from advisor.devices._calibration.errors import (
    CalibrationReport,
    calibration_report,
    list_changes,
    tell_gain,
)
from advisor.devices._calibration.networks import (
    Latencies,
    MeasuredNetworks,
    Timings,
    add_kernels,
    convert_card,
    forms_of,
    measure_networks,
    with_timings,
)
from advisor.devices._connections.protocol import Connection
from advisor.devices._kernels import Tell, TimedKernels, kernels_to_time, time_kernels
from advisor.devices._latency.features import Models, load_features
from advisor.devices._prediction import Predictor
from advisor.devices._profiles import (
    HOST,
    MEASURABLE_RUNTIMES,
    MEASURED_KERNELS,
    DeviceProfile,
    DeviceTarget,
)
from advisor.devices._profiles.runtimes import local_runtimes
from advisor.devices._profiles.storing import folder_of, write_profile
from advisor.isolation import ChildPool, Scratch


@dataclass(frozen=True)
class Calibrated:
    """The result of a calibration."""

    profile: DeviceProfile  #: the profile with the new measurements
    target: DeviceTarget  #: the measured target
    networks: MeasuredNetworks  #: timings of the models, and which ones were left out
    #: errors of the predictions before and after, one for each form
    reports: tuple[CalibrationReport, ...]
    path: Path  #: the file that contains the profile
    left_out: tuple[str, ...] = ()  #: why kernels were left out, one line for each
    pick: str = ""  #: with a budget, which network is the most accurate that meets it, in words

    @property
    def latency_ms(self) -> Latencies:
        """Latency of each model by name and form, ms."""
        return {key: timing.own_ms for key, timing in self.networks.timings.items()}

    @property
    def runtime(self) -> str:
        """Runtime and version that the device reports."""
        return next(timing.runtime for timing in self.networks.timings.values())

    def to_json(self) -> dict[str, object]:
        """Return a JSON object; a relative error that is not known is NaN."""
        return {
            "device": self.profile.name,
            "target": self.target.name,
            "runtime": self.runtime,
            "latency_ms": {
                f"{model}/{form}": value for (model, form), value in self.latency_ms.items()
            },
            "reports": list(map(asdict, self.reports)),
            "kernels_left_out": list(self.left_out),
            "networks_left_out": list(self.networks.left_out),
            "clock": self.networks.clock,
            "governor": self.networks.governor,
            "pick": self.pick,
            "path": str(self.path),
        }


def check_target(profile: DeviceProfile, target: DeviceTarget) -> None:
    """Refuse a target that cannot be calibrated (UsageError).

    Refused are this machine, and targets whose runtime is not TensorFlow Lite, whose processor is
    not the CPU, which run neither float32 nor int8 files, or whose build computes with other
    kernels than the one that is measured.
    """
    if profile.name == HOST or profile.name in local_runtimes():
        raise UsageError(
            f"'{profile.name}' needs no calibration, because every search measures it",
            "name another device",
        )
    measurable = []
    for processor in profile.targets:
        if (
            processor.accelerator == "cpu"
            and processor.runtime in MEASURABLE_RUNTIMES
            and forms_of(processor)
        ):
            measurable.append(processor)
    calibratable = []
    for processor in measurable:
        if processor.kernels in ("", MEASURED_KERNELS):
            calibratable.append(processor.name)
    if target.name not in calibratable:
        reason = "no CPU target that runs float32 or int8 .tflite files"
        if target in measurable:
            reason = (
                f"its build computes with {target.kernels}, and a calibration measures one with"
                f" {MEASURED_KERNELS}"
            )
        advice = "add your own profile with a CPU target of the runtime tflite or ai-edge-litert"
        if calibratable:
            names = ", ".join(f"{profile.name}:{name}" for name in calibratable)
            advice = f"targets that can be calibrated: {names}"
        raise UsageError(f"{profile.name}:{target.name} cannot be calibrated: {reason}", advice)


def calibrate(
    profile: DeviceProfile,
    target: DeviceTarget,
    connection: Connection,
    predictor: Predictor,
    wanted: int,
    tell: Tell,
    candidates: Collection[str],
    kernels: bool = False,
    budget_ms: float | None = None,
) -> Calibrated:
    """Measure the ``wanted`` most informative networks of the ``candidates`` on the device,
    and write its profile.

    Latency does not depend on the weights, so the models are made here with random weights and
    nothing is downloaded. Small files are preferred, because they are sent to the device. Every
    model is measured in each form that the target runs. With ``kernels``, the operators of the
    candidates are timed first; networks are then predicted as their sum. They are written into the
    profile after each job, so that an interrupted calibration can be continued. With a budget,
    each network is chosen after the one before it was measured: the one that raises the published
    accuracy of the pick most, by expectation. StageError if no network was measured, or if the
    device slowed down: then only kernels are kept.
    """
    known = load_features().models
    forms = forms_of(target)
    cards = _map_predictable(known)
    models = [known[name] for name in cards]
    with Scratch() as work:
        operators = kernels_to_time(profile, target, forms, candidates) if kernels else ()
        timed = time_kernels(connection, target, operators, work, tell)
        with_kernels, left_out = _write_kernels(profile, timed)
        costs = _sending_costs(models, candidates)
        decision: PickForBudget | None = None
        if budget_ms:
            rated = {name: cards[name].top1() or 0.0 for name in costs}
            decision = PickForBudget(
                predictor, target, tuple(known[name] for name in rated), rated, budget_ms
            )
        progress = _Progress(predictor, target, models, with_kernels, decision, tell)
        names: Iterable[str]
        if decision:
            names = decision.names(progress.read_profile, wanted)
        else:
            names = predictor.most_informative(profile, target, forms[0], costs, wanted)
            tell_gain(predictor, profile, with_kernels, target, models, names, tell)
        with ChildPool(work / "log") as pool:
            # The next network is chosen and made when the one before it was measured.
            files = (
                convert_card(pool, cards[name], forms, work, progress.tell_step) for name in names
            )
            networks = measure_networks(
                connection, files, target.threads, progress.tell_step, progress.add_timings
            )
    after = with_timings(with_kernels, target, networks.timings)
    reports = []
    for form in _list_measured_forms(forms, networks):
        reports.append(calibration_report(predictor, profile, after, target, models, form))
    path = write_profile(after, folder_of(profile))
    pick = decision.pick(after) if decision else ""
    return Calibrated(after, target, networks, tuple(reports), path, tuple(left_out), pick)


def _list_measured_forms(forms: Sequence[str], networks: MeasuredNetworks) -> list[str]:
    measured = {form for _, form in networks.timings}
    return [form for form in forms if form in measured]


class _Progress:
    """The profile as it grows with each measured network, and what the last network changed."""

    def __init__(
        self,
        predictor: Predictor,
        target: DeviceTarget,
        models: Models,
        start: DeviceProfile,
        decision: PickForBudget | None,
        tell: Tell,
    ) -> None:
        self._predictor = predictor
        self._target = target
        self._models = models
        self._start = start
        self._decision = decision
        self._tell = tell
        self._profile = start
        self._changes: list[str] = []

    def read_profile(self) -> DeviceProfile:
        """Return the profile with all measurements so far."""
        return self._profile

    def tell_step(self, text: str) -> None:
        """Tell a step behind what the last network changed.

        A line of its own would be replaced at once.
        """
        self._tell("; ".join((*self._changes, text)))

    def add_timings(self, timings: Timings, earlier: Timings) -> None:
        """Take in the timings of one network; ``earlier`` are all before it."""
        before = with_timings(self._start, self._target, earlier)
        self._profile = with_timings(self._start, self._target, {**earlier, **timings})
        changes = list_changes(
            self._predictor, before, self._profile, self._target, self._models, timings
        )
        self._changes = list(changes)
        if self._decision:
            self._changes.append(self._decision.pick(self._profile))


def _map_predictable(known: Collection[str]) -> dict[str, Card]:
    """Return the cards with features, which are ``known``,
    whose networks can be made with random weights.
    """
    cards = {}
    for card in Catalogue.load().values():
        if card.name in known and not card.own_file:
            cards[card.name] = card
    return cards


def _write_kernels(
    profile: DeviceProfile, parts: Iterable[TimedKernels]
) -> tuple[DeviceProfile, list[str]]:
    """Write a profile after each part of the timed kernels;
    return it, and what could not be timed.
    """
    left_out = list[str]()
    for part in parts:
        profile = add_kernels(profile, part.kernels)
        left_out += part.left_out
        write_profile(profile, folder_of(profile))
    return profile, left_out


def _sending_costs(models: Models, candidates: Collection[str]) -> dict[str, float]:
    """Return by how much the sending of each candidate lowers its value: 100 MB halve it."""
    costs = {}
    for model in models:
        if model.name in candidates:
            # Four bytes for each parameter.
            costs[model.name] = 4 * model.params / 1e6 / 100
    return costs
