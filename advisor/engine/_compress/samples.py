"""Read samples of a model's inputs from an ``.npz`` file, and compare a form on them.

They stand in for images where a file takes other inputs or gives other outputs (``--samples``).
``question.py`` reads and divides them. ``compare_on_samples`` runs in a child process, by its
name. The keys of the forms have the hash of the file and the rows that calibrate.
"""

from __future__ import annotations

import random
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import starmap
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from advisor.compression import INPUT_TYPES, CalibrationSource, to_decibel
from advisor.core import (
    UNREADABLE_ZIP,
    Interval,
    RuntimeRefusal,
    StageError,
    UsageError,
    message_of,
    nearest,
    show_bytes,
)
from advisor.datasets import CalibrationImages
from advisor.engine._compress.results import FileAgreement
from advisor.isolation import agent
from advisor.store import open_file
from advisor.tflite import Model, Tensor, dequantize, quantize

SCORED = 200
"""Samples that a form is compared on, at most."""

MOST_BYTES = 4_000_000_000
"""Unpacked size of the arrays that are read."""

_UNNAMED = "arr_0"
"""Name that numpy gives to an array without one, which is enough for a model of one input."""

_HINT = "np.savez(FILE, NAME=array, ...): an array for each input, its first axis the samples"

ALIKE_DB = 20.0
"""Signal-to-noise ratio from which an output counts as that of the float file:
its error is a tenth of its size.
"""


@dataclass(frozen=True)
class Input:
    """One input of a model: the name of its array, and the shape and type of the tensor."""

    name: str
    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True)
class Samples(CalibrationSource):
    """Some samples of an ``.npz`` file, by their indices,
    for the inputs of a model in their order.
    """

    path: Path
    inputs: tuple[Input, ...]
    rows: tuple[int, ...]

    def read(self) -> tuple[NDArray[Any], ...]:
        """Return an array for each input, (n, *shape), in the type of the tensor."""
        rows = np.asarray(self.rows)
        samples = []
        with np.load(self.path, allow_pickle=False) as arrays:
            for tensor in self.inputs:
                values = arrays[tensor.name][rows].astype(tensor.dtype)
                samples.append(values.reshape(len(rows), *tensor.shape))
        return tuple(samples)


@dataclass(frozen=True)
class SampleParts:
    """The samples by their purpose, and what these are in words."""

    calibration: Samples
    scored: Samples
    calibration_source: str
    scored_source: str


def read_samples(path: Path, model: Model, seed: int) -> SampleParts:
    """Check a file of samples and divide it: half to calibrate on, the other half to compare on.

    The ``.npz`` file has an array for each input of the float model, by its name, else a
    UsageError says what is wrong. With fewer than twice ``FEWEST`` samples, all of them serve for
    both. ``seed`` draws them.
    """
    arrays = _read_arrays(path)
    inputs = list[Input]()
    counts = dict[str, int]()
    names = [_find_array(model, place, arrays, path) for place in range(len(model.inputs))]
    for tensor, name in zip(model.inputs, names, strict=True):
        counts[name] = _count_samples(tensor, name, arrays[name], path)
        inputs.append(Input(name, tensor.shape, tensor.dtype))
    if len(set(counts.values())) != 1:
        listed = ", ".join(f"'{name}' {count}" for name, count in counts.items())
        raise UsageError(
            f"--samples: {path.name} has different numbers of samples: {listed}", _HINT
        )
    (count,) = set(counts.values())
    if count < CalibrationImages.FEWEST:
        raise UsageError(
            f"--samples: {count} samples in {path.name}, and {CalibrationImages.FEWEST} are"
            " needed",
            f"give about {CalibrationImages.USUAL} samples like those that the app will see",
        )
    order = random.Random(seed).sample(range(count), count)
    # With few samples, both halves would be too small:
    # then all are used twice, and the report says so.
    half = count
    if count >= 2 * CalibrationImages.FEWEST:
        half = count // 2
    calibration = order[: min(half, CalibrationImages.USUAL)]
    scored = order[half:][:SCORED] or order[:SCORED]
    use = "that were not calibrated on" if count > half else "that were calibrated on, too"
    return SampleParts(
        Samples(path, tuple(inputs), tuple(sorted(calibration))),
        Samples(path, tuple(inputs), tuple(sorted(scored))),
        f"{len(calibration)} samples of {path}",
        f"{len(scored)} samples of {path} {use}",
    )


