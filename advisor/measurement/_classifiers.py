"""Run ``.tflite`` classifiers on images with LiteRT, as the application does.

The stages that score files call it, and so do ``training/_features.py`` and the recipe
``mixed_int8`` in child processes. The model runs once for each image, on one thread, so that
answers are those of an app. Other answers need new versions: ``docs/extend-stages.md``, "Which
version to raise".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from advisor.core import RuntimeRefusal, StageError
from advisor.datasets import TESTS, InputSpec, draw_captures
from advisor.isolation import agent
from advisor.measurement._other_images import Floats, Labels
from advisor.measurement._processes import existing_model
from advisor.measurement._runners import count_threads, run_in_threads
from advisor.tflite import dequantize, quantize

Pixels = NDArray[np.uint8]

OUTPUT = "probabilities"


def predict(model: Path | str, images: Sequence[Path], view: InputSpec) -> Floats:
    """Return the probabilities of each image file, float32 (N, classes);
    the model runs once per image.

    The ``.tflite`` file has one image input (1, size, size, 3), float or quantised. Of several
    outputs, the one named ``probabilities`` is used. Errors are those of :class:`Classifier`.
    """
    return predict_arrays(model, map(view.read, images))


def predict_pixels(model: Path | str | bytes, pixels: Iterable[Pixels], view: InputSpec) -> Floats:
    """Return the probabilities of decoded images, N arrays uint8 (size, size, 3) RGB,
    as :func:`predict` does.

    Many images are divided among threads.
    """
    images = pixels if isinstance(pixels, Sequence) else list(pixels)
    first = Classifier(model)
    classifiers = [first, *(Classifier(model) for _ in range(1, count_threads(len(images))))]
    runs = [partial(_classify_pixels, classifier, view) for classifier in classifiers]
    answers = run_in_threads(runs, images)
    if answers:
        return np.stack(answers)
    return np.zeros((0, first.classes), np.float32)


def _classify_pixels(classifier: Classifier, view: InputSpec, pixels: Pixels) -> Floats:
    return classifier(view.normalise(pixels))


def predict_arrays(model: Path | str | bytes, inputs: Iterable[Floats]) -> Floats:
    """Return the probabilities of normalised images, as :func:`predict` does.

    They are the model's input before quantisation:
    N arrays float32 (size, size, 3) or (1, size, size, 3).
    """
    classifier = Classifier(model)
    answers = []
    for array in inputs:
        image = array
        if array.ndim == 4 and len(array) == 1:
            image = array[0]
        answers.append(classifier(image))
    if answers:
        return np.stack(answers)
    return np.zeros((0, classifier.classes), np.float32)


def predict_captured(model: Path | str, images: Sequence[Path], view: InputSpec) -> Labels:
    """Return the class of each image under each condition of ``TESTS``, int64 (tests, N);
    each image is read once.
    """
    classifier = Classifier(model)
    answers = np.zeros((len(TESTS), len(images)), np.int64)
    for position, path in enumerate(images):
        for test, pixels in enumerate(draw_captures(path, view.size)):
            answers[test, position] = classifier(view.normalise(pixels)).argmax()
    return answers


class Classifier:
    """A loaded classifier: the input is a normalised float32 (size, size, 3) image,
    the output float32 (classes,).

    ``model`` is a file, or its content. Of several outputs, the one named ``output`` is read.
    UsageError if the file is missing, RuntimeRefusal if the runtime cannot load or run it,
    StageError if its input or output is not that of an image classifier.
    """

    def __init__(self, model: Path | str | bytes, output: str = OUTPUT) -> None:
        from ai_edge_litert.interpreter import Interpreter

        if isinstance(model, bytes):
            name = "the model"
            source: dict[str, Any] = {"model_content": model}
        else:
            path = existing_model(model)
            name = path.name
            source = {"model_path": str(path)}
        try:
            # One thread: a search scores several files side by side,
            # and an app's answer does not depend on the threads.
            self._interpreter: Any = Interpreter(**source, num_threads=1)
            self._interpreter.allocate_tensors()
        except (ValueError, RuntimeError) as error:
            raise RuntimeRefusal(
                f"{name}: LiteRT cannot load the model: {agent.one_line(error)}"
            ) from error
        self._input = _find_image_input(name, self._interpreter.get_input_details())
        self._output = _find_output(name, self._interpreter, output)
        self.classes = int(self._output["shape"][-1])

    def __call__(self, image: Floats) -> Floats:
        """Return the probabilities of one normalised image,
        which must have the shape of the input.
        """
        expected = tuple(map(int, self._input["shape"][1:]))
        if image.shape != expected:
            raise StageError(f"an image of shape {image.shape} for an input of shape {expected}")
        try:
            self._interpreter.set_tensor(self._input["index"], quantize(image[None], self._input))
            self._interpreter.invoke()
        except (ValueError, RuntimeError) as error:
            raise RuntimeRefusal(
                f"LiteRT cannot run the model: {agent.one_line(error)}"
            ) from error
        return dequantize(
            self._interpreter.get_tensor(self._output["index"]), self._output
        ).reshape(-1)


def _find_image_input(name: str, details: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the only input, which must be one RGB image."""
    if len(details) != 1 or len(details[0]["shape"]) != 4 or details[0]["shape"][-1] != 3:
        shapes = [list(map(int, detail["shape"])) for detail in details]
        raise StageError(
            f"{name}: the inputs {shapes} are not one RGB image",
            "the input must be (1, size, size, 3)",
        )
    return details[0]


def _find_output(name: str, interpreter: Any, wanted: str) -> dict[str, Any]:
    """Return the output named ``wanted`` in a signature, or the only one."""
    details = interpreter.get_output_details()
    # A file of a user names its only output as it likes.
    if len(details) == 1:
        return dict(details[0])
    for key, signature in interpreter.get_signature_list().items():
        if wanted in signature["outputs"]:
            runner = interpreter.get_signature_runner(key)
            return dict(runner.get_output_details()[wanted])
    names = ", ".join(str(detail["name"]) for detail in details)
    raise StageError(f"{name}: {len(details)} outputs ({names}) and none named '{wanted}'")
