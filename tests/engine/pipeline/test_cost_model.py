"""What the stages of a search cost, and who shares it."""

from __future__ import annotations

import pytest

from advisor.catalog.catalogue import load_catalogue
from advisor.core.training import FINETUNE_TOP, HEAD
from advisor.engine.pipeline.cost_model import CostModel
from advisor.engine.pipeline.materials import Workload
from advisor.engine.pipeline.names import StageName
from tests.engine.plans import image_counts

CARD = load_catalogue()["mobilenet_v2_1.0_224"]
RECIPES = ("float32", "int8")
WORKLOAD = Workload((HEAD, FINETUNE_TOP), RECIPES, image_counts(1000, 200, 0))


def test_the_shares_of_all_variants_are_the_cost_of_the_card() -> None:
    model = CostModel(Workload((HEAD,), RECIPES, WORKLOAD.images))
    shared = sum(model.variant_s(CARD, (HEAD, recipe)) for recipe in RECIPES)
    assert shared == pytest.approx(model.total_s(model.stages(CARD)))


def test_what_this_machine_has_shown_corrects_a_stage_and_no_other() -> None:
    plain, paced = CostModel(WORKLOAD), CostModel(WORKLOAD, {StageName.COMPRESS: 3.0})
    more = [paced.seconds(stage) / plain.seconds(stage) for stage in plain.stages(CARD)]
    names = [stage.name for stage in plain.stages(CARD)]
    assert dict(zip(names, more, strict=True))[StageName.COMPRESS] == 3.0
    assert {ratio for name, ratio in zip(names, more, strict=True) if name is not StageName.COMPRESS} == {1.0}


def test_timings_take_the_machine_alone_whatever_the_cores() -> None:
    model = CostModel(WORKLOAD)
    stages = model.stages(CARD)
    alone = model.total_s(stage for stage in stages if stage.resources.alone)
    one, many = (model.wall_s(stages, cores) for cores in (1, 1000))
    assert one == pytest.approx(model.total_s(stages))
    assert many == pytest.approx(alone, rel=0.1)


def test_what_is_done_costs_nothing() -> None:
    model = CostModel(WORKLOAD)
    assert model.wall_s(model.stages(CARD), 2, model.stages(CARD)) == 0


def test_a_training_is_shared_by_its_compressions() -> None:
    model = CostModel(WORKLOAD)
    tuned = next(stage for stage in model.stages(CARD) if stage.name is StageName.FINETUNE_TOP)
    converted = next(stage for stage in model.stages(CARD) if stage.name is StageName.CONVERT)
    assert (model.sharers(tuned), model.sharers(converted)) == (len(RECIPES), 2 * len(RECIPES))
