"""Say what a bundle of an anomaly detector has beside the model.

``advisor export`` reads :data:`SHIPPING`: templates of code, the test vectors (the scores of a
map, as of a counter), and what an app shows of an answer.
"""

from __future__ import annotations

from advisor.reporting import Found, Page, Shipping
from advisor.tasks.anomaly._drawing import HOT, LEAST, heat_png
from advisor.tasks.anomaly._images import ANOMALY, GOOD
from advisor.tasks.detection._answers import mark_map

SHIPPING = Shipping(
    does="finds anomalies in images",
    answers="maps",
    card="anomaly_card.md.j2",
    snippets={
        "android": "android/AnomalyDetector.kt",
        "ios": "ios/AnomalyDetector.swift",
        "python": "python/anomaly.py",
    },
    answering=mark_map,
    found=lambda outputs, _model: (Found(ANOMALY, float(outputs[0].max())),),
    page=Page(
        "templates/heat.js",
        {"least": LEAST, "hot": HOT, "good": GOOD[0]},
        __package__,
        "Is anything unusual in the image?",
        counted=(),
        bars=f"Score of the image, no probability: an anomaly from {LEAST:.0%} on".replace(
            "%", " %"
        ),
    ),
    least=LEAST,
    said=lambda answers, least: answers[0].label if answers[0].score >= least else "good",
    layer=lambda outputs, _model: heat_png(outputs[0][..., 0]),
    package=__package__,
)
