"""Anomaly detection: whether an image shows something unusual, and where.

It learns from good images alone. ``ANOMALY`` states the facts of the task. Read
``_task.py`` first (its methods), then ``_images.py`` (what is read and checked), ``_jobs.py``
(how a file runs), ``_judging.py`` (figures), ``_drawing.py`` and ``_shipping.py`` (bundle). What
is learnt is in ``training/_usual_maps.py``.
"""

from __future__ import annotations

from advisor.core import TrainingName
from advisor.tasks.anomaly._task import Anomaly

ANOMALY = Anomaly(
    name="anomaly",
    model_kind="Anomaly detector",
    metric="AUROC",
    by_class="Found",
    by_class_is="share of the images of a kind of fault that are found",
    default=(TrainingName.HEAD,),
    needs="images of good things",
    guess=50.0,
    cards=4,
)
