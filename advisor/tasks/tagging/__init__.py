"""Image tagging: any number of labels for each image."""

from __future__ import annotations

from advisor.core import HEAD, OwnCards
from advisor.tasks.tagging._task import Tagging

TAGGING = Tagging(
    "image-tagging",
    "Image tagger",
    "mAP",
    "AP",
    "average precision of the images by the score of a label",
    (HEAD,),
    "images with labels",
    conditions=True,
    robust=True,
    linear=True,
    guarantees=("--min-precision", "--min-recall"),
    own_thresholds=True,
    own_cards=OwnCards("tflite_tagger", "tflite_fixed_tagger"),
)
