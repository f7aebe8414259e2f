"""Build networks of few kinds of blocks: MobileNet, MNASNet, ResNet, ShuffleNet and others.

They are MobileNet V1 and V2, EfficientNet-Lite, MNASNet, SqueezeNet, ResNet and ShuffleNet V2.
Names of layers are an interface, as weights are found by them. Layers of MobileNet carry the names
of Keras' own implementation, so its weight files fit. Layers of MNASNet, ResNet and ShuffleNet
carry the paths of torchvision's modules (``layer1.0.conv1``), so that a ``.pth`` file's tensors
find their layer by name alone. Names and arguments of the functions are keys of cards. Where
Keras pads by hand before a stride, these graphs say ``same``, which gives the same numbers for
even sizes with fewer operators. A change of a graph needs a new ``CONVERT_VERSION``
(``catalog/_convert.py``).
"""

from collections.abc import Sequence
from math import ceil
from typing import Literal

import keras
from keras import layers, ops

from advisor.catalog._architectures.convolutions import Convolutions
from advisor.catalog._graph import (
    Tensor,
    close_with_classifier,
    make_image_input,
    make_network,
    round_channels,
)

# Output channels at width 1 and stride of the separable blocks (table 1 of arXiv 1704.04861).
_V1_BLOCKS = (
    (64, 1),
    (128, 2),
    (128, 1),
    (256, 2),
    (256, 1),
    (512, 2),
    *((512, 1),) * 5,
    (1024, 2),
    (1024, 1),
)

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

# EfficientNet-Lite: kernel, repeats, output channels, expansion and first stride at width and
# depth 1.
_LITE_STAGES = (
    (3, 1, 16, 1, 1),
    (3, 2, 24, 6, 2),
    (5, 2, 40, 6, 2),
    (3, 3, 80, 6, 2),
    (5, 3, 112, 6, 1),
    (5, 4, 192, 6, 2),
    (3, 1, 320, 6, 1),
)

# Figure 7 of the paper of MNASNet, without its SE blocks: the channels of the stem, of the first
# separable convolution and of the six stacks; then kernel, stride, expansion and repeats of each
# stack.
_MNASNET_CHANNELS = (32, 16, 24, 40, 80, 96, 192, 320)
_MNASNET_STACKS = (
    (3, 2, 3, 3),
    (5, 2, 3, 3),
    (5, 2, 6, 3),
    (3, 1, 6, 2),
    (5, 2, 6, 4),
    (3, 1, 6, 1),
)

# SqueezeNet: channels of the squeeze layer of fire2..fire9; each expand layer has four times as
# many.
_SQUEEZE = (16, 16, 32, 32, 48, 48, 64, 64)
# By version: channels and kernel of the first convolution, and the fire modules before a pooling.
_STEMS = {"1.0": (96, 7, (4, 8)), "1.1": (64, 3, (3, 5))}

# Table 1 of the paper of ResNet: blocks of each of the four stages, by depth.
_RESNET_BLOCKS = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3)}
_RESNET_WIDTHS = (64, 128, 256, 512)
_RESNET_EXPANSION = 4

# Table 5 of the paper of ShuffleNet V2: channels of stages 2 to 4 and of the last convolution, by
# width.
_SHUFFLENET_CHANNELS = {
    0.5: (48, 96, 192, 1024),
    1.0: (116, 232, 464, 1024),
    1.5: (176, 352, 704, 1024),
    2.0: (244, 488, 976, 2048),
}
_SHUFFLENET_REPEATS = (4, 8, 4)

TORCH = Convolutions(1e-5, limit=None, pad=".pad", pointwise="same")
"""As torchvision built them, with the default epsilon of torch.nn.BatchNorm2d."""


def mobilenet_v1(input_size: int, classes: int, width: float = 1.0) -> keras.Model:
    """Build MobileNet V1 (https://arxiv.org/abs/1704.04861) at ``width``.

    Every channel count is multiplied by ``width``.
    """
    convolved = Convolutions()
    image = make_image_input(input_size)
    x = convolved(image, int(32 * width), 3, 2, "conv1", "conv1_bn", "conv1_relu")
    for index, (channels, stride) in enumerate(_V1_BLOCKS, start=1):
        for name, filters, kernel, step in (
            ("dw", 0, 3, stride),
            ("pw", int(channels * width), 1, 1),
        ):
            name = f"conv_{name}_{index}"
            x = convolved(x, filters, kernel, step, name, f"{name}_bn", f"{name}_relu")
    return close_with_classifier(image, x, classes)


