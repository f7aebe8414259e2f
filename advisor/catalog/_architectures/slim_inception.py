"""Build Inception V1 to V4 as TF-Slim built and trained them, without auxiliary classifiers.

A layer carries the variable scope it stands for, so that a checkpoint's variables find their layer
by name: with dots for slashes (``Mixed_3b.Branch_0.Conv2d_0a_1x1``), in V3 with underscores.
Slim's batch normalization has no gamma here.
"""

import keras
from keras import layers

from advisor.catalog._architectures.slim_layers import Branch, SlimLayers
from advisor.catalog._graph import Tensor, close_with_classifier, make_image_input, make_network

_V1 = SlimLayers(renamed={"Mixed_5b.Branch_2.Conv2d_0b_3x3": "Mixed_5b.Branch_2.Conv2d_0a_3x3"})
_V2 = SlimLayers()
_V3 = SlimLayers(
    "_",
    "relu",
    {
        "Mixed_5c.Branch_1.Conv2d_0a_1x1": "Mixed_5c.Branch_1.Conv2d_0b_1x1",
        "Mixed_5c.Branch_1.Conv2d_0b_5x5": "Mixed_5c.Branch_1.Conv_1_0c_5x5",
        "Mixed_6a.Branch_0.Conv2d_1a_3x3": "Mixed_6a.Branch_0.Conv2d_1a_1x1",
        "Mixed_6a.Branch_1.Conv2d_1a_3x3": "Mixed_6a.Branch_1.Conv2d_1a_1x1",
        "Mixed_7b.Branch_1.Conv2d_0c_3x1": "Mixed_7b.Branch_1.Conv2d_0b_3x1",
    },
)
_V4 = SlimLayers()


def inception_v1(input_size: int, classes: int) -> keras.Model:
    """Build Inception V1, or GoogLeNet (https://arxiv.org/abs/1409.4842).

    With batch normalization, and with 3x3 where the paper has 5x5.
    """
    image = make_image_input(input_size)
    x = _V1.add_convolution(image, 64, 7, "Conv2d_1a_7x7", stride=2)
    x = _V1.max_pool(x, "MaxPool_2a_3x3", stride=2)
    x = _V1.add_convolution(x, 64, 1, "Conv2d_2b_1x1")
    x = _V1.add_convolution(x, 192, 3, "Conv2d_2c_3x3")
    x = _V1.max_pool(x, "MaxPool_3a_3x3", stride=2)
    x = _add_modules(
        _V1, x, ("3b", 64, 96, 128, 16, 32, 32), ("3c", 128, 128, 192, 32, 96, 64), maximum=True
    )
    x = _V1.max_pool(x, "MaxPool_4a_3x3", stride=2)
    x = _add_modules(
        _V1,
        x,
        ("4b", 192, 96, 208, 16, 48, 64),
        ("4c", 160, 112, 224, 24, 64, 64),
        ("4d", 128, 128, 256, 24, 64, 64),
        ("4e", 112, 144, 288, 32, 64, 64),
        ("4f", 256, 160, 320, 32, 128, 128),
        maximum=True,
    )
    x = _V1.max_pool(x, "MaxPool_5a_2x2", stride=2, size=2)
    x = _add_modules(
        _V1,
        x,
        ("5b", 256, 160, 320, 32, 128, 128),
        ("5c", 384, 192, 384, 48, 128, 128),
        maximum=True,
    )
    return _close_with_convolution(image, x, classes, "Logits.Conv2d_0c_1x1")


def _add_modules(
    slim: SlimLayers,
    x: Tensor,
    *rows: tuple[str, int, int, int, int, int, int],
    maximum: bool = False,
) -> Tensor:
    """Return modules by rows of table 1 of the paper of V1, or of figure 5 of that of V2."""
    for place, filters1, reduce3, three, reduce5, five, pooled in rows:
        # V2 has two 3x3 convolutions where the paper of V1 has one of 5x5, Slim's V1 one of 3x3.
        last = ((five, 3),) * (1 if slim is _V1 else 2)
        branches = ((filters1, 1),), ((reduce3, 1), (three, 3)), ((reduce5, 1), *last)
        x = slim.add_module(x, f"Mixed_{place}", branches, pooled, maximum)
    return x


