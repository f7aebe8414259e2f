"""Compare a device's answers to the user's images with those of this machine.

``_cloud.py`` runs each file here first (:func:`run_here`), sends the same inputs, and reports how
the answers differ (:func:`compare_answers`). A child process calls :func:`answer_images` by
module and name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from advisor.core import StageError, UsageError, plural
from advisor.isolation import CallLimits, ChildPool, Scratch

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

Channels = tuple[float, float, float]

MOST_IMAGES = 100
LIMITS = CallLimits(seconds=600)
# Mean and deviation of a file that states none.
ASSUMED: Channels = (127.5, 127.5, 127.5)
FILE = "answers.npz"


@dataclass(frozen=True)
class Answers:
    """The inputs of a file for some images, and its outputs on this machine."""

    input_name: str  # name of its only input
    inputs: Sequence[Array]  # one array for each image, as the file takes it
    outputs: Sequence[Sequence[Array]]  # its outputs for each image


def find_images(folder: Path) -> list[Path]:
    """Return the first 100 images in a folder and below it, by name; UsageError if it has none."""
    from advisor.datasets import images_in

    images = sorted(images_in(folder))[:MOST_IMAGES]
    if not images:
        raise UsageError(
            f"--upload-images: '{folder}' has no images", "name a folder with at most 100 images"
        )
    return images


def run_here(model: Path, images: Sequence[Path]) -> Answers:
    """Run a file on images in a child process.

    Raises:
        StageError: it is no file of one RGB image, or does not run.
    """
    import numpy as np

    with Scratch() as folder:
        # In a child, because a damaged file can crash the interpreter (decision 0008).
        with ChildPool(folder / "log") as pool:
            name = pool.call(
                f"{__name__}:answer_images", model.resolve(), list(images), folder, limits=LIMITS
            )
        with np.load(folder / FILE) as arrays:
            inputs = list(arrays["inputs"])
            rows = []
            for key in sorted(arrays.files):
                if key != "inputs":
                    rows.append(list(arrays[key]))
    return Answers(name, inputs, list(zip(*rows, strict=True)))


def answer_images(model: Path, images: Sequence[Path], folder: Path) -> str:
    """Write inputs and outputs of a file for images into a folder; return the input's name.

    :func:`run_here` calls this in a child process.
    """
    import numpy as np
    from ai_edge_litert.interpreter import Interpreter

    from advisor.datasets import InputSpec
    from advisor.tflite import quantize

    try:
        interpreter: Any = Interpreter(model_path=str(model), num_threads=1)
        interpreter.allocate_tensors()
    except (RuntimeError, ValueError) as error:
        raise StageError(f"{model.name}: LiteRT cannot load the file: {error}") from error
    details = interpreter.get_input_details()
    shape = list(map(int, details[0]["shape"]))
    if len(details) != 1 or len(shape) != 4 or shape[-1] != 3 or shape[1] != shape[2]:
        raise StageError(
            f"{model.name}: its input {shape} is no square RGB image, so that no images can be"
            " sent"
        )
    spec = InputSpec(shape[1], *_read_normalisation(model))
    inputs = []
    outputs = []
    for image in images:
        array = quantize(spec.read(image)[None], details[0])
        interpreter.set_tensor(details[0]["index"], array)
        interpreter.invoke()
        inputs.append(array)
        indices = [detail["index"] for detail in interpreter.get_output_details()]
        outputs.append(list(map(interpreter.get_tensor, indices)))
    # With zeros before the number: the parent reads the outputs in the order of their names.
    columns = {}
    for place, column in enumerate(zip(*outputs, strict=True)):
        columns[f"output{place:03}"] = np.stack(column)
    arrays: dict[str, Any] = {"inputs": np.stack(inputs), **columns}
    np.savez(folder / FILE, **arrays)
    return str(details[0]["name"])


def _read_normalisation(model: Path) -> tuple[Channels, Channels]:
    """Return mean and deviation for each channel, assumed ones if the file states none."""
    from advisor.tflite import Metadata

    metadata = Metadata.read(model.read_bytes())
    if metadata is None or not metadata.mean or not metadata.std:
        return ASSUMED, ASSUMED
    # A single number is that of every channel.
    mean = (metadata.mean * 3)[:3]
    std = (metadata.std * 3)[:3]
    return (mean[0], mean[1], mean[2]), (std[0], std[1], std[2])


def compare_answers(here: Sequence[Sequence[Array]], there: Sequence[Sequence[Array]]) -> str:
    """Return in words how the outputs of a device compare with those of this machine.

    An answer is the same if the largest value of every output is at the same place. A difference
    is a share of the output's range over all images.

    Raises:
        StageError: the device answered to other images, or in other shapes.
    """
    import numpy as np

    shapes_here = [list(map(np.shape, outputs)) for outputs in here]
    shapes_there = [list(map(np.shape, outputs)) for outputs in there]
    if shapes_here != shapes_there:
        raise StageError(
            "invalid response from the cloud: its outputs are not those of the file for the images"
        )
    same = 0
    for outputs, outputs_there in zip(here, there, strict=True):
        same += list(map(np.argmax, outputs)) == list(map(np.argmax, outputs_there))
    largest = 0.0
    for position in range(len(here[0])):
        values = np.stack([outputs[position] for outputs in here]).astype(np.float64)
        values_there = np.stack([outputs[position] for outputs in there]).astype(np.float64)
        if not np.isfinite(values_there).all():
            raise StageError("invalid response from the cloud: an output is no number")
        # A constant output has no range.
        output_range = max(float(np.ptp(values)), 1e-9)
        largest = max(largest, float(np.abs(values - values_there).max()) / output_range)
    return (
        f"{same} of {plural(len(here), 'image')} have the same answer as on this machine, outputs"
        f" differ by up to {largest:.1%} of their range"
    )
