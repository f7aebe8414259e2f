"""Read a graph file: a network's ``.tflite`` without weights, and how each constant follows.

`_convert.py` fills it with a card's weights, so a search of heads needs no TensorFlow;
`tools/graphs` makes the files, and cards name them by their hash. The format is a zip archive with
``graph.tflite``, whose named constants are empty, ``constants.json``, and arrays of indices. A
constant is a sum of terms; a term is a tensor of the checkpoint with its axes moved, times factors
of its output channels: the rest of BatchNorm, and other scales that were folded into the layer.
Branches that add up to one convolution are such a sum too: smaller kernels with zeros around them,
and the kernel of an identity branch.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from advisor.catalog._cards import Card
from advisor.catalog._weights.mapping import LayerSpec, TrackedTensors, map_weights
from advisor.catalog._weights.readers import Array
from advisor.core import UsageError, WeightsError
from advisor.store import open_file, sha256_file, shipped_folder
from advisor.tflite import Model, read, unpack

GRAPH = "graph.tflite"
CONSTANTS = "constants.json"
MAX_BYTES = 2**24
IGNORED = ("num_batches_tracked",)
"""Ends of names of tensors that no graph needs."""


@dataclass(frozen=True)
class BoxCode:
    """The anchors of a detector, and how its encodings move them."""

    levels: tuple[AnchorLevel, ...]  # the maps that have anchors, in the order of the outputs
    order: tuple[int, ...]  # where y, x, height and width are among the four encodings
    # What each of the four encodings is multiplied by, in the network's own order.
    scales: tuple[float, ...]
    background: bool  # the first logit is that of the background, and a softmax makes scores

    @classmethod
    def from_json(cls, entry: Mapping[str, Any]) -> BoxCode:
        """Return what a graph file says."""
        levels = []
        for level in entry["levels"]:
            sides = tuple(map(tuple, level["sides"]))
            levels.append(AnchorLevel(tuple(level["cells"]), sides))
        return cls(
            tuple(levels), tuple(entry["order"]), tuple(entry["scales"]), entry["background"]
        )


@dataclass(frozen=True)
class AnchorLevel:
    """The anchors of one map: those of each place are around its middle."""

    cells: tuple[int, ...]  # rows and columns
    # Height and width of each anchor of a place, in shares of the image.
    sides: tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class GraphFile:
    """A network without weights.

    Attributes:
        graph: the ``.tflite``; the tensors of ``constants`` have empty buffers.
        constants: the terms of each constant by its tensor.
        norms: epsilon of each BatchNorm by the path of its tensors.
        shapes: shape of each tensor of a checkpoint by its name.
        indices: positions in a tensor's values, for constants that are gathered.
        layers: the layers whose weights the tensors are, in the layout of Keras; none if the
            tensors have PyTorch's.
        boxes: the boxes that the graph's encodings move, if it is a detector's.
    """

    graph: bytes
    constants: Mapping[int, list[dict[str, Any]]]
    norms: Mapping[str, float]
    shapes: Mapping[str, tuple[int, ...]]
    indices: Mapping[str, Array]
    layers: tuple[LayerSpec, ...] = ()
    boxes: BoxCode | None = None

    def tensors_of(self, port: str, tensors: Mapping[str, Array]) -> Mapping[str, Array]:
        """Return a file's tensors under the names of this graph.

        Raises:
            WeightsError: a tensor is missing, does not fit, or has no place.
        """
        return map_weights(port, self.layers, tensors) if self.layers else tensors

    def fill_constants(self, tensors: Mapping[str, Array]) -> bytes:
        """Return the ``.tflite`` with its constants, given a checkpoint's tensors by name.

        Raises:
            WeightsError: a tensor is missing, has another shape or values that are not finite, or
                has no place.
        """
        tracked = TrackedTensors(tensors)
        arrays = {}
        for name, shape in self.shapes.items():
            arrays[name] = self._check_tensor(name, shape, tracked(name))
        left = []
        for name in tracked.list_unused():
            if not name.endswith(IGNORED):
                left.append(name)
        if left:
            raise WeightsError(
                f"{len(left)} tensors of the file have no place in the graph, first '{left[0]}'"
            )
        model = unpack(self.graph)
        (graph,) = model.subgraphs
        for place, terms in self.constants.items():
            value = reduce(np.add, (self.term(term, arrays) for term in terms))
            entry = graph.tensors[place]
            # Rounded once, after all terms: in single precision, errors of factors would add up.
            content = np.ascontiguousarray(value.reshape(list(map(int, entry.shape))), dtype="<f4")
            model.buffers[entry.buffer].data = np.frombuffer(content.tobytes(), dtype=np.uint8)
        return model.pack()

    def term(self, term: Mapping[str, Any], tensors: Mapping[str, Array]) -> Array:
        """Return the value of one term in double precision."""
        if "number" in term:
            value = np.array(float(term["number"]))
        elif "scale" in term:
            value = self.scale(term["scale"], tensors)
        elif "deviation" in term:
            value = self.deviation(term["deviation"], tensors) ** term.get("power", 1)
        elif "shift" in term:
            bias = tensors[term["bias"]].astype(np.float64) if term.get("bias") else 0.0
            value = self.compute_shift(term["shift"], tensors, bias)
        elif "matrix" in term:
            matrix = tensors[term["matrix"]].astype(np.float64)
            by = term["by"]
            # The constant that a BatchNorm adds passes through the next matrix too.
            vector = (
                self.compute_shift(by, tensors)
                if by in self.norms
                else tensors[by].astype(np.float64)
            )
            rows = matrix.reshape(len(matrix), -1)
            value = rows @ np.broadcast_to(vector.reshape(-1), rows.shape[1])
        elif "identity" in term:
            value = make_identity(term["identity"]).transpose(term["axes"])
        else:
            value = tensors[term["from"]].astype(np.float64)
            if "index" in term:
                value = value.reshape(-1)[self.indices[term["index"]]]
            elif "sides" in term:
                value = pad_kernel(value, term["sides"]).transpose(term["axes"])
            elif "axes" in term:
                value = value.transpose(term["axes"])
        for factor, axis in term.get("times", ()):
            if isinstance(factor, str):
                vector = (
                    self.scale(factor, tensors)
                    if factor in self.norms
                    else tensors[factor].astype(np.float64)
                )
                value = value * vector.reshape(
                    [-1 if side == axis else 1 for side in range(value.ndim)]
                )
            else:
                value = value * factor
        return value

    def compute_shift(
        self, norm: str, tensors: Mapping[str, Array], bias: Array | float = 0.0
    ) -> Array:
        """Return what a BatchNorm adds to each channel, after a bias."""
        mean = tensors[f"{norm}.running_mean"].astype(np.float64)
        shift: Array = tensors[f"{norm}.bias"] + (bias - mean) * self.scale(norm, tensors)
        return shift

    def scale(self, norm: str, tensors: Mapping[str, Array]) -> Array:
        """Return what a BatchNorm multiplies each channel by; without a weight it only divides."""
        scale: Array = tensors.get(f"{norm}.weight", 1.0) / self.deviation(norm, tensors)
        return scale

    def deviation(self, norm: str, tensors: Mapping[str, Array]) -> Array:
        """Return what a BatchNorm divides each channel by."""
        deviation: Array = np.sqrt(
            tensors[f"{norm}.running_var"].astype(np.float64) + self.norms[norm]
        )
        return deviation

    @staticmethod
    def _check_tensor(name: str, shape: tuple[int, ...], value: Array) -> Array:
        if value.shape != shape:
            raise WeightsError(
                f"the tensor '{name}' has the shape {value.shape}, the graph takes {shape}"
            )
        if not np.isfinite(value).all():
            raise WeightsError(f"the values of the tensor '{name}' are not all finite")
        return value

    @property
    def params(self) -> int:
        """Number of trained values; BatchNorm's moving statistics are not among them."""
        return sum(prod(shape) for name, shape in self.shapes.items() if ".running_" not in name)

    def draw_tensors(self) -> dict[str, Array]:
        """Return a checkpoint of random weights of a fixed seed; activations keep their scale."""
        draw = np.random.default_rng(0)
        weights = dict[str, Array]()
        # Keras' kernels have the outputs last, PyTorch's first.
        fans_in: dict[str, int] = {}
        for layer in self.layers:
            for part in layer.shapes:
                fans_in[layer.tensor(part)] = layer.fan_in(part)
        for name, shape in self.shapes.items():
            end = name.rpartition(".")[2]
            if len(shape) > 1:
                spread = (2.0 / max(fans_in.get(name, prod(shape[1:])), 1)) ** 0.5
                weights[name] = draw.normal(0.0, spread, shape).astype(np.float32)
            else:
                # A BatchNorm that changes nothing:
                # a random scale would let the activations grow or die.
                neutral = 0.0 if end in ("bias", "running_mean") else 1.0
                weights[name] = np.full(shape, neutral, np.float32)
        return weights


