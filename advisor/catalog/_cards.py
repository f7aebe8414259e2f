"""Define a model card: what a candidate is, what was published about it, where its weights are.

A card is one network of a search. `_schema.py` makes cards of catalogue files, and
`_parsed_cache.py` those of files that were read before. `training`, `devices`, `tasks`, `engine`,
`api` and `cli` read them. The fields are keys of catalogue files and of JSON documents. The keys
of stages have those that decide the float file: architecture, arguments, side, classes,
preprocessing and the chosen weights (``identity`` in `stages/backbone.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.util import find_spec
from types import MappingProxyType

from advisor.core import TASKS, OwnCards, TaskFacts, install_extra
from advisor.store import WeightSource

Scalar = bool | int | float | str

GRAPH_FILE = "graph_file"
"""Architecture of a card whose graph is a file in ``catalogs/graphs``.

Its arguments are ``file`` and ``sha256``.
"""

FORMAT_PACKAGES = MappingProxyType({"keras_h5": ("h5py", "train")})
"""Formats of weights that need a package outside of the light install, and its extra."""

_own_files = dict[str, TaskFacts]()
for _task in TASKS.values():
    if _task.own_cards is not None:
        _own_files[_task.own_cards.architecture] = _task
        _own_files[_task.own_cards.finished] = _task
OWN_FILES: Mapping[str, TaskFacts] = MappingProxyType(_own_files)
"""The tasks of users' own ``.tflite`` files, by the architecture in their cards."""

WHOLE_NETWORKS: Mapping[str, TaskFacts] = MappingProxyType(
    {task.whole_networks: task for task in TASKS.values() if task.whole_networks}
)
"""The tasks of networks that learnt a whole task on other images, by their architecture."""


@dataclass(frozen=True, slots=True)
class Preprocessing:
    """Conversion of RGB values 0..255 to the model's input, channel by channel.

    The input is ``(value - mean) / std``.
    """

    #: value that is subtracted from red, green and blue, 0 to 255
    mean: tuple[float, float, float]
    std: tuple[float, float, float]  #: value that the difference is divided by


@dataclass(frozen=True, slots=True)
class Published:
    """The figures that one source publishes."""

    #: form of the file; ``int8_qat`` where the figure belongs to weights from quantization-aware
    #: training, which quantizing the float weights does not reach.
    precision: str
    source: str  #: where the figures are from
    #: share in % of the ImageNet validation set whose first answer is right
    top1: float | None = None
    top5: float | None = None  #: share in % with the right answer among the first five
    #: COCO's mean average precision in % on its validation images of 2017
    map: float | None = None
    #: number of parameters as the source rounds it; the card's own is exact
    params: int | None = None
    macs: int | None = None  #: number of multiply-accumulates for one image, likewise
    note: str = ""  #: why a figure differs from those of the card


@dataclass(frozen=True, slots=True)
class Conversion:
    """The conversion of another framework's model to the card's ``.tflite``, with agreement."""

    converter: str  #: the converter and its version, such as ``onnx2tf 2.6.9``
    runtime: str  #: the runtime of the original, such as ``onnxruntime 1.31.1``
    images: int  #: number of images that both ran
    #: the largest difference of a score, relative to the largest score of the image
    difference: float
    agreement: float  #: share of the images with the same class on top, 0 to 1
    transposes: int = 0  #: number of transposes that the conversion left in the graph
    transposed: float = 0.0  #: their share in the values that operators read and write, 0 to 1


@dataclass(frozen=True, slots=True)
class GraphReference:
    """A graph file of ``catalogs/graphs``; it becomes a float file without TensorFlow."""

    file: str  #: its name
    side: int  #: side of its input in pixels; at another side, the card has no graph file
    sha256: str  #: its hash: 64 hexadecimal digits
    #: the largest difference of an answer from the file that TensorFlow converts, relative to the
    #: largest answer
    difference: float = 0.0


