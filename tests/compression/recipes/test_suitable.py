from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema

from advisor.compression.recipes import RECIPES, recipe
from advisor.compression.recipes.suitable import require_plain_float
from advisor.core.errors import UnsupportedRecipe, UsageError
from tests.tflite.graphs import edited

NAMES = [one.name for one in RECIPES]
SHARED_MODELS = Path(__file__).resolve().parents[4] / "shared" / "data" / "models"


def test_a_plain_float_model_passes(float_model: bytes) -> None:
    require_plain_float(float_model, "int8")


@pytest.mark.parametrize("form", ["int8", "dynamic_int8", "weight_int8", "float16", "int16x8", "int8_float_io"])
@pytest.mark.parametrize("name", ["float32", "int8", "rounded"])
def test_compressed_models_are_refused(float_model: bytes, photographs: np.ndarray, form: str, name: str) -> None:
    compressed = recipe(form).apply(float_model, photographs)
    with pytest.raises(UnsupportedRecipe, match=f"{name} does not apply: .*already") as caught:
        recipe(name).apply(compressed, photographs)
    assert caught.value.hint


@pytest.mark.parametrize("file", ["mobilenet_v1_0.25_128_quant.tflite", "tf2_mobilenet_v2_1.0_224_ptq.tflite"])
@pytest.mark.parametrize("name", NAMES)
def test_published_quantized_models_are_refused(file: str, name: str) -> None:
    if not SHARED_MODELS.is_dir():
        pytest.skip("../shared/data/models is not here")
    with pytest.raises(UnsupportedRecipe, match="quantized already"):
        recipe(name).apply((SHARED_MODELS / file).read_bytes())


def test_open_shapes_are_refused(float_model: bytes) -> None:
    def open_batch(model: Any) -> None:
        graph = model.subgraphs[0]
        graph.tensors[graph.inputs[0]].shapeSignature = [-1, 32, 32, 3]

    with pytest.raises(UnsupportedRecipe, match=r"\(-1, 32, 32, 3\).*is open"):
        require_plain_float(edited(float_model, open_batch), "int8")


def test_custom_operators_are_refused_by_name(float_model: bytes) -> None:
    def custom(model: Any) -> None:
        code = model.operatorCodes[0]
        code.builtinCode = schema.BuiltinOperator.CUSTOM
        code.deprecatedBuiltinCode = schema.BuiltinOperator.CUSTOM
        code.customCode = b"FlexErf"
        for operator in model.subgraphs[0].operators:
            if operator.opcodeIndex == 0:
                operator.builtinOptionsType, operator.builtinOptions = 0, None

    with pytest.raises(UnsupportedRecipe, match=r"select TensorFlow operators.*FlexErf"):
        require_plain_float(edited(float_model, custom), "int8")


def test_several_graphs_are_refused(float_model: bytes) -> None:
    def twice(model: Any) -> None:
        model.subgraphs = [model.subgraphs[0], model.subgraphs[0]]

    with pytest.raises(UnsupportedRecipe, match="2 graphs"):
        require_plain_float(edited(float_model, twice), "int8")


def test_several_signatures_are_refused_by_name(float_model: bytes) -> None:
    def twice(model: Any) -> None:
        first = model.signatureDefs[0]
        second = schema.SignatureDefT(
            signatureKey=b"train", subgraphIndex=0, inputs=first.inputs, outputs=first.outputs
        )
        model.signatureDefs = [first, second]

    with pytest.raises(UnsupportedRecipe, match="'train'"):
        require_plain_float(edited(float_model, twice), "int8")


def test_a_damaged_file_is_a_usage_error(float_model: bytes) -> None:
    with pytest.raises(UsageError):
        recipe("float32").apply(float_model[: len(float_model) // 2])
