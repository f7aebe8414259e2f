from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from advisor.benchmark.accuracy import predict_arrays
from advisor.compression.equalize import GREATEST, equalize
from advisor.compression.observe import Observation, observe
from tests.benchmark import small_models


def _predict(folder: Path, model: bytes, pictures: np.ndarray) -> np.ndarray:
    (folder / "model.tflite").write_bytes(model)
    return predict_arrays(folder / "model.tflite", pictures)


@pytest.fixture(scope="module")
def observation(float_model: bytes, photographs: np.ndarray) -> Observation:
    return observe(float_model, photographs)


def test_the_answers_stay(
    float_model: bytes, photographs: np.ndarray, observation: Observation, tmp_path: Path
) -> None:
    equalized, scales = equalize(float_model, observation)
    assert scales
    before, after = (_predict(tmp_path, data, photographs) for data in (float_model, equalized))
    np.testing.assert_allclose(after, before, atol=1e-5)


def test_channels_come_nearer_to_one_another(
    float_model: bytes, photographs: np.ndarray, observation: Observation
) -> None:
    equalized, scales = equalize(float_model, observation)
    after = observe(equalized, photographs)
    for index, scale in scales.items():
        before, now = (one.activations[index].highs.max(axis=0) for one in (observation, after))
        alive = before > 1e-6 * before.max()
        assert np.ptp(np.log(now[alive])) <= np.ptp(np.log(before[alive])) + 1e-6
        assert (scale >= 1).all()
        assert (scale <= GREATEST).all()


def test_the_scales_are_those_of_the_activations(
    float_model: bytes, photographs: np.ndarray, observation: Observation
) -> None:
    equalized, scales = equalize(float_model, observation)
    after, wanted = observe(equalized, photographs), observation.times(scales)
    for index in scales:
        np.testing.assert_allclose(
            after.activations[index].means, wanted.activations[index].means, rtol=1e-3, atol=1e-5
        )


def test_what_the_model_takes_and_gives_is_left_alone(float_model: bytes, observation: Observation) -> None:
    from advisor.tflite.model import read

    graph = read(float_model).subgraphs[0]
    _, scales = equalize(float_model, observation)
    assert not {*graph.inputs, *graph.outputs} & set(scales)


def test_an_operator_that_is_not_linear_stops_it(photographs: np.ndarray) -> None:
    model = small_models.swish_net(photographs.shape[1])
    _, scales = equalize(model, observe(model, photographs[:4]))
    assert scales == {}
