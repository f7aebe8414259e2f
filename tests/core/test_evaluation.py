"""Addresses of ``--storage``."""

import json
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

import pytest

from advisor.compression.recipes import RECIPES
from advisor.core.errors import UsageError
from advisor.core.evaluation import Evaluation, Status, evaluation_from_json, evaluation_to_json
from advisor.core.evaluation_facts import CardFacts, FileFacts, ImageAnswers
from advisor.core.forms import FORMS, Form, form_of
from advisor.core.names import check_storage, without_password
from advisor.core.quantity import SHARES, Provenance, Quantity
from tests.builders import configuration, evaluation

QUANTITY = {"value": 64.1, "unit": "%", "provenance": "measured", "n": 104, "source": "hold-out"}
SHARE = {"value": 0.8, "low": 0.7, "high": 0.9}

FIGURES = {
    "key": "net/head/int8@phone:cpux1",
    "runtime": "tflite",
    "accelerator": "cpu",
    "threads": 1,
    "reason": "",
    "latency_ms": 2.0,
    "low_ms": 1.5,
    "high_ms": None,
    "provenance": "predicted",
    "p90_ms": 2.5,
    "budget_probability": 0.97,
}

BOXES: dict[str, Any] = {
    "threshold": 0.42,
    "coco": 0.5,
    "by_class": {
        "glass": {"true": 4, "found": 5, "precision": 0.6, "recall": 0.75, "count_error": 0.25},
        "paper": {"true": 0, "found": 0, "precision": None, "recall": None, "count_error": None},
    },
}
IMAGE: dict[str, Any] = {
    "path": "a/1.jpg",
    "sha256": "0f",
    "width": 640,
    "height": 480,
    "f1": 0.5,
    "true": [[0, 0.1, 0.2, 0.3, 0.4, 1.0, False]],
    "found": [[1, 0.1, 0.2, 0.3, 0.4, 0.7, True]],
}

DETAILS: dict[str, Any] = {
    "threads": 2,
    "effort": "search",
    "load_ms": 4.3,
    "first_ms": 0.6,
    "verdict": "stable",
    "verdict_reason": "block medians vary by 0.3%",
    "measured_at": "2026-11-20T19:20:12+00:00",
    "wall_ms": {"p50": 0.55, "p90": 0.58, "min": 0.54, "cv": 0.07},
    "cpu_ms": None,
    "per_class_recall": {"glass": 0.5, "paper": None},
    "confusion": [[1, 1], [0, 0]],
    "answers": "answers/net-head-int8.npy",
    "agreement": 0.98,
    "agreement_images": 84,
    "answers_kept": 0.99,
    "arena_bytes": 1806336,
    "download_bytes": 221064,
    "download_zstd_bytes": 219395,
    "compression": {"kept_float": ["conv_1"]},
    "params": 470329,
    "macs": 41030528,
    "licence": "Apache-2.0",
    "input_size": 224,
    "preprocessing": {"mean": [127.5, 127.5, 127.5], "std": [127.5, 127.5, 127.5]},
    "weights": "cache",
    "graph": {
        "macs": 40778688,
        "parameters": 214782,
        "input_size": 224,
        "layers": 42,
        "form": "int8",
        "arena_bytes": 1806336,
        "micro_arena_bytes": 1830000,
        "operators": {"CONV_2D": 14},
        "traits": {
            "depthwise": 1.0,
            "grouped": 0.0,
            "attention": 0.0,
            "smooth": 0.0,
            "squeeze_excite": 0.4,
            "branches": 0.0,
        },
        "weight_bytes": 223096,
        "held_bytes": 1696128,
    },
    "head": {
        "kind": "all_levels",
        "regularization": 0.01,
        "at_grid_end": False,
        "cv_accuracy": 0.86,
        "cv_images": 1600,
    },
    "expectation": {
        "kept": 0.8,
        "kept_low": 0.7,
        "kept_high": 0.9,
        "sd": 0.05,
        "silhouette": 0.25,
        "clusters": 180,
        "images": 1600,
    },
    "boxes": BOXES,
    "metrics": {
        "macro-f1": {"value": 61.5, "unit": "%", "provenance": "measured", "low": 58.0, "high": 65.0, "n": 505}
    },
    "holdout": {
        "per_class_recall": {"glass": 1.0},
        "confusion": [[1]],
        "answers": "answers/holdout-net.npy",
        "boxes": {**BOXES, "worst": [IMAGE]},
    },
    "holdout_drop": {"value": 0.4, "unit": "points", "provenance": "measured", "low": -0.2, "high": 1.0, "n": 505},
    "robustness": [["low light", 1.0, 58.6], ["JPEG", 2.0, 50.9]],
    "plain_accuracy": QUANTITY,
    "robust_accuracy": QUANTITY,
    "latency_quantiles": [float(place + 1) for place in range(len(SHARES))],
    "budget_probability": 0.97,
    "connection": "adb emulator-5554",
    "delegated": [60, 66],
    "operators": [{"kind": "SOFTMAX", "ms": 0.1}],
    "onnx_export": {"inputs": 32},
    "page_bytes": 13_000_000,
    "targets": {"phone": FIGURES},
    "required_devices": {"phone": FIGURES},
    "unknown": {
        "auroc": SHARE,
        "float_auroc": SHARE,
        "accepted": 0.7,
        "by_class": {"glass": {"auroc": SHARE, "accepted": 0.8, "images": 81}},
        "label": "unknown",
        "file": "artifacts/net-head-int8-unknown.tflite",
        "size_bytes": 330000,
        "kept": SHARE,
        "precision": SHARE,
        "others": {"found": SHARE, "auroc": SHARE, "images": 120},
    },
}
"""Every entry that a run folder may have."""


