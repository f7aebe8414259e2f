"""Say what a bundle of a tagger has beside the model.

``advisor export`` reads :data:`SHIPPING`: templates of code, the test vectors (as of a
classifier), and what an app shows of an answer (:func:`find_tags`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from advisor.exporting import Found, Page, ShippedModel, Shipping
from advisor.tasks.classification._shipping import classify_images
from advisor.tasks.tagging._judging import LEAST


def find_tags(outputs: Sequence[Any], model: ShippedModel) -> tuple[Found, ...]:
    """Return the labels of a photograph that reach the threshold, the highest score first."""
    (row,) = outputs
    surest = sorted(zip(model.labels, row.tolist(), strict=True), key=lambda pair: -pair[1])
    tags = []
    for label, score in surest:
        if score >= model.thresholds.least(label):
            tags.append(Found(label, score))
    return tuple(tags)


SHIPPING = Shipping(
    does="gives images their labels",
    answers="scores",
    card="tagger_card.md.j2",
    snippets={
        "android": "android/Tagger.kt",
        "ios": "ios/Tagger.swift",
        "python": "python/tag.py",
    },
    answering=classify_images,
    found=find_tags,
    page=Page(
        "templates/tags.js",
        {"least": LEAST},
        __package__,
        "Which labels fit the image?",
        ("label",),
        "Score of each label, no probability",
    ),
    least=LEAST,
    said=lambda answers, _least: ", ".join(answer.label for answer in answers) or "no label",
    package=__package__,
)
