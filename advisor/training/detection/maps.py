"""The maps of a frozen backbone for images and changed copies of them, kept on disk: an epoch costs only the head."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from advisor.core.errors import StageError
from advisor.datasets.images import InputSpec, load
from advisor.isolation.resources import usable_cores
from advisor.training.detection.changes import Changes, Objects, changed
from advisor.training.finetune.network import flatbuffer

if TYPE_CHECKING:
    import keras

Halves = NDArray[np.float16]

MOST_BYTES = 2_000_000_000
"""Largest size of the maps on disk."""

MOST_COPIES = 5
"""Changed copies of each image, at most."""


@dataclass(frozen=True, eq=False)
class Boxed:
    """Images with their objects.

    Attributes:
        paths: N files.
        objects: of each image.
    """

    paths: Sequence[Path]
    objects: Sequence[Objects]


@dataclass(frozen=True, eq=False)
class KeptMaps:
    """Maps of images and of their changed copies.

    Attributes:
        levels: float16 (N * (1 + copies), rows, columns, channels) of each level, memory-mapped.
        objects: of each row.
        copies: changed copies of each image; row ``image + N * copy`` is copy number ``copy``, 0 for the image itself.
    """

    levels: Sequence[Halves]
    objects: Sequence[Objects]
    copies: int

    @property
    def images(self) -> int:
        """Number of images N."""
        return len(self.objects) // (1 + self.copies)

    def batch(self, rows: NDArray[np.int64]) -> list[Halves]:
        """Return the maps of some rows, level by level."""
        return [np.array(level[rows]) for level in self.levels]


def keep_maps(maps: keras.Model, boxed: Boxed, spec: InputSpec, folder: Path, seed: int) -> KeptMaps:
    """Run the backbone over images and over as many changed copies as fit on disk.

    Args:
        maps: the backbone, see :func:`advisor.training.detection.network.with_maps`.
        boxed: the images.
        spec: how an image becomes the backbone's input.
        folder: for the files.
        seed: draws the changes.

    Raises:
        StageError: the maps of the images alone are too large, or an image cannot be read.
    """
    shapes = [tuple(int(side) for side in output.shape[1:]) for output in maps.outputs]
    each, count = 2 * sum(int(np.prod(shape)) for shape in shapes), len(boxed.paths)
    copies = min(MOST_COPIES, MOST_BYTES // (each * count) - 1)
    if copies < 0:
        raise StageError(
            f"the maps of {count} images take {each * count / 1e9:.1f} GB, more than {MOST_BYTES / 1e9:.0f} GB",
            "train on fewer images, or at a smaller input",
        )
    size = (1 + copies) * count
    files = [folder / f"level-{number}.npy" for number in range(len(shapes))]
    levels = [
        np.lib.format.open_memmap(file, mode="w+", dtype=np.float16, shape=(size, *shape))
        for file, shape in zip(files, shapes, strict=True)
    ]
    objects = list(boxed.objects) * (1 + copies)
    for row, found, kept in _rows(maps, boxed, spec, copies, seed):
        for level, values in zip(levels, found, strict=True):
            level[row] = values
        objects[row] = kept
    return KeptMaps(levels, objects, copies)


def _rows(
    maps: keras.Model, boxed: Boxed, spec: InputSpec, copies: int, seed: int
) -> Iterator[tuple[int, list[NDArray[np.float32]], Objects]]:
    """Yield each row's number, maps and objects; LiteRT computes the maps in a third of TensorFlow's time."""
    run, count = _runner(maps), len(boxed.paths)
    for number, (path, objects) in enumerate(zip(boxed.paths, boxed.objects, strict=True)):
        pixels = load(path, spec.size)
        yield number, run(spec.normalise(pixels)), objects
        for copy in range(1, 1 + copies):
            seen, kept = changed(pixels, objects, Changes(), np.random.default_rng([seed, copy, number]))
            yield number + count * copy, run(spec.normalise(seen)), kept


def _runner(maps: keras.Model) -> _Runner:
    import keras
    from ai_edge_litert.interpreter import Interpreter

    one = keras.Input(maps.inputs[0].shape[1:], batch_size=1)
    found = maps(one)
    outputs = found if isinstance(found, list | tuple) else [found]
    content = flatbuffer(keras.Model(one, {f"level{number}": each for number, each in enumerate(outputs)}))
    interpreter = Interpreter(model_content=content, num_threads=usable_cores())
    return _Runner(interpreter, len(outputs))


class _Runner:
    """Runs a backbone on one image."""

    def __init__(self, interpreter: object, levels: int) -> None:
        self._call = interpreter.get_signature_runner()  # type: ignore[attr-defined]
        (self._input,) = self._call.get_input_details()
        self._names = [f"level{number}" for number in range(levels)]

    def __call__(self, image: NDArray[np.float32]) -> list[NDArray[np.float32]]:
        found = self._call(**{self._input: image[None]})
        return [found[name][0] for name in self._names]
