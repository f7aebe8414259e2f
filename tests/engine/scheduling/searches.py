"""Searches by the rule whose results are made up, on a clock that runs while something is evaluated."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from optuna.storages import InMemoryStorage

from advisor.catalog import Catalogue
from advisor.core import BALANCED, Configuration, Evaluation, Limits, Preference, Provenance, Quantity, Sampler
from advisor.engine._pipeline.cost import rough_ms, rough_size
from advisor.engine._scheduling.belief import CardTraining, FormStep
from advisor.engine._scheduling.next_steps import SearchRule
from advisor.engine._scheduling.prices import TimeLimit
from advisor.engine._scheduling.scheduler import Scheduler
from advisor.engine._scheduling.study import Study
from advisor.engine._space.plan import Plan
from tests.builders import RUNTIME, evaluation
from tests.engine.plans import changed, planned

BEST, TWIN = "mobilenet_v2_1.0_224", "mobilenet_v2_1.0_224_torchvision"
OTHER, WEAK, EXPENSIVE = "efficientnet_lite0_224", "mobilenet_v1_0.25_224", "inception_v3_299"
TUNED = "finetune_cached"
CARDS = Catalogue.load().select([BEST, OTHER, WEAK])
HEADS = planned(CARDS, ("float32", "int8"), (1,), ("head",), RUNTIME, images=2000, validation=400)
PLAN = changed(HEADS, trainings=("head", TUNED))
NO_LIMIT = Limits()

Accuracy = Callable[[CardTraining], float]


def of_cards(plan: Plan, *names: str) -> Plan:
    """Return the plan with other cards."""
    return changed(plan, cards=Catalogue.load().select(list(names)))


def usual(network: CardTraining) -> float:
    """Return an accuracy in % that surprises nobody."""
    return {BEST: 89.0, TWIN: 88.5, OTHER: 89.5, WEAK: 84.0, EXPENSIVE: 88.0}[network.card] + 3.0 * network.tuned


def result(
    plan: Plan, configuration: Configuration, accuracy: float, *, drop: float = 0.0, slower: float = 1.0
) -> Evaluation:
    """Return a result with the latency and the size that are expected."""
    card, form = plan.cards_by_name[configuration.card], configuration.compression
    return replace(
        evaluation(drop=drop, latency=slower * rough_ms(card, form, configuration.target.threads)),
        configuration=configuration,
        accuracy=Quantity(accuracy - drop, "%", Provenance.MEASURED, n=400),
        size=Quantity(rough_size(card, form), "bytes", Provenance.MEASURED),
    )


class Search:
    """A search that ends within ``left_s`` seconds, None for no limit."""

    def __init__(
        self, plan: Plan = PLAN, left_s: float | None = None, accuracy: Accuracy = usual, *, everything: bool = False,
        sampler: str = Sampler.ADVISOR, cores: int = 1, trainings: int = 1, trials: int = 1000,
        limits: Limits = NO_LIMIT, least: float = 2.0, preference: Preference = BALANCED,
    ) -> None:  # fmt: skip
        self.plan, self.accuracy, self.now, self.left_s = plan, accuracy, 0.0, left_s
        limit = None if left_s is None else TimeLimit(lambda: left_s - self.now)
        self.rule = SearchRule(plan, preference, limits, least, limit)
        self.study = Study(InMemoryStorage(), "scheduling", plan, limits, sampler, seed=0, done=())
        self.scheduler = Scheduler(
            self.study, self.rule, trials, cores, sampler == Sampler.ADVISOR and not everything, trainings
        )
        self.running: list[tuple[Configuration, ...]] = []
        self.began: list[tuple[Configuration, ...]] = []

    def start(self) -> None:
        """Begin everything that may begin."""
        while chosen := tuple(self.scheduler.next([each for some in self.running for each in some])):
            self.began.append(chosen)
            self.running.append(chosen)

    def end(self) -> None:
        """Tell the results of what began first; the clock moves on by what it takes."""
        ended, prices = self.running.pop(0), self.rule.prices
        steps = tuple(dict.fromkeys(map(FormStep.of, ended)))
        self.now += prices.lasts_s(steps)
        prices.finished.update(prices.missing(steps))
        for configuration in ended:
            made = result(self.plan, configuration, self.accuracy(CardTraining.of(configuration)))
            self.study.tell(made)
            self.rule.condition_on(made)

    def advance(self) -> Iterator[None]:
        """Search to the end; yield each time before the results of what began first."""
        self.start()
        while self.running:
            yield
            self.end()
            self.start()

    def finish(self) -> "Search":
        """Search to the end."""
        for _ in self.advance():
            pass
        return self

    @property
    def steps(self) -> list[FormStep]:
        """The steps that began, in order."""
        return [FormStep.of(each) for some in self.began for each in some]

    @property
    def heads(self) -> list[str]:
        """The cards whose float32 head began, in order."""
        return [each.network.card for each in self.steps if not each.network.tuned and each.form == "float32"]

    @property
    def tuned(self) -> list[str]:
        """The cards that were fine-tuned, in order."""
        return list(dict.fromkeys(each.network.card for each in self.steps if each.network.tuned))
