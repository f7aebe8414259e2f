import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema

from advisor.catalog import run
from advisor.compression._quantization.layers import Layer, find_layers
from advisor.tflite import read
from tests.tflite.graphs import Graph

PLACES = 1000


@pytest.mark.parametrize("same", [True, False])
@pytest.mark.parametrize(("size", "stride", "dilation"), [(1, 1, 1), (3, 1, 1), (3, 2, 1), (2, 2, 1), (3, 1, 2)])
def test_the_kernel_times_what_is_seen_is_the_convolution(size: int, stride: int, dilation: int, same: bool) -> None:
    draw, graph = np.random.default_rng(0), Graph()
    value = draw.normal(size=(1, 9, 8, 3)).astype(np.float32)
    kernel = draw.normal(size=(4, size, size, 3)).astype(np.float32)
    constants = graph.tensor("kernel", kernel.shape, kernel), graph.tensor("bias", (4,), np.zeros(4, np.float32))
    options = schema.Conv2DOptionsT(int(not same), stride, stride, dilationWFactor=dilation, dilationHFactor=dilation)
    inputs = [graph.tensor("image", value.shape), *constants]
    output = graph.added(schema.BuiltinOperator.CONV_2D, inputs, (1, 1, 1, 4), options)
    wanted = run(graph.finish({"image": inputs[0]}, {"output": output}), value)["output"]
    layer = Layer("CONV_2D", 0, 1, 2, size * size * 3, (size,) * 2, (stride,) * 2, (dilation,) * 2, same)
    seen = layer.draw_inputs(value, PLACES, draw)
    found = seen.reshape(len(seen), -1) @ kernel.reshape(4, -1).T
    np.testing.assert_allclose(np.sort(found, axis=0), np.sort(wanted.reshape(-1, 4), axis=0), atol=1e-4)


def test_no_more_positions_are_drawn_than_asked_for() -> None:
    layer = Layer("CONV_2D", 0, 1, 2, 27, (3, 3), same=True)
    assert layer.draw_inputs(np.zeros((1, 9, 8, 3), np.float32), 5, np.random.default_rng(0)).shape == (5, 9, 3)


def test_every_layer_of_a_file_has_its_window(float_model: bytes) -> None:
    found = find_layers(read(float_model))
    assert [one.kind for one in found].count("DEPTHWISE_CONV_2D") == 2
    assert found[0].size == (3, 3)
    assert found[0].strides == (2, 2)
    assert found[-1].kind == "FULLY_CONNECTED"
