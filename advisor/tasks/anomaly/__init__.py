"""Anomaly detection: whether an image shows something unusual, and where,
learnt from good images alone.
"""

from __future__ import annotations

from advisor.core import HEAD
from advisor.tasks.anomaly._task import Anomaly

ANOMALY = Anomaly(
    name="anomaly",
    model_kind="Anomaly detector",
    metric="AUROC",
    by_class="Found",
    by_class_is="share of the images of a kind of fault that are found",
    default=(HEAD,),
    needs="images of good things",
    guess=50.0,
    cards=4,
)
