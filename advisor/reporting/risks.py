"""Risks of an answer: the budget, compression, capture conditions, the licence."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from advisor.core.budget import PERMISSIVE_WORD, allows
from advisor.core.evaluation import Evaluation
from advisor.core.latency_distribution import percent
from advisor.core.quantity import Provenance
from advisor.core.units import show_ms
from advisor.reporting import text
from advisor.reporting.view import RunView

TIGHT = 0.1
"""A measured latency is far from the limit if at least this share of the limit is left."""

SURE = 0.95


class Level(StrEnum):
    """Severity of a risk."""

    LOW = "low"
    SOME = "some"
    HIGH = "high"


@dataclass(frozen=True)
class Risk:
    """One risk: its topic, its severity, and a sentence with its figures."""

    name: str
    level: Level
    text: str


def risks(view: RunView, evaluation: Evaluation) -> tuple[Risk, ...]:
    """Return every risk; where a figure is missing, the risk says that it is unknown."""
    found = (
        _budget(view, evaluation),
        _compression(evaluation),
        _capture(view, evaluation),
        _licence(view, evaluation),
    )
    return tuple(risk for risk in found if risk is not None)


def _budget(view: RunView, evaluation: Evaluation) -> Risk | None:
    limit, latency = view.budget.latency_ms, evaluation.latency_p90 or evaluation.latency
    if limit is None or latency is None:
        return None
    device, probability = evaluation.configuration.target.device, evaluation.budget_probability
    if probability is not None:
        level = Level.SOME if probability >= view.budget.confidence else Level.HIGH
        level = Level.LOW if probability >= SURE else level
        chance = f"{percent(probability)} sure to meet {show_ms(limit)} on {device}: predicted, not measured"
        return Risk("Latency budget", level, f"{chance}. A few measurements on the device would narrow the interval.")
    room = 1 - latency.value / limit
    if room < 0:
        return Risk("Latency budget", Level.HIGH, f"{show_ms(latency.value)} on {device} is over {show_ms(limit)}.")
    level = Level.SOME if room < TIGHT or latency.provenance is not Provenance.MEASURED else Level.LOW
    return Risk(
        "Latency budget", level, f"{100 * room:.0f} % of {show_ms(limit)} is left on {device} ({latency.provenance})."
    )


def _compression(evaluation: Evaluation) -> Risk:
    drop, recipe = evaluation.drop, evaluation.configuration.compression
    if recipe == "float32":
        return Risk("Compression", Level.LOW, "No loss: the file is not compressed.")
    if drop is None:
        return Risk("Compression", Level.SOME, f"The accuracy that {recipe} loses was not measured.")
    ends = text.interval(drop)
    worst = drop.high if drop.high is not None else drop.value
    level = Level.LOW if drop.value <= 1.0 and worst <= 2.0 else Level.SOME
    return Risk(
        "Compression",
        Level.HIGH if drop.value > 2.0 else level,
        f"{recipe} loses {text.points(drop)} points{f' (95 %: {ends})' if ends else ''} against float32.",
    )


def _capture(view: RunView, evaluation: Evaluation) -> Risk | None:
    if view.dataset is None:
        return None
    if not evaluation.capture.by_condition:
        return Risk("Capture", Level.SOME, "Accuracy in poor light, blur and noise was not measured.")
    worst = min(evaluation.capture.by_condition, key=lambda row: row.top1)
    usual = evaluation.holdout_accuracy or evaluation.accuracy  # the conditions were tried on the hold-out
    lost = (usual.value if usual else worst.top1) - worst.top1
    level = Level.LOW if lost < 5 else Level.SOME if lost < 15 else Level.HIGH
    condition = f"{worst.condition} {worst.strength:g}: {worst.top1:.1f} %"
    return Risk("Capture", level, f"Worst under {condition}, {lost:.1f} points less than on the unchanged images.")


def _licence(view: RunView, evaluation: Evaluation) -> Risk:
    own = evaluation.card_facts.licence
    if not own:
        return Risk("Licence", Level.HIGH, "The licence of the network is not stated: find it out before you ship it.")
    if allows((PERMISSIVE_WORD,), own):
        return Risk("Licence", Level.LOW, f"{own}: permissive; keep its notice in the app.")
    level = Level.SOME if view.budget.licence else Level.HIGH
    return Risk("Licence", level, f"{own}: not permissive; have it reviewed before you ship it.")
