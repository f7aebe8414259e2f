"""The arena of TFLM, computed; tests/integrations/microcontroller holds it against the interpreter's."""

from pathlib import Path
from random import Random

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter, OpResolverType
from hypothesis import given, strategies as st

from advisor.tflite import Operator, Subgraph, Tensor, count, indirection_bytes, micro_arena, read, to_float16
from advisor.tflite._arena import ALIGNMENT, FIXED_BYTES, Lifetime, activation_arena_bytes, list_lifetimes, plan_arena
from tests.measurement import small_models
from tests.tables import with_cases
from tests.tflite.graphs import INT32, Graph, tiny_classifier, tiny_features

OPERATORS = schema.BuiltinOperator
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
    for builtin in builtins:
        last = graph.added(builtin, [last], (1, size), schema.SoftmaxOptionsT(1.0) if builtin == 25 else None)
    return graph.finish({"image": first}, {"out": last})


def additions(read_again: bool) -> bytes:
    """A model of two additions; the result of the first is read by a third operator too if ``read_again``."""
    graph, image = Graph.with_image((1, 300))
    steps = [graph.tensor(f"step {index}", (1, 300)) for index in range(4)]
    graph.operator(OPERATORS.RELU, [image], [steps[0]])
    graph.operator(OPERATORS.ADD, [steps[0], image], [steps[1]], schema.AddOptionsT())
    graph.operator(OPERATORS.ADD, [steps[1], image], [steps[2]], schema.AddOptionsT())
    last = steps[1] if read_again else image
    graph.operator(OPERATORS.MUL, [steps[2], last], [steps[3]], schema.MulOptionsT())
    return graph.finish({"image": image}, {"out": steps[3]})


def test_the_arena_is_the_one_the_runtime_plans(master: bytes) -> None:
    assert activation_arena_bytes(read(master)) == span_in_the_runtime(master)


SMALL_GRAPHS = {
    **{str(count): chain(*[OPERATORS.RELU] * count) for count in (1, 4)},
    "softmax in place": chain(OPERATORS.RELU, OPERATORS.SOFTMAX, OPERATORS.TANH),
    **{f"additions, read again: {again}": additions(again) for again in (False, True)},
}


@pytest.mark.parametrize("data", SMALL_GRAPHS.values(), ids=SMALL_GRAPHS)
def test_small_graphs_are_planned_as_the_runtime_does(data: bytes) -> None:
    assert activation_arena_bytes(read(data)) == span_in_the_runtime(data)


def test_sizes_are_rounded_up_and_results_that_are_read_again_keep_their_block(converted: Path, master: bytes) -> None:
    assert activation_arena_bytes(read(chain(OPERATORS.RELU, size=1))) == 2 * ALIGNMENT
    shared, apart = (list_lifetimes(read(additions(again)).subgraphs[0]) for again in (False, True))
    assert len(apart) == len(shared) + 1
    half = read(converted / "float16.tflite")
    assert activation_arena_bytes(half) == activation_arena_bytes(read(master))


def test_blocks_share_places() -> None:
    one_after_the_other = [Lifetime(100, 0, 1), Lifetime(200, 2, 3), Lifetime(50, 4, 4)]
    into_the_smallest_gap = [Lifetime(640, 0, 9), Lifetime(320, 0, 2), Lifetime(256, 2, 9), Lifetime(64, 3, 9)]
    assert plan_arena(one_after_the_other) == 200
    assert plan_arena(into_the_smallest_gap) == 640 + 320 + 256
    assert plan_arena([]) == 0


@given(LIFETIMES)
def test_the_plan_lies_between_the_largest_live_set_and_the_sum(blocks: list[Lifetime]) -> None:
    steps = range(20)
    live = max(sum(block.size_bytes for block in blocks if block.first <= step <= block.last) for step in steps)
    assert live <= plan_arena(blocks) <= sum(block.size_bytes for block in blocks)


@given(LIFETIMES, st.randoms())
def test_the_plan_does_not_depend_on_the_order_of_distinct_blocks(blocks: list[Lifetime], random: Random) -> None:
    shuffled = list({(block.size_bytes, block.first): block for block in blocks}.values())
    expected = plan_arena(shuffled)
    random.shuffle(shuffled)
    assert plan_arena(shuffled) == expected


def test_the_input_s_memory_is_reused_once_it_was_read() -> None:
    model = read(chain(*[OPERATORS.RELU6] * 3, size=1000))
    assert micro_arena(model).activations == 2 * 4000
    assert activation_arena_bytes(model) > 2 * 4000


