"""The content of a bundle of a classifier."""

from __future__ import annotations

from advisor.exporting import Page, Shipping
from advisor.tasks.classification._files import classify_images, find_classes

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
