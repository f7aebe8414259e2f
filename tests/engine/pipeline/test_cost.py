"""What the stages of a search cost and who shares it, and the words in the keys of the cache."""

import itertools
import json
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from advisor.catalog import Catalogue
from advisor.core import HeadFacts, TrainingName
from advisor.engine import Resources, Results, Scope, Stage, StageName, VariantStages, Workload
from advisor.engine._pipeline.cost import DETECTOR_START_S, TRAINING_WALL, detector_s
from advisor.engine._pipeline.cost_calibration import MOST, CostCalibration
from advisor.engine._pipeline.cost_model import CostModel
from advisor.engine._pipeline.graph import with_all_before
from advisor.engine._pipeline.stage import ALONE
from advisor.engine._pipeline.stage_events import Durations, EventKind, StageEvent
from advisor.training import WEIGHTS_FILE
from tests.engine.pipeline.boxed import two_classes
from tests.engine.pipeline.walking import PLAIN, materials
from tests.engine.plans import image_counts
from tests.tables import with_cases

CARD = Catalogue.load()["mobilenet_v2_1.0_224"]
RECIPES = ("float32", "int8")
WORKLOAD = Workload((TrainingName.HEAD, TrainingName.FINETUNE_TOP), RECIPES, image_counts(1000, 200, 0))
NUMBERS = itertools.count()
GOLDEN = Path(__file__).with_name("cache_keys.json")
TRAININGS = (TrainingName.HEAD_SUBSET, TrainingName.HEAD, TrainingName.FINETUNE_CACHED)


def test_a_detector_costs_more_with_every_image_with_a_larger_input_and_fine_tuned() -> None:
    none, some, more = (detector_s(CARD, images) for images in (0, 100, 200))
    assert none == detector_s(CARD, 0, layers=0.65) == DETECTOR_START_S < some < more
    assert more - some == some - none
    assert some == detector_s(CARD.at(224), 100) < detector_s(CARD.at(320), 100)
    assert some < detector_s(CARD, 100, layers=0.65) < detector_s(CARD, 100, layers=1.0)


def test_the_shares_of_all_variants_are_the_cost_of_the_card_and_one_stage_is_corrected_by_what_was_shown() -> None:
    plain, paced = CostModel(WORKLOAD), CostModel(WORKLOAD, {StageName.COMPRESS: 3.0})
    more = [paced.seconds(stage) / plain.seconds(stage) for stage in plain.stages(CARD)]
    names = [stage.name for stage in plain.stages(CARD)]
    assert dict(zip(names, more, strict=True))[StageName.COMPRESS] == 3.0
    assert {ratio for name, ratio in zip(names, more, strict=True) if name is not StageName.COMPRESS} == {1.0}
    model = CostModel(Workload((TrainingName.HEAD,), RECIPES, WORKLOAD.images))
    shared = sum(model.variant_s(CARD, (TrainingName.HEAD, recipe)) for recipe in RECIPES)
    assert shared == pytest.approx(model.total_s(model.stages(CARD)))


def test_timings_take_the_machine_alone_whatever_the_cores() -> None:
    model = CostModel(WORKLOAD)
    stages = model.stages(CARD)
    alone = model.total_s(stage for stage in stages if stage.resources.alone)
    one, many = (model.wall_s(stages, cores) for cores in (1, 10_000))
    assert one == pytest.approx(model.total_s(stages))
    assert many == pytest.approx(alone, rel=0.1)


def searched(
    file: Path, price_s: float, seconds: float, stage: StageName = StageName.CONVERT, disturbed: bool = False
) -> None:
    book = CostCalibration(file)
    book.note(StageEvent(_stage(stage), EventKind.DONE, 3.0 * seconds, cpu_s=seconds), price_s)
    book.keep(disturbed)


def _stage(name: StageName, card: str = "card") -> Stage[None]:
    resources = ALONE if name is StageName.TIMING else Resources()
    return Stage(name=name, scope=Scope(card), job=lambda *_: partial(print), read=print, resources=resources, **PLAIN)


def test_what_a_stage_took_prices_the_next_plan_and_a_plan_that_was_right_changes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "pace.json"
    for price_s in (8.0, 16.0):
        searched(file, price_s, seconds=16.0)
        assert CostCalibration(file).pace == pytest.approx({"convert": 2.0})


def test_one_slow_search_changes_little_and_a_quiet_machine_counts_before_busy_ones(tmp_path: Path) -> None:
    file = tmp_path / "pace.json"
    for seconds in (8.0, 9.0, 80.0):
        searched(file, price_s=8.0 * CostCalibration(file).pace.get(StageName.CONVERT, 1.0), seconds=seconds)
    assert CostCalibration(file).pace == pytest.approx({"convert": 9.0 / 8.0})
    file = tmp_path / "quiet.json"
    searched(file, price_s=8.0, seconds=8.0)
    for _ in range(9):
        searched(file, price_s=8.0, seconds=40.0, disturbed=True)
    assert CostCalibration(file).pace == pytest.approx({"convert": 1.0})


