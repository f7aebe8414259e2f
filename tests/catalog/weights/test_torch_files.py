"""PyTorch checkpoints, written here as PyTorch writes them, and programs that pretend to be checkpoints."""

import io
import os
import pickle
import struct
import sys
import types
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from advisor.catalog._weights.readers import read_tensors
from advisor.core import WeightsError
from tests.builders import must_fail
from tests.tables import with_cases

VALUES = np.arange(24, dtype=np.float32)


class Storage:
    """What a tensor in the pickle refers to."""

    def __init__(self, key: str, data: np.ndarray[Any, Any]) -> None:
        self.key, self.data = key, data


class Tensor:
    """A view of a storage, pickled as PyTorch does it: a call of ``_rebuild_tensor_v2``."""

    def __init__(self, storage: Storage, offset: int, size: tuple[int, ...], stride: tuple[int, ...]) -> None:
        self.arguments = (storage, offset, size, stride, False, OrderedDict())

    def __reduce__(self) -> Any:
        return sys.modules["torch._utils"]._rebuild_tensor_v2, self.arguments


class Writer(pickle.Pickler):
    def persistent_id(self, value: Any) -> Any:
        if not isinstance(value, Storage):
            return None
        return ("storage", sys.modules["torch"].FloatStorage, value.key, "cpu", value.data.size)


@pytest.fixture(autouse=True)
def torch_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Modules that have the names which a checkpoint refers to; the reader must not need them."""
    torch, utils = types.ModuleType("torch"), types.ModuleType("torch._utils")

    def _rebuild_tensor_v2(*_: Any) -> None:
        raise AssertionError("PyTorch's own function was called")

    _rebuild_tensor_v2.__module__, _rebuild_tensor_v2.__qualname__ = "torch._utils", "_rebuild_tensor_v2"
    utils._rebuild_tensor_v2 = _rebuild_tensor_v2  # type: ignore[attr-defined]
    torch.FloatStorage = type("FloatStorage", (), {"__module__": "torch"})  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, "torch._utils", utils)


def pickled(content: Any) -> bytes:
    out = io.BytesIO()
    Writer(out, protocol=2).dump(content)
    return out.getvalue()


def write_zip(path: Path, content: Any, data: bytes) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("model/data.pkl", content if isinstance(content, bytes) else pickled(content))
        archive.writestr("model/data/0", data)
    return path


def write_legacy(path: Path, content: Any, data: np.ndarray[Any, Any]) -> Path:
    heads = (0x1950A86A20F9469CFC6C, 1001, {"little_endian": True})
    parts = [pickle.dumps(head, protocol=2) for head in heads]
    parts += [pickled(content), pickle.dumps(["0"], protocol=2), struct.pack("<q", data.size), data.tobytes()]
    path.write_bytes(b"".join(parts))
    return path


def state(offset: int = 0, size: tuple[int, ...] = (2, 3), stride: tuple[int, ...] = (3, 1)) -> dict[str, Any]:
    return OrderedDict(layer=OrderedDict(weight=Tensor(Storage("0", VALUES), offset, size, stride)))


def test_both_forms_are_read(tmp_path: Path) -> None:
    zipped = write_zip(tmp_path / "m.pth", state(), VALUES.tobytes())
    for path in (zipped, write_legacy(tmp_path / "older.pth", state(), VALUES)):
        assert read_tensors("torch", path)["layer.weight"].tolist() == [[0, 1, 2], [3, 4, 5]]


def test_a_transposed_view_of_part_of_a_storage_is_read_right(tmp_path: Path) -> None:
    tensors = read_tensors("torch", write_zip(tmp_path / "m.pth", state(4, (3, 2), (1, 3)), VALUES.tobytes()))
    assert tensors["layer.weight"].tolist() == [[4, 7], [5, 8], [6, 9]]


@with_cases
def test_a_tensor_that_reaches_past_its_storage_is_refused(
    tmp_path: Path, offset: int, size: list[int], stride: list[int]
) -> None:
    path = write_zip(tmp_path / "m.pth", state(offset, tuple(size), tuple(stride)), VALUES.tobytes())
    must_fail(WeightsError, "", read_tensors, "torch", path)


class Program:
    """A pickle that would run a command."""

    def __init__(self, marker: Path) -> None:
        self._marker = marker

    def __reduce__(self) -> Any:
        return os.system, (f"touch '{self._marker}'",)


@pytest.mark.parametrize("form", ["zip", "legacy"])
def test_a_program_is_refused_and_not_run(tmp_path: Path, form: str) -> None:
    marker = tmp_path / "it ran"
    content = OrderedDict(layer=Program(marker))
    path = tmp_path / "m.pth"
    write_zip(path, content, b"") if form == "zip" else write_legacy(path, content, VALUES)
    must_fail(WeightsError, r"posix\.system.*nothing is run", read_tensors, "torch", path)
    assert not marker.exists()


@with_cases
def test_names_but_a_tensors_and_a_memo_without_end_are_refused(tmp_path: Path, program: str, said: str) -> None:
    path = write_zip(tmp_path / "m.pth", program.encode("latin-1"), b"")
    must_fail(WeightsError, said, read_tensors, "torch", path)


@pytest.mark.parametrize("kept", [0, 1, 40, 200, -8])
def test_a_truncated_file_is_a_clear_error(tmp_path: Path, kept: int) -> None:
    whole = write_legacy(tmp_path / "m.pth", state(), VALUES).read_bytes()
    (tmp_path / "m.pth").write_bytes(whole[:kept])
    must_fail(WeightsError, r"m\.pth", read_tensors, "torch", tmp_path / "m.pth")
