from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from advisor.compression import RecipeInputs, recipe
from advisor.compression._recipes import measure_deflated
from advisor.compression._recipes.base import Compressed
from advisor.compression._recipes.retrained import _find_inner
from advisor.core import StageError
from advisor.datasets import InputSpec
from advisor.measurement import predict
from advisor.tflite import read
from advisor.training import Graph, TrainingImages
from tests.builders import must_fail
from tests.measurement.small_models import two_levels

pytestmark = pytest.mark.integration

VIEW = InputSpec(32, (127.5,) * 3, (127.5,) * 3)


@pytest.fixture(scope="module")
def images(photographs: np.ndarray, tmp_path_factory: pytest.TempPathFactory) -> TrainingImages:
    folder = tmp_path_factory.mktemp("pictures")
    paths = []
    for place, image in enumerate(photographs):
        paths.append(folder / f"{place}.png")
        Image.fromarray(np.rint(image * 127.5 + 127.5).astype(np.uint8)).save(paths[-1])
    return TrainingImages(tuple(paths), (0,) * len(paths), 4, VIEW)


@pytest.fixture(scope="module")
def made(float_model: bytes, photographs: np.ndarray, images: TrainingImages) -> dict[str, Compressed]:
    import tensorflow as tf

    inputs = RecipeInputs(photographs, images, seconds=60)
    tf.config.run_functions_eagerly(True)  # the trace of a graph takes longer than these steps
    made = {name: recipe(name).make(float_model, inputs) for name in ("qat_int8", "pruned_75", "clustered_16")}
    tf.config.run_functions_eagerly(False)
    return made


@pytest.mark.parametrize("name", ["qat_int8", "pruned_75", "clustered_16"])
def test_what_learnt_answers_like_the_float_model(
    float_model: bytes, images: TrainingImages, made: dict[str, Compressed], name: str, tmp_path: Path
) -> None:
    rows = []
    for data in (float_model, made[name].data):
        (tmp_path / "model.tflite").write_bytes(data)
        rows.append(predict(tmp_path / "model.tflite", images.paths, VIEW))
    assert np.abs(rows[0] - rows[1]).mean() < 0.03
    assert made[name].notes["learning"]["steps"] > 1


@pytest.mark.parametrize("name", ["qat_int8", "clustered_16"])
def test_lessons_lower_the_loss(made: dict[str, Compressed], name: str) -> None:
    learning = made[name].notes["learning"]
    assert learning["last_loss"] < learning["first_loss"]


def test_pruned_weights_are_zero_and_small_and_others_learn(float_model: bytes, made: dict[str, Compressed]) -> None:
    pruned = made["pruned_75"].data
    model = read(pruned)
    inner = [op.inputs[1] for op in model.operators if op.name == "CONV_2D"][1:]
    shares = [np.mean(np.frombuffer(model.tensors[at].buffer, "<f4") == 0) for at in inner]
    # Weights of inputs that no image shows go too.
    assert all(0.749 <= share <= 0.85 for share in shares)
    assert measure_deflated(pruned) < 0.75 * measure_deflated(float_model)
    before, after = (
        [np.frombuffer(model.tensors[op.inputs[1]].buffer, "<f4") for op in model.operators if op.name == "CONV_2D"]
        for model in (read(float_model), read(made["pruned_75"].data))
    )
    moved = [np.abs(new - old)[new != 0].max() for old, new in zip(before[1:], after[1:], strict=True)]
    assert max(moved) > 1e-6


def test_every_level_of_a_head_is_spared_by_what_takes_weights() -> None:
    graph = Graph.read(two_levels(VIEW.size))
    assert _find_inner(graph) == [graph.nodes[1].inputs[1]]


def test_a_clustered_kernel_has_sixteen_values_and_qat_gives_integers_throughout(made: dict[str, Compressed]) -> None:
    model = read(made["clustered_16"].data)
    inner = [op.inputs[1] for op in model.operators if op.name == "CONV_2D"][1:]
    assert all(len(np.unique(np.frombuffer(model.tensors[at].buffer, "<f4"))) <= 16 for at in inner)
    model = read(made["qat_int8"].data)
    assert {model.tensors[op.outputs[0]].dtype for op in model.operators} == {"int8"}


def test_without_time_one_step_is_taken(float_model: bytes, images: TrainingImages) -> None:
    assert (
        recipe("clustered_16").make(float_model, RecipeInputs(None, images, seconds=0.0)).notes["learning"]["steps"]
        == 1
    )


def test_a_image_needs_a_label() -> None:
    must_fail(StageError, "one label", TrainingImages, (Path("a.jpg"),), (), 2, VIEW)
