"""Data folders made for tests: real image files, small."""

import io
import struct
import tarfile
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from advisor.core import UsageError

SIZE = (48, 36)


def image(seed: int, size: tuple[int, int] = SIZE) -> Image.Image:
    """A smooth random image: different for every seed, and nothing like noise to a codec."""
    coarse = np.random.default_rng(seed).integers(0, 256, (4, 5, 3), dtype=np.uint8)
    return Image.fromarray(coarse).resize(size, Image.Resampling.BICUBIC)


def fill(folder: Path, count: int, first: int = 0, suffix: str = ".jpg") -> list[Path]:
    """Write ``count`` different images into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{first + number:03d}{suffix}" for number in range(count)]
    for number, path in enumerate(paths):
        image(1000 * first + number + len(folder.name) * 10_000).save(path)
    return paths


def make(root: Path, **classes: int) -> Path:
    """Write a data folder with so many images a class; no two images of it are equal."""
    for number, (name, count) in enumerate(classes.items()):
        fill(root / name, count, first=100 * number)
    return root


def tarred(path: Path, files: Iterable[tuple[str, bytes]]) -> Path:
    with tarfile.open(path, "w") as file:
        for name, data in files:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            file.addfile(info, io.BytesIO(data))
    return path


def claims(width: int, height: int) -> bytes:
    """A PNG whose header claims so many pixels; it holds none."""
    chunks = ((b"IHDR", struct.pack(">II5B", width, height, 1, 0, 0, 0, 0)), (b"IDAT", b""), (b"IEND", b""))
    sums = (struct.pack(">I", zlib.crc32(kind + content)) for kind, content in chunks)
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(content)) + kind + content + check
        for (kind, content), check in zip(chunks, sums, strict=True)
    )


def refusal(read: Callable[[Path], object], path: Path) -> UsageError:
    """Return the error of reading a path, which says what to do."""
    with pytest.raises(UsageError) as caught:
        read(path)
    assert caught.value.hint
    return caught.value
