"""Keep how far a training is in a file of its checkpoints, which the search reads meanwhile.

The job calls :class:`EpochFile` after each epoch, in a child process. A stage names
:meth:`EpochFile.read` as its ``epochs``.
"""

import json
import time
from pathlib import Path

from advisor.engine._pipeline.stage import EpochCount
from advisor.store import write_atomically

FILE = "epochs.json"
"""In the folder of checkpoints: epochs done, all epochs, and the share of the seconds."""


class EpochFile:
    """Writes how far a training is, after each epoch; the work before the first one counts too."""

    def __init__(self, checkpoints: Path) -> None:
        checkpoints.mkdir(parents=True, exist_ok=True)
        self._file = checkpoints / FILE
        self._began = time.monotonic()
        self._first = 0.0
        self._file.unlink(missing_ok=True)  # of a training that was ended

    def __call__(self, done: int, epochs: int) -> None:
        """Write that so many of all epochs are done; with none, the first one begins."""
        now = time.monotonic()
        if not done:
            self._first = now
            return
        left_s = (epochs - done) * (now - self._first) / done
        row = done, epochs, (now - self._began) / (now - self._began + left_s)
        # The search reads this file from another process while the training writes it.
        write_atomically(self._file, json.dumps(row))

    @staticmethod
    def read(checkpoints: Path) -> EpochCount | None:
        """Return how far a training is, see :data:`.stage.Epochs`; None before its first epoch."""
        try:
            text = (checkpoints / FILE).read_text(encoding="utf-8")
            done, epochs, share = json.loads(text)
        except (OSError, ValueError, TypeError):
            return None
        return done, epochs, share
