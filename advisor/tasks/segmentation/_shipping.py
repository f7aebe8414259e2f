"""Say what a bundle of a segmenter has beside the model.

``advisor export`` reads :data:`SHIPPING`: templates of code, the page for browsers, and the
functions of ``_answers.py``, which make test vectors and say what an app shows.
"""

from __future__ import annotations

from advisor.datasets import BACKGROUND
from advisor.reporting import Page, Shipping
from advisor.tasks._judge import PALETTE
from advisor.tasks.segmentation._answers import find_areas, mask_images
from advisor.tasks.segmentation._drawing import colour_mask

SHIPPING = Shipping(
    does="tells the class of each pixel",
    answers="masks",
    card="segmenter_card.md.j2",
    snippets={
        "android": "android/Segmenter.kt",
        "ios": "ios/Segmenter.swift",
        "python": "python/segment.py",
    },
    answering=mask_images,
    found=find_areas,
    page=Page(
        "templates/masks.js",
        {"palette": PALETTE, "background": BACKGROUND},
        __package__,
        "What does each part of the image show?",
        bars="Share of the pixels",
    ),
    said=lambda answers, _least: ", ".join(answer.label for answer in answers) or "nothing",
    layer=lambda outputs, model: colour_mask(outputs[0].argmax(axis=-1), model.labels),
    package=__package__,
)
