"""Say what a bundle of a detector, and of a counter, has beside the model.

``advisor export`` reads :data:`SHIPPING` or :data:`COUNTER`: templates of code, the page for
browsers, and the functions of ``_answers.py``, which make test vectors and say what an app shows.
"""

from __future__ import annotations

from dataclasses import replace

from advisor.measurement import box_matches
from advisor.reporting import Page, Shipping
from advisor.tasks._judge import PALETTE
from advisor.tasks.detection._answers import (
    detect_objects,
    find_boxes,
    find_centre_points,
    mark_map,
)
from advisor.tflite import CENTRE_DISTANCE, Suppression

PAGE = Page(
    "templates/objects.js",
    {"palette": PALETTE, "near": CENTRE_DISTANCE},
    __package__,
    "Which objects are in the image?",
    bars="Highest score of each class",
)

SHIPPING = Shipping(
    does="finds objects in images",
    answers="boxes",
    card="detector_card.md.j2",
    snippets={
        "android": "android/Detector.kt",
        "ios": "ios/Detector.swift",
        "python": "python/detect.py",
    },
    answering=detect_objects,
    found=find_boxes,
    page=PAGE,
    least=Suppression().score,
)

COUNTER = Shipping(
    does="counts objects in images",
    answers="scores",
    card="counter_card.md.j2",
    snippets={
        "android": "android/Counter.kt",
        "ios": "ios/Counter.swift",
        "python": "python/count.py",
    },
    answering=mark_map,
    found=find_centre_points,
    page=replace(PAGE, title="How many objects are in the image?"),
    least=box_matches.LEAST_SCORE,
)
