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

_MACS_PER_BYTE = 2.5
"""Float32 multiply-accumulates of XNNPACK on Arm for each byte
that the memory moves for one core.

Its kernels compute four to six rows at once (``mr`` in google/XNNPACK, src/gemm-config.c) and do
not divide the weights into blocks for the caches. So they read the weights again and again, and
caches serve a part of these reads. Chosen for rates (:func:`find_rates`) on detectors that five
Raspberry Pi boards ran on one to four threads, which are in no profile ("Boards by threads",
``docs/studies/latency.md``).
"""

_PROCESS_MACS_PER_BYTE = 5.0
"""The same where targets of all builds are compared (:func:`locate_cpus`). Chosen by eleven
machines, without those that judge ("The memory constant of the process",
``docs/studies/latency.md``).
"""

_OVERLAP = 1.5
"""Power in which the times of arithmetic and memory add up:
1 if one waits for the other, more if they overlap.

Chosen on Pixel 1 to 3a, Raspberry Pi 2, 3 and Zero W, and rows of ruy ("What a core copies",
``docs/studies/latency.md``).
"""

_IN_ORDER = 0.6
"""Part of its peak that a core reaches which issues in order and multiplies 128 bits at once,
relative to cores that issue out of order.

It cannot load as many numbers as it multiplies. A Cortex-A53 shows .60 of the part that a
Cortex-A72 and A73 reach with Paddle Lite, and .64 with ncnn, both on one thread.
"""

_VECTOR_MACS = 4.0  # Float32 multiply-accumulates of a vector of 128 bits


def locate_cpus(known: Sequence[Column], column: Column) -> tuple[Floats, Floats]:
    """Return the known CPUs (known, 5) and the target (1, 5)
    in standard deviations of the known ones.

    The last figure is the logarithm of the memory's bandwidth. Where it is not known, it is what
    the known CPUs have at the same speeds.
    """
    cpus = (*known, column)
    speeds = np.array([cpu.speed for cpu in cpus])
    figures = _find_bandwidths(cpus)
    if figures.any():
        limited = np.array(list(map(is_limited, cpus)))
        fed = _limit_arithmetic(cpus, speeds[:, 0], figures, _PROCESS_MACS_PER_BYTE)
        speeds[:, 0] = np.where(limited, fed, speeds[:, 0])
    features = np.column_stack([speeds, figures])
    centre = features[:-1].mean(axis=0)
    scale = np.maximum(features[:-1].std(axis=0), 1e-3)
    points = (features - centre) / scale
    return points[:-1], points[-1:]


def find_rates(known: Sequence[Column], column: Column) -> tuple[Floats, float]:
    """Return the log rates (known,) of the known CPUs and that of the target:
    10^9 multiply-accumulates of XNNPACK in float32 a second, up to a common factor.

    The rate of a core is its peak, or a part of it (:data:`_IN_ORDER`).
    """
    cpus = (*known, column)
    speeds = np.array([cpu.speed for cpu in cpus])
    a_clock = np.exp(speeds[:, 0] - speeds[:, 1])
    wide = a_clock >= _VECTOR_MACS - 0.5
    cores = speeds[:, 0] + np.where(wide, speeds[:, 3], 0.0) * np.log(_IN_ORDER)
    rates = _limit_arithmetic(cpus, cores, _find_bandwidths(cpus), _MACS_PER_BYTE)
    return rates[:-1], float(rates[-1])


def _find_bandwidths(cpus: Sequence[Column]) -> Floats:
    """Return the log bandwidths (cpus,) of the memories in GB/s; the last CPU is the target.

    All are 0 if too few are known.
    """
    speeds = np.array([cpu.speed for cpu in cpus])
    bandwidths = np.array([cpu.bandwidth for cpu in cpus])
    stated = bandwidths > 0
    taught = np.flatnonzero(stated[:-1])
    figures = np.zeros(len(bandwidths))
    if len(taught) < ENOUGH_TARGETS:
        return figures
    figures[stated] = np.log(bandwidths[stated])
    design = np.column_stack([np.ones(len(speeds)), speeds])
    trend = np.linalg.lstsq(design[taught], figures[taught], rcond=None)[0]
    return np.where(stated, figures, design @ trend)


def _limit_arithmetic(
    cpus: Sequence[Column], arithmetic: Floats, bandwidths: Floats, macs_per_byte: float
) -> Floats:
    """Return the log arithmetic (cpus,) that the memory of each CPU can feed;
    ``bandwidths`` (cpus,) are logs of GB/s.

    Weights of one byte mostly stay in the caches. The caches of x86 servers hold those of four
    bytes, too. The times of arithmetic and memory overlap in part (:data:`_OVERLAP`).
    """
    shares = np.array([cpu.memory_share for cpu in cpus])
    roof = bandwidths + np.log(shares * macs_per_byte)
    fed: Floats = -np.logaddexp(-_OVERLAP * arithmetic, -_OVERLAP * roof) / _OVERLAP
    return fed


def is_limited(cpu: Column) -> bool:
    """Return whether a target's kernels read float32 weights from the memory repeatedly."""
    return cpu.kernels == XNNPACK and cpu.precision != "int8" and not is_x86(cpu)
