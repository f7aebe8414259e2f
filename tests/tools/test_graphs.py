"""How constants of a converted network follow from a checkpoint: each way of folding is found, and nothing else."""

from collections.abc import Callable

import numpy as np
import pytest

from advisor.catalog.graph_file import GraphFile
from tools.graphs.__main__ import Array, Finder

DRAW = np.random.default_rng(0)
NORMS = {"bn": 1e-3, "before": 1e-5}
TENSORS = {
    name: DRAW.uniform(0.5, 1.5, shape).astype(np.float32)
    for name, shape in {
        "conv.weight": (8, 6, 3, 3), "conv.bias": (8,), "gamma": (8,), "linear.weight": (8, 6), "linear.bias": (8,),
        "biases": (4, 9),
        **{f"bn.{part}": (8,) for part in ("weight", "bias", "running_mean", "running_var")},
        **{f"before.{part}": (6,) for part in ("weight", "bias", "running_mean", "running_var")},
    }.items()
}  # fmt: skip


def scale(norm: str) -> Array:
    return TENSORS[f"{norm}.weight"] / np.sqrt(TENSORS[f"{norm}.running_var"] + NORMS[norm])


def shift(norm: str, bias: Array | float = 0.0) -> Array:
    return TENSORS[f"{norm}.bias"] + (bias - TENSORS[f"{norm}.running_mean"]) * scale(norm)


CONSTANTS: dict[str, Callable[[], Array]] = {
    "moved": lambda: TENSORS["conv.weight"].transpose(0, 2, 3, 1),
    "folded": lambda: TENSORS["conv.weight"].transpose(0, 2, 3, 1) * scale("bn")[:, None, None, None],
    "folded and scaled": lambda: (
        TENSORS["conv.weight"].transpose(0, 2, 3, 1) * (scale("bn") * TENSORS["gamma"])[:, None, None, None]
    ),
    "a linear layer between norms": lambda: TENSORS["linear.weight"] * np.outer(scale("bn"), scale("before")),
    "offset": lambda: shift("bn"),
    "offset after a bias": lambda: shift("bn", TENSORS["conv.bias"]),
    "scaled offset": lambda: shift("bn") * TENSORS["gamma"],
    "bias of a hard sigmoid": lambda: TENSORS["conv.bias"] + 3,
    "what a layer makes of an offset": lambda: (
        TENSORS["linear.bias"] + TENSORS["linear.weight"] @ shift("before").astype(np.float32)
    ),
    "what a norm multiplies by": lambda: scale("bn").reshape(1, 1, 1, 8),
    "what a norm divides by": lambda: np.sqrt(TENSORS["bn.running_var"] + 1e-3),
    "gathered": lambda: TENSORS["biases"].reshape(-1)[[7, 7, 0, 35, 12, 3]].reshape(2, 3),
}


@pytest.mark.parametrize("name", CONSTANTS)
def test_a_constant_is_found_and_follows_from_other_weights_too(name: str) -> None:
    value = CONSTANTS[name]().astype(np.float32)
    finder = Finder(TENSORS, NORMS)
    terms = finder.terms(value)
    assert terms is not None
    graph = GraphFile(b"", {}, NORMS, {}, finder.indices)
    found = sum(graph.term(term, TENSORS) for term in terms)
    assert np.asarray(found).reshape(value.shape) == pytest.approx(value, rel=1e-4)


def test_numbers_that_follow_from_no_tensor_are_the_graphs_own() -> None:
    assert Finder(TENSORS, NORMS).terms(np.linspace(0, 1, 11, dtype=np.float32)) is None
    assert Finder(TENSORS, NORMS).terms(np.full((8, 6), 0.5, np.float32)) is None
