"""ResNet, ShuffleNet V2 and MNASNet as torchvision built them: its padding, its epsilon, its module names.

A layer carries the path of the torch module it stands for (``layer1.0.conv1``), so that a ``.pth`` file's tensors find
their layer by name alone.
"""

import keras
from keras import layers, ops

from advisor.catalog.graph import Tensor, divisible, image_input, pooled_classifier

_BATCH_NORM_EPSILON = 1e-5  # torch.nn.BatchNorm2d's default

# Table 1 of the paper of ResNet: blocks of each of the four stages, by depth.
_RESNET_BLOCKS = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3)}
_RESNET_WIDTHS = (64, 128, 256, 512)
_RESNET_EXPANSION = 4

# Table 5 of the paper of ShuffleNet V2: channels of stages 2 to 4 and of the last convolution, by width.
_SHUFFLENET_CHANNELS = {
    0.5: (48, 96, 192, 1024),
    1.0: (116, 232, 464, 1024),
    1.5: (176, 352, 704, 1024),
    2.0: (244, 488, 976, 2048),
}
_SHUFFLENET_REPEATS = (4, 8, 4)

# Figure 7 of the paper of MNASNet, without its SE blocks: the channels of the stem, of the first separable convolution
# and of the six stacks; then kernel, stride, expansion and repeats of each stack.
_MNASNET_CHANNELS = (32, 16, 24, 40, 80, 96, 192, 320)
_MNASNET_STACKS = ((3, 2, 3, 3), (5, 2, 3, 3), (5, 2, 6, 3), (3, 1, 6, 2), (5, 2, 6, 4), (3, 1, 6, 1))


def resnet(input_size: int, classes: int, depth: int) -> keras.Model:
    """Build a ResNet (https://arxiv.org/abs/1512.03385) of 18, 34 or 50 layers.

    ResNet-50 halves the image in the 3x3 convolution of a block (often called v1.5), where the paper and Keras'
    applications do it in the first 1x1; Keras' also keeps biases and was trained on BGR, so it is another network.

    Raises:
        ValueError: no network of that depth.
    """
    if depth not in _RESNET_BLOCKS:
        raise ValueError(f"ResNet has {', '.join(map(str, _RESNET_BLOCKS))} layers, not {depth}")
    image = image_input(input_size)
    x = batch_norm(convolution(image, _RESNET_WIDTHS[0], 7, 2, "conv1"), "bn1", relu=True)
    x = max_pool(x, "maxpool")
    block = _bottleneck if depth >= 50 else _basic
    for stage, (width, blocks) in enumerate(zip(_RESNET_WIDTHS, _RESNET_BLOCKS[depth], strict=True)):
        for index in range(blocks):
            stride = 2 if stage and not index else 1
            x = block(x, width, stride, f"layer{stage + 1}.{index}")
    return pooled_classifier(image, x, classes, "fc")


def _basic(x: Tensor, width: int, stride: int, name: str) -> Tensor:
    """Two 3x3 convolutions beside a shortcut."""
    y = batch_norm(convolution(x, width, 3, stride, f"{name}.conv1"), f"{name}.bn1", relu=True)
    y = batch_norm(convolution(y, width, 3, 1, f"{name}.conv2"), f"{name}.bn2", relu=False)
    return _with_shortcut(y, x, stride, name)


def _bottleneck(x: Tensor, width: int, stride: int, name: str) -> Tensor:
    """1x1, 3x3, 1x1 beside a shortcut; the 3x3 carries the stride."""
    y = batch_norm(convolution(x, width, 1, 1, f"{name}.conv1"), f"{name}.bn1", relu=True)
    y = batch_norm(convolution(y, width, 3, stride, f"{name}.conv2"), f"{name}.bn2", relu=True)
    y = batch_norm(convolution(y, width * _RESNET_EXPANSION, 1, 1, f"{name}.conv3"), f"{name}.bn3", relu=False)
    return _with_shortcut(y, x, stride, name)


def _with_shortcut(y: Tensor, x: Tensor, stride: int, name: str) -> Tensor:
    filters = y.shape[-1]
    if stride != 1 or x.shape[-1] != filters:
        x = batch_norm(convolution(x, filters, 1, stride, f"{name}.downsample.0"), f"{name}.downsample.1", relu=False)
    return layers.ReLU(name=f"{name}.relu")(layers.Add(name=f"{name}.add")([y, x]))


def shufflenet_v2(input_size: int, classes: int, width: float) -> keras.Model:
    """Build ShuffleNet V2 (https://arxiv.org/abs/1807.11164) at width 0.5, 1.0, 1.5 or 2.0.

    Raises:
        ValueError: no such width was published.
    """
    if width not in _SHUFFLENET_CHANNELS:
        raise ValueError(f"ShuffleNet V2 has widths {', '.join(map(str, _SHUFFLENET_CHANNELS))}, not {width}")
    *stages, last = _SHUFFLENET_CHANNELS[width]
    image = image_input(input_size)
    x = batch_norm(convolution(image, 24, 3, 2, "conv1.0"), "conv1.1", relu=True)
    x = max_pool(x, "maxpool")
    for index, (channels, repeats) in enumerate(zip(stages, _SHUFFLENET_REPEATS, strict=True)):
        x = _stage(x, channels, repeats, f"stage{index + 2}")
    x = batch_norm(convolution(x, last, 1, 1, "conv5.0"), "conv5.1", relu=True)
    return pooled_classifier(image, x, classes, "fc")


