"""Precision, recall and coverage that a user asks of a classifier's thresholds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Shares:
    """A wanted share for all classes, and wanted shares of single classes.

    Attributes:
        plain: share (0-1) for each class without a share in ``by_class``; None for no wish.
        by_class: share (0-1) by the name of a class.
    """

    plain: float | None = None
    by_class: Mapping[str, float] = field(default_factory=dict)

    def __bool__(self) -> bool:
        """Return whether anything is wanted."""
        return self.plain is not None or bool(self.by_class)

    def of(self, name: str) -> float | None:
        """Return the share (0-1) that is wanted of a class; None for no wish."""
        return self.by_class.get(name, self.plain)


@dataclass(frozen=True)
class Guarantees:
    """Shares that thresholds must guarantee, with a probability of 95 %, for as many new images as the hold-out has.

    Attributes:
        precision: of the answers from the threshold on, the share that is right.
        recall: of the images of a class, the share whose probability of that class reaches its threshold.
        coverage: share (0-1) of all images that have an answer from the threshold on; None for no wish.
    """

    precision: Shares = field(default_factory=Shares)
    recall: Shares = field(default_factory=Shares)
    coverage: float | None = None

    @property
    def options(self) -> tuple[str, ...]:
        """The options that ask for them."""
        wanted = {
            "--min-precision": bool(self.precision),
            "--min-recall": bool(self.recall),
            "--min-coverage": self.coverage is not None,
        }
        return tuple(option for option, asked in wanted.items() if asked)


NO_GUARANTEES = Guarantees()
