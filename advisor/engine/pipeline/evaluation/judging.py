"""Define what turns the answers of a file on images into its accuracy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from advisor.core.evaluation import Evaluation
from advisor.engine.pipeline.evaluation.accuracy import AccuracyVerdict
from advisor.engine.pipeline.images import Images
from advisor.store import RunFolder

HeldOut = tuple[Evaluation, Mapping[str, Sequence[float]]]
"""An evaluation with its hold-out figures, and what is to be kept for each image, by its path in the run."""


class Scored(NamedTuple):
    """Answers on the validation part.

    Attributes:
        own: what the file answered.
        floats: what the float32 file of the same card answered.
        folds: what the float head answered on the training part, each image by a head of other folds; None if the
            file's head was not cross-validated.
    """

    own: Path
    floats: Path
    folds: Path | None = None


class Judge(Protocol):
    """Turns answers of files into figures."""

    def verdict(self, scored: Scored, images: Images, run: RunFolder, name: str) -> AccuracyVerdict:
        """Return the accuracy on the validation part and the loss against float32.

        Args:
            scored: what the files of the card answered.
            images: the user's images.
            run: keeps answers for comparisons.
            name: of the file, for its answers.
        """

    def held_out(self, evaluation: Evaluation, own: Path, images: Images, file: str = "") -> HeldOut:
        """Return an evaluation with the accuracy of its file on the hold-out, and the answers to keep.

        Args:
            evaluation: the finalist.
            own: what its file answered.
            images: the user's images.
            file: path of the answers in the run, if they are kept.
        """


def shares_name(name: str) -> str:
    """Return the name of the shares beside the answers ``name``."""
    return f"{name}-shares"
