from __future__ import annotations

import numpy as np
import pytest

from advisor.compression.diagnosis.running import InspectableModel
from advisor.tflite.rewrite import unpack
from advisor.tflite.surgery import operator_alone
from tests.measurement import small_models


@pytest.mark.parametrize("index", range(4))
def test_an_operator_alone_does_what_it_does_in_its_graph(index: int) -> None:
    data = small_models.classifier(32)
    whole = InspectableModel(data, "whole")
    whole(np.random.default_rng(0).uniform(-1, 1, (1, 32, 32, 3)).astype(np.float32))
    tables = unpack(data)
    file, inputs = operator_alone(tables, index)
    single = InspectableModel(file, "single")
    single(*(whole.read(tensor) for tensor in inputs))
    expected = whole.read(tables.subgraphs[0].operators[index].outputs[0])
    np.testing.assert_array_equal(single.output, expected)


def test_what_expands_a_stored_kernel_comes_along() -> None:
    from advisor.tflite.float16 import to_float16
    from advisor.tflite.model import read

    data = to_float16(small_models.classifier(32))
    place = next(i for i, one in enumerate(read(data).operators) if one.name == "CONV_2D")
    file, inputs = operator_alone(unpack(data), place)
    assert len(inputs) == 1
    assert {one.name for one in read(file).operators} == {"DEQUANTIZE", "CONV_2D"}
