"""The kinds of children that a search has, and what callers know of them."""

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
"""Memory that a job of each kind is expected to take; a conversion takes more for each value of the model. A job
begins when as much is free."""


class Children(Protocol):
    """Runs functions by name in other processes; safe to call from several threads."""

    def call(
        self, function: str, *args: Any, limits: Limits | None = None, pause: Pause | None = None, **kwargs: Any
    ) -> Any:
        """Call ``module:function``; see :meth:`advisor.isolation.worker.Worker.call` for what it raises."""

    @property
    def peak_bytes(self) -> int:
        """The most resident memory that any child was seen with."""

    def close(self) -> None:
        """End every child, also the busy ones."""


def trainers(log: Path | None) -> ChildPool:
    """Return the children that train: they see the GPU, where there is one, and end with this process when paused.

    oneDNN's kernels take two thirds of the time of TensorFlow's own for a step of fine-tuning EfficientNet-Lite0; the
    other children do without, as its answers differ in the last digits from one processor to the next.
    """
    seen = os.environ.get("CUDA_VISIBLE_DEVICES")
    return ChildPool(log, {**ENDS_WITH_PARENT, "CUDA_VISIBLE_DEVICES": seen, "TF_ENABLE_ONEDNN_OPTS": "1"})


def workers(log: Path | None) -> ChildPool:
    """Return the children that do all else; they end with this process when paused."""
    return ChildPool(log, ENDS_WITH_PARENT)


POOLS: Mapping[str, Callable[[Path | None], ChildPool]] = {LIGHT: workers, HEAVY: workers, TRAINERS: trainers}
"""What each kind of children is: without TensorFlow, with it, and with it to train."""
