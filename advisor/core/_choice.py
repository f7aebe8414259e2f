"""The pick of the rule, and the facts that its reasons are made of.

:class:`.Chooser` makes a :class:`Choice`; ``_reasons.py`` turns it into sentences, and
``_decision.py`` into the answer. All sentences of an answer come from one choice, so that no two
of them disagree.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from advisor.core._evaluation import Evaluation


@dataclass(frozen=True)
class Choice:
    """A pick, and the facts that its reasons are made of."""

    pick: Evaluation  #: the chosen evaluation
    best: Evaluation  #: the most accurate one, of equal ones the fastest and smallest
    behind_points: float  #: by how many points the pick is behind it
    #: by how many it may be behind by chance: the standard error of the difference
    noise_points: float
    #: those that the images do not show to be behind the best one, and that one
    tied: tuple[Evaluation, ...]
    #: by key, how often (0-1) a file is chosen if images and timings are resampled: the pick,
    #: which no other file exceeds, and the fastest evaluation of each other file, the most
    #: frequent first.
    chances: Mapping[str, float] = field(default_factory=dict)
    #: what would be chosen, but has no figure on the hold-out, which the pick has.
    unjudged: Evaluation | None = None
    #: the cheapest of the tied ones,
    #: which another file replaces too often if images and timings are resampled.
    unsteady: Evaluation | None = None
