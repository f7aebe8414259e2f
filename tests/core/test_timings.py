"""One graph has one latency on a target."""

from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from advisor.core import Evaluation, FileFeatures, Provenance, Traits, pool_timings
from tests.builders import evaluation, present

GRAPH = FileFeatures(300, 30, 224, 60, "int8", 5_000, {"CONV_2D": 50, "ADD": 10}, Traits(depthwise=0.5))


def timed(training: str, latency: float, graph: FileFeatures | None = GRAPH, accelerator: str = "cpu") -> Evaluation:
    made = evaluation("net", latency=latency)
    target = replace(made.configuration.target, accelerator=accelerator)
    return replace(
        made, configuration=replace(made.configuration, training=training, target=target), file_features=graph
    )


def test_two_trainings_of_one_network_have_one_latency() -> None:
    pooled = pool_timings([timed("head", 4.27), timed("finetune_cached", 5.55)])
    assert [row.latency_ms for row in pooled] == pytest.approx([4.91, 4.91])
    assert [row.p90_ms for row in pooled] == pytest.approx([5.401, 5.401])


@pytest.mark.parametrize(
    "other",
    [
        timed("finetune_cached", 9.0, replace(GRAPH, operators={"CONV_2D": 51, "ADD": 10})),
        timed("finetune_cached", 9.0, None),
        timed("finetune_cached", 9.0, accelerator="gpu"),
        replace(timed("finetune_cached", 9.0), latency=replace(present(evaluation().latency), value=9.0,
                                                               provenance=Provenance.PREDICTED)),
    ],
    ids=["another graph", "a file that was not read", "another unit", "a prediction"],
)  # fmt: skip
def test_what_is_no_timing_of_the_same_graph_there_stays_apart(other: Evaluation) -> None:
    assert pool_timings([timed("head", 4.0), other]) == [timed("head", 4.0), other]


def test_a_timing_beside_other_programs_counts_only_where_there_is_no_other() -> None:
    busy = replace(timed("finetune_cached", 20.0), contended=True)
    pooled = pool_timings([timed("head", 4.0), busy])
    assert [(row.latency_ms, row.contended) for row in pooled] == [(4.0, False), (4.0, False)]
    assert pool_timings([busy]) == [busy]


@given(st.lists(st.floats(0.1, 100), min_size=1, max_size=6))
def test_the_common_latency_lies_among_the_timings_and_is_not_changed_by_pooling_again(timings: list[float]) -> None:
    pooled = pool_timings([timed(f"training{place}", latency) for place, latency in enumerate(timings)])
    assert min(timings) <= pooled[0].latency_ms <= max(timings)
    assert pool_timings(pooled) == pooled
