import io
import random
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import zstandard

from advisor.compression import RecipeInputs, arena_bytes, make_file
from advisor.compression._recipes import Sizes, measure_deflated, zstd_bytes
from advisor.datasets import CalibrationImages, InputSpec
from advisor.tflite import OPERATOR, Metadata, Suppression, read
from tests.tflite.graphs import tiny_detector

NO_IMAGES = CalibrationImages((), InputSpec(2, (127.5,) * 3, (127.5,) * 3))
COARSE = bytes(random.Random(0).choices(range(16), k=40_000))


def test_deflated_is_what_a_zip_archive_stores_and_zstd_bytes_are_those_of_a_frame_that_is_less() -> None:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("model.tflite", COARSE)
        stored = archive.getinfo("model.tflite").compress_size
    assert abs(measure_deflated(COARSE) - stored) < 16  # the zlib wrapper around the same stream
    assert len(COARSE) * 0.45 < (zstd_bytes(COARSE) or 0) < measure_deflated(COARSE) < len(COARSE) * 0.6
    frame = zstandard.ZstdCompressor(level=12).compress(COARSE)
    assert zstandard.ZstdDecompressor().decompress(frame) == COARSE
    assert zstd_bytes(COARSE) == len(frame)


def test_size_by_zstd_needs_its_package(float_model: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "zstandard", None)
    (tmp_path / "model.tflite").write_bytes(float_model)
    assert Sizes.of_file(tmp_path / "model.tflite").downloads == {"download_bytes": measure_deflated(float_model)}


def test_sizes_carry_both(float_model: bytes, tmp_path: Path) -> None:
    path = tmp_path / "model.tflite"
    path.write_bytes(float_model)
    sizes = Sizes.of_file(path)
    assert sizes == Sizes(len(float_model), measure_deflated(float_model), zstd_bytes(float_model), sizes.arena_bytes)
    assert sizes.arena_bytes == arena_bytes(path) > 0


def made(folder: Path, model: bytes, metadata: Metadata | None = None) -> bytes:
    (folder / "float.tflite").write_bytes(model)
    out = folder / "made.tflite"
    make_file(folder / "float.tflite", "float32", NO_IMAGES, RecipeInputs(), metadata, out)
    return out.read_bytes()


def test_a_detector_ends_in_post_processing_and_has_its_labels_behind_it(tmp_path: Path) -> None:
    metadata = Metadata("net", ("a", "b", "c", "d"), (127.5,), (127.5,))
    data = made(tmp_path, Suppression().append_to(tiny_detector(), np.full((3, 4), 0.5, np.float32)), metadata)
    model = read(data)
    assert [tensor.shape[0] for tensor in model.outputs] == [1] * 4
    assert [len(tensor.shape) for tensor in model.outputs] == [3, 2, 2, 1]
    assert model.operators[-1].name == f"CUSTOM:{OPERATOR}"
    assert Metadata.read(data).labels == metadata.labels


def test_without_post_processing_and_metadata_nothing_is_added(tmp_path: Path) -> None:
    assert [tensor.shape for tensor in read(made(tmp_path, tiny_detector())).outputs] == [(1, 3, 4), (1, 3, 4)]
