"""The graphs convert to files of builtin operators alone, which LiteRT runs and which compute what Keras does."""

from __future__ import annotations

import contextlib
import io
from collections import Counter
from typing import Any

import numpy as np
import pytest

from advisor.catalog import architectures
from advisor.catalog.build import fill_randomly
from advisor.catalog.convert import to_tflite
from advisor.tflite import model as tflite_model

pytestmark = pytest.mark.integration

GRAPHS: list[Any] = [
    ("shufflenet_v2", 64, {"width": 0.5}),
    *(
        pytest.param(*graph, marks=pytest.mark.slow)
        for graph in (
            ("mobilenet_v3", 96, {"size": "small", "width": 1.0}),
            ("mobilenet_v3", 96, {"size": "large", "width": 0.75}),
            ("mobilenet_v3", 96, {"size": "small", "width": 1.0, "minimalistic": True}),
            ("mnasnet", 96, {"width": 0.75}),
            ("resnet", 64, {"depth": 18}),
            ("resnet", 64, {"depth": 50}),
            ("inception_v1", 96, {}),
            ("inception_v2", 96, {}),
            ("inception_v4", 107, {}),
            ("inception_resnet_v2", 107, {}),
            ("efficientnet", 160, {}),
            ("nasnet", 64, {}),
            ("densenet", 64, {}),
        )
    ),
]


@pytest.mark.parametrize(("architecture", "size", "arguments"), GRAPHS)
def test_a_converted_graph_has_builtin_operators_alone_and_computes_the_same(
    architecture: str, size: int, arguments: dict[str, Any]
) -> None:
    graph = architectures.build(architecture, size, 10, arguments)
    fill_randomly(graph)
    data = to_tflite(graph)

    read = tflite_model.read(data)
    assert [operator.name for operator in read.operators if operator.name.startswith(("CUSTOM", "Flex"))] == []
    assert [tensor.shape for tensor in read.inputs] == [(1, size, size, 3)]
    image = np.random.default_rng(1).normal(size=(1, size, size, 3)).astype(np.float32)
    expected, actual = graph(image, training=False), run(data, image)
    for name in ("features", "probabilities"):
        scale = float(np.abs(expected[name]).max())
        assert actual[name] == pytest.approx(np.asarray(expected[name]), abs=1e-4 * scale)


@pytest.mark.slow
def test_the_operators_are_those_of_the_converters_own_way_from_keras() -> None:
    import tensorflow as tf

    graph = architectures.build("mobilenet_v2", 64, 10, {"width": 0.35})
    fill_randomly(graph)
    with contextlib.redirect_stdout(io.StringIO()):
        slow = tf.lite.TFLiteConverter.from_keras_model(graph).convert()

    ours, theirs = (tflite_model.read(data) for data in (to_tflite(graph), slow))
    assert Counter(operator.name for operator in ours.operators) == Counter(
        operator.name for operator in theirs.operators
    )
    assert ours.signatures[0].key == theirs.signatures[0].key
    assert {name for name, _ in ours.signatures[0].outputs} == {name for name, _ in theirs.signatures[0].outputs}


def run(data: bytes, image: np.ndarray) -> dict[str, np.ndarray]:
    from ai_edge_litert.interpreter import Interpreter

    runner = Interpreter(model_content=data).get_signature_runner()
    (name,) = runner.get_input_details()
    return runner(**{name: image})
