"""Write the maps of a backbone at its cuts, in the pass that computes its features.

`_features.py` calls :class:`MapWriter`, and fine-tuning on cached maps reads the files
(`_finetune/maps.py`); without them it would run the lower part over the same images once more. A
cut is a map where fine-tuning may split the backbone. It is known here by the operators below it,
without a graph of Keras: whoever reads the maps compares some of them with its own network. The
names of the files (:attr:`Cut.file`) are a format on disk.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from advisor.core import StageError, list_choosable, recipe_of
from advisor.tflite import Tables

if TYPE_CHECKING:
    from ai_edge_litert import schema_py_generated as schema

Maps = NDArray[np.float16]
Floats = NDArray[np.float32]

_CACHED_SHARES = [recipe_of(name).layers for name in list_choosable() if recipe_of(name).cached]
SHARES = tuple(sorted({0.2, 0.35, 0.5, *_CACHED_SHARES}))
"""Shares of trained layers whose cuts get maps, as in ``LAYERS_IN_TIME``, the smallest first."""

MOST_BYTES = 150_000_000
"""Size of the maps of one pass, at most: larger maps cost more time than they save."""

LAYERS_OF = {"CONV_2D": 2, "DEPTHWISE_CONV_2D": 2}
"""Layers of Keras for an operator: a convolution and its BatchNorm; others are one.

