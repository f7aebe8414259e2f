"""The content of a bundle of a detector."""

from __future__ import annotations

from dataclasses import replace

from advisor.exporting import Shipping
from advisor.measurement import box_matches
from advisor.tasks.detection._files import (
    PAGE,
    detect_objects,
    find_boxes,
    find_centre_points,
    mark_map,
)
from advisor.tflite import Suppression

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
