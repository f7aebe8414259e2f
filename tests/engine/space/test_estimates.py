"""Results that earlier searches have kept, and estimates of latencies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from advisor.catalog.catalogue import load_catalogue
from advisor.catalog.weights.fetching import fetch
from advisor.compression.recipes import RECIPES
from advisor.core.quantity import Provenance, Quantity
from advisor.engine.question import resolve
from advisor.engine.space.candidates import Candidates
from advisor.engine.space.estimates import CachedResults, cached_results, latency_estimates
from advisor.engine.space.resolved import resolve_parts
from advisor.isolation import ChildPool
from tests.engine.conftest import SMALLEST, Searched
from tests.engine.plans import planned


def test_a_training_that_was_not_done_is_not_begun(
    with_images: Searched, warm_cache: Path, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("a child was asked to work")

    monkeypatch.setenv("ADVISOR_CACHE_DIR", str(warm_cache))
    card = load_catalogue()[SMALLEST]
    weights = fetch(card)
    monkeypatch.setattr(ChildPool, "call", refuse)
    request = resolve({"data": str(photos), "candidates": [SMALLEST], "training": ["finetune_top", "finetune_all"]})
    resolved = resolve_parts(request, lambda _: None)
    plan = resolved.plan(Candidates((card,), {SMALLEST: weights}, {}))
    materials = resolved.materials({SMALLEST: weights}, plan.size)
    found = cached_results(materials, plan.workload, {SMALLEST: card})
    done = {stage.name for stage in found[SMALLEST].done}
    assert with_images.code == 0
    assert {"convert", "features", "head", "refit", "compress", "score"} <= done
    assert not {"finetune_top", "finetune_all"} & done


TIMED, NEW = "mobilenet_v2_1.0_224", "efficientnet_lite0_224"


def test_what_runs_as_int8_or_float_is_predicted_from_their_timings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ADVISOR_CACHE_DIR", str(tmp_path))
    recipes = tuple(recipe.name for recipe in RECIPES)
    plan = planned(load_catalogue().select([TIMED, NEW]), recipes, (1,), ("head",), "ai-edge-litert==2.3.0")
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
