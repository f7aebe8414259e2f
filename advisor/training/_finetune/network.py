"""Build the network for fine-tuning from a card's backbone and a trained head.

It takes images 0..255 and gives logits; `finetune.py` trains it, and :func:`copy_parts` gives the
result back. The head reads the levels of the backbone where the chosen head does: the maps whose
means are part of the features of its file. Their rule is that of :mod:`advisor.tflite._levels`,
applied to layers instead of operators: change both together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from advisor.datasets import InputSpec
from advisor.measurement import host
from advisor.tflite import LARGEST_SHARE, unpack
from advisor.training._finetune.finetuning import Finetuning
from advisor.training._head import Head, fit_head, train_head
from advisor.training._head.trials import ALL_LEVELS, GRID
from advisor.training._label_head import fit_logits

if TYPE_CHECKING:
    import keras
    from ai_edge_litert.interpreter import SignatureRunner

Floats = NDArray[np.float32]

# Least standard deviation of a feature over the median: less would enlarge small changes too much.
LEAST_SPREAD = 0.02
# Sides for training are multiples of this, as networks halve the side five times.
STEP = 32
# Largest difference between Keras and the file, over the standard deviation of the features.
MARGIN = 1e-2

# ``C`` of the first head on cached maps.
STRONG = 0.01
# Largest ``C`` of a first head in fine-tuning: a weaker penalty would let it forget the start.
WEAKEST = 0.1
# Number of images on which the levels of backbone and file are compared.
CHECKED = 2


@dataclass(frozen=True, eq=False)
class Start:
    """The start of a fine-tuning."""

    # float32 (F, C) of the head, on the features of the backbone, followed by those of its levels.
    weights: Floats
    bias: Floats  # float32 (C,)
    mean: Floats  # of each feature, float32 (F,)
    spread: Floats  # standard deviation of each feature, float32 (F,), so that one rate suits all
    levels: tuple[str, ...] = ()  # layers of the backbone, see :func:`level_layers`


def build_network(
    backbone: keras.Model,
    start: Start,
    spec: InputSpec,
    trained: float,
    cached: bool = False,
) -> keras.Model:
    """Return a ``keras.Model`` from images (n, S', S', 3), 0..255, to logits (n, C).

    Its layer ``backbone`` is a copy of the backbone, of whose layers the share ``trained`` is
    trained, from the top; its layer ``head`` is the head. If its upper part learns on kept
    maps (``cached``), S' is S and BatchNorm is frozen. Otherwise S' may be any side, if the
    backbone allows it.
    """
    import keras

    body = _copy_backbone(backbone, any_side=not cached)
    freeze_layers(body, trained, norms=cached)
    body = with_levels(body, list(start.levels))
    body.name = "backbone"
    images = keras.Input(body.inputs[0].shape[1:], name="pictures")
    normal = keras.layers.Normalization(
        mean=list(spec.mean), variance=[value**2 for value in spec.std], name="normal"
    )
    spread = _limit_spread(start)
    standard = keras.layers.Rescaling(1.0 / spread, -start.mean / spread, name="standard")
    dense = keras.layers.Dense(len(start.bias), name="head")
    model = keras.Model(images, dense(standard(body(normal(images)))))
    # The head was fitted to raw features; on standardised ones it gives the same logits.
    dense.set_weights([start.weights * spread[:, None], start.bias + start.mean @ start.weights])
    return model


def copy_parts(model: keras.Model, backbone: keras.Model, start: Start) -> tuple[Floats, Floats]:
    """Copy the trained weights into ``backbone``; return the head on raw features.

    The head has weights (F, C) and a bias (C,).
    """
    body = model.get_layer("backbone")
    for layer in backbone.layers:
        # The input layer of the copy has another name, and no weights.
        if layer.weights:
            layer.set_weights(body.get_layer(layer.name).get_weights())
    weights, bias = model.get_layer("head").get_weights()
    weights = weights / _limit_spread(start)[:, None]
    return weights.astype("float32"), (bias - start.mean @ weights).astype("float32")


def _limit_spread(start: Start) -> Floats:
    floor = max(LEAST_SPREAD * float(np.median(start.spread)), 1e-6)
    return np.asarray(np.maximum(start.spread, floor), np.float32)


def convert_to_flatbuffer(model: keras.Model) -> bytes:
    """Return a model with one input as a float ``.tflite``, converted from one trace.

    Its signature has the input ``image`` and the outputs by their names; an only output without a
    name is ``output_0``. See :func:`._convert.to_tflite` for other models.
    """
    import tensorflow as tf

    image = tf.TensorSpec(model.inputs[0].shape, tf.float32, name="image")
    called = tf.function(lambda image: model(image, training=False), autograph=False)
    concrete = called.get_concrete_function(image)
    tables = unpack(tf.lite.TFLiteConverter.from_concrete_functions([concrete]).convert())
    names = sorted(model.output) if isinstance(model.output, dict) else ["output_0"]
    graph = tables.subgraphs[0]
    tables.replace_signature(graph, "image", dict(zip(names, graph.outputs, strict=True)))
    return tables.pack()


def load_in_litert(network: keras.Model) -> SignatureRunner:
    """Return a network of one image in LiteRT, which runs it on all cores of this machine.

    LiteRT takes a third of TensorFlow's time.
    """
    from ai_edge_litert.interpreter import Interpreter

    content = convert_to_flatbuffer(network)
    interpreter = Interpreter(model_content=content, num_threads=host.describe().cores)
    return interpreter.get_signature_runner()


def training_side(model: keras.Model, side: int, shrink: float) -> int:
    """Return the side of training images: ``shrink`` times the model's, or a fixed one."""
    if model.inputs[0].shape[1] is not None or shrink >= 1:
        return side
    smaller = round(shrink * side / STEP) * STEP
    return max(STEP, min(side, smaller))


