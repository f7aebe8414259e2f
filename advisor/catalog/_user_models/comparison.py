"""Compare a converted model with its original, and name the layer where they begin to differ.

`formats.py` calls :func:`compare_conversion` after each conversion from ONNX or PyTorch. The
result stands on the card (:class:`.Conversion`); too large a difference refuses the model.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from advisor.catalog._cards import Conversion
from advisor.catalog._user_models import classifier
from advisor.catalog._weights.readers import Array
from advisor.core import UsageError
from advisor.tflite import read

IMAGES = 32
MAX_DIFFERENCE = 1e-3
"""Largest difference of a score, relative to the largest score of the image."""

_PHOTOGRAPHS = ("chelsea", "coffee", "rocket", "astronaut")
_REPORT = (
    "export the model with other operators there, or convert it to .tflite yourself and add that"
    " file"
)


@dataclass(frozen=True)
class OriginalLayer:
    """A layer of the original model, and its output for one image.

    The output has the original's order of dimensions. ``operator`` is that of the original's
    format, such as ``Conv``; ``inputs`` are the names of the layers that it reads.
    """

    name: str
    operator: str
    inputs: tuple[str, ...]
    values: Array


class Original(Protocol):
    """A user's model in the runtime that it was made for."""

    @property
    def converter(self) -> str:
        """The converter of this format and its version, such as ``onnx2tf 2.6.9``."""

    @property
    def runtime(self) -> str:
        """The runtime and its version, such as ``onnxruntime 1.31.1``."""

    def scores(self, images: Array) -> Array:
        """Return the scores (N, C) of normalised images (N, S, S, 3)."""

    def layers(self, image: Array) -> Sequence[OriginalLayer]:
        """Return every layer for one image (1, S, S, 3), each after those that it reads."""


def compare_conversion(original: Original, data: bytes, name: str) -> Conversion:
    """Return how a float ``.tflite`` compares with the model that it was made of.

    It goes from one image in NHWC to one row of scores. Both run on crops of photographs. ``name``
    is what to call the model in an error.
    """
    side = classifier.side_of(data, name)
    classifier.count_scores(read(data, name), name, least=1)
    model = read(data, name)
    images = draw_crops(side)
    runner = _make_runner(data)
    expected = original.scores(images)
    converted = np.stack([_run_image(runner, image[None]).reshape(-1) for image in images])
    if expected.shape != converted.shape:
        raise UsageError(
            f"{name}: it gives {expected.shape[1]} scores an image, and {converted.shape[1]} after"
            " the conversion",
            _REPORT,
        )
    if not np.isfinite(expected).all():
        raise UsageError(
            f"{name}: its scores of a photograph are not finite numbers in {original.runtime}",
            _REPORT,
        )
    largest = np.abs(expected).max(axis=1, keepdims=True)
    difference = float((np.abs(expected - converted) / np.maximum(largest, 1e-12)).max())
    if not difference <= MAX_DIFFERENCE:
        begins = find_first_wrong(original.layers(images[:1]), _read_activations(data, images[:1]))
        where = ""
        if begins:
            where = f": it begins at the layer '{begins.name}' ({begins.operator})"
        raise UsageError(
            f"{name}: after the conversion, a score differs from {original.runtime} by"
            f" {difference:.2g} of the largest, more than {MAX_DIFFERENCE:g}{where}",
            _REPORT,
        )
    agreement = float((expected.argmax(axis=1) == converted.argmax(axis=1)).mean())
    return Conversion(
        converter=original.converter,
        runtime=original.runtime,
        images=len(images),
        difference=difference,
        agreement=agreement,
        transposes=model.transposes,
        transposed=model.transposed_share,
    )


def draw_crops(side: int) -> Array:
    """Return the same :data:`IMAGES` crops (N, S, S, 3) of photographs at each call.

    Each has mean 0 and deviation 1.
    """
    from PIL import Image
    from skimage import data

    rng = np.random.default_rng(0)
    photographs = [getattr(data, name)() for name in _PHOTOGRAPHS]
    images = []
    for number in range(IMAGES):
        photograph = photographs[number % len(photographs)]
        height, width = photograph.shape[:2]
        edge = int(rng.integers(100, min(height, width) + 1))
        top = int(rng.integers(0, height - edge + 1))
        left = int(rng.integers(0, width - edge + 1))
        image = Image.fromarray(photograph[top : top + edge, left : left + edge])
        # Scaled to deviation 1, whatever the model expects: both sides see the same numbers.
        crop = np.asarray(image.resize((side, side), Image.Resampling.BILINEAR), np.float32)
        images.append((crop - crop.mean()) / max(float(crop.std()), 1e-3))
    return np.stack(images).astype(np.float32)


def find_first_wrong(
    layers: Sequence[OriginalLayer], activations: Sequence[Array]
) -> OriginalLayer | None:
    """Return the first layer whose output, and those of all that depend on it, no activation has.

    A layer inside an operator that does the work of several is not wrong if one behind it is
    right. ``layers`` are those of the original, each after those that it reads, ``activations``
    those of the converted model, in NHWC.
    """
    by_size: dict[int, list[Array]] = {}
    for activation in activations:
        by_size.setdefault(activation.size, []).append(activation)
    right: set[str] = set()
    # From the end: the inputs of a right layer are right, though the converter may have fused
    # them.
    for layer in reversed(layers):
        candidates = by_size.get(layer.values.size, [])
        is_right = layer.name in right
        if is_right or any(_is_equal(layer.values, candidate) for candidate in candidates):
            right |= {layer.name, *layer.inputs}
    for layer in layers:
        if layer.name not in right:
            return layer
    return None


def _is_equal(expected: Array, activation: Array) -> bool:
    limit = MAX_DIFFERENCE * float(np.abs(expected).max(initial=0.0))
    # The converter keeps some tensors in the order of ONNX.
    layouts = [expected]
    if expected.ndim == 4:
        layouts.append(expected.transpose(0, 2, 3, 1))
    for layout in layouts:
        differences = np.abs(layout.ravel() - activation.ravel())
        if bool((differences <= limit).all()):
            return True
    return False


def _read_activations(data: bytes, image: Array) -> list[Array]:
    """Return the float outputs of every operator for one image."""
    runner = _make_runner(data, keep_all=True)
    _run_image(runner, image)
    computed = set[int]()
    for operator in read(data).operators:
        computed.update(operator.outputs)
    floats = []
    for entry in runner.get_tensor_details():
        if entry["dtype"] == np.float32:
            floats.append(entry["index"])
    return [runner.get_tensor(index) for index in floats if index in computed]


def _make_runner(data: bytes, keep_all: bool = False) -> Any:
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    kind = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES if keep_all else OpResolverType.AUTO
    runner = Interpreter(
        model_content=data,
        experimental_op_resolver_type=kind,
        experimental_preserve_all_tensors=keep_all,
    )
    runner.allocate_tensors()
    return runner


def _run_image(runner: Any, image: Array) -> Array:
    runner.set_tensor(runner.get_input_details()[0]["index"], image)
    runner.invoke()
    scores: Array = runner.get_tensor(runner.get_output_details()[0]["index"])
    return scores