def inception_v2(input_size: int, classes: int) -> keras.Model:
    """Build Inception V2 (https://arxiv.org/abs/1502.03167), whose first layer is separable."""
    image = make_image_input(input_size)
    depthwise = layers.DepthwiseConv2D(
        7, 2, padding="same", depth_multiplier=8, use_bias=False, name="Conv2d_1a_7x7.depthwise"
    )
    # Slim's scope normalizes plain convolutions only: this one has a bias instead.
    x = layers.Conv2D(64, 1, name="Conv2d_1a_7x7.pointwise")(depthwise(image))
    x = _V2.max_pool(layers.ReLU(name="Conv2d_1a_7x7.Relu")(x), "MaxPool_2a_3x3", stride=2)
    x = _V2.add_convolution(x, 64, 1, "Conv2d_2b_1x1")
    x = _V2.add_convolution(x, 192, 3, "Conv2d_2c_3x3")
    x = _V2.max_pool(x, "MaxPool_3a_3x3", stride=2)
    x = _add_modules(_V2, x, ("3b", 64, 64, 64, 64, 96, 32), ("3c", 64, 64, 96, 64, 96, 64))
    x = _V2.add_reduction(
        x, "Mixed_4a", (((128, 1),), 160), (((64, 1), (96, 3)), 96), padding="same"
    )
    x = _add_modules(
        _V2,
        x,
        ("4b", 224, 64, 96, 96, 128, 128),
        ("4c", 192, 96, 128, 96, 128, 128),
        ("4d", 160, 128, 160, 128, 160, 96),
        ("4e", 96, 128, 192, 160, 192, 96),
    )
    x = _V2.add_reduction(
        x, "Mixed_5a", (((128, 1),), 192), (((192, 1), (256, 3)), 256), padding="same"
    )
    x = _add_modules(_V2, x, ("5b", 352, 192, 320, 160, 224, 128))
    x = _add_modules(_V2, x, ("5c", 352, 192, 320, 192, 224, 128), maximum=True)
    return _close_with_convolution(image, x, classes, "Logits.Conv2d_1c_1x1")


def inception_v3(input_size: int, classes: int) -> keras.Model:
    """Build Inception V3 (https://arxiv.org/abs/1512.00567)."""
    image = make_image_input(input_size)
    x = _V3.add_halving(image, 32, "Conv2d_1a_3x3")
    x = _V3.add_convolution(x, 32, 3, "Conv2d_2a_3x3", padding="valid")
    x = _V3.add_convolution(x, 64, 3, "Conv2d_2b_3x3")
    x = _V3.halving_pool(x, "MaxPool_3a_3x3")
    x = _V3.add_convolution(x, 80, 1, "Conv2d_3b_1x1", padding="valid")
    x = _V3.add_convolution(x, 192, 3, "Conv2d_4a_3x3", padding="valid")
    x = _V3.halving_pool(x, "MaxPool_5a_3x3")
    branches: tuple[Branch, ...] = (((64, 1),), ((48, 1), (64, 5)), ((64, 1), (96, 3), (96, 3)))
    for letter, pooled in (("b", 32), ("c", 64), ("d", 64)):
        x = _V3.add_module(x, f"Mixed_5{letter}", branches, pooled)
    x = _V3.add_reduction(x, "Mixed_6a", ((), 384), (((64, 1), (96, 3)), 96))
    for letter, inner in (("b", 128), ("c", 160), ("d", 160), ("e", 192)):
        seven: Branch = ((inner, 1), (inner, (1, 7)), (192, (7, 1)))
        double: Branch = (
            (inner, 1),
            (inner, (7, 1)),
            (inner, (1, 7)),
            (inner, (7, 1)),
            (192, (1, 7)),
        )
        x = _V3.add_module(x, f"Mixed_6{letter}", (((192, 1),), seven, double), 192)
    seven = ((192, 1), (192, (1, 7)), (192, (7, 1)))
    x = _V3.add_reduction(x, "Mixed_7a", (((192, 1),), 320), (seven, 192))
    for scope in ("Mixed_7b", "Mixed_7c"):
        x = _add_last_v3_module(x, scope)
    return close_with_classifier(image, x, classes)


def _add_last_v3_module(x: Tensor, scope: str) -> Tensor:
    first = _V3.add_branch(x, f"{scope}.Branch_0", (320, 1))
    split = _V3.add_fan(
        _V3.add_branch(x, f"{scope}.Branch_1", (384, 1)), 384, f"{scope}.Branch_1", "bc"
    )
    deep = _V3.add_fan(
        _V3.add_branch(x, f"{scope}.Branch_2", (448, 1), (384, 3)), 384, f"{scope}.Branch_2", "cd"
    )
    return _V3.join_branches(
        [first, *split, *deep, _V3.pool_and_convolve(x, 192, f"{scope}.Branch_3")], scope
    )


