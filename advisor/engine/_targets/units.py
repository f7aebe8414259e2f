"""Choose the processor of a device for each file of a plan,
where the question leaves the choice to its profile.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from statistics import median
from typing import TYPE_CHECKING

from advisor.catalog import Card
from advisor.core import (
    CONFIDENCE,
    LatencyDistribution,
    Provenance,
    UsageError,
    form_of,
    listed,
    plural,
    show_probability,
)
from advisor.devices import TFLITE_RUNTIMES, target_vector
from advisor.engine._targets.delegated_nodes import (
    NodeShare,
    ProcessorChoice,
    falls_back,
    list_node_shares,
)
from advisor.engine._targets.device_prediction import CardPredictor, DevicePredictor
from advisor.engine._targets.target_devices import TargetDevice, select_devices

if TYPE_CHECKING:
    from advisor.devices import Prediction

UNITS = ("cpu", "gpu", "npu", "tpu")

_ANY_FORM = "int8"  # Whether a processor is described does not depend on the form

_CHANCES = tuple((2 * place + 1) / 40 for place in range(20))
"""Middles of twenty equally likely parts of a latency,
by which the latencies of two processors are compared.
"""

_UNKNOWN = "has no known latency"


WHOLE_CARD = ""  # Stands for the fastest of all forms of a card, in place of a recipe

Choices = Mapping[tuple[str, str], tuple[ProcessorChoice, ...]]
"""The processors of each file of a plan, by card and recipe, and of each card:
one for each device with a choice.
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


@dataclass(frozen=True)
class _Unit:
    """A file on one processor of a device."""

    place: TargetDevice
    recipe: str
    prediction: "Prediction | None"  # None if there is none to rely on
    nodes: tuple[NodeShare, ...]
    objection: str  # why it cannot be chosen, as the rest of a sentence about it; empty if it can
    takes_form: bool = True

    @property
    def unit(self) -> str:
        return self.place.target.accelerator

    @property
    def latency_ms(self) -> float:
        """The predicted latency, by which processors are compared; infinity without one.

        An uncertain latency counts as much as a known one. On four phones that predictions did not
        know, it named the faster one of CPU and GPU for 69 of 70 files, the mean of the
        distribution for 60, and latencies without wide intervals for 14. These figures chose the
        rule, so they do not judge it.
        """
        return self.prediction.latency.value if self.prediction else float("inf")

    @property
    def is_measured(self) -> bool:
        """True if the latency was measured or published for this processor."""
        return self.prediction is not None and _is_measured(self.prediction)


def choose_processors(
    predictor: CardPredictor,
    cards: Sequence[Card],
    recipes: Sequence[str],
    budget_ms: float | None,
) -> Choices:
    """Return the processor of each file on each device that has several,
    of which the question names none.

    That of the fastest form of each card is there, too, with :data:`WHOLE_CARD` as its recipe.
    """
    alternatives = {}
    for device in predictor.targets.devices:
        others = _list_other_units(device)
        if others:
            alternatives[device] = (device, *others)
    choices: dict[tuple[str, str], list[ProcessorChoice]] = {}
    for card, (device, places) in product(cards, alternatives.items()):
        of_card: list[_Unit] = []
        for recipe in recipes:
            units = []
            for place in places:
                units.append(_judge_unit(predictor.predictor, card, recipe, place))
            of_card += units
            choices.setdefault((card.name, recipe), []).append(
                _choose_unit(device, units, budget_ms)
            )
        choices.setdefault((card.name, WHOLE_CARD), []).append(
            _choose_unit(device, of_card, budget_ms)
        )
    return {key: tuple(chosen) for key, chosen in choices.items()}


def _judge_unit(predictor: DevicePredictor, card: Card, recipe: str, place: TargetDevice) -> _Unit:
    """Return what is known of a file on a processor, and why it cannot be chosen, if so."""
    prediction = predictor.predict_card(card, recipe, place)
    if isinstance(prediction, str):
        other_form = place.target.incompatibility(form_of(recipe).name)
        return _Unit(place, recipe, None, (), other_form or _UNKNOWN, takes_form=not other_form)
    nodes = list_node_shares(card, recipe, (place,))
    if not prediction.is_comparable:
        return _Unit(place, recipe, None, nodes, _UNKNOWN)
    # Predictions are of networks that a processor runs as a whole.
    if falls_back(nodes):
        best = max(nodes, key=lambda share: share.part)
        return _Unit(
            place, recipe, None, nodes, f"runs only {best.delegated} of {best.nodes} nodes"
        )
    if nodes and not _is_measured(prediction) and all(share.delegated is None for share in nodes):
        return _Unit(place, recipe, None, nodes, "may run few of its nodes, which nobody counted")
    return _Unit(place, recipe, prediction, nodes, "")


def _is_measured(prediction: "Prediction") -> bool:
    return prediction.latency.provenance is not Provenance.PREDICTED


def _choose_unit(
    device: TargetDevice, units: Sequence[_Unit], budget_ms: float | None
) -> ProcessorChoice:
    """Return the processor with the shortest predicted latency;
    the one that counts if no latency is known.

    ``units`` are one file or several forms of it on each processor, the one that counts first.
    """
    chosen = min(units, key=_rank_unit)
    by_unit: dict[str, list[_Unit]] = {}
    for unit in units:
        by_unit.setdefault(unit.unit, []).append(unit)
    reasons = []
    for name, forms in by_unit.items():
        best = min(forms, key=_rank_unit)
        if best.prediction is None:
            reasons.append(f"its {name.upper()} {best.objection}")
        elif name != chosen.unit:
            reasons.append(_compare_with_chosen(best, chosen))
    prediction = chosen.prediction
    chance = None
    if prediction is not None and budget_ms is not None and not prediction.unlike:
        chance = prediction.probability(budget_ms)
    return ProcessorChoice(
        device=device.label,
        unit=chosen.unit,
        target=chosen.place.target.name,
        counted=chosen.unit == device.target.accelerator,
        compression=chosen.recipe,
        latency=prediction.latency if prediction else None,
        meets_latency_budget=chance,
        nodes=chosen.nodes,
        reason="; ".join(reasons),
    )


