"""Images to learn from: the maps of a frozen backbone, which make an epoch cost only the head, or their pixels."""

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
from advisor.training.detection.changes import Objects, RandomChanges, changed
from advisor.training.detection.fit import Arrays
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
    """Images with their objects."""

    paths: Sequence[Path]  # N files
    objects: Sequence[Objects]  # of each image


@dataclass(frozen=True, eq=False)
class KeptMaps:
    """Maps of N images and of their changed copies: what a head on a frozen backbone learns from."""

    levels: Sequence[Halves]  # float16 (N * (1 + copies), rows, columns, channels) of each level, memory-mapped
    of_rows: Sequence[Objects]  # the objects of each row
    # changed copies of each image; row ``image + N * copy`` is copy number ``copy``, 0 for the image itself
    copies: int

    @property
    def objects(self) -> Sequence[Objects]:
        """The objects of the N images."""
        return self.of_rows[: len(self.of_rows) // (1 + self.copies)]

    def unchanged(self, images: NDArray[np.int64]) -> Arrays:
        """Return the maps of some images, level by level."""
        return [np.array(level[images]) for level in self.levels]

    def changed(self, images: NDArray[np.int64], draw: np.random.Generator) -> tuple[Arrays, list[Objects]]:
        """Return the maps of some images, each as one of its copies, and the objects in them."""
        rows = images + len(self.objects) * draw.integers(0, 1 + self.copies, len(images))
        return self.unchanged(rows), [self.of_rows[row] for row in rows]


def keep_maps(maps: keras.Model, boxed: Boxed, spec: InputSpec, folder: Path, seed: int) -> KeptMaps:
    """Run the backbone, see :func:`.network.with_maps`, over images and over as many changed copies as fit on disk.

    Raises StageError if the maps of the images alone are too large, or an image cannot be read.
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
            seen, kept = changed(pixels, objects, RandomChanges(), np.random.default_rng([seed, copy, number]))
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


@dataclass(frozen=True, eq=False)
class Photographs:
    """The pixels of N images, changed anew in each epoch: what a backbone that learns too learns from."""

    pixels: NDArray[np.uint8]  # uint8 (N, S, S, 3), RGB, memory-mapped
    objects: Sequence[Objects]  # of each image
    spec: InputSpec  # how pixels become the backbone's input

    def unchanged(self, images: NDArray[np.int64]) -> Arrays:
        """Return the input for some images, float32 (n, S, S, 3)."""
        return [np.stack([self.spec.normalise(self.pixels[image]) for image in images])]

    def changed(self, images: NDArray[np.int64], draw: np.random.Generator) -> tuple[Arrays, list[Objects]]:
        """Return the input for some images, each changed at random, and the objects in them."""
        found = [changed(self.pixels[image], self.objects[image], RandomChanges(), draw) for image in images]
        return [np.stack([self.spec.normalise(pixels) for pixels, _ in found])], [kept for _, kept in found]


def keep_photographs(boxed: Boxed, spec: InputSpec, folder: Path) -> Photographs:
    """Decode images once; raises StageError if one cannot be read."""
    shape = (len(boxed.paths), spec.size, spec.size, 3)
    pixels = np.lib.format.open_memmap(folder / "pixels.npy", mode="w+", dtype=np.uint8, shape=shape)
    for row, path in enumerate(boxed.paths):
        pixels[row] = load(path, spec.size)
    return Photographs(pixels, boxed.objects, spec)
