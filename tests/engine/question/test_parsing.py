"""Options and request files become a question, an execution and an output, in base units, with metric and costs."""

import re
from pathlib import Path
from typing import Any

import pytest

from advisor.core import TASKS, Costs, Limits, UsageError
from advisor.core._preferences import PREFERENCES
from advisor.engine import Execution, Question, Request, resolve
from advisor.engine._question import FREE_ON_RESUME, QUESTION_OPTIONS, resolve_resumed
from advisor.engine._question.values import LEAST_GAIN, collect_options, read_file
from advisor.isolation import usable_cores
from advisor.store import value_at
from tests.builders import must_fail
from tests.tables import read_table, with_cases

OTHER_VALUES: dict[str, Any] = read_table(__file__, "other_values.yaml")
"""A value other than the default for each option; the other task does not go with all of them."""

TABLE, COSTS = OTHER_VALUES["costs"], Costs(("cat", "dog"), ((0, 1), (5, 0)))
PHOTOS = {"data": "photos"}
PARSED: list[tuple[dict[str, Any], dict[str, object]]] = [
    ({}, {"question.thread_counts": tuple(sorted({1, usable_cores()})), "question.tuning_limited": False}),
    ({}, {"question.devices": ("host",), "question.trainings": ("none",), "execution.stop_below": None}),
    ({"budget": "0.05s"}, {"question.limits": Limits(latency_ms=50.0), "written.budget": "0.05s"}),
    ({"size_budget": "5MB", "memory_budget": "1GB"}, {"question.limits": Limits(size_bytes=5e6, memory_bytes=1e9)}),
    ({"max_drop": "1.5pt", **PHOTOS}, {"question.limits": Limits(max_drop_points=1.5)}),
    ({"confidence": "95%"}, {"question.limits": Limits(confidence=0.95)}),
    ({"time_limit": "10min"}, {"execution.time_limit_s": 600.0, "written.time_limit": "10min"}),
    ({"effort": "quick"}, {"execution.time_limit_s": 120.0, "execution.time_limit": "2min (--effort quick)"}),
    (
        {"effort": "thorough", "time_limit": "5min"},
        {"execution.time_limit_s": 300.0, "execution.time_limit": "5min (before --effort thorough)"},
    ),
    ({"device": " host, galaxy-s24,,host"}, {"question.devices": ("host", "galaxy-s24")}),
    (
        {"task": "object-detection", "data": "boxes", "input_size": 416},
        {"question.input_size": 416, "question.of_task.side": 416},
    ),
    ({"prefer": "size"}, {"question.preference": PREFERENCES["size"]}),
    ({"prefer": "accuracy=2"}, {"question.preference.accuracy": 2}),
    ({"threads": [4, 1, 4]}, {"question.thread_counts": (1, 4)}),
    # Fine-tuning starts from a head. Within limits, images are fine-tuned on unless a training is named.
    ({**PHOTOS, "training": ["finetune_all", "head"]}, {"question.trainings": ("head", "finetune_all")}),
    (PHOTOS, {"question.trainings": ("head", "finetune_cached"), "question.tuning_limited": True}),
    ({**PHOTOS, "training": ["finetune_cached"]}, {"question.tuning_limited": False}),
    (
        {"task": "object-detection", **PHOTOS},
        {"question.trainings": ("head", "finetune_all"), "question.tuning_limited": True},
    ),
    ({"task": "object-counting", **PHOTOS}, {"question.trainings": ("head",)}),
    ({"task": "object-detection", **PHOTOS, "training": ["head"]}, {"question.of_task": TASKS["object-detection"]}),
    ({"executor": "ray://head:10001"}, {"execution.executor": "ray", "execution.cluster": "head:10001"}),
    ({"stop_below": "never"}, {"execution.stop_below": 0.0}),
    ({"stop_below": "0.5%"}, {"execution.stop_below": 0.005}),
    # A password is used and not written.
    ({"storage": "postgresql://me:hidden@host/db"}, {"execution.storage": "postgresql://me:hidden@host/db"}),
    ({"storage": "postgresql://me:hidden@host/db"}, {"written.storage": "postgresql://me@host/db"}),
    (PHOTOS, {"question.metric": "top1", "question.costs": None, "question.of_task.metric": "top-1"}),
    ({**PHOTOS, "metric": "balanced-accuracy"}, {"question.of_task.metric": "balanced accuracy"}),
    ({**PHOTOS, "costs": TABLE}, {"question.metric": "cost-saved", "question.costs": COSTS, "written.costs": TABLE}),
    ({**PHOTOS, "costs": TABLE, "metric": "macro-f1"}, {"question.metric": "macro-f1", "question.costs": COSTS}),
    ({"min_accuracy": "top1=70%"}, {"question.limits.min_accuracy": 70}),
]


