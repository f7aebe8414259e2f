"""Answers of files become figures, by task."""

from pathlib import Path

import numpy as np
import pytest

from advisor.core import Costs, Metric
from advisor.engine import Question, Scored, accuracy
from advisor.store import RunFolder
from advisor.tasks.classification import CLASSIFICATION
from advisor.tasks.detection import DETECTION
from tests.builders import evaluation
from tests.engine.pipeline.boxed import two_classes
from tests.engine.space.test_metric_needs import SITES, images_of

COSTS = Costs.parse("class,a,b\na,0,1\nb,5,0\n")
CLASSIFIED, DETECTED = CLASSIFICATION.judge(Question()), DETECTION.judge(Question(DETECTION.name))


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    return RunFolder.create(tmp_path / "runs", "run")


def answered(path: Path, labels: list[int]) -> Path:
    """Write probabilities of which each row is sure of a label."""
    np.save(path, np.eye(2, dtype=np.float32)[labels])
    return path


def test_a_classifier_is_judged_by_its_labels_and_they_are_kept(run: RunFolder, tmp_path: Path) -> None:
    own, floats = answered(tmp_path / "own.npy", [0, 1, 1, 1]), answered(tmp_path / "float.npy", [0, 1, 0, 1])
    verdict, kept = CLASSIFIED.verdict(Scored(own, floats), two_classes(), "answers/net-head-int8.npy")
    plain = accuracy.measure_accuracy([0, 1, 1, 1], [0, 1, 0, 1], [0, 1, 0, 1], ("a", "b"))
    assert (verdict.accuracy, verdict.drop) == (plain.accuracy, plain.drop)
    assert verdict.answers.confusion == plain.answers.confusion
    assert verdict.answers.file == "answers/net-head-int8.npy"
    stored = np.load(run.path / run.keep_answers("net-head-int8", kept[verdict.answers.file]))
    assert (stored.dtype, stored.tolist()) == (np.int32, [0, 1, 1, 1])


def test_a_classifier_has_every_metric_that_its_images_allow(tmp_path: Path) -> None:
    own = answered(tmp_path / "own.npy", [0, 1, 1, 1])
    answers = CLASSIFIED.verdict(Scored(own, own), two_classes(), "answers/net.npy")[0].answers
    assert set(answers.metrics) == {Metric.TOP1, Metric.BALANCED_ACCURACY, Metric.MACRO_F1, Metric.LOG_LOSS}
    assert (answers.metrics[Metric.TOP1].value, answers.metrics[Metric.TOP1].n) == (75.0, 4)
    judged, _ = CLASSIFICATION.judge(Question(metric=Metric.TOP1, costs=COSTS)).held_out(
        evaluation(), own, two_classes()
    )
    assert set(judged.holdout_answers.metrics) == {*answers.metrics, Metric.COST_SAVED}
    assert judged.holdout_accuracy == judged.holdout_answers.metrics[Metric.TOP1]


def test_a_classifier_is_judged_by_the_metric_asked_for(tmp_path: Path) -> None:
    own, floats = answered(tmp_path / "own.npy", [0, 1, 1, 1]), answered(tmp_path / "float.npy", [0, 1, 0, 1])
    judge = CLASSIFICATION.judge(Question(metric=Metric.MACRO_F1))
    verdict, kept = judge.verdict(Scored(own, floats), two_classes(), "answers/net.npy")
    assert verdict.accuracy == verdict.answers.metrics[Metric.MACRO_F1]
    assert verdict.accuracy.value == pytest.approx(100 * (2 / 3 + 4 / 5) / 2)
    assert verdict.drop.value == pytest.approx(100 - verdict.accuracy.value)
    assert verdict.answers.compared_by == "answers/net-shares.npy"
    assert list(kept[verdict.answers.file]) == [0, 1, 1, 1]
    assert 100 * np.mean(kept[verdict.answers.shares]) == pytest.approx(verdict.accuracy.value)


def test_the_hold_out_is_judged_by_the_metric_asked_for(tmp_path: Path) -> None:
    own = answered(tmp_path / "own.npy", [0, 1, 1, 1])
    judge = CLASSIFICATION.judge(Question(metric=Metric.COST_SAVED, costs=COSTS))
    judged, kept = judge.held_out(evaluation(), own, two_classes(), "answers/holdout-net.npy")
    assert judged.holdout_accuracy.value == pytest.approx(50)  # one answer costs 1; always answering "b" costs 2
    assert judged.holdout_answers.shares == "answers/holdout-net-shares.npy"
    assert set(kept) == {judged.holdout_answers.file, judged.holdout_answers.shares}
    assert np.mean(kept[judged.holdout_answers.shares]) == pytest.approx(0.5)


def test_the_worst_group_is_named_as_the_source(tmp_path: Path) -> None:
    given = images_of(groups=SITES)
    own = tmp_path / "own.npy"
    np.save(own, np.eye(2, dtype=np.float32)[[int(place >= 25) for place in range(60)]])
    judged, _ = CLASSIFICATION.judge(Question(metric=Metric.WORST_GROUP)).held_out(evaluation(), own, given)
    assert judged.holdout_accuracy.n == 20
    assert judged.holdout_accuracy.source == (
        "group 'cellar' (20 images), the lowest of 2 groups, hold-out of --data, run in LiteRT"
    )


def test_a_classifier_on_the_hold_out_has_its_labels_to_keep(tmp_path: Path) -> None:
    own = answered(tmp_path / "own.npy", [0, 1, 1, 1])
    judged, kept = CLASSIFIED.held_out(evaluation(), own, two_classes(), "answers/holdout-net.npy")
    assert (judged.holdout_accuracy.value, judged.holdout_accuracy.source) == (75.0, accuracy.HELD_OUT)
    assert judged.holdout_answers.confusion == ((1, 1), (0, 2))
    assert judged.holdout_answers.file == "answers/holdout-net.npy"
    assert kept == {"answers/holdout-net.npy": (0, 1, 1, 1)}
