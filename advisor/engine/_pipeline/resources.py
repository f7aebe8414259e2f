"""Declare where the job of a stage runs, and which memory and time it may take.

A stage names its :class:`Resources`. The walker waits until they are free, calls the job in the
child process of its pool, and ends it at its limits. The values are in no cache key.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Self

from advisor.isolation import CallLimits, PoolKind

WORK_LIMITS = CallLimits(seconds=1800, memory_bytes=3_000_000_000)
TRAINING_LIMITS = CallLimits(seconds=3 * 3600)


class Pool(StrEnum):
    """The place of a job."""

    LIGHT = PoolKind.LIGHT.value  # A child process without TensorFlow
    HEAVY = PoolKind.HEAVY.value  # A child process with TensorFlow
    TRAINERS = PoolKind.TRAINERS.value  # A child process with TensorFlow that sees the GPU
    # One without TensorFlow that runs where nothing else wants a core
    SPARE = PoolKind.SPARE.value
    # The machine that the device is attached to, with nothing else running on it.
    DEVICE = "device"


@dataclass(frozen=True)
class Resources:
    """The resources of a stage while it runs.

    The expected memory must be free before its job begins; ``limits`` end it. A ``long`` job takes
    many minutes: it comes after all other jobs, keeps checkpoints and reports epochs.
    """

    pool: Pool = Pool.LIGHT
    memory_bytes: int = PoolKind.LIGHT.expected_bytes
    limits: CallLimits = WORK_LIMITS
    long: bool = False

    @classmethod
    def of_training(cls, memory_bytes: int, most_bytes: int) -> Self:
        """Return the resources of a training of hours: its expected memory, and the most."""
        return cls(Pool.TRAINERS, memory_bytes, replace(TRAINING_LIMITS, memory_bytes=most_bytes))

    @property
    def alone(self) -> bool:
        """True where the stage holds the whole machine."""
        return self.pool is Pool.DEVICE