def _compare_with_chosen(unit: _Unit, chosen: _Unit) -> str:
    """Return how long a processor takes, relative to the one that is chosen,
    in its fastest form if that is another.
    """
    ratio = unit.latency_ms / chosen.latency_ms
    takes = "takes" if unit.is_measured and chosen.is_measured else "is predicted to take"
    form = f", in {unit.recipe}" if unit.recipe != chosen.recipe else ""
    return f"its {unit.unit.upper()} {takes} {ratio:.2g} times as long{form}"


def _rank_unit(unit: _Unit) -> tuple[float, bool]:
    """Return the latency of a file on a processor; without one, a form that it takes tells
    more.
    """
    return unit.latency_ms, not unit.takes_form


def describe_units(
    predictor: CardPredictor, cards: Sequence[Card], recipes: Sequence[str], choices: Choices
) -> tuple[str, ...]:
    """Return sentences for each device whose processor the question does not name:
    its choice, and a comparison.
    """
    sentences = []
    for device in predictor.targets.devices:
        comparisons = []
        for other in _list_other_units(device):
            comparisons.append(compare_units(predictor.predictor, device, other, cards, recipes))
        if comparisons:
            sentences.append(_describe_choices(device, choices))
            sentences.append(_describe_device(device, comparisons))
        elif device.profile.kind == "phone" and _leaves_choice(device):
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
    forms = dict[str, None]()
    surely = 0
    for card, recipe in product(cards, recipes):
        counted = _judge_unit(predictor, card, recipe, device).prediction
        compared = _judge_unit(predictor, card, recipe, other).prediction
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


def _leaves_choice(device: TargetDevice) -> bool:
    """Return whether the profile of a device decides on its processor, and runs ``.tflite``
    files.
    """
    # Who names a processor has chosen, and other runtimes do not run the files of a search.
    return (
        ":" not in device.label
        and device.runtime is None
        and device.target.runtime in TFLITE_RUNTIMES
    )


@lru_cache(maxsize=16)
def _list_other_units(device: TargetDevice) -> tuple[TargetDevice, ...]:
    """Return the other processors of a device whose latencies are known;
    none if the user named one.
    """
    return tuple(filter(_is_placed, _find_other_units(device)))


def _find_other_units(device: TargetDevice) -> Iterator[TargetDevice]:
    """Yield the other processors of a device that run ``.tflite`` files;
    none if the user named one.
    """
    profile = device.profile
    if not _leaves_choice(device):
        return
    for unit in UNITS:
        if unit == device.target.accelerator:
            continue
        selector = f"{profile.name}:{unit}"
        target = profile.find_on(unit)
        if target and target.runtime in TFLITE_RUNTIMES:
            yield replace(device, label=selector, target=target)
        elif target is None and profile.kind == "phone":
            # Of some phones one processor was measured,
            # and others are predicted where they are named.
            try:
                yield from select_devices((selector,), (), "--device")
            except UsageError:
                continue


def _is_placed(device: TargetDevice) -> bool:
    """Return whether the level of a target is known:
    it was measured, or its processor is described.

    NPUs that NNAPI reaches are not described. With nothing measured, the wrong one of two
    processors was named for 73 of 125 files on two phones.
    """
    name = device.target.name
    if any(row.target == name and row.usable for row in device.profile.measurements):
        return True
    return (
        device.target.accelerator == "gpu"
        or target_vector(device.profile, device.target, _ANY_FORM) is not None
    )


def _chance_of_faster(one: "Prediction", other: "Prediction") -> float:
    """Return the probability that one latency is below another;
    their errors are taken as independent.
    """
    # A measured latency has an interval, too, so it is compared like a predicted one.
    quicker = LatencyDistribution.sample(one.quantile)
    slower = LatencyDistribution.sample(other.quantile)
    chances = [quicker.below(slower.at(chance)) for chance in _CHANCES]
    return sum(chances) / len(chances)


def _describe_choices(device: TargetDevice, choices: Choices) -> str:
    """Return for how many networks each processor is chosen, why in one case,
    and how to plan for the commonest one.
    """
    by_unit: dict[str, dict[str, ProcessorChoice]] = {}
    for (card, recipe), chosen in choices.items():
        for choice in chosen:
            if recipe == WHOLE_CARD and choice.device == device.label:
                by_unit.setdefault(choice.unit, {})[card] = choice
    ordered = sorted(by_unit.items(), key=lambda entry: len(entry[1]), reverse=True)
    counts = []
    for unit, networks in ordered:
        counts.append(
            f"its {unit.upper()} for {len(networks)}{_count_whole(list(networks.values()))}"
        )
    # The exception tells most where there is one,
    # and of its networks one whose latency is known on each processor.
    exceptions = ordered[-1][1].items()
    card, example = min(exceptions, key=lambda entry: _UNKNOWN in entry[1].reason)
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
        if other != unit:
            name = f" ({device.profile.npu})" if other == "npu" and device.profile.npu else ""
            unknown.append(f"its {other.upper()}{name}")
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
