"""Object detection: a box and a class for each object in an image.

``DETECTION`` states the facts of the task. Read ``_task.py`` first (its methods), then
``_images.py`` (what is read and checked), ``_jobs.py`` and ``_stages.py`` (how a file runs, and
how its scores are calibrated), ``_judging.py`` (figures), ``_answers.py`` and
``_shipping.py`` (bundle), and ``_own.py`` (users' own detectors).
"""

from __future__ import annotations

from advisor.core import METRICS, Gain, OwnCards, TrainingName
from advisor.tasks.detection._task import Detection

DETECTION = Detection(
    name="object-detection",
    model_kind="Object detector",
    metric="mAP@0.5",
    by_class="AP@0.5",
    by_class_is="average precision of a class's boxes at an overlap of 0.5",
    default=(TrainingName.HEAD, TrainingName.FINETUNE_ALL),
    needs="images with boxes",
    right_if="A box is right if it overlaps a true one of its class by half.",
    metrics=tuple(name for name, metric in METRICS.items() if metric.of_boxes),
    side=320,
    cards=4,
    retrains=True,
    conditions=True,
    robust=True,
    other_conditions="on playing cards, another camera cost up to 11 points",
    gain=Gain(0.25, 0.25),
    judging_s=0.02,
    guarantees=("--min-precision", "--min-recall"),
    own_cards=OwnCards("tflite_detector", "tflite_fixed_detector"),
    whole_networks="detector_graph",
)
"""Cost of another camera: ``benchmarks/results/other_conditions.csv``. Gain of fine-tuning: 10, 26
and 48 % of the errors of a head on the validation parts of three sets with MobileNetV2, 45 % and
-22 % on one of them with EfficientNet-Lite0 and MobileNetV1 0.25 (decision 0126).

A detector trains for minutes, a head of a classifier for seconds. On the validation part of BCCD,
MobileNetV2 reaches an mAP@0.5 of 88.8 % at 320 pixels and of 84.4 % at 224, where the smallest
objects have 14 pixels.
"""
