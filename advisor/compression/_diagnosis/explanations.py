"""Say in words why a layer loses accuracy, what helps, and what a diagnosis shows.

`diagnose.py` calls it at the end. The sentences are for users: reports and the terminal show them
as they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from advisor.core import DiagnosedLayer, Diagnosis

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
class FastKernels:
    """The part of a file that the CPU's fast kernels run.

    Attributes:
        title: the name of the kernels.
        share: of the arithmetic that they run, 0-1.
        pieces: how many parts of the graph they run.
        reasons: why operators are left to other kernels, with the number of operators.
        refused: the reason for each of these operators, by its index.
        sentence: all this in words.
    """

    title: str
    share: float
    pieces: int
    reasons: Mapping[str, int]
    refused: Mapping[int, str]
    sentence: str


def explain_loss(layer: DiagnosedLayer) -> str:
    """Return why a layer loses so much by itself and what helps; empty if it does not."""
    if layer.operator in _FOLLOWING or layer.own_snr_db is None or layer.own_snr_db >= WEAK_DB:
        return ""
    if layer.weights in _FLOATS and layer.data == "float32":
        return _describe_change(layer)
    # The likeliest reason alone: several remedies for one layer would contradict each other.
    return next(_explain_losses(layer))


def _describe_change(layer: DiagnosedLayer) -> str:
    """Return what was done to the float weights of a layer that loses."""
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
        milder = "rounded takes out none"
        if layer.zeros > _MOST_PRUNED:
            milder = "pruned_50 takes out fewer, rounded none"
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


def sum_up(diagnosis: Diagnosis, fast: FastKernels, float_fast: FastKernels) -> tuple[str, ...]:
    """Return the result in sentences.

    They say how far the answers differ, which layers cause it and why, and what is slow.
    """
    noise = ""
    if diagnosis.output_snr_db is not None:
        noise = f", SNR {diagnosis.output_snr_db:.0f} dB"
    head = (
        f"it answers as the float file does on {diagnosis.agreement:.0%} of {diagnosis.images}"
        f" images{noise}"
    )
    sentences = [head, *_describe_weak(diagnosis), *_describe_slow(fast, float_fast)]
    if len(sentences) == 1:
        sentences.append(
            "no layer is to blame and none is left to slower kernels: this form is sound"
        )
    return tuple(sentences)


def _describe_weak(diagnosis: Diagnosis) -> Iterator[str]:
    weak = [layer for layer in diagnosis.worst(len(diagnosis.layers)) if layer.cause]
    for layer in weak[:NAMED]:
        yield (
            f"{layer.name} ({layer.operator}, operator {layer.index}): SNR {layer.own_snr_db:.0f}"
            f" dB; {layer.cause}"
        )
    if len(weak) > NAMED:
        yield f"{len(weak) - NAMED} more layers stand below {WEAK_DB:.0f} dB by themselves"
    integers = any(layer.weights and layer.weights not in _FLOATS for layer in diagnosis.layers)
    remedy = ""
    if integers:
        remedy = "; training with it (qat_int8) or int16x8 helps, where answers are lost"
    noisy = [layer for layer in diagnosis.layers if layer.snr_db is not None]
    lowest = min(noisy, key=_snr_or_infinity, default=None)
    if not weak and lowest is not None and _snr_or_infinity(lowest) < FAINT_DB:
        yield (
            f"no layer is to blame alone: the noise of {len(diagnosis.layers)} layers adds up,"
            f" down to {_snr_or_infinity(lowest):.0f} dB at {lowest.name}{remedy}"
        )


def _snr_or_infinity(layer: DiagnosedLayer) -> float:
    return layer.snr_db if layer.snr_db is not None else float("inf")


def _describe_slow(fast: FastKernels, float_fast: FastKernels) -> Iterator[str]:
    """Yield what the CPU's fast kernels run less of than of the float file."""
    # The form is only to blame for what the float file does not have as well.
    takes_as_much = fast.share >= float_fast.share - _LEFT
    if takes_as_much and fast.pieces <= float_fast.pieces:
        return
    reasons = [f"{reason} ({count}x)" for reason, count in fast.reasons.items()]
    more = ""
    if len(reasons) > NAMED:
        more = f" and {len(reasons) - NAMED} other reasons"
    yield (
        f"slower: {fast.title} takes {fast.share:.0%} of its arithmetic in"
        f" {fast.pieces} pieces, of float {float_fast.share:.0%} in"
        f" {float_fast.pieces}: {'; '.join(reasons[:NAMED])}{more}"
    )


def _show(ends: tuple[float, float]) -> str:
    return f"{ends[0]:.3g} to {ends[1]:.3g}"
