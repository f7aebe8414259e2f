"""Keep the progress of a fine-tuning in the file that points to its last checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from advisor.core.codec import parse
from advisor.core.errors import UsageError
from advisor.store.jsonfile import read_json

STATE = "state.json"


@dataclass(frozen=True)
class FinetuneProgress:
    """Progress of a fine-tuning.

    Attributes:
        hyperparameters: of the training, without the time limit.
        history: loss, validation accuracy and seconds of each epoch.
        best_epoch: index of the best epoch, -1 for the start.
        best: its validation accuracy (0-1).
        start: validation accuracy before the first epoch (0-1).
        shortened: a time limit lowered the rate early, so that another limit must not continue from here.
    """

    hyperparameters: Mapping[str, object]
    history: tuple[Mapping[str, float], ...]
    best_epoch: int
    best: float
    start: float
    shortened: bool = False


def read_progress(folder: Path) -> FinetuneProgress | None:
    """Return the progress of the training with checkpoints in ``folder``; None if its state is missing or damaged."""
    try:
        found: FinetuneProgress = parse(FinetuneProgress, read_json(folder / STATE))
    except (UsageError, TypeError, ValueError):
        return None
    return found
