"""Anomaly detection: whether an image shows something unusual, and where, learnt from good images alone."""

from __future__ import annotations

from advisor.core import HEAD
from advisor.tasks.anomaly._task import Anomaly

ANOMALY = Anomaly(
    "anomaly",
    "Anomaly detector",
    "AUROC",
    "Found",
    "share of the images of a kind of fault that are found",
    (HEAD,),
    "images of good things",
    cards=4,
)
