"""Options, requests and resumed runs that are refused, and what to do; wanted shares as a user writes them."""

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from advisor.core import Guarantees, Shares, UsageError
from advisor.engine import resolve, resolve_resumed
from advisor.engine._question import FREE_ON_RESUME, QUESTION_OPTIONS, parse_guarantees, require_classes
from advisor.engine._space.question_images import read_images
from tests.makers.searches import write_photos

TABLE = "class,cat,dog\ncat,0,1\ndog,5,0\n"
PHOTOS, BOXES = {"data": "photos"}, {"task": "object-detection", "data": "boxes"}

REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"budget": "50"}, "'50' has no unit"),
    ({"budget": "-1ms"}, "not above zero"),
    ({"task": "image-clasification"}, "did you mean 'image-classification'"),
    ({"sampler": "tpee"}, "did you mean 'tpe'"),
    ({"ship_on": "all-but-the-holdout"}, "--ship-on: unknown 'all-but-the-holdout' (did you mean 'all-but-holdout'?)"),
    ({"ship_on": "all"}, "--ship-on all learns from images, and --data is not given"),
    ({"ship_on": "all", **BOXES}, "--ship-on all is not for --task object-detection"),
    ({"prefer": "speed"}, "--prefer: unknown preference 'speed'"),
    ({"licence": "<b>"}, "--licence: '<b>' is no"),
    ({"confidence": "40%"}, "--confidence: '40%' is not between 50% and 99%"),
    ({"training": ["finetune_to"], "data": "photos"}, "did you mean 'finetune_top'"),
    ({"effort": "quik"}, "--effort: unknown 'quik' (did you mean 'quick'?)"),
    ({"executor": "ray://"}, "--executor: unknown 'ray://'"),
    ({"max_drop": "1pt"}, "--max-drop: the drop is measured on images, and --data is not given"),
    ({"min_precision": "95%"}, "--min-precision: the threshold is chosen on images, and --data is not given"),
    ({"min_coverage": "80%"}, "--min-coverage: the threshold is chosen on images, and --data is not given"),
    ({"min_precision": ["trash=90%", "trash=95%"], **PHOTOS}, "--min-precision: a share for 'trash' is given twice"),
    ({"min_precision": ["90%,95%"], **PHOTOS}, "--min-precision: a share for all classes is given twice"),
    ({"min_precision": "trash=101%", **PHOTOS}, "--min-precision: '101%' is above 100%"),
    ({"min_precision": "trash=100%", **PHOTOS}, "--min-precision: '100%' is not between 50% and 99.5%"),
    ({"min_precision": "trash", **PHOTOS}, "--min-precision: 'trash' is not a number with a unit"),
    ({"min_coverage": "100%", **PHOTOS}, "not between 1% and 99.5%"),
    ({**BOXES, "min_coverage": "80%"}, "--min-coverage: models for --task object-detection answer every image"),
    ({**BOXES, "min_precision": "cat=95%"}, "--min-precision: 'cat' cannot have a share of its own"),
    ({**BOXES, "min_recall": "90%,cat=95%"}, "--min-recall: 'cat' cannot have a share of its own"),
    ({**BOXES, "min_precision": "95%", "min_recall": "90%"}, "one threshold with --task object-detection"),
    (
        {"task": "object-counting", "data": "boxes", "min_recall": "cat=95%"},
        "--min-recall: models for --task object-counting have no probability of a class",
    ),
    ({"training": ["head"]}, "--training: 'head' learns from images, and --data is not given"),
    ({"objective": "robust-accuracy"}, "--objective: robust accuracy is measured on images"),
    ({"training": ["none"], "data": "photos"}, "--training none cannot be combined with --data"),
    (
        {"tune_training": 4, "data": "photos", "training": ["head"]},
        "--tune-training: 4 trials of fine-tuning, and nothing is fine-tuned",
    ),
    ({"task": "object-detection"}, "--task object-detection needs --data: no card has a published mAP@0.5"),
    (
        {"task": "anomaly", **PHOTOS, "objective": "robust-accuracy"},
        "--objective: robust accuracy is not for --task anomaly",
    ),
    (
        {**BOXES, "training": ["finetune_top"], "tune_training": 4},
        "--tune-training: fine-tuning for --task object-detection has fixed hyperparameters",
    ),
    ({"metric": "map-small", **PHOTOS}, "models for --task image-classification are judged by top-1, or by top1, bal"),
    ({"input_size": 320, **PHOTOS}, "--input-size: each network for --task image-classification has the input of its"),
    ({"input_size": 330, **BOXES}, "--input-size: 330 pixels are no multiple of 32"),
    ({"stop_below": "1%", "sampler": "tpe"}, "--stop-below needs --sampler advisor, not 'tpe'"),
    ({"shared_folder": "."}, "--shared-folder: the local executor uses no other machines"),
    ({"executor": "ray", "shared_folder": "no/such"}, "--shared-folder: 'no/such' is not a folder"),
    ({"metric": "ballanced-accuracy", **PHOTOS}, "--metric: unknown 'ballanced-accuracy' (did you mean 'balanced-"),
    ({"metric": "macro-f1"}, "--metric: this metric is measured on images, and --data is not given"),
    ({"metric": "cost-saved", **PHOTOS}, "--metric: cost-saved needs the cost of each answer"),
    ({"metric": "top1", **BOXES}, "are judged by mAP@0.5, or by map, map-small"),
    ({"metric": "macro-f1", "task": "object-counting", "data": "boxes"}, "are judged by F1, or by no other metric"),
    ({"metric": "macro-f1", "objective": "robust-accuracy", **PHOTOS}, "--objective robust-accuracy is top-1"),
    ({"costs": TABLE, "objective": "robust-accuracy", **PHOTOS}, "and --costs asks for cost-saved"),
    ({"costs": TABLE}, "--costs: this metric is measured on images, and --data is not given"),
    ({"costs": TABLE, **BOXES}, "--costs: models for --task object-detection"),
    ({"costs": "no-such.csv", **PHOTOS}, "--costs: no-such.csv: cannot be read"),
    ({"costs": TABLE.replace("5", "-5"), **PHOTOS}, "--costs: line 3 of the table: the answer 'cat'"),
    ({"min_accuracy": "macrof1=80%", **PHOTOS}, "--min-accuracy: unknown 'macrof1' (did you mean 'macro-f1'?)"),
    ({"min_accuracy": "80%,top1=85%", **PHOTOS}, "--min-accuracy: '80%,top1=85%' has two limits of top1"),
    ({"min_accuracy": "macro-f1=", **PHOTOS}, "--min-accuracy: '' is not a number with a unit"),
    ({"min_accuracy": "cost-saved=20%", **PHOTOS}, "--min-accuracy: cost-saved needs the cost of each answer"),
    ({"min_accuracy": "macro-f1=80%"}, "--min-accuracy macro-f1=...: this metric is measured on images"),
    (
        {"min_accuracy": "macro-f1=80%", **BOXES},
        "--min-accuracy macro-f1=...: models for --task object-detection are judged by mAP@0.5",
    ),
]


