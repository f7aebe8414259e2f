"""Decisions by another metric than top-1, and answers on each image, by which accuracies are compared."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from advisor.core import (
    CardFacts,
    Decision,
    DeviceFigures,
    Evaluation,
    HoldoutPart,
    ImageAnswers,
    Metric,
    Provenance,
    Quantity,
)
from advisor.core._posterior import Posterior
from advisor.engine import Images, Question, Scored, resolve
from advisor.engine._decide import decide_run
from advisor.engine._image_answers import answers_on_images, correct_answers, read_compared_hashes
from advisor.store import RunFolder
from tests.builders import evaluation, present
from tests.engine.space.test_metric_needs import EACH, images_of
from tests.tables import with_cases

QUESTION = resolve({"budget": "50ms"}).question
LABELS = ["a"] * 50 + ["b"] * 50
UNEVEN = [0] * 50 + [1] * 10
GROUPS = ["roof"] * 30 + ["cellar"] * 30
COSTS = "class,a,b\na,0,1\nb,20,0\n"
COMMON = [0] * EACH
"""Answers of a model that knows the common class only: 83 % are right."""
FAIR = [1] * 12 + [0] * 38 + [1] * 10
"""Answers of a model that finds the rare class, at the price of the common one: 80 % are right."""
FOUR = ["a", "b", "b", "a"]


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    folder = RunFolder.create(tmp_path, "x")
    folder.write_request({})
    rows = [{"path": f"{i}.jpg", "class": name, "sha256": str(i)} for i, name in enumerate(LABELS)]
    parts = {"train": [], "validation": rows, "holdout": rows[:3]}
    folder.write_json("split.json", {"classes": ["a", "b"], **parts})
    return folder


def answered(run: RunFolder, card: str, wrong: range, latency: float) -> Evaluation:
    answers = np.array([int(name == "b") for name in LABELS])
    answers[list(wrong)] = 1 - answers[list(wrong)]
    kept = run.keep_answers(card, answers.tolist())
    made = evaluation(card, accuracy=100 - len(wrong), half_width=8, latency=latency)
    return replace(made, answers=ImageAnswers(file=kept))


def test_the_same_mistakes_and_a_few_more_are_told_apart_though_intervals_overlap(run: RunFolder) -> None:
    best, worse = answered(run, "best", range(10), 20), answered(run, "worse", range(18), 2)
    assert present(best.accuracy).overlaps(present(worse.accuracy))
    decision = decide_run(run, [best, worse], QUESTION).decision
    assert decision.pick == best
    assert decision.ties == ()
    other = answered(run, "other", range(40, 50), 2)
    decision = decide_run(run, [best, other], QUESTION).decision
    assert decision.pick == other
    assert decision.ties == (best,), "other mistakes of the same number"


def run_on_both(run: RunFolder, card: str, wrong: range, wrong_on_holdout: range) -> Evaluation:
    """An evaluation with answers to validation and hold-out, of as many images."""
    made = answered(run, card, wrong, 5.0)
    answers = np.array([int(name == "b") for name in LABELS])
    answers[list(wrong_on_holdout)] = 1 - answers[list(wrong_on_holdout)]
    kept = run.keep_answers(f"{card}-holdout", answers.tolist())
    share = 100 * (1 - len(wrong_on_holdout) / len(LABELS))
    figure = Quantity(share, "%", Provenance.MEASURED, max(0.0, share - 8), min(100.0, share + 8), 0.95, len(LABELS))
    accuracy = replace(present(made.accuracy), n=len(LABELS))
    return replace(made, accuracy=accuracy, holdout_accuracy=figure, holdout_answers=ImageAnswers(file=kept))


@with_cases
def test_only_refuted_picks_yield_to_better_ones(run: RunFolder, wrong: int, wrong_of_second: int, pick: str) -> None:
    split = run.read_json("split.json")
    run.write_json("split.json", {**split, "holdout": split["validation"]})
    first = run_on_both(run, "first", range(5), range(wrong))
    second = run_on_both(run, "second", range(9), range(wrong_of_second))
    decision = decide_run(run, [first, second], QUESTION).decision
    assert present(decision.pick).configuration.card == pick
    assert ("No comparison here counts first float32, which" in decision.reason) == (pick == "second")


def test_a_part_of_the_hold_out_is_enough_for_the_file_that_replaces_a_refuted_one(run: RunFolder) -> None:
    first, second = run_on_both(run, "first", range(5), range(40)), run_on_both(run, "second", range(9), range(10))
    partly = replace(second, holdout_answers=None, holdout_part=HoldoutPart(30, 100))
    assert present(decide_run(run, [first, partly], QUESTION).decision.pick).configuration.card == "second"


def test_answers_that_were_damaged_or_deleted_leave_the_intervals(run: RunFolder) -> None:
    first, second = answered(run, "first", range(10), 20), answered(run, "second", range(10), 2)
    (run.path / second.answers.file).write_bytes(b"\x93NUMPY")
    assert decide_run(run, [first, second], QUESTION).decision.pick == second
    (run.path / second.answers.file).unlink()
    assert decide_run(run, [first, second], QUESTION).decision.pick == second


def test_a_model_without_weights_is_no_pick_and_what_an_earlier_decision_noted_is_no_figure(run: RunFolder) -> None:
    untrained = replace(evaluation("no_weights", accuracy=95), card_facts=CardFacts(weights=""))
    shipped = evaluation("shipped", accuracy=70)
    assert decide_run(run, [untrained, shipped], QUESTION).decision.pick == shipped
    alone = decide_run(run, [untrained], QUESTION).decision
    assert alone.pick is None
    assert "no_weights ran without weights" in alone.reason
    assert "advisor catalog fetch" in alone.reason
    slow = {"phone": DeviceFigures(p90_ms=900)}
    stale = replace(evaluation("one"), required_figures=slow, device_figures=slow)
    (found,) = decide_run(run, [stale], QUESTION).evaluations
    assert found.required_figures is None
    assert found.device_figures == {}


@pytest.fixture
def images() -> Images:
    return images_of("ab", GROUPS, UNEVEN)


@pytest.fixture
def uneven(tmp_path: Path) -> RunFolder:
    folder = RunFolder.create(tmp_path, "x")
    rows = [{"class": "ab"[label]} for label in UNEVEN]
    folder.write_json("split.json", {"classes": ["a", "b"], "validation": rows, "holdout": rows})
    return folder


def judged(run: RunFolder, images: Images, card: str, answers: Sequence[int], question: Question) -> Evaluation:
    """Return the evaluation of a model with these answers, by the metric of the question."""
    own = run.path / f"{card}.npy"
    np.save(own, np.where(np.eye(2)[list(answers)] > 0, 0.9, 0.1))
    judge = question.of_task.judge(question)
    verdict, kept = judge.verdict(Scored(own, own), images, f"answers/{card}.npy")
    for file, values in kept.items():
        run.keep_answers(Path(file).stem, values)
    return replace(evaluation(card), **vars(verdict))


def decided(run: RunFolder, images: Images, **options: str) -> Decision:
    question = resolve({"data": "photos", "prefer": "accuracy", **options}).question
    rows = [judged(run, images, card, answers, question) for card, answers in (("common", COMMON), ("fair", FAIR))]
    return decide_run(run, rows, question).decision


@with_cases
def test_the_pick_is_the_best_by_the_metric_asked(uneven: RunFolder, images: Images, metric: str, pick: str) -> None:
    decision = decided(uneven, images, metric=metric, costs=COSTS)
    assert present(decision.pick).configuration.card == pick


def test_limits_and_ties_follow_the_metric(uneven: RunFolder, images: Images) -> None:
    limited = decided(uneven, images, min_accuracy="balanced-accuracy=70%")
    assert present(limited.pick).configuration.card == "fair"
    assert "the limit of 70.0 % balanced accuracy is met with" in limited.reason
    assert len(decided(uneven, images).ties) == 1
    assert decided(uneven, images, metric=Metric.BALANCED_ACCURACY).ties == ()


def test_a_drop_is_held_against_the_hold_out_where_float32_ran_there_too(uneven: RunFolder, images: Images) -> None:
    question = resolve({"data": "photos", "metric": Metric.BALANCED_ACCURACY, "max_drop": "1pt"}).question
    judge, rows = question.of_task.judge(question), []
    for form, answers in (("float32", FAIR), ("int8", COMMON)):
        configuration = evaluation("net", form).configuration
        own = replace(judged(uneven, images, f"net-{form}", answers, question), configuration=configuration)
        scored, kept = judge.held_out(own, uneven.path / f"net-{form}.npy", images, f"answers/holdout-{form}.npy")
        for file, values in kept.items():
            uneven.keep_answers(Path(file).stem, values)
        rows.append(scored)
    drop = Quantity(0.5, "points", Provenance.MEASURED, -1.0, 2.0, 0.95, EACH)
    rows[1] = replace(rows[1], drop=drop)
    assert question.limits.met_by(replace(rows[1], holdout_answers=None))
    decided = decide_run(uneven, rows, question)
    assert present(decided.evaluations[1].holdout_drop).value == pytest.approx(38)  # 88 % against 50 %
    assert [question.limits.met_by(each) for each in decided.evaluations] == [True, False]
    assert present(decided.decision.pick).configuration.compression == "float32"
    unlimited = resolve({"data": "photos", "metric": Metric.BALANCED_ACCURACY}).question
    assert decide_run(uneven, rows, unlimited).evaluations[1].holdout_drop is None


@pytest.fixture
def small(tmp_path: Path) -> RunFolder:
    folder = RunFolder.create(tmp_path, "x")
    rows = [{"class": name, "sha256": str(place)} for place, name in enumerate(FOUR)]
    folder.write_json("split.json", {"classes": ["a", "b"], "validation": rows})
    return folder


def _answered(run: RunFolder, card: str, answers: Sequence[float]) -> Evaluation:
    return replace(evaluation(card), answers=ImageAnswers(file=run.keep_answers(card, answers)))


@with_cases
def test_answers_of_the_compared_images_are_read_as_far_as_they_can_be_right(
    small: RunFolder, kept: list[Any], kind: str, known: list[float] | None
) -> None:
    found = _answered(small, "one", [0, 1, 0, 0])
    np.save(small.path / found.answers.file, np.array(kept, kind))
    assert correct_answers(small, found) == (None if known is None else tuple(known))
    assert correct_answers(small, evaluation("one")) is None
    assert read_compared_hashes(small) == ("0", "1", "2", "3")


def test_detectors_are_compared_image_by_image_by_their_shares(small: RunFolder) -> None:
    first = replace(_answered(small, "one", [1.0, 1.0, 0.5, 0.9]), accuracy=evaluation(accuracy=85).accuracy)
    second = replace(_answered(small, "two", [0.5, 0.5, 0.0, 0.4]), accuracy=evaluation(accuracy=35).accuracy)
    points, errors = Posterior([first, second], answers_on_images(small)).differences([second], [first])
    apart = Posterior([first, second]).differences([second], [first])
    assert points[0, 0] == pytest.approx(50.0) == apart[0][0, 0]
    assert errors[0, 0] != apart[1][0, 0]


@pytest.mark.parametrize("split", [{}, {"validation": "damaged"}, {"validation": [1, 2]}])
def test_a_damaged_split_names_no_images(tmp_path: Path, split: dict[str, object]) -> None:
    folder = RunFolder.create(tmp_path, "x")
    folder.write_json("split.json", split)
    assert read_compared_hashes(folder) == ()
    assert correct_answers(folder, _answered(folder, "one", [0, 1])) is None


def test_images_of_one_group_decide_together(small: RunFolder) -> None:
    rows = []
    for place in range(40):
        rows.append({"class": "a", "sha256": str(place), "group": place // 4})
    small.write_json("split.json", {"classes": ["a", "b"], "validation": rows})
    best = _answered(small, "best", [0] * 40)
    behind = _answered(small, "behind", [0] * 36 + [1] * 4)
    question = resolve({"data": "photos"}).question
    assert decide_run(small, [best, behind], question).decision.ties == (behind,)
    for row in rows:
        del row["group"]
    small.write_json("split.json", {"classes": ["a", "b"], "validation": rows})
    assert decide_run(small, [best, behind], question).decision.ties == ()


def test_the_answers_decide_about_ties_whatever_the_intervals(small: RunFolder) -> None:
    first, second = (_answered(small, name, [0, 1, 0, 0]) for name in ("one", "two"))
    same = replace(second, accuracy=replace(present(first.accuracy), low=79.9, high=80.1))
    answers = answers_on_images(small)
    assert Posterior([first, same], answers).tied(first, [same]) == [True]
    error, as_certain = (Posterior([first, each], answers).differences([first], [each])[1] for each in (same, second))
    assert error == as_certain > 0  # four equal answers prove no equal accuracy