@dataclass(frozen=True, slots=True)
class Card:
    """One row of the catalogue."""

    name: str  #: unique name, such as ``mobilenet_v2_1.0_224``
    family: str  #: family of networks
    input_size: int  #: side of the square input in pixels
    preprocessing: Preprocessing  #: how an image becomes the input
    #: number of trained values of the graph, without BatchNorm's moving statistics
    params: int
    macs: int  #: number of multiply-accumulates of its convolutions and dense layers for one image
    licence: str  #: SPDX identifier, or other words
    paper: str  #: where the network is described
    architecture: str  #: function that builds the graph
    #: what that function takes besides the side of the input and the classes.
    arguments: tuple[tuple[str, Scalar], ...] = ()
    classes: int = 1000  #: number of classes of the published weights
    label_offset: int = 0  #: 1 where label 0 is the background, else 0
    published: tuple[Published, ...] = ()  #: figures that sources publish
    weights: tuple[WeightSource, ...] = ()  #: places of the weights, the preferred one first
    note: str = ""  #: what is to know of the card
    #: how it was made from a model of another framework, None if it was not
    conversion: Conversion | None = None
    graph: GraphReference | None = None  #: the graph as a file, None if only Keras builds it

    @property
    def own_file(self) -> bool:
        """True if the card is a user's own file, for which no graph is built."""
        return self.architecture in OWN_FILES

    @property
    def whole(self) -> bool:
        """True if the network learnt a whole task on other images, as a detector with its head."""
        return self.architecture in WHOLE_NETWORKS

    @property
    def by_file(self) -> bool:
        """True if the card's graph is a file, and no Keras graph is built for it."""
        return self.own_file or self.whole or self.architecture == GRAPH_FILE

    @property
    def needs_converter(self) -> bool:
        """True if TensorFlow makes the card's float file: it has no graph file for its side."""
        return not self.by_file and self.filled_graph is None

    @property
    def readable_sources(self) -> tuple[WeightSource, ...]:
        """The sources whose format this installation can read."""
        return tuple(
            source for source in self.weights if not any(find_missing_reader(source.format))
        )

    @property
    def filled_graph(self) -> GraphReference | None:
        """The graph file at the card's side, None if only Keras builds the graph at this side."""
        if self.graph and self.graph.side == self.input_size:
            return self.graph
        return None

    @property
    def task(self) -> str:
        """The only task of a user's own file or a whole network; empty for any other card.

        Other cards are trained for any task.
        """
        task = OWN_FILES.get(self.architecture) or WHOLE_NETWORKS.get(self.architecture)
        return task.name if task else ""

    @property
    def is_finished(self) -> bool:
        """True for a user's own detector or finished file, which is judged and never trained."""
        own_cards = self._own_cards
        if own_cards is None:
            return False
        return not own_cards.trained or self.architecture == own_cards.finished

    @property
    def form(self) -> str:
        """The only form of a user's file that is not compressed, such as ``int8``.

        Empty for every other card.
        """
        own_cards = self._own_cards
        if own_cards is None or self.architecture != own_cards.finished:
            return ""
        return str(self.keywords.get("form", "float32"))

    @property
    def _own_cards(self) -> OwnCards | None:
        """The task's words on cards of users' own files; None if this is no such card."""
        return OWN_FILES[self.architecture].own_cards if self.own_file else None

    @property
    def keywords(self) -> dict[str, Scalar]:
        """The architecture's arguments as a dictionary."""
        return dict(self.arguments)

    def top1(self, precision: str = "float32") -> float | None:
        """Return the first published top-1 (percent) at ``precision``, or None."""
        for published in self.published:
            if published.precision == precision and published.top1 is not None:
                return published.top1
        return None

    def at(self, side: int) -> Card:
        """Return the card with another side of the input, in pixels.

        The weights of convolutions fit every size. A graph that is a file alone keeps its side.
        """
        if self.by_file:
            return self
        # Layers cost in proportion to their pixels, but the dense layer at the end, a small part.
        macs = round(self.macs * (side / self.input_size) ** 2)
        return replace(self, input_size=side, macs=macs)


def find_missing_reader(format_name: str) -> tuple[str, str]:
    """Return what is missing here to read a format of weights, and how to install it.

    Both are empty if nothing is missing.
    """
    package, extra = FORMAT_PACKAGES.get(format_name, ("", ""))
    if not package or find_spec(package) is not None:
        return ("", "")
    return (f"{package}, which reads them, is not installed", install_extra(extra))
