"""SqueezeNet 1.0 and 1.1: fire modules, no dense layer (arXiv 1602.07360, and the authors' release of 1.1)."""

from __future__ import annotations

import keras
from keras import layers

from advisor.catalog.graph import Tensor, image_input, network

# channels of the squeeze layer of fire2..fire9; each of the two expand layers has four times as many
_SQUEEZE = (16, 16, 32, 32, 48, 48, 64, 64)


# By version: channels and kernel of the first convolution, and the fire modules after which the maps are pooled.
_STEMS = {"1.0": (96, 7, (4, 8)), "1.1": (64, 3, (3, 5))}


def squeezenet(input_size: int, classes: int, version: str = "1.1") -> keras.Model:
    """Build the graph. ``features`` is the pooled output of fire9: the classifier is a convolution, then the mean.

    Raises:
        ValueError: a version that there is not.
    """
    if version not in _STEMS:
        raise ValueError(f"SqueezeNet has no version '{version}' (there are {', '.join(_STEMS)})")
    channels, kernel, pooled_after = _STEMS[version]
    image = image_input(input_size)
    x = layers.Conv2D(channels, kernel, strides=2, activation="relu", name="conv1")(image)
    x = max_pool(x, "pool1")
    for index, squeeze in enumerate(_SQUEEZE, start=2):
        x = _fire(x, squeeze, f"fire{index}")
        if index in pooled_after:
            x = max_pool(x, f"pool{index}")
    features = layers.GlobalAveragePooling2D(name="features")(x)
    maps = layers.Conv2D(classes, 1, activation="relu", name="conv10")(x)
    logits = layers.GlobalAveragePooling2D(name="pool10")(maps)
    return network(image, layers.Softmax(name="probabilities")(logits), features)


def _fire(x: Tensor, squeeze: int, name: str) -> Tensor:
    x = layers.Conv2D(squeeze, 1, activation="relu", name=f"{name}_squeeze1x1")(x)
    one = layers.Conv2D(4 * squeeze, 1, activation="relu", name=f"{name}_expand1x1")(x)
    three = layers.Conv2D(4 * squeeze, 3, padding="same", activation="relu", name=f"{name}_expand3x3")(x)
    return layers.Concatenate(name=f"{name}_concat")([one, three])


def max_pool(x: Tensor, name: str) -> Tensor:
    # Caffe rounds the pooled size up: a window may hang over the right and lower edge by one. 'same' padding is
    # exactly that where the windows do not fit evenly; where they do, nothing is padded.
    fits = (x.shape[1] - 3) % 2 == 0
    return layers.MaxPooling2D(3, strides=2, padding="valid" if fits else "same", name=name)(x)
