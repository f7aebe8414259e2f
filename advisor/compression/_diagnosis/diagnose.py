"""Compare a quantized file with its float file, layer by layer.

The engine calls :func:`compare_layers` in a child process, because a file may crash the runtime.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from advisor.compression._diagnosis.equalization import find_factors
from advisor.compression._diagnosis.explanations import FastKernels, explain_loss, sum_up
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
from advisor.core import DiagnosedLayer, Diagnosis, UsageError
from advisor.tflite import Model, Tensor, read, split_postprocess

DRAWN = 8
"""Number of layers, the worst first, with the range of each channel for a plot."""

_LEVELS = {"int8": (-128, 127), "uint8": (0, 255), "int16": (-32768, 32767)}


def compare_layers(
    model: Path,
    against: Path,
    images: NDArray[np.float32],
    source: str,
    find_fast_kernels: Callable[[Model], FastKernels],
    seconds: float,
) -> Diagnosis:
    """Compare a quantized ``.tflite`` with the float file that it was made from, layer by layer.

    Detectors are compared without their post-processing. ``images`` are normalised model inputs,
    float32 (n, S, S, 3), and ``source`` says which. ``find_fast_kernels`` returns what the CPU's
    fast kernels take of a file. After ``seconds``, no further image is started, but at least one
    is run. A damaged or unfit file is a UsageError, one that the runtime cannot run a StageError.
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
    fast = find_fast_kernels(quantized)
    float_fast = find_fast_kernels(reference)
    layers = []
    for pair in operator_pairs:
        sums = comparison.sums[pair.quantized]
        layers.append(_diagnose_layer(quantized, reference, pair, sums, fast.refused))
    result = Diagnosis(
        model=str(model),
        against=str(against),
        images=comparison.count,
        source=source,
        layers=tuple(layers),
        unmatched=len(list_working_operators(quantized)) - len(operator_pairs),
        output_snr_db=to_decibel(comparison.answer.signal, comparison.answer.noise),
        agreement=comparison.same / comparison.count,
        delegation=fast.sentence,
        float_delegation=float_fast.sentence,
        verdict=(),
    )
    ends = {layer.index: comparison.sums[layer.index].ends() for layer in result.worst(DRAWN)}
    return replace(result, verdict=sum_up(result, fast, float_fast)).with_channels(ends)


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
    quantized: Model,
    reference: Model,
    pair: OperatorPair,
    sums: Sums,
    refused: Mapping[int, str],
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
