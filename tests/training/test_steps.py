"""Steps of a training: in parts, in bfloat16, and on a GPU where there is one."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from advisor.training._steps import Steps, find_halvable, list_gpus
from tests.builders import must_fail

pytestmark = pytest.mark.integration

IMAGES = np.random.default_rng(0).normal(size=(7, 12, 12, 3)).astype(np.float32)
WANTED = np.random.default_rng(1).normal(size=(7, 4)).astype(np.float32)
ONE_GPU = ["the first GPU"]


class Small:
    """A small network, and gradients and updates for it; ``holds`` images fit into the memory."""

    def __init__(self, holds: int = 1000) -> None:
        import keras

        from advisor.training._convolution import fold_norms

        keras.utils.set_random_seed(0)
        layers, image = keras.layers, keras.Input((12, 12, 3))
        maps = layers.ReLU()(layers.BatchNormalization()(layers.Conv2D(8, 3, strides=2)(image)))
        maps = layers.ReLU()(layers.BatchNormalization()(layers.DepthwiseConv2D(5, padding="same")(maps)))
        self.model = keras.Model(image, layers.Dense(4)(layers.GlobalAveragePooling2D()(maps)))
        self.called, self.holds, self.sizes = fold_norms(self.model), holds, list[int]()
        self.weights = [weight.value for weight in self.model.trainable_variables]

    def gradients(self, images: Any, wanted: Any) -> tuple[Any, Sequence[Any]]:
        import tensorflow as tf

        def fits(count: Any) -> Any:
            self.sizes.append(int(count))
            if count > self.holds:
                raise MemoryError  # TensorFlow makes a ResourceExhaustedError of it
            return count

        with tf.control_dependencies([tf.py_function(fits, [tf.shape(images)[0]], tf.int32)]):
            images = tf.identity(images)
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(self.called(images, training=False) - wanted))
        return loss, tape.gradient(loss, self.weights)

    def update(self, found: Sequence[Any], rate: Any) -> None:
        for weight, gradient in zip(self.weights, found, strict=True):
            weight.assign_sub(rate * gradient)

    def trained(self, steps: int, names: Sequence[str] = (), half: bool | None = False) -> list[Any]:
        """Return the losses of some steps; ``half`` None decides by time."""
        import tensorflow as tf

        made = Steps(self.gradients, self.update, find_halvable(self.model), names)
        if half is not None:
            made._compiled = made._compile_step(half)
        batch = tf.constant(IMAGES), tf.constant(WANTED)
        return [float(made.run(batch, after=(tf.constant(0.1),))) for _ in range(steps)]


def test_a_batch_that_the_memory_does_not_hold_is_computed_in_parts_with_the_same_result() -> None:
    whole, parts = Small(), Small(holds=2)
    np.testing.assert_allclose(parts.trained(3, ONE_GPU), whole.trained(3), rtol=1e-5)
    for one, other in zip(parts.model.get_weights(), whole.model.get_weights(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)
    assert parts.sizes[:2] == [7, 3]
    assert max(parts.sizes[3:]) == 2


def test_a_smaller_last_batch_needs_no_further_graph() -> None:
    small, traced = Small(), list[Any]()

    def gradients(images: Any, wanted: Any) -> tuple[Any, Sequence[Any]]:
        traced.append(images.shape[0])
        return small.gradients(images, wanted)

    steps = Steps(gradients, small.update)
    for count in (7, 3, 7):
        steps.run((IMAGES[:count], WANTED[:count]), after=(0.1,))
    assert (traced, small.sizes) == ([None], [7, 3, 7])


def test_an_image_that_the_memory_does_not_hold_ends_the_training() -> None:
    import tensorflow as tf

    must_fail(tf.errors.ResourceExhaustedError, "", Small(holds=0).trained, 1, ONE_GPU)


def test_in_bfloat16_weights_stay_float32_and_the_network_learns_as_well() -> None:
    half, whole = Small(), Small()
    losses = half.trained(20, ONE_GPU, half=True)
    exact = whole.trained(20)
    assert losses != exact
    np.testing.assert_allclose(losses, exact, rtol=0.01)
    np.testing.assert_allclose(half.model.get_weights()[0], whole.model.get_weights()[0], atol=0.01)
    assert {str(weight.dtype) for weight in half.model.weights} == {"float32"}
    assert {layer.compute_dtype for layer in half.model.layers} == {"float32"}


def test_the_precision_is_the_faster_one_and_the_log_says_so(capfd: pytest.CaptureFixture[str]) -> None:
    Small().trained(1, ONE_GPU, half=None)
    line = capfd.readouterr().err.strip().splitlines()[-1]
    assert line.startswith("trains on the first GPU in ")
    assert "ms in float32" in line


def test_a_gpu_learns_as_well_as_the_cpu() -> None:
    names = list_gpus()
    if not names:
        pytest.skip("TensorFlow sees no GPU on this machine")
    np.testing.assert_allclose(Small().trained(20, names, half=None), Small().trained(20), rtol=0.02)