def inception_v4(input_size: int, classes: int) -> keras.Model:
    """Build Inception V4 (https://arxiv.org/abs/1602.07261); ``input_size`` is at least 75."""
    image = make_image_input(input_size)
    x = _add_v4_stem(image)
    inception_a: tuple[Branch, ...] = (((96, 1),), ((64, 1), (96, 3)), ((64, 1), (96, 3), (96, 3)))
    for letter in "bcde":
        x = _V4.add_module(x, f"Mixed_5{letter}", inception_a, 96)
    x = _V4.add_reduction(x, "Mixed_6a", ((), 384), (((192, 1), (224, 3)), 256))
    inception_b: tuple[Branch, ...] = (
        ((384, 1),),
        ((192, 1), (224, (1, 7)), (256, (7, 1))),
        ((192, 1), (192, (7, 1)), (224, (1, 7)), (224, (7, 1)), (256, (1, 7))),
    )
    for letter in "bcdefgh":
        x = _V4.add_module(x, f"Mixed_6{letter}", inception_b, 128)
    x = _V4.add_reduction(
        x, "Mixed_7a", (((192, 1),), 192), (((256, 1), (256, (1, 7)), (320, (7, 1))), 320)
    )
    for scope in ("Mixed_7b", "Mixed_7c", "Mixed_7d"):
        x = _add_last_v4_module(x, scope)
    return close_with_classifier(image, x, classes, "Logits.Logits")


def _add_v4_stem(x: Tensor) -> Tensor:
    """Return the stem of figure 3 of the paper: 299 x 299 x 3 becomes 35 x 35 x 384."""
    x = _V4.add_halving(x, 32, "Conv2d_1a_3x3")
    x = _V4.add_convolution(x, 32, 3, "Conv2d_2a_3x3", padding="valid")
    x = _V4.add_convolution(x, 64, 3, "Conv2d_2b_3x3")
    pooled = _V4.halving_pool(x, "Mixed_3a.Branch_0.MaxPool_0a_3x3")
    x = _V4.join_branches(
        [pooled, _V4.add_halving(x, 96, "Mixed_3a.Branch_1.Conv2d_0a_3x3")], "Mixed_3a"
    )
    first = _V4.add_branch(x, "Mixed_4a.Branch_0", (64, 1))
    first = _V4.add_convolution(first, 96, 3, "Mixed_4a.Branch_0.Conv2d_1a_3x3", padding="valid")
    second = _V4.add_branch(x, "Mixed_4a.Branch_1", (64, 1), (64, (1, 7)), (64, (7, 1)))
    second = _V4.add_convolution(second, 96, 3, "Mixed_4a.Branch_1.Conv2d_1a_3x3", padding="valid")
    x = _V4.join_branches([first, second], "Mixed_4a")
    halved = _V4.add_halving(x, 192, "Mixed_5a.Branch_0.Conv2d_1a_3x3")
    return _V4.join_branches(
        [halved, _V4.halving_pool(x, "Mixed_5a.Branch_1.MaxPool_1a_3x3")], "Mixed_5a"
    )


def _add_last_v4_module(x: Tensor, scope: str) -> Tensor:
    first = _V4.add_branch(x, f"{scope}.Branch_0", (256, 1))
    second = _V4.add_fan(
        _V4.add_branch(x, f"{scope}.Branch_1", (384, 1)), 256, f"{scope}.Branch_1", "bc"
    )
    third = _V4.add_branch(x, f"{scope}.Branch_2", (384, 1), (448, (3, 1)), (512, (1, 3)))
    third = _V4.add_fan(third, 256, f"{scope}.Branch_2", "de")
    fans = []
    for index, branches in ((1, second), (2, third)):
        fans.append(_V4.join_branches(branches, f"{scope}.Branch_{index}"))
    return _V4.join_branches(
        [first, *fans, _V4.pool_and_convolve(x, 256, f"{scope}.Branch_3")], scope
    )


def _close_with_convolution(image: Tensor, x: Tensor, classes: int, scope: str) -> keras.Model:
    """Pool ``x`` and classify it with the 1x1 convolution ``scope`` of the checkpoint."""
    pooled = layers.GlobalAveragePooling2D(keepdims=True, name="pooled")(x)
    logits = layers.Flatten(name="logits")(layers.Conv2D(classes, 1, name=scope)(pooled))
    features = layers.Flatten(name="features")(pooled)
    return make_network(image, layers.Softmax(name="probabilities")(logits), features)