def _without(request: Request, *names: str) -> Request:
    """Return what :func:`resolve` makes of a request's options without some of them."""
    return resolve({key: value for key, value in request.written.items() if key not in names})


@pytest.fixture(scope="module")
def other() -> Request:
    """A request in which every option differs from its default."""
    return resolve(OTHER_VALUES)


def test_no_options_are_the_defaults_of_the_values() -> None:
    request = resolve({})
    assert (request.question, request.execution, request.folder) == (Question(), Execution(), Path("runs"))
    assert (Execution().cores, Execution(workers=3).cores) == (usable_cores(), 3)
    defaults = collect_options({}).values
    assert collect_options({"budget": "50ms", "workers": "2"}).values == {**defaults, "budget": "50ms", "workers": 2}


@pytest.mark.parametrize(
    "name", [name for name in QUESTION_OPTIONS if name not in ("task", "data", "training", "metric", "input_size")]
)
def test_an_option_of_the_question_changes_the_question_alone(other: Request, name: str) -> None:
    needs_it = ("fleet",) if name == "budget" else ()
    before, changed = _without(other, *needs_it), _without(other, name, *needs_it)
    assert changed.question != before.question
    assert (changed.execution, changed.folder) == (before.execution, before.folder)


@pytest.mark.parametrize("name", [name for name in FREE_ON_RESUME if name not in ("executor", "out")])
def test_an_option_of_the_execution_changes_the_execution_alone(other: Request, name: str) -> None:
    changed = _without(other, name)
    assert changed.execution != other.execution
    assert (changed.question, changed.folder) == (other.question, other.folder)


@pytest.mark.parametrize(("options", "expected"), PARSED)
def test_options_become_values(options: dict[str, Any], expected: dict[str, object]) -> None:
    request = resolve(options)
    assert {path: value_at(request, path) for path in expected} == expected


def test_precedence_is_options_then_file_then_defaults_and_one_value_needs_no_list(tmp_path: Path) -> None:
    file = tmp_path / "request.yaml"
    file.write_text("budget: 40ms\nseed: 7\n")
    question = resolve({"budget": "30ms", "seed": None}, file).question
    assert (question.limits.latency_ms, question.seed, question.task) == (30.0, 7, "image-classification")
    assert collect_options({"candidates": "squeezenet"})["candidates"] == ("squeezenet",)
    assert collect_options({"threads": ["1", "all"]})["threads"] == (1, usable_cores())


@with_cases
def test_a_value_of_a_wrong_type_and_an_unknown_name_are_refused(options: dict[str, Any], words: str) -> None:
    refused = must_fail(UsageError, re.escape(words), collect_options, options)
    assert refused.hint


@with_cases
def test_a_file_that_is_no_request_of_this_version_is_refused(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "request.yaml"
    file.write_text("size-budget: 5MB\nschema_version: 1\n")
    assert read_file(file) == {"size_budget": "5MB"}
    file.write_text(text)
    must_fail(UsageError, words, read_file, file)


@with_cases
def test_a_search_ends_by_itself_where_its_work_is_left_to_it(options: dict[str, object], points: float | None) -> None:
    request = resolve(options)
    assert request.execution.least_gain(request.question) == pytest.approx(LEAST_GAIN if points is None else points)


def test_a_run_keeps_its_metric_and_the_content_of_its_costs(tmp_path: Path) -> None:
    table = tmp_path / "costs.csv"
    table.write_text(TABLE)
    request = resolve({**PHOTOS, "costs": str(table)})
    stored = {"schema_version": 1, **request.written}
    assert resolve_resumed(stored, {"costs": str(table)}) == resolve_resumed(stored, {})
    must_fail(UsageError, "begun with --metric cost-saved, not top5", resolve_resumed, stored, {"metric": "top5"})
    table.write_text(TABLE.replace("5", "6"))
    with pytest.raises(UsageError, match="begun with --costs of other content, not this one"):
        resolve_resumed(stored, {"costs": str(table)})
    table.unlink()
    assert resolve(request.written) == request


@with_cases
def test_least_figures(text: str | list[str], metric: str, least: float | None, others: list[list[Any]]) -> None:
    limits = resolve({**PHOTOS, "min_accuracy": text, "metric": metric}).question.limits
    assert (limits.min_accuracy, limits.min_metrics) == (least, tuple(map(tuple, others)))
