"""Say what a bundle of a classifier has beside the model.

``advisor export`` reads :data:`SHIPPING`: templates of code, the page for browsers, and the
functions of ``_answers.py``, which make test vectors and say what an app shows.
"""

from __future__ import annotations

from advisor.reporting import Page, Shipping
from advisor.tasks.classification._answers import classify_images, find_classes

SHIPPING = Shipping(
    does="classifies images",
    answers="probabilities",
    card="classifier_card.md.j2",
    snippets={
        "android": "android/Classifier.kt",
        "ios": "ios/Classifier.swift",
        "python": "python/classify.py",
    },
    edgetpu="edgetpu/classify_edgetpu.py",
    answering=classify_images,
    found=find_classes,
    coreml=True,
    page=Page("classes.js"),
    said=lambda labels, least: (
        labels[0].label if labels and labels[0].score >= least else "unknown"
    ),
)
