import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from advisor.compression import compare_layers, recipe
from advisor.compression._diagnosis.equalization import fit_factors
from advisor.compression._diagnosis.explanations import explain_loss
from advisor.compression._diagnosis.pairs import pair_operators, shorten_name
from advisor.core import Diagnosis, UsageError
from advisor.engine._diagnosis import find_fast_kernels
from advisor.tflite import Model, cut_postprocess, read, unpack
from tests.builders import must_fail, present
from tests.detectors import SIDE, detector_file
from tests.measurement import small_models
from tests.tables import with_cases
from tests.tflite.graphs import with_constant

SOURCE = "photographs"
RANDOM = np.random.default_rng(0)
KERNEL = RANDOM.standard_normal((16, 3, 3, 8))
FACTORS = RANDOM.uniform(1.2, 8.0, 16)


def _against(folder: Path, data: bytes, quantized: bytes, images: np.ndarray) -> Diagnosis:
    (folder / "float.tflite").write_bytes(data)
    (folder / "quantized.tflite").write_bytes(quantized)
    return compare_layers(folder / "quantized.tflite", folder / "float.tflite", images, SOURCE, find_fast_kernels, 60)


def test_a_file_against_itself_has_no_noise(tmp_path: Path, float_model: bytes, photographs: np.ndarray) -> None:
    found = _against(tmp_path, float_model, float_model, photographs[:3])
    assert found.agreement == 1
    assert found.output_snr_db is None
    assert all(layer.snr_db is None and layer.own_snr_db is None for layer in found.layers)
    assert "sound" in found.verdict[-1]


def test_detectors_are_compared_without_their_post_processing(tmp_path: Path) -> None:
    cells, made = detector_file(tmp_path / "cells.tflite"), tmp_path / "int8.tflite"
    images = np.random.default_rng(0).uniform(-1, 1, (12, SIDE, SIDE, 3)).astype(np.float32)
    raw, process = cut_postprocess(cells.read_bytes())
    made.write_bytes(process.put_back(recipe("int8").apply(raw, images)))
    found = compare_layers(made, cells, images[:3], SOURCE, find_fast_kernels, 60)
    assert found.agreement == 1
    assert present(found.output_snr_db) > 25
    assert {layer.operator for layer in found.layers} == {"CONV_2D", "RESHAPE", "LOGISTIC"}


def test_int8_layers_stand_well_by_themselves(tmp_path: Path, float_model: bytes, photographs: np.ndarray) -> None:
    found = _against(tmp_path, float_model, recipe("int8").apply(float_model, photographs), photographs[:6])
    working = [layer for layer in found.layers if layer.operator in ("CONV_2D", "DEPTHWISE_CONV_2D")]
    assert len(working) == 5
    assert all(layer.own_snr_db is not None and layer.own_snr_db > 25 for layer in working)
    assert all(layer.per_channel and layer.range is not None and layer.steps is not None for layer in working)
    json.dumps(found.to_json(), allow_nan=False)


def test_one_scale_for_unlike_channels_is_named(tmp_path: Path, float_model: bytes, photographs: np.ndarray) -> None:
    def widen(kernel: np.ndarray) -> None:
        kernel[..., 17] *= 500

    data = with_constant(float_model, 1, 1, widen)
    found = _against(tmp_path, data, recipe("int8_per_tensor").apply(data, photographs), photographs[:6])
    layer = next(layer for layer in found.layers if layer.index == 1)
    assert layer.kernel.channel == 17
    assert layer.kernel.ratio > 20
    assert layer.per_channel is False
    assert present(layer.own_snr_db) < 25
    assert "channel 17's weights" in layer.cause
    assert any("one scale for all channels" in sentence for sentence in found.verdict)


def test_a_lost_bias_is_named(tmp_path: Path, float_model: bytes, photographs: np.ndarray) -> None:
    def nothing(kernel: np.ndarray) -> None:
        kernel[5] = 1e-12

    def two(bias: np.ndarray) -> None:
        bias[5] = 2.0

    dead = with_constant(with_constant(float_model, 0, 1, nothing), 0, 2, two)
    plain = small_models.quantized(dead, tmp_path, 32)
    layer = _against(tmp_path, dead, plain, photographs[:4]).layers[0]
    assert layer.lost == (5,)
    assert "bias of channel 5 is lost" in layer.cause


@pytest.mark.parametrize(("share", "advice"), [(0.5, ": rounded takes out none"), (0.8, ": pruned_50 takes out fewer")])
def test_of_a_pruned_layer_the_share_that_was_taken_out_is_said(
    tmp_path: Path, float_model: bytes, photographs: np.ndarray, share: float, advice: str
) -> None:
    def prune(kernel: np.ndarray) -> None:
        kernel[np.abs(kernel) < np.quantile(np.abs(kernel), share)] = 0

    found = _against(tmp_path, float_model, with_constant(float_model, 2, 1, prune), photographs[:3])
    layer = next(layer for layer in found.layers if layer.index == 2)
    assert layer.zeros == pytest.approx(share, abs=0.01)
    assert f"{layer.zeros:.0%} of its weights were taken out" in layer.cause
    assert advice in layer.cause
    assert not any("coarse" in sentence or "qat_int8" in sentence for sentence in found.verdict)


