"""Define the result of a diagnosis, and say it in words."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from advisor.core import Written

if TYPE_CHECKING:
    from advisor.measurement import Delegation

SILENT_DB = -99.0
"""The ratio if the float file has only zeros."""

WEAK_DB = 25.0
"""Layers below this ratio by themselves are named; good 8-bit layers have 30 to 50 dB."""

FAINT_DB = 15.0
"""An answer below this ratio is sometimes wrong: at 15 dB the noise is a sixth of the signal."""

NAMED = 3
"""Number of layers that the verdict names."""

_FOLLOWING = frozenset({"SOFTMAX", "LOGISTIC"})
"""Operators that lose what their inputs lost; the layers before them are named instead."""

_CLIPPED = 0.005
"""Share of values outside the calibrated range from which that is named as the reason."""

_WIDE = 8.0
"""Ratio of a channel's range to the median's that leaves the median 5 of 8 bits."""

_LEFT = 0.001
"""Share of the arithmetic that is too small to mention."""

_NARROW = 0.4
"""Share of the calibrated range below which the values leave most steps unused."""

_FEW_STEPS = 8.0
"""Steps in a standard deviation of the values below which rounding hides them."""

_CLUSTERED = 16
"""Most different weights that tell a clustered kernel from a rounded one."""

_PRUNED = 0.25
"""Share of zeros in a pruned kernel; rounding alone gives up to a tenth."""

_MOST_PRUNED = 0.6
"""Share of zeros above which a milder recipe of pruning is named, too."""

_FLOATS = frozenset({"float32", "float16"})


@dataclass(frozen=True)
class Outlier:
    """The channel whose range is widest.

    Attributes:
        channel: its place along the tensor's last axis (a kernel's output channel).
        ratio: its range over the median of all channels.
    """

    channel: int
    ratio: float


@dataclass(frozen=True)
class DiagnosedLayer(Written):
    """One operator of the quantized file compared with the same one of the float file.

    Attributes:
        index: place in the quantized file's main graph.
        operator: its name, such as ``CONV_2D``.
        name: the name of its output, shortened.
        shape: of its output.
        data: type of its output in the quantized file.
        snr_db: signal to noise of its output, everything before it quantized too; None if nothing
            differs.
        own_snr_db: the same were everything before it float: what this layer alone adds; None if
            nothing differs, or if it cannot be run by itself.
        range: least and greatest value that its output can take in the quantized file; None for
            float outputs.
        used: least and greatest value that its output took in the float file.
        clipped: part of the float file's values outside of ``range``.
        steps: how many of the file's steps one standard deviation of the values spans; None for
            float outputs.
        channels: the output channel with the widest range of values; None if there is one channel
            only.
        kernel: the kernel's output channel with the widest weights; None for layers without a
            kernel.
        lost: output channels whose bias does not fit into its 32 bits, as their weights are next
            to nothing.
        per_channel: the kernel has one scale a channel; None if it is not stored in integers.
        weights: type that its kernel is stored as; empty for layers without one.
        zeros: part of its weights that are 0 and are not in the float file, 0-1.
        few: how many values stand for all of its weights but the zeros, where each stands for
            several; else None.
        refused: why XNNPACK leaves this operator to the builtin kernels, empty if it takes it.
        cause: why it loses so much; empty if it does not.
    """

    entries = ("*", "range_used")

    index: int
    operator: str
    name: str
    shape: tuple[int, ...]
    data: str
    snr_db: float | None
    own_snr_db: float | None
    range: tuple[float, float] | None
    used: tuple[float, float]
    clipped: float
    steps: float | None
    channels: Outlier | None
    kernel: Outlier | None
    per_channel: bool | None
    lost: tuple[int, ...] = ()
    weights: str = ""
    zeros: float = 0.0
    few: int | None = None
    refused: str = ""
    cause: str = ""

    @property
    def range_used(self) -> float | None:
        """Part of ``range`` that the values took, 0-1."""
        if self.range is None or self.range[1] <= self.range[0]:
            return None
        low = max(self.range[0], self.used[0])
        high = min(self.range[1], self.used[1])
        return max(0.0, high - low) / (self.range[1] - self.range[0])


@dataclass(frozen=True)
class Channels:
    """The range of each channel of one layer's output in the float file.

    Attributes:
        index: the layer's.
        least: least value of each channel.
        most: greatest value of each channel.
    """

    index: int
    least: tuple[float, ...]
    most: tuple[float, ...]


@dataclass(frozen=True)
class Diagnosis(Written):
    """The differences of a quantized file from its float file, with their causes.

    Attributes:
        model: the quantized file as given.
        against: the float file as given.
        images: how many images both were run on.
        source: which images these were.
        layers: operators that both files have, in the order of the quantized file.
        unmatched: operators of the quantized file for which the float file has none (but QUANTIZE
            and DEQUANTIZE).
        output_snr_db: signal to noise of the answer; None if both answer alike.
        agreement: part of the images to which both give the same answer, 0-1.
        delegation: what XNNPACK takes of the quantized file, as a sentence.
        float_delegation: the same of the float file.
        verdict: the result in sentences, the most important first.
        channels: the ranges of the worst layers' channels, the worst layer first.
    """

    entries = ("schema_version", "*")
    schema_version = 1

    model: str
    against: str
    images: int
    source: str
    layers: tuple[DiagnosedLayer, ...]
    unmatched: int
    output_snr_db: float | None
    agreement: float
    delegation: str
    float_delegation: str
    verdict: tuple[str, ...]
    channels: tuple[Channels, ...] = ()

    def worst(self, count: int = 10) -> tuple[DiagnosedLayer, ...]:
        """Return the layers that lose most by themselves, the worst first."""
        known = [layer for layer in self.layers if layer.own_snr_db is not None]
        return tuple(sorted(known, key=lambda layer: layer.own_snr_db or 0.0)[:count])


def explain_loss(layer: DiagnosedLayer) -> str:
    """Return why a layer loses so much by itself and what helps; empty if it does not."""
    if layer.operator in _FOLLOWING or layer.own_snr_db is None or layer.own_snr_db >= WEAK_DB:
        return ""
    if layer.weights in _FLOATS and layer.data == "float32":
        return _describe_change(layer)
    # The likeliest reason alone: several remedies for one layer would contradict each other.
    return next(_explain_losses(layer))


def _describe_change(layer: DiagnosedLayer) -> str:
    if layer.few is not None and layer.few <= _CLUSTERED:
        return (
            f"only {layer.few} different weights are left: rounded keeps up to 256 for each"
            " channel"
        )
    if layer.few is not None:
        return (
            f"its weights are rounded to {layer.few} values, too few for it: float16 keeps more of"
            " them"
        )
    if layer.zeros >= _PRUNED:
        milder = (
            "pruned_50 takes out fewer, rounded none"
            if layer.zeros > _MOST_PRUNED
            else "rounded takes out none"
        )
        return (
            f"{layer.zeros:.0%} of its weights were taken out, more than the others make up for:"
            f" {milder}"
        )
    if layer.weights == "float16":
        return "its weights are stored too coarsely: more bits for this layer"
    return "its weights were trained again, to make up for what other layers lost"


def _explain_losses(layer: DiagnosedLayer) -> Iterator[str]:
    """Yield why values that are stored as integers lose, the likeliest reason first."""
    if layer.lost:
        channels = ", ".join(map(str, layer.lost[:5]))
        yield (
            f"the bias of channel {channels} is lost: its weights are next to nothing, and 32 bits"
            " of steps as small as theirs do not reach it; int8 of advisor compress keeps it"
        )
    if layer.range is not None and layer.clipped >= _CLIPPED:
        yield (
            f"{layer.clipped:.1%} of its values fall out of the range {_show(layer.range)} that"
            f" calibration gave it (they reach {_show(layer.used)}): calibrate on more images like"
            " these, or leave it in float (mixed_int8)"
        )
    if layer.per_channel is False and layer.kernel is not None and layer.kernel.ratio >= _WIDE:
        yield (
            f"its kernel has one scale for all channels, and channel {layer.kernel.channel}'s"
            f" weights are {layer.kernel.ratio:.0f}x the median's: one scale for each channel"
            " (int8) helps"
        )
    if layer.range is not None and layer.channels is not None and layer.channels.ratio >= _WIDE:
        yield (
            f"channel {layer.channels.channel}'s range is {layer.channels.ratio:.0f}x the"
            " median's, and activations have one scale for all channels: one for each channel of"
            " the weights is not enough, leave it in float (mixed_int8)"
        )
    used = layer.range_used
    if layer.range is not None and used is not None and used < _NARROW:
        yield (
            f"its values take {used:.0%} of the range {_show(layer.range)} that calibration gave"
            " it: an image unlike the others stretched it, calibrate without it"
        )
    if layer.steps is not None and layer.steps < _FEW_STEPS:
        yield (
            f"one standard deviation of its values spans {layer.steps:.1f} steps of"
            f" {_show(layer.used)}: rare extremes stretch the range, leave it in float"
            " (mixed_int8) or take int16x8"
        )
    if layer.data == "float32":
        yield "its weights are stored too coarsely: more bits for this layer"
    if layer.per_channel is False:
        yield "its kernel has one scale for all channels: one for each channel (int8) helps"
    if layer.kernel is None:
        yield (
            f"the steps of {layer.data} over {_show(layer.range or layer.used)} are too coarse"
            " for it"
        )
    yield (
        f"{layer.data} is too coarse for it: leave it in float (mixed_int8), or train with it"
        " (qat_int8)"
    )


def sum_up(
    diagnosis: Diagnosis, delegation: Delegation, float_delegation: Delegation
) -> tuple[str, ...]:
    """Return the result in sentences:
    how far the answers differ, which layers cause it and why, what is slow.
    """
    noise = ""
    if diagnosis.output_snr_db is not None:
        noise = f", SNR {diagnosis.output_snr_db:.0f} dB"
    head = (
        f"it answers as the float file does on {diagnosis.agreement:.0%} of {diagnosis.images}"
        f" images{noise}"
    )
    sentences = [head, *_describe_layers(diagnosis), *_describe_slow(delegation, float_delegation)]
    if len(sentences) == 1:
        sentences.append(
            "no layer is to blame and none is left to slower kernels: this form is sound"
        )
    return tuple(sentences)


def _describe_layers(diagnosis: Diagnosis) -> Iterator[str]:
    weak = [layer for layer in diagnosis.worst(len(diagnosis.layers)) if layer.cause]
    for layer in weak[:NAMED]:
        yield (
            f"{layer.name} ({layer.operator}, operator {layer.index}): SNR {layer.own_snr_db:.0f}"
            f" dB; {layer.cause}"
        )
    if len(weak) > NAMED:
        yield f"{len(weak) - NAMED} more layers stand below {WEAK_DB:.0f} dB by themselves"
    integers = any(layer.weights and layer.weights not in _FLOATS for layer in diagnosis.layers)
    remedy = (
        "; training with it (qat_int8) or int16x8 helps, where answers are lost"
        if integers
        else ""
    )
    noisy = [layer for layer in diagnosis.layers if layer.snr_db is not None]
    lowest = min(noisy, key=_arriving, default=None)
    if not weak and lowest is not None and _arriving(lowest) < FAINT_DB:
        yield (
            f"no layer is to blame alone: the noise of {len(diagnosis.layers)} layers adds up,"
            f" down to {_arriving(lowest):.0f} dB at {lowest.name}{remedy}"
        )


def _arriving(layer: DiagnosedLayer) -> float:
    return layer.snr_db if layer.snr_db is not None else float("inf")


def _describe_slow(delegation: Delegation, float_delegation: Delegation) -> Iterator[str]:
    """Yield what the CPU's fast kernels run less of than of the float file."""
    # The form is only to blame for what the float file does not have as well.
    if (
        delegation.share >= float_delegation.share - _LEFT
        and delegation.kept <= float_delegation.kept
    ):
        return
    reasons = [f"{reason} ({count}x)" for reason, count in delegation.reasons.items()]
    more = ""
    if len(reasons) > NAMED:
        more = f" and {len(reasons) - NAMED} other reasons"
    yield (
        f"slower: {delegation.accelerator.title} takes {delegation.share:.0%} of its arithmetic in"
        f" {delegation.kept} pieces, of float {float_delegation.share:.0%} in"
        f" {float_delegation.kept}: {'; '.join(reasons[:NAMED])}{more}"
    )


def _show(ends: tuple[float, float]) -> str:
    return f"{ends[0]:.3g} to {ends[1]:.3g}"


def to_decibel(signal: float, noise: float | None) -> float | None:
    """Return the signal-to-noise ratio in dB, at least ``SILENT_DB``; None without noise."""
    if not noise:
        return None
    if signal > 0:
        return max(SILENT_DB, 10 * math.log10(signal / noise))
    return SILENT_DB


def find_widest(ranges: NDArray[np.floating]) -> Outlier | None:
    """Return the channel with the widest range, and its ratio to the median; None for one channel.

    Constant (dead) channels are left out of the median, as they would make every other an outlier.
    """
    alive = ranges[ranges > 0]
    if ranges.size < 2 or not alive.size:
        return None
    channel = int(ranges.argmax())
    return Outlier(channel, float(ranges[channel] / np.median(alive)))