def _copy_backbone(backbone: keras.Model, any_side: bool) -> keras.Model:
    import keras

    size = int(backbone.inputs[0].shape[1])
    side = None if any_side else size
    try:
        body = keras.models.clone_model(backbone, input_tensors=keras.Input((side, side, 3)))
        fits = body.outputs[0].shape == (None, backbone.outputs[0].shape[-1])
    except (ValueError, TypeError):
        fits = False
    # Some backbones have layers that need a fixed side, such as a dense layer on a flattened map.
    if not fits:
        body = keras.models.clone_model(backbone, input_tensors=keras.Input((size, size, 3)))
    body.set_weights(backbone.get_weights())
    return body


def freeze_layers(body: keras.Model, trained: float, norms: bool = False) -> None:
    """Freeze all layers but the top ones, a share ``trained`` of them.

    BatchNorm's scale and offset are trained with their block, or frozen everywhere (``norms``),
    which saves a sixth of a step's time of MobileNetV2. Its statistics never change, as every
    call has ``training=False``.
    """
    import keras

    layers = body.layers
    first = round((1.0 - trained) * len(layers))
    for place, layer in enumerate(layers):
        is_frozen_norm = norms and isinstance(layer, keras.layers.BatchNormalization)
        layer.trainable = place >= first and not is_frozen_norm


