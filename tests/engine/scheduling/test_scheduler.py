"""What is begun when: room for fine-tuning, and who is turned away."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from optuna.storages import InMemoryStorage

from advisor.catalog.catalogue import load_catalogue
from advisor.core.budget import Budget
from advisor.core.evaluation import Configuration, Evaluation
from advisor.engine.scheduling.halving import step_of
from advisor.engine.scheduling.promotion import Promotion
from advisor.engine.scheduling.samplers import RANDOM
from advisor.engine.scheduling.scheduler import CARDS_IN_FLIGHT, Scheduler
from advisor.engine.scheduling.study import Study
from advisor.engine.space.plan import Plan
from tests.builders import evaluation

CARDS = ("mobilenet_v2_1.0_224", "efficientnet_lite0_224", "squeezenet_1.1_227", "mobilenet_v1_0.25_224")
PLAN = Plan(load_catalogue().select(list(CARDS)), ("float32", "int8"), (1,), ("head", "finetune_top"), "runtime")


BEST, SLOW = CARDS[0], CARDS[-1]
LAST = PLAN.configuration(SLOW, "int8", 1, "head")


def alike(card: str) -> tuple[float, float]:
    """Return the accuracy and latency of cards that are all on the front."""
    return 80.0 + CARDS.index(card), 10.0 + CARDS.index(card)


class Search:
    """A scheduler over a study that is told what the test makes up."""

    def __init__(self, cores: int = 2, left: int = 100, sampler: str = "advisor", plan: Plan = PLAN) -> None:
        self.promotion = Promotion(Budget())
        self.study = Study(InMemoryStorage(), "turns", plan, Budget(), sampler, seed=0, done=())
        self.turns = Scheduler(self.study, self.promotion, plan, left, cores)
        self.flying: list[Configuration] = []
        self.begun: list[Configuration] = []

    def begin(self) -> None:
        """Begin all that has room."""
        while (asked := self.turns.next(self.flying)) is not None:
            self.flying.append(asked)
            self.begun.append(asked)

    def end(self, configuration: Configuration, accuracy: float = 80.0, latency: float = 10.0) -> None:
        """Tell a made-up result."""
        self.flying.remove(configuration)
        made = evaluation(configuration.card, accuracy=accuracy, half_width=1, latency=latency, size=1e6 * latency)
        self._tell(replace(made, configuration=configuration))

    def end_heads(self, figures: Callable[[str], tuple[float, float]], kept: Configuration | None = None) -> None:
        """Begin all heads and tell accuracy and latency by card, but for the one that is kept in flight."""
        self.begin()
        while heads := [each for each in self.flying if each.training == "head" and each != kept]:
            self.end(heads[0], *figures(heads[0].card))
            self.begin()

    def _tell(self, made: Evaluation) -> None:
        self.study.tell(made)
        self.promotion.add([made])


def test_a_card_is_tuned_while_others_are_at_their_heads() -> None:
    search = Search()
    search.end_heads(alike, kept=LAST)
    assert LAST in search.flying
    assert _tuned(search.flying)


def test_fine_tuning_leaves_a_core_to_what_takes_seconds_and_takes_all_when_there_is_none() -> None:
    search = Search(cores=2)
    search.end_heads(alike, kept=LAST)
    assert len(_tuned(search.flying)) == 1
    search.end(LAST)
    search.begin()
    assert len(_tuned(search.flying)) == 2


def test_one_core_tunes_only_when_nothing_else_is_left() -> None:
    search = Search(cores=1)
    search.end_heads(alike, kept=LAST)
    assert not _tuned(search.flying)
    search.end(LAST)
    search.begin()
    assert len(_tuned(search.flying)) == 1


def test_no_more_is_handed_out_than_the_cores_can_use() -> None:
    search = Search(plan=replace(PLAN, threads=(1, 2)))
    search.begin()
    assert len(search.flying) == CARDS_IN_FLIGHT * len(PLAN.recipes) * 2


def test_no_more_is_begun_than_may_be() -> None:
    search = Search(left=3)
    search.begin()
    assert len(search.begun) == 3


def test_who_cannot_reach_the_front_is_turned_away_with_the_reason() -> None:
    search = Search()
    search.end_heads(lambda card: (95.0, 5.0) if card == BEST else (60.0, 20.0))
    while search.flying:
        search.end(search.flying[0], 96.0, 5.0)
        search.begin()
    away = search.turns.turned_away()
    assert {each.card for each, _ in away} == set(CARDS) - {BEST}
    assert all(BEST in reason for _, reason in away)
    assert not search.turns.away


def test_who_was_turned_away_comes_back_when_its_training_gains_more_than_was_thought() -> None:
    plan = replace(PLAN, cards=tuple(card for card in PLAN.cards if card.name in (BEST, SLOW)))
    search = Search(plan=plan)
    search.end_heads(lambda card: (90.0, 5.0) if card == BEST else (82.0, 20.0))
    while search.flying:
        search.end(search.flying[0], 90.5, 5.0)
        search.begin()
    assert len(search.turns.away) == len(plan.recipes)
    head = evaluation("another", accuracy=60)
    tuned = replace(head.configuration, training="finetune_top")
    search.promotion.add([head, replace(evaluation("another", accuracy=85), configuration=tuned)])
    search.begin()
    assert {step_of(each) for each in search.flying} == {(SLOW, "finetune_top")}
    assert not search.turns.away


@pytest.mark.parametrize("sampler", ["advisor", RANDOM])
def test_every_configuration_is_begun_once_where_nobody_is_turned_away(sampler: str) -> None:
    search = Search(sampler=sampler)
    search.begin()
    while search.flying:
        place = len(search.begun)
        search.end(search.flying[0], accuracy=80 + place / 100, latency=10 - place / 100)
        search.begin()
    assert len(search.begun) == len(set(search.begun))
    away = {each for each, _ in search.turns.turned_away()}
    assert set(search.begun) | away == set(PLAN.configurations())


def _tuned(flying: list[Configuration]) -> set[str]:
    return {each.card for each in flying if each.training == "finetune_top"}
