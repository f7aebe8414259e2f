"""A graph is fixed at one float image, and simplified."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import StringStringEntryProto, TensorProto, helper, numpy_helper

from advisor.catalog._user_models import onnx_files
from advisor.catalog._user_models.formats import OnnxOriginal
from advisor.catalog._user_models.onnx_files import ImageInput, fix_input, read_checked
from advisor.catalog._user_models.onnx_rewriting import prepare_graph
from advisor.core import UsageError
from tests.builders import must_fail
from tests.catalog.user_models.onnx_graphs import CLASSES, NODES, SIDE, network, saved
from tests.tables import with_cases

FILE = Path("net.onnx")
RNG = np.random.default_rng(0)


@with_cases
def test_an_open_batch_or_size_is_fixed(shape: list[Any], size: int | None) -> None:
    model = network(tuple(shape))
    assert fix_input(model, size, FILE) == ImageInput("image", True, SIDE)
    dims = model.graph.input[0].type.tensor_type.shape.dim
    assert [dim.dim_value for dim in dims] == [1, 3, SIDE, SIDE]


def test_an_image_in_nhwc_keeps_its_order_and_of_two_outputs_the_one_called_probabilities_is_kept() -> None:
    turn = helper.make_node("Transpose", ["pixels"], ["image"], perm=[0, 3, 1, 2])
    model = network(("n", SIDE, SIDE, 3), nodes=(turn, *NODES), inputs=("pixels",))
    image = ImageInput("pixels", False, SIDE)
    assert fix_input(model, None, FILE) == image
    assert OnnxOriginal(model, image).scores(np.zeros((2, SIDE, SIDE, 3), np.float32)).shape == (2, CLASSES)
    softmax = helper.make_node("Softmax", ["scores"], ["probabilities"])
    model = network(nodes=(*NODES, softmax), outputs=("f", "probabilities"))
    fix_input(model, None, FILE)
    assert [entry.name for entry in model.graph.output] == ["probabilities"]


@with_cases
def test_other_than_one_output_of_one_image_is_refused(model: dict[str, Any], size: int | None, said: str) -> None:
    must_fail(UsageError, said, fix_input, network(**model), size, FILE)


def test_float16_is_widened() -> None:
    model = network()
    expected = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    for tensor in model.graph.initializer:
        tensor.CopyFrom(numpy_helper.from_array(expected[tensor.name].astype(np.float16), tensor.name))
    for entry in (*model.graph.input, *model.graph.output):
        entry.type.tensor_type.elem_type = TensorProto.FLOAT16
    fix_input(model, None, FILE)
    assert outputs(model)(model).dtype == np.float32
    found = numpy_helper.to_array(model.graph.initializer[0])
    assert found.dtype == np.float32
    assert found == pytest.approx(expected["w1"], abs=1e-3)


def outputs(model: Any) -> Any:
    images = RNG.normal(size=(2, SIDE, SIDE, 3)).astype(np.float32)
    return lambda given: OnnxOriginal(given, ImageInput("image", True, SIDE)).scores(images)


def test_batch_normalisation_joins_its_convolution() -> None:
    norm = helper.make_node("BatchNormalization", ["c1", "b1", "b1", "b1", "one"], ["n1"])
    relu = helper.make_node("Relu", ["n1"], ["r1"])
    one = numpy_helper.from_array(np.ones(8, np.float32), "one")
    kinds = simplified(network(nodes=(NODES[0], norm, relu, *NODES[2:]), more=(one,)))
    assert "BatchNormalization" not in kinds


def simplified(model: Any) -> Counter[str]:
    """Simplify a model, which computes the same then, and count its operators."""
    run = outputs(model)
    simple = prepare_graph(model, FILE)
    assert run(simple) == pytest.approx(run(model), abs=1e-6)
    return Counter(node.op_type for node in simple.graph.node)


def test_an_old_operator_set_is_converted_and_an_operator_that_cannot_be_is_told() -> None:
    nodes = (NODES[0], helper.make_node("Clip", ["c1"], ["r1"], min=0.0, max=6.0), *NODES[2:])
    assert simplified(network(nodes=nodes, opset=9))["Clip"] == 1
    nodes = (NODES[0], helper.make_node("Upsample", ["c1", "scales"], ["r1"], mode="linear"), *NODES[2:])
    scales = numpy_helper.from_array(np.array([1, 1, 2, 2], np.float32), "scales")
    with pytest.raises(UsageError, match="its operator set 7 cannot be converted to 13"):
        prepare_graph(network(nodes=nodes, more=(scales,), opset=7), FILE)


def test_a_good_file_and_weights_in_a_file_beside_it_are_read(tmp_path: Path) -> None:
    file = saved(network(), tmp_path, save_as_external_data=True, location="net.data", size_threshold=0)
    assert (tmp_path / "net.data").stat().st_size > 0
    graph = read_checked(file).graph
    assert [node.name for node in graph.node][:2] == ["first", "relu"]
    found, expected = (
        {tensor.name: numpy_helper.to_array(tensor) for tensor in each.initializer} for each in (graph, network().graph)
    )
    assert np.array_equal(found["w3"], expected["w3"])


def moved(tensor: Any, location: str, **more: str) -> None:
    """Let a tensor claim that its data is in another file."""
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    entries = {"location": location, **more}
    tensor.external_data.extend(StringStringEntryProto(key=key, value=value) for key, value in entries.items())


@pytest.mark.parametrize("location", ["../secret", "/etc/hostname", "a/../../secret", "..\\secret", "link", ""])
def test_weights_outside_the_folder_are_refused(tmp_path: Path, location: str) -> None:
    (tmp_path / "secret").write_bytes(b"x" * 10_000)
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "link").symlink_to(tmp_path / "secret")
    model = network()
    moved(model.graph.initializer[3], location)
    (folder / "net.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(UsageError, match="the weights 'w3' are in '.*', outside the folder of the model"):
        read_checked(folder / "net.onnx")


def test_weights_outside_the_folder_are_found_in_constants(tmp_path: Path) -> None:
    model = network()
    constant = helper.make_node("Constant", [], ["k"], value=numpy_helper.from_array(np.ones(3, np.float32), "k"))
    moved(constant.attribute[0].t, "../secret")
    model.graph.node.insert(0, constant)
    (tmp_path / "net.onnx").write_bytes(model.SerializeToString())
    must_fail(UsageError, "the weights 'k' are in '../secret'", read_checked, tmp_path / "net.onnx")


@with_cases
def test_weights_that_are_not_there_are_refused(tmp_path: Path, more: dict[str, str], said: str) -> None:
    model = network()
    moved(model.graph.initializer[3], "w.bin", **more)
    (tmp_path / "net.onnx").write_bytes(model.SerializeToString())
    if more:
        (tmp_path / "w.bin").write_bytes(b"x" * 20)
    must_fail(UsageError, said, read_checked, tmp_path / "net.onnx")


def test_more_than_protobuf_or_a_tflite_holds_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (tmp_path / "net.onnx").open("wb") as file:
        file.truncate(onnx_files.MAX_BYTES + 1)
    with pytest.raises(UsageError, match="2147483648 bytes, and an ONNX file has at most 2147483647"):
        read_checked(tmp_path / "net.onnx")
    given = saved(network(), tmp_path, save_as_external_data=True, location="net.data", size_threshold=0)
    monkeypatch.setattr(onnx_files, "MAX_BYTES", 1_300)
    must_fail(UsageError, "more than 1300 bytes of weights", read_checked, given)


@pytest.mark.parametrize("content", [b"", b"no model", b"\x08\x08", network().SerializeToString()[:500]])
def test_what_is_no_model_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "net.onnx").write_bytes(content)
    must_fail(UsageError, "not a usable ONNX file", read_checked, tmp_path / "net.onnx")


@pytest.mark.parametrize(("opset", "said"), [(6, "operator set 6, and 7 to"), (99, "operator set 99, and 7 to")])
def test_an_operator_set_that_cannot_be_read_is_refused(tmp_path: Path, opset: int, said: str) -> None:
    raised = must_fail(UsageError, said, read_checked, saved(network(opset=opset), tmp_path))
    assert "operator set of 13 to" in raised.hint


def between(*nodes: Any, more: Sequence[Any] = ()) -> Any:
    """A network with other nodes in the place of its first activation, which makes ``r1`` of ``c1``."""
    return network(nodes=(NODES[0], *nodes, *NODES[2:]), more=more)


def wavelet(output: str) -> Any:
    return helper.make_node("Wavelet", ["c1"], [output], name="wave", domain="our.company")


def branches() -> Sequence[Any]:
    inner = helper.make_tensor_value_info("inner", TensorProto.FLOAT, None)
    branch = helper.make_graph([wavelet("inner")], "b", [], [inner])
    return (helper.make_node("If", ["yes"], ["r1"], then_branch=branch, else_branch=branch),)


def quantized(operator: str) -> Sequence[Any]:
    return (helper.make_node(operator, ["c1", "s"], ["r1"], name="round"),)


@pytest.mark.parametrize(
    ("nodes", "said"),
    [
        ((), "not a usable ONNX file: .*r1"),
        ((wavelet("r1"),), r"the layer 'wave' is a Wavelet of the domain 'our\.company'"),
        (branches(), "the layer 'wave' is a Wavelet of the domain"),
        ((helper.make_node("Reluu", ["c1"], ["r1"]),), r"that makes 'r1' is a Reluu, .*\(did you mean 'Relu'\?\)"),
        *(
            (quantized(kind), f"the layer 'round' is a {kind}")
            for kind in ("QuantizeLinear", "QLinearConv", "ConvInteger")
        ),
    ],
)
def test_a_graph_is_refused_with_the_layer_and_the_reason(tmp_path: Path, nodes: Sequence[Any], said: str) -> None:
    more = (numpy_helper.from_array(np.array(True), "yes"), numpy_helper.from_array(np.float32(0.1), "s"))
    raised = must_fail(UsageError, said, read_checked, saved(between(*nodes, more=more), tmp_path))
    assert ("give the float model" in raised.hint) == ("'round'" in said)


def test_local_functions_are_written_out(tmp_path: Path) -> None:
    model = between(helper.make_node("Clamp", ["c1"], ["r1"], domain="mine"))
    body = [helper.make_node("Relu", ["x"], ["y"])]
    opsets = [helper.make_opsetid("", 17)]
    model.functions.append(helper.make_function("mine", "Clamp", ["x"], ["y"], body, opsets))
    model.opset_import.append(helper.make_opsetid("mine", 1))
    assert [node.op_type for node in read_checked(saved(model, tmp_path)).graph.node][:2] == ["Conv", "Relu"]
