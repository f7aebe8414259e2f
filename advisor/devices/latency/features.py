"""What a latency depends on in a model, known before it is ever run."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from advisor.core.errors import UsageError

FEATURES_FILE = "model_features.csv"
TRAITS_FILE = "model_traits.csv"
VECTOR_SIZE = 9

_PER_CONVOLUTION = {
    "grouped": ("GROUPED_CONV_2D",),
    "smooth": ("LOGISTIC", "HARD_SWISH", "GELU", "TANH", "EXP"),
    "squeeze_excite": ("MEAN", "REDUCE_MEAN"),
    "branches": ("CONCATENATION", "SPLIT", "SPLIT_V"),
}


@dataclass(frozen=True)
class Traits:
    """Shape of an architecture, each 0 (absent) to 1 (everywhere).

    Attributes:
        depthwise: share of the convolution blocks that are depthwise.
        grouped: share that are grouped.
        attention: matrix products between activations.
        smooth: activations other than ReLU (swish, GELU, sigmoid), which some accelerators lack.
        squeeze_excite: global pooling inside the blocks.
        branches: concatenations and splits.
    """

    depthwise: float = 0.0
    grouped: float = 0.0
    attention: float = 0.0
    smooth: float = 0.0
    squeeze_excite: float = 0.0
    branches: float = 0.0

    @property
    def values(self) -> tuple[float, ...]:
        """The six shares in a fixed order."""
        return (self.depthwise, self.grouped, self.attention, self.smooth, self.squeeze_excite, self.branches)


@dataclass(frozen=True)
class ModelFeatures:
    """One model.

    Attributes:
        name: its name; where measurements exist under it, they are used.
        family: its family.
        macs: multiply-accumulates of one inference.
        params: weights.
        input_size: side of the square input, pixels.
        traits: shape of the architecture.
    """

    name: str
    family: str
    macs: float
    params: float
    input_size: int
    traits: Traits = field(default_factory=Traits)

    @property
    def vector(self) -> tuple[float, ...]:
        """``(log MACs, log params, log input size, traits...)``, :data:`VECTOR_SIZE` numbers.

        Raises:
            UsageError: a count that is not above zero.
        """
        for label, value in (("MACs", self.macs), ("params", self.params), ("input size", self.input_size)):
            if not value > 0 or not math.isfinite(value):
                raise UsageError(f"{self.name}: {label} {value} is not above zero", "correct the model card")
        return (math.log(self.macs), math.log(self.params), math.log(self.input_size), *self.traits.values)


def traits_of_operators(counts: Mapping[str, int]) -> Traits:
    """Return the traits of a ``.tflite`` from how many operators of each kind it has.

    Args:
        counts: TFLite operator names to counts; grouped convolutions under ``GROUPED_CONV_2D``.
    """
    convolutions = max(1, counts.get("CONV_2D", 0) + counts.get("GROUPED_CONV_2D", 0))
    share = {
        trait: min(1.0, sum(counts.get(name, 0) for name in names) / convolutions)
        for trait, names in _PER_CONVOLUTION.items()
    }
    # A block of a mobile network is one depthwise convolution between two pointwise ones.
    depthwise = min(1.0, 2 * counts.get("DEPTHWISE_CONV_2D", 0) / convolutions)
    products = counts.get("BATCH_MATMUL", 0)
    return Traits(depthwise=depthwise, attention=min(1.0, products / 8), **share)


@dataclass(frozen=True)
class FeatureTable:
    """Features of the models that the shipped measurements name.

    Attributes:
        models: features by model name.
        traits: (name's beginning, family, traits); the longest beginning wins.
    """

    models: Mapping[str, ModelFeatures]
    traits: tuple[tuple[str, str, Traits], ...]

    def traits_of(self, name: str) -> tuple[str, Traits] | None:
        """Return family and traits of the longest listed beginning of ``name``, or None."""
        matches = [entry for entry in self.traits if name.startswith(entry[0])]
        if not matches:
            return None
        _, family, traits = max(matches, key=lambda entry: len(entry[0]))
        return family, traits

    def features(self, name: str, family: str, macs: float, params: float, input_size: int) -> ModelFeatures:
        """Return the features of a model card, its traits by name, else by family, else those of a plain network."""
        known = self.traits_of(name) or self.traits_of(family)
        return ModelFeatures(name, family, macs, params, input_size, known[1] if known else Traits())


def load_features(folder: Path) -> FeatureTable:
    """Read the two tables of ``folder``.

    Raises:
        UsageError: a table that is missing or has a cell that is not a number, with file and line.
    """
    traits = tuple(
        (row["prefix"], row["family"], Traits(*(_number(row, key, at) for key in Traits.__dataclass_fields__)))
        for row, at in _rows(folder / TRAITS_FILE)
    )
    empty = FeatureTable({}, traits)
    models = {}
    for row, at in _rows(folder / FEATURES_FILE):
        known = empty.traits_of(row["name"])
        if known is None:
            raise UsageError(f"{at}: '{row['name']}' begins with none of the names in {TRAITS_FILE}")
        family, shape = known
        size = int(_number(row, "input_size", at))
        models[row["name"]] = ModelFeatures(
            row["name"], family, _number(row, "macs", at), _number(row, "params", at), size, shape
        )
    return FeatureTable(models, traits)


def _rows(path: Path) -> list[tuple[dict[str, str], str]]:
    try:
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            return [(row, f"{path}:{reader.line_num}") for row in reader]
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error}", "install the package again") from error


def _number(row: Mapping[str, str], key: str, at: str) -> float:
    try:
        return float(row[key])
    except (KeyError, TypeError, ValueError):
        raise UsageError(f"{at}: the column '{key}' is not a number") from None
