"""The layer where a conversion begins to differ is found by the values that the original has."""

from __future__ import annotations

import numpy as np
import pytest

from advisor.catalog.user_models.comparison import IMAGES, OriginalLayer, crops, first_wrong
from advisor.catalog.weights.arrays import Array

RNG = np.random.default_rng(0)


def maps() -> Array:
    return RNG.normal(size=(1, 4, 6, 5)).astype(np.float32)


def chain(*inputs: tuple[str, ...]) -> list[OriginalLayer]:
    """Layers ``a``, ``b``, ... that read the given ones."""
    return [OriginalLayer(chr(ord("a") + place), "Conv", read, maps()) for place, read in enumerate(inputs)]


def in_nhwc(layer: OriginalLayer) -> Array:
    return layer.values.transpose(0, 2, 3, 1)


def test_a_right_conversion_has_no_wrong_layer() -> None:
    layers = chain((), ("a",), ("b",))
    assert first_wrong(layers, [in_nhwc(layer) for layer in layers]) is None


def test_the_first_of_the_wrong_layers_is_named() -> None:
    layers = chain((), ("a",), ("b",))
    found = first_wrong(layers, [in_nhwc(layers[0]), maps().transpose(0, 2, 3, 1), maps().transpose(0, 2, 3, 1)])
    assert found is layers[1]


def test_a_layer_inside_an_operator_of_several_is_not_wrong_if_the_last_of_them_is_right() -> None:
    layers = chain((), ("a",), ("b",))
    assert first_wrong(layers, [in_nhwc(layers[1])]) is layers[2]


def test_a_right_branch_does_not_hide_the_wrong_one() -> None:
    layers = chain((), ("a",), ("a",), ("b", "c"))
    assert first_wrong(layers, [in_nhwc(layers[0]), in_nhwc(layers[2])]) is layers[1]


def test_small_differences_do_not_count() -> None:
    (layer,) = chain(())
    assert first_wrong([layer], [in_nhwc(layer) + np.float32(1e-5)]) is None
    assert first_wrong([layer], [in_nhwc(layer) + np.float32(0.1)]) is layer


def test_the_crops_are_always_the_same_and_normalised() -> None:
    images = crops(24)
    assert images.shape == (IMAGES, 24, 24, 3)
    assert np.array_equal(images, crops(24))
    assert images.mean(axis=(1, 2, 3)) == pytest.approx(np.zeros(IMAGES), abs=1e-3)
