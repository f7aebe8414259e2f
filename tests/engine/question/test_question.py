from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from advisor.core.errors import UsageError
from advisor.engine.question import Request, resolve
from advisor.isolation.cores import usable_cores


def test_units_become_base_units() -> None:
    limits = resolve({"budget": "0.05s", "size_budget": "5MB", "max_drop": "1.5pt", "data": "photos"}).limits
    assert (limits.latency_ms, limits.size_bytes, limits.max_drop_points) == (50.0, 5_000_000, 1.5)


def test_a_flag_weighs_more_than_the_file_and_the_file_more_than_the_default(tmp_path: Path) -> None:
    file = tmp_path / "request.yaml"
    file.write_text("budget: 40ms\nseed: 7\n")
    request = resolve({"budget": "30ms", "seed": None}, file)
    assert (request.budget, request.seed, request.task) == ("30ms", 7, "image-classification")


def test_a_resolved_request_is_a_request_file(tmp_path: Path) -> None:
    request = resolve({"budget": "50ms", "candidates": ["mobilenet_v2", "squeezenet"], "threads": ["1", "all"]})
    file = tmp_path / "request.yaml"
    file.write_text(yaml.safe_dump(request.to_dict()))
    assert resolve({}, file) == request


def test_dashes_in_a_file_are_as_good_as_underscores(tmp_path: Path) -> None:
    file = tmp_path / "request.yaml"
    file.write_text("size-budget: 5MB\n")
    assert resolve({}, file).size_budget == "5MB"


def test_an_unknown_key_names_the_nearest() -> None:
    with pytest.raises(UsageError, match=r"unknown option 'buget' \(did you mean 'budget'\?\)"):
        resolve({"buget": "50ms"})


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"budget": "50"}, "'50' has no unit"),
        ({"budget": "-1ms"}, "not above zero"),
        ({"budget": "0ms"}, "not above zero"),
        ({"task": "image-clasification"}, "did you mean 'image-classification'"),
        ({"sampler": "tpee"}, "did you mean 'tpe'"),
        ({"prefer": "speed"}, "--prefer: unknown preference 'speed'"),
        ({"licence": "<b>"}, "--licence: '<b>' is no licence"),
        ({"confidence": "40%"}, "--confidence: '40%' is not between 50% and 99%"),
        ({"confidence": "0.9"}, "--confidence: '0.9' has no unit"),
        ({"seed": "x"}, "'x' is not a whole number"),
        ({"seed": -1}, "below zero"),
        ({"threads": ["0"]}, "not between 1 and 64"),
        ({"offline": "perhaps"}, "neither true nor false"),
        ({"budget": ["1ms", "2ms"]}, "is not one value"),
        ({"max_drop": "1pt"}, "--data is not given"),
        ({"time_limit": "10"}, "'10' has no unit"),
    ],
)
def test_a_wrong_value_is_named(options: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError) as caught:
        resolve(options)
    assert words in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize("text", ["- a list", "{", "!!python/object/apply:os.system ['true']", "\x00"])
def test_a_file_that_is_no_request_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "request.yaml"
    file.write_text(text)
    with pytest.raises(UsageError, match="--request"):
        resolve({}, file)


def test_all_threads_are_the_cores_of_this_process() -> None:
    assert Request().thread_counts == tuple(sorted({1, usable_cores()}))


def test_fine_tuning_starts_from_a_head() -> None:
    asked = resolve({"data": "photos", "training": ["finetune_all", "head"]})
    assert asked.trainings == ("head", "finetune_all")
    assert resolve({"data": "photos"}).trainings == ("head",)
    assert resolve({}).trainings == ("none",)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"training": ["finetune_to"], "data": "photos"}, "finetune_top"),
        ({"training": ["head"]}, "--data is not given"),
        ({"training": ["none"], "data": "photos"}, "ImageNet's classes"),
        ({"tune_training": 4, "data": "photos"}, "nothing is fine-tuned"),
        ({"tune_training": -1, "data": "photos", "training": ["finetune_top"]}, "below zero"),
        ({"objective": "robust"}, "robust-accuracy"),
        ({"objective": "robust-accuracy"}, "--data is not given"),
    ],
)
def test_trainings_and_objectives_that_cannot_be_are_refused(options: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError) as refused:
        resolve(options)
    assert words in refused.value.message + str(refused.value.hint)
