"""Networks that train faster give the same outputs and gradients."""

from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.integration


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize(
    ("side", "kernel", "stride"), [(9, 5, 1), (9, 5, 2), (10, 5, 2), (7, 7, 1), (8, 4, 3), (6, 3, 1)]
)
def test_depthwise_has_the_gradients_of_tensorflow(side: int, kernel: int, stride: int, padding: str) -> None:
    import tensorflow as tf

    from advisor.training._convolution import convolve_depthwise

    draw = np.random.default_rng(0)
    maps = tf.constant(draw.normal(size=(3, side, side, 4)), tf.float32)
    weights = tf.constant(draw.normal(size=(kernel, kernel, 4, 2)), tf.float32)

    def gradients(convolution: Any) -> list[Any]:
        with tf.GradientTape() as tape:
            tape.watch([maps, weights])
            found = convolution()
            factors = tf.cos(tf.range(tf.size(found), dtype=tf.float32) * 0.1)
            loss = tf.reduce_sum(found * tf.reshape(factors, found.shape))
        return [found, *tape.gradient(loss, [maps, weights])]

    own = gradients(lambda: convolve_depthwise(maps, weights, (stride, stride), padding, (1, 1)))
    theirs = gradients(lambda: tf.nn.depthwise_conv2d(maps, weights, (1, stride, stride, 1), padding))
    for one, other in zip(own, theirs, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-4)


def _network() -> Any:
    """Return a network with each kind of BatchNorm behind a convolution, a sum of branches, and a nested model."""
    import keras

    layers = keras.layers
    image = keras.Input((12, 12, 3))
    first = layers.Conv2D(6, 3, strides=2, padding="same", use_bias=True, bias_initializer="random_normal")(image)
    normal = layers.BatchNormalization()(first)
    inner = keras.Input((6, 6, 6))
    deep = layers.DepthwiseConv2D(5, padding="same", use_bias=False)(inner)
    nested = keras.Model(inner, layers.ReLU(6.0)(layers.BatchNormalization(scale=False)(deep)))
    again = layers.BatchNormalization(center=False)(layers.Conv2D(6, 1)(nested(layers.ReLU(6.0)(normal))))
    both = layers.Add()([again, first])  # the first convolution is read without its BatchNorm, too
    model = keras.Model(image, layers.GlobalAveragePooling2D()(layers.BatchNormalization()(both)))
    draw = np.random.default_rng(1)
    for weight in model.weights:
        shift = draw.random(weight.shape) - 0.3 if len(weight.shape) > 1 else 1
        weight.assign(draw.uniform(0.5, 1.5, weight.shape) * shift)
    return model


def test_a_folded_network_has_the_outputs_and_gradients_of_the_network() -> None:
    import tensorflow as tf

    from advisor.training._convolution import fold_norms

    model = _network()
    images = np.random.default_rng(2).normal(size=(4, 12, 12, 3)).astype(np.float32)
    found = []
    for each in (model, fold_norms(model)):
        with tf.GradientTape() as tape:
            outputs = each(images, training=False)
            loss = tf.reduce_sum(outputs * outputs)
        found.append([outputs, *tape.gradient(loss, [weight.value for weight in model.trainable_weights])])
    assert all(np.abs(np.asarray(each)).max() > 0 for each in found[0])
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-3)


def test_only_a_live_batch_norm_takes_the_statistics_of_a_batch() -> None:
    import keras

    from advisor.training._convolution import fold_norms

    model = _network()
    norms = [layer for layer in model.layers if isinstance(layer, keras.layers.BatchNormalization)]
    before = [np.array(layer.moving_mean) for layer in norms]
    fold_norms(model, norms[1:2])(np.random.default_rng(3).normal(size=(4, 12, 12, 3)), training=False)
    moved = [not np.array_equal(layer.moving_mean, old) for layer, old in zip(norms, before, strict=True)]
    assert moved == [False, True, False]


def test_a_folded_network_follows_the_weights_of_the_network() -> None:
    from advisor.training._convolution import fold_norms

    model = _network()
    copy, images = fold_norms(model), np.ones((1, 12, 12, 3), np.float32)
    before = np.asarray(copy(images, training=False))
    model.set_weights([1.5 * weight for weight in model.get_weights()])
    assert np.abs(np.asarray(copy(images, training=False)) - before).max() > 0.01
    np.testing.assert_allclose(copy(images, training=False), model(images, training=False), rtol=1e-4)


def test_no_convolution_of_a_folded_network_is_followed_by_a_batch_norm() -> None:
    import keras

    from advisor.training._convolution import fold_norms

    kept = [each for each in fold_norms(_network()).layers if isinstance(each, keras.layers.BatchNormalization)]
    assert len(kept) == 1  # the one behind the sum
