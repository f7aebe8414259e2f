import io
import random
import sys
import zipfile
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import zstandard
from hypothesis import given, strategies as st

from advisor.compression import RecipeInputs, arena_bytes, choose_images, from_photographs, make_file, sizes_of
from advisor.compression._calibration import CalibrationImages, from_images
from advisor.compression._recipes import Sizes, measure_deflated, zstd_bytes
from advisor.datasets import InputSpec, load
from advisor.tflite import OPERATOR, Metadata, Suppression, append_postprocess, read, read_metadata
from tests.datasets.folders import fill
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
    assert sizes_of(tmp_path / "model.tflite").downloads == {"download_bytes": measure_deflated(float_model)}


def test_sizes_carry_both(float_model: bytes, tmp_path: Path) -> None:
    path = tmp_path / "model.tflite"
    path.write_bytes(float_model)
    sizes = sizes_of(path)
    assert sizes == Sizes(len(float_model), measure_deflated(float_model), zstd_bytes(float_model), sizes.arena_bytes)
    assert sizes.arena_bytes == arena_bytes(path) > 0


def made(folder: Path, model: bytes, metadata: Metadata | None = None) -> bytes:
    (folder / "float.tflite").write_bytes(model)
    out = folder / "made.tflite"
    make_file(folder / "float.tflite", "float32", NO_IMAGES, RecipeInputs(), metadata, out)
    return out.read_bytes()


def test_a_detector_ends_in_post_processing_and_has_its_labels_behind_it(tmp_path: Path) -> None:
    metadata = Metadata("net", ("a", "b", "c", "d"), (127.5,), (127.5,))
    data = made(
        tmp_path, append_postprocess(tiny_detector(), np.full((3, 4), 0.5, np.float32), Suppression()), metadata
    )
    model = read(data)
    assert [tensor.shape[0] for tensor in model.outputs] == [1] * 4
    assert [len(tensor.shape) for tensor in model.outputs] == [3, 2, 2, 1]
    assert model.operators[-1].name == f"CUSTOM:{OPERATOR}"
    assert read_metadata(data).labels == metadata.labels


def test_without_post_processing_and_metadata_nothing_is_added(tmp_path: Path) -> None:
    assert [tensor.shape for tensor in read(made(tmp_path, tiny_detector())).outputs] == [(1, 3, 4), (1, 3, 4)]


@given(st.lists(st.integers(0, 4), min_size=1, max_size=100), st.integers(1, 60), st.integers(0, 9))
def test_the_choice_takes_classes_in_turn(labels: list[int], count: int, seed: int) -> None:
    chosen = choose_images(labels, count, seed)
    assert len(chosen) == len(set(chosen)) == min(count, len(labels))
    taken, had = Counter(labels[place] for place in chosen), Counter(labels)
    fullest = max(taken.values())
    assert all(taken[label] >= min(had[label], fullest - 1) for label in had)


def test_the_choice_follows_the_seed() -> None:
    labels = [0, 1] * 50
    assert choose_images(labels, 10, 0) == choose_images(labels, 10, 0) != choose_images(labels, 10, 1)


def test_images_come_as_the_model_takes_them(tmp_path: Path) -> None:
    paths = fill(tmp_path, 3)
    found = from_images(paths, InputSpec(16, (10.0, 20.0, 30.0), (2.0, 4.0, 8.0)))
    assert found.dtype == np.float32
    np.testing.assert_allclose(found[1], (load(paths[1], 16) - np.array([10, 20, 30])) / np.array([2, 4, 8]), rtol=1e-6)


def test_photographs_are_many_and_different_and_smooth_as_no_noise_is() -> None:
    crops = from_photographs(InputSpec(64, (0.0,) * 3, (255.0,) * 3))
    assert len(crops) >= 40
    assert len({crop.tobytes() for crop in crops}) == len(crops)
    assert 0.0 <= crops.min() < 0.05
    assert 0.95 < crops.max() <= 1.0
    steps = np.abs(np.diff(crops, axis=2)).mean(axis=(1, 2, 3))
    spread = crops.std(axis=(1, 2, 3))
    assert (steps < 0.8 * spread).all()