def line(details: Mapping[str, Any]) -> dict[str, Any]:
    return {**evaluation_to_json(evaluation()), "details": details}


def test_an_evaluation_survives_json() -> None:
    original = evaluation(accuracy=81.25)
    assert evaluation_from_json(json.loads(json.dumps(evaluation_to_json(original)))) == original


def test_a_failed_evaluation_survives_json_with_its_reason() -> None:
    failed = Evaluation(configuration(), Status.FAILED, reason="crashed with SIGSEGV", stage="convert")
    assert evaluation_from_json(evaluation_to_json(failed)) == failed


def test_every_detail_survives_json() -> None:
    read = evaluation_from_json(json.loads(json.dumps(line(DETAILS))))
    assert json.loads(json.dumps(evaluation_to_json(read)))["details"] == DETAILS


def test_a_run_of_an_older_version_has_older_names() -> None:
    older = json.dumps(DETAILS)
    for old, new in (
        ("agreement_pictures", "agreement_images"), ("reached_over", "connection"), ("held_ms", "p90_ms"),
        ("elsewhere", "required_devices"), ("twin", "onnx_export"),
    ):  # fmt: skip
        assert f'"{new}"' in older
        older = older.replace(f'"{new}"', f'"{old}"')
    read, now = (evaluation_from_json(line(details)) for details in (json.loads(older), DETAILS))
    assert evaluation_to_json(read)["details"] == evaluation_to_json(now)["details"]


def test_the_details_of_the_example_set_every_field() -> None:
    read = evaluation_from_json(line(DETAILS))
    empty = evaluation()
    for field in fields(Evaluation):
        if not field.compare:
            assert getattr(read, field.name) != getattr(empty, field.name), field.name


def test_an_evaluation_without_details_writes_none() -> None:
    assert evaluation_to_json(evaluation())["details"] == {}


def test_an_unknown_licence_is_not_an_empty_one() -> None:
    stated = replace(evaluation(), card_facts=CardFacts(licence=""))
    assert evaluation_to_json(stated)["details"] == {"licence": ""}


@pytest.mark.parametrize("name", DETAILS)
@pytest.mark.parametrize("damage", [None, "", -1, [], {}, {"a": 1}, ["y"], True, "\u202e<b>", [[1], "x"]])
def test_a_damaged_detail_leaves_the_others_as_they_are(name: str, damage: object) -> None:
    whole = evaluation_to_json(evaluation_from_json(line(DETAILS)))["details"]
    read = evaluation_to_json(evaluation_from_json(line({**DETAILS, name: damage})))["details"]
    groups = (
        {"agreement", "agreement_images", "answers_kept"},
        {"connection", "delegated", "operators", "onnx_export", "page_bytes"},
    )
    timing = {"load_ms", "first_ms", "threads", "effort", "verdict", "verdict_reason", "measured_at", "wall_ms"}
    touched = next((group for group in (*groups, timing | {"cpu_ms"}) if name in group), {name})
    assert {key: value for key, value in read.items() if key not in touched} == {
        key: value for key, value in whole.items() if key not in touched
    }


