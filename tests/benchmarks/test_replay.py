"""A search replayed on a small made-up table follows the product's rules with every sampler.

Remembering how trials were split changes no suggestion. The replay of which cards are fine-tuned, on a made-up
table. The table's making: what a stage took, and which rows are replaced. The Gaussian process over a list: the
exact acquisition, and that only the list is chosen from.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import optuna
import pytest

from advisor.catalog.catalogue import load_catalogue
from advisor.core.training import FINETUNE_CACHED, FINETUNE_TOP, HEAD, HEAD_SUBSET
from advisor.engine.pipeline.stage import EventKind, StageEvent
from advisor.engine.pipeline.stages.backbone import convert
from benchmarks import trashnet_climb, trashnet_table
from benchmarks.cost_table import PROBLEMS, VALIDATION, Problem, Purse, Row
from benchmarks.listed_gp import improvement
from benchmarks.quick_tpe import splits_remembered
from benchmarks.replay import ADVISOR, GP, evaluation, searched
from benchmarks.trashnet_table import HEADER, Stopwatch, put, table_rows
from benchmarks.tuning_promotion import Steps, best_of, one_epoch_first, problem_of, promoted


@pytest.fixture(scope="module")
def problem(rows: list[Row]) -> Problem:
    """The table with all rungs."""
    return Problem(PROBLEMS["rungs"], rows)


@pytest.fixture(scope="module", params=[ADVISOR, "random", "nsga2"])
def method(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def order(problem: Problem, method: str) -> list[Row]:
    return list(searched(problem, method, seed=1))


def test_nothing_is_evaluated_twice_and_a_card_is_fine_tuned_after_its_head(order: list[Row]) -> None:
    assert len({id(row) for row in order}) == len(order)
    ladder = (HEAD_SUBSET, HEAD, FINETUNE_TOP)
    for card in {row.card for row in order}:
        floats = [ladder.index(row.training) for row in order if row.card == card and row.recipe == "float32"]
        first = list(dict.fromkeys(floats))
        assert first == sorted(first)


def test_what_may_still_be_picked_is_evaluated(problem: Problem, order: list[Row]) -> None:
    assert problem.course(iter(order)).shares[-1] >= 0.99


def test_what_would_not_be_picked_is_not_fine_tuned_and_costs_nothing(rows: list[Row]) -> None:
    hopeless = {"mobilenet_v2_1.0_224": 40.0}
    worse = [replace(row, accuracy=hopeless.get(row.base, row.accuracy)) for row in rows]
    order = list(searched(Problem(PROBLEMS["rungs"], worse), ADVISOR, seed=0))
    assert any(row.training == FINETUNE_TOP for row in order)
    assert not any(row.training == FINETUNE_TOP and row.base in hopeless for row in order)


def test_the_same_seed_gives_the_same_order(problem: Problem, method: str, order: list[Row]) -> None:
    assert list(searched(problem, method, seed=1)) == order


def test_the_gaussian_process_goes_the_same_way_as_the_others(problem: Problem) -> None:
    pytest.importorskip("torch", reason="Optuna's Gaussian process needs PyTorch")
    assert problem.course(searched(problem, GP, seed=0)).shares[-1] >= 0.99


def test_an_evaluation_says_what_the_table_does_and_how_sure_it_is(problem: Problem) -> None:
    asked = next(each for each in problem.plan.configurations() if each.compression == "int8")
    row = problem.row(asked)
    assert row is not None
    told = evaluation(problem, asked, row)
    assert told.accuracy is not None
    assert told.accuracy.value == row.accuracy
    assert told.accuracy.n == VALIDATION
    assert told.accuracy.low < row.accuracy < told.accuracy.high


def test_a_card_that_cannot_be_fine_tuned_says_so_and_costs_nothing(rows: list[Row]) -> None:
    name = "mobilenet_v2_1.0_224"
    left = [row for row in rows if row.card != name or row.training != FINETUNE_TOP]
    whole = Problem(PROBLEMS["whole"], left, whole=True)
    order = list(searched(whole, "random", seed=0))
    assert {row.training for row in order if row.card == name} == {HEAD}
    assert whole.course(iter(order)).shares[-1] >= 0.99


SPACE = {name: optuna.distributions.CategoricalDistribution(range(9)) for name in ("a", "b")}


def _suggestions() -> list[dict[str, int]]:
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(directions=["minimize"] * 2, sampler=optuna.samplers.TPESampler(seed=0))
    found = []
    for _ in range(30):
        trial = study.ask(SPACE)
        found.append(trial.params)
        study.tell(trial, [trial.params["a"] - trial.params["b"], trial.params["b"] ** 2])
    return found


def test_suggestions_stay_the_same_and_trials_are_split_once_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    from optuna.samplers._tpe import sampler

    plain, counted, split = _suggestions(), [], sampler._split_trials
    monkeypatch.setattr(sampler, "_split_trials", lambda *given: counted.append(given) or split(*given))
    with splits_remembered():
        assert _suggestions() == plain
    assert len(counted) == 20  # the first ten suggestions are random


CARDS = {"mobilenet_v1_0.25_224": 50.0, "mobilenet_v2_1.0_224": 80.0, "mobilenet_v1_1.0_224": 60.0}
"""Accuracy of the heads; the last card is slower and larger than the one before."""


@pytest.fixture
def steps() -> Steps:
    found = {}
    for place, (name, accuracy) in enumerate(CARDS.items()):
        card = load_catalogue()[name]
        head = Row(
            name, name, 224, card.params, card.macs, HEAD, "float32", 1, accuracy, 1.0 + place, 1e6 * (1 + place),
            0.0, 2.0, 0.0, 0.0,
        )  # fmt: skip
        epochs = [
            replace(head, training=FINETUNE_CACHED, accuracy=accuracy + gain, training_s=10.0 * number)
            for number, gain in enumerate((1.0, 4.0, 3.0), 1)
        ]
        found[name] = [head, *epochs]
    return found


def test_a_whole_fine_tuning_has_its_best_epoch_and_the_cost_of_all(steps: Steps) -> None:
    whole = best_of(steps["mobilenet_v2_1.0_224"])
    assert (whole.accuracy, whole.training_s) == (84.0, 30.0)


def test_the_baseline_pays_the_first_epoch_of_every_card_and_the_others_of_the_best(steps: Steps) -> None:
    purse = Purse()
    for row in one_epoch_first(steps, 1):
        purse.pay(row)
    assert purse.spent == pytest.approx((3 * 2 + 3 * 10 + 20) / 2)


def test_the_product_tunes_the_pick_first_and_not_the_card_that_it_dominates(steps: Steps) -> None:
    tuned = [row.card for row in promoted(problem_of(steps)) if row.training == FINETUNE_CACHED]
    assert tuned[0] == "mobilenet_v2_1.0_224"
    assert "mobilenet_v1_1.0_224" not in tuned


def test_a_stopwatch_adds_up_what_stages_of_a_card_worked() -> None:
    card = load_catalogue()["mobilenet_v2_1.0_224"]
    watch = Stopwatch()
    events = ((EventKind.STARTED, 0.0), (EventKind.DONE, 3.0), (EventKind.CACHED, 9.0), (EventKind.DONE, 1.0))
    for kind, seconds in events:
        watch.stage(StageEvent(convert(card), kind, seconds))
    assert watch.seconds == {("convert", card.name): 4.0}


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A table of its own."""
    file = tmp_path / "table.csv"
    monkeypatch.setattr(trashnet_table, "TABLE", file)
    return file


