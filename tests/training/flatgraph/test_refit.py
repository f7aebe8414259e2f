from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest

from advisor.training import Graph, Masked, Rounded, Shared, Weight, refit_kernels, round_activation
from advisor.training._flatgraph.refitting import Refitted
from advisor.training._flatgraph.retraining import DEPTHWISE
from tests.measurement.small_models import Builder

pytestmark = pytest.mark.integration

SIDE = 16
IMAGES = np.random.default_rng(0).uniform(-1, 1, (24, SIDE, SIDE, 3)).astype(np.float32)
Floats = npt.NDArray[np.float32]
KERNEL = np.random.default_rng(0).normal(size=(4, 3, 3, 5)).astype(np.float32)


@pytest.fixture(scope="module")
def graph() -> Graph:
    build, image = Builder.with_image(SIDE)
    last = build.convolution(build.convolution(build.convolution(image, 24, 3, 2), 32, 3), 40)
    return Graph.read(build.finish({"image": image}, {"probabilities": build.head(build.mean(last), 4)}))


def _features(graph: Graph, found: dict[int, Refitted], fitted: bool) -> np.ndarray:
    """The features with kernels thinned, refitted or as they were."""
    weights: dict[int, np.ndarray] = {}
    biases = {step.inputs[1]: step.inputs[2] for step in graph.nodes if len(step.inputs) > 2}
    for index, one in found.items():
        weights[index] = one.kernel if fitted else graph.constants[index] * one.keep
        if fitted:
            weights[biases[index]] = one.bias
    return _level(graph, weights)


def _level(graph: Graph, weights: dict[int, np.ndarray]) -> np.ndarray:
    """The features of the one level that this graph has."""
    (level,) = graph.features
    return np.asarray(graph.run(IMAGES, weights)[level])


def test_the_share_asked_for_is_zero(graph: Graph) -> None:
    for one in refit_kernels(graph, list(graph.kernels)[1:-1], 0.5, IMAGES).values():
        assert one.keep.mean() == pytest.approx(0.5, abs=0.001)
        np.testing.assert_array_equal(one.kernel[one.keep == 0], 0)


def test_refitted_layers_come_nearer_to_the_whole_model_or_stay_as_they_are(graph: Graph) -> None:
    found = dict(refit_kernels(graph, list(graph.kernels)[1:-1], 0.5, IMAGES))
    whole = _level(graph, {})
    errors = [np.square(_features(graph, found, fitted) - whole).mean() for fitted in (False, True)]
    assert errors[1] < 0.5 * errors[0]
    found = dict(refit_kernels(graph, list(graph.kernels)[1:-1], 0.0, IMAGES))
    np.testing.assert_allclose(_features(graph, found, True), whole, atol=0.02 * np.abs(whole).max())


@pytest.mark.parametrize(("name", "axis"), [("CONV_2D", 0), (DEPTHWISE, 3)])
def test_a_rounded_kernel_has_255_values_a_channel(name: str, axis: int) -> None:
    rounded = np.moveaxis(np.asarray(Rounded(KERNEL, name).value()), axis, 0).reshape(KERNEL.shape[axis], -1)
    original = np.moveaxis(KERNEL, axis, 0).reshape(KERNEL.shape[axis], -1)
    steps = np.abs(original).max(axis=1, keepdims=True) / 127
    np.testing.assert_allclose(rounded / steps, np.rint(rounded / steps), atol=1e-3)
    assert (np.abs(rounded - original) <= steps / 2 + 1e-6).all()


@pytest.mark.parametrize("make", [Weight, lambda kernel: Rounded(kernel, "CONV_2D")], ids=["free", "rounded"])
def test_gradients_pass_as_if_nothing_were_rounded(make: Callable[[Floats], Weight]) -> None:
    import tensorflow as tf

    weight = make(KERNEL)
    with tf.GradientTape() as tape:
        total = tf.reduce_sum(weight.value())
    np.testing.assert_allclose(tape.gradient(total, weight.variable), np.ones_like(KERNEL))


def test_zeros_of_a_masked_kernel_stay() -> None:
    import tensorflow as tf

    keep = (np.abs(KERNEL) > 0.5).astype(np.float32)
    weight = Masked(KERNEL, keep)
    weight.variable.assign_add(tf.ones_like(weight.variable))
    np.testing.assert_array_equal(np.asarray(weight.value()) == 0, keep == 0)


def test_weights_that_share_a_value_move_together() -> None:
    places = np.random.default_rng(1).integers(0, 3, (4, 5)).astype(np.int32)
    weight = Shared(np.array([-1.0, 0.0, 2.0], np.float32), places)
    weight.variable.assign([-1.5, 0.5, 2.5])
    np.testing.assert_array_equal(np.asarray(weight.value()), np.array([-1.5, 0.5, 2.5], np.float32)[places])


def test_an_activation_is_rounded_within_its_span_and_clipped_outside() -> None:
    values = np.linspace(-2, 9, 1000, dtype=np.float32)
    found = np.asarray(round_activation(values, 0.0, 6.0))
    assert len(np.unique(found)) == 256
    np.testing.assert_allclose(found, np.clip(values, 0, 6), atol=6 / 255 / 2 + 1e-6)
    assert np.asarray(round_activation(np.zeros(1, np.float32), -0.73, 1.9))[0] == 0.0  # zero lies on a step
