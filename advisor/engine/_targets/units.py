"""Compare the processors of a device by what is predicted, where the question leaves the choice to its profile."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from statistics import median
from typing import TYPE_CHECKING

from advisor.catalog import Card
from advisor.core import CONFIDENCE, LatencyDistribution, plural, show_probability
from advisor.devices import TFLITE_RUNTIMES, target_vector
from advisor.engine._targets.delegated_nodes import falls_back, list_node_shares
from advisor.engine._targets.device_prediction import CardPredictor, DevicePredictor
from advisor.engine._targets.target_devices import TargetDevice

if TYPE_CHECKING:
    from advisor.devices import Prediction

UNITS = ("cpu", "gpu", "npu", "tpu")

_ANY_FORM = "int8"  # Whether a processor is described does not depend on the form

_CHANCES = tuple((2 * place + 1) / 40 for place in range(20))
"""Middles of twenty equally likely parts of a latency, by which the latencies of two processors are compared."""


@dataclass(frozen=True)
class UnitComparison:
    """The latencies of the files of a plan on another processor of a device, beside those on the one that counts."""

    unit: str  # ``cpu``, ``gpu``, ``npu`` or ``tpu``
    files: int  # number of files whose latency is known well enough on both
    faster: int  # number of these that are predicted to be faster on the other processor
    surely: int  # number of these that are so with a probability of :data:`advisor.core.CONFIDENCE`
    ratio: float  # latency on the other processor, relative to the one that counts, in the median; 0 without files


def describe_units(predictor: CardPredictor, cards: Sequence[Card], recipes: Sequence[str]) -> tuple[str, ...]:
    """Return a sentence for each device with several processors, of which the question names none."""
    sentences = []
    for device in predictor.targets.devices:
        comparisons = []
        for other in _list_other_units(device):
            if not _is_placed(other):
                continue
            comparisons.append(compare_units(predictor.predictor, device, other, cards, recipes))
        if comparisons:
            sentences.append(_describe_device(device, comparisons))
    return tuple(sentences)


def compare_units(
    predictor: DevicePredictor,
    device: TargetDevice,
    other: TargetDevice,
    cards: Sequence[Card],
    recipes: Sequence[str],
) -> UnitComparison:
    """Return how long the forms of cards take on the processor of ``other``, beside that of ``device``.

    A file counts if something like each processor was measured, and if neither leaves most of it to the CPU.
    """
    ratios = []
    surely = 0
    for card, recipe in product(cards, recipes):
        # Predictions are of networks that a processor runs as a whole.
        latencies = []
        for place in (device, other):
            prediction = predictor.predict_card(card, recipe, place)
            if isinstance(prediction, str) or prediction.unlike:
                break
            if falls_back(list_node_shares(card, recipe, (place,))):
                break
            latencies.append(prediction)
        else:
            counted, compared = latencies
            ratios.append(compared.latency.value / counted.latency.value)
            surely += _chance_of_faster(compared, counted) >= CONFIDENCE
    faster = sum(ratio < 1 for ratio in ratios)
    typical = median(ratios) if ratios else 0.0
    return UnitComparison(other.target.accelerator, len(ratios), faster, surely, typical)


def _list_other_units(device: TargetDevice) -> Iterator[TargetDevice]:
    """Yield the other processors of a device that run ``.tflite`` files; none if the user named one."""
    profile = device.profile
    # Who names a processor has chosen, and other runtimes do not run the files of a search.
    named = ":" in device.label
    if named or device.runtime is not None or device.target.runtime not in TFLITE_RUNTIMES:
        return
    for unit in UNITS:
        target = profile.find_on(unit)
        if target and unit != device.target.accelerator and target.runtime in TFLITE_RUNTIMES:
            yield replace(device, label=f"{profile.name}:{unit}", target=target)


def _is_placed(device: TargetDevice) -> bool:
    """Return whether the level of a target is known: it was measured, or its processor is described.

    NPUs that NNAPI reaches are not described. With nothing measured, the wrong one of two processors was named for 73
    of 125 files on two phones.
    """
    name = device.target.name
    if any(row.target == name and row.usable for row in device.profile.measurements):
        return True
    return device.target.accelerator == "gpu" or target_vector(device.profile, device.target, _ANY_FORM) is not None


def _chance_of_faster(one: "Prediction", other: "Prediction") -> float:
    """Return the probability that one latency is below another; their errors are taken as independent."""
    # A measured latency has an interval, too, so it is compared like a predicted one.
    quicker = LatencyDistribution.sample(one.quantile)
    slower = LatencyDistribution.sample(other.quantile)
    chances = [quicker.below(slower.at(chance)) for chance in _CHANCES]
    return sum(chances) / len(chances)


def _describe_device(device: TargetDevice, comparisons: Sequence[UnitComparison]) -> str:
    """Return which processor of a device counts, and how the others compare; the best other one is named at the end."""
    counted = device.target.accelerator.upper()
    compared = "; ".join(map(_describe_unit, comparisons))
    sentence = f"{device.label}: the plan is for its {counted}; by predictions, {compared}"
    # A processor that is faster for a few files alone would make the others slower.
    better = [comparison for comparison in comparisons if 2 * comparison.faster > comparison.files]
    if better:
        best = min(better, key=lambda comparison: comparison.ratio)
        sentence += f"; to plan for the {best.unit.upper()}: --device {device.profile.name}:{best.unit}"
    return sentence


def _describe_unit(comparison: UnitComparison) -> str:
    unit = comparison.unit.upper()
    if not comparison.files:
        return f"its {unit} cannot be compared before a measurement"
    faster = f"{comparison.faster or 'none'} of {plural(comparison.files, 'file')}"
    if comparison.faster:
        faster += f" ({show_probability(CONFIDENCE)} sure for {comparison.surely})"
    return f"its {unit} takes {comparison.ratio:.2g} times as long in the median, and is faster for {faster}"
