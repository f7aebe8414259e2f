"""Find out how a user's file reads images: from its metadata, or from ``--mean`` and ``--std``."""

from __future__ import annotations

from collections.abc import Sequence

from advisor.core.errors import UsageError
from advisor.datasets.images import InputSpec
from advisor.tflite.metadata import Metadata
from advisor.tflite.model import Model

Triple = tuple[float, float, float]


def spec_of_file(
    name: str, model: Model, metadata: Metadata | None, mean: Sequence[float] | None, std: Sequence[float] | None
) -> InputSpec:
    """Return how ``model`` reads images; ``mean`` and ``std`` override its metadata.

    Raises:
        UsageError: the input is not one square RGB image, or the normalisation is not known.
    """
    shape = model.inputs[0].shape if len(model.inputs) == 1 else ()
    if len(shape) != 4 or shape[0] != 1 or shape[3] != 3 or shape[1] != shape[2] or shape[1] < 1:
        shapes = ", ".join("x".join(map(str, tensor.shape)) for tensor in model.inputs)
        raise UsageError(f"{name} takes {shapes}, not one square RGB image", "the input must be 1 x size x size x 3")
    if (mean is None) != (std is None):
        raise UsageError("--mean and --std are needed together, and only one was given", _example())
    if mean is not None and std is not None:
        return InputSpec(shape[1], _three("--mean", mean), _three("--std", std, positive=True))
    if metadata is None or not metadata.mean:
        raise UsageError(
            f"{name} does not say how its images are normalised",
            f"give it on the scale 0 to 255: {_example()}",
        )
    return InputSpec(shape[1], _three(name, metadata.mean), _three(name, metadata.std, positive=True))


def _three(what: str, values: Sequence[float], positive: bool = False) -> Triple:
    if len(values) not in (1, 3):
        raise UsageError(f"{what}: {len(values)} numbers, and one or three are needed", _example())
    if positive and min(values) <= 0:
        raise UsageError(f"{what}: {min(values):g} is not above 0", _example())
    first, second, third = (values[0],) * 3 if len(values) == 1 else values
    return float(first), float(second), float(third)


def _example() -> str:
    return "--mean 127.5 --std 127.5 for -1 to 1, --mean 0 --std 255 for 0 to 1, three numbers for RGB"