def test_few_values_of_a_clustered_layer_are_said(tmp_path: Path, float_model: bytes, photographs: np.ndarray) -> None:
    def cluster(kernel: np.ndarray) -> None:
        kernel[:] = np.where(kernel > 0, 0.3, -0.1)

    found = _against(tmp_path, float_model, with_constant(float_model, 2, 1, cluster), photographs[:3])
    layer = next(layer for layer in found.layers if layer.index == 2)
    assert layer.few == 2
    assert layer.cause.startswith("only 2 different weights are left")


@with_cases
def test_rounded_weights_and_those_of_few_bits_are_neither_pruned_nor_clustered(
    tmp_path: Path, float_model: bytes, photographs: np.ndarray, form: str, weights: str, reason: str
) -> None:
    found = _against(tmp_path, float_model, recipe(form).apply(float_model, photographs), photographs[:2])
    layer = replace(found.layers[2], own_snr_db=20.0)
    assert layer.weights == weights
    assert reason + (f"{layer.few} values" if form == "rounded" else "") in explain_loss(layer)


def test_operators_that_fall_back_are_named(tmp_path: Path) -> None:
    data = small_models.swish_net()
    images = np.random.default_rng(0).uniform(-1, 1, (3, 64, 64, 3)).astype(np.float32)
    found = _against(tmp_path, data, small_models.quantized(data, tmp_path, 64), images)
    refused = [layer for layer in found.layers if layer.refused]
    assert {"HARD_SWISH"} <= {layer.operator for layer in refused}
    assert any("HARD_SWISH" in sentence for sentence in found.verdict)


def test_values_out_of_the_calibrated_range_are_counted_and_time_ends_it_after_one_image_at_least(
    tmp_path: Path, float_model: bytes, photographs: np.ndarray
) -> None:
    for name, data in (("a", float_model), ("b", recipe("int8").apply(float_model, photographs))):
        (tmp_path / name).write_bytes(data)
    assert compare_layers(tmp_path / "b", tmp_path / "a", photographs, SOURCE, find_fast_kernels, 0).images == 1
    narrow = recipe("int8").apply(float_model, photographs * 0.05)
    found = _against(tmp_path, float_model, narrow, photographs[::20] * 4)
    assert max(layer.clipped for layer in found.layers) > 0.05
    assert any("fall out of the range" in sentence for sentence in found.verdict)


def test_other_shapes_and_a_quantized_origin_fail(tmp_path: Path, float_model: bytes, photographs: np.ndarray) -> None:
    with pytest.raises(UsageError, match="was not made from the other"):
        _against(tmp_path, small_models.classifier(64), recipe("int8").apply(float_model, photographs), photographs)
    quantized = recipe("int8").apply(float_model, photographs)
    must_fail(UsageError, "is quantized itself", _against, tmp_path, quantized, quantized, photographs)


@with_cases
def test_a_short_name_tells_the_layer(name: str, short: str) -> None:
    assert shorten_name(name) == short


@pytest.mark.parametrize("form", ["int8", "int8_float_io", "dynamic_int8", "weight_int8", "int16x8"])
def test_every_operator_finds_its_own(float_model: bytes, photographs: np.ndarray, form: str) -> None:
    reference, quantized = read(float_model), read(recipe(form).apply(float_model, photographs))
    found = pair_operators(quantized, reference)
    assert [pair.reference for pair in found] == list(range(len(reference.operators)))
    assert all(_kind(quantized, pair.quantized) == _kind(reference, pair.reference) for pair in found)


def test_operators_are_matched_by_order_where_the_names_are_gone(float_model: bytes, photographs: np.ndarray) -> None:
    tables = unpack(recipe("int8_float_io").apply(float_model, photographs))
    for place, tensor in enumerate(tables.subgraphs[0].tensors):
        tensor.name = f"t{place}".encode()
    reference = read(float_model)
    found = pair_operators(read(tables.pack()), reference)
    assert [pair.reference for pair in found] == list(range(len(reference.operators)))


def _kind(model: Model, index: int) -> str:
    return model.operators[index].name


@pytest.mark.parametrize("axis", [0, 3])
def test_factors_are_found_through_rounding(axis: int) -> None:
    kernel = KERNEL if axis == 0 else np.moveaxis(KERNEL, 0, 3)
    shape = [1] * 4
    shape[axis] = -1
    stored = np.rint(kernel * FACTORS.reshape(shape) * 20) / 20
    found = fit_factors(kernel, stored, axis)
    np.testing.assert_allclose(present(found), FACTORS, rtol=0.02)


def test_rounding_alone_is_no_factor() -> None:
    assert fit_factors(KERNEL, np.rint(KERNEL * 4) / 4, 0) is None


def test_a_channel_without_weights_is_told_by_its_bias_and_what_is_no_multiple_keeps_the_factor_one() -> None:
    kernel, biases = KERNEL.copy(), np.full(16, 2.0)
    kernel[5] = 1e-9
    stored = kernel * FACTORS.reshape(-1, 1, 1, 1)
    stored[5] = 1e-3
    found = fit_factors(kernel, stored, 0, biases * FACTORS, biases)
    np.testing.assert_allclose(found, FACTORS, rtol=0.02)
    stored = KERNEL * FACTORS.reshape(-1, 1, 1, 1)
    stored[3] = RANDOM.standard_normal((3, 3, 8))
    found = fit_factors(KERNEL, stored, 0)
    assert found[3] == 1
