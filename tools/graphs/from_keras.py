"""Make the graph files of the cards that Keras builds, at the side of each card.

``python -m tools.graphs.from_keras [CARD...]`` writes ``catalogs/graphs/CARD.graph`` and what the
card says of it, and prints a line for each card: bytes, constants, and the largest relative
difference of an answer from the file that TensorFlow converts. It is computed with two sets of
weights, of which the second took no part in finding the constants.
"""

import contextlib
import io
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import keras
import numpy as np
from ai_edge_litert.interpreter import Interpreter
from ai_edge_litert.schema_py_generated import TensorType

from advisor.catalog import Card, Catalogue, _architectures as architectures
from advisor.catalog._convert import OUTPUTS, set_norm_statistics, to_tflite
from advisor.catalog._graph_file import read_graph
from advisor.catalog._keras_layers import fill_layers, layers_of
from advisor.catalog._weights.mapping import LayerSpec
from advisor.store import sha256_file
from advisor.tflite import unpack
from tools.graphs.__main__ import (
    GRAPHS,
    MOST,
    Array,
    Finder,
    assembled,
    has_values,
    summary,
    values_of,
    write,
)

IMAGES, FEW_IMAGES, LARGE_MACS = 32, 4, 2e9
"""Inputs of a comparison; a large network computes few of them, as each takes a second."""
MOST_OF_CONSTANTS = 2e-6
LEAST_VARIANCE = 0.05
GAIN_OF_LOGITS = 0.5
"""Variance of an output over that of an input.
The softmax of larger logits multiplies their rounding.
"""
SEEDS = (1, 2)
Answers = Callable[[Array], Mapping[str, Array]]
"""Computes the outputs for an image, (1, S, S, 3)."""
ENTRY = (
    r"(?m)^  - name: {name}\n(?:    .*\n)*?    macs: .*\n(?=(?P<graph>    graph:\n(?:     "
    r" .*\n)*)?)"
)
"""A card in a catalogue file up to its MACs, and what it says of its graph file."""


def main() -> None:
    """Make the graph files of the cards that are named, or of all."""
    GRAPHS.mkdir(exist_ok=True)
    for card in Catalogue.load().values():
        if not card.by_file and (len(sys.argv) == 1 or card.name in sys.argv[1:]):
            try:
                print(f"{card.name}: {make(card, GRAPHS / f'{card.name}.graph')}", flush=True)
            except ValueError as error:
                print(f"{card.name}: {error}", flush=True)
            finally:
                keras.backend.clear_session()


def make(card: Card, target: Path) -> str:
    """Write the graph file of one card, if its answers are those of the converted file;
    return what it has.
    """
    model = architectures.build(card.architecture, card.input_size, card.classes, card.keywords)
    layers = layers_of(model)
    first, second = (settle(model, layers, seed) for seed in SEEDS)
    norms = {layer.name: layer.epsilon for layer in layers if layer.kind == "norm"}
    shapes = {name: value.shape for name, value in first.items()}
    fill_layers(model, first)
    original = converted(model)
    made = assembled(original, Finder(first, norms), shapes, layers)
    fill_layers(model, second)
    pairs = (
        (made.fill_constants(first), original),
        (made.fill_constants(second), converted(model)),
    )
    constants = max(constants_difference(*pair) for pair in pairs)
    if constants > MOST_OF_CONSTANTS:
        raise ValueError(f"its constants differ by {constants:.2g}")
    count = IMAGES if card.macs < LARGE_MACS else FEW_IMAGES
    images = (
        np.random.default_rng(0)
        .normal(size=(count, 1, card.input_size, card.input_size, 3))
        .astype(np.float32)
    )
    worst = 0.0
    for one, other in pairs:
        worst = max(worst, largest_difference(file_answers(one), file_answers(other), images))
    if worst > MOST:
        raise ValueError(f"its answers differ by {worst:.2g}")
    write(target, made)
    if read_graph(target).fill_constants(second) != made.fill_constants(second):
        raise ValueError("the file was read as another graph")
    note(card, target, worst)
    return f"{summary(made, target)}, difference {worst:.1g}"


def note(card: Card, target: Path, difference: float) -> None:
    """Write the name, the hash and the difference
    of a graph file into the card's entry in the catalogue.
    """
    shown = f"{difference:.1e}"
    values = {
        "file": target.name,
        "side": card.input_size,
        "sha256": sha256_file(target),
        "difference": shown,
    }
    entry = "    graph:\n" + "".join(f"      {key}: {value}\n" for key, value in values.items())
    for path in GRAPHS.parent.glob("*.yaml"):
        text = path.read_text(encoding="utf-8")
        entry_before = re.search(ENTRY.format(name=re.escape(card.name)), text)
        if entry_before:
            rest = text[entry_before.end() + len(entry_before["graph"] or "") :]
            path.write_text(text[: entry_before.end()] + entry + rest, encoding="utf-8")


def settle(model: keras.Model, layers: tuple[LayerSpec, ...], seed: int) -> dict[str, Array]:
    """Fill a model with random weights, none of them equal, whose activations keep their scale;
    return them.
    """
    draw = np.random.default_rng(seed)
    weights = dict[str, Array]()
    for layer in layers:
        for part, shape in layer.shapes.items():
            if len(shape) > 1:
                gain = GAIN_OF_LOGITS if layer.kind == "dense" else 2.0
                value = draw.normal(0.0, np.sqrt(gain / layer.fan_in(part)), shape)
            elif part == "bias":
                value = draw.normal(0.0, 0.1, shape)
            else:
                value = draw.uniform(0.5, 1.5, shape)
            weights[layer.tensor(part)] = value.astype(np.float32)
    fill_layers(model, weights)
    set_norm_statistics(model, draw)
    for layer in layers:
        values = model.get_layer(layer.name).get_weights()
        weights |= zip(map(layer.tensor, layer.shapes), values, strict=True)
        if layer.kind == "norm":  # a small map hardly varies, and rounding is multiplied there
            variance = layer.tensor("running_var")
            weights[variance] = np.maximum(weights[variance], LEAST_VARIANCE)
    return weights


def converted(model: keras.Model) -> bytes:
    with contextlib.redirect_stdout(io.StringIO()):
        return to_tflite(model)


def constants_difference(one: bytes, other: bytes) -> float:
    """Return the largest difference of a constant between two files of one graph,
    as a share of its largest value.
    """
    models = [unpack(data) for data in (one, other)]
    worst = 0.0
    for tensors in zip(*(model.subgraphs[0].tensors for model in models), strict=True):
        if tensors[0].type == TensorType.FLOAT32 and has_values(models[0], tensors[0]):
            actual, expected = (
                values_of(model, tensor) for model, tensor in zip(models, tensors, strict=True)
            )
            largest = np.abs(expected).max()
            worst = max(
                worst, float(np.abs(actual - expected).max() / largest) if largest else 0.0
            )
    return worst


def file_answers(data: bytes) -> Answers:
    """Return the function that computes the outputs of a file for an image."""
    runner = Interpreter(model_content=data).get_signature_runner()
    return lambda image: runner(image=image)


def largest_difference(one: Answers, other: Answers, images: Array) -> float:
    """Return the largest difference of an output for an image, as a share of its largest value."""
    worst = 0.0
    for image in images:
        actual, expected = one(image), other(image)
        for name in OUTPUTS:
            share = np.abs(expected[name] - actual[name]).max() / np.abs(expected[name]).max()
            worst = max(worst, float(share))
    return worst


if __name__ == "__main__":
    main()
