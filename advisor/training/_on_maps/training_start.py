"""Say from which weights a training on maps starts, and when it ends.

Tasks make a :class:`TrainingStart`, and `train.py` reads it. The files ``head.npz`` and
``backbone.npz`` beside a float file are outputs of a stage, which a later training goes on from.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from advisor.training._loop import Reserve

# Beside a float file: the weights of its head, and of a backbone that learnt.
WEIGHTS = ("head.npz", "backbone.npz")


class TrainingStart(NamedTuple):
    """Start of a training, and its end."""

    # The float file of an earlier training, with :data:`WEIGHTS` beside it.
    path: Path | None = None
    # Of the backbone's layers that learn now, from the top; 0 for a frozen backbone.
    share: float = 0.0
    # The earlier one was of the same kind, see :meth:`.fit.Hyperparameters.going_on`.
    goes_on: bool = False
    # After which it ends with the epochs that it has then; None for no limit.
    seconds: float | None = None
    reserve: Reserve | None = None  # what the limit keeps for the work after it; None for no limit
    # Weights of a head for other classes, from which a new one starts.
    head_of_others: Path | None = None

    def weights(self) -> Iterator[list[NDArray[np.float32]]]:
        """Yield the arrays of each of :data:`WEIGHTS`; none for a file that is not there."""
        for name in WEIGHTS:
            file = self.path.with_name(name) if self.path else None
            if file is None or not file.exists():
                yield []
                continue
            with np.load(file, allow_pickle=False) as arrays:
                yield list(arrays.values())
