import os
import struct
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema

from advisor.core import UsageError
from advisor.tflite import (
    Suppression,
    Tables,
    Tensor,
    attach_head,
    read,
    select_output,
    to_float16,
    to_float32,
    to_float_io,
    unpack,
    with_levels,
    with_temperature,
    without_transposes,
)
from advisor.tflite._verify import MAX_TABLES
from tests.builders import must_fail
from tests.tables import with_cases

from .graphs import INT32, Graph, features_graph, outside, tiny_classifier

TINY = tiny_classifier()


def test_the_graph_is_read_as_it_was_written() -> None:
    model = read(TINY)
    assert [(operator.name, operator.version, operator.inputs, operator.outputs) for operator in model.operators] == [
        ("RELU", 1, (0,), (1,)),
        ("FULLY_CONNECTED", 1, (1, 3, 4), (2,)),
    ]
    assert [(tensor.name, tensor.shape, tensor.is_constant) for tensor in model.tensors] == [
        ("image", (1, 4), False),
        ("features", (1, 4), False),
        ("scores", (1, 3), False),
        ("kernel", (3, 4), True),
        ("bias", (3,), True),
    ]
    assert model.tensors[4].buffer == np.arange(3, dtype=np.float32).tobytes()
    assert model.size_bytes == len(TINY)


def test_signatures_name_inputs_and_outputs_which_are_tensors(master: bytes) -> None:
    signature = read(TINY).signatures[0]
    assert (signature.key, signature.inputs) == ("serving_default", (("image", 0),))
    assert signature.outputs == (("features", 1), ("scores", 2))
    model = read(master)
    assert [(tensor.shape, tensor.dtype) for tensor in model.inputs] == [((1, 96, 96, 3), "float32")]
    assert {tensor.shape for tensor in model.outputs} == {(1, 1280), (1, 100)}
    assert model.metadata.keys() >= {"min_runtime_version"}


def test_writing_what_was_read_changes_nothing(master: bytes) -> None:
    again = unpack(master).pack()
    assert read(again).subgraphs == read(master).subgraphs
    assert read(again).signatures == read(master).signatures
    assert unpack(again).pack() == again


def test_a_custom_operator_is_named_by_its_code() -> None:
    graph = features_graph()
    out = graph.added(schema.BuiltinOperator.CUSTOM, [1], (1, 4))
    graph.model.operatorCodes[-1].customCode = b"Flex"
    assert read(graph.finish({"image": 0}, {"out": out})).operators[-1].name == "CUSTOM:Flex"


def test_content_behind_the_flatbuffer_is_found() -> None:
    graph, image = Graph.with_image((4,))
    constant = graph.tensor("constant", (4,), np.arange(4, dtype=np.float32))
    total = graph.added(schema.BuiltinOperator.ADD, [image, constant], (4,), schema.AddOptionsT())
    data = outside(graph.finish({"image": image}, {"total": total}), constant)
    assert read(data).tensors[constant].buffer == np.arange(4, dtype=np.float32).tobytes()
    assert read(unpack(data).pack()).tensors[constant].buffer == np.arange(4, dtype=np.float32).tobytes()
    must_fail(UsageError, "a buffer ends at byte", read, data[:-1])


def test_sizes_of_tensors_follow_their_type() -> None:
    def size(dtype: str, *shape: int) -> int:
        return Tensor("", shape, dtype, b"", None, False, False).size_bytes

    assert [size("float32", 2, 3), size("float16", 2, 3), size("int8", 2, 3), size("int4", 1, 3)] == [24, 12, 6, 2]
    assert size("float32") == 4
    assert size("float32", -1, 8) == 32
    assert size("float32", 0, 8) == 0


def test_a_missing_file_and_a_folder_are_no_model_and_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    must_fail(UsageError, r"cannot read .*absent\.tflite: No such file", read, tmp_path / "absent.tflite")
    os.mkfifo(tmp_path / "pipe.tflite")
    for path in (tmp_path, tmp_path / "pipe.tflite"):
        must_fail(UsageError, "it is not a file", read, path)


@with_cases
def test_another_file_is_refused_by_name(tmp_path: Path, content: str, zeros: int, reason: str) -> None:
    path = tmp_path / "other.tflite"
    path.write_bytes(content.encode("latin-1") + bytes(zeros))
    must_fail(UsageError, rf"other\.tflite is not a usable \.tflite file: .*{reason}", read, path)


def test_every_truncation_is_refused() -> None:
    whole = read(TINY)
    for length in range(len(TINY)):
        try:
            part = read(TINY[:length])
        except UsageError:
            continue
        assert part.subgraphs == whole.subgraphs, "only what follows the last part may be missing"


