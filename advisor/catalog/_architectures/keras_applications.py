"""Build networks whose graphs are those of Keras' applications; ``input_size`` is at least 32.

Keras' own layers keep their names, so that its weight files fit.
"""

import re
from itertools import count

import keras
from keras import applications, layers

from advisor.catalog._graph import Tensor, make_image_input, make_network

# Keras' name of a layer without one: its kind, and a number that counts up through the process.
_UNNAMED = re.compile(
    r"(conv2d|batch_normalization|activation|max_pooling2d|average_pooling2d)(_\d+)?"
)


def densenet(input_size: int, classes: int) -> keras.Model:
    """Build DenseNet-121 (https://arxiv.org/abs/1608.06993)."""
    image = make_image_input(input_size)
    base = applications.DenseNet121(weights=None, input_tensor=image, classes=classes)
    return make_network(image, base.output, base.get_layer("avg_pool").output)


def efficientnet(input_size: int, classes: int) -> keras.Model:
    """Build EfficientNet-B0 (https://arxiv.org/abs/1905.11946), from its first padding on.

    Keras puts the scaling of pixel values into the graph as layers whose statistics are weights,
    and adds one more layer only where it loads its own weights. Here the card's preprocessing does
    it (ImageNet mean and deviation), as for every other network, so that a graph is the same with
    and without weights.
    """
    base = applications.EfficientNetB0(
        weights=None, input_shape=(input_size, input_size, 3), classes=classes
    )
    # From the first padding on: the layers before it scale pixels, as the card's preprocessing
    # does.
    body = keras.Model(
        base.get_layer("stem_conv_pad").input, [base.output, base.get_layer("avg_pool").output]
    )
    image = make_image_input(input_size)
    probabilities, features = keras.models.clone_model(body, input_tensors=image).outputs
    return make_network(image, probabilities, features)


def inception_resnet_v2(input_size: int, classes: int) -> keras.Model:
    """Build Inception-ResNet V2 (https://arxiv.org/abs/1602.07261); ``input_size`` is at least 75.

    Most of Keras' layers here have generated names, which depend on what the process built before.
    They are numbered again, with a prefix that Keras' weight file does not use.
    """
    base = applications.InceptionResNetV2(
        weights=None, input_shape=(input_size, input_size, 3), classes=classes
    )
    numbers = count()

    def rename_layer(layer: Tensor) -> Tensor:
        config = layer.get_config()
        if _UNNAMED.fullmatch(layer.name):
            config["name"] = f"backbone_{next(numbers)}"
        return type(layer).from_config(config)

    image = make_image_input(input_size)
    whole = keras.models.clone_model(base, input_tensors=image, clone_function=rename_layer)
    return make_network(image, whole.output, whole.get_layer("avg_pool").output)


def mobilenet_v3(
    input_size: int,
    classes: int,
    size: str,
    width: float,
    minimalistic: bool = False,
) -> keras.Model:
    """Build MobileNet V3 (https://arxiv.org/abs/1905.02244).

    The features are the input of the classifier: the pooled image after the widening 1x1
    convolution. ``size`` is ``large`` or ``small``, ``width`` multiplies the depths, and a
    ``minimalistic`` network has no squeeze-and-excite, hard-swish and 5x5 convolutions.
    """
    networks = {"large": applications.MobileNetV3Large, "small": applications.MobileNetV3Small}
    if size not in networks:
        raise ValueError(f"MobileNet V3 comes as large or small, not '{size}'")
    image = make_image_input(input_size)
    options = {
        "alpha": width,
        "minimalistic": minimalistic,
        "weights": None,
        "include_preprocessing": False,
    }
    base = networks[size](
        (input_size, input_size, 3), input_tensor=image, classes=classes, **options
    )
    features = layers.Flatten(name="features")(base.get_layer("logits").input)
    return make_network(image, base.output, features)


def nasnet(input_size: int, classes: int) -> keras.Model:
    """Build NASNet-A Mobile (4 @ 1056, https://arxiv.org/abs/1707.07012)."""
    image = make_image_input(input_size)
    base = applications.NASNetMobile(weights=None, input_tensor=image, classes=classes)
    return make_network(image, base.output, base.get_layer("predictions").input)
