"""Options, requests and resumed runs that are refused, and what to do; wanted shares as a user writes them."""

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from advisor.core import Guarantees, Shares, UsageError
from advisor.engine import resolve
from advisor.engine._question import (
    FREE_ON_RESUME,
    QUESTION_OPTIONS,
    parse_guarantees,
    require_classes,
    resolve_resumed,
)
from advisor.engine._space.question_images import read_images
from tests.builders import must_fail, write_file
from tests.makers.searches import write_photos
from tests.tables import with_cases

PHOTOS, BOXES = {"data": "photos"}, {"task": "object-detection", "data": "boxes"}
STORED = {"schema_version": 1, **resolve({"budget": "50ms", "candidates": ["squeezenet"], "out": "own"}).written}


@with_cases
def test_what_cannot_be_asked_is_refused_with_what_to_do(options: dict[str, Any], words: str) -> None:
    refused = must_fail(UsageError, "", resolve, options)
    assert words in refused.message
    assert refused.hint


def test_a_training_that_a_task_does_not_have_is_refused_with_those_that_it_has() -> None:
    with pytest.raises(UsageError, match="'finetune_cached' is not for --task object-detection") as refused:
        resolve({**BOXES, "training": ["head", "finetune_cached"]})
    assert refused.value.hint == "one of: head, finetune_top, finetune_all; or leave it out"


@with_cases
def test_options_that_go_together_are_accepted(options: dict[str, Any]) -> None:
    assert resolve(options)


def precision(*texts: str) -> Shares:
    return parse_guarantees(texts, (), "").precision


def test_a_share_is_for_all_classes_or_before_that_for_one_by_name() -> None:
    assert precision("95%") == Shares(0.95)
    assert precision("95%,trash=90%") == precision("trash=90%", "95%") == Shares(0.95, {"trash": 0.9})
    assert precision("trash = 90 %, glass=80%") == Shares(None, {"trash": 0.9, "glass": 0.8})
    assert precision() == precision("") == Shares()
    shares = Shares(0.9, {"trash": 0.95})
    assert (shares.of("trash"), shares.of("glass"), Shares().of("glass")) == (0.95, 0.9, None)
    assert (bool(shares), bool(Shares())) == (True, False)
    assert Guarantees(recall=shares, coverage=0.8).options == ("--min-recall", "--min-coverage")


@pytest.mark.parametrize("name", ["a=b", "salt, pepper", "two words", "50% wool", "=", ",", "Größe"])
def test_a_class_may_hold_the_characters_that_divide(name: str) -> None:
    assert precision(f"95%,{name}=90%", "other=80%") == Shares(0.95, {name: 0.9, "other": 0.8})


@given(st.text(st.characters(exclude_characters="%", exclude_categories=["Z", "C"]), min_size=1))
def test_any_name_without_a_percent_sign_is_read(name: str) -> None:
    assert precision(f"{name}=90%").by_class == {name: 0.9}


@pytest.mark.parametrize("option", ["min_precision", "min_recall"])
def test_a_class_that_no_image_has_is_refused_with_the_nearest(option: str, tmp_path: Path) -> None:
    write_photos(tmp_path)
    question = resolve({"data": str(tmp_path), option: ["astronut=90%"]}).question
    refused = must_fail(UsageError, "unknown class 'astronut'", read_images, question, lambda _: None)
    assert refused.message.startswith(f"--{option.replace('_', '-')}: ")
    assert "'astronaut'" in refused.message
    assert refused.hint.startswith("classes: ")
    require_classes(Guarantees(Shares(0.9, {"a": 0.9}), Shares(None, {"b": 0.9})), ("a", "b"))


def test_a_run_goes_on_as_it_was_in_its_folder() -> None:
    request = resolve_resumed(STORED, {})
    assert request.written == {key: value for key, value in STORED.items() if key != "schema_version"}
    again = resolve_resumed(STORED, {"budget": "0.05s", "candidates": ["squeezenet"]})
    assert again.question == request.question
    assert resolve_resumed(STORED, {"out": "elsewhere"}).folder == Path("own")
    stored = {**STORED, "storage": "postgresql://me@host/db"}
    again = resolve_resumed(stored, {"storage": "postgresql://me:secret@host/db"})
    assert again.execution.storage == "postgresql://me:secret@host/db"


@with_cases
def test_the_execution_may_be_another(option: str, value: Any, attribute: str, parsed: object) -> None:
    request = resolve_resumed(STORED, {option: value})
    assert getattr(request.execution, attribute) == parsed
    assert request.question == resolve_resumed(STORED, {}).question


@with_cases
def test_another_question_is_refused(option: str, value: Any, words: str) -> None:
    refused = must_fail(UsageError, re.escape(words), resolve_resumed, STORED, {option: value})
    assert "start a new run" in refused.hint


def test_every_option_is_either_the_question_s_or_free() -> None:
    assert set(FREE_ON_RESUME) | set(QUESTION_OPTIONS) == set(STORED) - {"schema_version"}
    assert not set(FREE_ON_RESUME) & set(QUESTION_OPTIONS)


def test_a_file_counts_less_than_an_option_and_an_extension_is_the_new_time_limit(tmp_path: Path) -> None:
    file = write_file(tmp_path / "more.yaml", "max_trials: 5\nworkers: 2\n")
    execution = resolve_resumed(STORED, {"workers": 3}, file).execution
    assert (execution.max_trials, execution.workers) == (5, 3)
    stored = {**STORED, "time_limit": "10min"}
    assert resolve_resumed(stored, {}, extend="5min").execution.time_limit_s == 300.0
    must_fail(UsageError, "--extend: '5' has no unit", resolve_resumed, stored, {}, extend="5")


def test_the_cluster_of_a_run_folder_is_named_again() -> None:
    stored = {**STORED, "executor": "ray://cluster:10001"}
    caught = must_fail(UsageError, "the run worked on the cluster 'ray://cluster:10001'", resolve_resumed, stored, {})
    assert "--executor local" in (caught.hint or "")
    assert resolve_resumed(stored, {"executor": "ray://cluster:10001"}).execution.cluster == "cluster:10001"
    assert resolve_resumed({**STORED, "executor": "ray"}, {}).execution.executor == "ray"