@pytest.mark.parametrize(
    "edit",
    [
        lambda data: select_output(data, "features"),
        lambda data: attach_head(data, np.zeros((4, 2)), np.zeros(2)),
        lambda data: Suppression().append_to(data, np.zeros((3, 4), np.float32)),
        lambda data: with_temperature(data, 2.0),
        *(with_levels, to_float16, to_float32, to_float_io, without_transposes),
    ],
)
@pytest.mark.parametrize("length", [100, 1000, 5000])
def test_every_edit_refuses_a_damaged_file(master: bytes, edit: Callable[[bytes], bytes], length: int) -> None:
    must_fail(UsageError, r"the model is not a usable \.tflite file", edit, master[:length])


def test_the_refusal_of_a_damaged_file_names_it(master: bytes) -> None:
    with pytest.raises(UsageError, match=r"bird\.tflite is not a usable \.tflite file"):
        with_temperature(master[:100], 2.0, "bird.tflite")


@with_cases
def test_what_leads_nowhere_is_named(part: str, change: dict[str, Any], reason: str) -> None:
    graph = features_graph()
    vars(getattr(graph.graph, part)[0]).update(change)
    must_fail(UsageError, reason, read, graph.finish({"image": 0}, {"features": 1}))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda graph: graph.tensor("short", (3,), np.zeros(2, np.int32), INT32), r"'short' of int32 \(3,\) needs 12"),
        *((lambda graph, n=n: vars(graph.model).update(version=n), f"version is {n}, not 3") for n in (0, 2, 4)),
        (lambda graph: graph.signature({"image": 0}, {"features": 9}), "'serving_default' names tensor 9 of 2"),
    ],
)
def test_short_content_other_versions_and_signatures_are_named(change: Callable[[Graph], object], reason: str) -> None:
    graph = features_graph()
    change(graph)
    must_fail(UsageError, reason, read, graph.finish({"image": 0}, {"features": 1}))


def test_a_model_without_a_graph_is_refused() -> None:
    must_fail(UsageError, "no graph", read, Tables(version=3, buffers=[schema.BufferT()]).pack())


def with_entries(count: int, shared: bool) -> bytes:
    """A file whose list of operator codes has ``count`` entries, all of the same table if ``shared``."""
    builder = flatbuffers.Builder(0)
    tables = []
    for _ in range(1 if shared else count):
        schema.OperatorCodeStart(builder)
        tables.append(schema.OperatorCodeEnd(builder))
    schema.ModelStartOperatorCodesVector(builder, count)
    for index in range(count):
        builder.PrependUOffsetTRelative(tables[0 if shared else index])
    codes = builder.EndVector()
    schema.ModelStart(builder)
    schema.ModelAddVersion(builder, 3)
    schema.ModelAddOperatorCodes(builder, codes)
    builder.Finish(schema.ModelEnd(builder), b"TFL3")
    return bytes(builder.Output())


@pytest.mark.parametrize("shared", [True, False])
def test_more_parts_than_any_model_has_are_refused(shared: bool) -> None:
    must_fail(UsageError, r"claim", read, with_entries(MAX_TABLES + 1, shared))


def test_a_table_named_many_times_is_refused() -> None:
    """Nested lists that all name one table would unfold to the product of their lengths."""
    model = schema.ModelT.InitFromPackedBuf(TINY)
    must_fail(UsageError, "claim more bytes", read, _with_shared_subgraph(model, 3000))


def _with_shared_subgraph(model: schema.ModelT, copies: int) -> bytes:
    builder = flatbuffers.Builder(0)
    graph = model.subgraphs[0].Pack(builder)
    schema.ModelStartSubgraphsVector(builder, copies)
    for _ in range(copies):
        builder.PrependUOffsetTRelative(graph)
    graphs = builder.EndVector()
    schema.ModelStart(builder)
    schema.ModelAddVersion(builder, 3)
    schema.ModelAddSubgraphs(builder, graphs)
    builder.Finish(schema.ModelEnd(builder), b"TFL3")
    return bytes(builder.Output())


def test_a_list_that_claims_billions_takes_no_memory() -> None:
    place = TINY.index(struct.pack("<I", 5), 0)
    data = bytearray(TINY)
    refused = 0
    tracemalloc.start()
    for position in range(place, len(TINY) - 4, 4):
        data[:] = TINY
        struct.pack_into("<I", data, position, 0xFFFFFFF0)
        try:
            read(bytes(data))
        except UsageError:
            refused += 1
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert refused > 50
    assert peak < 20 * 2**20
