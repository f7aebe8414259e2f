"""How constants of a converted network follow from a checkpoint: each way of folding is found, and nothing else."""

from collections.abc import Callable

import numpy as np
import pytest

from advisor.catalog._graph_file import GraphFile, make_identity, pad_kernel
from tools.graphs.__main__ import Array, Finder

PARTS = ("weight", "bias", "running_mean", "running_var")
DRAW = np.random.default_rng(0)
NORMS = {"bn": 1e-3, "before": 1e-5}
TENSORS = {
    name: DRAW.uniform(0.5, 1.5, shape).astype(np.float32)
    for name, shape in {
        "conv.weight": (8, 6, 3, 3), "conv.bias": (8,), "gamma": (8,), "linear.weight": (8, 6), "linear.bias": (8,),
        "biases": (4, 9), "slope": (1,), "step": (1,),
        **{f"bn.{part}": (8,) for part in PARTS},
        **{f"before.{part}": (6,) for part in PARTS},
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
    "its inverse": lambda: 1 / np.sqrt(TENSORS["bn.running_var"] + 1e-3),
    "scaled offset after a bias": lambda: shift("bn", TENSORS["conv.bias"]) * TENSORS["gamma"],
    "folded and multiplied by one number": lambda: (
        TENSORS["conv.weight"].transpose(0, 2, 3, 1) * (scale("bn") * TENSORS["slope"])[:, None, None, None]
    ),
    "what a folded layer makes of one number": lambda: (
        shift("bn") + scale("bn") * TENSORS["linear.weight"].sum(axis=1) * TENSORS["step"]
    ),
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
    assert Finder(TENSORS, NORMS).number(np.float32(6)) is None


def test_a_number_of_the_checkpoint_is_not_one_of_the_graph() -> None:
    assert Finder(TENSORS, NORMS).number(TENSORS["slope"].reshape(())) == [{"from": "slope"}]


def fused_block(second: int = 3) -> tuple[dict[str, Array], dict[str, float], dict[str, Array]]:
    """A block of a depthwise convolution, one of a single pixel and one that answers its input, and what they make."""
    channels = 64
    norms = {"block.large.bn": 1e-5, "block.small.bn": 1e-5, "block.identity": 1e-5, "block.outer.bn": 1e-5}
    tensors = {f"block.{name}.conv.weight": (channels, 1, side, side) for name, side in (("large", 3), ("small", 1))}
    tensors |= {"block.gamma": (channels, 1, 1)}
    tensors |= {f"{norm}.{part}": (channels,) for norm in norms for part in PARTS}
    draw = np.random.default_rng(second)
    found = {name: draw.uniform(0.5, 1.5, shape).astype(np.float32) for name, shape in tensors.items()}
    graph = GraphFile(b"", {}, norms, {}, {})
    scales = {norm: graph.scale(norm, found)[:, None, None, None] for norm in norms}
    whole = pad_kernel(found["block.small.conv.weight"] * scales["block.small.bn"], (3, 3))
    whole = whole + found["block.large.conv.weight"] * scales["block.large.bn"]
    same, gamma = make_identity((channels, 1, 3, 3)), found["block.gamma"][..., None]
    shifts = [graph.shift(norm, found) for norm in ("block.small.bn", "block.large.bn")]
    outer = scales["block.outer.bn"]
    made = {
        "plain.weight": whole + same * scales["block.identity"],
        "plain.bias": sum(shifts) + graph.shift("block.identity", found),
        "under a norm.weight": (whole + same) * outer,
        "under a norm.bias": sum(shifts) * outer.reshape(-1) + graph.shift("block.outer.bn", found),
        "beside its input.weight": same + gamma * (whole - same * scales["block.identity"]),
        "beside its input.bias": gamma.reshape(-1) * (sum(shifts) - graph.shift("block.identity", found)),
    }
    fused = {f"block.{name}": np.asarray(value, np.float32) for name, value in made.items()}
    return found, norms, fused


@pytest.mark.parametrize("kind", ["plain", "under a norm", "beside its input"])
def test_branches_that_were_fused_are_found_and_follow_from_other_weights_too(kind: str) -> None:
    tensors, norms, fused = fused_block()
    others, _, of_others = fused_block(4)
    finder, graph = Finder(tensors, norms, fused), GraphFile(b"", {}, norms, {}, {})
    for name, order in ((f"block.{kind}.weight", (1, 2, 3, 0)), (f"block.{kind}.bias", (0,))):
        terms = finder.terms(fused[name].transpose(order))
        assert terms
        total = sum(graph.term(term, others) for term in terms)
        np.testing.assert_allclose(np.broadcast_to(total, of_others[name].transpose(order).shape),
                                   of_others[name].transpose(order), rtol=1e-4, atol=1e-5)  # fmt: skip


def test_a_sum_that_no_branches_make_is_not_found() -> None:
    tensors, norms, fused = fused_block()
    other = {name: np.abs(np.sin(value)) for name, value in fused.items()}
    assert Finder(tensors, norms, other).terms(other["block.plain.weight"]) is None
