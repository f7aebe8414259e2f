"""Run ``.tflite`` classifiers and detectors on images with LiteRT, as the application does."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Generic, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from advisor.core import DEVIATIONS, Interval, OtherImagesRange, RuntimeRefusal, StageError
from advisor.datasets import STAYING, TESTS, InputSpec, draw_captures
from advisor.isolation import agent, usable_cores
from advisor.measurement._processes import existing_model
from advisor.tflite import CENTRE_DISTANCE, CENTRES, DETECTIONS, dequantize, quantize

Pixels = NDArray[np.uint8]
Floats = NDArray[np.float32]
Labels = NDArray[np.int64]
Item = TypeVar("Item")
Answer = TypeVar("Answer")

OUTPUT = "probabilities"
RESAMPLES = 2000
LEVEL = 0.95
# Distance from 0 and 1 that ends of an interval keep while log odds are computed.
EDGE = 1e-6
# Least score of a centre that is kept: the answers of a file serve other thresholds, too.
KEPT = 0.05
# Images for which a further thread is worth loading the file once more.
LEAST_PART = 32


def predict(model: Path | str, images: Sequence[Path], view: InputSpec) -> Floats:
    """Return the probabilities of each image file, float32 (N, classes);
    the model runs once per image.

    The ``.tflite`` file has one image input (1, size, size, 3), float or quantised. Of several
    outputs, the one named ``probabilities`` is used. Errors are those of :class:`Classifier`.
    """
    return predict_arrays(model, map(view.read, images))


def predict_pixels(model: Path | str, pixels: Iterable[Pixels], view: InputSpec) -> Floats:
    """Return the probabilities of decoded images, N arrays uint8 (size, size, 3) RGB,
    as :func:`predict` does.

    Many images are divided among threads.
    """
    images = pixels if isinstance(pixels, Sequence) else list(pixels)
    first = Classifier(model)
    classifiers = [first, *(Classifier(model) for _ in range(1, count_threads(len(images))))]
    runs = [partial(_classify, classifier, view) for classifier in classifiers]
    answers = run_in_threads(runs, images)
    if answers:
        return np.stack(answers)
    return np.zeros((0, first.classes), np.float32)


def _classify(classifier: Classifier, view: InputSpec, pixels: Pixels) -> Floats:
    return classifier(view.normalise(pixels))


def count_threads(images: int) -> int:
    """Return how many threads a file is run in over so many images:
    at most one for each core, and few.
    """
    return max(1, min(usable_cores(for_job=True), images // LEAST_PART))


def run_in_threads(
    runs: Sequence[Callable[[Item], Answer]], items: Sequence[Item]
) -> list[Answer]:
    """Return the answer to each item;
    each of the functions, which do the same, has a thread and a share of the items.

    LiteRT computes an answer with one thread and without Python's lock,
    so it does not depend on their number.
    """
    answers: list[Any] = [None] * len(items)

    def run_share(first: int) -> None:
        for place in range(first, len(items), len(runs)):
            answers[place] = runs[first](items[place])

    with ThreadPoolExecutor(len(runs)) as pool:
        # The list has the errors raised.
        list(pool.map(run_share, range(len(runs))))
    return answers


def predict_arrays(model: Path | str, inputs: Iterable[Floats]) -> Floats:
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


def with_interval(value: float, drawn: Sequence[float] | NDArray[Any]) -> Interval:
    """Return a figure with the 95 % interval that resamples of the images give;
    those without a figure do not count.
    """
    low, high = np.nanquantile(drawn, [0.025, 0.975])
    return Interval(value, min(value, float(low)), max(value, float(high)))


def resample_mean(shares: Sequence[float] | NDArray[Any]) -> Interval:
    """Return the mean of what each image adds to a figure,
    with the interval that resamples of the images give.
    """
    values = np.asarray(shares, np.float64)
    count = len(values)
    drawn = np.random.default_rng(0).integers(0, count, (RESAMPLES, count))
    return with_interval(float(values.mean()), values[drawn].mean(axis=1))


def units_of(groups: Sequence[int], images: int) -> Labels:
    """Return the number of the group of each image, from 0 on without a gap, int64 (N,).

    Images without groups, and those that are all in one, are a group each:
    nothing shows how other groups differ.
    """
    units = np.unique(np.asarray(groups, np.int64), return_inverse=True)[1].reshape(-1)
    if len(units) == images and units.max(initial=0) > 0:
        return units
    return np.arange(images)


def sums_of_units(values: NDArray[Any], units: Labels) -> NDArray[Any]:
    """Return the sums (U, ...) of the values (N, ...) of the images of each group,
    see :func:`units_of`.
    """
    sums = np.zeros((int(units.max(initial=-1)) + 1, *values.shape[1:]), values.dtype)
    np.add.at(sums, units, values)
    return sums


def of_other_images(value: float, without: Sequence[float] | NDArray[Any]) -> OtherImagesRange:
    """Return a figure (0-1) with the range that holds it with 95 % confidence
    on as many other images like these.

    ``without`` are the figures without each group of images, (U,): NaN where nothing is left to
    judge. Images of one group, such as frames of a film, resemble each other, so a group counts
    once. The error is that of the jackknife over groups, times the root of two, because the other
    images differ by as much. Student's distribution allows for few groups, and for few that bring
    most of the error; log odds keep the ends inside 0 and 1 (B. Efron and R. Tibshirani, "An
    Introduction to the Bootstrap", 1993, chapter 11; G. Hahn and W. Meeker, "Statistical
    Intervals", 1991, section 4.8).
    """
    from scipy.special import expit, logit, stdtrit

    figures = np.asarray(without, np.float64)
    # Without one group nothing may be left to judge. That group then adds no spread.
    figures = np.where(np.isfinite(figures), figures, value)
    count = len(figures)
    # One group says nothing about others: the figure may be anything there.
    if count < 2:
        return OtherImagesRange(value, 0.0, 1.0, 0.5)
    error = float(np.sqrt((count - 1) / count * np.square(figures - figures.mean()).sum()))
    # All groups have the same figure, so their spread shows nothing.
    if error == 0.0:
        ends = Interval.wilson(value * count, count)
        low = min(value, ends.low)
        high = max(value, ends.high)
        return OtherImagesRange(value, low, high, (high - low) / (2 * DEVIATIONS))
    half = float(stdtrit(_count_freedom(figures), (1 + LEVEL) / 2)) * 2**0.5 * error
    # Log odds of 0 and 1 are infinite.
    inside = min(max(value, EDGE), 1 - EDGE)
    # The derivative of the log odds turns a half width of the figure into one of its log odds.
    half_of_odds = half / (inside * (1 - inside))
    low = float(expit(logit(inside) - half_of_odds))
    high = float(expit(logit(inside) + half_of_odds))
    return OtherImagesRange(value, min(value, low), max(value, high), error)


def _count_freedom(figures: NDArray[np.float64]) -> float:
    """Return the degrees of freedom of the variance of figures (U,):
    from 1 to U - 1, which equal shares in it give.

    Where a class is in few images, these bring most of the variance, and it is as uncertain as one
    of few images. This is the estimate by the fourth moment (B. O'Neill, "Some useful moment
    results in sampling problems", The American Statistician 68, 2014, section 3).
    """
    count = len(figures)
    squares = np.square(figures - figures.mean())
    kurtosis = float(np.square(squares).mean() / squares.mean() ** 2)
    freedom = 2 * count / (kurtosis - (count - 3) / (count - 1))
    return min(max(freedom, 1.0), count - 1.0)


class Classifier:
    """A loaded classifier: the input is a normalised float32 (size, size, 3) image,
    the output float32 (classes,).

    Of several outputs, the one named ``output`` is read. UsageError if the file is missing,
    RuntimeRefusal if the runtime cannot load or run it, StageError if its input or output is not
    that of an image classifier.
    """

    def __init__(self, model: Path | str, output: str = OUTPUT) -> None:
        from ai_edge_litert.interpreter import Interpreter

        path = existing_model(model)
        try:
            # One thread: a search scores several files side by side,
            # and an app's answer does not depend on the threads.
            self._interpreter: Any = Interpreter(model_path=str(path), num_threads=1)
            self._interpreter.allocate_tensors()
        except (ValueError, RuntimeError) as error:
            raise RuntimeRefusal(
                f"{path.name}: LiteRT cannot load the model: {agent.one_line(error)}"
            ) from error
        self._input = _find_image_input(path.name, self._interpreter.get_input_details())
        self._output = _find_output(path.name, self._interpreter, output)
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


@dataclass(frozen=True, eq=False)
class Detections:
    """The boxes in one image, true or found:
    float32 (n, 4), top, left, bottom and right in shares of the image.

    Labels are indices of classes, int64 (n,). Scores are float32 (n,), the highest first;
    ones for true boxes.
    """

    boxes: Floats
    labels: NDArray[np.int64]
    scores: Floats

    def above(self, least: float) -> Detections:
        """Return the boxes with at least this score."""
        sure = self.scores >= least
        return Detections(self.boxes[sure], self.labels[sure], self.scores[sure])

    def relabel_boxes(self, places: Mapping[int, int]) -> Detections:
        """Return the boxes of some classes under other labels,
        without the boxes of all other classes.
        """
        is_listed = np.isin(self.labels, list(places))
        labels = np.array([places[label] for label in self.labels[is_listed].tolist()], np.int64)
        return Detections(self.boxes[is_listed], labels, self.scores[is_listed])


class Runner(Generic[Answer]):
    """A loaded file with named outputs; call it with the path of an image.

    The ``.tflite`` file has one image input (1, size, size, 3), float or quantised. UsageError if
    it is missing, RuntimeRefusal if the runtime cannot load it, StageError if it has other
    outputs.
    """

    outputs: tuple[str, ...]
    kind = "such a model"  # for errors

    def __init__(self, model: Path | str, view: InputSpec) -> None:
        path = existing_model(model)
        self._path = path
        self._run: Any = self._load()
        inputs = self._run.get_input_details()
        outputs = self._run.get_output_details()
        if len(inputs) != 1 or set(outputs) != set(self.outputs):
            raise StageError(
                f"{path.name}: the outputs {', '.join(outputs)} are not those of {self.kind}"
            )
        ((self._name, self._input),) = inputs.items()
        self._view = view

    def _load(self) -> Any:
        from ai_edge_litert.interpreter import Interpreter

        try:
            return Interpreter(model_path=str(self._path), num_threads=1).get_signature_runner()
        except (ValueError, RuntimeError) as error:
            raise RuntimeRefusal(
                f"{self._path.name}: LiteRT cannot load the model: {agent.one_line(error)}"
            ) from error

    def _copy(self) -> Self:
        """Return a runner of the same file for another thread."""
        other = copy.copy(self)
        other._run = self._load()
        return other

    def over(self, images: Sequence[Path], captured: bool = False) -> Iterator[Answer]:
        """Yield the answer to each image as it is,
        or under each of :data:`advisor.datasets.STAYING`.
        """
        if not captured:
            others = [self._copy() for _ in range(1, count_threads(len(images)))]
            return iter(run_in_threads([self, *others], images))
        captured_pixels = chain.from_iterable(
            draw_captures(image, self._view.size, STAYING) for image in images
        )
        return (self.answer_for(self._view.normalise(pixels)) for pixels in captured_pixels)

    def __call__(self, path: Path) -> Answer:
        """Return the answer to an image;
        StageError if it cannot be read, RuntimeRefusal if the runtime fails.
        """
        return self.answer_for(self._view.read(path))

    def answer_for(self, array: Floats) -> Answer:
        """Return the answer to a normalised image, float32 (size, size, 3)."""
        image = quantize(array[None], self._input)
        try:
            outputs = self._run(**{self._name: image})
        except (ValueError, RuntimeError) as error:
            raise RuntimeRefusal(
                f"LiteRT cannot run the model: {agent.one_line(error)}"
            ) from error
        return self.read(outputs)

    def read(self, outputs: Mapping[str, Any]) -> Answer:
        """Return the answer in the outputs: by default the only one, without the batch."""
        (only,) = outputs.values()
        answer: Answer = only[0]
        return answer


class Detector(Runner[Detections]):
    """A loaded detector with post-processing, see :func:`advisor.tflite.append_postprocess`."""

    outputs: tuple[str, ...] = DETECTIONS
    kind = "a detector"

    def read(self, outputs: Mapping[str, Floats]) -> Detections:
        """Return the boxes in the outputs."""
        count = int(outputs["count"].reshape(-1)[0])
        # A decoded box may reach beyond the image.
        boxes = np.clip(outputs["boxes"][0, :count], 0.0, 1.0)
        return Detections(
            boxes, outputs["classes"][0, :count].astype(np.int64), outputs["scores"][0, :count]
        )


def find_centres(scores: Floats, least: float) -> Detections:
    """Return the centres in a map of scores:
    places with the highest score of their class among their neighbours.

    Of several neighbours with equal scores, as integers have, the first one stands for all. The
    scores are float32 (rows, columns, C), at least ``least``. Returned are boxes without area at
    the centres, the highest score first.
    """
    rows, columns, _ = scores.shape
    side = 2 * CENTRE_DISTANCE + 1
    # No score is below 0, so the border never wins.
    border = (CENTRE_DISTANCE, CENTRE_DISTANCE)
    padded = np.pad(scores, (border, border, (0, 0)), constant_values=-1)
    windows = np.lib.stride_tricks.sliding_window_view(padded, (side, side), (0, 1))
    highest = windows.max(axis=(-2, -1))
    down, across, labels = np.nonzero((scores >= highest) & (scores >= least))
    order = np.argsort(-scores[down, across, labels], kind="stable")
    # Places with equal scores are all highest:
    # the first one, by the stable order, suppresses the others near it.
    peaks: list[int] = []
    for place in order:
        same = [peak for peak in peaks if labels[peak] == labels[place]]
        distances = []
        for peak in same:
            rows_apart = abs(down[peak] - down[place])
            columns_apart = abs(across[peak] - across[place])
            distances.append(max(rows_apart, columns_apart))
        if min(distances, default=CENTRE_DISTANCE + 1) > CENTRE_DISTANCE:
            peaks.append(int(place))
    y = (down[peaks] + 0.5) / rows
    x = (across[peaks] + 0.5) / columns
    boxes = np.stack([y, x, y, x], axis=1).astype(np.float32)
    return Detections(
        boxes,
        labels[peaks].astype(np.int64),
        scores[down, across, labels][peaks].astype(np.float32),
    )


class CentreFinder(Detector):
    """A loaded network that marks centres:
    one output ``centres``, a map of scores (1, rows, columns, C).
    """

    outputs = (CENTRES,)

    def read(self, outputs: Mapping[str, Floats]) -> Detections:
        """Return the centres in the outputs, as boxes without area."""
        return find_centres(outputs[CENTRES][0], KEPT)


def save_detections(path: Path, detections: Sequence[Detections]) -> None:
    """Write what was found in images as ``.npz``:
    ``counts`` (N,), and ``boxes``, ``labels`` and ``scores`` of all.
    """
    # An empty part first, for no images at all: nothing cannot be joined.
    nothing = Detections(
        np.zeros((0, 4), np.float32), np.zeros(0, np.int64), np.zeros(0, np.float32)
    )
    parts = [nothing, *detections]
    np.savez(
        path,
        counts=np.array([len(part.labels) for part in detections], np.int64),
        boxes=np.concatenate([part.boxes for part in parts]),
        labels=np.concatenate([part.labels for part in parts]),
        scores=np.concatenate([part.scores for part in parts]),
    )


def load_detections(path: Path) -> list[Detections]:
    """Read what :func:`save_detections` wrote."""
    with np.load(path, allow_pickle=False) as arrays:
        ends = np.cumsum(arrays["counts"])[:-1]
        boxes, labels, scores = (
            np.split(arrays[name], ends) for name in ("boxes", "labels", "scores")
        )
        return [Detections(*parts) for parts in zip(boxes, labels, scores, strict=True)]


def true_boxes(rows: Sequence[tuple[int, float, float, float, float]]) -> Detections:
    """Return true boxes given as label, top, left, bottom and right in shares of the image."""
    table = np.array(rows, np.float64).reshape(-1, 5)
    labels = table[:, 0].astype(np.int64)
    boxes = table[:, 1:].astype(np.float32)
    return Detections(boxes, labels, np.ones(len(labels), np.float32))
