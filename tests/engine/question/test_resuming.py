"""A resumed run keeps its question; how it is answered may change."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from advisor.core.errors import UsageError
from advisor.engine.question import FREE_ON_RESUME, QUESTION_OPTIONS, resolve, resolve_resumed

STORED = {"schema_version": 1, **resolve({"budget": "50ms", "candidates": ["squeezenet"], "out": "own"}).written}


def test_without_options_the_run_goes_on_as_it_was() -> None:
    request = resolve_resumed(STORED, {})
    assert request.written == {key: value for key, value in STORED.items() if key != "schema_version"}


@pytest.mark.parametrize(
    ("option", "value", "attribute", "parsed"),
    [
        ("sampler", "tpe", "sampler", "tpe"),
        ("time_limit", "10min", "time_limit_s", 600.0),
        ("max_trials", 5, "max_trials", 5),
        ("offline", True, "offline", True),
        ("executor", "ray", "executor", "ray"),
        ("workers", 2, "workers", 2),
    ],
)
def test_the_execution_may_be_another(option: str, value: Any, attribute: str, parsed: object) -> None:
    request = resolve_resumed(STORED, {option: value})
    assert getattr(request.execution, attribute) == parsed
    assert request.question == resolve_resumed(STORED, {}).question


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("budget", "40ms", "begun with --budget 50ms, not 40ms"),
        ("size_budget", "5MB", "begun with no --size-budget, not 5MB"),
        ("candidates", ["mobilenet_v2"], "begun with --candidates squeezenet, not mobilenet_v2"),
        ("compressions", ["int8", "float16"], "begun with no --compressions, not int8, float16"),
        ("data", "photos", "begun with no --data, not photos"),
        ("seed", 1, "begun with --seed 0, not 1"),
    ],
)
def test_another_question_is_refused(option: str, value: Any, words: str) -> None:
    with pytest.raises(UsageError) as refused:
        resolve_resumed(STORED, {option: value})
    assert words in refused.value.message
    assert "start a new run" in refused.value.hint


def test_every_option_is_either_the_question_s_or_free() -> None:
    assert set(FREE_ON_RESUME) | set(QUESTION_OPTIONS) == set(STORED) - {"schema_version"}
    assert not set(FREE_ON_RESUME) & set(QUESTION_OPTIONS)


def test_the_run_s_own_value_may_be_given_again() -> None:
    assert resolve_resumed(STORED, {"budget": "50ms", "candidates": ["squeezenet"]}) == resolve_resumed(STORED, {})


def test_the_run_stays_in_its_folder() -> None:
    assert resolve_resumed(STORED, {"out": "elsewhere"}).folder == Path("own")


def test_another_storage_is_refused() -> None:
    with pytest.raises(UsageError, match="begun with --storage journal, not sqlite"):
        resolve_resumed(STORED, {"storage": "sqlite"})


def test_a_password_of_the_same_database_may_be_given() -> None:
    stored = {**STORED, "storage": "postgresql://me@host/db"}
    request = resolve_resumed(stored, {"storage": "postgresql://me:secret@host/db"})
    assert request.execution.storage == "postgresql://me:secret@host/db"


def test_a_file_counts_less_than_an_option(tmp_path: Path) -> None:
    file = tmp_path / "more.yaml"
    file.write_text("max_trials: 5\nworkers: 2\n")
    execution = resolve_resumed(STORED, {"workers": 3}, file).execution
    assert (execution.max_trials, execution.workers) == (5, 3)


def test_an_extension_is_the_new_time_limit() -> None:
    stored = {**STORED, "time_limit": "10min"}
    assert resolve_resumed(stored, {}, extend="5min").execution.time_limit_s == 300.0


def test_an_extension_without_a_unit_is_refused() -> None:
    with pytest.raises(UsageError, match="--extend: '5' has no unit"):
        resolve_resumed(STORED, {}, extend="5")


def test_the_cluster_of_a_run_folder_is_named_again() -> None:
    stored = {**STORED, "executor": "ray://cluster:10001"}
    with pytest.raises(UsageError, match="the run worked on the cluster 'ray://cluster:10001'") as caught:
        resolve_resumed(stored, {})
    assert "--executor local" in (caught.value.hint or "")
    assert resolve_resumed(stored, {"executor": "ray://cluster:10001"}).execution.cluster == "cluster:10001"
    assert resolve_resumed({**STORED, "executor": "ray"}, {}).execution.executor == "ray"
