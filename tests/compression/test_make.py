from __future__ import annotations

import io
import random
import zipfile
from pathlib import Path

import zstandard

from advisor.compression.make import Sizes, arena_bytes, deflated_bytes, sizes_of, zstd_bytes

COARSE = bytes(random.Random(0).choices(range(16), k=40_000))


def test_deflated_is_what_a_zip_archive_stores() -> None:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("model.tflite", COARSE)
        stored = archive.getinfo("model.tflite").compress_size
    assert abs(deflated_bytes(COARSE) - stored) < 16  # the zlib wrapper around the same stream


def test_both_find_the_four_bits_of_a_value_in_sixteen() -> None:
    assert len(COARSE) * 0.45 < zstd_bytes(COARSE) < deflated_bytes(COARSE) < len(COARSE) * 0.6


def test_zstd_bytes_are_those_of_a_frame_that_can_be_read_again() -> None:
    frame = zstandard.ZstdCompressor(level=12).compress(COARSE)
    assert zstandard.ZstdDecompressor().decompress(frame) == COARSE
    assert zstd_bytes(COARSE) == len(frame)


def test_sizes_carry_both(float_model: bytes, tmp_path: Path) -> None:
    path = tmp_path / "model.tflite"
    path.write_bytes(float_model)
    sizes = sizes_of(path)
    assert sizes == Sizes(len(float_model), deflated_bytes(float_model), zstd_bytes(float_model), sizes.arena_bytes)
    assert sizes.arena_bytes == arena_bytes(path) > 0
