"""Read from a ``.tflite`` file of the user how it takes images, and draw some for it.

``advisor compress`` and ``advisor diagnose`` call :func:`spec_of_file` and :func:`draw_paths`.
"""

import random
from collections.abc import Sequence
from pathlib import Path

from advisor.core import UsageError
from advisor.datasets import InputSpec
from advisor.tflite import Metadata, Model

_NORMALIZATION_EXAMPLE = (
    "--mean 127.5 --std 127.5 for -1 to 1, --mean 0 --std 255 for 0 to 1, three numbers for RGB"
)

_FIRST_OF_BYTE = {"uint8": 0, "int8": -128}
"""The number that stands for a black pixel."""


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


def draw_paths(paths: tuple[Path, ...], count: int, seed: int) -> tuple[Path, ...]:
    """Return ``count`` of the paths, drawn by ``seed`` and sorted; all if there are no more."""
    if len(paths) <= count:
        return paths
    return tuple(sorted(random.Random(seed).sample(paths, count)))
