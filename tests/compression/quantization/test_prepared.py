"""What the recipes of a model share, and what a similar model takes over from it."""

from pathlib import Path

import numpy as np
import pytest

from advisor.compression import Grids, PreparedModel, RecipeInputs, prepare_all, recipe
from advisor.compression._quantization import observe as observing
from advisor.compression._quantization.grid import Grid
from advisor.compression._quantization.layers import correct_model
from advisor.compression._quantization.observe import observe_activations
from advisor.compression._recipes.byte_grids import BYTES
from advisor.tflite import add_buffer, pack, read, unpack

pytestmark = pytest.mark.integration

GRIDS = (BYTES, Grids(Grid(8), None))


@pytest.fixture(scope="module")
def prepared(float_model: bytes, photographs: np.ndarray) -> PreparedModel:
    return prepare_all(float_model, photographs, GRIDS)


def _with_another_head(data: bytes) -> bytes:
    """Return the model with twice the weights in its last layer."""
    tables, model = unpack(data), read(data)
    kernel = [operator for operator in model.operators if len(operator.inputs) > 2][-1].inputs[1]
    doubled = 2 * np.frombuffer(model.tensors[kernel].buffer, "<f4")
    tables.subgraphs[0].tensors[kernel].buffer = add_buffer(tables, doubled.astype("<f4").tobytes())
    return pack(tables)


def test_the_corrected_models_are_those_of_each_recipe_alone(
    float_model: bytes, photographs: np.ndarray, prepared: PreparedModel
) -> None:
    observation = observe_activations(float_model, photographs)
    assert dict(prepared.corrected) == {each: correct_model(float_model, each, observation) for each in GRIDS}


@pytest.mark.parametrize("name", ["int8", "weight_int8", "dynamic_int8"])
def test_a_form_is_the_same_with_and_without(
    name: str, float_model: bytes, photographs: np.ndarray, prepared: PreparedModel, tmp_path: Path
) -> None:
    prepared.save(tmp_path)
    kept = PreparedModel.load(tmp_path)
    shared = recipe(name).make(float_model, RecipeInputs(photographs, observer=kept.observer()))
    assert shared.data == recipe(name).apply(float_model, photographs)


def test_a_model_with_another_head_gives_the_same_as_if_it_were_the_first(
    float_model: bytes, photographs: np.ndarray, prepared: PreparedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = _with_another_head(float_model)
    alone = prepare_all(other, photographs, GRIDS)
    read_at: list[list[int]] = []
    with_outputs = observing._with_outputs

    def watched(data: bytes, outputs: list[int]) -> object:
        read_at.append(outputs)
        return with_outputs(data, outputs)

    monkeypatch.setattr(observing, "_with_outputs", watched)
    again = prepare_all(other, photographs, GRIDS, prepared)
    assert len(read_at[0]) < len(prepared.activations) / 2
    assert dict(again.corrected) == dict(alone.corrected) != dict(prepared.corrected)
    assert set(again.activations) == set(alone.activations)
    for index, one in again.activations.items():
        for found, expected in zip(vars(one).values(), vars(alone.activations[index]).values(), strict=True):
            np.testing.assert_array_equal(found, expected)


def test_an_equal_model_is_not_run_again(
    float_model: bytes, photographs: np.ndarray, prepared: PreparedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observing, "_with_outputs", lambda *_: pytest.fail("the model was run again"))
    again = prepare_all(float_model, photographs, GRIDS, prepared)
    assert dict(again.corrected) == dict(prepared.corrected)
