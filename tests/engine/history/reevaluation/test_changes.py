"""Cards that were added or changed since a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from advisor.engine.history.loaded_run import LoadedRun, load_run
from advisor.engine.history.reevaluation.changes import find_card_changes, find_changes
from advisor.engine.history.reevaluation.reevaluate import evaluate_cards, merge_evaluations
from advisor.engine.question import Request
from advisor.engine.targets.device_prediction import DevicePredictor
from advisor.store import RunFolder
from tests.builders import evaluation
from tests.run_folders import write_run

NAME, OTHER = "mobilenet_v1_0.25_224", "squeezenet_1.1_227"


def _run(tmp_path: Path, cards: object, **request: object) -> LoadedRun:
    asked = {"candidates": [NAME, OTHER], **request}
    return load_run(write_run(tmp_path, [evaluation(NAME)], request=asked, manifest={"cards": cards}).path)


def test_an_unchanged_catalogue_has_no_changes(tmp_path: Path) -> None:
    now = find_card_changes(_run(tmp_path, {})).hashes
    assert set(now) == {NAME, OTHER}
    assert find_card_changes(_run(tmp_path, now)).names == ()


def test_a_card_is_added_or_changed(tmp_path: Path) -> None:
    found = find_card_changes(_run(tmp_path, {NAME: "another"}))
    assert (found.added, found.changed, found.remark) == ((OTHER,), (NAME,), "")


def test_a_changed_card_that_was_not_evaluated_is_no_change(tmp_path: Path) -> None:
    found = find_card_changes(_run(tmp_path, {NAME: "another", OTHER: "another"}))
    assert found.names == (NAME,)


@pytest.mark.parametrize(
    ("cards", "request_", "words"),
    [(None, {}, "does not say which cards"), ({}, {"catalog": ["gone.yaml"]}, "the catalogue cannot be read")],
)
def test_changes_that_cannot_be_known_are_remarked(
    tmp_path: Path, cards: object, request_: dict[str, object], words: str
) -> None:
    found = find_card_changes(_run(tmp_path, cards, **request_))
    assert found.names == ()
    assert words in found.remark


def test_new_cards_are_evaluated_only_where_nothing_has_to_be_trained(tmp_path: Path) -> None:
    without = find_changes(_run(tmp_path, {NAME: "another"}), DevicePredictor)
    assert without.new_cards == (OTHER, NAME)
    assert without.remarks == ()
    with_images = find_changes(_run(tmp_path, {NAME: "another"}, data="photos"), DevicePredictor)
    assert with_images.new_cards == ()
    assert f"{OTHER}, {NAME} would have to be trained" in with_images.remarks[0]


def test_cards_are_searched_with_the_run_s_own_question(tmp_path: Path) -> None:
    run, asked = _run(tmp_path, {}, max_trials=3), list[Request]()

    def search(request: Request) -> RunFolder:
        asked.append(request)
        return run.folder

    assert evaluate_cards(run, [OTHER], tmp_path / "new", search) is run.folder
    (request,) = asked
    assert request.question.candidates == (OTHER,)
    assert request.question.limits == run.question.limits
    assert (request.execution.max_trials, request.folder) == (0, tmp_path / "new")


def test_of_two_evaluations_with_one_key_the_later_stays() -> None:
    first, second, later = evaluation("one"), evaluation("two"), evaluation("one", latency=1)
    assert merge_evaluations([first, second], [later]) == (later, second)
