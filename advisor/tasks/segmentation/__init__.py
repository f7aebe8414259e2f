"""Semantic segmentation: a class for each pixel of an image.

``SEGMENTATION`` states the facts of the task. Read ``_task.py`` first (its methods), then
``_images.py`` (what is read and checked), ``_jobs.py`` (how a file runs), ``_judging.py``
(figures), ``_drawing.py``, ``_answers.py`` and ``_shipping.py`` (bundle). The decoder is in
``training/_on_maps/pixels.py``.
"""

from __future__ import annotations

from advisor.core import Gain, TrainingName
from advisor.tasks.segmentation._task import Segmentation

SEGMENTATION = Segmentation(
    name="segmentation",
    model_kind="Image segmenter",
    metric="mean IoU",
    by_class="IoU",
    by_class_is="pixels of a class in both masks, over those in either",
    default=(TrainingName.HEAD, TrainingName.FINETUNE_ALL),
    needs="images with masks",
    side=256,
    cards=4,
    conditions=True,
    robust=True,
    retrains=True,
    gain=Gain(0.2, 0.1),
    judging_s=0.04,
)
"""Gain of fine-tuning: 23 % of the errors of a decoder on a validation part
of magnetic tiles (decision 0126).
"""