def mobilenet_v2(
    input_size: int,
    classes: int,
    width: float = 1.0,
    padding: Literal["same", "symmetric"] = "same",
    batch_norm_epsilon: float = 1e-3,
) -> keras.Model:
    """Build MobileNet V2 (https://arxiv.org/abs/1801.04381) at ``width``.

    ``symmetric`` padding and an epsilon of 1e-5 are torchvision's variant.
    """
    if padding not in ("same", "symmetric"):
        raise ValueError(f"padding '{padding}' is neither 'same' nor 'symmetric'")
    pad = "_pad" if padding == "symmetric" else ""
    convolved = Convolutions(batch_norm_epsilon, 0.999, pad=pad, pointwise="same")
    image = make_image_input(input_size)
    x = convolved(image, round_channels(32 * width), 3, 2, "Conv1", "bn_Conv1", "Conv1_relu")
    index = 0
    for expansion, channels, repeats, first_stride in _V2_STAGES:
        for repeat in range(repeats):
            prefix = f"block_{index}_" if index else "expanded_conv_"
            expand = (f"{prefix}expand", f"{prefix}expand_BN", f"{prefix}expand_relu")
            depthwise = (f"{prefix}depthwise", f"{prefix}depthwise_BN", f"{prefix}depthwise_relu")
            # The projection is linear: it has no activation.
            project = (f"{prefix}project", f"{prefix}project_BN")
            stride = 1 if repeat else first_stride
            filters = round_channels(channels * width)
            y = convolved.add_inverted_residual(
                x, filters, 3, stride, expansion, [expand, depthwise, project]
            )
            if stride == 1 and x.shape[-1] == filters:
                y = layers.Add(name=f"{prefix}add")([x, y])
            x = y
            index += 1
    # A thin network keeps the width of its last layer, as the paper of MobileNet V2 has it.
    last = 1280
    if width > 1.0:
        last = round_channels(1280 * width)
    x = convolved(x, last, 1, 1, "Conv_1", "Conv_1_bn", "out_relu")
    return close_with_classifier(image, x, classes)


def efficientnet_lite(
    input_size: int, classes: int, width: float = 1.0, depth: float = 1.0
) -> keras.Model:
    """Build EfficientNet-Lite: channels times ``width``, repeats times ``depth``.

    The first and the last stage keep their repeats. EfficientNet without
    squeeze-and-excitation, ReLU6 for swish, a stem and a head of fixed
    width (tensorflow/tpu, models/official/efficientnet/lite).
    """
    convolved = Convolutions()
    image = make_image_input(input_size)
    x = convolved(image, 32, 3, 2, "conv_stem", "bn0", "relu0")
    index = 0
    for stage, (kernel, repeats, channels, expansion, first_stride) in enumerate(_LITE_STAGES):
        # The published networks grow in the stages between: stem and end cost no more.
        fixed = stage in (0, len(_LITE_STAGES) - 1)
        blocks = repeats if fixed else ceil(depth * repeats)
        for repeat in range(blocks):
            prefix = f"blocks_{index}_"
            parts = (
                ("expand_conv", "bn0", "relu0"),
                ("depthwise_conv", "bn1", "relu1"),
                ("project_conv", "bn2"),
            )
            named = []
            for part in parts:
                named.append(tuple(prefix + name for name in part))
            stride = 1 if repeat else first_stride
            filters = round_channels(channels * width)
            y = convolved.add_inverted_residual(x, filters, kernel, stride, expansion, named)
            if stride == 1 and x.shape[-1] == filters:
                y = layers.Add(name=f"{prefix}add")([y, x])
            x = y
            index += 1
    x = convolved(x, 1280, 1, 1, "conv_head", "bn1", "relu1")
    return close_with_classifier(image, x, classes)


