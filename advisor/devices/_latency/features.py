"""Features of a model that its latency depends on, known before it runs.

They come from a ``.tflite`` file (:func:`read_features`), or from the shipped tables by the
model's name (:func:`load_features`). The order of :attr:`ModelFeatures.vector` is that of all
arrays of features in this room, and a part of the fingerprint of the measurements.
"""

from __future__ import annotations

import csv
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from advisor.core import FileFeatures, Traits, UsageError
from advisor.devices._latency.architecture import Architecture
from advisor.devices._profiles.reading import find_shipped_profiles
from advisor.tflite import (
    Model,
    Operator,
    Subgraph,
    activation_arena_bytes,
    count,
    form_of,
    indirection_bytes,
    micro_arena,
    read,
)

if TYPE_CHECKING:
    from advisor.tflite import Works

FEATURES_FILE = "model_features.csv"
TRAITS_FILE = "model_traits.csv"
VECTOR_SIZE = 10

_PER_CONVOLUTION = {
    "grouped": ("GROUPED_CONV_2D",),
    "smooth": ("LOGISTIC", "HARD_SWISH", "GELU", "TANH", "EXP"),
    "squeeze_excite": ("MEAN", "REDUCE_MEAN"),
    "branches": ("CONCATENATION", "SPLIT", "SPLIT_V"),
}

CONVERTS = frozenset({"QUANTIZE", "DEQUANTIZE"})
"""Operators that convert between forms.
They depend on the compression, so they do not count as layers.
"""

_NETWORK_OPERATORS = frozenset(
    [
        "ABS",
        "ADD",
        "AVERAGE_POOL_2D",
        "BATCH_MATMUL",
        "CONCATENATION",
        "CONV_2D",
        "COS",
        "DEPTHWISE_CONV_2D",
        "DIV",
        "EXP",
        "FLOOR_DIV",
        "FULLY_CONNECTED",
        "GELU",
        "HARD_SWISH",
        "LOGISTIC",
        "MAXIMUM",
        "MAX_POOL_2D",
        "MEAN",
        "MUL",
        "POW",
        "REDUCE_MAX",
        "RELU",
        "RELU6",
        "RESIZE_BILINEAR",
        "RESIZE_NEAREST_NEIGHBOR",
        "RSQRT",
        "SIN",
        "SOFTMAX",
        "SQRT",
        "SQUARED_DIFFERENCE",
        "SUB",
        "SUM",
        "TANH",
    ]
)
"""Operators of the catalogue's networks. Nearly all are in networks with measurements, and the
others, such as those that resize, do little.
"""

_CHEAP_OPERATORS = frozenset(
    [
        "ARG_MAX",
        "CAST",
        "CUSTOM:TFLite_Detection_PostProcess",
        "EXPAND_DIMS",
        "GATHER",
        "GREATER",
        "IF",
        "L2_NORMALIZATION",
        "PACK",
        "PAD",
        "PADV2",
        "RESHAPE",
        "SHAPE",
        "SLICE",
        "SPLIT",
        "SPLIT_V",
        "SQUEEZE",
        "STRIDED_SLICE",
        "TILE",
        "TOPK_V2",
        "TRANSPOSE",
        "UNPACK",
    ]
)
"""Operators that only move values, or that stand behind the last layer of a network."""

_ELEMENTWISE_OPERATORS = frozenset(
    ["ELU", "LEAKY_RELU", "MINIMUM", "NEG", "PRELU", "SQUARE"],
)
"""Operators that read and write each value once, as the measured RELU and MAXIMUM do."""

SAME_NETWORK = 0.15
"""Largest difference (natural logarithm) between the MACs of a file and of the model of the same
name. Another head changes them by a few percent, another input size by much more.
"""

_PLAIN = Architecture("", "", 80, Traits())


