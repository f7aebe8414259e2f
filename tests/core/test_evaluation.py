"""Addresses of ``--storage``."""

import json
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from advisor.compression import RECIPES
from advisor.core import (
    FORMS,
    CardFacts,
    Evaluation,
    FileFacts,
    ImageAnswers,
    Provenance,
    Quantity,
    Status,
    TrainingName,
    UsageError,
    broken_rule,
    form_of,
    without_password,
    without_passwords,
)
from advisor.core._form import Form
from advisor.core._names import parse_storage
from tests.builders import configuration, evaluation, must_fail
from tests.tables import read_table, with_cases

CASES = read_table(__file__, "addresses.yaml")

DETAILS: dict[str, Any] = json.loads((Path(__file__).parent / "details.json").read_text())
"""Every entry that a run folder may have."""

BOXES: dict[str, Any] = DETAILS["boxes"]
IMAGE: dict[str, Any] = DETAILS["holdout"]["boxes"]["worst"][0]
GROUPS = (
    {"agreement", "agreement_images", "answers_kept"},
    {"connection", "delegated", "operators", "onnx_export", "page_bytes"},
    {"load_ms", "first_ms", "threads", "effort", "verdict", "verdict_reason", "measured_at", "wall_ms", "cpu_ms"},
)
"""Details that are known together or not at all."""


def line(details: Mapping[str, Any]) -> dict[str, Any]:
    return {**evaluation().to_json(), "details": details}


def test_a_failed_evaluation_and_every_detail_survive_json() -> None:
    failed = Evaluation(configuration(), Status.FAILED, reason="crashed with SIGSEGV", stage="convert")
    assert Evaluation.from_json(failed.to_json()) == failed
    read = Evaluation.from_json(json.loads(json.dumps(line(DETAILS))))
    assert json.loads(json.dumps(read.to_json()))["details"] == DETAILS


def test_a_run_of_an_older_version_has_older_names() -> None:
    older = json.dumps(DETAILS)
    for old, new in (
        ("agreement_pictures", "agreement_images"), ("reached_over", "connection"), ("held_ms", "p90_ms"),
        ("elsewhere", "required_devices"), ("twin", "onnx_export"),
    ):  # fmt: skip
        assert f'"{new}"' in older
        older = older.replace(f'"{new}"', f'"{old}"')
    read, now = (Evaluation.from_json(line(details)) for details in (json.loads(older), DETAILS))
    assert read.to_json()["details"] == now.to_json()["details"]


def test_the_details_of_the_example_set_every_field() -> None:
    read = Evaluation.from_json(line(DETAILS))
    empty = evaluation()
    for field in fields(Evaluation):
        if not field.compare:
            assert getattr(read, field.name) != getattr(empty, field.name), field.name


def test_an_evaluation_without_details_writes_none_and_an_unknown_licence_is_not_an_empty_one() -> None:
    assert evaluation().to_json()["details"] == {}
    stated = replace(evaluation(), card_facts=CardFacts(licence=""))
    assert stated.to_json()["details"] == {"licence": ""}


@pytest.mark.parametrize("name", DETAILS)
def test_a_damaged_detail_leaves_the_others_as_they_are(name: str) -> None:
    touched = next((group for group in GROUPS if name in group), {name})
    whole = Evaluation.from_json(line(DETAILS)).to_json()["details"]
    expected = {key: value for key, value in whole.items() if key not in touched}
    for damage in (None, "", -1, [], {}, {"a": 1}, ["y"], True, "\u202e<b>", [[1], "x"]):
        read = Evaluation.from_json(line({**DETAILS, name: damage})).to_json()["details"]
        assert {key: value for key, value in read.items() if key not in touched} == expected, damage


@with_cases
def test_damaged_facts_of_boxes_are_not_known(damage: dict[str, Any], of_image: dict[str, Any]) -> None:
    boxes = BOXES | damage
    if of_image:
        boxes |= {"worst": [IMAGE | of_image]}
    assert Evaluation.from_json(line({"boxes": boxes, "confusion": [[1]]})).answers == ImageAnswers(confusion=((1,),))


@pytest.mark.parametrize("graph", [{}, {"macs": 1}, [], "x", {**DETAILS["graph"], "macs": "many"}])
def test_a_damaged_graph_is_not_known(graph: object) -> None:
    assert Evaluation.from_json(line({"graph": graph})).file_features is None


def test_a_damaged_entry_reads_as_unknown() -> None:
    details = {"confusion": [[1, "x"]], "per_class_recall": {"a": "b"}, "macs": "many", "download_bytes": True}
    read = Evaluation.from_json(line(details))
    assert (read.answers, read.card_facts, read.file_facts) == (ImageAnswers(), CardFacts(), FileFacts())


@pytest.mark.parametrize("change", [{"details": "none"}, {"family": 7}, {"contended": "yes"}, {"more": 1}])
def test_a_damaged_line_is_refused(change: Mapping[str, object]) -> None:
    with pytest.raises((TypeError, ValueError)):
        Evaluation.from_json({**line({}), **change})


def test_only_an_accuracy_by_costs_may_be_below_0() -> None:
    below = replace(
        evaluation(accuracy=-20.0),
        answers=ImageAnswers(metrics={"cost-saved": Quantity(-20.0, "%", Provenance.MEASURED)}),
    )
    assert Evaluation.from_json(json.loads(json.dumps(below.to_json()))) == below
    assert "accuracy is at least 0" in broken_rule(replace(below, answers=ImageAnswers()))


def test_every_recipe_is_in_the_table_and_nothing_else() -> None:
    assert {one.name for one in RECIPES} == set(FORMS)


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_what_stands_for_a_form_stands_for_itself(form: Form) -> None:
    assert form_of(form.like).like == form.like
    assert form_of(form.name).name == form.name
    assert form_of(form.name).like == form.like


def test_a_measured_precision_is_its_own_form() -> None:
    assert form_of("uint8") == Form("uint8", "uint8")


@pytest.mark.parametrize(("written", "shown"), CASES.items())
def test_passwords_are_taken_out_of_addresses(written: str, shown: str) -> None:
    assert without_password(written) == shown


def test_passwords_are_taken_out_of_every_text_of_a_document() -> None:
    document = {"url": "http://me:pw@h", "cards": [{"weights": ("ftp://me:pw@h", 1, None)}]}
    assert without_passwords(document) == {"url": "http://h", "cards": [{"weights": ["ftp://me@h", 1, None]}]}


def test_a_name_of_an_enumeration_becomes_a_plain_text() -> None:
    assert [type(name) for name in without_passwords([TrainingName.HEAD])] == [str]


@pytest.mark.parametrize("storage", ["journal", "sqlite", "postgresql://me@host/db"])
def test_a_valid_storage_is_returned_as_it_is(storage: str) -> None:
    assert parse_storage(storage) == storage


@with_cases
def test_another_storage_is_refused_without_its_password(storage: str, words: str) -> None:
    refused = must_fail(UsageError, "--storage", parse_storage, storage)
    assert words in refused.message
    assert "hidden" not in refused.message
