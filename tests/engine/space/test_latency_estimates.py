from __future__ import annotations

from pathlib import Path

import pytest

from advisor.catalog.catalogue import load_catalogue
from advisor.compression.recipes import RECIPES
from advisor.core.quantity import Provenance, Quantity
from advisor.engine.space.estimates import CachedResults, latency_estimates
from advisor.engine.space.plan import Plan

TIMED, NEW = "mobilenet_v2_1.0_224", "efficientnet_lite0_224"


def test_what_runs_as_int8_or_float_is_predicted_from_their_timings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ADVISOR_CACHE_DIR", str(tmp_path))
    recipes = tuple(recipe.name for recipe in RECIPES)
    plan = Plan(load_catalogue().select([TIMED, NEW]), recipes, (1,), ("head",), "ai-edge-litert==2.3.0")
    timings = {("float32", 1): 3.2, ("int8", 1): 1.5}
    latency = {key: Quantity(value, "ms", Provenance.MEASURED) for key, value in timings.items()}
    known = {TIMED: CachedResults(latency=latency, latency_p90=latency), NEW: CachedResults()}
    expected = {
        recipe: found.latency
        for (card, recipe, _), found in latency_estimates(plan, known, None).items()
        if card == NEW
    }
    rough = {recipe for recipe, found in expected.items() if found.provenance is not Provenance.PREDICTED}
    assert rough == {"dynamic_int8", "weight_int4", "int16x8", "mixed_int8"}
    assert expected["qat_int8"].value == expected["int8"].value < expected["rounded"].value
