"""What is known of a question is found without doing anything."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from advisor.catalog.catalogue import load_catalogue
from advisor.catalog.weights.fetching import fetch
from advisor.engine.question import resolve
from advisor.engine.space.candidates import Candidates, chosen_recipes, make_plan, materials_of, read_images
from advisor.engine.space.estimates import cached_results
from advisor.isolation import ChildPool
from tests.engine.conftest import SMALLEST, Searched


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
    images = read_images(request.question, lambda _: None)
    question = request.question
    plan = make_plan(question, Candidates((card,), {SMALLEST: weights}, {}), chosen_recipes(question), images, 2)
    materials = materials_of(question, images, {SMALLEST: weights}, plan.size)
    found = cached_results(materials, plan.workload, {SMALLEST: card})
    done = {stage.name for stage in found[SMALLEST].done}
    assert with_images.code == 0
    assert {"convert", "features", "head", "refit", "compress", "score"} <= done
    assert not {"finetune_top", "finetune_all"} & done