A fused activation is one more.
"""


@dataclass(frozen=True)
class Cut:
    """A map of a backbone through which all data passes, with the number of layers below."""

    tensor: int
    shape: tuple[int, ...]
    layers: int

    @property
    def file(self) -> str:
        """The name of the file of its maps."""
        return f"map-{_name_shape(self.shape)}-{self.layers}.npy"


def _name_shape(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape))


class MapWriter:
    """A backbone that writes its maps into ``folder`` while it computes features of images.

    There are ``count`` images. Call it with one normalised image after the other, float32 (size,
    size, 3); it returns the features, float32 (F,). StageError if the file has no such cut.
    """

    def __init__(self, model: Path, folder: Path, count: int) -> None:
        from ai_edge_litert.interpreter import Interpreter

        data, cuts = with_cuts(model.read_bytes(), count)
        self._interpreter: Any = Interpreter(model_content=data, num_threads=1)
        self._interpreter.allocate_tensors()
        self._input = self._interpreter.get_input_details()[0]["index"]
        features, *maps = (output["index"] for output in self._interpreter.get_output_details())
        self._features = features
        self._files = list[tuple[int, Maps]]()
        for tensor, cut in zip(maps, cuts, strict=True):
            shape = (count, *cut.shape)
            file = np.lib.format.open_memmap(
                folder / cut.file, mode="w+", dtype=np.float16, shape=shape
            )
            self._files.append((tensor, file))
        self._row = 0

    def __call__(self, image: Floats) -> Floats:
        """Return the features of an image."""
        self._interpreter.set_tensor(self._input, image[None])
        self._interpreter.invoke()
        for index, file in self._files:
            file[self._row] = self._interpreter.get_tensor(index)[0]
        self._row += 1
        features: Floats = self._interpreter.get_tensor(self._features).reshape(-1)
        return features


class CutMaps:
    """The maps of images that :class:`MapWriter` wrote, in parts that follow each other."""

    def __init__(self, parts: Sequence[Path]) -> None:
        self._parts = [np.load(part, mmap_mode="r", allow_pickle=False) for part in parts]
        self._starts = np.cumsum([0, *map(len, self._parts)])

    def __len__(self) -> int:
        return int(self._starts[-1])

    def rows(self, places: NDArray[np.int64]) -> Maps:
        """Return the maps of the images at these places, float16 (n, height, width, channels)."""
        rows = []
        for place in places:
            part = int(np.searchsorted(self._starts, place, side="right")) - 1
            start = self._starts[part]
            rows.append(self._parts[part][place - start])
        return np.stack(rows)


def find_cut_maps(features: Sequence[Path], shape: Sequence[int], count: int) -> Iterator[CutMaps]:
    """Yield the maps of each cut of a shape that lie beside the features of ``count`` images."""
    if not features:
        return
    first = features[0].parent
    for file in sorted(first.glob(f"map-{_name_shape(shape)}-*.npy")):
        files = [part.with_name(file.name) for part in features]
        if not all(part.is_file() for part in files):
            continue
        maps = CutMaps(files)
        # A part whose features were known before has no maps.
        if len(maps) == count:
            yield maps


def with_cuts(data: bytes, count: int) -> tuple[bytes, list[Cut]]:
    """Return a backbone whose maps at the cuts are further outputs, and the cuts.

    The cuts are those of :data:`SHARES`. StageError if it has none that is small enough for
    ``count`` images, or cannot be edited.
    """
    from advisor.tflite import unpack

    model = unpack(data)
    graph = model.subgraphs[0]
    if len(model.subgraphs) != 1 or len(graph.outputs) != 1:
        raise StageError("the backbone has more than one graph with its features alone as output")
    cuts = list[Cut]()
    size = 0
    passages = list(_list_passages(model, graph))
    for share in SHARES:
        cut = _find_highest_below(passages, share)
        if cut is None or cut in cuts:
            continue
        # Two bytes a value: maps are stored in float16.
        maps_bytes = 2 * count * int(np.prod(cut.shape))
        # A wide map is left out, and a narrower one of another share may still fit.
        if size + maps_bytes <= MOST_BYTES:
            cuts.append(cut)
            size += maps_bytes
    if not cuts:
        raise StageError("the backbone has no map at which it can be cut")
    graph.outputs = [int(graph.outputs[0]), *(cut.tensor for cut in cuts)]
    return model.pack(), cuts


def _find_highest_below(passages: Sequence[tuple[int, Cut | None]], share: float) -> Cut | None:
    """Return the highest cut below the top layers, a share of all; None if there is none."""
    if not passages:
        return None
    whole = 1 + passages[-1][0]
    # The same rounding as in `freeze_layers`, whose layers are counted here without Keras.
    first = round((1.0 - share) * whole)
    highest = None
    for layer, cut in passages:
        if layer < first and cut is not None:
            highest = cut
    return highest


def _list_passages(model: Tables, graph: schema.SubGraphT) -> Iterator[tuple[int, Cut | None]]:
    """Yield for each operator the place of its last trainable layer in Keras, and its cut.

    BatchNorm is never trained there. There is no cut unless all data passes through the map: none
    below is read above. The means of the levels, which only the features have, do not count.
    """

    operators = _list_operators_of_features(graph)
    last_use = dict[int, int]()
    for place, operator in enumerate(operators):
        last_use.update((int(index), place) for index in operator.inputs)
    # Layer 0 is the input itself.
    layer = 0
    reach = last_use.get(int(graph.inputs[0]), 0)
    for place, operator in enumerate(operators):
        activation = getattr(operator.builtinOptions, "fusedActivationFunction", 0)
        layers = LAYERS_OF.get(model.name_operator(operator), 1)
        layer += layers + bool(activation)
        output = int(operator.outputs[0])
        shape = tuple(map(int, graph.tensors[output].shape))
        cut = None
        if reach <= place and len(shape) == 4:
            cut = Cut(output, shape[1:], layer)
        # A fused activation is a layer without weights in Keras, which may count as trained.
        trained = layer if activation else layer - layers + 1
        yield trained, cut
        reach = max(reach, last_use.get(output, place))


def _list_operators_of_features(graph: schema.SubGraphT) -> list[schema.OperatorT]:
    """Return the operators that the features of the last layer need, in their order."""
    makers: dict[int, schema.OperatorT] = {}
    for operator in graph.operators:
        makers.update(dict.fromkeys(map(int, operator.outputs), operator))
    wanted = int(graph.outputs[0])
    last = makers[wanted]
    sources = []
    for index in last.inputs:
        if int(index) in makers:
            sources.append(int(index))
    if len(sources) > 1:
        # The means of the levels follow the features of the last layer.
        wanted = sources[0]
    needed = set[int]()
    open_tensors = [wanted]
    while open_tensors:
        operator = makers.get(open_tensors.pop())
        if operator is None or id(operator) in needed:
            continue
        needed.add(id(operator))
        open_tensors += list(map(int, operator.inputs))
    return [operator for operator in graph.operators if id(operator) in needed]