def test_stages_from_the_cache_teach_nothing_and_one_disturbance_little(tmp_path: Path) -> None:
    book = CostCalibration(tmp_path / "pace.json")
    book.note(StageEvent(_stage(StageName.CONVERT), EventKind.CACHED), 3.0)
    book.keep()
    assert not (tmp_path / "pace.json").exists()
    searched(tmp_path / "pace.json", price_s=1.0, seconds=1e6)
    assert CostCalibration(tmp_path / "pace.json").pace[StageName.CONVERT] == pytest.approx(MOST)


@with_cases
def test_a_training_that_was_ended_teaches_what_its_epochs_took(
    tmp_path: Path, stage: str, price_s: float, planned: int, last: tuple[str, float], ratio: float
) -> None:
    book = CostCalibration(tmp_path / "pace.json")
    training = _stage(StageName(stage))
    for done, (kind, seconds) in enumerate([("epoch", 50.0), last], start=1):
        event = StageEvent(training, EventKind(kind), 3.0 * seconds, epochs=(done, planned), cpu_s=seconds)
        book.note(event, price_s)
    book.keep()
    assert CostCalibration(tmp_path / "pace.json").pace[training.name] == pytest.approx(ratio)


def test_a_training_without_a_figure_costs_what_others_took_over_their_price(tmp_path: Path) -> None:
    file = tmp_path / "pace.json"
    searched(file, price_s=10.0, seconds=15.0, stage=StageName.FEATURES)
    assert CostCalibration(file).pace[StageName.FINETUNE_CACHED] == pytest.approx(1.5)
    searched(file, price_s=10.0, seconds=20.0, stage=StageName.FINETUNE_TOP)
    assert CostCalibration(file).pace[StageName.FINETUNE_CACHED] == pytest.approx(3.0)


@with_cases
def test_a_damaged_book_is_an_empty_one(tmp_path: Path, text: str) -> None:
    (tmp_path / "pace.json").write_text(text)
    assert CostCalibration(tmp_path / "pace.json").pace == {}


def test_the_seconds_of_this_search_are_compared_with_those_of_its_plan(tmp_path: Path) -> None:
    book = CostCalibration(tmp_path / "pace.json")
    assert book.observed(StageName.HEAD) == 1.0
    for name, seconds, price_s in ((StageName.FEATURES, 150.0, 100.0), (StageName.CONVERT, 1.0, 4.0)):
        book.note(StageEvent(_stage(name), EventKind.DONE, seconds, cpu_s=seconds), price_s)
    assert book.observed(StageName.FEATURES) == pytest.approx(1.5, rel=0.02)
    assert book.observed(StageName.CONVERT) < 0.9 < 1.3 < book.observed(StageName.FINETUNE_CACHED) < 1.5


def jobs(book: CostCalibration, count: int, cpu_s: float, wall_s: float, name: StageName = StageName.CONVERT) -> float:
    """Note jobs of equal work one after the other, and return the slowdown then."""
    for _ in range(count):
        book.note(StageEvent(_stage(name, str(next(NUMBERS))), EventKind.DONE, wall_s, cpu_s=cpu_s), cpu_s)
    return book.slowdown


def test_a_machine_that_gets_busy_and_idle_half_way_is_followed_within_a_few_jobs(tmp_path: Path) -> None:
    book = CostCalibration(tmp_path / "pace.json")
    assert book.slowdown == 1.0
    assert jobs(book, 3, cpu_s=4.0, wall_s=4.0) == pytest.approx(1.0)
    assert jobs(book, 3, cpu_s=4.0, wall_s=12.0) == pytest.approx(3.0, rel=0.15)
    assert jobs(book, 3, cpu_s=4.0, wall_s=4.0) == pytest.approx(1.0, abs=0.5)


@pytest.mark.parametrize("known", [(1, 1, 1), (1.5, 1, 1), (2, 1, 2), (4, 1, 4), (4, 0.1, 10)])
def test_other_programs_and_a_quota_count_before_the_first_job(tmp_path: Path, known: tuple[float, ...]) -> None:
    book = CostCalibration(tmp_path / "pace.json", slowdown=known[0], part=known[1], cores=2)
    # Other programs do not make a timing longer.
    assert [book.observed(StageName.HEAD), book.observed(StageName.TIMING)] == pytest.approx([known[2], 1.0 / known[1]])
    assert book.expect_s(StageName.FINETUNE_CACHED, 10.0) == pytest.approx(10.0 * TRAINING_WALL * book.slowdown)
    assert jobs(book, 6, cpu_s=4.0, wall_s=4.0) == pytest.approx(1.0, abs=0.3)