def mnasnet(input_size: int, classes: int, width: float) -> keras.Model:
    """Build MNASNet-B1 (https://arxiv.org/abs/1807.11626) at ``width``.

    The last convolution keeps its depth. The B1 network has no squeeze-and-excite; TensorFlow's
    hosted MnasNet files are of the same shape.
    """
    if width <= 0:
        raise ValueError(f"a width is positive, not {width}")
    stem, first, *depths = (round_channels(channels * width) for channels in _MNASNET_CHANNELS)
    image = make_image_input(input_size)
    x = TORCH(image, stem, 3, 2, *_name_layers("layers", 0, 1))
    x = TORCH(x, 0, 3, 1, *_name_layers("layers", 3, 4))
    x = TORCH(x, first, 1, 1, "layers.6", "layers.7")
    stacks = zip(depths, _MNASNET_STACKS, strict=True)
    for index, (depth, (kernel, stride, expansion, repeats)) in enumerate(stacks):
        for repeat in range(repeats):
            name = f"layers.{index + 8}.{repeat}"
            inner = f"{name}.layers"
            parts = (
                _name_layers(inner, 0, 1),
                _name_layers(inner, 3, 4),
                (f"{inner}.6", f"{inner}.7"),
            )
            y = TORCH.add_inverted_residual(
                x, depth, kernel, 1 if repeat else stride, expansion, parts
            )
            x = layers.Add(name=f"{name}.add")([y, x]) if repeat else y
    x = TORCH(x, 1280, 1, 1, *_name_layers("layers", 14, 15))
    return close_with_classifier(image, x, classes, "classifier.1")


def _name_layers(module: str, convolution: int | str, norm: int | str) -> tuple[str, str, str]:
    return f"{module}.{convolution}", f"{module}.{norm}", f"{module}.{norm}.relu"


def squeezenet(input_size: int, classes: int, version: str = "1.1") -> keras.Model:
    """Build SqueezeNet, whose classifier is a convolution, then the mean.

    ``features`` is the pooled output of fire9.
    """
    if version not in _STEMS:
        raise ValueError(f"SqueezeNet has no version '{version}' (there are {', '.join(_STEMS)})")
    channels, kernel, pooled_after = _STEMS[version]
    image = make_image_input(input_size)
    x = layers.Conv2D(channels, kernel, strides=2, activation="relu", name="conv1")(image)
    x = max_pool(x, "pool1")
    for index, squeeze in enumerate(_SQUEEZE, start=2):
        fire = f"fire{index}"
        x = layers.Conv2D(squeeze, 1, activation="relu", name=f"{fire}_squeeze1x1")(x)
        expand1x1 = layers.Conv2D(4 * squeeze, 1, activation="relu", name=f"{fire}_expand1x1")(x)
        expand3x3 = layers.Conv2D(
            4 * squeeze, 3, padding="same", activation="relu", name=f"{fire}_expand3x3"
        )(x)
        x = layers.Concatenate(name=f"{fire}_concat")([expand1x1, expand3x3])
        x = max_pool(x, f"pool{index}") if index in pooled_after else x
    features = layers.GlobalAveragePooling2D(name="features")(x)
    maps = layers.Conv2D(classes, 1, activation="relu", name="conv10")(x)
    logits = layers.GlobalAveragePooling2D(name="pool10")(maps)
    return make_network(image, layers.Softmax(name="probabilities")(logits), features)


def max_pool(x: Tensor, name: str) -> Tensor:
    """Pool 3x3 at stride 2 as Caffe does, which rounds the pooled size up.

    A window may hang over the right and lower edge by one. 'same' padding is exactly that where
    the windows do not fit evenly; where they do, nothing is padded.
    """
    fits = (x.shape[1] - 3) % 2 == 0
    return layers.MaxPooling2D(3, strides=2, padding="valid" if fits else "same", name=name)(x)


def pool_padded(x: Tensor) -> Tensor:
    """Pool 3x3 at stride 2 with one row of padding.

    ``x`` comes from a ReLU, so that zeros are neutral.
    """
    padded = layers.ZeroPadding2D(1, name="maxpool.pad")(x)
    return layers.MaxPooling2D(3, 2, name="maxpool")(padded)


