"""Locate CPUs by what they could compute:
their arithmetic, clocks, threads, order of issue and memory.

``placement.py`` compares a target with the measured CPUs at these points. Nothing of it is on
disk; a constant moves the prediction of every device without measurements, so judge a change by
``python -m benchmarks latency_prediction``.
"""

from collections.abc import Sequence

import numpy as np

from advisor.devices._latency.model_space import Floats
from advisor.devices._latency.table import XNNPACK, Column, is_x86

ENOUGH_TARGETS = 8  # With fewer known targets, nothing is learnt from them

_MACS_PER_BYTE = 5.0
"""Float32 multiply-accumulates of XNNPACK on Arm for each byte
of weights that the memory delivers.

Its kernels compute four to six rows at once (``mr`` in google/XNNPACK, src/gemm-config.c) and do
not divide the weights into blocks for the caches. So four bytes serve six multiply-accumulates
each time they are read, and most reads are served by a cache.
"""

_OVERLAP = 1.5
"""Power in which the times of arithmetic and memory add up:
1 if one waits for the other, more if they overlap.

This and the constant above were chosen on Pixel 1 to 3a, Raspberry Pi 2, 3 and Zero W, and rows of
ruy ("What a core copies", ``docs/studies/latency.md``).
"""


def locate_cpus(known: Sequence[Column], column: Column) -> tuple[Floats, Floats]:
    """Return the known CPUs (known, 5) and the target (1, 5)
    in standard deviations of the known ones.

    The last figure is the logarithm of the memory's bandwidth. Where it is not known, it is what
    the known CPUs have at the same speeds.
    """
    cpus = (*known, column)
    speeds = np.array([cpu.speed for cpu in cpus])
    bandwidths = np.array([cpu.bandwidth for cpu in cpus])
    stated = bandwidths > 0
    taught = np.flatnonzero(stated[:-1])  # The last row is the target
    figures = np.zeros(len(bandwidths))
    if len(taught) >= ENOUGH_TARGETS:
        figures[stated] = np.log(bandwidths[stated])
        design = np.column_stack([np.ones(len(speeds)), speeds])
        trend = np.linalg.lstsq(design[taught], figures[taught], rcond=None)[0]
        figures = np.where(stated, figures, design @ trend)
        speeds[:, 0] = _limit_arithmetic(cpus, speeds[:, 0], figures)
    features = np.column_stack([speeds, figures])
    centre = features[:-1].mean(axis=0)
    scale = np.maximum(features[:-1].std(axis=0), 1e-3)
    points = (features - centre) / scale
    return points[:-1], points[-1:]


def _limit_arithmetic(cpus: Sequence[Column], arithmetic: Floats, bandwidths: Floats) -> Floats:
    """Return the log arithmetic (cpus,) that the memory of each CPU can feed;
    ``bandwidths`` (cpus,) are logs of GB/s.

    Weights of one byte mostly stay in the caches. The caches of x86 servers hold those of four
    bytes, too. The times of arithmetic and memory overlap in part (:data:`_OVERLAP`).
    """
    limited = np.array(list(map(is_limited, cpus)))
    shares = np.array([cpu.memory_share for cpu in cpus])
    roof = bandwidths + np.log(shares * _MACS_PER_BYTE)
    joined = -np.logaddexp(-_OVERLAP * arithmetic, -_OVERLAP * roof) / _OVERLAP
    fed: Floats = np.where(limited, joined, arithmetic)
    return fed


def is_limited(cpu: Column) -> bool:
    """Return whether a target's kernels read float32 weights from the memory repeatedly."""
    return cpu.kernels == XNNPACK and cpu.precision != "int8" and not is_x86(cpu)
