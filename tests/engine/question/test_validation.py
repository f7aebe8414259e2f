"""Options that contradict each other are refused."""

from __future__ import annotations

from typing import Any

import pytest

from advisor.core.errors import UsageError
from advisor.engine.question import resolve


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"max_drop": "1pt"}, "--max-drop: the drop is measured on images, and --data is not given"),
        ({"min_precision": "95%"}, "--min-precision: the threshold is chosen on images, and --data is not given"),
        ({"min_recall": "trash=90%"}, "--min-recall: the threshold is chosen on images, and --data is not given"),
        ({"min_coverage": "80%"}, "--min-coverage: the threshold is chosen on images, and --data is not given"),
        ({"min_precision": "101%", "data": "photos"}, "--min-precision: '101%' is above 100%"),
        ({"min_precision": "100%", "data": "photos"}, "--min-precision: '100%' is not between 50% and 99.5%"),
        (
            {"task": "object-detection", "data": "boxes", "min_precision": "95%"},
            "--min-precision: models for --task object-detection have no probability of a class",
        ),
        (
            {"task": "object-counting", "data": "boxes", "min_recall": "cat=95%"},
            "--min-recall: models for --task object-counting have no probability of a class",
        ),
        ({"training": ["head"]}, "--training: 'head' learns from images, and --data is not given"),
        (
            {"objective": "robust-accuracy"},
            "--objective: robust accuracy is measured on images",
        ),
        ({"training": ["none"], "data": "photos"}, "--training none cannot be combined with --data"),
        (
            {"tune_training": 4, "data": "photos", "training": ["head"]},
            "--tune-training: 4 trials of fine-tuning, and nothing is fine-tuned",
        ),
        ({"task": "object-detection"}, "--task object-detection needs --data: no card has a published mAP@0.5"),
        (
            {"task": "object-detection", "data": "boxes", "training": ["finetune_cached"]},
            "--training: 'finetune_cached' is not for --task object-detection",
        ),
        (
            {"task": "object-detection", "data": "boxes", "training": ["none"]},
            "--training: 'none' is not for --task object-detection",
        ),
        (
            {"task": "object-detection", "data": "boxes", "objective": "robust-accuracy"},
            "--objective: robust accuracy is not for --task object-detection",
        ),
        (
            {"task": "object-detection", "data": "boxes", "training": ["finetune_top"], "tune_training": 4},
            "--tune-training: fine-tuning for --task object-detection has fixed hyperparameters",
        ),
        ({"stop_below": "1%", "sampler": "tpe"}, "--stop-below needs --sampler advisor, not 'tpe'"),
        ({"workers": 1001}, "--workers: 1001 is more than 1000"),
        ({"shared_folder": "."}, "--shared-folder: the local executor uses no other machines"),
        ({"executor": "ray", "shared_folder": "no/such"}, "--shared-folder: 'no/such' is not a folder"),
    ],
)
def test_a_contradiction_is_refused_with_what_to_do(options: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError) as refused:
        resolve(options)
    assert words in refused.value.message
    assert refused.value.hint


@pytest.mark.parametrize(
    "options",
    [
        {"training": ["none"]},
        {"tune_training": 4, "data": "photos", "training": ["finetune_top"]},
        {"tune_training": 4, "data": "photos"},
        {"task": "object-detection", "data": "boxes", "training": ["head", "finetune_top", "finetune_all"]},
        {"task": "object-detection", "data": "boxes", "max_drop": "1pt"},
        {"stop_below": "never", "sampler": "tpe"},
        {"workers": 1000},
        {"executor": "ray", "shared_folder": "."},
    ],
)
def test_options_that_go_together_are_accepted(options: dict[str, Any]) -> None:
    assert resolve(options)


def test_a_training_that_a_task_does_not_have_is_refused_with_those_that_it_has() -> None:
    with pytest.raises(UsageError) as refused:
        resolve({"task": "object-detection", "data": "boxes", "training": ["head", "finetune_cached"]})
    assert refused.value.hint == "one of: head, finetune_top, finetune_all; or leave it out"
