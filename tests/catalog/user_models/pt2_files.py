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


def named(name: str) -> Program:
    return {"as_tensor": {"name": name}}


def operator(target: str, name: str, metadata: Program, /, **arguments: Program) -> Program:
    """A node of the graph: an operator of ATen that makes the tensor ``name``."""
    inputs = [{"name": argument, "arg": value, "kind": 1} for argument, value in arguments.items()]
    outputs = [named(name)]
    target = f"torch.ops.aten.{target}"
    return {"target": target, "inputs": inputs, "outputs": outputs, "metadata": metadata, "name": name}


def program() -> Program:
    """A convolution of an image of 32 pixels and the mean of its maps."""
    traces = {"stack_trace": "somebody's code", "nn_module_stack": "L__self__,,somebody.Net"}
    shapes = {"p_conv_weight": (5, 3, 3, 3), "x": (1, 3, 32, 32), "conv2d": (1, 5, 30, 30), "mean": (1, 5)}
    graph = {
        "inputs": [named("p_conv_weight"), named("x")],
        "outputs": [named("mean")],
        "nodes": [
            operator("conv2d.default", "conv2d", traces, input=named("x"), weight=named("p_conv_weight")),
            operator("mean.dim", "mean", {}, self=named("conv2d"), dim={"as_ints": [2, 3]}),
        ],
        "tensor_values": {name: tensor(*shape) for name, shape in shapes.items()},
        "is_single_tensor_return": False,
        **{f"{kind}_values": {} for kind in ("sym_int", "sym_bool", "sym_float", "custom_obj")},
    }
    weight = {"parameter": {"arg": {"name": "p_conv_weight"}, "parameter_name": "conv.weight"}}
    signature = {
        "input_specs": [weight, {"user_input": {"arg": named("x")}}],
        "output_specs": [{"user_output": {"arg": named("mean")}}],
    }
    module = {
        "graph": graph,
        "signature": signature,
        "module_call_graph": [{"fqn": name, "signature": None} for name in ("", "conv")],
        "metadata": {},
        "treespec_namedtuple_fields": {},
    }
    versions = {"opset_version": {"aten": 10}, "schema_version": {"major": 8, "minor": 20}}
    more = {"range_constraints": {}, "verifiers": ["TRAINING"], "torch_version": "2.13.0+cpu", "guards_code": []}
    return {"graph_module": module, **versions, **more}


def weights(dtype: int = FLOAT32, pickled: bool = False, device: str = "cpu", offset: int = 0) -> Program:
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
