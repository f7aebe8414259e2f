"""The facts of the metrics fit together."""

from __future__ import annotations

from advisor.core.metrics import METRICS, TOP1
from advisor.tasks import CLASSIFICATION


def test_a_metric_is_found_by_its_name() -> None:
    assert {name: metric.name for name, metric in METRICS.items()} == {name: name for name in METRICS}
    assert len({metric.label for metric in METRICS.values()}) == len(METRICS)


def test_classifiers_are_judged_by_top_1_by_default() -> None:
    assert METRICS[TOP1].label == CLASSIFICATION.metric