def test_a_training_that_runs_on_tells_of_the_load_by_its_epochs_and_misleads_no_next_search(tmp_path: Path) -> None:
    training = _stage(StageName.FINETUNE_CACHED)
    for cores, wall in ((1, 1.0), (2, TRAINING_WALL)):
        book = CostCalibration(tmp_path / "pace.json", cores=cores)
        for epoch, wall_s in enumerate((10.0, 20.0, 60.0, 100.0), start=1):
            event = StageEvent(training, EventKind.EPOCH, wall * wall_s, epochs=(epoch, 9), cpu_s=10.0 * epoch)
            book.note(event, 90.0)
        assert book.slowdown == pytest.approx(4.0, rel=0.15)
    before = CostCalibration(tmp_path / "pace.json")
    jobs(before, 3, cpu_s=10.0, wall_s=40.0)
    before.keep(disturbed=True)
    assert jobs(CostCalibration(tmp_path / "pace.json"), 3, cpu_s=10.0, wall_s=40.0) == pytest.approx(4.0, rel=0.1)


def test_a_job_on_several_cores_and_a_measurement_do_not_look_like_another_load(tmp_path: Path) -> None:
    before = CostCalibration(tmp_path / "pace.json")
    jobs(before, 1, cpu_s=20.0, wall_s=12.0, name=StageName.FINETUNE_CACHED)
    before.keep()
    book = CostCalibration(tmp_path / "pace.json")
    assert book.wall[StageName.FINETUNE_CACHED] == pytest.approx(0.6)
    assert jobs(book, 3, cpu_s=20.0, wall_s=12.0, name=StageName.FINETUNE_CACHED) == pytest.approx(1.0)
    assert jobs(book, 3, cpu_s=5.0, wall_s=50.0, name=StageName.TIMING) == pytest.approx(1.0)


def test_seconds_are_added_up_by_card_and_stage_without_what_was_cached() -> None:
    durations = Durations()
    for card, name, kind, seconds in (
        ("small", StageName.CONVERT, EventKind.STARTED, 0.0),
        ("small", StageName.CONVERT, EventKind.DONE, 3.0),
        ("large", StageName.COMPRESS, EventKind.DONE, 2.0),
        ("large", StageName.COMPRESS, EventKind.DONE, 4.0),
        ("small", StageName.CUT, EventKind.CACHED, 9.0),
        ("small", StageName.TIMING, EventKind.DONE, 0.5),
    ):
        durations.note(StageEvent(_stage(name, card), kind, seconds, cpu_s=seconds / 2))
    assert durations.by_card() == {"large": {"compress": 6.0}, "small": {"convert": 3.0, "timing": 0.5}}
    assert durations.by_card(cpu=True) == {"large": {"compress": 3.0}, "small": {"convert": 1.5, "timing": 0.2}}
    assert list(durations.by_card()) == ["large", "small"]
    assert durations.by_stage == {"convert": 3.0, "compress": 6.0, "timing": 0.5}


class _Made(dict[Stage[Any], Any]):
    """Results of stages that were never run: files and hashes that are always the same."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._file = folder / "file"
        for name in ("file", WEIGHTS_FILE):
            (folder / name).write_text(name)

    def __missing__(self, stage: Stage[Any]) -> Any:
        if stage.name in (StageName.SCORE, StageName.FEATURES):
            return self._file
        head = HeadFacts("last_layer", 0.1, False, 0.9, 1000)
        files = {"path": self._file, "file": self._file, "answers": self._file}
        return SimpleNamespace(sha256="0" * 64, **files, chosen=head, facts=head, notes={})


def _keys(folder: Path) -> dict[str, list[str]]:
    workload = Workload(TRAININGS, ("float32", "int8", "float16"), image_counts(1000, 200, 250))
    given = materials(folder, two_classes(), weights={CARD.name: None})
    made = _Made(folder)
    found = dict[str, list[str]]()
    for training, form in ((each, form) for each in TRAININGS for form in workload.recipes_of(each)):
        for stage in with_all_before(VariantStages(CARD, training, form, workload).evaluation):
            words = sorted(stage.inputs(given, Results(made)))
            place = f"{stage.folder} {stage.scope.detail}".strip()
            found[place] = sorted({*found.get(place, ()), *words})
    return dict(sorted(found.items()))


def test_the_keys_of_the_cache_have_the_words_that_they_had(tmp_path: Path) -> None:
    assert _keys(tmp_path) == json.loads(GOLDEN.read_text())
