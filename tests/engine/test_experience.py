"""``--learn-from``: earlier runs order a search, as far as their pictures are like its own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from optuna.storages import InMemoryStorage
from PIL import Image

from advisor.catalog.catalogue import load_catalogue
from advisor.core.budget import Budget
from advisor.core.errors import UsageError
from advisor.core.evaluation import Configuration, Evaluation
from advisor.engine.experience import Earlier, Experience, read_experience
from advisor.engine.likeness import SAME_CLASSES, STRANGERS, DataFacts, likeness
from advisor.engine.question import Request, resolve
from advisor.engine.scheduling.study import Study
from advisor.engine.space.candidates import read_images
from advisor.engine.space.plan import Plan
from advisor.store import RunFolder
from tests.builders import RUNTIME, evaluation

CARDS = ("mobilenet_v2_*_224", "efficientnet_lite*", "squeezenet_1.1_227")


@pytest.fixture(scope="module")
def plan() -> Plan:
    return Plan(load_catalogue().select(CARDS), ("float32", "int8"), (1,), ("head",), RUNTIME)


def results(plan: Plan, turned: bool = False) -> tuple[Evaluation, ...]:
    """Accuracies that fall with the published ones where ``turned``, else rise; int8 is worth less."""
    found = []
    for place, each in enumerate(sorted(plan.cards, key=lambda card: card.top1() or 0)):
        accuracy = 60.0 + (len(plan.cards) - place if turned else place)
        for recipe, lost in (("float32", 0.0), ("int8", 1.0)):
            row = evaluation(each.name, recipe, accuracy=accuracy - lost, latency=each.macs / 1e8 * (1 - lost / 2))
            found.append(replace(row, configuration=plan.configuration(each.name, recipe, 1)))
    return tuple(found)


def order(plan: Plan, experience: Experience) -> list[Configuration]:
    by_configuration = {row.configuration: row for row in results(plan, turned=True)}
    study = Study(InMemoryStorage(), "s", plan, Budget(), "advisor", 0, (), experience)
    asked = []
    while (configuration := study.ask()) is not None:
        asked.append(configuration)
        study.tell(by_configuration[configuration])
    return asked


def until_front(plan: Plan, experience: Experience) -> int:
    """Return after how many evaluations the best one is known."""
    best = max(results(plan, turned=True), key=lambda row: row.accuracy.value if row.accuracy else 0.0)
    return 1 + order(plan, experience).index(best.configuration)


def test_the_same_images_are_the_most_alike() -> None:
    own = DataFacts("a", frozenset({"glass"}), frozenset({"1"}))
    assert likeness(own, own) == 1.0


def test_the_same_classes_count_however_they_are_written() -> None:
    own, other = DataFacts("a", frozenset({"Glass_Bottle"})), DataFacts("b", frozenset({"glass bottle"}))
    assert likeness(own, other) == SAME_CLASSES


def test_shared_images_count_where_names_do_not() -> None:
    own = DataFacts("a", frozenset({"x"}), frozenset({"1", "2"}))
    assert likeness(own, DataFacts("b", frozenset({"y"}), frozenset({"1", "2", "3"}))) == 1.0


@given(st.frozensets(st.text(max_size=3)), st.frozensets(st.text(max_size=3)))
def test_likeness_is_mutual_and_bounded(first: frozenset[str], second: frozenset[str]) -> None:
    own, other = DataFacts("a", first, second), DataFacts("b", second, first)
    assert likeness(own, other) == likeness(other, own)
    assert STRANGERS <= likeness(own, other) <= 1.0


def test_the_earlier_front_is_evaluated_first(plan: Plan) -> None:
    earlier = Earlier(Path("r"), 0.9, results(plan, turned=True))
    assert order(plan, Experience((earlier,)))[:3] == earlier.front()[:3]


def test_a_run_on_other_images_enqueues_nothing(plan: Plan) -> None:
    earlier = Earlier(Path("r"), STRANGERS, results(plan))
    assert Experience((earlier,)).first(plan.configurations()) == []


def test_fewer_evaluations_find_the_best_after_a_run_on_like_images(plan: Plan) -> None:
    earlier = Earlier(Path("r"), 0.9, results(plan, turned=True)[::3])
    assert until_front(plan, Experience((earlier,))) < until_front(plan, Experience())


def test_priors_of_what_was_not_evaluated_follow_what_was(plan: Plan) -> None:
    earlier = Earlier(Path("r"), 1.0, results(plan, turned=True)[::3])
    taught = Experience((earlier,)).taught(plan.candidates())
    truth = {row.configuration.card: row.accuracy.value for row in results(plan, turned=True)[::2] if row.accuracy}
    unseen = [each for each in taught if each.params["compression"] == "float32"]
    accuracy = [truth[str(each.params["card"])] for each in unseen]
    assert np.corrcoef([each.prior for each in unseen], accuracy)[0, 1] > 0.8


def test_too_few_results_teach_no_priors(plan: Plan) -> None:
    earlier = Earlier(Path("r"), 1.0, results(plan)[:2])
    assert Experience((earlier,)).taught(plan.candidates()) == plan.candidates()


def test_a_study_that_goes_on_does_not_begin_with_the_front_again(plan: Plan) -> None:
    experience = Experience((Earlier(Path("r"), 0.9, results(plan, turned=True)),))
    storage, done = InMemoryStorage(), results(plan, turned=True)
    study = Study(storage, "s", plan, Budget(), "advisor", 0, (), experience)
    first = study.ask()
    kept = [row for row in done if row.configuration == first]
    study.tell(kept[0])
    again = Study(storage, "s", plan, Budget(), "advisor", 0, kept, experience)
    asked = [again.ask() for _ in range(again.unevaluated)]
    assert len(set(asked)) == plan.size - 1


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root, rng = tmp_path_factory.mktemp("photos"), np.random.default_rng(0)
    for name in ("glass", "paper"):
        (root / name).mkdir()
        for place in range(8):
            Image.fromarray(rng.integers(0, 255, (40, 40, 3), dtype=np.uint8)).save(root / name / f"{place}.png")
    return root


def asked(photos: Path, *runs: Path) -> Request:
    return resolve({"data": str(photos), "learn_from": [str(run) for run in runs]})


def experience(photos: Path, *runs: Path) -> Experience:
    request = asked(photos, *runs)
    return read_experience(request, read_images(request, lambda _: None))


def a_run(out: Path, photos: Path, *evaluations: Evaluation, **request: object) -> RunFolder:
    run = RunFolder.create(out, "earlier")
    run.write_request({**resolve({"data": str(photos)}).to_dict(), **request})
    run.write_json("dataset.json", {"pictures_per_class": {"glass": 8, "paper": 8}, "fingerprint": "other"})
    for each in evaluations:
        run.append(each)
    return run


def test_a_folder_of_runs_is_read_with_the_most_alike_first(tmp_path: Path, photos: Path, plan: Plan) -> None:
    a_run(tmp_path / "runs", photos, *results(plan))
    other = a_run(tmp_path / "runs", photos, *results(plan))
    other.write_json("dataset.json", {"pictures_per_class": {"cat": 8}, "fingerprint": "third"})
    found = experience(photos, tmp_path / "runs")
    assert [run.likeness for run in found.runs] == [SAME_CLASSES, STRANGERS]
    assert len(found.runs[0].evaluations) == len(results(plan))


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path, photos: Path) -> None:
    with pytest.raises(UsageError, match="is not a run folder"):
        experience(photos, tmp_path)


def test_a_folder_that_is_not_there_is_refused_with_the_nearest(tmp_path: Path, photos: Path) -> None:
    (tmp_path / "latest").mkdir()
    with pytest.raises(UsageError, match="there is no folder .*did you mean 'latest'"):
        experience(photos, tmp_path / "latst")


def test_a_run_of_a_newer_schema_is_refused(tmp_path: Path, photos: Path, plan: Plan) -> None:
    run = a_run(tmp_path, photos, *results(plan), schema_version=99)
    with pytest.raises(UsageError, match="--learn-from: .* was written by a newer advisor"):
        experience(photos, run.path)


def test_a_run_of_another_task_is_refused(tmp_path: Path, photos: Path, plan: Plan) -> None:
    run = a_run(tmp_path, photos, *results(plan), task="object-detection")
    with pytest.raises(UsageError, match="a run of the task 'object-detection'"):
        experience(photos, run.path)


def test_a_run_without_images_teaches_nothing_and_is_refused(tmp_path: Path, photos: Path) -> None:
    run = a_run(tmp_path, photos, evaluation(half_width=None))
    with pytest.raises(UsageError, match="no evaluation on pictures"):
        experience(photos, run.path)


def test_without_images_of_ones_own_it_is_refused() -> None:
    with pytest.raises(UsageError, match="--learn-from: .* --data is not given"):
        resolve({"learn_from": ["runs"]})
