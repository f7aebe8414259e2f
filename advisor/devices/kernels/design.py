"""List the operators that ``devices calibrate --kernels`` times: sizes that span those of mobile networks."""

from __future__ import annotations

import math
from collections.abc import Iterator

from advisor.tflite.work import CONVOLUTION, DENSE, DEPTHWISE, Work

MOST_COPIES = 8
"""Copies of a small operator in its file, at most: with several, the cost of a call of the interpreter is small."""

_ENOUGH = 1_500_000
"""Multiply-accumulates and values of a file that need no further copy: about 50 microseconds on a fast core."""

_FAR_WEIGHTS, _MOST_FAR = 3_000_000, 32
"""Weights of a file, and its most copies, with which weights come from as far away as in a network. The copies' weights
take turns, so a cache of a core (1 to 2 MB) does not hold them."""

_MOST_MACS, _MOST_WRITTEN = 200_000_000, 1_000_000
"""Multiply-accumulates and written values of a file that allow no further copy for its weights: boards run 0.3 to 10
billion MACs a second, and outputs should not fill the caches."""

_COLOURS = 3
_VALUE = 20
"""Multiply-accumulates in the time that one value takes to be read or written."""

# Side of the output, output channels, input channels.
_POINTWISE = (
    (112, 144, 24), (96, 48, 16), (96, 16, 32), (56, 8, 48), (48, 72, 24), (48, 24, 144), (28, 512, 256),
    (28, 128, 224), (24, 192, 32), (16, 32, 144), (14, 96, 576), (12, 512, 512), (12, 480, 80), (12, 128, 128),
    (8, 1280, 320), (7, 1024, 1024), (6, 192, 1152), (5, 1024, 1024), (4, 1152, 192),
)  # fmt: skip

# Side of the output, output channels, input channels, positions of the kernel, stride.
_WINDOWED = (
    (112, 32, 3, 9, 2), (112, 64, 3, 49, 2), (96, 16, 3, 9, 2), (56, 64, 64, 9, 1), (35, 64, 48, 25, 1),
    (28, 96, 96, 9, 1), (17, 256, 224, 9, 2), (17, 192, 160, 7, 1), (14, 192, 48, 9, 1), (8, 384, 384, 3, 1),
    (7, 512, 512, 9, 1),
)  # fmt: skip

# Side of the output, channels, positions of the kernel, stride.
_DEPTHWISE = (
    (80, 32, 9, 1), (56, 96, 9, 2), (80, 8, 9, 1), (56, 24, 9, 2), (48, 16, 9, 1), (40, 128, 9, 1),
    (40, 64, 9, 2), (28, 96, 25, 2), (28, 40, 25, 1), (14, 816, 9, 1), (14, 624, 25, 1), (14, 480, 9, 1),
    (14, 384, 9, 1), (14, 200, 9, 1), (14, 192, 25, 1), (14, 128, 25, 1), (10, 256, 9, 2), (8, 576, 9, 1),
    (7, 960, 9, 1), (7, 288, 25, 2), (6, 1152, 25, 1),
)  # fmt: skip

# Outputs, inputs.
_DENSE = ((1000, 2048), (1001, 1024), (144, 576), (288, 72), (40, 144))

# Side of the output, channels.
_ELEMENTWISE = {
    "ADD": ((56, 64), (28, 32), (10, 232)),
    "MUL": ((56, 64), (14, 384)),
    "HARD_SWISH": ((112, 16), (14, 192)),
    "LOGISTIC": ((56, 64), (14, 192)),
    "RELU": ((56, 64), (14, 192)),
    "RESHAPE": ((56, 64), (14, 192)),
    "TRANSPOSE": ((56, 64), (14, 192)),
}

# Side of the output, channels, positions of the window, stride.
_POOLS = {
    "AVERAGE_POOL_2D": ((35, 192, 9, 1), (14, 64, 9, 1)),
    "MAX_POOL_2D": ((56, 64, 9, 2), (14, 192, 9, 2)),
}


def design() -> tuple[Work, ...]:
    """Return the operators to time."""
    return tuple(_works())


def copies_of(work: Work) -> int:
    """Return how often the file of an operator has it.

    The operator that reads the image finds neither it nor room for its output in the caches, since all others ran in
    between. With several copies, each with an output of its own, its kernel does not either. A runtime packs the
    weights of each copy by themselves, so the weights of many copies are in no near cache either.
    """
    if work.kind == CONVOLUTION and work.depth == _COLOURS:
        return MOST_COPIES
    size = work.macs * (work.weights > 0) + _VALUE * (work.read + work.written)
    copies = max(1, min(MOST_COPIES, round(_ENOUGH / size)))
    if work.kind in (CONVOLUTION, DENSE):
        far = min(math.ceil(_FAR_WEIGHTS / work.weights), _MOST_FAR)
        copies = max(copies, min(far, _MOST_MACS // work.macs, _MOST_WRITTEN // work.written))
    return copies


def _works() -> Iterator[Work]:
    for side, channels, depth in _POINTWISE:
        yield Work(CONVOLUTION, side**2, channels, depth, read=side**2 * depth)
    for side, channels, depth, taps, stride in _WINDOWED:
        yield Work(CONVOLUTION, side**2, channels, depth, taps, stride, (side * stride) ** 2 * depth)
    for side, channels, taps, stride in _DEPTHWISE:
        yield Work(DEPTHWISE, side**2, channels, 1, taps, stride, (side * stride) ** 2 * channels)
    for channels, depth in _DENSE:
        yield Work(DENSE, 1, channels, depth, read=depth)
    for kind, sizes in _ELEMENTWISE.items():
        for side, channels in sizes:
            yield Work(kind, side**2, channels, read=side**2 * channels * (2 if kind in ("ADD", "MUL") else 1))
    for kind in ("ADD", "MUL"):  # of a vector, as a normalization or a squeeze-and-excite has it
        for side, channels in ((28, 128), (14, 320)):
            yield Work(kind, side**2, channels, read=side**2 * channels)
    for kind, windows in _POOLS.items():
        for side, channels, taps, stride in windows:
            yield Work(kind, side**2, channels, 1, taps, stride, (side * stride) ** 2 * channels)
    for side, channels in ((56, 64), (14, 192)):
        yield Work("PAD", (side + 2) ** 2, channels, read=side**2 * channels)
    for side, channels in ((28, 64), (8, 448)):
        yield Work("CONCATENATION", side**2, 2 * channels, read=2 * side**2 * channels)
    for side, channels in ((7, 1280), (28, 96)):
        yield Work("MEAN", 1, channels, read=side**2 * channels)
    yield Work("SOFTMAX", 1, 1000, read=1000)
