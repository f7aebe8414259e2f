"""An archive of PyTorch is checked before PyTorch reads it, and only its graph and its weights reach PyTorch."""

from __future__ import annotations

import json
import pickle
import zipfile
from pathlib import Path
from typing import Any

import pytest

from advisor.catalog.user_models import pt2_archive
from advisor.catalog.user_models.pt2_archive import read, write_copy
from advisor.core.errors import UsageError
from tests.catalog.user_models.pt2_files import FLOAT16, Change, Program, members, tensor, weights, write


def graph(program: Program) -> Any:
    return program["graph_module"]["graph"]


def node(**changes: Any) -> Change:
    return lambda program: graph(program)["nodes"][0].update(changes)


def argument(name: str, value: Any) -> Change:
    return lambda program: graph(program)["nodes"][0]["inputs"].append({"name": name, "arg": value, "kind": 1})


def shape(*sizes: int, dtype: int = 7) -> Change:
    return lambda program: graph(program)["tensor_values"].update(x=tensor(*sizes, dtype=dtype))


def open_batch(program: Program) -> None:
    graph(program)["tensor_values"]["x"]["sizes"][0] = {"as_expr": {"expr_str": "__import__('os')", "hint": None}}


def two(key: str, kind: str) -> Change:
    spec = {kind: {"arg": {"as_tensor": {"name": "x"}}}}
    return lambda program: program["graph_module"]["signature"][key].append(spec)


def test_a_sound_archive_tells_its_input_and_the_pytorch_that_wrote_it(tmp_path: Path) -> None:
    found = read(write(tmp_path / "net.pt2", members()))
    assert (found.side, found.torch) == (32, "2.13.0+cpu")


def test_the_copy_for_pytorch_has_no_sample_inputs_guards_or_descriptions_of_code(tmp_path: Path) -> None:
    def with_code(program: Program) -> None:
        program["guards_code"] = ["__import__('os').system('true')"]
        program["graph_module"]["treespec_namedtuple_fields"] = {"somebody.Result": ["scores"]}

    copy = tmp_path / "copy.pt2"
    write_copy(write(tmp_path / "net.pt2", {**members(with_code), "extra/notes": b"text"}), copy)
    with zipfile.ZipFile(copy) as archive:
        program = json.loads(archive.read("net/models/model.json"))
        assert archive.read("net/data/sample_inputs/model.pt") == b""
        assert "net/extra/notes" not in archive.namelist()
        assert archive.read("net/data/weights/weight_0") == bytes(4 * 5 * 27)
    text = json.dumps(program)
    assert "import" not in text
    assert "somebody" not in text


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("data/constants/custom_obj_0", r"custom_obj_0' \(a pickled Python object\)"),
        ("data/constants/opaque_obj_0", r"opaque_obj_0' \(a pickled Python object\)"),
        ("data/weights/model.pt", r"model.pt' \(a pickled Python object\)"),
        ("data/aotinductor/model/net.so", r"net.so' \(compiled code\)"),
        ("data.pkl", "holds 'data.pkl'"),
        ("data/weights/../../weight_0", "holds 'data/weights/../../weight_0'"),
        ("code/net.py", "is a TorchScript archive"),
        ("constants.pkl", "is a TorchScript archive"),
        ("models/second.json", "it holds models/model.json, models/second.json, not models/model.json alone"),
    ],
)
def test_another_member_is_refused_by_name(tmp_path: Path, name: str, said: str) -> None:
    with pytest.raises(UsageError, match=said) as raised:
        read(write(tmp_path / "net.pt2", {**members(), name: b"x"}))
    assert "torch.export" in raised.value.hint


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (node(target="torch.os.system"), "calls torch.os.system, which is no operator"),
        (node(target="torch.hub.load"), "calls torch.hub.load"),
        (node(target="math.os"), "calls math.os"),
        (node(target="torch.ops.aten.from_file.default"), "from_file"),
        (node(target="torch.ops.torchvision.nms.default"), "calls torch.ops.torchvision.nms.default"),
        (node(target="torch.ops.quantized_decomposed.quantize_per_tensor.default"), "it is quantized"),
        (argument("f", {"as_graph": {"name": "body"}}), r"code of its own \(as_graph\)"),
        (argument("f", {"as_custom_obj": {"name": "thing"}}), r"code of its own \(as_custom_obj\)"),
        (argument("training", {"as_bool": True}), r"in training mode \('conv2d'\)"),
        (two("output_specs", "buffer_mutation"), r"changes its own state \(buffer_mutation\)"),
        (two("input_specs", "user_input"), "it has 2 inputs"),
        (two("output_specs", "user_output"), "it has 2 outputs"),
        (shape(1, 3, 32, 48), r"its input \(1, 3, 32, 48\) is not one square RGB image"),
        (shape(1, 32, 32, 3), r"its input \(1, 32, 32, 3\) is not"),
        (shape(8, 3, 32, 32), r"its input \(8, 3, 32, 32\) is not"),
        (shape(1, 3, 32, 32, dtype=FLOAT16), "it takes float16, not float32"),
        (open_batch, r"leaves sizes open \(dynamic_shapes\)"),
        (lambda program: program.update(range_constraints={"s0": {}}), "leaves sizes open"),
        (lambda program: program.pop("graph_module"), "is not a usable .pt2 file: .*graph_module"),
        (lambda program: graph(program).update(nodes=[3]), "is not a usable .pt2 file"),
    ],
)
def test_another_program_is_refused_with_the_reason(tmp_path: Path, change: Change, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        read(write(tmp_path / "net.pt2", members(change)))


@pytest.mark.parametrize(
    ("table", "said"),
    [
        (weights(dtype=FLOAT16), "the weights 'conv.weight' are float16, not float32"),
        (weights(device="cuda"), "'conv.weight' was exported on cuda"),
        (weights(pickled=True), "the tensor 'conv.weight' is pickled"),
        (weights(offset=1), "'conv.weight' does not fit the 540 bytes of its values"),
        (weights(offset=-1), "'conv.weight' does not fit"),
        ({"config": {"conv.weight": {}}}, "is not a usable .pt2 file"),
    ],
)
def test_other_weights_are_refused_with_the_reason(tmp_path: Path, table: Program, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        read(write(tmp_path / "net.pt2", members(table=table)))


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"x" * 400, pickle.dumps({"state": 1})])
def test_what_is_no_archive_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "net.pt2").write_bytes(content)
    with pytest.raises(UsageError, match="is not a usable .pt2 file"):
        read(tmp_path / "net.pt2")


def test_a_damaged_member_is_refused(tmp_path: Path) -> None:
    file = write(tmp_path / "net.pt2", members())
    content = bytearray(file.read_bytes())
    content[content.index(b"graph_module")] ^= 1
    file.write_bytes(content)
    with pytest.raises(UsageError, match="Bad CRC-32"):
        read(file)


def test_an_archive_of_another_program_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not an archive of torch.export.save"):
        read(write(tmp_path / "net.pt2", {"version": b"3"}))


def test_what_unpacks_to_too_much_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pt2_archive, "MAX_UNPACKED_BYTES", 100)
    with pytest.raises(UsageError, match="unpacks to more than 100 bytes"):
        read(write(tmp_path / "net.pt2", members()))


def test_a_graph_that_is_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pt2_archive, "MAX_GRAPH_BYTES", 100)
    with pytest.raises(UsageError, match="its graph has more than 100 bytes"):
        read(write(tmp_path / "net.pt2", members()))
