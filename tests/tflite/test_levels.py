from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.special import softmax

from advisor.core.errors import UsageError
from advisor.measurement.accuracy import predict_arrays
from advisor.tflite.arena import activation_arena_bytes
from advisor.tflite.levels import last_width, with_levels
from advisor.tflite.model import read
from advisor.tflite.surgery import attach_head, select_output

from .conftest import Array, Quantize, Run
from .graphs import tiny_features


@pytest.fixture(scope="module")
def backbone(master: bytes) -> bytes:
    return select_output(master, "features")


@pytest.fixture(scope="module")
def levelled(backbone: bytes) -> bytes:
    return with_levels(backbone)


def test_the_trunks_own_features_come_first_and_unchanged(
    backbone: bytes, levelled: bytes, images: list[Array], run: Run
) -> None:
    plain, wide = (run(data, {"image": images[0]})["features"] for data in (backbone, levelled))
    assert wide.shape[1] > plain.shape[1]
    np.testing.assert_array_equal(wide[:, : plain.shape[1]], plain)


def test_each_level_is_the_mean_of_a_map_of_its_own_side(levelled: bytes) -> None:
    model = read(levelled)
    means = [operator for operator in model.operators if operator.name == "MEAN"]
    sides = [model.tensors[operator.inputs[0]].shape[1] for operator in means[:-1]]
    assert sides == sorted(set(sides), reverse=True)
    assert len(sides) >= 3
    assert all(side <= 96 // 4 for side in sides)


def test_a_mean_follows_its_map_at_once_so_that_memory_stays(backbone: bytes, levelled: bytes) -> None:
    assert activation_arena_bytes(read(levelled)) <= 1.01 * activation_arena_bytes(read(backbone))


def test_a_head_on_all_levels_is_the_sum_of_heads_on_each(levelled: bytes, images: list[Array], run: Run) -> None:
    random = np.random.default_rng(1)
    features = run(levelled, {"image": images[0]})["features"]
    weights = random.normal(0, 0.1, (features.shape[1], 4)).astype(np.float32)
    bias = random.normal(size=4).astype(np.float32)
    joined = attach_head(levelled, weights, bias)
    found = run(joined, {"image": images[0]})["probabilities"]
    np.testing.assert_allclose(found, softmax(features @ weights + bias), atol=1e-5)
    names = [operator.name for operator in read(joined).operators]
    assert "CONCATENATION" not in names
    assert names.count("FULLY_CONNECTED") >= 3


def test_levels_that_a_head_does_not_read_leave_the_file(
    backbone: bytes, levelled: bytes, images: list[Array], run: Run
) -> None:
    random = np.random.default_rng(1)
    width, last = run(levelled, {"image": images[0]})["features"].shape[1], last_width(levelled)
    weights, bias = np.zeros((width, 4), np.float32), random.normal(size=4).astype(np.float32)
    weights[:last] = random.normal(0, 0.1, (last, 4))
    data, plain = attach_head(levelled, weights, bias), attach_head(backbone, weights[:last], bias)
    assert [operator.name for operator in read(data).operators] == [operator.name for operator in read(plain).operators]
    answers = [run(each, {"image": images[0]})["probabilities"] for each in (data, plain)]
    np.testing.assert_array_equal(*answers)


def test_the_last_layer_is_as_wide_as_without_levels(backbone: bytes, levelled: bytes) -> None:
    assert last_width(levelled) == last_width(backbone) == read(backbone).outputs[0].shape[1]


def test_the_joined_classifier_stays_within_one_delegate(levelled: bytes, images: list[Array], run: Run) -> None:
    from ai_edge_litert.interpreter import Interpreter

    width = run(levelled, {"image": images[0]})["features"].shape[1]
    interpreter = Interpreter(
        model_content=attach_head(levelled, np.zeros((width, 3), np.float32), np.zeros(3, np.float32))
    )
    interpreter.allocate_tensors()
    names = [operator["op_name"] for operator in interpreter._get_ops_details()]
    assert names.count("DELEGATE") == 1


def test_a_quantized_head_answers_as_the_float_one(
    levelled: bytes, images: list[Array], run: Run, quantize: Quantize, tmp_path: Path
) -> None:
    random = np.random.default_rng(2)
    rows = np.concatenate([run(levelled, {"image": image})["features"] for image in images])
    weights = (random.normal(size=(rows.shape[1], 3)) / (rows.std(axis=0)[:, None] + 1) / 50).astype(np.float32)
    joined = attach_head(levelled, weights, -(rows.mean(axis=0) @ weights).astype(np.float32))
    (tmp_path / "float.tflite").write_bytes(joined)
    (tmp_path / "int8.tflite").write_bytes(quantize(joined, "static_wi8_ai8"))
    exact, rounded = (predict_arrays(tmp_path / f"{name}.tflite", images) for name in ("float", "int8"))
    np.testing.assert_allclose(rounded, exact, atol=0.1)


def test_a_trunk_without_maps_comes_back_as_it_is() -> None:
    assert with_levels(tiny_features()) == tiny_features()


def test_operators_keep_the_order_that_they_run_in(backbone: bytes, levelled: bytes) -> None:
    before = [operator.name for operator in read(backbone).operators]
    after = [operator.name for operator in read(levelled).operators]
    kept = iter(after)
    assert all(name in kept for name in before)


def test_a_damaged_file_is_a_usage_error(backbone: bytes) -> None:
    with pytest.raises(UsageError, match="not a usable"):
        with_levels(backbone[:4000])
