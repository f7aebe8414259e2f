"""One metric of a classifier's answers, or of a detector's boxes, as a value.

``_metrics.py`` lists them. Their names are values of ``--metric`` and keys of
``evaluations.jsonl``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True)
class Metric:
    """One metric of a classifier's answers, or of a detector's boxes, in %: higher is better."""

    # Names of the metrics that code asks for.
    TOP1: ClassVar[str] = "top1"
    BALANCED_ACCURACY: ClassVar[str] = "balanced-accuracy"
    MACRO_F1: ClassVar[str] = "macro-f1"
    TOP5: ClassVar[str] = "top5"
    LOG_LOSS: ClassVar[str] = "log-loss"
    COST_SAVED: ClassVar[str] = "cost-saved"
    WORST_GROUP: ClassVar[str] = "worst-group"

    name: str  #: as users write it
    label: str  #: in sentences and tables
    meaning: str  #: what it is, in words
    of_boxes: bool = False  #: it judges a detector's boxes, and not a classifier's answers
    #: sides in pixels of the photograph of squares between whose areas an object counts; None:
    #: each object counts.
    sides: tuple[float, float] | None = None
