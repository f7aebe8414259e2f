"""Options and request files become a question, an execution and an output, in base units, with metric and costs."""

import re
from pathlib import Path
from typing import Any

import pytest

from advisor.core import Costs, UsageError
from advisor.engine import Execution, Question, Request, resolve
from advisor.engine._question import FREE_ON_RESUME, QUESTION_OPTIONS, resolve_resumed
from advisor.engine._question.options import collect_options, read_request_file
from advisor.engine._question.values import LEAST_GAIN
from advisor.isolation import usable_cores
from advisor.store import value_at
from tests.builders import must_fail, write_file
from tests.tables import read_table, with_cases

OTHER_VALUES: dict[str, Any] = read_table(__file__, "other_values.yaml")
"""A value other than the default for each option; the other task does not go with all of them."""

TABLE, COSTS = OTHER_VALUES["costs"], Costs(("cat", "dog"), ((0, 1), (5, 0)))
PHOTOS = {"data": "photos"}
WITH_OTHERS = ("task", "data", "training", "metric", "input_size", "start")


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
    assert request.question.thread_counts == tuple(sorted({1, usable_cores()}))
    defaults = collect_options({}).values
    assert collect_options({"budget": "50ms", "workers": "2"}).values == {**defaults, "budget": "50ms", "workers": 2}


@pytest.mark.parametrize("name", [name for name in QUESTION_OPTIONS if name not in WITH_OTHERS])
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


@with_cases
def test_an_option_alone_sets_a_value(options: dict[str, Any], path: str, value: Any) -> None:
    assert value_at(resolve(options), path) == (tuple(value) if isinstance(value, list) else value)


def test_precedence_is_options_then_file_then_defaults_and_one_value_needs_no_list(tmp_path: Path) -> None:
    file = write_file(tmp_path / "request.yaml", "budget: 40ms\nseed: 7\n")
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
    file = write_file(tmp_path / "request.yaml", "size-budget: 5MB\nschema_version: 1\n")
    assert read_request_file(file) == {"size_budget": "5MB"}
    file.write_text(text)
    must_fail(UsageError, words, read_request_file, file)


@with_cases
def test_a_search_ends_by_itself_where_its_work_is_left_to_it(options: dict[str, object], points: float | None) -> None:
    request = resolve(options)
    assert request.execution.least_gain(request.question) == pytest.approx(LEAST_GAIN if points is None else points)


def test_a_run_keeps_its_metric_and_the_content_of_its_costs(tmp_path: Path) -> None:
    table = write_file(tmp_path / "costs.csv", TABLE)
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
