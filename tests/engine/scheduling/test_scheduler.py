"""What starts when: capacity for fine-tuning, and what is deferred."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from optuna.storages import InMemoryStorage

from advisor.catalog.catalogue import load_catalogue
from advisor.core.budget import Budget
from advisor.core.evaluation import Configuration, Evaluation
from advisor.core.names import RANDOM
from advisor.engine.scheduling.halving import CardTraining
from advisor.engine.scheduling.promotion import FrontBound
from advisor.engine.scheduling.scheduler import CARDS_IN_FLIGHT, Scheduler
from advisor.engine.scheduling.study import Study
from advisor.engine.space.plan import Plan
from tests.builders import evaluation
from tests.engine.plans import changed, planned

CARDS = ("mobilenet_v2_1.0_224", "efficientnet_lite0_224", "squeezenet_1.1_227", "mobilenet_v1_0.25_224")
PLAN = planned(load_catalogue().select(list(CARDS)), ("float32", "int8"), (1,), ("head", "finetune_top"), "runtime")


BEST, SLOW = CARDS[0], CARDS[-1]
LAST = PLAN.configuration(SLOW, "int8", 1, "head")


def alike(card: str) -> tuple[float, float]:
    """Return accuracy and latency that put every card on the front."""
    return 80.0 + CARDS.index(card), 10.0 + CARDS.index(card)


class Search:
    """A scheduler over a study that gets made-up results."""

    def __init__(self, cores: int = 2, trials_left: int = 100, sampler: str = "advisor", plan: Plan = PLAN) -> None:
        self.bound = FrontBound(Budget())
        self.study = Study(InMemoryStorage(), "scheduling", plan, Budget(), sampler, seed=0, done=())
        self.scheduler = Scheduler(self.study, self.bound, plan, trials_left, cores)
        self.running: list[Configuration] = []
        self.started: list[Configuration] = []

    def start(self) -> None:
        """Start everything that may start."""
        while (asked := self.scheduler.next(self.running)) is not None:
            self.running.append(asked)
            self.started.append(asked)

    def end(self, configuration: Configuration, accuracy: float = 80.0, latency: float = 10.0) -> None:
        """Tell a made-up result."""
        self.running.remove(configuration)
        made = evaluation(configuration.card, accuracy=accuracy, half_width=1, latency=latency, size=1e6 * latency)
        self._tell(replace(made, configuration=configuration))

    def end_heads(self, figures: Callable[[str], tuple[float, float]], kept: Configuration | None = None) -> None:
        """Start all heads and tell accuracy and latency by card, but for the one that is kept running."""
        self.start()
        while heads := [each for each in self.running if each.training == "head" and each != kept]:
            self.end(heads[0], *figures(heads[0].card))
            self.start()

    def _tell(self, made: Evaluation) -> None:
        self.study.tell(made)
        self.bound.add([made])


def test_a_card_is_tuned_while_others_are_at_their_heads() -> None:
    search = Search()
    search.end_heads(alike, kept=LAST)
    assert LAST in search.running
    assert _tuned(search.running)


def test_fine_tuning_leaves_a_core_to_heads_and_takes_all_when_no_head_is_left() -> None:
    search = Search(cores=2)
    search.end_heads(alike, kept=LAST)
    assert len(_tuned(search.running)) == 1
    search.end(LAST)
    search.start()
    assert len(_tuned(search.running)) == 2


def test_one_core_tunes_only_when_nothing_else_is_left() -> None:
    search = Search(cores=1)
    search.end_heads(alike, kept=LAST)
    assert not _tuned(search.running)
    search.end(LAST)
    search.start()
    assert len(_tuned(search.running)) == 1


def test_no_more_run_than_the_cores_can_use() -> None:
    search = Search(plan=changed(PLAN, threads=(1, 2)))
    search.start()
    assert len(search.running) == CARDS_IN_FLIGHT * len(PLAN.recipes) * 2


def test_no_more_start_than_trials_are_left() -> None:
    search = Search(trials_left=3)
    search.start()
    assert len(search.started) == 3


def test_a_card_that_cannot_reach_the_front_is_rejected_with_the_reason() -> None:
    search = Search()
    search.end_heads(lambda card: (95.0, 5.0) if card == BEST else (60.0, 20.0))
    while search.running:
        search.end(search.running[0], 96.0, 5.0)
        search.start()
    rejected = search.scheduler.reject_deferred()
    assert {each.card for each, _ in rejected} == set(CARDS) - {BEST}
    assert all(BEST in reason for _, reason in rejected)
    assert not search.scheduler.deferred


def test_a_deferred_card_starts_when_its_training_gains_more_than_expected_on_another() -> None:
    plan = replace(PLAN, cards=tuple(card for card in PLAN.cards if card.name in (BEST, SLOW)))
    search = Search(plan=plan)
    search.end_heads(lambda card: (90.0, 5.0) if card == BEST else (76.0, 20.0))
    while search.running:
        search.end(search.running[0], 90.5, 5.0)
        search.start()
    assert len(search.scheduler.deferred) == len(plan.recipes)
    head = evaluation("another", accuracy=60)
    tuned = replace(head.configuration, training="finetune_top")
    search.bound.add([head, replace(evaluation("another", accuracy=85), configuration=tuned)])
    search.start()
    assert {CardTraining.of(each) for each in search.running} == {(SLOW, "finetune_top")}
    assert not search.scheduler.deferred


@pytest.mark.parametrize("sampler", ["advisor", RANDOM])
def test_every_configuration_starts_once_or_is_rejected(sampler: str) -> None:
    search = Search(sampler=sampler)
    search.start()
    while search.running:
        place = len(search.started)
        search.end(search.running[0], accuracy=80 + place / 100, latency=10 - place / 100)
        search.start()
    assert len(search.started) == len(set(search.started))
    rejected = {each for each, _ in search.scheduler.reject_deferred()}
    assert set(search.started) | rejected == set(PLAN.configurations())


def _tuned(running: list[Configuration]) -> set[str]:
    return {each.card for each in running if each.training == "finetune_top"}