def test_tensors_and_operators_are_kept_besides_activations_and_setting_up_may_need_more() -> None:
    short, long = (micro_arena(read(chain(*[OPERATORS.RELU6] * number, size=1000))) for number in (2, 5))
    assert long.persistent - short.persistent == 3 * (24 + 64 + 16)
    assert long.total == long.activations + long.persistent
    arena = micro_arena(read(chain(*[OPERATORS.RELU6] * 20, size=4)))
    assert arena.setup > arena.activations
    assert arena.total == arena.persistent + arena.setup
    assert micro_arena(read(chain(size=4))).persistent == FIXED_BYTES + 24


def test_a_convolution_keeps_a_multiplier_and_a_shift_for_each_channel(tmp_path: Path) -> None:
    data = small_models.classifier()
    quantized = small_models.quantized(data, tmp_path, 32)
    kept = micro_arena(read(quantized)).persistent - micro_arena(read(data)).persistent
    assert kept == 2 * 4 * (16 + 16 + 32 + 4)  # the channels of its four layers with weights


@with_cases
def test_macs_and_parameters_of_one_operator(
    builtin: str, source: list[int], kernel: list[int], output: list[int], factors: list[int]
) -> None:
    graph, image = Graph.with_image(source)
    weights = graph.tensor("kernel", kernel, np.zeros(kernel, np.float32))
    bias = graph.tensor("bias", output[-1:], np.zeros(output[-1], np.float32))
    result = graph.added(getattr(OPERATORS, builtin), [image, weights, bias], output)
    cost = count(read(graph.finish({"image": image}, {"result": result})))
    assert (cost.macs, cost.parameters) == (np.prod(factors), np.prod(kernel) + output[-1])


def test_transposed_convolution() -> None:
    graph = Graph()
    shape = graph.tensor("shape", (4,), np.array([1, 8, 8, 3], np.int32), INT32)
    kernel = graph.tensor("kernel", (3, 2, 2, 5), np.zeros((3, 2, 2, 5), np.float32))
    image = graph.tensor("image", (1, 4, 4, 5))
    result = graph.added(OPERATORS.TRANSPOSE_CONV, [shape, kernel, image], (1, 8, 8, 3))
    assert count(read(graph.finish({"image": image}, {"result": result}))).macs == 4 * 4 * 5 * 3 * 2 * 2


def test_a_matrix_product() -> None:
    graph = Graph()
    left, right = graph.tensor("left", (2, 3, 4)), graph.tensor("right", (2, 4, 5))
    result = graph.added(OPERATORS.BATCH_MATMUL, [left, right], (2, 3, 5))
    data = graph.finish({"left": left, "right": right}, {"result": result})
    assert count(read(data)).macs == 2 * 3 * 4 * 5


def test_an_activation_costs_nothing_and_shapes_and_axes_are_no_parameters(master: bytes) -> None:
    assert (count(read(tiny_features())).macs, count(read(tiny_features())).parameters) == (0, 0)
    mean = next(cost for cost in count(read(master)).operators if cost.name == "MEAN")
    assert (mean.macs, mean.parameters) == (0, 0)


def test_a_constant_read_twice_is_counted_once() -> None:
    graph, image = Graph.with_image((1, 4))
    kernel = graph.tensor("kernel", (4, 4), np.zeros((4, 4), np.float32))
    results = [graph.tensor(f"result {index}", (1, 4)) for index in range(2)]
    graph.operator(OPERATORS.FULLY_CONNECTED, [image, kernel, -1], [results[0]])
    graph.operator(OPERATORS.FULLY_CONNECTED, [results[0], kernel, -1], [results[1]])
    cost = count(read(graph.finish({"image": image}, {"result": results[1]})))
    assert (cost.macs, cost.parameters) == (32, 16)


def test_float16_changes_neither_macs_nor_parameters(master: bytes) -> None:
    before, after = count(read(master)), count(read(to_float16(master)))
    assert (after.macs, after.parameters) == (before.macs, before.parameters)
    convolutions = [
        [(cost.macs, cost.parameters) for cost in whole.operators if cost.name == "CONV_2D"]
        for whole in (before, after)
    ]
    assert convolutions[0] == convolutions[1]


def test_operators_are_listed_with_their_output() -> None:
    first, second = count(read(tiny_classifier(4, 3))).operators
    assert (first.name, first.output) == ("RELU", "features")
    assert (second.index, second.macs, second.parameters) == (1, 12, 15)


@with_cases
def test_a_window_needs_a_pointer_for_each_pixel(kind: str, kernel: list[int], stride: int, factors: list[int]) -> None:
    side = 12 // stride
    shapes = ((1, 12, 12, 4), tuple(kernel), (1, side, side, 4))
    tensors = tuple(Tensor("", shape, "float32", b"", None, False, False) for shape in shapes)
    graph = Subgraph("", tensors, (Operator(kind, 1, (0, 1), (2,)),), (0,), (2,))
    assert indirection_bytes(graph) == 8 * np.prod(factors)