def pad_kernel(kernel: Array, sides: Sequence[int]) -> Array:
    """Return a kernel (out, in, height, width) with zeros around it, of these odd sides."""
    height, width = kernel.shape[2:]
    down = (sides[0] - height) // 2
    across = (sides[1] - width) // 2
    return np.pad(kernel, [(0, 0), (0, 0), (down, down), (across, across)])


def make_identity(shape: Sequence[int]) -> Array:
    """Return the kernel (out, in, height, width), of odd sides, that returns its input."""
    out, into, height, width = shape
    kernel = np.zeros(shape)
    kernel[range(out), [channel % into for channel in range(out)], height // 2, width // 2] = 1.0
    return kernel


def graph_of(card: Card) -> GraphFile:
    """Return the graph of a card.

    UsageError is raised if its file is missing, damaged or another one than the card names.
    """
    named = card.filled_graph
    file = named.file if named else card.keywords.get("file", "")
    sha256 = named.sha256 if named else card.keywords.get("sha256")
    path = shipped_folder("catalogs") / "graphs" / str(file)
    if path.is_file():
        hash_now = sha256_file(path)
        if hash_now != sha256:
            problem = f"{path} has changed: its sha256 is {hash_now[:12]}..., the card has another"
            raise UsageError(problem, "install it again")
    return read_graph(path)


def read_operators(card: Card) -> Model | None:
    """Return the operators of a card's float file with their shapes; None without a graph file.

    Weights have one byte in place of their values, because they are constants, and
    nobody reads them.

    Raises:
        UsageError: as :func:`graph_of` does.
    """
    if card.filled_graph is None and (card.own_file or not card.by_file):
        return None
    file = graph_of(card)
    model = read(file.graph, card.name)
    (graph,) = model.subgraphs
    tensors = list(graph.tensors)
    for place in file.constants:
        tensors[place] = replace(tensors[place], buffer=b"\0")
    return replace(model, subgraphs=(replace(graph, tensors=tuple(tensors)),))


def _layer(
    entry: Sequence[Any], shapes: Mapping[str, tuple[int, ...]], norms: Mapping[str, float]
) -> LayerSpec:
    name, kind, parts = entry
    return LayerSpec(
        name, kind, {part: shapes[f"{name}.{part}"] for part in parts}, norms.get(name, 0.0)
    )


def read_graph(path: Path) -> GraphFile:
    """Read a graph file; UsageError if it is missing or damaged."""
    try:
        with (
            open_file(path, MAX_BYTES) as file,
            zipfile.ZipFile(io.BytesIO(file.read())) as archive,
        ):
            # A small archive can unpack to gigabytes.
            if sum(entry.file_size for entry in archive.infolist()) > 8 * MAX_BYTES:
                raise ValueError("it is too large")
            document = json.loads(archive.read(CONSTANTS))
            names = []
            for name in archive.namelist():
                if name.endswith(".npy"):
                    names.append(name)
            norms = document["norms"]
            shapes = {name: tuple(shape) for name, shape in document["shapes"].items()}
            boxes = None
            if "detector" in document:
                boxes = BoxCode.from_json(document["detector"])
            return GraphFile(
                graph=archive.read(GRAPH),
                constants={int(place): terms for place, terms in document["constants"].items()},
                norms=norms,
                shapes=shapes,
                indices={
                    name: np.load(io.BytesIO(archive.read(name)), allow_pickle=False)
                    for name in names
                },
                layers=tuple(_layer(entry, shapes, norms) for entry in document.get("layers", ())),
                boxes=boxes,
            )
    except UsageError:
        raise
    # A damaged file can fail a parser in any way.
    except Exception as error:
        raise UsageError(
            f"{path} is not a graph file: {error}", "install the advisor again"
        ) from error