@pytest.mark.parametrize(("options", "words"), REFUSED)
def test_what_cannot_be_asked_is_refused_with_what_to_do(options: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError) as refused:
        resolve(options)
    assert words in refused.value.message
    assert refused.value.hint


def test_a_training_that_a_task_does_not_have_is_refused_with_those_that_it_has() -> None:
    with pytest.raises(UsageError, match="'finetune_cached' is not for --task object-detection") as refused:
        resolve({**BOXES, "training": ["head", "finetune_cached"]})
    assert refused.value.hint == "one of: head, finetune_top, finetune_all; or leave it out"


@pytest.mark.parametrize(
    "options",
    [
        {"training": ["none"]},
        {"tune_training": 4, "data": "photos", "training": ["finetune_top"]},
        {"tune_training": 4, "data": "photos"},
        {**BOXES, "training": ["head", "finetune_top", "finetune_all"]},
        {**BOXES, "max_drop": "1pt"},
        {"stop_below": "never", "sampler": "tpe"},
        {"workers": 1000},
        {"executor": "ray", "shared_folder": "."},
    ],
)
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
    with pytest.raises(UsageError, match="unknown class 'astronut'") as refused:
        read_images(question, lambda _: None)
    assert refused.value.message.startswith(f"--{option.replace('_', '-')}: ")
    assert "'astronaut'" in refused.value.message
    assert refused.value.hint.startswith("classes: ")
    require_classes(Guarantees(Shares(0.9, {"a": 0.9}), Shares(None, {"b": 0.9})), ("a", "b"))


