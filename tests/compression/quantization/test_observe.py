from __future__ import annotations

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter

from advisor.compression.quantization.observe import Observation, Observer, observe
from advisor.core.errors import StageError
from advisor.tflite.model import read


@pytest.fixture(scope="module")
def observation(float_model: bytes, photographs: np.ndarray) -> Observation:
    return observe(float_model, photographs)


def test_every_activation_is_noted(float_model: bytes, observation: Observation) -> None:
    model = read(float_model)
    wanted = {model.subgraphs[0].inputs[0], *(index for operator in model.operators for index in operator.outputs)}
    assert set(observation.activations) == wanted
    assert all(one.means.shape == (model.tensors[at].shape[-1],) for at, one in observation.activations.items())


def test_what_is_noted_is_what_the_model_computes(
    float_model: bytes, photographs: np.ndarray, observation: Observation
) -> None:
    interpreter = Interpreter(model_content=float_model)
    interpreter.allocate_tensors()
    output = interpreter.get_output_details()[0]["index"]
    answers = []
    for image in photographs:
        interpreter.set_tensor(interpreter.get_input_details()[0]["index"], image[None])
        interpreter.invoke()
        answers.append(interpreter.get_tensor(output)[0])
    found = observation.activations[read(float_model).subgraphs[0].outputs[0]]
    np.testing.assert_allclose(found.highs, np.max(answers, axis=0), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(found.means, np.mean(answers, axis=0), rtol=1e-4, atol=1e-6)


def test_every_layer_has_the_covariance_of_what_it_sees(float_model: bytes, observation: Observation) -> None:
    model = read(float_model)
    kernels = {op.inputs[1]: op.name for op in model.operators if len(op.inputs) > 2}
    assert set(observation.moments) == set(kernels)
    for at, moments in observation.moments.items():
        shape = model.tensors[at].shape
        weights = int(np.prod(shape[1:]))
        wanted = (shape[3], shape[1] * shape[2]) if kernels[at] == "DEPTHWISE_CONV_2D" else (weights,)
        assert moments.shape == (*wanted, wanted[-1])
        np.testing.assert_allclose(moments, np.swapaxes(moments, -1, -2), atol=1e-6)
        assert np.linalg.eigvalsh(moments).min() > -1e-6


def test_what_is_made_of_an_observation_is_forgotten_with_it(float_model: bytes, photographs: np.ndarray) -> None:
    observer = Observer()
    observer(float_model, photographs[:3])
    observer.corrected["form"] = b"made"
    observer(float_model, photographs[:3])
    assert observer.corrected == {"form": b"made"}
    observer(float_model, photographs[:4])
    assert observer.corrected == {}


def test_the_same_question_is_asked_once(float_model: bytes, photographs: np.ndarray) -> None:
    observer = Observer()
    first = observer(float_model, photographs[:3])
    assert observer(float_model, photographs[:3].copy()) is first
    assert observer(float_model, photographs[:4]) is not first


def test_values_that_are_not_finite_are_refused(float_model: bytes, photographs: np.ndarray) -> None:
    with pytest.raises(StageError, match="not finite"):
        observe(float_model, np.full_like(photographs[:1], np.inf))
