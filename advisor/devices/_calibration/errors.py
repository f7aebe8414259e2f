"""Say how far the predictions of a target are off, before and after a calibration.

Errors are compared with the new measurements; expected errors come from the predictor's own
distributions. :func:`tell_gain` is shown before the device measures, :func:`list_changes` while it
does.
"""

import math
import statistics
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from advisor.core import Provenance, show_ms
from advisor.devices._calibration.networks import Timings, forms_of, with_measurements
from advisor.devices._kernels import Tell
from advisor.devices._latency.features import Models
from advisor.devices._latency.model import NAMED
from advisor.devices._prediction import Predictor
from advisor.devices._profiles import DeviceProfile, DeviceTarget

SURPRISING = 0.9
"""Measurements outside the interval of this level that the others predict contradict each other:
of two, nothing tells which one is wrong. It names nine of ten pairs of which one is four times too
slow, and 1 % of right pairs (hidden silicons, TensorFlow Lite on CPUs).
"""


@dataclass(frozen=True)
class CalibrationReport:
    """The errors of predictions in one form."""

    form: str  #: ``float32`` or ``int8``
    models: tuple[str, ...]  #: names of the models measured on the target
    before: tuple[float, ...]  #: relative error of each, predicted without the new measurements
    #: relative error of each, predicted from all other models (leave-one-out);
    #: empty for a single model
    after: tuple[float, ...]
    #: expected median error of the models of the catalogue that were not measured, as the
    #: predictor itself knew before; NaN if there are none
    expected_before: float
    expected_after: float  #: the same with the new measurements
    #: measured models whose latencies contradict the others, each with what these expect (ms)
    contradicting: Mapping[str, float] = field(default_factory=dict)

    @property
    def median_before(self) -> float:
        """Median of the absolute relative errors."""
        return float(np.median(np.abs(self.before)))

    @property
    def median_after(self) -> float:
        """Median of the absolute relative errors, NaN for a single model."""
        return float(np.median(np.abs(self.after))) if self.after else float("nan")


def calibration_report(
    predictor: Predictor,
    before: DeviceProfile,
    after: DeviceProfile,
    target: DeviceTarget,
    models: Models,
    form: str,
) -> CalibrationReport:
    """Compare predictions of the measured models without the new measurements,
    and from each other.

    ``predictor`` is fitted without the new measurements; ``before`` and ``after`` are the profile
    without and with them; ``models`` are those that can be measured.
    """
    truth = {}
    for row in after.measurements:
        is_of_form = row.target == target.name and row.precision == form
        if is_of_form and row not in before.measurements:
            truth[row.model] = row.latency_ms
    measured_models = [model for model in models if model.name in truth]
    names = tuple(model.name for model in measured_models)
    # An earlier measurement of the same models would make the figure "before" too good.
    predictions = predictor.predict(_drop_models(before, truth), target, form, measured_models)
    errors = []
    for prediction, name in zip(predictions, names, strict=True):
        errors.append(prediction.latency.value / truth[name] - 1)
    left_out = list[float]()
    surprising = dict[str, float]()
    for model in measured_models if len(names) > 1 else []:
        # Left out one by one: with its own measurement, a model is not predicted but looked up.
        (prediction,) = predictor.predict(_drop_models(after, [model.name]), target, form, [model])
        left_out.append(prediction.latency.value / truth[model.name] - 1)
        # Twice as long contradicts as much as half as long.
        factor = max(
            prediction.latency.value / truth[model.name],
            truth[model.name] / prediction.latency.value,
        )
        if (
            factor > NAMED
            and abs(prediction.probability(truth[model.name]) - 0.5) > SURPRISING / 2
        ):
            surprising[model.name] = prediction.latency.value
    now = estimate_error(predictor, before, target, form, models)
    later = estimate_error(predictor, after, target, form, models)
    contradicting = predictor.contradicting(after, target, form) or (
        surprising if len(surprising) > 1 else {}
    )
    return CalibrationReport(
        form, names, tuple(errors), tuple(left_out), now, later, contradicting
    )


def _drop_models(profile: DeviceProfile, models: Collection[str]) -> DeviceProfile:
    return replace(
        profile, measurements=tuple(row for row in profile.measurements if row.model not in models)
    )


def estimate_error(
    predictor: Predictor,
    profile: DeviceProfile,
    target: DeviceTarget,
    form: str,
    models: Models,
) -> float:
    """Return the median relative error to expect of models that are predicted,
    from their own distributions.

    It is NaN if every model is known.
    """
    predictions = predictor.predict(profile, target, form, models)
    spreads = []
    for prediction in predictions:
        if prediction.latency.provenance is Provenance.PREDICTED:
            # Half of the errors lie between the quartiles,
            # so half of their distance (log) is the median error.
            spreads.append(math.sqrt(prediction.quantile(0.75) / prediction.quantile(0.25)) - 1)
    return statistics.median(spreads) if spreads else math.nan


def tell_gain(
    predictor: Predictor,
    before: DeviceProfile,
    with_kernels: DeviceProfile,
    target: DeviceTarget,
    models: Models,
    names: Collection[str],
    tell: Tell,
) -> None:
    """Tell the expected median error now,
    and as it will be if the models turn out as they are predicted.
    """
    chosen = [model for model in models if model.name in names]
    forms = forms_of(target)
    predicted = {}
    for form in forms:
        for model, prediction in zip(
            chosen, predictor.predict(with_kernels, target, form, chosen), strict=True
        ):
            predicted[(model.name, form)] = prediction.latency.value
    after = with_measurements(with_kernels, target, predicted)
    for form in forms:
        now = estimate_error(predictor, before, target, form, models)
        later = estimate_error(predictor, after, target, form, models)
        if not math.isnan(now) and not math.isnan(later):
            tell(
                f"{form}: expected median error {now:.0%} now, {later:.0%} with {len(chosen)}"
                " models measured"
            )


def list_changes(
    predictor: Predictor,
    before: DeviceProfile,
    after: DeviceProfile,
    target: DeviceTarget,
    models: Models,
    timings: Timings,
) -> Iterator[str]:
    """Yield the latency of each timing,
    and how it changed the expected error of the networks not measured.
    """
    for (name, form), timing in timings.items():
        was = estimate_error(predictor, before, target, form, models)
        now = estimate_error(predictor, after, target, form, models)
        text = f"{name} {form} takes {show_ms(timing.own_ms)}"
        if not math.isnan(was + now):
            text += f"; the expected error of the others {_describe_change(was, now)}"
        yield text


def _describe_change(was: float, now: float) -> str:
    """Return how an error changed, in words.

    Rounded to percent, many changes are none, and "falls from 12% to 12%" would read like a fault.
    """
    if f"{was:.0%}" == f"{now:.0%}":
        return f"stays {now:.0%}"
    return f"{'falls' if now < was else 'rises'} from {was:.0%} to {now:.0%}"