def _rows(card: str, training: str, *accuracies: float) -> list[dict[str, object]]:
    own = {"card": card, "base": card, "training": training}
    return [{**dict.fromkeys(HEADER, ""), **own, "accuracy": accuracy} for accuracy in accuracies]


def test_new_rows_replace_those_of_the_same_card_and_rung_only(kept: Path) -> None:
    put(_rows("a", HEAD, 1, 2) + _rows("a", FINETUNE_TOP, 3) + _rows("b", HEAD, 4))
    put(_rows("a", HEAD, 5))
    assert sorted(row["accuracy"] for row in table_rows()) == ["3", "4", "5"]


def test_a_card_is_missing_until_it_has_been_on_the_last_rung(kept: Path) -> None:
    first, second = trashnet_climb.CLIMBERS[:2]
    name = trashnet_climb.name_of(first)
    put(_rows(name, HEAD, 1))
    assert trashnet_climb.missing()[:2] == [first, second]
    put(_rows(name, FINETUNE_TOP, 1))
    assert trashnet_climb.missing()[0] == second


def test_improvement_is_what_sampling_comes_to() -> None:
    rng = np.random.default_rng(0)
    means, deviations = rng.normal(size=(3, 2)), rng.uniform(0.1, 1, size=(3, 2))
    lower = np.array([[-1.0, 0.5], [0.2, -1.0]])  # what a front of (0.2, 0.5) leaves above the reference (-1, -1)
    upper = np.array([[np.inf, np.inf], [np.inf, 0.5]])
    drawn = means[:, None] + deviations[:, None] * rng.normal(size=(3, 200_000, 2))
    boxes = [np.clip(drawn - low, 0, high - low).prod(axis=2) for low, high in zip(lower, upper, strict=True)]
    assert improvement(means, deviations, lower, upper) == pytest.approx(sum(boxes).mean(axis=1), rel=0.02)


def test_a_certain_point_gains_its_own_volume() -> None:
    found = improvement(np.array([[2.0, 3.0]]), np.zeros((1, 2)), np.zeros((1, 2)), np.full((1, 2), np.inf))
    assert found == pytest.approx([6.0])


def test_it_suggests_nothing_but_what_is_listed() -> None:
    pytest.importorskip("torch", reason="Optuna's Gaussian process needs PyTorch")
    from benchmarks.listed_gp import ListedGP

    space = {"place": optuna.distributions.CategoricalDistribution(range(40))}
    left = set(range(40))
    study = optuna.create_study(directions=["minimize"] * 2)
    study.sampler = ListedGP(lambda: [{"place": place} for place in sorted(left)], seed=0)
    first = [study.ask(space) for _ in range(10)]
    for trial in first:
        left.discard(trial.params["place"])
        study.tell(trial, [trial.params["place"], -trial.params["place"]])
    for _ in range(5):
        trial = study.ask(space)
        assert trial.params["place"] in left
        left.remove(trial.params["place"])
        study.tell(trial, [trial.params["place"], -trial.params["place"]])
