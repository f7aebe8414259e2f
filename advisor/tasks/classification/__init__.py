"""Image classification: one class for each image.

``CLASSIFICATION`` states the facts of the task. Read ``_task.py`` first (its methods), then
``_images.py`` (what is read and checked), ``_judging.py`` (figures), ``_growth.py`` (more images),
``_answers.py`` and ``_shipping.py`` (bundle), and ``_own.py`` (users' own classifiers).
"""

from __future__ import annotations

from advisor.core import METRICS, OwnCards
from advisor.tasks._task import USUAL_TRAININGS
from advisor.tasks.classification._task import Classification

CLASSIFICATION = Classification(
    name="image-classification",
    model_kind="Image classifier",
    metric="top-1",
    by_class="Recall",
    by_class_is="share of a class's images that were recognised",
    default=USUAL_TRAININGS,
    metrics=tuple(name for name, metric in METRICS.items() if not metric.of_boxes),
    published=True,
    guarantees=("--min-precision", "--min-recall", "--min-coverage"),
    other_conditions=(
        "on groceries, another visit cost fine-tuned networks 2 to 6 points, and heads 10 to 16"
    ),
    conditions=True,
    robust=True,
    labelled=True,
    linear=True,
    retrains=True,
    probabilities=True,
    tunable=True,
    own_cards=OwnCards("tflite_file", "tflite_fixed", trained=True),
)
"""Cost of another visit: validation against the official test of grocery, in
``benchmarks/results/anytime.csv`` and ``accuracy_expectation.csv``.
"""
