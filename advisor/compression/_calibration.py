"""Choose and read the images that a file is calibrated on, in the form that the file takes.

The stages of a search and `advisor compress` use a user's images, or crops of the bundled
photographs. The recipes, the quantizer and the diagnosis get arrays from here. Draws are by seed:
equal images and seeds must give equal arrays, as the compressed files are cached by them.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from advisor.core import UsageError
from advisor.datasets import InputSpec, photograph_crops, try_images
from advisor.tflite import Metadata, Model

PHOTOGRAPHS_VERSION = 3
"""Raised when the crops that :func:`.photograph_crops` draws change."""

_NORMALIZATION_EXAMPLE = (
    "--mean 127.5 --std 127.5 for -1 to 1, --mean 0 --std 255 for 0 to 1, three numbers for RGB"
)

CALIBRATION_IMAGES = 100
FEWEST_IMAGES = 10
"""With fewer calibration images, one unusual image decides the range of every activation."""

PROBED_SIDE = 8
"""Pixels of a side at which an image is decoded to see whether it can be used."""

_FIRST_OF_BYTE = {"uint8": 0, "int8": -128}
"""The number that stands for a black pixel."""


@dataclass(frozen=True)
class CalibrationImages:
    """Images to calibrate on, by their files; the first ``limit`` of them if it is given.

    Without files, they are crops of the bundled photographs, drawn by ``seed``.
    """

    paths: tuple[Path, ...]
    spec: InputSpec
    seed: int = 0
    limit: int | None = None

    def read(self) -> NDArray[np.float32]:
        """Return the images as model input, float32 (n, size, size, 3)."""
        if self.paths:
            images = from_images(self.paths, self.spec)
        else:
            images = from_photographs(self.spec, self.seed)
        return images[: self.limit]


def choose_images(labels: Sequence[int], count: int, seed: int) -> tuple[int, ...]:
    """Return the sorted indices of at most ``count`` images, drawn from each class in turn."""
    by_class: dict[int, list[int]] = defaultdict(list)
    for index, label in enumerate(labels):
        by_class[label].append(index)
    draw = random.Random(seed)
    queues = []
    for _, indices in sorted(by_class.items()):
        queues.append(draw.sample(indices, len(indices)))
    chosen: list[int] = []
    # From each class in turn: a rare class has activations that no other image reaches.
    while len(chosen) < count and any(queues):
        chosen += [queue.pop() for queue in queues if queue]
    return tuple(sorted(chosen[:count]))


def from_images(paths: Sequence[Path], spec: InputSpec) -> NDArray[np.float32]:
    """Return images by their files, float32 (n, size, size, 3)."""
    return np.stack(list(map(spec.read, paths)))


def from_photographs(spec: InputSpec, seed: int = 0) -> NDArray[np.float32]:
    """Return random crops of the photographs in scikit-image, float32 (n, size, size, 3)."""
    return np.stack([spec.normalise(crop()) for crop in photograph_crops(spec.size, seed)])


def find_images(folder: Path) -> tuple[Path, ...]:
    """Return the readable images of a folder and its sub-folders, sorted.

    Fewer than ``FEWEST_IMAGES`` are a UsageError.
    """
    if not folder.is_dir():
        reason = "is a file, not a folder" if folder.exists() else "does not exist"
        raise UsageError(f"--calibration: '{folder}' {reason}", "give a folder of images")
    verdicts = try_images(folder, PROBED_SIDE)
    readable = []
    first_failure = ""
    for file, reason in verdicts.items():
        if not reason:
            readable.append(file)
        elif not first_failure:
            first_failure = f"; '{file.name}': {reason}"
    if len(readable) < FEWEST_IMAGES:
        counts = f"{len(readable)} readable images of {len(verdicts)} in '{folder}'"
        raise UsageError(
            f"--calibration: {counts}, and {FEWEST_IMAGES} are needed{first_failure}",
            f"give about {CALIBRATION_IMAGES} images like those that the app will see",
        )
    return tuple(readable)


def draw_paths(paths: tuple[Path, ...], count: int, seed: int) -> tuple[Path, ...]:
    """Return ``count`` of the paths, drawn by ``seed`` and sorted; all if there are no more."""
    if len(paths) <= count:
        return paths
    return tuple(sorted(random.Random(seed).sample(paths, count)))


def spec_of_file(
    name: str,
    model: Model,
    metadata: Metadata | None,
    mean: Sequence[float] | None,
    std: Sequence[float] | None,
) -> InputSpec:
    """Return how ``model`` reads images; ``mean`` and ``std`` override its metadata.

    An input of 8 bits without metadata takes the pixels themselves, and its scale and zero point
    say how they are normalised. It raises a UsageError if the input is not one square RGB image,
    or the normalisation is not known.
    """
    size = _find_image_size(name, model)
    # One without the other would silently take the missing one from the file.
    if (mean is None) != (std is None):
        raise UsageError(
            "--mean and --std are needed together, and only one was given", _NORMALIZATION_EXAMPLE
        )
    if mean is not None and std is not None:
        stated_mean = _require_three("--mean", mean)
        return InputSpec(size, stated_mean, _require_three("--std", std, positive=True))
    if metadata is not None and metadata.mean:
        stated_mean = _require_three(name, metadata.mean)
        return InputSpec(size, stated_mean, _require_three(name, metadata.std, positive=True))
    image = model.inputs[0]
    if image.quantization and image.dtype in _FIRST_OF_BYTE:
        # A pixel becomes (pixel - zero) x scale, so mean and deviation follow from the steps.
        zero = (image.quantization.zero_points or (0,))[0] - _FIRST_OF_BYTE[image.dtype]
        deviation = 1 / image.quantization.scales[0]
        mean_of_steps = _require_three(name, (zero,))
        return InputSpec(size, mean_of_steps, _require_three(name, (deviation,), positive=True))
    raise UsageError(
        f"{name} does not say how its images are normalised",
        f"give it on the scale 0 to 255: {_NORMALIZATION_EXAMPLE}",
    )


def _find_image_size(name: str, model: Model) -> int:
    """Return the side of the only input of a model, a square RGB image."""
    shape = model.inputs[0].shape if len(model.inputs) == 1 else ()
    is_image = len(shape) == 4 and shape[0] == 1 and shape[3] == 3
    if not is_image or shape[1] != shape[2] or shape[1] < 1:
        shapes = ", ".join("x".join(map(str, tensor.shape)) for tensor in model.inputs)
        raise UsageError(
            f"{name} takes {shapes}, not one square RGB image",
            "the input must be 1 x size x size x 3",
        )
    return shape[1]


def _require_three(
    what: str, values: Sequence[float], positive: bool = False
) -> tuple[float, float, float]:
    """Return a number for each channel of RGB, given one for all or one each."""
    if len(values) not in (1, 3):
        raise UsageError(
            f"{what}: {len(values)} numbers, and one or three are needed", _NORMALIZATION_EXAMPLE
        )
    if positive and min(values) <= 0:
        raise UsageError(f"{what}: {min(values):g} is not above 0", _NORMALIZATION_EXAMPLE)
    first, second, third = (values[0],) * 3 if len(values) == 1 else values
    return float(first), float(second), float(third)
