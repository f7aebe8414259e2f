"""The stage that trains a network on the maps of a backbone."""

from dataclasses import replace
from pathlib import Path

import pytest

from advisor.catalog import Catalogue
from advisor.core import TrainingName, UsageError
from advisor.engine import FloatModel, Folders, Images, Purpose, Question, Results, Stage, Workload
from advisor.engine._pipeline.materials import IMPORTS_S, NEXT_IMPORTS_S, NEXT_START_S, TrainingBudget
from advisor.engine._space.resolving import require_heads
from advisor.store import RunFolder, sha256_file
from advisor.tasks import _on_maps as on_maps
from advisor.tasks.anomaly import ANOMALY
from advisor.tasks.detection import DETECTION
from tests.builders import must_fail
from tests.engine.pipeline.boxed import boxed_images
from tests.engine.pipeline.walking import materials

QUESTION, CARD = Question(DETECTION.name), Catalogue.load()["mobilenet_v2_1.0_224"]
SHARED_S, ALONE_S = (100.0 - IMPORTS_S - NEXT_START_S) / 1.55, 100.0 - NEXT_IMPORTS_S


def stage_of(training: str, purpose: Purpose, images: Images) -> Stage[FloatModel]:
    workload = Workload((TrainingName.HEAD, training), ("float32",), images.counts, QUESTION)
    return on_maps.train_on_maps(CARD, training, purpose, workload)


@pytest.mark.parametrize("training", [TrainingName.HEAD, TrainingName.FINETUNE_ALL])
@pytest.mark.parametrize(("purpose", "seconds"), zip(Purpose, (SHARED_S, ALONE_S, None), strict=True))
def test_a_training_ends_in_time(tmp_path: Path, training: str, purpose: Purpose, seconds: float | None) -> None:
    images, asked = boxed_images(), list[tuple[str, str]]()

    def left(card: str, training: str) -> TrainingBudget:
        asked.append((card, training))
        return TrainingBudget(100.0)

    stage = stage_of(training, purpose, images)
    given = replace(materials(tmp_path, images, weights={CARD.name: None}), budget_training=left)
    before = Results(dict.fromkeys(stage.after, FloatModel(tmp_path / "earlier.tflite", "")))
    start = stage.job(given, before, Folders(tmp_path, tmp_path)).args[-1]
    assert start.seconds == (None if seconds is None else pytest.approx(seconds))
    assert set(asked) == ({(CARD.name, training)} if seconds else set())
    assert stage.keep_if
    assert [stage.keep_if({"out_of_time": late}) for late in (False, True)] == [True, False]


def test_a_new_head_starts_from_that_of_the_network_in_an_earlier_run(tmp_path: Path) -> None:
    run, asked, images = RunFolder(tmp_path), replace(QUESTION, start=tmp_path), boxed_images()
    (tmp_path / "request.yaml").write_text("schema_version: 1\n")
    must_fail(UsageError, "has no heads of detectors", require_heads, tmp_path)
    head = run.keep_head(tmp_path / "request.yaml", CARD.name)
    given = replace(materials(tmp_path / "cache", images, weights={CARD.name: None}), question=asked)
    stage = stage_of(TrainingName.HEAD, Purpose.COMPARE, images)
    assert stage.inputs(given, Results({}))["start"] == sha256_file(head)
    assert stage.job(given, Results({}), Folders(tmp_path, tmp_path)).args[-1].head_of_others == head
    head.rename(head.with_name("other" + head.name))
    assert "start" not in stage.inputs(given, Results({}))


def test_what_learns_in_one_pass_is_never_short() -> None:
    workload = Workload((TrainingName.HEAD,), ("float32",), boxed_images().counts, Question(ANOMALY.name))
    assert on_maps.train_on_maps(CARD, TrainingName.HEAD, Purpose.COMPARE, workload).keep_if is None