def resnet(input_size: int, classes: int, depth: int) -> keras.Model:
    """Build a ResNet (https://arxiv.org/abs/1512.03385) of 18, 34 or 50 layers.

    ResNet-50 halves the image in the 3x3 convolution of a block (often called v1.5), where the
    paper and Keras' applications do it in the first 1x1; Keras' also keeps biases and was trained
    on BGR, so it is another network.
    """
    if depth not in _RESNET_BLOCKS:
        raise ValueError(f"ResNet has {', '.join(map(str, _RESNET_BLOCKS))} layers, not {depth}")
    image = make_image_input(input_size)
    x = pool_padded(TORCH(image, _RESNET_WIDTHS[0], 7, 2, "conv1", "bn1", "bn1.relu"))
    stages = zip(_RESNET_WIDTHS, _RESNET_BLOCKS[depth], strict=True)
    for stage, (width, blocks) in enumerate(stages):
        # Channels and kernel of the convolutions of a block.
        basic = ((width, 3), (width, 3))
        bottleneck = ((width, 1), (width, 3), (width * _RESNET_EXPANSION, 1))
        convolutions = bottleneck if depth >= 50 else basic
        for index in range(blocks):
            # The pooling before the first stage has halved the image already.
            stride = 2 if stage and not index else 1
            x = _add_residual(x, convolutions, stride, f"layer{stage + 1}.{index}")
    return close_with_classifier(image, x, classes, "fc")


def _add_residual(
    x: Tensor, convolutions: Sequence[tuple[int, int]], stride: int, name: str
) -> Tensor:
    """Return convolutions beside a shortcut.

    The first 3x3 has the stride, and no activation is after the last.
    """
    y = x
    stride_left = stride
    for place, (filters, kernel) in enumerate(convolutions, start=1):
        names: tuple[str, ...] = _name_layers(name, f"conv{place}", f"bn{place}")
        if place == len(convolutions):
            names = names[:2]
        y = TORCH(y, filters, kernel, stride_left if kernel == 3 else 1, *names)
        if kernel == 3:
            stride_left = 1
    if stride != 1 or x.shape[-1] != filters:
        x = TORCH(x, filters, 1, stride, f"{name}.downsample.0", f"{name}.downsample.1")
    return layers.ReLU(name=f"{name}.relu")(layers.Add(name=f"{name}.add")([y, x]))


def shufflenet_v2(input_size: int, classes: int, width: float) -> keras.Model:
    """Build ShuffleNet V2 (https://arxiv.org/abs/1807.11164) at width 0.5, 1.0, 1.5 or 2.0."""
    if width not in _SHUFFLENET_CHANNELS:
        raise ValueError(
            f"ShuffleNet V2 has widths {', '.join(map(str, _SHUFFLENET_CHANNELS))}, not {width}"
        )
    *stages, last = _SHUFFLENET_CHANNELS[width]
    image = make_image_input(input_size)
    x = pool_padded(TORCH(image, 24, 3, 2, *_name_layers("conv1", 0, 1)))
    for index, (channels, repeats) in enumerate(zip(stages, _SHUFFLENET_REPEATS, strict=True)):
        for repeat in range(repeats):
            name = f"stage{index + 2}.{repeat}"
            x = _add_shuffle_unit(x, channels // 2, halves=not repeat, name=name)
    x = TORCH(x, last, 1, 1, *_name_layers("conv5", 0, 1))
    return close_with_classifier(image, x, classes, "fc")


def _add_shuffle_unit(x: Tensor, half: int, halves: bool, name: str) -> Tensor:
    """Return two branches of ``half`` the channels, one after the other.

    A unit that halves the image has convolutions in both.
    """
    if halves:
        # Both branches read all channels: each gives half of those that the unit has.
        right = x
        left = TORCH(x, 0, 3, 2, f"{name}.branch1.0", f"{name}.branch1.1")
        left = TORCH(left, half, 1, 1, *_name_layers(f"{name}.branch1", 2, 3))
    else:
        left, right = ops.split(x, 2, axis=-1)
    inner = f"{name}.branch2"
    right = TORCH(right, half, 1, 1, *_name_layers(inner, 0, 1))
    right = TORCH(right, 0, 3, 2 if halves else 1, f"{inner}.3", f"{inner}.4")
    right = TORCH(right, half, 1, 1, *_name_layers(inner, 5, 6))
    return shuffle_halves(left, right, name)


def shuffle_halves(left: Tensor, right: Tensor, name: str) -> Tensor:
    """Return both halves with their channels interleaved.

    Height and width are one axis while the channels change places: the transpose stays
    four-dimensional, which more accelerators take than the five dimensions of the usual form.
    """
    x = layers.Concatenate(name=f"{name}.concat")([left, right])
    _, height, width, channels = x.shape
    x = layers.Reshape((height * width, 2, channels // 2), name=f"{name}.groups")(x)
    x = layers.Permute((1, 3, 2), name=f"{name}.interleave")(x)
    return layers.Reshape((height, width, channels), name=f"{name}.shuffled")(x)
