"""Describe in sentences which processor of a device a plan chooses, and how the others compare.

``advisor plan`` shows them as remarks, for each device whose processor the question does not name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from statistics import median
from typing import TYPE_CHECKING

from advisor.catalog import Card
from advisor.core import CONFIDENCE, LatencyDistribution, listed, plural, show_probability
from advisor.engine._targets.delegated_nodes import ProcessorChoice
from advisor.engine._targets.device_prediction import CardPredictor, DevicePredictor
from advisor.engine._targets.processors import (
    UNKNOWN,
    WHOLE_CARD,
    Choices,
    judge_unit,
    leaves_choice,
    list_other_units,
)
from advisor.engine._targets.target_devices import TargetDevice

if TYPE_CHECKING:
    from advisor.devices import Prediction

_CHANCES = tuple((2 * place + 1) / 40 for place in range(20))
"""Middles of twenty equally likely parts of a latency,
by which the latencies of two processors are compared.
"""


@dataclass(frozen=True)
class UnitComparison:
    """The latencies of the files of a plan on another processor of a device,
    beside those on the one that counts.
    """

    unit: str  # ``cpu``, ``gpu``, ``npu`` or ``tpu``
    files: int  # number of files whose latency is known well enough on both
    faster: int  # number of these that are predicted to be faster on the other processor
    # Number of these that are so with a probability of :data:`advisor.core.CONFIDENCE`.
    surely: int
    # Latency on the other processor, relative to the one that counts, in the median;
    # 0 without files.
    ratio: float
    # Compressions of these files if others of the plan cannot be compared.
    forms: tuple[str, ...] = ()


def describe_units(
    predictor: CardPredictor, cards: Sequence[Card], recipes: Sequence[str], choices: Choices
) -> tuple[str, ...]:
    """Return sentences for each device whose processor the question does not name:
    its choice, and a comparison.
    """
    sentences = []
    for device in predictor.targets.devices:
        comparisons = []
        for other in list_other_units(device):
            comparisons.append(compare_units(predictor.predictor, device, other, cards, recipes))
        if comparisons:
            sentences.append(_describe_choices(device, choices))
            sentences.append(_describe_device(device, comparisons))
        elif device.profile.kind == "phone" and leaves_choice(device):
            sentences.append(_describe_only_unit(device))
    return tuple(sentences)


def compare_units(
    predictor: DevicePredictor,
    device: TargetDevice,
    other: TargetDevice,
    cards: Sequence[Card],
    recipes: Sequence[str],
) -> UnitComparison:
    """Return how long the forms of cards take on the processor of ``other``,
    beside that of ``device``.

    A file counts if something like each processor was measured,
    and if neither leaves most of it to the CPU.
    """
    ratios = []
    # In the order of the recipes; a set would have none.
    forms = dict[str, None]()
    surely = 0
    for card, recipe in product(cards, recipes):
        counted = judge_unit(predictor, card, recipe, device).prediction
        compared = judge_unit(predictor, card, recipe, other).prediction
        if counted is None or compared is None:
            continue
        ratios.append(compared.latency.value / counted.latency.value)
        forms[recipe] = None
        surely += _chance_of_faster(compared, counted) >= CONFIDENCE
    faster = sum(ratio < 1 for ratio in ratios)
    typical = median(ratios) if ratios else 0.0
    compared_forms = tuple(forms) if len(forms) < len(recipes) else ()
    return UnitComparison(
        other.target.accelerator, len(ratios), faster, surely, typical, compared_forms
    )


def _chance_of_faster(latency: Prediction, other: Prediction) -> float:
    """Return the probability that one latency is below another;
    their errors are taken as independent.
    """
    # A measured latency has an interval, too, so it is compared like a predicted one.
    quicker = LatencyDistribution.sample(latency.quantile)
    slower = LatencyDistribution.sample(other.quantile)
    chances = [quicker.below(slower.at(chance)) for chance in _CHANCES]
    return sum(chances) / len(chances)


def _describe_choices(device: TargetDevice, choices: Choices) -> str:
    """Return for how many networks each processor is chosen, why in one case,
    and how to plan for the commonest one.
    """
    by_unit: dict[str, dict[str, ProcessorChoice]] = {}
    for (card, recipe), chosen in choices.items():
        if recipe != WHOLE_CARD:
            continue
        for choice in chosen:
            if choice.device == device.label:
                by_unit.setdefault(choice.unit, {})[card] = choice
    ordered = sorted(by_unit.items(), key=lambda entry: len(entry[1]), reverse=True)
    counts = []
    for unit, networks in ordered:
        whole = _count_whole(list(networks.values()))
        counts.append(f"its {unit.upper()} for {len(networks)}{whole}")
    # The exception tells most where there is one,
    # and of its networks one whose latency is known on each processor.
    exceptions = ordered[-1][1].items()
    card, example = min(exceptions, key=lambda entry: UNKNOWN in entry[1].reason)
    why = f"; {card} {example.compression}: {example.reason}" if example.reason else ""
    count = plural(sum(len(networks) for _, networks in ordered), "network")
    sentence = f"{device.label}: of {count}, the plan chooses {' and '.join(counts)}{why}"
    commonest = ordered[0][0]
    if commonest != device.target.accelerator:
        sentence += (
            f"; to plan and search for the {commonest.upper()}: --device"
            f" {device.profile.name}:{commonest}"
        )
    return sentence


def _count_whole(choices: Sequence[ProcessorChoice]) -> str:
    """Return how many networks an accelerator runs whole, in brackets;
    nothing for a CPU, which runs all.
    """
    if choices[0].unit == "cpu":
        return ""
    known = 0
    whole = 0
    drivers = set[str]()
    has_unknown = False
    for choice in choices:
        known += any(share.nodes for share in choice.nodes)
        whole += any(share.runs_whole for share in choice.nodes)
        for share in choice.nodes:
            has_unknown = has_unknown or share.delegated is None
            if share.runs_whole:
                # The title of an accelerator without what it has in brackets.
                drivers.add(share.accelerator.partition(" (")[0])
    if not known:
        return " (how many nodes it runs is not known)"
    # Of two drivers, of which one is used, the other may run less.
    driver = f" with {listed(sorted(drivers))}" if has_unknown and drivers else ""
    return f" (it runs {whole} of {known} whole{driver})"


def _describe_only_unit(device: TargetDevice) -> str:
    """Return that a phone has one processor to choose, because its profile describes no other."""
    unit = device.target.accelerator
    unknown = []
    for other in ("gpu", "npu"):
        if other == unit:
            continue
        name = f"its {other.upper()}"
        if other == "npu" and device.profile.npu:
            name += f" ({device.profile.npu})"
        unknown.append(name)
    return (
        f"{device.label}: the plan chooses its {unit.upper()}, the only processor that its profile"
        f" describes; nothing is known of {' and '.join(unknown)}"
    )


def _describe_device(device: TargetDevice, comparisons: Sequence[UnitComparison]) -> str:
    """Return which processor of a device counts, and how the others compare."""
    counted = device.target.accelerator.upper()
    compared = "; ".join(map(_describe_unit, comparisons))
    return (
        f"{device.label}: the latencies above, and a search, are of its {counted}; by predictions,"
        f" {compared}"
    )


def _describe_unit(comparison: UnitComparison) -> str:
    """Return how another processor compares, as a part of a sentence."""
    unit = comparison.unit.upper()
    if not comparison.files:
        return f"its {unit} cannot be compared before a measurement"
    faster = f"{comparison.faster or 'none'} of {plural(comparison.files, 'file')}"
    if comparison.faster:
        faster += f" ({show_probability(CONFIDENCE)} sure for {comparison.surely})"
    # The fastest form may be one that the other processor does not take.
    forms = f" ({', '.join(comparison.forms)})" if comparison.forms else ""
    ratio = f"{comparison.ratio:.2g} times as long in the median"
    return f"its {unit} takes {ratio} with the same file{forms}, and is faster for {faster}"
