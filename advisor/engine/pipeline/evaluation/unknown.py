"""Images that a file with the class ``unknown`` answered: of its classes on the hold-out, and of other things."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from advisor.core.statistics import Interval, wilson
from advisor.core.unknown_facts import OtherThings, UnknownFacts

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.floating[Any]]


def with_answers(facts: UnknownFacts, holdout: Path, labels: Sequence[int], others: Path | None) -> UnknownFacts:
    """Return the facts with those of the file's answers.

    Args:
        facts: of the file.
        holdout: ``.npy`` of its probabilities on the hold-out, float32 (N, C + 1); the last column is that of unknown.
        labels: the true classes of the hold-out.
        others: the same of images of other things; None if there are none.
    """
    import numpy as np

    from advisor.measurement.unknown import auroc

    known = np.load(holdout, allow_pickle=False)
    answers, last = known.argmax(axis=1), known.shape[1] - 1
    kept, right = answers != last, answers == np.asarray(labels)
    found = replace(
        facts,
        kept=wilson(int(kept.sum()), len(kept)),
        precision=wilson(int(right.sum()), int(kept.sum())) if kept.any() else None,
    )
    if others is None:
        return found
    unknown = np.load(others, allow_pickle=False)
    share: Interval = wilson(int((unknown.argmax(axis=1) == last).sum()), len(unknown))
    return replace(found, others=OtherThings(share, auroc(_scores(known), _scores(unknown)), len(unknown)))


def _scores(probabilities: Floats) -> Floats:
    """Return by how much the logit of unknown exceeds the largest other one."""
    import numpy as np

    logits = np.log(np.maximum(probabilities, 1e-12))
    found: Floats = logits[:, -1] - logits[:, :-1].max(axis=1)
    return found
