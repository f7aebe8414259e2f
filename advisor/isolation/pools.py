"""The kinds of child processes that a search uses."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from advisor.isolation.pause import ENDS_WITH_PARENT, Pause
from advisor.isolation.pool import ChildPool
from advisor.isolation.worker import Limits

LIGHT, HEAVY, TRAINERS = "light", "heavy", "trainers"

EXPECTED_BYTES: Mapping[str, int] = {LIGHT: 400_000_000, HEAVY: 700_000_000, TRAINERS: 2_500_000_000}
"""Memory that a job of each kind is expected to take, in bytes. A conversion takes more for each value of the model. A
job starts when this much memory is free."""


class Children(Protocol):
    """Runs functions by name in other processes; several threads may call it."""

    def call(self, function: str, *args: object, limits: Limits | None = None, pause: Pause | None = None) -> Any:
        """Call ``module:function`` and return its value; :meth:`Worker.call` lists the errors."""

    @property
    def peak_bytes(self) -> int:
        """The highest resident memory of any child, in bytes."""

    def close(self) -> None:
        """End every child, also those that work."""


def trainers(log: Path | None) -> ChildPool:
    """Return a pool for training: its children see the GPU if there is one, and end with this process when paused.

    They use oneDNN, which takes two thirds of the time of TensorFlow's own kernels for a step of fine-tuning
    EfficientNet-Lite0. Other children do not, because its results differ in the last digits between processors.
    """
    seen = os.environ.get("CUDA_VISIBLE_DEVICES")
    return ChildPool(log, {**ENDS_WITH_PARENT, "CUDA_VISIBLE_DEVICES": seen, "TF_ENABLE_ONEDNN_OPTS": "1"})


def workers(log: Path | None) -> ChildPool:
    """Return a pool for all other jobs; its children end with this process when paused."""
    return ChildPool(log, ENDS_WITH_PARENT)


POOLS: Mapping[str, Callable[[Path | None], ChildPool]] = {LIGHT: workers, HEAVY: workers, TRAINERS: trainers}
"""How to make the pool of each kind: without TensorFlow, with TensorFlow, and with TensorFlow for training."""
