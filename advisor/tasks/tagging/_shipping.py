"""The content of a bundle of a tagger."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from advisor.exporting import Found, Page, ShippedModel, Shipping
from advisor.tasks.classification._files import classify_images
from advisor.tasks.tagging._files import LEAST


def find_tags(outputs: Sequence[Any], model: ShippedModel) -> tuple[Found, ...]:
    """Return the labels of a photograph that reach the threshold, the highest score first."""
    (row,) = outputs
    best = sorted(zip(model.labels, row.tolist(), strict=True), key=lambda pair: -pair[1])
    return tuple(Found(label, score) for label, score in best if score >= model.thresholds.least(label))


SHIPPING = Shipping(
    "gives images their labels",
    "scores",
    "tagger_card.md.j2",
    {"android": "android/Tagger.kt", "ios": "ios/Tagger.swift", "python": "python/tag.py"},
    "",
    classify_images,
    find_tags,
    page=Page("templates/tags.js", {"least": LEAST}, __package__),
    least=LEAST,
    said=lambda answers, _least: ", ".join(answer.label for answer in answers) or "no label",
    package=__package__,
)
