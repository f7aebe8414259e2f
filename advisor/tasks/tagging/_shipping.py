"""Say what a bundle of a tagger has beside the model.

``advisor export`` reads :data:`SHIPPING`: templates of code, the page for browsers, and the
functions of ``_answers.py``, which make test vectors and say what an app shows.
"""

from __future__ import annotations

from advisor.reporting import Page, Shipping
from advisor.tasks.classification._answers import classify_images
from advisor.tasks.tagging._answers import find_tags
from advisor.tasks.tagging._judging import LEAST

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
