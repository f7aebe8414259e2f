"""Twenty small int8 networks for microcontrollers with random weights, made once: ten to fit on, ten that judge."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from advisor.devices._kernel_files import as_int8
from advisor.store import ArtifactCache

if TYPE_CHECKING:
    import keras

STAGE = "micro-networks-2"


@dataclass(frozen=True)
class Network:
    """A network of the catalogue at a small input, or one of this module.

    Attributes:
        architecture: of :mod:`advisor.catalog._architectures`, or a key of :data:`OWN`.
        input_size: side of the image, pixels; not of a network of this module.
        classes: number of outputs.
        arguments: the architecture's.
    """

    architecture: str
    input_size: int = 0
    classes: int = 10
    arguments: Mapping[str, Any] = field(default_factory=dict)


def _separable(x: Any, filters: int, stride: int = 1) -> Any:
    from keras import layers

    x = layers.DepthwiseConv2D(3, stride, "same", use_bias=True, activation="relu")(x)
    return layers.Conv2D(filters, 1, activation="relu")(x)


def _ds_cnn(filters: int, blocks: int) -> keras.Model:
    """Return a network for keywords in a spectrogram of 49 x 10, like that of MLPerf Tiny."""
    import keras
    from keras import layers

    image = keras.Input((49, 10, 1), batch_size=1)
    x = layers.Conv2D(filters, (10, 4), 2, "same", activation="relu")(image)
    for _ in range(blocks):
        x = _separable(x, filters)
    x = layers.GlobalAveragePooling2D()(x)
    return keras.Model(image, layers.Dense(12, activation="softmax")(x))


def _resnet8(side: int) -> keras.Model:
    """Return a residual network for small images, like that of MLPerf Tiny."""
    import keras
    from keras import layers

    image = keras.Input((side, side, 3), batch_size=1)
    x = layers.Conv2D(16, 3, padding="same", activation="relu")(image)
    for filters, stride in ((16, 1), (32, 2), (64, 2)):
        y = layers.Conv2D(filters, 3, stride, "same", activation="relu")(x)
        y = layers.Conv2D(filters, 3, padding="same")(y)
        x = x if stride == 1 else layers.Conv2D(filters, 1, stride, "same")(x)
        x = layers.ReLU()(layers.Add()([x, y]))
    x = layers.Flatten()(layers.AveragePooling2D(x.shape[1])(x))
    return keras.Model(image, layers.Dense(10, activation="softmax")(x))


def _digits(side: int) -> keras.Model:
    """Return two convolutions with pooling and two dense layers over a grey image."""
    import keras
    from keras import layers

    image = keras.Input((side, side, 1), batch_size=1)
    x = layers.MaxPooling2D()(layers.Conv2D(16, 3, activation="relu")(image))
    x = layers.Flatten()(layers.MaxPooling2D()(layers.Conv2D(32, 3, activation="relu")(x)))
    x = layers.Dense(64, activation="relu")(x)
    return keras.Model(image, layers.Dense(10, activation="softmax")(x))


def _dense(width: int) -> keras.Model:
    """Return an autoencoder of dense layers over 640 values, like that of MLPerf Tiny."""
    import keras
    from keras import layers

    x = values = keras.Input((640,), batch_size=1)
    for size in (width, width, 8, width, width):
        x = layers.Dense(size, activation="relu")(x)
    return keras.Model(values, layers.Dense(640)(x))


def _branches(side: int) -> keras.Model:
    """Return separable convolutions with a gate, a concatenation, padding and a sigmoid."""
    import keras
    from keras import layers

    image = keras.Input((side, side, 3), batch_size=1)
    x = layers.Conv2D(16, 3, 2, activation="relu")(layers.ZeroPadding2D(1)(image))
    gate = layers.Dense(16, activation="sigmoid")(layers.GlobalAveragePooling2D(keepdims=True)(x))
    x = layers.Multiply()([x, gate])
    x = layers.Concatenate()([_separable(x, 16, 2), layers.MaxPooling2D(2)(x)])
    x = layers.GlobalAveragePooling2D()(_separable(x, 48, 2))
    return keras.Model(image, layers.Dense(1, activation="sigmoid")(x))


OWN: Mapping[str, Callable[..., Any]] = {
    "ds_cnn": _ds_cnn, "resnet8": _resnet8, "digits": _digits, "dense": _dense, "branches": _branches,
}  # fmt: skip

FIT: Mapping[str, Network] = {
    "mobilenet_v1_0.25_96": Network("mobilenet_v1", 96, 2, {"width": 0.25}),
    "mobilenet_v2_0.35_96": Network("mobilenet_v2", 96, 10, {"width": 0.35}),
    "mobilenet_v3_minimal_0.75_96": Network(
        "mobilenet_v3", 96, 6, {"size": "small", "width": 1.0, "minimalistic": True}
    ),
    "squeezenet_1.1_64": Network("squeezenet", 64, 10, {"version": "1.1"}),
    "shufflenet_v2_0.5_64": Network("shufflenet_v2", 64, 10, {"width": 0.5}),
    "mobilenet_v3_small_64": Network("mobilenet_v3", 64, 6, {"size": "small", "width": 0.75}),
    "ds_cnn_64": Network("ds_cnn", arguments={"filters": 64, "blocks": 4}),
    "resnet8_32": Network("resnet8", arguments={"side": 32}),
    "digits_28": Network("digits", arguments={"side": 28}),
    "dense_128": Network("dense", arguments={"width": 128}),
}
"""Networks on which the sizes of :mod:`advisor.tflite._arena` were looked at."""

JUDGE: Mapping[str, Network] = {
    "mobilenet_v1_0.25_128": Network("mobilenet_v1", 128, 6, {"width": 0.25}),
    "mobilenet_v1_0.5_160": Network("mobilenet_v1", 160, 1000, {"width": 0.5}),
    "mobilenet_v2_0.5_128": Network("mobilenet_v2", 128, 6, {"width": 0.5}),
    "mobilenet_v3_small_96": Network("mobilenet_v3", 96, 100, {"size": "small", "width": 1.0}),
    "efficientnet_lite0_96": Network("efficientnet_lite", 96, 10),
    "mnasnet_0.5_96": Network("mnasnet", 96, 10, {"width": 0.5}),
    "resnet18_64": Network("resnet", 64, 10, {"depth": 18}),
    "inception_v1_64": Network("inception_v1", 64, 10),
    "ds_cnn_172": Network("ds_cnn", arguments={"filters": 172, "blocks": 5}),
    "branches_48": Network("branches", arguments={"side": 48}),
}
"""Networks that were never looked at while the sizes were found."""


def files_of(networks: Mapping[str, Network]) -> dict[str, Path]:
    """Return the int8 file of each network; one that is missing is made."""
    cache = ArtifactCache()
    return {
        name: cache.get(STAGE, {"network": name}, partial(_make, network)) / "int8.tflite"
        for name, network in networks.items()
    }


def _make(network: Network, folder: Path) -> None:
    import keras
    import tensorflow as tf

    from advisor.catalog import _architectures as architectures
    from advisor.catalog._convert import fill_randomly
    from advisor.tflite import unpack

    keras.utils.set_random_seed(0)
    if network.architecture in OWN:
        model = OWN[network.architecture](**network.arguments)
        outputs: Callable[[Any], Any] = partial(model, training=False)
    else:
        keywords = dict(network.arguments)
        model = architectures.build(network.architecture, network.input_size, network.classes, keywords)
        outputs = lambda image: model(image, training=False)["probabilities"]  # noqa: E731
    fill_randomly(model)
    called = tf.function(outputs).get_concrete_function(tf.TensorSpec(model.inputs[0].shape, tf.float32, name="image"))
    tables = unpack(tf.lite.TFLiteConverter.from_concrete_functions([called]).convert())
    graph = tables.subgraphs[0]
    tables.replace_signature(graph, "image", {"probabilities": graph.outputs[0]})
    (folder / "int8.tflite").write_bytes(unpack(as_int8(tables.pack())).pack())  # TFLM reads constants inside the table
    keras.backend.clear_session()
