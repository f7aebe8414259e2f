"""Compare every output of a form with that of its float file, sample by sample."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from advisor.compression.diagnosis.signals import decibel
from advisor.compression.user_model.samples import Samples
from advisor.compression.user_model.values import FileAgreement
from advisor.core.errors import RuntimeRefusal, StageError
from advisor.core.statistics import wilson
from advisor.isolation.agent import one_line
from advisor.tflite.quantization import dequantize, quantize

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

ALIKE_DB = 20.0
"""Signal-to-noise ratio from which an output counts as that of the float file: its error is a tenth of its size."""


def compare(path: Path, reference: Path, samples: Samples) -> FileAgreement:
    """Run a form and its float file on samples.

    Agreement is the share of samples in which every output reaches ``ALIKE_DB``. The ratio is that of the worst output
    over all samples.

    Raises:
        RuntimeRefusal: the runtime cannot load or run the form.
        StageError: an output is not finite, or of another size.
    """
    import numpy as np

    form, floats = _Runner(path), _Runner(reference)
    rows = []
    for sample in zip(*samples.read(), strict=True):
        own, expected = form(sample), floats(sample)
        if [one.size for one in own] != [one.size for one in expected]:
            raise StageError(f"{path.name} has outputs of other sizes than {reference.name}")
        rows.append([_energies(one, other) for one, other in zip(own, expected, strict=True)])
    energies = np.array(rows)  # samples, outputs, signal and noise
    alike = sum(all(_reached(*output) for output in sample) for sample in energies)
    ratios = [decibel(*output) for output in energies.sum(axis=0).tolist()]
    known = [ratio for ratio in ratios if ratio is not None]
    by_output = _by_name(floats.names, ratios) if len(ratios) > 1 else {}
    return FileAgreement(len(rows), wilson(alike, len(rows)), min(known, default=None), by_output=by_output)


def _energies(own: NDArray[np.float64], expected: NDArray[np.float64]) -> tuple[float, float]:
    return float((expected**2).sum()), float(((own.reshape(expected.shape) - expected) ** 2).sum())


def _reached(signal: float, noise: float) -> bool:
    ratio = decibel(signal, noise)
    return ratio is None or ratio >= ALIKE_DB


def _by_name(names: Sequence[str], ratios: Sequence[float | None]) -> Mapping[str, float | None]:
    """Return the ratios by the names of the outputs; of equal names, all but the first get their place."""
    found: dict[str, float | None] = {}
    for place, (name, ratio) in enumerate(zip(names, ratios, strict=True)):
        found[f"{name} ({place})" if name in found else name] = ratio
    return found


def _names(interpreter: Any) -> Mapping[int, str]:
    """Return the names of outputs in signatures, by tensor index."""
    runners = [interpreter.get_signature_runner(key) for key in interpreter.get_signature_list()]
    return {each["index"]: name for runner in runners for name, each in runner.get_output_details().items()}


class _Runner:
    """A file in the runtime, with the kernels that applications use.

    Raises:
        RuntimeRefusal: the runtime cannot load it.
    """

    def __init__(self, path: Path) -> None:
        from ai_edge_litert.interpreter import Interpreter

        self._name = path.name
        try:
            self._interpreter: Any = Interpreter(model_path=str(path), num_threads=1)
            self._interpreter.allocate_tensors()
        except (ValueError, RuntimeError) as error:
            raise RuntimeRefusal(f"{path.name}: LiteRT cannot load the model: {one_line(error)}") from error
        self._inputs = self._interpreter.get_input_details()
        self._outputs = self._interpreter.get_output_details()
        self.names = [_names(self._interpreter).get(each["index"], str(each["name"])) for each in self._outputs]

    def __call__(self, sample: Sequence[NDArray[Any]]) -> list[NDArray[np.float64]]:
        """Return every output for one sample of each input."""
        import numpy as np

        try:
            for detail, value in zip(self._inputs, sample, strict=True):
                stored = quantize(value, detail) if value.dtype.kind == "f" else value.astype(detail["dtype"])
                self._interpreter.set_tensor(detail["index"], stored.reshape(detail["shape"]))
            self._interpreter.invoke()
        except (ValueError, RuntimeError) as error:
            raise RuntimeRefusal(f"{self._name}: LiteRT cannot run the model: {one_line(error)}") from error
        found = [
            dequantize(self._interpreter.get_tensor(one["index"]), one).astype(np.float64) for one in self._outputs
        ]
        if not all(np.isfinite(output).all() for output in found):
            raise StageError(f"{self._name} gives values that are not finite")
        return found
