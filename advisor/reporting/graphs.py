"""What a file computes: its operators, its multiply-accumulates, how they are computed."""

from __future__ import annotations

from dataclasses import dataclass

from advisor.core.file_features import FileFeatures


@dataclass(frozen=True)
class OperatorRow:
    """One kind of operator: how often it is there, and its share of all operators in %."""

    name: str
    count: int
    share: float


@dataclass(frozen=True)
class GraphSummary:
    """A file in figures.

    Attributes:
        operators: kinds, the most frequent first.
        macs: multiply-accumulates of one run.
        parameters: elements of the weights.
        layers: operators that compute.
        form: how most of the work is computed.
        arena_bytes: what the activations take.
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
