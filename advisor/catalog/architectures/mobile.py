"""MobileNet V1 and V2, EfficientNet-Lite, SqueezeNet.

Layers of MobileNet carry the names of Keras' own implementation, so its weight files fit.
Where that pads by hand before a stride, these graphs say ``same``: for even sizes the two are the same numbers, with
fewer operators.
"""

from dataclasses import dataclass
from math import ceil
from typing import Literal

import keras
from keras import layers

from advisor.catalog.graph import Tensor, divisible, image_input, network, pooled_classifier

# Output channels at width 1 and stride of the thirteen separable blocks (table 1 of arXiv 1704.04861).
_V1_BLOCKS = ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *((512, 1),) * 5, (1024, 2), (1024, 1))

# Expansion, output channels, repeats and first stride of the stages (table 2 of arXiv 1801.04381).
_V2_STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)


def mobilenet_v1(input_size: int, classes: int, width: float = 1.0) -> keras.Model:
    """Build MobileNet V1 (https://arxiv.org/abs/1704.04861) with every channel count multiplied by ``width``."""
    image = image_input(input_size)
    x = layers.Conv2D(int(32 * width), 3, strides=2, padding="same", use_bias=False, name="conv1")(image)
    x = _norm_relu(x, "conv1")
    for index, (channels, stride) in enumerate(_V1_BLOCKS, start=1):
        depthwise, pointwise = f"conv_dw_{index}", f"conv_pw_{index}"
        x = layers.DepthwiseConv2D(3, strides=stride, padding="same", use_bias=False, name=depthwise)(x)
        x = _norm_relu(x, depthwise)
        x = layers.Conv2D(int(channels * width), 1, use_bias=False, name=pointwise)(x)
        x = _norm_relu(x, pointwise)
    return pooled_classifier(image, x, classes)


def _norm_relu(x: Tensor, name: str) -> Tensor:
    x = layers.BatchNormalization(epsilon=1e-3, name=f"{name}_bn")(x)
    return layers.ReLU(6.0, name=f"{name}_relu")(x)


def mobilenet_v2(
    input_size: int,
    classes: int,
    width: float = 1.0,
    padding: Literal["same", "symmetric"] = "same",
    batch_norm_epsilon: float = 1e-3,
) -> keras.Model:
    """Build MobileNet V2 (https://arxiv.org/abs/1801.04381) at ``width``.

    ``symmetric`` padding and an epsilon of 1e-5 are torchvision's variant.

    Raises:
        ValueError: another padding.
    """
    if padding not in ("same", "symmetric"):
        raise ValueError(f"padding '{padding}' is neither 'same' nor 'symmetric'")
    blocks = _V2Blocks(padding == "symmetric", batch_norm_epsilon)
    image = image_input(input_size)
    x = blocks.convolve(image, divisible(32 * width), 3, 2, "Conv1", "bn_Conv1")
    x = layers.ReLU(6.0, name="Conv1_relu")(x)
    index = 0
    for expansion, channels, repeats, first_stride in _V2_STAGES:
        for repeat in range(repeats):
            stride = first_stride if repeat == 0 else 1
            x = blocks.inverted_residual(x, expansion, divisible(channels * width), stride, index)
            index += 1
    last = divisible(1280 * width) if width > 1.0 else 1280
    x = blocks.convolve(x, last, 1, 1, "Conv_1", "Conv_1_bn")
    return pooled_classifier(image, layers.ReLU(6.0, name="out_relu")(x), classes)


