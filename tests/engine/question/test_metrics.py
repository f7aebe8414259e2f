"""The metric that counts, the costs of answers and the least values of metrics."""

from pathlib import Path
from typing import Any

import pytest

from advisor.core.errors import UsageError
from advisor.core.metrics import Costs
from advisor.engine.question import resolve, resolve_resumed

TABLE = "class,cat,dog\ncat,0,1\ndog,5,0\n"
PHOTOS = {"data": "photos"}


@pytest.fixture
def table(tmp_path: Path) -> str:
    """Return the path of a table of costs."""
    file = tmp_path / "costs.csv"
    file.write_text(TABLE)
    return str(file)


def test_top_1_counts_by_default() -> None:
    question = resolve(PHOTOS).question
    assert (question.metric, question.costs, question.of_task.metric) == ("top1", None, "top-1")


def test_the_task_says_what_counts() -> None:
    task = resolve({**PHOTOS, "metric": "balanced-accuracy"}).question.of_task
    assert (task.metric, task.heading) == ("balanced accuracy", "Balanced accuracy")


def test_costs_alone_count(table: str) -> None:
    request = resolve({**PHOTOS, "costs": table})
    assert request.question.metric == "cost-saved"
    assert request.question.costs == Costs(("cat", "dog"), ((0, 1), (5, 0)))
    assert request.written["costs"] == TABLE


def test_costs_beside_another_metric_are_kept(table: str) -> None:
    question = resolve({**PHOTOS, "costs": table, "metric": "macro-f1"}).question
    assert question.metric == "macro-f1"
    assert question.costs is not None


def test_a_request_keeps_the_content_of_the_costs(table: str) -> None:
    request = resolve({**PHOTOS, "costs": table})
    Path(table).unlink()
    assert resolve(request.written) == request


def test_a_resumed_run_notices_other_costs(table: str) -> None:
    stored = {"schema_version": 1, **resolve({**PHOTOS, "costs": table}).written}
    assert resolve_resumed(stored, {"costs": table}) == resolve_resumed(stored, {})
    Path(table).write_text(TABLE.replace("5", "6"))
    with pytest.raises(UsageError, match="begun with --costs of other content, not this one"):
        resolve_resumed(stored, {"costs": table})


def test_a_resumed_run_keeps_its_metric() -> None:
    stored = {"schema_version": 1, **resolve({**PHOTOS, "metric": "macro-f1"}).written}
    with pytest.raises(UsageError, match="begun with --metric macro-f1, not top5"):
        resolve_resumed(stored, {"metric": "top5"})


@pytest.mark.parametrize(
    ("text", "metric", "least", "others"),
    [
        ("85%", "top1", 85, ()),
        ("top1=85%", "top1", 85, ()),
        ("85%", "macro-f1", 85, ()),
        ("85%, worst-group = 70%", "top1", 85, (("worst-group", 70),)),
        ("top5=95%,top1=80%", "macro-f1", None, (("top1", 80), ("top5", 95))),
        ("", "top1", None, ()),
    ],
)
def test_least_values_of_metrics(text: str, metric: str, least: float | None, others: tuple[Any, ...]) -> None:
    limits = resolve({**PHOTOS, "min_accuracy": text, "metric": metric}).question.limits
    assert (limits.min_accuracy, limits.min_metrics) == (least, others)


def test_least_values_may_be_a_list() -> None:
    asked = resolve({**PHOTOS, "min_accuracy": ("85%", "worst-group=70%")})
    assert asked.question == resolve({**PHOTOS, "min_accuracy": "85%,worst-group=70%"}).question


def test_a_least_value_of_what_counts_needs_no_images() -> None:
    assert resolve({"min_accuracy": "top1=70%"}).question.limits.min_accuracy == 70


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"metric": "ballanced-accuracy", **PHOTOS}, "--metric: unknown 'ballanced-accuracy' (did you mean 'balanced-"),
        ({"metric": "macro-f1"}, "--metric: this metric is measured on images, and --data is not given"),
        ({"metric": "top1"}, "--metric: this metric is measured on images, and --data is not given"),
        ({"metric": "cost-saved", **PHOTOS}, "--metric: cost-saved needs the cost of each answer"),
        ({"metric": "top1", "task": "object-detection", "data": "boxes"}, "are judged by mAP@0.5"),
        ({"metric": "macro-f1", "task": "object-counting", "data": "boxes"}, "only classifiers by other metrics"),
        ({"metric": "macro-f1", "objective": "robust-accuracy", **PHOTOS}, "--objective robust-accuracy is top-1"),
        ({"costs": TABLE, "objective": "robust-accuracy", **PHOTOS}, "and --costs asks for cost-saved"),
        ({"costs": TABLE}, "--costs: this metric is measured on images, and --data is not given"),
        ({"costs": TABLE, "task": "object-detection", "data": "boxes"}, "--costs: models for --task object-detection"),
        ({"costs": "no-such.csv", **PHOTOS}, "--costs: no-such.csv: cannot be read"),
        ({"costs": TABLE.replace("5", "-5"), **PHOTOS}, "--costs: line 3 of the table: the answer 'cat'"),
        ({"min_accuracy": "macrof1=80%", **PHOTOS}, "--min-accuracy: unknown 'macrof1' (did you mean 'macro-f1'?)"),
        ({"min_accuracy": "80%,top1=85%", **PHOTOS}, "--min-accuracy: '80%,top1=85%' has two limits of top1"),
        ({"min_accuracy": "top5=80%,top5=80%", **PHOTOS}, "has two limits of top5"),
        ({"min_accuracy": "macro-f1=101%", **PHOTOS}, "--min-accuracy: '101%' is above 100%"),
        ({"min_accuracy": "macro-f1=0.8", **PHOTOS}, "--min-accuracy: '0.8' has no unit"),
        ({"min_accuracy": "macro-f1=", **PHOTOS}, "--min-accuracy: '' is not a number with a unit"),
        ({"min_accuracy": "cost-saved=20%", **PHOTOS}, "--min-accuracy: cost-saved needs the cost of each answer"),
        ({"min_accuracy": "macro-f1=80%"}, "--min-accuracy macro-f1=...: this metric is measured on images"),
        (
            {"min_accuracy": "macro-f1=80%", "task": "object-detection", "data": "boxes"},
            "--min-accuracy macro-f1=...: models for --task object-detection are judged by mAP@0.5",
        ),
    ],
)
def test_what_cannot_be_asked_is_refused_with_what_to_do(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as refused:
        resolve(options)
    assert message in refused.value.message
    assert refused.value.hint
