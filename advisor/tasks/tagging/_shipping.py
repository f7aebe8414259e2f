"""The content of a bundle of a tagger."""

from __future__ import annotations

from advisor.exporting import Page, Shipping
from advisor.tasks.classification._files import classify_images
from advisor.tasks.tagging._files import LEAST, find_tags

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
