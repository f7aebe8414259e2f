"""Run ``.tflite`` classifiers and detectors on images with LiteRT, as the application does."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from advisor.core.errors import RuntimeRefusal, StageError
from advisor.core.quantity import Interval
from advisor.datasets.capture import TESTS, captures
from advisor.datasets.images import InputSpec
from advisor.isolation.agent import one_line
from advisor.measurement.processes import existing_model
from advisor.tflite.postprocess import DETECTIONS
from advisor.tflite.quantization import dequantize, quantize

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Pixels = NDArray[np.uint8]
    Floats = NDArray[np.float32]
    Labels = NDArray[np.int64]


OUTPUT = "probabilities"
RESAMPLES = 2000


@dataclass(frozen=True)
class Robustness:
    """The accuracy under capture conditions.

    Attributes:
        accuracy: mean top-1 over all tests, with a 95 % interval over the images.
        by_test: (condition, strength, top-1) of each test.
    """

    accuracy: Interval
    by_test: tuple[tuple[str, float, float], ...]


def predict(model: Path | str, images: Sequence[Path], view: InputSpec) -> Floats:
    """Return the probabilities of each image; the model runs once per image.

    Args:
        model: a ``.tflite`` file with one image input (1, size, size, 3), float or quantised. Of several outputs,
            the one named ``probabilities`` is used.
        images: N image files.
        view: how an image becomes the model's input.

    Returns:
        float32 (N, classes).

    Raises:
        UsageError: the model file is missing.
        RuntimeRefusal: the runtime cannot load or run the model.
        StageError: its input or output is not that of an image classifier.
    """
    return predict_arrays(model, (view.read(path) for path in images))


def predict_pixels(model: Path | str, pixels: Iterable[Pixels], view: InputSpec) -> Floats:
    """Return the probabilities of decoded images, N arrays uint8 (size, size, 3) RGB, as :func:`predict` does."""
    return predict_arrays(model, (view.normalise(image) for image in pixels))


def predict_arrays(model: Path | str, inputs: Iterable[Floats]) -> Floats:
    """Return the probabilities of normalised images, as :func:`predict` does.

    Args:
        model: as in :func:`predict`.
        inputs: N arrays float32 (size, size, 3) or (1, size, size, 3), the model's input before quantisation.
    """
    import numpy as np

    classifier = Classifier(model)
    rows = [classifier(array[0] if array.ndim == 4 and len(array) == 1 else array) for array in inputs]
    return np.stack(rows) if rows else np.zeros((0, classifier.classes), np.float32)


def captured_answers(model: Path | str, images: Sequence[Path], view: InputSpec) -> Labels:
    """Return the class that a ``.tflite`` classifier predicts for each image under each condition of ``TESTS``.

    Args:
        model: an image classifier, float or quantised.
        images: N image files; each is read once.
        view: how an image becomes the model's input.

    Returns:
        int64 (T, N), T = ``len(TESTS)``.

    Raises:
        UsageError: the model file is missing.
        StageError: it is not an image classifier, or an image cannot be read.
    """
    import numpy as np

    classifier = Classifier(model)
    answers = np.zeros((len(TESTS), len(images)), np.int64)
    for position, path in enumerate(images):
        for test, pixels in enumerate(captures(path, view.size)):
            answers[test, position] = classifier(view.normalise(pixels)).argmax()
    return answers


def robustness(answers: Labels, labels: Sequence[int]) -> Robustness:
    """Return the accuracy of the answers.

    The interval is a bootstrap over images, because the answers to one image are not independent.

    Args:
        answers: int64 (T, N) of :func:`captured_answers`.
        labels: the N true class indices.

    Raises:
        ValueError: there are no images, or the shapes do not match.
    """
    import numpy as np

    if answers.shape != (len(TESTS), len(labels)) or not len(labels):
        raise ValueError(f"answers {answers.shape} for {len(TESTS)} tests of {len(labels)} images")
    right = answers == np.asarray(labels)
    shares = right.mean(axis=0)
    drawn = np.random.default_rng(0).integers(0, len(shares), (RESAMPLES, len(shares)))
    low, high = np.quantile(shares[drawn].mean(axis=1), [0.025, 0.975])
    value = float(shares.mean())
    return Robustness(
        accuracy=Interval(value, min(value, float(low)), max(value, float(high))),
        by_test=tuple(
            (condition.name, strength, float(row.mean()))
            for (condition, strength), row in zip(TESTS, right, strict=True)
        ),
    )


class Classifier:
    """A loaded classifier: the input is a normalised float32 (size, size, 3) image, the output float32 (classes,).

    Args:
        model: as in :func:`predict`.
        output: the name of the output to read if there are several.

    Raises:
        UsageError: the model file is missing.
        RuntimeRefusal: the runtime cannot load it.
        StageError: it is not an image classifier.
    """

    def __init__(self, model: Path | str, output: str = OUTPUT) -> None:
        from ai_edge_litert.interpreter import Interpreter

        path = existing_model(model)
        try:
            self._interpreter: Any = Interpreter(model_path=str(path), num_threads=1)
            self._interpreter.allocate_tensors()
        except (ValueError, RuntimeError) as error:
            raise RuntimeRefusal(f"{path.name}: LiteRT cannot load the model: {one_line(error)}") from error
        self._input = _image_input(path.name, self._interpreter.get_input_details())
        self._output = _output(path.name, self._interpreter, output)
        self.classes = int(self._output["shape"][-1])

    def __call__(self, image: Floats) -> Floats:
        """Return the probabilities of one normalised image.

        Raises:
            StageError: the image does not have the shape of the input.
            RuntimeRefusal: the runtime fails.
        """
        expected = tuple(int(side) for side in self._input["shape"][1:])
        if image.shape != expected:
            raise StageError(f"an image of shape {image.shape} for an input of shape {expected}")
        try:
            self._interpreter.set_tensor(self._input["index"], quantize(image[None], self._input))
            self._interpreter.invoke()
        except (ValueError, RuntimeError) as error:
            raise RuntimeRefusal(f"LiteRT cannot run the model: {one_line(error)}") from error
        return dequantize(self._interpreter.get_tensor(self._output["index"]), self._output).reshape(-1)


def _image_input(name: str, details: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the only input, which must be one RGB image."""
    if len(details) != 1 or len(details[0]["shape"]) != 4 or details[0]["shape"][-1] != 3:
        shapes = [[int(side) for side in detail["shape"]] for detail in details]
        raise StageError(f"{name}: the inputs {shapes} are not one RGB image", "the input must be (1, size, size, 3)")
    return details[0]