def _stage(x: Tensor, channels: int, repeats: int, name: str) -> Tensor:
    """Return one unit that halves the image, then units that keep its size."""
    half = channels // 2
    left = batch_norm(depthwise(x, 3, 2, f"{name}.0.branch1.0"), f"{name}.0.branch1.1", relu=False)
    left = batch_norm(convolution(left, half, 1, 1, f"{name}.0.branch1.2"), f"{name}.0.branch1.3", relu=True)
    x = shuffled(left, _branch(x, half, 2, f"{name}.0.branch2"), f"{name}.0")
    for unit in range(1, repeats):
        left, right = ops.split(x, 2, axis=-1)
        x = shuffled(left, _branch(right, half, 1, f"{name}.{unit}.branch2"), f"{name}.{unit}")
    return x


def _branch(x: Tensor, filters: int, stride: int, name: str) -> Tensor:
    """Pointwise, depthwise, pointwise."""
    x = batch_norm(convolution(x, filters, 1, 1, f"{name}.0"), f"{name}.1", relu=True)
    x = batch_norm(depthwise(x, 3, stride, f"{name}.3"), f"{name}.4", relu=False)
    return batch_norm(convolution(x, filters, 1, 1, f"{name}.5"), f"{name}.6", relu=True)


def shuffled(left: Tensor, right: Tensor, name: str) -> Tensor:
    """Return both halves with their channels interleaved.

    Height and width are one axis while the channels change places: the transpose stays four-dimensional, which more
    accelerators take than the five dimensions of the usual form.
    """
    x = layers.Concatenate(name=f"{name}.concat")([left, right])
    _, height, width, channels = x.shape
    x = layers.Reshape((height * width, 2, channels // 2), name=f"{name}.groups")(x)
    x = layers.Permute((1, 3, 2), name=f"{name}.interleave")(x)
    return layers.Reshape((height, width, channels), name=f"{name}.shuffled")(x)


def mnasnet(input_size: int, classes: int, width: float) -> keras.Model:
    """Build MNASNet-B1 (https://arxiv.org/abs/1807.11626); ``width`` scales every depth but the last convolution's.

    The B1 network has no squeeze-and-excite; TensorFlow's hosted MnasNet files are of the same shape.

    Raises:
        ValueError: the width is not positive.
    """
    if width <= 0:
        raise ValueError(f"a width is positive, not {width}")
    stem, first, *depths = (divisible(channels * width) for channels in _MNASNET_CHANNELS)
    image = image_input(input_size)
    x = batch_norm(convolution(image, stem, 3, 2, "layers.0"), "layers.1", relu=True)
    x = batch_norm(depthwise(x, 3, 1, "layers.3"), "layers.4", relu=True)
    x = batch_norm(convolution(x, first, 1, 1, "layers.6"), "layers.7", relu=False)
    for index, (depth, (kernel, stride, expansion, repeats)) in enumerate(zip(depths, _MNASNET_STACKS, strict=True)):
        name = f"layers.{index + 8}"
        x = _inverted_residual(x, depth, kernel, stride, expansion, f"{name}.0")
        for repeat in range(1, repeats):
            y = _inverted_residual(x, depth, kernel, 1, expansion, f"{name}.{repeat}")
            x = layers.Add(name=f"{name}.{repeat}.add")([y, x])
    x = batch_norm(convolution(x, 1280, 1, 1, "layers.14"), "layers.15", relu=True)
    return pooled_classifier(image, x, classes, "classifier.1")


def _inverted_residual(x: Tensor, filters: int, kernel: int, stride: int, expansion: int, name: str) -> Tensor:
    """Widen, filter each channel, narrow; no activation after the last."""
    middle = x.shape[-1] * expansion
    x = batch_norm(convolution(x, middle, 1, 1, f"{name}.layers.0"), f"{name}.layers.1", relu=True)
    x = batch_norm(depthwise(x, kernel, stride, f"{name}.layers.3"), f"{name}.layers.4", relu=True)
    return batch_norm(convolution(x, filters, 1, 1, f"{name}.layers.6"), f"{name}.layers.7", relu=False)


def convolution(x: Tensor, filters: int, kernel: int, stride: int, name: str) -> Tensor:
    """Return a convolution without bias, padded by half its kernel, like ``padding=kernel // 2`` in torch."""
    x, padding = _padded(x, kernel, stride, name)
    return layers.Conv2D(filters, kernel, stride, padding=padding, use_bias=False, name=name)(x)


def depthwise(x: Tensor, kernel: int, stride: int, name: str) -> Tensor:
    """Return the depthwise form of :func:`convolution`."""
    x, padding = _padded(x, kernel, stride, name)
    return layers.DepthwiseConv2D(kernel, stride, padding=padding, use_bias=False, name=name)(x)


def batch_norm(x: Tensor, name: str, relu: bool) -> Tensor:
    """Return ``x`` after batch normalization, then after ReLU where ``relu``."""
    x = layers.BatchNormalization(epsilon=_BATCH_NORM_EPSILON, name=name)(x)
    return layers.ReLU(name=f"{name}.relu")(x) if relu else x


def max_pool(x: Tensor, name: str) -> Tensor:
    """Pool 3x3 at stride 2 with one row of padding; ``x`` comes from a ReLU, so that zeros are neutral."""
    x = layers.ZeroPadding2D(1, name=f"{name}.pad")(x)
    return layers.MaxPooling2D(3, 2, name=name)(x)


def _padded(x: Tensor, kernel: int, stride: int, name: str) -> tuple[Tensor, str]:
    # At stride 1 TensorFlow's 'same' pads as torch does; at stride 2 it pads the far side only.
    if kernel == 1 or stride == 1:
        return x, "same"
    return layers.ZeroPadding2D(kernel // 2, name=f"{name}.pad")(x), "valid"
