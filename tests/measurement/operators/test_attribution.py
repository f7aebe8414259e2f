"""Events led back to the file's operators."""

from __future__ import annotations

from advisor.measurement.accelerators.delegation import execution_order
from advisor.measurement.operators.attribution import kind_of, match, nodes
from advisor.measurement.operators.runs import ProfilerEvent
from advisor.tflite.model import read
from tests.measurement import small_models

CONVOLUTION, DEPTHWISE, POINTWISE, MEAN, DENSE, SOFTMAX = range(6)


def test_nodes_know_their_work() -> None:
    rows = nodes(read(small_models.classifier()))
    assert [row.name for row in rows][:3] == ["CONV_2D", "DEPTHWISE_CONV_2D", "CONV_2D"]
    assert rows[CONVOLUTION].macs == 16 * 16 * 16 * 3 * 3 * 3
    assert rows[DEPTHWISE].macs == 16 * 16 * 16 * 3 * 3
    assert rows[POINTWISE].macs == 16 * 16 * 32 * 16
    assert rows[DENSE].macs == 32 * 4
    assert rows[SOFTMAX].macs == 0
    assert rows[CONVOLUTION].inputs == ("float32 1x32x32x3",)
    assert rows[DENSE].bytes_moved == 4 * (32 + 32 * 4 + 4 + 4)


def test_xnnpack_events_meet_their_operators_by_kind_and_order() -> None:
    model = read(small_models.classifier())
    tags = (
        "Convolution (NHWC, F32) IGEMM",
        "Convolution (NHWC, F32) DWConv",
        "Fully Connected (NC, F32) GEMM",
        "Mean (ND) Reduce",
        "Fully Connected (NC, F32) GEMM",
        "Copy (NC)",
    )
    found = match(model, [ProfilerEvent(tag, 8, index, 1.0) for index, tag in enumerate(tags)])
    assert [node.index if node else None for node in found] == [
        CONVOLUTION,
        DEPTHWISE,
        POINTWISE,
        MEAN,
        DENSE,
        None,
    ]


def test_a_kind_whose_counts_differ_stays_without_an_operator() -> None:
    model = read(small_models.classifier())
    found = match(
        model,
        [ProfilerEvent("Fully Connected (NC, F32) GEMM", 8, 0, 1.0), ProfilerEvent("Mean (ND) Reduce", 8, 1, 1.0)],
    )
    assert [node.index if node else None for node in found] == [None, MEAN]


def test_builtin_events_are_taken_by_their_index_if_the_names_agree() -> None:
    model = read(small_models.classifier())
    found = match(
        model,
        [
            ProfilerEvent("SOFTMAX", 2, SOFTMAX, 1.0),
            ProfilerEvent("MEAN", 2, SOFTMAX, 1.0),
            ProfilerEvent("MEAN", 2, 99, 1.0),
        ],
    )
    assert [node.index if node else None for node in found] == [SOFTMAX, None, None]


def test_partitions_gather_what_is_ready_as_the_runtime_does() -> None:
    model = read(small_models.classifier())
    assert execution_order(model, set()) == [0, 1, 2, 3, 4, 5]
    assert execution_order(model, {MEAN}) == [0, 1, 2, 3, 4, 5]


def test_kinds_are_told_from_the_kernels_names() -> None:
    assert kind_of("Convolution (NHWC, QC8) DWConv") == {"DEPTHWISE_CONV_2D"}
    assert kind_of("Add (ND)") == {"ADD"}
    assert kind_of("Something New") is None