def _output(name: str, interpreter: Any, wanted: str) -> dict[str, Any]:
    """Return the output named ``wanted`` in a signature, or the only one."""
    details = interpreter.get_output_details()
    if len(details) == 1:
        return dict(details[0])
    for key, signature in interpreter.get_signature_list().items():
        if wanted in signature["outputs"]:
            runner = interpreter.get_signature_runner(key)
            return dict(runner.get_output_details()[wanted])
    found = ", ".join(str(detail["name"]) for detail in details)
    raise StageError(f"{name}: {len(details)} outputs ({found}) and none named '{wanted}'")


@dataclass(frozen=True, eq=False)
class Detections:
    """The boxes in one image, true or found.

    Attributes:
        boxes: float32 (n, 4): top, left, bottom and right in shares of the image.
        labels: index of the class of each, int64 (n,).
        scores: float32 (n,), the highest first; ones for true boxes.
    """

    boxes: Floats
    labels: NDArray[np.int64]
    scores: Floats

    def above(self, least: float) -> Detections:
        """Return the boxes with at least this score."""
        sure = self.scores >= least
        return Detections(self.boxes[sure], self.labels[sure], self.scores[sure])

    def relabelled(self, places: Mapping[int, int]) -> Detections:
        """Return the boxes of some classes under other labels, without the boxes of all other classes."""
        import numpy as np

        kept = np.isin(self.labels, list(places))
        labels = np.array([places[label] for label in self.labels[kept].tolist()], np.int64)
        return Detections(self.boxes[kept], labels, self.scores[kept])