def level_layers(backbone: keras.Model) -> list[str]:
    """Return the layers whose outputs are levels, in the order of the file's features."""
    import keras

    names = ("Conv2D", "DepthwiseConv2D", "MaxPooling2D", "AveragePooling2D")
    reading = tuple(getattr(keras.layers, name) for name in names)
    strided: dict[int, tuple[str, int]] = {}
    windowed: dict[int, tuple[str, int]] = {}
    for layer in backbone.layers:
        if not isinstance(layer, reading) or max(layer.output.shape[1:3]) < 2:
            continue
        source = layer.input
        if isinstance(source._keras_history.operation, keras.layers.ZeroPadding2D):
            source = source._keras_history.operation.input
        maker = source._keras_history.operation
        shape = source.shape
        if isinstance(maker, keras.layers.InputLayer):
            continue
        window = getattr(layer, "kernel_size", None) or layer.pool_size
        side = max(shape[1:3])
        for widest, counts in ((strided, max(layer.strides) > 1), (windowed, window[0] > 1)):
            # Of equally wide maps the later one has seen more of the image.
            if counts and (side not in widest or shape[3] >= widest[side][1]):
                widest[side] = (maker.name, shape[3])
    image_side = max(backbone.inputs[0].shape[1:3])
    # A map that a stride reads counts before one that only a window reads.
    levels = windowed | strided
    return [levels[side][0] for side in sorted(levels) if side <= image_side // LARGEST_SHARE]


def with_levels(backbone: keras.Model, names: list[str]) -> keras.Model:
    """Return the backbone with the means of these layers' maps appended to its features."""
    import keras

    if not names:
        return backbone
    means = []
    for name in names:
        means.append(keras.layers.GlobalAveragePooling2D()(backbone.get_layer(name).output))
    joined = keras.layers.Concatenate()([backbone.outputs[0], *means])
    return keras.Model(backbone.inputs[0], joined)


def gives_features(
    backbone: keras.Model,
    names: list[str],
    images: NDArray[np.float32],
    features: NDArray[np.float32],
) -> bool:
    """Return whether a backbone with these levels gives the ``features`` (n, F) of LiteRT.

    They are those of normalised ``images``.
    """
    widths = [int(backbone.get_layer(name).output.shape[-1]) for name in names]
    if int(backbone.outputs[0].shape[-1]) + sum(widths) != features.shape[1]:
        return False
    model = with_levels(backbone, names)
    outputs = np.concatenate([np.asarray(model(image[None], training=False)) for image in images])
    return bool(np.abs(outputs - features).max() <= MARGIN * max(float(features.std()), 1e-6))


@dataclass(frozen=True, eq=False)
class FinetuneData:
    """The images that a network is trained and validated on."""

    # the backbone's features of these images, float32 (N, F), or with those of its levels. The
    # first head is trained on those outside the validation part.
    features: NDArray[np.float32]
    images: Sequence[Path]  # the training part, hold-out excluded
    # Their class indices, or of each image a row of labels: 1, 0, or -1 where nothing is known.
    labels: Sequence[Any]
    spec: InputSpec  # how an image becomes the backbone's input
    validation: Sequence[int]  # indices of the validation part in ``images``
    groups: Sequence[int] = ()  # images of one number belong together; empty if each is a group
    # The head that was chosen for the images outside the validation part; None to choose one.
    head: Head | None = None
    # Those of the features, beside which the maps of these images may be.
    files: Sequence[Path] = ()

    @property
    def of_labels(self) -> bool:
        """True if an image has a row of labels in place of one class."""
        return np.ndim(self.labels) > 1

    @property
    def unseen(self) -> NDArray[np.bool_]:
        """A mask of the images for validation, (N,)."""
        return np.isin(np.arange(len(self.labels)), self.validation)


def first_head(
    backbone: keras.Model,
    data: FinetuneData,
    learnt: NDArray[np.bool_],
    hyperparameters: Finetuning,
) -> tuple[Start, float]:
    """Return the head to start from, fitted to the images of the mask ``learnt``, and its ``C``.

    Its kind is that of a head without fine-tuning. It reads all levels only if they gain clearly
    and Keras computes the same levels as the file. If the maps below are cached, its penalty is
    strong: a head without errors would teach the layers below nothing.
    """
    features = data.features
    last = int(backbone.outputs[0].shape[-1])
    if data.of_labels:
        return _first_label_head(features[:, :last], data, learnt), STRONG
    levels = level_layers(backbone)
    first_images = np.stack(list(map(data.spec.read, data.images[:CHECKED])))
    # The features are those of a file in LiteRT, which may have other levels than this graph.
    if not gives_features(backbone, levels, first_images, features[: len(first_images)]):
        levels = []
        features = features[:, :last]
    features_read = features[learnt]
    labels = np.asarray(data.labels, dtype=np.int64)
    targets = labels[learnt].tolist()
    classes = int(labels.max()) + 1
    groups = ()
    if len(data.groups):
        groups = np.asarray(data.groups)[learnt].tolist()
    head = data.head
    if head is None or (head.facts.kind == ALL_LEVELS and not levels):
        head = train_head(
            features_read, targets, classes, hyperparameters.seed, groups=groups, last=last
        )
    if head.facts.kind != ALL_LEVELS:
        levels = []
        features_read = features_read[:, :last]
    if hyperparameters.cached:
        strength = STRONG
        weights, bias = fit_head(features_read, targets, classes, strength)
    else:
        weights = head.weights[: features_read.shape[1]]
        bias = head.bias
        strength = min(max(head.facts.regularization, GRID[0]), WEAKEST)
    mean = features_read.mean(axis=0)
    return Start(weights, bias, mean, features_read.std(axis=0), tuple(levels)), strength


def _first_label_head(features: Floats, data: FinetuneData, learnt: NDArray[np.bool_]) -> Start:
    """Return a head with a score for each label, fitted to the images of the mask ``learnt``.

    It reads the last layer. A head on all levels has few errors left, so it teaches the layers
    below less: playing cards lost 5 and 9 points of mAP.
    """
    rows = features[learnt]
    truth = np.asarray(data.labels, np.int8)[learnt]
    weights, bias = fit_logits(rows, truth, rows.shape[1], STRONG)
    return Start(weights, bias, rows.mean(axis=0), rows.std(axis=0))
