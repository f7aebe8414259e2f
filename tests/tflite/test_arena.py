from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from ai_edge_litert import schema_py_generated as schema
from hypothesis import given
from hypothesis import strategies as st

from advisor.tflite.arena import ALIGNMENT, Lifetime, activation_arena_bytes, lifetimes, plan
from advisor.tflite.model import read

from .graphs import Graph

LIFETIMES = st.lists(
    st.builds(
        lambda size, first, length: Lifetime(size * ALIGNMENT, first, first + length),
        st.integers(0, 50),
        st.integers(0, 12),
        st.integers(0, 6),
    ),
    max_size=25,
)


def span_in_the_runtime(data: bytes) -> int:
    """Bytes from the first to the last activation at the addresses that LiteRT's own planner gave them."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    interpreter = Interpreter(
        model_content=data, experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    )
    interpreter.allocate_tensors()
    starts, ends = [], []
    for index, tensor in enumerate(read(data).tensors):
        if not tensor.is_constant:
            view = interpreter.tensor(index)()
            address = view.__array_interface__["data"][0]
            starts.append(address)
            ends.append(address + (view.nbytes + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT)
    return max(ends) - min(starts)


def chain(*builtins: int, size: int = 300) -> bytes:
    """A model that passes (1, size) values through unary operators."""
    graph = Graph()
    last = first = graph.tensor("image", (1, size))
    for place, builtin in enumerate(builtins):
        after = graph.tensor(f"step {place}", (1, size))
        graph.operator(builtin, [last], [after], schema.SoftmaxOptionsT(1.0) if builtin == 25 else None)
        last = after
    return graph.finish({"image": first}, {"out": last})


def additions(read_again: bool) -> bytes:
    """A model of two additions; the result of the first is read by a third operator too if ``read_again``."""
    graph = Graph()
    image = graph.tensor("image", (1, 300))
    steps = [graph.tensor(f"step {index}", (1, 300)) for index in range(4)]
    graph.operator(schema.BuiltinOperator.RELU, [image], [steps[0]])
    graph.operator(schema.BuiltinOperator.ADD, [steps[0], image], [steps[1]], schema.AddOptionsT())
    graph.operator(schema.BuiltinOperator.ADD, [steps[1], image], [steps[2]], schema.AddOptionsT())
    last = steps[1] if read_again else image
    graph.operator(schema.BuiltinOperator.MUL, [steps[2], last], [steps[3]], schema.MulOptionsT())
    return graph.finish({"image": image}, {"out": steps[3]})


def test_the_arena_is_the_one_the_runtime_plans(master: bytes) -> None:
    assert activation_arena_bytes(read(master)) == span_in_the_runtime(master)


@pytest.mark.parametrize(
    "data",
    [
        chain(schema.BuiltinOperator.RELU),
        chain(*[schema.BuiltinOperator.RELU] * 4),
        chain(schema.BuiltinOperator.RELU, schema.BuiltinOperator.SOFTMAX, schema.BuiltinOperator.TANH),
        additions(read_again=False),
        additions(read_again=True),
    ],
    ids=["one", "four", "softmax in place", "additions in place", "additions read again"],
)
def test_small_graphs_are_planned_as_the_runtime_does(data: bytes) -> None:
    assert activation_arena_bytes(read(data)) == span_in_the_runtime(data)


def test_a_result_that_is_read_again_keeps_its_block() -> None:
    shared, apart = (lifetimes(read(additions(again)).subgraphs[0]) for again in (False, True))
    assert len(apart) == len(shared) + 1


def test_expanded_constants_are_no_activations(converted: Path, master: bytes) -> None:
    half = read(converted / "float16.tflite")
    assert activation_arena_bytes(half) == activation_arena_bytes(read(master))


def test_sizes_are_rounded_up_to_the_alignment() -> None:
    assert activation_arena_bytes(read(chain(schema.BuiltinOperator.RELU, size=1))) == 2 * ALIGNMENT


def test_blocks_one_after_the_other_share_a_place() -> None:
    assert plan([Lifetime(100, 0, 1), Lifetime(200, 2, 3), Lifetime(50, 4, 4)]) == 200


def test_the_smallest_gap_that_fits_is_taken() -> None:
    blocks = [Lifetime(640, 0, 9), Lifetime(320, 0, 2), Lifetime(256, 2, 9), Lifetime(64, 3, 9)]
    assert plan(blocks) == 640 + 320 + 256


def test_no_blocks_need_no_arena() -> None:
    assert plan([]) == 0


@given(LIFETIMES)
def test_the_plan_lies_between_the_largest_live_set_and_the_sum(blocks: list[Lifetime]) -> None:
    steps = range(20)
    live = max(sum(block.size_bytes for block in blocks if block.first <= step <= block.last) for step in steps)
    assert live <= plan(blocks) <= sum(block.size_bytes for block in blocks)


@given(LIFETIMES, st.randoms())
def test_the_plan_does_not_depend_on_the_order_of_distinct_blocks(blocks: list[Lifetime], random: Random) -> None:
    shuffled = list({(block.size_bytes, block.first): block for block in blocks}.values())
    expected = plan(shuffled)
    random.shuffle(shuffled)
    assert plan(shuffled) == expected
