"""Choose the processor of a device for each file of a plan,
where the question leaves the choice to its profile.

``advisor plan`` shows the choices. The other latencies of a plan, and a search, are of the
processor that counts: that of the default target of the device's profile.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from typing import TYPE_CHECKING

from advisor.catalog import Card
from advisor.core import Provenance, UsageError, form_of
from advisor.devices import target_vector
from advisor.engine._targets.delegated_nodes import (
    NodeShare,
    ProcessorChoice,
    falls_back,
    list_node_shares,
)
from advisor.engine._targets.device_prediction import CardPredictor, DevicePredictor
from advisor.engine._targets.target_devices import TargetDevice

if TYPE_CHECKING:
    from advisor.devices import Prediction

UNITS = ("cpu", "gpu", "npu", "tpu")

_ANY_FORM = "int8"  # Whether a processor is described does not depend on the form

UNKNOWN = "has no known latency"

WHOLE_CARD = ""  # Stands for the fastest of all forms of a card, in place of a recipe

Choices = Mapping[tuple[str, str], tuple[ProcessorChoice, ...]]
"""The processors of each file of a plan, by card and recipe, and of each card:
one for each device with a choice.
"""


@dataclass(frozen=True)
class FileOnUnit:
    """A file on one processor of a device, and why it cannot be chosen, if so."""

    place: TargetDevice
    recipe: str
    prediction: Prediction | None  # None if there is none to rely on
    nodes: tuple[NodeShare, ...]
    objection: str  # why it cannot be chosen, as the rest of a sentence about it; empty if it can
    takes_form: bool = True

    @property
    def unit(self) -> str:
        """The kind of the processor, one of :data:`UNITS`."""
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
    devices = [device for device in predictor.targets.devices if list_other_units(device)]
    choices: dict[tuple[str, str], tuple[ProcessorChoice, ...]] = {}
    for card, device in product(cards, devices):
        places = (device, *list_other_units(device))
        of_card: list[FileOnUnit] = []
        for recipe in recipes:
            of_file = [judge_unit(predictor.predictor, card, recipe, place) for place in places]
            of_card += of_file
            choice = _choose_unit(device, of_file, budget_ms)
            choices[card.name, recipe] = (*choices.get((card.name, recipe), ()), choice)
        choice = _choose_unit(device, of_card, budget_ms)
        choices[card.name, WHOLE_CARD] = (*choices.get((card.name, WHOLE_CARD), ()), choice)
    return choices


def judge_unit(
    predictor: DevicePredictor, card: Card, recipe: str, place: TargetDevice
) -> FileOnUnit:
    """Return what is known of a file on a processor, and why it cannot be chosen, if so."""
    prediction = predictor.predict_card(card, recipe, place)
    if isinstance(prediction, str):
        refusal = place.target.incompatibility(form_of(recipe).name)
        return FileOnUnit(place, recipe, None, (), refusal or UNKNOWN, takes_form=not refusal)
    nodes = list_node_shares(card, recipe, (place,))
    if not prediction.is_comparable:
        return FileOnUnit(place, recipe, None, nodes, UNKNOWN)
    # Predictions are of networks that a processor runs as a whole.
    if falls_back(nodes):
        best = max(nodes, key=lambda share: share.part)
        objection = f"runs only {best.delegated} of {best.nodes} nodes"
        return FileOnUnit(place, recipe, None, nodes, objection)
    is_uncounted = bool(nodes) and all(share.delegated is None for share in nodes)
    if is_uncounted and not _is_measured(prediction):
        objection = "may run few of its nodes, which nobody counted"
        return FileOnUnit(place, recipe, None, nodes, objection)
    return FileOnUnit(place, recipe, prediction, nodes, "")


def _is_measured(prediction: Prediction) -> bool:
    return prediction.latency.provenance is not Provenance.PREDICTED


def _choose_unit(
    device: TargetDevice, units: Sequence[FileOnUnit], budget_ms: float | None
) -> ProcessorChoice:
    """Return the processor with the shortest predicted latency;
    the one that counts if no latency is known.

    ``units`` are one file or several forms of it on each processor, the one that counts first.
    """
    chosen = min(units, key=_rank_unit)
    by_unit: dict[str, list[FileOnUnit]] = {}
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
    probability = None
    if prediction is not None and budget_ms is not None and not prediction.unlike:
        probability = prediction.probability(budget_ms)
    return ProcessorChoice(
        device=device.label,
        unit=chosen.unit,
        target=chosen.place.target.name,
        counted=chosen.unit == device.target.accelerator,
        compression=chosen.recipe,
        latency=prediction.latency if prediction else None,
        meets_latency_budget=probability,
        nodes=chosen.nodes,
        reason="; ".join(reasons),
    )


def _compare_with_chosen(unit: FileOnUnit, chosen: FileOnUnit) -> str:
    """Return how long a processor takes, relative to the one that is chosen,
    in its fastest form if that is another.
    """
    ratio = unit.latency_ms / chosen.latency_ms
    takes = "takes" if unit.is_measured and chosen.is_measured else "is predicted to take"
    form = f", in {unit.recipe}" if unit.recipe != chosen.recipe else ""
    return f"its {unit.unit.upper()} {takes} {ratio:.2g} times as long{form}"


def _rank_unit(unit: FileOnUnit) -> tuple[float, bool]:
    """Return the latency of a file on a processor;
    without one, a form that the processor takes comes first.
    """
    return unit.latency_ms, not unit.takes_form


def leaves_choice(device: TargetDevice) -> bool:
    """Return whether the profile of a device decides on its processor,
    and the device runs ``.tflite`` files.
    """
    # A user who names a processor has chosen, and other runtimes do not run the files of a search.
    return ":" not in device.label and device.runtime is None and device.target.takes_tflite


@lru_cache(maxsize=16)
def list_other_units(device: TargetDevice) -> tuple[TargetDevice, ...]:
    """Return the other processors of a device whose latencies are known;
    none if the user named one.
    """
    return tuple(filter(_has_known_level, _find_other_units(device)))


def _find_other_units(device: TargetDevice) -> Iterator[TargetDevice]:
    """Yield the other processors of a device that run ``.tflite`` files;
    none if the user named one.
    """
    profile = device.profile
    if not leaves_choice(device):
        return
    for unit in UNITS:
        if unit == device.target.accelerator:
            continue
        selector = f"{profile.name}:{unit}"
        target = profile.find_on(unit)
        if target and target.takes_tflite:
            yield replace(device, label=selector, target=target)
        elif target is None and profile.kind == "phone":
            # A phone of which one processor was measured has no target for the others:
            # they are predicted where they are named.
            try:
                yield from TargetDevice.select((selector,), (), "--device")
            except UsageError:
                continue


def _has_known_level(device: TargetDevice) -> bool:
    """Return whether it is known how fast a target is on the whole:
    files were measured on it, or its processor is described.

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