STORED = {"schema_version": 1, **resolve({"budget": "50ms", "candidates": ["squeezenet"], "out": "own"}).written}


def test_a_run_goes_on_as_it_was_in_its_folder() -> None:
    request = resolve_resumed(STORED, {})
    assert request.written == {key: value for key, value in STORED.items() if key != "schema_version"}
    assert resolve_resumed(STORED, {"budget": "50ms", "candidates": ["squeezenet"]}) == request
    assert resolve_resumed(STORED, {"out": "elsewhere"}).folder == Path("own")
    stored = {**STORED, "storage": "postgresql://me@host/db"}
    again = resolve_resumed(stored, {"storage": "postgresql://me:secret@host/db"})
    assert again.execution.storage == "postgresql://me:secret@host/db"


@pytest.mark.parametrize(
    ("option", "value", "attribute", "parsed"),
    [
        ("sampler", "tpe", "sampler", "tpe"),
        ("time_limit", "10min", "time_limit_s", 600.0),
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
        ("compressions", ["int8", "float16"], "begun with no --compressions, not int8, float16"),
        ("seed", 1, "begun with --seed 0, not 1"),
        ("storage", "sqlite", "begun with --storage journal, not sqlite"),
    ],
)
def test_another_question_is_refused(option: str, value: Any, words: str) -> None:
    with pytest.raises(UsageError, match=re.escape(words)) as refused:
        resolve_resumed(STORED, {option: value})
    assert "start a new run" in refused.value.hint


def test_every_option_is_either_the_question_s_or_free() -> None:
    assert set(FREE_ON_RESUME) | set(QUESTION_OPTIONS) == set(STORED) - {"schema_version"}
    assert not set(FREE_ON_RESUME) & set(QUESTION_OPTIONS)


def test_a_file_counts_less_than_an_option_and_an_extension_is_the_new_time_limit(tmp_path: Path) -> None:
    file = tmp_path / "more.yaml"
    file.write_text("max_trials: 5\nworkers: 2\n")
    execution = resolve_resumed(STORED, {"workers": 3}, file).execution
    assert (execution.max_trials, execution.workers) == (5, 3)
    stored = {**STORED, "time_limit": "10min"}
    assert resolve_resumed(stored, {}, extend="5min").execution.time_limit_s == 300.0
    with pytest.raises(UsageError, match="--extend: '5' has no unit"):
        resolve_resumed(stored, {}, extend="5")


def test_the_cluster_of_a_run_folder_is_named_again() -> None:
    stored = {**STORED, "executor": "ray://cluster:10001"}
    with pytest.raises(UsageError, match="the run worked on the cluster 'ray://cluster:10001'") as caught:
        resolve_resumed(stored, {})
    assert "--executor local" in (caught.value.hint or "")
    assert resolve_resumed(stored, {"executor": "ray://cluster:10001"}).execution.cluster == "cluster:10001"
    assert resolve_resumed({**STORED, "executor": "ray"}, {}).execution.executor == "ray"
