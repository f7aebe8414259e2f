"""What a study's sampler is told before it suggests."""

from __future__ import annotations

from dataclasses import replace

import optuna
import pytest

from advisor.catalog.catalogue import load_catalogue
from advisor.core.names import ADVISOR, NSGA2, RANDOM, TPE
from advisor.engine.scheduling.halving import SuccessiveHalving, unlimited
from advisor.engine.scheduling.sampler import AdvisorSampler, CandidatesExhausted
from advisor.engine.scheduling.suggesting import Suggester, make_suggester
from advisor.engine.scheduling.trial_record import configuration_of
from tests.builders import RUNTIME, evaluation
from tests.engine.plans import planned

CARDS = ["mobilenet_v2_1.0_224", "squeezenet_1.1_227"]
PLAN = planned(load_catalogue().select(CARDS), ("float32", "int8"), (1,), ("head", "finetune_top"), RUNTIME)


def suggester(name: str = ADVISOR) -> Suggester:
    return make_suggester(name, PLAN, SuccessiveHalving(PLAN.configurations()), seed=0, done=())


def study(made: Suggester) -> optuna.Study:
    return optuna.create_study(directions=["maximize", "minimize", "minimize"], sampler=made.sampler)


@pytest.mark.parametrize("name", [TPE, NSGA2, RANDOM])
def test_optunas_samplers_expect_no_gain_and_do_not_know_what_may_start(name: str) -> None:
    made = suggester(name)
    assert made.expected_gain(study(made), 60.0) == float("inf")
    assert not made.suggests_runnable


def test_the_advisors_sampler_suggests_only_what_may_start() -> None:
    made = suggester()
    trials = study(made)
    assert isinstance(made.sampler, AdvisorSampler)
    made.prepare(lambda unit: unit.card == CARDS[1])
    asked = [trials.ask({**made.sampler.distributions}) for _ in PLAN.recipes]
    found = {configuration_of(PLAN, trial.params) for trial in asked}
    assert {(each.card, each.training) for each in found} == {(CARDS[1], "head")}
    with pytest.raises(CandidatesExhausted):
        trials.ask({**made.sampler.distributions})


def test_a_measured_latency_reaches_the_sampler() -> None:
    order = []
    for slower in (1.0, 1e6):
        made = suggester()
        for recipe in PLAN.recipes:
            configuration = PLAN.configuration(CARDS[0], recipe, 1)
            made.add(replace(evaluation(latency=slower, size=slower), configuration=configuration))
        made.prepare(unlimited)
        assert isinstance(made.sampler, AdvisorSampler)
        order.append(study(made).ask({**made.sampler.distributions}).params["card"])
    assert order == CARDS
