"""Calibration of a classifier's probabilities and thresholds: chosen on validation, verified on the hold-out."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from advisor.core.confidence_facts import ConfidenceFacts, Mistake, Threshold
from advisor.engine.pipeline.images import Images, Role

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.floating[Any]]

MISTAKES = 24
"""Wrong answers of the hold-out that are kept."""

PROMISE = 0.95
"""Share of right answers that thresholds promise if the user asks for none."""


def chosen(probabilities: Path, images: Images, promise: float | None = None) -> ConfidenceFacts:
    """Return the temperature of a file, what it does, and the thresholds, all by the validation part.

    Figures with the temperature come from cross-fitting: each image is calibrated by others.

    Args:
        probabilities: ``.npy`` of the compared file, float32 (N, C).
        images: the user's images.
        promise: share (0-1) of right answers from a threshold on; None for :data:`PROMISE`.
    """
    import numpy as np

    from advisor.measurement.confidence import crossfitted, reachable, reliability, temperature, threshold

    rows, labels = np.load(probabilities, allow_pickle=False), np.asarray(images.part(Role.VALIDATION).labels)
    calibrated = crossfitted(rows, labels)
    before, after = reliability(rows, labels), reliability(calibrated, labels)
    sure, answers = calibrated.max(axis=1), calibrated.argmax(axis=1)
    right, wanted = answers == labels, PROMISE if promise is None else promise
    return ConfidenceFacts(
        temperature=temperature(rows, labels),
        error=after.error,
        error_before=before.error,
        brier=after.brier,
        brier_before=before.brier,
        bins=after.bins,
        promised=wanted,
        threshold=threshold(sure, right, wanted),
        by_class={
            name: threshold(sure[answers == label], right[answers == label], wanted)
            for label, name in enumerate(images.classes)
        },
        reachable=reachable(sure, right),
    )


def verified(probabilities: Path, images: Images, chosen: ConfidenceFacts) -> ConfidenceFacts:
    """Return the figures of the file that ships on the hold-out, at the temperature and thresholds that were chosen.

    Args:
        probabilities: ``.npy`` of the file that ships, whose head has the temperature, float32 (N, C).
        images: the user's images.
        chosen: by the validation part.
    """
    import numpy as np

    from advisor.measurement.confidence import at_score, reliability, tempered

    part = images.part(Role.HOLDOUT)
    rows, labels = np.load(probabilities, allow_pickle=False), np.asarray(part.labels)
    after, before = reliability(rows, labels), reliability(tempered(rows, 1 / chosen.temperature), labels)
    sure, answers = rows.max(axis=1), rows.argmax(axis=1)
    right = answers == labels
    places = {name: answers == label for label, name in enumerate(images.classes)}
    by_class: Mapping[str, Threshold | None] = {
        name: at_score(one.score, sure[place], right[place]) if (one := chosen.by_class.get(name)) else None
        for name, place in places.items()
    }
    return ConfidenceFacts(
        temperature=chosen.temperature,
        error=after.error,
        error_before=before.error,
        brier=after.brier,
        brier_before=before.brier,
        bins=after.bins,
        promised=chosen.promised,
        threshold=at_score(chosen.threshold.score, sure, right) if chosen.threshold else None,
        by_class=by_class,
        mistakes=tuple(
            Mistake(
                images.dataset.shown(part.paths[row]), part.hashes[row], int(labels[row]), int(answers[row]),
                float(sure[row]),
            )
            for row in np.argsort(-np.where(right, -1.0, sure), kind="stable")[: min(MISTAKES, int((~right).sum()))]
        ),
    )  # fmt: skip