def _read_arrays(path: Path) -> Mapping[str, NDArray[Any]]:
    if not path.is_file():
        raise UsageError(f"--samples: there is no file '{path}'", _HINT)
    try:
        # The sizes are read first: a small archive may unpack to more than the memory holds.
        with open_file(path, MOST_BYTES) as file, zipfile.ZipFile(file) as archive:
            size = sum(member.file_size for member in archive.infolist())
        if size > MOST_BYTES:
            raise UsageError(
                f"--samples: {path.name} holds {show_bytes(size)}, more than"
                f" {show_bytes(MOST_BYTES)}",
                f"{CalibrationImages.USUAL + SCORED} samples are used at most",
            )
        with np.load(path, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except (ValueError, TypeError, MemoryError) as error:
        # The header of an array can state any shape.
        why = "an array is damaged, or holds objects of Python"
        raise UsageError(
            f"--samples: '{path}' is not an .npz file of arrays: {why}", _HINT
        ) from error
    except UNREADABLE_ZIP as error:
        raise UsageError(
            f"--samples: '{path}' is not an .npz file of arrays: {message_of(error)}", _HINT
        ) from error


def _find_array(model: Model, place: int, arrays: Mapping[str, Any], path: Path) -> str:
    """Return the name of the array of an input: that in a signature, else its tensor's,
    with and without ``:0``.
    """
    index = model.subgraphs[0].inputs[place]
    tensor = model.inputs[place]
    names = list[str]()
    for signature in model.signatures:
        names += [name for name, entry in signature.inputs if entry == index]
    names += [tensor.name, tensor.name.removesuffix(":0")]
    if len(model.inputs) == 1:
        names.append(_UNNAMED)
    for name in names:
        if name in arrays:
            return name
    listed = ", ".join(f"'{name}'" for name in arrays) or "none"
    close = nearest(names[0], arrays)
    raise UsageError(
        f"--samples: {path.name} has no array '{names[0]}'{close}; its arrays: {listed}", _HINT
    )


def _count_samples(tensor: Tensor, name: str, array: NDArray[Any], path: Path) -> int:
    """Return the number of samples in an array; UsageError if the input does not take them."""
    kinds = "f" if tensor.dtype == INPUT_TYPES[0] else "iub"
    if array.dtype.kind not in kinds:
        needed = "floats, scaled as the model needs them" if kinds == "f" else tensor.dtype
        raise UsageError(
            f"--samples: '{name}' of {path.name} is {array.dtype}; the model takes {needed}", _HINT
        )
    shapes = [tensor.shape]
    # A batch of one need not be written.
    if tensor.shape[:1] == (1,):
        shapes.append(tensor.shape[1:])
    if array.ndim == 0 or array.shape[1:] not in shapes:
        expected = " or ".join("x".join(map(str, ("n", *shape))) for shape in reversed(shapes))
        shape = "x".join(map(str, array.shape)) or "a single value"
        raise UsageError(
            f"--samples: '{name}' of {path.name} is {shape}; the model takes {expected}", _HINT
        )
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        is_finite = np.isfinite(array).reshape(len(array), -1).all(axis=1)
        first = int(is_finite.argmin())
        raise UsageError(
            f"--samples: '{name}' of {path.name} has values that are not finite, first in sample"
            f" {first}",
            "remove these samples",
        )
    return len(array)


def compare_on_samples(path: Path, reference: Path, samples: Samples) -> FileAgreement:
    """Run a form and its float file on samples.

    Agreement is the share of samples in which every output reaches ``ALIKE_DB``. The ratio is that
    of the worst output over all samples. A form that the runtime cannot run is a RuntimeRefusal;
    an output that is not finite, or of another size, a StageError.
    """
    form = _Runner(path)
    floats = _Runner(reference)
    energies = []
    alike = 0
    for sample in zip(*samples.read(), strict=True):
        outputs = form(sample)
        expected = floats(sample)
        if [output.size for output in outputs] != [output.size for output in expected]:
            raise StageError(f"{path.name} has outputs of other sizes than {reference.name}")
        of_outputs = list(map(_compute_energies, outputs, expected))
        alike += all(starmap(_are_alike, of_outputs))
        energies.append(of_outputs)
    # The sum over samples has a row for each output, with its signal and noise.
    totals = np.array(energies).sum(axis=0).tolist()
    ratios = [to_decibel(signal, noise) for signal, noise in totals]
    # An output that is equal to the last bit has no ratio.
    finite_ratios = [ratio for ratio in ratios if ratio is not None]
    by_output: dict[str, float | None] = {}
    named_outputs = floats.names if len(ratios) > 1 else ()
    for place, name in enumerate(named_outputs):
        # Names need not be unique.
        if name in by_output:
            name = f"{name} ({place})"
        by_output[name] = ratios[place]
    count = len(energies)
    return FileAgreement(
        count, Interval.wilson(alike, count), min(finite_ratios, default=None), by_output=by_output
    )


def _compute_energies(
    output: NDArray[np.float64], expected: NDArray[np.float64]
) -> tuple[float, float]:
    """Return the energy of the float file's output, and that of the difference from it."""
    difference = output.reshape(expected.shape) - expected
    return (expected**2).sum(), (difference**2).sum()


def _are_alike(signal: float, noise: float) -> bool:
    """Return whether an output counts as that of the float file, by :data:`ALIKE_DB`."""
    ratio = to_decibel(signal, noise)
    return ratio is None or ratio >= ALIKE_DB


class _Runner:
    """A file in the runtime, with the kernels that applications use;
    a RuntimeRefusal if it cannot be loaded.
    """

    def __init__(self, path: Path) -> None:
        from ai_edge_litert.interpreter import Interpreter

        self._name = path.name
        try:
            self._interpreter: Any = Interpreter(model_path=str(path), num_threads=1)
            self._interpreter.allocate_tensors()
        except (ValueError, RuntimeError) as error:
            raise RuntimeRefusal(
                f"{path.name}: LiteRT cannot load the model: {agent.one_line(error)}"
            ) from error
        self._inputs = self._interpreter.get_input_details()
        self._outputs = self._interpreter.get_output_details()
        names = {}
        for key in self._interpreter.get_signature_list():
            runner = self._interpreter.get_signature_runner(key)
            for name, output in runner.get_output_details().items():
                names[output["index"]] = name
        self.names = [names.get(output["index"], str(output["name"])) for output in self._outputs]

    def __call__(self, sample: Sequence[NDArray[Any]]) -> list[NDArray[np.float64]]:
        """Return every output for one sample of each input."""
        try:
            for detail, value in zip(self._inputs, sample, strict=True):
                # Samples are floats, or integers as the file takes them.
                if value.dtype.kind == "f":
                    stored = quantize(value, detail)
                else:
                    stored = value.astype(detail["dtype"])
                self._interpreter.set_tensor(detail["index"], stored.reshape(detail["shape"]))
            self._interpreter.invoke()
        except (ValueError, RuntimeError) as error:
            raise RuntimeRefusal(
                f"{self._name}: LiteRT cannot run the model: {agent.one_line(error)}"
            ) from error
        outputs = []
        for detail in self._outputs:
            values = dequantize(self._interpreter.get_tensor(detail["index"]), detail)
            outputs.append(values.astype(np.float64))
        if not all(np.isfinite(output).all() for output in outputs):
            raise StageError(f"{self._name} gives values that are not finite")
        return outputs
