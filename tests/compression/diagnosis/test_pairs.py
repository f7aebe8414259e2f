from __future__ import annotations

import numpy as np
import pytest

from advisor.compression.diagnosis.pairs import pairs, short_name
from advisor.compression.recipes import recipe
from advisor.tflite.model import Model, read
from advisor.tflite.rewrite import pack, unpack


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("functional_1/block_3_depthwise_relu_1/Relu6;functional_1/block_3_depthwise_BN_1/add", "block_3_depthwise"),
        ("functional_1/block_1_project_BN_1/batchnorm/add_1;functional_1/block_1_project_1/c", "block_1_project"),
        ("head/logits", "head/logits"),
        ("StatefulPartitionedCall_1:0", ""),
        ("stem/conv/Conv2D", "stem/conv"),
        ("activation12", "activation12"),
    ],
)
def test_a_short_name_tells_the_layer(name: str, short: str) -> None:
    assert short_name(name) == short


@pytest.mark.parametrize("form", ["int8", "int8_float_io", "dynamic_int8", "weight_int8", "int16x8"])
def test_every_operator_finds_its_own(float_model: bytes, photographs: np.ndarray, form: str) -> None:
    reference, quantized = read(float_model), read(recipe(form).apply(float_model, photographs))
    found = pairs(quantized, reference)
    assert [pair.reference for pair in found] == list(range(len(reference.operators)))
    assert all(_kind(quantized, pair.quantized) == _kind(reference, pair.reference) for pair in found)


def test_operators_are_matched_by_order_where_the_names_are_gone(float_model: bytes, photographs: np.ndarray) -> None:
    tables = unpack(recipe("int8_float_io").apply(float_model, photographs))
    for place, tensor in enumerate(tables.subgraphs[0].tensors):
        tensor.name = f"t{place}".encode()
    reference = read(float_model)
    found = pairs(read(pack(tables)), reference)
    assert [pair.reference for pair in found] == list(range(len(reference.operators)))


def _kind(model: Model, index: int) -> str:
    return model.operators[index].name
