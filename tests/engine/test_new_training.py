"""A new training recipe is one object: what decides and plans asks it, and lists no names."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

import pytest

from advisor.api.options import choices
from advisor.catalog.catalogue import load_catalogue
from advisor.core import training
from advisor.core.budget import Budget
from advisor.core.errors import UsageError
from advisor.core.training import FINETUNE_TOP, HEAD, TrainingRecipe, in_order, lighter_than
from advisor.engine.pipeline.images import Role
from advisor.engine.pipeline.names import StageName
from advisor.engine.question import resolve
from advisor.engine.scheduling.cost_estimates import CostEstimates
from advisor.engine.scheduling.promotion import FrontBound
from advisor.engine.scheduling.suggesting import candidate_table
from advisor.engine.space.plan import Plan
from advisor.tasks import CLASSIFICATION, DETECTION
from tests.builders import RUNTIME, evaluation
from tests.engine.plans import changed, planned

LIGHT = TrainingRecipe("light", "a second head", over=HEAD, gain=0.2, spread=0.05, points=1.5)
HEAVY = TrainingRecipe("heavy", "adapters", layers=0.3, over=HEAD, gain=0.2, spread=0.05, points=1.5, step=2.0)
CARD = "mobilenet_v2_1.0_224"


@pytest.fixture(params=[LIGHT, HEAVY], ids=lambda recipe: recipe.name)
def toy(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> TrainingRecipe:
    """Return a recipe that the table has after the head, as if it had been written there."""
    recipe: TrainingRecipe = request.param
    names = [*lighter_than(HEAD), HEAD, recipe.name, *training.TRAININGS]
    table = {**training.TRAININGS, recipe.name: recipe}
    monkeypatch.setattr(training, "TRAININGS", MappingProxyType({name: table[name] for name in dict.fromkeys(names)}))
    return recipe


def plan(toy: TrainingRecipe) -> Plan:
    trainings = in_order((FINETUNE_TOP, toy.name, HEAD))
    cards = load_catalogue().select([CARD])
    return planned(cards, ("float32", "int8"), (1,), trainings, RUNTIME, images=100, validation=20, holdout=20)


def test_its_rung_is_its_place_in_the_table(toy: TrainingRecipe) -> None:
    assert plan(toy).trainings == (HEAD, toy.name, FINETUNE_TOP)
    assert [each.training for each in plan(toy).configurations()[::2]] == [HEAD, toy.name, FINETUNE_TOP]
    assert lighter_than(toy.name) == (*lighter_than(HEAD), HEAD)


def test_users_choose_it_by_its_name(toy: TrainingRecipe) -> None:
    assert toy.name in choices("training")
    assert toy.name in CLASSIFICATION.trainings
    assert resolve({"data": "photos", "training": [toy.name]}).question.trainings == (HEAD, toy.name)


def test_a_task_that_it_does_not_train_refuses_it(toy: TrainingRecipe) -> None:
    assert toy.name not in DETECTION.trainings
    with pytest.raises(UsageError, match=toy.name):
        resolve({"task": DETECTION.name, "data": "boxes", "training": [toy.name]})


def test_hyperparameters_are_tuned_of_what_tunes_the_backbone(toy: TrainingRecipe) -> None:
    request = {"data": "photos", "training": [toy.name], "tune_training": 6}
    if toy.tunes_backbone:
        assert resolve(request).question.tune_training == 6
    else:
        with pytest.raises(UsageError, match="nothing is fine-tuned"):
            resolve(request)


def test_the_name_of_a_candidate_mentions_it(toy: TrainingRecipe) -> None:
    assert plan(toy).configuration(CARD, "int8", 1, toy.name).variant_name == f"{toy.name} int8"


def test_it_is_trained_twice_judged_and_compressed_like_the_others(toy: TrainingRecipe) -> None:
    workload = plan(toy).workload
    assert workload.images[Role.HOLDOUT] == 20
    assert workload.trained_twice(toy.name)
    assert workload.judged(toy.name)
    assert workload.recipes_of(toy.name) == ("float32", "int8")


def test_its_gain_bounds_what_it_can_reach(toy: TrainingRecipe) -> None:
    bound, head = FrontBound(Budget()), evaluation(CARD, accuracy=60.0)
    assert bound.largest_gain(toy.name) == pytest.approx(toy.gain + 2 * toy.spread)
    bound.add([head, evaluation("squeezenet_1.1_227", accuracy=99.0, latency=1.0, size=1e6)])
    reason = bound.rejection_reason(replace(head.configuration, training=toy.name))
    assert reason.startswith("even with 30 % fewer errors")
    shown = replace(head, configuration=replace(head.configuration, training=toy.name))
    bound.add([replace(shown, accuracy=evaluation(accuracy=100.0).accuracy)])
    assert bound.largest_gain(toy.name) > toy.gain + 2 * toy.spread


@pytest.mark.parametrize("toy", [LIGHT], indirect=True)
def test_the_samplers_prior_has_its_points_and_its_head_has_a_price(toy: TrainingRecipe) -> None:
    heads = changed(plan(toy), trainings=(HEAD, toy.name))
    first, second = (row for row in candidate_table(heads, CostEstimates(heads)) if row.features["recipe"] == "int8")
    assert second.prior == pytest.approx(first.prior + toy.points)
    assert StageName.JOIN in {stage.name for stage in heads.costs.stages(heads.cards[0], [(toy.name, "int8")])}