@dataclass(frozen=True)
class _V2Blocks:
    symmetric: bool
    epsilon: float

    def inverted_residual(self, x: Tensor, expansion: int, channels: int, stride: int, index: int) -> Tensor:
        prefix = f"block_{index}_" if index else "expanded_conv_"
        entered = x.shape[-1]
        y = x
        if expansion > 1:
            y = self.convolve(y, entered * expansion, 1, 1, f"{prefix}expand", f"{prefix}expand_BN")
            y = layers.ReLU(6.0, name=f"{prefix}expand_relu")(y)
        name = f"{prefix}depthwise"
        y, padding = self._padded(y, 3, stride, name)
        y = layers.DepthwiseConv2D(3, strides=stride, padding=padding, use_bias=False, name=name)(y)
        y = layers.ReLU(6.0, name=f"{name}_relu")(self._norm(y, f"{name}_BN"))
        y = self.convolve(y, channels, 1, 1, f"{prefix}project", f"{prefix}project_BN")
        return layers.Add(name=f"{prefix}add")([x, y]) if stride == 1 and entered == channels else y

    def convolve(self, x: Tensor, channels: int, kernel: int, stride: int, name: str, norm_name: str) -> Tensor:
        x, padding = self._padded(x, kernel, stride, name)
        x = layers.Conv2D(channels, kernel, strides=stride, padding=padding, use_bias=False, name=name)(x)
        return self._norm(x, norm_name)

    def _padded(self, x: Tensor, kernel: int, stride: int, name: str) -> tuple[Tensor, str]:
        # At stride 1 'same' is symmetric already; at stride 2 it pads one side only.
        if not self.symmetric or stride == 1:
            return x, "same"
        return layers.ZeroPadding2D(kernel // 2, name=f"{name}_pad")(x), "valid"

    def _norm(self, x: Tensor, name: str) -> Tensor:
        return layers.BatchNormalization(epsilon=self.epsilon, momentum=0.999, name=name)(x)


# EfficientNet-Lite0 to Lite4: EfficientNet without squeeze-and-excitation, ReLU6 for swish, a stem and a head of
# fixed width (tensorflow/tpu, models/official/efficientnet/lite).

# (kernel, repeats, output channels, expansion, first stride) at width and depth 1
_STAGES = (
    (3, 1, 16, 1, 1),
    (3, 2, 24, 6, 2),
    (5, 2, 40, 6, 2),
    (3, 3, 80, 6, 2),
    (5, 3, 112, 6, 1),
    (5, 4, 192, 6, 2),
    (3, 1, 320, 6, 1),
)


def efficientnet_lite(input_size: int, classes: int, width: float = 1.0, depth: float = 1.0) -> keras.Model:
    """Build the graph: channels times ``width`` (rounded to 8), repeats times ``depth`` but in the first and last."""
    image = image_input(input_size)
    x = layers.Conv2D(32, 3, strides=2, padding="same", use_bias=False, name="conv_stem")(image)
    x = _relu(_norm(x, "bn0"), "relu0")
    index = 0
    for stage, (kernel, repeats, channels, expansion, first_stride) in enumerate(_STAGES):
        fixed = stage in (0, len(_STAGES) - 1)
        for repeat in range(repeats if fixed else ceil(depth * repeats)):
            stride = first_stride if repeat == 0 else 1
            x = _block(x, kernel, divisible(channels * width), expansion, stride, f"blocks_{index}_")
            index += 1
    x = layers.Conv2D(1280, 1, use_bias=False, name="conv_head")(x)
    return pooled_classifier(image, _relu(_norm(x, "bn1"), "relu1"), classes)


def _block(x: Tensor, kernel: int, channels: int, expansion: int, stride: int, prefix: str) -> Tensor:
    entered = x.shape[-1]
    y = x
    if expansion > 1:
        y = layers.Conv2D(entered * expansion, 1, use_bias=False, name=f"{prefix}expand_conv")(y)
        y = _relu(_norm(y, f"{prefix}bn0"), f"{prefix}relu0")
    name = f"{prefix}depthwise_conv"
    y = layers.DepthwiseConv2D(kernel, strides=stride, padding="same", use_bias=False, name=name)(y)
    y = _relu(_norm(y, f"{prefix}bn1"), f"{prefix}relu1")
    y = layers.Conv2D(channels, 1, use_bias=False, name=f"{prefix}project_conv")(y)
    y = _norm(y, f"{prefix}bn2")
    return layers.Add(name=f"{prefix}add")([y, x]) if stride == 1 and entered == channels else y


def _norm(x: Tensor, name: str) -> Tensor:
    return layers.BatchNormalization(epsilon=1e-3, momentum=0.99, name=name)(x)


def _relu(x: Tensor, name: str) -> Tensor:
    return layers.ReLU(6.0, name=name)(x)


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
