"""Compares the rows of one network across devices: a row that stands out belongs to another graph, input or state."""

import math
import re
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from statistics import median

from advisor.devices import Measurement

LIMITS = {"npu": 3.0}
OTHER_LIMIT = 4.0
"""How many times a row may differ from what its target and its network explain.

The NPUs of one table are of one vendor. Caches and memory of CPUs and GPUs of many makers differ more: VGG-16 takes up
to 3 times as long as expected where memory is slow.
"""

SLOWER_RELEASE = 1.8
"""How many times slower a later release may run a network of the same operators; more is another input."""

_LEAST = 4
_ROUNDS = 20
_UNLIKE = 1 / 3
"""Share of outliers from which on the whole target is unlike the others, such as a GPU driver that runs nothing."""

Cell = tuple[Hashable, Hashable]


@dataclass(frozen=True)
class Placed:
    """A measurement and the target that it belongs to.

    Attributes:
        device: name of the profile.
        accelerator: the target's accelerator.
        runtime: the target's runtime.
        figure: the measurement.
    """

    device: str
    accelerator: str
    runtime: str
    figure: Measurement

    @property
    def group(self) -> Hashable:
        """Rows that can be compared: one kind of unit, runtime, form, source and release of the graphs."""
        release = self.figure.graph.split(",")[0] if self.figure.graph.startswith("AI Hub") else ""
        return self.accelerator, self.runtime, self.figure.precision, self.figure.source_repo, release

    @property
    def cell(self) -> Cell:
        """Column and network of the row."""
        return (self.device, self.figure.target), self.figure.model


def unexplained(rows: Iterable[Placed]) -> set[Placed]:
    """Return the usable rows that neither their target nor their network explains.

    The rows that remain have no outlier, so the check of the shipped profiles finds none.
    """
    groups: dict[Hashable, list[Placed]] = defaultdict(list)
    for row in rows:
        if row.figure.usable:
            groups[row.group].append(row)
    return {row for group in groups.values() for row in _of_group(group)}


def _of_group(rows: list[Placed]) -> list[Placed]:
    limit = LIMITS.get(rows[0].accelerator, OTHER_LIMIT)
    left: dict[Cell, float] = {}
    for row in rows:
        left[row.cell] = min(row.figure.latency_ms, left.get(row.cell, math.inf))
    while found := outliers(left, limit):
        unlike = {cell for column in _unlike(found, left) for cell in left if cell[0] == column}
        left = {cell: value for cell, value in left.items() if cell not in (unlike or found)}
    return [row for row in rows if row.cell not in left]


def _unlike(found: Mapping[Cell, float], cells: Mapping[Cell, float]) -> list[Hashable]:
    """Return the columns of which a third are outliers."""
    sizes = {column: len(own) for column, own in _grouped(cells, 0).items()}
    return [column for column, own in _grouped(found, 0).items() if len(own) >= _UNLIKE * sizes[column]]


def slower_releases(rows: Iterable[Placed]) -> dict[str, float]:
    """Return networks that a later release of AI Hub runs slower, though their operators are the same, with the factor.

    A network that one release measured at a smaller input than its name says is found this way.
    """
    figures: dict[tuple[object, ...], dict[str, Measurement]] = defaultdict(dict)
    for row in rows:
        release = row.figure.graph.split(",")[0]
        if row.figure.usable and release.startswith("AI Hub"):
            figures[row.device, row.accelerator, row.runtime, row.figure.precision, row.figure.model][release] = (
                row.figure
            )
    factors: dict[str, list[float]] = defaultdict(list)
    for key, releases in figures.items():
        first, last = releases[min(releases)], releases[max(releases)]
        if first.graph != last.graph and 0.95 <= _operators(last) / _operators(first) <= 1.05:
            factors[str(key[-1])].append(last.latency_ms / first.latency_ms)
    return {model: median(own) for model, own in factors.items() if median(own) > SLOWER_RELEASE}


def _operators(figure: Measurement) -> float:
    found = re.search(r"(\d+) operators", figure.graph)
    return float(found[1]) if found else math.nan


def outliers(cells: Mapping[Cell, float], limit: float) -> dict[Cell, float]:
    """Return the rows that differ from the other rows of their column and network, with the factor.

    A median polish (Tukey 1977) explains the logarithm of each latency by its column and its network. A network or a
    column with less than four rows explains itself, so it is not judged.

    Args:
        cells: latencies in ms by (column, network) of columns that can be compared.
        limit: the factor from which on a row is an outlier.
    """
    logs = {cell: math.log(value) for cell, value in cells.items()}
    by_column, by_model = _grouped(logs, 0), _grouped(logs, 1)
    columns: dict[Hashable, float] = dict.fromkeys(by_column, 0.0)
    models: dict[Hashable, float] = dict.fromkeys(by_model, 0.0)
    for _ in range(_ROUNDS):
        columns = {c: median(logs[cell] - models[cell[1]] for cell in own) for c, own in by_column.items()}
        models = {m: median(logs[cell] - columns[cell[0]] for cell in own) for m, own in by_model.items()}
    judged = [cell for cell in logs if len(by_column[cell[0]]) >= _LEAST and len(by_model[cell[1]]) >= _LEAST]
    factors = {cell: math.exp(logs[cell] - columns[cell[0]] - models[cell[1]]) for cell in judged}
    return {cell: factor for cell, factor in factors.items() if not 1 / limit <= factor <= limit}


def _grouped(cells: Iterable[Cell], part: int) -> dict[Hashable, list[Cell]]:
    groups: dict[Hashable, list[Cell]] = defaultdict(list)
    for cell in cells:
        groups[cell[part]].append(cell)
    return groups
