from __future__ import annotations

from dataclasses import replace

import pytest

from advisor.core.budget import Budget
from advisor.core.evaluation import Evaluation
from advisor.core.evaluation_facts import CaptureAccuracy, CardFacts, ConditionAccuracy
from advisor.core.quantity import Provenance, Quantity
from advisor.reporting.risks import Level, risks
from tests.builders import evaluation
from tests.reporting.views import run_view


def level_of(name: str, row: Evaluation, budget: Budget | None = None) -> tuple[Level, str]:
    view = replace(run_view(), budget=budget or Budget(latency_ms=50))
    found = {risk.name: risk for risk in risks(view, row)}
    return found[name].level, found[name].text


def predicted(chance: float) -> Evaluation:
    row = evaluation("one")
    assert row.latency is not None
    latency = replace(row.latency, provenance=Provenance.PREDICTED)
    return replace(row, latency=latency, budget_probability=chance)


@pytest.mark.parametrize(("chance", "level"), [(0.99, Level.LOW), (0.92, Level.SOME), (0.6, Level.HIGH)])
def test_a_prediction_is_as_risky_as_its_chance_says(chance: float, level: Level) -> None:
    assert level_of("Latency budget", predicted(chance))[0] is level


@pytest.mark.parametrize(("p90", "level"), [(20, Level.LOW), (48, Level.SOME), (60, Level.HIGH)])
def test_a_measured_latency_is_as_risky_as_what_is_left_of_the_limit(p90: float, level: Level) -> None:
    assert level_of("Latency budget", evaluation("one", p90=p90))[0] is level


@pytest.mark.parametrize(("drop", "level"), [(0.2, Level.LOW), (1.5, Level.SOME), (3.0, Level.HIGH)])
def test_what_compression_costs(drop: float, level: Level) -> None:
    row = replace(evaluation("one", "int8"), drop=Quantity(drop, "points", Provenance.MEASURED, drop - 0.1, drop + 0.1))
    assert level_of("Compression", row)[0] is level


def test_float32_loses_nothing() -> None:
    assert level_of("Compression", evaluation("one"))[0] is Level.LOW


def test_capture_conditions_name_the_worst() -> None:
    capture = CaptureAccuracy((ConditionAccuracy("blur", 1, 70.0), ConditionAccuracy("dark", 2, 58.0)))
    row = replace(evaluation("one", accuracy=80), capture=capture)
    level, text = level_of("Capture", row)
    assert level is Level.HIGH
    assert "dark 2: 58.0 %, 22.0 points less" in text


@pytest.mark.parametrize(("licence", "level"), [("Apache-2.0", Level.LOW), ("AGPL-3.0", Level.HIGH), ("", Level.HIGH)])
def test_a_licence_that_is_not_permissive_is_a_risk(licence: str, level: Level) -> None:
    assert level_of("Licence", replace(evaluation("one"), card_facts=CardFacts(licence=licence)))[0] is level