@dataclass(frozen=True)
class ModelFeatures:
    """The features of one model."""

    name: str  # its name; known latencies of this name are used
    family: str  # its family
    macs: float  # multiply-accumulates of one inference
    params: float  # number of weights
    input_size: int  # side of the square input in pixels
    layers: float  # operators of its float ``.tflite``; each has a small fixed cost
    traits: Traits = field(default_factory=Traits)  # shape of the architecture
    # different operators of its file, each with its number; empty if they are not known
    operators: Works = field(default=(), repr=False)
    # names of the operators of its file that no measured network has
    unmeasured: tuple[str, ...] = ()

    @property
    def vector(self) -> tuple[float, ...]:
        """``(log MACs, log params, log input size, log layers, traits...)``,
        :data:`VECTOR_SIZE` numbers.
        """
        counts = {
            "MACs": self.macs,
            "params": self.params,
            "input size": self.input_size,
            "layers": self.layers,
        }
        for label, value in counts.items():
            if not 0 < value < math.inf:
                raise UsageError(
                    f"{self.name}: {label} {value} is not above zero", "correct the model card"
                )
        return (*map(math.log, counts.values()), *self.traits.values)

    @classmethod
    def of_file(
        cls,
        file: FileFeatures,
        name: str,
        family: str,
        table: FeatureTable,
    ) -> ModelFeatures | None:
        """Return the features for the predictor;
        None for a file without MACs, weights, image input or layers.

        ``name`` and ``family`` are those of the model card. Known latencies of ``name`` are used
        only if the file has about as many MACs as that model.
        """
        if min(file.macs, file.parameters, file.input_size, file.layers) <= 0:
            return None
        listed = table.models.get(name)
        architecture = table.architecture(name) or table.architecture(family)
        # A file of the user may have the name of a published network and other layers.
        # Its known latencies do not apply then.
        has_other_layers = (
            listed is not None and abs(math.log(file.macs / listed.macs)) > SAME_NETWORK
        )
        unmeasured: tuple[str, ...] = ()
        if listed is None or has_other_layers:
            unmeasured = list_unmeasured(file.operators)
        return cls(
            name=f"{name} with other layers" if has_other_layers else name,
            family=architecture.family if architecture else family,
            macs=float(file.macs),
            params=float(file.parameters),
            input_size=file.input_size,
            layers=float(file.layers),
            traits=file.traits,
            unmeasured=unmeasured,
        )


def list_unmeasured(operators: Iterable[str]) -> tuple[str, ...]:
    """Return the names of operators whose time no measured network tells, sorted."""
    known = _NETWORK_OPERATORS | _CHEAP_OPERATORS | _ELEMENTWISE_OPERATORS | CONVERTS
    return tuple(sorted(set(operators) - known))


def traits_of_operators(counts: Mapping[str, int]) -> Traits:
    """Return the traits of a ``.tflite`` file from the number of its operators
    of each kind (by TFLite name).

    Grouped convolutions count under ``GROUPED_CONV_2D``.
    """
    convolutions = max(1, counts.get("CONV_2D", 0) + counts.get("GROUPED_CONV_2D", 0))
    counts_by_trait = {}
    for trait, names in _PER_CONVOLUTION.items():
        counts_by_trait[trait] = sum(counts.get(name, 0) for name in names)
    share = {trait: min(1.0, number / convolutions) for trait, number in counts_by_trait.items()}
    # A block of a mobile network is one depthwise convolution between two pointwise ones.
    depthwise = min(1.0, 2 * counts.get("DEPTHWISE_CONV_2D", 0) / convolutions)
    return Traits(
        depthwise=depthwise, attention=min(1.0, counts.get("BATCH_MATMUL", 0) / 8), **share
    )


Models = Sequence[ModelFeatures]


