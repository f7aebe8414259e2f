"""``docs/schemas/recommendation.schema.json`` describes what is written."""

from __future__ import annotations

import json
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest

from advisor.reporting.files import SCHEMA_VERSION, recommendation_json
from advisor.reporting.view import RunView
from tests import documents
from tests.reporting.views import empty_view, infeasible_view, judged_view, run_view, running_view, unknown_view


@pytest.fixture(scope="module")
def validator() -> Any:
    return documents.validator("recommendation", closed=True)


@pytest.mark.parametrize(
    "view",
    [
        run_view(),
        judged_view(),
        run_view(data=False),
        infeasible_view(),
        empty_view(),
        running_view(),
        running_view(0),
        unknown_view(),
        unknown_view(auroc=None, float_auroc=None, accepted=None, by_class={}, kept=None, precision=None, others=None),
    ],
)
def test_every_kind_of_answer_is_valid(validator: Any, view: RunView) -> None:
    document = json.loads(recommendation_json(view))
    assert [error.message for error in validator.iter_errors(document)] == []
    assert document["schema_version"] == SCHEMA_VERSION


def test_the_answer_of_detectors_is_valid_and_has_their_boxes_at_the_threshold(
    validator: Any, judged_detectors: RunView
) -> None:
    document = json.loads(recommendation_json(judged_detectors))
    assert [error.message for error in validator.iter_errors(document)] == []
    judged = document["pick"]["details"]["holdout"]
    assert judged["per_class_recall"] == {"cat": 0.91, "dog": 0.82, "owl": None}
    assert (judged["boxes"]["threshold"], judged["boxes"]["coco"]) == (0.375, 0.512)
    assert judged["boxes"]["by_class"]["cat"] == {
        "true": 4, "found": 5, "precision": 0.6, "recall": 0.75, "count_error": 0.25,
    }  # fmt: skip
    assert [image["path"] for image in judged["boxes"]["worst"]] == ["first.png", "<b>gone.png", "last.png"]
    judged["boxes"]["worst"][0]["found"][0].pop()
    assert not validator.is_valid(document)


def test_what_is_known_of_unknown_images_is_described_and_is_of_the_pick_alone(validator: Any) -> None:
    view = unknown_view()
    assert view.decision.pick is not None
    document = json.loads(
        recommendation_json(replace(view, decision=replace(view.decision, runner_up=view.decision.pick)))
    )
    facts, described = document["pick"]["details"]["unknown"], validator.schema["$defs"]["UnknownFacts"]["properties"]
    assert set(facts) == set(described)
    assert "unknown" not in document["runner_up"]["details"]
    facts["others"]["found"] = 0.6
    assert not validator.is_valid(document)


def test_an_answer_so_far_says_how_far_the_search_came() -> None:
    assert json.loads(recommendation_json(running_view()))["unfinished"] == {
        "evaluated": 34, "configurations": 100, "running": True, "at": "2026-01-31T12:00:00+00:00",
    }  # fmt: skip
    assert json.loads(recommendation_json(run_view()))["unfinished"] is None


def test_every_key_that_is_written_is_described(validator: Any) -> None:
    document = json.loads(recommendation_json(run_view()))
    described = validator.schema["$defs"]["Evaluation"]["properties"]
    assert set(document) == set(validator.schema["properties"])
    assert set(document["pick"]) == set(described)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("schema_version",), 2),
        (("pick", "latency", "provenance"), "guessed"),
        (("pick", "status"), "fine"),
        (("pick", "configuration", "target", "threads"), 0),
        (("pick", "details", "new"), 0),
        (("front",), "none"),
    ],
)
def test_what_means_something_else_is_not_valid(validator: Any, path: tuple[str, ...], value: Any) -> None:
    document = deepcopy(json.loads(recommendation_json(run_view())))
    place = document
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = value
    assert not validator.is_valid(document)