class Detector:
    """A loaded detector with post-processing, see :func:`advisor.tflite.postprocess.append_postprocess`.

    Args:
        model: a ``.tflite`` file with one image input (1, size, size, 3), float or quantised.
        view: how an image becomes the model's input.

    Raises:
        UsageError: the file is missing.
        RuntimeRefusal: the runtime cannot load it.
        StageError: it has other outputs.
    """

    outputs: tuple[str, ...] = DETECTIONS

    def __init__(self, model: Path | str, view: InputSpec) -> None:
        from ai_edge_litert.interpreter import Interpreter

        path = existing_model(model)
        try:
            interpreter = Interpreter(model_path=str(path), num_threads=1)
            self._run: Any = interpreter.get_signature_runner()
        except (ValueError, RuntimeError) as error:
            raise RuntimeRefusal(f"{path.name}: LiteRT cannot load the model: {one_line(error)}") from error
        inputs, outputs = self._run.get_input_details(), self._run.get_output_details()
        if len(inputs) != 1 or set(outputs) != set(self.outputs):
            raise StageError(f"{path.name}: the outputs {', '.join(outputs)} are not those of a detector")
        ((self._name, self._input),) = inputs.items()
        self._view = view

    def __call__(self, path: Path) -> Detections:
        """Return what is found in an image.

        Raises:
            StageError: the image cannot be read.
            RuntimeRefusal: the runtime fails.
        """
        return self.found_in(self._view.read(path))

    def found_in(self, array: Floats) -> Detections:
        """Return what is found in a normalised image, float32 (size, size, 3).

        Raises:
            RuntimeRefusal: the runtime fails.
        """
        image = quantize(array[None], self._input)
        try:
            found = self._run(**{self._name: image})
        except (ValueError, RuntimeError) as error:
            raise RuntimeRefusal(f"LiteRT cannot run the model: {one_line(error)}") from error
        return self.read(found)

    def read(self, found: Mapping[str, Floats]) -> Detections:
        """Return the boxes in the outputs."""
        import numpy as np

        count = int(found["count"].reshape(-1)[0])
        boxes = np.clip(found["boxes"][0, :count], 0.0, 1.0)
        return Detections(boxes, found["classes"][0, :count].astype(np.int64), found["scores"][0, :count])


def save(path: Path, found: Sequence[Detections]) -> None:
    """Write what was found in images as ``.npz``: ``counts`` (N,), and ``boxes``, ``labels`` and ``scores`` of all."""
    import numpy as np

    np.savez(
        path,
        counts=np.array([len(one.labels) for one in found], np.int64),
        boxes=np.concatenate([np.zeros((0, 4), np.float32), *(one.boxes for one in found)]),
        labels=np.concatenate([np.zeros(0, np.int64), *(one.labels for one in found)]),
        scores=np.concatenate([np.zeros(0, np.float32), *(one.scores for one in found)]),
    )


def load(path: Path) -> list[Detections]:
    """Read what :func:`save` wrote."""
    import numpy as np

    with np.load(path, allow_pickle=False) as kept:
        ends = np.cumsum(kept["counts"])[:-1]
        parts = (np.split(kept[name], ends) for name in ("boxes", "labels", "scores"))
        return [Detections(*rows) for rows in zip(*parts, strict=True)]


def true_boxes(rows: Sequence[tuple[int, float, float, float, float]]) -> Detections:
    """Return true boxes given as label, top, left, bottom and right in shares of the image."""
    import numpy as np

    table = np.array(rows, np.float64).reshape(-1, 5)
    labels, boxes = table[:, 0].astype(np.int64), table[:, 1:].astype(np.float32)
    return Detections(boxes, labels, np.ones(len(labels), np.float32))
