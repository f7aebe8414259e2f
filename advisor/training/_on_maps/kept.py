"""Read the images of a training on maps: kept maps of a frozen backbone, or changed pixels.

`train.py` calls :func:`keep_maps` for a frozen backbone: an epoch then costs only the head. It
calls :func:`keep_photographs` for a backbone that learns too. `fit.py` reads both alike. Changed
copies are those of `changes.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic

import numpy as np
from numpy.typing import NDArray

from advisor.core import StageError
from advisor.datasets import InputSpec, load
from advisor.training._finetune.network import load_in_litert
from advisor.training._on_maps.changes import (
    Floats,
    Labelled,
    RandomChanges,
    change_image,
)

if TYPE_CHECKING:
    import keras

# Inputs of a network for a batch of images, or its outputs.
Arrays = list[NDArray[np.generic]]

# Largest size of the maps on disk.
MOST_BYTES = 2_000_000_000
# Changed copies of each image, at most.
MOST_COPIES = 5


@dataclass(frozen=True, eq=False)
class LabelledImages(Generic[Labelled]):
    """Images with their labels."""

    paths: Sequence[Path]  # N files
    labels: Sequence[Labelled]  # of each image


@dataclass(frozen=True, eq=False)
class KeptMaps(Generic[Labelled]):
    """Maps of N images and of their changed copies, for a head on a frozen backbone."""

    # (N * (1 + copies), rows, columns, channels) of each, memory-mapped.
    levels: Sequence[NDArray[np.float16]]
    of_rows: Sequence[Labelled]  # the labels of each row
    # Changed copies of each image; row ``image + N * copy`` is copy ``copy``, 0 the image itself.
    copies: int

    @property
    def labels(self) -> Sequence[Labelled]:
        """The labels of the N images."""
        return self.of_rows[: len(self.of_rows) // (1 + self.copies)]

    def read_unchanged(self, images: NDArray[np.int64]) -> Arrays:
        """Return the maps of some images, level by level."""
        return [np.array(level[images]) for level in self.levels]

    def read_changed(
        self, images: NDArray[np.int64], draw: np.random.Generator
    ) -> tuple[Arrays, list[Labelled]]:
        """Return the maps of some images, each as one of its copies, and their labels."""
        rows = images + len(self.labels) * draw.integers(0, 1 + self.copies, len(images))
        return self.read_unchanged(rows), [self.of_rows[row] for row in rows]


def keep_maps(
    maps: keras.Model,
    images: LabelledImages[Labelled],
    spec: InputSpec,
    folder: Path,
    seed: int,
    most_copies: int = MOST_COPIES,
) -> KeptMaps[Labelled]:
    """Run a backbone over images and over as many changed copies as fit on disk.

    ``maps`` is a network of :func:`.with_maps`. Raises StageError if the maps of the images alone
    are too large, or an image cannot be read.
    """
    shapes = [tuple(map(int, output.shape[1:])) for output in maps.outputs]
    bytes_of_image = 2 * sum(int(np.prod(shape)) for shape in shapes)
    count = len(images.paths)
    copies = min(most_copies, MOST_BYTES // (bytes_of_image * count) - 1)
    if copies < 0:
        raise StageError(
            f"the maps of {count} images take {bytes_of_image * count / 1e9:.1f} GB, "
            f"more than {MOST_BYTES / 1e9:.0f} GB",
            "train on fewer images, or at a smaller input",
        )
    size = (1 + copies) * count
    levels = []
    for number, shape in enumerate(shapes):
        file = folder / f"level-{number}.npy"
        levels.append(
            np.lib.format.open_memmap(file, mode="w+", dtype=np.float16, shape=(size, *shape))
        )
    labels = list(images.labels) * (1 + copies)
    for row, maps_of_row, labels_of_row in _compute_rows(maps, images, spec, copies, seed):
        for level, values in zip(levels, maps_of_row, strict=True):
            level[row] = values
        labels[row] = labels_of_row
    return KeptMaps(levels, labels, copies)


def _compute_rows(
    maps: keras.Model,
    images: LabelledImages[Labelled],
    spec: InputSpec,
    copies: int,
    seed: int,
) -> Iterator[tuple[int, list[Floats], Labelled]]:
    """Yield each row's number, maps and labels."""
    import keras

    single = keras.Input(maps.inputs[0].shape[1:], batch_size=1)
    outputs = {}
    for number, output in enumerate(list_outputs(maps(single))):
        outputs[f"level{number}"] = output
    run = load_in_litert(keras.Model(single, outputs))
    (name,) = run.get_input_details()
    count = len(images.paths)
    for number, (path, labels) in enumerate(zip(images.paths, images.labels, strict=True)):
        pixels = load(path, spec.size)
        for copy in range(1 + copies):
            changed_pixels = pixels
            changed_labels = labels
            # Copy 0 is the image itself.
            if copy:
                draw = np.random.default_rng([seed, copy, number])
                changed_pixels, changed_labels = change_image(
                    pixels, labels, RandomChanges(), draw
                )
            maps_of_levels = run(**{name: spec.normalise(changed_pixels)[None]})
            maps_of_row = [maps_of_levels[level][0] for level in outputs]
            yield number + count * copy, maps_of_row, changed_labels


def list_outputs(outputs: Any) -> list[Any]:
    """Return the outputs of a network, of which there may be one, as a list."""
    if isinstance(outputs, list | tuple):
        return list(outputs)
    return [outputs]


@dataclass(frozen=True, eq=False)
class Photographs(Generic[Labelled]):
    """The pixels of N images, changed anew in each epoch, for a backbone that learns too."""

    pixels: NDArray[np.uint8]  # uint8 (N, S, S, 3), RGB, memory-mapped
    labels: Sequence[Labelled]  # of each image
    spec: InputSpec  # how pixels become the backbone's input

    def read_unchanged(self, images: NDArray[np.int64]) -> Arrays:
        """Return the input for some images, float32 (n, S, S, 3)."""
        return [np.stack([self.spec.normalise(self.pixels[image]) for image in images])]

    def read_changed(
        self, images: NDArray[np.int64], draw: np.random.Generator
    ) -> tuple[Arrays, list[Labelled]]:
        """Return the input for some images, each changed at random, and their labels."""
        inputs = []
        labels = []
        for image in images:
            pixels, labels_of_image = change_image(
                self.pixels[image], self.labels[image], RandomChanges(), draw
            )
            inputs.append(self.spec.normalise(pixels))
            labels.append(labels_of_image)
        return [np.stack(inputs)], labels


def keep_photographs(
    images: LabelledImages[Labelled], spec: InputSpec, folder: Path
) -> Photographs[Labelled]:
    """Decode images once; raises StageError if one cannot be read."""
    shape = (len(images.paths), spec.size, spec.size, 3)
    pixels = np.lib.format.open_memmap(
        folder / "pixels.npy", mode="w+", dtype=np.uint8, shape=shape
    )
    for row, path in enumerate(images.paths):
        pixels[row] = load(path, spec.size)
    return Photographs(pixels, images.labels, spec)
