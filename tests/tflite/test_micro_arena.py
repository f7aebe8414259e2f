"""The arena of TFLM, computed; tests/integrations/microcontroller holds it against the interpreter's."""

from __future__ import annotations

from pathlib import Path

from ai_edge_litert import schema_py_generated as schema

from advisor.tflite.arena import activation_arena_bytes
from advisor.tflite.micro_arena import FIXED_BYTES, micro_arena
from advisor.tflite.model import read
from tests.measurement import small_models
from tests.tflite.graphs import Graph

OPERATORS = schema.BuiltinOperator


def chain(*builtins: int, size: int = 1000) -> bytes:
    """A model that passes (1, size) float values through unary operators."""
    graph = Graph()
    last = first = graph.tensor("image", (1, size))
    for place, builtin in enumerate(builtins):
        after = graph.tensor(f"step {place}", (1, size))
        graph.operator(builtin, [last], [after])
        last = after
    return graph.finish({"image": first}, {"out": last})


def test_the_input_s_memory_is_reused_once_it_was_read() -> None:
    model = read(chain(*[OPERATORS.RELU6] * 3))
    assert micro_arena(model).activations == 2 * 4000
    assert activation_arena_bytes(model) > 2 * 4000


def test_tensors_and_operators_are_kept_besides_activations() -> None:
    short, long = (micro_arena(read(chain(*[OPERATORS.RELU6] * number))) for number in (2, 5))
    assert long.persistent - short.persistent == 3 * (24 + 64 + 16)
    assert long.total == long.activations + long.persistent


def test_a_convolution_keeps_a_multiplier_and_a_shift_for_each_channel(tmp_path: Path) -> None:
    data = small_models.classifier()
    quantized = small_models.quantized(data, tmp_path, 32)
    kept = micro_arena(read(quantized)).persistent - micro_arena(read(data)).persistent
    assert kept == 2 * 4 * (16 + 16 + 32 + 4)  # the channels of its four layers with weights


def test_where_activations_are_small_setting_up_needs_more() -> None:
    arena = micro_arena(read(chain(*[OPERATORS.RELU6] * 20, size=4)))
    assert arena.setup > arena.activations
    assert arena.total == arena.persistent + arena.setup


def test_a_graph_without_operators_needs_the_interpreter_alone() -> None:
    assert micro_arena(read(chain(size=4))).persistent == FIXED_BYTES + 24
