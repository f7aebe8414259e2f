"""Archives as ``torch.export.save`` of PyTorch 2.13 writes them, made without PyTorch."""

import copy
import json
import zipfile
from collections.abc import Callable, Mapping
from math import prod
from pathlib import Path
from typing import Any

from tests.tables import read_table

FLOAT32, FLOAT16 = 7, 6
ROOT = "net"

Program = dict[str, Any]
Change = Callable[[Program], None]

PROGRAM: Program = read_table(__file__, "pt2_program.yaml")
"""A convolution of an image of 32 pixels and the mean of its maps."""


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


def weights(dtype: int = FLOAT32, pickled: bool = False, device: str = "cpu", offset: int = 0) -> Program:
    place = {"device": {"type": device, "index": None}, "storage_offset": {"as_int": offset}}
    meta = {**tensor(5, 3, 3, 3, dtype=dtype), **place}
    entry = {"path_name": "weight_0", "is_param": True, "use_pickle": pickled, "tensor_meta": meta}
    return {"config": {"conv.weight": entry}}


def members(change: Change | None = None, table: Program | None = None) -> dict[str, bytes]:
    """The members of an archive, by their path below its folder; ``change`` edits the program in place."""
    edited = copy.deepcopy(PROGRAM)
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
