"""TensorFlow's own converter beside the recipes: the same network, the same pictures, one form a run; in a child."""

import contextlib
import io
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from advisor.catalog import Card
from advisor.core import WeightsFile
from advisor.datasets._images import InputSpec

OURS = (
    *("float16", "dynamic_int8", "weight_int8", "weight_int4", "int8", "int8_per_tensor", "int16x8", "int8_float_io"),
)
"""The eight forms that need no training and no labels."""

THEIRS = ("float16", "dynamic_int8", "int8", "int8_per_tensor", "int16x8", "int8_float_io")
"""Those of them that the converter makes, too."""


def ours(model: Path, images: Sequence[Path], card: Card, folder: Path) -> dict[str, float]:
    """Make every form from the float file; return the seconds of processor time that each took.

    Reading and resizing the pictures counts as ``images``.
    """
    from advisor.compression import RecipeInputs, recipe

    data, spent = model.read_bytes(), {}
    start = time.process_time()
    inputs = _inputs(images, card)
    spent["pictures"], material = time.process_time() - start, RecipeInputs(inputs)
    for name in OURS:
        start = time.process_time()
        (folder / f"ours-{name}.tflite").write_bytes(recipe(name).make(data, material).data)
        spent[name] = time.process_time() - start
    return spent


def theirs(model: Path, weights: WeightsFile, images: Sequence[Path], card: Card, folder: Path) -> dict[str, float]:
    """Make every form that the converter knows from the Keras network with the float file's head, one run a form.

    Building the network and importing TensorFlow are not counted.
    """
    import tensorflow as tf

    inputs, network, spent = _inputs(images, card), _network(model, weights, card), {}
    for name in THEIRS:
        start = time.process_time()
        with contextlib.redirect_stdout(io.StringIO()):
            converter = tf.lite.TFLiteConverter.from_keras_model(network)
            _SETTINGS[name](tf, converter, lambda: ([image[None]] for image in inputs))
            (folder / f"theirs-{name}.tflite").write_bytes(converter.convert())
        spent[name] = time.process_time() - start
    return spent


def _inputs(images: Sequence[Path], card: Card) -> Any:
    return InputSpec(card.input_size, card.preprocessing.mean, card.preprocessing.std).read_all(images)


def _network(model: Path, weights: WeightsFile, card: Card) -> Any:
    """Return the card's Keras network with the float file's head: a dense layer a level, and their sum."""
    import keras

    from advisor.catalog import build_model

    backbone, logits, values = build_model(card, weights), [], []
    for name, kernel, bias in _levels(model):
        pooled = keras.layers.GlobalAveragePooling2D()(backbone.get_layer(name).output)
        dense = keras.layers.Dense(len(bias))
        logits.append(dense(pooled))
        values.append((dense, [kernel.T, bias]))
    total = keras.layers.Add()(logits) if len(logits) > 1 else logits[0]
    network = keras.Model(backbone.inputs, keras.layers.Softmax()(total))
    for dense, weight in values:
        dense.set_weights(weight)
    return network


def _levels(model: Path) -> list[tuple[str, Any, Any]]:
    """Return the Keras layer that each dense layer of the file's head reads the mean of, its kernel and its bias.

    The converter names a tensor by the layers that it was made of, each as often as the graph was built again.
    """
    from advisor.tflite import read

    file = read(model)
    made = {operator.outputs[0]: operator for operator in file.operators}
    found = []
    for operator in file.operators:
        if operator.name == "FULLY_CONNECTED":
            mean, kernel, bias = operator.inputs
            source = file.tensors[made[mean].inputs[0]].name.split(";")[0]
            values = (_values(file.tensors[at]) for at in (kernel, bias))
            found.append((source.split("/")[1].removesuffix("_1"), *values))
    return found


def _values(tensor: Any) -> Any:
    return np.frombuffer(tensor.buffer, "<f4").reshape(tensor.shape)


def _optimized(tf: Any, converter: Any, _images: Any) -> None:
    converter.optimizations = [tf.lite.Optimize.DEFAULT]


def _float16(tf: Any, converter: Any, images: Any) -> None:
    _optimized(tf, converter, images)
    converter.target_spec.supported_types = [tf.float16]


def _int8_float_io(tf: Any, converter: Any, images: Any) -> None:
    _optimized(tf, converter, images)
    converter.representative_dataset = images
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]


def _int8(tf: Any, converter: Any, images: Any) -> None:
    _int8_float_io(tf, converter, images)
    converter.inference_input_type = converter.inference_output_type = tf.int8


def _int8_per_tensor(tf: Any, converter: Any, images: Any) -> None:
    _int8(tf, converter, images)
    converter._experimental_disable_per_channel = True


def _int16x8(tf: Any, converter: Any, images: Any) -> None:
    _optimized(tf, converter, images)
    converter.representative_dataset = images
    kind = tf.lite.OpsSet.EXPERIMENTAL_TFLITE_BUILTINS_ACTIVATIONS_INT16_WEIGHTS_INT8
    converter.target_spec.supported_ops = [kind]


_SETTINGS: Mapping[str, Callable[[Any, Any, Any], None]] = {
    "float16": _float16,
    "dynamic_int8": _optimized,
    "int8": _int8,
    "int8_per_tensor": _int8_per_tensor,
    "int16x8": _int16x8,
    "int8_float_io": _int8_float_io,
}
