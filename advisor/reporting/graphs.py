"""What a file computes: its operators, its multiply-accumulates, how they are computed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


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


def graph_summary(details: Mapping[str, Any]) -> GraphSummary | None:
    """Return ``details["graph"]``, None where it was not kept.

    Raises:
        KeyError, TypeError, ValueError: it is damaged.
    """
    graph = details.get("graph")
    if not graph:
        return None
    counts = sorted(((str(name), int(count)) for name, count in graph["operators"].items()), key=lambda row: -row[1])
    total = max(sum(count for _, count in counts), 1)
    rows = tuple(OperatorRow(name, count, 100 * count / total) for name, count in counts)
    macs, parameters, layers = (int(graph[name]) for name in ("macs", "parameters", "layers"))
    return GraphSummary(rows, macs, parameters, layers, str(graph["form"]), int(graph["arena_bytes"]))
