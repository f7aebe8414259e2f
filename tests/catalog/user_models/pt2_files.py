"""Archives as ``torch.export.save`` of PyTorch 2.13 writes them, made without PyTorch."""

import copy
import json
import zipfile
from collections.abc import Callable, Mapping
from math import prod
from pathlib import Path
from typing import Any

FLOAT32, FLOAT16 = 7, 6
ROOT = "net"

Program = dict[str, Any]
Change = Callable[[Program], None]


def tensor(*sizes: int, dtype: int = FLOAT32) -> Program:
    """The description of a tensor."""
    strides = [{"as_int": prod(sizes[place + 1 :])} for place in range(len(sizes))]
    return {
        "dtype": dtype,
        "sizes": [{"as_int": size} for size in sizes],
        "requires_grad": False,
        "device": {"type": "cpu", "index": None},
        "strides": strides,
        "storage_offset": {"as_int": 0},
        "layout": 7,
    }


def program() -> Program:
    """A convolution of an image of 32 pixels and the mean of its maps."""
    node = {
        "target": "torch.ops.aten.conv2d.default",
        "inputs": [
            {"name": "input", "arg": {"as_tensor": {"name": "x"}}, "kind": 1},
            {"name": "weight", "arg": {"as_tensor": {"name": "p_conv_weight"}}, "kind": 1},
        ],
        "outputs": [{"as_tensor": {"name": "conv2d"}}],
        "metadata": {"stack_trace": "somebody's code", "nn_module_stack": "L__self__,,somebody.Net"},
        "name": "conv2d",
    }
    mean = {
        "target": "torch.ops.aten.mean.dim",
        "inputs": [
            {"name": "self", "arg": {"as_tensor": {"name": "conv2d"}}, "kind": 1},
            {"name": "dim", "arg": {"as_ints": [2, 3]}, "kind": 1},
        ],
        "outputs": [{"as_tensor": {"name": "mean"}}],
        "metadata": {},
        "name": "mean",
    }
    graph = {
        "inputs": [{"as_tensor": {"name": "p_conv_weight"}}, {"as_tensor": {"name": "x"}}],
        "outputs": [{"as_tensor": {"name": "mean"}}],
        "nodes": [node, mean],
        "tensor_values": {
            "p_conv_weight": tensor(5, 3, 3, 3),
            "x": tensor(1, 3, 32, 32),
            "conv2d": tensor(1, 5, 30, 30),
            "mean": tensor(1, 5),
        },
        "sym_int_values": {},
        "sym_bool_values": {},
        "is_single_tensor_return": False,
        "custom_obj_values": {},
        "sym_float_values": {},
    }
    weight = {"parameter": {"arg": {"name": "p_conv_weight"}, "parameter_name": "conv.weight"}}
    signature = {
        "input_specs": [weight, {"user_input": {"arg": {"as_tensor": {"name": "x"}}}}],
        "output_specs": [{"user_output": {"arg": {"as_tensor": {"name": "mean"}}}}],
    }
    module = {
        "graph": graph,
        "signature": signature,
        "module_call_graph": [{"fqn": "", "signature": None}, {"fqn": "conv", "signature": None}],
        "metadata": {},
        "treespec_namedtuple_fields": {},
    }
    return {
        "graph_module": module,
        "opset_version": {"aten": 10},
        "range_constraints": {},
        "schema_version": {"major": 8, "minor": 20},
        "verifiers": ["TRAINING"],
        "torch_version": "2.13.0+cpu",
        "guards_code": [],
    }


def weights(dtype: int = FLOAT32, pickled: bool = False, device: str = "cpu", offset: int = 0) -> Program:
    """The table of the weights."""
    place = {"device": {"type": device, "index": None}, "storage_offset": {"as_int": offset}}
    meta = {**tensor(5, 3, 3, 3, dtype=dtype), **place}
    entry = {"path_name": "weight_0", "is_param": True, "use_pickle": pickled, "tensor_meta": meta}
    return {"config": {"conv.weight": entry}}


def members(change: Change | None = None, table: Program | None = None) -> dict[str, bytes]:
    """The members of an archive, by their path below its folder; ``change`` edits the program in place."""
    edited = copy.deepcopy(program())
    if change:
        change(edited)
    return {
        "archive_format": b"pt2",
        "models/model.json": json.dumps(edited).encode(),
        "data/weights/weight_0": bytes(4 * 5 * 27),
        "data/weights/model_weights_config.json": json.dumps(table or weights()).encode(),
        "data/constants/model_constants_config.json": b'{"config": {}}',
        "data/sample_inputs/model.pt": b"a pickle",
        ".data/serialization_id": b"1",
        ".data/version": b"3\n",
        "archive_version": b"0",
        "byteorder": b"little",
        "version": b"3\n",
    }


def write(path: Path, content: Mapping[str, bytes], root: str = ROOT) -> Path:
    """Write members below ``root`` as an archive, and return its path."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in content.items():
            archive.writestr(f"{root}/{name}", data)
    return path
