"""Check the user's images for a task."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from advisor.core.names import require_known
from advisor.core.tasks import IMAGE_CLASSIFICATION, OBJECT_COUNTING, OBJECT_DETECTION
from advisor.engine.data_check.classification import check_images
from advisor.engine.data_check.detection import check_detection
from advisor.engine.data_check.label_checker import LabelChecker
from advisor.engine.data_check.result import DataCheck, Say

CHECKS: Mapping[str, Callable[[Path, LabelChecker | None, Say], DataCheck]] = {
    IMAGE_CLASSIFICATION: check_images,
    OBJECT_DETECTION: check_detection,
    OBJECT_COUNTING: check_detection,
}
"""Functions that check the images, by task."""


def check_data(
    path: Path,
    checker: LabelChecker | None,
    say: Say = lambda _text: None,
    task: str = IMAGE_CLASSIFICATION,
) -> DataCheck:
    """Check a data set in any layout of its task; it is not changed.

    Args:
        path: a folder or a file.
        checker: finds wrong labels and crops by a network's features; None to look for neither.
        say: called with a line about each step.
        task: a name in :data:`CHECKS`.

    Raises:
        UsageError: an unknown task, the path does not exist or cannot be read, or the card is unknown.
    """
    return CHECKS[require_known("--task", task, tuple(CHECKS))](path, checker, say)
