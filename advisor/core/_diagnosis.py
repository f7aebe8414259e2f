"""Define the result of a diagnosis: why a quantized file is worse than its float file.

`compression/_diagnosis/` makes it, a search stores it as `diagnosis.json`, and reports show it:
the names of the fields are keys of that document, and a change needs another ``schema_version``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from advisor.core._codec import Written


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

    def with_channels(
        self, ends: Mapping[int, tuple[Sequence[float], Sequence[float]]]
    ) -> Diagnosis:
        """Return the diagnosis with the least and the greatest values of channels,
        by the index of their layer.
        """
        channels = []
        for index, (least, most) in ends.items():
            channels.append(Channels(index, tuple(least), tuple(most)))
        return replace(self, channels=tuple(channels))

    def worst(self, count: int = 10) -> tuple[DiagnosedLayer, ...]:
        """Return the layers that lose most by themselves, the worst first."""
        known = [layer for layer in self.layers if layer.own_snr_db is not None]
        return tuple(sorted(known, key=lambda layer: layer.own_snr_db or 0.0)[:count])
