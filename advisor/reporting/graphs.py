"""The operators and multiply-accumulates of a file, for the report."""

from __future__ import annotations

from dataclasses import dataclass

from advisor.core.file_features import FileFeatures


@dataclass(frozen=True)
class OperatorRow:
    """One kind of operator: its count, and its share of all operators in %."""

    name: str
    count: int
    share: float


@dataclass(frozen=True)
class GraphSummary:
    """A file in numbers.

    Attributes:
        operators: kinds, the most frequent first.
        macs: multiply-accumulates of one run.
        parameters: elements of the weights.
        layers: operators that compute.
        form: how most of the multiply-accumulates are computed.
        arena_bytes: memory of the activations.
    """

    operators: tuple[OperatorRow, ...]
    macs: int
    parameters: int
    layers: int
    form: str
    arena_bytes: int


def graph_summary(file: FileFeatures) -> GraphSummary:
    """Return what the report says of a file's operators."""
    counts = sorted(file.operators.items(), key=lambda row: -row[1])
    total = max(sum(file.operators.values()), 1)
    rows = tuple(OperatorRow(name, count, 100 * count / total) for name, count in counts)
    return GraphSummary(rows, file.macs, file.parameters, file.layers, file.form, file.arena_bytes)