@dataclass(frozen=True)
class FeatureTable:
    """Features of the models that the shipped measurements name."""

    models: Mapping[str, ModelFeatures]  # features by model name
    # Shared features by the beginning of the name; the longest beginning wins.
    architectures: tuple[Architecture, ...]

    def architecture(self, name: str) -> Architecture | None:
        """Return the architecture with the longest beginning of ``name``, or None."""
        matches = [known for known in self.architectures if name.startswith(known.prefix)]
        if matches:
            return max(matches, key=lambda known: len(known.prefix))
        return None

    def features(
        self,
        name: str,
        family: str,
        macs: float,
        params: float,
        input_size: int,
    ) -> ModelFeatures:
        """Return the features of a model card;
        its name, its family or a default decides on the architecture.
        """
        known = self.architecture(name) or self.architecture(family) or _PLAIN
        return ModelFeatures(
            name, known.family or family, macs, params, input_size, known.layers, known.traits
        )


def load_features() -> FeatureTable:
    """Read the two tables that are shipped with the device profiles; errors name file and line."""
    folder = find_shipped_profiles()
    architectures = []
    for row, at in _read_rows(folder / TRAITS_FILE):
        traits = Traits(*(_parse_number(row, key, at) for key in Traits.__dataclass_fields__))
        architectures.append(
            Architecture(row["prefix"], row["family"], _parse_number(row, "layers", at), traits)
        )
    empty = FeatureTable({}, tuple(architectures))
    models = {}
    for row, at in _read_rows(folder / FEATURES_FILE):
        known = empty.architecture(row["name"])
        if known is None:
            raise UsageError(
                f"{at}: '{row['name']}' begins with none of the names in {TRAITS_FILE}",
                "add a row there",
            )
        macs = _parse_number(row, "macs", at)
        params = _parse_number(row, "params", at)
        size = int(_parse_number(row, "input_size", at))
        models[row["name"]] = empty.features(row["name"], known.family, macs, params, size)
    return FeatureTable(models, empty.architectures)


def _read_rows(path: Path) -> list[tuple[dict[str, str], str]]:
    try:
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            return [(row, f"{path}:{reader.line_num}") for row in reader]
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error}", "install the package again") from error


def _parse_number(row: Mapping[str, str], key: str, at: str) -> float:
    try:
        return float(row[key])
    except (KeyError, TypeError, ValueError):
        raise UsageError(
            f"{at}: the column '{key}' is not a number", "install the package again"
        ) from None


def read_features(source: Model | Path | bytes) -> FileFeatures:
    """Return the features of a ``.tflite`` file, also of one that is read already;
    UsageError if it is missing or damaged.
    """
    model = source if isinstance(source, Model) else read(source)
    graph = model.subgraphs[0]
    cost = count(model)
    kinds = Counter(_find_kind(graph, operator) for operator in graph.operators)
    shape = model.inputs[0].shape if model.inputs else ()
    form = form_of(model, cost)
    weights = sum(len(tensor.buffer) for tensor in graph.tensors)
    # Operators expand constants, and kernels pack expanded 8-bit ones once more.
    widened = sum(graph.tensors[index].size_bytes for index in graph.expanded)
    return FileFeatures(
        macs=cost.macs,
        parameters=cost.parameters,
        input_size=shape[1] if len(shape) == 4 else 0,
        layers=sum(number for kind, number in kinds.items() if kind not in CONVERTS),
        form=form,
        arena_bytes=activation_arena_bytes(model),
        operators=dict(Counter(operator.name for operator in graph.operators).most_common()),
        traits=traits_of_operators(kinds),
        weight_bytes=weights,
        # Files without expanded constants pack each weight once.
        held_bytes=(widened * (2 if form == "weight_int8" else 1) or weights)
        + indirection_bytes(graph),
        micro_arena_bytes=micro_arena(model).total,
    )


def _find_kind(graph: Subgraph, operator: Operator) -> str:
    """Return the operator's name; a kernel of less depth than its input is a grouped one's."""
    if operator.name != "CONV_2D" or len(operator.inputs) < 2:
        return operator.name
    source, kernel = (graph.tensors[index].shape for index in operator.inputs[:2])
    if source and kernel and source[-1] != kernel[-1]:
        return "GROUPED_CONV_2D"
    return operator.name
