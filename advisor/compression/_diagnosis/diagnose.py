"""Compare a quantized file with its float file, layer by layer, in a child process.

`advisor diagnose` calls :func:`diagnose`, and a search :func:`run_in_child` for forms of its best
cards that lose accuracy. A child runs the comparison, because a file may crash the runtime; it
imports ``diagnose_images`` by its name.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from advisor.compression._calibration import (
    CalibrationImages,
    draw_paths,
    find_images,
    spec_of_file,
)
from advisor.compression._diagnosis.equalization import find_factors
from advisor.compression._diagnosis.explanations import explain_loss, sum_up
from advisor.compression._diagnosis.figures import to_decibel
from advisor.compression._diagnosis.kernels import (
    describe_storage,
    find_bias,
    find_kernel,
    find_lost_biases,
    find_widest_kernel,
    has_scale_a_channel,
)
from advisor.compression._diagnosis.pairs import (
    OperatorPair,
    list_working_operators,
    pair_operators,
    shorten_name,
)
from advisor.compression._diagnosis.running import Alone, InspectableModel, Sums, isolate_operators
from advisor.core import DiagnosedLayer, Diagnosis, StageError, UsageError
from advisor.datasets import InputSpec
from advisor.isolation import CallLimits, ChildPool, Scratch
from advisor.measurement import delegate_operators, find_accelerator
from advisor.tflite import Metadata, Model, Tensor, read, read_metadata, split_postprocess

IMAGES = 16
"""Number of images. Each gives thousands of values a layer, enough for a ratio of powers."""

DRAWN = 8
"""Number of layers, the worst first, with the range of each channel for a plot."""

SECONDS = 60.0
"""Time limit: no further image is started after it."""

BUNDLED = "bundled photographs"

_MARGIN_S = 300.0
"""Added to the time limit, for loading both files and for the last image."""

ON_CPU = "xnnpack"

_LEVELS = {"int8": (-128, 127), "uint8": (0, 255), "int16": (-32768, 32767)}


def diagnose(
    model: Path,
    against: Path,
    calibration: Path | None,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
) -> Diagnosis:
    """Compare a quantized file with its float file on a folder's images, or bundled photographs.

    ``mean`` is subtracted from RGB 0..255, and ``std`` divides the difference; None to use the
    files' metadata. It raises the errors of :func:`compare_layers` and of what reads the
    images as UsageErrors.
    """
    graph = read(against)
    # A damaged file is an error before images are looked for.
    read(model)
    spec = spec_of_file(against.name, graph, _find_normalization(against, model), mean, std)
    files = find_images(calibration) if calibration else ()
    images = draw_paths(files, IMAGES, 0)
    source = f"{len(images)} of {len(files)} images of {calibration}" if files else BUNDLED
    return run_in_child(model, against, images, spec, source)


def _find_normalization(*paths: Path) -> Metadata | None:
    """Return the metadata of the first file that states a normalization."""
    for path in paths:
        metadata = read_metadata(path.read_bytes(), path.name)
        if metadata and metadata.mean:
            return metadata
    return None


def run_in_child(
    model: Path,
    against: Path,
    images: Sequence[Path],
    spec: InputSpec,
    source: str,
    seconds: float = SECONDS,
) -> Diagnosis:
    """Run the diagnosis in a child process, so that a native crash ends only that process.

    See :func:`diagnose`; ``source`` says which images these are.
    """
    limits = CallLimits(seconds=seconds + _MARGIN_S, memory_bytes=3_000_000_000)
    job = f"{__name__}:diagnose_images"
    with Scratch() as folder, ChildPool(folder / "log.txt") as pool:
        try:
            diagnosis: Diagnosis = pool.call(
                job, model, against, tuple(images), spec, source, seconds, limits=limits
            )
        except StageError as error:
            message = error.message
            # Some errors name the file already.
            if ".tflite" not in message:
                message = f"{model.name} against {against.name}: {error}"
            raise UsageError(message, error.hint) from error
    return diagnosis


def diagnose_images(
    model: Path,
    against: Path,
    images: Sequence[Path],
    spec: InputSpec,
    source: str,
    seconds: float,
) -> Diagnosis:
    """Read the images, or crops of the bundled photographs, and compare the files."""
    arrays = CalibrationImages(tuple(images), spec).read()
    # Evenly over all of them: the bundled crops come photograph by photograph.
    step = max(1, len(arrays) // IMAGES)
    return compare_layers(model, against, arrays[::step][:IMAGES], source, seconds)


def compare_layers(
    model: Path, against: Path, images: NDArray[np.float32], source: str, seconds: float = SECONDS
) -> Diagnosis:
    """Compare a quantized ``.tflite`` with the float file that it was made from, layer by layer.

    Detectors are compared without their post-processing. ``images`` are normalised model inputs,
    float32 (n, S, S, 3), and ``source`` says which. After ``seconds``, no further image is
    started, but at least one is run. A damaged or unfit file is a UsageError, one that the runtime
    cannot run a StageError.
    """
    read(model)
    read(against)
    # A detector comes without its post-processing, so that its first output is the scores.
    data, _ = split_postprocess(model.read_bytes(), model.name)
    float_data, _ = split_postprocess(against.read_bytes(), against.name)
    quantized = read(data, str(model))
    reference = read(float_data, str(against))
    _require_same_model(model, quantized, against, reference)
    operator_pairs = pair_operators(quantized, reference)
    if not operator_pairs:
        hint = "give the float file that the quantized one was made from"
        raise UsageError(f"{model.name} and {against.name} have no operator in common", hint)
    ours = InspectableModel(data, model.name)
    theirs = InspectableModel(float_data, against.name)
    operators_alone = isolate_operators(data, quantized, reference, operator_pairs)
    comparison = _Comparison(ours, theirs, operators_alone, quantized, reference, operator_pairs)
    deadline = time.monotonic() + seconds
    for image in images:
        if comparison.count and time.monotonic() > deadline:
            break
        comparison.add(image)
    rules = find_accelerator(ON_CPU)
    delegation = delegate_operators(quantized, rules)
    float_delegation = delegate_operators(reference, rules)
    refused = {row.index: row.reason for row in delegation.refused}
    layers = []
    for pair in operator_pairs:
        layers.append(
            _diagnose_layer(quantized, reference, pair, comparison.sums[pair.quantized], refused)
        )
    result = Diagnosis(
        model=str(model),
        against=str(against),
        images=comparison.count,
        source=source,
        layers=tuple(layers),
        unmatched=len(list_working_operators(quantized)) - len(operator_pairs),
        output_snr_db=to_decibel(comparison.answer.signal, comparison.answer.noise),
        agreement=comparison.same / comparison.count,
        delegation=delegation.sentence,
        float_delegation=float_delegation.sentence,
        verdict=(),
    )
    channels = tuple(
        comparison.sums[layer.index].ends(layer.index) for layer in result.worst(DRAWN)
    )
    return replace(result, verdict=sum_up(result, delegation, float_delegation), channels=channels)


class _Comparison:
    """Both files loaded, and the sums over the images so far."""

    def __init__(
        self,
        ours: InspectableModel,
        theirs: InspectableModel,
        single: Mapping[int, Alone],
        quantized: Model,
        reference: Model,
        operator_pairs: tuple[OperatorPair, ...],
    ) -> None:
        self._ours = ours
        self._theirs = theirs
        self._pairs = operator_pairs
        self._alone = single
        self._factors = find_factors(quantized, reference, operator_pairs)
        self.sums = dict[int, Sums]()
        for pair in operator_pairs:
            limits = _range_of(quantized.tensors[pair.output])
            self.sums[pair.quantized] = Sums(*limits) if limits else Sums()
        self.answer = Sums()
        self.same = 0
        self.count = 0

    def add(self, image: NDArray[np.float32]) -> None:
        """Run both files on one image, and each operator by itself where possible."""
        ours = self._ours
        theirs = self._theirs
        theirs(image[None])
        ours(image[None])
        for pair in self._pairs:
            single_output = None
            if pair.quantized in self._alone:
                single, sources = self._alone[pair.quantized]
                single(*map(self._read_equalized, sources))
                single_output = single.output
            self.sums[pair.quantized].add(
                self._read_equalized(pair.reference_output), ours.read(pair.output), single_output
            )
        self.answer.add(theirs.output, ours.output, None)
        self.same += int(theirs.output.argmax() == ours.output.argmax())
        self.count += 1

    def _read_equalized(self, tensor: int) -> NDArray[np.float32]:
        """Return a tensor of the float file, multiplied by the factors of equalization."""
        values = self._theirs.read(tensor)
        factor = self._factors.get(tensor)
        if factor is None or factor.shape[0] != values.shape[-1]:
            return values
        scaled: NDArray[np.float32] = (values * factor).astype(values.dtype)
        return scaled


def _require_same_model(model: Path, quantized: Model, against: Path, reference: Model) -> None:
    shapes = [tensor.shape for tensor in quantized.inputs]
    if shapes != [tensor.shape for tensor in reference.inputs]:
        raise UsageError(
            f"{model.name} takes {_show_inputs(quantized)} and {against.name} takes"
            f" {_show_inputs(reference)}: one was not made from the other",
            "give the float file that the quantized one was made from",
        )
    takes_image = len(shapes) == 1 and len(shapes[0]) == 4
    if not takes_image or min(shapes[0]) < 1 or shapes[0][-1] != 3:
        raise UsageError(
            f"{model.name} takes {_show_inputs(quantized)}, not one RGB image",
            "(1, height, width, 3)",
        )
    quantized_tensors = []
    for tensor in reference.tensors:
        if tensor.quantization and tensor.dtype in _LEVELS:
            quantized_tensors.append(tensor.name)
    if quantized_tensors:
        raise UsageError(
            f"{against.name} is quantized itself ({len(quantized_tensors)} tensors, the first is"
            f" '{quantized_tensors[0]}')",
            "give the float file with --against",
        )


def _show_inputs(model: Model) -> str:
    inputs = []
    for tensor in model.inputs:
        shape = "x".join(map(str, tensor.shape))
        inputs.append(f"{tensor.dtype} {shape}")
    return ", ".join(inputs)


def _range_of(tensor: Tensor) -> tuple[float, float] | None:
    """Return the least and greatest value that a tensor can hold; None for floats."""
    if tensor.dtype not in _LEVELS or tensor.quantization is None:
        return None
    # A tensor with a scale for each channel has no single range.
    if len(tensor.quantization.scales) != 1:
        return None
    scale = tensor.quantization.scales[0]
    zero = (*tensor.quantization.zero_points, 0)[0]
    least, most = _LEVELS[tensor.dtype]
    return scale * (least - zero), scale * (most - zero)


def _diagnose_layer(
    quantized: Model, reference: Model, pair: OperatorPair, sums: Sums, refused: Mapping[int, str]
) -> DiagnosedLayer:
    output = quantized.tensors[pair.output]
    limits = _range_of(quantized.tensors[pair.output])
    scale = output.quantization.scales[0] if limits and output.quantization else None
    operator = quantized.operators[pair.quantized].name
    ours = find_kernel(quantized, pair.quantized)
    weights, zeros, few = describe_storage(ours, find_kernel(reference, pair.reference))
    layer = DiagnosedLayer(
        index=pair.quantized,
        operator=operator,
        name=shorten_name(reference.tensors[pair.reference_output].name) or operator.lower(),
        shape=output.shape,
        data=output.dtype,
        snr_db=to_decibel(sums.signal, sums.noise),
        own_snr_db=to_decibel(sums.signal, sums.own_noise),
        range=limits,
        used=sums.used,
        clipped=sums.outside / sums.count,
        steps=sums.deviation / scale if scale else None,
        channels=sums.channels,
        kernel=find_widest_kernel(reference, pair.reference),
        per_channel=has_scale_a_channel(ours),
        lost=find_lost_biases(
            find_bias(quantized, pair.quantized), find_bias(reference, pair.reference)
        ),
        weights=weights,
        zeros=zeros,
        few=few,
        refused=refused.get(pair.quantized, ""),
    )
    return replace(layer, cause=explain_loss(layer))
