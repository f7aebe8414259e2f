"""Features of a ``.tflite`` file that its latency depends on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, dataclass


@dataclass(frozen=True)
class Traits:
    """Shape of an architecture, each 0 (absent) to 1 (everywhere).

    Attributes:
        depthwise: share of the convolution blocks that are depthwise.
        grouped: share that are grouped.
        attention: matrix products between activations.
        smooth: activations other than ReLU (swish, GELU, sigmoid), which some accelerators lack.
        squeeze_excite: global pooling inside the blocks.
        branches: concatenations and splits.
    """

    depthwise: float = 0.0
    grouped: float = 0.0
    attention: float = 0.0
    smooth: float = 0.0
    squeeze_excite: float = 0.0
    branches: float = 0.0

    @property
    def values(self) -> tuple[float, ...]:
        """The six shares in a fixed order."""
        return astuple(self)


@dataclass(frozen=True)
class FileFeatures:
    """Features of a ``.tflite`` file that its latency depends on.

    Attributes:
        macs: multiply-accumulates of one run.
        parameters: elements of all weights.
        input_size: side of the square input, pixels.
        layers: operators, without those that only change the form of a tensor.
        form: how most of the multiply-accumulates are computed: ``float32``, ``float16`` (halved weights),
            ``weight_int8``, ``dynamic_int8``, ``int8`` or ``int16x8``.
        arena_bytes: memory of the activations.
        operators: how many of each kind.
        traits: shape of the architecture.
        weight_bytes: all constants as stored; 0 where this was not read.
        held_bytes: memory that the CPU's kernels need for the constants besides: packed into their own order, widened
            where the arithmetic is wider than the stored form.
        micro_arena_bytes: tensor arena of TensorFlow Lite Micro; 0 where this was not computed.
    """

    macs: int
    parameters: int
    input_size: int
    layers: int
    form: str
    arena_bytes: int
    operators: Mapping[str, int]
    traits: Traits
    weight_bytes: int = 0
    held_bytes: int = 0
    micro_arena_bytes: int = 0
