"""Images to learn from, with their labels:
the maps of a frozen backbone, or their pixels, and changed copies of both.

A change takes another section, mirrors it and gives it other colours; boxes or masks move with it.
With kept maps, an epoch costs only the head.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from advisor.core import StageError
from advisor.datasets import InputSpec, load
from advisor.isolation import usable_cores
from advisor.training._finetune.network import convert_to_flatbuffer

if TYPE_CHECKING:
    import keras

Pixels = NDArray[np.uint8]
Floats = NDArray[np.float32]
# Inputs of a network for a batch of images, or its outputs.
Arrays = list[NDArray[np.generic]]
# Share of a box's area that must stay in the section; else the object can hardly be told.
LEAST_LEFT = 0.3
# RGB outside the image: the mean of ImageNet's images.
FILLED = (124, 116, 104)

# Largest size of the maps on disk.
MOST_BYTES = 2_000_000_000
# Changed copies of each image, at most.
MOST_COPIES = 5


@dataclass(frozen=True)
class RandomChanges:
    """Strengths of the random changes."""

    # Largest factor between the sides of the section and those of the image, either way.
    zoom: float = 1.65
    stretch: float = 1.35  # largest factor between the height and the width of the section
    # Largest change of contrast: the factor is between 1 - contrast and 1 + contrast.
    contrast: float = 0.2
    brightness: float = 20.0  # largest change of all channels, in steps of 255
    tint: float = 8.0  # largest change of each channel


@dataclass(frozen=True)
class ImageSection:
    """A section of an image in shares of its sides.
    It may reach over the edges, and be mirrored from left to right.
    """

    top: float
    left: float
    height: float
    width: float
    mirrored: bool

    def of(
        self, pixels: NDArray[np.uint8], filled: Any, method: Image.Resampling
    ) -> NDArray[np.uint8]:
        """Return the section of an image, uint8 (h, w) or (h, w, 3), at its size;
        ``filled`` is outside it.
        """
        rows, columns = pixels.shape[:2]
        matrix = (self.width, 0.0, self.left * columns, 0.0, self.height, self.top * rows)
        image = Image.fromarray(pixels)
        section = np.asarray(
            image.transform(image.size, Image.Transform.AFFINE, matrix, method, fillcolor=filled)
        )
        if self.mirrored:
            return section[:, ::-1]
        return section


class Labels(Protocol):
    """What a network learns of an image."""

    def within(self, section: ImageSection) -> Self:
        """Return the labels of a section of the image."""


Labelled = TypeVar("Labelled", bound=Labels)


@dataclass(frozen=True, eq=False)
class Objects:
    """The objects in an image."""

    boxes: Floats  # edges (n, 4) as top, left, bottom and right in shares of the image, float32
    labels: NDArray[np.int64]  # index of the class of each, int64 (n,)

    def within(self, section: ImageSection) -> Objects:
        """Return the objects in shares of a section, without those of which too little is left."""
        corner = np.array([section.top, section.left, section.top, section.left])
        boxes = (self.boxes - corner) / np.array(
            [section.height, section.width, section.height, section.width]
        )
        inside = np.clip(boxes, 0.0, 1.0)
        areas = _compute_areas(boxes)
        areas_inside = _compute_areas(inside)
        enough = areas_inside > LEAST_LEFT * np.maximum(areas, 1e-12)
        boxes_inside = inside[enough].astype(np.float32)
        if section.mirrored:
            top, left, bottom, right = boxes_inside.T
            boxes_inside = np.stack([top, 1 - right, bottom, 1 - left], axis=1)
        return Objects(boxes_inside, self.labels[enough])


def _compute_areas(edges: NDArray[np.floating[Any]]) -> NDArray[np.floating[Any]]:
    return np.asarray(np.prod(edges[:, 2:] - edges[:, :2], axis=1))


def objects_of(rows: Sequence[tuple[int, float, float, float, float]]) -> Objects:
    """Return objects given as label, top, left, bottom and right in shares of the image."""
    table = np.array(rows, np.float64).reshape(-1, 5)
    return Objects(table[:, 1:].astype(np.float32), table[:, 0].astype(np.int64))


def change_image(
    pixels: Pixels, labels: Labelled, changes: RandomChanges, draw: np.random.Generator
) -> tuple[Pixels, Labelled]:
    """Return a section of an image, uint8 (S, S, 3), mirrored half of the time,
    and the labels in it.
    """
    # Evenly in the logarithm: a factor and its inverse are equally likely.
    zoom = math.exp(draw.uniform(-1, 1) * math.log(changes.zoom))
    stretch = math.exp(draw.uniform(-1, 1) * math.log(changes.stretch))
    height = zoom * math.sqrt(stretch)
    width = zoom / math.sqrt(stretch)
    # A section that is larger than the image holds the whole image somewhere.
    top = draw.uniform(min(0.0, 1 - height), max(0.0, 1 - height))
    left = draw.uniform(min(0.0, 1 - width), max(0.0, 1 - width))
    section = ImageSection(top, left, height, width, bool(draw.random() < 0.5))
    cut = section.of(pixels, FILLED, Image.Resampling.BILINEAR)
    contrast = draw.uniform(1 - changes.contrast, 1 + changes.contrast)
    shift = draw.uniform(-changes.brightness, changes.brightness) + draw.uniform(
        -changes.tint, changes.tint, 3
    )
    coloured = (cut.astype(np.float32) - 128.0) * np.float32(contrast) + (128.0 + shift).astype(
        np.float32
    )
    return np.clip(np.rint(coloured), 0, 255).astype(np.uint8), labels.within(section)


@dataclass(frozen=True, eq=False)
class LabelledImages(Generic[Labelled]):
    """Images with their labels."""

    paths: Sequence[Path]  # N files
    labels: Sequence[Labelled]  # of each image


@dataclass(frozen=True, eq=False)
class KeptMaps(Generic[Labelled]):
    """Maps of N images and of their changed copies: what a head on a frozen backbone learns
    from.
    """

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
    """Run the backbone, see :func:`.with_maps`,
    over images and over as many changed copies as fit on disk.

    Raises StageError if the maps of the images alone are too large, or an image cannot be read.
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
    maps: keras.Model, images: LabelledImages[Labelled], spec: InputSpec, copies: int, seed: int
) -> Iterator[tuple[int, list[Floats], Labelled]]:
    """Yield each row's number, maps and labels;
    LiteRT computes the maps in a third of TensorFlow's time.
    """
    import keras
    from ai_edge_litert.interpreter import Interpreter

    single = keras.Input(maps.inputs[0].shape[1:], batch_size=1)
    outputs = {
        f"level{number}": output for number, output in enumerate(list_outputs(maps(single)))
    }
    content = convert_to_flatbuffer(keras.Model(single, outputs))
    run = Interpreter(model_content=content, num_threads=usable_cores()).get_signature_runner()
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
            yield (
                number + count * copy,
                [maps_of_levels[level][0] for level in outputs],
                changed_labels,
            )


def list_outputs(outputs: Any) -> list[Any]:
    """Return the outputs of a network, of which there may be one, as a list."""
    if isinstance(outputs, list | tuple):
        return list(outputs)
    return [outputs]


@dataclass(frozen=True, eq=False)
class Photographs(Generic[Labelled]):
    """The pixels of N images, changed anew in each epoch:
    what a backbone that learns too learns from.
    """

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
