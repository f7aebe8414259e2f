"""Find how a fused convolution follows from the branches that it replaces, for ``tools.graphs``.

Its kernel is a sum of their kernels, and so is its bias. RepVGG
(https://arxiv.org/abs/2101.03697), MobileOne, RepViT and FastViT are trained with such branches.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from advisor.catalog._graph_file import GraphFile

Term = dict[str, Any]
Array = np.ndarray[Any, Any]
ROWS = 20_000
"""Values of a kernel that an equation is made of; all of them check the answer."""


class Branches:
    """The convolutions that branches were fused to.

    Args:
        graph: computes terms.
        tensors: the checkpoint, with branches.
        fused: weights and biases of the fused convolutions.
    """

    def __init__(
        self, graph: GraphFile, tensors: Mapping[str, Array], fused: Mapping[str, Array]
    ) -> None:
        self._graph, self._tensors, self._fused = graph, tensors, fused
        self._known: dict[str, list[Term]] = {}

    def terms(self, value: Array, axes: Sequence[Sequence[int]]) -> list[Term]:
        """Return the terms of a constant, in one of these orders of a kernel's axes;
        none if it is no fused one.
        """
        for name, fused in self._fused.items():
            orders = axes if fused.ndim == 4 else [[*range(fused.ndim)]]
            for order in orders if fused.size == value.size else ():
                if np.array_equal(fused.transpose(order).reshape(-1), value.reshape(-1)):
                    return [_moved(term, order) for term in self._sum(name)]
        return []

    def _sum(self, name: str) -> list[Term]:
        if name not in self._known:
            fused = self._fused[name]
            path = self._path(name)
            make = self._kernels if fused.ndim == 4 else self._biases
            solutions = (
                _solved(fused, self._graph, self._tensors, terms)
                for terms in make(path, fused.shape)
            )
            self._known[name] = next((terms for terms in solutions if terms), [])
        return self._known[name]

    def _path(self, name: str) -> str:
        """Return the path of the module that was fused:
        the longest one with tensors of the checkpoint.
        """
        parts = name.split(".")
        paths = (".".join(parts[:count]) + "." for count in range(len(parts) - 1, 0, -1))
        return next(path for path in paths if any(key.startswith(path) for key in self._tensors))

    def _norms(self, path: str, size: int) -> list[str]:
        norms = (norm for norm in self._graph.norms if f"{norm}.".startswith(path))
        return [norm for norm in norms if self._tensors[f"{norm}.weight"].size == size]

    def _factors(self, path: str, size: int, together: int) -> Iterator[list[str]]:
        """Yield what a branch can be multiplied by:
        nothing, scales of BatchNorm and of layers, products of these.
        """
        scales = [
            name
            for name, value in self._tensors.items()
            if name.startswith(path) and name.endswith("gamma") and value.size == size
        ]
        norms = self._norms(path, size)
        yield []
        yield from ([factor] for factor in (*norms, *scales))
        if together > 1:
            yield from (
                [factor, other]
                for place, factor in enumerate(norms)
                for other in (*norms[place + 1 :], *scales)
            )

    def _kernels(self, path: str, shape: Sequence[int]) -> Iterator[list[Term]]:
        *channels, height, width = shape
        kernels = [
            {"from": name, "sides": [height, width]}
            for name, value in self._tensors.items()
            if name.startswith(path)
            and value.ndim == 4
            and [*value.shape[:2]] == channels
            and value.shape[2] <= height
        ]
        for together in (1, 2):
            factors = [
                [[name, 0] for name in names] for names in self._factors(path, shape[0], together)
            ]
            yield [
                {**term, "axes": [0, 1, 2, 3], "times": times}
                for term, times in product([*kernels, {"identity": [*shape]}], factors)
            ]

    def _biases(self, path: str, shape: Sequence[int]) -> Iterator[list[Term]]:
        (size,) = shape
        norms = self._norms(path, size)
        biases = [
            name
            for name, value in self._tensors.items()
            if name.startswith(path) and name.endswith("bias") and value.size == size
            and name.removesuffix(".bias") not in norms
        ]  # fmt: skip
        sources: list[Term] = [
            *({"from": name, "axes": [0]} for name in biases),
            *({"shift": norm} for norm in norms),
        ]
        yield sources
        yield [
            {**term, "times": [[factor, 0] for factor in times]}
            for term, times in product(sources, self._factors(path, size, 1))
        ]


def _solved(
    wanted: Array, graph: GraphFile, tensors: Mapping[str, Array], terms: Sequence[Term]
) -> list[Term]:
    """Return the terms whose sum, each added or taken away once, is a value;
    none if there is no such sum.
    """
    values = [
        np.broadcast_to(graph.term(term, tensors), wanted.shape).reshape(-1) for term in terms
    ]
    flat = wanted.reshape(-1).astype(np.float64)
    rows = np.flatnonzero(np.abs(values[-1]) > 0)[: ROWS // 4]
    more = np.random.default_rng(0).choice(flat.size, min(flat.size, ROWS), replace=False)
    rows = np.union1d(rows, more)
    table = np.stack([value[rows] for value in values], axis=1)
    factors = np.linalg.lstsq(table, flat[rows], rcond=None)[0].round(2)
    used = [
        (term, value, factor)
        for term, value, factor in zip(terms, values, factors, strict=True)
        if factor
    ]
    total = sum((value * factor for _, value, factor in used), np.zeros(flat.size))
    if not np.allclose(total, flat, rtol=1e-4, atol=1e-5 * np.abs(flat).max()):
        return []
    return [
        {**term, "times": [*term.get("times", ()), *([[factor, 0]] if factor != 1 else ())]}
        for term, _, factor in used
    ]


def _moved(term: Term, order: Sequence[int]) -> Term:
    """Return a term with its axes in another order."""
    if "axes" not in term or len(order) == 1:
        return term
    times = [[factor, order.index(axis)] for factor, axis in term["times"]]
    return {**term, "axes": [*order], "times": times}
