"""Split a network at a layer through which all data passes.

Fine-tuning on cached maps runs the lower part, whose layers are frozen, once over the images
(`maps.py`), and trains the upper part on its maps. Both parts share the weights of the network.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from advisor.core import StageError

if TYPE_CHECKING:
    import keras

# Largest size of the maps on disk. A lower cut with larger maps gives way to a higher one.
MAX_BYTES = 2_000_000_000


@dataclass(frozen=True, eq=False)
class Halves:
    """A network in two parts that share its weights."""

    # ``keras.Model`` from images (n, S, S, 3), 0..255, to maps. Its weights stay as they are. If
    # the head reads levels below the cut, a row holds the flattened map, followed by the means of
    # these levels.
    lower: keras.Model
    # ``keras.Model`` from maps to logits (n, C), with the layers ``backbone`` and ``head``.
    upper: keras.Model
    cut: tuple[int, ...] = ()  # shape of the map, (height, width, channels)
    # Columns of the features that have the means of the levels below the cut.
    means: tuple[int, ...] = ()


def halve_network(model: keras.Model, rows: int, levels: Sequence[str] = ()) -> Halves:
    """Split a network of :func:`.build_network` below its lowest trained layer.

    The cut is higher if the maps of ``rows`` images and copies would not fit on disk. ``levels``
    are the layers of the backbone whose means the head reads too.
    """
    import keras

    body = model.get_layer("backbone")
    parts = body.outputs
    if levels:
        # The last operation joins the features and the means of the levels.
        parts = body.outputs[0]._keras_history.operation.input
    features, *means_of_levels = parts
    plain = keras.Model(body.input, features)
    place = {layer.name: number for number, layer in enumerate(plain.layers)}
    cut = plain.get_layer(_choose_cut(plain, rows)).output
    place_of_cut = place[cut._keras_history[0].name]
    # The upper part cannot compute the means of levels below the cut: the lower part gives them.
    below = []
    for mean, level in zip(means_of_levels, levels, strict=True):
        if place[level] < place_of_cut:
            below.append(mean)
    joined = cut
    if below:
        joined = keras.layers.Concatenate()([keras.layers.Flatten()(cut), *below])
    whole = keras.Input(body.input.shape[1:], name="pictures")
    lower = keras.Model(whole, keras.Model(body.input, joined)(model.get_layer("normal")(whole)))
    top = keras.Model([cut, *below], body.outputs[0], name="backbone")
    maps = keras.Input(joined.shape[1:], name="maps")
    inputs = [maps]
    # Rows hold the map and the means one after another.
    if below:
        widths = [int(np.prod(cut.shape[1:])), *(mean.shape[-1] for mean in below)]
        starts = np.cumsum(widths).tolist()
        means = [maps[:, start:end] for start, end in pairwise(starts)]
        inputs = [keras.layers.Reshape(cut.shape[1:])(maps[:, : starts[0]]), *means]
    upper = keras.Model(maps, model.get_layer("head")(model.get_layer("standard")(top(inputs))))
    shape = tuple(map(int, cut.shape[1:]))
    columns = _find_columns(int(features.shape[-1]), means_of_levels, below)
    return Halves(lower, upper, shape, columns)


def _find_columns(
    last: int, means: Sequence[keras.KerasTensor], below: Sequence[keras.KerasTensor]
) -> tuple[int, ...]:
    """Return the columns that the means ``below`` have in the features.

    The features are ``last`` values, followed by all ``means``.
    """
    columns = list[int]()
    chosen = set(map(id, below))
    for mean in means:
        end = last + int(mean.shape[-1])
        if id(mean) in chosen:
            columns += range(last, end)
        last = end
    return tuple(columns)


def find_cuts(body: keras.Model) -> list[str]:
    """Return the layers through which all data passes, from the lowest to the highest.

    Input and output are none of them.
    """
    import keras

    # The layers, and sums or products of maps that are no layers.
    operations = body.operations
    place = {operation.name: number for number, operation in enumerate(operations)}
    last_use = [0] * len(place)
    for operation in operations[1:]:
        for source in keras.tree.flatten(operation.input):
            maker = place[source._keras_history.operation.name]
            last_use[maker] = max(last_use[maker], place[operation.name])
    passages = []
    reach = last_use[0]
    for number, operation in enumerate(operations[1:-1], start=1):
        if reach <= number and isinstance(operation, keras.layers.Layer):
            passages.append(operation.name)
        reach = max(reach, last_use[number])
    return passages


def _choose_cut(body: keras.Model, rows: int) -> str:
    """Return the highest cut below all trained layers, or a higher one whose maps fit on disk."""
    place = {layer.name: number for number, layer in enumerate(body.layers)}
    first = next(number for number, layer in enumerate(body.layers) if layer.trainable)
    names = find_cuts(body)
    below = [name for name in names if place[name] < first]
    above = [name for name in names if place[name] >= first]
    # Higher layers have smaller maps. Layers below such a cut are frozen, although the recipe
    # would train them.
    for name in (*below[-1:], *above):
        # Two bytes a value: maps are stored in float16.
        bytes_of_map = 2 * int(np.prod(body.get_layer(name).output.shape[1:]))
        if rows * bytes_of_map <= MAX_BYTES:
            return name
    raise StageError(
        f"{body.name}: the maps of {rows} images take more than {MAX_BYTES / 1e9:.0f} GB at every"
        " layer",
        "train on fewer images, or take --training finetune_top",
    )
