"""An ONNX file is refused with its reason before a library runs or converts it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import StringStringEntryProto, TensorProto, helper, numpy_helper

from advisor.catalog.user_models.onnx_files import checks
from advisor.catalog.user_models.onnx_files.checks import checked
from advisor.core.errors import UsageError
from tests.catalog.user_models.onnx_files.graphs import IMAGE, NODES, network, saved


def test_a_good_file_is_read(tmp_path: Path) -> None:
    assert [node.name for node in checked(saved(network(), tmp_path)).graph.node][:2] == ["first", "relu"]


def test_weights_in_a_file_beside_it_are_read(tmp_path: Path) -> None:
    file = saved(network(), tmp_path, save_as_external_data=True, location="net.data", size_threshold=0)
    assert (tmp_path / "net.data").stat().st_size > 0
    found = {tensor.name: tensor for tensor in checked(file).graph.initializer}
    expected = {tensor.name: tensor for tensor in network().graph.initializer}
    assert np.array_equal(numpy_helper.to_array(found["w3"]), numpy_helper.to_array(expected["w3"]))


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
        checked(folder / "net.onnx")


def test_weights_outside_the_folder_are_found_in_constants(tmp_path: Path) -> None:
    model = network()
    constant = helper.make_node("Constant", [], ["k"], value=numpy_helper.from_array(np.ones(3, np.float32), "k"))
    moved(constant.attribute[0].t, "../secret")
    model.graph.node.insert(0, constant)
    (tmp_path / "net.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(UsageError, match="the weights 'k' are in '../secret'"):
        checked(tmp_path / "net.onnx")


@pytest.mark.parametrize(
    ("more", "said"),
    [({}, "'w.bin', which is missing"), ({"length": "99"}, "end beyond"), ({"offset": "-4"}, "end beyond")],
)
def test_weights_that_are_not_there_are_refused(tmp_path: Path, more: dict[str, str], said: str) -> None:
    model = network()
    moved(model.graph.initializer[3], "w.bin", **more)
    (tmp_path / "net.onnx").write_bytes(model.SerializeToString())
    if more:
        (tmp_path / "w.bin").write_bytes(b"x" * 20)
    with pytest.raises(UsageError, match=said):
        checked(tmp_path / "net.onnx")


def test_a_file_beyond_the_limit_of_protobuf_is_refused_unread(tmp_path: Path) -> None:
    with (tmp_path / "net.onnx").open("wb") as file:
        file.truncate(checks.MAX_BYTES + 1)
    with pytest.raises(UsageError, match="2147483648 bytes, and an ONNX file has at most 2147483647"):
        checked(tmp_path / "net.onnx")


def test_more_weights_than_a_tflite_holds_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = saved(network(), tmp_path, save_as_external_data=True, location="net.data", size_threshold=0)
    monkeypatch.setattr(checks, "MAX_BYTES", 1_300)
    with pytest.raises(UsageError, match="more than 1300 bytes of weights"):
        checked(file)


@pytest.mark.parametrize("content", [b"", b"no model", b"\x08\x08"])
def test_what_is_no_model_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "net.onnx").write_bytes(content)
    with pytest.raises(UsageError, match="not a usable ONNX file"):
        checked(tmp_path / "net.onnx")


def test_a_truncated_file_is_refused(tmp_path: Path) -> None:
    content = network().SerializeToString()
    (tmp_path / "net.onnx").write_bytes(content[: len(content) // 2])
    with pytest.raises(UsageError, match="not a usable ONNX file"):
        checked(tmp_path / "net.onnx")


def test_a_graph_with_a_missing_tensor_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not a usable ONNX file: .*r1"):
        checked(saved(network(nodes=(NODES[0], *NODES[2:])), tmp_path))


@pytest.mark.parametrize(("opset", "said"), [(6, "operator set 6, and 7 to"), (99, "operator set 99, and 7 to")])
def test_an_operator_set_that_cannot_be_read_is_refused(tmp_path: Path, opset: int, said: str) -> None:
    with pytest.raises(UsageError, match=said) as raised:
        checked(saved(network(opset=opset), tmp_path))
    assert "operator set of 13 to" in raised.value.hint


def test_a_custom_operator_is_refused_with_its_domain(tmp_path: Path) -> None:
    own = helper.make_node("Wavelet", ["c1"], ["r1"], name="wave", domain="our.company")
    with pytest.raises(UsageError, match=r"the layer 'wave' is a Wavelet of the domain 'our\.company'"):
        checked(saved(network(nodes=(NODES[0], own, *NODES[2:])), tmp_path))


def test_an_unknown_operator_names_the_nearest(tmp_path: Path) -> None:
    wrong = helper.make_node("Reluu", ["c1"], ["r1"])
    with pytest.raises(UsageError, match=r"that makes 'r1' is a Reluu, .*\(did you mean 'Relu'\?\)"):
        checked(saved(network(nodes=(NODES[0], wrong, *NODES[2:])), tmp_path))


def test_a_custom_operator_inside_a_branch_is_found(tmp_path: Path) -> None:
    own = helper.make_node("Wavelet", ["c1"], ["inner"], name="wave", domain="our.company")
    branch = helper.make_graph([own], "b", [], [helper.make_tensor_value_info("inner", TensorProto.FLOAT, None)])
    choice = helper.make_node("If", ["yes"], ["r1"], then_branch=branch, else_branch=branch)
    yes = numpy_helper.from_array(np.array(True), "yes")
    with pytest.raises(UsageError, match="the layer 'wave' is a Wavelet of the domain"):
        checked(saved(network(nodes=(NODES[0], choice, *NODES[2:]), more=(yes,)), tmp_path))


@pytest.mark.parametrize("operator", ["QuantizeLinear", "QLinearConv", "ConvInteger"])
def test_a_quantized_model_is_refused(tmp_path: Path, operator: str) -> None:
    rounded = helper.make_node(operator, ["c1", "s"], ["r1"], name="round")
    scale = numpy_helper.from_array(np.float32(0.1), "s")
    with pytest.raises(UsageError, match=f"it is quantized \\(the layer 'round' is a {operator}\\)") as raised:
        checked(saved(network(nodes=(NODES[0], rounded, *NODES[2:]), more=(scale,)), tmp_path))
    assert "give the float model" in raised.value.hint


def test_local_functions_are_written_out(tmp_path: Path) -> None:
    model = network(nodes=(NODES[0], helper.make_node("Clamp", ["c1"], ["r1"], domain="mine"), *NODES[2:]), shape=IMAGE)
    body = [helper.make_node("Relu", ["x"], ["y"])]
    opsets = [helper.make_opsetid("", 17)]
    model.functions.append(helper.make_function("mine", "Clamp", ["x"], ["y"], body, opsets))
    model.opset_import.append(helper.make_opsetid("mine", 1))
    assert [node.op_type for node in checked(saved(model, tmp_path)).graph.node][:2] == ["Conv", "Relu"]
