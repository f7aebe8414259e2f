"""Files of other converters get activations and paddings as TensorFlow's converter writes them."""

from __future__ import annotations

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema

from advisor.tflite.layout import TO_NCHW, TO_NHWC, without_transposes
from advisor.tflite.model import read
from advisor.tflite.simplify import simplified
from tests.tflite.graphs import Graph
from tests.tflite.test_layout import NCHW, NHWC, B, added, floats, integers, outputs, transposed

CONVOLUTION = schema.Conv2DOptionsT(strideH=1, strideW=1, dilationHFactor=1, dilationWFactor=1)


def kinds(data: bytes) -> list[str]:
    return [operator.name for operator in read(data).operators]


def maps(graph: Graph, image: int) -> int:
    inputs = [image, floats(graph, 8, 1, 1, 3), floats(graph, 8)]
    return added(graph, B.CONV_2D, inputs, NHWC, CONVOLUTION)


def test_an_activation_from_which_a_transpose_separated_it_joins_the_convolution() -> None:
    graph = Graph()
    image = graph.tensor("image", (1, 4, 6, 3))
    clipped = added(graph, B.RELU6, [transposed(graph, maps(graph, image), TO_NCHW, NCHW)], NCHW)
    data = graph.finish({"image": image}, {"result": transposed(graph, clipped, TO_NHWC, NHWC)})
    edited = simplified(without_transposes(data))
    assert kinds(edited) == ["CONV_2D"]
    assert outputs(edited)["result"] == pytest.approx(outputs(data)["result"], abs=1e-6)


def test_an_activation_of_what_others_read_stays() -> None:
    graph = Graph()
    image = graph.tensor("image", (1, 4, 6, 3))
    source = maps(graph, image)
    clipped = added(graph, B.RELU, [source], NHWC)
    total = added(graph, B.ADD, [source, clipped], NHWC, schema.AddOptionsT())
    data = graph.finish({"image": image}, {"result": total})
    assert kinds(simplified(data)) == ["CONV_2D", "RELU", "ADD"]


@pytest.mark.parametrize(("positive", "kind"), [(True, "PAD"), (False, "PADV2")])
def test_a_max_pooling_of_positive_values_is_padded_with_zeros(positive: bool, kind: str) -> None:
    graph = Graph()
    image = graph.tensor("image", (1, 4, 6, 3))
    source = maps(graph, image)
    source = added(graph, B.RELU, [source], NHWC) if positive else source
    lowest = graph.tensor("lowest", (1,), np.asarray([np.finfo(np.float32).min], np.float32))
    margins = integers(graph, (0, 0), (1, 1), (1, 1), (0, 0))
    padded = added(graph, B.PADV2, [source, margins, lowest], (1, 6, 8, 8), schema.PadV2OptionsT())
    pool = schema.Pool2DOptionsT(padding=schema.Padding.VALID, filterHeight=3, filterWidth=3, strideH=1, strideW=1)
    data = graph.finish({"image": image}, {"result": added(graph, B.MAX_POOL_2D, [padded], NHWC, pool)})
    edited = simplified(data)
    assert kinds(edited) == ["CONV_2D", kind, "MAX_POOL_2D"]
    assert outputs(edited)["result"] == pytest.approx(outputs(data)["result"], abs=1e-6)