@pytest.mark.parametrize(
    "boxes",
    [
        {**BOXES, "threshold": None},
        {**BOXES, "by_class": {"glass": {}}},
        {**BOXES, "worst": [{}]},
        {**BOXES, "worst": [{**IMAGE, "true": [[0, 0.1, 0.2]]}]},
        {**BOXES, "worst": [{**IMAGE, "width": "wide"}]},
    ],
)
def test_damaged_facts_of_boxes_are_not_known(boxes: object) -> None:
    assert evaluation_from_json(line({"boxes": boxes, "confusion": [[1]]})).answers == ImageAnswers(confusion=((1,),))


@pytest.mark.parametrize("graph", [{}, {"macs": 1}, [], "x", {**DETAILS["graph"], "macs": "many"}])
def test_a_damaged_graph_is_not_known(graph: object) -> None:
    assert evaluation_from_json(line({"graph": graph})).file_features is None


def test_a_damaged_entry_reads_as_unknown() -> None:
    details = {"confusion": [[1, "x"]], "per_class_recall": {"a": "b"}, "macs": "many", "download_bytes": True}
    read = evaluation_from_json(line(details))
    assert (read.answers, read.card_facts, read.file_facts) == (ImageAnswers(), CardFacts(), FileFacts())


@pytest.mark.parametrize("change", [{"details": "none"}, {"family": 7}, {"contended": "yes"}, {"more": 1}])
def test_a_damaged_line_is_refused(change: Mapping[str, object]) -> None:
    with pytest.raises((TypeError, ValueError)):
        evaluation_from_json({**line({}), **change})


def test_only_an_accuracy_by_costs_may_be_below_0() -> None:
    below = replace(
        evaluation(accuracy=-20.0),
        answers=ImageAnswers(metrics={"cost-saved": Quantity(-20.0, "%", Provenance.MEASURED)}),
    )
    assert evaluation_from_json(json.loads(json.dumps(evaluation_to_json(below)))) == below
    with pytest.raises(ValueError, match="accuracy is not between 0 and 100 %"):
        evaluation_from_json(evaluation_to_json(replace(below, answers=ImageAnswers())))


def test_the_key_tells_configurations_apart() -> None:
    keys = {configuration(compression=c, threads=t).key for c in ("int8", "float32") for t in (1, 2)}
    assert len(keys) == 4


def test_every_recipe_is_in_the_table_and_nothing_else() -> None:
    assert {one.name for one in RECIPES} == set(FORMS)


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_what_stands_for_a_form_stands_for_itself(form: Form) -> None:
    assert form_of(form.like).like == form.like
    assert form_of(form.name).name == form.name
    assert form_of(form.name).like == form.like


def test_a_measured_precision_is_its_own_form() -> None:
    assert form_of("uint8") == Form("uint8", "uint8")


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("postgresql://me:pw@host/db", "postgresql://me@host/db"),
        ("postgresql://me@host/db", "postgresql://me@host/db"),
        ("--storage=postgresql://me:p%40w@host:5/db?host=/run/x", "--storage=postgresql://me@host:5/db?host=/run/x"),
        ("postgres://host/db?user=me&password=pw", "postgres://host/db?user=me"),
        ("journal", "journal"),
    ],
)
def test_passwords_are_taken_out_of_addresses(written: str, shown: str) -> None:
    assert without_password(written) == shown


@pytest.mark.parametrize("storage", ["journal", "sqlite", "postgresql://me@host/db"])
def test_a_valid_storage_is_returned_as_it_is(storage: str) -> None:
    assert check_storage(storage) == storage


@pytest.mark.parametrize(
    ("storage", "words"),
    [
        ("jornal", "did you mean 'journal'"),
        ("mysql://me:hidden@host/db", "unknown 'mysql://...'"),
        ("postgresql://me:hidden@host", "names no database"),
    ],
)
def test_another_storage_is_refused_without_its_password(storage: str, words: str) -> None:
    with pytest.raises(UsageError, match="--storage") as refused:
        check_storage(storage)
    assert words in refused.value.message
    assert "hidden" not in refused.value.message
